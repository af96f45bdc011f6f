"""The status of a Topic: conditions for kstatus, the part of each cluster, and no change without a cause."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from datetime import datetime
from itertools import product
from typing import Any

import pytest
import yaml
from cel_expr_python import cel
from lupa import lua51
from msgspec.structs import replace

from support import builders
from support.checkout import ROOT
from support.kubernetes import resource_bodies
from support.kubernetes.passes import LATER, NOW, make_result
from support.kubernetes.schemas import validate_status
from support.memory_cluster import MemoryCluster
from topiarist.desired import parse
from topiarist.desired.shared_specs import merge
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.cache import build_candidate, select_candidates
from topiarist.kubernetes.moves import TopicMoves
from topiarist.kubernetes.reconciler import ReconcileRequest, ReconcileResult, SyncState, TopicResult, reconcile_cluster
from topiarist.kubernetes.resources import FINALIZER, Resource
from topiarist.kubernetes.status_writer import cluster_status, policy_status
from topiarist.kubernetes.topic_status import (
    MovingCondition,
    ReadyCondition,
    applied_clusters,
    common_status,
    invalid_condition,
    topic_status,
    truncate_message,
)
from topiarist.model.plan import SAFE_ASSESSMENT, ConfigItem, CreateTopic, Issue, TopicPlan, UpdateConfig
from topiarist.model.state import OperatorMemory, OwnershipRecord
from topiarist.schema import load

# Conditions of a resource: each value, each reason, and the time of the last transition.

PRESENT, BEFORE = "2026-02-01T12:00:00Z", "2026-01-01T12:00:00Z"


def built(ready: ReadyCondition, *old: dict[str, Any], alarms: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the conditions by type, each as status, reason and message."""
    topic = resource_bodies.topic("orders", status={"conditions": old}, meta={"generation": 7})
    found = common_status(topic, ready, PRESENT, alarms or {})["conditions"]
    assert {each["observedGeneration"] for each in found} == {7}
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in found}


@pytest.mark.parametrize(
    ("ready", "values"),
    [
        (ReadyCondition(True, "Synced", "well"), ("True", "False", "False", "False")),
        (ReadyCondition(None, "Paused", "well"), ("Unknown", "False", "False", "False")),
        (ReadyCondition(False, "Changed", "well", reconciling=True), ("False", "True", "False", "False")),
        (ReadyCondition(False, "Frozen", "well", stalled=True), ("False", "False", "True", "False")),
        (ReadyCondition(False, "Frozen", "well", drift="other"), ("False", "False", "False", "True")),
    ],
)
def test_four_conditions_are_always_there(ready: ReadyCondition, values: tuple[str, ...]) -> None:
    """Each condition that is true has the message, and Ready has it always; drift has a reason of its own."""
    found = built(ready)
    assert [*found] == ["Ready", "Reconciling", "Stalled", "DriftDetected"]
    assert tuple(status for status, _, _ in found.values()) == values
    assert found["Ready"][1:] == (ready.reason, "well")
    for name in ("Reconciling", "Stalled"):
        assert found[name][1:] == (ready.reason, "well" if found[name][0] == "True" else "")
    assert found["DriftDetected"][1:] == (("DriftDetected", "other") if ready.drift else (ready.reason, ""))


def test_moves_have_a_condition_from_the_first_on() -> None:
    """The condition of moves appears with a move, with the reason of a stall, and is false after the last one."""
    still = ReadyCondition(True, "Synced", "well")
    moving = still._replace(moving=MovingCondition("2 of 3"))
    stuck = still._replace(moving=MovingCondition("2 of 3", "Stuck"))
    assert "Moving" not in built(still)
    assert built(moving)["Moving"] == ("True", "Moving", "2 of 3")
    assert built(stuck)["Moving"] == ("True", "Stuck", "2 of 3")
    assert built(still, {"type": "Moving", "status": "True", "lastTransitionTime": BEFORE})["Moving"] == (
        "False",
        "Synced",
        "",
    )


def test_alarms_come_last_and_go_with_their_cause() -> None:
    """An alarm is a condition that is true, with its own name as the reason, after all others."""
    found = built(
        ReadyCondition(True, "Synced", "well", moving=MovingCondition("m")), alarms={"Away": "gone", "B": "b"}
    )
    assert [*found][4:] == ["Moving", "Away", "B"]
    assert (found["Away"], found["B"]) == (("True", "Away", "gone"), ("True", "B", "b"))
    old = {"type": "Away", "status": "True", "lastTransitionTime": BEFORE}
    assert "Away" not in built(ReadyCondition(True, "Synced", "well"), old)


def test_the_time_of_a_transition_is_that_of_the_status() -> None:
    """A condition keeps its time while its status is the same, whatever its reason and message are."""
    same = {"type": "Ready", "status": "True", "lastTransitionTime": BEFORE, "reason": "Other", "message": "x"}
    other = {"type": "Stalled", "status": "True", "lastTransitionTime": BEFORE}
    topic = resource_bodies.topic("orders", status={"conditions": [same, other]})
    found = common_status(topic, ReadyCondition(True, "Synced", "well"), PRESENT)
    times = {each["type"]: each["lastTransitionTime"] for each in found["conditions"]}
    assert times == {"Ready": BEFORE, "Reconciling": PRESENT, "Stalled": PRESENT, "DriftDetected": PRESENT}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1021 + "..."),
        ("é" * 512, "é" * 512),
        ("é" * 513, "é" * 510 + "..."),
        ("x" + "é" * 512, "x" + "é" * 510 + "..."),
        ("\U0001f642" * 300, "\U0001f642" * 255 + "..."),
    ],
)
def test_a_message_is_cut_by_its_bytes(text: str, shown: str) -> None:
    """A message of more than 1,024 bytes ends with three dots, and no character is divided, in each condition."""
    assert truncate_message(text) == shown
    ready = ReadyCondition(False, "R", text, reconciling=True, drift=text, moving=MovingCondition(text))
    assert {words for _, _, words in built(ready, alarms={"A": text}).values()} == {shown, ""}


def test_an_invalid_resource_needs_its_user() -> None:
    """All errors are in the message, one a line."""
    assert invalid_condition(["a", "b"]) == ReadyCondition(False, "InvalidManifest", "a\nb", stalled=True)


@pytest.mark.parametrize(
    ("annotations", "start"),
    [
        ({}, ""),
        ({"retain": "x"}, 'annotation topiarist.dev/retain: found "x", wanted "true" or "false". '),
        (
            {"retain": "x", "paused": "y"},
            'annotation topiarist.dev/paused: found "y", wanted "true" or "false": it counts as a pause (and 1 more). ',
        ),
    ],
)
def test_an_invalid_annotation_stands_before_the_message(annotations: dict[str, str], start: str) -> None:
    """The first error is before the message and the others are counted; the status has all of them."""
    meta = {"annotations": {f"topiarist.dev/{key}": text for key, text in annotations.items()}, "generation": 5}
    old = {"type": "Ready", "status": "True", "lastTransitionTime": BEFORE}
    topic = resource_bodies.topic("orders", meta=meta, status={"conditions": [old]})
    found = common_status(topic, ReadyCondition(True, "Synced", "well"), PRESENT, {"Away": "gone"})
    assert found["observedGeneration"] == 5
    assert (found["conditions"][0]["message"], found["conditions"][0]["lastTransitionTime"]) == (f"{start}well", BEFORE)
    assert [each["type"] for each in found["conditions"]][4:] == ["Away"]
    assert len(found.get("annotations", ())) == len(annotations)
    assert ("annotations" in found) is bool(annotations)


AWAY = TopiaristError(Reason.UNREACHABLE, "no answer", "look at it")
CREATION = CreateTopic(builders.spread_replicas(3), {})

STANDINGS = {
    SyncState.ABSENT: ("True", "False", "False", "Absent"),
    SyncState.CHANGED: ("False", "True", "False", "Changed"),
    SyncState.DRIFTED: ("False", "False", "True", "DriftDetected"),
    SyncState.MOVING: ("False", "True", "False", "Moving"),
    SyncState.SYNCED: ("True", "False", "False", "Synced"),
    SyncState.OBSERVED: ("True", "False", "False", "Observed"),
    SyncState.PAUSED: ("Unknown", "False", "False", "Paused"),
    SyncState.REFUSED: ("False", "False", "True", "DataLoss"),
    SyncState.WAITING: ("False", "True", "False", "ReassignmentInProgress"),
}
"""Ready, Reconciling, Stalled and the reason, for each state that a topic can have on its only cluster."""

WORST_FIRST = ("Refused", "Drifted", "Waiting", "Moving", "Changed", "Paused", "Observed", "Synced", "Absent")


def status_of(
    topic: Resource,
    views: Mapping[str, TopicResult | None],
    away: Mapping[str, TopiaristError] | None = None,
    now: str = NOW,
    clusters: Collection[str] = ("prod",),
) -> dict[str, Any]:
    """Return the status after validation against the schema, which the definition of the kind contains."""
    found = dict(topic_status(topic, views, away or {}, now, clusters))
    validate_status("topic", found)
    return found


def by_type(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the conditions by their types."""
    return {each["type"]: each for each in status["conditions"]}


def told(status: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the conditions that kstatus reads, and the reason."""
    found = by_type(status)
    return (*(found[name]["status"] for name in ("Ready", "Reconciling", "Stalled")), found["Ready"]["reason"])


@pytest.mark.parametrize("state", SyncState)
def test_every_state_has_its_conditions(state: SyncState) -> None:
    """Each state yields all four conditions, with the newest generation and the reason of the one table."""
    topic = resource_bodies.topic("orders", meta={"generation": 7})
    status = status_of(topic, {"prod": make_result(topic, state)})
    assert told(status) == STANDINGS[state]
    assert by_type(status).keys() == {"Ready", "Reconciling", "Stalled", "DriftDetected"}
    assert {each["observedGeneration"] for each in status["conditions"]} == {7, status["observedGeneration"]}
    assert by_type(status)["DriftDetected"]["status"] == str(state is SyncState.DRIFTED)
    assert status["topicName"] == "orders"


@pytest.mark.parametrize(("one", "other"), list(product(WORST_FIRST, WORST_FIRST)))
def test_of_several_clusters_the_worst_counts(one: str, other: str) -> None:
    """The worst cluster determines the conditions; each cluster has its own part, in the order of names."""
    topic = resource_bodies.topic("orders")
    status = status_of(topic, {"b": make_result(topic, SyncState(one)), "a": make_result(topic, SyncState(other))})
    worst = min(one, other, key=WORST_FIRST.index)
    assert told(status) == STANDINGS[SyncState(worst)]
    assert [(part["name"], part["state"]) for part in status["clusters"]] == [("a", other), ("b", one)]


def test_the_message_names_the_cluster_and_counts_the_others() -> None:
    """The message names the worst cluster with its problem, and counts the other clusters."""
    topic = resource_bodies.topic("orders")
    views = {name: make_result(topic, SyncState.REFUSED) for name in "cab"} | {
        "d": make_result(topic, SyncState.SYNCED)
    }
    assert by_type(status_of(topic, views))["Ready"]["message"] == "a: because of DataLoss; and 2 other clusters"
    both = resource_bodies.topic("orders", clusters=["a", "b"])
    fine = {name: make_result(both, SyncState.SYNCED) for name in "ab"}
    assert by_type(status_of(both, fine))["Ready"]["message"] == "as declared on 2 clusters"


@pytest.mark.parametrize("state", SyncState)
def test_a_second_look_and_an_outage_change_nothing(state: SyncState) -> None:
    """A second pass with the same result yields the same status at any time, so the operator writes nothing. An outage
    of a cluster or of the operator keeps the status, as long as the spec of the Topic is unchanged.
    """
    topic = resource_bodies.topic("orders")
    first = status_of(topic, {"prod": make_result(topic, state)})
    known = resource_bodies.updated_body(topic, status=first)
    assert status_of(known, {"prod": make_result(known, state)}, now=LATER) == first
    for away in ({}, {"prod": AWAY}):
        assert status_of(known, {"prod": None}, away, now=LATER) == first


def test_a_cluster_that_was_not_seen_yet() -> None:
    """A Topic waits for a cluster without a result, and reports the reason of the outage, if any."""
    topic = resource_bodies.topic("orders")
    assert told(status_of(topic, {"prod": None})) == ("False", "True", "False", "NotSent")
    status = status_of(topic, {"prod": None}, {"prod": AWAY})
    assert told(status) == ("False", "True", "False", "Unreachable")
    assert by_type(status)["Ready"]["message"] == "prod: no answer"


@pytest.mark.parametrize("reason", [Reason.WRONG_CLUSTER, Reason.CLUSTER_CONFLICT])
def test_a_topic_of_a_refused_cluster_is_not_ready(reason: Reason) -> None:
    """Unlike in an outage: its state may be that on another Kafka cluster."""
    topic = resource_bodies.topic("orders")
    known = resource_bodies.updated_body(topic, status=status_of(topic, {"prod": make_result(topic, SyncState.SYNCED)}))
    status = status_of(known, {"prod": None}, {"prod": TopiaristError(reason, "so")}, LATER)
    assert told(status) == ("False", "False", "True", reason.value)


def test_why_a_cluster_cannot_be_seen_may_change() -> None:
    """The newest reason of an outage counts; the same reason with another message causes no write."""
    topic = resource_bodies.topic("orders")
    first = status_of(topic, {"prod": None}, {"prod": AWAY})
    known = resource_bodies.updated_body(topic, status=first)
    again = TopiaristError(Reason.UNREACHABLE, "no answer from port 17")
    assert status_of(known, {"prod": None}, {"prod": again}, LATER) == first
    wrong = TopiaristError(Reason.CREDENTIALS_INVALID, "no such key")
    status = status_of(known, {"prod": None}, {"prod": wrong}, LATER)
    assert told(status) == ("False", "False", "True", "CredentialsInvalid")


@pytest.mark.parametrize(
    "reason",
    [
        *(Reason.NOT_SENT, Reason.INVALID_MANIFEST, Reason.UNREACHABLE, Reason.NOT_A_KAFKA_CLUSTER),
        *(Reason.WRONG_CLUSTER, Reason.CLUSTER_CONFLICT, Reason.SESSION_LOST, Reason.LOCKED),
        *(Reason.AUTHENTICATION_FAILED, Reason.CREDENTIALS_INVALID, Reason.NO_PERMISSION, Reason.PREREQUISITE_MISSING),
    ],
)
def test_a_reason_of_an_outage_is_superseded(reason: Reason) -> None:
    """Whatever kept a cluster from being read: the next reason is the present one."""
    topic = resource_bodies.topic("orders")
    first = status_of(topic, {"prod": None}, {"prod": TopiaristError(reason, "so")})
    known = resource_bodies.updated_body(topic, status=first)
    error = TopiaristError(Reason.FROZEN, "frozen")
    assert told(status_of(known, {"prod": None}, {"prod": error}, LATER))[3] == "Frozen"


def test_what_is_new_while_a_cluster_is_away_is_waited_for() -> None:
    """A new spec waits for an unavailable cluster. What is known of the cluster and of consents and steps remains."""
    topic = resource_bodies.topic("orders", config={"flush.ms": 7})
    found = builders.topic("orders", 3, topic_id="id", applied_spec=builders.spec("orders"))
    first = status_of(topic, {"prod": make_result(topic, SyncState.SYNCED, actual=found)})
    moves = {"total": 3, "left": 1, "inFlight": 0, "reason": "Moving", "message": "2 of 3 partitions moved"}
    kept = {
        **{key: first["clusters"][0][key] for key in ("partitions", "replicationFactor", "topicId", "generation")},
        **{"applied": first["clusters"][0]["applied"], "moves": moves},
        **{"consent": "sha256:0123456789abcdef", "retentionStepAt": NOW},
    }
    known = {**first, "clusters": [{**first["clusters"][0], **kept}]}
    status = status_of(
        resource_bodies.updated_body(topic, status=known, generation=2), {"prod": None}, {"prod": AWAY}, LATER
    )
    assert told(status) == ("False", "True", "False", "Unreachable")
    (part,) = status["clusters"]
    assert {key: text for key, text in part.items() if key not in ("name", "state", "refusals")} == kept


def test_a_cluster_that_was_away_is_waited_for_after_a_restart() -> None:
    """A new process that has not read the cluster keeps the reason of the outage until it knows more."""
    topic = resource_bodies.topic("orders")
    first = status_of(topic, {"prod": None}, {"prod": AWAY})
    known = resource_bodies.updated_body(topic, status=first)
    assert status_of(known, {"prod": None}, now=LATER) == first


def test_a_part_has_what_the_cluster_holds() -> None:
    """The part of a cluster has the partitions, the replicas, the id and the applied spec of the record."""
    topic = resource_bodies.topic("orders", partitions=4)
    met = builders.spec("orders", partitions=4, config={"flush.ms": 7}, unmanagedConfig="Remove")
    found = builders.topic("orders", 4, topic_id="an-id", applied_spec=met)
    (part,) = status_of(topic, {"prod": make_result(topic, SyncState.SYNCED, actual=found)})["clusters"]
    assert part == {
        "name": "prod",
        "state": "Synced",
        "partitions": 4,
        "replicationFactor": 3,
        "topicId": "an-id",
        "generation": 1,
        "applied": {"partitions": 4, "config": {"flush.ms": "7"}, "removeUnmanaged": True},
    }


@pytest.mark.parametrize(
    ("in_flight", "known", "factor"),
    [((0,), {"replicationFactor": 7}, 2), ((0, 1), {"replicationFactor": 7}, 7), ((0, 1), {}, None)],
    ids=["one partition", "every partition: as before", "every partition, without a status: unknown"],
)
def test_a_partition_in_flight_gives_no_factor(
    in_flight: tuple[int, ...], known: dict[str, int], factor: int | None
) -> None:
    """A partition in flight has its old replicas and its new ones, which is no other replication factor."""
    before = {"clusters": [{"name": "prod", **known}]}
    topic = resource_bodies.updated_body(resource_bodies.topic("orders"), status=before)
    lists = ((3, 1, 2), (1, 2) if len(in_flight) == 1 else (4, 1, 2))
    found = replace(builders.topic("orders", 2), replicas=lists, reassigning_partitions=in_flight)
    (part,) = status_of(topic, {"prod": make_result(topic, SyncState.MOVING, actual=found)})["clusters"]
    assert part.get("replicationFactor") == factor


@pytest.mark.parametrize(
    ("state", "generation"),
    [
        (SyncState.SYNCED, 2),
        (SyncState.CHANGED, 2),
        (SyncState.REFUSED, 1),
        (SyncState.MOVING, 1),
        (SyncState.ABSENT, None),
    ],
)
def test_a_part_has_the_generation_that_was_written_last(state: SyncState, generation: int | None) -> None:
    """It is the present one also before the controller has initialized what was written; without a topic it is none."""
    before = {"clusters": [{"name": "prod", "generation": 1}]}
    topic = resource_bodies.updated_body(resource_bodies.topic("orders"), status=before, generation=2)
    (part,) = status_of(topic, {"prod": make_result(topic, state)})["clusters"]
    assert part.get("generation") == generation


@pytest.mark.parametrize("state", [SyncState.REFUSED, SyncState.WAITING, SyncState.DRIFTED, SyncState.SYNCED])
def test_what_the_record_remembers_is_shown_whatever_the_status_said(state: SyncState) -> None:
    """The part shows the applied spec of the ownership record, also if the previous status is missing or differs."""
    topic, met = resource_bodies.topic("orders"), builders.spec("orders", partitions=3)
    forged = {"clusters": [{"name": "prod", "applied": {"partitions": 9}}]}
    for before in (topic, resource_bodies.updated_body(topic, status=forged)):
        (part,) = status_of(
            before, {"prod": make_result(topic, state, actual=builders.topic("orders", applied_spec=met))}
        )["clusters"]
        assert part["applied"] == {"partitions": 3}
        (part,) = status_of(before, {"prod": make_result(topic, state, actual=builders.topic("orders"))})["clusters"]
        assert "applied" not in part


def test_a_long_plan_is_cut_at_the_limit_of_its_schema() -> None:
    """The text of a plan has at most 65,536 characters, because an object of the API server has a limit too."""
    topic = resource_bodies.topic("orders", mode="Observe")
    found = make_result(topic, SyncState.OBSERVED)
    create = CreateTopic(builders.spread_replicas(3), {f"key.{number:04}": "v" * 60 for number in range(1000)})
    plan = TopicPlan("orders", changes=(create,), observe_only=True, spec=found.candidate.spec)
    (part,) = status_of(topic, {"prod": found._replace(plan=plan)})["clusters"]
    assert len(part["plan"]) == 65_536


def test_a_topic_that_waits_without_a_change_has_nothing_pending() -> None:
    """Its refusals alone say for what it waits."""
    topic = resource_bodies.topic("orders")
    found = make_result(topic, SyncState.WAITING)
    (part,) = status_of(topic, {"prod": found._replace(plan=TopicPlan("orders", refusals=found.refusals))})["clusters"]
    assert "pending" not in part


@pytest.mark.parametrize("state", SyncState)
def test_pending_changes_are_told_where_they_wait(state: SyncState) -> None:
    """The part of a cluster lists pending changes as in the plan, also with mode Observe."""
    topic = resource_bodies.topic("orders", mode="Observe")
    found = make_result(topic, state)
    plan = TopicPlan("orders", changes=(CREATION,), observe_only=True, spec=found.candidate.spec)
    (part,) = status_of(topic, {"prod": found._replace(plan=plan)})["clusters"]
    waits = state in (SyncState.OBSERVED, SyncState.PAUSED, SyncState.WAITING, SyncState.MOVING)
    assert part.get("pending") == (["create 3 partitions x 3 replicas"] if waits else None)
    if state in (SyncState.OBSERVED, SyncState.PAUSED):
        assert part["plan"].startswith(". orders")
        assert "observed, not applied: create 3 partitions x 3 replicas" in part["plan"]
        assert "0 [1,2,3]" in part["plan"]
    else:
        assert "plan" not in part


def test_an_observed_difference_is_not_as_asked() -> None:
    """A Topic with an observed difference is ready, but its message does not report that the topic matches."""
    topic = resource_bodies.topic("orders", mode="Observe")
    found = make_result(topic, SyncState.OBSERVED)
    ready = by_type(status_of(topic, {"prod": found}))["Ready"]
    assert ready["message"] == "observed on 1 cluster: no difference"
    plan = TopicPlan("orders", changes=(CREATION,), observe_only=True, spec=found.candidate.spec)
    ready = by_type(status_of(topic, {"prod": found._replace(plan=plan), "b": found}))["Ready"]
    assert (ready["status"], ready["message"]) == (
        "True",
        "observed on 2 clusters: 1 change pending, not made because the topic is only observed",
    )


def test_what_is_paused_says_so_whatever_stands_against_it() -> None:
    """A paused Topic reports the pause first, also beside refusals, and the resource with the annotation."""
    for meta, where in ((PAUSED, ""), ({}, " on the Cluster")):
        topic = resource_bodies.topic("orders", meta=meta)
        status = status_of(topic, {"prod": make_result(topic, SyncState.PAUSED, Reason.DATA_LOSS)})
        assert told(status) == STANDINGS[SyncState.PAUSED]
        assert by_type(status)["Ready"]["message"] == f"prod: not changed while topiarist.dev/paused is set{where}"
        assert status["clusters"][0]["refusals"][0]["reason"] == "DataLoss"


def test_refusals_are_told_with_what_to_do() -> None:
    """The status lists refusals with hints and Kubernetes terms, first those that determine the state, up to a
    limit.
    """
    topic = resource_bodies.topic("orders")
    refusals = (
        Issue(Reason.BROKERS_MISSING, "wait", hint="do nothing"),
        *(Issue(Reason.NOT_ADOPTED, f"no {number}", hint="--adopt=*") for number in range(200)),
    )
    status = status_of(topic, {"prod": make_result(topic, SyncState.REFUSED)._replace(refusals=refusals)})
    told_of = status["clusters"][0]["refusals"]
    assert told_of[0]["reason"] == "NotAdopted"
    assert told_of[0]["message"] == "no 0: to adopt it, add a pattern to spec.adopt of the Cluster"
    assert len(told_of) == 100
    assert told(status)[-1] == "NotAdopted"


def test_the_columns_of_a_topic() -> None:
    """The kubectl columns show the first cluster names and the actual partition count."""
    topic = resource_bodies.topic("orders", clusters=["a"])
    small, large = (make_result(topic, SyncState.SYNCED, actual=builders.topic("orders", number)) for number in (3, 6))
    for views, names, partitions in (
        ({"a": small}, "a", "3"),
        ({"a": small, "b": small}, "a, b", "3"),
        ({"b": large, "a": small}, "a, b", "3-6"),
        ({"a": make_result(topic, SyncState.REFUSED)}, "a", None),
        (dict.fromkeys("edcba", small), "a, b, c and 2 more", "3"),
    ):
        status = status_of(topic, views)
        assert (status["clusterNames"], status.get("partitions")) == (names, partitions)
    assert {"clusterNames", "partitions"}.isdisjoint(status_of(topic, {}))


def drifted(topic: Resource, **config: tuple[str, str]) -> TopicResult:
    """Return a topic with external changes of these keys: the actual value and the desired value."""
    items = tuple(
        ConfigItem(key.replace("_", "."), found, wanted, SAFE_ASSESSMENT)
        for key, (found, wanted) in sorted(config.items())
    )
    finding = Issue(Reason.DRIFT_DETECTED, "changed", hint="decide", withheld=(UpdateConfig(items),))
    return make_result(topic, SyncState.DRIFTED)._replace(refusals=(finding,))


def test_drift_is_told_by_key() -> None:
    """The status reports drift by key with the actual value, the desired value and the time, also in its own
    condition.
    """
    topic = resource_bodies.topic("orders")
    first = status_of(topic, {"prod": drifted(topic, flush_ms=("9", "7"))})
    topic = resource_bodies.updated_body(topic, status=first)
    status = status_of(topic, {"prod": drifted(topic, flush_ms=("9", "7"), segment_ms=("1", "2"))}, now=LATER)
    (refusal,) = status["clusters"][0]["refusals"]
    assert refusal["since"] == NOW
    assert refusal["fields"] == [
        {"field": "config.flush.ms", "actual": "9", "desired": "7", "since": NOW},
        {"field": "config.segment.ms", "actual": "1", "desired": "2", "since": LATER},
    ]
    words = "prod: changed: flush.ms is 9, wanted 7, segment.ms is 1, wanted 2: decide"
    found = by_type(status)["DriftDetected"]
    assert (found["reason"], found["message"], found["lastTransitionTime"]) == ("DriftDetected", words, NOW)


def test_drift_beside_a_refusal_has_its_own_words() -> None:
    """The condition DriftDetected describes the drift, also if a refusal makes the Topic unready."""
    topic = resource_bodies.topic("orders")
    other = Issue(Reason.FEWER_PARTITIONS, "fewer")
    found = drifted(topic, flush_ms=("9", "7"))
    status = status_of(topic, {"prod": found._replace(state=SyncState.REFUSED, refusals=(other, *found.refusals))})
    assert by_type(status)["Ready"]["reason"] == "FewerPartitions"
    assert by_type(status)["DriftDetected"]["message"].startswith("prod: changed: flush.ms is 9")
    assert by_type(status)["DriftDetected"]["reason"] == "DriftDetected"


def test_the_fields_of_a_status_are_bounded() -> None:
    """The fields of a status are bounded, for any number of withheld keys and any length of values."""
    topic = resource_bodies.topic("orders")
    many = {f"k{number:03}": ("a" * 5000, "b" * 5000) for number in range(60)}
    one = drifted(topic, **many)
    status = status_of(topic, {"prod": one._replace(refusals=one.refusals * 3)})
    refusals = status["clusters"][0]["refusals"]
    assert [len(each.get("fields", ())) for each in refusals] == [50, 0, 0]
    assert len(json.dumps(status)) < 60_000


def test_used_consents_are_shown() -> None:
    """The status has the used consents of the ownership record; it keeps them during an outage."""
    used = {
        digest: replace(builders.topic("orders"), record=OwnershipRecord("o", memory=OperatorMemory(digest)))
        for digest in ("sha256:1", "sha256:2")
    }
    topic = resource_bodies.topic("orders")
    for found, wanted in (
        (make_result(topic, SyncState.SYNCED, actual=used["sha256:1"]), "sha256:1"),
        (None, "sha256:1"),
    ):
        status = status_of(topic, {"prod": found}, {"prod": AWAY})
        assert status["clusters"][0]["consent"] == wanted
        topic = resource_bodies.updated_body(topic, status=status)
    assert "consent" not in status_of(topic, {"prod": make_result(topic, SyncState.REFUSED)})["clusters"][0]
    status = status_of(topic, {"prod": make_result(topic, SyncState.SYNCED, actual=used["sha256:2"])})
    assert status["clusters"][0]["consent"] == "sha256:2"


def test_a_topic_that_cannot_be_read_says_why() -> None:
    """An unreadable Topic reports every error with its path."""
    topic = resource_bodies.topic("orders", partitions=0, config={"flush.ms": 1e300})
    status = status_of(topic, {})
    assert told(status) == ("False", "False", "True", "InvalidManifest")
    message = by_type(status)["Ready"]["message"]
    assert "spec.partitions: " in message
    assert "may have lost digits" in message
    assert "topicName" not in status


def test_a_topic_that_cannot_be_read_any_more_keeps_its_parts() -> None:
    """A Topic that becomes unreadable keeps the parts of its clusters, which later separate drift from spec changes.
    Missing parts are not added.
    """
    topic = resource_bodies.topic("orders")
    first = status_of(topic, {"prod": make_result(topic, SyncState.SYNCED)})
    broken = resource_bodies.topic("orders", partitions=0, status=first, meta={"generation": 2})
    status = status_of(broken, {"prod": None, "test": None})
    assert told(status) == ("False", "False", "True", "InvalidManifest")
    assert status["clusters"] == first["clusters"]


@pytest.mark.parametrize(
    ("spec", "clusters", "words"),
    [
        (
            {},
            ("b", "a"),
            "spec.clusters names no Cluster, and there are several. Clusters in the operator's namespace: a, b. "
            "Name the target Clusters in spec.clusters",
        ),
        ({}, (), "The operator's namespace has no Cluster: create one"),
        (
            {"clusters": ["nowhere"]},
            ("a",),
            "no Cluster matches spec.clusters or spec.clusterSelector. Clusters in the operator's namespace: a",
        ),
        (
            {"clusterSelector": {"matchLabels": {"a": "b"}}},
            (),
            "no Cluster matches spec.clusters or spec.clusterSelector. The operator's namespace has no Cluster",
        ),
    ],
)
def test_a_topic_that_is_meant_for_no_cluster(spec: Mapping[str, Any], clusters: Collection[str], words: str) -> None:
    """A Topic without a cluster is stalled, and its message has the fix and the available Clusters."""
    status = status_of(resource_bodies.topic("orders", **spec), {}, clusters=clusters)
    assert told(status) == ("False", "False", "True", "UnknownCluster")
    assert by_type(status)["Ready"]["message"] == words
    assert status["clusters"] == []


def test_many_clusters_are_counted() -> None:
    """A message names ten clusters and counts the rest."""
    status = status_of(resource_bodies.topic("orders"), {}, clusters=[f"c{number:02}" for number in range(13)])
    assert "c00, c01, c02, c03, c04, c05, c06, c07, c08, c09 and 3 more." in by_type(status)["Ready"]["message"]


@pytest.mark.parametrize("cause", ["no name", "unreachable", "unreadable"])
def test_a_deletion_that_waits_says_how_to_let_go(cause: str) -> None:
    """A deletion keeps the finalizer without a known cluster, while the cluster cannot be read, and while the Topic
    cannot be read; the message names the annotation that removes it.
    """
    going = {"deletionTimestamp": "2026-02-01T00:00:00Z", "finalizers": [FINALIZER]}

    def message(meta: Mapping[str, Any]) -> str:
        partitions = "x" if cause == "unreadable" else 3
        topic = resource_bodies.topic("orders", deletionPolicy="Delete", partitions=partitions, meta=meta)
        found = topic_status(topic, {"a": None} if cause == "unreachable" else {}, {"a": AWAY}, PRESENT, ("a", "b"))
        return str(by_type(found)["Ready"]["message"])

    assert 'topiarist.dev/retain: "true"' in message(going)
    for meta in ({"finalizers": [FINALIZER]}, {**going, "finalizers": []}):
        assert "retain" not in message(meta)


def test_a_topic_that_stays_where_it_was_applied_says_so() -> None:
    """A Topic that stays on its present cluster is ready, and its message names the other Clusters and the field. A
    Topic with an explicit cluster has no such message.
    """
    topic = resource_bodies.topic("orders")
    status = status_of(topic, {"a": make_result(topic, SyncState.SYNCED)}, clusters=("a", "b"))
    assert told(status) == STANDINGS[SyncState.SYNCED]
    assert by_type(status)["Ready"]["message"] == (
        "as declared on 1 cluster. spec.clusters names no Cluster: the topic stays on a. Clusters in the operator's "
        "namespace: a, b"
    )
    named = resource_bodies.topic("orders", clusters=["a"])
    status = status_of(named, {"a": make_result(named, SyncState.SYNCED)}, clusters=("a", "b"))
    assert by_type(status)["Ready"]["message"] == "as declared on 1 cluster"


def test_a_cluster_that_is_gone_is_remembered_by_its_topics() -> None:
    """A Topic keeps the name of its deleted Cluster over any number of passes, and no other Cluster receives it. While
    the Topic is being deleted, the names stay.
    """
    topic = resource_bodies.topic("orders", config={"flush.ms": 7})
    status = status_of(topic, {"a": make_result(topic, SyncState.SYNCED)}, clusters=("a",))
    note = {"topiarist.dev/applied-to": ",".join(applied_clusters(topic, {"a": make_result(topic, SyncState.SYNCED)}))}
    for _ in range(2):
        topic = resource_bodies.updated_body(topic, status=status, annotations=note)
        assert applied_clusters(topic, {}) == ["a"]
        assert applied_clusters(topic, {"a": make_result(topic, SyncState.ABSENT)}) == []
        status = status_of(topic, {}, clusters=("b",))
        assert told(status) == ("False", "False", "True", "UnknownCluster")
        assert by_type(status)["Ready"]["message"] == (
            "a: the topic was applied there, and this Cluster was deleted. Clusters in the operator's namespace: b. "
            "Name the target Clusters in spec.clusters"
        )
    (part,) = status["clusters"]
    assert (part["name"], part["generation"]) == ("a", topic.generation)
    leaving = resource_bodies.updated_body(topic, deletionTimestamp="2026-02-01T00:00:00Z")
    for name, state in (("a", SyncState.ABSENT), ("b", SyncState.SYNCED)):
        assert applied_clusters(leaving, {name: make_result(topic, state)}) == ["a"]
    named = resource_bodies.topic("orders", clusters=["b"], status=status, meta={"uid": topic.uid, "generation": 2})
    assert [part["name"] for part in status_of(named, {"b": make_result(named, SyncState.SYNCED)})["clusters"]] == ["b"]


def test_a_name_without_a_cluster_is_refused() -> None:
    """A Topic that names a Cluster that does not exist is not ready, as on the command line, also if its other Clusters
    are as declared. A Topic without any Cluster has no part of one, so that another release may have it.
    """
    topic = resource_bodies.topic("orders", clusters=["eu", "prod", "us"])
    status = status_of(topic, {"prod": make_result(topic, SyncState.SYNCED)}, clusters=("eu", "prod"))
    assert told(status) == ("False", "False", "True", "UnknownCluster")
    assert by_type(status)["Ready"]["message"] == (
        "us: there is no such Cluster. Clusters in the operator's namespace: eu, prod. "
        "Create it, or remove it from spec.clusters"
    )
    assert [(part["name"], part["state"]) for part in status["clusters"]] == [("prod", "Synced"), ("us", "Refused")]
    assert status_of(topic, {}, clusters=("ap",))["clusters"] == []


@pytest.mark.parametrize("state", SyncState)
def test_a_topic_is_applied_where_it_is_as_asked(state: SyncState) -> None:
    """Also if its new partitions are not initialized yet."""
    topic = resource_bodies.topic("orders")
    applied = applied_clusters(topic, {"a": make_result(topic, state)})
    assert applied == (["a"] if state in (SyncState.SYNCED, SyncState.CHANGED) else [])


# Health of topiarist's statuses in Argo CD and Flux: the samples, run by a real Lua and a real CEL.

GITOPS = ROOT / "manifests" / "gitops"
START = "2026-01-01T00:00:00Z"
CLOCK = datetime.fromisoformat(START)
OWNER = "k8s/shop/topiarist"
DELETING = {"deletionTimestamp": START, "finalizers": [FINALIZER]}
PAUSED = {"annotations": {"topiarist.dev/paused": "true"}}

Body = Mapping[str, Any]

MEANS = {"Healthy": "current", "Progressing": "inProgress", "Suspended": "inProgress", "Degraded": "failed"}
"""What Argo CD says, in the words of Flux, which knows nothing of pauses."""


def argocd() -> Mapping[str, str]:
    """Return the scripts of the sample by kind."""
    prefix = "resource.customizations.health.topiarist.dev_"
    config = yaml.safe_load((GITOPS / "argocd" / "argocd-cm.yaml").read_text())
    return {key.removeprefix(prefix): text for key, text in config["data"].items()}


def flux() -> list[Mapping[str, str]]:
    """Return all health check entries of the samples."""
    found = [each for file in GITOPS.glob("flux/*.yaml") for each in yaml.safe_load_all(file.read_text())]
    return [check for each in found for check in each["spec"]["healthCheckExprs"]]


UPSTREAM = GITOPS / "argocd" / "resource_customizations" / "topiarist.dev" / "_"
"""The health check in the form of Argo CD's repository: ``_`` stands for any kind."""

SCRIPT = (UPSTREAM / "health.lua").read_text()
EXPRESSIONS = {word: text for word, text in flux()[0].items() if word in MEANS.values()}
ENV = cel.NewEnv(variables={"metadata": cel.Type.DYN, "status": cel.Type.DYN})
PROGRAMS = {word: ENV.compile(text) for word, text in EXPRESSIONS.items()}


def health(body: Body) -> tuple[str, str]:
    """Return the status and message that Argo CD shows, from Lua 5.1 with almost no libraries."""
    runtime = lua51.LuaRuntime(register_eval=False, register_builtins=False)
    runtime.execute('debug.setmetatable("", nil) string, math, io, os, debug, python = nil')
    runtime.globals().obj = runtime.table_from(body, recursive=True)
    found = runtime.execute(SCRIPT)
    assert set(found) == {"status", "message"}
    return found.status, found.message


def outcomes(body: Body) -> set[str]:
    """Return the Flux expressions that are true for a resource."""
    activation = ENV.Activation({name: body[name] for name in ("metadata", "status")})
    values = {word: program.eval(activation).value() for word, program in PROGRAMS.items()}
    assert all(isinstance(value, bool) for value in values.values()), values
    return {word for word, value in values.items() if value}


def body(resource: Resource, status: Body) -> Body:
    """Return a resource as the API server stores it, with its status."""
    metadata = {
        "name": resource.name,
        "namespace": resource.namespace,
        "generation": resource.generation,
        **({"deletionTimestamp": START, "finalizers": [*resource.finalizers]} if resource.deleting else {}),
        **({"annotations": dict(found)} if (found := resource.source.annotations) else {}),
    }
    spec = {"spec": dict(resource.manifest.spec)} if resource.manifest else {}
    return {
        "apiVersion": load.API_VERSION,
        "kind": resource.kind,
        "metadata": metadata,
        **spec,
        "status": status,
    }


def viewed(
    topic: Resource, *there: Any, home: Resource | None = None, was: bool = False, passes: int = 1
) -> TopicResult:
    """Return a Topic after passes of the operator over these topics; ``was``: it matched its spec before."""
    home = home or resource_bodies.cluster(allowDeletion=True)
    assert home.manifest is not None
    assert topic.manifest is not None
    cluster = parse.parse_cluster_spec(home.manifest)
    spec = merge(topic.manifest, cluster)
    if was:
        there = tuple(
            replace(each, record=builders.topic("orders", owner=OWNER, applied_spec=spec).record) for each in there
        )
    port = MemoryCluster(builders.state(*there))
    for _ in range(passes):
        order = ReconcileRequest(
            home, cluster, select_candidates(cluster, "shop", [build_candidate(topic, spec)], {}), OWNER
        )
        (view,) = reconcile_cluster(port, order, lambda: False).topic_results
    return view


def ours(name: str = "orders", **config: str) -> Any:
    """Return a topic on the cluster that the operator owns."""
    return builders.topic(name, 3, config={key.replace("_", "."): text for key, text in config.items()}, owner=OWNER)


STANDS: Mapping[SyncState, tuple[TopicResult, str]] = {
    SyncState.ABSENT: (viewed(resource_bodies.topic("orders", ensure="Absent")), "Healthy"),
    SyncState.CHANGED: (viewed(resource_bodies.topic("orders")), "Progressing"),
    SyncState.DRIFTED: (
        viewed(resource_bodies.topic("orders", config={"flush.ms": 7}), ours(flush_ms="9"), was=True),
        "Degraded",
    ),
    SyncState.MOVING: (
        viewed(resource_bodies.topic("orders"), ours())._replace(state=SyncState.MOVING, moves=TopicMoves(3, 1, 1, 2)),
        "Progressing",
    ),
    SyncState.SYNCED: (viewed(resource_bodies.topic("orders"), passes=2), "Healthy"),
    SyncState.OBSERVED: (viewed(resource_bodies.topic("orders", mode="Observe")), "Healthy"),
    SyncState.PAUSED: (viewed(resource_bodies.topic("orders", meta=PAUSED)), "Suspended"),
    SyncState.REFUSED: (viewed(resource_bodies.topic("orders", partitions=1), ours()), "Degraded"),
    SyncState.WAITING: (viewed(resource_bodies.topic("orders", ensure="Absent"), ours()), "Progressing"),
}


def on_one(state: SyncState) -> Body:
    """Return a Topic with this state on its cluster."""
    view, _ = STANDS[state]
    topic = view.candidate.resource
    return body(topic, topic_status(topic, {"prod": view}, {}, START, ("prod",)))


@pytest.mark.parametrize("state", SyncState)
def test_every_state_of_a_topic(state: SyncState) -> None:
    """Argo CD and Flux report the expected health for every state, from statuses that real passes produce."""
    view, wanted = STANDS[state]
    assert view.state is state
    assert health(on_one(state))[0] == wanted
    assert outcomes(on_one(state)) == {MEANS[wanted]}


def on_two(state: SyncState, other: SyncState) -> Body:
    """Return a Topic with one state on one cluster, and another state on a second cluster."""
    (one, _), (two, _) = STANDS[state], STANDS[other]
    topic = one.candidate.resource
    return body(topic, topic_status(topic, {"a": one, "b": two}, {}, START, ("a", "b")))


def of_cluster(error: TopiaristError | None, *views: TopicResult) -> Body:
    """Return a Cluster after a pass."""
    home = resource_bodies.cluster()
    return body(home, cluster_status(home, ReconcileResult(views, error=error), CLOCK))


def of_policy(*faults: str) -> Body:
    """Return a Policy with these rule errors."""
    found = resource_bodies.policy()
    return body(found, policy_status(found, faults, CLOCK))


def of_topic(topic: Resource, *there: Any, home: Resource | None = None) -> Body:
    """Return a Topic after a pass."""
    return body(topic, topic_status(topic, {"prod": viewed(topic, *there, home=home)}, {}, START, ("prod",)))


def renewed(found: Body) -> Body:
    """Return a resource with a spec that changed after its status was written."""
    return {**found, "metadata": {**found["metadata"], "generation": found["metadata"]["generation"] + 1}}


GOING = resource_bodies.topic("orders", deletionPolicy="Delete", meta=DELETING)
WRONG = resource_bodies.topic("orders", partitions="many")
SILENT = TopiaristError(Reason.UNREACHABLE, "nobody answers")
LOCKED_OUT = TopiaristError(Reason.AUTHENTICATION_FAILED, "the password is wrong")
CASES = {
    "changed since": (
        renewed(on_two(SyncState.SYNCED, SyncState.SYNCED)),
        "Progressing",
        "the operator has not looked",
    ),
    "wrong, and changed since": (
        renewed(on_two(SyncState.REFUSED, SyncState.REFUSED)),
        "Progressing",
        "the operator has not",
    ),
    "one cluster refuses": (on_two(SyncState.SYNCED, SyncState.REFUSED), "Degraded", "FewerPartitions: b: "),
    "drift alone": (
        on_two(SyncState.SYNCED, SyncState.DRIFTED),
        "Degraded",
        "DriftDetected: b: another client changed",
    ),
    "drift beside": (on_two(SyncState.REFUSED, SyncState.DRIFTED), "Degraded", "DriftDetected, FewerPartitions: a: "),
    "unreadable": (
        body(WRONG, topic_status(WRONG, {}, {}, START, ("prod",))),
        "Degraded",
        "InvalidManifest: spec.partitions: ",
    ),
    "for no cluster": (body(GOING, topic_status(GOING, {}, {}, START, ())), "Degraded", "UnknownCluster: "),
    "paused, and wrong": (
        of_topic(resource_bodies.topic("orders", partitions=1, meta=PAUSED), ours()),
        "Suspended",
        "",
    ),
    "going": (of_topic(GOING, ours()), "Progressing", ""),
    "gone but for its resource": (of_topic(GOING), "Progressing", "being deleted; "),
    "not allowed to go": (of_topic(GOING, ours(), home=resource_bodies.cluster()), "Degraded", "DeletionHeld: prod: "),
    "a good cluster": (of_cluster(None, STANDS[SyncState.SYNCED][0]), "Healthy", "Reachable: topics: 1 total, 1 ready"),
    "a cluster with drift": (of_cluster(None, STANDS[SyncState.DRIFTED][0]), "Healthy", "DriftDetected, Reachable: "),
    "a cluster that is away": (of_cluster(SILENT), "Progressing", "Unreachable: nobody answers"),
    "a cluster that locks us out": (of_cluster(LOCKED_OUT), "Degraded", "AuthenticationFailed: the password is wrong"),
    "a good policy": (of_policy(), "Healthy", "Active: "),
    "a policy with a fault": (of_policy("rule a does not compile"), "Degraded", "InvalidRule: rule a does not"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_else_a_status_may_say(case: str) -> None:
    """Argo CD and Flux report the expected health of other Topics, Clusters and Policies, and the message has the
    reason.
    """
    found, wanted, words = CASES[case]
    status, message = health(found)
    assert (status, message[: len(words)]) == (wanted, words)
    assert outcomes(found) == {MEANS[wanted]}


def test_what_nobody_has_looked_at_is_waited_for() -> None:
    """A resource without a status is progressing in Argo CD. Flux cannot evaluate an expression then, so it waits and
    retries.
    """
    new = {"metadata": {"generation": 1}}
    assert health(new)[0] == "Progressing"
    for program in PROGRAMS.values():
        assert not isinstance(program.eval(ENV.Activation(new)).value(), bool)
    empty = {**new, "status": {}}
    assert (health(empty)[0], outcomes(empty)) == ("Progressing", {"inProgress"})


def test_one_word_for_whatever_conditions_there_are() -> None:
    """For any set of conditions exactly one Flux expression is true, and Argo CD agrees."""
    topic = resource_bodies.topic("orders")
    for ready, switches in product((True, False, None), product((True, False), repeat=5)):
        reconciling, stalled, drifted, deleting, newer = switches
        standing = ReadyCondition(
            ready, "Why", "words", reconciling=reconciling, stalled=stalled, drift="words" * drifted
        )
        status = common_status(topic, standing, START)
        metadata = {"generation": 2 if newer else 1} | ({"deletionTimestamp": START} if deleting else {})
        found = {"metadata": metadata, "status": status}
        assert outcomes(found) == {MEANS[health(found)[0]]}, standing


TESTDATA: Mapping[str, Body] = {
    "cluster_degraded": CASES["a cluster that locks us out"][0],
    "cluster_healthy": CASES["a good cluster"][0],
    "cluster_healthy_drift": CASES["a cluster with drift"][0],
    "cluster_progressing_unreachable": CASES["a cluster that is away"][0],
    "policy_degraded": CASES["a policy with a fault"][0],
    "policy_healthy": CASES["a good policy"][0],
    "topic_degraded_drift": on_one(SyncState.DRIFTED),
    "topic_degraded_invalid": CASES["unreadable"][0],
    "topic_degraded_refused": on_one(SyncState.REFUSED),
    "topic_degraded_two_clusters": CASES["drift beside"][0],
    "topic_healthy": on_one(SyncState.SYNCED),
    "topic_healthy_observed": on_one(SyncState.OBSERVED),
    "topic_progressing_deleting": CASES["gone but for its resource"][0],
    "topic_progressing_moving": on_one(SyncState.MOVING),
    "topic_progressing_no_status": {**on_one(SyncState.SYNCED), "status": {}},
    "topic_progressing_observed_generation": renewed(on_one(SyncState.SYNCED)),
    "topic_progressing_waiting": on_one(SyncState.WAITING),
    "topic_suspended": on_one(SyncState.PAUSED),
}
"""The resources of Argo CD's own test of the health check, with statuses that real passes produce.

Each name has the kind and the health.
"""


def test_argo_cds_test_has_the_statuses_of_the_operator() -> None:
    """The files of Argo CD's test are up to date: a reason or a condition that changes has to change them too.

    Status and message in them are those that its runner compares, and each name has the kind and the status.
    """
    wanted = {f"testdata/{name}.yaml": yaml.safe_dump(found, sort_keys=False) for name, found in TESTDATA.items()}
    tests = [
        {"healthStatus": dict(zip(("status", "message"), health(found), strict=True)), "inputPath": path}
        for path, found in zip(wanted, TESTDATA.values(), strict=True)
    ]
    for name, found in TESTDATA.items():
        assert name.split("_")[:2] == [found["kind"].lower(), health(found)[0].lower()]
    wanted["health_test.yaml"] = yaml.safe_dump({"tests": tests}, sort_keys=False)
    if os.environ.get("TOPIARIST_GOLDEN") == "write":
        for path, text in wanted.items():
            (UPSTREAM / path).write_text(text)
    found = {str(path.relative_to(UPSTREAM)): path.read_text() for path in UPSTREAM.rglob("*.yaml")}
    assert found == wanted, "not so: make golden, and look at git diff"


def test_one_text_for_all_kinds() -> None:
    """The samples have the same text for every kind, and cover all kinds of topiarist."""
    assert argocd() == dict.fromkeys(load.KINDS, SCRIPT)
    assert {check["kind"] for check in flux()} == set(load.KINDS)
    for check in flux():
        assert check["apiVersion"] == load.API_VERSION
        assert {word: text for word, text in check.items() if word in MEANS.values()} == EXPRESSIONS


# The moves of a topic in the status of its Topic: how many are done, and on which cluster they are held.

STALL = Issue(Reason.MOVES_STALLED, "no progress for 900 s", hint="wait")


def moved(total: int, left: int, in_flight: int = 0) -> dict[str, Any]:
    """Return the moves in a previous status."""
    return {"total": total, "left": left, "inFlight": in_flight, "reason": "Moving", "message": "before"}


def moving(
    moves: TopicMoves | None, old: Mapping[str, Any] | None = None, problem: Issue | None = None, **fields: Any
) -> TopicResult:
    """Return the result of a topic with these moves, after a status with the moves ``old``."""
    part = {"name": "prod", "state": "Moving", **({"moves": old} if old else {})}
    topic = resource_bodies.topic("orders", status={"clusters": [part]})
    state = SyncState.MOVING if moves else SyncState.SYNCED
    return make_result(topic, state)._replace(moves=moves, move_problem=problem, **fields)


def moving_status_of(**results: TopicResult) -> Mapping[str, Any]:
    """Return the status of a Topic with these results by cluster, after validation against the schema."""
    (topic, *_) = (result.candidate.resource for result in results.values())
    return status_of(topic, results, clusters=results)


@pytest.mark.parametrize(
    ("old", "now", "total", "message"),
    [
        (None, TopicMoves(3), 3, "0 of 3 partitions moved"),
        (None, TopicMoves(3, 1, 2, 5), 3, "0 of 3 partitions moved, batch 2 of 5"),
        (moved(3, 3), TopicMoves(2), 3, "1 of 3 partitions moved"),
        (moved(3, 1), TopicMoves(1, 1, 5, 5), 3, "2 of 3 partitions moved, batch 5 of 5"),
        (moved(3, 1), TopicMoves(4), 6, "2 of 6 partitions moved"),
        (moved(1, 1), TopicMoves(1), 1, "0 of 1 partition moved"),
        (
            moved(2000, 1500),
            TopicMoves(1000, 7, 1001, 2002),
            2000,
            "1,000 of 2,000 partitions moved, batch 1,001 of 2,002",
        ),
    ],
)
def test_moves_that_are_done_stay_counted(
    old: Mapping[str, Any] | None, now: TopicMoves, total: int, message: str
) -> None:
    """The total survives a restart, and grows with moves that a later change adds."""
    status = moving_status_of(prod=moving(now, old))
    wanted = {"total": total, "left": now.left, "inFlight": now.in_flight, "reason": "Moving", "message": message}
    assert status["clusters"][0]["moves"] == wanted
    assert status["conditions"][0]["message"] == f"prod: {message}"
    assert told(status) == STANDINGS[SyncState.MOVING]
    assert (by_type(status)["Moving"]["status"], by_type(status)["Moving"]["reason"]) == ("True", "Moving")


def test_moves_that_are_held_stall_their_topic() -> None:
    """The reason and the text are those of the problem: kstatus reports a failure, and no progress."""
    status = moving_status_of(prod=moving(TopicMoves(3, 1, 1, 2), moved(3, 3), STALL))
    moves = status["clusters"][0]["moves"]
    assert (moves["reason"], moves["message"]) == (
        "MovesStalled",
        "0 of 3 partitions moved, batch 1 of 2: no progress for 900 s: wait",
    )
    assert told(status) == ("False", "False", "True", "MovesStalled")
    assert (by_type(status)["Moving"]["status"], by_type(status)["Moving"]["reason"]) == ("True", "MovesStalled")


def test_of_several_clusters_with_moves_the_held_one_is_named() -> None:
    """The condition names a stall before a move in progress, and counts the others."""
    going, held = moving(TopicMoves(2)), moving(TopicMoves(1), problem=STALL)
    found = by_type(moving_status_of(a=going, b=held, c=going))
    assert found["Moving"]["message"] == (
        "b: 0 of 1 partition moved: no progress for 900 s: wait; and 2 other clusters"
    )
    found = by_type(moving_status_of(a=going, b=going))
    assert found["Moving"]["message"] == "a: 0 of 2 partitions moved; and 1 other cluster"


def test_a_topic_without_moves_has_no_condition_of_them() -> None:
    """Users wait for a condition only after the first move."""
    status = moving_status_of(prod=moving(None, moved(3, 1)))
    assert "moves" not in status["clusters"][0]
    assert by_type(status).keys() == {"Ready", "Reconciling", "Stalled", "DriftDetected"}

"""The status of a Topic: conditions for kstatus, the part of each cluster, and no change without a cause."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace

from support import states
from support.kubernetes import resource_bodies
from support.kubernetes.status_schema import validate_status
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.api.resources import FINALIZER, Resource
from topiarist.kubernetes.reconciler import SyncState, TopicResult
from topiarist.kubernetes.status.topic import (
    ReadyCondition,
    applied_clusters,
    build_conditions,
    topic_status,
    truncate_message,
)
from topiarist.model.plan import SAFE_ASSESSMENT, ConfigItem, CreateTopic, Issue, TopicPlan, UpdateConfig
from topiarist.model.state import OperatorMemory, OwnershipRecord
from unit.kubernetes.topic_results import LATER, NOW, make_result

MAX_MESSAGE_BYTES = 1024
"""The limit of the API server for the message of an Event."""

AWAY = TopiaristError(Reason.UNREACHABLE, "no answer", "look at it")
CREATION = CreateTopic(states.spread_replicas(3), {})

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


def kstatus(status: Mapping[str, Any], generation: int) -> str:
    """Return the result that kstatus computes from the status."""
    found = {name: each["status"] for name, each in by_type(status).items()}
    if status.get("observedGeneration") != generation or found["Reconciling"] == "True":
        return "InProgress"
    if found["Stalled"] == "True":
        return "Failed"
    return "Current" if found["Ready"] == "True" else "InProgress"


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


@pytest.mark.parametrize("state", SyncState)
def test_what_reads_kstatus_gets_it_right(state: SyncState) -> None:
    """kstatus never reports a stalled Topic as in progress, nor a transient state as a failure."""
    topic = resource_bodies.topic("orders")
    wanted = {
        **dict.fromkeys(("ABSENT", "SYNCED", "OBSERVED"), "Current"),
        **dict.fromkeys(("CHANGED", "MOVING", "PAUSED", "WAITING"), "InProgress"),
        **dict.fromkeys(("DRIFTED", "REFUSED"), "Failed"),
    }
    status = status_of(topic, {"prod": make_result(topic, state)})
    assert kstatus(status, 1) == wanted[state.name]
    assert kstatus(status, 2) == "InProgress"


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
    assert by_type(status_of(both, fine))["Ready"]["message"] == "as asked on 2 clusters"


@pytest.mark.parametrize("state", SyncState)
def test_a_second_look_at_the_same_changes_nothing(state: SyncState) -> None:
    """A second pass with the same result yields the same status at any time, so the operator writes nothing."""
    topic = resource_bodies.topic("orders")
    first = status_of(topic, {"prod": make_result(topic, state)})
    known = resource_bodies.updated_body(topic, status=first)
    assert status_of(known, {"prod": make_result(known, state)}, now=LATER) == first


@pytest.mark.parametrize("state", SyncState)
def test_an_outage_changes_nothing(state: SyncState) -> None:
    """An outage of a cluster or of the operator keeps the status, as long as the spec of the Topic is unchanged."""
    topic = resource_bodies.topic("orders")
    first = status_of(topic, {"prod": make_result(topic, state)})
    known = resource_bodies.updated_body(topic, status=first)
    for away in ({}, {"prod": AWAY}):
        assert status_of(known, {"prod": None}, away, now=LATER) == first


def test_a_time_of_transition_is_that_of_its_own_condition() -> None:
    """A condition keeps its transition time while another condition changes."""
    topic = resource_bodies.topic("orders")
    first = status_of(topic, {"prod": make_result(topic, SyncState.CHANGED)})
    second = status_of(
        resource_bodies.updated_body(topic, status=first), {"prod": make_result(topic, SyncState.SYNCED)}, now=LATER
    )
    times = {name: each["lastTransitionTime"] for name, each in by_type(second).items()}
    assert times == {"Ready": LATER, "Reconciling": LATER, "Stalled": NOW, "DriftDetected": NOW}


def test_a_cluster_that_was_not_seen_yet() -> None:
    """A Topic waits for a cluster without a result, and reports the reason of the outage, if any."""
    topic = resource_bodies.topic("orders")
    assert told(status_of(topic, {"prod": None})) == ("False", "True", "False", "NotSent")
    status = status_of(topic, {"prod": None}, {"prod": AWAY})
    assert told(status) == ("False", "True", "False", "Unreachable")
    assert by_type(status)["Ready"]["message"] == "prod: no answer"


def test_a_cluster_that_will_not_come_by_itself() -> None:
    """A Topic is stalled, not in progress, if its cluster needs action by a user."""
    topic = resource_bodies.topic("orders")
    wrong = TopiaristError(Reason.WRONG_CLUSTER, "found another one")
    assert told(status_of(topic, {"prod": None}, {"prod": wrong})) == ("False", "False", "True", "WrongCluster")


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


def test_what_is_new_while_a_cluster_is_away_is_waited_for() -> None:
    """A new spec waits for an unavailable cluster. What is known of the cluster and of consents and steps remains."""
    topic = resource_bodies.topic("orders", config={"flush.ms": 7})
    found = states.topic("orders", 3, topic_id="id", applied_spec=states.spec("orders"))
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
    met = states.spec("orders", partitions=4, config={"flush.ms": 7}, unmanagedConfig="Remove")
    found = states.topic("orders", 4, topic_id="an-id", applied_spec=met)
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
    ("in_flight", "factor"), [((0,), 2), ((0, 1), 7)], ids=["one partition", "every partition: as before"]
)
def test_a_partition_in_flight_gives_no_factor(in_flight: tuple[int, ...], factor: int) -> None:
    """A partition in flight has its old replicas and its new ones, which is no other replication factor."""
    before = {"clusters": [{"name": "prod", "replicationFactor": 7}]}
    topic = resource_bodies.updated_body(resource_bodies.topic("orders"), status=before)
    lists = ((3, 1, 2), (1, 2) if len(in_flight) == 1 else (4, 1, 2))
    found = replace(states.topic("orders", 2), replicas=lists, reassigning_partitions=in_flight)
    (part,) = status_of(topic, {"prod": make_result(topic, SyncState.MOVING, actual=found)})["clusters"]
    assert part["replicationFactor"] == factor


@pytest.mark.parametrize("state", [SyncState.REFUSED, SyncState.WAITING, SyncState.DRIFTED, SyncState.SYNCED])
def test_what_the_record_remembers_is_shown_whatever_the_status_said(state: SyncState) -> None:
    """The part shows the applied spec of the ownership record, also if the previous status is missing or differs."""
    topic, met = resource_bodies.topic("orders"), states.spec("orders", partitions=3)
    forged = {"clusters": [{"name": "prod", "applied": {"partitions": 9}}]}
    for before in (topic, resource_bodies.updated_body(topic, status=forged)):
        (part,) = status_of(
            before, {"prod": make_result(topic, state, actual=states.topic("orders", applied_spec=met))}
        )["clusters"]
        assert part["applied"] == {"partitions": 3}
        (part,) = status_of(before, {"prod": make_result(topic, state, actual=states.topic("orders"))})["clusters"]
        assert "applied" not in part


def test_a_long_plan_is_cut_at_the_limit_of_its_schema() -> None:
    """The text of a plan has at most 65,536 characters, because an object of the API server has a limit too."""
    topic = resource_bodies.topic("orders", mode="Observe")
    found = make_result(topic, SyncState.OBSERVED)
    create = CreateTopic(states.spread_replicas(3), {f"key.{number:04}": "v" * 60 for number in range(1000)})
    plan = TopicPlan("orders", changes=(create,), observe_only=True, spec=found.candidate.spec)
    (part,) = status_of(topic, {"prod": found._replace(plan=plan)})["clusters"]
    assert len(part["plan"]) == 65_536


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
    """A paused Topic reports the pause first, also beside refusals."""
    topic = resource_bodies.topic("orders")
    status = status_of(topic, {"prod": make_result(topic, SyncState.PAUSED, Reason.DATA_LOSS)})
    assert told(status) == STANDINGS[SyncState.PAUSED]
    assert "topiarist.dev/paused" in by_type(status)["Ready"]["message"]
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
    small, large = (make_result(topic, SyncState.SYNCED, actual=states.topic("orders", number)) for number in (3, 6))
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
        digest: replace(states.topic("orders"), record=OwnershipRecord("o", memory=OperatorMemory(digest)))
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


def test_a_deletion_that_waits_for_a_name_says_how_to_let_go() -> None:
    """A deletion without a known cluster keeps the finalizer, and the message names the annotation that removes it."""
    going = {"deletionTimestamp": "2026-02-01T00:00:00Z", "finalizers": [FINALIZER]}
    topic = resource_bodies.topic("orders", deletionPolicy="Delete", meta=going)
    message = by_type(status_of(topic, {}, clusters=("a", "b")))["Ready"]["message"]
    assert 'topiarist.dev/retain: "true"' in message
    for meta in ({"finalizers": [FINALIZER]}, {**going, "finalizers": []}):
        topic = resource_bodies.topic("orders", deletionPolicy="Delete", meta=meta)
        assert "retain" not in by_type(status_of(topic, {}, clusters=("a", "b")))["Ready"]["message"]


def test_a_topic_that_stays_where_it_was_applied_says_so() -> None:
    """A Topic that stays on its present cluster is ready, and its message names the other Clusters and the field. A
    Topic with an explicit cluster has no such message.
    """
    topic = resource_bodies.topic("orders")
    status = status_of(topic, {"a": make_result(topic, SyncState.SYNCED)}, clusters=("a", "b"))
    assert told(status) == STANDINGS[SyncState.SYNCED]
    assert by_type(status)["Ready"]["message"] == (
        "as asked on 1 cluster. spec.clusters names no Cluster: the topic stays on a. Clusters in the operator's "
        "namespace: a, b"
    )
    named = resource_bodies.topic("orders", clusters=["a"])
    status = status_of(named, {"a": make_result(named, SyncState.SYNCED)}, clusters=("a", "b"))
    assert by_type(status)["Ready"]["message"] == "as asked on 1 cluster"


def test_a_cluster_that_is_gone_is_remembered_by_its_topics() -> None:
    """A Topic keeps the name of its deleted Cluster over any number of passes, and no other Cluster receives it."""
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
    named = resource_bodies.topic("orders", clusters=["b"], status=status, meta={"uid": topic.uid, "generation": 2})
    assert [part["name"] for part in status_of(named, {"b": make_result(named, SyncState.SYNCED)})["clusters"]] == ["b"]


def test_long_words_are_cut_in_conditions() -> None:
    """topiarist truncates long messages in conditions; the part of the cluster has the full message."""
    found = build_conditions(ReadyCondition(False, "DataLoss", "x" * 5000, stalled=True), 1, [], NOW)
    assert {len(each["message"]) for each in found if each["message"]} == {MAX_MESSAGE_BYTES}
    assert found[0]["message"].endswith("...")


@pytest.mark.parametrize("text", ["é" * 600, "x" + "é" * 600, "\U0001f642" * 300, "é" * 512])
def test_words_are_cut_by_bytes(text: str) -> None:
    """topiarist truncates messages of Events to 1,024 bytes, and never within a character."""
    cut = truncate_message(text)
    assert MAX_MESSAGE_BYTES - 3 <= len(cut.encode()) <= MAX_MESSAGE_BYTES
    assert text.startswith(cut.removesuffix("..."))


def test_the_parts_by_cluster() -> None:
    """The parts by cluster are empty if there is no status."""
    assert resource_bodies.topic("orders").status_on("a") == {}
    assert resource_bodies.topic("orders", status={"clusters": [{"name": "a"}]}).status_on("a") == {"name": "a"}


def test_the_first_refusal_is_that_of_the_condition() -> None:
    """Reason and message of a condition are those of one refusal, also if there are several."""
    topic = resource_bodies.topic("orders")
    found = make_result(topic, SyncState.REFUSED, Reason.DATA_LOSS, Reason.NOT_OWNED)
    ready = by_type(status_of(topic, {"prod": found}))["Ready"]
    assert (ready["reason"], ready["message"]) == ("DataLoss", "prod: because of DataLoss")

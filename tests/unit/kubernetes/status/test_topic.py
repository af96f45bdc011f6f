"""The status of a Topic: conditions that kstatus reads, each cluster's part, and nothing that changes by itself."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from itertools import product
from typing import Any

import jsonschema
import pytest

from support import states
from support.kubernetes import resource_bodies
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.api.resources import FINALIZER, Resource
from topiarist.kubernetes.reconciler import SyncState, TopicResult
from topiarist.kubernetes.status.conditions import MAX_MESSAGE_BYTES, ReadyCondition, build_conditions, truncate_message
from topiarist.kubernetes.status.topic import topic_status
from topiarist.model.plan import SAFE_ASSESSMENT, ConfigItem, CreateTopic, Issue, TopicPlan, UpdateConfig
from topiarist.schema import load
from unit.kubernetes.topic_results import LATER, NOW, make_result

AWAY = TopiaristError(Reason.UNREACHABLE, "no answer", "look at it")
CREATION = CreateTopic(states.spread_replicas(3), {})

STANDINGS = {
    SyncState.ABSENT: ("True", "False", "False", "Absent"),
    SyncState.CHANGED: ("False", "True", "False", "Changed"),
    SyncState.DRIFTED: ("False", "False", "True", "DriftDetected"),
    SyncState.SYNCED: ("True", "False", "False", "Synced"),
    SyncState.OBSERVED: ("True", "False", "False", "Observed"),
    SyncState.PAUSED: ("Unknown", "False", "False", "Paused"),
    SyncState.REFUSED: ("False", "False", "True", "DataLoss"),
    SyncState.WAITING: ("False", "True", "False", "ReassignmentInProgress"),
}
"""Ready, Reconciling, Stalled and the reason, for each state that a topic can have on its only cluster."""

WORST_FIRST = ("Refused", "Drifted", "Waiting", "Changed", "Paused", "Observed", "Synced", "Absent")


def status_of(
    topic: Resource,
    views: Mapping[str, TopicResult | None],
    away: Mapping[str, TopiaristError] | None = None,
    now: str = NOW,
    clusters: Collection[str] = ("prod",),
) -> dict[str, Any]:
    """The status, which must be what its schema and so the definition of the kind take."""
    found = dict(topic_status(topic, views, away or {}, now, clusters))
    whole = load.load_schema("status")
    jsonschema.validate(found, {**whole["definitions"]["topic"], "definitions": whole["definitions"]})
    return found


def by_type(status: Mapping[str, Any]) -> dict[str, Any]:
    """The conditions by their types."""
    return {each["type"]: each for each in status["conditions"]}


def told(status: Mapping[str, Any]) -> tuple[str, ...]:
    """What kstatus reads, and the reason."""
    found = by_type(status)
    return (*(found[name]["status"] for name in ("Ready", "Reconciling", "Stalled")), found["Ready"]["reason"])


def kstatus(status: Mapping[str, Any], generation: int) -> str:
    """What whoever reads kstatus makes of it."""
    found = {name: each["status"] for name, each in by_type(status).items()}
    if status.get("observedGeneration") != generation or found["Reconciling"] == "True":
        return "InProgress"
    if found["Stalled"] == "True":
        return "Failed"
    return "Current" if found["Ready"] == "True" else "InProgress"


@pytest.mark.parametrize("state", SyncState)
def test_every_state_has_its_conditions(state: SyncState) -> None:
    """All four are always there, of the newest generation, and with the reason of the one table."""
    topic = resource_bodies.topic("orders", meta={"generation": 7})
    status = status_of(topic, {"prod": make_result(topic, state)})
    assert told(status) == STANDINGS[state]
    assert by_type(status).keys() == {"Ready", "Reconciling", "Stalled", "DriftDetected"}
    assert {each["observedGeneration"] for each in status["conditions"]} == {7, status["observedGeneration"]}
    assert by_type(status)["DriftDetected"]["status"] == str(state is SyncState.DRIFTED)
    assert status["topicName"] == "orders"


@pytest.mark.parametrize("state", SyncState)
def test_what_reads_kstatus_gets_it_right(state: SyncState) -> None:
    """A dead end is never in progress for ever; what comes by itself is no failure."""
    topic = resource_bodies.topic("orders")
    wanted = {
        **dict.fromkeys(("ABSENT", "SYNCED", "OBSERVED"), "Current"),
        **dict.fromkeys(("CHANGED", "PAUSED", "WAITING"), "InProgress"),
        **dict.fromkeys(("DRIFTED", "REFUSED"), "Failed"),
    }
    status = status_of(topic, {"prod": make_result(topic, state)})
    assert kstatus(status, 1) == wanted[state.name]
    assert kstatus(status, 2) == "InProgress"


@pytest.mark.parametrize(("one", "other"), list(product(WORST_FIRST, WORST_FIRST)))
def test_of_several_clusters_the_worst_counts(one: str, other: str) -> None:
    """And each has its own part, in the order of their names."""
    topic = resource_bodies.topic("orders")
    status = status_of(topic, {"b": make_result(topic, SyncState(one)), "a": make_result(topic, SyncState(other))})
    worst = min(one, other, key=WORST_FIRST.index)
    assert told(status) == STANDINGS[SyncState(worst)]
    assert [(part["name"], part["state"]) for part in status["clusters"]] == [("a", other), ("b", one)]


def test_the_message_names_the_cluster_and_counts_the_others() -> None:
    """With what is wrong there."""
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
    """Whatever the time is: the very same status, so nothing is written."""
    topic = resource_bodies.topic("orders")
    first = status_of(topic, {"prod": make_result(topic, state)})
    known = resource_bodies.updated_body(topic, status=first)
    assert status_of(known, {"prod": make_result(known, state)}, now=LATER) == first


@pytest.mark.parametrize("state", SyncState)
def test_an_outage_changes_nothing(state: SyncState) -> None:
    """Neither that of a cluster nor our own: what was known is kept as long as the Topic asks for nothing new."""
    topic = resource_bodies.topic("orders")
    first = status_of(topic, {"prod": make_result(topic, state)})
    known = resource_bodies.updated_body(topic, status=first)
    for away in ({}, {"prod": AWAY}):
        assert status_of(known, {"prod": None}, away, now=LATER) == first


def test_a_time_of_transition_is_that_of_its_own_condition() -> None:
    """One that stays keeps its time while another changes."""
    topic = resource_bodies.topic("orders")
    first = status_of(topic, {"prod": make_result(topic, SyncState.CHANGED)})
    second = status_of(
        resource_bodies.updated_body(topic, status=first), {"prod": make_result(topic, SyncState.SYNCED)}, now=LATER
    )
    times = {name: each["lastTransitionTime"] for name, each in by_type(second).items()}
    assert times == {"Ready": LATER, "Reconciling": LATER, "Stalled": NOW, "DriftDetected": NOW}


def test_a_cluster_that_was_not_seen_yet() -> None:
    """It is waited for, with the reason why it cannot be seen, if there is one."""
    topic = resource_bodies.topic("orders")
    assert told(status_of(topic, {"prod": None})) == ("False", "True", "False", "NotSent")
    status = status_of(topic, {"prod": None}, {"prod": AWAY})
    assert told(status) == ("False", "True", "False", "Unreachable")
    assert by_type(status)["Ready"]["message"] == "prod: no answer"


def test_a_cluster_that_will_not_come_by_itself() -> None:
    """Somebody has to do something: what waits for it is stalled, and not in progress for ever."""
    topic = resource_bodies.topic("orders")
    wrong = TopiaristError(Reason.WRONG_CLUSTER, "found another one")
    assert told(status_of(topic, {"prod": None}, {"prod": wrong})) == ("False", "False", "True", "WrongCluster")


def test_why_a_cluster_cannot_be_seen_may_change() -> None:
    """Nothing else is known, so the newest reason counts; the same one in other words is not worth a write."""
    topic = resource_bodies.topic("orders")
    first = status_of(topic, {"prod": None}, {"prod": AWAY})
    known = resource_bodies.updated_body(topic, status=first)
    again = TopiaristError(Reason.UNREACHABLE, "no answer from port 17")
    assert status_of(known, {"prod": None}, {"prod": again}, LATER) == first
    wrong = TopiaristError(Reason.CREDENTIALS_INVALID, "no such key")
    status = status_of(known, {"prod": None}, {"prod": wrong}, LATER)
    assert told(status) == ("False", "False", "True", "CredentialsInvalid")


def test_what_is_new_while_a_cluster_is_away_is_waited_for() -> None:
    """What is known of the cluster is kept, also what the record remembers."""
    topic = resource_bodies.topic("orders", config={"flush.ms": 7})
    found = states.topic("orders", 3, topic_id="id", applied_spec=states.spec("orders"))
    first = status_of(topic, {"prod": make_result(topic, SyncState.SYNCED, actual=found)})
    status = status_of(
        resource_bodies.updated_body(topic, status=first, generation=2), {"prod": None}, {"prod": AWAY}, LATER
    )
    assert told(status) == ("False", "True", "False", "Unreachable")
    (part,) = status["clusters"]
    kept = ("partitions", "replicationFactor", "topicId", "generation", "applied")
    assert {key: part[key] for key in kept} == {key: first["clusters"][0][key] for key in kept}


def test_a_part_has_what_the_cluster_holds() -> None:
    """Partitions, replicas, the id, and what the record remembers of the spec that it met, whatever that is now."""
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


@pytest.mark.parametrize("state", [SyncState.REFUSED, SyncState.WAITING, SyncState.DRIFTED, SyncState.SYNCED])
def test_what_the_record_remembers_is_shown_whatever_the_status_said(state: SyncState) -> None:
    """The record is the witness: a status that is gone, or another's, changes nothing."""
    topic, met = resource_bodies.topic("orders"), states.spec("orders", partitions=3)
    forged = {"clusters": [{"name": "prod", "applied": {"partitions": 9}}]}
    for before in (topic, resource_bodies.updated_body(topic, status=forged)):
        (part,) = status_of(
            before, {"prod": make_result(topic, state, actual=states.topic("orders", applied_spec=met))}
        )["clusters"]
        assert part["applied"] == {"partitions": 3}
        (part,) = status_of(before, {"prod": make_result(topic, state, actual=states.topic("orders"))})["clusters"]
        assert "applied" not in part


@pytest.mark.parametrize("state", SyncState)
def test_pending_changes_are_told_where_they_wait(state: SyncState) -> None:
    """With mode Observe as the plan shows them, too."""
    topic = resource_bodies.topic("orders", mode="Observe")
    found = make_result(topic, state)
    plan = TopicPlan("orders", changes=(CREATION,), observe_only=True, spec=found.candidate.spec)
    (part,) = status_of(topic, {"prod": found._replace(plan=plan)})["clusters"]
    waits = state in (SyncState.OBSERVED, SyncState.PAUSED, SyncState.WAITING)
    assert part.get("pending") == (["create 3 partitions x 3 replicas"] if waits else None)
    if state in (SyncState.OBSERVED, SyncState.PAUSED):
        assert part["plan"].startswith(". orders")
        assert "observed, not applied: create 3 partitions x 3 replicas" in part["plan"]
        assert "0 [1,2,3]" in part["plan"]
    else:
        assert "plan" not in part


def test_an_observed_difference_is_not_as_asked() -> None:
    """Ready, since nothing will be done; but nobody is told that the topic is as asked."""
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
    """That it is left alone is why nothing happens."""
    topic = resource_bodies.topic("orders")
    status = status_of(topic, {"prod": make_result(topic, SyncState.PAUSED, Reason.DATA_LOSS)})
    assert told(status) == STANDINGS[SyncState.PAUSED]
    assert "topiarist.dev/paused" in by_type(status)["Ready"]["message"]
    assert status["clusters"][0]["refusals"][0]["reason"] == "DataLoss"


def test_refusals_are_told_with_what_to_do() -> None:
    """In the words of Kubernetes; those first that the state comes from; and no more than there is room for."""
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
    """Clusters by name, the first ones if there are many, and the partitions that are there: as kubectl shows them."""
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
    """A topic of which these keys were changed on the cluster: the value found, and the value wanted."""
    items = tuple(
        ConfigItem(key.replace("_", "."), found, wanted, SAFE_ASSESSMENT)
        for key, (found, wanted) in sorted(config.items())
    )
    finding = Issue(Reason.DRIFT_DETECTED, "changed", hint="decide", withheld=(UpdateConfig(items),))
    return make_result(topic, SyncState.DRIFTED)._replace(refusals=(finding,))


def test_drift_is_told_by_key() -> None:
    """With the value found and the value wanted, in its own condition too, and since when each is so."""
    topic = resource_bodies.topic("orders")
    first = status_of(topic, {"prod": drifted(topic, flush_ms=("9", "7"))})
    topic = resource_bodies.updated_body(topic, status=first)
    status = status_of(topic, {"prod": drifted(topic, flush_ms=("9", "7"), segment_ms=("1", "2"))}, now=LATER)
    (refusal,) = status["clusters"][0]["refusals"]
    assert refusal["since"] == NOW
    assert refusal["fields"] == [
        {"field": "config.flush.ms", "found": "9", "wanted": "7", "since": NOW},
        {"field": "config.segment.ms", "found": "1", "wanted": "2", "since": LATER},
    ]
    words = "prod: changed: flush.ms is 9, wanted 7, segment.ms is 1, wanted 2: decide"
    found = by_type(status)["DriftDetected"]
    assert (found["reason"], found["message"], found["lastTransitionTime"]) == ("DriftDetected", words, NOW)


def test_drift_beside_a_refusal_has_its_own_words() -> None:
    """The condition DriftDetected speaks of drift, whatever else makes the Topic unready."""
    topic = resource_bodies.topic("orders")
    other = Issue(Reason.FEWER_PARTITIONS, "fewer")
    found = drifted(topic, flush_ms=("9", "7"))
    status = status_of(topic, {"prod": found._replace(state=SyncState.REFUSED, refusals=(other, *found.refusals))})
    assert by_type(status)["Ready"]["reason"] == "FewerPartitions"
    assert by_type(status)["DriftDetected"]["message"].startswith("prod: changed: flush.ms is 9")
    assert by_type(status)["DriftDetected"]["reason"] == "DriftDetected"


def test_the_fields_of_a_status_are_bounded() -> None:
    """However many keys several refusals hold back, and however long the values are."""
    topic = resource_bodies.topic("orders")
    many = {f"k{number:03}": ("a" * 5000, "b" * 5000) for number in range(60)}
    one = drifted(topic, **many)
    status = status_of(topic, {"prod": one._replace(refusals=one.refusals * 3)})
    refusals = status["clusters"][0]["refusals"]
    assert [len(each.get("fields", ())) for each in refusals] == [50, 0, 0]
    assert len(json.dumps(status)) < 60_000


def test_used_consents_are_kept() -> None:
    """Until others are used; also while the cluster cannot be looked at."""
    topic = resource_bodies.topic("orders")
    for found, wanted in (
        (make_result(topic, SyncState.SYNCED, used_consents="sha256:1"), "sha256:1"),
        (None, "sha256:1"),
    ):
        status = status_of(topic, {"prod": found}, {"prod": AWAY})
        assert status["clusters"][0]["consent"] == wanted
        topic = resource_bodies.updated_body(topic, status=status)
    status = status_of(topic, {"prod": make_result(topic, SyncState.REFUSED)})
    assert status["clusters"][0]["consent"] == "sha256:1"
    status = status_of(topic, {"prod": make_result(topic, SyncState.SYNCED, used_consents="sha256:2")})
    assert status["clusters"][0]["consent"] == "sha256:2"


def test_a_topic_that_cannot_be_read_says_why() -> None:
    """Every problem with its place; what was known of clusters needs nobody's guess."""
    topic = resource_bodies.topic("orders", partitions=0, config={"flush.ms": 1e300})
    status = status_of(topic, {})
    assert told(status) == ("False", "False", "True", "InvalidManifest")
    message = by_type(status)["Ready"]["message"]
    assert "spec.partitions: " in message
    assert "may have lost digits" in message
    assert "topicName" not in status


def test_a_topic_that_cannot_be_read_any_more_keeps_its_parts() -> None:
    """By them drift is told from what the spec changes once it can be read again; where there is none, none is made."""
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
    """It is stalled, and its message says what to do and which Clusters there are."""
    status = status_of(resource_bodies.topic("orders", **spec), {}, clusters=clusters)
    assert told(status) == ("False", "False", "True", "UnknownCluster")
    assert by_type(status)["Ready"]["message"] == words
    assert status["clusters"] == []


def test_many_clusters_are_counted() -> None:
    """A message names ten of them."""
    status = status_of(resource_bodies.topic("orders"), {}, clusters=[f"c{number:02}" for number in range(13)])
    assert "c00, c01, c02, c03, c04, c05, c06, c07, c08, c09 and 3 more." in by_type(status)["Ready"]["message"]


def test_a_deletion_that_waits_for_a_name_says_how_to_let_go() -> None:
    """The finalizer is kept, so the message names the annotation."""
    going = {"deletionTimestamp": "2026-02-01T00:00:00Z", "finalizers": [FINALIZER]}
    topic = resource_bodies.topic("orders", deletionPolicy="Delete", meta=going)
    message = by_type(status_of(topic, {}, clusters=("a", "b")))["Ready"]["message"]
    assert 'topiarist.dev/retain: "true"' in message


def test_a_topic_that_stays_where_it_was_applied_says_so() -> None:
    """It is ready; its message names the other Clusters, and the field. A Topic that names its cluster says nothing."""
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
    """Where a topic was applied outlives the Cluster, over any number of passes: another Cluster does not get it."""
    topic = resource_bodies.topic("orders", config={"flush.ms": 7})
    status = status_of(topic, {"a": make_result(topic, SyncState.SYNCED)}, clusters=("a",))
    for _ in range(2):
        topic = resource_bodies.updated_body(topic, status=status)
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
    """What is more stands in the part of the cluster."""
    found = build_conditions(ReadyCondition(False, "DataLoss", "x" * 5000, stalled=True), 1, [], NOW)
    assert {len(each["message"]) for each in found if each["message"]} == {MAX_MESSAGE_BYTES}
    assert found[0]["message"].endswith("...")


@pytest.mark.parametrize("text", ["é" * 600, "x" + "é" * 600, "\U0001f642" * 300, "é" * 512])
def test_words_are_cut_by_bytes(text: str) -> None:
    """An Event takes 1,024 bytes; no character is cut in half."""
    cut = truncate_message(text)
    assert len(cut.encode()) <= MAX_MESSAGE_BYTES
    assert text.startswith(cut.removesuffix("..."))


def test_the_parts_by_cluster() -> None:
    """None where there is no status."""
    assert resource_bodies.topic("orders").status_on("a") == {}
    assert resource_bodies.topic("orders", status={"clusters": [{"name": "a"}]}).status_on("a") == {"name": "a"}

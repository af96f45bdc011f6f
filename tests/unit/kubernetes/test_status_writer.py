"""Finalizers by server-side apply, and Events by kopf: the requests, and finalizers of other managers unchanged."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, cast

import kopf
import pytest
from msgspec.structs import replace
from prometheus_client import generate_latest

from support import builders
from support.kubernetes import resource_bodies
from support.kubernetes.passes import NOW, make_result, spec_of
from support.memory_cluster import MemoryCluster
from support.virtual_time import virtual_time
from topiarist.desired.shared_specs import merge
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes import client
from topiarist.kubernetes.cache import build_candidate, select_candidates
from topiarist.kubernetes.client import ApiError, KubernetesClient
from topiarist.kubernetes.metrics import Metrics
from topiarist.kubernetes.moves import TopicMoves
from topiarist.kubernetes.reconciler import ReconcileRequest, ReconcileResult, SyncState, reconcile_cluster
from topiarist.kubernetes.resources import FINALIZER, Resource
from topiarist.kubernetes.status_writer import (
    Event,
    EventRecorder,
    StatusWriter,
    annotation_events,
    cluster_events,
    cluster_status,
    left_events,
    needs_finalizer,
    records_events,
    stall_events,
    told_part,
    topic_events,
    unusable_events,
)
from topiarist.kubernetes.topic_status import topic_status
from topiarist.model.moves import ReplicaMove
from topiarist.model.outcome import Outcome, ReconcileReport, Result
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    ConfigItem,
    CreateTopic,
    ImpliedTopic,
    Issue,
    MoveReplicas,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.state import ClusterState, OwnershipRecord, WriteBlock

# Finalizers of Topics: which Topics carry topiarist's finalizer, and for how long.

GOING: dict[str, Any] = {"deletionTimestamp": "2026-02-01T00:00:00Z"}
HELD: dict[str, Any] = {**GOING, "finalizers": [FINALIZER]}
THERE = [state for state in SyncState if state not in (SyncState.ABSENT, SyncState.OBSERVED)]
"""The states of a topic that is, or may be, on the cluster, and that we may have to delete."""


def held(topic: Resource, *states: SyncState | None, sure: bool = True) -> bool:
    """Return if a Topic needs the finalizer, for these states on its clusters (None: no result)."""
    views = {f"c{number}": make_result(topic, state) if state else None for number, state in enumerate(states)}
    return needs_finalizer(topic, views, all_clusters_known=sure)


def topic(policy: str = "Delete", **meta: Any) -> Resource:
    """Return a Topic with a deletion policy."""
    return resource_bodies.topic("orders", deletionPolicy=policy, meta=meta)


METAS: list[dict[str, Any]] = [{}, {"finalizers": [FINALIZER]}, HELD]
"""A new Topic, one with the finalizer, and one that is being deleted."""


@pytest.mark.parametrize("state", SyncState)
def test_a_finalizer_is_where_the_topic_may_be(state: SyncState) -> None:
    """A Topic with policy Delete needs the finalizer while its topic may exist: before creation, after a refusal, and
    until its topic is deleted. One with policy Retain needs none, also if it changes to Retain during its deletion.
    """
    for meta in METAS:
        assert held(topic(**meta), state) is (state in THERE)
        assert not held(topic("Retain", **meta), state)


@pytest.mark.parametrize(
    ("reasons", "needed"),
    [
        ((Reason.NOT_OWNED, Reason.NOT_ADOPTED, Reason.RESOURCE_CONFLICT, Reason.NOT_ALLOWED), False),
        ((Reason.DELETION_HELD, Reason.BUDGET_EXCEEDED, Reason.FROZEN, Reason.DATA_LOSS), True),
    ],
)
def test_only_what_is_ours_to_delete_needs_one(reasons: Sequence[Reason], needed: bool) -> None:
    """A Topic that lost the claim, or does not own its topic, can be deleted at once; a withheld deletion keeps the
    resource.
    """
    for reason, meta in product(reasons, METAS):
        found = topic(**meta)
        results = {"prod": make_result(found, SyncState.REFUSED, reason)}
        assert needs_finalizer(found, results, all_clusters_known=True) is needed


def test_every_cluster_counts() -> None:
    """topiarist removes the finalizer only after the topic is absent from every cluster."""
    assert held(topic(**HELD), SyncState.ABSENT, SyncState.WAITING)
    assert not held(topic(**HELD), SyncState.ABSENT, SyncState.ABSENT)


def test_a_cluster_that_was_not_seen_changes_nothing() -> None:
    """A cluster without a result neither adds nor removes a finalizer, because the state of the topic is unknown."""
    assert held(topic(**HELD), None)
    assert held(topic(**HELD), SyncState.ABSENT, None)
    assert held(topic(finalizers=[FINALIZER]), None)
    assert not held(topic(), None)
    assert held(topic(), SyncState.SYNCED, None)


def test_without_a_cluster_there_is_nothing_to_delete() -> None:
    """After the deletion of the Cluster, Topics need no finalizer; records and topics remain."""
    assert not held(topic(**HELD))
    assert not held(topic(finalizers=[FINALIZER]))


def test_as_long_as_nobody_knows_the_clusters_all_stays_as_it_is() -> None:
    """If not all Clusters are readable, finalizers remain unchanged, because an unreadable Cluster may be the selected
    one.
    """
    for state in (SyncState.ABSENT, SyncState.SYNCED, None):
        assert held(topic(**HELD), state, sure=False)
        assert not held(topic(), state, sure=False)
    assert held(topic(**HELD), sure=False)


def test_a_topic_that_cannot_be_read_keeps_what_it_has() -> None:
    """An unreadable Topic keeps its finalizer, if any, because its spec is unknown."""
    for there in (True, False):
        meta = {"finalizers": [FINALIZER]} if there else {}
        broken = resource_bodies.topic("orders", partitions=0, meta=meta)
        assert broken.manifest is None
        assert needs_finalizer(broken, {}, all_clusters_known=True) is there


@pytest.mark.parametrize("sure", [True, False])
def test_an_annotation_lets_go_whatever_else_is_so(sure: bool) -> None:
    """The annotation ``topiarist.dev/retain`` removes the finalizer, also for a withheld deletion and for an unreadable
    Topic.
    """
    notes: dict[str, Any] = {"annotations": {"topiarist.dev/retain": "true"}}
    assert not held(topic(**HELD, **notes), SyncState.REFUSED, None, sure=sure)
    assert not held(topic(**notes), SyncState.SYNCED, sure=sure)
    broken = resource_bodies.topic("orders", partitions=0, meta={"finalizers": [FINALIZER], **notes})
    assert not needs_finalizer(broken, {}, all_clusters_known=sure)
    other: dict[str, Any] = {"annotations": {"topiarist.dev/retain": "yes"}}
    assert held(topic(**HELD, **other), SyncState.REFUSED, sure=sure)


def test_none_is_added_to_what_is_going() -> None:
    """topiarist adds no finalizer to a Topic that is being deleted; the API server would reject it."""
    assert not held(topic(**GOING, finalizers=["another"]), SyncState.SYNCED)


# Events: the operator reports each fact once, over passes, restarts and outages.

OWNER = "k8s/shop/topiarist"


class Stage:
    """A Topic, its Cluster and the cluster state, over several passes with their Events and statuses."""

    def __init__(self, home: Resource, topic: Resource, state: ClusterState) -> None:
        self.home = home
        self.topic = topic
        self.port = MemoryCluster(state)
        self.metrics = Metrics()

    def passes(self) -> list[Event]:
        """Run one pass, store the new status in the Topic, and return the Events."""
        assert self.topic.manifest is not None
        spec = spec_of(self.home)
        single = [build_candidate(self.topic, merge(self.topic.manifest, spec))]
        found = select_candidates(spec, "shop", single, {})
        order = ReconcileRequest(self.home, spec, found, OWNER)
        result = reconcile_cluster(self.port, order, lambda: False)
        self.metrics.record_reconcile("prod", result, (), 0.0, client.utc_now())
        (after,) = result.topic_results
        events = [*topic_events("prod", self.topic.status_on("prod"), after)]
        self.topic = resource_bodies.updated_body(
            self.topic, status=topic_status(self.topic, {"prod": after}, {}, NOW, ("prod",))
        )
        return events

    def outside(self, **config: str) -> None:
        """Set a topic's overrides as another client."""
        topic = self.port.state.topics["orders"]
        named = {key.replace("_", "."): text for key, text in config.items()}
        self.port.state = replace(self.port.state, topics={"orders": replace(topic, config=named)})

    def asks(self, **spec: Any) -> None:
        """Change the spec of the Topic."""
        status, uid = self.topic.status, self.topic.uid
        meta = {"uid": uid, "generation": self.topic.generation + 1}
        self.topic = resource_bodies.topic("orders", status=status, meta=meta, **spec)


def reasons(events: list[Event]) -> list[tuple[str, bool]]:
    """Return the reasons of the Events, and if each is a warning."""
    return [(event.reason, event.warning) for event in events]


def test_what_was_done_is_told_once() -> None:
    """Creation, growth and a config change each yield one Event; later passes yield none."""
    stage = Stage(resource_bodies.cluster(), resource_bodies.topic("orders", config={"flush.ms": 7}), builders.state())
    assert reasons(stage.passes()) == [("TopicCreated", False)]
    assert stage.passes() == stage.passes() == []
    stage.asks(partitions=6, config={"flush.ms": 8})
    told = stage.passes()
    assert reasons(told) == [("PartitionsIncreased", False), ("ConfigUpdated", False)]
    assert told[0].message == "prod: grow 3 -> 6 partitions"
    assert told[1].message == "prod: configure flush.ms 7 -> 8"
    assert stage.passes() == []


def test_adoption_is_told_once() -> None:
    """Adoption yields one Event; later writes of the ownership record alone yield none."""
    found = builders.topic("orders", 3, record=None, config={"flush.ms": "7"})
    stage = Stage(
        resource_bodies.cluster(adopt=["*"]),
        resource_bodies.topic("orders", config={"flush.ms": 7}),
        builders.state(found),
    )
    assert reasons(stage.passes()) == [("Adopted", False)]
    assert stage.passes() == []
    topic = stage.port.state.topics["orders"]
    stage.port.state = replace(
        stage.port.state, topics={"orders": replace(topic, record=OwnershipRecord(OWNER), record_valid=True)}
    )
    assert stage.passes() == []
    assert stage.port.writes == 2


@pytest.mark.parametrize(("owner", "count"), [(None, 1), ("team", 1), (OWNER, 0)])
def test_a_topic_with_a_new_owner_is_told(owner: str | None, count: int) -> None:
    """Also if it had another one; a record that only changes is no news."""
    before = builders.topic("orders", 3, record=OwnershipRecord(owner) if owner else None)
    plan = TopicPlan("orders", before, record_after=OwnershipRecord(OWNER), changes=(TakeOwnership(),))
    found = make_result(resource_bodies.topic("orders"), SyncState.CHANGED)
    done = found._replace(plan=plan, outcome=Outcome("orders", Result.DONE))
    assert reasons([*topic_events("prod", {}, done)]) == [("Adopted", False)] * count


def test_a_refusal_in_the_status_of_a_kafka_topic_is_known() -> None:
    """Its status has one condition and no part for each cluster."""
    ready = {"type": "Ready", "status": "False", "reason": "DataLoss", "message": "prod: because of DataLoss"}
    topic = resource_bodies.kafka_topic("orders", status={"conditions": [ready]})
    found = make_result(topic, SyncState.REFUSED, Reason.DATA_LOSS)
    assert [*topic_events("prod", told_part(topic, "prod"), found)] == []
    other = make_result(topic, SyncState.REFUSED, Reason.RESOURCE_CONFLICT)
    assert reasons([*topic_events("prod", told_part(topic, "prod"), other)]) == [("ResourceConflict", True)]


@pytest.mark.parametrize("field", ["reason", "message"])
def test_a_condition_of_another_operator_may_lack_a_field(field: str) -> None:
    """It then tells of no refusal of topiarist."""
    ready = {"type": "Ready", "status": "False", "reason": "DataLoss", "message": "prod: because of DataLoss"}
    del ready[field]
    topic = resource_bodies.kafka_topic("orders", status={"conditions": [ready]})
    found = make_result(topic, SyncState.REFUSED, Reason.DATA_LOSS)
    assert reasons([*topic_events("prod", told_part(topic, "prod"), found)]) == [("DataLoss", True)]


def test_drift_and_its_end_are_told_once() -> None:
    """Drift and its end each yield one Event, also if another client ended it."""
    stage = Stage(resource_bodies.cluster(), resource_bodies.topic("orders", config={"flush.ms": 7}), builders.state())
    stage.passes()
    stage.passes()
    stage.outside(flush_ms="9")
    (event,) = stage.passes()
    assert (event.reason, event.warning) == ("DriftDetected", True)
    assert "flush.ms is 9, wanted 7" in event.message
    assert stage.passes() == []
    stage.outside(flush_ms="7")
    assert reasons(stage.passes()) == [("DriftCorrected", False)]
    assert stage.passes() == []


def test_each_reversion_is_an_event_and_a_count() -> None:
    """With ``driftPolicy: Correct`` the operator reports every reversion, also the second of the same change, and
    beside a change of the spec.
    """
    home = resource_bodies.cluster(driftPolicy="Correct")
    stage = Stage(home, resource_bodies.topic("orders", config={"flush.ms": 7}), builders.state())
    stage.passes()
    stage.passes()
    for _ in range(2):
        stage.outside(flush_ms="9")
        assert stage.passes() == [Event("DriftCorrected", "prod: configure flush.ms 9 -> 7")]
        assert stage.passes() == []
    stage.outside(flush_ms="9")
    stage.asks(config={"flush.ms": 7, "segment.ms": 8})
    assert [event.message for event in stage.passes()] == [
        "prod: configure segment.ms not set -> 8",
        "prod: configure flush.ms 9 -> 7",
    ]
    exported = generate_latest(stage.metrics.registry).decode()
    for name in ("detected", "corrected"):
        assert f'topiarist_drift_{name}_total{{cluster="prod",kind="configure"}} 3.0' in exported


def test_a_reported_drift_that_is_reverted_is_one_event() -> None:
    """After the policy is changed to ``Correct``, the reversion ends the drift: one Event, not two."""
    stage = Stage(resource_bodies.cluster(), resource_bodies.topic("orders", config={"flush.ms": 7}), builders.state())
    stage.passes()
    stage.outside(flush_ms="9")
    assert reasons(stage.passes()) == [("DriftDetected", True)]
    stage.home = resource_bodies.cluster(driftPolicy="Correct")
    assert stage.passes() == [Event("DriftCorrected", "prod: configure flush.ms 9 -> 7")]


@pytest.mark.parametrize(
    ("spec", "state", "word"),
    [
        ({"config": {"retention.ms": "soon"}}, builders.state(), "ValidationFailed"),
        ({"partitions": 2}, builders.state(builders.topic("orders", 3, owner=OWNER)), "PartitionDecreaseRefused"),
        ({"config": {"flush.ms": 1}}, builders.state(builders.topic("orders", 3, record=None)), "NotAdopted"),
        ({}, builders.state(dangling_records={"orders": OwnershipRecord(OWNER)}), "DeletedExternally"),
        ({"replicationFactor": 9}, builders.state(), "TooFewBrokers"),
    ],
)
def test_a_refusal_is_a_warning_once(spec: Mapping[str, Any], state: ClusterState, word: str) -> None:
    """A refusal yields one warning that names the cluster. Its reason is the one that other operators use, if there is
    one.
    """
    stage = Stage(resource_bodies.cluster(), resource_bodies.topic("orders", **spec), state)
    (event,) = stage.passes()
    assert (event.reason, event.warning) == (word, True)
    assert event.message.startswith("prod: ")
    assert stage.passes() == stage.passes() == []


def test_what_passes_by_itself_is_not_told() -> None:
    """A transient condition, such as an offline broker, yields no Event for each topic."""
    found = make_result(resource_bodies.topic("orders"), SyncState.WAITING, Reason.BROKERS_MISSING)
    assert [*topic_events("prod", {}, found)] == []


def test_another_refusal_is_told_beside_one_that_is_known() -> None:
    """An additional refusal yields an Event; the known refusal yields none."""
    topic = resource_bodies.topic("orders")
    one = make_result(topic, SyncState.REFUSED, Reason.DATA_LOSS)
    known = resource_bodies.updated_body(topic, status=topic_status(topic, {"prod": one}, {}, NOW, ("prod",)))
    both = make_result(known, SyncState.REFUSED, Reason.DATA_LOSS, Reason.NOT_OWNED)
    assert reasons([*topic_events("prod", known.status_on("prod"), both)]) == [("NotOwned", True)]


def test_another_way_out_is_no_news() -> None:
    """A changed hint alone yields no Event, because the refusal is the same; a changed message yields one."""
    topic = resource_bodies.topic("orders")
    both = Issue(Reason.DATA_LOSS, "may lose data: x", hint="allowRisk, and a command")
    one = make_result(topic, SyncState.REFUSED)._replace(refusals=(both,))
    known = resource_bodies.updated_body(topic, status=topic_status(topic, {"prod": one}, {}, NOW, ("prod",)))
    for refusal, events in ((both._replace(hint="a command"), 0), (both._replace(message="may lose data: y"), 1)):
        after = make_result(known, SyncState.REFUSED)._replace(refusals=(refusal,))
        assert len([*topic_events("prod", known.status_on("prod"), after)]) == events


def condition(home: Resource, state: ClusterState | None, error: TopiaristError | None = None) -> Resource:
    """Return the Cluster after a pass, and append its Events to ``told``."""
    seen = ReconcileResult([], state, None, error)
    status = cluster_status(home, seen, client.utc_now())
    told.append([*cluster_events(home, status)])
    return resource_bodies.updated_body(home, status=status)


told: list[list[Event]] = []


def test_topics_that_the_first_write_makes_are_told() -> None:
    """Each topic without a manifest has an Event, once a record is written; its differences are warnings."""
    implied = ImpliedTopic("__topiarist", 1, 3, "topiarist", "its records")
    outcomes = (Outcome("orders", Result.DONE),)
    plan = replace(builders.plan(builders.state(), builders.spec("orders")), implied=(implied,))
    how = "create 1 partition x 3 replicas, by topiarist, once for a cluster, for its records"
    created = Event("TopicCreated", f"__topiarist: {how}")
    differs = Event("RecordsTopicDiffers", "made without min.insync.replicas=2", warning=True)
    for report, notices, wanted in (
        (ReconcileReport(plan, outcomes), (differs.message,), [created, differs]),
        (ReconcileReport(plan, ()), (), []),
        (None, (), []),
    ):
        assert [*records_events(ReconcileResult([], None, report, notices=notices))] == wanted


def test_a_cluster_that_goes_and_comes_is_told_once_each() -> None:
    """Each new reason of a Cluster yields one Event, also that of an outage in its first pass; its first success yields
    none.
    """
    told.clear()
    home = resource_bodies.cluster()
    away = TopiaristError(Reason.UNREACHABLE, "no answer")
    wrong = TopiaristError(Reason.WRONG_CLUSTER, "another")
    frozen = builders.state(write_block=WriteBlock(Reason.FROZEN, "frozen: for the night"))
    up = builders.state()
    for state, error in ((up, None), (up, None), (None, away), (None, away), (None, wrong), (up, None)):
        home = condition(home, state, error)
    home = condition(home, frozen)
    condition(home, frozen)
    condition(resource_bodies.cluster(), None, away)
    words = [reasons(events) for events in told]
    assert words == [
        [],
        [],
        [("ClusterUnavailable", True)],
        [],
        [("WrongCluster", True)],
        [("Reachable", False)],
        [("Frozen", True)],
        [],
        [("ClusterUnavailable", True)],
    ]


def with_status(resource: Resource, **status: Any) -> Resource:
    """Return a resource with this status."""
    return resource_bodies.updated_body(resource, status=status)


def ready(reason: str, message: str = "why") -> dict[str, Any]:
    """Return a status with a condition, beside one that is no matter of Events."""
    other = {"type": "Stalled", "reason": "Other", "message": "other", "status": "True"}
    return {"conditions": [other, {"type": "Ready", "reason": reason, "message": message, "status": "False"}]}


@pytest.mark.parametrize(
    ("before", "after", "told_again"),
    [
        ({}, {"reason": "Moving", "message": "m"}, False),
        ({}, {}, False),
        ({}, {"reason": "MovesStalled", "message": "m"}, True),
        ({"reason": "Moving"}, {"reason": "MovesStalled", "message": "m"}, True),
        ({"reason": "MovesStalled"}, {"reason": "MovesStalled", "message": "m"}, False),
        ({"reason": "MovesStalled"}, {"reason": "StuckReassignment", "message": "m"}, True),
        ({"reason": "MovesStalled"}, {"reason": "Moving", "message": "m"}, False),
        ({"reason": "MovesStalled"}, {}, False),
    ],
)
def test_a_stall_of_moves_is_a_warning_once(
    before: Mapping[str, Any], after: Mapping[str, Any], told_again: bool
) -> None:
    """Each new problem of the moves yields one warning with its text; progress yields none."""
    home = with_status(resource_bodies.cluster(), moves=before)
    wanted = [Event(after["reason"], "m", warning=True)] if told_again else []
    assert [*stall_events(home, {"moves": after})] == wanted
    assert [*stall_events(resource_bodies.cluster(), {})] == []


def test_an_error_of_an_annotation_is_a_warning_once() -> None:
    """Each error that the status did not have yields a warning."""
    home = with_status(resource_bodies.cluster(), annotations=["a is not known"])
    status = {"annotations": ["a is not known", "b is not known"]}
    assert [*annotation_events(home, status)] == [Event("InvalidAnnotation", "b is not known", warning=True)]
    assert [*annotation_events(home, {})] == []


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ({}, ready("UnknownCluster"), "UnknownCluster"),
        ({}, ready("InvalidManifest"), ""),
        ({}, ready("InvalidRule"), "InvalidRule"),
        ({}, ready("DataLoss"), ""),
        ({}, {}, ""),
        (ready("Active"), ready("InvalidRule"), "InvalidRule"),
        (ready("InvalidRule"), ready("InvalidRule"), ""),
        (ready("InvalidRule", "another"), ready("InvalidRule"), "InvalidRule"),
        (ready("UnknownCluster", "other Clusters"), ready("UnknownCluster"), ""),
    ],
)
def test_what_makes_a_resource_unusable_is_a_warning_once(
    before: Mapping[str, Any], after: Mapping[str, Any], reason: str
) -> None:
    """A Topic that no pass includes and a Policy that withholds changes have one warning for each reason and text.

    A pass has the Events of a Topic that can be read, so an invalid spec there has none beside them.
    """
    wanted = [Event(reason, "why", warning=True)] if reason else []
    assert [*unusable_events(with_status(resource_bodies.policy(), **before), after)] == wanted
    more = {**after, "annotations": ["x is not known"]}
    found = [*unusable_events(with_status(resource_bodies.policy(), **before), more)]
    assert found == [Event("InvalidAnnotation", "x is not known", warning=True), *wanted]
    unread = resource_bodies.topic("orders", partitions="x")
    assert [*unusable_events(unread, ready("InvalidManifest"))] == [Event("ValidationFailed", "why", warning=True)]


@pytest.mark.parametrize(("result", "count"), [(Result.DONE, 1), (Result.UNCHANGED, 0), (Result.FAILED, 0)])
def test_an_event_is_about_a_write_of_the_operator(result: Result, count: int) -> None:
    """A change that another client made first, and one that failed, have no Event."""
    plan = TopicPlan("orders", changes=(CreateTopic(builders.spread_replicas(3), {}),))
    found = make_result(resource_bodies.topic("orders"), SyncState.CHANGED)
    assert len([*topic_events("prod", {}, found._replace(plan=plan, outcome=Outcome("orders", result)))]) == count


@pytest.mark.parametrize("state", [SyncState.SYNCED, SyncState.CHANGED])
def test_the_end_of_drift_is_told_in_either_state(state: SyncState) -> None:
    """Also while the controller has not seen new partitions yet."""
    found = make_result(resource_bodies.topic("orders"), state)
    (event,) = topic_events("prod", {"state": "Drifted"}, found)
    assert (event.reason, event.message, event.warning) == ("DriftCorrected", "prod: as declared again", False)


def test_other_changes_are_told_while_replicas_move() -> None:
    """Only the moves themselves are told at their start and at their end."""
    item = ConfigItem("flush.ms", "1", "2", SAFE_ASSESSMENT)
    plan = TopicPlan("orders", builders.topic("orders"), changes=(UpdateConfig((item,)),))
    found = make_result(resource_bodies.topic("orders"), SyncState.MOVING, moves=TopicMoves(1, 1, 1, 1))
    done = found._replace(plan=plan, outcome=Outcome("orders", Result.DONE))
    told = [event.reason for event in topic_events("prod", {}, done)]
    assert told[0] == "MovesStarted"
    assert len(told) == 2


def test_moves_that_are_done_at_once_are_told() -> None:
    """Without moves that are left no later pass continues them, so that their Event is that of the change."""
    moves = MoveReplicas((ReplicaMove("orders", 0, (1, 2), (2, 1)),), SAFE_ASSESSMENT)
    plan = TopicPlan("orders", builders.topic("orders"), changes=(moves,))
    found = make_result(resource_bodies.topic("orders"), SyncState.CHANGED)
    done = found._replace(plan=plan, outcome=Outcome("orders", Result.DONE))
    assert reasons([*topic_events("prod", {}, done)]) == [("ReplicasMoved", False)]
    assert [*topic_events("prod", {}, done._replace(moves=TopicMoves(1)))] == []


def test_a_cluster_that_a_topic_leaves_is_a_warning() -> None:
    """A Topic that was applied on a cluster leaves its topic there; a cluster without a plan so far is no news.

    The text also holds if the Cluster was deleted, and the Topic still names it.
    """
    parts = [{"name": "eu", "generation": 1}, {"name": "us", "generation": 2}, {"name": "ap"}]
    topic = resource_bodies.topic("orders", status={"clusters": parts})
    message = "us: the Topic selects no Cluster of this name now; its topic and record stay there"
    assert [*left_events(topic, {"clusters": [{"name": "eu"}]})] == [Event("LeftCluster", message, warning=True)]
    assert len([*left_events(topic, {})]) == 2
    assert [*left_events(resource_bodies.topic("orders"), {})] == []


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (None, TopicMoves(3, 1), "prod: 3 partitions to move"),
        (None, TopicMoves(3), ""),
        ((3, 3, 0), TopicMoves(3, 1), "prod: 3 partitions to move"),
        ((3, 3, 1), TopicMoves(3, 1), ""),
        ((3, 2, 0), TopicMoves(2, 1), ""),
        ((3, 2, 0), TopicMoves(2), ""),
        ((3, 3, 3), None, "prod: 3 partitions moved"),
        ((3, 1, 1), None, "prod: 3 partitions moved"),
        ((3, 1, 1), TopicMoves(1, 1), ""),
        ((3, 2, 1), None, ""),
        ((3, 3, 0), None, ""),
        ((1, 1, 1), None, "prod: 1 partition moved"),
        (None, None, ""),
    ],
)
def test_moves_have_an_event_at_their_start_and_at_their_end(
    before: tuple[int, int, int] | None, after: TopicMoves | None, message: str
) -> None:
    """The first moves that are sent and the last ones that are done are reported; given up moves are neither."""
    previous = {"moves": dict(zip(("total", "left", "inFlight"), before, strict=True))} if before else {}
    result = make_result(resource_bodies.topic("orders"), SyncState.SYNCED, moves=after)
    reason = "MovesStarted" if message.endswith("to move") else "ReplicasMoved"
    assert [*topic_events("prod", previous, result)] == [Event(reason, message)] * bool(message)


MAX_PENDING_EVENTS = 1000
PATH = "/apis/topiarist.dev/v1/namespaces/shop/topics/orders"


class Server:
    """An API server with one Topic and finalizers that field managers own."""

    def __init__(self, topic: Resource, **owners: str) -> None:
        self.sent: list[tuple[str, str, Mapping[str, Any]]] = []
        self.topic = topic
        self.owners: dict[str, set[str]] = {name: {manager} for manager, name in owners.items()}
        self.error: ApiError | None = None
        self.refused_path = ""

    async def apply(self, path: str, body: Mapping[str, Any], field_manager: str) -> dict[str, Any]:
        """Set the manager's finalizers to those of ``body``; remove a finalizer without an owner."""
        if self.error and path.endswith(self.refused_path):
            raise self.error
        self.sent.append((path, field_manager, body))
        if not path.endswith("/status"):
            for managers in self.owners.values():
                managers.discard(field_manager)
            for name in body["metadata"]["finalizers"]:
                self.owners.setdefault(name, set()).add(field_manager)
        return self._body()

    async def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the list of finalizers."""
        self.sent.append((path, "merge", body))
        self.owners = {name: {"merge"} for name in body["metadata"]["finalizers"]}
        return self._body()

    def _body(self) -> dict[str, Any]:
        self.owners = {name: managers for name, managers in self.owners.items() if managers}
        assert self.topic.manifest is not None
        metadata: dict[str, Any] = {"uid": self.topic.uid, "resourceVersion": "77"}
        metadata |= {"finalizers": [*self.owners]} if self.owners else {}
        return resource_bodies.body("Topic", "orders", self.topic.manifest.spec, **metadata)


def written(
    server: Server,
    of: Resource,
    *,
    finalizer: bool,
    status: Mapping[str, Any] | None = None,
    refused: list[Resource] | None = None,
    applied_to: Sequence[str] = (),
) -> Resource:
    """Write, and return the Topic as known afterwards."""
    found, new = [of], of.status if status is None else status
    writer = StatusWriter(cast(KubernetesClient, server), found.append, ([] if refused is None else refused).append)
    asyncio.run(writer.write_topic(of, new, finalizer=finalizer, applied_to=[*applied_to]))
    return found[-1]


def test_a_finalizer_is_applied_alone() -> None:
    """topiarist applies its finalizer with its own field manager and the uid; other finalizers remain."""
    topic = resource_bodies.topic("orders", meta={"finalizers": ["another"]})
    server = Server(topic, somebody="another")
    after = written(server, topic, finalizer=True)
    assert {*after.finalizers} == {"another", FINALIZER}
    assert after.manifest is topic.manifest  # a spec that has not changed is not parsed again
    metadata = {"name": "orders", "namespace": "shop", "uid": topic.uid, "finalizers": [FINALIZER]}
    body = {"apiVersion": "topiarist.dev/v1", "kind": "Topic", "metadata": metadata}
    assert server.sent == [(PATH, "topiarist-finalizer", body)]
    assert written(server, after, finalizer=False).finalizers == ("another",)
    assert len(server.sent) == 2


def test_the_clusters_of_a_topic_are_applied_with_its_finalizer() -> None:
    """The annotation and the finalizer are one request, both in it; without a change there is none."""
    topic = resource_bodies.topic("orders")
    for held in (True, False):
        server = Server(topic)
        written(server, topic, finalizer=held, applied_to=["a", "b"])
        ((_, manager, body),) = server.sent
        assert manager == "topiarist-finalizer"
        assert body["metadata"]["annotations"] == {"topiarist.dev/applied-to": "a,b"}
        assert body["metadata"]["finalizers"] == ([FINALIZER] if held else [])
    server, known = Server(topic), {"annotations": {"topiarist.dev/applied-to": "a"}}
    written(server, resource_bodies.topic("orders", meta=known), finalizer=False, applied_to=["a"])
    assert server.sent == []


def test_a_finalizer_that_another_manager_owns_too_is_removed() -> None:
    """topiarist removes its finalizer also if an earlier version or a user owns it too. The rest of the list remains,
    at the version as read.
    """
    alone = resource_bodies.topic("orders", meta={"finalizers": [FINALIZER]})
    assert written(Server(alone), alone, finalizer=False).finalizers == ()
    topic = resource_bodies.topic("orders", meta={"finalizers": ["another", FINALIZER]})
    server = Server(topic, somebody="another", topiarist=FINALIZER)
    assert written(server, topic, finalizer=False).finalizers == ("another",)
    assert server.sent[1:] == [(PATH, "merge", {"metadata": {"finalizers": ["another"], "resourceVersion": "77"}})]


def test_what_is_as_it_should_be_is_not_written() -> None:
    """topiarist writes neither an unchanged finalizer nor an unchanged status, and no status after it removes the last
    finalizer.
    """
    held: dict[str, Any] = {"finalizers": [FINALIZER]}
    topic = resource_bodies.topic("orders", meta=held, status={"observedGeneration": 1})
    server = Server(topic, topiarist=FINALIZER)
    written(server, topic, finalizer=True)
    assert server.sent == []
    going = resource_bodies.topic("orders", meta={**held, "deletionTimestamp": "2026-02-01T00:00:00Z"})
    written(server, going, finalizer=False, status={"observedGeneration": 2})
    assert [path for path, _, _ in server.sent if path.endswith("/status")] == []


@pytest.mark.parametrize(
    ("code", "logged", "reported"), [(404, False, 0), (409, False, 1), (403, True, 1), (500, True, 1), (0, True, 1)]
)
def test_a_refused_write_is_reported(code: int, logged: bool, reported: int, caplog: pytest.LogCaptureFixture) -> None:
    """A refused write is reported for its repetition, with a log line unless another client was faster; a Topic that
    was deleted needs none.
    """
    topic, refused = resource_bodies.topic("orders"), list[Resource]()
    server = Server(topic)
    server.error = ApiError(code, "why")
    assert written(server, topic, finalizer=True, refused=refused) is topic
    assert ("the finalizer could not be written: why" in caplog.text) is logged
    assert len(refused) >= reported
    assert set(map(id, refused)) == ({id(topic)} if reported else set())


@pytest.mark.parametrize(("code", "reason"), [(403, "NoPermission"), (500, "Unreachable")])
def test_a_topic_without_its_finalizer_is_not_ready(code: int, reason: str) -> None:
    """Until the finalizer is written the status is not Ready and has the error of the API server: a deletion would
    keep the topic.
    """
    topic = resource_bodies.topic("orders")
    server = Server(topic)
    server.error, server.refused_path = ApiError(code, "the server's words"), "/orders"
    wanted = {"conditions": [{"type": "Ready", "status": "True"}], "topicName": "orders"}
    written(server, topic, finalizer=True, status=wanted)
    ((path, _, body),) = server.sent
    ready = body["status"]["conditions"][0]
    assert path.endswith("/status")
    assert body["status"]["topicName"] == "orders"
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "False", reason)
    assert ready["message"] == "the finalizer that holds a deletion cannot be written: the server's words"
    held = resource_bodies.topic("orders", meta={"finalizers": [FINALIZER]})
    server.sent.clear()
    written(server, held, finalizer=True, status=wanted, applied_to=["prod"])  # only its clusters are refused
    assert [body["status"] for _, _, body in server.sent] == [wanted]


@pytest.mark.parametrize(("error", "pause"), [(ApiError(429, "slow", 7.0), 7.0), (ApiError(0, "no answer"), 1.0)])
@virtual_time
async def test_no_write_is_sent_before_the_api_server_wants_one(error: ApiError, pause: float) -> None:
    """After ``Retry-After``, and for a second without an answer, every write is left to its repetition unsent."""
    topic, refused = resource_bodies.topic("orders"), list[Resource]()
    server = Server(topic)
    writer = StatusWriter(cast(KubernetesClient, server), lambda _: None, refused.append)
    server.error = error
    await writer.write_status(topic, {"observedGeneration": 1})
    server.error = None
    for _ in range(3):
        await writer.write_topic(topic, {"observedGeneration": 1}, finalizer=True, applied_to=[])
    assert server.sent == []
    assert len(refused) == 7
    before = asyncio.get_running_loop().time()
    await writer.wait_for_pause()
    assert asyncio.get_running_loop().time() - before == pytest.approx(pause)
    await writer.write_status(topic, {"observedGeneration": 1})
    assert len(server.sent) == 1


def test_events_wait_for_the_context_of_a_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events wait for the context of a kopf handler, up to a limit; afterwards the operator posts each at once."""
    queue: contextvars.ContextVar[list[str]] = contextvars.ContextVar("queue")

    def event(body: Mapping[str, Any], *, type: str, reason: str, message: str) -> None:
        queue.get().append(f"{type} {reason} {message} {body['metadata']['name']}")

    monkeypatch.setattr(kopf, "event", event)
    recorder, topic, posted = EventRecorder(), resource_bodies.topic("orders"), list[str]()
    for number in range(MAX_PENDING_EVENTS + 1):
        recorder.record(topic, Event("TopicCreated", str(number)))

    def handler() -> None:
        queue.set(posted)
        recorder.attach()
        recorder.attach()

    contextvars.copy_context().run(handler)
    assert (len(posted), posted[0]) == (MAX_PENDING_EVENTS, "Normal TopicCreated 1 orders")
    recorder.record(topic, Event("DataLoss", "é" * 1000, warning=True))
    assert posted[-1] == f"Warning DataLoss {'é' * 510}... orders"


def test_few_writes_are_in_progress_at_a_time() -> None:
    """A request is created only when there is room, so ten thousand statuses are not in memory at once."""
    running, most, made = [0], [0], [0]

    async def write() -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        await asyncio.sleep(0)
        running[0] -= 1

    def writes() -> Iterator[Coroutine[Any, Any, None]]:
        for _ in range(200):
            made[0] += 1
            assert made[0] - finished[0] <= 32
            yield count(write())

    finished = [0]

    async def count(work: Coroutine[Any, Any, None]) -> None:
        await work
        finished[0] += 1

    server = Server(resource_bodies.topic("orders"))
    asyncio.run(StatusWriter(cast(KubernetesClient, server), lambda _: None, lambda _: None).run_all(writes()))
    assert (finished, running, most) == ([200], [0], [32])


def test_a_defect_of_a_write_ends_the_pass() -> None:
    """An error that is none of the API server is a defect, and is not passed over in silence."""

    async def fail() -> None:
        raise ValueError("a mistake of ours")

    for number in (1, 40):
        writer = StatusWriter(
            cast(KubernetesClient, Server(resource_bodies.topic("orders"))), lambda _: None, lambda _: None
        )
        with pytest.raises(ValueError, match="a mistake of ours"):
            asyncio.run(writer.run_all(fail() for _ in range(number)))

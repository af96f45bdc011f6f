"""Events: the operator reports each fact once, over passes, restarts and outages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client import generate_latest

from support import states
from support.kubernetes import resource_bodies
from topiarist.adapters.memory import MemoryCluster
from topiarist.desired.merge import merge
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.api import client
from topiarist.kubernetes.api.resources import Resource
from topiarist.kubernetes.cache import build_candidate, select_candidates
from topiarist.kubernetes.metrics import Metrics
from topiarist.kubernetes.moves import TopicMoves
from topiarist.kubernetes.reconciler import ReconcileRequest, ReconcileResult, SyncState, TopicResult, reconcile_cluster
from topiarist.kubernetes.status.cluster import cluster_status
from topiarist.kubernetes.status.topic import topic_status
from topiarist.kubernetes.status.writer import (
    Event,
    annotation_events,
    cluster_events,
    left_events,
    stall_events,
    topic_events,
    unusable_events,
)
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import CreateTopic, Issue, TopicPlan
from topiarist.model.state import ClusterState, OwnershipRecord, WriteBlock
from unit.kubernetes.topic_results import NOW, make_result, spec_of

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
    stage = Stage(resource_bodies.cluster(), resource_bodies.topic("orders", config={"flush.ms": 7}), states.cluster())
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
    found = states.topic("orders", managed_keys=None, config={"flush.ms": "7"})
    stage = Stage(
        resource_bodies.cluster(adopt=["*"]),
        resource_bodies.topic("orders", config={"flush.ms": 7}),
        states.cluster(found),
    )
    assert reasons(stage.passes()) == [("Adopted", False)]
    assert stage.passes() == []
    topic = stage.port.state.topics["orders"]
    stage.port.state = replace(
        stage.port.state, topics={"orders": replace(topic, record=OwnershipRecord(OWNER), record_valid=True)}
    )
    assert stage.passes() == []
    assert stage.port.writes == 2


def test_drift_and_its_end_are_told_once() -> None:
    """Drift and its end each yield one Event, also if another client ended it."""
    stage = Stage(resource_bodies.cluster(), resource_bodies.topic("orders", config={"flush.ms": 7}), states.cluster())
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
    stage = Stage(home, resource_bodies.topic("orders", config={"flush.ms": 7}), states.cluster())
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
    stage = Stage(resource_bodies.cluster(), resource_bodies.topic("orders", config={"flush.ms": 7}), states.cluster())
    stage.passes()
    stage.outside(flush_ms="9")
    assert reasons(stage.passes()) == [("DriftDetected", True)]
    stage.home = resource_bodies.cluster(driftPolicy="Correct")
    assert stage.passes() == [Event("DriftCorrected", "prod: configure flush.ms 9 -> 7")]


@pytest.mark.parametrize(
    ("spec", "state", "word"),
    [
        ({"config": {"retention.ms": "soon"}}, states.cluster(), "ValidationFailed"),
        ({"partitions": 2}, states.cluster(states.topic("orders", owner=OWNER)), "PartitionDecreaseRefused"),
        ({"config": {"flush.ms": 1}}, states.cluster(states.topic("orders", managed_keys=None)), "NotAdopted"),
        ({}, states.cluster(dangling_records={"orders": OwnershipRecord(OWNER)}), "DeletedExternally"),
        ({"replicationFactor": 9}, states.cluster(), "TooFewBrokers"),
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


def test_a_conflict_of_claims_is_a_warning() -> None:
    """A conflict of claims yields a warning for the resource that lost the claim."""
    topic = resource_bodies.topic("orders")
    found = make_result(topic, SyncState.REFUSED, Reason.RESOURCE_CONFLICT)
    assert reasons([*topic_events("prod", {}, found)]) == [("ResourceConflict", True)]


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


def test_a_cluster_that_goes_and_comes_is_told_once_each() -> None:
    """Each new reason of a Cluster yields one Event; its first success yields none."""
    told.clear()
    home = resource_bodies.cluster()
    away = TopiaristError(Reason.UNREACHABLE, "no answer")
    wrong = TopiaristError(Reason.WRONG_CLUSTER, "another")
    frozen = states.cluster(write_block=WriteBlock(Reason.FROZEN, "frozen: for the night"))
    up = states.cluster()
    for state, error in ((up, None), (up, None), (None, away), (None, away), (None, wrong), (up, None)):
        home = condition(home, state, error)
    home = condition(home, frozen)
    condition(home, frozen)
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
    ]


def test_an_outage_at_the_very_start_is_told() -> None:
    """An outage in the first pass yields an Event, although there is no previous status."""
    told.clear()
    condition(resource_bodies.cluster(), None, TopiaristError(Reason.UNREACHABLE, "no answer"))
    assert reasons(told[0]) == [("ClusterUnavailable", True)]


def test_views_without_an_outcome_tell_nothing() -> None:
    """A result without an outcome, such as an observed plan, yields no Event."""
    found: TopicResult = make_result(resource_bodies.topic("orders"), SyncState.OBSERVED)
    assert [*topic_events("prod", {}, found)] == []


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
        ({}, ready("InvalidManifest"), "ValidationFailed"),
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
    """A Topic that no pass includes and a Policy that withholds changes have one warning for each reason and text."""
    wanted = [Event(reason, "why", warning=True)] if reason else []
    assert [*unusable_events(with_status(resource_bodies.policy(), **before), after)] == wanted
    more = {**after, "annotations": ["x is not known"]}
    found = [*unusable_events(with_status(resource_bodies.policy(), **before), more)]
    assert found == [Event("InvalidAnnotation", "x is not known", warning=True), *wanted]


@pytest.mark.parametrize(("result", "count"), [(Result.DONE, 1), (Result.UNCHANGED, 0), (Result.FAILED, 0)])
def test_an_event_is_about_a_write_of_the_operator(result: Result, count: int) -> None:
    """A change that another client made first, and one that failed, have no Event."""
    plan = TopicPlan("orders", changes=(CreateTopic(states.spread_replicas(3), {}),))
    found = make_result(resource_bodies.topic("orders"), SyncState.CHANGED)
    assert len([*topic_events("prod", {}, found._replace(plan=plan, outcome=Outcome("orders", result)))]) == count


def test_a_cluster_that_a_topic_leaves_is_a_warning() -> None:
    """A Topic that was applied on a cluster leaves its topic there; a cluster without a plan so far is no news."""
    parts = [{"name": "eu", "generation": 1}, {"name": "us", "generation": 2}, {"name": "ap"}]
    topic = resource_bodies.topic("orders", status={"clusters": parts})
    message = "us: the Topic does not declare this cluster any more; its topic and record stay there"
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
    assert [event.message for event in topic_events("prod", previous, result)] == [message] * bool(message)

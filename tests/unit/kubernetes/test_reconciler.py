"""One pass of the operator over one cluster in memory: applied changes, withheld changes and messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Self

import pytest
from msgspec.structs import replace

from support import builders
from support.kubernetes import resource_bodies
from support.kubernetes.passes import (
    DELETING_META,
    LONG,
    OWNER,
    SHORT,
    approval_command,
    make_request,
    make_result,
    owned_topic,
    reconcile_topics,
    refusal_reasons,
    with_approval,
)
from support.memory_cluster import MemoryCluster
from topiarist.adapters.size_limits import REQUEST_LIMITS
from topiarist.desired import parse
from topiarist.desired.shared_specs import merge
from topiarist.errors import Reason, TopiaristError
from topiarist.filters.chain import filter_changes
from topiarist.kafka.types import Broker
from topiarist.kubernetes import client, reconciler
from topiarist.kubernetes.approval import annotation_errors, format_issue, recent_deletions
from topiarist.kubernetes.moves import ClusterMoves, MoveTracker, TopicMoves
from topiarist.kubernetes.reconciler import PlanCache, ReconcileResult, SyncState, TopicResult, reconcile_cluster
from topiarist.kubernetes.resources import FINALIZER, Resource
from topiarist.kubernetes.status_writer import topic_events
from topiarist.model.moves import BatchRecord, LeaderChange, MoveProgress, OwnValue, ReplicaMove, RequestedReassignment
from topiarist.model.outcome import Outcome, Result, TopicProgress
from topiarist.model.plan import DeleteTopic, Issue, Plan, RunOptions, TopicPlan
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import (
    ClusterState,
    DeletionRecord,
    OperatorMemory,
    OwnershipRecord,
    PartitionState,
    ReadError,
    TopicInspection,
    TopicState,
    WriteBlock,
)
from topiarist.model.usage import Evidence, GroupType, TopicSample, UsageRead
from topiarist.ports import NO_CONTROL, MoveOptions, WriteControl, WriteGuard, write_all
from topiarist.usage import TopicGroup, add_groups


def test_a_topic_that_was_made_otherwise_is_looked_at_again_soon() -> None:
    """The pass reports what the brokers made, with an Event; the next one comes soon, and goes on from what exists."""

    class Otherwise(MemoryCluster):
        """A cluster that makes one partition of three, and says so."""

        def apply(self, plan: Plan, stop: Callable[[], bool], control: WriteControl = NO_CONTROL) -> Iterator[Outcome]:
            for _ in super().apply(plan, stop, control):
                self.state = replace(self.state, topics={"orders": owned_topic("orders", 1)})
                yield Outcome("orders", Result.DIFFERS, Reason.MADE_OTHERWISE, "wanted 3 partitions, found 1")

    port = Otherwise(builders.state())
    wanted = make_request(resource_bodies.cluster(), resource_bodies.topic("orders"))
    view = reconcile_topics(port, wanted)["orders"]
    assert (view.state, refusal_reasons(view)) == (SyncState.REFUSED, [Reason.MADE_OTHERWISE])
    assert view.is_in_progress
    events = [*topic_events("main", {}, view)]
    assert [(each.reason, each.warning) for each in events] == [("MadeOtherwise", True)]
    assert "wanted 3 partitions, found 1" in events[0].message
    later = reconcile_topics(MemoryCluster(port.state), wanted)["orders"]
    assert (later.state, refusal_reasons(later)) == (SyncState.CHANGED, [])


def test_a_topic_that_cannot_be_read_is_refused_alone() -> None:
    """Its condition and its Event have the cause; the other topics of the Cluster are reconciled."""
    message = "its configs cannot be read: User:topiarist lacks DescribeConfigs on topic denied"
    state = builders.state(topic_errors={"denied": ReadError("topic denied", message)})
    port = MemoryCluster(state)
    topics = [resource_bodies.topic(name) for name in ("denied", "orders")]
    views = reconcile_topics(port, make_request(resource_bodies.cluster(), *topics))
    assert {name: view.state for name, view in views.items()} == {
        "denied": SyncState.REFUSED,
        "orders": SyncState.CHANGED,
    }
    assert refusal_reasons(views["denied"]) == [Reason.TOPIC_UNREADABLE]
    (event,) = topic_events("main", {}, views["denied"])
    assert (event.reason, event.warning) == ("TopicUnreadable", True)
    assert message in event.message
    assert port.state.topics.keys() == {"orders"}


def set_back(port: MemoryCluster, retention: str) -> None:
    """Change the retention of the topic as another client would: its ownership record stays."""
    topic = replace(port.state.topics["orders"], config={"retention.ms": retention})
    port.state = replace(port.state, topics={"orders": topic})


def test_a_consent_counts_once() -> None:
    """A consent counts once: the operator refuses the same change later, after an external change or a spec change."""
    home = resource_bodies.cluster(driftPolicy="Correct", allowRisk=["Disruptive", "DataLoss"])
    state = builders.state(owned_topic("orders", retention_ms=LONG))
    topic = with_approval(home, resource_bodies.topic("orders", config={"retention.ms": SHORT}), state)
    port = MemoryCluster(state)
    for again in range(3):
        view = reconcile_topics(port, make_request(home, topic))["orders"]
        assert view.state is SyncState.SYNCED
        set_back(port, LONG)
        refused = reconcile_topics(port, make_request(home, topic))["orders"]
        assert refusal_reasons(refused) == [Reason.DATA_LOSS], again
        annotation, digest = approval_command(refused)
        assert digest != topic.source.annotations[annotation]
        topic = resource_bodies.updated_body(topic, annotations={annotation: digest})


def test_a_consent_that_was_never_used_up_ends_with_the_need_for_it() -> None:
    """A consent is used up once its change is made, also if the operator was killed or another client made the
    change.
    """
    home = resource_bodies.cluster(driftPolicy="Correct", allowRisk=["DataLoss"])
    state = builders.state(owned_topic("orders", retention_ms=LONG))
    topic = with_approval(home, resource_bodies.topic("orders", config={"retention.ms": SHORT}), state)
    port = MemoryCluster(builders.state(owned_topic("orders", retention_ms=SHORT)))
    assert reconcile_topics(port, make_request(home, topic))["orders"].state is SyncState.SYNCED
    set_back(port, LONG)
    assert refusal_reasons(reconcile_topics(port, make_request(home, topic))["orders"]) == [Reason.DATA_LOSS]


def test_owned_topics_without_a_topic_are_counted() -> None:
    """Topics with the operator's record count that no Topic declares, readable or not; those of other owners do not."""
    there = builders.state(*(owned_topic(name) for name in ("orders", "left", "broken")), builders.topic("foreign"))
    request = replace(
        make_request(resource_bodies.cluster(), resource_bodies.topic("orders")),
        unreadable_topics=frozenset({"broken"}),
    )
    result = reconcile_cluster(MemoryCluster(there), request, lambda: False)
    assert (result.error, result.undeclared) == (None, 1)


@pytest.mark.parametrize("allowed", [True, False])
def test_ensure_absent_takes_the_clusters_word(allowed: bool) -> None:
    """``ensure: Absent`` needs the Cluster's allowDeletion; after the deletion the topic stays absent."""
    port = MemoryCluster(builders.state(owned_topic("orders")))
    wanted = make_request(
        resource_bodies.cluster(allowDeletion=allowed), resource_bodies.topic("orders", ensure="Absent")
    )
    view = reconcile_topics(port, wanted)["orders"]
    if allowed:
        assert (view.state, view.is_in_progress) == (SyncState.WAITING, True)
        assert "orders" not in port.state.topics
        view = reconcile_topics(port, wanted)["orders"]
        assert (view.state, view.is_in_progress) == (SyncState.ABSENT, False)
    else:
        assert (view.state, refusal_reasons(view)) == (SyncState.REFUSED, [Reason.DATA_LOSS])


def test_a_topic_whose_resource_is_deleted_goes_with_it() -> None:
    """A topic is deleted with its resource only if the resource has topiarist's finalizer and is being deleted."""
    port = MemoryCluster(builders.state(owned_topic("orders"), owned_topic("kept"), owned_topic("there")))
    going = resource_bodies.topic("orders", deletionPolicy="Delete", meta=DELETING_META)
    kept = resource_bodies.topic("kept", meta={**DELETING_META, "finalizers": ["another"]})
    there = resource_bodies.topic("there", deletionPolicy="Delete", meta={"finalizers": [FINALIZER]})
    views = reconcile_topics(port, make_request(resource_bodies.cluster(allowDeletion=True), going, kept, there))
    assert "kept" not in views
    assert [*port.state.topics] == ["kept", "there"]


def deleted_today(count: int) -> dict[str, OwnershipRecord]:
    """Return the records of this number of topics that the operator deleted just now."""
    memory = OperatorMemory(deletions_ms=(int(client.utc_now().timestamp() * 1000),))
    return {f"gone-{number}": OwnershipRecord(OWNER, deleted=True, memory=memory) for number in range(count)}


def test_a_budget_that_is_overdrawn_has_no_room() -> None:
    """An exceeded budget permits no further change, and withholds only the changes that it counts."""
    home = resource_bodies.cluster(allowDeletion=True)
    port = MemoryCluster(builders.state(owned_topic("orders"), dangling_records=deleted_today(7)))
    topics = resource_bodies.topic("orders", ensure="Absent"), resource_bodies.topic("new")
    views = reconcile_topics(port, make_request(home, *topics))
    (refusal,) = views["orders"].refusals
    assert refusal.message == "1 deletion, 0 allowed (deletions)"
    shown = "the changes of all topics together exceed the budget deletions of the Cluster [partitions 3 -> 0]: "
    assert format_issue(refusal).startswith(shown)
    assert format_issue(refusal).endswith("; deletions count for 24 hours")
    assert views["new"].state is SyncState.CHANGED


def test_only_what_asks_for_it_goes_with_its_resource() -> None:
    """A retained or observed topic remains after its resource is deleted, with any finalizer."""
    observed = {"mode": "Observe", "deletionPolicy": "Delete"}
    cases: list[tuple[dict[str, Any], SyncState]] = [({}, SyncState.SYNCED), (observed, SyncState.OBSERVED)]
    for spec, state in cases:
        port = MemoryCluster(builders.state(owned_topic("orders")))
        going = resource_bodies.topic("orders", meta=DELETING_META, **spec)
        assert (
            reconcile_topics(port, make_request(resource_bodies.cluster(allowDeletion=True), going))["orders"].state
            is state
        )
        assert [*port.state.topics] == ["orders"]


def test_a_topic_deleted_by_others_is_not_made_again_in_silence() -> None:
    """The operator does not recreate an externally deleted topic under either drift policy; two approvals permit it."""
    gone = builders.state(dangling_records={"orders": OwnershipRecord(OWNER)})
    plain = resource_bodies.topic("orders")
    answered = with_approval(resource_bodies.cluster(), plain, gone)
    for home, topic, state in (
        (resource_bodies.cluster(driftPolicy="Correct"), plain, SyncState.REFUSED),
        (resource_bodies.cluster(driftPolicy="Correct"), answered, SyncState.REFUSED),
        (resource_bodies.cluster(allowRisk=["DataLoss"]), plain, SyncState.REFUSED),
        (resource_bodies.cluster(allowRisk=["DataLoss"]), answered, SyncState.CHANGED),
    ):
        view = reconcile_topics(MemoryCluster(gone), make_request(home, topic))["orders"]
        assert view.state is state
        assert refusal_reasons(view) == ([Reason.DELETED_EXTERNALLY] if state is SyncState.REFUSED else [])


def test_a_cluster_that_cannot_be_read_ends_the_pass() -> None:
    """An unreadable cluster ends the pass with its reason; refusals that need no cluster state are still reported."""

    class Away(MemoryCluster):
        def read(self) -> Any:
            raise TopiaristError(Reason.UNREACHABLE, "no answer")

    stranger = resource_bodies.topic("orders", meta={"namespace": "elsewhere"})
    seen: ReconcileResult = reconcile_cluster(
        Away(builders.state()),
        make_request(resource_bodies.cluster(), stranger, resource_bodies.topic("mine")),
        lambda: False,
    )
    assert seen.error is not None
    assert seen.error.reason is Reason.UNREACHABLE
    assert [refusal_reasons(view) for view in seen.topic_results] == [[Reason.NOT_ALLOWED]]


def test_a_pass_over_another_kafka_cluster_writes_nothing() -> None:
    """Its id is neither the one that the Cluster has claimed nor the declared one, which counts without a claim."""
    home, topic = resource_bodies.cluster(clusterId=builders.CLUSTER_ID), resource_bodies.topic("orders")
    for state, claimed in ((builders.state(), "another"), (builders.state(cluster_id="another"), "")):
        port = MemoryCluster(state)
        seen = reconcile_cluster(port, make_request(home, topic, claimed_id=claimed), lambda: False)
        assert seen.error is not None
        assert (seen.error.reason, seen.topic_results, port.writes) == (Reason.WRONG_CLUSTER, [], 0)


def test_records_that_cannot_be_read_end_the_pass() -> None:
    """A Topic that is let go is not released as one that never was the operator's; nothing is planned."""
    lost = WriteBlock(Reason.RECORDS_LOST, "the records of topiarist cannot be read: gone")
    unreadable = replace(builders.state(), write_block=lost, records_error=lost)
    leaving = resource_bodies.topic("orders", deletionPolicy="Delete", meta=DELETING_META)
    seen = reconcile_cluster(MemoryCluster(unreadable), make_request(resource_bodies.cluster(), leaving), lambda: False)
    assert seen.error is not None
    assert (seen.error.reason, seen.topic_results) == (Reason.RECORDS_LOST, [])


def test_a_topic_is_read_again_before_its_deletion() -> None:
    """A Topic that does not exist any more deletes nothing; one that is as it was does."""
    leaving = resource_bodies.topic("orders", deletionPolicy="Delete", meta=DELETING_META)
    for current, left in ((None, {"orders"}), (leaving, set())):
        port = MemoryCluster(builders.state(owned_topic("orders")))
        request = make_request(
            resource_bodies.cluster(allowDeletion=True), leaving, read_topic=lambda _, it=current: it
        )
        reconcile_topics(port, request)
        assert {*port.state.topics} == left


# Topics that are not planned again while every input of their plan is unchanged.

Shared = tuple[ClusterState, ClusterSpec, RunOptions]

RUN = RunOptions(owner="k8s/shop/topiarist")


def spec(cluster: ClusterSpec, name: str = "orders") -> TopicSpec:
    """Return the spec of a Topic."""
    manifest = resource_bodies.topic(name).manifest
    assert manifest is not None
    return merge(manifest, cluster)


def shared() -> Shared:
    """Return a cluster with a synced topic, as a pass reads it."""
    manifest = resource_bodies.cluster().manifest
    assert manifest is not None
    return builders.state(builders.topic("orders", 3, owner=RUN.owner)), parse.parse_cluster_spec(manifest), RUN


def test_a_quiet_topic_is_planned_once() -> None:
    """It is planned again after a change; a topic with a message is planned each time, and another spec object anew."""
    state, cluster, run = shared()
    wanted, quiet = spec(cluster), PlanCache()
    assert quiet.changed_specs(state, cluster, run, [wanted]) == [wanted]
    quiet.update(wanted, state.topics["orders"], quiet=False)
    assert quiet.changed_specs(state, cluster, run, [wanted]) == [wanted]
    quiet.update(wanted, state.topics["orders"], quiet=True)
    assert quiet.changed_specs(state, cluster, run, [wanted]) == []
    later = replace(state, size_limits=REQUEST_LIMITS, requested_at_ms=1, batch_at_ms=1)  # no plan depends on them
    assert quiet.changed_specs(later, cluster, run, [wanted]) == []
    again = spec(cluster)
    assert quiet.changed_specs(state, cluster, run, [again]) == [again]
    quiet.update(wanted, state.topics["orders"], quiet=False)
    assert quiet.changed_specs(state, cluster, run, [wanted]) == [wanted]


@pytest.mark.parametrize(
    "change",
    [
        lambda state, cluster, run: (replace(state, brokers=(*state.brokers, Broker(99, None))), cluster, run),
        lambda state, cluster, run: (replace(state, pending_deletions=frozenset({"orders"})), cluster, run),
        lambda state, cluster, run: (replace(state, broker_defaults={"min.insync.replicas": "2"}), cluster, run),
        lambda state, cluster, run: (replace(state, topics={}), cluster, run),
        lambda state, cluster, run: (
            replace(state, topics={"orders": replace(state.topics["orders"], config={"flush.ms": "7"})}), cluster, run
        ),
        lambda state, cluster, run: (state, replace(cluster, exclude_brokers=frozenset({1})), run),
        lambda state, cluster, run: (state, cluster, replace(run, adopt=("*",))),
    ],
)  # fmt: skip
def test_what_a_plan_is_made_from_breaks_the_quiet(
    change: Callable[[ClusterState, ClusterSpec, RunOptions], Shared],
) -> None:
    """A change of the topic, or of a shared input, causes a new plan."""
    state, cluster, run = shared()
    wanted, quiet = spec(cluster), PlanCache()
    quiet.changed_specs(state, cluster, run, [wanted])
    quiet.update(wanted, state.topics["orders"], quiet=True)
    assert quiet.changed_specs(*change(state, cluster, run), [wanted]) == [wanted]


@pytest.mark.parametrize("field", ["reassigning_topics", "stale_reassignments"])
def test_a_topic_that_a_reassignment_names_is_planned_each_time(field: str) -> None:
    """It is planned until the reassignment has ended, also if it had nothing to report before; others stay quiet."""
    state, cluster, run = shared()
    wanted, other, quiet = spec(cluster), spec(cluster, "pay"), PlanCache()
    during = replace(state, **{field: frozenset({"orders"})})
    found = []
    for now in (state, during, during, state, state):
        found.append([each.topic for each in quiet.changed_specs(now, cluster, run, [wanted, other])])
        for each in (wanted, other):
            quiet.update(each, now.topics.get(each.topic), quiet=True)
    assert found == [["orders", "pay"], ["orders"], ["orders"], ["orders"], []]


def test_a_topic_that_was_written_is_planned_again() -> None:
    """Also if the next read still shows it as it was before the write: it may not have been made."""

    class Late(MemoryCluster):
        def read(self) -> ClusterState:
            return first

    first = builders.state(owned_topic("orders"))
    topic = resource_bodies.topic("orders", config={"flush.ms": 7})
    request = make_request(resource_bodies.cluster(), topic, plan_cache=PlanCache())
    for _ in range(2):
        view = reconcile_topics(Late(first), request)["orders"]
        assert view.state is SyncState.SYNCED
        assert view.plan is not None


# What a pass of the operator makes of what became of topics: written, taken over, refused, or nothing at all.


class Slow(MemoryCluster):
    """Its controller takes partitions over when ``late`` is false; who asks while ``away`` is told so."""

    def __init__(self, *topics: TopicState) -> None:
        super().__init__(builders.state(*topics))
        self.late, self.away = True, False
        self.asked: list[set[str]] = []

    def poll(self, topics: Mapping[str, Collection[int]]) -> Mapping[str, TopicProgress]:
        self.asked.append({*topics})
        if self.away:
            raise TopiaristError(Reason.SESSION_LOST, "the session has ended")
        found = super().poll(topics)
        return {name: sight._replace(initialized=frozenset()) if self.late else sight for name, sight in found.items()}


def changed(name: str) -> Resource:
    """A Topic with written partitions in its status."""
    return resource_bodies.topic(name, status={"clusters": [{"name": "prod", "state": "Changed"}]})


def test_what_was_written_is_changed_until_the_controller_has_it() -> None:
    """It is polled at each pass until then; other topics and initialized partitions are not polled."""
    port, quiet = Slow(owned_topic("orders"), owned_topic("old")), PlanCache()
    wanted = make_request(resource_bodies.cluster(), changed("orders"), resource_bodies.topic("old"), plan_cache=quiet)
    for late, state in ((True, SyncState.CHANGED), (True, SyncState.CHANGED), (False, SyncState.SYNCED)):
        port.late = late
        views = reconcile_topics(port, wanted)
        assert (views["orders"].state, views["old"].state) == (state, SyncState.SYNCED)
        assert views["orders"].is_in_progress is late
    reconcile_topics(port, wanted)
    assert port.asked == [{"orders"}] * 3


def test_a_topic_is_polled_although_its_status_was_refused() -> None:
    """A topic with new partitions is polled until they are initialized, also if no status says that it was changed."""
    port, quiet = Slow(), PlanCache()
    wanted = make_request(resource_bodies.cluster(), resource_bodies.topic("orders"), plan_cache=quiet)
    for late, away, state in (
        (True, False, SyncState.CHANGED),
        (True, False, SyncState.CHANGED),
        (True, True, SyncState.SYNCED),
        (True, False, SyncState.CHANGED),
        (False, False, SyncState.SYNCED),
    ):
        port.late, port.away = late, away
        seen = reconcile_cluster(port, wanted, lambda: False)
        assert ([view.state for view in seen.topic_results], seen.error is None) == ([state], not away)
    assert port.asked == [{"orders"}] * 4


def test_a_controller_that_cannot_be_seen_ends_the_pass() -> None:
    """With its reason, and with what was seen until then; the next pass asks again."""
    port = Slow(owned_topic("orders"))
    wanted = make_request(resource_bodies.cluster(), changed("orders"), plan_cache=PlanCache())
    port.away = True
    seen = reconcile_cluster(port, wanted, lambda: False)
    assert seen.error is not None
    assert seen.error.reason is Reason.SESSION_LOST
    assert [view.state for view in seen.topic_results] == [SyncState.SYNCED]
    port.away = False
    assert reconcile_topics(port, wanted)["orders"].state is SyncState.CHANGED


def test_what_is_written_is_not_asked_about_in_the_same_pass() -> None:
    """Its partitions are new: that they are not taken over is known."""
    port = Slow(owned_topic("orders"))
    again = resource_bodies.topic("orders", partitions=6, status={"clusters": [{"name": "prod", "state": "Changed"}]})
    assert reconcile_topics(port, make_request(resource_bodies.cluster(), again))["orders"].state is SyncState.CHANGED
    assert port.asked == []


class Losing(MemoryCluster):
    """Its session ends behind the first topic."""

    def apply(self, plan: Plan, stop: Callable[[], bool], control: WriteControl = NO_CONTROL) -> Iterator[Outcome]:
        yield next(iter(super().apply(plan, stop, control)))
        raise TopiaristError(Reason.SESSION_LOST, "the session has ended")


def test_a_pass_that_ends_early_has_done_what_it_has_done() -> None:
    """With the reason; what was not sent is for the next pass."""
    port = Losing(builders.state(owned_topic("a"), owned_topic("b")))
    topics = [resource_bodies.topic(name, config={"flush.ms": 7}) for name in "ab"]
    seen = reconcile_cluster(port, make_request(resource_bodies.cluster(), *topics), lambda: False)
    assert seen.error is not None
    assert seen.error.reason is Reason.SESSION_LOST
    assert [(view.state, view.is_deferred) for view in seen.topic_results] == [
        (SyncState.SYNCED, False),
        (SyncState.WAITING, True),
    ]


class Answering(MemoryCluster):
    """A cluster that writes nothing and returns a given outcome for each topic."""

    def __init__(self, outcome: Outcome, *topics: TopicState) -> None:
        super().__init__(builders.state(*topics))
        self.outcome = outcome

    def apply(self, plan: Plan, stop: Callable[[], bool], control: WriteControl = NO_CONTROL) -> Iterator[Outcome]:
        for topic in plan.actionable_topics():
            yield self.outcome._replace(topic=topic.topic)


@pytest.mark.parametrize(
    ("outcome", "state", "wanted"),
    [
        (Outcome("", Result.UNCHANGED), SyncState.SYNCED, []),
        (
            Outcome("", Result.CONFLICT, Reason.STATE_CONFLICT, "flush.ms was 5, and is 6 now"),
            SyncState.WAITING,
            [(Reason.STATE_CONFLICT, "flush.ms was 5, and is 6 now")],
        ),
        (Outcome("", Result.SKIPPED), SyncState.WAITING, [(Reason.NOT_SENT, "skipped")]),
        (
            Outcome("", Result.UNKNOWN, Reason.SESSION_LOST, "no answer"),
            SyncState.WAITING,
            [(Reason.SESSION_LOST, "no answer")],
        ),
        (Outcome("", Result.REFUSED, Reason.FROZEN, "frozen"), SyncState.REFUSED, [(Reason.FROZEN, "frozen")]),
        (Outcome("", Result.FAILED, Reason.NO_PERMISSION, "no"), SyncState.REFUSED, [(Reason.NO_PERMISSION, "no")]),
    ],
)
def test_what_was_not_done_is_told(outcome: Outcome, state: SyncState, wanted: list[tuple[Reason, str]]) -> None:
    """The status has the reason or the result; a change by another client counts as done."""
    port = Answering(outcome, owned_topic("orders"))
    view = reconcile_topics(
        port, make_request(resource_bodies.cluster(), resource_bodies.topic("orders", config={"flush.ms": 7}))
    )["orders"]
    assert view.state is state
    assert [(refusal.reason, refusal.message) for refusal in view.refusals] == wanted
    assert view.is_deferred is (outcome.result in (Result.SKIPPED, Result.CONFLICT))
    assert view.is_in_progress is view.is_deferred


def test_what_was_refused_is_told_beside_what_failed() -> None:
    """A topic may have both."""
    port = Answering(Outcome("", Result.SKIPPED), owned_topic("orders", retention_ms=LONG))
    topic = resource_bodies.topic("orders", partitions=6, config={"retention.ms": SHORT})
    assert refusal_reasons(reconcile_topics(port, make_request(resource_bodies.cluster(), topic))["orders"]) == [
        Reason.DATA_LOSS,
        Reason.NOT_SENT,
    ]


def test_what_a_paused_topic_would_do_is_told() -> None:
    """Also that it would be deleted, as it asks for itself or by going; nothing of it is done."""
    pause = {"topiarist.dev/paused": "true"}
    home = resource_bodies.cluster(allowDeletion=True)
    for topic in (
        resource_bodies.topic("orders", ensure="Absent", meta={"annotations": pause}),
        resource_bodies.topic("orders", deletionPolicy="Delete", meta={**DELETING_META, "annotations": pause}),
    ):
        port = MemoryCluster(builders.state(owned_topic("orders")))
        view = reconcile_topics(port, make_request(home, topic))["orders"]
        assert view.state is SyncState.PAUSED
        assert view.plan is not None
        assert [type(change) for change in view.plan.changes] == [DeleteTopic]
        assert [*port.state.topics] == ["orders"]


def test_what_says_nothing_is_not_planned_again() -> None:
    """A topic in step, and one that is absent as asked; whatever has something to say is."""
    planned: list[list[str]] = []

    class Counting(PlanCache):
        def changed_specs(self, *words: Any) -> list[TopicSpec]:
            found = super().changed_specs(*words)
            planned.append([spec.topic for spec in found])
            return found

    port = MemoryCluster(
        builders.state(owned_topic("calm"), owned_topic("refused", retention_ms=LONG), owned_topic("set"))
    )
    topics = (
        resource_bodies.topic("calm"),
        resource_bodies.topic("gone", ensure="Absent"),
        resource_bodies.topic("set", config={"flush.ms": 7}),
    )
    refused = resource_bodies.topic("refused", config={"retention.ms": SHORT})
    wanted = make_request(resource_bodies.cluster(), *topics, refused, plan_cache=Counting())
    for _ in range(3):
        reconcile_topics(port, wanted)
    assert planned == [["calm", "gone", "refused", "set"], ["refused", "set"], ["refused"]]


class Meddled(MemoryCluster):
    """When ``b`` is written, another client is faster and changes ``a``, which was just written."""

    def __init__(self, *topics: TopicState) -> None:
        super().__init__(builders.state(*topics))
        self.calm = False

    def _apply_topic(self, plan: Plan, topic: TopicPlan, guard: WriteGuard = write_all) -> Outcome:
        if topic.topic == "a" or self.calm:
            return super()._apply_topic(plan, topic)
        self.calm = True
        changed = replace(self.state.topics["a"], config={"flush.ms": "9"}, modified_externally=True)
        self.state = replace(self.state, topics={**self.state.topics, "a": changed})
        return Outcome(topic.topic, Result.CONFLICT, Reason.STATE_CONFLICT, "moved")


def test_what_somebody_else_changed_meanwhile_is_for_the_next_pass() -> None:
    """The pass does what it planned and nothing else; the next one comes soon, and plans from what is there then."""
    port = Meddled(owned_topic("a"), owned_topic("b"))
    topics = [resource_bodies.topic(name, config={"flush.ms": 7}) for name in "ab"]
    wanted = make_request(resource_bodies.cluster(driftPolicy="Correct"), *topics, plan_cache=PlanCache())
    views = reconcile_topics(port, wanted)
    assert {name: (view.state, view.is_in_progress) for name, view in views.items()} == {
        "a": (SyncState.SYNCED, False),
        "b": (SyncState.WAITING, True),
    }
    assert [dict(port.state.topics[name].config) for name in "ab"] == [{"flush.ms": "9"}, {}]
    views = reconcile_topics(port, wanted)
    assert {name: (view.state, view.is_in_progress) for name, view in views.items()} == {
        "a": (SyncState.SYNCED, False),
        "b": (SyncState.SYNCED, False),
    }
    assert [dict(port.state.topics[name].config) for name in "ab"] == [{"flush.ms": "7"}, {"flush.ms": "7"}]


def test_a_guard_takes_its_part_of_the_plan() -> None:
    """What it holds back is not done, and costs nothing of a budget."""

    def guard(plan: Plan) -> Plan:
        held = Issue(Reason.POLICY_DENIED, "no")
        return filter_changes(plan, lambda topic, change: held if topic.topic == "a" else None)

    port = MemoryCluster(builders.state())
    home = resource_bodies.cluster(budgets={"topics": 1})
    views = reconcile_topics(
        port, make_request(home, resource_bodies.topic("a"), resource_bodies.topic("b"), policy_filter=guard)
    )
    assert refusal_reasons(views["a"]) == [Reason.POLICY_DENIED]
    assert views["b"].state is SyncState.CHANGED


# The deletions of the last day: each counts once, for exactly one day, whatever a status says.

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)


def ms(time: datetime) -> int:
    """Return a time in ms since the epoch."""
    return int(time.timestamp() * 1000)


def record(*times: datetime, owner: str = OWNER, deleted: bool = True) -> OwnershipRecord:
    """Return a record with the times of these deletions."""
    return OwnershipRecord(owner, deleted=deleted, memory=OperatorMemory(deletions_ms=tuple(map(ms, times))))


def told(read: ClusterState, now: datetime = NOON) -> list[tuple[str, str]]:
    """Return the deletions of the day."""
    return [(each.topic, each.time) for each in recent_deletions(read, OWNER, now)]


def at(time: datetime) -> str:
    """Return a time in the format of a status."""
    return client.format_time(time)


def earlier_release(time: datetime, owner: str = OWNER) -> ClusterState:
    """Return a cluster with a deletion record of a release that wrote no times."""
    return builders.state(
        dangling_records={"orders": OwnershipRecord(owner, deleted=True)},
        deletion_records={"orders": DeletionRecord(owner, ms(time))},
    )


def test_a_deletion_counts_by_the_record_that_it_leaves() -> None:
    """A deletion counts by the time in its record, once: the time at which a record was written counts only without."""
    found = builders.state(dangling_records={"orders": record(NOON - SECOND)})
    assert told(found) == [("orders", at(NOON - SECOND))]
    assert told(replace(found, deletion_records={"orders": DeletionRecord(OWNER, ms(NOON))})) == told(found)
    assert told(earlier_release(NOON - SECOND)) == [("orders", at(NOON - SECOND))]


def test_a_topic_that_was_made_again_counts_all_the_same() -> None:
    """The deletions of earlier topics of a name count beside the present topic, also if its record is not valid."""
    kept = record(NOON - 2 * SECOND, NOON - SECOND, deleted=False)
    for valid in (True, False):
        topic = replace(builders.topic("orders"), record=kept, record_valid=valid)
        assert told(builders.state(topic)) == [("orders", at(NOON - 2 * SECOND)), ("orders", at(NOON - SECOND))]


def test_a_day_later_it_is_forgotten() -> None:
    """A deletion expires after one day to the second."""
    for read in (builders.state(dangling_records={"orders": record(NOON)}), earlier_release(NOON)):
        assert told(read, NOON + DAY - SECOND) == [("orders", at(NOON))]
        assert told(read, NOON + DAY) == []


def test_what_others_have_deleted_is_their_affair() -> None:
    """Deletions of other owners do not count; the command line has its own budget for each run."""
    assert told(earlier_release(NOON, "default")) == []
    assert told(builders.state(dangling_records={"orders": record(NOON, owner="default")})) == []


def test_the_oldest_comes_first() -> None:
    """Deletions are sorted by age, oldest first, because a full status omits the oldest."""
    records = {"b": record(NOON - SECOND), "a": record(NOON), "c": record(NOON - 2 * SECOND)}
    assert [topic for topic, _ in told(builders.state(dangling_records=records))] == ["c", "b", "a"]


def test_a_day_of_deletions_and_creations_of_one_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each deletion of a topic that is recreated counts, from the records alone; the budget holds the next one, and
    has room again a day after the first. No status is there to read.
    """
    now = NOON
    monkeypatch.setattr(client, "utc_now", lambda: now)
    home = resource_bodies.cluster(allowDeletion=True, budgets={"deletions": 2})
    port = MemoryCluster(builders.state(owned_topic("orders")))

    def ensure(ensure: str) -> bool:
        topic = resource_bodies.topic("orders", ensure=ensure)
        assert reconcile_cluster(port, make_request(home, topic), lambda: False).error is None
        return "orders" in port.state.topics

    for _ in range(2):
        now += SECOND
        assert not ensure("Absent")
        assert ensure("Present")
    assert told(port.state, now) == [("orders", at(NOON + SECOND)), ("orders", at(NOON + 2 * SECOND))]
    assert ensure("Absent")
    now = NOON + SECOND + DAY
    assert not ensure("Absent")
    assert told(port.state, now) == [("orders", at(NOON + 2 * SECOND)), ("orders", at(now))]


# Deletions of topics in use by the operator: refused, and allowed for as many groups as the annotation says.

CLUSTER = resource_bodies.cluster(allowRisk=["DataLoss"], allowDeletion=True)


class Brokers:
    """Brokers that know some groups with a member each."""

    def __init__(self, groups: int, records: int = 0) -> None:
        found = [TopicGroup(f"group-{number}", GroupType.CLASSIC, 1, {}) for number in range(groups)]
        self._sample = add_groups(TopicSample(ends=(records,), begins=(0,)), found)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close nothing."""

    def read_cluster_id(self) -> str:
        """Return the cluster id of the state."""
        return builders.state().cluster_id

    def read(self, topics: Collection[str] | None = None) -> UsageRead:
        """Return the sample for each topic."""
        evidence = Evidence(1_763_800_000, 1, 1, groups_complete=True, retention_minutes=10_080)
        return UsageRead(evidence, dict.fromkeys(topics or (), self._sample))


@pytest.mark.parametrize(
    ("groups", "annotation", "is_deleted"),
    [(0, None, True), (2, None, False), (2, "2 groups", True), (3, "2 groups", False), (1, "1 group", True)],
)
def test_an_annotation_allows_as_many_groups_as_it_says(groups: int, annotation: str | None, is_deleted: bool) -> None:
    """When more groups appear, the annotation allows nothing, and the topic stays."""
    port = MemoryCluster(builders.state(owned_topic("orders")))
    topic = resource_bodies.topic("orders", ensure="Absent")
    if annotation:
        topic = resource_bodies.updated_body(topic, annotations={"topiarist.dev/allow-in-use": annotation})
    request = make_request(CLUSTER, topic, open_usage_reader=lambda: Brokers(groups))
    view = reconcile_topics(port, request)["orders"]
    assert ("orders" not in port.read().topics) is is_deleted
    assert refusal_reasons(view) == ([] if is_deleted else [Reason.TOPIC_IN_USE])
    assert (view.state is SyncState.REFUSED) is not is_deleted


def test_the_message_of_a_topic_in_use_has_no_measured_values() -> None:
    """While a topic in use gets more records, its message stays: no pass writes the status and an Event anew."""
    port = MemoryCluster(builders.state(owned_topic("orders")))
    topic = resource_bodies.topic("orders", ensure="Absent")
    shown = set()
    for records in (0, 100):
        request = make_request(CLUSTER, topic, open_usage_reader=partial(Brokers, 2, records))
        (refusal,) = reconcile_topics(port, request)["orders"].refusals
        shown.add(format_issue(refusal))
    (message,) = shown
    assert message.startswith("is in use, with 2 groups: group-0, group-1 [partitions 3 -> 0]: ")
    assert "topiarist.dev/allow-in-use" in message


@pytest.mark.parametrize("value", ["", "true", "two groups", "2", "*", "99999999 groups"])
def test_another_value_of_the_annotation_is_reported(value: str) -> None:
    """A value that is no number of groups allows nothing, and is named."""
    topic = resource_bodies.updated_body(
        resource_bodies.topic("orders"), annotations={"topiarist.dev/allow-in-use": value}
    )
    (error,) = annotation_errors(topic)
    assert "wanted the number of groups" in error


class NoBrokers(Brokers):
    """Brokers that know nothing of the topic."""

    def __init__(self) -> None:
        super().__init__(0)

    def read(self, topics: Collection[str] | None = None) -> UsageRead:
        """Return no sample."""
        return UsageRead(super().read(topics).evidence, {})


@pytest.mark.parametrize("annotation", [None, "0 groups"])
def test_an_unknown_usage_counts_as_no_group(annotation: str | None) -> None:
    """A Cluster that requires evidence keeps a topic of unknown usage, until its owner says that it has no group."""
    port = MemoryCluster(builders.state(owned_topic("orders")))
    topic = resource_bodies.topic("orders", ensure="Absent")
    if annotation:
        topic = resource_bodies.updated_body(topic, annotations={"topiarist.dev/allow-in-use": annotation})
    strict = resource_bodies.cluster(
        allowRisk=["DataLoss"], allowDeletion=True, evidence={"deletion": "RequireNotSeen"}
    )
    view = reconcile_topics(port, make_request(strict, topic, open_usage_reader=NoBrokers))["orders"]
    assert ("orders" not in port.read().topics) is (annotation is not None)
    assert bool(view.refusals) is (annotation is None)


# Elections by the operator: planned in every pass, and sent once.


class LedCluster(MemoryCluster):
    """A cluster in memory with partitions that their second replica leads, until an election is done."""

    elected = False

    def inspect_all(self, topics: Collection[TopicState]) -> Mapping[str, TopicInspection]:
        """Return the partitions of each topic, with their leaders."""
        return {topic.name: self._inspect(topic) for topic in topics}

    def move(self, plan: Plan, options: MoveOptions, stop: Callable[[], bool]) -> Iterator[Outcome]:
        """Elect all leaders."""
        assert not options.wait
        self.elected = True
        yield from (Outcome(topic.topic, Result.DONE) for topic in plan.actionable_topics())

    def _inspect(self, topic: TopicState) -> TopicInspection:
        lists = dict(zip(topic.partition_ids, topic.replicas, strict=True))
        leads = 0 if self.elected else 1
        led = {partition: PartitionState(replicas[leads], replicas) for partition, replicas in lists.items()}
        return TopicInspection(topic.identity, lists, led)


def test_leaders_are_compared_in_every_pass() -> None:
    """A topic that allows elections is never skipped: its znode does not show its leaders."""
    port = LedCluster(builders.state(owned_topic("orders")))
    port.elected = True
    cache = PlanCache()
    request = make_request(
        resource_bodies.cluster(moves={"allow": ["Leaders"]}), resource_bodies.topic("orders"), plan_cache=cache
    )
    (quiet,) = reconcile_cluster(port, request, lambda: False).topic_results
    assert (quiet.state, quiet.plan) == (SyncState.SYNCED, None)
    port.elected = False
    (elected,) = reconcile_cluster(port, request, lambda: False).topic_results
    assert elected.plan is not None
    lists = port.state.topics["orders"].replicas
    assert elected.plan.elections() == tuple(
        LeaderChange(partition, replicas[1], replicas[0]) for partition, replicas in enumerate(lists)
    )
    assert elected.outcome == Outcome("orders", Result.DONE)
    (event,) = topic_events("prod", {}, elected)
    assert (event.reason, event.message) == (
        "LeadersElected",
        f"prod: elect the preferred leaders of {len(lists)} partitions",
    )
    (done,) = reconcile_cluster(port, request, lambda: False).topic_results
    assert done.plan is None


# Moves over several passes of the operator: one batch at a time, and what a pass reports of it.

THROTTLES = {"topics/orders": {"leader.replication.throttled.replicas": OwnValue(None, "0:1")}}
SENT_AT_MS = 1_769_860_800_000


class Batching(LedCluster):
    """A cluster that sends two moves at a time, and ends them when a test asks for it; its sessions may be lost."""

    elected = True

    def __init__(self, state: ClusterState) -> None:
        super().__init__(state)
        self.is_lost = False
        self.options: MoveOptions | None = None

    def move(self, plan: Plan, options: MoveOptions, stop: Callable[[], bool]) -> Iterator[Outcome]:
        """Send the next batch if there is no request."""
        if self.is_lost:
            raise TopiaristError(Reason.SESSION_LOST, "the session has ended")
        self.options = options
        topics = [*plan.actionable_topics()]
        moves = tuple(move for topic in topics for move in topic.moves())
        if self.state.requested_at_ms is None and moves:
            batch = moves[:2]
            self._request(batch, BatchRecord(OWNER, 1, (len(moves) + 1) // 2, batch, THROTTLES))
            options.on_progress(MoveProgress(0, 0, 0, len(moves)))
            options.on_progress(MoveProgress(1, (len(moves) + 1) // 2, 0, len(moves), copying=batch))
        for topic in topics:
            yield Outcome(topic.topic, Result.PENDING, Reason.MOVES_UNFINISHED)

    def _request(self, moves: tuple[ReplicaMove, ...], batch: BatchRecord | None) -> None:
        entries = tuple(RequestedReassignment(each.topic, each.partition, each.after) for each in moves)
        self.state = replace(
            self.state,
            batch=batch,
            batch_at_ms=SENT_AT_MS,
            requested_at_ms=SENT_AT_MS if moves else None,
            requested_reassignments=entries,
            reassigning_topics=frozenset(each.topic for each in moves),
        )

    def finish(self, count: int) -> None:
        """End the first moves of the request."""
        batch = self.state.batch
        assert batch
        entries = self.state.requested_reassignments
        topics = dict(self.state.topics)
        for name, partition, replicas in entries[:count]:
            lists = [*topics[name].replicas]
            lists[partition] = replicas
            topics[name] = replace(topics[name], replicas=tuple(lists))
        self.state = replace(self.state, topics=topics)
        left = {(entry.topic, entry.partition) for entry in entries[count:]}
        moves = tuple(move for move in batch.moves if (move.topic, move.partition) in left)
        self._request(moves, batch)


class Drain:
    """The passes of a worker that drains broker 6, which has three partitions of ``orders`` and none of ``pay``."""

    def __init__(self, **state: Any) -> None:
        found = builders.state(owned_topic("orders", 6), owned_topic("pay", 2), **state)
        self.port = Batching(found)
        self.home = resource_bodies.cluster(drainBrokers=[6], moves={"allow": ["Drain"], "throttle": "Unlimited"})
        self.topics = [resource_bodies.topic("orders", partitions=6), resource_bodies.topic("pay", partitions=2)]
        self._kept: dict[str, Any] = {"move_tracker": MoveTracker(), "plan_cache": PlanCache()}

    def run(self) -> ReconcileResult:
        """Run a pass."""
        return reconcile_cluster(self.port, make_request(self.home, *self.topics, **self._kept), lambda: False)

    def moves(self) -> ClusterMoves:
        """Run a pass, and return the moves after it."""
        found = self.run().moves
        assert found is not None
        return found

    def orders(self) -> TopicResult:
        """Run a pass, and return the result of ``orders``."""
        return next(each for each in self.run().topic_results if each.candidate.spec.topic == "orders")


def figures(moves: ClusterMoves) -> tuple[int, int, int, int, bool, int]:
    """Return the waiting moves and those in flight, the batch of how many, if it was just sent, and the moved ones."""
    return len(moves.waiting), len(moves.in_flight), moves.batch, moves.batches, moves.is_sent, moves.moved


def test_a_drain_goes_on_from_pass_to_pass() -> None:
    """Each pass sends at most one batch, waits for none, and counts what ended since the last one."""
    drain = Drain()
    found = drain.moves()
    assert (figures(found), found.sent_at_ms, found.draining) == ((1, 2, 1, 2, True, 0), None, {6: 3})
    assert drain.port.options is not None
    assert not drain.port.options.wait
    found = drain.moves()
    assert (figures(found), found.sent_at_ms, found.waiting_for) == ((1, 2, 1, 2, False, 0), SENT_AT_MS, "")
    drain.port.finish(1)
    found = drain.moves()
    assert (figures(found), found.draining) == ((1, 1, 1, 2, False, 1), {6: 2})
    drain.port.finish(1)
    assert figures(drain.moves()) == (0, 1, 1, 1, True, 1)
    drain.port.finish(1)
    found = drain.moves()
    assert (figures(found), found.draining) == ((0, 0, 0, 0, False, 1), {6: 0})
    assert figures(drain.moves()) == (0, 0, 0, 0, False, 0)


def test_a_topic_with_moves_is_moving_until_they_have_ended() -> None:
    """It is neither deferred nor in progress, which would call for the next pass at once; another topic is as asked."""
    drain = Drain()
    for in_flight in (2, 1, 1):
        orders, pay = drain.run().topic_results
        assert (orders.state, pay.state, pay.moves) == (SyncState.MOVING, SyncState.SYNCED, None)
        assert (orders.is_applied, orders.is_deferred, orders.is_in_progress) == (True, False, False)
        assert orders.refusals == ()
        assert orders.moves is not None
        assert orders.moves.in_flight == in_flight
        drain.port.finish(1)
    assert (drain.orders().state, drain.orders().moves) == (SyncState.SYNCED, None)


def test_a_result_is_applied_when_nothing_is_left_to_do() -> None:
    """Moves that later passes continue do not count."""
    found = make_result(resource_bodies.topic("orders"), SyncState.SYNCED)
    assert not found.is_applied
    applied = {each for each in Result if found._replace(outcome=Outcome("orders", each)).is_applied}
    assert applied == {Result.DONE, Result.UNCHANGED}
    moving = Outcome("orders", Result.PENDING, Reason.MOVES_UNFINISHED)
    assert found._replace(outcome=moving).is_applied


def test_another_change_of_a_moving_topic_is_made() -> None:
    """Moves hold back no change of the config; a change that cannot be made beside them waits for their end."""
    drain = Drain()
    drain.topics[0] = resource_bodies.topic("orders", partitions=6, config={"flush.ms": 7})
    assert drain.orders().state is SyncState.MOVING
    assert drain.port.state.topics["orders"].config == {"flush.ms": "7"}
    drain.topics[0] = resource_bodies.topic("orders", partitions=8)
    orders = drain.orders()
    assert refusal_reasons(orders) == [Reason.AFTER_MOVES]
    assert (orders.state, orders.moves) == (SyncState.MOVING, TopicMoves(3, 2, 1, 2))


@pytest.mark.parametrize(
    ("reasons", "state"),
    [
        ([Reason.AFTER_MOVES], SyncState.MOVING),
        ([Reason.REASSIGNMENT_IN_PROGRESS], SyncState.MOVING),
        ([Reason.AFTER_MOVES, Reason.REASSIGNMENT_IN_PROGRESS], SyncState.MOVING),
        ([Reason.AFTER_MOVES, Reason.REASSIGNMENT_IN_PROGRESS, Reason.UNREACHABLE], SyncState.WAITING),
    ],
)
def test_a_topic_that_waits_for_its_own_moves_alone_is_moving(reasons: list[Reason], state: SyncState) -> None:
    """It may wait for several of them; whatever else it waits for is told before the moves that are not sent."""
    _, cluster, _ = shared()
    refusals = [Issue(each, "wait") for each in reasons]
    assert reconciler._sync_state(spec(cluster), owned_topic("orders", 3), None, refusals, TopicMoves(3)) is state


def test_a_refusal_of_a_moving_topic_comes_first() -> None:
    """The user has to act, which is told before the moves, which end by themselves."""
    drain = Drain()
    drain.run()
    drain.topics[0] = resource_bodies.topic("orders", partitions=3)
    orders = drain.orders()
    assert (orders.state, Reason.FEWER_PARTITIONS in refusal_reasons(orders)) == (SyncState.REFUSED, True)


def test_a_paused_cluster_sends_nothing() -> None:
    """A batch in flight cannot be stopped; no other one is sent, and nothing is put back."""
    drain = Drain()
    drain.run()
    drain.home = resource_bodies.updated_body(drain.home, annotations={"topiarist.dev/paused": "true"})
    drain.port.finish(2)
    drain.port.options = None
    found = drain.run()
    assert found.moves is not None
    assert (drain.port.options, found.moves.left, found.moves.throttle_left) == (None, 0, True)
    assert [each.state for each in found.topic_results] == [SyncState.PAUSED, SyncState.PAUSED]


def test_a_reassignment_by_another_client_is_waited_for() -> None:
    """Only one request can be there, so the text names the client; without planned moves there is no text.

    A topic with moves is moving meanwhile, also if another change waits for them.
    """
    entries = (RequestedReassignment("theirs", 0, (1, 2)),)
    theirs = {"requested_reassignments": entries, "requested_at_ms": 1}
    drain = Drain(**theirs)
    found = drain.moves()
    assert (len(found.waiting), found.waiting_for) == (3, "a reassignment of 1 partition by another client")
    drain.topics[0] = resource_bodies.topic("orders", partitions=8)
    orders = drain.orders()
    assert (orders.state, refusal_reasons(orders)) == (SyncState.MOVING, [Reason.AFTER_MOVES])
    assert orders.moves == TopicMoves(3)
    drain.home = resource_bodies.cluster()
    assert drain.moves().waiting_for == ""


def test_what_keeps_a_reassignment_from_ending_is_told_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker that it waits for says more than the client that has sent it."""
    drain = Drain(requested_reassignments=(RequestedReassignment("theirs", 0, (1, 9)),), requested_at_ms=1)
    problem = Issue(Reason.STUCK_REASSIGNMENT, "stuck")
    monkeypatch.setattr(MoveTracker, "observe", lambda *_: ("broker 9 is not registered", problem))
    found = drain.moves()
    assert (found.waiting_for, found.problem) == ("broker 9 is not registered", problem)


def test_a_lost_session_sends_nothing_more() -> None:
    """Moves that were not sent do not count as waiting for a batch: the error is reported, and the pass is repeated."""
    drain = Drain()
    drain.port.is_lost = True
    found = drain.run()
    assert found.error is not None
    assert found.error.reason is Reason.SESSION_LOST
    assert found.moves is not None
    assert found.moves.waiting == ()
    assert [each.state for each in found.topic_results] == [SyncState.WAITING, SyncState.SYNCED]
    drain.port.is_lost = False
    drain.run()
    drain.port.is_lost = True
    orders = drain.orders()
    assert refusal_reasons(orders) == [Reason.NOT_SENT]
    assert (orders.state, orders.is_deferred, orders.is_in_progress) == (SyncState.MOVING, False, False)


def ended(owner: str = OWNER, throttles: Any = THROTTLES, **fields: Any) -> dict[str, Any]:
    """Return the fields of a state with a batch that has ended, and throttles of it that are still set."""
    moves = (ReplicaMove("pay", 0, (6, 2, 3), (1, 2, 3)),)
    return {"batch": BatchRecord(owner, 1, 1, moves, throttles), "batch_at_ms": SENT_AT_MS, **fields}


@pytest.mark.parametrize(
    ("state", "is_lost", "left"),
    [
        (ended(), False, False),
        (ended(), True, True),
        (ended("default"), False, True),
        (ended(write_block=WriteBlock(Reason.FROZEN, "frozen")), False, True),
        (ended(throttles={}), True, False),
        (ended("default", requested_at_ms=1), False, False),
        ({}, False, False),
    ],
    ids=["put back", "lost session", "of another owner", "frozen", "no throttles", "in flight", "no batch"],
)
def test_throttles_that_stay_are_reported(state: dict[str, Any], is_lost: bool, left: bool) -> None:
    """A throttle that no batch needs any more slows down replication: the status has it until it is put back."""
    drain = Drain(**state)
    drain.home = resource_bodies.cluster()
    drain.port.is_lost = is_lost
    assert drain.moves().throttle_left is left


def test_a_stall_is_that_of_each_moving_topic() -> None:
    """The problem of the request is in the result of the topics that it holds, and in that of the cluster."""
    drain = Drain()
    drain.run()
    drain.port.state = replace(drain.port.state, requested_reassignments=())
    found = [drain.run(), drain.run()][-1]
    orders, pay = found.topic_results
    assert found.moves is not None
    assert found.moves.problem is not None
    assert found.moves.problem.reason is Reason.STUCK_REASSIGNMENT
    assert (orders.move_problem, pay.move_problem) == (found.moves.problem if orders.moves else None, None)

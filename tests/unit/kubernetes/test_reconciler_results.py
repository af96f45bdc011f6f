"""What a pass of the operator makes of what became of topics: written, taken over, refused, or nothing at all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from support import states
from support.kubernetes import resource_bodies
from topiarist.adapters.memory import MemoryCluster
from topiarist.errors import Reason, TopiaristError
from topiarist.filters.chain import filter_changes
from topiarist.kubernetes.api.resources import Resource
from topiarist.kubernetes.reconciler import PlanCache, SyncState, reconcile_cluster
from topiarist.model.outcome import Outcome, Result, TopicProgress
from topiarist.model.plan import DeleteTopic, Issue, Plan, TopicPlan
from topiarist.model.spec import TopicSpec
from topiarist.model.state import TopicState
from topiarist.ports import NO_CONTROL, WriteControl, WriteGuard, write_all
from unit.kubernetes.reconcile_requests import (
    DELETING_META,
    LONG,
    SHORT,
    make_request,
    owned_topic,
    reconcile_topics,
    refusal_reasons,
)


class Slow(MemoryCluster):
    """Its controller takes partitions over when ``late`` is false; who asks while ``away`` is told so."""

    def __init__(self, *topics: TopicState) -> None:
        super().__init__(states.cluster(*topics))
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

    def apply(
        self,
        plan: Plan,
        stop: Callable[[], bool],
        control: WriteControl = NO_CONTROL,
    ) -> Iterator[Outcome]:
        yield next(iter(super().apply(plan, stop, control)))
        raise TopiaristError(Reason.SESSION_LOST, "the session has ended")


def test_a_pass_that_ends_early_has_done_what_it_has_done() -> None:
    """With the reason; what was not sent is for the next pass."""
    port = Losing(states.cluster(owned_topic("a"), owned_topic("b")))
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
        super().__init__(states.cluster(*topics))
        self.outcome = outcome

    def apply(
        self,
        plan: Plan,
        stop: Callable[[], bool],
        control: WriteControl = NO_CONTROL,
    ) -> Iterator[Outcome]:
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
        port = MemoryCluster(states.cluster(owned_topic("orders")))
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
        states.cluster(owned_topic("calm"), owned_topic("refused", retention_ms=LONG), owned_topic("set"))
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
        super().__init__(states.cluster(*topics))
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

    port = MemoryCluster(states.cluster())
    home = resource_bodies.cluster(budgets={"topics": 1})
    views = reconcile_topics(
        port, make_request(home, resource_bodies.topic("a"), resource_bodies.topic("b"), policy_filter=guard)
    )
    assert refusal_reasons(views["a"]) == [Reason.POLICY_DENIED]
    assert views["b"].state is SyncState.CHANGED

"""What a pass of the operator makes of what became of topics: written, taken over, refused, or nothing at all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from support import bodies, states
from topiarist.adapters.memory import MemoryCluster
from topiarist.core.change import DeleteTopic, Finding, Plan, TopicPlan
from topiarist.core.policy import restrict
from topiarist.core.spec import TopicSpec
from topiarist.core.state import TopicState
from topiarist.core.waiting import Sight
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.passes import State, look
from topiarist.kubernetes.quiet import Quiet
from topiarist.kubernetes.resources import Resource
from topiarist.reconcile import Outcome, Pace, Result
from unit.orders import DELETING, LONG, SHORT, order, ours, passed, reasons


class Slow(MemoryCluster):
    """Its controller takes partitions over when ``late`` is false; who asks while ``away`` is told so."""

    def __init__(self, *topics: TopicState) -> None:
        super().__init__(states.cluster(*topics))
        self.late, self.away = True, False
        self.asked: list[set[str]] = []

    def look(self, topics: Mapping[str, Collection[int]]) -> Mapping[str, Sight]:
        self.asked.append({*topics})
        if self.away:
            raise TopiaristError(Reason.SESSION_LOST, "the session has ended")
        found = super().look(topics)
        return {name: sight._replace(taken=frozenset()) if self.late else sight for name, sight in found.items()}


def changed(name: str) -> Resource:
    """A Topic whose status says that its partitions were written."""
    return bodies.topic(name, status={"clusters": [{"name": "prod", "state": "Changed"}]})


def test_what_was_written_is_changed_until_the_controller_has_it() -> None:
    """However many passes that takes; nobody is asked about others, nor about those that it has."""
    port, quiet = Slow(ours("orders"), ours("old")), Quiet()
    wanted = order(bodies.cluster(), changed("orders"), bodies.topic("old"), quiet=quiet)
    for late, state in ((True, State.CHANGED), (True, State.CHANGED), (False, State.IN_STEP)):
        port.late = late
        views = passed(port, wanted)
        assert (views["orders"].state, views["old"].state) == (state, State.IN_STEP)
        assert views["orders"].under_way is late
    passed(port, wanted)
    assert port.asked == [{"orders"}] * 3


def test_a_controller_that_cannot_be_seen_ends_the_pass() -> None:
    """With its reason, and with what was seen until then; the next pass asks again."""
    port = Slow(ours("orders"))
    wanted = order(bodies.cluster(), changed("orders"), quiet=Quiet())
    port.away = True
    seen = look(port, wanted, lambda: False)
    assert seen.error is not None
    assert seen.error.reason is Reason.SESSION_LOST
    assert [view.state for view in seen.views] == [State.IN_STEP]
    port.away = False
    assert passed(port, wanted)["orders"].state is State.CHANGED


def test_what_is_written_is_not_asked_about_in_the_same_pass() -> None:
    """Its partitions are new: that they are not taken over is known."""
    port = Slow(ours("orders"))
    again = bodies.topic("orders", partitions=6, status={"clusters": [{"name": "prod", "state": "Changed"}]})
    assert passed(port, order(bodies.cluster(), again))["orders"].state is State.CHANGED
    assert port.asked == []


class Losing(MemoryCluster):
    """Its session ends behind the first topic."""

    def apply(self, plan: Plan, stop: Callable[[], bool], pace: Pace | None = None) -> Iterator[Outcome]:
        yield next(iter(super().apply(plan, stop, pace)))
        raise TopiaristError(Reason.SESSION_LOST, "the session has ended")


def test_a_pass_that_ends_early_has_done_what_it_has_done() -> None:
    """With the reason; what was not sent is for the next pass."""
    port = Losing(states.cluster(ours("a"), ours("b")))
    topics = [bodies.topic(name, config={"flush.ms": 7}) for name in "ab"]
    seen = look(port, order(bodies.cluster(), *topics), lambda: False)
    assert seen.error is not None
    assert seen.error.reason is Reason.SESSION_LOST
    assert [(view.state, view.left) for view in seen.views] == [(State.IN_STEP, False), (State.WAITING, True)]


class Answering(MemoryCluster):
    """Nothing is written; what became of each topic is said."""

    def __init__(self, outcome: Outcome, *topics: TopicState) -> None:
        super().__init__(states.cluster(*topics))
        self.outcome = outcome

    def apply(self, plan: Plan, stop: Callable[[], bool], pace: Pace | None = None) -> Iterator[Outcome]:
        for topic in plan.to_do():
            yield self.outcome._replace(topic=topic.topic)


@pytest.mark.parametrize(
    ("outcome", "state", "wanted"),
    [
        (Outcome("", Result.ALREADY), State.IN_STEP, []),
        (
            Outcome("", Result.MOVED, Reason.STATE_CONFLICT, "flush.ms was 5, and is 6 now"),
            State.WAITING,
            [(Reason.STATE_CONFLICT, "flush.ms was 5, and is 6 now")],
        ),
        (Outcome("", Result.NOT_SENT), State.WAITING, [(Reason.NOT_SENT, "not sent")]),
        (
            Outcome("", Result.UNKNOWN, Reason.SESSION_LOST, "no answer"),
            State.WAITING,
            [(Reason.SESSION_LOST, "no answer")],
        ),
        (Outcome("", Result.REFUSED, Reason.FROZEN, "frozen"), State.REFUSED, [(Reason.FROZEN, "frozen")]),
        (Outcome("", Result.FAILED, Reason.NO_PERMISSION, "no"), State.REFUSED, [(Reason.NO_PERMISSION, "no")]),
    ],
)
def test_what_was_not_done_is_told(outcome: Outcome, state: State, wanted: list[tuple[Reason, str]]) -> None:
    """With its reason, or else what became of it; what others have done meanwhile is done."""
    port = Answering(outcome, ours("orders"))
    view = passed(port, order(bodies.cluster(), bodies.topic("orders", config={"flush.ms": 7})))["orders"]
    assert view.state is state
    assert [(refusal.reason, refusal.message) for refusal in view.refusals] == wanted
    assert view.left is (outcome.result in (Result.NOT_SENT, Result.MOVED))
    assert view.under_way is view.left


def test_what_was_refused_is_told_beside_what_failed() -> None:
    """A topic may have both."""
    port = Answering(Outcome("", Result.NOT_SENT), ours("orders", retention_ms=LONG))
    topic = bodies.topic("orders", partitions=6, config={"retention.ms": SHORT})
    assert reasons(passed(port, order(bodies.cluster(), topic))["orders"]) == [Reason.DATA_LOSS, Reason.NOT_SENT]


def test_what_a_paused_topic_would_do_is_told() -> None:
    """Also that it would be deleted, as it asks for itself or by going; nothing of it is done."""
    pause = {"topiarist.dev/paused": "true"}
    home = bodies.cluster(allowDeletion=True)
    for topic in (
        bodies.topic("orders", ensure="Absent", meta={"annotations": pause}),
        bodies.topic("orders", deletionPolicy="Delete", meta={**DELETING, "annotations": pause}),
    ):
        port = MemoryCluster(states.cluster(ours("orders")))
        view = passed(port, order(home, topic))["orders"]
        assert view.state is State.PAUSED
        assert view.plan is not None
        assert [type(change) for change in view.plan.changes] == [DeleteTopic]
        assert [*port.state.topics] == ["orders"]


def test_what_says_nothing_is_not_planned_again() -> None:
    """A topic in step, and one that is absent as asked; whatever has something to say is."""
    planned: list[list[str]] = []

    class Counting(Quiet):
        def others(self, *words: Any) -> list[TopicSpec]:
            found = super().others(*words)
            planned.append([spec.topic for spec in found])
            return found

    port = MemoryCluster(states.cluster(ours("calm"), ours("refused", retention_ms=LONG), ours("set")))
    topics = bodies.topic("calm"), bodies.topic("gone", ensure="Absent"), bodies.topic("set", config={"flush.ms": 7})
    refused = bodies.topic("refused", config={"retention.ms": SHORT})
    wanted = order(bodies.cluster(), *topics, refused, quiet=Counting())
    for _ in range(3):
        passed(port, wanted)
    assert planned == [["calm", "gone", "refused", "set"], ["refused", "set"], ["refused"]]


class Meddled(MemoryCluster):
    """When ``b`` is written somebody else is faster, and changes what was just written to ``a``."""

    def __init__(self, *topics: TopicState) -> None:
        super().__init__(states.cluster(*topics))
        self.calm = False

    def _apply(self, plan: Plan, topic: TopicPlan) -> Outcome:
        if topic.topic == "a" or self.calm:
            return super()._apply(plan, topic)
        self.calm = True
        changed = replace(self.state.topics["a"], config={"flush.ms": "9"}, changed_outside=True)
        self.state = replace(self.state, topics={**self.state.topics, "a": changed})
        return Outcome(topic.topic, Result.MOVED, Reason.STATE_CONFLICT, "moved")


def test_what_somebody_else_changed_meanwhile_is_for_the_next_pass() -> None:
    """The pass does what it planned and nothing else; the next one comes soon, and plans from what is there then."""
    port = Meddled(ours("a"), ours("b"))
    topics = [bodies.topic(name, config={"flush.ms": 7}) for name in "ab"]
    wanted = order(bodies.cluster(driftPolicy="Correct"), *topics, quiet=Quiet())
    views = passed(port, wanted)
    assert {name: (view.state, view.under_way) for name, view in views.items()} == {
        "a": (State.IN_STEP, False),
        "b": (State.WAITING, True),
    }
    assert [dict(port.state.topics[name].config) for name in "ab"] == [{"flush.ms": "9"}, {}]
    views = passed(port, wanted)
    assert {name: (view.state, view.under_way) for name, view in views.items()} == {
        "a": (State.IN_STEP, False),
        "b": (State.IN_STEP, False),
    }
    assert [dict(port.state.topics[name].config) for name in "ab"] == [{"flush.ms": "7"}, {"flush.ms": "7"}]


def test_a_guard_takes_its_part_of_the_plan() -> None:
    """What it holds back is not done, and costs nothing of a budget."""

    def guard(plan: Plan) -> Plan:
        held = Finding(Reason.POLICY_DENIED, "no")
        return restrict(plan, lambda topic, change: held if topic.topic == "a" else None)

    port = MemoryCluster(states.cluster())
    home = bodies.cluster(budgets={"topics": 1})
    views = passed(port, order(home, bodies.topic("a"), bodies.topic("b"), guard=guard))
    assert reasons(views["a"]) == [Reason.POLICY_DENIED]
    assert views["b"].state is State.CHANGED

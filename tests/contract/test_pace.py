"""What every ``Cluster`` promises to whoever waits for its controller, and to whoever holds a run back."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from contract.worlds import World
from support.wishes import planned, results, wish
from topiarist.core.backlog import Backlog
from topiarist.core.change import TopicPlan
from topiarist.core.spec import TopicSpec
from topiarist.core.waiting import FINISHED, Sight, brings, stage
from topiarist.errors import Reason, TopiaristError
from topiarist.reconcile import Hooks, Outcome, Report, Result, carry_out

REPLICAS = ((1, 2, 3), (2, 3, 4))

STALLED = TopiaristError(Reason.NOT_TAKEN_OVER, "nothing goes on")


@dataclass
class OneByOne:
    """Lets a topic go when all before it are settled and somebody has rested; keeps what happened, in order."""

    world: World
    events: list[str] = field(default_factory=list)
    room: int = 1
    most_rests: int = 100
    stopped: bool = False

    def take(self, topic: TopicPlan) -> bool:
        """Once for each rest."""
        if not self.room:
            return False
        self.room -= 1
        self.events.append(f"take {topic.topic}")
        return True

    def rest(self) -> None:
        """Make room for one more."""
        self.most_rests -= 1
        if self.most_rests < 0:
            raise STALLED
        self.events.append("rest")
        self.world.settle()
        self.room += 1

    def settled(self, topic: TopicPlan, outcome: Outcome) -> None:
        """Keep it."""
        self.events.append(f"{outcome.result.value} {topic.topic}")


def paced(world: World, pace: OneByOne, *specs: TopicSpec) -> Report:
    """A pass over these topics, held back by ``pace``."""
    cluster = world.open()
    plan = planned(cluster, *specs)
    return carry_out(cluster, Hooks(pace=pace, stop=lambda: pace.stopped), plan)


def found(report: Report) -> dict[str, Result]:
    """Results by topic."""
    return {outcome.topic: outcome.result for outcome in report.outcomes}


def test_topics_with_new_partitions_go_as_they_are_let(world: World) -> None:
    """One after the other, each after a rest; changes of config and records go first, and are not held back."""
    world.add("config", REPLICAS, {"retention.ms": "1"})
    world.add("grow", REPLICAS, {})
    world.add("ours", REPLICAS, {})
    pace = OneByOne(world)
    specs = (wish("a"), wish("config", config={"retention.ms": 2}), wish("grow", partitions=4), wish("ours"), wish("z"))
    assert set(found(paced(world, pace, *specs)).values()) == {Result.DONE}
    taken = [event for event in pace.events if event.startswith(("take", "rest"))]
    assert taken == ["take a", "rest", "take grow", "rest", "take z"]
    order = [pace.events.index(f"done {name}") for name in ("config", "ours", "a", "grow", "z")]
    assert order[:3] == sorted(order[:3])
    assert pace.events.index("done a") < pace.events.index("rest")
    assert pace.events[-1] == "done z"


def test_what_a_topic_rests_on_is_looked_at_when_it_is_written(world: World) -> None:
    """Also if it was held back for long: one that others have made meanwhile is moved, and so is settled."""
    pace = OneByOne(world)
    rest = pace.rest

    def meddle() -> None:
        world.add("b", REPLICAS, {"retention.ms": "7"})
        rest()

    pace.rest = meddle  # type: ignore[method-assign]
    assert found(paced(world, pace, wish("a"), wish("b"))) == {"a": Result.DONE, "b": Result.MOVED}
    assert pace.events[-1] == "moved b"
    assert dict(world.open().read().topics["b"].config) == {"retention.ms": "7"}


def test_a_pace_may_end_the_run(world: World) -> None:
    """What was sent is done, the rest is named: not sent."""
    report = paced(world, OneByOne(world, most_rests=1), wish("a"), wish("b"), wish("c"), wish("d"))
    assert report.error is STALLED
    assert found(report) == dict(zip("abcd", [Result.DONE] * 2 + [Result.NOT_SENT] * 2, strict=True))
    assert sorted(world.open().read().topics) == ["a", "b"]


def test_who_stops_a_run_that_is_held_back_is_heard(world: World) -> None:
    """Nothing more is taken; each topic has its outcome."""
    pace = OneByOne(world)

    def stop() -> None:
        pace.stopped = True

    pace.rest = stop  # type: ignore[method-assign]
    report = paced(world, pace, wish("a"), wish("b"), wish("c"))
    assert (report.error, found(report)) == (
        None,
        {"a": Result.DONE, "b": Result.NOT_SENT, "c": Result.NOT_SENT},
    )


@pytest.mark.parametrize("partitions", [2, 5])
def test_a_look_sees_what_is_taken_over(world: World, partitions: int) -> None:
    """Of the partitions asked about those that the controller has; created and grown alike."""
    if partitions > 2:
        world.add("orders", REPLICAS, {})
    cluster = world.open()
    plan = planned(cluster, wish("orders", partitions=partitions))
    assert results(cluster, plan) == {"orders": Result.DONE}
    world.settle()
    (topic,) = plan.topics
    sight = cluster.look({"orders": tuple(brings(topic)), "none": (0,)})["orders"]
    assert stage(topic, sight) == FINISHED
    state = cluster.read().topics["orders"]
    assert (sight.identity, sight.replicas) == (state.identity, dict(enumerate(state.replicas)))
    assert (sight.taken, sight.stale, sight.led) == (frozenset(brings(topic)), False, True)
    assert cluster.look({"orders": (1, 7)})["orders"].taken == {1}
    assert cluster.look({"none": (0,)})["none"].identity is None


def test_a_look_sees_partitions_that_wait_for_a_broker(world: World) -> None:
    """None of whose replicas is on a registered one: not taken over, whatever becomes of the others."""
    world.add("orders", ((1, 9), (8, 9), (9, 2)), {})
    sight = world.open().look({"orders": (0, 1, 2)})["orders"]
    assert sight.taken == {0, 2}
    assert sight.missing == (8, 9)


def test_a_look_sees_that_our_record_is_an_earlier_topics(world: World) -> None:
    """Deleted and made again by others, as alike as it may be (F33)."""
    cluster = world.open()
    results(cluster, planned(cluster, wish("orders")))
    world.settle()
    assert not cluster.look({"orders": (0,)})["orders"].stale
    world.delete("orders")
    assert cluster.look({"orders": (0,)})["orders"] == Sight(None, False)
    world.add("orders", REPLICAS, {})
    assert cluster.look({"orders": (0,)})["orders"].stale
    world.add("others", REPLICAS, {})
    assert not cluster.look({"others": (0,)})["others"].stale


def test_a_backlog_paces_a_whole_run(world: World) -> None:
    """With the pace that the command line has, without its clock: everything is done, and taken over at the end."""
    cluster, backlog = world.open(), Backlog(6)

    class Pace(OneByOne):
        def take(self, topic: TopicPlan) -> bool:
            return backlog.take(topic)

        def rest(self) -> None:
            super().rest()
            backlog.see(cluster.look(backlog.asked()))

        def settled(self, topic: TopicPlan, outcome: Outcome) -> None:
            backlog.settle(topic, written=outcome.result is Result.DONE)

    specs = [wish(f"t{number:02}", partitions=4) for number in range(12)]
    plan = planned(cluster, *specs)
    pace = Pace(world)
    report = carry_out(cluster, Hooks(pace=pace), plan)
    assert set(found(report).values()) == {Result.DONE}
    assert pace.events.count("rest") >= 3
    world.settle()
    backlog.see(cluster.look(backlog.asked()))
    assert backlog.asked() == {}
    assert {name: stage for name, stage in backlog.stages.items() if stage != FINISHED} == {}

"""Contract of every ``Cluster`` for progress polling and throttling."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from contract.cluster_fixtures import ClusterFixture, topics_of
from support.builders import apply_results, plan_specs, topic_spec
from topiarist.errors import Reason, TopiaristError
from topiarist.model.outcome import (
    FINISHED,
    Outcome,
    ReconcileReport,
    Result,
    TopicProgress,
    evaluate_progress,
    partitions_to_initialize,
)
from topiarist.model.plan import TopicPlan
from topiarist.model.spec import TopicSpec
from topiarist.ports import WriteControl
from topiarist.reconcile import apply_plan
from topiarist.throttle import InFlightLimit

REPLICAS = ((1, 2, 3), (2, 3, 4))

STALLED = TopiaristError(Reason.NOT_INITIALIZED, "nothing goes on")


@dataclass
class OneByOne:
    """A throttle that admits a topic when all earlier ones have outcomes and ``wait`` was called; records the
    events.
    """

    world: ClusterFixture
    events: list[str] = field(default_factory=list)
    room: int = 1
    most_rests: int = 100
    stopped: bool = False

    def try_acquire(self, topic: TopicPlan) -> bool:
        """Return whether the topic is admitted: one topic per rest."""
        if not self.room:
            return False
        self.room -= 1
        self.events.append(f"take {topic.topic}")
        return True

    def wait(self) -> None:
        """Make room for one more topic."""
        self.most_rests -= 1
        if self.most_rests < 0:
            raise STALLED
        self.events.append("rest")
        self.world.wait_until_idle()
        self.room += 1

    def on_outcome(self, topic: TopicPlan, outcome: Outcome) -> None:
        """Store the outcome."""
        self.events.append(f"{outcome.result.value} {topic.topic}")


def paced(world: ClusterFixture, pace: OneByOne, *specs: TopicSpec) -> ReconcileReport:
    """Apply a plan of these topics, throttled by ``pace``."""
    cluster = world.open()
    plan = plan_specs(cluster, *specs)
    return apply_plan(cluster, plan, stop=lambda: pace.stopped, control=WriteControl(pace))


def found(report: ReconcileReport) -> dict[str, Result]:
    """Return the results by topic."""
    return {outcome.topic: outcome.result for outcome in report.outcomes}


def test_topics_with_new_partitions_go_as_they_are_let(world: ClusterFixture) -> None:
    """Topics with new partitions follow one by one after a rest; config and record changes come first, unthrottled."""
    world.create_topic("config", REPLICAS, {"retention.ms": "1"})
    world.create_topic("grow", REPLICAS, {})
    world.create_topic("ours", REPLICAS, {})
    pace = OneByOne(world)
    specs = (
        topic_spec("a"),
        topic_spec("config", config={"retention.ms": 2}),
        topic_spec("grow", partitions=4),
        topic_spec("ours"),
        topic_spec("z"),
    )
    assert set(found(paced(world, pace, *specs)).values()) == {Result.DONE}
    taken = [event for event in pace.events if event.startswith(("take", "rest"))]
    assert taken == ["take a", "rest", "take grow", "rest", "take z"]
    order = [pace.events.index(f"done {name}") for name in ("config", "ours", "a", "grow", "z")]
    assert max(order[:2]) < order[2] < order[3] < order[4]
    assert pace.events.index("done a") < pace.events.index("rest")
    assert pace.events[-1] == "done z"


def test_what_a_topic_rests_on_is_looked_at_when_it_is_written(world: ClusterFixture) -> None:
    """Preconditions are checked at the write, also after a long throttling: a topic created since then is a
    conflict.
    """
    pace = OneByOne(world)
    rest = pace.wait

    def meddle() -> None:
        world.create_topic("b", REPLICAS, {"retention.ms": "7"})
        rest()

    pace.wait = meddle  # type: ignore[method-assign]
    assert found(paced(world, pace, topic_spec("a"), topic_spec("b"))) == {"a": Result.DONE, "b": Result.CONFLICT}
    assert pace.events[-1] == "conflict b"
    assert dict(world.open().read().topics["b"].config) == {"retention.ms": "7"}


def test_a_pace_may_end_the_run(world: ClusterFixture) -> None:
    """If the throttle ends the run, topics that were sent are done and the others are skipped."""
    report = paced(
        world, OneByOne(world, most_rests=1), topic_spec("a"), topic_spec("b"), topic_spec("c"), topic_spec("d")
    )
    assert report.error is STALLED
    assert found(report) == dict(zip("abcd", [Result.DONE] * 2 + [Result.SKIPPED] * 2, strict=True))
    assert sorted(topics_of(world.open().read())) == ["a", "b"]


def test_who_stops_a_run_that_is_held_back_is_heard(world: ClusterFixture) -> None:
    """After ``stop`` during throttling no more topics are admitted, and each topic has an outcome."""
    pace = OneByOne(world)

    def stop() -> None:
        pace.stopped = True

    pace.wait = stop  # type: ignore[method-assign]
    report = paced(world, pace, topic_spec("a"), topic_spec("b"), topic_spec("c"))
    assert (report.error, found(report)) == (
        None,
        {"a": Result.DONE, "b": Result.SKIPPED, "c": Result.SKIPPED},
    )


@pytest.mark.parametrize("partitions", [2, 5])
def test_a_look_sees_what_is_taken_over(world: ClusterFixture, partitions: int) -> None:
    """Progress has the initialized partitions among those asked for, of created and grown topics."""
    if partitions > 2:
        world.create_topic("orders", REPLICAS, {})
    cluster = world.open()
    plan = plan_specs(cluster, topic_spec("orders", partitions=partitions))
    assert apply_results(cluster, plan) == {"orders": Result.DONE}
    world.wait_until_idle()
    (topic,) = plan.topics
    sight = cluster.poll({"orders": tuple(partitions_to_initialize(topic)), "none": (0,)})["orders"]
    assert evaluate_progress(topic, sight) == FINISHED
    state = cluster.read().topics["orders"]
    assert (sight.identity, sight.replicas) == (state.identity, dict(enumerate(state.replicas)))
    assert (sight.initialized, sight.record_stale, sight.has_controller) == (
        frozenset(partitions_to_initialize(topic)),
        False,
        True,
    )
    assert cluster.poll({"orders": (1, 7)})["orders"].initialized == {1}
    assert cluster.poll({"none": (0,)})["none"].identity is None


def test_a_look_sees_partitions_that_wait_for_a_broker(world: ClusterFixture) -> None:
    """A partition without a registered broker is not initialized, and other partitions of the topic are initialized."""
    world.create_topic("orders", ((1, 9), (8, 9), (9, 2)), {})
    sight = world.open().poll({"orders": (0, 1, 2)})["orders"]
    assert sight.initialized == {0, 2}
    assert sight.missing_brokers == (8, 9)


def test_a_look_sees_that_our_record_is_an_earlier_topics(world: ClusterFixture) -> None:
    """Progress shows that the ownership record belongs to an earlier topic, even if the recreated one is equal
    (F33).
    """
    cluster = world.open()
    apply_results(cluster, plan_specs(cluster, topic_spec("orders")))
    world.wait_until_idle()
    assert not cluster.poll({"orders": (0,)})["orders"].record_stale
    world.delete_topic("orders")
    assert cluster.poll({"orders": (0,)})["orders"] == TopicProgress(None, False)
    world.create_topic("orders", REPLICAS, {})
    assert cluster.poll({"orders": (0,)})["orders"].record_stale
    world.create_topic("others", REPLICAS, {})
    assert not cluster.poll({"others": (0,)})["others"].record_stale


def test_a_backlog_paces_a_whole_run(world: ClusterFixture) -> None:
    """With the throttle of the command line, but without its clock, every topic is done and finally initialized."""
    cluster, backlog = world.open(), InFlightLimit(6)

    class Pace(OneByOne):
        def try_acquire(self, topic: TopicPlan) -> bool:
            return backlog.try_acquire(topic)

        def wait(self) -> None:
            super().wait()
            backlog.update(cluster.poll(backlog.topics_to_poll()))

        def on_outcome(self, topic: TopicPlan, outcome: Outcome) -> None:
            backlog.complete(topic, written=outcome.result is Result.DONE)

    specs = [topic_spec(f"t{number:02}", partitions=4) for number in range(12)]
    plan = plan_specs(cluster, *specs)
    pace = Pace(world)
    report = apply_plan(cluster, plan, stop=lambda: False, control=WriteControl(pace))
    assert set(found(report).values()) == {Result.DONE}
    assert pace.events.count("rest") >= 3
    world.wait_until_idle()
    backlog.update(cluster.poll(backlog.topics_to_poll()))
    assert backlog.topics_to_poll() == {}
    assert {name: stage for name, stage in backlog.progress_states.items() if stage != FINISHED} == {}

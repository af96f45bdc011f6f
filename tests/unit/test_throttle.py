"""The limit of replicas in flight: how much more a run may write, and which partitions it waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from support.builders import spec, state, topic
from topiarist.errors import Reason
from topiarist.kafka.types import Replicas
from topiarist.model.outcome import TopicProgress, partitions_to_initialize
from topiarist.model.plan import MAX_INFLIGHT_REPLICAS_PER_BROKER, CreateTopic, RunOptions, TopicPlan
from topiarist.model.spec import ClusterSpec
from topiarist.planning.planner import make_plan
from topiarist.throttle import InFlightLimit, PollResult

ON_ONE = ((1, 2),) * 3
"""Three partitions with a replica on broker 1 and one on broker 2 each."""


def made(name: str, replicas: tuple[Replicas, ...] = ON_ONE) -> TopicPlan:
    """Return a plan that creates a topic with these replica lists."""
    return TopicPlan(name, changes=(CreateTopic(replicas, {}),))


def taken(plan: TopicPlan, *partitions: int) -> Mapping[str, TopicProgress]:
    """Return a poll result with these partitions of the topic initialized."""
    return {
        plan.topic: TopicProgress(
            "1", False, replicas=partitions_to_initialize(plan), initialized=frozenset(partitions)
        )
    }


def test_the_default_is_250_replicas_per_broker() -> None:
    """The default is 250, as measured in docs/internals/performance.md: a fifth slower than 1,000, and other clients
    wait for a third of the time.
    """
    assert MAX_INFLIGHT_REPLICAS_PER_BROKER == 250


def test_what_would_be_too_much_for_one_broker_waits() -> None:
    """The limit counts per broker: a topic on other brokers is written, and so is a topic that fits exactly."""
    backlog = InFlightLimit(6)
    assert backlog.try_acquire(made("a"))
    assert backlog.try_acquire(made("b"))
    assert not backlog.try_acquire(made("c", ((3, 1),)))
    assert backlog.try_acquire(made("d", ((3, 4),)))


def test_room_comes_back_partition_by_partition() -> None:
    """Each initialized partition makes room, before its topic is finished."""
    backlog, first, second = InFlightLimit(3), made("a"), made("b", ((1,), (1,)))
    assert backlog.try_acquire(first)
    backlog.complete(first, written=True)
    assert backlog.update(taken(first, 0)) == PollResult(progress=True)
    assert not backlog.try_acquire(second)
    assert backlog.topics_to_poll() == {"a": (1, 2)}
    assert backlog.update(taken(first, 1)) == PollResult(progress=True)
    assert backlog.try_acquire(second)
    assert backlog.update(taken(first, 2)) == PollResult(progress=True, finished=("a",))


def test_a_topic_that_was_not_written_gives_its_room_back() -> None:
    """A topic that failed or is in conflict releases its room, and a new plan of the topic acquires it again."""
    backlog, plan = InFlightLimit(3), made("a")
    assert backlog.try_acquire(plan)
    assert not backlog.try_acquire(made("b"))
    backlog.complete(plan, written=False)
    assert backlog.topics_to_poll() == {}
    assert backlog.try_acquire(made("a"))
    assert not backlog.try_acquire(made("b"))


def test_a_topic_that_is_over_gives_its_room_back() -> None:
    """A topic releases its room if another client deleted it, or if none of its brokers is registered."""
    backlog, plan = InFlightLimit(3), made("a")
    for gone in (
        TopicProgress(None, False),
        TopicProgress("1", False, (1, 2), replicas=partitions_to_initialize(plan)),
    ):
        assert backlog.try_acquire(plan)
        backlog.complete(plan, written=True)
        assert backlog.update({"a": gone}) == PollResult(progress=True, finished=("a",))
        assert backlog.topics_to_poll() == {}
    assert backlog.try_acquire(made("b"))


def test_a_topic_larger_than_the_limit_goes_when_nothing_else_is_ahead() -> None:
    """A topic above the limit is written when no other topic is in flight; otherwise it would wait forever."""
    backlog, large, small = InFlightLimit(2), made("large"), made("small", ((1,),))
    assert backlog.try_acquire(small)
    assert not backlog.try_acquire(large)
    backlog.complete(small, written=True)
    backlog.update(taken(small, 0))
    assert backlog.try_acquire(large)
    assert not backlog.try_acquire(made("other", ((2,),)))


def test_only_what_is_written_is_looked_at() -> None:
    """The run polls only written topics: deletions without partitions, and config changes not at all."""
    backlog, cluster_state = (
        InFlightLimit(),
        state(topic("gone"), topic("same"), topic("late"), pending_deletions=frozenset({"late"})),
    )
    specs = [spec("gone", ensure="Absent"), spec("late", ensure="Absent"), spec("same", config={"retention.ms": 5})]
    plans = make_plan(cluster_state, ClusterSpec(), specs, RunOptions()).topics
    assert [plan.topic for plan in plans] == ["gone", "late", "same"]
    assert backlog.try_acquire(made("new"))
    for plan in plans:
        backlog.complete(plan, written=True)
    assert backlog.topics_to_poll() == {"gone": (), "late": ()}


def test_the_last_stage_of_each_topic_is_kept() -> None:
    """The report gets the last progress of each topic, including topics with a finished wait."""
    backlog, plan = InFlightLimit(), made("a")
    backlog.complete(plan, written=True)
    assert backlog.update(taken(plan)) == PollResult(progress=False)
    assert backlog.progress_states["a"].reason is Reason.NOT_INITIALIZED
    assert backlog.update(taken(plan, 0, 1, 2)) == PollResult(progress=True, finished=("a",))
    assert backlog.progress_states["a"].final


REPLICAS = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True).map(tuple), min_size=1, max_size=5)


@given(st.lists(REPLICAS, max_size=12), st.integers(1, 8), st.data())
def test_no_broker_ever_has_more_ahead(topics: list[list[Replicas]], most: int, data: st.DataObject) -> None:
    """In any order of initialization, a broker has at most ``most`` replicas in flight or those of one topic, and all
    topics are written in the end.
    """
    backlog = InFlightLimit(most)
    waiting = [made(f"t{number}", tuple(lists)) for number, lists in enumerate(topics)]
    ahead: dict[str, dict[int, Replicas]] = {}
    plans = {plan.topic: plan for plan in waiting}
    while waiting or ahead:
        while waiting and backlog.try_acquire(waiting[0]):
            plan = waiting.pop(0)
            backlog.complete(plan, written=True)
            ahead[plan.topic] = dict(partitions_to_initialize(plan))
        on = {broker for lists in ahead.values() for replicas in lists.values() for broker in replicas}
        for broker in on:
            loads = Counter(name for name, lists in ahead.items() for each in lists.values() if broker in each)
            assert loads.total() <= most or len(loads) == 1
        assert ahead, "nothing is ahead, and nothing may go"
        name = data.draw(st.sampled_from(sorted(ahead)))
        number = data.draw(st.sampled_from(sorted(ahead[name])))
        backlog.update(taken(plans[name], number))
        del ahead[name][number]
        ahead = {name: lists for name, lists in ahead.items() if lists}

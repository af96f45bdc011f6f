"""The controller's backlog: how much more may be written, and what is waited for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from support.states import cluster, spec, topic
from topiarist.core.backlog import AHEAD, Backlog, Seen
from topiarist.core.change import CreateTopic, TopicPlan
from topiarist.core.plan import Run, make_plan
from topiarist.core.spec import ClusterSpec
from topiarist.core.state import Replicas
from topiarist.core.waiting import Sight, brings
from topiarist.errors import Reason

ON_ONE = ((1, 2),) * 3
"""Three partitions with a replica on broker 1 and one on broker 2 each."""


def made(name: str, replicas: tuple[Replicas, ...] = ON_ONE) -> TopicPlan:
    """The plan that creates a topic with these replica lists."""
    return TopicPlan(name, changes=(CreateTopic(replicas, {}),))


def taken(plan: TopicPlan, *partitions: int) -> Mapping[str, Sight]:
    """A look that shows the topic with these partitions taken over."""
    return {plan.topic: Sight(1, False, replicas=brings(plan), taken=frozenset(partitions))}


def test_the_default_is_250_replicas_per_broker() -> None:
    """As docs/performance.md has measured: a fifth slower than a thousand, and others wait for a third of the time."""
    assert AHEAD == 250


def test_what_would_be_too_much_for_one_broker_waits() -> None:
    """Counted per broker: a topic on others goes on, and one that fits to the last replica does too."""
    backlog = Backlog(6)
    assert backlog.take(made("a"))
    assert backlog.take(made("b"))
    assert not backlog.take(made("c", ((3, 1),)))
    assert backlog.take(made("d", ((3, 4),)))


def test_room_comes_back_partition_by_partition() -> None:
    """Not only when a topic is finished."""
    backlog, first, second = Backlog(3), made("a"), made("b", ((1,), (1,)))
    assert backlog.take(first)
    backlog.settle(first, written=True)
    assert backlog.see(taken(first, 0)) == Seen(progress=True)
    assert not backlog.take(second)
    assert backlog.asked() == {"a": (1, 2)}
    assert backlog.see(taken(first, 1)) == Seen(progress=True)
    assert backlog.take(second)
    assert backlog.see(taken(first, 2)) == Seen(progress=True, finished=("a",))


def test_a_topic_that_was_not_written_gives_its_room_back() -> None:
    """It moved or failed; planned anew it is taken anew."""
    backlog, plan = Backlog(3), made("a")
    assert backlog.take(plan)
    assert not backlog.take(made("b"))
    backlog.settle(plan, written=False)
    assert backlog.asked() == {}
    assert backlog.take(made("a"))
    assert not backlog.take(made("b"))


def test_a_topic_that_is_over_gives_its_room_back() -> None:
    """Also one that somebody has deleted meanwhile, or whose last partitions nobody waits for."""
    backlog, plan = Backlog(3), made("a")
    for gone in (Sight(None, False), Sight(1, False, (1, 2), replicas=brings(plan))):
        assert backlog.take(plan)
        backlog.settle(plan, written=True)
        assert backlog.see({"a": gone}) == Seen(progress=True, finished=("a",))
        assert backlog.asked() == {}
    assert backlog.take(made("b"))


def test_a_topic_larger_than_the_limit_goes_when_nothing_else_is_ahead() -> None:
    """Otherwise it would never go."""
    backlog, large, small = Backlog(2), made("large"), made("small", ((1,),))
    assert backlog.take(small)
    assert not backlog.take(large)
    backlog.settle(small, written=True)
    backlog.see(taken(small, 0))
    assert backlog.take(large)
    assert not backlog.take(made("other", ((2,),)))


def test_only_what_is_written_is_looked_at() -> None:
    """Sent is not written; deletions are waited for without partitions, changes of config not at all."""
    backlog, state = Backlog(), cluster(topic("gone"), topic("same"), topic("late"), deleting=frozenset({"late"}))
    specs = [spec("gone", ensure="Absent"), spec("late", ensure="Absent"), spec("same", config={"retention.ms": 5})]
    plans = make_plan(state, ClusterSpec(), specs, Run()).topics
    assert [plan.topic for plan in plans] == ["gone", "late", "same"]
    assert backlog.take(made("new"))
    for plan in plans:
        backlog.settle(plan, written=True)
    assert backlog.asked() == {"gone": (), "late": ()}


def test_the_last_stage_of_each_topic_is_kept() -> None:
    """For the report: also of those for which the waiting is over."""
    backlog, plan = Backlog(), made("a")
    backlog.settle(plan, written=True)
    assert backlog.see(taken(plan)) == Seen(progress=False)
    assert backlog.stages["a"].reason is Reason.NOT_TAKEN_OVER
    assert backlog.see(taken(plan, 0, 1, 2)) == Seen(progress=True, finished=("a",))
    assert backlog.stages["a"].final


REPLICAS = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True).map(tuple), min_size=1, max_size=5)


@given(st.lists(REPLICAS, max_size=12), st.integers(1, 8), st.data())
def test_no_broker_ever_has_more_ahead(topics: list[list[Replicas]], most: int, data: st.DataObject) -> None:
    """Whatever is taken over in whatever order: at most ``most`` replicas a broker, or those of one topic; and all of
    them go in the end.
    """
    backlog = Backlog(most)
    waiting = [made(f"t{number}", tuple(lists)) for number, lists in enumerate(topics)]
    ahead: dict[str, dict[int, Replicas]] = {}
    plans = {plan.topic: plan for plan in waiting}
    while waiting or ahead:
        while waiting and backlog.take(waiting[0]):
            plan = waiting.pop(0)
            backlog.settle(plan, written=True)
            ahead[plan.topic] = dict(brings(plan))
        on = {broker for lists in ahead.values() for replicas in lists.values() for broker in replicas}
        for broker in on:
            loads = Counter(name for name, lists in ahead.items() for each in lists.values() if broker in each)
            assert loads.total() <= most or len(loads) == 1
        assert ahead, "nothing is ahead, and nothing may go"
        name = data.draw(st.sampled_from(sorted(ahead)))
        number = data.draw(st.sampled_from(sorted(ahead[name])))
        backlog.see(taken(plans[name], number))
        del ahead[name][number]
        ahead = {name: lists for name, lists in ahead.items() if lists}

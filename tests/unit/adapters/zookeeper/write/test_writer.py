"""The write queue of a run: order, withheld topics, and number of attempts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.memory_cluster import Gate
from topiarist.adapters.zookeeper.connection.session import MAX_DISCONNECTS
from topiarist.adapters.zookeeper.write.writer import MAX_ATTEMPTS, TopicWrite, WriteQueue
from topiarist.model.plan import CreateTopic, TopicPlan, UpdateConfig


def creation(name: str) -> TopicPlan:
    """Return a topic with new partitions."""
    return TopicPlan(name, changes=(CreateTopic(((1,),), {}),))


def update(name: str) -> TopicPlan:
    """Return a topic without new partitions."""
    return TopicPlan(name, changes=(UpdateConfig(()),))


def names(plans: list[TopicPlan]) -> list[str]:
    """Return the names of the topics."""
    return [plan.topic for plan in plans]


def filled(pace: Gate | None, *plans: TopicPlan, stopped: bool = False) -> WriteQueue:
    """Return a queue with these topics."""
    jobs = WriteQueue(pace, lambda: stopped)
    for plan in plans:
        jobs.add(plan)
    return jobs


def test_without_a_pace_topics_go_in_their_order() -> None:
    """Without a pace the queue neither holds topics back nor waits."""
    jobs = filled(None, creation("a"), update("b"), creation("c"))
    assert not jobs.wait()
    assert names(jobs.peek(2)) == ["a", "b"]
    assert [jobs.pop().plan.topic for _ in range(len(jobs))] == ["a", "b", "c"]
    assert not jobs.peek(2)


def test_only_topics_with_new_partitions_are_held_back() -> None:
    """Topics without new partitions are first, then as many as the pace admits, and the next after a wait."""
    pace = Gate(2)
    jobs = filled(pace, creation("a"), update("b"), creation("c"), creation("d"))
    assert names(jobs.peek(9)) == ["b"]
    assert not jobs.wait()
    assert names(jobs.peek(9)) == ["b", "a", "c"]
    while jobs:
        jobs.pop()
    assert jobs.wait()
    assert (pace.waits, names(jobs.peek(9))) == (1, ["d"])


def test_who_is_stopped_waits_for_nothing() -> None:
    """A stopped run does not wait, and its remaining topics are listed as not written."""
    pace = Gate(1)
    jobs = filled(pace, creation("a"), stopped=True)
    assert not jobs.wait()
    assert (len(jobs), pace.waits, list(jobs.remaining())) == (0, 0, [creation("a")])


@pytest.mark.parametrize(
    ("again", "most"), [(WriteQueue.retry_conflict, MAX_ATTEMPTS), (WriteQueue.retry_disconnect, MAX_DISCONNECTS)]
)
def test_a_topic_is_tried_so_often(again: Callable[[WriteQueue, TopicWrite], bool], most: int) -> None:
    """Conflicts and disconnects have separate limits; after the last attempt the topic is not queued again."""
    jobs = filled(None, update("a"))
    tried = [again(jobs, jobs.pop()) for _ in range(most)]
    assert tried == [True] * (most - 1) + [False]
    assert not jobs


@pytest.mark.parametrize(
    ("again", "most"), [(WriteQueue.retry_conflict, MAX_ATTEMPTS), (WriteQueue.retry_disconnect, MAX_DISCONNECTS)]
)
def test_what_comes_back_after_the_end_is_left(again: Callable[[WriteQueue, TopicWrite], bool], most: int) -> None:
    """A closed queue sends nothing, so that attempts have no limit and the topic remains in the queue."""
    jobs = filled(None, update("a"))
    jobs.close()
    assert all(again(jobs, jobs.pop()) for _ in range(most + 1))
    assert list(jobs.remaining()) == [update("a")]

"""The Events and status writes of many Topics that one budget or limit holds, in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from campaigns import workloads
from campaigns.workloads import Step, create_topic, delete
from campaigns.world import World, run_world
from support.examples import slow_but

NUMBER = 6
"""The smaller number of held Topics; the larger one is twice this number."""


def deletions(names: Sequence[str]) -> tuple[list[Step], list[Step]]:
    """Request more deletions than the budget allows."""
    cluster = workloads.create_cluster(budgets={"deletions": 1})
    made = [cluster, *(create_topic(name, deletionPolicy="Delete") for name in names)]
    return made, [delete("topics", name) for name in names]


def growths(names: Sequence[str]) -> tuple[list[Step], list[Step]]:
    """Request more new partitions than the budget allows."""
    made = [workloads.create_cluster(budgets={"newPartitions": 100}), *(create_topic(name) for name in names)]
    return made, [workloads.update_topic(name, partitions=500) for name in names]


def large_topics(names: Sequence[str]) -> tuple[list[Step], list[Step]]:
    """Request more partitions than one topic may have."""
    made = [workloads.create_cluster(budgets={"partitionsPerTopic": 10}), *(create_topic(name) for name in names)]
    return made, [workloads.update_topic(name, partitions=20 + number) for number, name in enumerate(names)]


def share(names: Sequence[str]) -> tuple[list[Step], list[Step]]:
    """Request changes of a larger share of the topics than the budget allows."""
    made = [workloads.create_cluster(budgets={"changedShare": "1%"}), *(create_topic(name) for name in names)]
    return made, [workloads.update_topic(name, config={"flush.ms": 7}) for name in names]


def group(names: Sequence[str]) -> tuple[list[Step], list[Step]]:
    """Request more topics than the limit of a group allows."""
    limits = [{"name": "few", "per": "Namespace", "topics": 1}]
    return [workloads.create_cluster(budgets={"limits": limits})], [create_topic(name) for name in names]


def count_news(number: int, make_steps: Callable[[Sequence[str]], tuple[list[Step], list[Step]]]) -> Counter[str]:
    """Return the Events and status writes of ``number`` Topics that are held one after the other."""
    made, steps = make_steps([f"t{each:03}" for each in range(number)])

    async def work(world: World) -> Counter[str]:
        await world.start_operator()
        await world.perform(*made)
        events, writes = len(world.events), len(world.interruptions.writes)
        for step in steps:
            await world.perform(step)
        await world.advance(100)
        news: Counter[str] = Counter(event.partition("/")[0] for event in world.events[events:])
        written = [each for each in world.interruptions.writes[writes:] if each.startswith("topics/")]
        assert any(event.startswith("Topic/") for event in world.events[events:])
        return news + Counter({"statuses": len(written)})

    return run_world(work)


@pytest.mark.parametrize("make_steps", slow_but([deletions], [deletions, growths, large_topics, share, group]))
def test_twice_the_held_topics_have_twice_the_events(make_steps: Any) -> None:
    """A Topic gets neither an Event nor a status because another Topic is held too."""
    once, twice = count_news(NUMBER, make_steps), count_news(2 * NUMBER, make_steps)
    assert twice["Topic"] <= 2 * once["Topic"] + 2
    assert twice["statuses"] <= 2 * once["statuses"] + 4

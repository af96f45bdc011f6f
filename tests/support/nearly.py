"""Clusters that are as asked but for one thing a topic: there a comparison that is a little too lax shows.

In a random cluster almost every topic differs in several ways, and one that is missed hides behind the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from topiarist.core.spec import TopicSpec
from topiarist.core.state import ClusterState, Fault, Gate, TopicRecord, TopicState
from unit.strategies import World

Change = Callable[[TopicState], TopicState]


def _configured(key: str, text: str | None) -> Change:
    def change(topic: TopicState) -> TopicState:
        config = {name: value for name, value in topic.config.items() if name != key}
        return replace(topic, config=config if text is None else {**config, key: text})

    return change


def _record(**fields: Any) -> Change:
    return lambda topic: replace(topic, record=replace(topic.record or TopicRecord("default"), **fields))


def _lists(change: Callable[[list[tuple[int, ...]]], list[tuple[int, ...]]]) -> Change:
    def changed(topic: TopicState) -> TopicState:
        lists = tuple(change(list(topic.replicas)))
        return replace(topic, replicas=lists, partition_ids=range(len(lists)))

    return changed


CHANGES: tuple[Change, ...] = (
    _configured("retention.ms", "1"),
    _configured("retention.ms", None),
    _configured("flush.ms", "7"),
    _configured("follower.replication.throttled.replicas", "*"),
    _configured("min.insync.replicas", "3"),
    _configured("min.insync.replicas", "+1"),
    _configured("cleanup.policy", "compact , delete"),
    _record(owner="another"),
    _record(absent=True),
    _record(config=()),
    lambda topic: replace(topic, record=None, record_valid=False),
    lambda topic: replace(topic, record_valid=False),
    lambda topic: replace(topic, changed_outside=True),
    lambda topic: replace(topic, unknown_fields=("vendor",)),
    lambda topic: replace(topic, reassigning=(0,)),
    lambda topic: replace(topic, partition_ids=range(1, len(topic.replicas) + 1)),
    _lists(lambda lists: lists[:-1]),
    _lists(lambda lists: [*lists, lists[0]] if lists else [(1,)]),
    _lists(lambda lists: [(), *lists[1:]]),
    _lists(lambda lists: [lists[0][:1], *lists[1:]] if lists else []),
    _lists(lambda lists: [lists[0][::-1], *lists[1:]] if lists else []),
    _lists(lambda lists: [(9, *lists[0][1:]), *lists[1:]] if lists else []),
)
"""One thing that may be otherwise; 9 is a broker that is not registered."""


def nearly(world: World, seed: int) -> World:
    """The world with every topic as its spec asks, also one that should be gone, and then one thing changed in half."""
    random, cluster = Random(seed), replace(world.cluster, default_config={})
    specs = tuple(replace(spec, observe=False) for spec in world.specs)
    asked = {spec.topic: _asked(spec) for spec in specs}
    bare = replace(world.state, gate=Gate(), deleting=frozenset(), reassigning=frozenset(), faults={}, records={})
    topics = {name: _otherwise(random, topic) for name, topic in asked.items() if random.random() < 0.95}
    return World(_marked(random, replace(bare, topics=topics)), cluster, specs, world.run)


def _asked(spec: TopicSpec) -> TopicState:
    """A topic that is as a spec asks, with the record that its plan would leave."""
    width = spec.replication_factor or 2
    lists = [tuple((first + step) % 4 + 1 for step in range(width)) for first in range(spec.create_partitions)]
    replicas = spec.assignment or tuple(lists)
    record = TopicRecord("default", tuple(sorted(spec.config)))
    return TopicState(spec.topic, 7, replicas, dict(spec.config), record=record, record_valid=True)


def _otherwise(random: Random, topic: TopicState) -> TopicState:
    return random.choice(CHANGES)(topic) if random.random() < 0.5 else topic


def _marked(random: Random, state: ClusterState) -> ClusterState:
    """Now and then a topic is marked for deletion, or cannot be read."""
    names = sorted(state.topics)
    marked = frozenset(name for name in names if random.random() < 0.05)
    faulty = {name for name in names if random.random() < 0.05}
    return replace(
        state,
        deleting=marked,
        topics={name: topic for name, topic in state.topics.items() if name not in faulty},
        faults={name: Fault(f"/brokers/topics/{name}", "is no JSON") for name in faulty},
    )

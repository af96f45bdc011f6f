"""Single topics as somebody sees them who waits for the controller: few reads, often. Above stands ``core.waiting``.

A partition is taken over once its state exists. Its state is below a znode of its own, which the controller makes
directly before: so one list of children a topic says of which partitions a state is worth asking for at all, and
while the controller has not come to a topic, that list is all that its partitions cost. Where MultiRead is known, a
look at a hundred topics is a handful of requests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple, TypeVar

from topiarist.adapters import znodes
from topiarist.adapters.znodes import Pool, ZnodeError, paths
from topiarist.adapters.zookeeper.head import read_requested
from topiarist.adapters.zookeeper.session import Session
from topiarist.adapters.zookeeper.wire import Failure, Names, Node, read_children, read_nodes, sync
from topiarist.core.waiting import Sight
from topiarist.errors import Reason, TopiaristError

Answer = TypeVar("Answer")


class _Seen(NamedTuple):
    """What is the same for all topics, and what was read of each before the topic itself."""

    registered: frozenset[str]
    marked: frozenset[str]
    reassigning: frozenset[str]
    led: bool
    taken: Mapping[str, frozenset[int]]
    records: Mapping[str, Node | Failure]


def look(session: Session, topics: Mapping[str, Collection[int]]) -> Mapping[str, Sight]:
    """Each topic as of now, with those of the partitions asked about that are taken over.

    The marks first: the controller takes the topic away before the mark, so that a topic which is there after its mark
    has gone was not deleted. The topics last: a growth that is there now was not lost before its states were seen.
    """
    sync(session)
    marks, brokers = _allowed(read_children(session, [paths.DELETIONS, paths.BROKER_IDS]))
    asked = {name: partitions for name, partitions in topics.items() if partitions}
    taken = _taken(session, asked)
    controller, *records = _allowed(read_nodes(session, [paths.CONTROLLER, *map(znodes.record_path, asked)]))
    seen = _Seen(
        registered=_names(brokers),
        marked=_names(marks),
        reassigning=read_requested(session, list(topics)).topics,
        led=controller is not Failure.MISSING,
        taken=taken,
        records=dict(zip(asked, records, strict=True)),
    )
    nodes = _allowed(read_nodes(session, map(znodes.topic_path, topics)))
    return {name: _sight(name, node, seen) for name, node in zip(topics, nodes, strict=True)}


def _taken(session: Session, asked: Mapping[str, Collection[int]]) -> Mapping[str, frozenset[int]]:
    """The partitions with a state, of those asked about."""
    lists = _allowed(read_children(session, map(znodes.partitions_path, asked)))
    begun = {name: _names(found) for name, found in zip(asked, lists, strict=True)}
    worth = [(name, number) for name in asked for number in asked[name] if str(number) in begun[name]]
    states = _allowed(read_nodes(session, (znodes.partition_state_path(*each) for each in worth)))
    found = [each for each, state in zip(worth, states, strict=True) if state is not Failure.MISSING]
    taken: dict[str, set[int]] = {name: set() for name in asked}
    for name, number in found:
        taken[name].add(number)
    return {name: frozenset(numbers) for name, numbers in taken.items()}


def _sight(name: str, topic: Node | Failure, seen: _Seen) -> Sight:
    marked = name in seen.marked
    if isinstance(topic, Failure):
        return Sight(None, marked)
    sight = Sight(topic.czxid, marked, reassigning=name in seen.reassigning)
    if name in seen.records:
        record = seen.records[name]
        stale = isinstance(record, Node) and record.mzxid < topic.czxid
        sight = sight._replace(taken=seen.taken[name], stale=stale, led=seen.led)
    try:
        found = Pool().topic(topic.data)
    except ZnodeError as error:
        # What it cannot say, it cannot wait for either.
        return sight._replace(fault=str(error)) if name in seen.records else sight
    brokers = {broker for replicas in found.replicas for broker in replicas}
    missing = tuple(sorted(broker for broker in brokers if str(broker) not in seen.registered))
    sight = sight._replace(missing=missing, reassigning=sight.reassigning or bool(found.reassigning))
    if name not in seen.records:
        return sight
    replicas = dict(zip(found.partition_ids, found.replicas, strict=True))
    return sight._replace(replicas=replicas, topic_id=found.topic_id)


def _names(children: Names | Failure) -> frozenset[str]:
    return frozenset() if isinstance(children, Failure) else frozenset(children)


def _allowed(answers: Iterator[Answer]) -> list[Answer]:
    """All answers; raises ``NoPermission`` if one of them is that we may not see it."""
    found = list(answers)
    if Failure.DENIED in found:
        raise TopiaristError(Reason.NO_PERMISSION, "no permission any more to read the topics that are waited for")
    return found

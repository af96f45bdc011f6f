"""Single topics as somebody sees them who waits for the controller: few reads, often. Above stands ``model.progress``.

A partition is taken over once its state exists. Its state is below a znode of its own, which the controller makes
directly before: so one list of children a topic says of which partitions a state is worth asking for at all, and
while the controller has not come to a topic, that list is all that its partitions cost. Where MultiRead is known, a
look at a hundred topics is a handful of requests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple, TypeVar

from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec.strict_json import ZnodeError
from topiarist.adapters.zookeeper.codec.topics import ZnodeDecoder
from topiarist.adapters.zookeeper.connection.session import Session
from topiarist.adapters.zookeeper.read.bulk_read import ChildNames, ReadFailure, Znode, read_children, read_znodes, sync
from topiarist.adapters.zookeeper.read.cluster_metadata import read_reassignment_request
from topiarist.errors import Reason, TopiaristError
from topiarist.model.progress import TopicProgress

Answer = TypeVar("Answer")


class _SharedReads(NamedTuple):
    """What is the same for all topics, and what was read of each before the topic itself."""

    registered_brokers: frozenset[str]
    marked_for_deletion: frozenset[str]
    reassigning_topics: frozenset[str]
    has_controller: bool
    initialized: Mapping[str, frozenset[int]]
    records: Mapping[str, Znode | ReadFailure]


def poll_progress(session: Session, topics: Mapping[str, Collection[int]]) -> Mapping[str, TopicProgress]:
    """Each topic as of now, with those of the partitions asked about that are taken over.

    The marks first: the controller takes the topic away before the mark, so that a topic which is there after its mark
    has gone was not deleted. The topics last: a growth that is there now was not lost before its states were seen.
    """
    sync(session)
    marks, brokers = _require_permission(read_children(session, [paths.DELETION_REQUESTS, paths.BROKER_IDS]))
    asked = {name: partitions for name, partitions in topics.items() if partitions}
    taken = _read_initialized_partitions(session, asked)
    controller, *records = _require_permission(read_znodes(session, [paths.CONTROLLER, *map(paths.record_path, asked)]))
    seen = _SharedReads(
        registered_brokers=_child_name_set(brokers),
        marked_for_deletion=_child_name_set(marks),
        reassigning_topics=read_reassignment_request(session, list(topics)).topics,
        has_controller=controller is not ReadFailure.MISSING,
        initialized=taken,
        records=dict(zip(asked, records, strict=True)),
    )
    nodes = _require_permission(read_znodes(session, map(paths.topic_path, topics)))
    return {name: _build_topic_progress(name, node, seen) for name, node in zip(topics, nodes, strict=True)}


def _read_initialized_partitions(
    session: Session, partitions_by_topic: Mapping[str, Collection[int]]
) -> Mapping[str, frozenset[int]]:
    """The partitions with a state, of those asked about."""
    lists = _require_permission(read_children(session, map(paths.partitions_path, partitions_by_topic)))
    begun = {name: _child_name_set(found) for name, found in zip(partitions_by_topic, lists, strict=True)}
    worth = [
        (name, number)
        for name in partitions_by_topic
        for number in partitions_by_topic[name]
        if str(number) in begun[name]
    ]
    states = _require_permission(read_znodes(session, (paths.partition_state_path(*each) for each in worth)))
    found = [each for each, state in zip(worth, states, strict=True) if state is not ReadFailure.MISSING]
    taken: dict[str, set[int]] = {name: set() for name in partitions_by_topic}
    for name, number in found:
        taken[name].add(number)
    return {name: frozenset(numbers) for name, numbers in taken.items()}


def _build_topic_progress(name: str, topic: Znode | ReadFailure, shared: _SharedReads) -> TopicProgress:
    marked = name in shared.marked_for_deletion
    if isinstance(topic, ReadFailure):
        return TopicProgress(None, marked)
    sight = TopicProgress(topic.czxid, marked, reassigning=name in shared.reassigning_topics)
    if name in shared.records:
        record = shared.records[name]
        stale = isinstance(record, Znode) and record.mzxid < topic.czxid
        sight = sight._replace(
            initialized=shared.initialized[name], record_stale=stale, has_controller=shared.has_controller
        )
    try:
        found = ZnodeDecoder().decode_topic(topic.data)
    except ZnodeError as error:
        # What it cannot say, it cannot wait for either.
        return sight._replace(read_error=str(error)) if name in shared.records else sight
    brokers = {broker for replicas in found.replicas for broker in replicas}
    missing = tuple(sorted(broker for broker in brokers if str(broker) not in shared.registered_brokers))
    sight = sight._replace(missing_brokers=missing, reassigning=sight.reassigning or bool(found.reassigning_partitions))
    if name not in shared.records:
        return sight
    replicas = dict(zip(found.partition_ids, found.replicas, strict=True))
    return sight._replace(replicas=replicas, topic_id=found.topic_id)


def _child_name_set(children: ChildNames | ReadFailure) -> frozenset[str]:
    return frozenset() if isinstance(children, ReadFailure) else frozenset(children)


def _require_permission(answers: Iterator[Answer]) -> list[Answer]:
    """All answers; raises ``NoPermission`` if one of them is that we may not see it."""
    found = list(answers)
    if ReadFailure.DENIED in found:
        raise TopiaristError(Reason.NO_PERMISSION, "no permission any more to read the topics that are waited for")
    return found

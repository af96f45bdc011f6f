"""Read the progress of the controller on single topics: few reads, repeated often.

A partition is initialized once its state exists. The controller creates the parent znode of a state directly before the
state itself. One list of children per topic therefore shows the partitions that can have a state. Until the controller
handles a topic, that list is the only read for its partitions. With MultiRead, a poll of a hundred topics takes a
handful of requests. ``ZooKeeperCluster.poll`` calls this module, and ``model.progress`` interprets the result.
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
    """The reads that all topics share, and the reads of each topic that come before its own znode.

    ``initialized`` and ``records`` have only the topics with partitions to poll.
    """

    registered_brokers: frozenset[str]
    marked_for_deletion: frozenset[str]
    reassigning_topics: frozenset[str]
    has_controller: bool
    initialized: Mapping[str, frozenset[int]]
    records: Mapping[str, Znode | ReadFailure]


def poll_progress(session: Session, topics: Mapping[str, Collection[int]]) -> Mapping[str, TopicProgress]:
    """Return the progress of each topic, with the initialized partitions among those asked for.

    Deletion requests are read first: the controller deletes the topic before the request, so a topic that exists after
    its request was removed was not deleted. Topics are read last: growth that is present now was not lost before its
    states were read. Raises ``NoPermission``.
    """
    sync(session)
    deletion_requests, brokers = _require_permission(
        read_children(session, [paths.DELETION_REQUESTS, paths.BROKER_IDS])
    )
    partitions_by_topic = {name: partitions for name, partitions in topics.items() if partitions}
    initialized = _read_initialized_partitions(session, partitions_by_topic)
    controller, *records = _require_permission(
        read_znodes(session, [paths.CONTROLLER, *map(paths.record_path, partitions_by_topic)])
    )
    shared = _SharedReads(
        registered_brokers=_child_name_set(brokers),
        marked_for_deletion=_child_name_set(deletion_requests),
        reassigning_topics=read_reassignment_request(session, list(topics)).topics,
        has_controller=controller is not ReadFailure.MISSING,
        initialized=initialized,
        records=dict(zip(partitions_by_topic, records, strict=True)),
    )
    nodes = _require_permission(read_znodes(session, map(paths.topic_path, topics)))
    return {name: _build_topic_progress(name, node, shared) for name, node in zip(topics, nodes, strict=True)}


def _read_initialized_partitions(
    session: Session, partitions_by_topic: Mapping[str, Collection[int]]
) -> Mapping[str, frozenset[int]]:
    """Return the partitions that have a state, among those asked for."""
    lists = _require_permission(read_children(session, map(paths.partitions_path, partitions_by_topic)))
    existing_names = {name: _child_name_set(found) for name, found in zip(partitions_by_topic, lists, strict=True)}
    candidates = [
        (name, number)
        for name in partitions_by_topic
        for number in partitions_by_topic[name]
        if str(number) in existing_names[name]
    ]
    states = _require_permission(read_znodes(session, (paths.partition_state_path(*each) for each in candidates)))
    found = [each for each, state in zip(candidates, states, strict=True) if state is not ReadFailure.MISSING]
    initialized: dict[str, set[int]] = {name: set() for name in partitions_by_topic}
    for name, number in found:
        initialized[name].add(number)
    return {name: frozenset(numbers) for name, numbers in initialized.items()}


def _build_topic_progress(name: str, topic: Znode | ReadFailure, shared: _SharedReads) -> TopicProgress:
    marked = name in shared.marked_for_deletion
    if isinstance(topic, ReadFailure):
        return TopicProgress(None, marked)
    progress = TopicProgress(topic.czxid, marked, reassigning=name in shared.reassigning_topics)
    if name in shared.records:
        record = shared.records[name]
        stale = isinstance(record, Znode) and record.mzxid < topic.czxid
        progress = progress._replace(
            initialized=shared.initialized[name], record_stale=stale, has_controller=shared.has_controller
        )
    try:
        assignment = ZnodeDecoder().decode_topic(topic.data)
    except ZnodeError as error:
        # Without an assignment there is no partition to wait for: the error ends the wait.
        return progress._replace(read_error=str(error)) if name in shared.records else progress
    brokers = {broker for replicas in assignment.replicas for broker in replicas}
    missing = tuple(sorted(broker for broker in brokers if str(broker) not in shared.registered_brokers))
    progress = progress._replace(
        missing_brokers=missing, reassigning=progress.reassigning or bool(assignment.reassigning_partitions)
    )
    if name not in shared.records:
        return progress
    replicas = dict(zip(assignment.partition_ids, assignment.replicas, strict=True))
    return progress._replace(replicas=replicas, topic_id=assignment.topic_id)


def _child_name_set(children: ChildNames | ReadFailure) -> frozenset[str]:
    return frozenset() if isinstance(children, ReadFailure) else frozenset(children)


def _require_permission(answers: Iterator[Answer]) -> list[Answer]:
    """Return all answers; raise ``NoPermission`` if the permission for one of them is missing."""
    results = list(answers)
    if ReadFailure.DENIED in results:
        raise TopiaristError(Reason.NO_PERMISSION, "no permission any more to read the topics that are waited for")
    return results

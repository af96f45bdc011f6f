"""Read the progress of the controller on single topics: few reads, repeated often.

A partition is initialized once its state exists. The controller creates the parent znode of a state directly before the
state itself. One list of children per topic therefore shows the partitions that can have a state. Until the controller
handles a topic, that list is the only read for its partitions. With MultiRead, a poll of a hundred topics takes a
handful of requests. ``model.outcome`` interprets the result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TypeVar

from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec.strict_json import ZnodeError
from topiarist.adapters.zookeeper.codec.topics import decode_topic
from topiarist.adapters.zookeeper.connection.session import Session
from topiarist.adapters.zookeeper.read.bulk_read import ChildNames, ReadFailure, Znode, read_children, read_znodes, sync
from topiarist.adapters.zookeeper.read.cluster_metadata import read_reassignment_request
from topiarist.errors import Reason, TopiaristError
from topiarist.model.outcome import TopicProgress

Answer = TypeVar("Answer")


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
    marked, registered = _child_name_set(deletion_requests), _child_name_set(brokers)
    awaited = {name: partitions for name, partitions in topics.items() if partitions}
    initialized = _read_initialized_partitions(session, awaited)
    controller, *answers = _require_permission(
        read_znodes(session, [paths.CONTROLLER, *map(paths.record_path, awaited)])
    )
    records = dict(zip(awaited, answers, strict=True))
    reassigning = read_reassignment_request(session, list(topics)).topics
    nodes = _require_permission(read_znodes(session, map(paths.topic_path, topics)))
    result: dict[str, TopicProgress] = {}
    for name, node in zip(topics, nodes, strict=True):
        if isinstance(node, ReadFailure):
            result[name] = TopicProgress(None, name in marked)
            continue
        progress = TopicProgress(str(node.czxid), name in marked, reassigning=name in reassigning)
        if name in records:
            record = records[name]
            progress = progress._replace(
                initialized=initialized[name],
                record_stale=isinstance(record, Znode) and record.mzxid < node.czxid,
                has_controller=controller is not ReadFailure.MISSING,
            )
        result[name] = _add_assignment(progress, node, registered, awaited=name in awaited)
    return result


def _read_initialized_partitions(
    session: Session, awaited: Mapping[str, Collection[int]]
) -> Mapping[str, frozenset[int]]:
    lists = _require_permission(read_children(session, map(paths.partitions_path, awaited)))
    existing = {name: _child_name_set(found) for name, found in zip(awaited, lists, strict=True)}
    candidates = [
        (name, partition)
        for name, partitions in awaited.items()
        for partition in partitions
        if str(partition) in existing[name]
    ]
    states = _require_permission(read_znodes(session, (paths.partition_state_path(*each) for each in candidates)))
    initialized: dict[str, set[int]] = {name: set() for name in awaited}
    for (name, partition), state in zip(candidates, states, strict=True):
        if state is not ReadFailure.MISSING:
            initialized[name].add(partition)
    return {name: frozenset(partitions) for name, partitions in initialized.items()}


def _add_assignment(
    progress: TopicProgress, node: Znode, registered: frozenset[str], *, awaited: bool
) -> TopicProgress:
    try:
        assignment = decode_topic(node.data)
    except ZnodeError as error:
        # Without an assignment there is no partition to wait for: the error ends the wait.
        return progress._replace(read_error=str(error)) if awaited else progress
    brokers = {broker for replicas in assignment.replicas for broker in replicas}
    progress = progress._replace(
        missing_brokers=tuple(sorted(broker for broker in brokers if str(broker) not in registered)),
        reassigning=progress.reassigning or bool(assignment.reassignments),
    )
    if not awaited:
        return progress
    replicas = dict(zip(assignment.partition_ids, assignment.replicas, strict=True))
    return progress._replace(replicas=replicas, topic_id=assignment.topic_id)


def _child_name_set(children: ChildNames | ReadFailure) -> frozenset[str]:
    return frozenset() if isinstance(children, ReadFailure) else frozenset(children)


def _require_permission(answers: Iterator[Answer]) -> list[Answer]:
    results = list(answers)
    if ReadFailure.DENIED in results:
        raise TopiaristError(Reason.NO_PERMISSION, "the permission to read the awaited topics was removed")
    return results

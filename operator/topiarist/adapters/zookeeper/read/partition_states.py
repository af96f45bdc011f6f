"""Read the partition states of topics, and their reassignments, for ``describe`` and ``list``.

A znode that is malformed or cannot be read becomes an error with its path; it never ends the read. ``ZooKeeperCluster``
calls this module, and ``inspection.topic_phase`` interprets the result. Reads only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from topiarist.adapters.zookeeper.codec import cluster, partitions, paths, strict_json
from topiarist.adapters.zookeeper.codec.strict_json import ZnodeError
from topiarist.adapters.zookeeper.codec.topics import TopicAssignment, ZnodeDecoder
from topiarist.adapters.zookeeper.connection.session import Session
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode, read_children, read_znodes, sync
from topiarist.adapters.zookeeper.read.topic import NO_PERMISSION_MESSAGE
from topiarist.kafka.types import Replicas
from topiarist.model.state import PartitionState, ReadError, Reassignment, TopicInspection, TopicState


class _PartitionStates(NamedTuple):
    """The decoded state znodes of a topic.

    ``partition_errors`` has the states that cannot be read, ``other_errors`` the unexpected znodes beside them.
    ``states_readable`` is False if there is no permission to list the state znodes.
    """

    states: Mapping[int, PartitionState]
    partition_errors: Mapping[int, ReadError]
    other_errors: tuple[ReadError, ...]
    states_readable: bool = True


def inspect(session: Session, name: str) -> TopicInspection:
    """Read the partition states of the topic ``name``.

    The assignment is read before the states, so that a state is no older than its assignment.
    """
    sync(session)
    (node,) = read_znodes(session, [paths.topic_path(name)])
    states = _read_states(session, name)
    topic, reassignments = _decode_topic(node)
    return TopicInspection(
        identity=None if isinstance(node, ReadFailure) else node.czxid,
        assignment={} if topic is None else dict(zip(topic.partition_ids, topic.replicas, strict=True)),
        states=states.states,
        partition_errors=states.partition_errors,
        other_errors=states.other_errors,
        reassignments=reassignments,
        requested_replicas=_read_requested_reassignments(session, name),
        topic_id=None if topic is None else topic.topic_id,
        states_readable=states.states_readable,
    )


def inspect_all(session: Session, topics: Collection[TopicState]) -> Mapping[str, TopicInspection]:
    """Read the states of all partitions of topics that were just read, in one pipeline.

    A topic under reassignment is read by itself, because its ``TopicState`` does not say which replicas are added.
    """
    reassigning = [topic.name for topic in topics if topic.reassigning_partitions]
    stable = [topic for topic in topics if not topic.reassigning_partitions]
    paths_of_states = (
        paths.partition_state_path(topic.name, partition) for topic in stable for partition in topic.partition_ids
    )
    answers = read_znodes(session, paths_of_states)
    inspections = {topic.name: _build_inspection(topic, list(islice(answers, len(topic.replicas)))) for topic in stable}
    return inspections | {name: inspect(session, name) for name in reassigning}


def _build_inspection(topic: TopicState, answers: Sequence[Znode | ReadFailure]) -> TopicInspection:
    """Return the inspection of a topic, with the states of exactly the partitions in its assignment."""
    states, errors = _decode_states(topic.name, zip(topic.partition_ids, answers, strict=True))
    denied = bool(answers) and all(answer is ReadFailure.DENIED for answer in answers)
    return TopicInspection(
        identity=topic.identity,
        assignment=dict(zip(topic.partition_ids, topic.replicas, strict=True)),
        states=states,
        partition_errors={} if denied else errors,
        topic_id=topic.topic_id,
        states_readable=not denied,
    )


def _decode_topic(node: Znode | ReadFailure) -> tuple[TopicAssignment | None, Mapping[int, Reassignment]]:
    """Return the topic's assignment and its reassignments.

    A malformed znode gives None and no reassignments: the read of the whole cluster reports it.
    """
    if isinstance(node, ReadFailure):
        return None, {}
    try:
        return ZnodeDecoder().decode_topic(node.data), partitions.decode_reassignments(node.data)
    except ZnodeError:
        return None, {}


def _read_states(session: Session, name: str) -> _PartitionStates:
    parent = paths.partitions_path(name)
    (children,) = read_children(session, [parent])
    if children is ReadFailure.DENIED:
        return _PartitionStates({}, {}, (ReadError(parent, NO_PERMISSION_MESSAGE),), states_readable=False)
    ids, errors = _parse_partition_ids(() if isinstance(children, ReadFailure) else children, parent)
    answers = read_znodes(session, [paths.partition_state_path(name, partition) for partition in ids])
    return _PartitionStates(*_decode_states(name, zip(ids, answers, strict=True)), tuple(errors))


def _decode_states(
    name: str, answers: Iterable[tuple[int, Znode | ReadFailure]]
) -> tuple[Mapping[int, PartitionState], Mapping[int, ReadError]]:
    """Return the states of partitions, and the errors of the states that cannot be read."""
    states: dict[int, PartitionState] = {}
    errors: dict[int, ReadError] = {}
    for partition, answer in answers:
        if answer is ReadFailure.MISSING:
            continue
        try:
            states[partition] = _decode_state(answer)
        except ZnodeError as error:
            errors[partition] = ReadError(paths.partition_state_path(name, partition), str(error))
    return states, errors


def _parse_partition_ids(children: Iterable[str], where: str) -> tuple[list[int], list[ReadError]]:
    """Return the partitions that have a znode, and an error for each znode with another name."""
    ids, errors = [], []
    for child in sorted(children):
        try:
            ids.append(strict_json.parse_id(child))
        except ZnodeError as error:
            errors.append(ReadError(f"{where}/{child}", str(error)))
    return sorted(ids), errors


def _decode_state(answer: Znode | ReadFailure) -> PartitionState:
    if isinstance(answer, ReadFailure):
        raise ZnodeError(NO_PERMISSION_MESSAGE)
    return partitions.decode_partition_state(answer.data)


def _read_requested_reassignments(session: Session, name: str) -> Mapping[int, Replicas]:
    """Return the replicas that a reassignment request asks for, by partition.

    A malformed request gives none: the read of the whole cluster warns about it.
    """
    (node,) = read_znodes(session, [paths.REASSIGNMENT_REQUEST])
    try:
        entries = () if isinstance(node, ReadFailure) else cluster.decode_requested_reassignments(node.data)
    except ZnodeError:
        return {}
    return {partition: replicas for topic, partition, replicas in entries if topic == name}

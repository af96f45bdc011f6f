"""Topics as their controller has left them: every partition's state, and what is being moved. Reads only, and little.

What cannot be read or is odd is said with its path; nothing of it ends the look. Above stands
``inspection.topic_phase``.
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
    """The state nodes of a topic: what they hold, those that cannot be read, and what else stands between them.

    ``known`` is false if not even the list of them may be read.
    """

    states: Mapping[int, PartitionState]
    partition_errors: Mapping[int, ReadError]
    other_errors: tuple[ReadError, ...]
    states_readable: bool = True


def inspect(session: Session, name: str) -> TopicInspection:
    """The topic ``name``, as of now; the assignment before the states, so that a state is no older than its list."""
    sync(session)
    (node,) = read_znodes(session, [paths.topic_path(name)])
    states = _read_states(session, name)
    topic, moving = _decode_topic(node)
    return TopicInspection(
        identity=None if isinstance(node, ReadFailure) else node.czxid,
        assignment={} if topic is None else dict(zip(topic.partition_ids, topic.replicas, strict=True)),
        states=states.states,
        partition_errors=states.partition_errors,
        other_errors=states.other_errors,
        reassignments=moving,
        requested_replicas=_read_requested_reassignments(session, name),
        topic_id=None if topic is None else topic.topic_id,
        states_readable=states.states_readable,
    )


def inspect_all(session: Session, topics: Collection[TopicState]) -> Mapping[str, TopicInspection]:
    """Read the states of all partitions of topics that were just read, in one pipeline.

    A topic that is being moved is read by itself: which replicas are added is not in its ``TopicState``.
    """
    moving = [topic.name for topic in topics if topic.reassigning_partitions]
    still = [topic for topic in topics if not topic.reassigning_partitions]
    paths_of_states = (
        paths.partition_state_path(topic.name, partition) for topic in still for partition in topic.partition_ids
    )
    answers = read_znodes(session, paths_of_states)
    found = {topic.name: _build_inspection(topic, list(islice(answers, len(topic.replicas)))) for topic in still}
    return found | {name: inspect(session, name) for name in moving}


def _build_inspection(topic: TopicState, answers: Sequence[Znode | ReadFailure]) -> TopicInspection:
    """Return the inspection of a topic with the states of exactly the partitions that it lists."""
    states, faults = _decode_states(topic.name, zip(topic.partition_ids, answers, strict=True))
    denied = bool(answers) and all(answer is ReadFailure.DENIED for answer in answers)
    return TopicInspection(
        identity=topic.identity,
        assignment=dict(zip(topic.partition_ids, topic.replicas, strict=True)),
        states=states,
        partition_errors={} if denied else faults,
        topic_id=topic.topic_id,
        states_readable=not denied,
    )


def _decode_topic(node: Znode | ReadFailure) -> tuple[TopicAssignment | None, Mapping[int, Reassignment]]:
    """The topic's assignment; none where it is odd, which whoever reads the whole cluster has said already."""
    if isinstance(node, ReadFailure):
        return None, {}
    try:
        return ZnodeDecoder().decode_topic(node.data), partitions.decode_reassignments(node.data)
    except ZnodeError:
        return None, {}


def _read_states(session: Session, name: str) -> _PartitionStates:
    where = paths.partitions_path(name)
    (children,) = read_children(session, [where])
    if children is ReadFailure.DENIED:
        return _PartitionStates({}, {}, (ReadError(where, NO_PERMISSION_MESSAGE),), states_readable=False)
    ids, odd = _parse_partition_ids(() if isinstance(children, ReadFailure) else children, where)
    answers = read_znodes(session, [paths.partition_state_path(name, partition) for partition in ids])
    return _PartitionStates(*_decode_states(name, zip(ids, answers, strict=True)), tuple(odd))


def _decode_states(
    name: str, answers: Iterable[tuple[int, Znode | ReadFailure]]
) -> tuple[Mapping[int, PartitionState], Mapping[int, ReadError]]:
    """Return the states of partitions, and the faults of those whose state cannot be read."""
    found: dict[int, PartitionState] = {}
    faults: dict[int, ReadError] = {}
    for partition, answer in answers:
        if answer is ReadFailure.MISSING:
            continue
        try:
            found[partition] = _decode_state(answer)
        except ZnodeError as error:
            faults[partition] = ReadError(paths.partition_state_path(name, partition), str(error))
    return found, faults


def _parse_partition_ids(children: Iterable[str], where: str) -> tuple[list[int], list[ReadError]]:
    """The partitions that have a node, and a fault for each node whose name is no partition's."""
    ids, odd = [], []
    for child in sorted(children):
        try:
            ids.append(strict_json.parse_id(child))
        except ZnodeError as error:
            odd.append(ReadError(f"{where}/{child}", str(error)))
    return sorted(ids), odd


def _decode_state(answer: Znode | ReadFailure) -> PartitionState:
    if isinstance(answer, ReadFailure):
        raise ZnodeError(NO_PERMISSION_MESSAGE)
    return partitions.decode_partition_state(answer.data)


def _read_requested_reassignments(session: Session, name: str) -> Mapping[int, Replicas]:
    """What a reassignment request asks for; one that is odd is a warning of whoever reads the whole cluster."""
    (node,) = read_znodes(session, [paths.REASSIGNMENT_REQUEST])
    try:
        entries = () if isinstance(node, ReadFailure) else cluster.decode_requested_reassignments(node.data)
    except ZnodeError:
        return {}
    return {partition: replicas for topic, partition, replicas in entries if topic == name}

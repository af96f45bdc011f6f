"""Read the partition states of topics, and their reassignments, for ``describe`` and ``list``.

A znode that is malformed or cannot be read becomes an error with its path; it never ends the read.
``inspection.health`` interprets the result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import islice

from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec.cluster import decode_requested_reassignments
from topiarist.adapters.zookeeper.codec.strict_json import ZnodeError, parse_id
from topiarist.adapters.zookeeper.codec.topics import decode_partition_state, decode_topic
from topiarist.adapters.zookeeper.connection.session import Session
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode, read_children, read_znodes, sync
from topiarist.adapters.zookeeper.read.topic import NO_PERMISSION_MESSAGE, require_readable
from topiarist.model.state import PartitionState, ReadError, TopicInspection, TopicState


def inspect(session: Session, name: str) -> TopicInspection:
    """Read the partition states of the topic ``name``.

    The assignment is read before the states, so that a state is no older than its assignment.
    """
    sync(session)
    (node,) = read_znodes(session, [paths.topic_path(name)])
    parent = paths.partitions_path(name)
    (children,) = read_children(session, [parent])
    ids: list[int] = []
    other_errors: list[ReadError] = []
    if children is ReadFailure.DENIED:
        other_errors.append(ReadError(parent, NO_PERMISSION_MESSAGE))
    for child in () if isinstance(children, ReadFailure) else sorted(children):
        try:
            ids.append(parse_id(child))
        except ZnodeError as error:
            other_errors.append(ReadError(f"{parent}/{child}", str(error)))
    # The ids come from the state znodes and not from the assignment: a state without an assignment is an error too.
    ids.sort()
    answers = read_znodes(session, [paths.partition_state_path(name, partition) for partition in ids])
    states, partition_errors = _decode_states(name, zip(ids, answers, strict=True))
    (request,) = read_znodes(session, [paths.REASSIGNMENT_REQUEST])
    # The read of the whole cluster reports a malformed topic and warns about a malformed request.
    try:
        topic = None if isinstance(node, ReadFailure) else decode_topic(node.data)
    except ZnodeError:
        topic = None
    try:
        requested = () if isinstance(request, ReadFailure) else decode_requested_reassignments(request.data)
    except ZnodeError:
        requested = ()
    return TopicInspection(
        identity=None if isinstance(node, ReadFailure) else str(node.czxid),
        assignment={} if topic is None else dict(zip(topic.partition_ids, topic.replicas, strict=True)),
        states=states,
        partition_errors=partition_errors,
        other_errors=tuple(other_errors),
        reassignments={} if topic is None else topic.reassignments,
        requested_replicas={partition: target for topic_name, partition, target in requested if topic_name == name},
        topic_id=None if topic is None else topic.topic_id,
        states_readable=children is not ReadFailure.DENIED,
    )


def inspect_all(session: Session, topics: Collection[TopicState]) -> Mapping[str, TopicInspection]:
    """Read the states of all partitions of topics that were just read, in one pipeline.

    A topic under reassignment is read by itself, because its ``TopicState`` does not say which replicas are added.
    """
    stable = [topic for topic in topics if not topic.reassigning_partitions]
    answers = read_znodes(
        session,
        (paths.partition_state_path(topic.name, partition) for topic in stable for partition in topic.partition_ids),
    )
    inspections: dict[str, TopicInspection] = {}
    for topic in stable:
        found = list(islice(answers, len(topic.replicas)))
        states, errors = _decode_states(topic.name, zip(topic.partition_ids, found, strict=True))
        denied = bool(found) and all(answer is ReadFailure.DENIED for answer in found)
        inspections[topic.name] = TopicInspection(
            identity=topic.identity,
            assignment=dict(zip(topic.partition_ids, topic.replicas, strict=True)),
            states=states,
            partition_errors={} if denied else errors,
            topic_id=topic.topic_id,
            states_readable=not denied,
        )
    return inspections | {topic.name: inspect(session, topic.name) for topic in topics if topic.reassigning_partitions}


def _decode_states(
    name: str, answers: Iterable[tuple[int, Znode | ReadFailure]]
) -> tuple[Mapping[int, PartitionState], Mapping[int, ReadError]]:
    states: dict[int, PartitionState] = {}
    errors: dict[int, ReadError] = {}
    for partition, answer in answers:
        if answer is ReadFailure.MISSING:
            continue
        try:
            states[partition] = decode_partition_state(require_readable(answer).data)
        except ZnodeError as error:
            errors[partition] = ReadError(paths.partition_state_path(name, partition), str(error))
    return states, errors

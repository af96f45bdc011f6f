"""Read partition states and reassignments, the progress of the controller, and the throttles of brokers.

A znode that is malformed or cannot be read becomes an error with its path; it never ends the read.
``inspection.health`` interprets the result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec.cluster import decode_requested_reassignments
from topiarist.adapters.zookeeper.codec.strict_json import ZnodeError, parse_id
from topiarist.adapters.zookeeper.codec.topics import decode_config, decode_partition_state, decode_topic
from topiarist.adapters.zookeeper.connection.session import Session
from topiarist.adapters.zookeeper.read.bulk_read import ChildNames, ReadFailure, Znode, read_children, read_znodes, sync
from topiarist.adapters.zookeeper.read.cluster_metadata import (
    NO_PERMISSION_MESSAGE,
    read_reassignment_request,
    require_readable,
)
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.config_table import RATE_CONFIGS
from topiarist.model.outcome import TopicProgress
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


# Read the progress of the controller on single topics: few reads, repeated often.
#
# A partition is initialized once its state exists. The controller creates the parent znode of a state directly before
# the state itself. One list of children per topic therefore shows the partitions that can have a state. Until the
# controller handles a topic, that list is the only read for its partitions. With MultiRead, a poll of a hundred topics
# takes a handful of requests. ``model.progress`` interprets the result.

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


# Read the throttles of brokers: the rates at which they copy replicas that a topic lists as throttled.


def read_broker_throttles(session: Session) -> Mapping[str, Mapping[str, str]]:
    """Return the rates of each entity (``brokers/5``, ``brokers/<default>``) that has one.

    A config that brokers cannot read has none. Raises ``TopiaristError`` (NoPermission).
    """
    sync(session)
    (names,) = read_children(session, [paths.BROKER_CONFIGS])
    if names is ReadFailure.DENIED:
        raise TopiaristError(Reason.NO_PERMISSION, f"no permission to read {paths.BROKER_CONFIGS}")
    entities = [] if isinstance(names, ReadFailure) else [f"brokers/{name}" for name in sorted(names)]
    found = {}
    for entity, node in zip(entities, read_znodes(session, map(paths.entity_config_path, entities)), strict=True):
        if node is ReadFailure.DENIED:
            raise TopiaristError(Reason.NO_PERMISSION, f"no permission to read {paths.entity_config_path(entity)}")
        if isinstance(node, Znode) and (rates := _decode_rates(node.data)):
            found[entity] = rates
    return found


def _decode_rates(raw: bytes) -> Mapping[str, str]:
    try:
        config = decode_config(raw)
    except ZnodeError:
        return {}
    return {key: config[key] for key in RATE_CONFIGS if key in config}

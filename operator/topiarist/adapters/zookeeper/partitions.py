"""Topics as their controller has left them: every partition's state, and what is being moved. Reads only, and little.

What cannot be read or is odd is said with its path; nothing of it ends the look. Above stands ``core.lifecycle``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from topiarist.adapters import znodes
from topiarist.adapters.znodes import Pool, TopicNode, ZnodeError, paths
from topiarist.adapters.zookeeper.reading import DENIED
from topiarist.adapters.zookeeper.session import Session
from topiarist.adapters.zookeeper.wire import Failure, Node, read_children, read_nodes, sync
from topiarist.core.inspection import Inspection, Moving, PartitionState
from topiarist.core.state import Fault, Replicas, TopicState


class _States(NamedTuple):
    """The state nodes of a topic: what they hold, those that cannot be read, and what else stands between them.

    ``known`` is false if not even the list of them may be read.
    """

    found: Mapping[int, PartitionState]
    faults: Mapping[int, Fault]
    odd: tuple[Fault, ...]
    known: bool = True


def inspect(session: Session, name: str) -> Inspection:
    """The topic ``name``, as of now; the assignment before the states, so that a state is no older than its list."""
    sync(session)
    (node,) = read_nodes(session, [znodes.topic_path(name)])
    states = _read_states(session, name)
    topic, moving = _topic(node)
    return Inspection(
        identity=None if isinstance(node, Failure) else node.czxid,
        assignment={} if topic is None else dict(zip(topic.partition_ids, topic.replicas, strict=True)),
        states=states.found,
        faults=states.faults,
        odd=states.odd,
        moving=moving,
        requested=_requested(session, name),
        topic_id=None if topic is None else topic.topic_id,
        known=states.known,
    )


def inspect_all(session: Session, topics: Collection[TopicState]) -> Mapping[str, Inspection]:
    """Read the states of all partitions of topics that were just read, in one pipeline.

    A topic that is being moved is read by itself: which replicas are added is not in its ``TopicState``.
    """
    moving = [topic.name for topic in topics if topic.reassigning]
    still = [topic for topic in topics if not topic.reassigning]
    paths_of_states = (
        znodes.partition_state_path(topic.name, partition) for topic in still for partition in topic.partition_ids
    )
    answers = read_nodes(session, paths_of_states)
    found = {topic.name: _listed(topic, list(islice(answers, len(topic.replicas)))) for topic in still}
    return found | {name: inspect(session, name) for name in moving}


def _listed(topic: TopicState, answers: Sequence[Node | Failure]) -> Inspection:
    """Return the inspection of a topic with the states of exactly the partitions that it lists."""
    states, faults = _decoded(topic.name, zip(topic.partition_ids, answers, strict=True))
    denied = bool(answers) and all(answer is Failure.DENIED for answer in answers)
    return Inspection(
        identity=topic.identity,
        assignment=dict(zip(topic.partition_ids, topic.replicas, strict=True)),
        states=states,
        faults={} if denied else faults,
        topic_id=topic.topic_id,
        known=not denied,
    )


def _topic(node: Node | Failure) -> tuple[TopicNode | None, Mapping[int, Moving]]:
    """The topic's assignment; none where it is odd, which whoever reads the whole cluster has said already."""
    if isinstance(node, Failure):
        return None, {}
    try:
        return Pool().topic(node.data), znodes.decode_moving(node.data)
    except ZnodeError:
        return None, {}


def _read_states(session: Session, name: str) -> _States:
    where = znodes.partitions_path(name)
    (children,) = read_children(session, [where])
    if children is Failure.DENIED:
        return _States({}, {}, (Fault(where, DENIED),), known=False)
    ids, odd = _ids(() if isinstance(children, Failure) else children, where)
    answers = read_nodes(session, [znodes.partition_state_path(name, partition) for partition in ids])
    return _States(*_decoded(name, zip(ids, answers, strict=True)), tuple(odd))


def _decoded(
    name: str, answers: Iterable[tuple[int, Node | Failure]]
) -> tuple[Mapping[int, PartitionState], Mapping[int, Fault]]:
    """Return the states of partitions, and the faults of those whose state cannot be read."""
    found: dict[int, PartitionState] = {}
    faults: dict[int, Fault] = {}
    for partition, answer in answers:
        if answer is Failure.MISSING:
            continue
        try:
            found[partition] = _state(answer)
        except ZnodeError as error:
            faults[partition] = Fault(znodes.partition_state_path(name, partition), str(error))
    return found, faults


def _ids(children: Iterable[str], where: str) -> tuple[list[int], list[Fault]]:
    """The partitions that have a node, and a fault for each node whose name is no partition's."""
    ids, odd = [], []
    for child in sorted(children):
        try:
            ids.append(znodes.parse_id(child))
        except ZnodeError as error:
            odd.append(Fault(f"{where}/{child}", str(error)))
    return sorted(ids), odd


def _state(answer: Node | Failure) -> PartitionState:
    if isinstance(answer, Failure):
        raise ZnodeError(DENIED)
    return znodes.decode_partition_state(answer.data)


def _requested(session: Session, name: str) -> Mapping[int, Replicas]:
    """What a reassignment request asks for; one that is odd is a warning of whoever reads the whole cluster."""
    (node,) = read_nodes(session, [paths.REASSIGNMENTS])
    try:
        entries = () if isinstance(node, Failure) else znodes.decode_reassign(node.data)
    except ZnodeError:
        return {}
    return {partition: replicas for topic, partition, replicas in entries if topic == name}

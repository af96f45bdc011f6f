"""One topic as its controller has left it: every partition's state, and what is being moved. Reads only, and little.

What cannot be read or is odd is said with its path; nothing of it ends the look. Above stands ``core.lifecycle``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from topiarist.adapters import znodes
from topiarist.adapters.znodes import Pool, TopicNode, ZnodeError, paths
from topiarist.adapters.zookeeper.reading import DENIED
from topiarist.adapters.zookeeper.session import Session
from topiarist.adapters.zookeeper.wire import Failure, Node, read_children, read_nodes, sync
from topiarist.core.inspection import Inspection, Moving, PartitionState
from topiarist.core.state import Fault, Replicas


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
    found: dict[int, PartitionState] = {}
    faults: dict[int, Fault] = {}
    for partition, answer in zip(ids, answers, strict=True):
        if answer is Failure.MISSING:
            continue
        try:
            found[partition] = _state(answer)
        except ZnodeError as error:
            faults[partition] = Fault(znodes.partition_state_path(name, partition), str(error))
    return _States(found, faults, tuple(odd))


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

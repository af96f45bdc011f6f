"""One topic's plan as one ZooKeeper transaction: its checks and writes in order, and what its results mean.

Pure: ``writing`` reads the nodes before and sends the operations after. Every write carries the version just read or
is a create; what is not written, and was compared, is checked at that version too. Every transaction begins with the
fence (our lock, the controller and its epoch, the gate) and ends with our record.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from itertools import chain
from typing import NamedTuple

from topiarist.adapters import znodes
from topiarist.adapters.znodes import paths
from topiarist.adapters.zookeeper.reading import TopicNodes
from topiarist.adapters.zookeeper.wire import Failure, Node
from topiarist.core.change import AddPartitions, Change, CreateTopic, DeleteTopic, TopicPlan, UpdateConfig
from topiarist.core.differences import config_after
from topiarist.core.evolve import gives_up, nudges

Acl = tuple[tuple[int, str, str], ...]
"""Who may do what with a znode: permissions, scheme and identity of each entry."""


_FORBIDDEN_BY_REQUEST = CreateTopic | AddPartitions | DeleteTopic
"""Changes of a topic that a reassignment request must not name."""


class Kind(str, Enum):
    """What an operation does."""

    CHECK = "check"
    CREATE = "create"
    SET = "set"
    DELETE = "delete"


class Operation(NamedTuple):
    """One step of a transaction. ``version`` -1 means any; ``acl`` and ``sequence`` count for a create only."""

    kind: Kind
    path: str
    data: bytes = b""
    version: int = -1
    acl: Acl = ()
    sequence: bool = False


class Site(NamedTuple):
    """What every transaction of a run is built on.

    ``fence`` are the checks that begin each: our lock, the controller and its epoch, the gate. ``brokers`` has a check
    for each registered broker, ``acls`` the entries for new nodes by the path of their parent.
    """

    fence: tuple[Operation, ...]
    brokers: Mapping[int, Operation]
    acls: Mapping[str, Acl]


def fence(lock: str, epoch_version: int, gate_version: int) -> tuple[Operation, ...]:
    """The checks that must hold when a transaction commits, in the order in which their failures count."""
    return (
        Operation(Kind.CHECK, lock),
        Operation(Kind.CHECK, paths.CONTROLLER_EPOCH, version=epoch_version),
        Operation(Kind.CHECK, paths.CONTROLLER),
        Operation(Kind.CHECK, paths.GATE, version=gate_version),
    )


def operations(
    plan: TopicPlan,
    nodes: TopicNodes,
    site: Site,
    state: Node | Failure = Failure.MISSING,
    request: int | None = None,
) -> list[Operation]:
    """The transaction that does everything ``plan`` wants of its topic, given its ``nodes`` as just read.

    ``state`` is partition 0's state node, if it is there and the plan rests on it. A replica list may name brokers that
    are not registered (an explicit assignment, allowed by the run): those cannot be checked. ``request`` is the version
    of the reassignment request; that there is none cannot be checked, since the controller watches its creation.
    """
    acls, record = site.acls, znodes.record_path(plan.topic)
    found = list(site.fence)
    if gives_up(plan):
        assert isinstance(nodes.record, Node)
        return [*found, Operation(Kind.DELETE, record, version=nodes.record.version)]
    if nudges(plan):
        assert isinstance(nodes.topic, Node)
        again = Operation(Kind.SET, znodes.topic_path(plan.topic), nodes.topic.data, nodes.topic.version)
        return [*found, *_request(request), *_unmarked(plan.topic, acls), again]
    brokers = set(chain.from_iterable(plan.new_replicas()))
    found += [site.brokers[broker] for broker in sorted(brokers & site.brokers.keys())]
    if isinstance(state, Node):
        found.append(Operation(Kind.CHECK, znodes.partition_state_path(plan.topic, 0), version=state.version))
    if any(isinstance(change, _FORBIDDEN_BY_REQUEST) for change in plan.changes):
        found += _request(request)
    writes: set[str] = set()
    for change in plan.changes:
        steps = _steps(plan, change, nodes, acls)
        writes.update(step.path for step in steps)
        found += steps
    for path, node in ((znodes.topic_path(plan.topic), nodes.topic), (znodes.config_path(plan.topic), nodes.config)):
        if path not in writes and isinstance(node, Node):
            found.append(Operation(Kind.CHECK, path, version=node.version))
    if plan.record_after is not None:
        found.append(_put(record, znodes.encode_record(plan.record_after), nodes.record, acls))
    return found


def _request(version: int | None) -> list[Operation]:
    return [] if version is None else [Operation(Kind.CHECK, paths.REASSIGNMENTS, version=version)]


def _steps(plan: TopicPlan, change: Change, nodes: TopicNodes, acls: Mapping[str, Acl]) -> list[Operation]:
    topic, config = znodes.topic_path(plan.topic), znodes.config_path(plan.topic)
    match change:
        case CreateTopic(replicas, overrides):
            return [
                *_unmarked(plan.topic, acls),
                _put(config, znodes.encode_config(overrides), nodes.config, acls),
                Operation(Kind.CREATE, topic, znodes.encode_topic(replicas), acl=acls[paths.TOPICS]),
            ]
        case AddPartitions(replicas=replicas):
            assert isinstance(nodes.topic, Node)
            grown = znodes.grow_topic(nodes.topic.data, replicas)
            return [*_unmarked(plan.topic, acls), Operation(Kind.SET, topic, grown, nodes.topic.version)]
        case UpdateConfig():
            return [_config(config, change, nodes, acls), _notification(plan.topic, acls)]
        case DeleteTopic():
            return [Operation(Kind.CREATE, znodes.deletion_path(plan.topic), acl=acls[paths.DELETIONS])]
    return []


def _config(path: str, change: UpdateConfig, nodes: TopicNodes, acls: Mapping[str, Acl]) -> Operation:
    """The whole map, as just read and with our keys changed."""
    if not isinstance(nodes.config, Node):
        return _put(path, znodes.encode_config(config_after({}, (change,))), nodes.config, acls)
    after = config_after(znodes.decode_config(nodes.config.data), (change,))
    return Operation(Kind.SET, path, znodes.change_config(nodes.config.data, after), nodes.config.version)


def _notification(topic: str, acls: Mapping[str, Acl]) -> Operation:
    data = znodes.encode_change_notification(f"topics/{topic}")
    return Operation(Kind.CREATE, paths.CHANGE_PREFIX, data, acl=acls[paths.CHANGES], sequence=True)


def _unmarked(topic: str, acls: Mapping[str, Acl]) -> list[Operation]:
    """Fails if the topic is marked for deletion, and leaves nothing behind."""
    path = znodes.deletion_path(topic)
    return [Operation(Kind.CREATE, path, acl=acls[paths.DELETIONS]), Operation(Kind.DELETE, path)]


def _put(path: str, data: bytes, seen: Node | Failure, acls: Mapping[str, Acl]) -> Operation:
    """Set what was seen at its version, or create what was not there."""
    if isinstance(seen, Node):
        return Operation(Kind.SET, path, data, seen.version)
    return Operation(Kind.CREATE, path, data, acl=acls[path.rpartition("/")[0]])

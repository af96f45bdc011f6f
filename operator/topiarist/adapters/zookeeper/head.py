"""The cluster as a whole: is it Kafka's, who controls it, may it be written to, which brokers are alive.

Read before any topic, and again whenever a transaction failed its check of the epoch. Writes nothing, never.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from topiarist.adapters import znodes
from topiarist.adapters.znodes import ZnodeError, paths
from topiarist.adapters.zookeeper.session import Session
from topiarist.adapters.zookeeper.wire import Failure, Names, Node, read_children, read_nodes, sync
from topiarist.core.state import Broker, Fault, Gate, Release
from topiarist.errors import Reason, TopiaristError

_NODES = (
    paths.CLUSTER_ID,
    paths.TOPIC_CONFIGS,
    paths.MIGRATION,
    paths.GATE,
    paths.REASSIGNMENTS,
    paths.CHANGES,
    paths.FEATURE,
    paths.IP_CONFIGS,
    paths.BROKER_DEFAULTS,
)

_READ_AGAIN = (paths.MIGRATION, paths.BROKER_DEFAULTS)

_MAY_BE_HIDDEN = {paths.FEATURE, paths.IP_CONFIGS, paths.BROKER_DEFAULTS, paths.CHANGES}
_QUOTED_NAME = re.compile(rb'"([a-zA-Z0-9._-]{1,249})"')

_FIELDS = frozenset({"version", "partitions", "topic", "partition", "replicas", "log_dirs", "any"})
"""Words of a reassignment request that are hardly topics."""

T = TypeVar("T")


class Requested(NamedTuple):
    """The topics that a reassignment request names, and the version of its znode; None if there is none.

    ``since`` is the identity of the request; None also if it cannot be read, and ``topics`` then are all that it could
    name.
    """

    topics: frozenset[str] = frozenset()
    version: int | None = None
    since: int | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """All of a cluster but its topics.

    ``epoch_version`` and ``gate_version`` are znode versions for the checks of a transaction; None where there is no
    such znode. ``topic_names`` and ``record_names`` are sorted. ``notifications`` counts the config changes
    outstanding.
    """

    cluster_id: str
    controller: int | None
    controller_epoch: int
    epoch_version: int | None
    gate: Gate
    gate_version: int | None
    brokers: tuple[Broker, ...]
    broker_defaults: Mapping[str, str]
    release_at_least: Release
    topic_names: Names
    record_names: Names
    deleting: frozenset[str]
    requested: Requested
    notifications: int
    warnings: tuple[str, ...]


def read_head(session: Session) -> Head:
    """The cluster, as of now.

    Raises ``NotAKafkaCluster`` (also for a missing chroot), ``NoPermission`` with all paths, ``Unreadable`` for an odd
    znode without which nothing can be known; what is odd elsewhere becomes a warning.
    """
    sync(session)
    # The epoch before the controller: a change after that read then fails the check of the epoch (contract 6.1).
    order = (paths.CONTROLLER_EPOCH, paths.CONTROLLER, *_NODES)
    nodes = dict(zip(order, read_nodes(session, order), strict=True))
    # Records and marks before topics: a record whose topic is then missing did lose its topic, unless a mark says why.
    listed = (paths.RECORDS, paths.DELETIONS, paths.TOPICS, paths.BROKER_IDS)
    lists = dict(zip(listed, read_children(session, listed), strict=True))
    _require_permission(session, {**nodes, **lists})
    _require_kafka(session, {**nodes, **lists})
    found = _Found({path: node for path, node in nodes.items() if isinstance(node, Node)}, [])
    found.warnings.extend(f"{path}: no permission to read it" for path in nodes if nodes[path] is Failure.DENIED)
    names = _names(lists[paths.BROKER_IDS])
    brokers, broker_version = _brokers(names, read_nodes(session, map(_registration, names)), found.warnings)
    return _head(found, lists, brokers, broker_version)


def read_requested(session: Session, names: Sequence[str]) -> Requested:
    """What a reassignment request names now, ``names`` among it at least: cheap enough to be asked often."""
    (node,) = read_nodes(session, [paths.REASSIGNMENTS])
    return requested(session, node, names)


def requested(session: Session, node: Node | Failure, names: Collection[str]) -> Requested:
    """What a reassignment request names by its znode; raises ``NoPermission`` if it may not be read."""
    _require_permission(session, {paths.REASSIGNMENTS: node})
    return _requested(_Found({paths.REASSIGNMENTS: node} if isinstance(node, Node) else {}, []), names)


def read_again(session: Session, head: Head, brokers: Sequence[int]) -> Head:
    """``head`` with what may have changed while nothing else shows it: a migration to KRaft, the brokers' defaults, and
    the registrations of ``brokers``, without those that are away.

    Nothing of it can be checked in a transaction: a node that must not be there, or one that was made again and has the
    same version. Cheap enough to be asked often.
    """
    sync(session)
    names = tuple(map(str, brokers))
    migration, defaults, *registrations = read_nodes(session, [*_READ_AGAIN, *map(_registration, names)])
    nodes = dict(zip(_READ_AGAIN, (migration, defaults), strict=True))
    _require_permission(session, nodes)
    found = _Found({path: node for path, node in nodes.items() if isinstance(node, Node)}, [])
    registered, _ = _brokers(names, registrations, found.warnings)
    others = (broker for broker in head.brokers if broker.id not in brokers)
    return replace(
        head,
        gate=_begun(found) or head.gate,
        brokers=tuple(sorted((*others, *registered))),
        broker_defaults=found.may(paths.BROKER_DEFAULTS, znodes.decode_config) or {},
    )


class _Found(NamedTuple):
    """The znodes that are there, and what is odd about them so far."""

    nodes: Mapping[str, Node]
    warnings: list[str]

    def must(self, path: str, decode: Callable[[bytes], T]) -> T | None:
        """The value at ``path``, None if it is missing; without its meaning there is no going on."""
        if path not in self.nodes:
            return None
        try:
            return decode(self.nodes[path].data)
        except ZnodeError as error:
            raise TopiaristError(Reason.UNREADABLE, f"{path} cannot be read: {error}") from error

    def may(self, path: str, decode: Callable[[bytes], T]) -> T | None:
        """The value at ``path``, None if it is missing or, with a warning, if it is odd."""
        try:
            return decode(self.nodes[path].data) if path in self.nodes else None
        except ZnodeError as error:
            self.warnings.append(f"{path} cannot be read: {error}")
            return None

    def version(self, path: str) -> int | None:
        """The znode's version, None if it is missing."""
        return self.nodes[path].version if path in self.nodes else None


def _head(
    found: _Found, lists: Mapping[str, Names | Failure], brokers: tuple[Broker, ...], broker_version: int
) -> Head:
    controller = found.must(paths.CONTROLLER, znodes.decode_controller)
    epoch = found.must(paths.CONTROLLER_EPOCH, znodes.decode_controller_epoch)
    topics = _names(lists[paths.TOPICS])
    return Head(
        cluster_id=found.must(paths.CLUSTER_ID, znodes.decode_cluster_id) or "",
        controller=None if controller is None else controller.broker,
        controller_epoch=epoch or 0,
        epoch_version=found.version(paths.CONTROLLER_EPOCH),
        gate=_gate(found, controller if epoch is not None else None),
        gate_version=found.version(paths.GATE),
        brokers=brokers,
        broker_defaults=found.may(paths.BROKER_DEFAULTS, znodes.decode_config) or {},
        release_at_least=_release(found, controller, broker_version),
        topic_names=topics,
        record_names=_names(lists[paths.RECORDS]),
        deleting=frozenset(_names(lists[paths.DELETIONS])),
        requested=_requested(found, topics),
        notifications=found.nodes[paths.CHANGES].children if paths.CHANGES in found.nodes else 0,
        warnings=tuple(found.warnings),
    )


def _names(children: Names | Failure) -> Names:
    return () if isinstance(children, Failure) else tuple(sorted(children))


def _require_permission(session: Session, answers: Mapping[str, object]) -> None:
    denied = sorted(path for path, answer in answers.items() if answer is Failure.DENIED and path not in _MAY_BE_HIDDEN)
    if denied:
        raise TopiaristError(
            Reason.NO_PERMISSION,
            f"no permission to read {', '.join(denied)}",
            f"give {session.who} the right to read them",
        )


def _require_kafka(session: Session, answers: Mapping[str, object]) -> None:
    missing = [path for path in paths.BASE if answers[path] is Failure.MISSING]
    if not missing:
        return
    if session.chroot and list(read_nodes(session, [""])) == [Failure.MISSING]:
        raise TopiaristError(
            Reason.NOT_A_KAFKA_CLUSTER,
            f"the chroot {session.chroot} does not exist in ZooKeeper at {session.hosts}",
            "correct the connect string; Kafka creates its chroot when the first broker starts, nothing else should",
        )
    raise TopiaristError(
        Reason.NOT_A_KAFKA_CLUSTER,
        f"this is not a Kafka cluster: {session.hosts}{session.chroot} has no {', '.join(missing)}",
        "correct the connect string: host1:2181,host2:2181/chroot, with the chroot that the brokers use",
    )


def _gate(found: _Found, controller: znodes.ControllerNode | None) -> Gate:
    if controller is not None and controller.kraft:
        return Gate(
            Reason.KRAFT_CONTROLLER,
            f"a KRaft controller ({controller.broker}) is in charge: it would ignore, reset or delete what is written"
            " to ZooKeeper",
        )
    if migration := _begun(found):
        return migration
    if paths.GATE in found.nodes and (frozen := znodes.read_gate(found.nodes[paths.GATE].data)):
        return Gate(Reason.FROZEN, f"the cluster is {frozen}")
    if controller is None:
        return Gate(
            Reason.NO_CONTROLLER,
            f"{paths.CONTROLLER} does not exist: an election is under way, or no broker is running; try again later",
        )
    return Gate()


def _begun(found: _Found) -> Gate | None:
    """The gate that a migration to KRaft closes; None if there is no sign of one."""
    if paths.MIGRATION not in found.nodes:
        return None
    copied = found.may(paths.MIGRATION, znodes.decode_migration_copied)
    stage = "its content has been copied to KRaft" if copied else "a KRaft quorum has connected"
    return Gate(
        Reason.KRAFT_MIGRATION,
        f"{paths.MIGRATION} exists: a migration to KRaft has begun ({stage}), or was rolled back; the KRaft"
        " controller may take over at any moment",
    )


def _release(found: _Found, controller: znodes.ControllerNode | None, broker_version: int) -> Release:
    """The oldest release that fits (contract 4.9); topic ids, another hint, are the business of who reads topics."""
    feature = found.may(paths.FEATURE, znodes.decode_feature_version)
    hints: list[tuple[bool, Release]] = [
        (controller is not None and controller.version >= 2, (3, 4)),
        (feature is not None and feature >= 2, (3, 3)),
        (paths.IP_CONFIGS in found.nodes, (2, 8)),
        (paths.FEATURE in found.nodes or broker_version >= 5, (2, 7)),
    ]
    return next((release for hint, release in hints if hint), (2, 4))


def _requested(found: _Found, topics: Collection[str]) -> Requested:
    node = found.nodes.get(paths.REASSIGNMENTS)
    if node is None:
        return Requested()
    entries = found.may(paths.REASSIGNMENTS, znodes.decode_reassign)
    if entries is not None:
        return Requested(frozenset(topic for topic, _, _ in entries), node.version, node.czxid)
    # The controller may understand more of it than we do: every topic that it could name counts, also one to come.
    names = {name.decode() for name in _QUOTED_NAME.findall(node.data)}
    return Requested(frozenset(names - (_FIELDS - frozenset(topics))), node.version)


def _registration(name: str) -> str:
    return f"{paths.BROKER_IDS}/{name}"


def _brokers(names: Names, nodes: Iterable[Node | Failure], warnings: list[str]) -> tuple[tuple[Broker, ...], int]:
    """The brokers by id, and the newest version among their znodes (0: none)."""
    found = []
    for name, node in zip(names, nodes, strict=True):
        if node is Failure.MISSING:
            continue
        broker = _broker(name, node)
        if isinstance(broker, Fault):
            warnings.append(f"{broker.where} cannot be read, so this broker counts as missing: {broker.why}")
        else:
            found.append(broker)
    brokers = sorted(Broker(broker.id, broker.rack) for broker in found)
    return tuple(brokers), max((broker.version for broker in found), default=0)


def _broker(name: str, node: Node | Failure) -> znodes.BrokerNode | Fault:
    where = _registration(name)
    if isinstance(node, Failure):
        return Fault(where, "no permission to read it")
    try:
        return znodes.decode_broker(znodes.parse_id(name), node.data)
    except ZnodeError as error:
        return Fault(where, str(error))

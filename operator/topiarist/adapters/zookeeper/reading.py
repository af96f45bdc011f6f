"""A cluster's state in one bulk read, and single topics afresh; both through one decoder.

What is read becomes values at once and its bytes are let go. It is many reads, not a snapshot: whoever writes reads the
topic again, with ``read_topics``, and lets the transaction check the versions. Below stand ``head`` and ``wire``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from topiarist.adapters.znodes import Pool, ZnodeError, config_path, deletion_path, paths, record_path, topic_path
from topiarist.adapters.zookeeper.head import Head, read_head
from topiarist.adapters.zookeeper.session import Session
from topiarist.adapters.zookeeper.wire import Failure, Node, read_nodes
from topiarist.core.requested import stale_names
from topiarist.core.requested import warnings as requested_warnings
from topiarist.core.state import ClusterState, Fault, Release, Room, Tombstone, TopicRecord, TopicState

if TYPE_CHECKING:
    from topiarist.adapters.zookeeper.memory import Memory

DENIED = "no permission to read it"

_TOPIC_IDS_SINCE: Release = (2, 8)
_NO_CONFIG: Mapping[str, str] = {}


class TopicNodes(NamedTuple):
    """The znodes of one topic as they stand: raw, with their versions. ``marked``: its deletion has been asked for."""

    name: str
    topic: Node | Failure
    config: Node | Failure
    record: Node | Failure
    marked: bool


class Reading(NamedTuple):
    """A cluster's state, and the head that it was made from, whose znode versions a writer needs."""

    state: ClusterState
    head: Head


def read_state(session: Session, *, max_buffer: int, memory: Memory | None = None) -> Reading:
    """Everything that a plan needs. Topics with odd or forbidden znodes are in ``faults``; the others are whole.

    ``max_buffer`` is the smallest ``jute.maxbuffer`` in play, in bytes; ``memory`` is that of the session's reads, if
    more follow. Raises what ``read_head`` raises.
    """
    head = read_head(session)
    if memory:
        memory.begin()
    found = _Found(list(head.warnings), memory.topic if memory else topic_state)
    for nodes in _read_all(session, head):
        found.take(nodes)
    for name, record in _read_orphans(session, head):
        found.take_record(name, record)
    return Reading(_state(session, head, found, max_buffer), head)


def read_topics(session: Session, names: Sequence[str]) -> tuple[dict[str, TopicNodes], Node | Failure]:
    """The znodes of single topics as of now, for whoever is about to write them, and the reassignment request.

    The request is read behind the topics: one that came and went before is in the topic's node, or moves its version.
    It takes no round trip of its own, in which a topic could be deleted and made again.
    """
    wanted = [path(name) for name in names for path in (topic_path, config_path, record_path, deletion_path)]
    answers = read_nodes(session, [*wanted, paths.REASSIGNMENTS])
    found = {
        name: TopicNodes(name, topic, config, record, marked=mark is not Failure.MISSING)
        for name, topic, config, record, mark in zip(names, answers, answers, answers, answers, strict=False)
    }
    return found, next(answers)


def topic_state(nodes: TopicNodes, pool: Pool) -> TopicState | Fault | None:
    """The topic in core's words; None if there is none, a ``Fault`` for the first znode that is odd or forbidden."""
    name, topic, config, record, _ = nodes
    if topic is Failure.MISSING:
        return None
    where: Callable[[str], str] = topic_path
    try:
        if topic is Failure.DENIED:
            raise ZnodeError(DENIED)
        node = pool.topic(topic.data)
        where = config_path
        overrides = _config(config, pool)
        where = record_path
        ours = _record(record, pool)
    except ZnodeError as error:
        return Fault(where(name), str(error))
    valid = not isinstance(record, Failure) and record.mzxid >= topic.czxid
    return TopicState(
        name=name,
        identity=topic.czxid,
        replicas=node.replicas,
        config=overrides,
        partition_ids=node.partition_ids,
        topic_id=node.topic_id,
        reassigning=node.reassigning,
        record=ours,
        record_valid=valid,
        changed_outside=valid and _changed_since(config, record),
        unknown_fields=node.unknown_fields,
    )


@dataclass(slots=True)
class _Found:
    """What the bulk read has brought so far."""

    warnings: list[str]
    decode: Callable[[TopicNodes, Pool], TopicState | Fault | None]
    topics: dict[str, TopicState] = field(default_factory=dict)
    records: dict[str, TopicRecord] = field(default_factory=dict)
    faults: dict[str, Fault] = field(default_factory=dict)
    tombstones: dict[str, Tombstone] = field(default_factory=dict)
    pool: Pool = field(default_factory=Pool)

    def take(self, nodes: TopicNodes) -> None:
        """Decode one topic; it may have gone since its name was read, and leave its record."""
        state = self.decode(nodes, self.pool)
        if isinstance(state, TopicState):
            self.topics[nodes.name] = state
            self._bury(nodes.name, state.record, nodes.record)
        elif state is not None:
            self.faults[nodes.name] = state
        else:
            self.take_record(nodes.name, nodes.record)

    def take_record(self, name: str, record: Node | Failure) -> None:
        """Decode a record that has no topic."""
        try:
            found = _record(record, self.pool)
        except ZnodeError as error:
            self.warnings.append(f"{record_path(name)} cannot be read: {error}")
            self.faults[name] = Fault(record_path(name), str(error))
        else:
            if found is not None:
                self.records[name] = found
                self._bury(name, found, record)

    def _bury(self, name: str, found: TopicRecord | None, record: Node | Failure) -> None:
        if found and found.absent and not isinstance(record, Failure):
            self.tombstones[name] = Tombstone(found.owner, record.mtime)


def _read_all(session: Session, head: Head) -> Iterator[TopicNodes]:
    """The znodes of every topic, in the order of names; records only where there are some."""
    recorded = frozenset(head.record_names)
    answers = read_nodes(session, _wanted(head, recorded))
    for name in head.topic_names:
        topic, config = next(answers), next(answers)
        record = next(answers) if name in recorded else Failure.MISSING
        yield TopicNodes(name, topic, config, record, name in head.deleting)


def _wanted(head: Head, recorded: frozenset[str]) -> Iterator[str]:
    """The paths of all that is read; a large cluster has half a million of them, so they are made as they are used."""
    # The names are ZooKeeper's own, so there is nothing to check in them.
    topics, configs, records = f"{paths.TOPICS}/", f"{paths.TOPIC_CONFIGS}/", f"{paths.RECORDS}/"
    for name in head.topic_names:
        yield topics + name
        yield configs + name
        if name in recorded:
            yield records + name


def _read_orphans(session: Session, head: Head) -> Iterator[tuple[str, Node | Failure]]:
    topics = frozenset(head.topic_names)
    names = [name for name in head.record_names if name not in topics]
    return zip(names, read_nodes(session, [record_path(name) for name in names]), strict=True)


def release_of(head: Head, topics: Iterable[TopicState]) -> Release:
    """The oldest release that fits: a topic with an id is a sign that the head by itself cannot show."""
    if any(topic.topic_id for topic in topics):
        return max(head.release_at_least, _TOPIC_IDS_SINCE)
    return head.release_at_least


def _state(session: Session, head: Head, found: _Found, max_buffer: int) -> ClusterState:
    requested = head.requested
    stale = stale_names(requested.topics, requested.since, found.topics, found.faults)
    return ClusterState(
        cluster_id=head.cluster_id,
        brokers=head.brokers,
        topics=found.topics,
        location=session.chroot,
        controller=head.controller,
        controller_epoch=head.controller_epoch,
        gate=head.gate,
        deleting=head.deleting,
        reassigning=requested.topics,
        stale_requests=stale,
        records=found.records,
        faults=found.faults,
        broker_defaults=head.broker_defaults,
        release_at_least=release_of(head, found.topics.values()),
        gives_ids=any(topic.topic_id for topic in found.topics.values()),
        room=room_of(head, max_buffer),
        warnings=(*found.warnings, *requested_warnings(stale, found.topics)),
        tombstones=found.tombstones,
    )


def room_of(head: Head, max_buffer: int) -> Room:
    """Bytes of the lists as brokers receive them: a count, then length and text of each name."""
    return Room(
        topics=4 + sum(4 + len(name.encode()) for name in head.topic_names),
        notifications=4 + head.notifications * (4 + paths.CHANGE_NAME_BYTES),
        limit=max_buffer,
    )


def _config(node: Node | Failure, pool: Pool) -> Mapping[str, str]:
    """The overrides; no znode means none, as Kafka has it."""
    if node is Failure.MISSING:
        return _NO_CONFIG
    if node is Failure.DENIED:
        raise ZnodeError(DENIED)
    return pool.config(node.data)


def _record(node: Node | Failure, pool: Pool) -> TopicRecord | None:
    if node is Failure.MISSING:
        return None
    if node is Failure.DENIED:
        raise ZnodeError(DENIED)
    return pool.record(node.data)


def _changed_since(config: Node | Failure, record: Node | Failure) -> bool:
    return not isinstance(config, Failure) and not isinstance(record, Failure) and config.mzxid > record.mzxid

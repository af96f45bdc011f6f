"""Wait until the controller has removed the reassignment request, and notice when it never will.

Each poll reads the request and the topics that it names: an entry leaves the request when its partition is done. The
wait ends with an error if nothing changes for a long time, or if only entries are left that the controller never
removes. Nothing is undone then: a partition in flight continues.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec.paths import is_znode_name
from topiarist.adapters.zookeeper.connection.session import Session
from topiarist.adapters.zookeeper.moves.batch_reader import (
    decode_lists,
    decode_reassignments,
    decode_states,
    read_partition_states,
)
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode, read_children, read_znodes, sync
from topiarist.adapters.zookeeper.read.cluster_metadata import (
    REQUEST_AND_WRITE_BLOCK,
    ReassignmentRequest,
    decode_request_and_write_block,
)
from topiarist.adapters.zookeeper.read.topic import TopicZnodes
from topiarist.errors import Reason, TopiaristError
from topiarist.planning.moves.execution.stall import (
    PartitionInFlight,
    StallWatch,
    find_added,
    find_blocker,
    find_stuck_entry,
)
from topiarist.text import format_count
from topiarist.throttle import sleep_unless_stopped

_FAST_POLLS = 20
_FIRST_POLL_S, _FAST_POLL_S, _SLOW_POLL_S, _STATES_S = 0.1, 1.0, 5.0, 30.0
_STUCK_POLLS = 2
"""Polls in a row that must find only stuck entries: one read may fall between two writes of the controller."""

KRAFT_REASONS = (Reason.KRAFT_CONTROLLER, Reason.KRAFT_MIGRATION)
"""The write blocks after which no controller carries out a request in ZooKeeper."""


class Poll(NamedTuple):
    """The result of one poll: the partitions that the request still names, and what blocks them, if that is known.

    ``partition_ids`` has the partitions of each topic that the request names.
    """

    left: frozenset[tuple[str, int]]
    blocker: str
    partition_ids: Mapping[str, Collection[int]]


class RequestWait:
    """A wait for the reassignment request; ``rate`` is the throttle of its copies, None if that is not known.

    ``stall_after`` is in seconds.
    """

    def __init__(self, session: Session, rate: int | None, stall_after: float, stop: Callable[[], bool]) -> None:
        self._session = session
        self._rate = rate
        self._stall_after = stall_after
        self._stop = stop

    def polls(self) -> Iterator[Poll]:
        """Yield each poll until the request is removed or ``stop()`` is true.

        Raises ``TopiaristError``: MovesStalled after ``stall_after`` seconds without progress, StuckReassignment if the
        controller never removes what is left, the reason of the write block if KRaft takes the cluster over.
        """
        watch, states_due = StallWatch(self._stall_after, self._rate), 0.0
        blocker, count, stuck_polls = "", 0, 0
        in_flight: tuple[PartitionInFlight, ...] = ()
        topics: Mapping[str, TopicZnodes] = {}
        while True:
            request, topics = self._read_request(topics.keys())
            if request.version is None:
                return
            stuck = _find_stuck(request, topics)
            stuck_polls = stuck_polls + 1 if stuck else 0
            if stuck_polls >= _STUCK_POLLS:
                raise TopiaristError(Reason.STUCK_REASSIGNMENT, f"{paths.REASSIGNMENT_REQUEST}: {stuck}")
            now = time.monotonic()
            if now >= min(states_due, watch.deadline):
                in_flight = self._read_in_flight(request, topics)
                blocker, states_due = find_blocker(in_flight, self._registered_brokers()), now + _STATES_S
            if watch.is_stalled(len(request.entries), in_flight, now):
                raise watch.error(in_flight, self._registered_brokers())
            partition_ids = {name: decode_lists(nodes) for name, nodes in topics.items()}
            yield Poll(frozenset((entry.topic, entry.partition) for entry in request.entries), blocker, partition_ids)
            if self._stop():
                return
            count += 1
            pause = _FIRST_POLL_S if count == 1 or stuck else _FAST_POLL_S if count < _FAST_POLLS else _SLOW_POLL_S
            sleep_unless_stopped(min(pause, self._stall_after), self._stop)

    def _read_request(self, names: Collection[str]) -> tuple[ReassignmentRequest, Mapping[str, TopicZnodes]]:
        """Return the request and the topics that it names.

        ``names`` are the topics of the poll before: they are read with the request, so that a poll is one read.
        """
        sync(self._session)
        known = sorted(names)
        nodes = [*read_znodes(self._session, [*map(paths.topic_path, known), *REQUEST_AND_WRITE_BLOCK])]
        request, block = decode_request_and_write_block(self._session, nodes[len(known) :])
        if block.reason in KRAFT_REASONS and request.version is not None:
            count = format_count(len(request.entries), "partition")
            message = f"{block.message}; {count} of the reassignment request in flight"
            raise TopiaristError(block.reason, message, "compare the replica lists with Kafka's own tools")
        topics = dict(zip(known, nodes, strict=False))
        unread = sorted(filter(is_znode_name, request.topics - topics.keys()))
        topics |= zip(unread, read_znodes(self._session, map(paths.topic_path, unread)), strict=True)
        return request, {
            # The other znodes of a topic do not matter here.
            name: TopicZnodes(name, node, ReadFailure.MISSING, ReadFailure.MISSING, marked_for_deletion=False)
            for name, node in topics.items()
            if name in request.topics
        }

    def _registered_brokers(self) -> frozenset[int]:
        (names,) = read_children(self._session, [paths.BROKER_IDS])
        return frozenset() if isinstance(names, ReadFailure) else frozenset(map(int, filter(str.isdecimal, names)))

    def _read_in_flight(
        self, request: ReassignmentRequest, topics: Mapping[str, TopicZnodes]
    ) -> tuple[PartitionInFlight, ...]:
        states = read_partition_states(self._session, topics.values())
        decoded = {name: decode_states(name, states) for name in topics}
        reassignments = {name: decode_reassignments(nodes) for name, nodes in topics.items()}
        lists = {name: decode_lists(nodes) for name, nodes in topics.items()}
        found = []
        for topic, partition, target in request.entries:
            if state := decoded.get(topic, {}).get(partition):
                present = lists[topic].get(partition, ())
                adding = find_added(target, present, reassignments[topic].get(partition))
                found.append(PartitionInFlight(topic, partition, target, adding, state.isr))
        return tuple(found)


def _find_stuck(request: ReassignmentRequest, topics: Mapping[str, TopicZnodes]) -> str:
    """Return why nothing of the request can be removed by the controller; empty if something can."""
    if request.error:
        return f"cannot be read, and blocks every reassignment: {request.error}"
    first = ""
    for entry in request.entries:
        node = topics[entry.topic].topic if entry.topic in topics else ReadFailure.MISSING
        is_younger = isinstance(node, Znode) and request.czxid is not None and node.czxid > request.czxid
        stuck = find_stuck_entry(entry, exists=node is not ReadFailure.MISSING, is_younger=is_younger)
        if not stuck:
            return ""
        first = first or stuck
    return first

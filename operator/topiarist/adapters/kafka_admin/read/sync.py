"""Find a broker with metadata that is not older than now, and the reassignments that are in progress.

A broker answers from its own copy of the metadata, silently: a topic that was created a moment ago may be missing in
it for 50 ms, or for half a minute on a busy machine. A KRaft broker tells the offset of its copy (the epoch of the
finalized features), and the quorum tells the end of the log (the high watermark). The wait between the two is the only
protection against a plan from old data, so nothing is read before it ends. Where the brokers do not tell, a second is
waited for, and a warning says so.

In ZooKeeper mode there is no quorum to ask. There the controller is asked, which updates its metadata first.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.connection.connection import Connection, Disconnected, Message, UnsupportedRequest
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.protocol.messages import DescribeQuorumRequest, ListPartitionReassignmentsRequest
from topiarist.adapters.kafka_admin.read.capabilities import find_mode, find_version
from topiarist.adapters.kafka_admin.read.metadata import ClusterMetadata, read_metadata
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import ClusterMode, KafkaVersion, Replicas
from topiarist.model.state import GIVEN, UNKNOWN, Reassignment, Support
from topiarist.text import format_count

SYNC_TIMEOUT_S = 60.0
"""Seconds to wait for a broker; 47 were measured on a machine that made 30,000 logs."""

QUORUM_TIMEOUT_S = 15.0
"""Seconds to wait for the controller to say where it is; an election takes one to three."""

SETTLE_S = 1.0
"""Seconds to wait where no request shows how old the metadata of a broker is."""

WARNING_UNSYNCED = (
    "the metadata may be a few seconds old: without Describe on the cluster topiarist cannot ask the controller"
    " how far it is"
)
WARNING_NO_PROOF = "the metadata may be a few seconds old, which topiarist cannot check: "
WARNING_MIGRATING = "the metadata may be a few seconds old: brokers in ZooKeeper mode follow a KRaft controller"

RIGHT = "Describe on the cluster"
LACKS_DESCRIBE = Support(False, f"{RIGHT} is missing", lacks_right=True)
_NO_FEATURES = Support(False, "the brokers have no finalized features")

_METADATA_TOPIC = "__cluster_metadata"
_LATEST_METADATA_LAG = 1  # the high watermark is the offset after the last record
_POLL_INTERVAL_S, _MAX_POLL_INTERVAL_S = 0.002, 0.1


class Quorum(NamedTuple):
    """The leader of the metadata log, its epoch, and the end of the log; leader None: there is none now."""

    leader: int | None
    leader_epoch: int
    high_watermark: int


class SyncedBroker(NamedTuple):
    """The connection to read from, and what was learned about the cluster meanwhile.

    ``quorum`` is None in ZooKeeper mode and without the right to ask. ``version`` is the Kafka version of the broker,
    as far as its features show it. ``freshness`` is denied if nothing proves that the metadata are not old.
    """

    connection: Connection
    mode: ClusterMode
    quorum: Quorum | None
    version: KafkaVersion
    warnings: tuple[str, ...] = ()
    freshness: Support = GIVEN


def sync(session: Session, *, since: float | None = None) -> SyncedBroker:
    """Return a broker that serves metadata no older than this call.

    Where nothing proves that, the last second before the call may be missing. What was there at ``since`` (a time of
    the monotonic clock; None: now) has had this second.

    Raises ``Disconnected`` if the connection breaks, and ``TopiaristError``: ``Unreachable`` if the broker stays behind
    for ``SYNC_TIMEOUT_S`` seconds.
    """
    connection = session.any_broker()
    if find_mode(connection) is ClusterMode.ZOOKEEPER:
        return _sync_zookeeper_mode(session)
    deadline = time.monotonic() + SYNC_TIMEOUT_S
    try:
        quorum = read_quorum(session, connection)
    except UnsupportedRequest as error:
        return _settle(connection, WARNING_NO_PROOF + str(error), Support(False, str(error)), since)
    except TopiaristError as error:
        if error.reason is not Reason.NO_PERMISSION:
            raise
        return _settle(connection, WARNING_UNSYNCED, LACKS_DESCRIBE, since)
    interval = _POLL_INTERVAL_S
    while True:
        versions = connection.read_versions()
        behind = quorum.high_watermark - _LATEST_METADATA_LAG - versions.finalized_features_epoch
        if versions.finalized_features_epoch < 0:
            return _settle(connection, WARNING_NO_PROOF + _NO_FEATURES.why, _NO_FEATURES, since)
        if behind <= 0:
            return SyncedBroker(connection, ClusterMode.KRAFT, quorum, find_version(versions))
        if time.monotonic() > deadline:
            late = f"{format_count(behind, 'record')} of metadata behind after {SYNC_TIMEOUT_S:g} s"
            message = f"the broker that was asked is {late}"
            hint = "run again when the brokers are less busy; topiarist does not plan with old metadata"
            raise TopiaristError(Reason.UNREACHABLE, message, hint)
        time.sleep(interval)
        interval = min(interval * 2, _MAX_POLL_INTERVAL_S)


@contextmanager
def lend_synced(session: Session, synced: SyncedBroker) -> Iterator[Connection | None]:
    """Lend one more connection to a broker that serves metadata no older than ``synced``; None without one.

    It has the address of the other connection, which may lead to another broker all the same.
    """
    if synced.quorum is None:
        yield None  # nothing shows how old the metadata of a broker is
        return
    with session.lend_another(synced.connection) as connection:
        epoch = connection.read_versions().finalized_features_epoch if connection else -1
        yield connection if epoch >= synced.quorum.high_watermark - _LATEST_METADATA_LAG else None


def read_quorum(session: Session, connection: Connection) -> Quorum:
    """Return the state of the metadata log; the broker forwards the request to the active controller.

    Raises ``NoController`` if there is none, ``NoPermission``, ``UnsupportedRequest`` if the broker never answers this
    request, and ``Disconnected``.
    """
    topic = DescribeQuorumRequest.TopicData
    partition = topic.PartitionData()
    request = DescribeQuorumRequest(topics=[topic(topic_name=_METADATA_TOPIC, partitions=[partition])])
    try:
        answer = connection.call(request, timeout=QUORUM_TIMEOUT_S)
    except Disconnected as error:
        if not error.is_late:
            raise
        # The broker waits for a controller to forward the request to, longer than any deadline of ours.
        raise TopiaristError(Reason.NO_CONTROLLER, f"the controller does not answer: {error}", "run again") from error
    found = next((each for each in answer.topics if each.topic_name == _METADATA_TOPIC), None)
    state = next((each for each in found.partitions if each.partition_index == 0), None) if found else None
    code = answer.error_code or (state.error_code if state else error_codes.UNKNOWN_TOPIC_OR_PARTITION)
    if code in error_codes.AUTHORIZATION_CODES:
        raise session.error_of(code, "cannot ask the controller", RIGHT)
    if code in error_codes.PERMANENT_CODES:
        raise UnsupportedRequest(f"the brokers answer DescribeQuorum with {error_codes.describe_error(code)}")
    if code or state is None or state.leader_id < 0:
        why = error_codes.describe_error(code) if code else "the quorum has no leader"
        raise TopiaristError(Reason.NO_CONTROLLER, f"the controller does not answer: {why}", "run again")
    return Quorum(state.leader_id, state.leader_epoch, state.high_watermark)


def sync_to_read(session: Session) -> SyncedBroker:
    """Return what ``sync`` returns, for a read that precedes no write directly.

    Where nothing proves how old metadata are, each call of ``sync`` costs a second. A read may miss what other clients
    did in the second before it, as if it had begun that much earlier: whatever is planned from it is compared again
    directly before a write, after a second of its own. It must not miss what this session has done or seen, so the
    second is waited for once after each of these (``Session.changed_at``), and not at each read.
    """
    return sync(session, since=session.changed_at)


def _settle(connection: Connection, warning: str, freshness: Support, since: float | None) -> SyncedBroker:
    """Return the broker a second after ``since``: brokers of a healthy cluster have caught up; nothing proves that."""
    now = time.monotonic()
    if (remaining := (now if since is None else since) + SETTLE_S - now) > 0:
        time.sleep(remaining)
    version = find_version(connection.read_versions())
    return SyncedBroker(connection, ClusterMode.KRAFT, None, version, (warning,), freshness)


def _sync_zookeeper_mode(session: Session) -> SyncedBroker:
    connection = session.controller()
    versions = connection.read_versions()
    warnings: tuple[str, ...] = ()
    freshness = GIVEN
    if versions.zk_migration_ready:
        # The controller may be a KRaft controller, which the brokers follow; any of them is named as the controller.
        time.sleep(SETTLE_S)
        _wait_for_agreement(session)
        warnings = (WARNING_MIGRATING,)
        freshness = Support(False, "the brokers follow a KRaft controller")
    return SyncedBroker(connection, ClusterMode.ZOOKEEPER, None, find_version(versions), warnings, freshness)


def _wait_for_agreement(session: Session) -> None:
    """Return when all brokers that answer know the same brokers, topics and replica lists.

    In ZooKeeper mode a broker answers before it has received any metadata, and says as little about that as about its
    offset in the log of a KRaft controller: its topics would all look new. Raises ``Unreachable`` after the timeout.
    """
    deadline, interval = time.monotonic() + SYNC_TIMEOUT_S, _POLL_INTERVAL_S
    while (odd := _find_disagreement(session)) is not None:
        if time.monotonic() > deadline:
            message = f"brokers in a migration to KRaft answer differently after {SYNC_TIMEOUT_S:g} s: {odd}"
            hint = "run again when all restarted brokers are back; topiarist does not plan before that"
            raise TopiaristError(Reason.UNREACHABLE, message, hint)
        time.sleep(interval)
        interval = min(interval * 2, _MAX_POLL_INTERVAL_S)


def _find_disagreement(session: Session) -> str | None:
    """Return in which way one broker answers differently than another; None if all that answer agree."""
    first = read_metadata(session.controller())
    known = {each.id for each in first.brokers}
    views = {"the first one": read_metadata(session.any_broker())}
    for broker_id in sorted(known.union(each.id for each in views["the first one"].brokers)):
        with suppress(Disconnected):  # it is down, which the write block says
            views[f"broker {broker_id}"] = read_metadata(session.broker(broker_id))
    for name, view in views.items():
        if {each.id for each in view.brokers} != known:
            return f"{name} does not know the same brokers as the others"
        for topic in sorted(first.topics.keys() | view.topics.keys()):
            if _placement(first, topic) != _placement(view, topic):
                return f"topic {topic} is not the same for {name} as for the others"
    return None


def _placement(metadata: ClusterMetadata, name: str) -> tuple[str | None, list[Replicas]] | None:
    topic = metadata.topics.get(name)
    return (topic.topic_id, [each.replicas for each in topic.partitions.values()]) if topic else None


class MigrationReadiness(NamedTuple):
    """The brokers that were restarted for a migration to KRaft, those that were not, and those without an answer."""

    ready: list[int]
    others: list[int]
    silent: list[int]


def find_migration_readiness(session: Session, broker_ids: list[int]) -> MigrationReadiness:
    """Ask each broker whether it is ready for a migration to KRaft; brokers in KRaft mode are left out.

    Only brokers in ZooKeeper mode of Kafka 3.4 and later can be ready.
    """
    found = MigrationReadiness([], [], [])
    for broker_id in broker_ids:
        try:
            connection = session.broker(broker_id)
            versions = connection.read_versions()
        except Disconnected:
            found.silent.append(broker_id)
            continue
        if find_mode(connection) is ClusterMode.KRAFT:
            continue  # in KRaft mode already
        (found.ready if versions.zk_migration_ready else found.others).append(broker_id)
    return found


# Read the reassignments in progress, which the controller lists with the replicas that it adds and removes.
#
# The controller lists what it has decided, and brokers serve what is committed. On Kafka 4.4.0 a partition that was no
# longer listed kept its replica list of during the move for some ms, also after a sync: together they look like a list
# that another client wrote. So metadata fit a list of reassignments only if they are read after a sync that begins some
# time after that list, and if the list is the same afterwards (``ReassignmentsWatch``).

LIST_TIMEOUT_MS = 10_000

LIST_SETTLE_S = 0.05
"""Seconds after which what a list of reassignments shows is committed, or at least before the high watermark."""

Reassignments = Mapping[str, Mapping[int, Reassignment]]
"""The reassignments by topic and partition."""


class ReassignmentsWatch:
    """The reassignments during one read of metadata. ``current`` is the last list; empty if it is not visible.

    ``support`` is denied without the right to list them, and if the brokers do not offer that; without a controller it
    is not known.
    """

    def __init__(self, session: Session, connection: Connection, *, has_controller: bool = True) -> None:
        self._session = session
        self._connection = connection
        self._listed_at = time.monotonic()
        self.current: Reassignments = {}
        self.support = GIVEN if has_controller else UNKNOWN
        if has_controller:
            try:
                self.current = read_reassignments(session, connection)
            except UnsupportedRequest as error:
                self.support = Support(False, str(error))
            except TopiaristError as error:
                if error.reason is not Reason.NO_PERMISSION:
                    raise
                self.support = LACKS_DESCRIBE
        self._listed_at = time.monotonic()

    @property
    def is_visible(self) -> bool:
        """Return whether the reassignments are listed."""
        return self.support == GIVEN

    def settle(self) -> None:
        """Return when metadata that are read now are not older than the last list. Raises the errors of ``sync``."""
        if self.is_visible:
            time.sleep(max(0.0, self._listed_at + LIST_SETTLE_S - time.monotonic()))
            sync_to_read(self._session)

    def refresh(self) -> Collection[str]:
        """List the reassignments again, and return the topics with other ones: their metadata are to be read again."""
        if not self.is_visible:
            return ()
        before, self.current = self.current, read_reassignments(self._session, self._connection)
        self._listed_at = time.monotonic()
        return {name for name in (*before, *self.current) if before.get(name) != self.current.get(name)}


def read_reassignments(session: Session, connection: Connection) -> Reassignments:
    """Return all reassignments in progress.

    Raises ``NoPermission``, ``Disconnected``, and ``UnsupportedRequest`` if the brokers never list them.
    """
    answer = connection.call(build_list_reassignments())
    if answer.error_code in error_codes.PERMANENT_CODES:
        code = error_codes.describe_error(answer.error_code)
        raise UnsupportedRequest(f"the brokers answer ListPartitionReassignments with {code}")
    if answer.error_code:
        raise session.error_of(answer.error_code, "cannot list the reassignments", RIGHT, answer.error_message)
    found = decode_reassignments(answer)
    if found or session.is_reassigning:
        session.changed_at = time.monotonic()  # replica lists are changing, or have just changed
    session.is_reassigning = bool(found)
    return found


def build_list_reassignments() -> Message:
    """Return the request for all partitions that are being reassigned."""
    return ListPartitionReassignmentsRequest(timeout_ms=LIST_TIMEOUT_MS)


def decode_reassignments(answer: Message) -> Reassignments:
    """Return the partitions that are being reassigned; the caller has read the error of the answer.

    Brokers of other makers list partitions too that get no replica and lose none: these are not being reassigned.
    """
    found = {
        topic.name: {
            each.partition_index: Reassignment(tuple(each.adding_replicas), tuple(each.removing_replicas))
            for each in topic.partitions
            if each.adding_replicas or each.removing_replicas
        }
        for topic in answer.topics
    }
    return {name: partitions for name, partitions in found.items() if partitions}


def target_of(replicas: Replicas, reassignment: Reassignment) -> Replicas:
    """Return the list that a partition has after its reassignment, from the list that it has meanwhile."""
    return tuple(broker for broker in replicas if broker not in reassignment.removing)

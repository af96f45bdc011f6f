"""The connections of one run to the brokers of one cluster, opened when they are needed.

All reading of a run goes over one connection, that of ``any_broker``, because two brokers may serve metadata of
different moments. Writes go to the controller, records to the leader of their topic and to their coordinator. A read
may be repeated on another connection; nothing here ever repeats a write.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, TypeVar

from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.connection.authentication import RefusedByCluster
from topiarist.adapters.kafka_admin.connection.connection import NO_ID, Connection, Disconnected, Message
from topiarist.adapters.kafka_admin.connection.connector import (
    Address,
    Connector,
    UnknownHostError,
    format_address,
    parse_bootstrap_servers,
)
from topiarist.adapters.kafka_admin.protocol.messages import FindCoordinatorRequest, MetadataRequest
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import KafkaAccess
from topiarist.text import quote

LOOKUP_PATIENCE_S = 60.0
"""Seconds to wait for a leader or a coordinator; 15 were measured after two of three brokers had returned."""

CONTROLLER_PATIENCE_S = 30.0
"""Seconds to wait until the brokers name a controller."""

LEADER_AGE_S = 5.0
"""Seconds for which a leader that was found is not looked up again; a leader without a controller stays one for 9."""

HINT_ADVERTISED = (
    "the brokers advertise a name that this machine does not know: use the listener that is for clients from here, or"
    " correct advertised.listeners or the DNS"
)

ANSWER_HEADER_BYTES = 4 + 1 + 4
"""The correlation id, the tagged fields of the header, and the throttle time of most answers."""

_Value = TypeVar("_Value")
_Found = TypeVar("_Found", int, Connection)
_Kept = tuple[int, float]  # the id of a broker, and the time at which it was found
_LOOKUP_INTERVAL_S = 0.2
_TRANSACTION, _KEYS_VERSION = 1, 4


class AnswerCache:
    """The decoded answers of a cluster that is read repeatedly: an answer that is as before is not decoded again.

    ``start_read`` forgets what the last read did not need.
    """

    def __init__(self) -> None:
        self._previous: dict[Hashable, tuple[object, Any]] = {}
        self._current: dict[Hashable, tuple[object, Any]] = {}

    def start_read(self) -> None:
        """Start a read."""
        self._previous, self._current = self._current, {}

    def decode(self, question: Hashable, answer: object, decode: Callable[[], _Value]) -> _Value:
        """Return what ``decode`` returned for an equal answer to this question, or returns now. Any thread may call it.

        ``answer`` may be a digest of the answer. Callers change none of the values.
        """
        entry = self._current.get(question) or self._previous.get(question)
        if entry is None or entry[0] != answer:
            entry = answer, decode()
        self._current[question] = entry
        value: _Value = entry[1]
        return value


def digest_answer(data: bytes) -> bytes:
    """Return a digest of an answer, without its header, for an ``AnswerCache``: a large answer is not worth keeping."""
    return blake2b(memoryview(data)[ANSWER_HEADER_BYTES:], digest_size=16).digest()


class Session:
    """The connections to one cluster, until ``close``.

    ``hosts`` is for messages. ``requests`` counts requests by name and result (ok, lost). ``changed_at`` is a time of
    the monotonic clock at which something may have changed that the next read must show: the begin, a write of this
    session, and what it has seen of others (``is_reassigning``: a reassignment). Raises ``WrongUsage`` for
    malformed addresses and ``CredentialsInvalid`` for a secret that is not there. With ``accepts_old_brokers``, brokers
    before Kafka 2.8 are accepted, which have no topic ids. ``answers`` is set for a cluster that is read repeatedly.
    """

    def __init__(self, access: KafkaAccess, connect_timeout: float, *, accepts_old_brokers: bool = False) -> None:
        self.access = access
        self.hosts = access.bootstrap_servers
        self.requests: Counter[tuple[str, str]] = Counter()
        self.changed_at = time.monotonic()
        self.is_reassigning = False
        self.answers: AnswerCache | None = None
        self._bootstrap = parse_bootstrap_servers(access.bootstrap_servers)
        self._connector = Connector(access, connect_timeout, self.requests, accepts_old_brokers=accepts_old_brokers)
        self._connector.check_credentials()
        self._connections: dict[Address, Connection] = {}
        self._others: list[Connection] = []
        self._idle: dict[Address, list[Connection]] = {}
        self._brokers: dict[int, Address] = {}
        self._reader: Address | None = None
        self._controller_id: int | None = None
        self._coordinators: dict[str, _Kept] = {}
        self._leaders: dict[str, _Kept] = {}

    def any_broker(self) -> Connection:
        """Return the connection for reading, to the first broker that answers.

        Raises ``Unreachable``, and the refusal of a broker if none answers.
        """
        first = [self._reader] if self._reader else []
        refusal: TopiaristError | None = None
        errors = []
        for address in dict.fromkeys((*first, *self._bootstrap, *self._brokers.values())):
            try:
                connection = self._connect(address)
            except RefusedByCluster:
                raise
            except TopiaristError as error:
                refusal = refusal or error
            except (OSError, Disconnected) as error:
                errors.append(f"{format_address(address)}: {_describe(error)}")
            else:
                self._reader = address
                return connection
        if refusal:
            raise refusal
        raise TopiaristError(Reason.UNREACHABLE, f"cannot reach Kafka at {self.hosts}: {'; '.join(errors)}")

    @contextmanager
    def lend_another(self, connection: Connection) -> Iterator[Connection | None]:
        """Lend one more connection to the address of an open one; None if it cannot be opened now.

        Any thread may call it. Afterwards the connection waits for the next caller, unless it broke.
        """
        address = next((address for address, each in self._connections.items() if each is connection), None)
        idle = self._idle.setdefault(address, []) if address else []
        another = _pop_open(idle) or (self._open_another(address) if address else None)
        try:
            yield another
        finally:
            if another is not None and another.is_open:
                idle.append(another)

    def _open_another(self, address: Address) -> Connection | None:
        try:
            another = self._connector.open(address)
        except (OSError, Disconnected, TopiaristError):
            return None
        self._others.append(another)
        return another

    def read(self, request: Message) -> Message:
        """Send a request that changes nothing to ``any_broker``, once more on another connection if the first breaks.

        Raises ``Disconnected`` and the errors of ``any_broker``.
        """
        try:
            return self.any_broker().call(request)
        except Disconnected:
            return self.any_broker().call(request)

    def broker(self, broker_id: int) -> Connection:
        """Return the connection to one broker. Raises ``Disconnected`` if it cannot be reached or is not known."""
        if broker_id not in self._brokers:
            self.read_metadata([])
        address = self._brokers.get(broker_id)
        if address is None:
            raise Disconnected(f"broker {broker_id} is not registered", was_sent=False)
        try:
            return self._connect(address)
        except (OSError, Disconnected) as error:
            self._brokers.pop(broker_id, None)  # it may have moved: the next call asks for its address
            message = f"broker {broker_id} cannot be reached: {_describe(error)}"
            hint = HINT_ADVERTISED if isinstance(error, UnknownHostError) else "run again"
            raise Disconnected(message, was_sent=False, hint=hint) from error

    def controller(self) -> Connection:
        """Return the connection for Admin requests: to the broker that the brokers name as their controller.

        In KRaft mode that is some broker, which forwards; in ZooKeeper mode it is the controller itself. A broker that
        has just ended may still be named, so this waits 30 s for one that can be reached. Raises ``Unreachable``.
        """
        if self._controller_id is not None:
            try:
                return self.broker(self._controller_id)
            except Disconnected:
                self._controller_id = None

        def find() -> Connection | str:
            node_id: int = self.read_metadata([]).controller_id
            if node_id < 0:
                return "the brokers name none"
            self._controller_id = node_id
            return self._connection_or_error(node_id)

        return self._look_up(find, "a controller", CONTROLLER_PATIENCE_S)

    def forget_controller(self) -> None:
        """Ask for the controller again at the next call of ``controller``: after NOT_CONTROLLER, for example."""
        self._controller_id = None

    def forget_lookups(self) -> None:
        """Look leaders and coordinators up again: after an error that another broker may not have."""
        self._coordinators.clear()
        self._leaders.clear()

    def coordinator(self, transactional_id: str) -> Connection:
        """Return the connection to the coordinator of a transactional id, as it was found until ``forget_lookups``.

        One that is no longer the coordinator carries out nothing: it writes each state to its quorum first. Waits some
        time for one. Raises ``NoPermission`` and ``Unreachable``.
        """
        what = f"the coordinator of the transactional id {transactional_id}"
        return self._look_up_kept(
            self._coordinators, transactional_id, lambda: self._find_coordinator(transactional_id), what
        )

    def leader(self, topic: str) -> Connection:
        """Return the connection to the leader of partition 0 of a topic, as metadata of the last seconds name it.

        Waits some time for one, and for the topic. Raises ``NoPermission`` and ``Unreachable``.
        """
        if topic in self._leaders and time.monotonic() >= self._leaders[topic][1] + LEADER_AGE_S:
            del self._leaders[topic]
        what = f"the leader of partition 0 of {topic}"
        return self._look_up_kept(self._leaders, topic, lambda: self._find_leader(topic), what)

    def read_metadata(self, names: Iterable[str] | None = None) -> Message:
        """Return the metadata of these topics (None: of all), and keep the addresses of the brokers.

        Never creates a topic. The answer has an error code for each topic. Raises the errors of ``read``.
        """
        topic = MetadataRequest.MetadataRequestTopic
        wanted = None if names is None else [topic(name=name, topic_id=NO_ID) for name in names]
        answer = self.read(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
        self._brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
        for each in answer.topics if names is not None else ():
            if not each.error_code:
                self._keep_leader(each)
        return answer

    def error_of(self, code: int, what: str, right: str, message: str | None = None) -> TopiaristError:
        """Return the error for a code that ends a run; it names the principal of this session."""
        return error_codes.error_of(code, what, right=right, principal=self.access.principal, message=message)

    def wait_after_change(self, seconds: float) -> None:
        """Return when ``changed_at`` is this many seconds ago."""
        time.sleep(max(0.0, self.changed_at + seconds - time.monotonic()))

    def close(self) -> None:
        """Close all connections."""
        for connection in (*self._connections.values(), *self._others):
            connection.close()
        self._connections.clear()
        self._others.clear()
        self._idle.clear()

    def _keep_leader(self, topic: Message) -> None:
        leader = next((int(each.leader_id) for each in topic.partitions if each.partition_index == 0), -1)
        self._leaders.pop(topic.name, None)
        if leader >= 0:
            self._leaders[topic.name] = leader, time.monotonic()

    def _find_coordinator(self, transactional_id: str) -> int | str:
        connection = self.any_broker()
        version = connection.version_of(FindCoordinatorRequest)
        if version >= _KEYS_VERSION:
            request = FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=[transactional_id])
        else:
            request = FindCoordinatorRequest(key_type=_TRANSACTION, key=transactional_id)
        answer = connection.call(request, version=version)
        found = answer
        if version >= _KEYS_VERSION:
            matching = [each for each in answer.coordinators if each.key == transactional_id]
            if not matching:
                return "the answer does not have it"
            found = matching[0]
        if not found.error_code:
            self._brokers[found.node_id] = (found.host, found.port)
            return int(found.node_id)
        what = f"cannot find the coordinator of the transactional id {quote(transactional_id)}"
        right = f"Describe on the transactional id {transactional_id}"
        return self._retry_or_raise(found.error_code, what, right, found.error_message)

    def _find_leader(self, topic: str) -> int | str:
        answer = self.read_metadata([topic])
        state = next((each for each in answer.topics if each.name == topic), None)
        if state is None:
            return "the answer does not have the topic"
        found = next((each for each in state.partitions if each.partition_index == 0), None)
        code = state.error_code or (found.error_code if found else error_codes.UNKNOWN_TOPIC_OR_PARTITION)
        # A partition with a replica on an offline broker has an error code and a leader.
        if found and found.leader_id >= 0 and not state.error_code:
            return int(found.leader_id)
        right = f"Describe on the topic {topic}"
        return self._retry_or_raise(code or error_codes.LEADER_NOT_AVAILABLE, f"cannot find {quote(topic)}", right)

    def _retry_or_raise(self, code: int, what: str, right: str, message: str | None = None) -> str:
        if code in error_codes.LOOKUP_CODES:
            return error_codes.describe_error(code, message)
        raise self.error_of(code, what, right, message)

    def _connection_or_error(self, broker_id: int) -> Connection | str:
        try:
            return self.broker(broker_id)
        except Disconnected as error:
            return str(error)

    def _look_up_kept(self, kept: dict[str, _Kept], key: str, find: Callable[[], int | str], what: str) -> Connection:
        """Return the connection to the broker that is kept, or that ``find`` finds; keep one that can be reached."""
        known = kept.pop(key, None)

        def connect() -> Connection | str:
            nonlocal known
            broker, known = known, None
            if broker is None:
                found = find()
                if isinstance(found, str):
                    return found
                broker = found, time.monotonic()
            connection = self._connection_or_error(broker[0])
            if not isinstance(connection, str):
                kept[key] = broker
            return connection

        return self._look_up(connect, what, LOOKUP_PATIENCE_S)

    def _look_up(self, find: Callable[[], _Found | str], what: str, patience: float) -> _Found:
        """Return what ``find`` finds; while it returns text, which is an error, call it again for some time."""
        deadline = time.monotonic() + patience
        while True:
            try:
                found = find()
            except Disconnected as error:
                found = str(error)
            if not isinstance(found, str):
                return found
            if time.monotonic() >= deadline:
                message = f"{what} of Kafka at {self.hosts} was not found within {patience:g} s: {found}"
                raise TopiaristError(Reason.UNREACHABLE, message)
            time.sleep(_LOOKUP_INTERVAL_S)

    def _connect(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            connection = self._connections[address] = self._connector.open(address)
        return connection


def _pop_open(connections: list[Connection]) -> Connection | None:
    """Remove and return an open connection; None if there is none. Closed ones are removed too."""
    while connections:
        try:
            found = connections.pop()
        except IndexError:  # another thread was faster
            return None
        if found.is_open:
            return found
    return None


def _describe(error: Exception) -> str:
    """Return the cause of a failed connection without its number."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)

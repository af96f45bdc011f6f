"""One ZooKeeper session for one cluster and one run: connect, send requests, detect the end of the session.

kazoo opens a new session by itself when the old one has ended, and reports nothing. A plan made under one session must
not be written under another, so this module allows no connection after the end.
"""

from __future__ import annotations

import contextlib
import logging
import select
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    SessionClosedRequireSaslError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.hosts import collect_hosts
from kazoo.protocol.states import KazooState
from kazoo.retry import RetryFailedError

from topiarist.adapters.zookeeper.connection.authentication import Authenticator, LoginConnection, check_credentials
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import ANONYMOUS, Credentials
from topiarist.text import quote

# Buffered sockets and threads for kazoo, with a deadline for connections.
#
# kazoo creates an epoll object for every ``select``, calls ``recv`` twice for every reply and ``send`` once for every
# request, and wakes its thread by a byte for every request. Together these calls are most of the cost of a small
# request: a transaction, or a read from a ZooKeeper before 3.6. The classes here use kazoo's hooks to send waiting
# requests together.

_BUFFER_BYTES = 65_536


class BufferedSocket:
    """A socket that reads ahead and buffers writes until ``flush``.

    ``pending`` tells kazoo, as for a TLS socket, that there are bytes to read. ``has_received`` is True once bytes were
    read, ``is_http`` is True if they were the reply of a web server. Only kazoo's thread uses the socket.
    """

    def __init__(self, socket: Any) -> None:
        self.has_received = self.is_http = False
        self._socket = socket
        self._read_buffer = memoryview(b"")
        self._write_buffer = bytearray()
        self._inner_pending = getattr(socket, "pending", None)
        self.fileno = socket.fileno

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    @property
    def is_full(self) -> bool:
        """Return True if the write buffer has reached its limit and must be flushed."""
        return len(self._write_buffer) >= _BUFFER_BYTES

    def pending(self) -> int:
        """Return the number of bytes that ``recv`` returns without a system call, a TLS socket's own included."""
        return len(self._read_buffer) or (self._inner_pending() if self._inner_pending else 0)

    def recv(self, size: int) -> bytes:
        """Return at most ``size`` bytes; none means that the server has closed the connection."""
        if not self._read_buffer:
            if size >= _BUFFER_BYTES:
                return self._socket.recv(size)  # type: ignore[no-any-return]
            self._read_buffer = memoryview(self._socket.recv(_BUFFER_BYTES))
            if self._read_buffer and not self.has_received:
                self.has_received, self.is_http = True, bytes(self._read_buffer[:5]) == b"HTTP/"
        data, self._read_buffer = self._read_buffer[:size], self._read_buffer[size:]
        return bytes(data)

    def send(self, data: bytes) -> int:
        """Buffer all of ``data``; the next ``flush`` sends it."""
        self._write_buffer += data
        return len(data)

    def flush(self, timeout: float | None) -> None:
        """Send the buffered bytes; raise ``TimeoutError`` if the server accepts none for ``timeout`` seconds."""
        if not self._write_buffer:
            return
        unsent, self._write_buffer = memoryview(bytes(self._write_buffer)), bytearray()
        while unsent:
            try:
                unsent = unsent[self._socket.send(unsent) :]
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._wait_ready(select.POLLOUT, timeout)
            except ssl.SSLWantReadError:
                self._wait_ready(select.POLLIN, timeout)

    def _wait_ready(self, event: int, timeout: float | None) -> None:
        poll = select.poll()
        poll.register(self.fileno(), event)
        if not poll.poll(None if timeout is None else timeout * 1000):
            raise TimeoutError("the server accepts no more requests")


class WakeupPipe:
    """The pipe that wakes kazoo's thread: kazoo writes one byte for each request and reads one after each.

    Only the first of several waiting requests needs a real byte. Every byte is a system call that hands the interpreter
    to the other thread and waits to get it back.
    """

    def __init__(self, reader: Any, writer: Any) -> None:
        self._reader = reader
        self._writer = writer
        self._pending_count = 0
        self._lock = threading.Lock()
        self.fileno = reader.fileno

    def pending(self) -> int:
        """Return the number of waiting requests."""
        return self._pending_count

    def send(self, data: bytes) -> int:
        """Count a request; write a byte if it is the only one."""
        with self._lock:
            if not self._pending_count:
                self._writer.send(b"\0")
            self._pending_count += len(data)
        return len(data)

    def recv(self, size: int) -> bytes:
        """Count a request as taken; read the byte after the last one."""
        with self._lock:
            self._pending_count = max(self._pending_count - size, 0)
            if not self._pending_count:
                self._reader.recv(1)
        return b"\0" * size

    def close(self) -> None:
        """Close both ends; kazoo calls this twice, once for each end."""
        self._reader.close()
        self._writer.close()


class BufferedHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threading handler, with buffered sockets and a deadline.

    After ``connect_deadline`` (of the monotonic clock) no connection is made. ``connect_timeout`` is the longest, in
    seconds, that one server may take to accept, so that an offline server does not use up the time for all.
    ``authenticator`` makes the connections. ``has_given_up`` is True once the authenticator has tried every server,
    ``is_http`` is True if a web server has answered.
    """

    def __init__(self, authenticator: Authenticator, *, connect_deadline: float, connect_timeout: float) -> None:
        super().__init__()
        self.has_given_up = self.is_http = False
        self.connect_deadline = connect_deadline
        self.connect_timeout = connect_timeout
        self._authenticator = authenticator
        self._last_sockets: dict[Any, BufferedSocket] = {}
        self._polls: dict[tuple[int, ...], Any] = {}

    def create_socket_pair(self) -> tuple[WakeupPipe, WakeupPipe]:
        """Return the pipe that wakes kazoo's thread, as both ends."""
        pipe = WakeupPipe(*super().create_socket_pair())
        return pipe, pipe

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], _errors: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the readers and writers that are ready; flush buffered writes before a wait.

        While there are requests to send or bytes to read, no system call is made. Otherwise poll(2) is used, with one
        poll object for each set of descriptors. A socket is always ready for a write, because writes are buffered.
        """
        if writers:
            return [], list(writers), []
        ready = [reader for reader in readers if reader.pending()]
        sockets = [reader for reader in readers if isinstance(reader, BufferedSocket)]
        if ready and not any(reader.is_full for reader in sockets):
            return ready, [], []
        for reader in sockets:
            reader.flush(timeout)
        by_descriptor = {reader.fileno(): reader for reader in readers}
        # poll(2), unlike epoll, keeps no state in the kernel: a descriptor that was closed and reused needs no update.
        poll = self._polls.get(tuple(by_descriptor))
        if poll is None:
            poll = self._polls[tuple(by_descriptor)] = select.poll()
            for number in by_descriptor:
                poll.register(number, select.POLLIN)
        events = poll.poll(0 if ready else None if timeout is None else timeout * 1000)
        return ready + [by_descriptor[number] for number, _ in events if by_descriptor[number] not in ready], [], []

    def create_connection(self, address: Any, hostname: str, timeout: float, **_options: Any) -> BufferedSocket:
        """Return a socket to one server.

        Raises ``RetryFailedError`` after the deadline, or if every server has refused the credentials.
        """
        remaining_s = self.connect_deadline - time.monotonic()
        if remaining_s <= 0:
            raise RetryFailedError("the connect timeout is over")
        previous = self._last_sockets.pop(address, None)
        no_response = previous is not None and not previous.has_received
        self.is_http = self.is_http or (previous is not None and previous.is_http)
        try:
            connection = self._authenticator.connect(
                address, hostname, min(timeout, remaining_s, self.connect_timeout), no_response
            )
        except RetryFailedError:
            self.has_given_up = True
            raise
        self._last_sockets[address] = BufferedSocket(connection)
        return self._last_sockets[address]


SESSION_TIMEOUT_S = 10.0
"""Seconds: the timeout requested from the server, and the longest wait for a dropped connection to return."""

MAX_DISCONNECTS = 5
"""Consecutive connection drops during one request after which the request fails."""

_POLL_INTERVAL_S = 0.05

# By opcode, for the metrics of requests.
_OPERATION_NAMES = {
    **{1: "create", 2: "delete", 3: "exists", 4: "getData", 5: "setData", 8: "getChildren", 9: "sync"},
    **{12: "getChildren2", 14: "multi", 15: "create2", 22: "multiRead"},
}

# The attribute of a pending reply that holds the opcode; requests that kazoo sends by itself have none.
_OPCODE_ATTRIBUTE = "topiarist_opcode"


class ConnectionInterrupted(Exception):
    """The connection dropped during a request: a read may be sent again, a write has an unknown outcome."""


class Request(Protocol):
    """A request as kazoo's queue accepts it: an opcode, the bytes, and the decoder of the reply."""

    @property
    def type(self) -> int: ...

    def serialize(self) -> bytes | bytearray: ...

    def deserialize(self, buffer: bytes, offset: int) -> Any: ...


class PendingReply(Protocol):
    """A reply that has not arrived yet (kazoo's asynchronous result)."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any: ...


class Session:
    """An open session, until ``close``.

    ``hosts`` is for messages; ``chroot`` is the prefix of all paths, empty if there is none. ``disconnects`` counts
    dropped connections: a caller that sends writes compares it with an earlier value. ``lost`` is True once the session
    has ended, for good. ``requests`` counts requests by operation and result (ok, error, lost).
    ``supports_multiread`` is None until ``sync`` has detected it.
    """

    def __init__(self, client: Any, handler: BufferedHandler, authenticator: Authenticator, hosts: str) -> None:
        self.client = client
        self.authenticator = authenticator
        self.hosts = hosts
        self.chroot: str = client.chroot
        self.disconnects = 0
        self.lost = False
        self.requests: Counter[tuple[str, str]] = Counter()
        self.supports_multiread: bool | None = None
        self._handler = handler
        self._has_received_reply = False
        client.add_listener(self._on_state)
        self._connected_event: threading.Event = client.start_async()

    @property
    def session_id(self) -> str:
        """Return the session's unique id in ZooKeeper as text; raise ``SessionLost`` if the session has ended."""
        identity = self.client.client_id
        if identity is None:
            raise self._mark_lost()
        return f"{identity[0]:x}"

    @property
    def connected(self) -> bool:
        """Return True if a server is connected under the session that was opened."""
        return self._connected_event.is_set() and not self.lost

    @property
    def principal_text(self) -> str:
        """Return the identity of this client, for messages such as "give <identity> the right to read".

        ZooKeeper does not report a wrong digest password, so for a digest login the text mentions that possibility.
        """
        credentials = self.authenticator.credentials
        caveat = " (or its password is wrong: ZooKeeper does not report that for digest)" if credentials.digest else ""
        return credentials.principal + caveat

    def send(self, request: Request) -> PendingReply:
        """Queue a request and return its pending reply; replies arrive in the order of the requests."""
        pending: PendingReply = self.client.handler.async_result()
        setattr(pending, _OPCODE_ATTRIBUTE, request.type)
        # kazoo has no public method for requests of any kind; its own methods use this one.
        self.client._call(request, pending)
        return pending

    def result(self, pending: PendingReply) -> Any:
        """Return the result of a request that was sent.

        Raises ``ConnectionInterrupted`` if the connection dropped first, ``SessionLost`` if the session has ended, and
        kazoo's exceptions for ZooKeeper's errors.
        """
        result = "lost"
        try:
            answer = pending.get(timeout=0.0 if self.lost else 2 * SESSION_TIMEOUT_S)
            result = "ok"
        except ConnectionLoss:
            raise ConnectionInterrupted from None
        except SessionClosedRequireSaslError as error:
            self.authenticator.on_login_required()
            raise self._mark_lost() from error
        except (SessionExpiredError, ConnectionClosedError, KazooTimeoutError, AuthFailedError) as error:
            raise self._mark_lost() from error
        except KazooException:
            result = "error"
            raise
        finally:
            self.requests[_OPERATION_NAMES.get(getattr(pending, _OPCODE_ATTRIBUTE, 0), "other"), result] += 1
        self._has_received_reply = True
        return answer

    def call_with_retry(self, request: Request) -> Any:
        """Send a request that is safe to repeat, again after each dropped connection, and return its result."""
        for _ in range(MAX_DISCONNECTS):
            try:
                return self.result(self.send(request))
            except ConnectionInterrupted:
                self.wait_until_reconnected()
        raise self.too_many_disconnects_error()

    def too_many_disconnects_error(self) -> TopiaristError:
        """Return the error for a connection that dropped too often."""
        return self.authenticator.refusal or TopiaristError(
            Reason.UNREACHABLE, f"the connection to ZooKeeper at {self.hosts} dropped {MAX_DISCONNECTS} times in a row"
        )

    def wait_until_reconnected(self) -> None:
        """Wait until the same session is connected again, after ``ConnectionInterrupted``.

        Raises ``SessionLost`` if it is not connected within ``SESSION_TIMEOUT_S`` seconds.
        """
        deadline = time.monotonic() + SESSION_TIMEOUT_S
        while not self._connected_event.wait(_POLL_INTERVAL_S):
            if self.lost or time.monotonic() > deadline:
                break
        if not self.connected:
            raise self._mark_lost()

    def close(self) -> None:
        """End the session and its threads, if it has not ended; ZooKeeper deletes its ephemeral znodes."""
        with contextlib.suppress(KazooException):
            self.client.stop()
            self.client.close()

    def _mark_lost(self) -> TopiaristError:
        self.lost = True
        self._handler.connect_deadline = 0.0
        refusal = self.authenticator.refusal
        if refusal and not self._has_received_reply:
            return refusal
        return TopiaristError(
            Reason.SESSION_LOST,
            f"the session with ZooKeeper at {self.hosts} ended during the run" + (f": {refusal}" if refusal else ""),
            "run the same command again: finished changes are recognized",
        )

    def _on_state(self, state: str) -> None:
        # kazoo calls this in its own thread, before it tries another connection.
        if state == KazooState.CONNECTED:
            self.authenticator.on_connected()
            self._handler.connect_deadline = float("inf")
        elif state == KazooState.SUSPENDED:
            self.disconnects += 1
            self._handler.connect_deadline = time.monotonic() + SESSION_TIMEOUT_S
        else:
            self.lost = True
            self._handler.connect_deadline = 0.0


@contextlib.contextmanager
def translate_errors(session: Session) -> Iterator[None]:
    """Translate an unexpected kazoo exception into a ``TopiaristError``."""
    try:
        yield
    except KazooException as error:
        what = str(error) or type(error).__name__
        raise TopiaristError(Reason.UNREADABLE, f"ZooKeeper at {session.hosts} returned {what}") from error


def open_session(connect: str, timeout: float, credentials: Credentials = ANONYMOUS) -> Session:
    """Return a connected session for a connect string ``host:port,host:port/chroot``.

    The chroot may be missing: it is not read here. Raises ``Unreachable`` if no server answers within ``timeout``
    seconds, or at once if no host name resolves; ``CredentialsInvalid``; ``AuthenticationFailed``, here or at the first
    request, if every server refuses the credentials.
    """
    hosts = parse_connect_string(connect)
    check_credentials(credentials)
    # kazoo gets a logger outside the logger tree: its debug messages contain credentials, and its warnings would reach
    # the terminal of a process without logging set up. The handler keeps the text of the last warning.
    logging.getLogger("kazoo").addHandler(logging.NullHandler())
    last_error = _LastConnectError()
    authenticator = Authenticator(credentials)
    deadline = time.monotonic() + timeout
    handler = BufferedHandler(authenticator, connect_deadline=deadline, connect_timeout=timeout / len(hosts))
    client = KazooClient(
        hosts=connect,
        timeout=SESSION_TIMEOUT_S,
        handler=handler,
        logger=last_error.logger,
        connection_retry={"max_tries": -1, "delay": 0.1, "max_delay": 1.0},
    )
    if credentials.sasl or credentials.digest:
        client._connection = LoginConnection(client, authenticator)
    session = Session(client, handler, authenticator, ", ".join(f"{host}:{port}" for host, port in hosts))
    host_names = {host for host, _ in hosts}
    while not session._connected_event.wait(_POLL_INTERVAL_S):
        over = session.lost or handler.has_given_up or last_error.unresolved_hosts >= host_names
        if over or time.monotonic() >= deadline:
            break
    else:
        return session
    # Close in a thread: kazoo's stop waits for a thread that may hang in a host name lookup.
    threading.Thread(target=session.close, daemon=True).start()
    if authenticator.refusal:
        raise authenticator.refusal
    why = last_error.text or f"no answer within {timeout:g} s"
    if handler.is_http:
        why = "a web server answered: use the servers' clientPort"
    raise TopiaristError(Reason.UNREACHABLE, f"cannot reach ZooKeeper at {session.hosts}: {why}")


def parse_connect_string(connect: str) -> list[tuple[str, int]]:
    """Return the hosts and ports of a connect string; raise ``WrongUsage`` if it is malformed."""

    def malformed(why: str) -> TopiaristError:
        message = f"{quote(connect)} is not a connect string: {why}"
        return TopiaristError(Reason.WRONG_USAGE, message, "write host1:2181,host2:2181/chroot")

    addresses, slash, chroot = connect.partition("/")
    if "," in chroot:
        raise malformed("it has more than one chroot; one chroot, after the last host, is for all hosts")
    parts = chroot.removesuffix("/").split("/") if slash and chroot else []
    if connect != connect.strip() or "" in addresses.split(",") or not {"", ".", ".."}.isdisjoint(parts):
        raise malformed("a host or a part of the chroot is empty, or there are blanks around the text")
    try:
        hosts: list[tuple[str, int]] = collect_hosts(connect)[0]
    except ValueError:
        raise malformed("a port must be a number from 1 to 65535") from None
    return hosts


class _LastConnectError(logging.Handler):
    """A log handler that keeps kazoo's last warning, for the message about a failed connection.

    ``unresolved_hosts`` has the host names that have no address.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""
        self.unresolved_hosts: set[str] = set()
        self.logger = logging.Logger("kazoo", logging.WARNING)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        # Errors are kazoo's own stack traces.
        if record.levelno != logging.WARNING or not isinstance(record.args, tuple) or not record.args:
            return
        detail = str(record.args[0])
        if str(record.msg).startswith("Cannot resolve"):
            self.unresolved_hosts.add(detail)
            self.text = f"{detail} has no address"
        else:
            self.text = detail.removeprefix("socket connection error: ")

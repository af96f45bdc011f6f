"""One ZooKeeper session for one cluster and one run: connect, send requests, detect the end of the session.

kazoo opens a new session by itself when the old one has ended, and reports nothing. A plan made under one session must
not be written under another, so this module allows no connection after the end.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
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
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.hosts import collect_hosts
from kazoo.protocol.states import KazooState

from topiarist.adapters.zookeeper.connection.authentication import Authenticator, LoginConnection, check_credentials
from topiarist.adapters.zookeeper.connection.kazoo_io import BufferedHandler
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import ANONYMOUS, Credentials
from topiarist.text import quote

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
    has ended, for good. ``requests`` counts requests by operation and result (ok, error, lost). ``round_trip_s`` is the
    shortest time in seconds from a request to its reply. ``supports_multiread`` is None until ``sync`` has detected it.
    """

    def __init__(self, client: Any, handler: BufferedHandler, authenticator: Authenticator, hosts: str) -> None:
        self.client = client
        self.authenticator = authenticator
        self.hosts = hosts
        self.chroot: str = client.chroot
        self.disconnects = 0
        self.lost = False
        self.requests: Counter[tuple[str, str]] = Counter()
        self.round_trip_s = math.inf
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
            sent = time.monotonic()
            try:
                answer = self.result(self.send(request))
            except ConnectionInterrupted:
                self.wait_until_reconnected()
            else:
                self.round_trip_s = min(self.round_trip_s, time.monotonic() - sent)
                return answer
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
            "run the same command again: changes that were applied are recognized",
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

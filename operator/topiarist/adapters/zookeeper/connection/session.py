"""One ZooKeeper session for one cluster and one run: connect, send requests, know when it is over.

Below stands kazoo, which opens a new session by itself when the old one has ended and tells nobody. A plan made under
one session must not be written under another, so this module lets no connection be made after the end. Above stand
``wire`` (reads) and the writer.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

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
from kazoo.protocol.states import KazooState

from topiarist.adapters.zookeeper.connection import secrets as stored
from topiarist.adapters.zookeeper.connection.authentication import Authenticator, LoginConnection
from topiarist.adapters.zookeeper.connection.connect_string import LastConnectError, parse_connect_string
from topiarist.adapters.zookeeper.connection.kazoo_io import BufferedHandler
from topiarist.errors import Reason, TopiaristError
from topiarist.model.credentials import ANONYMOUS, Credentials

SESSION_TIMEOUT_S = 10.0
"""Seconds: what is asked of the server, and the longest that a lost connection may take to come back."""

MAX_DISCONNECTS = 5
"""How often in a row the connection may drop under one request before it is given up."""

_POLL_INTERVAL_S = 0.05

_OPERATION_NAMES = {
    **{1: "create", 2: "delete", 3: "exists", 4: "getData", 5: "setData", 8: "getChildren", 9: "sync"},
    **{12: "getChildren2", 14: "multi", 15: "create2", 22: "multiRead"},
}
"""ZooKeeper's requests by their opcodes."""

_OPCODE_ATTRIBUTE = "topiarist_opcode"
"""The attribute of a pending answer that says what was asked; what kazoo has sent by itself has none."""


class ConnectionInterrupted(Exception):
    """The connection dropped under a request: a read may be sent again, a write has an unknown outcome."""


class Request(Protocol):
    """A request as kazoo's queue takes it: an opcode, its bytes, and what its answer means."""

    @property
    def type(self) -> int:
        """ZooKeeper's opcode."""

    def serialize(self) -> bytes | bytearray:
        """The request's body."""

    def deserialize(self, buffer: bytes, offset: int) -> Any:
        """The answer, from the body of the reply at ``offset``."""


class PendingReply(Protocol):
    """An answer that is still to come (kazoo's ``AsyncResult``)."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """The answer; raises what kazoo raises."""


class Session:
    """An open session. ``hosts`` and ``chroot`` are for messages and paths; the chroot is empty if there is none.

    ``interruptions`` counts dropped connections: whoever sends writes compares it with what it was. ``lost`` says that
    the session has ended, for good. ``requests`` counts what was asked, by operation and result (ok,
    error, lost), ``round_trip`` is the shortest time in which an answer came, in seconds. Use as a context manager, or
    ``close`` it.
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def session_id(self) -> str:
        """The session's number in ZooKeeper, as text: no other session has it. ``SessionLost`` if it has ended."""
        identity = self.client.client_id
        if identity is None:
            raise self._mark_lost()
        return f"{identity[0]:x}"

    @property
    def connected(self) -> bool:
        """Whether requests reach a server right now, under the session that was opened."""
        return self._connected_event.is_set() and not self.lost

    @property
    def principal_text(self) -> str:
        """Who we are to ZooKeeper, in words that may follow "give ... the right"."""
        doubt = (
            " (or is its password wrong? ZooKeeper never says so of digest)"
            if self.authenticator.credentials.digest
            else ""
        )
        return self.authenticator.credentials.principal + doubt

    def send(self, request: Request) -> PendingReply:
        """Queue a request; its answer comes with ``result``. Answers come in the order of requests."""
        pending: PendingReply = self.client.handler.async_result()
        setattr(pending, _OPCODE_ATTRIBUTE, request.type)
        # The queue is kazoo's own way for requests of any kind; it has no public name for it.
        self.client._call(request, pending)
        return pending

    def result(self, pending: PendingReply) -> Any:
        """The answer to ``send``. ``Interrupted`` if the connection dropped first; ZooKeeper's errors as kazoo's."""
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
        """The answer to a request that may be carried out twice: sent again each time the connection drops."""
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
        """What to raise when the connection has dropped too often."""
        return self.authenticator.refusal or TopiaristError(
            Reason.UNREACHABLE, f"the connection to ZooKeeper at {self.hosts} dropped {MAX_DISCONNECTS} times in a row"
        )

    def wait_until_reconnected(self) -> None:
        """Wait after ``Interrupted`` until the same session is connected again; ``SessionLost`` if it is not."""
        deadline = time.monotonic() + SESSION_TIMEOUT_S
        while not self._connected_event.wait(_POLL_INTERVAL_S):
            if self.lost or time.monotonic() > deadline:
                break
        if not self.connected:
            raise self._mark_lost()

    def close(self) -> None:
        """End the session and its threads; its ephemeral nodes go with it. Harmless if it has ended already."""
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
            f"the session with ZooKeeper at {self.hosts} ended in the middle of the work"
            + (f": {refusal}" if refusal else ""),
            "run the same command again: what was done is found done",
        )

    def _on_state(self, state: str) -> None:
        """Runs in kazoo's thread, before any further connection is tried."""
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
    """Make an error of ZooKeeper's that nobody has expected one of ours, so that it ends a run as any other."""
    try:
        yield
    except KazooException as error:
        what = str(error) or type(error).__name__
        raise TopiaristError(Reason.UNREADABLE, f"ZooKeeper at {session.hosts} answered {what}") from error


def open_session(connect: str, timeout: float, credentials: Credentials = ANONYMOUS) -> Session:
    """A connected session for a connect string ``host:port,host:port/chroot``; whether the chroot exists is not asked.

    Raises ``Unreachable`` if no server answers within ``timeout`` seconds, or at once if no host has an address;
    ``CredentialsInvalid`` or, now or at the first request, ``AuthenticationFailed`` if none lets us in.
    """
    hosts = parse_connect_string(connect)
    stored.check_credentials(credentials)
    # A filter of its own, outside the tree of loggers: kazoo's debug messages have credentials in them, and its
    # warnings would reach the terminal of whoever has set up no logging. What it last complained of is kept.
    logging.getLogger("kazoo").addHandler(logging.NullHandler())
    heard = LastConnectError()
    entry = Authenticator(credentials)
    handler = BufferedHandler(entry, connect_deadline=time.monotonic() + timeout, connect_timeout=timeout / len(hosts))
    client = KazooClient(
        hosts=connect,
        timeout=SESSION_TIMEOUT_S,
        handler=handler,
        logger=heard.logger,
        connection_retry={"max_tries": -1, "delay": 0.1, "max_delay": 1.0},
    )
    if credentials.sasl or credentials.digest:
        client._connection = LoginConnection(client, entry)
    session = Session(client, handler, entry, ", ".join(f"{host}:{port}" for host, port in hosts))
    if _wait_connected(session, hosts, heard, time.monotonic() + timeout):
        return session
    # kazoo's stop waits for a thread that may hang in a look-up of names.
    threading.Thread(target=session.close, daemon=True).start()
    if entry.refusal:
        raise entry.refusal
    why = heard.text or f"no answer within {timeout:g} s"
    if handler.is_http:
        why = "a web server answers there: take the servers' clientPort"
    raise TopiaristError(Reason.UNREACHABLE, f"cannot reach ZooKeeper at {session.hosts}: {why}")


def _wait_connected(
    session: Session, hosts: Sequence[tuple[str, int]], last_error: LastConnectError, deadline: float
) -> bool:
    nameless = {host for host, _ in hosts}
    while not session._connected_event.wait(_POLL_INTERVAL_S):
        over = session.lost or session._handler.has_given_up
        if over or time.monotonic() >= deadline or last_error.unresolved_hosts >= nameless:
            return False
    return True

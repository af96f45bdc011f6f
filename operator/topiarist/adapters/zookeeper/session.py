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

from topiarist.adapters.zookeeper import credentials as stored
from topiarist.adapters.zookeeper.addresses import LastComplaint, parse_connect
from topiarist.adapters.zookeeper.entry import Entry, LoginConnection
from topiarist.adapters.zookeeper.sockets import Handler
from topiarist.core.credentials import NOBODY, Credentials
from topiarist.errors import Reason, TopiaristError

SESSION_TIMEOUT = 10.0
"""Seconds: what is asked of the server, and the longest that a lost connection may take to come back."""

MOST_DROPS = 5
"""How often in a row the connection may drop under one request before it is given up."""

_POLL = 0.05

_OPERATIONS = {
    **{1: "create", 2: "delete", 3: "exists", 4: "getData", 5: "setData", 8: "getChildren", 9: "sync"},
    **{12: "getChildren2", 14: "multi", 15: "create2", 22: "multiRead"},
}
"""ZooKeeper's requests by their opcodes."""

_OPCODE = "topiarist_opcode"
"""The attribute of a pending answer that says what was asked; what kazoo has sent by itself has none."""


class Interrupted(Exception):
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


class Pending(Protocol):
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

    def __init__(self, client: Any, handler: Handler, entry: Entry, hosts: str) -> None:
        self.client = client
        self.entry = entry
        self.hosts = hosts
        self.chroot: str = client.chroot
        self.interruptions = 0
        self.lost = False
        self.requests: Counter[tuple[str, str]] = Counter()
        self.round_trip = math.inf
        self.multiread: bool | None = None
        self._handler = handler
        self._begun = False
        client.add_listener(self._on_state)
        self._live: threading.Event = client.start_async()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def number(self) -> str:
        """The session's number in ZooKeeper, as text: no other session has it. ``SessionLost`` if it has ended."""
        identity = self.client.client_id
        if identity is None:
            raise self._ended()
        return f"{identity[0]:x}"

    @property
    def connected(self) -> bool:
        """Whether requests reach a server right now, under the session that was opened."""
        return self._live.is_set() and not self.lost

    @property
    def who(self) -> str:
        """Who we are to ZooKeeper, in words that may follow "give ... the right"."""
        doubt = (
            " (or is its password wrong? ZooKeeper never says so of digest)" if self.entry.credentials.digest else ""
        )
        return self.entry.credentials.identity + doubt

    def send(self, request: Request) -> Pending:
        """Queue a request; its answer comes with ``result``. Answers come in the order of requests."""
        pending: Pending = self.client.handler.async_result()
        setattr(pending, _OPCODE, request.type)
        # The queue is kazoo's own way for requests of any kind; it has no public name for it.
        self.client._call(request, pending)
        return pending

    def result(self, pending: Pending) -> Any:
        """The answer to ``send``. ``Interrupted`` if the connection dropped first; ZooKeeper's errors as kazoo's."""
        result = "lost"
        try:
            answer = pending.get(timeout=0.0 if self.lost else 2 * SESSION_TIMEOUT)
            result = "ok"
        except ConnectionLoss:
            raise Interrupted from None
        except SessionClosedRequireSaslError as error:
            self.entry.not_enough()
            raise self._ended() from error
        except (SessionExpiredError, ConnectionClosedError, KazooTimeoutError, AuthFailedError) as error:
            raise self._ended() from error
        except KazooException:
            result = "error"
            raise
        finally:
            self.requests[_OPERATIONS.get(getattr(pending, _OPCODE, 0), "other"), result] += 1
        self._begun = True
        return answer

    def ask(self, request: Request) -> Any:
        """The answer to a request that may be carried out twice: sent again each time the connection drops."""
        for _ in range(MOST_DROPS):
            sent = time.monotonic()
            try:
                answer = self.result(self.send(request))
            except Interrupted:
                self.resume()
            else:
                self.round_trip = min(self.round_trip, time.monotonic() - sent)
                return answer
        raise self.keeps_dropping()

    def keeps_dropping(self) -> TopiaristError:
        """What to raise when the connection has dropped too often."""
        return self.entry.refusal or TopiaristError(
            Reason.UNREACHABLE, f"the connection to ZooKeeper at {self.hosts} dropped {MOST_DROPS} times in a row"
        )

    def resume(self) -> None:
        """Wait after ``Interrupted`` until the same session is connected again; ``SessionLost`` if it is not."""
        deadline = time.monotonic() + SESSION_TIMEOUT
        while not self._live.wait(_POLL):
            if self.lost or time.monotonic() > deadline:
                break
        if not self.connected:
            raise self._ended()

    def close(self) -> None:
        """End the session and its threads; its ephemeral nodes go with it. Harmless if it has ended already."""
        with contextlib.suppress(KazooException):
            self.client.stop()
            self.client.close()

    def _ended(self) -> TopiaristError:
        self.lost = True
        self._handler.deadline = 0.0
        refusal = self.entry.refusal
        if refusal and not self._begun:
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
            self.entry.entered()
            self._handler.deadline = float("inf")
        elif state == KazooState.SUSPENDED:
            self.interruptions += 1
            self._handler.deadline = time.monotonic() + SESSION_TIMEOUT
        else:
            self.lost = True
            self._handler.deadline = 0.0


@contextlib.contextmanager
def in_words(session: Session) -> Iterator[None]:
    """Make an error of ZooKeeper's that nobody has expected one of ours, so that it ends a run as any other."""
    try:
        yield
    except KazooException as error:
        what = str(error) or type(error).__name__
        raise TopiaristError(Reason.UNREADABLE, f"ZooKeeper at {session.hosts} answered {what}") from error


def open_session(connect: str, timeout: float, credentials: Credentials = NOBODY) -> Session:
    """A connected session for a connect string ``host:port,host:port/chroot``; whether the chroot exists is not asked.

    Raises ``Unreachable`` if no server answers within ``timeout`` seconds, or at once if no host has an address;
    ``CredentialsInvalid`` or, now or at the first request, ``AuthenticationFailed`` if none lets us in.
    """
    hosts = parse_connect(connect)
    stored.check(credentials)
    # A filter of its own, outside the tree of loggers: kazoo's debug messages have credentials in them, and its
    # warnings would reach the terminal of whoever has set up no logging. What it last complained of is kept.
    logging.getLogger("kazoo").addHandler(logging.NullHandler())
    heard = LastComplaint()
    entry = Entry(credentials)
    handler = Handler(entry, deadline=time.monotonic() + timeout, patience=timeout / len(hosts))
    client = KazooClient(
        hosts=connect,
        timeout=SESSION_TIMEOUT,
        handler=handler,
        logger=heard.logger,
        connection_retry={"max_tries": -1, "delay": 0.1, "max_delay": 1.0},
    )
    if credentials.sasl or credentials.digest:
        client._connection = LoginConnection(client, entry)
    session = Session(client, handler, entry, ", ".join(f"{host}:{port}" for host, port in hosts))
    if _wait_for(session, hosts, heard, time.monotonic() + timeout):
        return session
    # kazoo's stop waits for a thread that may hang in a look-up of names.
    threading.Thread(target=session.close, daemon=True).start()
    if entry.refusal:
        raise entry.refusal
    why = heard.text or f"no answer within {timeout:g} s"
    if handler.http:
        why = "a web server answers there: take the servers' clientPort"
    raise TopiaristError(Reason.UNREACHABLE, f"cannot reach ZooKeeper at {session.hosts}: {why}")


def _wait_for(session: Session, hosts: Sequence[tuple[str, int]], heard: LastComplaint, deadline: float) -> bool:
    nameless = {host for host, _ in hosts}
    while not session._live.wait(_POLL):
        over = session.lost or session._handler.given_up
        if over or time.monotonic() >= deadline or heard.unresolved >= nameless:
            return False
    return True

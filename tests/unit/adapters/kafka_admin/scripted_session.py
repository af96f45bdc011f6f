"""A session over brokers in memory that answer by a script, and a clock that only a sleep moves.

Requests pass through the encoder and the decoder of the protocol, so that only fields that reach a broker count.

    session = ScriptedSession({"ListGroups": [Disconnected("gone", was_sent=True), reply(error_code=0, groups=[])]})
    session.broker(1).call(ListGroupsRequest(...))
    assert session.sent[0].name == "ListGroups"
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple

from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.connection.connection import (
    NEEDS,
    NO_ID,
    Connection,
    Disconnected,
    Features,
    UnsupportedRequest,
)
from topiarist.adapters.kafka_admin.protocol import messages
from topiarist.errors import TopiaristError

LOST = Disconnected("the answer was lost", was_sent=True)
NOT_SENT = Disconnected("the connection was closed", was_sent=False)


def reply(**fields: Any) -> Any:
    """Return an answer, or a part of one."""
    return SimpleNamespace(**fields)


class Sent(NamedTuple):
    """A request as it arrived at a broker."""

    broker: int
    name: str
    version: int
    request: Any
    timeout: float | None


Script = Any
"""An answer, an error to raise, a function of broker and request, or a list of these: the last one is repeated."""


class FakeTime:
    """A clock for ``time`` of a module, and for the clock of the records; ``slept`` has the pauses."""

    def __init__(self, start: float = 1_000_000.0) -> None:
        self.current = start
        self.slept: list[float] = []

    def monotonic(self) -> float:
        """Return the time in seconds."""
        return self.current

    time = now = monotonic

    def sleep(self, seconds: float) -> None:
        """Move the clock."""
        self.slept.append(seconds)
        self.current += seconds

    def random(self) -> float:
        """Return the middle of the range."""
        return 0.5


class ScriptedConnection:
    """The connection to one broker; ``unsupported`` requests and ``versions`` are by name without ``Request``."""

    def __init__(self, session: ScriptedSession, broker: int) -> None:
        self._session = session
        self._broker = broker

    def version_of(self, request: Any, at_most: int | None = None) -> int:
        """Return the highest version that both sides know."""
        name = _name_of(request)
        if name in self._session.unsupported or (name == "DescribeQuorum" and 55 not in self._session.api_keys):
            raise UnsupportedRequest(f"the brokers do not offer {name}")
        known = self._session.versions.get(name, request.max_version)
        if known < (first := NEEDS[name].first if name in NEEDS else 0):
            raise UnsupportedRequest(f"the brokers offer {name} up to version {known}, not {first}")
        return int(min(known, request.max_version, known if at_most is None else at_most))

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """Return the requests that the broker offers, by API key; 55 is DescribeQuorum."""
        return dict.fromkeys(self._session.api_keys, (0, 99))

    @property
    def features(self) -> Features:
        """Return the features of the session."""
        return self._session.features

    def read_versions(self, timeout: float | None = None) -> Any:
        """Return the answer of the script to ``ApiVersions``."""
        return self._session.answer(Sent(self._broker, "ApiVersions", 3, None, timeout))

    def call_raw(self, request: Any, version: int, timeout: float | None = None) -> bytes:
        """Return the bytes of the next answer, header included."""
        answer = self.call(request, version=version, timeout=timeout)
        kind = getattr(messages, f"{_name_of(request)}Response")
        tags = b"\0" if messages.is_flexible(kind, version) else b""
        return struct.pack(">i", 1) + tags + bytes(answer.encode(version=version))

    def decode(self, request: Any, version: int, data: bytes) -> Any:
        """Return the answer from the bytes of ``call_raw``."""
        return Connection.decode(self, request, version, data)  # type: ignore[arg-type]

    def close(self) -> None:
        """Do nothing."""

    def call(self, request: Any, *, version: int | None = None, timeout: float | None = None) -> Any:
        """Return the next answer of the script."""
        chosen = self.version_of(request) if version is None else version
        arrived = type(request).decode(request.encode(version=chosen), version=chosen)
        return self._session.answer(Sent(self._broker, _name_of(request), chosen, arrived, timeout))


class ScriptedSession:
    """A session; ``sent`` has all requests, ``waits`` the seconds after a change.

    ``forgotten`` counts the calls of ``forget_controller``.
    """

    hosts = "kafka:9092"

    def __init__(self, script: Mapping[str, Script], *, brokers: Iterable[int] = (1, 2, 3)) -> None:
        self.script: dict[str, Script] = dict(script)
        self.sent: list[Sent] = []
        self.versions: dict[str, int] = {}
        self.unsupported: set[str] = set()
        self.unreachable: set[int] = set()
        self.brokers = tuple(brokers)
        self.forgotten = 0
        self.api_keys: set[int] = {3, 55, 60}
        self.features = Features(epoch=0)
        self.requests: Counter[tuple[str, str]] = Counter()
        self.changed_at = 0.0
        self.waits: list[float] = []
        self.is_reassigning = False
        self.answers = None

    def answer(self, sent: Sent) -> Any:
        """Return the next answer to a request of this name."""
        self.sent.append(sent)
        found = self.script[sent.name]
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        if isinstance(found, Exception):
            raise found
        answer = found(sent.broker, sent.request) if isinstance(found, Callable) else found  # type: ignore[arg-type]
        kind = getattr(messages, f"{sent.name}Response")
        return _complete(answer, kind, kind._definition.fields) if isinstance(answer, SimpleNamespace) else answer

    def names(self) -> list[str]:
        """Return the names of the requests that arrived."""
        return [each.name for each in self.sent]

    def broker(self, broker_id: int) -> Any:
        """Return the connection to one broker; raise ``Disconnected`` for an unreachable one."""
        if broker_id in self.unreachable:
            raise Disconnected(f"broker {broker_id} cannot be reached", was_sent=False)
        return ScriptedConnection(self, broker_id)

    def any_broker(self) -> Any:
        """Return the connection to the first broker."""
        return self.broker(self.brokers[0])

    def controller(self) -> Any:
        """Return the connection to the last broker."""
        return self.broker(self.brokers[-1])

    def forget_controller(self) -> None:
        """Count the call."""
        self.forgotten += 1

    def leader(self, topic: str) -> Any:
        """Return the connection to the first broker."""
        return self.any_broker()

    def coordinator(self, transactional_id: str) -> Any:
        """Return the connection to the second broker."""
        return self.broker(self.brokers[1])

    def forget_lookups(self) -> None:
        """Do nothing: nothing is looked up."""

    def read_metadata(self, names: Iterable[str] | None = None) -> Any:
        """Return the answer of the script to ``Metadata``."""
        request = reply(names=None if names is None else list(names))
        return self.answer(Sent(self.brokers[0], "Metadata", 12, request, None))

    def error_of(self, code: int, what: str, right: str, message: str | None = None) -> TopiaristError:
        """Return the error for a code, as a session without a login does."""
        return error_codes.error_of(code, what, right=right, principal="User:ANONYMOUS", message=message)

    def wait_after_change(self, seconds: float) -> None:
        """Note the wait."""
        self.waits.append(seconds)

    def lend_another(self, connection: Any) -> AbstractContextManager[Any]:
        """Lend one more connection."""
        return nullcontext(ScriptedConnection(self, self.brokers[0]))

    def close(self) -> None:
        """Do nothing."""


def metadata(
    topics: Mapping[str, Any] | None = None,
    *,
    brokers: Iterable[int] = (1, 2, 3),
    racks: Mapping[int, str] | None = None,
    cluster_id: str | None = "cluster",
    controller: int = 3,
) -> Any:
    """Return an answer to ``Metadata``: topics by name, with an error code or with partitions from ``partition``."""
    described = [
        reply(
            name=name,
            topic_id=NO_ID,
            is_internal=False,
            error_code=found if isinstance(found, int) else 0,
            partitions=[] if isinstance(found, int) else list(found),
        )
        for name, found in (topics or {}).items()
    ]
    return reply(
        brokers=[reply(node_id=each, host=f"b{each}", port=9092, rack=(racks or {}).get(each)) for each in brokers],
        cluster_id=cluster_id,
        controller_id=controller,
        topics=described,
        error_code=0,
    )


def partition(number: int, *replicas: int, leader: int | None = None, isr: Iterable[int] | None = None) -> Any:
    """Return a partition of an answer to ``Metadata``; its first replica leads it, and all are in sync."""
    return reply(
        error_code=0,
        partition_index=number,
        leader_id=replicas[0] if leader is None else leader,
        leader_epoch=7,
        replica_nodes=list(replicas),
        isr_nodes=list(replicas if isr is None else isr),
        offline_replicas=[],
    )


def _complete(answer: Any, kind: Any, fields: Iterable[messages.Field]) -> Any:
    """Give an answer, and its parts, the fields that a test leaves out: a message always has all, with defaults."""
    defaults = kind()
    assert vars(answer).keys() <= {each.attribute for each in fields}, f"{kind.__name__} has other fields: {answer}"
    for each in fields:
        if not hasattr(answer, each.attribute):
            setattr(answer, each.attribute, getattr(defaults, each.attribute))
        found = getattr(answer, each.attribute)
        for part in (found or ()) if each.is_list else [found]:
            if isinstance(part, SimpleNamespace):
                _complete(part, getattr(kind, each.element), each.fields)
    return answer


def _name_of(request: Any) -> str:
    return str(request.name).removesuffix("Request")

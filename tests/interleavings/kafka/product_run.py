"""One run of topiarist through Kafka's own API: the product's own code over answers from a history.

The code is that of ``reconcile``, the planner, ``KafkaCluster``, the writer with its chunks and requests, and the run
over the records with lock, fence, intents and their resolution. Replaced are the producer and the log (one transaction
is one step), the reads of topics (one step each), the connection to the controller, and the clock. Pauses between two
polls are as long as what they wait for, and there is none after the wait for the lock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

from msgspec.structs import replace

from interleavings.kafka import moves
from interleavings.kafka.world import META, AdminRequest, Topic, state_of, topic_uuid
from interleavings.replay import Asking, Automaton, Blocked, Ended, Reached, RunSpec, Situation
from topiarist import throttle
from topiarist.adapters.kafka_admin import cluster as cluster_module
from topiarist.adapters.kafka_admin.connection.connection import Disconnected, decode_topic_id, encode_topic_id
from topiarist.adapters.kafka_admin.moves import mover
from topiarist.adapters.kafka_admin.read import topic_reader
from topiarist.adapters.kafka_admin.read.state import RecordsView
from topiarist.adapters.kafka_admin.read.topic_reader import Look
from topiarist.adapters.kafka_admin.records import log, transactions
from topiarist.adapters.kafka_admin.records import run as run_module
from topiarist.adapters.kafka_admin.records.topic import FoundTopic
from topiarist.adapters.kafka_admin.records.transactions import Clock, Fenced, OutcomeUnknown
from topiarist.adapters.kafka_admin.write import chunks, writer
from topiarist.adapters.size_limits import REQUEST_LIMITS
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import Broker, ClusterMode
from topiarist.model.access import DEFAULT_RECORDS_TOPIC, KafkaAccess
from topiarist.model.plan import Plan
from topiarist.model.state import ClusterState, Freeze, TopicState, WriteBlock
from topiarist.ports import FoundRefusals, MoveOptions
from topiarist.reconcile import apply_plan, read_and_plan

LOST = "lost"
"""The answer to an Admin request or to a commit that does not arrive."""

FENCED = "fenced"

_FOREVER_S = 1e9
_VERSION = (4, 0)
_BROKERS = (Broker(1), Broker(2))
FREEZE = Freeze("maintenance", "anna", "2026-01-01T00:00:00Z")

_POLLS: tuple[tuple[Any, str, float], ...] = (
    (transactions, "LOCK_POLL_INTERVAL_S", transactions.LEASE_S),
    (transactions, "MAX_LOCK_PAUSE_S", 0.0),
    (writer, "_LOOK_INTERVAL_S", chunks.ANSWER_TIMEOUT_S),
    (writer, "_MAX_LOOK_INTERVAL_S", chunks.ANSWER_TIMEOUT_S),
    (throttle, "_STOP_CHECK_INTERVAL_S", _FOREVER_S),
    *((mover, name, _FOREVER_S) for name in ("_FIRST_POLL_S", "_FAST_POLL_S", "_SLOW_POLL_S")),
)


class Request(NamedTuple):
    """What a run waits for.

    ``kind`` is one of: read, end, write, init, fence, commit, topics, look, look at a result, look for moves,
    throttles, controller, admin, sleep.
    """

    kind: str
    value: Any = None


class Event(NamedTuple):
    """An answer, and the time at which it arrives."""

    answer: Any
    clock: float


class _Client:
    """The history of a run in place of brokers and clock."""

    access = KafkaAccess("b1:9092")
    answers = None

    def __init__(self, events: Sequence[Event]) -> None:
        self._events: Iterator[Event] = iter(events)
        self._clock = 0.0
        self._values: dict[bytes, bytes] = {}
        self._read_to, self._read_at = -1, -_FOREVER_S
        self.pending: Request | None = None

    def ask(self, kind: str, value: Any = None) -> Any:
        """Return the next answer of the history; raise ``Blocked`` after the last one."""
        event = None if self.pending else next(self._events, None)
        if event is None:
            # A ``finally`` of the product, on the way out of a replay that has ended, asks for nothing more.
            self.pending = self.pending or Request(kind, value)
            raise Blocked
        self._clock = event.clock
        return event.answer

    # The clock of the product.

    def monotonic(self) -> float:
        return self._clock

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            self.ask("sleep", seconds)

    # The producer of the records.

    def init(self, check: Callable[[], None] = lambda: None) -> None:
        check()
        self.ask("init")

    def write(self, key: bytes, value: bytes | None) -> int:
        return int(self.ask("write", (key, value)))

    def require_fence(self) -> None:
        self._require_newest(self.ask("fence"))

    def commit(self, values: Mapping[bytes, bytes | None]) -> float:
        began = self._clock
        self._require_newest(self.ask("commit", tuple(values.items())))
        return began

    @staticmethod
    def _require_newest(answer: str) -> None:
        if answer == FENCED:
            raise Fenced("90")
        if answer == LOST:
            raise OutcomeUnknown("no answer")

    # The log of the records.

    def read(self, *, whole: bool, end: int | None = None) -> dict[bytes, bytes]:
        began = self._clock
        if end is None or end != self._read_to or began >= self._read_at + log.TAIL_AGE_S:
            self._read_to, values = self.ask("read", whole)
            self._values = dict(values)
        self._read_at = began
        return dict(self._values)

    def take_written(self, key: bytes, value: bytes | None, end: int) -> None:
        if end == self._read_to + 1:
            self._read_to = end
            self._values = {**self._values, key: value} if value else {**self._values}
            if value is None:
                self._values.pop(key, None)

    def find_end(self) -> int:
        return int(self.ask("end"))

    # The connection to the controller.

    def controller(self) -> _Client:
        return self

    any_broker = controller

    def broker(self, _broker_id: int) -> _Client:
        return self

    def forget_controller(self) -> None:
        """Nothing is remembered."""

    def version_of(self, _request: Any) -> int:
        return 12  # of each request one with all fields: topics have ids, and a deletion names them

    def call(self, request: Any, **_options: Any) -> Any:
        encoded = moves.encode_request(request) or encode_request(request)
        answer = self.ask("admin", encoded)
        if answer == LOST:
            raise Disconnected("no answer", was_sent=True)
        if encoded.kind in moves.KINDS:
            return moves.decode_answer(encoded.kind, answer)
        return _decode_answer(encoded, answer)

    # The reads of topics.

    def look(self, names: Collection[str], kind: str = "look") -> Look:
        topics = {name: topic and state_of(name, topic) for name, topic in self.ask(kind, tuple(sorted(names)))}
        return Look(topics, {broker.id: broker for broker in _BROKERS}, {}, _VERSION)

    def look_again(self, names: Collection[str], *, lists_reassignments: bool = True, is_proven: bool = True) -> Look:
        look = self.look(names, "look" if is_proven else "look at a result")
        if lists_reassignments:
            return look
        hidden = {
            name: replace(topic, reassigning_partitions=()) if isinstance(topic, TopicState) else topic
            for name, topic in look.topics.items()
        }
        return look._replace(topics=hidden)

    def read_state(self, _session: Any, records: RecordsView, _previous: object = None) -> ClusterState:
        return build_state(self.ask("topics"), records)

    def leader_epoch(self) -> int | None:
        answer: int | None = self.ask("controller")
        return answer


def build_state(listed: Sequence[tuple[str, Topic]], records: RecordsView) -> ClusterState:
    """Return the state of the cluster with its records, as ``read_state`` joins them."""
    topics = {name: state_of(name, topic) for name, topic in listed}
    found = {**records.topics, **records.resolve_pending(topics)}
    owned = dict(topics)
    dangling = {}
    for name, record in found.items():
        topic = owned.get(name)
        if topic is None:
            dangling[name] = record.record
        else:
            is_valid = record.topic_id is not None and record.topic_id == topic.topic_id
            owned[name] = _with_record(topic, record.record, is_valid=is_valid)
    return ClusterState(
        cluster_id=META.cluster_id,
        brokers=_BROKERS,
        topics=owned,
        controller=1,
        write_block=_freeze_block(records.freeze),
        reassigning_topics=frozenset(name for name, topic in listed if topic.moving),
        requested_reassignments=moves.requested_reassignments(listed),
        batch=records.batch,
        dangling_records=dangling,
        min_version=_VERSION,
        assigns_topic_ids=True,
        mode=ClusterMode.KRAFT,
        bypasses_brokers=False,
        size_limits=REQUEST_LIMITS,
    )


def _freeze_block(freeze: Freeze | None) -> WriteBlock:
    return WriteBlock(Reason.FROZEN, f"the cluster is {freeze}") if freeze else WriteBlock()


def _with_record(topic: TopicState, record: Any, *, is_valid: bool) -> TopicState:
    return replace(topic, record=record, record_valid=is_valid)


def encode_request(request: Any) -> AdminRequest:
    """Return an Admin request of the product as a value."""
    match type(request).__name__:
        case "CreateTopicsRequest":
            items: Iterable[tuple[str, Any]] = (
                (
                    topic.name,
                    (
                        tuple(tuple(each.broker_ids) for each in topic.assignments),
                        tuple((each.name, each.value) for each in topic.configs),
                    ),
                )
                for topic in request.topics
            )
            return AdminRequest("create", tuple(items))
        case "CreatePartitionsRequest":
            items = (
                (topic.name, (topic.count, tuple(tuple(each.broker_ids) for each in topic.assignments)))
                for topic in request.topics
            )
            return AdminRequest("grow", tuple(items))
        case "IncrementalAlterConfigsRequest":
            items = (
                (resource.resource_name, tuple((each.name, each.value) for each in resource.configs))
                for resource in request.resources
            )
            return AdminRequest("configure", tuple(items))
        case "DeleteTopicsRequest":
            return AdminRequest("delete", tuple((encode_topic_id(topic.topic_id), None) for topic in request.topics))
    raise AssertionError(f"the model has no such request: {request!r}")


def _decode_answer(request: AdminRequest, results: Iterable[tuple[str, int, int]]) -> Any:
    elements = [
        SimpleNamespace(name=name, resource_name=name, topic_id=topic_uuid(number), error_code=code, error_message="")
        for name, code, number in results
    ]
    for element in elements if request.kind == "delete" else ():
        element.topic_id = decode_topic_id(element.name)
    if request.kind == "create":
        wanted = dict(request.items)
        for element in elements:
            replicas, config = wanted[element.name]
            element.num_partitions, element.replication_factor = len(replicas), len(replicas[0])
            element.configs = [SimpleNamespace(name=key, value=value) for key, value in config]
    return SimpleNamespace(topics=elements, results=elements, responses=elements, throttle_time_ms=0)


def make_automaton(run: RunSpec, number: int, *, is_freeze: bool = False) -> Automaton:
    """Return the automaton of the ``number``-th run."""

    def replay(plan: Plan | None, events: Sequence[Event]) -> Situation:
        client = _Client(events)
        cluster = _make_cluster(client, run, number)
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.suppress(Blocked))
            for patched, attribute, replacement in _patches(client):
                stack.enter_context(mock.patch.object(patched, attribute, replacement))
            try:
                if is_freeze:
                    cluster.set_freeze(FREEZE, by=FREEZE.by, force=False)
                    return Ended((), None)
                if plan is None:
                    plan = read_and_plan(cluster, run.cluster, run.topics, run.options)
                    return Reached(repr((plan.topics, plan.write_block, plan.batch)), plan)
                move_options = MoveOptions(run.cluster.moves)
                report = apply_plan(cluster, plan, stop=lambda: False, move_options=move_options)
                return Ended(report.outcomes, report.error)
            except TopiaristError as error:
                return Ended((), error)
        assert client.pending is not None
        return Asking((client.pending,), plan)

    return Automaton(replay)


def _make_cluster(client: _Client, run: RunSpec, number: int) -> cluster_module.KafkaCluster:
    cluster = cluster_module.KafkaCluster.__new__(cluster_module.KafkaCluster)
    reader = moves.MoveReader(client.ask, _BROKERS)

    def open_records() -> run_module.RecordsRun:
        records = run_module.RecordsRun(
            client,  # type: ignore[arg-type]
            run.options.owner,
            run_module.ClusterView(lambda names: client.look(names).topics, client.leader_epoch),
            clock=Clock(client.monotonic, client.sleep, lambda: 1.0),
        )
        records.run = f"run-{number}"
        records._turn._claim = replace(records._turn._claim, run=records.run)
        records.__dict__.update(_producer=client, _log=client)
        return records

    cluster.__dict__.update(
        _session=client,
        _owner=run.options.owner,
        _lock_timeout=_FOREVER_S,
        _records_topic=DEFAULT_RECORDS_TOPIC if run.cluster.keeps_records else None,
        _records_topic_id="",
        _open_records=open_records,
        _recent=None,
        _number=None,
        _previous=None,
        _require_moved=lambda records: None,
        _check_left_records=lambda records: _NOTHING_LEFT,
        _move_reader=lambda: reader,
        inspect_all=reader.inspect_all,
        find_refusals=lambda plan: FoundRefusals({}, plan.capabilities),  # rights, which depend on no order
    )
    return cluster


_NOTHING_LEFT = SimpleNamespace(block=WriteBlock(), warning="")


def _patches(client: _Client) -> Iterator[tuple[Any, str, Any]]:
    found = FoundTopic(META.cluster_id, META.topic_id)
    yield run_module, "find_topic", lambda session, topic: found
    yield run_module, "require_compaction", lambda session, topic: None
    yield cluster_module, "sync", lambda session: None
    yield cluster_module, "read_state", client.read_state
    yield cluster_module, "read_static_settings", lambda *_: {}  # of brokers, which depend on no order
    yield topic_reader, "TopicReader", lambda *_: client
    yield topic_reader, "time", client
    yield cluster_module, "time", client
    yield writer, "time", client
    yield chunks, "time", client
    yield mover, "time", client
    yield throttle, "time", client
    yield from _POLLS

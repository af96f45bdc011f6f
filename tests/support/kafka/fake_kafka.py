"""A whole Kafka cluster in memory, for runs of topiarist's own cluster, writer and records over it.

The brokers are those of ``memory_records``. Each run has a session of its own, which is one process: it can be killed
at any request, and sends nothing more then.

    kafka = FakeKafka()
    kafka.hook = kill_at(7, is_done=True)
    with suppress(Killed):
        list(kafka.apply(kafka.plan(spec("a"))))

Time is virtual for the records; the other waits of the product are short in tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from support.builders import plan as make_plan
from support.kafka.fake_cluster import FakeTopic
from support.kafka.memory_records import RECORDS, Killed, MemoryBroker, MemorySession
from support.kafka.releases import NEWEST
from topiarist.adapters.kafka_admin import cluster as cluster_module
from topiarist.adapters.kafka_admin.cluster import KafkaCluster
from topiarist.adapters.kafka_admin.connection.connection import Disconnected, Message
from topiarist.adapters.kafka_admin.records import codec
from topiarist.adapters.kafka_admin.records.codec import Records
from topiarist.adapters.kafka_admin.records.run import ClusterView, RecordsRun
from topiarist.model.access import KafkaAccess
from topiarist.model.outcome import Outcome
from topiarist.model.plan import Plan, RunOptions
from topiarist.model.spec import TopicSpec
from topiarist.model.state import GIVEN, ClusterState

ADMIN_REQUESTS = ("CreateTopics", "CreatePartitions", "IncrementalAlterConfigs", "DeleteTopics")

Hook = Callable[["FakeSession", int, str, bool], None]
"""A function called before and after each request of a run.

It gets the session, the number of the request in its run, its name, and whether the request was carried out. It may
raise ``Killed`` or ``Disconnected``.
"""


class FakeKafka(MemoryBroker):
    """Three brokers with topics, records and transactions.

    ``hook`` watches all sessions that are opened afterwards, and ``access`` is theirs. With ``is_late`` the brokers do
    not serve a change soon.
    """

    def __init__(self, release: str = NEWEST) -> None:
        super().__init__(cluster_id="ID", release=release, marker_delay=0.05)
        self.hook: Hook = no_hook
        self.access = KafkaAccess("fake:9092")
        self.delayed: list[tuple[float, Any]] = []
        self.is_late = False

    def open(self, owner: str = "default", *, session: Any = None, **options: Any) -> KafkaCluster:
        """Return the cluster as one process sees it, over ``session`` if one is given; ``options`` of a cluster."""
        return _ClusterOverFake(session or FakeSession(self, self.hook), owner, **{"lock_timeout": 600.0, **options})

    def read(self, owner: str = "default") -> ClusterState:
        """Return the state as a new process reads it for a plan."""
        return self.open(owner).read()

    def plan(self, *specs: TopicSpec, cluster: KafkaCluster | None = None, **options: Any) -> Plan:
        """Return the plan of a new process, or of ``cluster``, which knows that the brokers carry out replica lists."""
        run = RunOptions(**options)
        state = (cluster or self.open(run.owner)).read()
        known = replace(state.capabilities, replica_lists=GIVEN, growth_lists=GIVEN)
        return make_plan(replace(state, capabilities=known), *specs, run=run)

    def apply(
        self, plan: Plan, cluster: KafkaCluster | None = None, stop: Callable[[], bool] = lambda: False
    ) -> Iterator[Outcome]:
        """Return the outcomes of a new process that applies ``plan``, or of ``cluster``."""
        return (cluster or self.open(plan.owner)).apply(plan, stop)

    def records(self) -> Records:
        """Return the records as they are, with intents."""
        return self.new_run().read()

    def new_run(self, owner: str = "default") -> RecordsRun:
        """Return a run over the records without a cluster around it."""
        return RecordsRun(FakeSession(self, self.hook), owner, ClusterView(dict.fromkeys), clock=self.clock)

    def commit_numbers(self) -> list[int]:
        """Return the numbers of all locks that were committed, in the order of the log."""
        values = self.records_log.committed_values(b"lock")
        return [codec.decode_records({b"lock": value}).number for value in values]

    @property
    def topics(self) -> dict[str, FakeTopic]:
        """Return all topics but that of the records."""
        return {name: topic for name, topic in self.cluster.topics.items() if name != RECORDS}

    def delay(self, request: Any, seconds: float) -> None:
        """Carry out an Admin request later."""
        self.delayed.append((self.now + seconds, request))

    def _advance(self, seconds: float) -> None:
        super()._advance(seconds)
        due = [request for at, request in self.delayed if at <= self.now]
        self.delayed = [(at, request) for at, request in self.delayed if at > self.now]
        for request in due:
            self.cluster.carry_out(request)


class FakeSession(MemorySession):
    """The session and all connections of one process; ``request`` is the last one."""

    def __init__(self, kafka: FakeKafka, hook: Hook) -> None:
        super().__init__(kafka.release, kafka.call)
        self.kafka = kafka
        self.hook = hook
        self.access = kafka.access
        self.hosts = "fake:9092"
        self.requests: Mapping[tuple[str, str], int] = {}
        self.read_versions = kafka.read_versions
        self.is_open = True
        self.is_dead = False
        self.sent: list[str] = []
        self.request: Any = None

    def broker(self, broker_id: int) -> Any:
        return self

    def forget_controller(self) -> None:
        """Do nothing: there is one connection."""

    def wait_after_change(self, seconds: float) -> None:
        """Let the brokers serve the change, unless they are ``late``."""
        if not self.kafka.is_late:
            self.kafka.catch_up()

    def close(self) -> None:
        """Do nothing."""

    def call_raw(self, request: Message, version: int, timeout: float | None = None) -> bytes:
        """Carry out a request between two calls of the hook."""
        if self.is_dead:
            raise Killed
        name = request.name.removesuffix("Request")
        self.sent.append(name)
        self.request = request
        number = len(self.sent)
        try:
            self.hook(self, number, name, False)
            if self.is_dead:
                raise Killed
            answer = self.kafka.call_raw(request, version, timeout)
            self.hook(self, number, name, True)
        except Killed:
            self.is_dead = True
            raise
        return answer


class _ClusterOverFake(KafkaCluster):
    """The product's cluster, with the session of a process in memory, and its virtual time."""

    def __init__(self, session: FakeSession, owner: str, **options: Any) -> None:
        with patch.object(cluster_module, "Session", lambda access, timeout: session):
            super().__init__(session.access, owner=owner, **options)

    def _open_records(self) -> RecordsRun:
        run = super()._open_records()
        run._clock = run._log._clock = run._producer._clock = run._turn._clock = clock = self._session.kafka.clock  # type: ignore[attr-defined]
        for each in (run._log, run._producer):
            each._repeater = each._repeater._replace(clock=clock)
        return run


def do_at(step: int, action: Callable[[str], None], *, is_done: bool) -> Hook:
    """Return a hook that calls ``action`` with the name of one request, before or after it is carried out.

    The requests of the action itself, and all later ones, have no hook.
    """

    def hook(session: FakeSession, number: int, name: str, done: bool) -> None:
        if number == step and done is is_done:
            session.hook = no_hook
            action(name)

    return hook


def no_hook(session: FakeSession, number: int, name: str, is_done: bool) -> None:
    """Do nothing at a request."""


def kill_at(step: int, *, is_done: bool) -> Hook:
    """Return a hook that kills the process at one request, before or after it is carried out."""

    def kill(name: str) -> None:
        raise Killed(name)

    return do_at(step, kill, is_done=is_done)


def cut_at(step: int, *, is_done: bool) -> Hook:
    """Return a hook that breaks the connection at one request, before or after it is carried out."""

    def cut(name: str) -> None:
        raise Disconnected(f"the broker closed the connection at {name}", was_sent=True)

    return do_at(step, cut, is_done=is_done)

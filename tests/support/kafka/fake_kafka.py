"""A whole Kafka cluster in memory, for runs of topiarist's own cluster, writer and records over it.

It joins the two parts: topics with Admin requests (``fake_cluster``), and the topic of records with its transactions
(``memory_records``). Each run has a session of its own, which is one process: it can be killed at any request, and
sends nothing more then.

    kafka = FakeKafka()
    kafka.hook = kill_at(7, is_done=True)
    with suppress(Killed):
        list(kafka.apply(kafka.plan(spec("a"))))

Time is virtual for the records; the other waits of the product are short in tests.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from kafka.protocol.admin import DescribeConfigsResponse
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.metadata import MetadataResponse

from support.builders import plan as make_plan
from support.kafka.fake_cluster import VERSIONS, FakeCluster, FakeConnection
from support.kafka.memory_records import Killed, MemoryBroker
from topiarist.adapters.kafka_admin import cluster as cluster_module
from topiarist.adapters.kafka_admin.cluster import KafkaCluster
from topiarist.adapters.kafka_admin.connection.connection import Disconnected
from topiarist.adapters.kafka_admin.connection.topic_ids import NO_ID
from topiarist.adapters.kafka_admin.records import codec
from topiarist.adapters.kafka_admin.records.run import RecordsRun
from topiarist.adapters.kafka_admin.records.values import Records
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kafka.types import Replicas
from topiarist.model.access import DEFAULT_RECORDS_TOPIC, KafkaAccess
from topiarist.model.outcome import Outcome
from topiarist.model.plan import Plan
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import TopicSpec
from topiarist.model.state import ClusterState

ADMIN_REQUESTS = ("CreateTopics", "CreatePartitions", "IncrementalAlterConfigs", "DeleteTopics")
UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID, METADATA_VERSION = 3, 100, 13
RECORDS = DEFAULT_RECORDS_TOPIC.name
_ALL_VERSIONS = dict.fromkeys(range(100), (0, 99))

Hook = Callable[["FakeSession", int, str, bool], None]
"""A function called before and after each request of a run.

It gets the session, the number of the request in its run, its name, and whether the request was carried out. It may
raise ``Killed`` or ``Disconnected``.
"""


class FakeKafka(MemoryBroker):
    """Three brokers with topics, records and transactions.

    ``hook`` watches all sessions that are opened afterwards. ``writes`` has the requests that changed something.
    ``leader_epoch`` is that of the controller.
    """

    def __init__(self) -> None:
        super().__init__(cluster_id="ID")
        self.cluster = FakeCluster()
        self.admin = FakeConnection(self.cluster)
        self.hook: Hook = no_hook
        self.leader_epoch = 1
        self.delayed: list[tuple[float, Any]] = []

    def open(self, owner: str = "default", *, lock_timeout: float = 600.0) -> KafkaCluster:
        """Return the cluster as one process sees it."""
        session = FakeSession(self, self.hook)
        return _ClusterOverFake(session, owner, lock_timeout)

    def read(self, owner: str = "default") -> ClusterState:
        """Return the state as a new process reads it for a plan."""
        return self.open(owner).read()

    def plan(self, *specs: TopicSpec, cluster: KafkaCluster | None = None, **options: Any) -> Plan:
        """Return the plan of a new process, or of ``cluster``."""
        run = RunOptions(**options)
        return make_plan((cluster or self.open(run.owner)).read(), *specs, run=run)

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
        return RecordsRun(FakeSession(self, self.hook), owner, look=dict.fromkeys, clock=self.clock)

    def commit_numbers(self) -> list[int]:
        """Return the numbers of all locks that were committed, in the order of the log."""
        return [codec.decode_records({b"lock": value}).number for value in self.committed_values(b"lock")]

    def delay(self, request: Any, seconds: float) -> None:
        """Carry out an Admin request later."""
        self.delayed.append((self.now + seconds, request))

    def _advance(self, seconds: float) -> None:
        super()._advance(seconds)
        due = [request for at, request in self.delayed if at <= self.now]
        self.delayed = [(at, request) for at, request in self.delayed if at > self.now]
        for request in due:
            self.cluster.carry_out(request)

    def _on_CreateTopics(self, request: Any, code: int) -> Any:  # noqa: N802
        if request.topics[0].name == RECORDS:
            return super()._on_CreateTopics(request, code)
        return self._on_admin(request, code)

    def _on_admin(self, request: Any, code: int) -> Any:
        if code:
            self.cluster.vetoes.insert(0, lambda name, element: (code, ""))
        try:
            return self.admin.call(request, version=VERSIONS[request.API_KEY])
        finally:
            if code:
                self.cluster.vetoes.pop(0)

    _on_CreatePartitions = _on_IncrementalAlterConfigs = _on_DeleteTopics = _on_admin  # noqa: N815

    def _on_Metadata(self, request: Any, code: int) -> Any:  # noqa: N802
        known = {name: topic.id for name, topic in self.cluster.topics.items()}
        if self.topic_id:
            known[RECORDS] = self.topic_id
        names = {topic_id: name for name, topic_id in known.items()}
        wanted = [each.name for each in request.topics if each.name] if request.topics is not None else list(known)
        topics = [self._describe(name) for name in wanted]
        for each in request.topics or ():
            if each.name is None:
                found = names.get(each.topic_id)
                topics.append(self._describe(found) if found else _topic(None, UNKNOWN_TOPIC_ID, each.topic_id))
        broker = MetadataResponse.MetadataResponseBroker
        return MetadataResponse(
            throttle_time_ms=0,
            brokers=[broker(node_id=each.id, host="fake", port=9092, rack=each.rack) for each in self.cluster.brokers],
            cluster_id=self.cluster_id,
            controller_id=1,
            topics=topics,
            error_code=0,
        )

    def _describe(self, name: str) -> Any:
        topic = self.cluster.topics.get(name)
        if name == RECORDS and self.topic_id:
            return _topic(name, 0, self.topic_id, ((1, 2, 3),))
        if topic:
            return _topic(name, 0, topic.id, topic.replicas)
        return _topic(name, UNKNOWN_TOPIC, NO_ID)

    def _on_DescribeConfigs(self, request: Any, code: int) -> Any:  # noqa: N802
        result = DescribeConfigsResponse.DescribeConfigsResult
        entry = result.DescribeConfigsResourceResult
        results = []
        for each in request.resources:
            topic, config = self.cluster.topics.get(each.resource_name), {}
            if topic:
                config = topic.config
            elif each.resource_name == RECORDS:
                config = {"cleanup.policy": self.policy}
            missing = topic is None and each.resource_name != RECORDS
            entries = [
                entry(
                    name=key,
                    value=value,
                    read_only=False,
                    config_source=1,
                    is_sensitive=False,
                    synonyms=[],
                    config_type=2,
                    documentation=None,
                )
                for key, value in config.items()
            ]
            entries += [
                entry(
                    name=key,
                    value="0",
                    read_only=False,
                    config_source=5,
                    is_sensitive=False,
                    synonyms=[],
                    config_type=2,
                    documentation=None,
                )
                for key in TOPIC_CONFIGS
                if key not in config and each.configuration_keys is None
            ]
            results.append(
                result(
                    error_code=code or (UNKNOWN_TOPIC if missing else 0),
                    error_message=None,
                    resource_type=2,
                    resource_name=each.resource_name,
                    configs=entries,
                )
            )
        return DescribeConfigsResponse(throttle_time_ms=0, results=results)

    def _on_DescribeQuorum(self, request: Any, code: int) -> Any:  # noqa: N802
        state = SimpleNamespace(
            partition_index=0, error_code=code, leader_id=3000, leader_epoch=self.leader_epoch, high_watermark=1
        )
        return SimpleNamespace(
            error_code=0, topics=[SimpleNamespace(topic_name="__cluster_metadata", partitions=[state])]
        )

    def _on_ListPartitionReassignments(self, request: Any, code: int) -> Any:  # noqa: N802
        return SimpleNamespace(error_code=code, error_message=None, topics=[])


class FakeSession:
    """The session and all connections of one process; ``request`` is the last one."""

    def __init__(self, kafka: FakeKafka, hook: Hook) -> None:
        self.kafka = kafka
        self.hook = hook
        self.access = KafkaAccess("fake:9092")
        self.hosts = "fake:9092"
        self.requests: Mapping[tuple[str, str], int] = {}
        self.versions = {**_ALL_VERSIONS, 60: (0, 0)}
        self.is_open = True
        self.is_dead = False
        self.sent: list[str] = []
        self.request: Any = None

    def any_broker(self) -> Any:
        """Return the connection to all brokers; so do the other methods."""
        return self

    controller = any_broker

    def leader(self, topic: str, partition: int = 0, patience: float = 0) -> Any:
        return self

    def coordinator(self, transactional_id: str, patience: float = 0) -> Any:
        return self

    def broker(self, broker_id: int) -> Any:
        return self

    def forget_controller(self) -> None:
        """Do nothing: there is one connection."""

    def close(self) -> None:
        """Do nothing."""

    def read_metadata(self, names: Any = None, ids: Any = ()) -> Any:
        """Return the metadata of some topics."""
        topics = [SimpleNamespace(name=name, topic_id=None) for name in names or ()]
        topics += [SimpleNamespace(name=None, topic_id=each) for each in ids]
        return self.call(_MetadataRequest(topics))

    def error_of(self, code: int, what: str, right: str, message: str | None = None) -> Any:
        return self.kafka.error_of(code, what, right, message)

    def read_versions(self, timeout: float | None = None) -> Any:
        """Return what an up-to-date broker of Kafka 3.9 answers."""
        feature = SimpleNamespace(name="metadata.version", max_version=21)
        return SimpleNamespace(error_code=0, finalized_features_epoch=1 << 40, supported_features=[feature])

    def version_of(self, request: Any, at_most: int | None = None) -> int:
        """Return the version of the brokers in memory."""
        return at_most or {**VERSIONS, 3: METADATA_VERSION}.get(request.API_KEY, 0)

    def call(self, request: Any, *, version: int | None = None, timeout: float | None = None) -> Any:
        """Carry out a request between two calls of the hook."""
        if self.is_dead:
            raise Killed
        name = type(request).__name__.removesuffix("Request")
        self.sent.append(name)
        self.request = request
        number = len(self.sent)
        try:
            self.hook(self, number, name, False)
            if self.is_dead:
                raise Killed
            answer = self.kafka.call(request, version=version, timeout=timeout)
            self.hook(self, number, name, True)
        except Killed:
            self.is_dead = True
            raise
        return answer

    def decode(self, request: Any, version: int, data: bytes) -> Any:
        """Return a decoded answer."""
        return ResponseClassRegistry._response_class_registry[request.API_KEY].decode(
            data, version=version, header=True
        )

    def call_raw(self, request: Any, version: int, timeout: float | None = None) -> bytes:
        """Return the bytes of an answer, header included."""
        answer = self.call(request, version=version, timeout=timeout)
        return struct.pack(">ib", 1, 0) + bytes(answer.encode(version=version))


def _topic(name: str | None, code: int, topic_id: uuid.UUID, lists: tuple[Replicas, ...] = ()) -> Any:
    topic = MetadataResponse.MetadataResponseTopic
    partitions = [
        topic.MetadataResponsePartition(
            error_code=0,
            partition_index=number,
            leader_id=replicas[0],
            leader_epoch=0,
            replica_nodes=list(replicas),
            isr_nodes=list(replicas),
            offline_replicas=[],
        )
        for number, replicas in enumerate(lists)
    ]
    return topic(
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=False,
        partitions=partitions,
    )


class _MetadataRequest:
    def __init__(self, topics: list[Any]) -> None:
        self.topics = topics


_MetadataRequest.__name__ = "MetadataRequest"


class _ClusterOverFake(KafkaCluster):
    """The product's cluster, with the session of a process in memory, and its virtual time."""

    def __init__(self, session: FakeSession, owner: str, lock_timeout: float) -> None:
        with patch.object(cluster_module, "Session", lambda access, timeout: session):
            super().__init__(session.access, owner=owner, lock_timeout=lock_timeout)

    def _open_records(self) -> RecordsRun:
        run = super()._open_records()
        run._clock = run._log._clock = run._producer._clock = self._session.kafka.clock  # type: ignore[attr-defined]
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

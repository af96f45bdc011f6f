"""Brokers in memory at the level of requests: topics, the logs of the records, transactions; with faults on demand.

    broker = MemoryBroker()
    broker.faults["EndTxn", 1] = Fault(code=-1, is_done=True)  # the first EndTxn is carried out, and answered with -1

Time is virtual: it advances only by the pauses of the code under test. The brokers' metadata is behind the controller
until that code pauses, or asks for the epoch of the metadata twice.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from kafka.protocol.admin import (
    DescribeClusterResponse,
    DescribeConfigsResponse,
    DescribeQuorumResponse,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.consumer import FetchResponse, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer import AddPartitionsToTxnResponse, EndTxnResponse, InitProducerIdResponse, ProduceResponse

from support.kafka.fake_cluster import FakeCluster, FakeTopic
from support.kafka.memory_coordinator import MemoryCoordinator
from support.kafka.memory_log import OFFSET_NOT_AVAILABLE, MemoryLog, producer_of
from support.kafka.releases import NEWEST, RELEASES, Offering
from support.kafka.requests import Epoch, TransactionClient
from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.connection.connection import NO_ID, Disconnected, Message
from topiarist.adapters.kafka_admin.connection.session import AnswerCache, Session
from topiarist.adapters.kafka_admin.records import topic as records_topic
from topiarist.adapters.kafka_admin.records.transactions import Clock
from topiarist.errors import TopiaristError
from topiarist.kafka.config_rules import is_supported, kafka_default
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kafka.config_values import canonical_text
from topiarist.kafka.types import KafkaVersion
from topiarist.model.access import DEFAULT_RECORDS_TOPIC

UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID, NOT_ENOUGH_REPLICAS = 3, 100, 19
RECORDS = DEFAULT_RECORDS_TOPIC.name
STRANGER = "another"

_OVERRIDE, _DEFAULT, _BROKER = 1, 5, 4
_CONFIG_TYPES = {"boolean": 1, "word": 2, "version": 2, "int": 3, "long": 5, "double": 6, "words": 7, "throttle": 7}


class Killed(BaseException):
    """The end of the process under test."""


class Fault(NamedTuple):
    """A fault of one request: its code (None: the connection breaks), after it was carried out or not.

    ``kill`` ends the process under test instead.
    """

    code: int | None = None
    is_done: bool = False
    kill: bool = False


class MemorySession(Offering):
    """A session that is its only connection."""

    changed_at = 0.0
    is_reassigning = False
    answers: AnswerCache | None = None

    def any_broker(self) -> Any:
        """Return this connection; so do the next methods."""
        return self

    controller = any_broker

    def leader(self, topic: str) -> Any:
        return self

    def coordinator(self, transactional_id: str) -> Any:
        return self

    def forget_lookups(self) -> None:
        """Do nothing: nothing is looked up."""

    def wait_after_change(self, seconds: float) -> None:
        """Do nothing: the brokers know a change, or do not."""

    def read(self, request: Message) -> Message:
        """Return the answer to a request that changes nothing."""
        return self.call(request)

    def read_metadata(self, names: Any = None) -> Message:
        """Return the metadata of some topics, with the request that a real session sends."""
        self._brokers: Any = {}
        self._leaders: Any = {}
        self._keep_leader = lambda topic: None
        return Session.read_metadata(self, names)  # type: ignore[arg-type]

    def error_of(self, code: int, what: str, right: str, message: str | None = None) -> TopiaristError:
        """Return the error for a code that ends a run."""
        return error_codes.error_of(code, what, right=right, principal="me", message=message)


class MemoryBroker(MemorySession):
    """Three brokers with one connection.

    ``faults`` are by name and number of a request; ``calls`` has the names in their order. ``always`` returns a code
    with which every request of a name is answered, and ``before`` is called before each. ``fetch_bytes`` limits all
    fetches. A commit is answered, and its records can be read ``marker_delay`` seconds later. ``leader_epoch`` is that
    of the controller.
    """

    def __init__(
        self,
        faults: Mapping[tuple[str, int], Fault] | None = None,
        *,
        release: str = NEWEST,
        cluster_id: str = "cluster",
        marker_delay: float = 0.0,
        fetch_bytes: int = 1 << 30,
        always: Callable[[str, float], int | None] = lambda name, now: None,
    ) -> None:
        super().__init__(RELEASES[release], self._carry_out)
        self.release = RELEASES[release]
        self.cluster = FakeCluster(release=release)
        self.cluster_id = cluster_id
        self.faults = dict(faults or {})
        self.always = always
        self.before: Callable[[str, int], None] = lambda name, number: None
        self.fetch_bytes = fetch_bytes
        self.now = 0.0
        self.clock = Clock(lambda: self.now, self._advance, lambda: 0.5)
        self.calls: list[str] = []
        self.leader_epoch = 1
        self.coordinator_state = MemoryCoordinator(self._mark, keeps_last_epoch=self.release.keeps_last_epoch)
        self.coordinator_state.marker_delay = marker_delay
        self._logs: defaultdict[uuid.UUID, MemoryLog] = defaultdict(MemoryLog)
        self._counts: Counter[str] = Counter()
        self._metadata_offset = 1
        self._committed: dict[str, FakeTopic] = {}
        self._image: dict[str, FakeTopic] = {}

    def read_versions(self, timeout: float | None = None) -> Message:
        """Return what the release offers, and the offset of the metadata that the broker serves."""
        offset = self._commit_metadata()
        epoch = offset if self._image == self._committed else offset - 1
        self.catch_up()
        supported = ApiVersionsResponse.SupportedFeatureKey
        level = supported(name="metadata.version", min_version=1, max_version=self.release.metadata_level)
        offered = [
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self.versions.items()
        ]
        return ApiVersionsResponse(
            error_code=0, api_keys=offered, finalized_features_epoch=epoch, supported_features=[level]
        )

    # What other clients and the brokers themselves do.
    def create_topic(self) -> None:
        """Create the topic of records as another run does."""
        form = records_topic._Form((1, 2, 3), records_topic._wanted_configs(3))
        self.cluster.call(records_topic._create_request(RECORDS, form, validate_only=False))
        self.catch_up()

    def delete_topic(self) -> None:
        """Delete the topic of records with all its records, and create it anew."""
        self.cluster.topics.pop(RECORDS, None)
        self.create_topic()

    @property
    def records_log(self) -> MemoryLog:
        """Return the log of the topic of records."""
        return self._logs[self.cluster.topics[RECORDS].id]

    def abandon(self) -> TransactionClient:
        """Leave the transaction of another client open on the records, and return that client."""
        stranger = TransactionClient(self, RECORDS, STRANGER)
        stranger.begin(timeout_ms=900_000)
        stranger.add()
        stranger.produce(0, "topic/foreign")
        return stranger

    def lose_transactions(self) -> None:
        """Forget all transactional ids, as after a loss of ``__transaction_state``."""
        self.coordinator_state.forget()

    def catch_up(self) -> None:
        """Serve the metadata of the controller."""
        self._commit_metadata()
        self._image = self._committed

    def _commit_metadata(self) -> int:
        if self._committed != self.cluster.topics:
            self._committed = dict(self.cluster.topics)
            self._metadata_offset += 1
        return self._metadata_offset

    def _advance(self, seconds: float) -> None:
        self.now += max(seconds, 0.001)
        self.coordinator_state.advance(self.now)
        self.catch_up()

    def _mark(self, topic: str, epoch: Epoch, commit: bool) -> bool:
        found = self.cluster.topics.get(topic)
        if found and not self._has_in_sync(found):
            return False
        if found:
            self._logs[found.id].mark(epoch, commit=commit)
        return True

    def _has_in_sync(self, topic: FakeTopic) -> bool:
        replicas = topic.replicas[0]
        in_sync = [broker for broker in replicas if broker not in self.cluster.stopped]
        return len(in_sync) >= min(int(topic.config.get("min.insync.replicas", "1")), len(replicas))

    def _log_of(self, topic: str) -> MemoryLog | None:
        found = self.cluster.topics.get(topic) if topic in self._image else None
        return self._logs[found.id] if found else None

    # The requests.
    def _carry_out(self, request: Message) -> Message:
        name = request.name.removesuffix("Request")
        self._counts[name] += 1
        self.calls.append(name)
        self.before(name, self._counts[name])
        fault = self.faults.get((name, self._counts[name]))
        code = self.always(name, self.now)
        handler = getattr(self, "_on_" + name, self._on_admin)
        if code is not None:
            return handler(request, code)
        if fault is None:
            return handler(request, 0)
        answer = handler(request, 0) if fault.is_done else None
        if fault.kill:
            raise Killed
        if fault.code is None:
            raise Disconnected("cut", was_sent=True)
        return handler(request, fault.code) if answer is None or fault.code else answer

    def _on_admin(self, request: Message, code: int) -> Message:
        if code:
            self.cluster.vetoes.insert(0, lambda name, element: (code, ""))
        try:
            return self.cluster.call(request)
        finally:
            if code:
                self.cluster.vetoes.pop(0)

    def _on_InitProducerId(self, request: Message, code: int) -> Message:  # noqa: N802
        epoch = Epoch()
        if not code:
            asked = Epoch(request.producer_id, request.producer_epoch)
            code, epoch = self.coordinator_state.init(
                request.transactional_id, asked, request.transaction_timeout_ms, self.now
            )
        return InitProducerIdResponse(error_code=code, producer_id=epoch.id, producer_epoch=epoch.number)

    def _on_FindCoordinator(self, request: Message, code: int) -> Message:  # noqa: N802
        found = [
            FindCoordinatorResponse.Coordinator(key=key, node_id=1, host="fake", port=9092, error_code=code)
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=found)

    def _on_AddPartitionsToTxn(self, request: Message, code: int) -> Message:  # noqa: N802
        (topic,) = request.v3_and_below_topics
        if not code and self._log_of(topic.name) is None:
            code = UNKNOWN_TOPIC
        code = code or self.coordinator_state.add(
            request.v3_and_below_transactional_id,
            Epoch(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
            [topic.name],
            self.now,
        )
        result = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
        partition = result.AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=code)
        answer = result(name=topic.name, results_by_partition=[partition])
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[answer])

    def _on_Produce(self, request: Message, code: int) -> Message:  # noqa: N802
        (topic,) = request.topic_data
        data, offset = bytes(topic.partition_data[0].records), -1
        if not code:
            code, offset = self._append(request.transactional_id, topic.name, data)
        response = ProduceResponse.TopicProduceResponse
        partition = response.PartitionProduceResponse(index=0, error_code=code, base_offset=offset)
        return ProduceResponse(responses=[response(name=topic.name, partition_responses=[partition])])

    def _append(self, transactional_id: str | None, name: str, data: bytes) -> tuple[int, int]:
        log = self._log_of(name)
        if log is None:
            return UNKNOWN_TOPIC, -1
        found, epoch = self.cluster.topics[name], producer_of(data)
        if transactional_id is not None and self.release.verifies_producers and not log.is_open(epoch):
            code = self.coordinator_state.verify(transactional_id, epoch, name)
            if code:
                return code, -1
        if not self._has_in_sync(found):
            return NOT_ENOUGH_REPLICAS, -1
        max_bytes = int(found.config.get("max.message.bytes", kafka_default("max.message.bytes")))
        return log.append(data, max_bytes=max_bytes, needs_keys=found.config.get("cleanup.policy") == "compact")

    def _on_EndTxn(self, request: Message, code: int) -> Message:  # noqa: N802
        epoch = Epoch(request.producer_id, request.producer_epoch)
        code = code or self.coordinator_state.end(request.transactional_id, epoch, self.now, commit=request.committed)
        return EndTxnResponse(error_code=code)

    def _on_ListOffsets(self, request: Message, code: int) -> Message:  # noqa: N802
        (topic,) = request.topics
        log = self._log_of(topic.name)
        code = code or (0 if log else UNKNOWN_TOPIC)
        epoch = offset = -1
        if log and log.known_end is not None:
            code, log.known_end = code or OFFSET_NOT_AVAILABLE, None
        elif log and not code:
            epoch, offset = log.leader_epoch, log.stable if request.isolation_level else log.end
        result = ListOffsetsResponse.ListOffsetsTopicResponse
        partition = result.ListOffsetsPartitionResponse(
            partition_index=0, error_code=code, timestamp=-1, offset=offset, leader_epoch=epoch
        )
        return ListOffsetsResponse(topics=[result(name=topic.name, partitions=[partition])])

    def _on_Fetch(self, request: Message, code: int) -> Message:  # noqa: N802
        (topic,) = request.topics
        (wanted,) = topic.partitions
        log = self._log_of(topic.topic)
        code = code or (log.check_epoch(wanted.current_leader_epoch) if log else UNKNOWN_TOPIC)
        limit = min(self.fetch_bytes, request.max_bytes, wanted.partition_max_bytes)
        is_committed = request.isolation_level == 1
        found = log.fetch(wanted.fetch_offset, limit, is_committed=is_committed) if log and not code else None
        code = code or (found.code if found else 0)
        result = FetchResponse.FetchableTopicResponse
        aborted = result.PartitionData.AbortedTransaction
        partition = result.PartitionData(
            partition_index=0,
            error_code=code,
            high_watermark=-1 if code or log is None else log.end if log.known_end is None else log.known_end,
            last_stable_offset=-1 if code or log is None else log.stable,
            log_start_offset=-1 if code else 0,
            aborted_transactions=[
                aborted(producer_id=each.producer_id, first_offset=each.first)
                for each in (found.aborted if found else ())
            ],
            preferred_read_replica=-1,
            records=found.data if found else b"",
        )
        return FetchResponse(error_code=0, responses=[result(topic=topic.topic, partitions=[partition])])

    def _on_Metadata(self, request: Message, code: int) -> Message:  # noqa: N802
        by_id = {topic.id: name for name, topic in self._image.items()}
        wanted: list[tuple[str | None, Any]] = [(name, NO_ID) for name in self._image]
        if request.topics is not None:
            wanted = [(each.name or by_id.get(each.topic_id), each.topic_id) for each in request.topics]
        broker = MetadataResponse.MetadataResponseBroker
        return MetadataResponse(
            brokers=[
                broker(node_id=each.id, host="fake", port=9092, rack=each.rack)
                for each in self.cluster.brokers
                if each.id not in self.cluster.stopped
            ],
            cluster_id=self.cluster_id,
            controller_id=1,
            topics=[self._describe(name, topic_id) for name, topic_id in wanted],
            error_code=code,
        )

    def _describe(self, name: str | None, topic_id: uuid.UUID | None) -> Any:
        element = MetadataResponse.MetadataResponseTopic
        found = self._image.get(name or "")
        if found is None:
            code = UNKNOWN_TOPIC if name else UNKNOWN_TOPIC_ID
            return element(error_code=code, name=name, topic_id=topic_id or NO_ID, is_internal=False, partitions=[])
        partitions = []
        for number, replicas in enumerate(found.replicas):
            running = [broker for broker in replicas if broker not in self.cluster.stopped]
            partitions.append(
                element.MetadataResponsePartition(
                    error_code=0,
                    partition_index=number,
                    leader_id=running[0] if running else -1,
                    leader_epoch=0 if number else self._logs[found.id].leader_epoch,
                    replica_nodes=list(replicas),
                    isr_nodes=running,
                    offline_replicas=[broker for broker in replicas if broker in self.cluster.stopped],
                )
            )
        return element(error_code=0, name=name, topic_id=found.id, is_internal=False, partitions=partitions)

    def _on_DescribeConfigs(self, request: Message, code: int) -> Message:  # noqa: N802
        result = DescribeConfigsResponse.DescribeConfigsResult
        results = []
        for each in request.resources:
            found = self._image.get(each.resource_name)
            failed = code or (0 if found or each.resource_type == _BROKER else UNKNOWN_TOPIC)
            defaults = _default_entries(self.release.version)
            entries: list[Any] = []
            if found and not failed:
                asked = defaults if each.configuration_keys is None else each.configuration_keys
                entries = [
                    _config_entry(key, canonical_text(key, found.config[key]), _OVERRIDE)
                    if key in found.config
                    else defaults[key]
                    for key in asked
                    if key in defaults
                ]
            results.append(
                result(
                    error_code=failed,
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                    configs=entries,
                )
            )
        return DescribeConfigsResponse(results=results)

    def _on_DescribeQuorum(self, request: Message, code: int) -> Message:  # noqa: N802
        topic = DescribeQuorumResponse.TopicData
        state = topic.PartitionData(
            partition_index=0,
            error_code=code,
            leader_id=3000,
            leader_epoch=self.leader_epoch,
            high_watermark=self._commit_metadata() + 1,
            current_voters=[],
            observers=[],
        )
        return DescribeQuorumResponse(error_code=0, topics=[topic(topic_name="__cluster_metadata", partitions=[state])])

    def _on_DescribeCluster(self, request: Message, code: int) -> Message:  # noqa: N802
        broker = DescribeClusterResponse.DescribeClusterBroker
        brokers = [
            broker(broker_id=each.id, host="fake", port=9092, rack=each.rack, is_fenced=each.id in self.cluster.stopped)
            for each in self.cluster.brokers
            if request.include_fenced_brokers or each.id not in self.cluster.stopped
        ]
        return DescribeClusterResponse(
            error_code=code, endpoint_type=1, cluster_id=self.cluster_id, controller_id=1, brokers=brokers
        )

    def _on_ListPartitionReassignments(self, request: Message, code: int) -> Message:  # noqa: N802
        return ListPartitionReassignmentsResponse(error_code=code, topics=[])


@cache
def _default_entries(version: KafkaVersion) -> Mapping[str, Any]:
    """Return the configs of a topic without overrides, by key."""
    return {
        key: _config_entry(key, kafka_default(key, version), _DEFAULT)
        for key in TOPIC_CONFIGS
        if is_supported(key, version)
    }


def _config_entry(key: str, value: str, source: int) -> Any:
    return DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult(
        name=key,
        value=value,
        read_only=False,
        config_source=source,
        is_sensitive=False,
        synonyms=[],
        config_type=_CONFIG_TYPES[TOPIC_CONFIGS[key].type],
    )

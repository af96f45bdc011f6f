"""Single requests to brokers, and their error codes, for tests of what brokers answer in each state.

The versions are those that topiarist sends. ``session`` is a ``Session`` to real brokers, or brokers in memory.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

from support.waiting import wait_until
from topiarist.adapters.kafka_admin.protocol.messages import (
    AddPartitionsToTxnRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    EndTxnRequest,
    FetchRequest,
    IncrementalAlterConfigsRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    ProduceRequest,
)
from topiarist.adapters.kafka_admin.records.transactions import AGAIN_CODES
from topiarist.kafka.types import Replicas

INIT, ADD, PRODUCE, END, LIST_OFFSETS, FETCH = 4, 3, 11, 4, 5, 11
"""The versions of the requests for records."""

_ATTRIBUTES, _CRC = 21, 17


class Epoch(NamedTuple):
    """A producer as the coordinator names it."""

    id: int = -1
    number: int = -1


ANY_EPOCH = Epoch()
"""The epoch with which a new producer asks for one."""


class Fetched(NamedTuple):
    """The answer to a fetch of one partition. ``aborted`` has offset and producer of the aborted transactions."""

    code: int
    data: bytes
    aborted: tuple[tuple[int, int], ...]
    end: int
    stable: int


class TransactionClient:
    """A client that sends single requests of one transactional id, and of a reader of its topic.

    ``leader_epoch`` is that of the last answer with an offset.
    """

    def __init__(self, session: Any, topic: str, transactional_id: str) -> None:
        self.session = session
        self.topic = topic
        self.transactional_id = transactional_id
        self.epoch = Epoch()
        self.leader_epoch = -1

    def init(self, epoch: Epoch = ANY_EPOCH, *, timeout_ms: int = 10_000, version: int = INIT) -> tuple[int, Epoch]:
        """Ask for a producer epoch once; return the code and the epoch."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=epoch.id,
            producer_epoch=epoch.number,
        )
        answer = _call(self._coordinator(), request, version)
        return answer.error_code, Epoch(answer.producer_id, answer.producer_epoch)

    def begin(self, epoch: Epoch = ANY_EPOCH, *, timeout_ms: int = 10_000) -> Epoch:
        """Ask for an epoch until the brokers give one, and keep it."""
        _, self.epoch = self.settle(lambda: self.init(epoch, timeout_ms=timeout_ms))
        return self.epoch

    def add(self, epoch: Epoch | None = None, *, topic: str = "") -> int:
        """Add the partition to the transaction once."""
        epoch = epoch or self.epoch
        wanted = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic or self.topic, partitions=[0])
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=epoch.id,
            v3_and_below_producer_epoch=epoch.number,
            v3_and_below_topics=[wanted],
        )
        answer = _call(self._coordinator(), request, ADD)
        (result,) = answer.results_by_topic_v3_and_below
        (partition,) = result.results_by_partition
        return int(partition.partition_error_code)

    def produce(
        self, sequence: int, *keys: str, epoch: Epoch | None = None, data: bytes = b"", version: int = PRODUCE
    ) -> tuple[int, int]:
        """Write one batch once, or these bytes; return the code and the offset of the batch."""
        batch = data or build_batch(epoch or self.epoch, sequence, [(key.encode(), b"{}") for key in keys or ("k",)])
        topic = ProduceRequest.TopicProduceData
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[topic(name=self.topic, partition_data=[topic.PartitionProduceData(index=0, records=batch)])],
        )
        answer = _call(self.session.leader(self.topic), request, version)
        (result,) = answer.responses
        (partition,) = result.partition_responses
        return int(partition.error_code), int(partition.base_offset)

    def end(self, epoch: Epoch | None = None, *, commit: bool = True, version: int = END) -> int:
        """End the transaction once."""
        epoch = epoch or self.epoch
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=epoch.id,
            producer_epoch=epoch.number,
            committed=commit,
        )
        return int(_call(self._coordinator(), request, version).error_code)

    def offset(self, isolation: int) -> tuple[int, int]:
        """Return the code and the end of the topic: of everything (0), or of what is decided (1)."""
        topic = ListOffsetsRequest.ListOffsetsTopic
        partition = topic.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=isolation, topics=[topic(name=self.topic, partitions=[partition])]
        )
        answer = _call(self.session.leader(self.topic), request, LIST_OFFSETS)
        (result,) = answer.topics
        (found,) = result.partitions
        self.leader_epoch = int(found.leader_epoch)
        return int(found.error_code), int(found.offset)

    def fetch(self, position: int, isolation: int = 1, *, size: int = 1 << 20, leader_epoch: int = -1) -> Fetched:
        """Fetch from an offset once."""
        topic = FetchRequest.FetchTopic
        partition = topic.FetchPartition(
            partition=0,
            current_leader_epoch=leader_epoch,
            fetch_offset=position,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=size,
        )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=size,
            isolation_level=isolation,
            session_id=0,
            session_epoch=-1,
            rack_id="",
            forgotten_topics_data=[],
            topics=[topic(topic=self.topic, partitions=[partition])],
        )
        answer = _call(self.session.leader(self.topic), request, FETCH)
        (result,) = answer.responses
        (found,) = result.partitions
        aborted = tuple((each.first_offset, each.producer_id) for each in found.aborted_transactions or ())
        return Fetched(
            found.error_code, bytes(found.records or b""), aborted, found.high_watermark, found.last_stable_offset
        )

    def settle(self, ask: Callable[[], Any], again: Collection[int] = AGAIN_CODES) -> Any:
        """Return the first answer without a code of ``again``."""
        answers: list[Any] = []

        def is_settled() -> bool:
            answers[:] = [ask()]
            code = answers[0][0] if isinstance(answers[0], tuple) else answers[0]
            return code not in again

        clock = getattr(self.session, "clock", None)
        if clock is None:
            wait_until(is_settled, "an answer that does not say: again", timeout=60.0)
        else:
            while not is_settled():
                clock.sleep(0.05)
        return answers[0]

    def _coordinator(self) -> Any:
        return self.session.coordinator(self.transactional_id)


def _call(connection: Any, request: Any, at_most: int) -> Any:
    return connection.call(request, version=connection.version_of(request, at_most))


def build_batch(
    epoch: Epoch, sequence: int, records: Sequence[tuple[bytes | None, bytes | None]], *, control: bool = False
) -> bytes:
    """Return a batch of a transaction; a control batch is a marker of the coordinator."""
    builder = DefaultRecordBatchBuilder(2, 0, True, epoch.id, epoch.number, sequence, 1 << 30)
    now = int(time.time() * 1000)
    for number, (key, value) in enumerate(records):
        builder.append(number, now, key, value, [])
    batch = bytearray(builder.build())
    if control:
        batch[_ATTRIBUTES + 1] |= 0x20
        batch[_CRC : _CRC + 4] = int(calc_crc32c(bytes(batch[_ATTRIBUTES:]))).to_bytes(4, "big")
    return bytes(batch)


def new_topic(
    name: str,
    *lists: Replicas,
    config: Mapping[str, str | None] | None = None,
    numbers: Sequence[int] = (),
    partitions: int = -1,
) -> Any:
    """Return a topic of ``create``; ``numbers`` are the partitions of the lists, by default 0 and those that follow."""
    topic = CreateTopicsRequest.CreatableTopic
    return topic(
        name=name,
        num_partitions=partitions,
        replication_factor=-1,
        assignments=[
            topic.CreatableReplicaAssignment(partition_index=number, broker_ids=list(replicas))
            for number, replicas in zip(numbers or range(len(lists)), lists, strict=True)
        ],
        configs=[topic.CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()],
    )


def create(session: Any, *topics: Any, validate_only: bool = False) -> dict[str, int]:
    """Create topics in one request; return the codes by name."""
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=validate_only)
    return {each.name: each.error_code for each in session.controller().call(request).topics}


def grow(session: Any, name: str, total: int, *lists: Replicas, times: int = 1, validate_only: bool = False) -> int:
    """Add partitions to a topic, named ``times`` in one request; return the code."""
    topic = CreatePartitionsRequest.CreatePartitionsTopic
    assignments = [topic.CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in lists]
    wanted = [topic(name=name, count=total, assignments=assignments)] * times
    request = CreatePartitionsRequest(topics=wanted, timeout_ms=10_000, validate_only=validate_only)
    (result,) = session.controller().call(request).results
    return int(result.error_code)


def configure(session: Any, name: str, *changes: tuple[str, str | None], is_set: bool = False) -> int:
    """Set configs of a topic, or delete those without a value unless ``is_set`` is true; return the code."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [
        resource.AlterableConfig(name=key, config_operation=int(value is None and not is_set), value=value)
        for key, value in changes
    ]
    wanted = resource(resource_type=2, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[wanted], validate_only=False)
    (result,) = session.controller().call(request).responses
    return int(result.error_code)


def delete(session: Any, *topic_ids: uuid.UUID) -> list[int]:
    """Delete topics by id in one request; return the codes."""
    topic = DeleteTopicsRequest.DeleteTopicState
    request = DeleteTopicsRequest(topics=[topic(name=None, topic_id=each) for each in topic_ids], timeout_ms=10_000)
    return [each.error_code for each in session.controller().call(request).responses]


def read_configs(session: Any, name: str, keys: Sequence[str] | None = None) -> tuple[int, dict[str, tuple[Any, ...]]]:
    """Return the code, and value, source and type of the configs of a topic by key."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    wanted = resource(resource_type=2, resource_name=name, configuration_keys=keys and list(keys))
    request = DescribeConfigsRequest(resources=[wanted], include_synonyms=False, include_documentation=False)
    (result,) = session.any_broker().call(request).results
    return result.error_code, {each.name: (each.value, each.config_source, each.config_type) for each in result.configs}

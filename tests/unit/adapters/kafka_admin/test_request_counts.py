"""The number of requests that one change costs in the steady state: the read, the plan and the write of one session."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import spec
from support.kafka.fake_kafka import FakeKafka, FakeSession, no_hook
from topiarist.adapters.kafka_admin.connection.connection import Connection, Message
from topiarist.adapters.kafka_admin.connection.connector import Address
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.read import sync
from topiarist.kafka.types import TRANSACTIONS_TOPIC
from topiarist.model.access import KafkaAccess
from topiarist.model.outcome import Result
from topiarist.model.spec import TopicSpec
from topiarist.model.state import UNKNOWN

SMALL: dict[str, Any] = {"partitions": 1, "replicationFactor": 2}
OLD = {"retention.ms": 1000000}
BEFORE = spec("a", **SMALL, config=OLD)
CONFIGURED = spec("a", **SMALL, config={"retention.ms": 2000000})

SYNC = Counter(DescribeQuorum=1, ApiVersions=1)
"""The end of the metadata log, and how far the broker is: before each read."""

READ = SYNC + Counter(
    Metadata=2,  # the topic of records; all topics, after their configs
    Fetch=1,  # the records, from a leader that has told their end in a read before
    ListPartitionReassignments=1,  # after the metadata, which have the lists of the last read
    DescribeConfigs=1,  # of all topics
)

READ_AFTER_CHANGES = SYNC + Counter(Metadata=1, ListPartitionReassignments=1, DescribeConfigs=1)
"""What a read costs more if a topic is new or has other replica lists: it is read until two looks at it agree."""

ACQUIRE = Counter(
    Produce=1,  # the claim; its offset shows that nothing was written before it
    InitProducerId=1,  # the fence of earlier runs
    ListOffsets=1,  # nothing was written between claim and fence
)

COMMIT = Counter(AddPartitionsToTxn=1, Produce=1, EndTxn=1)

WRITE = (
    ACQUIRE
    + COMMIT
    + COMMIT
    + SYNC
    + Counter(
        Metadata=2,  # the topic as it is after the intents; the topic of records after the final records
        InitProducerId=1,  # the fence, directly before the request
    )
)

CHANGE = Counter(
    DescribeConfigs=2,  # after the intents, and after the request
    Metadata=1,  # after the request
)
"""What a topic that exists costs more than a new one: the controller confirms a creation with the id of the topic."""

GROWTH = Counter(
    CreatePartitions=2,
    ListPartitionReassignments=1,  # after the intents: a partition that is being moved has another list
)

LATE = SYNC + Counter(
    ApiVersions=1,  # these brokers are behind the controller until they are asked twice
    DescribeConfigs=1,
    Metadata=1,
)
"""What it costs more if the broker that is read does not show the change a moment after it."""


class _MemorySession(FakeSession):
    """A connection that counts all requests."""

    def __init__(self, kafka: FakeKafka) -> None:
        super().__init__(kafka, no_hook)
        self.read_versions = self._count_versions

    def _count_versions(self, timeout: float | None = None) -> Message:
        self.sent.append("ApiVersions")
        return self.kafka.read_versions(timeout)


class _CountedSession(Session):
    """The product's session with its lookups, over one connection to the brokers in memory."""

    def __init__(self, kafka: FakeKafka) -> None:
        super().__init__(KafkaAccess("fake:9092"), 1.0)
        self.kafka = kafka
        self.connection: Any = _MemorySession(kafka)

    def wait_after_change(self, seconds: float) -> None:
        self.connection.wait_after_change(seconds)

    def _connect(self, address: Address) -> Connection:
        return self.connection  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("wanted", "sent", "total", "is_late"),
    [
        (CONFIGURED, CHANGE + Counter(IncrementalAlterConfigs=1), 25, False),
        (CONFIGURED, CHANGE + LATE + Counter(IncrementalAlterConfigs=1), 30, True),
        (spec("a", partitions=2, replicationFactor=2, config=OLD), CHANGE + GROWTH, 27, False),
        (spec("b", **SMALL), Counter(CreateTopics=2), 23, False),
    ],
    ids=["config", "config, a late broker", "growth", "creation"],
)
def test_one_change(
    wanted: TopicSpec, sent: Counter[str], total: int, is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass that reads, plans and makes one change sends these requests, with all lookups, and no other."""
    monkeypatch.setattr(sync, "LIST_SETTLE_S", 0.0)
    kafka = FakeKafka()
    kafka.is_late = is_late
    kafka.coordinator_state.marker_delay = 0.0  # a transaction has ended when its commit is answered
    kafka.cluster.add(TRANSACTIONS_TOPIC, (1, 2, 3))
    session = _CountedSession(kafka)
    cluster = kafka.open(session=session)
    for specs in ([BEFORE], [BEFORE, wanted] if wanted.topic != BEFORE.topic else [wanted]):
        cluster.read()  # a pass without changes
        session.connection.sent.clear()
        kafka.catch_up()
        plan = kafka.plan(*specs, cluster=cluster)
        # New replicas are asked about once, by a request that is validated only: in the plan, or before it is applied.
        unknown = replace(plan.capabilities, replica_lists=UNKNOWN, growth_lists=UNKNOWN)
        assert [each.result for each in kafka.apply(replace(plan, capabilities=unknown), cluster)] == [Result.DONE]
    assert Counter(session.connection.sent) == READ + WRITE + sent
    assert len(session.connection.sent) == total


def _recreate(kafka: FakeKafka) -> None:
    old = kafka.cluster.topics.pop("a")
    kafka.cluster.add("a", *old.replicas)


def _move(kafka: FakeKafka) -> None:
    kafka.cluster.topics["a"] = dataclasses.replace(kafka.cluster.topics["a"], replicas=((3, 2),))


@pytest.mark.parametrize(
    ("change", "more"),
    [
        (lambda kafka: None, Counter()),
        (lambda kafka: kafka.cluster.change("a", retention_ms="7"), Counter()),
        (lambda kafka: kafka.cluster.topics.pop("a"), Counter(Metadata=1)),  # whether the id of its record is hidden
        (lambda kafka: kafka.cluster.add("new", (1, 2)), READ_AFTER_CHANGES),
        (_recreate, READ_AFTER_CHANGES),
        (_move, READ_AFTER_CHANGES),
    ],
    ids=["nothing", "config", "deletion", "creation", "recreation", "move"],
)
def test_a_session_that_knows_the_cluster_reads_what_a_new_one_reads(
    change: Callable[[FakeKafka], object], more: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever other clients did since its last read; and it costs more only if metadata changed."""
    monkeypatch.setattr(sync, "LIST_SETTLE_S", 0.0)
    kafka = FakeKafka()
    kafka.cluster.add(TRANSACTIONS_TOPIC, (1, 2, 3))
    list(kafka.apply(kafka.plan(BEFORE, spec("b", **SMALL))))
    session = _CountedSession(kafka)
    cluster = kafka.open(session=session)
    cluster.read()
    change(kafka)
    kafka.catch_up()
    session.connection.sent.clear()
    assert cluster.read() == kafka.read()
    assert Counter(session.connection.sent) == READ + more

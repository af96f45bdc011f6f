"""Brokers in memory that create the topic of records as services do: refusing what is asked for, or ignoring it.

kafka = SERVICES["ccloud"]()
kafka.apply(...)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from support.kafka.controller_checks import ACCEPTED, POLICY_VIOLATION, Verdict
from support.kafka.fake_kafka import FakeKafka
from support.kafka.memory_records import RECORDS
from topiarist.adapters.kafka_admin.protocol.messages import CreateTopicsRequest

_TAKEN = frozenset({"cleanup.policy", "compression.type", "max.message.bytes", "message.timestamp.type"})
"""The configs that one service takes of those of the topic of records."""


def _place(topic: Any, count: int, factor: int) -> None:
    """Let the brokers place a topic of this size."""
    wanted = CreateTopicsRequest.CreatableTopic.CreatableReplicaAssignment
    brokers = [1, 2, 3][:factor]
    topic.assignments = [wanted(partition_index=number, broker_ids=brokers) for number in range(count)]
    topic.num_partitions = topic.replication_factor = -1


def _refuse_configs(topic: Any) -> Verdict:
    wrong = [each.name for each in topic.configs if each.name not in _TAKEN]
    return (POLICY_VIOLATION, f"Not allowed to set config: {wrong[0]}") if wrong else ACCEPTED


def _refuse_lists(topic: Any) -> Verdict:
    """Refuse replica lists; carry out a number of replicas, which the brokers in memory take as lists alone."""
    if topic.assignments:
        return POLICY_VIOLATION, "Replica assignments are not allowed"
    _place(topic, topic.num_partitions, 3 if topic.replication_factor < 0 else topic.replication_factor)
    return ACCEPTED


def _refuse_both(topic: Any) -> Verdict:
    verdict = _refuse_configs(topic)
    return _refuse_lists(topic) if verdict == ACCEPTED else verdict


def _make_ten_partitions(topic: Any) -> Verdict:
    _place(topic, 10, 3)
    return ACCEPTED


def _make_one_replica(topic: Any) -> Verdict:
    _place(topic, 1, 1)
    return ACCEPTED


def _build(reshape: Callable[[Any], Verdict]) -> Callable[[], FakeKafka]:
    def build() -> FakeKafka:
        kafka = FakeKafka()
        kafka.cluster.reshape = lambda topic: reshape(topic) if topic.name == RECORDS else ACCEPTED
        return kafka

    return build


SERVICES: Mapping[str, Callable[[], FakeKafka]] = {
    "kafka": FakeKafka,
    "serverless": _build(_refuse_configs),
    "ccloud": _build(_refuse_lists),
    "both": _build(_refuse_both),
    "ignore": _build(_make_ten_partitions),
    "rf1": _build(_make_one_replica),
}
"""Brokers by what they do to the creation of the topic of records; other topics are created as Apache Kafka does."""

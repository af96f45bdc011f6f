"""The Admin requests of moves, elections and throttles, and the elements of their answers.

Every element is read: an answer as a whole has no error if single partitions have one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from kafka.protocol.admin.configs import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from kafka.protocol.admin.topics import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)

from topiarist.adapters.kafka_admin.connection.connection import Message
from topiarist.adapters.kafka_admin.write.answers import Element
from topiarist.adapters.kafka_admin.write.requests import ADMIN_TIMEOUT_MS
from topiarist.model.moves import ReplicaMove
from topiarist.model.state import Reassignment

Partition = tuple[str, int]

PREFERRED_LEADER_NOT_AVAILABLE, ELECTION_NOT_NEEDED = 80, 84

_SET, _DELETE, _PREFERRED = 0, 1, 0
_RESOURCES = {"topics": 2, "brokers": 4}
_OVERRIDE_SOURCES = {"topics": 1, "brokers": 2}
"""The source of a value that is set for the entity itself, by the kind of the entity."""


def build_reassignments(moves: Iterable[ReplicaMove]) -> Message:
    """Return the request that begins these moves. A target that is set already is set again, without effect."""
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    return AlterPartitionReassignmentsRequest(
        timeout_ms=ADMIN_TIMEOUT_MS,
        allow_replication_factor_change=True,
        topics=[
            topic(
                name=name,
                partitions=[
                    topic.ReassignablePartition(partition_index=move.partition, replicas=list(move.after))
                    for move in of_topic
                ],
            )
            for name, of_topic in groupby(sorted(moves), key=lambda move: move.topic)
        ],
    )


def read_reassignments_answer(answer: Message, asked: Iterable[Partition]) -> Mapping[Partition, Element]:
    """Return the element of each partition; an error of the whole answer is that of each partition."""
    if answer.error_code:
        return dict.fromkeys(asked, Element(answer.error_code, answer.error_message or ""))
    found = {
        (topic.name, each.partition_index): Element(each.error_code, each.error_message or "")
        for topic in answer.responses
        for each in topic.partitions
    }
    return {key: found.get(key, Element(None)) for key in asked}


def build_list_reassignments() -> Message:
    """Return the request for all partitions that are being reassigned."""
    return ListPartitionReassignmentsRequest(timeout_ms=ADMIN_TIMEOUT_MS, topics=None)


def read_list_answer(answer: Message) -> Mapping[Partition, Reassignment]:
    """Return the partitions that are being reassigned; the caller has read the error of the answer."""
    return {
        (topic.name, each.partition_index): Reassignment(tuple(each.adding_replicas), tuple(each.removing_replicas))
        for topic in answer.topics
        for each in topic.partitions
    }


def build_elections(partitions: Iterable[Partition]) -> Message:
    """Return the request that elects the preferred leaders of these partitions."""
    topic = ElectLeadersRequest.TopicPartitions
    return ElectLeadersRequest(
        election_type=_PREFERRED,
        topic_partitions=[
            topic(topic=name, partitions=[partition for _, partition in of_topic])
            for name, of_topic in groupby(sorted(partitions), key=lambda each: each[0])
        ],
        timeout_ms=ADMIN_TIMEOUT_MS,
    )


def read_elections_answer(answer: Message, asked: Iterable[Partition]) -> Mapping[Partition, Element]:
    """Return the element of each partition; an error of the whole answer is that of each partition."""
    if answer.error_code:
        return dict.fromkeys(asked, Element(answer.error_code))
    found = {
        (result.topic, each.partition_id): Element(each.error_code, each.error_message or "")
        for result in answer.replica_election_results
        for each in result.partition_result
    }
    return {key: found.get(key, Element(None)) for key in asked}


def build_describe_configs(entities: Iterable[str], keys: Sequence[str]) -> Message:
    """Return the request for these configs of entities, such as ``topics/orders`` and ``brokers/5``."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    return DescribeConfigsRequest(
        resources=[
            resource(resource_type=_RESOURCES[kind], resource_name=name, configuration_keys=list(keys))
            for kind, _, name in (entity.partition("/") for entity in entities)
        ],
        include_synonyms=False,
        include_documentation=False,
    )


def read_describe_answer(answer: Message) -> Iterable[tuple[str, Element, Message]]:
    """Yield each entity of the answer, its error, and its configs."""
    kinds = {number: kind for kind, number in _RESOURCES.items()}
    for result in answer.results:
        entity = f"{kinds.get(result.resource_type, '')}/{result.resource_name}"
        yield entity, Element(result.error_code, result.error_message or ""), result.configs


def find_overrides(entity: str, configs: Message) -> Mapping[str, str]:
    """Return the values that are set for the entity itself."""
    source = _OVERRIDE_SOURCES[entity.partition("/")[0]]
    return {each.name: each.value for each in configs if each.config_source == source and each.value is not None}


def build_config_changes(changes: Mapping[str, Mapping[str, str | None]]) -> Message:
    """Return the request that sets config keys of entities, or removes them (None)."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    return IncrementalAlterConfigsRequest(
        resources=[
            resource(
                resource_type=_RESOURCES[entity.partition("/")[0]],
                resource_name=entity.partition("/")[2],
                configs=[
                    resource.AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
                    for key, value in sorted(values.items())
                ],
            )
            for entity, values in sorted(changes.items())
        ],
        validate_only=False,
    )


def read_config_changes_answer(answer: Message, asked: Iterable[str]) -> Mapping[str, Element]:
    """Return the element of each entity."""
    kinds = {number: kind for kind, number in _RESOURCES.items()}
    found = {
        f"{kinds.get(each.resource_type, '')}/{each.resource_name}": Element(each.error_code, each.error_message or "")
        for each in answer.responses
    }
    return {entity: found.get(entity, Element(None)) for entity in asked}

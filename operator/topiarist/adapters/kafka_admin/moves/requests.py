"""The Admin requests of moves and elections, and the elements of their answers.

Every element is read: an answer as a whole has no error if single partitions have one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from kafka.protocol.admin.topics import AlterPartitionReassignmentsRequest, ElectLeadersRequest

from topiarist.adapters.kafka_admin.connection.connection import Message
from topiarist.adapters.kafka_admin.write.answers import Element, collect_elements
from topiarist.adapters.kafka_admin.write.requests import ADMIN_TIMEOUT_MS
from topiarist.model.moves import ReplicaMove

Partition = tuple[str, int]

PREFERRED_LEADER_NOT_AVAILABLE, ELECTION_NOT_NEEDED = 80, 84

_PREFERRED = 0


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
    found = (((topic.name, each.partition_index), each) for topic in answer.responses for each in topic.partitions)
    return collect_elements(found, asked)


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
    results = answer.replica_election_results
    return collect_elements(
        (((result.topic, each.partition_id), each) for result in results for each in result.partition_result), asked
    )

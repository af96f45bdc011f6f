"""Read the bytes of replicas from the log directories of the brokers.

The size of a replica is that of its ``.log`` files, as stored: without indexes, and without what is in remote storage.
Before Kafka 2.6 a broker answers without an error and without a directory if the right is missing, so directories count
as proof of the right: a broker has at least one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kafka.protocol.admin.cluster import DescribeLogDirsRequest
from msgspec import Struct, field

from topiarist.adapters.kafka_admin.usage.offsets import Partition
from topiarist.adapters.kafka_admin.usage.requests import UsageRequests


class Sizes(Struct):
    """The bytes of each replica by partition and broker; ``described`` are the brokers that named a directory."""

    replicas: dict[tuple[Partition, int], int] = field(default_factory=dict)
    described: set[int] = field(default_factory=set)


def read_sizes(requests: UsageRequests, brokers: Sequence[int], partitions: Collection[Partition] | None) -> Sizes:
    """Return the bytes of the replicas of ``partitions`` (None: of all) on all brokers."""
    topic_class = DescribeLogDirsRequest.DescribableLogDirTopic
    wanted = None
    if partitions is not None:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        wanted = [topic_class(topic=topic, partitions=numbers) for topic, numbers in by_topic.items()]
    result = Sizes()
    for broker in brokers:
        answer = requests.ask("DescribeLogDirs", broker, DescribeLogDirsRequest(topics=wanted))
        if answer is None:
            continue
        if code := getattr(answer, "error_code", 0):
            requests.note("DescribeLogDirs", broker, code)
            continue
        for directory in answer.results:
            if directory.error_code:  # an offline directory: the sizes of its replicas are not known
                requests.note("DescribeLogDirs", broker, directory.error_code)
                continue
            result.described.add(broker)
            for topic in directory.topics:
                for each in topic.partitions:
                    if not each.is_future_key:  # a copy that moves to another directory of the broker
                        result.replicas[(topic.name, each.partition_index), broker] = each.partition_size
    return result

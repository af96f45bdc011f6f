"""Reassignments that stay in progress: Kafka's own throttle delays partitions until the test releases them.

A throttle delays nothing before the first message has arrived. So each partition gets many messages, as large as one
fetch of a broker, and needs minutes to catch up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from support.kafka.kafka_fixture import KafkaFixture

THROTTLED = "follower.replication.throttled.replicas"

_MESSAGE, _MESSAGES = "x" * 900_000, 20


@contextmanager
def throttled_reassignment(bed: KafkaFixture, targets: Mapping[str, Sequence[int]]) -> Iterator[None]:
    """Start a reassignment of partition 0 of topics that can finish only after the end of the block.

    The limit applies to whole brokers: only one block at a time.
    """
    for _ in range(_MESSAGES):
        bed.write_messages(dict.fromkeys(targets, (0,)), _MESSAGE)
    assert bed.clients.throttle(1) == {}
    assert bed.clients.alter({topic: {THROTTLED: "*"} for topic in targets}) == {}
    try:
        bed.kafka.wait(lambda: _all_brokers_know_throttle(bed, targets), "all brokers to know the throttle")
        assert bed.clients.reassign({topic: {0: list(replicas)} for topic, replicas in targets.items()}) == {}
        bed.kafka.wait(
            lambda: bed.clients.ongoing_reassignments().keys() >= targets.keys(), "the reassignments to begin"
        )
        yield
    finally:
        assert bed.clients.throttle(None) == {}


def wait_for_reassignments(bed: KafkaFixture) -> None:
    """Wait until no reassignment is in progress."""
    bed.kafka.wait(lambda: not bed.clients.ongoing_reassignments(), "all reassignments to be done")


def _all_brokers_know_throttle(bed: KafkaFixture, topics: Iterable[str]) -> bool:
    """Return True if each broker has loaded the topics' configs.

    A broker loads changes one by one, and its own limit before the topics' configs.
    """
    said = [f"Processing override for entityPath: topics/{topic} with config" for topic in topics]
    logs = [broker.read_log() for broker in bed.kafka.brokers.values() if broker.alive]
    return all(words in log for words in said for log in logs)

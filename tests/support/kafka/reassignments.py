"""Reassignments that last: Kafka's own throttle holds partitions back until they are let go.

A throttle holds nothing back before the first message has come: so each partition gets many, as large as a broker
fetches at once, and takes minutes to follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from support.kafka.kafka_fixture import KafkaFixture

THROTTLED = "follower.replication.throttled.replicas"

_MESSAGE, _MESSAGES = "x" * 900_000, 20


@contextmanager
def throttled_reassignment(bed: KafkaFixture, targets: Mapping[str, Sequence[int]]) -> Iterator[None]:
    """Let Kafka begin to move partition 0 of topics to other brokers; with the end of the block they may get there.

    The limit is that of the brokers: one block at a time.
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
    """Wait until nothing is being reassigned any more."""
    bed.kafka.wait(lambda: not bed.clients.ongoing_reassignments(), "all reassignments to be done")


def _all_brokers_know_throttle(bed: KafkaFixture, topics: Iterable[str]) -> bool:
    """Whether each broker has taken up the topics' configs: it hears of changes one by one, of its own limit before."""
    said = [f"Processing override for entityPath: topics/{topic} with config" for topic in topics]
    logs = [broker.read_log() for broker in bed.kafka.brokers.values() if broker.alive]
    return all(words in log for words in said for log in logs)

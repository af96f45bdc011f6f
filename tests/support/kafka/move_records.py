"""Records of topiarist in memory, and a sync, for tests that move replicas of real brokers.

``MoveRecordsInMemory`` outlives a run as the topic of records does: a test ends a run, and begins another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from kafka.protocol.admin import DescribeQuorumRequest

from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.moves.interfaces import MoveRecords
from topiarist.adapters.kafka_admin.records.values import TopicRecord
from topiarist.model.moves import BatchRecord


class MoveRecordsInMemory:
    """The records of topics and of moves; ``commits`` are the records of moves in the order of their commits."""

    def __init__(self, topics: Mapping[str, TopicRecord]) -> None:
        self.topics = dict(topics)
        self.batch: BatchRecord | None = None
        self.commits: list[BatchRecord | None] = []
        self.is_held = False
        self.before_request: Callable[[], None] = lambda: None

    def read(self) -> MoveRecords:
        """Return the records."""
        return MoveRecords(self.topics, self.batch)

    def acquire(self, stop: Callable[[], bool]) -> MoveRecords | None:
        """Return the records; None if the run is stopped."""
        assert not self.is_held
        if stop():
            return None
        self.is_held = True
        return self.read()

    def commit_batch(self, batch: BatchRecord | None, *, hold: bool) -> None:
        """Keep the record."""
        assert self.is_held
        self.batch, self.is_held = batch, hold
        self.commits.append(batch)

    def require_fence(self) -> None:
        """Check that the lock is held, and run ``before_request``."""
        assert self.is_held
        self.before_request()

    def release(self) -> None:
        """Give up the lock."""
        self.is_held = False


def sync(session: Session) -> None:
    """Return when the broker that is read serves metadata that are not older than this call."""
    topic = DescribeQuorumRequest.TopicData
    request = DescribeQuorumRequest(
        topics=[topic(topic_name="__cluster_metadata", partitions=[topic.PartitionData(partition_index=0)])]
    )
    connection = session.any_broker()
    answer = connection.call(request)
    wanted = answer.topics[0].partitions[0].high_watermark - 1
    deadline = time.monotonic() + 60
    while connection.read_versions().finalized_features_epoch < wanted:
        assert time.monotonic() < deadline
        time.sleep(0.01)

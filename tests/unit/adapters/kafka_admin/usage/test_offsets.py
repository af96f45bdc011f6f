"""The offsets of partitions: what each of the four questions asks for, and leaders that have changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from topiarist.adapters.kafka_admin.protocol.messages import ListOffsetsRequest
from topiarist.adapters.kafka_admin.usage.groups import UsageRequests
from topiarist.adapters.kafka_admin.usage.reader import PARTITIONS_PER_REQUEST, Offsets, Partition, read_offsets
from topiarist.model.usage import UsageProblem
from unit.adapters.kafka_admin.scripted_session import LOST, ScriptedSession, reply

LATEST, EARLIEST, NEWEST, OLDEST = -1, -2, -3, 0

LOG: Mapping[Partition, Mapping[int, tuple[int, int]]] = {
    ("a", 0): {LATEST: (10, -1), EARLIEST: (4, -1), OLDEST: (4, 100), NEWEST: (9, 900)},
    ("a", 1): {LATEST: (7, -1), EARLIEST: (7, -1)},
    ("b", 0): {LATEST: (1, -1), EARLIEST: (0, -1), OLDEST: (0, 0), NEWEST: (0, -1)},
}
"""Offset and time by timestamp; the second partition is empty, and the record of the third has no time."""


class Brokers:
    """Brokers with the log above; ``codes`` has error codes that are answered once, by broker and partition."""

    def __init__(self, codes: Mapping[tuple[int, Partition], list[int]] | None = None) -> None:
        self.codes = dict(codes or {})
        self.asked: list[tuple[int, int, list[Partition]]] = []

    def __call__(self, broker: int, request: Any) -> Any:
        """Answer ListOffsets."""
        asked = [(topic.name, each) for topic in request.topics for each in topic.partitions]
        timestamps = {each.timestamp for _, each in asked}
        assert len(timestamps) == 1
        assert (request.replica_id, request.isolation_level) == (-1, 0)
        assert all(each.current_leader_epoch == -1 for _, each in asked)
        timestamp = timestamps.pop()
        self.asked.append((broker, timestamp, [(name, each.partition_index) for name, each in asked]))
        return reply(
            topics=[
                reply(
                    name=topic.name,
                    partitions=[
                        self._answer(broker, (topic.name, each.partition_index), timestamp) for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _answer(self, broker: int, key: Partition, timestamp: int) -> Any:
        codes = self.codes.get((broker, key), [])
        code = codes.pop(0) if codes else 0
        offset, time = (-1, -1) if code else LOG[key].get(timestamp, (-1, -1))
        return reply(partition_index=key[1], error_code=code, offset=offset, timestamp=time)


LEADERS: Mapping[Partition, int] = {("a", 0): 1, ("a", 1): 2, ("b", 0): 1, ("gone", 0): -1}


def read(
    session: ScriptedSession, moved: Mapping[Partition, int] | None = None
) -> tuple[Offsets, list[UsageProblem], int]:
    """Return the offsets, the problems, and how often the leaders were asked for again."""
    requests, asked = UsageRequests(session), []

    def find_leaders() -> Mapping[Partition, int]:
        asked.append(1)
        return moved or {}

    offsets = read_offsets(requests, LEADERS, find_leaders)
    return offsets, requests.problems, len(asked)


def test_all_offsets_and_times() -> None:
    """Each leader is asked for its partitions, and only partitions with records for the times of these."""
    brokers = Brokers()
    offsets, problems, again = read(ScriptedSession({"ListOffsets": brokers}))
    assert offsets.ends == {("a", 0): 10, ("a", 1): 7, ("b", 0): 1}
    assert offsets.begins == {("a", 0): 4, ("a", 1): 7, ("b", 0): 0}
    assert offsets.oldest == {("a", 0): 100, ("b", 0): 0}
    assert offsets.newest == {("a", 0): 900}
    assert (problems, again) == ([], 0)
    assert brokers.asked == [
        (1, LATEST, [("a", 0), ("b", 0)]),
        (2, LATEST, [("a", 1)]),
        (1, EARLIEST, [("a", 0), ("b", 0)]),
        (2, EARLIEST, [("a", 1)]),
        (1, OLDEST, [("a", 0), ("b", 0)]),
        (1, NEWEST, [("a", 0), ("b", 0)]),
    ]


@pytest.mark.parametrize(("version", "is_asked"), [(6, False), (7, True)])
def test_the_newest_time_needs_kafka_3(version: int, is_asked: bool) -> None:
    """Older brokers would answer with the oldest record, so the newest is not asked for."""
    brokers = Brokers()
    session = ScriptedSession({"ListOffsets": brokers})
    session.versions["ListOffsets"] = version
    offsets = read(session)[0]
    assert (offsets.newest != {}) is is_asked
    assert (NEWEST in {timestamp for _, timestamp, _ in brokers.asked}) is is_asked


def test_a_leader_that_has_changed_is_found_again() -> None:
    """Only the partition that moved is asked for once more, at its new leader; a second change is a problem."""
    brokers = Brokers({(1, ("a", 0)): [6]})
    offsets, problems, again = read(ScriptedSession({"ListOffsets": brokers}), {("a", 0): 3, ("b", 0): 2})
    assert (offsets.ends["a", 0], problems, again) == (10, [], 1)
    assert brokers.asked[2] == (3, LATEST, [("a", 0)])
    assert (1, EARLIEST, [("b", 0)]) in brokers.asked
    brokers = Brokers({(1, ("a", 0)): [6], (3, ("a", 0)): [5]})
    offsets, problems, again = read(ScriptedSession({"ListOffsets": brokers}), {("a", 0): 3})
    assert ("a", 0) not in offsets.ends
    assert (problems, again) == ([UsageProblem("ListOffsets", 3, 6)], 1)
    brokers = Brokers({(1, ("a", 0)): [6]})
    offsets, problems, _ = read(ScriptedSession({"ListOffsets": brokers}))
    assert ("a", 0) not in offsets.ends
    assert problems == []


def test_refused_partitions_are_problems() -> None:
    """A right that is missing is noted, and is not worth another question."""
    brokers = Brokers({(2, ("a", 1)): [29]})
    offsets, problems, again = read(ScriptedSession({"ListOffsets": brokers}))
    assert ("a", 1) not in offsets.ends
    assert (problems, again) == ([UsageProblem("ListOffsets", 2, 29)], 0)


def test_a_broker_without_an_answer() -> None:
    """Its partitions are not known, and the others are."""
    brokers = Brokers()

    def answer(broker: int, request: Any) -> Any:
        if broker == 1:
            raise LOST
        return brokers(broker, request)

    offsets, problems, _ = read(ScriptedSession({"ListOffsets": answer}))
    assert offsets.ends == {("a", 1): 7}
    assert {(each.broker, each.error) for each in problems} == {(1, 13)}


def test_large_requests_are_split() -> None:
    """A request has at most 500 partitions."""
    sizes = []

    def answer(_broker: int, request: Any) -> Any:
        sizes.append(sum(len(topic.partitions) for topic in request.topics))
        return reply(topics=[])

    requests = UsageRequests(ScriptedSession({"ListOffsets": answer}))
    read_offsets(requests, {("a", number): 1 for number in range(PARTITIONS_PER_REQUEST + 1)}, dict)
    assert sizes == [500, 1]


def test_a_request_of_offsets() -> None:
    """Partitions are grouped by topic; nothing but committed and uncommitted records up to the end is meant."""
    session = ScriptedSession({"ListOffsets": reply(topics=[])})
    read_offsets(UsageRequests(session), {("a", 0): 1, ("b", 3): 1, ("a", 2): 1}, dict)
    topic = ListOffsetsRequest.ListOffsetsTopic
    assert [each.request for each in session.sent] == [
        ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            timeout_ms=10_000,
            topics=[
                topic(
                    name=name,
                    partitions=[
                        topic.ListOffsetsPartition(partition_index=each, timestamp=LATEST, current_leader_epoch=-1)
                        for each in numbers
                    ],
                )
                for name, numbers in (("a", (0, 2)), ("b", (3,)))
            ],
        )
    ]


def test_an_offset_that_the_broker_does_not_know() -> None:
    """It answers -1 without an error: that is no offset."""
    answer = reply(partition_index=0, error_code=0, offset=-1, timestamp=-1)
    session = ScriptedSession({"ListOffsets": reply(topics=[reply(name="a", partitions=[answer])])})
    assert read_offsets(UsageRequests(session), {("a", 0): 1}, dict) == Offsets()

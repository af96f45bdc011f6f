"""Read the offsets of partitions: begin and end, and the times of the oldest and the newest record.

The times are the producers' claims. The newest one is asked for by a special timestamp that brokers before Kafka 3.0 do
not know: they would answer with the oldest record and no error, so the version decides whether it is sent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from kafka.protocol.consumer.offsets import ListOffsetsRequest
from msgspec import Struct, field

from topiarist.adapters.kafka_admin.usage.requests import UsageRequests, chunks, is_temporary

Partition = tuple[str, int]

PARTITIONS_PER_REQUEST = 500

_LATEST, _EARLIEST, _NEWEST, _OLDEST = -1, -2, -3, 0
_NEWEST_VERSION = 7
_TIMEOUT_MS = 10_000


class Offsets(Struct):
    """Offsets and times in ms by topic and partition; what is not there is not known."""

    ends: dict[Partition, int] = field(default_factory=dict)
    begins: dict[Partition, int] = field(default_factory=dict)
    oldest: dict[Partition, int] = field(default_factory=dict)
    newest: dict[Partition, int] = field(default_factory=dict)


def read_offsets(
    requests: UsageRequests, leaders: Mapping[Partition, int], find_leaders: Callable[[], Mapping[Partition, int]]
) -> Offsets:
    """Return the offsets of the partitions with a leader; ``find_leaders`` is called once if leaders have changed."""
    result = Offsets()
    moved = _list(requests, leaders, leaders, _LATEST, result.ends)
    if moved:
        current = find_leaders()
        leaders = {each: current.get(each, -1) if each in moved else leader for each, leader in leaders.items()}
        for each in _list(requests, moved, leaders, _LATEST, result.ends):
            requests.note("ListOffsets", leaders[each], 6)
    _list(requests, result.ends, leaders, _EARLIEST, result.begins)
    filled = [each for each, begin in result.begins.items() if result.ends[each] > begin]
    for timestamp, times in ((_OLDEST, result.oldest), (_NEWEST, result.newest)):
        _list(requests, filled, leaders, timestamp, {}, times)
    return result


def _list(
    requests: UsageRequests,
    partitions: Iterable[Partition],
    leaders: Mapping[Partition, int],
    timestamp: int,
    offsets: dict[Partition, int],
    times: dict[Partition, int] | None = None,
) -> list[Partition]:
    """Add the offset, and the time if it is wanted, of each partition; return those with another leader now."""
    moved: list[Partition] = []
    by_leader: defaultdict[int, list[Partition]] = defaultdict(list)
    for each in partitions:
        if leaders[each] >= 0:
            by_leader[leaders[each]].append(each)
    topic_class = ListOffsetsRequest.ListOffsetsTopic
    for broker, wanted in by_leader.items():
        if timestamp == _NEWEST and requests.version_of(broker, ListOffsetsRequest()) < _NEWEST_VERSION:
            continue
        for part in chunks(wanted, PARTITIONS_PER_REQUEST):
            by_topic: defaultdict[str, list[int]] = defaultdict(list)
            for topic, partition in part:
                by_topic[topic].append(partition)
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=0,
                timeout_ms=_TIMEOUT_MS,
                topics=[
                    topic_class(
                        name=topic,
                        partitions=[
                            topic_class.ListOffsetsPartition(
                                partition_index=each, timestamp=timestamp, current_leader_epoch=-1
                            )
                            for each in numbers
                        ],
                    )
                    for topic, numbers in by_topic.items()
                ],
            )
            answer = requests.ask("ListOffsets", broker, request)
            for topic in answer.topics if answer else ():
                for each in topic.partitions:
                    key = topic.name, each.partition_index
                    if is_temporary(each.error_code):
                        moved.append(key)
                    elif each.error_code:
                        requests.note("ListOffsets", broker, each.error_code)
                    else:
                        if each.offset >= 0:
                            offsets[key] = each.offset
                        if times is not None and each.timestamp >= 0:
                            times[key] = each.timestamp
    return moved

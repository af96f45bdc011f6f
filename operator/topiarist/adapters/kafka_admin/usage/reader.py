"""Read the usage of topics from all brokers of a cluster, and say how complete it is.

The port ``UsageReader``: ``snapshot --evidence`` reads all topics, and a run that deletes topics reads those directly
before the deletion. The read is complete only if no group can be missing. A broker that left takes its groups along
without an error, and the one sign is a partition of the committed offsets without a leader, so these partitions must
have the same leaders before and after. Without the right Describe on the cluster a broker lists fewer groups without an
error, and its log directories tell that the right is there.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec import Struct, field

from topiarist.adapters.kafka_admin.connection.connection import translate_errors
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.protocol.messages import DescribeLogDirsRequest, ListOffsetsRequest
from topiarist.adapters.kafka_admin.read.configs import BROKER_RESOURCE, build_describe_configs
from topiarist.adapters.kafka_admin.read.metadata import ClusterMetadata, TopicMetadata, decode_metadata
from topiarist.adapters.kafka_admin.usage.groups import (
    TIME_LIMIT_S,
    GroupReader,
    Groups,
    UsageRequests,
    chunks,
    is_temporary,
)
from topiarist.model.access import KafkaAccess
from topiarist.model.state import NO_LEADER
from topiarist.model.usage import Evidence, TopicSample, UsageRead, add_known
from topiarist.ports import Closable
from topiarist.usage import TopicGroup, add_groups

# Read the offsets of partitions: begin and end, and the times of the oldest and the newest record.
#
# The times are the producers' claims. The newest one is asked for by a special timestamp that brokers before Kafka 3.0
# do not know: they would answer with the oldest record and no error, so the version decides whether it is sent.

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
                timeout_ms=_TIMEOUT_MS,
                topics=[
                    topic_class(
                        name=topic,
                        partitions=[
                            topic_class.ListOffsetsPartition(partition_index=each, timestamp=timestamp)
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


# Read the bytes of replicas from the log directories of the brokers.
#
# The size of a replica is that of its ``.log`` files, as stored: without indexes, and without what is in remote
# storage. Before Kafka 2.6 a broker answers without an error and without a directory if the right is missing, so
# directories count as proof of the right: a broker has at least one.


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
        if answer.error_code:
            requests.note("DescribeLogDirs", broker, answer.error_code)
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


_OFFSETS_TOPIC = "__consumer_offsets"
_RETENTION_CONFIG = "offsets.retention.minutes"


class KafkaUsageReader(Closable):
    """The connections for reading usage. Use as a context manager, or call ``close``.

    Raises ``Unreachable`` if no broker answers in time, ``CredentialsInvalid`` and ``AuthenticationFailed`` if the
    login fails.
    """

    def __init__(self, access: KafkaAccess, connect_timeout: float = 10.0, time_limit: float = TIME_LIMIT_S) -> None:
        self._session = Session(access, connect_timeout, accepts_old_brokers=True)
        self._time_limit = time_limit
        self._session.any_broker()

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    @property
    def requests(self) -> Mapping[tuple[str, str], int]:
        """Return the number of requests so far, by name and result."""
        return self._session.requests

    def read_cluster_id(self) -> str:
        """Return the cluster id."""
        with translate_errors():
            return decode_metadata(self._session.read_metadata([])).cluster_id

    def read(self, topics: Collection[str] | None = None) -> UsageRead:
        """Return the usage of topics that exist, None: of all but Kafka's own.

        Sends no request that writes. Whatever a broker does not answer is None, and a problem of the evidence. Raises
        ``Unreachable`` if no broker answers at all.
        """
        with translate_errors():
            return self._read(topics)

    def _read(self, topics: Collection[str] | None) -> UsageRead:
        requests = UsageRequests(self._session, self._time_limit)
        read_at = int(time.time())
        before = self._read_metadata()
        brokers = [broker.id for broker in before.brokers]
        names = [name for name in before.topics if name != _OFFSETS_TOPIC and (topics is None or name in topics)]
        partitions = [(name, each) for name in names for each in before.topics[name].partitions]
        groups = GroupReader(requests, brokers).read()
        leaders = _leaders(before)
        offsets = read_offsets(
            requests, {each: leaders[each] for each in partitions}, lambda: _leaders(self._read_metadata())
        )
        sizes = read_sizes(requests, brokers, None if topics is None else partitions)
        retention = self._read_retention(requests, brokers)
        after = self._read_metadata()
        is_complete = (
            bool(brokers)
            and groups.answered == set(brokers)
            and sizes.described == set(brokers)
            and _coordinators(before) == _coordinators(after)
            and NO_LEADER not in _coordinators(after).values()
        )
        evidence = Evidence(
            read_at,
            brokers_asked=len(brokers),
            brokers_answered=len(groups.answered),
            groups=groups.listed_count,
            groups_unread=groups.unread_count,
            groups_opaque=sum(group.is_opaque for group in groups.groups.values()),
            groups_complete=is_complete,
            retention_minutes=retention,
            problems=tuple(requests.problems),
            more_problems=requests.more_problems,
        )
        by_topic = _group_by_topic(groups)
        samples = {
            name: add_groups(_build_sample(before.topics[name], offsets, sizes), by_topic.get(name, ()))
            for name in names
        }
        return UsageRead(evidence, samples)

    def _read_metadata(self) -> ClusterMetadata:
        return decode_metadata(self._session.read_metadata())

    def _read_retention(self, requests: UsageRequests, brokers: Sequence[int]) -> int | None:
        """Return ``offsets.retention.minutes`` of the first broker that tells it; None without the right."""
        for broker in brokers:
            request = build_describe_configs([str(broker)], [_RETENTION_CONFIG], resource=BROKER_RESOURCE)
            answer = requests.ask("DescribeConfigs", broker, request)
            for result in answer.results if answer else ():
                values = [each.value for each in result.configs if each.name == _RETENTION_CONFIG]
                if result.error_code:
                    requests.note("DescribeConfigs", broker, result.error_code)
                    return None
                if values and str(values[0]).isdigit():
                    return int(values[0])
        return None


def _leaders(metadata: ClusterMetadata) -> Mapping[Partition, int]:
    return {
        (name, number): each.leader
        for name, topic in metadata.topics.items()
        for number, each in topic.partitions.items()
    }


def _coordinators(metadata: ClusterMetadata) -> Mapping[int, int]:
    """Return the leader of each partition of the committed offsets; empty if no group was ever used."""
    topic = metadata.topics.get(_OFFSETS_TOPIC)
    return {number: each.leader for number, each in topic.partitions.items()} if topic else {}


def _build_sample(topic: TopicMetadata, offsets: Offsets, sizes: Sizes) -> TopicSample:
    keys = [(topic.name, number) for number in range(max(topic.partitions, default=-1) + 1)]
    leaders = [topic.partitions[number].leader if number in topic.partitions else NO_LEADER for _, number in keys]
    replicas = [
        sizes.replicas.get(((topic.name, number), broker))
        for number, each in topic.partitions.items()
        for broker in each.replicas
    ]
    return TopicSample(
        topic_id=topic.topic_id,
        ends=tuple(offsets.ends.get(key) for key in keys),
        begins=tuple(offsets.begins.get(key) for key in keys),
        sizes=tuple(sizes.replicas.get((key, leader)) for key, leader in zip(keys, leaders, strict=True)),
        all_bytes=add_known(tuple(replicas)),
        oldest=tuple(offsets.oldest.get(key) for key in keys),
        newest=tuple(offsets.newest.get(key) for key in keys),
    )


def _group_by_topic(groups: Groups) -> Mapping[str, Sequence[TopicGroup]]:
    """Return the groups with a member or an offset of each topic."""
    result: defaultdict[str, list[TopicGroup]] = defaultdict(list)
    for group in groups.groups.values():
        for topic in dict.fromkeys((*group.members, *group.offsets)):
            result[topic].append(
                TopicGroup(group.group, group.type, group.members[topic], group.offsets.get(topic, {}))
            )
    return result

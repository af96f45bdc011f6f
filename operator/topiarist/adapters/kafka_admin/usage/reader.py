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
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Self

from kafka.protocol.admin.configs import DescribeConfigsRequest

from topiarist.adapters.kafka_admin.connection.connection import translate_errors
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.read.configs import BROKER_RESOURCE
from topiarist.adapters.kafka_admin.read.metadata import ClusterMetadata, TopicMetadata, decode_metadata
from topiarist.adapters.kafka_admin.usage.groups import GroupReader, Groups
from topiarist.adapters.kafka_admin.usage.offsets import Offsets, Partition, read_offsets
from topiarist.adapters.kafka_admin.usage.requests import TIME_LIMIT_S, UsageRequests
from topiarist.adapters.kafka_admin.usage.sizes import Sizes, read_sizes
from topiarist.model.access import KafkaAccess
from topiarist.model.state import NO_LEADER
from topiarist.model.usage import Evidence, TopicSample, UsageRead, add_known
from topiarist.usage.fold import TopicGroup, add_groups

_OFFSETS_TOPIC = "__consumer_offsets"
_RETENTION_CONFIG = "offsets.retention.minutes"


class KafkaUsageReader:
    """The connections for reading usage. Use as a context manager, or call ``close``.

    Raises ``Unreachable`` if no broker answers in time, ``CredentialsInvalid`` and ``AuthenticationFailed`` if the
    login fails.
    """

    def __init__(self, access: KafkaAccess, connect_timeout: float = 10.0, time_limit: float = TIME_LIMIT_S) -> None:
        self._session = Session(access, connect_timeout, accepts_old_brokers=True)
        self._time_limit = time_limit
        self._session.any_broker()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

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
        resource = DescribeConfigsRequest.DescribeConfigsResource
        for broker in brokers:
            wanted = resource(
                resource_type=BROKER_RESOURCE, resource_name=str(broker), configuration_keys=[_RETENTION_CONFIG]
            )
            request = DescribeConfigsRequest(resources=[wanted], include_synonyms=False, include_documentation=False)
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

"""Find out what a cluster can do: from what its brokers offer, and from what they have answered in this session.

A broker names the requests that it serves, with their versions. Services leave out some of them for good, and deny
others that they offer: such an answer counts as much as a request that is not offered. This module is the only one
outside of ``connection`` that looks at requests and versions to learn what a cluster can do; all other code asks the
``Capabilities`` that it makes.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from topiarist.adapters.kafka_admin.connection.connection import (
    DELETION_BY_ID_VERSION,
    TOPIC_IDS_VERSION,
    UPDATE_METADATA_KEY,
    Connection,
    Message,
    Offering,
    UnsupportedRequest,
    name_of,
)
from topiarist.adapters.kafka_admin.protocol import messages
from topiarist.adapters.kafka_admin.read.metadata import ClusterMetadata
from topiarist.kafka.types import METADATA_LEVELS, ClusterMode, KafkaVersion
from topiarist.model.state import GIVEN, UNKNOWN, Capabilities, Support

MIN_VERSION: KafkaVersion = (2, 8)
"""The oldest Kafka version that is reached this way: older brokers have no topic ids."""

NO_IDS = Support(False, "the brokers give topics no ids")

_RECORDS = (
    messages.ListOffsetsRequest(),
    messages.FetchRequest(),
    messages.FindCoordinatorRequest(),
    messages.InitProducerIdRequest(),
    messages.AddPartitionsToTxnRequest(),
    messages.ProduceRequest(),
    messages.EndTxnRequest(),
)
"""The requests without which topiarist can write no record in a transaction."""

_QUOTA_VERSION = 6
"""The first version of CreateTopics with an answer for a quota that is exceeded."""

_METADATA_VERSION = "metadata.version"
_KRAFT_FEATURES = frozenset({_METADATA_VERSION, "kraft.version"})


class Seen(NamedTuple):
    """The answers of one session that say what the cluster can do, beside what its brokers offer."""

    topic_ids: Support = GIVEN
    freshness: Support = UNKNOWN
    compaction: Support = UNKNOWN
    listed_reassignments: Support = GIVEN


def find_capabilities(connection: Offering, seen: Seen = Seen()) -> Capabilities:  # noqa: B008 - it is immutable
    """Return what a cluster can do by the requests that a broker offers, and by what it has answered."""
    listing = _find_support(connection, messages.ListPartitionReassignmentsRequest())
    listed = _join(listing, seen.listed_reassignments)  # nothing is moved beside what is not visible
    ids = _find_version(connection, messages.MetadataRequest(), TOPIC_IDS_VERSION, "see the ids of topics")
    return Capabilities(
        topic_ids=_join(ids, seen.topic_ids),
        freshness=seen.freshness,
        config_sources=_find_support(connection, messages.DescribeConfigsRequest()),
        creation=_find_support(connection, messages.CreateTopicsRequest()),
        replica_lists=UNKNOWN,
        growth=_find_support(connection, messages.CreatePartitionsRequest()),
        growth_lists=UNKNOWN,
        config_changes=_find_support(connection, messages.IncrementalAlterConfigsRequest()),
        deletion=_find_support(connection, messages.DeleteTopicsRequest()),
        deletion_by_id=_find_version(
            connection, messages.DeleteTopicsRequest(), DELETION_BY_ID_VERSION, "delete topics by their ids"
        ),
        transactions=_find_support(connection, *_RECORDS),
        compaction=seen.compaction,
        listed_reassignments=listed,
        moves=_join(_find_support(connection, messages.AlterPartitionReassignmentsRequest()), listed),
        elections=_join(_find_support(connection, messages.ElectLeadersRequest()), listed),
        throttles=_find_support(
            connection, messages.IncrementalAlterConfigsRequest(), messages.DescribeConfigsRequest()
        ),
        quotas=_find_version(
            connection, messages.CreateTopicsRequest(), _QUOTA_VERSION, "tell when a quota is exceeded"
        ),
    )


def _find_support(connection: Offering, *requests: Message) -> Support:
    """Return the support of what needs all of these requests."""
    for request in requests:
        try:
            connection.version_of(request)
        except UnsupportedRequest as error:
            return Support(False, str(error))
    return GIVEN


def _find_version(connection: Offering, request: Message, first: int, purpose: str) -> Support:
    """Return the support of what needs a version of a request; an older one is good enough for other purposes."""
    offered = _find_support(connection, request)
    if offered.is_denied or (version := connection.version_of(request)) >= first:
        return offered
    found = f"the brokers offer {name_of(request)} up to version {version}"
    return Support(False, f"{found}, and version {first} is needed to {purpose}")


def _join(*supports: Support) -> Support:
    """Return the first support that is not given."""
    return next((each for each in supports if each.is_given is not True), GIVEN)


def see_topic_ids(metadata: ClusterMetadata) -> Support:
    """Return whether the topics that were read have ids."""
    return NO_IDS if any(topic.topic_id is None for topic in metadata.topics.values()) else GIVEN


def see_compaction(policies: Collection[str]) -> Support:
    """Return whether a cluster compacts, by the cleanup policies that its topics set: a cluster with one such does."""
    return GIVEN if any("compact" in policy for policy in policies) else UNKNOWN


def find_mode(connection: Connection) -> ClusterMode:
    """Return the mode of the broker, by its features and by the requests that only brokers of one mode take.

    Brokers in ZooKeeper mode finalize no features: their epoch is 0, or -1, or 1 after some upgrades. A server without
    features that takes no request of ZooKeeper mode is none of these: nothing is known of its controller.
    """
    if offers_quorum(connection) or not connection.features.names.isdisjoint(_KRAFT_FEATURES):
        return ClusterMode.KRAFT
    is_zookeeper = UPDATE_METADATA_KEY in connection.versions or connection.features.epoch == 0
    return ClusterMode.ZOOKEEPER if is_zookeeper else ClusterMode.KRAFT


def offers_quorum(connection: Offering) -> bool:
    """Return whether the broker offers to describe the quorum; in ZooKeeper mode there is none."""
    return not _find_support(connection, messages.DescribeQuorumRequest()).is_denied


def find_version(versions: Message) -> KafkaVersion:
    """Return the Kafka version of the broker that gave this ApiVersions answer, by the metadata that it can read."""
    features = versions.supported_features
    level = next((each.max_version for each in features if each.name == _METADATA_VERSION), 0)
    known = (version for version, first in METADATA_LEVELS.items() if first is not None and first <= level)
    return max(known, default=MIN_VERSION)

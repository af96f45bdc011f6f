"""The check of a cluster: what topiarist can do there, what it cannot do, and fields for its ``Cluster`` document.

It is made from one read, or from the capabilities alone if the cluster cannot be read. Each capability has a sentence
for people, and the effect of its absence. To add one, add its row to ``_TEXTS``: a test compares them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from topiarist.errors import TopiaristError
from topiarist.kafka.types import INTERNAL_TOPICS, format_version
from topiarist.model.access import KafkaAccess
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import GIVEN, AllowedOperations, Capabilities, ClusterState, Support
from topiarist.text import format_count


class Texts(NamedTuple):
    """The meaning of a capability, and the effect if a cluster does not have it."""

    meaning: str
    effect: str


_NO_RECORDS = "nothing is written with records in a topic"

_TEXTS: Mapping[str, Texts] = {
    "topic_ids": Texts("topics have ids", "nothing is written: a later topic of a name could not be recognized"),
    "freshness": Texts(
        "what is read is proved to be current", "a plan may be some seconds old; apply compares again before it writes"
    ),
    "config_sources": Texts("configs are read, with their sources", "no cluster can be read"),
    "creation": Texts("topics are created", "creations are refused"),
    "replica_lists": Texts("replica lists of new topics are obeyed", "the cluster places the replicas of new topics"),
    "growth": Texts("partitions are added", "growth is refused"),
    "growth_lists": Texts(
        "replica lists of new partitions are obeyed", "the cluster places the replicas of new partitions"
    ),
    "config_changes": Texts("single configs are changed", "changes of configs are refused"),
    "deletion": Texts("topics are deleted", "deletions are refused"),
    "deletion_by_id": Texts(
        "deletions name the id of the topic", "deletions name the topic; its id is compared directly before"
    ),
    "transactions": Texts("records are written in transactions", _NO_RECORDS),
    "compaction": Texts("topics are compacted", _NO_RECORDS),
    "listed_reassignments": Texts(
        "reassignments in progress are listed", "nothing is moved, and growth may meet a reassignment"
    ),
    "moves": Texts("replicas are moved", "moves are refused"),
    "elections": Texts("preferred leaders are elected", "elections are refused"),
    "throttles": Texts(
        "copies of moves are throttled", "moves that copy are refused, unless spec.moves.throttle is Unlimited"
    ),
    "quotas": Texts("the brokers tell when a quota is exceeded", "a quota shows in late answers alone"),
}


_OF_BROKERS = ("quotas",)
"""The capabilities of a way through brokers alone: through ZooKeeper, no quota counts what topiarist writes."""


class Finding(NamedTuple):
    """A capability of a cluster by its name in ``Capabilities``, with its texts."""

    name: str
    support: Support
    texts: Texts


class Permission(NamedTuple):
    """A permission that topiarist may need: an operation of Kafka on a resource, its purpose, and if it is given."""

    operation: str
    resource: str
    purpose: str
    support: Support


_WRITES = "apply, freeze, unmanage, move-records"
_ON_CLUSTER = (
    ("Describe", "all runs: proof that what is read is new, and reassignments"),
    ("Create", "creating topics"),
    ("Alter", "moving replicas, electing leaders"),
    ("DescribeConfigs", "throttles of moves"),
    ("AlterConfigs", "throttles of moves"),
)
_ON_TOPICS = (
    ("DescribeConfigs", "all runs"),
    ("Alter", "adding partitions"),
    ("AlterConfigs", "changing configs"),
    ("Delete", "deleting topics"),
)
_ON_RECORDS = (("DescribeConfigs", "all runs"), ("Read", "all runs"), ("Write", _WRITES))

_MAX_NAMES = 3


class Advice(NamedTuple):
    """A value for a field of the ``Cluster`` document, with the reason; ``path`` is below ``spec``."""

    path: tuple[str, ...]
    value: str | int
    why: str


class ClusterCheck(Struct, frozen=True):
    """The result of the check of one cluster.

    ``state`` is None if the cluster cannot be read, with the ``error``; its capabilities are known all the same.
    ``allowed`` is None through ZooKeeper.
    """

    cluster: ClusterSpec
    cluster_id: str
    capabilities: Capabilities
    state: ClusterState | None = None
    error: TopiaristError | None = None
    allowed: AllowedOperations | None = None

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """Return the permissions that can be asked for, in the order of docs/connections.md; none through ZooKeeper."""
        access, allowed = self.cluster.access, self.allowed
        if allowed is None or not isinstance(access, KafkaAccess):
            return ()
        records = access.records.name if access.records else ""
        topics = {name: found for name, found in allowed.on_topics.items() if name not in INTERNAL_TOPICS | {records}}
        found = [Permission(each, "Topic *", why, _find_on_topics(each, topics)) for each, why in _ON_TOPICS]
        found += [
            Permission(each, "Cluster", why, _find_permission(each, allowed.on_cluster)) for each, why in _ON_CLUSTER
        ]
        if access.records:
            on_records = allowed.on_topics.get(records)
            found += [
                Permission(each, f"Topic {records}", why, _find_permission(each, on_records))
                for each, why in _ON_RECORDS
            ]
            found.append(Permission("Write", f"TransactionalId {access.records.transactional_id}", _WRITES, _NOT_ASKED))
        usage = _find_permission("Describe", allowed.on_group)
        return (*found, Permission("Describe", "Group *", "usage of topics", usage))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return the capabilities that the way to the cluster has, in the order in which people read them."""
        absent = () if isinstance(self.cluster.access, KafkaAccess) else _OF_BROKERS
        found = self.capabilities.items()
        return tuple(Finding(name, support, _TEXTS[name]) for name, support in found if name not in absent)

    @property
    def advice(self) -> tuple[Advice, ...]:
        """Return what to write into the document of the cluster, sorted by path."""
        return tuple(sorted((*self._find_identity(), *self._find_ways())))

    def _find_identity(self) -> Iterator[Advice]:
        spec, state = self.cluster, self.state
        if not spec.cluster_id:
            yield Advice(("clusterId",), self.cluster_id, "another cluster at this address then ends the run")
        if state and spec.version is None and state.known_configs is None:
            why = "the release of the brokers, this or a later one: they were not asked for their configs"
            yield Advice(("kafkaVersion",), format_version(state.min_version), why)

    def _find_ways(self) -> Iterator[Advice]:
        access, found = self.cluster.access, self.capabilities
        if not isinstance(access, KafkaAccess):
            return
        if found.replica_lists.is_missing and access.placement is None:
            yield Advice(("kafka", "placement"), "Brokers", found.replica_lists.why)
        if access.records is None:
            return
        for records in (found.transactions, found.compaction):
            if records.is_missing:
                yield Advice(("kafka", "records"), "None", records.why)
                return
        brokers = len(self.state.brokers) if self.state else 0
        if 0 < brokers < access.records.replication_factor:
            why = f"the cluster has {brokers} of the {access.records.replication_factor} brokers for its records"
            yield Advice(("kafka", "records", "replicationFactor"), brokers, why)


_NOT_ASKED = Support(None, "no request shows it without a write")


def _find_permission(operation: str, allowed: Collection[str] | None) -> Support:
    if allowed is None:
        return Support(None, "the brokers do not say")
    if operation in allowed:
        return GIVEN
    if operation == "Create":
        return Support(None, "not on the cluster; a permission on names of topics does not show before they exist")
    return Support(False, "the user lacks it", lacks_right=True)


def _find_on_topics(operation: str, topics: Mapping[str, Collection[str] | None]) -> Support:
    """Return whether an operation is allowed on all topics that the user may see."""
    said = {name: operations for name, operations in topics.items() if operations is not None}
    if not said:
        return Support(None, "there is no topic that shows it" if not topics else "the brokers do not say")
    if lacking := sorted(name for name, operations in said.items() if operation not in operations):
        names = ", ".join(lacking[:_MAX_NAMES]) + (", ..." if len(lacking) > _MAX_NAMES else "")
        why = f"the user lacks it on {len(lacking):,} of {format_count(len(said), 'topic')}: {names}"
        return Support(False, why, lacks_right=True)
    return GIVEN


def check_state(cluster: ClusterSpec, state: ClusterState, allowed: AllowedOperations | None = None) -> ClusterCheck:
    """Return the check of a cluster that was read."""
    return ClusterCheck(cluster, state.cluster_id, state.capabilities, state, allowed=allowed)

"""Read the state of a whole cluster through one broker.

No request answers everything, so the metadata is read again at the end: a topic that changed meanwhile is read again,
and the result is that of one moment. What is hidden from topiarist looks like what does not exist, so a topic with a
record is also asked for by its id: the answer distinguishes the two.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.connection.connection import Connection, UnsupportedRequest
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.protocol.messages import DescribeClusterRequest
from topiarist.adapters.kafka_admin.read.capabilities import (
    MIN_VERSION,
    Seen,
    find_capabilities,
    find_mode,
    see_compaction,
    see_topic_ids,
)
from topiarist.adapters.kafka_admin.read.configs import KnownConfigs, read_overrides, read_overrides_and_known_configs
from topiarist.adapters.kafka_admin.read.metadata import (
    UNKNOWN_TOPIC_ID,
    AllMetadata,
    ClusterMetadata,
    TopicMetadata,
    read_metadata,
    read_topic_id_errors,
)
from topiarist.adapters.kafka_admin.read.sync import (
    Reassignments,
    ReassignmentsWatch,
    SyncedBroker,
    find_migration_readiness,
    lend_synced,
    sync_to_read,
    target_of,
)
from topiarist.adapters.kafka_admin.read.topic_reader import absent_or_error, is_unchanged, read_again, state_or_error
from topiarist.adapters.size_limits import REQUEST_LIMITS
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kafka.types import ClusterMode
from topiarist.model.moves import BatchRecord, RequestedReassignment
from topiarist.model.plan import changed_configs
from topiarist.model.state import (
    Capabilities,
    ClusterState,
    Freeze,
    IdentifiedRecord,
    OwnershipRecord,
    ReadError,
    TopicState,
    WriteBlock,
)
from topiarist.text import shorten_list

WARNING_NO_REASSIGNMENTS = "reassignments in progress are not visible: "
HINT_DESCRIBE = "give topiarist Describe on every topic (the pattern *), or manage this topic with its own permissions"

REMEDY_NO_RECORDS = (
    "to write without topiarist's records, set spec.kafka.records: None in the Cluster; this gives up the lock, owners,"
    " and removal by omission (docs/why-trust-it.md)"
)

_ROUNDS = 5
_ID_BATCH = 1000

_Configs = Mapping[str, Mapping[str, str] | TopiaristError]
_FoundTopics = Mapping[str, TopicState | ReadError]


class RecordsView(NamedTuple):
    """The part of topiarist's records that a state has.

    ``resolve_pending`` returns the records of topics that a run has left unfinished, from what the topics show.
    ``are_kept`` is false for a cluster without records, which then needs no request that writes them.
    """

    topics: Mapping[str, IdentifiedRecord] = {}
    freeze: Freeze | None = None
    batch: BatchRecord | None = None
    batch_at_ms: int | None = None
    resolve_pending: Callable[[_FoundTopics], Mapping[str, IdentifiedRecord]] = lambda topics: {}
    are_kept: bool = True


class _Topics(NamedTuple):
    """All topics; ``unsettled`` have replica lists that may be those of a reassignment that has ended."""

    metadata: ClusterMetadata
    watch: ReassignmentsWatch
    configs: _Configs
    known: KnownConfigs | None
    unsettled: Collection[str] = ()


def read_state(session: Session, records: RecordsView, previous: ClusterState | None = None) -> ClusterState:
    """Read everything that a plan needs.

    ``previous`` is a state that the same session has read before: with it, a cluster as it was costs fewer requests.
    Topics that cannot be read are in ``topic_errors``. Raises ``TopiaristError``: ``NoPermission`` if the configs of
    several topics and of none of them may be described, ``Unreachable`` if no broker can be read.
    """
    return read_again(lambda: _read_state(session, records, previous))


def _read_state(session: Session, records: RecordsView, previous: ClusterState | None) -> ClusterState:
    write_block, synced = _sync_or_block(session)
    connection, warnings = synced.connection, list(synced.warnings)
    # Without a controller, and in ZooKeeper mode, nothing shows how old metadata are: no earlier state is used then.
    if previous and (synced.quorum is None or previous.reassigning_topics or not previous.topics):
        previous = None
    found = _read_topics(session, synced, previous, has_controller=write_block is None)
    metadata, watch = found.metadata, found.watch
    reassignments = watch.current
    if watch.support.is_denied:
        warnings.append(WARNING_NO_REASSIGNMENTS + watch.support.why)
    _require_configs(found.configs)
    topics, errors, dangling = _add_records(
        {name: state_or_error(topic, found.configs[name], reassignments) for name, topic in metadata.topics.items()},
        records,
        connection,
    )
    errors |= {
        name: error for name, code in metadata.errors.items() if (error := absent_or_error(name, code)) is not None
    }
    quorum = synced.quorum
    policies = {each.config["cleanup.policy"] for each in topics.values() if "cleanup.policy" in each.config}
    seen = Seen(see_topic_ids(metadata), synced.freshness, see_compaction(policies), watch.support)
    capabilities = find_capabilities(connection, seen)
    return ClusterState(
        cluster_id=metadata.cluster_id,
        brokers=metadata.brokers,
        topics=topics,
        controller=quorum.leader if quorum else metadata.controller,
        controller_epoch=quorum.leader_epoch if quorum else 0,
        write_block=write_block or _find_write_block(session, synced.mode, metadata, capabilities, records),
        reassigning_topics=frozenset(reassignments).union(found.unsettled),
        dangling_records=dangling,
        topic_errors=errors,
        broker_defaults=found.known.broker_defaults if found.known else {},
        min_version=synced.version,
        warnings=tuple(warnings),
        assigns_topic_ids=not capabilities.topic_ids.is_denied or any(each.topic_id for each in topics.values()),
        requested_reassignments=tuple(_list_requested(metadata.topics, reassignments)),
        batch=records.batch,
        batch_at_ms=records.batch_at_ms,
        mode=synced.mode,
        bypasses_brokers=False,
        size_limits=REQUEST_LIMITS,
        known_configs=found.known.configs if found.known else None,
        # A broker is fenced when it leaves those in use, so the same brokers have the same ones beside them.
        fenced_brokers=previous.fenced_brokers
        if previous and previous.brokers == metadata.brokers
        else _read_fenced_brokers(connection, metadata),
        capabilities=capabilities,
    )


def read_capabilities(session: Session) -> Capabilities:
    """Return what the cluster can do, by what its brokers offer and answer without the configs of topics.

    Raises ``Unreachable`` if no broker can be read.
    """

    def read() -> Capabilities:
        write_block, synced = _sync_or_block(session)
        watch = ReassignmentsWatch(session, synced.connection, has_controller=write_block is None)
        ids = see_topic_ids(read_metadata(synced.connection))
        return find_capabilities(synced.connection, Seen(ids, synced.freshness, listed_reassignments=watch.support))

    return read_again(read)


def _sync_or_block(session: Session) -> tuple[WriteBlock | None, SyncedBroker]:
    """Return the broker to read from; without a controller any broker, and a write block."""
    try:
        return None, sync_to_read(session)
    except TopiaristError as error:
        if error.reason is not Reason.NO_CONTROLLER:
            raise
        block = WriteBlock(Reason.NO_CONTROLLER, error.message)
        connection = session.any_broker()
        warning = "there is no controller, so the output may be outdated"
        return block, SyncedBroker(connection, find_mode(connection), None, MIN_VERSION, (warning,))


def _read_topics(
    session: Session, synced: SyncedBroker, previous: ClusterState | None, *, has_controller: bool
) -> _Topics:
    """Read metadata and overrides of all topics until a second look at the metadata shows the same topics.

    ``previous`` is an earlier state without reassignments that stands for the first look. If its topics have the same
    ids and replica lists after their configs were read, and nothing is being reassigned, then all of them were there
    with these lists when the read began: no id is used twice, and a list that a reassignment changes is another list.
    """
    connection, everything = synced.connection, AllMetadata(synced.connection, session.answers)

    def watch_reassignments() -> ReassignmentsWatch:
        # Without a controller no broker can list them, and the request would wait for one.
        return ReassignmentsWatch(session, connection, has_controller=has_controller)

    def read_all(names: Collection[str]) -> tuple[_Configs, KnownConfigs | None]:
        overrides, known = read_overrides_and_known_configs(
            session, connection, sorted(names), more=lambda: lend_synced(session, synced)
        )
        return {name: config for name, config in overrides.items() if config is not None}, known

    if previous is None:
        watch, before = watch_reassignments(), everything.read()
        configs, known = read_all(before.topics)
    else:
        configs, known = read_all(previous.topics)
        before, watch = everything.read(), watch_reassignments()
        configs = {
            name: config
            for name, config in configs.items()
            if name in before.topics and _is_as_before(before.topics[name], previous.topics[name])
        }
        new = {name: topic for name, topic in before.topics.items() if name not in configs}
        if not new and not watch.current:
            return _Topics(before, watch, configs, known)
        added, shown = read_all(new)
        configs, known = {**configs, **added}, known or shown
    moved: Collection[str] = ()
    for _ in range(_ROUNDS):
        watch.settle()
        after = everything.read()
        moved = watch.refresh()
        changed = {
            name: topic
            for name, topic in after.topics.items()
            if name not in configs or name not in before.topics or not is_unchanged(before.topics[name], topic)
        }
        kept = {name: config for name, config in configs.items() if name in after.topics}
        found = read_overrides(session, connection, sorted(changed))
        configs = {**kept, **{name: config for name, config in found.items() if config is not None}}
        before = after
        if not changed and not moved and configs.keys() == after.topics.keys():
            return _Topics(after, watch, configs, known)
    # Topics come and go all the time: those that were read last stand for themselves.
    topics = {name: topic for name, topic in before.topics.items() if name in configs}
    return _Topics(before._replace(topics=topics), watch, configs, known, moved)


def _is_as_before(topic: TopicMetadata, previous: TopicState) -> bool:
    """Return whether a topic is the same and has the replica lists that it had in an earlier state."""
    return (
        topic.topic_id is not None
        and topic.topic_id == previous.topic_id
        and tuple(topic.partitions) == previous.partition_ids
        and all(each.replicas == was for each, was in zip(topic.partitions.values(), previous.replicas, strict=True))
    )


def _require_configs(configs: _Configs) -> None:
    """Raise the error of a topic if there are several, and all of them have one: it is hardly that of one topic."""
    errors = {name: config for name, config in configs.items() if isinstance(config, TopiaristError)}
    if 1 < len(errors) == len(configs):
        name, error = min(errors.items())
        raise TopiaristError(error.reason, f"no topic can be read: topic {name}: {error.message}", error.hint)


def _add_records(
    topics: _FoundTopics, records: RecordsView, connection: Connection
) -> tuple[dict[str, TopicState], dict[str, ReadError], dict[str, OwnershipRecord]]:
    """Return the topics with their records, the topics that cannot be read, and the records without a topic."""
    owned = {name: topic for name, topic in topics.items() if isinstance(topic, TopicState)}
    errors = {name: topic for name, topic in topics.items() if isinstance(topic, ReadError)}
    missing: dict[str, IdentifiedRecord] = {}
    for name, found in {**records.topics, **records.resolve_pending(topics)}.items():
        if name in errors:
            continue
        topic = owned.get(name)
        if topic is None:
            missing[name] = found
            continue
        valid = found.topic_id is not None and found.topic_id == topic.topic_id
        changed = valid and bool(changed_configs(found.record, topic.config, _is_dropped))
        owned[name] = replace(topic, record=found.record, record_valid=valid, modified_externally=changed)
    codes: dict[str, int] = {}
    ids = sorted({found.topic_id for found in missing.values() if found.topic_id is not None})
    for start in range(0, len(ids), _ID_BATCH):
        codes |= read_topic_id_errors(connection, ids[start : start + _ID_BATCH])
    dangling: dict[str, OwnershipRecord] = {}
    for name, found in missing.items():
        code = UNKNOWN_TOPIC_ID if found.topic_id is None else codes[found.topic_id]
        if code == UNKNOWN_TOPIC_ID:
            dangling[name] = found.record
        elif code in error_codes.AUTHORIZATION_CODES:
            errors[name] = ReadError(f"topic {name}", f"it exists and is hidden from topiarist: {HINT_DESCRIBE}")
        else:
            what = error_codes.describe_error(code) if code else "it appeared while the cluster was read"
            errors[name] = ReadError(f"topic {name}", f"the brokers do not list it: {what}")
    return owned, errors, dangling


def _is_dropped(key: str) -> bool:
    """Return whether newer brokers do not show a config although it is stored."""
    definition = TOPIC_CONFIGS.get(key)
    return definition is not None and definition.removed is not None


def _list_requested(topics: Mapping[str, TopicMetadata], reassignments: Reassignments) -> list[RequestedReassignment]:
    return [
        RequestedReassignment(name, number, target_of(topics[name].partitions[number].replicas, each))
        for name, found in sorted(reassignments.items())
        for number, each in sorted(found.items())
        if name in topics and number in topics[name].partitions
    ]


def _read_fenced_brokers(connection: Connection, metadata: ClusterMetadata) -> dict[int, str | None]:
    """Return the brokers that are registered and not in use; brokers before Kafka 4.0 do not tell."""
    request = DescribeClusterRequest(include_fenced_brokers=True)
    try:
        answer = connection.call(request)
    except UnsupportedRequest:
        return {}
    if answer.error_code:
        return {}  # only a warning would follow from it
    used = {broker.id for broker in metadata.brokers}
    return {each.broker_id: each.rack for each in answer.brokers if each.is_fenced and each.broker_id not in used}


def _find_write_block(
    session: Session, mode: ClusterMode, metadata: ClusterMetadata, capabilities: Capabilities, records: RecordsView
) -> WriteBlock:
    if records.are_kept and capabilities.transactions.is_denied:
        return WriteBlock(Reason.NOT_OFFERED, f"{capabilities.transactions.why}; {REMEDY_NO_RECORDS}")
    if capabilities.topic_ids.is_denied:
        why = f"{capabilities.topic_ids.why}: a topic cannot be distinguished from a later one of its name"
        return WriteBlock(Reason.NOT_OFFERED, why)
    if records.freeze is not None:
        return WriteBlock(Reason.FROZEN, f"the cluster is {records.freeze}")
    if mode is ClusterMode.ZOOKEEPER:
        return find_migration_block(session, metadata)
    return WriteBlock()


def find_migration_block(session: Session, metadata: ClusterMetadata) -> WriteBlock:
    """Return a write block while some brokers are restarted for a migration to KRaft, and others are not.

    A broker that does not answer, or has replicas and is not registered, may be in its restart.
    """
    registered = [broker.id for broker in metadata.brokers]
    ready, others, silent = find_migration_readiness(session, registered)
    if not ready:
        return WriteBlock()
    begun = f"a migration to KRaft has begun: broker {shorten_list(ready)} has been restarted for it,"
    if others:
        return WriteBlock(
            Reason.KRAFT_MIGRATION,
            f"{begun} broker {shorten_list(others)} has not; writes through the restarted one would hang",
        )
    partitions = (each for topic in metadata.topics.values() for each in topic.partitions.values())
    unregistered = {broker for each in partitions for broker in each.replicas} - set(registered)
    if missing := sorted(unregistered | set(silent)):
        return WriteBlock(
            Reason.KRAFT_MIGRATION,
            f"{begun} and broker {shorten_list(missing)} is not there; if it is not restarted yet, writes would hang",
        )
    return WriteBlock()

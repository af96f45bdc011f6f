"""Read single topics after a sync: before and after a write, their partition states, and their progress.

``find_refusals`` tells whether the brokers would refuse changes of a plan, as far as rights to read show it. Moves need
rights that other changes do not: without them a run would begin, write a record and throttles, and then move nothing.
Remote storage is a setting of the brokers that no topic shows. ``write/writer.py`` asks about the other changes, for
which it needs the permissions to write. What the cluster cannot do at all is in its ``Capabilities``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.connection.connection import NO_ID, Connection, Disconnected, UnsupportedRequest
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.protocol.messages import DescribeGroupsRequest, MetadataRequest
from topiarist.adapters.kafka_admin.read import sync
from topiarist.adapters.kafka_admin.read.configs import (
    KnownConfigs,
    read_broker_configs,
    read_overrides_and_known_configs,
    read_static_settings,
)
from topiarist.adapters.kafka_admin.read.metadata import ClusterMetadata, TopicMetadata, read_metadata
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.config_rules import REMOTE_STORAGE_SETTING, settings_of_known_defaults
from topiarist.kafka.config_table import RATE_CONFIGS
from topiarist.kafka.config_values import java_trim
from topiarist.kafka.types import Broker, KafkaVersion
from topiarist.model.outcome import TopicProgress
from topiarist.model.plan import Change, CreateTopic, ElectLeaders, Issue, MoveReplicas, Plan, TopicPlan, UpdateConfig
from topiarist.model.state import (
    AllowedOperations,
    ClusterState,
    PartitionState,
    ReadError,
    TopicInspection,
    TopicState,
)
from topiarist.planning.builder import is_throttled

MAX_BROKEN_READS = 3
"""The number of connections that may break during one read: each begins it anew, with a sync of its own."""

SHOWN_AFTER_S = 0.02
"""Seconds after which most brokers show a confirmed change: nine of ten within 10 ms on a busy machine (4.4.0)."""

NO_IDENTITY = "no-id"
"""The identity of each topic where brokers give no ids: a later topic of its name has the same."""

_ROUNDS = 5

T = TypeVar("T")


class Look(NamedTuple):
    """Topics as they are now, after a sync.

    A topic that does not exist is None; a topic that cannot be read is a ``ReadError``. ``broker_defaults`` are the
    defaults of topic configs, under the names of broker settings; they are known only if one of the topics exists.
    """

    topics: Mapping[str, TopicState | ReadError | None]
    brokers: Mapping[int, Broker]
    broker_defaults: Mapping[str, str]
    min_version: KafkaVersion


class Watched(Protocol):
    """The topic of records, which is looked at with other topics."""

    def topic_ids(self) -> Mapping[str, str]:
        """Return its name and its id; empty if it is not known."""

    def note_look(self, config: Mapping[str, str] | None, leader_epoch: int | None) -> None:
        """Take note that it has its id, of its overrides, None if they were not read, and of the controller's epoch."""


class Reader(Protocol):
    """A reader of single topics, for the comparison directly before and after a chunk."""

    def look(self, names: Collection[str]) -> Look:
        """Return these topics as they are now, without their records. Raises ``TopiaristError``."""

    def look_first(self, names: Collection[str]) -> Look:
        """Return the same, or topics as they were some seconds ago, before any other run has written something."""

    def look_again(
        self, ids: Mapping[str, str | None], *, lists_reassignments: bool = True, is_proven: bool = True
    ) -> Look:
        """Return the same of topics that had these ids before (None: that did not exist).

        Without ``lists_reassignments`` the topics may lack theirs. Unless ``is_proven`` is true, they may be as they
        were at any time since the last look.
        """


class TopicReader:
    """A reader of single topics of one cluster, without their records.

    ``watched`` is looked at with all topics that are looked at again.
    """

    def __init__(self, session: Session, watched: Watched | None = None) -> None:
        self._session = session
        self._watched = watched
        self._synced: sync.SyncedBroker | None = None  # the broker of the last look that was proven, for one more look

    def look(self, names: Collection[str]) -> Look:
        """Return these topics as they are now.

        Raises ``TopiaristError``: the errors of ``sync``, ``NoPermission``, and ``StateConflict`` if the topics change
        all the time.
        """
        return read_again(lambda: self._look(sorted(names)))

    def look_again(
        self, ids: Mapping[str, str | None], *, lists_reassignments: bool = True, is_proven: bool = True
    ) -> Look:
        """Return topics as they are now that had these ids (None: did not exist) before. Raises what ``look`` raises.

        No id is used twice, so a topic that has its id after its configs were read had it meanwhile: its metadata are
        read once, and last. The reassignments are listed after them, so that a reassignment is listed, or its end is
        in the metadata, or the lists of replicas are not those that the topic had before. A topic with another id is
        read as by ``look``.

        A look that is not proven asks the broker of the last look, a moment after the last write. Over one connection
        the metadata only get newer, so that what they show of a write was made; what they do not show may be late.
        """
        return read_again(
            lambda: (
                self._look_once(self._find_broker(is_proven=is_proven), ids, lists_reassignments)
                or self._look(sorted(ids))
            )
        )

    def _find_broker(self, *, is_proven: bool) -> sync.SyncedBroker:
        known, self._synced = self._synced, None
        if is_proven or known is None:
            self._synced = sync.sync(self._session)
            return self._synced
        self._session.wait_after_change(SHOWN_AFTER_S)
        return known

    def _look(self, names: list[str]) -> Look:
        synced = sync.sync(self._session)
        connection = synced.connection
        found: dict[str, TopicState | ReadError | None] = {}
        brokers: Mapping[int, Broker] = {}
        broker_defaults: Mapping[str, str] = {}
        remaining = names
        watch = sync.ReassignmentsWatch(self._session, connection, has_controller=bool(names))
        for _ in range(_ROUNDS):
            before = read_metadata(connection, remaining)
            existing = [name for name in remaining if name in before.topics]
            configs, known = read_overrides_and_known_configs(self._session, connection, existing)
            moved: Collection[str] = ()
            if existing:
                broker_defaults = broker_defaults or _find_broker_defaults(known)
                watch.settle()
            after = read_metadata(connection, remaining)
            if existing:
                moved = watch.refresh()
            brokers = {broker.id: broker for broker in after.brokers}
            for name in remaining:
                config, now = configs.get(name), after.topics.get(name)
                if name in moved:
                    continue
                if now is not None and config is not None and is_unchanged(before.topics[name], now):
                    found[name] = state_or_error(now, config, watch.current)
                elif name not in existing and name not in after.topics:
                    found[name] = absent_or_error(name, after.errors.get(name))
            remaining = [name for name in names if name not in found]
            if not remaining:
                return Look(found, brokers, broker_defaults, synced.version)
        message = f"topic {remaining[0]} changed {_ROUNDS} times while it was read"
        raise TopiaristError(Reason.STATE_CONFLICT, message, "run again")

    def _look_once(
        self, synced: sync.SyncedBroker, ids: Mapping[str, str | None], lists_reassignments: bool
    ) -> Look | None:
        """Return the topics as one look shows them; None if one of them is not the one that it was."""
        connection, watched = synced.connection, self._watched.topic_ids() if self._watched else {}
        present = sorted(name for name, topic_id in ids.items() if topic_id)
        described = sorted({*present, *watched}) if present else []
        overrides, known = read_overrides_and_known_configs(self._session, connection, described)
        configs = {name: config for name, config in overrides.items() if config is not None}
        metadata = read_metadata(connection, sorted({*ids, *watched}))
        topics = {name: topic for name, topic in metadata.topics.items() if name in ids}
        if any(topic.topic_id != ids[name] or name not in configs for name, topic in topics.items()):
            return None
        watch = sync.ReassignmentsWatch(self._session, connection, has_controller=bool(present) and lists_reassignments)
        found = {
            name: state_or_error(topics[name], configs[name], watch.current)
            if name in topics
            else absent_or_error(name, metadata.errors.get(name))
            for name in ids
        }
        for name, topic_id in watched.items():
            if self._watched and name in metadata.topics and metadata.topics[name].topic_id == topic_id:
                config = configs.get(name)
                known_config = config if isinstance(config, Mapping) else None
                self._watched.note_look(known_config, synced.quorum and synced.quorum.leader_epoch)
        brokers = {broker.id: broker for broker in metadata.brokers}
        return Look(found, brokers, _find_broker_defaults(known), synced.version)


def _find_broker_defaults(known: KnownConfigs | None) -> Mapping[str, str]:
    return {**settings_of_known_defaults(known.configs), **known.broker_defaults} if known else {}


def build_topic_state(topic: TopicMetadata, config: Mapping[str, str], reassignments: sync.Reassignments) -> TopicState:
    """Return the state of a topic, without a record."""
    return TopicState(
        name=topic.name,
        identity=topic.topic_id or NO_IDENTITY,
        replicas=tuple(partition.replicas for partition in topic.partitions.values()),
        config=config,
        partition_ids=tuple(topic.partitions),
        topic_id=topic.topic_id,
        reassigning_partitions=tuple(sorted(reassignments.get(topic.name, ()))),
    )


def state_or_error(
    topic: TopicMetadata, config: Mapping[str, str] | TopiaristError, reassignments: sync.Reassignments
) -> TopicState | ReadError:
    """Return the state of a topic without a record, or the error of a topic with configs that cannot be read."""
    if isinstance(config, TopiaristError):
        return ReadError(f"topic {topic.name}", "; ".join(filter(None, (config.message, config.hint))))
    return build_topic_state(topic, config, reassignments)


def is_unchanged(before: TopicMetadata, after: TopicMetadata) -> bool:
    """Return whether a topic is the same and has the same replica lists; leaders and in-sync replicas may change."""
    if after is before:
        return True  # an answer that is like the one before is not decoded again
    if after.topic_id != before.topic_id or after.partitions.keys() != before.partitions.keys():
        return False
    return all(after.partitions[number].replicas == one.replicas for number, one in before.partitions.items())


def absent_or_error(name: str, code: int | None) -> ReadError | None:
    """Return None for a topic that does not exist, and the error of a topic that the brokers do not describe."""
    if code == error_codes.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    if code is None:
        return ReadError(f"topic {name}", "the answer of the brokers does not have it")
    if code in error_codes.AUTHORIZATION_CODES:
        return ReadError(f"topic {name}", "it is hidden from topiarist, or does not exist: Describe is missing")
    return ReadError(f"topic {name}", f"the brokers do not describe it: {error_codes.describe_error(code)}")


def read_again(read: Callable[[], T]) -> T:
    """Return the result of ``read``, called again if a connection broke; raise ``Unreachable`` if that goes on."""
    for _ in range(MAX_BROKEN_READS - 1):
        try:
            return read()
        except Disconnected:
            continue
    try:
        return read()
    except Disconnected as error:
        raise TopiaristError(Reason.UNREACHABLE, f"the connection to a broker broke: {error}", error.hint) from error


# The state that a run has read for its plan, in place of the first look at the topics of a chunk.
#
# Between the plan and the intents of the first chunk nothing has to be read again if the state is some seconds old and
# no other run has committed anything since: its topics are then as new as this run needs them before its intents. The
# look after the intents, directly before the requests, is always a look at the brokers.

MAX_AGE_S = 10.0
"""Seconds after the begin of a read in which its state may stand for a look."""


class RecentState:
    """A state, the number of the last commit that was read before it, and the time at which that read began."""

    def __init__(self, state: ClusterState, number: int, began: float) -> None:
        self._state = state
        self._number = number
        self._began = began

    @property
    def is_recent(self) -> bool:
        """Return whether the state was read within the last seconds."""
        return time.monotonic() < self._began + MAX_AGE_S

    @property
    def leader_epoch(self) -> int | None:
        """Return the epoch of the controller; None if it did not tell."""
        return self._state.controller_epoch or None

    def look(self, names: Collection[str], number: int) -> Look | None:
        """Return the topics as they were read; None if a look is needed. ``number`` is that of the last commit."""
        state = self._state
        is_unclear = any(name in state.topic_errors or name in state.reassigning_topics for name in names)
        if is_unclear or number != self._number or not self.is_recent:
            return None
        topics = {name: _without_record(state.topics.get(name)) for name in names}
        defaults = {**settings_of_known_defaults(state.known_configs or {}), **state.broker_defaults}
        return Look(topics, {broker.id: broker for broker in state.brokers}, defaults, state.min_version)


class FirstLook:
    """A reader of topics with a state that may stand for its first look. ``number`` returns that of the last commit."""

    def __init__(self, reader: TopicReader, recent: RecentState | None, number: Callable[[], int]) -> None:
        self._recent = recent
        self._number = number
        self.look = reader.look
        self.look_again = reader.look_again

    def look_first(self, names: Collection[str]) -> Look:
        """Return topics as they are now, or as they were a moment ago; raises what ``look`` raises."""
        found = self._recent.look(names, self._number()) if self._recent else None
        return found or self.look(names)


def _without_record(topic: TopicState | None) -> TopicState | None:
    return topic and replace(topic, record=None, record_valid=False, modified_externally=False)


# Read leaders, in-sync replicas and reassignments of topics, for ``describe``, ``list`` and the health of moves.

_ALL_ABOVE = 1000
"""Number of topics from which the metadata of all topics is asked for: their names would be a large request."""


def inspect(session: Session, name: str) -> TopicInspection:
    """Read the partition states of the topic ``name``. Raises ``TopiaristError``."""
    found = _read(session, [name])
    if name in found:
        return found[name]
    return TopicInspection(identity=None, assignment={})


def inspect_all(session: Session, topics: Collection[TopicState]) -> Mapping[str, TopicInspection]:
    """Read the states of all partitions of topics that were just read; a topic that no longer exists is left out."""
    return _read(session, [topic.name for topic in topics]) if topics else {}


def _read(session: Session, names: Sequence[str]) -> Mapping[str, TopicInspection]:
    def read() -> tuple[ClusterMetadata, sync.Reassignments]:
        connection = sync.sync_to_read(session).connection
        watch = sync.ReassignmentsWatch(session, connection)
        for _ in range(_ROUNDS):
            watch.settle()
            metadata = read_metadata(connection, None if len(names) > _ALL_ABOVE else names)
            if not watch.refresh():
                break
        return metadata, watch.current

    metadata, reassignments = read_again(read)
    inspections = {name: _build(metadata.topics[name], reassignments) for name in names if name in metadata.topics}
    for name in names:
        code = metadata.errors.get(name)
        if code is None or code == error_codes.UNKNOWN_TOPIC_OR_PARTITION:
            continue
        error = absent_or_error(name, code)
        assert error is not None
        inspections[name] = TopicInspection(identity=None, assignment={}, other_errors=(error,), states_readable=False)
    return inspections


def _build(topic: TopicMetadata, reassignments: sync.Reassignments) -> TopicInspection:
    moving = reassignments.get(topic.name, {})
    return TopicInspection(
        identity=topic.topic_id or NO_IDENTITY,
        assignment={number: one.replicas for number, one in topic.partitions.items()},
        states={
            number: PartitionState(one.leader, one.isr, one.leader_epoch) for number, one in topic.partitions.items()
        },
        reassignments=moving,
        requested_replicas={
            number: sync.target_of(topic.partitions[number].replicas, each)
            for number, each in moving.items()
            if number in topic.partitions
        },
        topic_id=topic.topic_id,
    )


# Read the progress of written topics: a partition with a leader is initialized, and a deletion is done at once.


def poll_progress(session: Session, topics: Mapping[str, Collection[int]]) -> Mapping[str, TopicProgress]:
    """Return the progress of each topic, with the initialized partitions among those asked for.

    Raises ``TopiaristError``.
    """
    metadata = read_again(lambda: read_metadata(sync.sync_to_read(session).connection, sorted(topics)))
    registered = {broker.id for broker in metadata.brokers}
    progress = {}
    for name, awaited in topics.items():
        topic = metadata.topics.get(name)
        if topic is not None:
            progress[name] = _progress_of(topic, awaited, registered)
            continue
        error = absent_or_error(name, metadata.errors.get(name))
        # A topic that is hidden now ends the wait: it is not known to be gone.
        progress[name] = TopicProgress(None, False, read_error=error.message if error else "")
    return progress


def _progress_of(topic: TopicMetadata, awaited: Collection[int], registered: Collection[int]) -> TopicProgress:
    brokers = {broker for partition in topic.partitions.values() for broker in partition.replicas}
    progress = TopicProgress(
        topic.topic_id or NO_IDENTITY,
        marked_for_deletion=False,
        missing_brokers=tuple(sorted(brokers.difference(registered))),
    )
    if not awaited:
        return progress
    led = frozenset(number for number in awaited if number in topic.partitions and topic.partitions[number].leader >= 0)
    return progress._replace(
        replicas={number: partition.replicas for number, partition in topic.partitions.items()},
        initialized=led,
        topic_id=topic.topic_id,
    )


# Read the throttles of brokers: the rates at which they copy replicas that a topic lists as throttled.

_DEFAULTS = "brokers/<default>"


def read_broker_throttles(session: Session) -> Mapping[str, Mapping[str, str]]:
    """Return the rates of each entity (``brokers/5``, ``brokers/<default>``) that has one.

    Raises ``TopiaristError``.
    """

    def read() -> Mapping[str, Mapping[str, str]]:
        connection = session.any_broker()
        ids = [str(broker.id) for broker in read_metadata(connection, []).brokers]
        return read_broker_configs(session, connection, [*ids, ""], RATE_CONFIGS)

    found = read_again(read)
    return {f"brokers/{entity}" if entity else _DEFAULTS: rates for entity, rates in found.items() if rates}


_ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS = "Alter", "Describe", "DescribeConfigs", "AlterConfigs"
_OPERATIONS = {3: "Read", 4: "Write", 5: "Create", 6: "Delete", 7: _ALTER, 8: _DESCRIBE} | {
    10: _DESCRIBE_CONFIGS,
    11: _ALTER_CONFIGS,
}
"""The operations that topiarist may need, by their numbers in Kafka's protocol."""

_NOT_SAID = -(1 << 31)
_SOME_GROUP = "topiarist"
_ALLOWED_CODES = frozenset({error_codes.NONE, *error_codes.LOOKUP_CODES, 69})
"""Codes of an answer about a group that the user may describe: it is elsewhere, or there is none of that name."""

_FIRST_VERSION, _LAST_VERSION = 8, 10
"""The versions of Metadata that have the allowed operations of the cluster and of topics."""

_REMOTE_STORAGE = "remote.storage.enable"
NO_MOVES_WITHOUT_RECORDS = (
    "replicas are not moved on a cluster without records (spec.kafka.records: None): the moves in flight and the"
    " throttles to put back are kept there"
)
_HINT_NO_MOVES = "move them with the service's own tool, or keep records"
_HINT_RIGHTS = "grant the permission: docs/connections.md lists those that moves need"


def find_refusals(session: Session, plan: Plan, *, keeps_records: bool = True) -> Mapping[str, Sequence[Issue]]:
    """Return by topic what the brokers would refuse, each with the changes that it withholds; write nothing.

    Without records no replicas are moved.

    Raises ``TopiaristError`` if the brokers do not answer. What they may not be asked is no refusal.
    """
    topics = [*plan.actionable_topics()]
    issues: dict[str, list[Issue]] = {}
    if not keeps_records:
        for topic in topics:
            if moves := tuple(change for change in topic.changes if isinstance(change, MoveReplicas)):
                issue = Issue(Reason.NOT_OFFERED, NO_MOVES_WITHOUT_RECORDS, (), _HINT_NO_MOVES, moves)
                issues.setdefault(topic.topic, []).append(issue)
    moved = [topic for topic in topics if topic.moves() or topic.elections()]
    if moved:
        allowed = read_again(lambda: _read_allowed(session.any_broker(), [topic.topic for topic in moved]))
        for topic in moved:
            issues.setdefault(topic.topic, []).extend(_find_denied(topic, allowed))
    remote = {
        topic.topic: changes
        for topic in topics
        if (changes := tuple(change for change in topic.changes if _gives_remote_storage(change)))
    }
    if remote and _has_no_remote_storage(session):
        message = f"{_REMOTE_STORAGE} is true, and the brokers have {REMOTE_STORAGE_SETTING}=false"
        hint = f"remove {_REMOTE_STORAGE}, or configure tiered storage on the brokers"
        for name, changes in remote.items():
            issue = Issue(Reason.CONFIG_INVALID, message, ("config", _REMOTE_STORAGE), hint, changes)
            issues.setdefault(name, []).append(issue)
    return {name: found for name, found in issues.items() if found}


def read_allowed_operations(session: Session) -> AllowedOperations:
    """Return the operations that the user may do, on all topics that the user may see. Raises ``TopiaristError``."""

    def read() -> AllowedOperations:
        connection = session.any_broker()
        return _read_allowed(connection, None)._replace(on_group=_read_allowed_on_group(connection))

    return read_again(read)


def _read_allowed_on_group(connection: Connection) -> Collection[str] | None:
    request = DescribeGroupsRequest(groups=[_SOME_GROUP])
    try:
        codes = {each.error_code for each in connection.call(request).groups}
    except UnsupportedRequest:
        return None
    if codes <= error_codes.AUTHORIZATION_CODES:
        return ()
    return (_DESCRIBE,) if codes <= _ALLOWED_CODES else None


def _read_allowed(connection: Connection, names: Collection[str] | None) -> AllowedOperations:
    """Return the operations that are allowed on these topics (None: on all), without those on groups."""
    topic = MetadataRequest.MetadataRequestTopic
    request = MetadataRequest(
        topics=None if names is None else [topic(name=name, topic_id=NO_ID) for name in names],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    version = connection.version_of(request, at_most=_LAST_VERSION)
    if version < _FIRST_VERSION:
        return AllowedOperations(None, {}, None)
    answer = connection.call(request, version=version)
    on_topics = {
        each.name: _decode_operations(each.topic_authorized_operations) for each in answer.topics if not each.error_code
    }
    return AllowedOperations(_decode_operations(answer.cluster_authorized_operations), on_topics, None)


def _decode_operations(bits: int) -> Collection[str] | None:
    """Return the names of allowed operations; None if the broker does not say."""
    return None if bits == _NOT_SAID else frozenset(name for number, name in _OPERATIONS.items() if bits >> number & 1)


def _find_denied(topic: TopicPlan, allowed: AllowedOperations) -> Iterator[Issue]:
    """Yield one refusal for the moves of a topic, and one for its elections."""
    for kind, verb in ((MoveReplicas, "move replicas"), (ElectLeaders, "elect leaders")):
        changes: list[Change] = [each for each in topic.changes if isinstance(each, kind)]
        if not changes:
            continue
        denied = [_describe_denied(_ALTER, "cluster")] if _is_denied(_ALTER, allowed.on_cluster) else []
        if is_throttled(topic, changes):
            verb = "throttle the copies"
            rights = (_DESCRIBE_CONFIGS, _ALTER_CONFIGS)
            denied += [_describe_denied(each, "cluster") for each in rights if _is_denied(each, allowed.on_cluster)]
            if _is_denied(_ALTER_CONFIGS, allowed.on_topics.get(topic.topic)):
                denied.append(_describe_denied(_ALTER_CONFIGS, "topic"))
        if denied:
            message = f"to {verb} it needs {', '.join(denied)}"
            yield Issue(Reason.NO_PERMISSION, message, (), _HINT_RIGHTS, tuple(changes))


def _is_denied(operation: str, allowed: Collection[str] | None) -> bool:
    """Return whether a set of allowed operations lacks one; a broker that does not say denies nothing."""
    return allowed is not None and operation not in allowed


def _describe_denied(operation: str, resource: str) -> str:
    return f"the permission {operation} on the {resource}"


def _has_no_remote_storage(session: Session) -> bool:
    brokers = read_again(lambda: read_metadata(session.any_broker(), []).brokers)
    settings = read_again(lambda: read_static_settings(session, brokers[0].id, [REMOTE_STORAGE_SETTING]))
    return settings.get(REMOTE_STORAGE_SETTING) == "false"


def _gives_remote_storage(change: Change) -> bool:
    if isinstance(change, CreateTopic):
        return _is_true(change.config.get(_REMOTE_STORAGE))
    return isinstance(change, UpdateConfig) and any(
        item.key == _REMOTE_STORAGE and _is_true(item.after) for item in change.items
    )


def _is_true(text: str | None) -> bool:
    return java_trim(text or "").lower() == "true"

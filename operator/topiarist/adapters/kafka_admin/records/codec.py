"""The values of the topic of records, the port to them, and what is decided from them alone.

A value of a newer version, or one that topiarist would not write, is an error: of its topic alone if it is the record
of a topic, of the whole run otherwise. It is never taken for an absent record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Annotated, Any, NamedTuple, Protocol

from msgspec import UNSET, Struct, UnsetType
from msgspec import Meta as Limit
from msgspec.json import Decoder
from msgspec.structs import replace

from topiarist.adapters import own_values
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.config_values import has_equivalent_value
from topiarist.kafka.types import INT_MAX, UNPLACED, Replicas, are_carried_out, are_unplaced, topic_name_problem
from topiarist.model.moves import BatchRecord
from topiarist.model.state import (
    AppliedSpec,
    ClosedRecords,
    Freeze,
    MovedRecords,
    OwnershipRecord,
    ReadError,
    TopicState,
)
from topiarist.text import format_count, quote

# The values that the topic of records holds, decoded, and the port of the runs that read and write them.

Lease = Annotated[int, Limit(ge=0, le=24 * 3600 * 1000)]
"""A lease in ms: a day at most, so that no value of another client makes a run wait for ever."""


class IntentKind(str, Enum):
    """The kind of a change that is under way. GONE is a creation that was given up and may still be carried out."""

    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"
    GONE = "gone"


class Intent(NamedTuple):
    """A change of a topic that a chunk is about to make, as another run needs it to find out what was made.

    ``after`` is the ownership record after the change. ``replicas`` are the lists of the new partitions: all of a
    creation, those from partition ``first_partition`` on of a growth. ``config`` has the keys that are set, and with
    None those that are removed.
    """

    kind: IntentKind
    after: OwnershipRecord | None
    replicas: tuple[Replicas, ...] = ()
    first_partition: int = 0
    config: Mapping[str, str | None] = {}


class TopicRecord(NamedTuple):
    """The record of one topic: its ownership record, valid if ``topic_id`` is the id of the topic.

    While a chunk is under way, ``record`` and ``topic_id`` are those before the chunk (None: there was no record, or no
    topic), and ``intent`` is its change.
    """

    record: OwnershipRecord | None
    topic_id: str | None = None
    intent: Intent | None = None


class StoredValue(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A value that is stored as it is, all its fields in their order; ``own_values`` encodes and decodes it."""


class Lock(StoredValue, frozen=True, rename={"number": "n", "lease_ms": "leaseMs", "leader_epoch": "leaderEpoch"}):
    """The lock: ``run`` None means free. ``number`` rises by one with every commit of any run.

    ``leader_epoch`` is that of the controller at the intents, None if it is not known.
    """

    run: str | None = None
    owner: str = ""
    host: str = ""
    lease_ms: Lease = 0
    number: own_values.Number = 0
    leader_epoch: own_values.Number | None = None


class Claim(StoredValue, frozen=True):
    """The claim of a run that is about to take the lock, written ``attempt`` times."""

    run: own_values.NonEmptyText
    owner: str
    host: str
    lease_ms: Lease
    attempt: own_values.Number


class Meta(StoredValue, frozen=True):
    """The cluster and the topic that the records were written in, and the transactional id if it is not the usual one.

    Earlier releases cannot read a ``meta`` with a transactional id, and so do not write beside such runs.
    """

    cluster_id: str
    topic_id: str
    transactional_id: own_values.NonEmptyText | UnsetType = UNSET


class Moved(StoredValue, frozen=True, rename={"total": "count"}):
    """The origin of records that came from ZooKeeper; ``skipped`` are topics with a record that was not valid."""

    chroot: str
    total: own_values.Number
    skipped: tuple[str, ...] = ()


class Records(NamedTuple):
    """All records. ``errors`` has the topics with a record that cannot be read; such a record is never overwritten.

    ``claims`` are in the order in which they were written.
    """

    topics: Mapping[str, TopicRecord] = {}
    lock: Lock = Lock()
    gate: Freeze | None = None
    meta: Meta | None = None
    moved: Moved | None = None
    moves: BatchRecord | None = None
    errors: Mapping[str, ReadError] = {}
    claims: tuple[Claim, ...] = ()

    @property
    def number(self) -> int:
        """Return the number of the last commit; 0 before the first."""
        return self.lock.number


class RecordsStore(Protocol):
    """The port of a run to the records: what writes topics and moves may use of them.

    Each method raises ``TopiaristError``, retryable if another run took over. After such an error every further call
    raises it too. After a commit that does not hold the lock, the run has to acquire the records again.
    """

    def read(self) -> Records:
        """Return the records without the lock; they may be old by some 50 ms."""

    def acquire(self, stop: Callable[[], bool]) -> Records:
        """Wait for other runs, fence the one before, read all records, check the freeze, resolve intents."""

    def commit(self, changes: Mapping[str, TopicRecord | None], *, hold: bool) -> None:
        """Write records in one transaction (None: delete); the lock is held afterwards if ``hold`` is true."""

    def commit_batch(self, batch: BatchRecord | None, *, hold: bool) -> None:
        """Write the record of the moves in flight (None: delete it), and keep the lock or give it up."""

    def keep(self) -> None:
        """Renew the time for which other runs wait, if a third of it is over."""

    def require_fence(self) -> None:
        """Return if this run holds the lock, its lease has time left, and no other run has taken over.

        Called directly before each request.
        """

    def release(self) -> None:
        """Let other runs begin, if this one has acquired the records."""


class NoRecords:
    """The port for a cluster that keeps no records: there is no lock, no owner, no intent, and nothing to resolve.

    Two runs at once are kept apart by nothing but the comparison by value directly before each write, and by the
    controller: it refuses a second creation, a growth from another count, and the deletion of another id.
    """

    def read(self) -> Records:
        """Return no records."""
        return Records()

    def acquire(self, stop: Callable[[], bool]) -> Records:
        """Return no records: no other run is waited for. Raises ``Locked`` if the run is stopped."""
        if stop():
            raise TopiaristError(Reason.LOCKED, "stopped before anything was sent")
        return Records()

    def commit(self, changes: Mapping[str, TopicRecord | None], *, hold: bool) -> None:
        """Write nothing."""

    def commit_batch(self, batch: BatchRecord | None, *, hold: bool) -> None:
        """Write nothing."""

    def keep(self) -> None:
        """Do nothing: no other run waits."""

    def require_fence(self) -> None:
        """Return: nothing can take over."""

    def release(self) -> None:
        """Do nothing: no other run waits."""


META, LOCK, GATE, MOVED, MOVES = "meta", "lock", "gate", "moved", "moves"
TOPIC_PREFIX, CLAIM_PREFIX = "topic/", "claim/"


PlannedList = Annotated[list[Annotated[int, Limit(ge=UNPLACED, le=INT_MAX)]], Limit(min_length=1)]
"""The replicas of a new partition: broker ids, or ``UNPLACED`` for each if the cluster chooses the brokers."""


class _Intent(own_values.Wire):
    kind: IntentKind
    after: own_values.Record | None
    replicas: list[PlannedList]
    first: own_values.Int32
    config: dict[str, str | None]


class _Topic(own_values.Wire):
    id: str | None
    record: own_values.Record | None
    intent: _Intent | UnsetType = UNSET


_CLAIM, _TOPIC = Decoder(Claim), Decoder(_Topic)
_LOCK, _META, _MOVED = Decoder(Lock), Decoder(Meta), Decoder(Moved)
_DECODERS: Mapping[str, Callable[[bytes], Any]] = {
    META: lambda raw: own_values.decode_value(raw, _META),
    LOCK: lambda raw: own_values.decode_value(raw, _LOCK),
    GATE: own_values.decode_freeze,
    MOVED: lambda raw: own_values.decode_value(raw, _MOVED),
    MOVES: own_values.decode_batch,
}


def claim_key(run: str) -> str:
    """Return the key of the claim of a run."""
    return f"{CLAIM_PREFIX}{run}"


def encode_topic(record: TopicRecord) -> bytes:
    """Return the value of ``topic/NAME``."""
    fields: dict[str, object] = {
        "id": record.topic_id,
        "record": record.record and own_values.record_fields(record.record),
    }
    if intent := record.intent:
        fields["intent"] = {
            "kind": intent.kind,
            "after": intent.after and own_values.record_fields(intent.after),
            "replicas": intent.replicas,
            "first": intent.first_partition,
            "config": dict(sorted(intent.config.items())),
        }
    return own_values.encode_value(fields)


def decode_records(values: Mapping[bytes, bytes]) -> Records:
    """Return all records. Raises ``Unreadable`` if a value that is not of one topic cannot be read.

    ``values`` are in the order in which their keys were first written since they were last deleted.
    """
    topics: dict[str, TopicRecord] = {}
    errors: dict[str, ReadError] = {}
    found: dict[str, Any] = {}
    claims: list[Claim] = []
    for raw_key, raw in values.items():
        key = raw_key.decode(errors="backslashreplace")
        name = key.removeprefix(TOPIC_PREFIX) if key.startswith(TOPIC_PREFIX) else None
        try:
            if name is not None:
                topics[name] = _decode_topic(name, raw)
            elif key in _DECODERS:
                found[key] = _DECODERS[key](raw)
            elif key.startswith(CLAIM_PREFIX):
                claims.append(_decode_claim(key, raw))
            else:
                raise _UnknownKeyError("found a key that this release of topiarist does not know")
        except own_values.JsonError as error:
            if name is None:
                message = f"the record {quote(key)} of topiarist cannot be read: {error}"
                raise TopiaristError(Reason.UNREADABLE, message, _HINTS[type(error)]) from None
            errors[name] = ReadError(key, str(error))
    lock, gate, meta, moved, moves = (found.get(key) for key in (LOCK, GATE, META, MOVED, MOVES))
    return Records(topics, lock or Lock(), gate, meta, moved, moves, errors, tuple(claims))


class _UnknownKeyError(own_values.JsonError):
    """A key of a later release, or of another client."""


_HINTS: Mapping[type[own_values.JsonError], str] = {
    own_values.JsonError: (
        "another client has written to the topic: write the last value of this key that topiarist wrote"
    ),
    own_values.NewerVersionError: "upgrade topiarist",
    _UnknownKeyError: "upgrade topiarist if a later release wrote it; if another client did, delete it:"
    " write a record with this key and a null value to the topic",
}


def _decode_claim(key: str, raw: bytes) -> Claim:
    claim = own_values.decode_value(raw, _CLAIM)
    if claim_key(claim.run) != key:
        raise own_values.JsonError(f'"run": found {quote(claim.run)}, wanted that of the key')
    return claim


def _decode_topic(name: str, raw: bytes) -> TopicRecord:
    if problem := topic_name_problem(name):
        raise own_values.JsonError(problem)
    found = own_values.decode_value(raw, _TOPIC)
    intent = None if found.intent is UNSET else _intent_of(found.intent)
    return TopicRecord(_record_of(found.record), found.id, intent)


def _intent_of(found: _Intent) -> Intent:
    replicas = tuple(map(tuple, found.replicas))
    if are_unplaced(replicas) and any(set(each) != {UNPLACED} for each in replicas):
        raise own_values.JsonError('"replicas": found lists that name brokers in part')
    return Intent(found.kind, _record_of(found.after), replicas, found.first, found.config)


def _record_of(found: own_values.Record | None) -> OwnershipRecord | None:
    return None if found is None else own_values.stored_record(found, is_deleted=found.absent)


# Merge records from ZooKeeper with those that the topic of records has. Pure.
#
# A run through the brokers may have written records before the move, of topics that it created. Those stay: a record
# names the id of its topic, so records of different topics cannot contradict each other. Of one topic with a record of
# one owner in both places the one of the topic of records stays, because ZooKeeper is closed and this one is used on.


class MergedRecords(NamedTuple):
    """The records that a move writes (none if it is repeated), and its result."""

    topics: dict[str, TopicRecord]
    moved: Moved
    gate: Freeze | None
    result: MovedRecords


def merge_moved(closed: ClosedRecords, records: Records) -> MergedRecords:
    """Return what a move of ``closed`` writes, given the present ``records``.

    Raises ``TopiaristError``: ``NotOwned`` if a topic has records of two owners, ``Unreadable`` if a record of one of
    the topics cannot be read.
    """
    if note := records.moved:
        unmatched = tuple(
            name
            for name, found in closed.records.items()
            if name not in records.topics and name not in records.errors and not found.record.deleted
        )
        result = MovedRecords(note.chroot, note.total, note.skipped, repeated=True, unmatched=unmatched)
        return MergedRecords({}, note, records.gate, result)
    if unreadable := sorted(closed.records.keys() & records.errors.keys()):
        error = records.errors[unreadable[0]]
        raise TopiaristError(Reason.UNREADABLE, f"the record {error.path} cannot be read: {error.message}")
    kept = tuple(sorted(closed.records.keys() & records.topics.keys()))
    _require_one_owner(closed, records, kept)
    topics = {
        name: TopicRecord(found.record, found.topic_id)
        for name, found in closed.records.items()
        if name not in records.topics
    }
    moved = Moved(closed.chroot, len(topics), closed.stale)
    gate = records.gate or closed.freeze
    return MergedRecords(topics, moved, gate, MovedRecords(closed.chroot, len(topics), closed.stale, kept))


def _require_one_owner(closed: ClosedRecords, records: Records, names: tuple[str, ...]) -> None:
    disputed = []
    for name in names:
        found = records.topics[name]
        owners = {each.owner for each in (found.record, found.intent and found.intent.after) if each}
        if owners - {closed.records[name].record.owner}:
            disputed.append(name)
    if disputed:
        first, here = closed.records[disputed[0]].record.owner, records.topics[disputed[0]].record
        raise TopiaristError(
            Reason.NOT_OWNED,
            f"{format_count(len(disputed), 'topic')} with records of two owners: {disputed[0]}, for example, belongs to"
            f" {first} in ZooKeeper and to {here.owner if here else 'another'} in Kafka",
            "remove the wrong record with topiarist unmanage, through ZooKeeper or through the brokers",
        )


# Resolve the intents of a run that ended: what of a chunk was made is decided by the topics as they are now.
#
# Pure. The intents of every owner are resolved, whatever the manifests of this run say: to a record with the id of the
# topic, to the record before, or to none. Only the owner completes what is missing.

PresentTopics = Mapping[str, TopicState | ReadError | None]


def has_late_write(record: TopicRecord, topic: TopicState | ReadError | None) -> bool:
    """Return whether the request of an intent may be carried out later; a run waits for it once."""
    intent = record.intent
    if intent is None or isinstance(topic, ReadError):
        return False
    if intent.kind is IntentKind.GONE:
        return False
    if intent.kind is IntentKind.CREATE:
        return topic is None
    if topic is None or topic.topic_id != record.topic_id:
        return False
    return intent.kind is IntentKind.DELETE or not _is_changed(intent, topic)


def resolve(record: TopicRecord, topic: TopicState | ReadError | None, *, has_waited: bool) -> TopicRecord | None:
    """Return the record without its intent (None: no record); a topic that cannot be read keeps its intent.

    ``has_waited`` is true if no request of the other run can be carried out any more. Until then a creation that was
    given up stays as ``GONE``: a topic that appears later is recognized by it.

    What was made is recorded without the values that were applied, so that the next plan completes the record: this
    writes it, even if nothing else is to do.
    """
    intent = record.intent
    if intent is None or isinstance(topic, ReadError):
        return record
    before = forget_intent(record)
    if intent.kind in (IntentKind.CREATE, IntentKind.GONE):
        if topic is None:
            return before if has_waited else record._replace(intent=intent._replace(kind=IntentKind.GONE))
        return _made(intent.after, topic.topic_id) if _is_created(intent, topic) else before
    is_same = topic is not None and topic.topic_id == record.topic_id
    if intent.kind is IntentKind.DELETE:
        if is_same:
            return before
        return TopicRecord(intent.after) if intent.after else None
    if topic is None or not is_same:
        return before
    if _is_changed(intent, topic):
        return _made(intent.after, record.topic_id)
    partial = build_partial_record(record.record, intent, topic)
    return before if partial == record.record else _made(partial, record.topic_id)


def forget_intent(record: TopicRecord) -> TopicRecord | None:
    """Return the record as it was before its intent."""
    return TopicRecord(record.record, record.topic_id) if record.record else None


def build_partial_record(before: OwnershipRecord | None, intent: Intent, topic: TopicState) -> OwnershipRecord | None:
    """Return the ownership record of a topic that shows only a part of a change; ``before`` if it shows nothing of it.

    It lists the keys of the intent that have their value, and the keys of ``before`` that are still set.
    """
    after = intent.after
    made = {key for key, value in intent.config.items() if _is_set(topic, key, value)}
    is_grown = bool(intent.replicas) and _is_grown(intent, topic)
    if after is None or not (made or is_grown):
        return before
    usable = before if before and not before.deleted else None
    added = {key for key in after.config_keys if key in made or key not in intent.config}
    kept = {key for key in (usable.config_keys if usable else ()) if key in topic.config}
    values: dict[str, str] = {}
    for record, keys in ((usable, kept), (after, added)):
        config = record.applied.config if record and record.applied else ()
        values |= {key: value for key, value in config if key in keys}
    sizes = after if is_grown or not intent.replicas else usable
    applied = after.applied and AppliedSpec(
        sizes.applied.partitions if sizes and sizes.applied else None,
        tuple(sorted(values.items())),
        after.applied.remove_unmanaged,
    )
    return replace(after, config_keys=tuple(sorted(added | kept)), applied=applied)


def _made(record: OwnershipRecord | None, topic_id: str | None) -> TopicRecord | None:
    if record is None:
        return None
    applied = record.applied and AppliedSpec(None, (), record.applied.remove_unmanaged)
    return TopicRecord(replace(record, applied=applied), topic_id)


def _is_created(intent: Intent, topic: TopicState) -> bool:
    return are_carried_out(intent.replicas, topic.replicas) and _are_configs_set(intent, topic)


def _is_changed(intent: Intent, topic: TopicState) -> bool:
    return _is_grown(intent, topic) and _are_configs_set(intent, topic)


def _is_grown(intent: Intent, topic: TopicState) -> bool:
    first = intent.first_partition
    return are_carried_out(intent.replicas, topic.replicas[first : first + len(intent.replicas)])


def _are_configs_set(intent: Intent, topic: TopicState) -> bool:
    return all(_is_set(topic, key, value) for key, value in intent.config.items())


def _is_set(topic: TopicState, key: str, value: str | None) -> bool:
    return key not in topic.config if value is None else has_equivalent_value(topic.config, key, value)

"""Read single topics directly before and after a write, after a sync."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Protocol, TypeVar

from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.connection.connection import Disconnected
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.read.configs import KnownConfigs, read_overrides_and_known_configs
from topiarist.adapters.kafka_admin.read.metadata import TopicMetadata, read_metadata
from topiarist.adapters.kafka_admin.read.reassignments import Reassignments, ReassignmentsWatch
from topiarist.adapters.kafka_admin.read.sync import sync
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.config_rules import settings_of_known_defaults
from topiarist.kafka.types import Broker, KafkaVersion
from topiarist.model.state import ReadError, TopicState

MAX_BROKEN_READS = 3
"""The number of connections that may break during one read: each begins it anew, with a sync of its own."""

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

    def look_again(self, ids: Mapping[str, str | None], *, is_result: bool = False) -> Look:
        """Return the same of topics that had these ids before (None: that did not exist).

        Those of a result may lack their reassignments.
        """


class TopicReader:
    """A reader of single topics of one cluster, without their records.

    ``watched`` is looked at with all topics that are looked at again.
    """

    def __init__(self, session: Session, watched: Watched | None = None) -> None:
        self._session = session
        self._watched = watched

    def look(self, names: Collection[str]) -> Look:
        """Return these topics as they are now.

        Raises ``TopiaristError``: the errors of ``sync``, ``NoPermission``, and ``StateConflict`` if the topics change
        all the time.
        """
        return read_again(lambda: self._look(sorted(names)))

    def look_again(self, ids: Mapping[str, str | None], *, is_result: bool = False) -> Look:
        """Return topics as they are now that had these ids (None: did not exist) before. Raises what ``look`` raises.

        No id is used twice, so a topic that has its id after its configs were read had it meanwhile: its metadata are
        read once, and last. The reassignments are listed after them, so that a reassignment is listed, or its end is
        in the metadata, or the lists of replicas are not those that the topic had before. A topic with another id is
        read as by ``look``. For a result nothing depends on reassignments: they are not listed.
        """
        return read_again(lambda: self._look_once(ids, is_result=is_result) or self._look(sorted(ids)))

    def _look(self, names: list[str]) -> Look:
        synced = sync(self._session)
        connection = synced.connection
        found: dict[str, TopicState | ReadError | None] = {}
        brokers: Mapping[int, Broker] = {}
        broker_defaults: Mapping[str, str] = {}
        remaining = names
        watch = ReassignmentsWatch(self._session, connection, has_controller=bool(names))
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
                    found[name] = build_topic_state(now, config, watch.current)
                elif name not in existing and name not in after.topics:
                    found[name] = absent_or_error(name, after.errors.get(name))
            remaining = [name for name in names if name not in found]
            if not remaining:
                return Look(found, brokers, broker_defaults, synced.version)
        message = f"topic {remaining[0]} changed {_ROUNDS} times while it was read"
        raise TopiaristError(Reason.STATE_CONFLICT, message, "run again")

    def _look_once(self, ids: Mapping[str, str | None], *, is_result: bool) -> Look | None:
        """Return the topics as one look shows them; None if one of them is not the one that it was."""
        synced = sync(self._session)
        connection, watched = synced.connection, self._watched.topic_ids() if self._watched else {}
        present = sorted(name for name, topic_id in ids.items() if topic_id)
        described = sorted({*present, *watched}) if present else []
        configs, known = read_overrides_and_known_configs(self._session, connection, described)
        metadata = read_metadata(connection, sorted({*ids, *watched}))
        topics = {name: topic for name, topic in metadata.topics.items() if name in ids}
        if any(topic.topic_id != ids[name] or configs.get(name) is None for name, topic in topics.items()):
            return None
        watch = ReassignmentsWatch(self._session, connection, has_controller=bool(present) and not is_result)
        found = {
            name: build_topic_state(topics[name], configs[name] or {}, watch.current)
            if name in topics
            else absent_or_error(name, metadata.errors.get(name))
            for name in ids
        }
        for name, topic_id in watched.items():
            if self._watched and name in metadata.topics and metadata.topics[name].topic_id == topic_id:
                self._watched.note_look(configs.get(name), synced.quorum and synced.quorum.leader_epoch)
        brokers = {broker.id: broker for broker in metadata.brokers}
        return Look(found, brokers, _find_broker_defaults(known), synced.version)


def _find_broker_defaults(known: KnownConfigs | None) -> Mapping[str, str]:
    return {**settings_of_known_defaults(known.configs), **known.broker_defaults} if known else {}


def build_topic_state(topic: TopicMetadata, config: Mapping[str, str], reassignments: Reassignments) -> TopicState:
    """Return the state of a topic, without a record."""
    return TopicState(
        name=topic.name,
        identity=topic.topic_id or "",
        replicas=tuple(partition.replicas for partition in topic.partitions.values()),
        config=config,
        partition_ids=tuple(topic.partitions),
        topic_id=topic.topic_id,
        reassigning_partitions=tuple(sorted(reassignments.get(topic.name, ()))),
    )


def is_unchanged(before: TopicMetadata, after: TopicMetadata) -> bool:
    """Return whether a topic is the same and has the same replica lists; leaders and in-sync replicas may change."""
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
        raise TopiaristError(Reason.UNREACHABLE, f"the connection to a broker broke: {error}", "run again") from error

"""Read single topics directly before and after a write, after a sync."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, TypeVar

from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.connection.connection import Connection, Disconnected
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.read.configs import read_known_configs, read_overrides
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


class TopicReader:
    """A reader of single topics of one cluster, without their records."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def look(self, names: Collection[str]) -> Look:
        """Return these topics as they are now.

        Raises ``TopiaristError``: the errors of ``sync``, ``NoPermission``, and ``StateConflict`` if the topics change
        all the time.
        """
        return read_again(lambda: self._look(sorted(names)))

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
            configs = read_overrides(self._session, connection, existing)
            moved: Collection[str] = ()
            if existing:
                broker_defaults = broker_defaults or self._read_broker_defaults(connection, configs)
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

    def _read_broker_defaults(
        self, connection: Connection, overrides: Mapping[str, Mapping[str, str] | None]
    ) -> Mapping[str, str]:
        known = read_known_configs(self._session, connection, overrides)
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

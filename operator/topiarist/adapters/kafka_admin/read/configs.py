"""Read topic configs: overrides of many topics, and all that the brokers know about the configs of a topic.

A broker that may not be asked answers with an error and no entries, which would read as "no overrides": every result's
error is looked at, and a topic without a result is a fault. An error of one topic is a value, so that all others are
read. Values come parsed (numbers without blanks), so they are compared by value, as everywhere.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from typing import NamedTuple, TypeVar

from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.connection.connection import Connection, Disconnected, Message
from topiarist.adapters.kafka_admin.connection.session import AnswerCache, Session, digest_answer
from topiarist.adapters.kafka_admin.protocol.messages import DescribeConfigsRequest, MalformedMessage
from topiarist.adapters.kafka_admin.read import metadata
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import KnownConfig

# Read many parts of the same kind over several connections at once.
#
# A broker answers the requests of one connection one after the other, and describes the configs of a topic in a tenth
# of a millisecond: several connections are the only way to keep more than one of its processors busy. Each further
# connection is opened in its own thread, so that nothing waits for it: what it does not read, the first one reads.

MAX_MORE_CONNECTIONS = 2
"""Maximum number of further connections: a broker has three network threads and eight request handlers by default."""

MIN_PARTS = 3
"""The number of parts from which on further connections pay."""

LendMore = Callable[[], AbstractContextManager[Connection | None]]
"""Lends one more connection, in a thread of its own; None: there is none."""

P = TypeVar("P")
T = TypeVar("T")


def no_more() -> AbstractContextManager[Connection | None]:
    """Lend no further connection."""
    return nullcontext()


def read_in_parallel(
    connection: Connection, parts: Sequence[P], read: Callable[[Connection, P], T], more: LendMore
) -> list[T]:
    """Return the result of ``read`` for each part, in order.

    The part of a further connection that breaks is read over ``connection``. Raises the first other error of ``read``.
    """
    waiting = deque(enumerate(parts))
    results: dict[int, T] = {}
    errors: list[BaseException] = []
    changed: SimpleQueue[None] = SimpleQueue()

    def work(reader: Connection) -> None:
        while waiting and not errors:
            try:
                index, part = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                results[index] = read(reader, part)
            except BaseException:
                waiting.append((index, part))
                raise
            changed.put(None)

    def help_reading() -> None:
        try:
            with more() as another:
                if another is not None:
                    work(another)
        except Disconnected:
            changed.put(None)
        except BaseException as error:  # reraised in the calling thread
            errors.append(error)
            changed.put(None)

    for _ in range(min(MAX_MORE_CONNECTIONS, len(parts) // MIN_PARTS) if more is not no_more else 0):
        threading.Thread(target=help_reading, name="reading", daemon=True).start()
    try:
        while len(results) < len(parts):
            work(connection)
            if errors:
                raise errors[0]
            changed.get()  # a part was read or given up, here or by another thread
    finally:
        waiting.clear()
    return [results[index] for index in range(len(parts))]


BATCH_SIZE, MIN_BATCH_SIZE = 250, 100
"""The numbers of topics in one request: larger ones are no faster, and hold a request handler of the broker longer.

Up to 1,500 topics are two requests for each connection, so that no connection waits for another one at the end.
"""

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4

_REQUEST_CODES = frozenset({error_codes.CLUSTER_AUTHORIZATION_FAILED, error_codes.UNSUPPORTED_VERSION})
"""Codes of a result that concern every topic: they end the read."""

BROKER_OVERRIDE, _DYNAMIC_DEFAULT = 2, 3
"""Sources of values: set for one broker, and for all of them. That of topics is ``OVERRIDE``."""

_MAX_DESCRIBED = 20
"""The number of topics that are described with all that the brokers know: an answer has some 10 KiB for each."""

_TYPES = {
    **{1: "BOOLEAN", 2: "STRING", 3: "INT", 4: "SHORT", 5: "LONG"},
    **{6: "DOUBLE", 7: "LIST", 8: "CLASS", 9: "PASSWORD"},
}


Overrides = Mapping[str, str] | TopiaristError | None
"""The overrides of one topic; an error if the brokers do not describe it, None if it does not exist any more."""


class KnownConfigs(NamedTuple):
    """The topic configs that the brokers know, and the dynamic cluster-wide settings that are the default of one."""

    configs: Mapping[str, KnownConfig]
    broker_defaults: Mapping[str, str]


def read_overrides(
    session: Session, connection: Connection, names: Sequence[str], *, more: LendMore = no_more
) -> Mapping[str, Overrides]:
    """Return the overrides of each topic, or the error of one that the brokers do not describe.

    Many topics are read over further connections too, which ``more`` lends. Raises ``Disconnected``, and
    ``NoPermission`` or ``PrerequisiteMissing`` if no topic may or can be described.
    """

    def read(from_: Connection, batch: Sequence[str]) -> dict[str, Overrides]:
        found = _read_batch(from_, batch, session.answers)
        return {name: _overrides_or_error(session, name, found.get(name)) for name in batch}

    overrides: dict[str, Overrides] = {}
    for found in read_in_parallel(connection, list(split_names(names)), read, more):
        overrides |= found
    return overrides


class _Described(NamedTuple):
    """The answer about one topic: its overrides, and what the broker knows."""

    overrides: Mapping[str, str]
    known: KnownConfigs


def read_overrides_and_known_configs(
    session: Session, connection: Connection, names: Sequence[str], *, more: LendMore = no_more
) -> tuple[Mapping[str, Overrides], KnownConfigs | None]:
    """Return what ``read_overrides`` and ``read_known_configs`` return; a few topics are described in one request."""
    if not 0 < len(names) <= _MAX_DESCRIBED:
        overrides = read_overrides(session, connection, names, more=more)
        return overrides, read_known_configs(session, connection, overrides)
    described = _describe_configs(session, connection, names)
    overrides = {name: each.overrides if isinstance(each, _Described) else each for name, each in described.items()}
    return overrides, _collect_known(overrides, described.get)


def read_known_configs(
    session: Session, connection: Connection, overrides: Mapping[str, Overrides]
) -> KnownConfigs | None:
    """Return what the brokers know about configs, as they describe it for topics; None without a topic to describe.

    ``overrides`` are those of topics by name, as ``read_overrides`` returns them. A topic does not show the default of
    a config that it overrides, so another one is asked for that; a default that no topic shows stays unknown.
    """
    return _collect_known(overrides, lambda name: _describe_configs(session, connection, [name])[name])


def _collect_known(
    overrides: Mapping[str, Overrides], describe: Callable[[str], _Described | TopiaristError | None]
) -> KnownConfigs | None:
    configs = {name: config for name, config in overrides.items() if isinstance(config, Mapping)}
    known: KnownConfigs | None = None
    missing: Collection[str] | None = None
    for name in sorted(configs, key=lambda name: (len(configs[name]), name))[:_MAX_DESCRIBED]:
        if missing is not None and configs[name].keys() >= set(missing):
            continue
        described = describe(name)
        if not isinstance(described, _Described):
            continue
        found, before = described.known, known.configs if known else {}
        defaults = {key: each for key, each in before.items() if each.default is not None}
        known = found._replace(configs={**found.configs, **defaults})
        missing = [key for key, each in known.configs.items() if each.default is None]
        if not missing:
            break
    return known


def _describe_configs(
    session: Session, connection: Connection, names: Sequence[str]
) -> Mapping[str, _Described | TopiaristError | None]:
    """Return the overrides and all configs of each topic, or what ``Overrides`` has in their place."""
    answer = connection.call(build_describe_configs(names, None, synonyms=True))
    results = {each.resource_name: each for each in answer.results}
    return {name: _read_described(session, name, results.get(name)) for name in names}


def _read_described(session: Session, name: str, result: Message | None) -> _Described | TopiaristError | None:
    entries = result.configs if result else ()
    own = {each.name: each.value or "" for each in entries if each.config_source == metadata.OVERRIDE}
    found = metadata.TopicOverrides(name, own, result.error_code, result.error_message) if result else None
    overrides = _overrides_or_error(session, name, found)
    if not isinstance(overrides, Mapping):
        return overrides
    known: dict[str, KnownConfig] = {}
    settings: dict[str, str] = {}
    for entry in entries:
        inherited = [each for each in entry.synonyms if each.source != metadata.OVERRIDE]
        default = None if entry.config_source == metadata.OVERRIDE else entry.value
        known[entry.name] = KnownConfig(_TYPES.get(entry.config_type, ""), default)
        settings |= {each.name: each.value for each in inherited if each.source == _DYNAMIC_DEFAULT and each.value}
    return _Described(overrides, KnownConfigs(known, settings))


def read_broker_configs(
    session: Session, connection: Connection, entities: Sequence[str], keys: Sequence[str]
) -> Mapping[str, Mapping[str, str]]:
    """Return the dynamic values of ``keys`` of brokers by id; the empty id is that of the cluster-wide defaults.

    Raises ``NoPermission`` and ``Disconnected``.
    """
    found: dict[str, Mapping[str, str]] = {}
    for entity in entities:  # one request each: a broker describes only itself and the defaults
        target = session.broker(int(entity)) if entity else connection
        result = next(iter(target.call(build_describe_configs([entity], keys, resource=BROKER_RESOURCE)).results), None)
        whose = f"configs of broker {entity}" if entity else "defaults of the brokers"
        if result is None:
            raise TopiaristError(Reason.UNREADABLE, f"the answer of the brokers does not have the {whose}")
        if result.error_code:
            what = f"cannot read the {whose}"
            raise session.error_of(result.error_code, what, "DescribeConfigs on the cluster", result.error_message)
        own = BROKER_OVERRIDE if entity else _DYNAMIC_DEFAULT
        found[entity] = {each.name: each.value for each in result.configs if each.config_source == own and each.value}
    return found


def read_static_settings(session: Session, broker_id: int, keys: Sequence[str]) -> Mapping[str, str]:
    """Return settings of one broker, which all brokers should share; without those that may not be read.

    Raises ``Disconnected``.
    """
    request = build_describe_configs([str(broker_id)], keys, resource=BROKER_RESOURCE)
    results = session.broker(broker_id).call(request).results
    return {
        each.name: each.value for result in results if not result.error_code for each in result.configs if each.value
    }


def _read_batch(
    connection: Connection, names: Sequence[str], answers: AnswerCache | None
) -> Mapping[str, metadata.TopicOverrides]:
    request = build_describe_configs(names, None)
    version = connection.version_of(request)
    data = connection.call_raw(request, version)

    def decode() -> Mapping[str, metadata.TopicOverrides]:
        return {each.name: each for each in _decode_overrides(connection, request, version, data)}

    if answers is None:
        return decode()
    return answers.decode(("DescribeConfigs", version, names[0]), digest_answer(data), decode)


def _decode_overrides(
    connection: Connection, request: Message, version: int, data: bytes
) -> Iterator[metadata.TopicOverrides]:
    if version != metadata.VERSION:
        for result in connection.decode(request, version, data).results:
            config = {each.name: each.value or "" for each in result.configs if each.config_source == metadata.OVERRIDE}
            yield metadata.TopicOverrides(result.resource_name, config, result.error_code, result.error_message)
        return
    try:
        yield from metadata.decode_overrides(data)
    except MalformedMessage as error:
        connection.close()
        raise Disconnected(f"an answer to DescribeConfigs cannot be decoded: {error}", was_sent=True) from error


def _overrides_or_error(session: Session, name: str, found: metadata.TopicOverrides | None) -> Overrides:
    if found is None:
        return TopiaristError(Reason.UNREADABLE, "the answer of the brokers does not have its configs")
    if found.error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    if not found.error_code:
        return found.config
    right = f"DescribeConfigs on topic {name}"
    error = session.error_of(found.error_code, "its configs cannot be read", right, found.error_message)
    if found.error_code in _REQUEST_CODES:
        raise TopiaristError(error.reason, f"topic {name}: {error.message}", error.hint)
    return error


def build_describe_configs(
    names: Iterable[str], keys: Sequence[str] | None, *, synonyms: bool = False, resource: int = TOPIC_RESOURCE
) -> Message:
    """Return the request for these configs (None: all) of topics by name, or of brokers by id."""
    wanted = DescribeConfigsRequest.DescribeConfigsResource
    return DescribeConfigsRequest(
        resources=[
            wanted(resource_type=resource, resource_name=name, configuration_keys=None if keys is None else list(keys))
            for name in names
        ],
        include_synonyms=synonyms,
    )


def split_names(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the names of topics of each request."""
    equal = -(-len(names) // (2 * (1 + MAX_MORE_CONNECTIONS)))
    size = min(max(equal, MIN_BATCH_SIZE), BATCH_SIZE)
    for start in range(0, len(names), size):
        yield names[start : start + size]

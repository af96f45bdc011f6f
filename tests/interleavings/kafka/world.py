"""The states that the explorer visits through Kafka's own API: topics, records, runs, time, what may still go wrong.

Admin requests are checked by ``controller_checks``, as in all brokers in memory. Written by hand are the records, as a
value that one transaction replaces. The transactional producer is reduced to one fact: which run is the newest. Only a
newer run's ``init`` changes it, and a transaction of a run that is not the newest changes nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from interleavings.replay import RunSpec
from support.kafka import controller_checks as checks
from topiarist.adapters.kafka_admin.connection.connection import encode_topic_id
from topiarist.adapters.kafka_admin.records import codec
from topiarist.adapters.kafka_admin.records.codec import Meta, Records, TopicRecord
from topiarist.adapters.kafka_admin.write import requests
from topiarist.adapters.own_values import encode_value
from topiarist.kafka.types import Replicas
from topiarist.model.state import OwnershipRecord, TopicState

META = Meta("cluster", "records")

BROKERS = frozenset({1, 2, 3})
"""The registered brokers."""

FORWARDING_S = 60.0
"""Seconds for which a broker keeps a request while there is no controller."""


class Budget(NamedTuple):
    """How often each kind of disturbance may still happen.

    ``stops`` are the times that a run stands still while time passes, ``losses`` answers that do not arrive, ``delays``
    requests that wait in a broker for a new controller.
    """

    losses: int = 0
    delays: int = 0
    crashes: int = 0
    stops: int = 0
    client_actions: int = 0


_NO_BUDGET = Budget()


class Topic(NamedTuple):
    """A topic of the cluster.

    ``moving`` has partition and target of each move in flight, ``isrs`` the replicas in sync of these partitions;
    ``replicas`` has the target and then what is removed.
    """

    number: int
    replicas: tuple[Replicas, ...]
    config: tuple[tuple[str, str], ...] = ()
    moving: tuple[tuple[int, Replicas], ...] = ()
    isrs: tuple[tuple[int, Replicas], ...] = ()


class AdminRequest(NamedTuple):
    """An Admin request as a value. ``items`` has, by topic name (deletions: by id), what the kind needs.

    Kinds: ``create`` with replica lists and configs, ``configure`` with keys and values, ``grow`` with the total and
    the new replica lists, ``delete`` with nothing; ``move`` with partition and target, ``throttle`` with keys and
    values by entity (``moves``).
    """

    kind: str
    items: tuple[tuple[str, Any], ...]


class Delayed(NamedTuple):
    """An Admin request of a run that a broker keeps until there is a controller, or until its time is over."""

    run: int
    request: AdminRequest
    until: float


class Run(NamedTuple):
    """One run. ``state`` is its local state, None after a crash; ``wakes`` is the time when its sleep is over.

    ``asked_at`` is the time when it asked what it waits for now, ``leased_at`` the time when its lease began.
    ``seen`` are its topics as it has read them last.
    ``touched`` are the topics that its requests have changed; ``overtaken`` counts those of its requests that were
    carried out after another run had taken over.
    """

    state: int | None
    wakes: float | None = None
    asked_at: float = 0.0
    leased_at: float | None = None
    seen: tuple[tuple[str, Topic | None], ...] = ()
    touched: tuple[str, ...] = ()
    overtaken: int = 0


class World(NamedTuple):
    """One state. ``newest`` is the run that called ``init`` last; ``offset`` rises with each commit.

    ``controller`` is the epoch of the active controller, negative while there is none. ``client`` is what another
    client is doing between two requests. ``brokers`` has the overrides of brokers that throttle.
    """

    topics: tuple[tuple[str, Topic], ...]
    values: tuple[tuple[bytes, bytes], ...]
    runs: tuple[Run, ...]
    budget: Budget
    offset: int = 0
    newest: int = -1
    next_number: int = 1
    clock: float = 0.0
    controller: int = 1
    delayed: tuple[Delayed, ...] = ()
    brokers: tuple[tuple[int, tuple[tuple[str, str], ...]], ...] = ()

    @property
    def records(self) -> Records:
        """Return the committed records."""
        return codec.decode_records(dict(self.values))

    def topic(self, name: str) -> Topic | None:
        """Return a topic, None if it does not exist."""
        return dict(self.topics).get(name)

    def with_topic(self, name: str, topic: Topic | None) -> World:
        """Return the state with this topic; None removes it."""
        topics = {each: value for each, value in self.topics if each != name} | ({name: topic} if topic else {})
        return self._replace(topics=tuple(sorted(topics.items())))

    def commit(self, changes: Mapping[bytes, bytes | None]) -> World:
        """Return the state after a transaction on the records, or one record without it; claims keep their order."""
        values = {**dict(self.values), **changes}
        kept = [(key, value) for key, value in values.items() if value is not None]
        claims = [each for each in kept if each[0].startswith(codec.CLAIM_PREFIX.encode())]
        return self._replace(values=(*sorted({*kept} - {*claims}), *claims), offset=self.offset + 1)


@dataclass(frozen=True)
class Scenario:
    """A cluster, the runs on it, and what may go wrong.

    ``topics`` has replica lists, configs and ownership record (None: no record) of each topic. ``freezes`` are the runs
    that freeze the cluster instead of applying a plan. ``client_actions`` are the kinds of another client's actions.
    """

    runs: tuple[RunSpec, ...]
    topics: Mapping[str, tuple[tuple[Replicas, ...], Mapping[str, str], OwnershipRecord | None]]
    budget: Budget = _NO_BUDGET
    freezes: tuple[int, ...] = ()
    client_actions: tuple[tuple[str, str, Any], ...] = ()

    @property
    def keeps_records(self) -> bool:
        """Return whether the runs keep records, and so one of two waits."""
        return all(run.cluster.keeps_records for run in self.runs)


def topic_uuid(number: int) -> uuid.UUID:
    """Return the id of the ``number``-th topic."""
    return uuid.UUID(int=number)


def topic_id(topic: Topic) -> str:
    """Return the id of a topic as text."""
    return encode_topic_id(topic_uuid(topic.number))


def state_of(name: str, topic: Topic) -> TopicState:
    """Return a topic as topiarist's reader returns it, without a record."""
    number = topic_id(topic)
    return TopicState(
        name=name,
        identity=number,
        topic_id=number,
        replicas=topic.replicas,
        config=dict(topic.config),
        reassigning_partitions=tuple(partition for partition, _ in topic.moving),
    )


def carry_out(world: World, request: AdminRequest) -> tuple[World, tuple[tuple[str, int, int], ...]]:
    """Return the state after an Admin request, and for each of its topics the error code and the topic's number."""
    results = []
    for name, wanted in request.items:
        world, code, number = _CARRY_OUT[request.kind](world, name, wanted)
        results.append((name, code, number))
    return world, tuple(results)


def _create(world: World, name: str, wanted: Any) -> tuple[World, int, int]:
    replicas, config = wanted
    code, _ = checks.check_name(name, [each for each, _ in world.topics])
    code = code or checks.check_configs(dict(config))[0]
    code = code or checks.check_lists(replicas, BROKERS, width=len(replicas[0]))[0]
    if code:
        return world, code, 0
    number = world.next_number
    after = world.with_topic(name, Topic(number, replicas, tuple(sorted(config))))
    return after._replace(next_number=number + 1), requests.NONE, number


def _configure(world: World, name: str, wanted: Any) -> tuple[World, int, int]:
    topic = world.topic(name)
    config = {**(dict(topic.config) if topic else {}), **dict(wanted)}
    kept = tuple(sorted((key, value) for key, value in config.items() if value is not None))
    code, _ = checks.check_configs(dict(kept))
    if code or topic is None:
        return world, code or requests.UNKNOWN_TOPIC, 0
    return world.with_topic(name, topic._replace(config=kept)), requests.NONE, 0


def _grow(world: World, name: str, wanted: Any) -> tuple[World, int, int]:
    topic, (total, replicas) = world.topic(name), wanted
    code, _ = checks.check_growth(name, topic and topic.replicas, total, replicas)
    if not code and topic:
        code, _ = checks.check_lists(replicas, BROKERS, width=len(topic.replicas[0]))
    if code or topic is None:
        return world, code, 0
    return world.with_topic(name, topic._replace(replicas=(*topic.replicas, *replicas))), requests.NONE, 0


def _delete(world: World, wanted_id: str, _wanted: Any) -> tuple[World, int, int]:
    name = next((name for name, topic in world.topics if topic_id(topic) == wanted_id), None)
    if name is None:
        return world, requests.UNKNOWN_ID, 0
    return world.with_topic(name, None), requests.NONE, 0


_CARRY_OUT = {"create": _create, "configure": _configure, "grow": _grow, "delete": _delete}


def first_world(scenario: Scenario, states: list[int]) -> World:
    """Return the first state of a scenario: the records topic exists, and the runs are about to begin."""
    world = World((), (), tuple(map(Run, states)), scenario.budget)
    meta = encode_value(META) if scenario.keeps_records else None
    values: dict[bytes, bytes | None] = {codec.META.encode(): meta}
    for name, (replicas, config, record) in sorted(scenario.topics.items()):
        topic = Topic(world.next_number, replicas, tuple(sorted(config.items())))
        world = world.with_topic(name, topic)._replace(next_number=world.next_number + 1)
        if record is not None:
            kept = TopicRecord(record, topic_id(topic))
            values[f"{codec.TOPIC_PREFIX}{name}".encode()] = codec.encode_topic(kept)
    return world.commit(values)._replace(offset=0)

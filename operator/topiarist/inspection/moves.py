"""The moves of one cluster: the last batch, the partitions in flight, entries that block, and throttles.

``topiarist moves`` shows it. All of it is read from the cluster: the record of topiarist's last batch, the reassignment
request, the topics that these name, and the throttle configs of topics and brokers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from topiarist.kafka.config_table import THROTTLE_CONFIGS
from topiarist.kafka.types import Replicas
from topiarist.model.moves import BatchRecord, OwnThrottles
from topiarist.model.state import ClusterState, Reassignment, TopicInspection
from topiarist.planning.moves.throttles import PartitionInFlight, find_added, find_blocker, find_stuck_entry


class MovingPartition(NamedTuple):
    """A partition that is reassigned: its target, the brokers that copy it, and those of the target not in sync.

    ``adding`` and ``lagging`` are None if the partition's state is not known. ``is_requested`` is False if no entry of
    the request names the partition: a client moves it through the Admin API.
    """

    topic: str
    partition: int
    target: Replicas
    adding: Replicas | None
    lagging: Replicas | None
    is_requested: bool = True


class RecordedThrottle(NamedTuple):
    """A throttle value that the record of the last batch holds, and the present one; None where there is none."""

    entity: str
    config: str
    before: str | None
    ours: str
    now: str | None


class Throttle(NamedTuple):
    """A throttle value that no record explains: another client has set it, or a run has lost it."""

    entity: str
    config: str
    value: str


class MoveStatus(Struct, frozen=True):
    """The status of the moves of one cluster.

    ``own`` are the partitions of the last batch that are in flight, ``foreign`` those that another client reassigns.
    ``blocker`` is what keeps partitions from ending however fast brokers copy. ``stuck`` are entries that the
    controller never removes, each with its remedy. ``batch_at_ms`` and ``changed_at_ms``, the last change of the
    request, are in ms since the epoch by the cluster's own clock; both are None through the brokers. ``unread`` are the
    entities in ``throttles`` with unknown values: only an online broker describes its own.
    """

    cluster: str
    cluster_id: str
    warnings: tuple[str, ...] = ()
    batch: BatchRecord | None = None
    batch_at_ms: int | None = None
    changed_at_ms: int | None = None
    own: tuple[MovingPartition, ...] = ()
    foreign: tuple[MovingPartition, ...] = ()
    blocker: str = ""
    stuck: tuple[str, ...] = ()
    throttles: tuple[RecordedThrottle, ...] = ()
    unexplained: tuple[Throttle, ...] = ()
    unread: frozenset[str] = frozenset()


def inspected_topics(state: ClusterState) -> frozenset[str]:
    """Return the topics with a partition that is reassigned, or that the request names."""
    moving = {name for name, topic in state.topics.items() if topic.reassigning_partitions}
    named = {entry.topic for entry in state.requested_reassignments}
    return frozenset(moving | (named & state.topics.keys()))


def inspect_moves(
    cluster: str,
    state: ClusterState,
    inspections: Mapping[str, TopicInspection],
    broker_throttles: Mapping[str, Mapping[str, str]],
) -> MoveStatus:
    """Return the status of the moves of one cluster.

    ``inspections`` are those of ``inspected_topics``; ``broker_throttles`` has the rates of brokers by entity.
    """
    record = state.batch
    moves = {(move.topic, move.partition): move.after for move in record.moves} if record else {}
    moving = sorted(_find_moving(state, inspections))
    own = [each for each in moving if moves.get((each.topic, each.partition)) == each.target]
    known = [
        PartitionInFlight(
            each.topic, each.partition, each.target, each.adding or (), _not_in(each.target, each.lagging)
        )
        for each in moving
        if each.lagging is not None
    ]
    current = _current_throttles(state, broker_throttles)
    throttles = tuple(_find_recorded(record.throttles, current)) if record else ()
    online = {broker.id for broker in state.brokers}
    described = {f"brokers/{broker}" for broker in online}
    offline = {each.entity for each in throttles if each.entity.startswith("brokers/")} - described
    return MoveStatus(
        cluster=cluster,
        cluster_id=state.cluster_id,
        warnings=state.warnings,
        batch=record,
        batch_at_ms=state.batch_at_ms,
        changed_at_ms=state.requested_at_ms,
        own=tuple(own),
        foreign=tuple(each for each in moving if each not in own),
        blocker=find_blocker(known, online),
        stuck=tuple(_find_stuck_entries(state)),
        throttles=throttles,
        unexplained=tuple(_find_unexplained(current, throttles)),
        unread=frozenset() if state.bypasses_brokers else frozenset(offline),
    )


def _find_moving(state: ClusterState, inspections: Mapping[str, TopicInspection]) -> Iterator[MovingPartition]:
    requested = {(entry.topic, entry.partition) for entry in state.requested_reassignments}
    for entry in state.requested_reassignments:
        inspection = inspections.get(entry.topic)
        partition = inspection.states.get(entry.partition) if inspection else None
        if inspection is None or partition is None:
            yield MovingPartition(entry.topic, entry.partition, entry.replicas, None, None)
            continue
        present = inspection.assignment.get(entry.partition, ())
        adding = find_added(entry.replicas, present, inspection.reassignments.get(entry.partition))
        lagging = _not_in(entry.replicas, partition.isr)
        yield MovingPartition(entry.topic, entry.partition, entry.replicas, adding, lagging)
    for name, inspection in inspections.items():
        for number, reassignment in inspection.reassignments.items():
            if (name, number) not in requested:
                yield _moved_by_api(name, number, inspection, reassignment)


def _moved_by_api(name: str, number: int, inspection: TopicInspection, reassignment: Reassignment) -> MovingPartition:
    target = _not_in(inspection.assignment.get(number, ()), reassignment.removing)
    state = inspection.states.get(number)
    lagging = None if state is None else _not_in(target, state.isr)
    return MovingPartition(name, number, target, reassignment.adding, lagging, is_requested=False)


def _not_in(brokers: Replicas, others: Collection[int]) -> Replicas:
    return tuple(broker for broker in brokers if broker not in others)


def _find_stuck_entries(state: ClusterState) -> Iterator[str]:
    for entry in state.requested_reassignments:
        exists = entry.topic in state.topics or entry.topic in state.topic_errors
        is_younger = entry.topic in state.stale_reassignments
        if stuck := find_stuck_entry(entry, exists=exists, is_younger=is_younger):
            yield stuck
    if state.requested_at_ms is not None and not state.requested_reassignments:
        yield "the reassignment request has no entry that can be read, and blocks every reassignment"


def _current_throttles(
    state: ClusterState, broker_throttles: Mapping[str, Mapping[str, str]]
) -> Mapping[str, Mapping[str, str]]:
    topics = {
        f"topics/{name}": found
        for name, topic in state.topics.items()
        if (found := {key: topic.config[key] for key in sorted(THROTTLE_CONFIGS) if key in topic.config})
    }
    return dict(sorted((topics | dict(broker_throttles)).items()))


def _find_recorded(own: OwnThrottles, current: Mapping[str, Mapping[str, str]]) -> Iterator[RecordedThrottle]:
    for entity, values in sorted(own.items()):
        for config, value in sorted(values.items()):
            yield RecordedThrottle(entity, config, value.before, value.ours, current.get(entity, {}).get(config))


def _find_unexplained(
    current: Mapping[str, Mapping[str, str]], recorded: Collection[RecordedThrottle]
) -> Iterator[Throttle]:
    explained = {(each.entity, each.config) for each in recorded if each.now == each.ours}
    for entity, configs in current.items():
        for config, value in configs.items():
            if (entity, config) not in explained:
                yield Throttle(entity, config, value)

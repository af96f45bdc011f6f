"""What a cluster holds once a plan is done, and whether it still holds what a plan was made from.

``evolve`` proves a plan (plan, evolve, plan again: nothing) and *is* the in-memory cluster. ``standing`` compares by
value directly before a write: versions are too weak for that (a topic deleted and made again starts over) and too
strict (a controller's restart, a throttle, an unrelated key would void a plan that is still true).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from topiarist.core.change import AddPartitions, Basis, CreateTopic, DeleteTopic, GiveUp, Nudge, TopicPlan, UpdateConfig
from topiarist.core.differences import config_after
from topiarist.core.names import collision_key, has_collision_chars
from topiarist.core.requested import NAMED
from topiarist.core.risk import rejudged, risen
from topiarist.core.rules import config_faults, min_isr_above
from topiarist.core.state import Broker, ClusterState, Release, TopicRecord, TopicState


def evolve(state: ClusterState, plans: Iterable[TopicPlan]) -> ClusterState:
    """The state after every change of ``plans``; replaced values are new objects, the rest is shared."""
    topics, records, identity = dict(state.topics), dict(state.records), state.next_identity
    for plan in plans:
        if not plan.to_do or nudges(plan):
            continue
        records.pop(plan.topic, None)
        if any(isinstance(change, DeleteTopic) for change in plan.changes):
            topics.pop(plan.topic, None)
            if plan.record_after:
                records[plan.topic] = plan.record_after
        elif gives_up(plan):
            if topic := topics.get(plan.topic):
                topics[plan.topic] = replace(topic, record=None, record_valid=False, changed_outside=False)
        else:
            topics[plan.topic] = _topic_after(plan, topics.get(plan.topic) or TopicState(plan.topic, identity, ()))
            identity += plan.before is None
    return replace(state, topics=topics, records=records, next_identity=identity)


def gives_up(plan: TopicPlan) -> bool:
    """Whether the plan takes our record away: then the record is all that it is about."""
    return any(isinstance(change, GiveUp) for change in plan.changes)


def nudges(plan: TopicPlan) -> bool:
    """Whether the plan only makes the controller look at the topic: nothing else of it changes."""
    return any(isinstance(change, Nudge) for change in plan.changes)


def _topic_after(plan: TopicPlan, before: TopicState) -> TopicState:
    """``before`` (a topic without partitions, for a create) once the plan, which does not delete it, is done."""
    replicas, config = before.replicas, config_after(before.config, plan.changes)
    for change in plan.changes:
        if isinstance(change, CreateTopic):
            replicas, config = change.replicas, dict(change.config)
        elif isinstance(change, AddPartitions):
            replicas += change.replicas
    return replace(
        before,
        replicas=replicas,
        partition_ids=range(len(replicas)) if before.whole else before.partition_ids,
        config=config,
        record=plan.record_after,
        record_valid=True,
        changed_outside=False,
    )


_NAMED = f"{NAMED} now: its entry would outlive the topic, or move a new one"


class Position(str, Enum):
    """Where a topic stands, seen from a plan."""

    BEFORE = "before"
    AFTER = "after"
    MOVED = "moved"


@dataclass(frozen=True, slots=True)
class Standing:
    """A position and, if the topic moved, what was expected and what is there."""

    position: Position
    message: str = ""


BEFORE, AFTER = Standing(Position.BEFORE), Standing(Position.AFTER)


@dataclass(frozen=True, slots=True)
class Now:
    """One topic as it is at the moment of writing, and what else its plan depends on.

    ``broker_defaults`` and ``release_at_least`` are those of ``ClusterState``: by them a config is judged. ``unified``
    are the topics of the cluster as ``unify`` folds their names.
    """

    topic: TopicState | None
    record: TopicRecord | None
    marked: bool
    reassigning: bool
    brokers: Mapping[int, Broker]
    broker_defaults: Mapping[str, str]
    release_at_least: Release
    unified: Mapping[str, str]


def standing(plan: TopicPlan, basis: Basis, now: Now) -> Standing:
    """Whether ``plan`` can be carried out, is done already, or is no longer true; ``basis`` is its whole plan's."""
    if _is_done(plan, now):
        return AFTER
    if gives_up(plan):
        message = _record_moved(plan.record_before, now.record)
    elif nudges(plan):
        message = _no_nudge(plan, now)
    else:
        message = (
            _moved(plan, now)
            or _brokers_moved(plan, basis.brokers, now)
            or _invalid_now(plan, basis, now)
            or _riskier_now(plan, basis, now)
        )
    return Standing(Position.MOVED, message) if message else BEFORE


def _is_done(plan: TopicPlan, now: Now) -> bool:
    if nudges(plan):
        return False  # the states of its partitions say it, of which nothing is known here
    if gives_up(plan):
        return now.record is None
    if any(isinstance(change, DeleteTopic) for change in plan.changes):
        return (now.topic is None or now.marked) and now.record == plan.record_after
    topic = now.topic
    if topic is None or now.marked or not topic.record_valid or topic.record != plan.record_after:
        return False
    if plan.before is not None and _replaced(plan.before, topic):
        return False
    return all(_holds(change, topic) for change in plan.changes)


def _holds(change: object, topic: TopicState) -> bool:
    match change:
        case CreateTopic(replicas, config):
            return topic.replicas == replicas and config.items() <= topic.config.items()
        case AddPartitions(before=before, replicas=replicas):
            return topic.replicas[before:] == replicas
        case UpdateConfig(items):
            return all(topic.config.get(item.key) == item.after for item in items)
    return True


def _moved(plan: TopicPlan, now: Now) -> str:
    """What is no longer as it was; empty if all that the plan rests on still is."""
    if now.marked:
        return "is marked for deletion now"
    if plan.before is None:
        if now.topic is not None:
            return "did not exist, and exists now"
        if now.reassigning:
            return _NAMED
        return _collision(plan.topic, now) or _record_moved(plan.record_before, now.record)
    topic = now.topic
    if topic is None:
        return "existed, and is gone now"
    if _replaced(plan.before, topic):
        return "was deleted and made again: it is another topic now"
    if topic.record_valid != plan.before.record_valid:
        return (
            "our record beside it counted, and no longer does"
            if plan.before.record_valid
            else "has a record of ours now"
        )
    return (
        _record_moved(plan.before.record, topic.record)
        or _values_moved(plan.changes, plan.before.topic_id, topic, now)
        or _vouched_moved(plan, plan.before, topic)
    )


def _no_nudge(plan: TopicPlan, now: Now) -> str:
    """What forbids to nudge the topic now; empty if nothing does."""
    if now.marked:
        return "is marked for deletion now"
    if now.topic is None or plan.before is None:
        return "existed, and is gone now"
    if _replaced(plan.before, now.topic):
        return "was deleted and made again: it is another topic now"
    if now.topic.reassigning or now.reassigning:
        return "its replicas are being reassigned now"
    return "" if now.topic.replicas == plan.before.replicas else "has other replicas now"


def _replaced(before: TopicState, now: TopicState) -> bool:
    """Whether it is another topic of that name. Topic ids count where both have one: the controller adds it later."""
    return before.identity != now.identity or (before.topic_id or now.topic_id) != (now.topic_id or before.topic_id)


def _collision(name: str, now: Now) -> str:
    other = now.unified.get(collision_key(name)) if has_collision_chars(name) else None
    return f"would collide with {other}, which exists now" if other else ""


def vouched(plan: TopicPlan) -> Iterator[str]:
    """Config keys of our record that ``plan`` leaves alone on a topic, set or not: to stay as they are."""
    changed = {item.key for change in plan.changes if isinstance(change, UpdateConfig) for item in change.items}
    if plan.changes and plan.record_after:
        yield from (key for key in plan.record_after.config if key not in changed)


def _vouched_moved(plan: TopicPlan, before: TopicState, now: TopicState) -> str:
    for key in vouched(plan):
        if now.config.get(key) != before.config.get(key):
            return f"{key} was {_value(before.config.get(key))}, and is {_value(now.config.get(key))} now"
    return ""


def _invalid_now(plan: TopicPlan, basis: Basis, now: Now) -> str:
    """Whether the config would be invalid as it would be written, with what others changed since the plan was made.

    Judged as ``plan`` judges; a release that the plan knew of is not forgotten, whatever one topic by itself shows.
    """
    written, after = _written(plan, now.topic)
    if not after:
        return ""
    settings = basis.judging.settings(now.broker_defaults)
    releases = basis.judging.releases(max(basis.release_at_least, now.release_at_least))
    wrong = [fault.message for fault in config_faults(after, basis.judging, releases, settings)]
    replicas = now.topic.replicas if now.topic else plan.new_replicas()
    if min_isr_above(written, min(map(len, replicas), default=0)):
        wrong.append("min.insync.replicas: more than the narrowest partition has replicas")
    return f"the config as it would be written now is invalid: {'; '.join(wrong)}" if wrong else ""


def _riskier_now(plan: TopicPlan, basis: Basis, now: Now) -> str:
    """What may cost more now than the plan showed: a person, a review or a run has answered for no more than that."""
    if now.topic is None:
        return ""
    before, settings = now.topic.config, basis.judging.settings(now.broker_defaults)
    after = config_after(before, plan.changes)
    found = (risen(change, rejudged(change, before, after, settings)) for change in plan.changes)
    return "; ".join(filter(None, found))


def _written(plan: TopicPlan, topic: TopicState | None) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The overrides that ``plan`` sets, and all that there are then."""
    for change in plan.changes:
        if isinstance(change, CreateTopic):
            return change.config, change.config
        if isinstance(change, UpdateConfig) and topic:
            written = {item.key: item.after for item in change.items if item.after is not None}
            return written, config_after(topic.config, (change,))
    return {}, {}


def _record_moved(before: TopicRecord | None, now: TopicRecord | None) -> str:
    if before == now:
        return ""
    return f"our record was {_record(before)}, and is {_record(now)} now"


def _record(record: TopicRecord | None) -> str:
    if record is None:
        return "absent"
    keys = ", ".join(record.config) or "no keys"
    return f"that of owner {record.owner} ({'deleted' if record.absent else keys})"


def _values_moved(changes: Sequence[object], topic_id: str | None, topic: TopicState, now: Now) -> str:
    for change in changes:
        if isinstance(change, UpdateConfig):
            for item in change.items:
                actual = topic.config.get(item.key)
                if actual != item.before:
                    return f"{item.key} was {_value(item.before)}, and is {_value(actual)} now"
        elif isinstance(change, AddPartitions):
            if len(topic.replicas) != change.before:
                return _resized(change.before, topic)
            if not topic.whole:
                missing = next(index for index, number in enumerate(topic.partition_ids) if index != number)
                return f"partition {missing} is missing now"
            if topic.reassigning or now.reassigning:
                return "its replicas are being reassigned now"
            if topic.replicas[0] != change.model:
                return f"partition 0 was on {list(change.model)}, and is on {list(topic.replicas[0])} now"
            if topic_id and not topic.topic_id:
                return f"had the topic id {topic_id}, and has none now"
            if topic.unknown_fields:
                return f"has fields now that Kafka does not write: {', '.join(topic.unknown_fields)}"
        elif isinstance(change, DeleteTopic):
            if now.reassigning:
                return _NAMED
            if len(topic.replicas) != change.partitions:
                return _resized(change.partitions, topic)
    return ""


def _resized(before: int, topic: TopicState) -> str:
    return f"had {before} partitions, and has {len(topic.replicas)} now"


def _brokers_moved(plan: TopicPlan, seen: Mapping[int, Broker], now: Now) -> str:
    for broker in sorted({broker for replicas in plan.new_replicas() for broker in replicas}):
        before, after = seen.get(broker), now.brokers.get(broker)
        if before is None:
            continue  # an explicit assignment to a broker that was not there, allowed by the run
        if after is None:
            return f"broker {broker} was registered, and is not now"
        if after.rack != before.rack:
            return f"broker {broker} was in rack {before.rack}, and is in {after.rack} now"
    return ""


def _value(text: str | None) -> str:
    return "not set" if text is None else text

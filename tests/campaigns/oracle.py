"""The oracle of the campaigns: compares the end of a perturbed run with that of the unperturbed one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from campaigns.kafka_clusters import ADDRESS, Write
from campaigns.world import OWNER, SETTLE_S, STEP_S, World
from topiarist.kubernetes.approval import current_consents_digest
from topiarist.kubernetes.resources import FINALIZER, parse_resource
from topiarist.model.state import OwnershipRecord

_VOLATILE_FIELDS = frozenset({"lastTransitionTime", "time", "since", "topicId", "deletions", "consent", "undeclared"})
"""Fields that depend on times, or on the states that the operator and its user have seen before.

``_find_mistakes`` compares ``deletions`` and ``undeclared`` with Kafka instead.
"""

_UNDECLARED = r", (\d+) undeclared"
"""The number of undeclared topics in the message of a Cluster."""


class FinalState(NamedTuple):
    """The end of a run.

    ``topics`` has the topics of Kafka with sizes, config and ownership record, ``replicas`` their replica lists, which
    depend on the time of a creation or move. ``resources`` has status and finalizer of each resource. ``declared`` are
    the topics that a resource declares. ``late_writes`` were made by a further pass. ``mistakes`` are differences of
    statuses and ownership records from what has happened in this run.
    """

    topics: Mapping[str, object]
    replicas: Mapping[str, object]
    resources: Mapping[str, object]
    declared: frozenset[str]
    writes: tuple[Write, ...]
    late_writes: tuple[str, ...]
    failures: tuple[str, ...]
    mistakes: tuple[str, ...] = ()


async def finish(world: World) -> FinalState:
    """Let the operator and the user finish, make it reconcile everything once more, and return the end of the run."""
    while world.waiting:
        await world.perform()
    await world.advance(SETTLE_S)
    count = len(world.interruptions.writes)
    world.request_full_pass()
    await world.advance(STEP_S)
    state = world.kafka.states[ADDRESS]
    topics: dict[str, object] = {
        name: (
            len(topic.replicas),
            sorted(map(len, topic.replicas)),
            dict(topic.config),
            _stable_record(topic.valid_record),
        )
        for name, topic in state.topics.items()
    }
    replicas = {name: topic.replicas for name, topic in state.topics.items()}
    resources, declared = {}, set()
    for (plural, _, name), body in world.server.objects.items():
        if plural == "topics" and body["spec"].get("ensure") != "Absent":
            declared.add(body["spec"].get("topicName", name))
        held = FINALIZER in body["metadata"].get("finalizers", ())
        resources[f"{plural}/{name}"] = _stable(body.get("status")), held
    return FinalState(
        topics,
        replicas,
        resources,
        frozenset(declared),
        tuple(world.kafka.writes),
        tuple(world.interruptions.writes[count:]),
        tuple(map(repr, world.failures)),
        tuple(_find_mistakes(world)),
    )


def _find_mistakes(world: World) -> Iterator[str]:
    """Yield each number and consent in a status or ownership record that this run contradicts.

    If the operator never saw a Topic, it leaves and deletes fewer topics than in the unperturbed run, and its user
    consents to fewer changes. So these facts are compared with the Topics, and with Kafka and the writes to it.
    """
    state = world.kafka.states[ADDRESS]
    deleted = Counter(write.topic for write in world.kafka.writes if "DeleteTopic" in write.kinds)
    topics = {
        body["spec"].get("topicName", name): parse_resource(body)
        for (plural, _, name), body in world.server.objects.items()
        if plural == "topics"
    }
    for name in sorted({*state.topics, *state.dangling_records}):
        record = state.record_of(name)
        if record is None or record.owner != OWNER:
            continue
        if len(record.memory.deletions_ms) != deleted[name]:
            yield f"record of {name}: {record.memory}, but {deleted[name]} deletions"
        if name in topics and record.memory.consent != current_consents_digest(topics[name]):
            yield f"record of {name}: {record.memory}, which is not the consent of its Topic"
    if status := (world.server.find("clusters", "prod") or {}).get("status"):
        found = (topic.valid_record for name, topic in state.topics.items() if name not in topics)
        undeclared = sum(record.owner == OWNER for record in found if record)
        in_message = [int(number) for number in re.findall(_UNDECLARED, str(status["conditions"]))]
        if status["topics"].get("undeclared", 0) != undeclared or in_message != [undeclared] * bool(undeclared):
            yield f"clusters/prod: {status['topics']}, {in_message}, but {undeclared} undeclared topics"
        if Counter(each["topic"] for each in status["deletions"]) != deleted:
            yield f"clusters/prod: {status['deletions']}, but the deletions {dict(deleted)}"


def compare(found: FinalState, reference: FinalState, *, repeats_nothing: bool = False) -> Iterator[str]:
    """Yield an alarm for each difference that the perturbation must not cause.

    A topic that no resource declares may be missing if the run never created it: the operator did not observe its
    resource. With ``repeats_nothing`` the writes to Kafka are those of the reference, no more and no less.
    """
    yield from (f"crash: {failure}" for failure in found.failures)
    yield from (f"mistake: {mistake}" for mistake in found.mistakes)
    if found.late_writes:
        yield f"a further pass writes: {', '.join(found.late_writes)}"
    created = {write.topic for write in found.writes if "CreateTopic" in write.kinds}
    for name in sorted({*found.topics, *reference.topics}):
        never_created = name not in found.topics and name not in reference.declared and name not in created
        if found.topics.get(name) != reference.topics.get(name) and not never_created:
            yield f"topic {name}: found {found.topics.get(name)}, wanted {reference.topics.get(name)}"
    for name in sorted({*found.resources, *reference.resources}):
        if found.resources.get(name) != reference.resources.get(name):
            yield f"{name}: found {found.resources.get(name)}, wanted {reference.resources.get(name)}"
    extra = _destructive(found) - _destructive(reference)
    yield from (f"extra destructive write: {write}" for write in extra)
    if repeats_nothing and Counter(found.writes) != Counter(reference.writes):
        yield f"writes to Kafka: found {found.writes}, wanted {reference.writes}"
    if repeats_nothing and found.replicas != reference.replicas:
        yield f"replicas: found {found.replicas}, wanted {reference.replicas}"


def _destructive(state: FinalState) -> Counter[Write]:
    return Counter(write for write in state.writes if write.is_destructive)


def _stable_record(record: OwnershipRecord | None) -> OwnershipRecord | None:
    """Return a record without the facts that ``_find_mistakes`` compares with this run."""
    return replace(record, memory=record.memory._replace(consent="", deletions_ms=())) if record else None


def _stable(value: Any) -> Any:
    """Return a status without the fields that depend on the time of a pass."""
    if isinstance(value, dict):
        return {key: _stable(each) for key, each in value.items() if key not in _VOLATILE_FIELDS}
    if isinstance(value, str):
        return re.sub(_UNDECLARED, "", value)
    return [_stable(each) for each in value] if isinstance(value, list) else value

"""The oracle of the campaigns: compares the end of a perturbed run with that of the unperturbed one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from campaigns.kafka_clusters import ADDRESS, Write
from campaigns.world import SETTLE_S, STEP_S, World
from topiarist.kubernetes.api.resources import FINALIZER
from topiarist.model.state import OwnershipRecord

_VOLATILE_FIELDS = frozenset({"lastTransitionTime", "time", "since", "topicId", "deletions", "consent"})
"""Fields that depend on times, or on the states that the operator and its user have seen before."""


class FinalState(NamedTuple):
    """The end of a run.

    ``topics`` has the topics of Kafka with sizes, config and ownership record, ``replicas`` their replica lists, which
    depend on the time of a creation or move. ``resources`` has status and finalizer of each resource. ``declared`` are
    the topics that a resource declares. ``late_writes`` were made by a further pass.
    """

    topics: Mapping[str, object]
    replicas: Mapping[str, object]
    resources: Mapping[str, object]
    declared: frozenset[str]
    writes: tuple[Write, ...]
    late_writes: tuple[str, ...]
    failures: tuple[str, ...]


def _untimed(record: OwnershipRecord | None) -> OwnershipRecord | None:
    """Return a record without the deletions of earlier topics of the name, as a status is compared without them."""
    return replace(record, memory=record.memory._replace(deletions_ms=())) if record else None


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
        name: (len(topic.replicas), sorted(map(len, topic.replicas)), dict(topic.config), _untimed(topic.valid_record))
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
    )


def compare(found: FinalState, reference: FinalState, *, repeats_nothing: bool = False) -> Iterator[str]:
    """Yield an alarm for each difference that the perturbation must not cause.

    A topic that no resource declares may be missing if the run never created it: the operator did not observe its
    resource. With ``repeats_nothing`` the writes to Kafka are those of the reference, no more and no less.
    """
    yield from (f"crash: {failure}" for failure in found.failures)
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


def _stable(value: Any) -> Any:
    """Return a status without the fields that depend on the time of a pass."""
    if isinstance(value, dict):
        return {key: _stable(each) for key, each in value.items() if key not in _VOLATILE_FIELDS}
    return [_stable(each) for each in value] if isinstance(value, list) else value

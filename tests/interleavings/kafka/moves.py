"""Moves of replicas through Kafka's own API: what a run asks for them, what brokers make of it, and what must hold.

One step is one request of the run: a look at its topics and all reassignments, a look at the throttles, a request that
sets throttles, a request that begins moves. The controller ends a move in a step of its own. A partition that is moved
again gets the new target, as on real brokers. All brokers are reachable; their throttles are overrides by broker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from interleavings.kafka.world import BROKERS, AdminRequest, Run, Topic, World, state_of, topic_id
from support.kafka import controller_checks as checks
from topiarist.adapters.kafka_admin.moves.look import MoveLook, PresentThrottles
from topiarist.adapters.kafka_admin.write import requests
from topiarist.kafka.config_table import RATE_CONFIGS, THROTTLE_CONFIGS
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.moves import BatchLimits, ReplicaMove, RequestedReassignment
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Plan
from topiarist.model.state import PartitionState, Reassignment, TopicInspection, TopicState

KINDS = frozenset({"move", "throttle"})
"""The Admin requests of moves."""

_THROTTLES = THROTTLE_CONFIGS.union(RATE_CONFIGS)
_RATE = "follower.replication.throttled.rate"

Ask = Callable[[str, Any], Any]


class MoveReader:
    """The reads of a run for its moves, in place of the product's; each is one request to the model."""

    def __init__(self, ask: Ask, brokers: Sequence[Broker]) -> None:
        self._ask = ask
        self._brokers = brokers

    def look(self, names: Collection[str]) -> MoveLook:
        """Return these topics, and those that are being reassigned."""
        found = dict(self._ask("look for moves", tuple(sorted(names))))
        reassignments = {
            (name, partition): _reassignment(topic, partition, target)
            for name, topic in found.items()
            for partition, target in (topic.moving if topic else ())
        }
        return MoveLook(
            {name: topic and state_of(name, topic) for name, topic in found.items()},
            {name: _partition_states(topic) for name, topic in found.items() if topic},
            reassignments,
            {broker.id: broker for broker in self._brokers},
            dict.fromkeys(names, 1),
            {},
        )

    def read_throttles(self, entities: Collection[str]) -> PresentThrottles:
        """Return the overrides of these entities that throttle."""
        return PresentThrottles(
            {entity: dict(values) for entity, values in self._ask("throttles", tuple(sorted(entities)))}, {}, {}
        )

    def inspect_all(self, topics: Collection[TopicState]) -> Mapping[str, TopicInspection]:
        """Return the partitions of these topics, as a plan reads them before it moves them."""
        found = dict(self._ask("look for moves", tuple(sorted(topic.name for topic in topics))))
        return {topic.name: _inspection(there) for topic in topics if (there := found[topic.name])}

    def expect(self, moves: Iterable[ReplicaMove]) -> None:
        """Note nothing: a look of the model is of one moment."""


def _inspection(topic: Topic) -> TopicInspection:
    return TopicInspection(
        identity=topic_id(topic),
        assignment=dict(enumerate(topic.replicas)),
        states=_partition_states(topic),
        reassignments={partition: _reassignment(topic, partition, target) for partition, target in topic.moving},
        requested_replicas=dict(topic.moving),
        topic_id=topic_id(topic),
    )


def _reassignment(topic: Topic, partition: int, target: Replicas) -> Reassignment:
    replicas = topic.replicas[partition]
    adding = tuple(broker for broker in target if broker not in dict(topic.isrs)[partition])
    return Reassignment(adding, tuple(broker for broker in replicas if broker not in target))


def _partition_states(topic: Topic) -> Mapping[int, PartitionState]:
    in_sync = dict(topic.isrs)
    return {
        partition: PartitionState(in_sync.get(partition, replicas)[0], in_sync.get(partition, replicas), 0)
        for partition, replicas in enumerate(topic.replicas)
    }


def requested_reassignments(topics: Iterable[tuple[str, Topic]]) -> tuple[RequestedReassignment, ...]:
    """Return the moves in flight as a state of the cluster has them."""
    return tuple(RequestedReassignment(name, *each) for name, topic in topics for each in topic.moving)


def answer_look(world: World, names: Collection[str]) -> tuple[tuple[str, Topic | None], ...]:
    """Return the answer to a look: these topics, and those that are being reassigned."""
    moving = {name for name, topic in world.topics if topic.moving}
    return tuple((name, world.topic(name)) for name in sorted({*names, *moving}))


def answer_throttles(world: World, entities: Collection[str]) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Return the throttles of entities; a topic that does not exist has none, and is not in the answer."""
    found = []
    for entity in entities:
        kind, _, name = entity.partition("/")
        topic = world.topic(name) if kind == "topics" else None
        if kind == "brokers":
            found.append((entity, dict(world.brokers).get(int(name), ())))
        elif topic:
            found.append((entity, tuple(each for each in topic.config if each[0] in _THROTTLES)))
    return tuple(found)


def encode_request(request: Any) -> AdminRequest | None:
    """Return a request for moves or throttles as a value, None if it is for something else."""
    if type(request).__name__ == "AlterPartitionReassignmentsRequest":
        return AdminRequest(
            "move",
            tuple(
                (topic.name, (each.partition_index, tuple(each.replicas)))
                for topic in request.topics
                for each in topic.partitions
            ),
        )
    if type(request).__name__ != "IncrementalAlterConfigsRequest":
        return None
    items = tuple(
        (f"{_ENTITIES[each.resource_type]}/{each.resource_name}", tuple((one.name, one.value) for one in each.configs))
        for each in request.resources
    )
    is_throttle = all(key in _THROTTLES for _, values in items for key, _ in values)
    return AdminRequest("throttle", items) if is_throttle else None


_ENTITIES = {2: "topics", 4: "brokers"}
_RESOURCE_TYPES = {kind: number for number, kind in _ENTITIES.items()}


def decode_answer(kind: str, results: Iterable[tuple[str, int, int]]) -> Any:
    """Return the answer to such a request; the number of a moved partition stands in its result."""
    if kind == "move":
        topics = [
            SimpleNamespace(
                name=name,
                partitions=[SimpleNamespace(partition_index=number, error_code=code, error_message="")],
            )
            for name, code, number in results
        ]
        return SimpleNamespace(error_code=0, error_message="", responses=topics, throttle_time_ms=0)
    responses = [
        SimpleNamespace(
            resource_type=_RESOURCE_TYPES[entity.partition("/")[0]],
            resource_name=entity.partition("/")[2],
            error_code=code,
            error_message="",
        )
        for entity, code, _ in results
    ]
    return SimpleNamespace(responses=responses, throttle_time_ms=0)


def carry_out(world: World, request: AdminRequest) -> tuple[World, tuple[tuple[str, int, int], ...]]:
    """Return the state after such a request, and for each item the error code and the partition."""
    results = []
    for name, wanted in request.items:
        if request.kind == "move":
            world, code = begin_move(world, name, *wanted)
            results.append((name, code, wanted[0]))
        else:
            world, code = _set_throttles(world, name, dict(wanted))
            results.append((name, code, 0))
    return world, tuple(results)


def begin_move(world: World, name: str, partition: int, target: Replicas) -> tuple[World, int]:
    """Return the state after the controller has taken a target, and the error code."""
    topic = world.topic(name)
    if topic is None or partition >= len(topic.replicas):
        return world, requests.UNKNOWN_TOPIC
    code, _ = checks.check_lists([target], BROKERS, width=len(target))
    if code:
        return world, code
    in_sync = dict(topic.isrs).get(partition, topic.replicas[partition])
    moving = {**dict(topic.moving), partition: target}
    isrs = {**dict(topic.isrs), partition: in_sync}
    lists = list(topic.replicas)
    lists[partition] = (*target, *(broker for broker in in_sync if broker not in target))
    if lists[partition] == in_sync == target:
        del moving[partition], isrs[partition]
    return world.with_topic(name, _with_moves(topic, lists, moving, isrs)), requests.NONE


def _with_moves(
    topic: Topic, lists: Sequence[Replicas], moving: Mapping[int, Replicas], isrs: Mapping[int, Replicas]
) -> Topic:
    return topic._replace(replicas=tuple(lists), moving=tuple(sorted(moving.items())), isrs=tuple(sorted(isrs.items())))


def _set_throttles(world: World, entity: str, values: Mapping[str, str | None]) -> tuple[World, int]:
    kind, _, name = entity.partition("/")
    if kind == "topics":
        topic = world.topic(name)
        if topic is None:
            return world, requests.UNKNOWN_TOPIC
        config = _merge(topic.config, values)
        code, _ = checks.check_configs(dict(config))
        return (world, code) if code else (world.with_topic(name, topic._replace(config=config)), requests.NONE)
    brokers = dict(world.brokers)
    merged = _merge(brokers.get(int(name), ()), values)
    kept = {broker: config for broker, config in {**brokers, int(name): merged}.items() if config}
    return world._replace(brokers=tuple(sorted(kept.items()))), requests.NONE


def _merge(config: Iterable[tuple[str, str]], values: Mapping[str, str | None]) -> tuple[tuple[str, str], ...]:
    merged: dict[str, str | None] = {**dict(config), **values}
    return tuple(sorted((key, value) for key, value in merged.items() if value is not None))


def end_moves(world: World) -> Iterator[tuple[str, World]]:
    """Yield each move that may end, as ``topic-partition``, and the state after it."""
    for name, topic in world.topics:
        for partition, target in topic.moving:
            lists = list(topic.replicas)
            lists[partition] = target
            moving, isrs = dict(topic.moving), dict(topic.isrs)
            del moving[partition], isrs[partition]
            yield f"{name}-{partition}", world.with_topic(name, _with_moves(topic, lists, moving, isrs))


def end_all_moves(world: World) -> World:
    """Return the state after all moves have ended."""
    while True:
        after = next(end_moves(world), None)
        if after is None:
            return world
        _, world = after


def check_request(world: World, request: AdminRequest, run: Run, plan: Plan) -> Iterator[str]:
    """Yield a sentence for each property that such a request violates where it is carried out."""
    if request.kind == "throttle":
        yield from _check_throttles(world, request)
        return
    batch = world.records.moves
    recorded = {(move.topic, move.partition, move.after) for move in batch.moves} if batch else set()
    planned = {(move.topic, move.partition): move for topic in plan.topics for move in topic.moves()}
    identities = {topic.topic: topic.before.identity for topic in plan.topics if topic.before}
    for name, (partition, target) in request.items:
        move, topic = planned.get((name, partition)), world.topic(name)
        if (name, partition, target) not in recorded:
            yield "a move is sent that the record does not name"
        if move is None or move.after != target:
            yield "a partition is moved that the plan does not move so"
            continue
        for there, how in ((topic, "carried out"), (dict(run.seen).get(name), "sent although the run has seen it")):
            if there is None or partition >= len(there.replicas):
                continue
            if topic_id(there) != identities.get(name):
                yield f"a move is {how} on another topic of the name"
            elif there.replicas[partition] != move.before or partition in dict(there.moving):
                yield f"a move is {how} where the partition is not on its brokers of before"
        if any(_RATE not in dict(dict(world.brokers).get(broker, ())) for broker in move.added):
            yield "a replica is copied without a throttle"


def check_limit(world: World, plan: Plan, limits: BatchLimits) -> Iterator[str]:
    """Yield a sentence if more moves of a plan are in flight than its cluster allows."""
    moves = [move for topic in plan.topics for move in topic.moves()]
    if sum(_target(world, move.topic, move.partition) == move.after for move in moves) > limits.partitions:
        yield "more moves are in flight than the limits allow"


def _target(world: World, name: str, partition: int) -> Replicas:
    topic = world.topic(name)
    return dict(topic.moving).get(partition, ()) if topic else ()


def _check_throttles(world: World, request: AdminRequest) -> Iterator[str]:
    """Yield a sentence if a throttle is removed from a move in flight that the record names."""
    batch, (after, _) = world.records.moves, carry_out(world, request)
    for entity, values in request.items:
        if not entity.startswith("brokers/") or not any(value is None for _, value in values):
            continue
        for name, topic in after.topics:
            for partition, target in topic.moving:
                copying = set(target).difference(dict(topic.isrs)[partition])
                if int(entity.partition("/")[2]) in copying:
                    own = {(move.topic, move.partition, move.after) for move in batch.moves} if batch else set()
                    whose = "the run" if (name, partition, target) in own else "another client"
                    yield f"throttles are put back while a move of {whose} is in flight"


def check_report(outcomes: Sequence[Outcome], plan: Plan | None, world: World) -> Iterator[str]:
    """Yield a sentence for each topic that is reported as moved and is not on its brokers of after."""
    moves = {topic.topic: topic.moves() for topic in plan.topics} if plan else {}
    for outcome in outcomes:
        topic = world.topic(outcome.topic)
        for move in moves.get(outcome.topic, ()) if outcome.result is Result.DONE else ():
            there = topic.replicas[move.partition : move.partition + 1] if topic else ()
            if there != (move.after,):
                yield "a move is reported as done, and the partition is elsewhere"


def check_left_throttles(world: World) -> Iterator[str]:
    """Yield a sentence for what moves leave, after undisturbed runs."""
    if world.records.moves is not None:
        yield "the record of moves is left"
    topics = (key for _, topic in world.topics for key, _ in topic.config)
    if world.brokers or any(key in _THROTTLES for key in topics):
        yield "throttles are left"

"""A day of the operator in virtual time: three writers, outages, and quiet hours in which everything is compared.

``run_day`` starts a world with Topics for one Kafka cluster. Users change the Topics. Another client of Kafka changes
topics of the operator and has topics without an owner. The pipeline of another owner has topics with its own ownership
records. Meanwhile brokers stop and return, controllers change, the cluster is frozen, brokers are drained, watches and
lists are old or fail, and operators are killed.

At the end of each quarter the writers pause, and what was disturbed is repaired. Then each topic is compared with what
its writer asked for last, without the operator's code. In every other quarter a broker is drained meanwhile. Then users
replace each Topic that is not ready, because its status is long, and the memory of the operator is measured. Operators
are killed in the first quarter only: one process lives through the other three, so that a leak adds up.
``make soak-day`` runs 24 hours with 1,000 Topics.
"""

from __future__ import annotations

import gc
import logging
import random
import sys
import time
import types
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from msgspec.structs import replace

from campaigns.kafka_clusters import ADDRESS, BROKERS
from campaigns.record import write_record
from campaigns.workloads import annotate, cluster_spec, delete
from campaigns.world import PERIOD_S, SETTLE_S, STEP_S, RunningOperator, World, run_world
from topiarist.errors import Reason
from topiarist.kubernetes.approval import PAUSED
from topiarist.kubernetes.resources import FINALIZER
from topiarist.model.state import ClusterState, OwnershipRecord, TopicState, WriteBlock

QUARTERS = 4
BURST_S = 300.0
"""Virtual seconds from one burst of changes to the next."""

CHANGES = (5, 15)
"""The least and the greatest number of changes in one burst."""

MAX_GROWTH = 1.05
"""The greatest growth of the operator's memory for each topic from the second quarter to the last."""

PAUSED_REASON = "Paused"
"""The reason of a paused Topic, whatever its spec asks for."""

_MANY = 1_000_000
"""A budget of deletions, and of replicas that one run moves, that no day reaches."""

_DAY_MS = 86_400_000
_RETENTIONS = (_DAY_MS, 3 * _DAY_MS, 7 * _DAY_MS, 14 * _DAY_MS)
_DRAINABLE = BROKERS[:2]
_CODE = (types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType, types.FrameType)
_SHARES = {"user": 10, "client": 3, "pipeline": 2, "disturbance": 1}
_OTHER_OWNER = "pipeline/warehouse"


@dataclass(frozen=True)
class Quarter:
    """The figures of one quarter: topics and bytes that the operator holds for each, changes, writes, and alarms."""

    topics: int
    bytes_per_topic: int
    changes: Mapping[str, int]
    writes: int
    not_ready: Mapping[str, int]
    alarms: tuple[str, ...]


@dataclass
class Day:
    """The writers of one day, and what each of them asked for last.

    ``drained`` is the broker that has no replicas at the end of a quarter, None if there is none.
    ``declared`` has the specs of Topics, ``paused`` the names of paused ones. ``foreign`` are the topics of Kafka that
    are not the operator's, and ``removed`` the topics of the operator that another client deleted. ``client_keys`` are
    the undeclared config keys that the other client has set, by topic. ``given_up`` are topics that the operator keeps
    after the deletion of their Topic, and may no longer change. ``deleting`` are the names of Topics that were deleted
    with their topics. ``names`` counts the names in use.
    """

    world: World
    choice: random.Random
    declared: dict[str, dict[str, Any]] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    foreign: dict[str, TopicState] = field(default_factory=dict)
    given_up: dict[str, TopicState] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    client_keys: set[tuple[str, str]] = field(default_factory=set)
    deleting: set[str] = field(default_factory=set)
    drained: int | None = None
    changes: Counter[str] = field(default_factory=Counter)
    names: int = 0

    @property
    def state(self) -> ClusterState:
        """Return the present state of Kafka."""
        return self.world.kafka.states[ADDRESS]

    def set_state(self, **fields: Any) -> None:
        """Change fields of the state of Kafka."""
        self.world.kafka.states[ADDRESS] = replace(self.state, **fields)

    # Users: the Topics.

    def create_topic(self) -> None:
        """Create a Topic with a new name."""
        self.names += 1
        name = f"topic-{self.names:05}"
        retention = {"retention.ms": self.choice.choice(_RETENTIONS)} if self.choice.random() < 0.7 else {}
        self.declared[name] = {
            "partitions": self.choice.randint(1, 6),
            "replicationFactor": self.choice.choice((2, 3)),
            "config": retention,
            "deletionPolicy": self.choice.choice(("Delete", "Retain")),
            "keyed": False,
            "moves": {"allow": ["Factor", "Drain"]},
        }
        self.world.server.create("topics", name, self.declared[name])

    def change_topic(self, name: str) -> None:
        """Change partitions, replication factor or config of a Topic; the operator refuses some of it."""
        spec = {**self.declared[name], "config": {**self.declared[name]["config"]}}
        match self.choice.randrange(4):
            case 0:
                spec["partitions"] = max(1, spec["partitions"] + self.choice.choice((-1, 1, 2)))
            case 1:
                spec["replicationFactor"] = self.choice.choice((2, 3))
            case 2:
                spec["config"]["retention.ms"] = self.choice.choice(_RETENTIONS)
            case 3:
                key, value = "flush.ms", self.choice.randint(1, 9) * 1000
                if spec["config"].pop(key, None) is None:
                    spec["config"][key] = value
        self.declared[name] = spec
        self.client_keys -= {(name, key) for key in spec["config"]}
        self.world.server.update("topics", name, spec)

    def replace_topic(self, name: str) -> None:
        """Delete a Topic, and create another one instead."""
        spec = self.declared.pop(name)
        self.paused.discard(name)
        annotate("topics", name)(self.world)
        delete("topics", name)(self.world)
        if spec["deletionPolicy"] == "Delete":
            self.deleting.add(name)
        elif topic := self.state.topics.get(name):
            self.given_up[name] = topic
        self.create_topic()

    def pause_topic(self, name: str) -> None:
        """Pause a Topic, or continue a paused one."""
        self.paused ^= {name}
        annotate("topics", name, **({PAUSED: "true"} if name in self.paused else {}))(self.world)

    def change_as_user(self) -> None:
        """Do one change of a user."""
        change = self._choose({self.change_topic: 14, self.replace_topic: 3, self.pause_topic: 1})
        change(self._pick(self.declared))

    # Another client of Kafka, and a pipeline of another owner.

    def change_as_client(self) -> None:
        """Change the config of a topic, add partitions to it or delete it; or create and delete topics of its own."""
        managed = [name for name in self.declared if name in self.state.topics]
        kind = self.choice.randrange(20)
        if kind < 12 and managed:
            topic = self.state.topics[self._pick(managed)]
            key = self.choice.choice(("flush.ms", "retention.ms"))
            if key not in self.declared[topic.name]["config"]:
                self.client_keys.add((topic.name, key))
            self.world.kafka.change_topic(topic.name, config={**topic.config, key: str(3 * _DAY_MS)})
        elif kind < 14 and managed:
            topic = self.state.topics[self._pick(managed)]
            replicas = (*topic.replicas, topic.replicas[0])
            self.world.kafka.change_topic(topic.name, replicas=replicas, partition_ids=range(len(replicas)))
        elif kind < 15 and managed:
            name = self._pick(managed)
            self.removed.add(name)
            self._remove_from_kafka(name)
        else:
            self._change_foreign("scratch", None)

    def change_as_pipeline(self) -> None:
        """Create, change or delete a topic with another owner's record."""
        self._change_foreign("warehouse", OwnershipRecord(_OTHER_OWNER))

    def _change_foreign(self, prefix: str, record: OwnershipRecord | None) -> None:
        owned = [name for name in self.foreign if name.startswith(prefix)]
        if len(owned) >= 20:
            name = self._pick(owned)
            del self.foreign[name]
            self._remove_from_kafka(name)
            return
        if owned and self.choice.random() < 0.5:
            name = self._pick(owned)
            self.world.kafka.change_topic(name, config={"flush.ms": str(self.choice.randint(1, 9))})
        else:
            self.names += 1
            name = f"{prefix}-{self.names:05}"
            self.world.kafka.change_topic(name, record=record, record_valid=record is not None)
        self.foreign[name] = self.state.topics[name]

    def _remove_from_kafka(self, name: str) -> None:
        topics = {**self.state.topics}
        record = topics.pop(name).record
        dangling = {**self.state.dangling_records, **({name: record} if record else {})}
        self.set_state(topics=topics, dangling_records=dangling)

    # Disturbances.

    def disturb(self, *, kills: bool) -> Callable[[], None] | None:
        """Begin a disturbance, and return what ends it; None if nothing is to be ended."""
        world = self.world
        match self.choice.randrange(8):
            case 0:
                stopped = self._pick(BROKERS)
                self.set_state(brokers=tuple(each for each in self.state.brokers if each != stopped))
                return lambda: self.set_state(brokers=BROKERS)
            case 1:
                self.set_state(controller=self._pick(BROKERS).id, controller_epoch=self.state.controller_epoch + 1)
            case 2:
                self.set_state(write_block=WriteBlock(Reason.FROZEN, "the cluster is frozen: maintenance"))
                return lambda: self.set_state(write_block=WriteBlock())
            case 3:
                self._update_cluster(drainBrokers=[self._pick(_DRAINABLE).id])
                return self._update_cluster
            case 4:
                world.set_view(None, connected=False)
                return lambda: world.set_view(None)
            case 5:
                world.set_view(world.server.history[-1].version)
                return lambda: world.set_view(None)
            case 6:
                world.expire_watches()
            case 7 if kills:
                world.interruptions.killed.set()
        return None

    def _update_cluster(self, **spec: Any) -> None:
        moves = {"allow": ["Factor", "Drain"], "throttle": "Unlimited"}
        wanted = cluster_spec(moves=moves, budgets={"deletions": _MANY, "movedReplicas": _MANY}, **spec)
        if self.world.server.find("clusters", "prod"):
            self.world.server.update("clusters", "prod", wanted)
        else:
            self.world.server.create("clusters", "prod", wanted)

    # What all of them need.

    def _pick(self, names: Any) -> Any:
        return self.choice.choice([*names])

    def _choose(self, weights: Mapping[Any, int]) -> Any:
        (chosen,) = self.choice.choices([*weights], [*weights.values()])
        return chosen

    async def work(self, seconds: float, *, kills: bool) -> None:
        """Let all writers work for virtual seconds, then end the disturbances."""
        endings: list[Callable[[], None]] = []
        for _ in range(int(seconds // BURST_S)):
            for end in endings:
                end()
            endings.clear()
            for _ in range(self.choice.randint(*CHANGES)):
                writer = self._choose(_SHARES)
                self.changes[writer] += 1
                if writer == "disturbance":
                    endings += filter(None, [self.disturb(kills=kills)])
                else:
                    getattr(self, f"change_as_{writer}")()
            await self.world.advance(BURST_S)
        for end in endings:
            end()

    async def compare(self, drained: int | None) -> tuple[dict[str, str], list[str]]:
        """Return the Topics that are not ready with their reasons, and the alarms, after the operator has finished.

        The broker ``drained``, if there is one, is drained meanwhile.
        """
        self.drained = drained
        self._update_cluster(drainBrokers=[drained] if drained else [])
        await self.world.advance(2 * SETTLE_S)
        count = len(self.world.interruptions.writes)
        self.world.request_full_pass()
        await self.world.advance(PERIOD_S + STEP_S)
        reasons: dict[str, str] = {}
        alarms = [f"a further pass writes: {each}" for each in self.world.interruptions.writes[count:]]
        alarms += [f"crash: {failure!r}" for failure in self.world.failures]
        alarms += self._compare_others()
        for name, spec in self.declared.items():
            reasons[name], found = self._compare_topic(name, spec)
            alarms += found
        self._update_cluster()
        return {name: reason for name, reason in reasons.items() if reason}, alarms

    def _compare_topic(self, name: str, spec: Mapping[str, Any]) -> tuple[str, list[str]]:
        """Return the reason why a Topic is not ready, and the alarms about it."""
        body = self.world.server.find("topics", name)
        if body is None:
            return "", [f"Topic {name} was deleted"]
        conditions = {each["type"]: each for each in body.get("status", {}).get("conditions", ())}
        ready = conditions.get("Ready", {"status": "Unknown", "reason": "NoStatus"})
        reason = "" if ready["status"] == "True" else ready["reason"]
        topic = self.state.topics.get(name)
        expected = {PAUSED_REASON} if name in self.paused else {*self._predict(name, spec, topic)}
        alarms = []
        has_finalizer = FINALIZER in body["metadata"].get("finalizers", ())
        if has_finalizer != (spec["deletionPolicy"] == "Delete"):
            alarms.append(f"Topic {name} {'has a' if has_finalizer else 'has no'} finalizer")
        if reason not in (expected or {""}):
            alarms.append(
                f"Topic {name} is {reason or 'ready'}, expected {sorted(expected) or 'ready'}: {spec}, {topic}"
            )
        return reason, alarms

    def _predict(self, name: str, spec: Mapping[str, Any], topic: TopicState | None) -> Iterator[str]:
        """Yield the reason that the operator must give for each difference; one that must not remain is no reason.

        A key that another client has set and no spec declares may stay: it is the operator's only if a spec has
        declared it before.
        """
        if topic is None:
            yield Reason.DELETED_EXTERNALLY.value if name in self.removed else "created"
            return
        if len(topic.replicas) != spec["partitions"]:
            yield Reason.FEWER_PARTITIONS.value if len(topic.replicas) > spec["partitions"] else "more partitions"
        if any(self.drained in replicas for replicas in topic.replicas):
            yield f"broker {self.drained}"
        if {len(replicas) for replicas in topic.replicas} != {spec["replicationFactor"]}:
            yield "replication factor"
        wanted = {key: str(value) for key, value in spec["config"].items()}
        for key in sorted({*wanted, *topic.config}):
            unmanaged = key not in wanted and (name, key) in self.client_keys
            if wanted.get(key) == topic.config.get(key) or unmanaged:
                continue
            less = key == "retention.ms" and int(wanted.get(key, 0)) < int(topic.config.get(key, sys.maxsize))
            yield Reason.DATA_LOSS.value if less else f"config {key}"

    def _compare_others(self) -> Iterator[str]:
        """Yield an alarm for each topic without a Topic that has changed, appeared or disappeared."""
        topics = self.state.topics
        for name, topic in self.foreign.items():
            if topics.get(name) != topic:
                yield f"{name}, which is not the operator's, was changed: {topic} to {topics.get(name)}"
        for name, topic in self.given_up.items():
            if name not in topics or topics[name].config != topic.config:
                yield f"{name}, which the operator keeps, was changed: {topic} to {topics.get(name)}"
        for name in self.deleting & topics.keys():
            status = (self.world.server.find("topics", name) or {}).get("status")
            yield f"{name} was not deleted: {status}"
        for name in topics.keys() - self.declared.keys() - self.foreign.keys() - self.given_up.keys() - self.deleting:
            yield f"{name} belongs to nothing"


def measure_memory(operator: RunningOperator, world: World) -> int:
    """Return the bytes of all objects that an operator can reach, without those of the world around it."""
    gc.collect()
    parts = (world, world.server, world.kafka, world.interruptions, world.view, operator)
    around = {id(each) for part in parts for each in (part, vars(part))}
    around |= _reach(world.kafka.states, set()).keys()
    return sum(_reach(operator.manager, around).values())


def _reach(root: object, excluded: Container[int]) -> dict[int, int]:
    """Return the bytes of each object that can be reached from ``root``, by its id."""
    sizes: dict[int, int] = {}
    waiting = [root]
    while waiting:
        found = waiting.pop()
        if id(found) not in sizes and id(found) not in excluded and not isinstance(found, _CODE):
            sizes[id(found)] = sys.getsizeof(found)
            waiting += gc.get_referents(found)
    return sizes


def run_day(seed: int = 1, topics: int = 1000, hours: float = 24.0) -> list[Quarter]:
    """Return the figures of each quarter of a day with this number of Topics."""

    async def work(world: World) -> list[Quarter]:
        day = Day(world, random.Random(seed))
        day._update_cluster()
        for _ in range(topics):
            day.create_topic()
        await world.start_operator()
        await world.advance(SETTLE_S)
        quarters = []
        for number in range(QUARTERS):
            day.changes.clear()
            before = len(world.interruptions.writes)
            await day.work(hours * 3600 / QUARTERS, kills=number == 0)
            reasons, alarms = await day.compare(_DRAINABLE[0].id if number % 2 else None)
            for name in reasons:
                day.replace_topic(name)
            await world.advance(2 * SETTLE_S)
            assert world._operator is not None
            held = measure_memory(world._operator, world)
            count = len(day.declared)
            writes = len(world.interruptions.writes) - before
            quarters.append(
                Quarter(count, held // count, dict(day.changes), writes, dict(Counter(reasons.values())), tuple(alarms))
            )
        return quarters

    return run_world(work)


def find_alarms(quarters: list[Quarter]) -> Iterator[str]:
    """Yield the alarms of all quarters, and one if the memory has grown."""
    for number, quarter in enumerate(quarters, start=1):
        yield from (f"quarter {number}: {alarm}" for alarm in quarter.alarms)
    _, first, *_, last = quarters
    if last.bytes_per_topic > MAX_GROWTH * first.bytes_per_topic:
        yield f"memory: {first.bytes_per_topic:,} bytes for each topic, later {last.bytes_per_topic:,}"


def main(arguments: list[str]) -> int:
    """Run a whole day, print its alarms and figures, and write them to the file ``arguments[0]``; return the exit code.

    The exit code is 1 if there is an alarm.
    """
    logging.disable(logging.WARNING)  # the disturbances are logged thousands of times
    begun = time.monotonic()
    quarters = run_day()
    alarms = [*find_alarms(quarters)]
    print("".join(f"{alarm:.1000}\n" for alarm in alarms), end="")
    figures = {"alarms": len(alarms), "quarters": list(map(asdict, quarters))}
    write_record(figures, time.monotonic() - begun, arguments)
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Brokers in memory that move replicas, elect leaders and keep throttles, as those of a KRaft cluster do.

A copy ends when a test says so, or at each sleep of the run with ``copies_at_sleep``. Records are in memory, too.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import pytest
from msgspec.structs import replace

from support.kafka.records_in_memory import RecordsInMemory
from topiarist import throttle
from topiarist.adapters.kafka_admin.connection.connection import encode_topic_id
from topiarist.adapters.kafka_admin.moves import look as look_module
from topiarist.adapters.kafka_admin.moves import mover as mover_module
from topiarist.adapters.kafka_admin.moves.look import MoveReader
from topiarist.adapters.kafka_admin.moves.mover import Elector, MoveAccess, Mover
from topiarist.adapters.kafka_admin.records.codec import TopicRecord
from topiarist.kafka.types import Replicas
from topiarist.model.moves import (
    DEFAULT_BATCH_LIMITS,
    BatchLimits,
    LeaderChange,
    MoveProgress,
    MoveSettings,
    ReplicaMove,
)
from topiarist.model.outcome import Outcome
from topiarist.model.plan import SAFE_ASSESSMENT, ElectLeaders, MoveReplicas, Plan, TopicPlan
from topiarist.model.state import OwnershipRecord
from topiarist.planning.moves.ledger import carry_out
from topiarist.ports import MoveOptions
from unit.adapters.kafka_admin.scripted_session import FakeTime, ScriptedSession, metadata, partition, reply

OWNER = "team"
RATES = ("follower.replication.throttled.rate", "leader.replication.throttled.rate")
LISTS = ("follower.replication.throttled.replicas", "leader.replication.throttled.replicas")
RATE = 1000

Partition = tuple[str, int]


@dataclass
class Part:
    """One partition; ``target`` is the list that it gets, empty if it is not being reassigned."""

    replicas: Replicas
    leader: int
    isr: Replicas
    target: Replicas = ()

    @property
    def adding(self) -> Replicas:
        """Return the replicas that copy."""
        return tuple(each for each in self.target if each not in self.isr)

    @property
    def removing(self) -> Replicas:
        """Return the replicas that are deleted at the end."""
        return tuple(each for each in self.replicas if each not in self.target)


@dataclass
class MovingBrokers:
    """A cluster, the records of topiarist, and runs over them. ``seen`` has the reports of progress.

    ``errors`` has the codes of single topics and brokers in answers to Metadata and DescribeConfigs, by request and
    name; None leaves one out.
    """

    session: Any
    clock: FakeTime
    topics: dict[str, dict[int, Part]] = field(default_factory=dict)
    ids: dict[str, uuid.UUID] = field(default_factory=dict)
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    refusals: dict[Partition, tuple[int | None, str]] = field(default_factory=dict)
    errors: dict[tuple[str, str], int | None] = field(default_factory=dict)
    records: RecordsInMemory = field(default_factory=RecordsInMemory)
    seen: list[MoveProgress] = field(default_factory=list)
    syncs: int = 0
    copies_at_sleep: bool = True

    # What a test does.

    def create(self, name: str, *lists: Replicas) -> None:
        """Create a topic with an owner, in sync."""
        self.topics[name] = {number: Part(each, each[0], each) for number, each in enumerate(lists)}
        self.ids[name] = uuid.UUID(int=len(self.ids) + 1)
        self.configs[f"topics/{name}"] = {}
        self.records.topics[name] = TopicRecord(OwnershipRecord(OWNER), encode_topic_id(self.ids[name]))

    def lists(self, name: str) -> list[Replicas]:
        """Return the replica lists of a topic."""
        return [part.replicas for part in self.topics[name].values()]

    def throttles(self) -> Mapping[str, Mapping[str, str]]:
        """Return all overrides."""
        return {entity: values for entity, values in self.configs.items() if values}

    def reassign(self, name: str, number: int, target: Replicas) -> None:
        """Begin a reassignment; nothing is copied yet."""
        part = self.topics[name][number]
        listed = part.isr if part.target else part.replicas
        part.target, part.isr = target, listed
        part.replicas = (*target, *(each for each in listed if each not in target))
        if not part.adding and not part.removing:
            self._finish(part)

    def finish(self) -> None:
        """End all copies."""
        for parts in self.topics.values():
            for part in parts.values():
                if part.target:
                    self._finish(part)

    @staticmethod
    def _finish(part: Part) -> None:
        part.replicas = part.isr = part.target
        part.leader = part.leader if part.leader in part.target else part.target[0]
        part.target = ()

    # Plans and runs.

    def reader(self) -> MoveReader:
        """Return a reader."""
        return MoveReader(self.session, self._sync)

    def _sync(self) -> None:
        self.syncs += 1

    def plan(self, targets: Mapping[str, Sequence[Replicas]], owner: str = OWNER) -> Plan:
        """Return a plan that moves topics to these lists."""
        look = self.reader().look(sorted(targets))
        topics = []
        for name, lists in sorted(targets.items()):
            before = look.topics[name]
            assert before is not None
            moves = tuple(
                ReplicaMove(name, number, was, wanted)
                for number, (was, wanted) in enumerate(zip_longest(before.replicas, lists))
                if was != wanted
            )
            record = OwnershipRecord(OWNER)
            changes = (MoveReplicas(moves, SAFE_ASSESSMENT),) if moves else ()
            topics.append(TopicPlan(name, before, record, record, changes=changes))
        return Plan("prod", "", owner=owner, topics=tuple(topics), brokers=tuple(look.brokers.values()))

    def plan_move(self, *names: str) -> Plan:
        """Create topics with one partition on the brokers 1 and 2, and return a plan that moves each to 1 and 3."""
        for name in names:
            self.create(name, (1, 2))
        return self.plan({name: [(1, 3)] for name in names})

    def election_plan(self, name: str, *changes: LeaderChange) -> Plan:
        """Return a plan that elects leaders."""
        (before,) = self.plan({name: self.lists(name)}).topics
        return Plan(
            "prod", "", owner=OWNER, topics=(replace(before, changes=(ElectLeaders(changes, SAFE_ASSESSMENT),)),)
        )

    def options(self, **settings: Any) -> MoveOptions:
        """Return options; their progress is noted."""
        wait = settings.pop("wait", True)
        return MoveOptions(MoveSettings(**{"throttle": RATE, **settings}), wait, self.seen.append)

    def run(
        self,
        plan: Plan,
        *,
        batch: BatchLimits = DEFAULT_BATCH_LIMITS,
        stop: Callable[[], bool] = lambda: False,
        **settings: Any,
    ) -> list[Outcome]:
        """Carry out the moves of a plan; at its end other runs may take the lock."""
        try:
            options = self.options(batch=batch, **settings)
            mover = Mover(MoveAccess(self.session, self.reader(), self.records, stop), plan, options)
            return [*mover.execute()]
        finally:
            assert not self.records.is_acquired

    def elect(self, plan: Plan, stop: Callable[[], bool] = lambda: False, **settings: Any) -> list[Outcome]:
        """Carry out the elections of a plan; at its end other runs may take the lock."""
        options = self.options(**settings)
        elector = Elector(MoveAccess(self.session, self.reader(), self.records, stop), plan, options)
        try:
            return [*elector.execute()]
        finally:
            assert not self.records.is_acquired

    def move(self, plan: Plan) -> Iterator[Outcome]:
        """Carry out the moves of a plan, and then its elections, as ``KafkaCluster.move`` does."""
        access, options = MoveAccess(self.session, self.reader(), self.records, lambda: False), self.options()
        return carry_out(
            plan, lambda: Mover(access, plan, options).execute(), lambda: Elector(access, plan, options).execute()
        )

    def are_copying(self) -> bool:
        """Return whether the last report has moves that brokers copy."""
        return bool(self.seen and self.seen[-1].copying)

    def while_copying(self, act: Callable[[], object]) -> Callable[[], bool]:
        """Return a stop that acts at each report while brokers copy, and never stops."""

        def stop() -> bool:
            if self.are_copying():
                act()
            return False

        return stop

    def reassignments(self) -> list[Any]:
        """Return the requests that began moves."""
        return [each for each in self.session.sent if each.name == "AlterPartitionReassignments"]

    # Answers.

    def on_metadata(self, _broker: int, request: Any) -> Any:
        """Answer Metadata."""
        topics: dict[str, Any] = {}
        for name in request.names if request.names is not None else self.topics:
            parts = self.topics.get(name)
            error = self.errors.get(("Metadata", name))
            topics[name] = (
                error or 3
                if parts is None or error
                else [
                    partition(number, *part.replicas, leader=part.leader, isr=part.isr)
                    for number, part in parts.items()
                ]
            )
        answer = metadata(topics, brokers=self.session.brokers)
        for topic in answer.topics:
            topic.topic_id = self.ids.get(topic.name, topic.topic_id)
        return answer

    def on_list(self, _broker: int, request: Any) -> Any:
        """Answer ListPartitionReassignments."""
        assert request.topics is None
        topics = [
            reply(
                name=name,
                partitions=[
                    reply(partition_index=number, adding_replicas=part.adding, removing_replicas=part.removing)
                    for number, part in parts.items()
                    if part.target
                ],
            )
            for name, parts in self.topics.items()
        ]
        return reply(error_code=0, error_message=None, topics=topics)

    def on_alter(self, _broker: int, request: Any) -> Any:
        """Answer AlterPartitionReassignments; a refusal without a code leaves the partition out."""
        responses = []
        for topic in request.topics:
            partitions = []
            for each in topic.partitions:
                code, message = self.refusals.get((topic.name, each.partition_index), (0, ""))
                if code == 0:
                    self.reassign(topic.name, each.partition_index, tuple(each.replicas))
                if code is not None:
                    partitions.append(
                        reply(partition_index=each.partition_index, error_code=code, error_message=message)
                    )
            responses.append(reply(name=topic.name, partitions=partitions))
        return reply(error_code=0, error_message=None, responses=responses)

    def on_describe(self, broker: int, request: Any) -> Any:
        """Answer DescribeConfigs; beside an override there is the default of another source."""
        results = []
        for each in request.resources:
            kind = {2: "topics", 4: "brokers"}[each.resource_type]
            values = self.configs.get(f"{kind}/{each.resource_name}", {})
            assert kind == "topics" or int(each.resource_name) == broker
            configs = [
                reply(name=key, value=values.get(key, "1"), config_source={"topics": 1, "brokers": 2}[kind])
                if key in values
                else reply(name=key, value="1", config_source=5)
                for key in each.configuration_keys
            ]
            missing = kind == "topics" and each.resource_name not in self.topics
            code = self.errors.get(("DescribeConfigs", each.resource_name), 3 if missing else 0)
            if code is not None:
                results.append(
                    reply(
                        error_code=code,
                        error_message="who?",
                        resource_type=each.resource_type,
                        resource_name=each.resource_name,
                        configs=[] if code else configs,
                    )
                )
        return reply(results=results)

    def on_configure(self, broker: int, request: Any) -> Any:
        """Answer IncrementalAlterConfigs; a broker takes its own configs alone."""
        assert not request.validate_only
        responses = []
        for each in request.resources:
            kind = {2: "topics", 4: "brokers"}[each.resource_type]
            entity = f"{kind}/{each.resource_name}"
            assert kind == "topics" or int(each.resource_name) == broker
            code, message = self.refusals.get((entity, 0), (0, ""))
            if kind == "topics" and each.resource_name not in self.topics:
                code = 3
            for change in each.configs if code == 0 else ():
                if change.config_operation == 1:
                    self.configs.get(entity, {}).pop(change.name, None)
                else:
                    self.configs.setdefault(entity, {})[change.name] = change.value
            if code is not None:
                responses.append(
                    reply(
                        error_code=code,
                        error_message=message,
                        resource_type=each.resource_type,
                        resource_name=each.resource_name,
                    )
                )
        return reply(throttle_time_ms=0, responses=responses)

    def on_elect(self, _broker: int, request: Any) -> Any:
        """Answer ElectLeaders."""
        assert request.election_type == 0
        results = []
        for topic in request.topic_partitions:
            found = []
            for number in topic.partitions:
                part = self.topics[topic.topic][number]
                code, message = self.refusals.get((topic.topic, number), (0, ""))
                if code == 0 and part.leader == part.replicas[0]:
                    code = 84
                elif code == 0:
                    part.leader = part.replicas[0]
                if code is not None:
                    found.append(reply(partition_id=number, error_code=code, error_message=message))
            results.append(reply(topic=topic.topic, partition_result=found))
        return reply(error_code=0, replica_election_results=results)


class CopyingTime(FakeTime):
    """A clock; what brokers copy is done at each sleep."""

    def __init__(self) -> None:
        super().__init__()
        self.on_sleep: Callable[[], None] = lambda: None

    def sleep(self, seconds: float) -> None:
        """Move the clock, and run ``on_sleep``."""
        super().sleep(seconds)
        self.on_sleep()


def make_brokers(patch: pytest.MonkeyPatch, brokers: Iterable[int] = (1, 2, 3, 4)) -> MovingBrokers:
    """Return brokers; their runs use a clock of their own."""
    clock = CopyingTime()
    for module in (look_module, mover_module, throttle):
        patch.setattr(module, "time", clock)
    session = ScriptedSession({}, brokers=brokers)
    cluster = MovingBrokers(session, clock)
    clock.on_sleep = lambda: cluster.finish() if cluster.copies_at_sleep else None
    session.script = {
        "Metadata": cluster.on_metadata,
        "ListPartitionReassignments": cluster.on_list,
        "AlterPartitionReassignments": cluster.on_alter,
        "DescribeConfigs": cluster.on_describe,
        "IncrementalAlterConfigs": cluster.on_configure,
        "ElectLeaders": cluster.on_elect,
    }
    return cluster

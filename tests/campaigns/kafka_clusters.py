"""Kafka clusters in memory that outlive the sessions of operators, with a log of all changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Self

from msgspec.structs import replace

from campaigns.interruptions import Fault, Interruptions, OperatorKilled
from support import builders
from support.memory_cluster import MemoryCluster
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import Broker
from topiarist.model.access import KafkaAccess, ZooKeeperAccess
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import DeleteTopic, Plan, Risk, TopicPlan
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState, DeletionRecord, TopicState
from topiarist.ports import NO_CONTROL, MoveOptions, WriteControl, WriteGuard, write_all

BROKERS = tuple(Broker(number, rack) for number, rack in enumerate("abcabc", start=1))
"""Six brokers in three racks."""

ADDRESS = "zk:2181/prod"
"""The address of the cluster of the workloads in ZooKeeper."""

BOOTSTRAP_SERVERS = "kafka:9092"
"""The address of the brokers of the same cluster."""

OTHER_ADDRESS, OTHER_ID = "zk:2181/other", "8sYkR0b2QIu1nT4mXc9pAw"
"""The address and the id of another cluster."""


class Write(NamedTuple):
    """A change of a topic that was applied: the kinds of its changes, and whether it may lose data."""

    topic: str
    kinds: tuple[str, ...]
    is_destructive: bool


class KafkaClusters:
    """All Kafka clusters of one run, by address, and the writes to them.

    ``now`` returns the present time, which deletion records get.
    """

    def __init__(self, interruptions: Interruptions, now: Callable[[], datetime]) -> None:
        self.states: dict[str, ClusterState] = {
            ADDRESS: builders.state(brokers=BROKERS, next_identity=1000),
            OTHER_ADDRESS: builders.state(brokers=BROKERS, next_identity=1000, cluster_id=OTHER_ID),
        }
        self.writes: list[Write] = []
        self._sessions: list[CampaignCluster] = []
        self.interruptions = interruptions
        self.now = now

    def open(self, spec: ClusterSpec, **_options: object) -> CampaignCluster:
        """Open a session with the cluster of a spec. Raises ``Unreachable`` for an unknown address."""
        match spec.access:
            case ZooKeeperAccess(connect=address) if address in self.states:
                self._sessions.append(CampaignCluster(self, address))
                return self._sessions[-1]
            case KafkaAccess(bootstrap_servers=address) if address == BOOTSTRAP_SERVERS:
                self._sessions.append(CampaignCluster(self, ADDRESS))
                return self._sessions[-1]
        raise TopiaristError(Reason.UNREACHABLE, "no server answers at this address")

    def kill_sessions(self) -> None:
        """End all sessions of a process that was killed; their threads write nothing more."""
        for session in self._sessions:
            session.dead = True
        self._sessions.clear()

    def change_topic(self, name: str, **fields: Any) -> None:
        """Change a topic as another client of Kafka; create it if it does not exist."""
        state = self.states[ADDRESS]
        topic = state.topics.get(name)
        if topic is None:
            topic = TopicState(name, str(state.next_identity), builders.spread_replicas(3, 2))
            state = replace(state, next_identity=state.next_identity + 1)
        changed = replace(topic, **fields)
        if "config" in fields and topic.record:
            changed = replace(changed, modified_externally=True)
        self.states[ADDRESS] = replace(state, topics={**state.topics, name: changed})


class CampaignCluster(MemoryCluster):
    """One session of an operator with a cluster of ``KafkaClusters``."""

    def __init__(self, clusters: KafkaClusters, address: str) -> None:
        self._clusters = clusters
        self._address = address
        self.dead = False
        super().__init__(clusters.states[address])

    @property
    def state(self) -> ClusterState:
        """Return the present state of the cluster."""
        return self._clusters.states[self._address]

    @state.setter
    def state(self, state: ClusterState) -> None:
        self._clusters.states[self._address] = state

    @property
    def requests(self) -> Mapping[tuple[str, str], int]:
        """Return no requests."""
        return {}

    def apply(self, plan: Plan, stop: Callable[[], bool], control: WriteControl = NO_CONTROL) -> Iterator[Outcome]:
        """Apply a plan and record each write."""
        return self._recorded(plan, super().apply(plan, stop, control))

    def move(self, plan: Plan, options: MoveOptions, stop: Callable[[], bool]) -> Iterator[Outcome]:
        """Move replicas and record each write."""
        return self._recorded(plan, super().move(plan, options, stop))

    def _recorded(self, plan: Plan, outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
        plans = {topic.topic: topic for topic in plan.topics}
        for outcome in outcomes:
            if outcome.result is Result.DONE:
                changes = plans[outcome.topic].changes
                kinds = tuple(type(change).__name__ for change in changes)
                destructive = any(change.assessment.risk is Risk.DATA_LOSS for change in changes)
                deletes = any(isinstance(change, DeleteTopic) for change in changes)
                self._clusters.writes.append(Write(outcome.topic, kinds, destructive or deletes))
                if deletes:
                    self._record_deletion(outcome.topic)
                fault = self._clusters.interruptions.record(f"kafka {outcome.topic} {','.join(kinds)}")
                if fault is Fault.KILL:
                    self._clusters.interruptions.kill_from_thread()
                    raise OperatorKilled
                if fault is Fault.LOST_ANSWER:
                    outcome = Outcome(outcome.topic, Result.FAILED, Reason.SESSION_LOST, "the session was lost")
            yield outcome

    def _apply_topic(self, plan: Plan, topic: TopicPlan, guard: WriteGuard = write_all) -> Outcome:
        if self.dead:
            raise OperatorKilled
        return super()._apply_topic(plan, topic, guard)

    def _record_deletion(self, topic: str) -> None:
        record = self.state.dangling_records.get(topic)
        if record:
            written = DeletionRecord(record.owner, int(self._clusters.now().timestamp() * 1000))
            self.state = replace(self.state, deletion_records={**self.state.deletion_records, topic: written})

    def read_cluster_id(self) -> str:
        """Return the id of the cluster."""
        return self.state.cluster_id

    def enable_decode_cache(self) -> Self:
        """Return the cluster itself."""
        return self

    def close(self) -> None:
        """End the session."""

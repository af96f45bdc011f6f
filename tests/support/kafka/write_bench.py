"""A cluster in memory with a reader and a records run, for tests of the writer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from support.builders import plan as make_plan
from support.builders import state
from support.kafka.fake_cluster import FakeAdminSession, FakeCluster
from support.kafka.records_in_memory import RecordsInMemory
from topiarist.adapters.kafka_admin.read.topic_reader import Look
from topiarist.adapters.kafka_admin.records.codec import TopicRecord
from topiarist.adapters.kafka_admin.write.writer import Writer
from topiarist.errors import TopiaristError
from topiarist.kafka.types import Replicas
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Plan, RunOptions
from topiarist.model.spec import TopicSpec
from topiarist.model.state import ClusterState, OwnershipRecord, ReadError, TopicState
from topiarist.ports import Throttle, WriteControl


class Bench:
    """A cluster, its records, and runs over both.

    ``looks`` counts the reads; ``before_look`` is called before each.

    The looks with the numbers ``hidden_looks`` show no topic, as if they were old. With ``is_late`` a look that is not
    proven shows what the one before it showed. ``asked`` has for each look that follows another one whether it lists
    reassignments, and is proven.
    """

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.records = RecordsInMemory(self._topic)
        self.session: Any = FakeAdminSession(self.cluster)
        self.looks = 0
        self.before_look: Callable[[int], None] = lambda number: None
        self.unreadable: set[str] = set()
        self.hidden_looks = range(0)
        self.is_late = False
        self.asked: list[tuple[bool, bool]] = []
        self._last = Look({}, {}, {}, (3, 3))
        self.error: TopiaristError | None = None

    def look(self, names: Collection[str]) -> Look:
        """Return these topics as they are now."""
        self.looks += 1
        self.before_look(self.looks)
        topics: dict[str, TopicState | ReadError | None] = {
            name: None if self.looks in self.hidden_looks else self._topic(name) for name in names
        }
        topics.update({name: ReadError(name, "no permission") for name in self.unreadable & topics.keys()})
        return Look(topics, {each.id: each for each in self.cluster.brokers}, {}, (3, 3))

    def look_first(self, names: Collection[str]) -> Look:
        """Return the same: no state was read before."""
        return self.look(names)

    def look_again(
        self, ids: Mapping[str, str | None], *, lists_reassignments: bool = True, is_proven: bool = True
    ) -> Look:
        """Return the same of topics that had these ids, or what the last look showed."""
        self.asked.append((lists_reassignments, is_proven))
        if self.is_late and not is_proven:
            self.looks += 1
            return self._last
        self._last = self.look(ids.keys())
        return self._last

    def state(self) -> ClusterState:
        """Return the cluster as a plan reads it."""
        topics = []
        for name in self.cluster.topics:
            topic, record = self._topic(name), self.records.topics.get(name)
            assert topic
            is_valid = record is not None and record.topic_id == topic.topic_id
            topics.append(replace(topic, record=record.record if record else None, record_valid=is_valid))
        dangling = {
            name: each.record
            for name, each in self.records.topics.items()
            if name not in self.cluster.topics and each.record and not each.record.deleted
        }
        return state(*topics, brokers=self.cluster.brokers, dangling_records=dangling)

    def own(self, name: str, *keys: str, owner: str = "default") -> None:
        """Record the ownership of a topic, which is created on the brokers 1 and 2 if there is none."""
        if name not in self.cluster.topics:
            self.cluster.add(name, (1, 2))
        record = OwnershipRecord(owner, tuple(sorted(keys)))
        self.records.topics[name] = TopicRecord(record, self.cluster.topics[name].id_text)

    def replace(self, name: str, *replicas: Replicas) -> None:
        """Recreate a topic as another client does."""
        self.cluster.add(name, *replicas)

    def plan(self, *specs: TopicSpec, **options: Any) -> Plan:
        """Return the plan of these specs for the cluster as it is now."""
        return make_plan(self.state(), *specs, run=RunOptions(**options))

    def apply(
        self, plan: Plan, stop: Callable[[], bool] = lambda: False, throttle: Throttle | None = None
    ) -> dict[str, Outcome]:
        """Apply a plan; return the outcomes by topic, and keep the error in ``error``."""
        self.error = None
        outcomes: list[Outcome] = []
        try:
            for outcome in self.run(plan, stop, throttle):
                outcomes.append(outcome)
        except TopiaristError as error:
            self.error = error
        # Only after requests with an unknown outcome other runs wait for the lease.
        assert self.records.intents or not self.records.is_acquired
        names = [each.topic for each in outcomes]
        assert sorted(names) == sorted(topic.topic for topic in plan.actionable_topics())
        return {each.topic: each for each in outcomes}

    def run(
        self, plan: Plan, stop: Callable[[], bool] = lambda: False, throttle: Throttle | None = None
    ) -> Iterator[Outcome]:
        """Return the outcomes of a writer."""
        return Writer(self.session, self.records, self, plan, stop, WriteControl(throttle)).execute()

    def _topic(self, name: str) -> TopicState | None:
        topic = self.cluster.topics.get(name)
        if topic is None:
            return None
        return TopicState(name, topic.id_text, topic.replicas, dict(topic.config), topic_id=topic.id_text)


def results(outcomes: Mapping[str, Outcome]) -> dict[str, Result]:
    """Return the result of each topic."""
    return {name: outcome.result for name, outcome in outcomes.items()}

"""The third cluster of the contract suite: real brokers in KRaft mode behind ``KafkaCluster``.

The suite adds brokers to the shared cluster, and cleans it for each test; each test has a topic of records of its own.
Kafka's protocol does not allow everything that another client can do in ZooKeeper, so three changes are made in another
way:

- A reassignment that the controller does not end goes to a broker that is registered and does not run.
- Replicas on brokers that are not registered: Kafka accepts registered brokers only, so two more brokers run while the
  topic is created, and end then.
- A reassignment of a topic that does not exist is refused; the test of it is skipped with the answer of the brokers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from itertools import count

import pytest

from contract.cluster_fixtures import BROKERS, ClusterPorts, own_values
from support.kafka.clients import Clients
from support.kafka.kraft import KraftCluster
from support.kafka.programs import Program
from topiarist.adapters.kafka_admin.cluster import KafkaCluster
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.read.topic_reader import TopicReader
from topiarist.adapters.kafka_admin.records.run import ClusterView, RecordsRun
from topiarist.kafka.types import Replicas
from topiarist.model.access import KafkaAccess, RecordsTopic
from topiarist.model.moves import BatchRecord
from topiarist.model.state import TopicState

RACKS: dict[int, str | None] = {broker.id: broker.rack for broker in BROKERS}

STOPPED = 7
"""A registered broker that does not run."""

_KEPT_TOPICS = frozenset({"__transaction_state"})
_NO_BROKER = "UnknownTopicOrPartitionException"
_record_topics = (f"__topiarist-{number}" for number in count(1))


@dataclass
class KraftContractCluster:
    """The cluster of all tests of one release; ``stopped`` are the brokers that a test has stopped."""

    kafka: KraftCluster
    clients: Clients
    stopped: set[int] = field(default_factory=set)
    broker_defaults: Mapping[str, str] = field(default_factory=dict)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Open connections."""
        session = Session(KafkaAccess(self.kafka.bootstrap_of("PLAINTEXT")), 10.0)
        try:
            yield session
        finally:
            session.close()

    def stop_brokers(self, *brokers: int) -> None:
        """Stop brokers, and wait until no broker counts them any more."""
        for broker in brokers:
            self.kafka.stop(broker)
        self.kafka.wait(lambda: not {*brokers}.intersection(self.clients.racks()), f"the end of {brokers}")

    def set_broker_defaults(self, settings: Mapping[str, str]) -> None:
        """Set the dynamic defaults of the brokers to exactly these."""
        changes = {**dict.fromkeys(self.broker_defaults), **settings}
        if changes:
            assert self.clients.alter({"": changes}, kind="BROKER") == {}
        self.broker_defaults = settings

    def clean(self) -> None:
        """Undo what a test has changed."""
        for broker in sorted(self.stopped):
            self.kafka.start(broker)
        self.stopped.clear()
        self.kafka.wait(lambda: set(self.clients.racks()) == set(RACKS), "all brokers to be back")
        self.set_broker_defaults({})
        with self.session() as session:
            names = {each.name for each in session.read_metadata(None).topics} - _KEPT_TOPICS
        if names:
            assert self.clients.delete(names) == {}


class KraftClusterFixture:
    """A fixture of one test on a ``KraftContractCluster``; each ``open`` is a new session."""

    def __init__(self, cluster: KraftContractCluster, stack: ExitStack) -> None:
        self._cluster = cluster
        self._clients = cluster.clients
        self._stack = stack
        self._records = RecordsTopic(next(_record_topics), 1)
        self._access = KafkaAccess(cluster.kafka.bootstrap_of("PLAINTEXT"), records=self._records)

    def open(self) -> ClusterPorts:
        """Return the ports of a new session."""
        return self._stack.enter_context(KafkaCluster(self._access, owner="default", lock_timeout=5.0))

    def create_topic(self, name: str, replicas: tuple[Replicas, ...], config: dict[str, str]) -> None:
        """Create the topic; brokers that are not among those of the suite run only meanwhile."""
        others = {broker for partition in replicas for broker in partition}.difference(RACKS)
        for broker in sorted(others):
            self._cluster.kafka.start(broker)
        if others:
            self._cluster.kafka.wait(lambda: others.issubset(self._clients.racks()), f"the brokers {others}")
        assert self._clients.create({name: replicas}, config) == {}
        if others:
            self._cluster.kafka.wait(lambda: self._is_in_sync(name), f"{name} in sync")
            self._cluster.stop_brokers(*others)

    def configure_topic(self, name: str, config: dict[str, str]) -> None:
        """Set these overrides, and remove the others."""
        with self._cluster.session() as session:  # Kafka's own client may still show the topic of an earlier test
            topic = TopicReader(session).look([name]).topics[name]
        assert isinstance(topic, TopicState), topic
        assert self._clients.alter({name: {**dict.fromkeys(topic.config), **config}}) == {}

    def set_broker_defaults(self, settings: dict[str, str]) -> None:
        """Set the dynamic defaults."""
        self._cluster.set_broker_defaults(settings)

    def delete_topic(self, name: str) -> None:
        """Delete the topic, which takes effect at once."""
        assert self._clients.delete([name]) == {}

    def request_reassignment(self, name: str) -> None:
        """Request a reassignment to a broker that does not run, which the controller begins and cannot end."""
        refusal = self._clients.reassign({name: {0: [4, 5, STOPPED]}}).get(f"{name}-0", "")
        if refusal.startswith(_NO_BROKER):
            pytest.skip(f"the brokers refuse a reassignment of a topic that does not exist: {refusal}")
        assert not refusal, refusal

    def leave_batch(self, record: BatchRecord) -> None:
        """Commit the record, and set its throttles."""
        with self._cluster.session() as session:
            run = RecordsRun(session, "default", ClusterView(lambda names: {}), topic=self._records)
            run.acquire()
            run.commit_batch(record, hold=False)
        for entity in record.throttles:
            assert self._clients.alter({entity.removeprefix("topics/"): own_values(record, entity)}) == {}

    def enable_moves(self) -> None:
        """Do nothing: the controller carries out every reassignment."""

    def remove_broker(self, broker: int) -> None:
        """Stop the broker."""
        self._cluster.stopped.add(broker)
        self._cluster.stop_brokers(broker)

    def wait_until_idle(self) -> None:
        """Return at once: the controller has processed a change when it answers."""

    def _is_in_sync(self, name: str) -> bool:
        topic = self._clients.describe([name])[name]
        return topic is not None and topic.is_in_sync


def extended(kafka: KraftCluster, program: Program) -> KraftContractCluster:
    """Add the brokers of the suite to those that run, and register the one that does not run afterwards."""
    with closing(Session(KafkaAccess(kafka.bootstrap), 10.0)) as session:
        session.coordinator("topiarist")  # makes the topic of transactions, before there is another broker
    for broker in RACKS.keys() - kafka.racks.keys():
        kafka.start(broker, rack=RACKS[broker])
    cluster = KraftContractCluster(kafka, Clients(program, kafka.bootstrap))
    kafka.start(STOPPED)
    kafka.racks.pop(STOPPED)
    cluster.stop_brokers(STOPPED)
    return cluster

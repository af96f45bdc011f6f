"""Random clusters, manifests and runs for planner properties: mostly ordinary, with occasional irregularities.

Names, brokers, config keys and values come from small pools, so that specs match topics, records match keys, and equal
values have different notations. A world is generated from a seed and a number of names: hundreds of separate choices
take a second for each test, and only the number of topics is worth shrinking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple, TypeVar

from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import DocumentSource, manifest
from topiarist.adapters.size_limits import REQUEST_LIMITS
from topiarist.desired.shared_specs import merge
from topiarist.errors import Reason
from topiarist.kafka.types import Broker, Replicas, metric_name
from topiarist.model.access import ZooKeeperAccess
from topiarist.model.moves import NO_MOVES, UNLIMITED, MoveKind, MoveSettings
from topiarist.model.plan import ALL_TOPICS, Plan, RunOptions
from topiarist.model.spec import ClusterSpec, RackAwareness, TopicSpec
from topiarist.model.state import (
    NO_MEMORY,
    AppliedSpec,
    Capabilities,
    ClusterState,
    OperatorMemory,
    OwnershipRecord,
    ReadError,
    Support,
    TopicState,
    WriteBlock,
)
from topiarist.planning.planner import make_plan

NAMES = (
    *("audit", "clicks", "orders", "orders.v1", "orders_v1", "payments", "users"),
    *("__consumer_offsets", "connect-offsets", "totals-changelog"),
)

VALID_CONFIG: Mapping[str, tuple[str, ...]] = {
    "cleanup.policy": ("compact", "delete", "compact,delete", "delete,compact", "delete , compact"),
    "retention.ms": ("604800000", "86400000", "0086400000", "-1"),
    "retention.bytes": ("-1", "1073741824"),
    "min.insync.replicas": ("1", "2", "3"),
    "min.compaction.lag.ms": ("0", "5000"),
    "max.compaction.lag.ms": ("1000", "9000"),
    "min.cleanable.dirty.ratio": ("0.5", "0.50", ".5", "0.1"),
    "segment.ms": ("604800000", "1000"),
    "unclean.leader.election.enable": ("true", "false", "TRUE"),
    "compression.type": ("zstd", "producer"),
    "message.timestamp.after.max.ms": ("3600000",),
    "remote.storage.enable": ("true", "false"),
    "follower.replication.throttled.replicas": ("*", "0:1,1:2"),
    "confluent.tier.enable": ("true",),
}
"""Keys and values that a manifest may have, with several texts for one value."""

UNUSUAL_CONFIG: Mapping[str, tuple[str, ...]] = {
    "retention.ms": ("abc", ""),
    "cleanup.policy": ("delete,",),
    "flush.messages": ("0",),
    "no.such.config": ("x", "1"),
}
"""What may stand on a cluster beside those."""

_IGNORE = ("partitions", "replicationFactor", "replicaAssignment", "config.retention.ms", "config.cleanup.policy")
_BROKER_IDS = (1, 2, 3, 4)
_UNREGISTERED_BROKER = 9

T = TypeVar("T")


class PlanInput(NamedTuple):
    """All inputs of a plan."""

    state: ClusterState
    cluster: ClusterSpec
    specs: tuple[TopicSpec, ...]
    run: RunOptions

    def plan(self) -> Plan:
        """Return the plan of the inputs."""
        return make_plan(self.state, self.cluster, self.specs, self.run)


class _Generator:
    """A generator of the parts of a world; ``odd`` is the frequency of irregularities (0: never)."""

    def __init__(self, seed: int, anomaly_rate: float) -> None:
        self.random = Random(seed)
        self.anomaly_rate = anomaly_rate

    def pick(self, values: Sequence[T]) -> T:
        """Return one of the values."""
        return self.random.choice(values)

    def usually(self, usual: T, *others: T) -> T:
        """Return ``usual``, and occasionally another value."""
        return self.pick(others) if self.random.random() < self.anomaly_rate else usual

    def sample(self, values: Sequence[T], most: int) -> list[T]:
        """Return up to ``most`` of the values, in any order."""
        return self.random.sample(values, self.random.randint(0, most))

    def config(self, pool: Mapping[str, tuple[str, ...]], maximum: int = 4) -> dict[str, str]:
        """Return a few keys of a pool, each with one of its values."""
        return {key: self.pick(pool[key]) for key in self.sample(tuple(pool), min(maximum, len(pool)))}

    def record(self) -> OwnershipRecord:
        """Return a record, mostly topiarist's; occasionally the record of another owner or a deletion record."""
        owner = self.usually("default", "k8s/team/release")
        used = OperatorMemory("sha256:0123456789abcdef", 1_767_225_600_000, (1_767_225_600_001,))
        memory = NO_MEMORY if owner == "default" else used
        if self.usually(False, True):
            return OwnershipRecord(owner, deleted=True, memory=memory)
        keys = tuple(sorted(self.sample(tuple(VALID_CONFIG), 4)))
        if self.random.random() < 0.5:
            return OwnershipRecord(owner, keys, memory=memory)
        values = tuple((key, self.pick(VALID_CONFIG[key])) for key in keys if self.random.random() < 0.8)
        applied = AppliedSpec(self.pick((None, 1, 3, 5)), values, self.usually(False, True))
        return OwnershipRecord(owner, keys, applied=applied, memory=memory)

    def replicas(self, width: int) -> Replicas:
        """Return one replica list; occasionally it names a broker that is never registered."""
        brokers = self.random.sample(_BROKER_IDS, width)
        if brokers and self.random.random() < self.anomaly_rate / 10:
            brokers[0] = _UNREGISTERED_BROKER
        return tuple(brokers)

    def topic(self, name: str, identity: int) -> TopicState:
        """Return a possible topic of a cluster, with every irregularity of a state."""
        count, width = self.random.randint(1, 5), self.random.randint(1, 3)
        record = self.record() if self.random.random() < 0.7 else None
        hole = self.usually(False, True)
        return TopicState(
            name,
            str(identity),
            tuple(self.replicas(self.usually(width, 0, 1, 2, 3)) for _ in range(count)),
            self.config(VALID_CONFIG) | (self.config(UNUSUAL_CONFIG, 2) if self.usually(False, True) else {}),
            partition_ids=range(1, count + 1) if hole else (),
            topic_id=self.pick((None, f"id-{identity}")),
            reassigning_partitions=self.usually((), (count if hole else count - 1,)),
            record=record,
            record_valid=record is not None and self.usually(True, False),
            modified_externally=self.usually(False, True),
            unknown_fields=self.usually((), ("vendor",)),
        )

    def brokers(self) -> tuple[Broker, ...]:
        """Return brokers 1 to 4, rarely fewer: all with racks, none with racks, or some with racks."""
        ids = self.usually(_BROKER_IDS, (), (1,), (2, 4), (1, 2, 3))
        racks = self.pick((("a", "b", "a", "b"), (None,) * 4, ("a", "b", "c", "a")))
        racks = self.usually(racks, (None, "b", "a", "b"))
        return tuple(Broker(broker, racks[broker - 1]) for broker in ids)

    def state(self, names: Sequence[str]) -> ClusterState:
        """Return a cluster with topics of most names; some other names are only records or unreadable topics."""
        present = [name for name in names if self.random.random() < 0.7]
        absent = [name for name in names if name not in present]
        faulty = [name for name in absent if self.usually(False, True)]
        bare = [name for name in absent if name not in faulty and self.random.random() < 0.4]
        state = ClusterState(
            cluster_id="ID",
            brokers=self.brokers(),
            topics={name: self.topic(name, identity) for identity, name in enumerate(present, start=10)},
            write_block=self.usually(
                WriteBlock(), WriteBlock(), WriteBlock(Reason.KRAFT_CONTROLLER, "a KRaft controller is in charge")
            ),
            pending_deletions=frozenset(name for name in names if self.random.random() < self.anomaly_rate / 4),
            reassigning_topics=frozenset(name for name in names if self.random.random() < self.anomaly_rate / 4),
            dangling_records={name: self.record() for name in bare},
            topic_errors={name: ReadError(f"/brokers/topics/{name}", "is no JSON") for name in faulty},
            broker_defaults=self.usually({}, {"log.retention.ms": "604800000", "log.cleanup.policy": "compact"}),
            min_version=self.pick(((2, 4), (2, 8), (3, 4))),
            next_identity=1000,
        )
        through_brokers = replace(state, bypasses_brokers=False, size_limits=REQUEST_LIMITS)
        denied = Support(False, "they place replicas themselves")
        growing = replace(through_brokers, capabilities=Capabilities(growth_lists=denied))
        placing = replace(through_brokers, capabilities=Capabilities(replica_lists=denied, growth_lists=denied))
        return self.usually(state, through_brokers, growing, placing)

    def fields(self) -> dict[str, Any]:
        """Return the spec of a ``Topic`` document that is valid for its schema."""
        found: dict[str, Any] = {"config": self.config(VALID_CONFIG)}
        if self.usually(False, True):
            width = self.random.randint(1, 3)
            found["replicaAssignment"] = [list(self.replicas(width)) for _ in range(self.random.randint(1, 6))]
        else:
            sizes = {"partitions": self.random.randint(1, 8), "replicationFactor": self.random.randint(1, 3)}
            found |= {key: size for key, size in sizes.items() if self.random.random() < 0.6}
        ignored = self.sample(_IGNORE, 3)
        return found | {
            "ignore": self.usually([], ignored),
            "withoutConfig": self.usually([], ["min.insync.replicas"]),
            "unmanagedConfig": self.usually("Keep", "Remove"),
            "ensure": self.usually("Present", "Absent"),
            "mode": self.usually("Enforce", "Observe"),
        }

    def cluster(self) -> ClusterSpec:
        """Return a cluster as its manifest describes it."""
        return ClusterSpec(
            name="prod",
            version=self.pick((None, (2, 8), (3, 9))),
            rack_awareness=self.pick((None, *RackAwareness)),
            default_partitions=4,
            default_replication_factor=2,
            default_config=self.usually({}, {"min.insync.replicas": "2", "segment.ms": "1000"}),
            broker_config=self.usually({}, {"log.retention.ms": "-1"}),
            allow_unknown_configs=self.usually(("confluent.*",), ()),
            exclude_brokers=self.usually(frozenset(), frozenset({4})),
            drain_brokers=self.usually(frozenset(), frozenset({self.pick((3, _UNREGISTERED_BROKER))})),
            moves=self.usually(
                NO_MOVES,
                MoveSettings(
                    frozenset(self.random.sample([*MoveKind], self.random.randint(1, len(MoveKind)))),
                    throttle=self.usually(UNLIMITED, None),
                    protected=self.usually(False, True),
                ),
            ),
            protected=self.usually(("__*", "connect-*", "*-changelog"), ()),
        )

    def run(self) -> RunOptions:
        """Return the flags of a run."""
        return RunOptions(
            take_ownership=self.usually((), ALL_TOPICS),
            adopt=self.pick(((), ("*",), ("o*",))),
            recreate=self.usually((), ALL_TOPICS),
            without_brokers=self.usually(frozenset(), frozenset({_UNREGISTERED_BROKER, 3})),
            allow_unknown_brokers=self.usually(False, True),
        )


def make_plan_input(seed: int, size: int, anomaly_rate: float) -> PlanInput:
    """Return a cluster, its manifests and a run; ``size`` is the number of topic names."""
    maker = _Generator(seed, anomaly_rate)
    cluster = maker.cluster()
    names = maker.random.sample(NAMES, size)
    # Colliding names are refused before planning: see ``desired``.
    folded = {metric_name(name): name for name in names}
    declared = [name for name in folded.values() if maker.random.random() < 0.9]
    specs = tuple(merge(manifest(name, **maker.fields()), cluster) for name in declared)
    return PlanInput(maker.state(names), cluster, specs, maker.run())


def plan_inputs() -> st.SearchStrategy[PlanInput]:
    """Return worlds of one to six names, with or without irregularities."""
    return st.builds(make_plan_input, st.integers(0, 1 << 40), st.integers(1, 6), st.sampled_from((0.0, 0.08, 0.25)))


def texts() -> st.SearchStrategy[str]:
    """Return possible values in ZooKeeper: values of the pools, numbers, any text."""
    known = sorted({text for pool in (VALID_CONFIG, UNUSUAL_CONFIG) for values in pool.values() for text in values})
    return st.one_of(st.sampled_from(known), st.integers(-(1 << 70), 1 << 70).map(str), st.text(max_size=12))


UNUSUAL_NAMES = (
    *("Orders", "ORDERS.V1", "orders-v1", "-orders-", "a..b", ".a.b.", "_", "__", "topic", "two words", "-"),
    *("y", "null", "010", "1.50", "x" * 249, "X" * 249, "_" + "x" * 248, "con", "ünlesbar", "orders.v1.", "Topic"),
)
"""Names of topics that are no names of documents, or not to every reader of YAML."""

UNUSUAL_CLUSTER_CONFIG: Mapping[str, tuple[str, ...]] = {
    **UNUSUAL_CONFIG,
    "cleanup.policy": (" compact ,\tdelete", "", "delete,"),
    "min.cleanable.dirty.ratio": ("0.5f", "NaN", "1", "1e-4", "0.0001", "0.1234567890123456789", "-0.0", ".50"),
    "max.message.bytes": ("010", "+5", "\u0661\u0662", " 1048576 "),
    "flush.messages": ("9223372036854775807", "9223372036854775808", "0"),
    "preallocate": ("True", "yes"),
    "message.format.version": ("2.8", "3.0-IV1", "0.10.1"),
    "confluent.tier.enable": ("TRUE", "12", "1.50", "99999999999999999999", "a\nb", "\ud800", "", "yes", "é"),
    "bad key": ("x",),
}
"""What may stand on a cluster and needs care on its way into a manifest and back."""


def make_cluster(seed: int, size: int, anomaly_rate: float) -> tuple[ClusterState, ClusterSpec]:
    """Return a cluster with topics of other clients, ``size`` possible names, and optionally its Cluster document."""
    maker = _Generator(seed, anomaly_rate)
    state = maker.state(maker.random.sample((*NAMES, *UNUSUAL_NAMES), size))
    topics = {
        name: replace(topic, config={**topic.config, **maker.usually({}, maker.config(UNUSUAL_CLUSTER_CONFIG, 3))})
        for name, topic in state.topics.items()
    }
    if maker.random.random() < 0.5:
        topics = {name: replace(topic, config={"segment.ms": "1000", **topic.config}) for name, topic in topics.items()}
    unnamed = ClusterSpec(
        name="prod", zookeeper=ZooKeeperAccess("zk1:2181/kafka"), version=maker.pick((None, (2, 8), (3, 9)))
    )
    documented = replace(
        maker.cluster(),
        zookeeper=ZooKeeperAccess("zk1:2181/kafka"),
        source=DocumentSource("clusters.yaml", {}),
        moves=NO_MOVES,  # else even an exported topic is moved
        drain_brokers=frozenset(),
    )
    return replace(state, topics=topics), maker.pick((unnamed, documented))


def clusters() -> st.SearchStrategy[tuple[ClusterState, ClusterSpec]]:
    """Return clusters of one to twelve names, with or without irregularities."""
    return st.builds(make_cluster, st.integers(0, 1 << 40), st.integers(1, 12), st.sampled_from((0.0, 0.1, 0.5)))


@st.composite
def ownership_records(draw: st.DrawFn) -> OwnershipRecord:
    """Return any ownership record; the applied values are those of some of its keys."""
    text, number = st.text(st.characters(codec="utf-8"), max_size=12), st.integers(0, 2**31 - 1)
    config, applied = dict(sorted(draw(st.dictionaries(text, st.none() | text, max_size=4)).items())), None
    if draw(st.booleans()):
        values = tuple((key, value) for key, value in config.items() if value is not None)
        applied = AppliedSpec(draw(st.none() | st.integers(1, 100_000)), values, draw(st.booleans()))
    owner = draw(st.text("abc/-", min_size=1, max_size=9))
    memory = draw(st.builds(OperatorMemory, text, st.none() | number, st.lists(number, max_size=2).map(tuple)))
    return OwnershipRecord(owner, tuple(config), draw(st.booleans()), applied, memory)

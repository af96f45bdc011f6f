"""The states that the explorer visits: the tree, the runs, the other actors, and what may still go wrong.

``scenario`` builds the first one. ``actors`` and ``model`` lead from one to the next.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec.structs import replace

from interleavings.replay import RunSpec
from interleavings.zookeeper.tree import JOINT_CLOCK, Entry, Tree
from support.builders import PositionedSource
from topiarist.adapters import own_values
from topiarist.adapters.devcluster.seed import CLUSTER_ID
from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec.values import dump_object
from topiarist.desired.shared_specs import merge
from topiarist.model.moves import DEFAULT_BATCH_LIMITS, NO_MOVES, BatchLimits, MoveKind, MoveSettings
from topiarist.model.plan import RunOptions
from topiarist.model.spec import ClusterSpec, Manifest
from topiarist.model.state import OwnershipRecord

MOVES = MoveSettings(frozenset({MoveKind.FACTOR}), throttle=1_000_000)
"""What a cluster with moves allows."""


class Budget(NamedTuple):
    """How often each kind of disturbance may still happen."""

    drops: int = 0
    crashes: int = 0
    failovers: int = 0
    client_actions: int = 0
    operator_actions: int = 0


KRAFT_EPOCH = b"1000"
"""The epoch that a KRaft controller claims."""

_NO_BUDGET = Budget()


class Written(NamedTuple):
    """A topic that a run has written: its czxid and its partition count afterwards.

    ``was_planned`` is False if it was another topic of the name than the planned one.
    """

    topic: str
    was_planned: bool
    czxid: int
    partitions: int


class Run(NamedTuple):
    """One run. ``state`` is its local state, None after a crash; ``lost`` counts answers that will not arrive."""

    state: int | None
    lost: int = 0
    written: tuple[Written, ...] = ()


class Controller(NamedTuple):
    """Kafka's controller. ``known`` has the partition count of each topic in its memory.

    ``step`` is what it is doing between two requests; ``ids`` counts the topic ids that it has made. ``active`` is
    False while there is none, and None after a KRaft controller took over. ``moving`` has topic, partition and target
    of the reassignments in its memory.
    """

    known: tuple[tuple[str, int], ...] = ()
    step: tuple[Any, ...] = ()
    ids: int = 1
    active: bool | None = True
    moving: tuple[tuple[str, int, tuple[int, ...]], ...] = ()


class World(NamedTuple):
    """One state. ``client`` is what another client is doing between two requests."""

    tree: Tree
    runs: tuple[Run, ...]
    controller: Controller
    client: tuple[Any, ...] = ()
    budget: Budget = Budget()

    @property
    def digest(self) -> int:
        """Return a number that two different states share with a probability of 1 to 2**64."""
        return hash((self.tree.digest, *self[1:]))


@dataclass(frozen=True)
class Scenario:
    """A cluster, the runs on it, and what may go wrong.

    ``topics`` has partition count, configs and ownership record of each topic.
    ``client_actions`` are the kinds of another client's actions, each with a topic and an argument;
    ``operator_actions`` are the kinds of a person's. ``names`` are the topics that anyone touches;
    ``width`` is the replication factor of those that exist.
    ``requested`` is a topic that a reassignment request names from the start. With ``moves``, replicas are moved: the
    controller carries out reassignment requests.
    """

    runs: tuple[RunSpec, ...]
    topics: Mapping[str, tuple[int, Mapping[str, str], OwnershipRecord | None]]
    budget: Budget = _NO_BUDGET
    client_actions: tuple[tuple[str, str, Any], ...] = ()
    operator_actions: tuple[str, ...] = ()
    names: tuple[str, ...] = ("a", "b")
    requested: str = ""
    moves: bool = False
    width: int = 1
    multiread: bool = True


def make_run(*topics: Any, batch: BatchLimits = DEFAULT_BATCH_LIMITS, **options: Any) -> RunSpec:
    """Return a run with these specs; ``batch`` limits its batches of moves."""
    moves = replace(MOVES, batch=batch) if any(each.allowed_moves for each in topics) else NO_MOVES
    return RunSpec(topics, RunOptions(**options), ClusterSpec(moves=moves))


def declare(name: str, partitions: int | None, config: Mapping[str, str] | None = None, factor: int = 0) -> Any:
    """Return the spec of a topic, absent without ``partitions``; with ``factor`` its replicas may move."""
    fields: dict[str, Any] = {"partitions": partitions, "replicationFactor": factor or 1, "config": dict(config or {})}
    if partitions is None:
        fields = {"ensure": "Absent"}
    cluster = ClusterSpec(moves=MOVES if factor else NO_MOVES)
    return merge(Manifest("Topic", name, "", {}, fields, PositionedSource("nowhere.yaml")), cluster)


def encode_topic(replicas: Sequence[Sequence[int]], topic_id: str | None = None) -> bytes:
    """Return a topic's znode as Kafka 2.8 and later write it."""
    lists = {str(index): list(each) for index, each in enumerate(replicas)}
    fields = {"version": 2, "partitions": lists, "adding_replicas": {}, "removing_replicas": {}}
    return dump_object(fields | ({"version": 3, "topic_id": topic_id} if topic_id else {}))


def encode_config(config: Mapping[str, str]) -> bytes:
    """Return a topic's config znode."""
    return dump_object({"version": 1, "config": dict(config)})


def encode_request(topic: str) -> bytes:
    """Return a reassignment request that names partition 0 of a topic."""
    return dump_object({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [2]}]})


def partitions_of(tree: Tree, topic: str) -> Mapping[str, Any]:
    """Return the replica lists of a topic by partition, empty if there is no topic."""
    entry = tree.nodes.get(paths.topic_path(topic))
    return json.loads(entry.data)["partitions"] if entry else {}


def topic_id_of(tree: Tree, topic: str) -> str | None:
    """Return the id of a topic, None if it has none."""
    entry = tree.nodes.get(paths.topic_path(topic))
    return json.loads(entry.data).get("topic_id") if entry else None


def config_of(tree: Tree, topic: str) -> Mapping[str, str]:
    """Return the overrides of a topic."""
    entry = tree.nodes.get(paths.config_path(topic))
    return json.loads(entry.data)["config"] if entry else {}


def make_topic_id(topic: str, number: int) -> str:
    """Return the id of the ``number``-th topic that the controller has met."""
    return f"{topic}{number}".ljust(22, "A")


def first_state_path(topic: str, partition: int = 0) -> str:
    """Return the path of a partition's state."""
    return paths.partition_state_path(topic, partition)


def encode_state(isr: Sequence[int], leader_epoch: int = 0) -> bytes:
    """Return the state of a partition; its leader is the first replica in sync."""
    fields = {"controller_epoch": 1, "leader": isr[0], "version": 1, "leader_epoch": leader_epoch, "isr": list(isr)}
    return dump_object(fields)


def initialize(tree: Tree, topic: str, partitions: int) -> Tree:
    """Return the tree after the controller created the missing states of the first partitions."""
    lists = partitions_of(tree, topic)
    for partition in range(partitions):
        if first_state_path(topic, partition) not in tree.nodes:
            state = encode_state(lists[str(partition)])
            tree = tree.put(first_state_path(topic, partition), state)
    return tree


def first_world(scenario: Scenario, states: Sequence[int]) -> World:
    """Return the first state of a scenario: two brokers, initialized topics, and the runs about to begin."""
    controller = {"version": 2, "brokerid": 1, "timestamp": "1", "kraftControllerEpoch": -1}
    nodes = {
        paths.CLUSTER_ID: dump_object({"version": "1", "id": CLUSTER_ID}),
        paths.CONTROLLER_EPOCH: b"1",
        paths.CONTROLLER: dump_object(controller),
        paths.FREEZE: own_values.encode_freeze(None),
    }
    empty: tuple[str, ...] = (
        paths.TOPIC_CONFIGS,
        paths.CONFIG_CHANGES,
        paths.TOPICS,
        paths.BROKER_IDS,
        paths.IP_CONFIGS,
    )
    if scenario.moves:
        empty = (*empty, paths.BROKER_CONFIGS)
    nodes |= dict.fromkeys((*empty, paths.DELETION_REQUESTS, paths.TOPIARIST_ROOT, paths.LOCK, paths.RECORDS), b"")
    registration = {"version": 5, "host": "h", "port": 1, "endpoints": ["PLAINTEXT://h:1"], "jmx_port": -1}
    registration |= {"timestamp": "1", "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"}, "features": {}}
    nodes |= {paths.broker_path(broker): dump_object(registration) for broker in (1, 2)}
    clock = {JOINT_CLOCK: 0} if scenario.moves else {}
    tree = Tree({path: Entry(data, 0, 0, 0) for path, data in nodes.items()}, clock)
    for topic, (count, config, record) in scenario.topics.items():
        tree = tree.put(paths.config_path(topic), encode_config(config))
        replicas = [[1 + (index + step) % 2 for step in range(scenario.width)] for index in range(count)]
        tree = tree.put(paths.topic_path(topic), encode_topic(replicas, make_topic_id(topic, 0)))
        tree = initialize(tree, topic, count)
        if record is not None:
            tree = tree.put(paths.record_path(topic), own_values.encode_record(record))
    if scenario.requested:
        tree = tree.put(paths.REASSIGNMENT_REQUEST, encode_request(scenario.requested))
    known = tuple(sorted((topic, count) for topic, (count, _, _) in scenario.topics.items()))
    return World(tree, tuple(map(Run, states)), Controller(known), budget=scenario.budget)

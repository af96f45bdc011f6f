"""Read what a batch of moves depends on: the reassignment request, topics, partition states, throttles."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec.strict_json import ZnodeError
from topiarist.adapters.zookeeper.codec.topics import ZnodeDecoder, decode_config, decode_partition_state
from topiarist.adapters.zookeeper.connection.session import Session
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode, read_znodes
from topiarist.adapters.zookeeper.read.state import read_topics
from topiarist.adapters.zookeeper.read.topic import TopicZnodes, decode_topic_state
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.state import PartitionState, ReadError, Reassignment
from topiarist.planning.moves.execution.gate import MovedTopic
from topiarist.planning.moves.execution.health import effective_min_isr

StateZnodes = Mapping[tuple[str, int], Znode]
"""The state znodes of partitions that have one, by topic and partition."""


class JudgedZnodes(NamedTuple):
    """The znodes that topics were compared with: their own, and the states of all their partitions."""

    topics: Mapping[str, TopicZnodes]
    states: StateZnodes


NOTHING_JUDGED = JudgedZnodes({}, {})


def read_moved_topics(session: Session, names: Sequence[str]) -> dict[str, TopicZnodes]:
    """Read the znodes of topics, in the order of ``names``; a topic that does not exist has ``MISSING`` znodes."""
    return read_topics(session, names)[0]


def read_partition_states(session: Session, nodes: Iterable[TopicZnodes]) -> StateZnodes:
    """Read the state of every partition of topics that were just read.

    A state that is older than its topic belongs to an earlier topic of that name, and is left out.
    """
    wanted = [
        (found.name, partition, found.topic.czxid)
        for found in nodes
        if isinstance(found.topic, Znode)
        for partition in decode_lists(found)
    ]
    answers = read_znodes(session, [paths.partition_state_path(name, partition) for name, partition, _ in wanted])
    states = {}
    for (name, partition, czxid), answer in zip(wanted, answers, strict=True):
        if answer is ReadFailure.DENIED:
            path = paths.partition_state_path(name, partition)
            raise TopiaristError(Reason.NO_PERMISSION, f"no permission to read {path}")
        if isinstance(answer, Znode) and answer.czxid >= czxid:
            states[name, partition] = answer
    return states


def decode_moved_topic(
    nodes: TopicZnodes,
    brokers: Mapping[int, Broker],
    settings: Mapping[str, str],
    states: StateZnodes | None = None,
) -> MovedTopic:
    """Return a topic for ``judge_topic``; ``settings`` are those of the brokers.

    Raises ``TopiaristError`` (TopicUnreadable) if a znode has content that Kafka does not write.
    """
    decoder = ZnodeDecoder()
    topic = decode_topic_state(nodes, decoder)
    if isinstance(topic, ReadError):
        raise TopiaristError(Reason.TOPIC_UNREADABLE, f"{topic.path}: {topic.message}")
    return MovedTopic(
        topic=topic,
        reassignments=decode_reassignments(nodes),
        marked_for_deletion=nodes.marked_for_deletion,
        brokers=brokers,
        states=None if states is None else decode_states(nodes.name, states),
        min_isr=effective_min_isr(topic.config, settings) if topic else 1,
    )


def decode_states(name: str, states: StateZnodes) -> Mapping[int, PartitionState]:
    """Return the states of one topic; a state that cannot be decoded is left out, as if there were none."""
    decoded = {}
    for (topic, partition), node in states.items():
        if topic == name:
            try:
                decoded[partition] = decode_partition_state(node.data)
            except ZnodeError:
                continue
    return decoded


def decode_reassignments(nodes: TopicZnodes) -> Mapping[int, Reassignment]:
    """Return the partitions of a topic that are in flight; nothing if the topic does not exist or is malformed."""
    try:
        return ZnodeDecoder().decode_topic(nodes.topic.data).reassignments if isinstance(nodes.topic, Znode) else {}
    except ZnodeError:
        return {}


def decode_lists(nodes: TopicZnodes) -> Mapping[int, Replicas]:
    """Return the replica lists of a topic by partition; none if it does not exist or is malformed."""
    try:
        decoded = ZnodeDecoder().decode_topic(nodes.topic.data) if isinstance(nodes.topic, Znode) else None
    except ZnodeError:
        return {}
    return dict(zip(decoded.partition_ids, decoded.replicas, strict=True)) if decoded else {}


def read_entity_configs(
    session: Session, entities: Collection[str], topics: Mapping[str, TopicZnodes]
) -> dict[str, Znode | ReadFailure]:
    """Read the config znodes of entities (``brokers/5``); those of topics are in ``topics``."""
    brokers = [entity for entity in entities if not entity.startswith("topics/")]
    answers = read_znodes(session, map(paths.entity_config_path, brokers))
    found = dict(zip(brokers, islice(answers, len(brokers)), strict=True))
    return found | {f"topics/{name}": nodes.config for name, nodes in topics.items()}


def decode_entity_configs(
    nodes: Mapping[str, Znode | ReadFailure], topics: Mapping[str, TopicZnodes]
) -> dict[str, Mapping[str, str]]:
    """Return the overrides of each entity; a topic that does not exist is left out.

    Raises ``TopiaristError`` (Unreadable) for a config that brokers cannot read.
    """
    decoded: dict[str, Mapping[str, str]] = {}
    for entity, node in nodes.items():
        kind, _, name = entity.partition("/")
        if kind == "topics" and (name not in topics or not isinstance(topics[name].topic, Znode)):
            continue
        try:
            if node is ReadFailure.DENIED:
                raise ZnodeError("no permission to read it")
            decoded[entity] = decode_config(node.data) if isinstance(node, Znode) else {}
        except ZnodeError as error:
            path = paths.entity_config_path(entity)
            raise TopiaristError(Reason.UNREADABLE, f"{path} cannot be read: {error}") from error
    return decoded

"""A sample fleet with every kind of drift, and the findings that a report of it must contain.

The expected findings are determined before any comparison. Topics have a typical size: 12 partitions, 3 replicas, 5
overrides; no two have the same placement or identity, as on real clusters. Only the numbers of topic and cluster
determine the differences, so that two generations of one fleet are identical to the byte.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from hashlib import md5
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from support.cli.runs import document
from topiarist.adapters.snapshots.files import Snapshot, dump_snapshot, file_name
from topiarist.kafka.placement import assign_replicas
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.state import ClusterState, OwnershipRecord, TopicState

SNAPSHOT_TIME = datetime(2025, 1, 31, 12, tzinfo=UTC)

BROKERS = tuple(Broker(number, "abc"[number % 3]) for number in range(1, 7))

CONFIGS = tuple(
    {
        "cleanup.policy": "delete",
        "max.message.bytes": "1048588",
        "min.insync.replicas": "2",
        "retention.ms": str(days * 86_400_000),
        "segment.bytes": "536870912",
    }
    for days in range(1, 8)
)

REPLICA_LISTS: tuple[tuple[Replicas, ...], ...] = tuple(
    assign_replicas(BROKERS, 12, replication_factor=3, start=start, shift=shift)
    for start in range(6)
    for shift in range(6)
)
"""Where Kafka may place a topic on these brokers: it draws start and shift."""

FindingKey = tuple[str, str, str, str]
"""Cluster, topic, class and field of a finding."""

_TOPIC_SPACING = 97
"""Topics between two that differ in one kind: more than there are kinds."""


class DriftedFleet(NamedTuple):
    """A fleet on disk and its expected findings, each once."""

    manifests: Path
    snapshots: Path
    expected: frozenset[FindingKey]


TopicChange = Callable[[TopicState], TopicState | None]


def _set_config(**changes: str) -> TopicChange:
    names = {key.replace("_", "."): text for key, text in changes.items()}
    return lambda topic: replace(topic, config={**topic.config, **names})


def _set_partition_count(partitions: int) -> TopicChange:
    def change(topic: TopicState) -> TopicState:
        lists = (*topic.replicas, (1, 2, 3))[:partitions]
        return replace(topic, replicas=lists, partition_ids=range(partitions))

    return change


def _narrow_first_partition(topic: TopicState) -> TopicState:
    return replace(topic, replicas=(topic.replicas[0][:2], *topic.replicas[1:]))


def _move_to_first_rack(topic: TopicState) -> TopicState:
    """Put the last replica of partition 0 on the rack of its first: two brokers then hold one more and one less."""
    first, *others = topic.replicas[0]
    rack = dict(BROKERS)[first]
    same = next(broker.id for broker in BROKERS if broker.rack == rack and broker.id != first)
    return replace(topic, replicas=((first, *others[:-1], same), *topic.replicas[1:]))


_THROTTLE = "follower.replication.throttled.replicas"

DRIFT_KINDS: tuple[tuple[tuple[tuple[str, str], ...], TopicChange], ...] = (
    ((("missing", ""),), lambda topic: None),
    ((("partitions", "partitions"),), _set_partition_count(11)),
    ((("partitions", "partitions"),), _set_partition_count(13)),
    ((("replicationFactor", "replicationFactor"), ("widths", "")), _narrow_first_partition),
    ((("racks", ""), ("spread", "")), _move_to_first_rack),
    ((("moving", ""),), lambda topic: replace(topic, reassigning_partitions=(3,))),
    (
        (("throttle", f"config.{_THROTTLE}"),),
        lambda topic: replace(topic, config={**topic.config, _THROTTLE: "0:1"}),
    ),
    ((("config", "config.retention.ms"),), _set_config(retention_ms="1000")),
    ((("unmanaged", "config.flush.ms"),), _set_config(flush_ms="5000")),
    ((("fault", "partitions"),), lambda topic: replace(topic, partition_ids=(*range(11), 12))),
    ((("refused", ""),), lambda topic: replace(topic, record=OwnershipRecord("another"))),
    ((), lambda topic: _set_config(retention_ms=f"0{topic.config['retention.ms']}")(topic)),
    ((), lambda topic: replace(topic, record=None, record_valid=False)),
    ((), lambda topic: replace(topic, modified_externally=True)),
)
"""Kinds of drift: the classes and fields of the findings, and how a topic comes to differ."""


def topic_name(number: int) -> str:
    """Return a topic name of typical length."""
    return f"team{number % 37:02d}.service.topic-{number:06d}"


def cluster_name(number: int) -> str:
    """Return a cluster name."""
    return f"cluster-{number:04d}"


def make_fleet(folder: Path, clusters: int, topics: int, per_kind: int) -> DriftedFleet:
    """Write a fleet of this many clusters and topics, with ``per_kind`` topics of every kind of drift.

    Each of the first ``per_kind`` clusters has one undeclared topic, one orphaned topic, one topic with another
    placement and one ignored topic; the last cluster has no snapshot. Raises ``ValueError`` if the fleet is too small
    for all of them.
    """
    if per_kind * _TOPIC_SPACING > (clusters - 1) * topics or per_kind >= clusters:
        raise ValueError(f"{clusters} clusters of {topics} topics have no room for {per_kind} of every kind")
    manifests, snapshots = make_folders(folder)
    named = [(cluster_name(number), {"env": "prod"}) for number in range(clusters)]
    chosen = [(topic_name(number), {"env": "prod"}) for number in range(topics)]
    write_documents(manifests, [*manifest_documents(named, chosen), _placed_topic_document({"env": "prod"})])
    expected: set[FindingKey] = {(cluster_name(clusters - 1), "", "unknown", "")}
    for number in range(clusters - 1):
        expected |= write_cluster_snapshot(snapshots, number, topics, per_kind)
    return DriftedFleet(manifests, snapshots, frozenset(expected))


def make_folders(folder: Path) -> tuple[Path, Path]:
    """Create and return the folders of manifests and of snapshots."""
    made = folder / "manifests", folder / "snapshots"
    for each in made:
        each.mkdir(parents=True, exist_ok=True)
    return made


def manifest_documents(
    clusters: Iterable[tuple[str, dict[str, str]]], topics: Iterable[tuple[str, dict[str, str]]]
) -> Iterator[str]:
    """Return the documents of clusters with labels, and of topics that select these labels."""
    for name, labels in clusters:
        body = json.loads(document("Cluster", name, kafkaVersion="3.9"))
        body["metadata"]["labels"] = labels
        yield json.dumps(body)
    for number, (name, labels) in enumerate(topics):
        chosen = {"clusterSelector": {"matchLabels": labels}, "config": _topic_config(number)}
        yield document("Topic", name, **chosen, partitions=12, replicationFactor=3)


def write_documents(manifests: Path, found: Iterable[str]) -> None:
    """Write documents into files of a thousand each, because the size of a file is limited."""
    rest = iter(found)
    for number in count():
        if not (some := list(islice(rest, 1000))):
            return
        (manifests / f"{number:04d}.yaml").write_text("\n---\n".join(some))


def _placed_topic_document(labels: dict[str, str]) -> str:
    lists = [list(brokers) for brokers in REPLICA_LISTS[0][:3]]
    selector = {"matchLabels": labels}
    return document("Topic", "placed", clusterSelector=selector, config=_topic_config(0), replicaAssignment=lists)


def write_cluster_snapshot(snapshots: Path, number: int, topics: int, per_kind: int) -> set[FindingKey]:
    """Write the snapshot of one cluster and return its expected findings.

    Only topics with differences are built as states; all other topics are written directly as snapshot lines, which is
    ten times as fast.
    """
    odd, found = _differing_topics(number, topics, per_kind)
    lines = {topic: snapshot_line(number, topic) for topic in range(topics) if topic not in odd}
    extra = _additional_topics(number, per_kind)
    if number < per_kind:
        found |= {(cluster_name(number), "placed", "assignment", "replicaAssignment")}
        found |= {(cluster_name(number), "orphan", "orphaned", ""), (cluster_name(number), "guest", "unexpected", "")}
    write_snapshot_lines(snapshots, number, lines.values(), [*filter(None, odd.values()), *extra])
    return found


def write_snapshot_lines(snapshots: Path, number: int, lines: Iterable[bytes], topics: Iterable[TopicState]) -> None:
    """Write a file of lines and of states, the lines first."""
    name, lines = cluster_name(number), [*lines]
    first, *others = dump_snapshot(Snapshot(name, SNAPSHOT_TIME, cluster_state(number, topics)))
    row = json.loads(first)
    row["rows"] = len(lines) + len(others)
    head = json.dumps(row, separators=(",", ":")).encode() + b"\n"
    (snapshots / file_name(name)).write_bytes(b"".join([head, *lines, *others]))


def cluster_state(number: int, topics: Iterable[TopicState]) -> ClusterState:
    """Return the state of a cluster."""
    held = {topic.name: topic for topic in topics}
    return ClusterState(cluster_name(number), BROKERS, held, controller=1, controller_epoch=7)


def _differing_topics(number: int, topics: int, per_kind: int) -> tuple[dict[int, TopicState | None], set[FindingKey]]:
    """Return the differing topics of a cluster by number (None: a missing topic), and their expected findings."""
    odd: dict[int, TopicState | None] = {}
    found = set[FindingKey]()
    start = number * topics
    for turn in range(start // _TOPIC_SPACING, min(per_kind, (start + topics) // _TOPIC_SPACING + 1)):
        for kind, (findings, change) in enumerate(DRIFT_KINDS):
            topic = turn * _TOPIC_SPACING + kind - start
            if 0 <= topic < topics:
                odd[topic] = change(matching_topic(number, topic))
                found.update((cluster_name(number), topic_name(topic), *finding) for finding in findings)
    return odd, found


def _additional_topics(number: int, per_kind: int) -> Iterator[TopicState]:
    """Return the topics of a cluster in addition to the numbered topics."""
    if number >= per_kind:
        yield _owned_topic("placed", REPLICA_LISTS[0][:3])
        return
    yield _owned_topic("placed", (REPLICA_LISTS[0][1], *REPLICA_LISTS[0][1:3]))
    yield _owned_topic("orphan", REPLICA_LISTS[0])
    for name in ("guest", "__consumer_offsets"):
        yield replace(_owned_topic(name, REPLICA_LISTS[0]), record=None, record_valid=False)


def matching_topic(number: int, topic: int) -> TopicState:
    """Return a topic that matches its spec, by the numbers of its cluster and the topic."""
    lists, identity = REPLICA_LISTS[_placement_index(number, topic)], _identity(number, topic)
    made = _owned_topic(topic_name(topic), lists, _topic_config(topic))
    return replace(made, identity=str(identity), topic_id=_topic_id(identity))


def snapshot_line(number: int, topic: int) -> bytes:
    """Return the same topic as a line of a snapshot."""
    identity = _identity(number, topic)
    head, tail = _line_parts(_placement_index(number, topic), topic % len(CONFIGS))
    named = (
        f'{cluster_name(number)}{head}{topic_name(topic)}","identity":"{identity}","topicId":"{_topic_id(identity)}"'
    )
    return b"".join([b'{"kind":"topic","cluster":"', named.encode(), tail])


@cache
def _line_parts(placing: int, config: int) -> tuple[str, bytes]:
    """Return the parts of a line between cluster and name, and after the topic id."""
    topic = replace(_owned_topic("N", REPLICA_LISTS[placing], CONFIGS[config]), topic_id="I")
    _, row = dump_snapshot(Snapshot("C", SNAPSHOT_TIME, cluster_state(0, [topic])))
    return '"' + row.split(b'"C"')[1].split(b"N")[0].decode(), row.split(b'"I"')[1]


def _placement_index(number: int, topic: int) -> int:
    return (number * 7 + topic * 5) % len(REPLICA_LISTS)


def _topic_config(topic: int) -> dict[str, str]:
    return CONFIGS[topic % len(CONFIGS)]


def _identity(number: int, topic: int) -> int:
    return number * 1_000_003 + topic * 11 + 100


def _topic_id(identity: int) -> str:
    return urlsafe_b64encode(md5(str(identity).encode(), usedforsecurity=False).digest())[:22].decode()


def _owned_topic(name: str, lists: tuple[Replicas, ...], config: dict[str, str] = CONFIGS[0]) -> TopicState:
    return TopicState(name, "7", lists, config, record=OwnershipRecord("default", tuple(config)), record_valid=True)

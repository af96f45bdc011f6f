"""A sample fleet with drift of every kind, and what a report must find of it: known before anything is compared.

Topics are of the usual size: 12 partitions, 3 replicas, 5 overrides. Where something differs is decided by the numbers
of topic and cluster alone, so that two makings of one fleet are equal to the byte.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from support.runs import document
from topiarist.adapters.snapshot import Snapshot, dump, file_name
from topiarist.core.state import Broker, ClusterState, Replicas, TopicRecord, TopicState

TAKEN = datetime(2025, 1, 31, 12, tzinfo=UTC)

BROKERS = tuple(Broker(number, "abc"[number % 3]) for number in range(1, 7))

CONFIG = {
    "cleanup.policy": "delete",
    "max.message.bytes": "1048588",
    "min.insync.replicas": "2",
    "retention.ms": "604800000",
    "segment.bytes": "536870912",
}

LISTS: tuple[Replicas, ...] = tuple(
    tuple((first + step) % 6 + 1 for step in range(3)) for first in (0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5)
)

Identity = tuple[str, str, str, str]
"""Cluster, topic, class and field of a finding."""

_APART = 97
"""Topics between two that differ in one kind: more than there are kinds."""


class Sample(NamedTuple):
    """A fleet on disk, and the findings of it: each once."""

    manifests: Path
    snapshots: Path
    expected: frozenset[Identity]


Change = Callable[[TopicState], TopicState | None]


def _configured(**changes: str) -> Change:
    names = {key.replace("_", "."): text for key, text in changes.items()}
    return lambda topic: replace(topic, config={**topic.config, **names})


KINDS: tuple[tuple[str, str, Change], ...] = (
    ("missing", "", lambda topic: None),
    ("partitions", "partitions", lambda topic: replace(topic, replicas=LISTS[:11], partition_ids=range(11))),
    ("partitions", "partitions", lambda topic: replace(topic, replicas=(*LISTS, (1, 2, 3)), partition_ids=range(13))),
    ("replicationFactor", "replicationFactor", lambda topic: replace(topic, replicas=((1, 2), *LISTS[1:]))),
    ("config", "config.retention.ms", _configured(retention_ms="1000")),
    ("unmanaged", "config.flush.ms", _configured(flush_ms="5000")),
    ("fault", "partitions", lambda topic: replace(topic, partition_ids=(*range(11), 12))),
    ("refused", "", lambda topic: replace(topic, record=TopicRecord("another"))),
    ("none", "", _configured(retention_ms="0604800000")),
    ("none", "", lambda topic: replace(topic, record=None, record_valid=False)),
    ("none", "", lambda topic: replace(topic, changed_outside=True)),
)
"""Kinds of drift, the field that they are found in, and how a topic comes to differ; ``none`` is no finding."""


def topic_name(number: int) -> str:
    """A topic's name, of a usual length."""
    return f"team{number % 37:02d}.service.topic-{number:06d}"


def cluster_name(number: int) -> str:
    """A cluster's name."""
    return f"cluster-{number:04d}"


def make(folder: Path, clusters: int, topics: int, each: int) -> Sample:
    """Write a fleet of so many clusters of so many topics; of every kind of drift there are ``each`` topics.

    On the first ``each`` clusters there is one topic that nobody asked for, one that is orphaned, one placed elsewhere
    and one that is left alone; the last cluster has no snapshot. Raises ``ValueError`` if there is no room for it all.
    """
    if each * _APART > (clusters - 1) * topics or each >= clusters:
        raise ValueError(f"{clusters} clusters of {topics} topics have no room for {each} of every kind")
    manifests, snapshots = folder / "manifests", folder / "snapshots"
    for made in (manifests, snapshots):
        made.mkdir(parents=True, exist_ok=True)
    (manifests / "all.yaml").write_text("\n---\n".join(_documents(clusters, topics)))
    expected: set[Identity] = {(cluster_name(clusters - 1), "", "unknown", "")}
    for number in range(clusters - 1):
        state, found = _cluster(number, topics, each)
        expected |= found
        name = cluster_name(number)
        (snapshots / file_name(name)).write_bytes(b"".join(dump(Snapshot(name, TAKEN, state))))
    return Sample(manifests, snapshots, frozenset(expected))


def _documents(clusters: int, topics: int) -> Iterator[str]:
    labels = {"env": "prod"}
    for number in range(clusters):
        body = json.loads(document("Cluster", cluster_name(number), kafkaVersion="3.9"))
        body["metadata"]["labels"] = labels
        yield json.dumps(body)
    chosen = {"clusterSelector": {"matchLabels": labels}, "config": CONFIG}
    for number in range(topics):
        name = topic_name(number)
        yield document("Topic", name, **chosen, partitions=12, replicationFactor=3)
    yield document("Topic", "placed", **chosen, replicaAssignment=[list(brokers) for brokers in LISTS[:3]])


def _cluster(number: int, topics: int, each: int) -> tuple[ClusterState, set[Identity]]:
    """What a cluster holds, and what must be found of it."""
    name, found = cluster_name(number), set[Identity]()
    held: dict[str, TopicState] = {}
    for topic in range(topics):
        made: TopicState | None = _held(topic_name(topic), LISTS)
        turn, kind = divmod(number * topics + topic, _APART)
        if turn < each and kind < len(KINDS) and made:
            what, field, change = KINDS[kind]
            made = change(made)
            if what != "none":
                found.add((name, topic_name(topic), what, field))
        if made:
            held[made.name] = made
    held["placed"] = _held("placed", LISTS[:3])
    if number < each:
        held["placed"] = _held("placed", (LISTS[1], *LISTS[1:3]))
        held["orphan"] = _held("orphan", LISTS)
        held["guest"] = replace(_held("guest", LISTS), record=None, record_valid=False)
        held["__consumer_offsets"] = replace(_held("__consumer_offsets", LISTS), record=None, record_valid=False)
        found |= {(name, "placed", "assignment", "replicaAssignment")}
        found |= {(name, "orphan", "orphaned", ""), (name, "guest", "unexpected", "")}
    return ClusterState(name, BROKERS, held, controller=1, controller_epoch=7), found


def _held(name: str, lists: tuple[Replicas, ...]) -> TopicState:
    return TopicState(name, 7, lists, CONFIG, record=TopicRecord("default", tuple(CONFIG)), record_valid=True)

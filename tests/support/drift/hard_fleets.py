"""Fleets that are hard to compare: each takes away one thing that a fast comparison could rely on.

Sizes decide the content, and a fixed seed decides what is random, so that two generations of a fleet are identical to
the byte.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import NamedTuple

from support.cli.runs import document
from support.drift.drifted_fleet import (
    BROKERS,
    CONFIGS,
    FindingKey,
    cluster_name,
    make_folders,
    snapshot_line,
    topic_name,
    write_documents,
    write_snapshot_lines,
)

LIST_SHARE, DIFFERING_SHARE = 0.15, 0.95
"""The share of the clusters that a topic of ``lists`` is on, and of the topics of ``differ`` that differ."""

_PARTITIONS, _REPLICAS = 12, 3


class HardFleet(NamedTuple):
    """A fleet on disk: ``topics`` counts the topics of all clusters, ``documents`` the manifests of topics.

    ``expected`` are the findings; None if they are not known before.
    """

    manifests: Path
    snapshots: Path
    clusters: int
    topics: int
    documents: int
    expected: frozenset[FindingKey] | None = frozenset()


_Placement = Mapping[int, Iterable[int]]
"""The numbers of the topics on each cluster."""

_LineChange = Callable[[int, int, bytes], bytes]


def make_alike(folder: Path, clusters: int, topics: int) -> HardFleet:
    """Write clusters with the same topics, which match their manifests."""
    return _write(folder, dict.fromkeys(range(clusters), range(topics)))


def make_own(folder: Path, clusters: int, topics: int) -> HardFleet:
    """Write clusters with the same topics and one topic of their own, in the middle of their names."""
    return _write(folder, {number: [*range(topics - 1), topics + number] for number in range(clusters)})


def make_lists(folder: Path, clusters: int, topics: int) -> HardFleet:
    """Write topics that name a random share of the clusters, ``topics`` on each cluster on average."""
    random, found = Random(1), dict[int, list[int]]((number, []) for number in range(clusters))
    for topic in range(round(topics / LIST_SHARE)):
        for number in random.sample(range(clusters), max(round(clusters * LIST_SHARE), 1)):
            found[number].append(topic)
    return _write(folder, found)


def make_random(folder: Path, clusters: int, topics: int) -> HardFleet:
    """Write clusters with the same topics, each of them with random replica lists: nearly all need a plan."""
    random, ids = Random(2), [broker.id for broker in BROKERS]

    def change(_cluster: int, _topic: int, line: bytes) -> bytes:
        lists = [random.sample(ids, _REPLICAS) for _ in range(_PARTITIONS)]
        start, _, rest = line.partition(b'"replicas":')
        return (
            start + b'"replicas":' + json.dumps(lists, separators=(",", ":")).encode() + rest[rest.index(b"]]") + 2 :]
        )

    fleet = _write(folder, dict.fromkeys(range(clusters), range(topics)), change)
    return fleet._replace(expected=None)


def make_differ(folder: Path, clusters: int, topics: int, share: float = DIFFERING_SHARE) -> HardFleet:
    """Write clusters with the same topics, most of them with a value that no manifest has and no other topic has."""
    expected = set[FindingKey]()
    random = Random(3)

    def change(cluster: int, topic: int, line: bytes) -> bytes:
        if random.random() >= share:
            return line
        expected.add((cluster_name(cluster), topic_name(topic), "config", "config.retention.ms"))
        start, _, rest = line.partition(b'"retention.ms":"')
        value = str(cluster * topics + topic + 1).encode()  # less than a day: no value of CONFIGS
        return start + b'"retention.ms":"' + value + rest[rest.index(b'"') :]

    fleet = _write(folder, dict.fromkeys(range(clusters), range(topics)), change)
    return fleet._replace(expected=frozenset(expected))


MAKERS: Mapping[str, Callable[[Path, int, int], HardFleet]] = {
    "alike": make_alike,
    "own": make_own,
    "lists": make_lists,
    "random": make_random,
    "differ": make_differ,
}


def _write(folder: Path, placement: _Placement, change: _LineChange = lambda _cluster, _topic, line: line) -> HardFleet:
    manifests, snapshots = make_folders(folder)
    clusters_of: dict[int, list[str]] = {}
    total = 0
    for cluster, topics in placement.items():
        lines = [change(cluster, topic, snapshot_line(cluster, topic)) for topic in topics]
        write_snapshot_lines(snapshots, cluster, lines, [])
        total += len(lines)
        for topic in topics:
            clusters_of.setdefault(topic, []).append(cluster_name(cluster))
    write_documents(manifests, _documents(len(placement), clusters_of))
    return HardFleet(manifests, snapshots, len(placement), total, len(clusters_of))


def _documents(clusters: int, clusters_of: Mapping[int, list[str]]) -> Iterator[str]:
    for number in range(clusters):
        body = json.loads(document("Cluster", cluster_name(number), kafkaVersion="3.9"))
        body["metadata"]["labels"] = {"env": "prod"}
        yield json.dumps(body)
    for topic, names in clusters_of.items():
        everywhere = {"clusterSelector": {"matchLabels": {"env": "prod"}}}
        chosen = everywhere if len(names) == clusters else {"clusters": names}
        size = {"partitions": _PARTITIONS, "replicationFactor": _REPLICAS}
        yield document("Topic", topic_name(topic), **chosen, **size, config=CONFIGS[topic % len(CONFIGS)])

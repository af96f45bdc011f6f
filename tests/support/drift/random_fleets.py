"""Random small fleets as documents and snapshot rows, for the comparison of reports with ``independent_comparer``.

Names, keys and values come from small pools, so that topics often match their manifests, fully or except for one field.
The rows are written here and not by topiarist. A fleet is generated from a seed, a number of clusters and a number of
topics: only the two numbers are worth shrinking.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeVar

from hypothesis import strategies as st

OWNER = "default"

_BROKERS = (1, 2, 3, 4)
_TAKEN_AT = "2025-01-31T12:00:00Z"
_CLUSTERS = {"eu": {"env": "prod", "region": "eu"}, "us": {"env": "prod", "region": "us"}, "lab": {"env": "test"}}
_TOPICS = ("orders", "clicks", "audit", "connect-offsets", "shop.users")
_UNDECLARED = ("guest", "old", "__consumer_offsets", "_schemas")
_CONFIG: Mapping[str, tuple[Any, ...]] = {
    "retention.ms": (86400000, "86400000", 604800000, "0086400000"),
    "cleanup.policy": ("delete", "compact", "compact,delete", "delete, compact"),
    "unclean.leader.election.enable": (True, "true", "TRUE", False),
    "compression.type": ("zstd", "gzip"),
}
_IGNORE = ("partitions", "replicationFactor", "replicaAssignment", *(f"config.{key}" for key in _CONFIG))
_THROTTLE = {"leader.replication.throttled.replicas": "0:1"}

T = TypeVar("T")


class Fleet(NamedTuple):
    """The documents of a fleet, and the snapshot rows of the clusters that were read."""

    documents: Sequence[Mapping[str, Any]]
    snapshots: Mapping[str, Sequence[Mapping[str, Any]]]

    def write(self, folder: Path) -> Path:
        """Write the fleet to ``manifests`` and ``snapshots`` in a folder; return the folder of the manifests."""
        manifests, snapshots = folder / "manifests", folder / "snapshots"
        manifests.mkdir()
        snapshots.mkdir()
        (manifests / "all.yaml").write_text("\n---\n".join(map(json.dumps, self.documents)))
        for name, rows in {**self.snapshots, "outsider": _snapshot("outsider", [])}.items():
            (snapshots / f"{name}.jsonl").write_text("".join(f"{_dump(row)}\n" for row in rows))
        return manifests


def random_fleets(max_topics: int = len(_TOPICS)) -> st.SearchStrategy[Fleet]:
    """Return a strategy of fleets of up to three clusters."""
    clusters = st.integers(1, len(_CLUSTERS))
    return st.builds(make_fleet, st.integers(0, 2**32), clusters, st.integers(0, max_topics))


def make_fleet(seed: int, clusters: int, topics: int) -> Fleet:
    """Return the fleet of a seed."""
    random = _Choices(seed)
    names = [*_CLUSTERS][:clusters]
    documents = [_document("Cluster", name, random.cluster(), labels=_CLUSTERS[name]) for name in names]
    declared = [each for topic in _TOPICS[:topics] for each in random.topic_documents(topic, names)]
    snapshots = {name: random.rows(name, declared) for name in names if random.happens(0.85)}
    return Fleet([*documents, *declared], snapshots)


def merge_fleets(fleets: Sequence[Fleet]) -> Fleet:
    """Return one fleet that has all clusters and topics of some fleets, renamed so that no fleet changes another."""
    documents, snapshots = list[Mapping[str, Any]](), dict[str, Sequence[Mapping[str, Any]]]()
    for number, fleet in enumerate(fleets):
        clusters = [one["metadata"]["name"] for one in fleet.documents if one["kind"] == "Cluster"]
        for document in fleet.documents:
            name, spec = document["metadata"]["name"], document["spec"]
            if document["kind"] == "Topic":
                has_target = not spec.keys().isdisjoint(("clusters", "clusterSelector"))
                spec = {"topicName": name, **({} if has_target else {"clusters": clusters}), **spec}
            metadata = {**document["metadata"], "name": f"{name}-{number}"}
            documents.append(_rename({**document, "spec": spec}, number) | {"metadata": _rename(metadata, number)})
        snapshots |= _rename(fleet.snapshots, number)
    return Fleet(documents, snapshots)


def _rename(value: Any, number: int) -> Any:
    """Return a document or rows with the names of clusters and the values of labels for one fleet only."""
    if isinstance(value, Mapping):
        return {_rename(key, number): _rename(each, number) for key, each in value.items()}
    if isinstance(value, list):
        return [_rename(each, number) for each in value]
    return f"{value}-{number}" if value in ("prod", "test", *_CLUSTERS) else value


class _Choices:
    """The choices of one fleet."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def happens(self, chance: float) -> bool:
        return self._random.random() < chance

    def _one(self, values: Sequence[T]) -> T:
        return self._random.choice(values)

    def _some(self, values: Sequence[T], chance: float = 0.4) -> list[T]:
        return [value for value in values if self.happens(chance)]

    def _config(self, chance: float = 0.4) -> dict[str, Any]:
        return {key: self._one(_CONFIG[key]) for key in self._some([*_CONFIG], chance)}

    def cluster(self) -> dict[str, Any]:
        sizes = {"partitions": self._one((2, 3)), "replicationFactor": self._one((1, 2))}
        return {"kafkaVersion": "3.9", "defaults": {**sizes, "config": self._config(0.2)}}

    def topic_documents(self, topic: str, names: Sequence[str]) -> list[dict[str, Any]]:
        """Return one document of a topic, or one for each cluster."""
        if self.happens(0.2):
            chosen = self._some(names, 0.7)
            return [self._topic(f"{topic}-{name}", topic, names, {"clusters": [name]}) for name in chosen]
        has_no_target = len(names) == 1 and self.happens(0.5)
        return [self._topic(topic, topic, names, {} if has_no_target else self._selection(names))]

    def _topic(self, name: str, topic: str, names: Sequence[str], target: Mapping[str, Any]) -> dict[str, Any]:
        spec: dict[str, Any] = {"topicName": topic} if name != topic or self.happens(0.2) else {}
        spec |= {**target, **self._layer(0.7)}
        if self.happens(0.15):
            spec["ensure"] = self._one(("Absent", "Present"))
        if self.happens(0.4):
            spec["overrides"] = [self._selection(names) | self._layer(0.4) for _ in range(self._one((1, 1, 2)))]
        return _document("Topic", name, spec)

    def _selection(self, names: Sequence[str]) -> dict[str, Any]:
        labels = {"env": self._one(("prod", "test"))} | ({"region": "us"} if self.happens(0.2) else {})
        by_label: dict[str, Any] = {"clusterSelector": {"matchLabels": labels if self.happens(0.9) else {}}}
        by_name: dict[str, Any] = {"clusters": self._some(names, 0.7) or [names[0]]}
        return self._one((by_label, by_name))

    def _layer(self, chance: float) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if self.happens(0.15):
            fields["replicaAssignment"] = self._replicas()
        elif self.happens(chance):
            fields |= {"partitions": self._one((2, 3))} if self.happens(0.8) else {}
            fields |= {"replicationFactor": 2} if self.happens(0.8) else {}
        if self.happens(chance):
            fields["config"] = self._config()
        optional = {
            "ignore": self._some(_IGNORE, 0.3),
            "mode": self._one(("Observe", "Enforce")),
            "unmanagedConfig": self._one(("Remove", "Keep")),
            "withoutConfig": self._some([*_CONFIG], 0.3),
        }
        return fields | {field: value for field, value in optional.items() if self.happens(0.15)}

    def _replicas(self, partitions: int = 0, factor: int = 0) -> list[list[int]]:
        """Return even replica lists of one width; 0 for a random number."""
        partitions, factor = partitions or self._one((1, 2, 3, 3)), factor or self._one((1, 2, 2, 2))
        first = self._one(_BROKERS)
        return [[(first + at + n) % 4 + 1 for n in range(factor)] for at in range(partitions)]

    def rows(self, cluster: str, declared: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the snapshot of a cluster with some of the topics, half of them as in their documents."""
        rows = list[dict[str, Any]]()
        specs: dict[str, Mapping[str, Any]] = {topic: {"config": self._config(0.2)} for topic in _UNDECLARED}
        specs |= {topic: {} for topic in _TOPICS}
        specs |= {each["spec"].get("topicName", each["metadata"]["name"]): each["spec"] for each in declared}
        for topic, spec in specs.items():
            if self.happens(0.75 if topic in _TOPICS else 0.3):
                is_equal, config = self.happens(0.5), {**spec.get("config", {})}
                if not is_equal:
                    config |= self._config(0.2) | self._one(({}, {}, _THROTTLE))
                replicas = self._replicas(spec.get("partitions", 3), spec.get("replicationFactor", 2))
                lists = spec.get("replicaAssignment", replicas) if is_equal else self._replicas()
                rows.append(self._row(cluster, topic, lists, {key: _text(value) for key, value in config.items()}))
            elif self.happens(0.3):
                base = {"kind": "record", "cluster": cluster, "takenAt": _TAKEN_AT, "topic": topic}
                rows.append(base | {"record": self._record(())})
        return _snapshot(cluster, rows)

    def _row(self, cluster: str, topic: str, lists: Sequence[list[int]], config: Mapping[str, str]) -> dict[str, Any]:
        replicas = [*lists[:-1], [*_BROKERS[:3]]] if self.happens(0.1) else lists
        return {
            "kind": "topic",
            "cluster": cluster,
            "takenAt": _TAKEN_AT,
            "topic": topic,
            "identity": "7",
            "topicId": None,
            "replicas": replicas,
            "partitionIds": None,
            "reassigningPartitions": [],
            "config": config,
            "unknownFields": [],
            "record": self._record([*config]) if self.happens(0.8) else None,
            "recordValid": self.happens(0.9),
            "modifiedExternally": False,
            "deleting": False,
            "reassigning": False,
            "readErrorPath": None,
            "readError": None,
        }

    def _record(self, keys: Sequence[str]) -> dict[str, Any]:
        recorded = sorted(key for key in keys if key in _CONFIG and self.happens(0.8))
        owner = self._one((OWNER, OWNER, OWNER, "other"))
        return {"owner": owner, "config": recorded, "absent": self.happens(0.1), "applied": None}


def _document(kind: str, name: str, spec: Mapping[str, Any], **metadata: Any) -> dict[str, Any]:
    name = name.replace(".", "-")
    return {"apiVersion": "topiarist.dev/v1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def _dump(row: Mapping[str, Any]) -> str:
    """Return a row in the form that topiarist writes: its fast check of equality reads no other form."""
    return json.dumps(row, separators=(",", ":"))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _snapshot(cluster: str, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    head = {
        "kind": "cluster",
        "cluster": cluster,
        "takenAt": _TAKEN_AT,
        "formatVersion": 1,
        "rows": len(rows),
        "clusterId": cluster,
        "chroot": "",
        "brokers": [{"id": broker, "rack": None} for broker in _BROKERS],
        "controller": 1,
        "controllerEpoch": 7,
        "writeBlockReason": None,
        "writeBlockMessage": "",
        "brokerDefaults": {},
        "releaseAtLeast": "2.4",
        "topicListBytes": None,
        "notificationListBytes": None,
        "replyLimitBytes": None,
        "nextIdentity": 1,
        "deleting": [],
        "reassigning": [],
        "warnings": [],
    }
    return [head, *sorted(rows, key=lambda row: (row["kind"] == "record", row["topic"]))]

"""The sample fleet of ``topiarist drift --demo``: manifests and snapshots with every class of drift.

The command writes the files and reports on them as on any other fleet. Each topic shows one class of drift. The states
go through the snapshot codec. The time of the snapshots is fixed, so that every run writes the same bytes.

A manifest of another kind is one more entry in ``_manifest_files``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from topiarist.adapters.atomic_files import write_folder
from topiarist.adapters.manifests.yaml_text import dump_documents
from topiarist.adapters.snapshots.files import Snapshot, dump_snapshot, file_name
from topiarist.desired.export import to_scalars
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.moves import RequestedReassignment
from topiarist.model.state import ClusterState, OwnershipRecord, TopicState
from topiarist.model.usage import DAY_S, CurvePoint, Evidence, Side, TopicSample, TopicUsage, UsageState

SNAPSHOT_TIME = datetime(2026, 1, 31, 12, tzinfo=UTC)

_EU, _US, _TEST = READ_CLUSTERS = ("prod-eu", "prod-us", "test")
"""The clusters with a snapshot."""

OWNER_LABEL = "team"
"""The label with the team of a topic or cluster."""

UNREAD_CLUSTER = "edge"
"""The cluster without a snapshot: its finding has the class ``unknown``."""

INVALID_TEAM = "marketing"
"""The team with an invalid manifest: its finding has the class ``invalid``."""

_BROKERS = tuple(Broker(number, rack) for number, rack in enumerate("abcabc", start=1))

_DRAINED_BROKER = 6
"""The broker that the Cluster document of ``_US`` drains; other topics have no replica on it."""

_LISTS: tuple[Replicas, ...] = ((1, 2, 3), (2, 3, 4), (3, 4, 5))
"""Replica lists over three racks: with fewer partitions than brokers, a topic is even."""

_DAY_MS = 86_400_000

_CONFIG: Mapping[str, str] = MappingProxyType({"min.insync.replicas": "2", "retention.ms": str(7 * _DAY_MS)})


class DemoFolders(NamedTuple):
    """The folders of a demo: of the manifests, of the snapshots, and of the report, which does not exist yet."""

    manifests: Path
    snapshots: Path
    report: Path


class _SampleTopic(Struct, frozen=True):
    """A topic of the fleet: its manifest, and its states on the clusters where it differs from the manifest.

    A state is None where the topic is missing. Without a ``team`` the topic has no manifest, and exists only on the
    clusters of ``states``.
    """

    name: str
    team: str
    states: Mapping[str, TopicState | None] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)
    clusters: tuple[str, ...] = READ_CLUSTERS


def _topic(name: str, **changes: Any) -> TopicState:
    """Return a topic of this owner that matches the manifest of a sample topic, except for the given fields."""
    record = OwnershipRecord("default", tuple(_CONFIG))
    return replace(TopicState(name, "7", _LISTS, _CONFIG, record=record, record_valid=True), **changes)


def _with_config(name: str, **values: str) -> TopicState:
    return _topic(name, config={**_CONFIG, **{key.replace("_", "."): value for key, value in values.items()}})


def _sample_topics() -> Iterator[_SampleTopic]:
    """Yield the topics of the fleet; the class of drift that each shows is in the comment."""
    yield _SampleTopic("orders", "shop")  # no drift
    yield _SampleTopic("payments", "billing", {_US: None})  # missing
    small = _topic("invoices", replicas=_LISTS[:2], partition_ids=range(2))
    yield _SampleTopic("invoices", "billing", {_EU: small})  # partitions
    narrow = _topic("shipments", replicas=((1, 2), (2, 3), (3, 4)))
    yield _SampleTopic("shipments", "logistics", {_TEST: narrow})  # replicationFactor
    yield _SampleTopic("clicks", "web", {_EU: _with_config("clicks", retention_ms=str(30 * _DAY_MS))})  # config
    yield _SampleTopic("banners", "web", {_US: _with_config("banners", retention_ms=str(90 * _DAY_MS))})  # accepted
    # unmanaged; this value is also a fault, and brokers of Kafka 4.1 and later do not start with it
    yield _SampleTopic("searches", "web", {_TEST: _with_config("searches", segment_bytes="1000")})
    placed = {"replicaAssignment": [list(replicas) for replicas in _LISTS]}
    swapped = _topic("ledger", replicas=(*_LISTS[:2], (4, 5, 3)))
    yield _SampleTopic("ledger", "billing", {_EU: swapped}, placed)  # assignment
    drained = _topic("sessions", replicas=((1, 2, _DRAINED_BROKER), *_LISTS[1:]))
    yield _SampleTopic("sessions", "web", {_US: drained})  # drained
    yield _SampleTopic("carts", "shop", {_EU: _topic("carts", replicas=((1, 4, 2), *_LISTS[1:]))})  # racks
    yield _SampleTopic("returns", "logistics", {_EU: _topic("returns", replicas=((1, 2), *_LISTS[1:]))})  # widths
    uneven = _topic("prices", replicas=(_LISTS[0],) * 12, partition_ids=range(12))
    yield _SampleTopic("prices", "shop", {_EU: uneven}, _partitions(12), (_EU,))  # spread
    yield _SampleTopic("stock", "logistics", {_US: _topic("stock", reassigning_partitions=(1,))})  # moving
    throttle = {"follower_replication_throttled_replicas": "0:1"}
    yield _SampleTopic("routes", "logistics", {_US: _with_config("routes", **throttle)})  # throttle
    yield _SampleTopic("refunds", "billing")  # stuck: see _REQUESTS
    yield _SampleTopic("logins", "web", {_EU: _topic("logins", partition_ids=(0, 1, 3))})  # fault
    foreign = _topic("vouchers", record=OwnershipRecord("another-repository"))
    yield _SampleTopic("vouchers", "shop", {_US: foreign})  # refused
    yield _SampleTopic("newsletters", "web")  # dormant: see _USAGE
    yield _SampleTopic("beacons", "web")  # oversized: see _USAGE
    yield _SampleTopic("orders-copy", "", {_EU: _topic("orders-copy", record=None, record_valid=False)})  # unexpected
    yield _SampleTopic("coupons-2024", "", {_TEST: _topic("coupons-2024")})  # orphaned


def _partitions(number: int) -> Mapping[str, Any]:
    return {"partitions": number, "replicationFactor": 3}


_REQUESTS: Mapping[str, tuple[RequestedReassignment, ...]] = MappingProxyType(
    {_US: (RequestedReassignment("refunds", 0, (1, 1, 2)),)}
)
"""The entries of the reassignment request, by cluster: a broker twice is an entry that never finishes."""


_NOW = int(SNAPSHOT_TIME.timestamp())
_UNSEEN = Side(UsageState.NOT_SEEN, observed_since=_NOW - 60 * DAY_S, why=("NoGroup",))
_SEEN = Side(UsageState.USED, _NOW - DAY_S, _NOW, _NOW - 60 * DAY_S, ("Grew",))
_SAMPLE = TopicSample(ends=(90, 90, 90), begins=(0, 0, 0), sizes=(4096,) * 3, oldest=(None,) * 3, newest=(None,) * 3)
_CURVE = (CurvePoint(_NOW - 60 * DAY_S, 0, 10, 1024), CurvePoint(_NOW, 0, 270, 12_288))

_USAGE: Mapping[str, Mapping[str, TopicUsage]] = MappingProxyType(
    {
        _EU: {"beacons": TopicUsage(_SAMPLE, _SEEN, _SEEN, _CURVE, 2048)},
        _TEST: {"newsletters": TopicUsage(_SAMPLE, _UNSEEN, _UNSEEN)},
    }
)
"""The usage of topics, by cluster: a topic that hardly grows, and one that no reader or writer uses."""


def write_demo(folder: Path) -> DemoFolders:
    """Write the fleet into ``folder``, which must be absent or empty, and return its folders.

    Raises ``TopiaristError`` (Unwritable); then nothing is written.
    """
    folders = DemoFolders(folder / "manifests", folder / "snapshots", folder / "report")
    files = {f"{folders.manifests.name}/{name}": text for name, text in _manifest_files().items()}
    for cluster in READ_CLUSTERS:
        lines = dump_snapshot(Snapshot(cluster, SNAPSHOT_TIME, _cluster_state(cluster)))
        files[f"{folders.snapshots.name}/{file_name(cluster)}"] = b"".join(lines).decode("ascii")
    write_folder(folder, files)
    return folders


def _manifest_files() -> Mapping[str, str]:
    """Return the manifests as text, by path: the clusters, and the topics of each team."""
    clusters = [
        _document("Cluster", name, _cluster_labels(name), {"kafkaVersion": "3.9", **_cluster_fields(name)})
        for name in (*READ_CLUSTERS, UNREAD_CLUSTER)
    ]
    files = {"clusters.yaml": dump_documents(clusters)}
    topics = [topic for topic in _sample_topics() if topic.team]
    for team in sorted({topic.team for topic in topics}):
        documents = [_topic_document(topic) for topic in topics if topic.team == team]
        files[f"topics/{team}.yaml"] = dump_documents(documents)
    files["exceptions.yaml"] = dump_documents(_exception_documents())
    files["severities.yaml"] = dump_documents([_policy_document()])
    files[f"topics/{INVALID_TEAM}.yaml"] = dump_documents([_invalid_document()])  # invalid
    return files


def _exception_documents() -> Iterator[Mapping[str, Any]]:
    """Yield an exception that accepts drift, and one that no longer does: expired."""
    campaign = {"topics": ["banners"], "fields": ["config.retention.ms"], "reason": "longer retention for a campaign"}
    repair = {"topics": ["logins"], "classes": ["fault"], "reason": "a lost partition is being restored"}
    for name, spec, until in (("banner-campaign", campaign, "2026-03-31"), ("login-repair", repair, "2026-01-15")):
        yield _document("DriftException", name, {OWNER_LABEL: "web"}, {**spec, "author": "web", "until": until})


def _policy_document() -> Mapping[str, Any]:
    """Return a policy that makes drift of the test clusters less severe than the same drift in production."""
    rule = {"name": "test-is-less", "clusterSelector": {"matchLabels": {"env": "test"}}, "severity": {"lower": 1}}
    return _document("DriftPolicy", "severities", {OWNER_LABEL: "platform"}, {"rules": [rule]})


def _cluster_labels(name: str) -> Mapping[str, str]:
    return {OWNER_LABEL: "platform", "env": "test" if name == _TEST else "prod"}


def _invalid_document() -> Mapping[str, Any]:
    spec = {"clusters": [_TEST], "partitions": "three", "replicationFactor": 3}
    return _document("Topic", "quotes", {OWNER_LABEL: INVALID_TEAM}, spec)


def _cluster_fields(name: str) -> Mapping[str, Any]:
    fields: Mapping[str, Mapping[str, Any]] = {
        _US: {"drainBrokers": [_DRAINED_BROKER]},
        _EU: {"evidence": {"oversized": {"partitions": 3}}},
    }
    return fields.get(name, {})


def _topic_document(topic: _SampleTopic) -> Mapping[str, Any]:
    config = to_scalars(_CONFIG, use_units=True)
    spec = {"clusters": [*topic.clusters], **(topic.spec or _partitions(len(_LISTS))), "config": config}
    return _document("Topic", topic.name, {OWNER_LABEL: topic.team}, spec)


def _document(kind: str, name: str, labels: Mapping[str, str], spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "apiVersion": "topiarist.dev/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }


def _cluster_state(cluster: str) -> ClusterState:
    """Return the state of a cluster with a snapshot."""
    requests = _REQUESTS.get(cluster, ())
    return ClusterState(
        f"{cluster}-id",
        _BROKERS,
        {topic.name: topic for topic in _topics_on(cluster)},
        controller=1,
        controller_epoch=7,
        reassigning_topics=frozenset(entry.topic for entry in requests),
        requested_reassignments=requests,
        requested_at_ms=int(SNAPSHOT_TIME.timestamp() * 1000) - _DAY_MS if requests else None,
        evidence=Evidence(_NOW, 6, 6, 2, groups_complete=True, retention_minutes=10_080) if cluster in _USAGE else None,
        usage=_USAGE.get(cluster, {}),
    )


def _topics_on(cluster: str) -> Iterator[TopicState]:
    for topic in _sample_topics():
        matching = _topic(topic.name) if topic.team and cluster in topic.clusters else None
        if state := topic.states.get(cluster, matching):
            yield state

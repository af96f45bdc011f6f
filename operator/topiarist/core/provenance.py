"""Each value of one topic with where it comes from: what is asked for and by which line, what holds and by whose word.

What holds without an override of the topic is known only as far as somebody tells: the cluster-wide dynamic defaults
are in ZooKeeper, ``Cluster.spec.brokerConfig`` repeats the brokers' files; everything else is theirs alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from topiarist.core import configs
from topiarist.core.partitions import Partition
from topiarist.core.spec import ClusterSpec, Origin, TopicSpec, item_origin, origin
from topiarist.core.state import ClusterState, TopicState
from topiarist.errors import Place


class Layer(str, Enum):
    """Who asks for a value."""

    MANIFEST = "Manifest"
    OVERRIDE = "Override"
    CLUSTER_DEFAULTS = "ClusterDefaults"
    BROKER_CONFIG = "BrokerConfig"
    TOPIARIST = "Topiarist"


class Holder(str, Enum):
    """Whose word holds on the cluster."""

    TOPIC = "Topic"
    DYNAMIC_DEFAULT = "DynamicDefault"
    BROKER_CONFIG = "BrokerConfig"
    BROKERS = "Brokers"


@dataclass(frozen=True, slots=True)
class Value:
    """One field of a topic (``config.KEY`` for a config).

    ``wanted`` is what is asked for (None: nothing), by ``layer`` at ``place``. ``held`` is what holds on the cluster by
    the word of ``holder``; it is None if only the brokers know it, or if there is nothing (``holder`` None).
    ``setting`` is the name of the broker's setting that it comes from. ``ours`` are configs that our record lists.
    ``differs`` is what a plan would call a difference, ``ignored`` one that it would not touch.
    """

    field: str
    wanted: str | None = None
    layer: Layer | None = None
    place: Place | None = None
    held: str | None = None
    holder: Holder | None = None
    setting: str = ""
    held_at: Place | None = None
    ours: bool = False
    differs: bool = False
    ignored: bool = False


def values(
    state: ClusterState, name: str, cluster: ClusterSpec, spec: TopicSpec | None, partitions: Sequence[Partition]
) -> tuple[Value, ...]:
    """The size, then the configs by key, then what the manifest says of the topic beside them."""
    topic = state.topics.get(name)
    return (*_sizes(spec, topic, partitions), *_configs(state, topic, cluster, spec), *_conduct(spec))


def _sizes(spec: TopicSpec | None, topic: TopicState | None, partitions: Sequence[Partition]) -> Iterator[Value]:
    listed = [one for one in partitions if one.listed]
    widths = sorted({one.width for one in listed})
    there = topic is not None or bool(listed)
    held = {
        "partitions": str(len(listed)) if there else "",
        "replicationFactor": _range(widths[0], widths[-1]) if widths else "",
    }
    for field, stands in held.items():
        wanted = _wanted_size(spec, field, exists=there)
        if spec and wanted:
            path = "replicaAssignment" if spec.assignment else field
            yield _size(spec, field, path, wanted, stands)
        elif stands:
            yield Value(field, held=stands, holder=Holder.TOPIC)
    if spec and spec.assignment and not spec.absent:
        yield _size(
            spec,
            "replicaAssignment",
            "replicaAssignment",
            _lists(spec.assignment),
            _lists([one.replicas for one in listed]),
        )


def _wanted_size(spec: TopicSpec | None, field: str, exists: bool) -> str | None:
    """What is asked for; the cluster's defaults of sizes count at creation only."""
    if spec is None or spec.absent:
        return None
    own = spec.partitions if field == "partitions" else spec.replication_factor
    new = spec.create_partitions if field == "partitions" else spec.create_replication_factor
    size = own if exists else new
    return str(size) if size else None


def _size(spec: TopicSpec, field: str, path: str, wanted: str, held: str) -> Value:
    layer, place = _asked(origin(spec, path))
    holder = Holder.TOPIC if held else None
    differs, ignored = wanted != held, field in spec.ignore
    return Value(field, wanted, layer, place, held or None, holder, differs=differs, ignored=ignored)


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def _lists(replicas: Sequence[Sequence[int]]) -> str:
    """Replica lists in the short form of Kafka's own tools."""
    return ",".join(":".join(map(str, brokers)) for brokers in replicas)


def _configs(
    state: ClusterState, topic: TopicState | None, cluster: ClusterSpec, spec: TopicSpec | None
) -> Iterator[Value]:
    overrides = topic.config if topic else {}
    wanted = spec.config if spec and not spec.absent else {}
    settings = cluster.settings(state.broker_defaults) if topic else {}
    told = {name for name in configs.CONFIGS if configs.server_default(name, settings) is not None}
    for key in sorted(overrides.keys() | wanted.keys() | told):
        yield _config(key, state, topic, cluster, spec)


def _config(
    key: str, state: ClusterState, topic: TopicState | None, cluster: ClusterSpec, spec: TopicSpec | None
) -> Value:
    overrides: Mapping[str, str] = topic.config if topic else {}
    wanted = spec.config.get(key) if spec and not spec.absent else None
    layer, place = _asked(origin(spec, "config", key)) if spec and wanted is not None else (None, None)
    override = overrides.get(key)
    held, holder, setting, held_at = (override, Holder.TOPIC, "", None) if topic else _NOTHING
    if topic and override is None:
        held, holder, setting, held_at = _inherited(key, state, cluster)
    record = topic.valid_record if topic else None
    return Value(
        f"config.{key}",
        wanted,
        layer,
        place,
        held,
        holder,
        setting,
        held_at,
        ours=bool(record) and key in (record.config if record else ()),
        differs=wanted is not None and (override is None or not configs.equal(key, override, wanted)),
        ignored=bool(spec) and f"config.{key}" in (spec.ignore if spec else ()),
    )


_Held = tuple[str | None, Holder | None, str, Place | None]
"""A value, by whose word it holds, under which setting of the brokers, and where that is written."""

_NOTHING: _Held = (None, None, "", None)


def _inherited(key: str, state: ClusterState, cluster: ClusterSpec) -> _Held:
    """What holds for a topic that has no override of its own."""
    settings = cluster.settings(state.broker_defaults)
    text = configs.server_default(key, settings)
    definition = configs.CONFIGS.get(key)
    setting = next((name for name, _ in definition.server if name in settings), "") if definition else ""
    if text is None:
        return None, Holder.BROKERS, "", None
    if setting in state.broker_defaults:
        return text, Holder.DYNAMIC_DEFAULT, setting, None
    place = cluster.source.place(("spec", "brokerConfig", setting)) if cluster.source else None
    return text, Holder.BROKER_CONFIG, setting, place


_CONDUCT = {"ensure": "Present", "mode": "Enforce", "unmanagedConfig": "Keep"}
"""What a manifest says of a topic beside its size and its configs, and what topiarist takes where it does not."""


def _conduct(spec: TopicSpec | None) -> Iterator[Value]:
    if spec is None:
        return
    said = {
        "ensure": "Absent" if spec.absent else "Present",
        "mode": "Observe" if spec.observe else "Enforce",
        "unmanagedConfig": "Remove" if spec.remove_unmanaged else "Keep",
    }
    for field in _CONDUCT:
        layer, place = _asked(origin(spec, field))
        yield Value(field, said[field], layer, place)
    for field, items in (("ignore", sorted(spec.ignore)), ("withoutConfig", spec.without)):
        if items:
            layer, place = _asked(item_origin(spec, field, items[0]))
            yield Value(field, ", ".join(items), layer, place)


def _asked(where: Origin) -> tuple[Layer, Place | None]:
    """Who asks for what stands there; nobody but topiarist, if no document does."""
    if where.path == ("spec",):
        return Layer.TOPIARIST, None
    if where.path[:2] == ("spec", "overrides"):
        return Layer.OVERRIDE, where.place()
    if where.path[:2] == ("spec", "defaults"):
        return Layer.CLUSTER_DEFAULTS, where.place()
    if where.path[:2] == ("spec", "brokerConfig"):
        return Layer.BROKER_CONFIG, where.place()
    return Layer.MANIFEST, where.place()

"""Each value of one topic with where it comes from: what is asked for and by which line, what holds and by whose word.

What holds without an override of the topic is known only as far as somebody tells: the cluster-wide dynamic defaults
are in ZooKeeper, ``Cluster.spec.brokerConfig`` repeats the brokers' files; everything else is theirs alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from topiarist.errors import Location
from topiarist.inspection.partition_health import Partition
from topiarist.kafka import config_rules, config_table, config_values
from topiarist.model.spec import ClusterSpec, TopicSpec, ValueOrigin, find_item_origin, find_origin
from topiarist.model.state import ClusterState, TopicState


class DesiredSource(str, Enum):
    """Who asks for a value."""

    MANIFEST = "Manifest"
    OVERRIDE = "Override"
    CLUSTER_DEFAULTS = "ClusterDefaults"
    BROKER_CONFIG = "BrokerConfig"
    TOPIARIST = "Topiarist"


class ActualSource(str, Enum):
    """Whose word holds on the cluster."""

    TOPIC = "Topic"
    DYNAMIC_DEFAULT = "DynamicDefault"
    BROKER_CONFIG = "BrokerConfig"
    BROKERS = "Brokers"


@dataclass(frozen=True, slots=True)
class ValueSource:
    """One field of a topic (``config.KEY`` for a config).

    ``wanted`` is what is asked for (None: nothing), by ``layer`` at ``place``. ``held`` is what holds on the cluster by
    the word of ``holder``; it is None if only the brokers know it, or if there is nothing (``holder`` None).
    ``setting`` is the name of the broker's setting that it comes from. ``ours`` are configs that our record lists.
    ``differs`` is what a plan would call a difference, ``ignored`` one that it would not touch.
    """

    field: str
    desired: str | None = None
    desired_source: DesiredSource | None = None
    desired_location: Location | None = None
    actual: str | None = None
    actual_source: ActualSource | None = None
    broker_setting: str = ""
    actual_location: Location | None = None
    in_record: bool = False
    differs: bool = False
    ignored: bool = False


def find_value_sources(
    state: ClusterState, name: str, cluster: ClusterSpec, spec: TopicSpec | None, partitions: Sequence[Partition]
) -> tuple[ValueSource, ...]:
    """The size, then the configs by key, then what the manifest says of the topic beside them."""
    topic = state.topics.get(name)
    return (
        *_size_sources(spec, topic, partitions),
        *_config_sources(state, topic, cluster, spec),
        *_management_sources(spec),
    )


def _size_sources(
    spec: TopicSpec | None, topic: TopicState | None, partitions: Sequence[Partition]
) -> Iterator[ValueSource]:
    listed = [one for one in partitions if one.listed]
    widths = sorted({one.replica_count for one in listed})
    there = topic is not None or bool(listed)
    held = {
        "partitions": str(len(listed)) if there else "",
        "replicationFactor": _format_range(widths[0], widths[-1]) if widths else "",
    }
    for field, stands in held.items():
        wanted = _desired_size(spec, field, exists=there)
        if spec and wanted:
            path = "replicaAssignment" if spec.assignment else field
            yield _make_size_source(spec, field, path, wanted, stands)
        elif stands:
            yield ValueSource(field, actual=stands, actual_source=ActualSource.TOPIC)
    if spec and spec.assignment and not spec.absent:
        yield _make_size_source(
            spec,
            "replicaAssignment",
            "replicaAssignment",
            _format_lists(spec.assignment),
            _format_lists([one.replicas for one in listed]),
        )


def _desired_size(spec: TopicSpec | None, field: str, exists: bool) -> str | None:
    """What is asked for; the cluster's defaults of sizes count at creation only."""
    if spec is None or spec.absent:
        return None
    own = spec.partitions if field == "partitions" else spec.replication_factor
    new = spec.create_partitions if field == "partitions" else spec.create_replication_factor
    size = own if exists else new
    return str(size) if size else None


def _make_size_source(spec: TopicSpec, field: str, path: str, desired: str, actual: str) -> ValueSource:
    layer, place = _find_desired_source(find_origin(spec, path))
    holder = ActualSource.TOPIC if actual else None
    differs, ignored = desired != actual, field in spec.ignored_fields
    return ValueSource(field, desired, layer, place, actual or None, holder, differs=differs, ignored=ignored)


def _format_range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def _format_lists(replicas: Sequence[Sequence[int]]) -> str:
    """Replica lists in the short form of Kafka's own tools."""
    return ",".join(":".join(map(str, brokers)) for brokers in replicas)


def _config_sources(
    state: ClusterState, topic: TopicState | None, cluster: ClusterSpec, spec: TopicSpec | None
) -> Iterator[ValueSource]:
    overrides = topic.config if topic else {}
    wanted = spec.config if spec and not spec.absent else {}
    settings = cluster.config_rules.merge_dynamic_settings(state.broker_defaults) if topic else {}
    told = {name for name in config_table.TOPIC_CONFIGS if config_rules.server_default(name, settings) is not None}
    for key in sorted(overrides.keys() | wanted.keys() | told):
        yield _make_config_source(key, state, topic, cluster, spec)


def _make_config_source(
    key: str, state: ClusterState, topic: TopicState | None, cluster: ClusterSpec, spec: TopicSpec | None
) -> ValueSource:
    overrides: Mapping[str, str] = topic.config if topic else {}
    wanted = spec.config.get(key) if spec and not spec.absent else None
    layer, place = (
        _find_desired_source(find_origin(spec, "config", key)) if spec and wanted is not None else (None, None)
    )
    override = overrides.get(key)
    held, holder, setting, held_at = (override, ActualSource.TOPIC, "", None) if topic else _NO_VALUE
    if topic and override is None:
        held, holder, setting, held_at = _inherited_value(key, state, cluster)
    record = topic.valid_record if topic else None
    return ValueSource(
        f"config.{key}",
        wanted,
        layer,
        place,
        held,
        holder,
        setting,
        held_at,
        in_record=bool(record) and key in (record.config_keys if record else ()),
        differs=wanted is not None and (override is None or not config_values.is_equivalent(key, override, wanted)),
        ignored=bool(spec) and f"config.{key}" in (spec.ignored_fields if spec else ()),
    )


_ActualValue = tuple[str | None, ActualSource | None, str, Location | None]
"""A value, by whose word it holds, under which setting of the brokers, and where that is written."""

_NO_VALUE: _ActualValue = (None, None, "", None)


def _inherited_value(key: str, state: ClusterState, cluster: ClusterSpec) -> _ActualValue:
    """What holds for a topic that has no override of its own."""
    settings = cluster.config_rules.merge_dynamic_settings(state.broker_defaults)
    text = config_rules.server_default(key, settings)
    definition = config_table.TOPIC_CONFIGS.get(key)
    setting = next((name for name, _ in definition.server_defaults if name in settings), "") if definition else ""
    if text is None:
        return None, ActualSource.BROKERS, "", None
    if setting in state.broker_defaults:
        return text, ActualSource.DYNAMIC_DEFAULT, setting, None
    place = cluster.source.locate(("spec", "brokerConfig", setting)) if cluster.source else None
    return text, ActualSource.BROKER_CONFIG, setting, place


_MANAGEMENT_DEFAULTS = {"ensure": "Present", "mode": "Enforce", "unmanagedConfig": "Keep"}
"""What a manifest says of a topic beside its size and its configs, and what topiarist takes where it does not."""


def _management_sources(spec: TopicSpec | None) -> Iterator[ValueSource]:
    if spec is None:
        return
    said = {
        "ensure": "Absent" if spec.absent else "Present",
        "mode": "Observe" if spec.observe_only else "Enforce",
        "unmanagedConfig": "Remove" if spec.remove_unmanaged else "Keep",
    }
    for field in _MANAGEMENT_DEFAULTS:
        layer, place = _find_desired_source(find_origin(spec, field))
        yield ValueSource(field, said[field], layer, place)
    for field, items in (("ignore", sorted(spec.ignored_fields)), ("withoutConfig", spec.excluded_default_keys)):
        if items:
            layer, place = _find_desired_source(find_item_origin(spec, field, items[0]))
            yield ValueSource(field, ", ".join(items), layer, place)


def _find_desired_source(value_origin: ValueOrigin) -> tuple[DesiredSource, Location | None]:
    """Who asks for what stands there; nobody but topiarist, if no document does."""
    if value_origin.path == ("spec",):
        return DesiredSource.TOPIARIST, None
    if value_origin.path[:2] == ("spec", "overrides"):
        return DesiredSource.OVERRIDE, value_origin.locate()
    if value_origin.path[:2] == ("spec", "defaults"):
        return DesiredSource.CLUSTER_DEFAULTS, value_origin.locate()
    if value_origin.path[:2] == ("spec", "brokerConfig"):
        return DesiredSource.BROKER_CONFIG, value_origin.locate()
    return DesiredSource.MANIFEST, value_origin.locate()

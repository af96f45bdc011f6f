"""Finds the source of each value of one topic: of the desired value and of the actual value.

``describe`` calls this module. A value without an override of the topic is known only in part. ZooKeeper has the
cluster-wide dynamic defaults, and ``Cluster.spec.brokerConfig`` repeats the brokers' files; only the brokers know all
other values.
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
    """The document that asks for a value, or topiarist itself."""

    MANIFEST = "Manifest"
    OVERRIDE = "Override"
    CLUSTER_DEFAULTS = "ClusterDefaults"
    BROKER_CONFIG = "BrokerConfig"
    TOPIARIST = "Topiarist"


class ActualSource(str, Enum):
    """The origin of the value that is in effect on the cluster."""

    TOPIC = "Topic"
    DYNAMIC_DEFAULT = "DynamicDefault"
    BROKER_CONFIG = "BrokerConfig"
    BROKERS = "Brokers"


@dataclass(frozen=True, slots=True)
class ValueSource:
    """A field of a topic with its values and their sources.

    ``field`` is ``config.KEY`` for a config. ``desired`` is the value that ``desired_source`` asks for at
    ``desired_location`` (None: no value is asked for). ``actual`` is the value in effect on the cluster, from
    ``actual_source`` at ``actual_location``. It is None if only the brokers know the value, or if there is none
    (``actual_source`` None). ``broker_setting`` is the name of the broker setting that an inherited value comes from.
    ``in_record`` is true for configs that the ownership record lists. ``differs`` is true if a plan would report a
    difference, ``ignored`` if a plan would not change the field.
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
    """Return the value sources of a topic.

    The size is first, then the configs by key, then the management fields.
    """
    topic = state.topics.get(name)
    return (
        *_size_sources(spec, topic, partitions),
        *_config_sources(state, topic, cluster, spec),
        *_management_sources(spec),
    )


def _size_sources(
    spec: TopicSpec | None, topic: TopicState | None, partitions: Sequence[Partition]
) -> Iterator[ValueSource]:
    listed = [partition for partition in partitions if partition.listed]
    factors = sorted({partition.replica_count for partition in listed})
    exists = topic is not None or bool(listed)
    actual_sizes = {
        "partitions": str(len(listed)) if exists else "",
        "replicationFactor": _format_range(factors[0], factors[-1]) if factors else "",
    }
    for field, actual in actual_sizes.items():
        desired = _desired_size(spec, field, exists=exists)
        if spec and desired:
            path = "replicaAssignment" if spec.assignment else field
            yield _make_size_source(spec, field, path, desired, actual)
        elif actual:
            yield ValueSource(field, actual=actual, actual_source=ActualSource.TOPIC)
    if spec and spec.assignment and not spec.absent:
        yield _make_size_source(
            spec,
            "replicaAssignment",
            "replicaAssignment",
            _format_lists(spec.assignment),
            _format_lists([partition.replicas for partition in listed]),
        )


def _desired_size(spec: TopicSpec | None, field: str, exists: bool) -> str | None:
    """Return the desired size; None if there is none.

    The cluster's defaults for sizes apply at creation only.
    """
    if spec is None or spec.absent:
        return None
    own = spec.partitions if field == "partitions" else spec.replication_factor
    new = spec.create_partitions if field == "partitions" else spec.create_replication_factor
    size = own if exists else new
    return str(size) if size else None


def _make_size_source(spec: TopicSpec, field: str, path: str, desired: str, actual: str) -> ValueSource:
    source, location = _find_desired_source(find_origin(spec, path))
    actual_source = ActualSource.TOPIC if actual else None
    differs, ignored = desired != actual, field in spec.ignored_fields
    return ValueSource(
        field, desired, source, location, actual or None, actual_source, differs=differs, ignored=ignored
    )


def _format_range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def _format_lists(replicas: Sequence[Sequence[int]]) -> str:
    """Return replica lists in the short form of Kafka's own tools."""
    return ",".join(":".join(map(str, brokers)) for brokers in replicas)


def _config_sources(
    state: ClusterState, topic: TopicState | None, cluster: ClusterSpec, spec: TopicSpec | None
) -> Iterator[ValueSource]:
    overrides = topic.config if topic else {}
    desired = spec.config if spec and not spec.absent else {}
    settings = cluster.config_rules.merge_dynamic_settings(state.broker_defaults) if topic else {}
    with_known_default = {
        name for name in config_table.TOPIC_CONFIGS if config_rules.server_default(name, settings) is not None
    }
    for key in sorted(overrides.keys() | desired.keys() | with_known_default):
        yield _make_config_source(key, state, topic, cluster, spec)


def _make_config_source(
    key: str, state: ClusterState, topic: TopicState | None, cluster: ClusterSpec, spec: TopicSpec | None
) -> ValueSource:
    overrides: Mapping[str, str] = topic.config if topic else {}
    desired = spec.config.get(key) if spec and not spec.absent else None
    source, location = (
        _find_desired_source(find_origin(spec, "config", key)) if spec and desired is not None else (None, None)
    )
    override = overrides.get(key)
    actual, actual_source, setting, actual_location = (override, ActualSource.TOPIC, "", None) if topic else _NO_VALUE
    if topic and override is None:
        actual, actual_source, setting, actual_location = _inherited_value(key, state, cluster)
    record = topic.valid_record if topic else None
    return ValueSource(
        f"config.{key}",
        desired,
        source,
        location,
        actual,
        actual_source,
        setting,
        actual_location,
        in_record=bool(record) and key in (record.config_keys if record else ()),
        differs=desired is not None and (override is None or not config_values.is_equivalent(key, override, desired)),
        ignored=bool(spec) and f"config.{key}" in (spec.ignored_fields if spec else ()),
    )


_ActualValue = tuple[str | None, ActualSource | None, str, Location | None]
"""An actual value, its source, its broker setting, and that setting's location."""

_NO_VALUE: _ActualValue = (None, None, "", None)


def _inherited_value(key: str, state: ClusterState, cluster: ClusterSpec) -> _ActualValue:
    """Return the value in effect for a topic without an override."""
    settings = cluster.config_rules.merge_dynamic_settings(state.broker_defaults)
    text = config_rules.server_default(key, settings)
    definition = config_table.TOPIC_CONFIGS.get(key)
    setting = next((name for name in definition.server_defaults if name in settings), "") if definition else ""
    if text is None:
        return None, ActualSource.BROKERS, "", None
    if setting in state.broker_defaults:
        return text, ActualSource.DYNAMIC_DEFAULT, setting, None
    location = cluster.source.locate(("spec", "brokerConfig", setting)) if cluster.source else None
    return text, ActualSource.BROKER_CONFIG, setting, location


_MANAGEMENT_DEFAULTS = {"ensure": "Present", "mode": "Enforce", "unmanagedConfig": "Keep"}
"""The management fields of a manifest, with their default values."""


def _management_sources(spec: TopicSpec | None) -> Iterator[ValueSource]:
    if spec is None:
        return
    values = {
        "ensure": "Absent" if spec.absent else "Present",
        "mode": "Observe" if spec.observe_only else "Enforce",
        "unmanagedConfig": "Remove" if spec.remove_unmanaged else "Keep",
    }
    for field in _MANAGEMENT_DEFAULTS:
        source, location = _find_desired_source(find_origin(spec, field))
        yield ValueSource(field, values[field], source, location)
    for field, items in (("ignore", sorted(spec.ignored_fields)), ("withoutConfig", spec.excluded_default_keys)):
        if items:
            source, location = _find_desired_source(find_item_origin(spec, field, items[0]))
            yield ValueSource(field, ", ".join(items), source, location)


def _find_desired_source(value_origin: ValueOrigin) -> tuple[DesiredSource, Location | None]:
    """Return the source of a desired value and its location.

    The source is ``TOPIARIST`` without a location if no document has the value.
    """
    if value_origin.path == ("spec",):
        return DesiredSource.TOPIARIST, None
    if value_origin.path[:2] == ("spec", "overrides"):
        return DesiredSource.OVERRIDE, value_origin.locate()
    if value_origin.path[:2] == ("spec", "defaults"):
        return DesiredSource.CLUSTER_DEFAULTS, value_origin.locate()
    if value_origin.path[:2] == ("spec", "brokerConfig"):
        return DesiredSource.BROKER_CONFIG, value_origin.locate()
    return DesiredSource.MANIFEST, value_origin.locate()

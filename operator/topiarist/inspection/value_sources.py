"""Finds the source of each value of one topic: of the desired value and of the actual value.

``describe`` calls this module. A value without an override of the topic is known only in part. The metadata has the
cluster-wide dynamic defaults, and ``Cluster.spec.brokerConfig`` repeats the brokers' files; only the brokers know all
other values, and describe them if they are asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from topiarist.errors import FieldPath, Location
from topiarist.inspection.partition_health import Partition
from topiarist.kafka import config_rules, config_table, config_values
from topiarist.model.spec import ClusterSpec, TopicSpec, ValueOrigin, find_item_origin, find_origin
from topiarist.model.state import ClusterState, TopicState


class DesiredSource(str, Enum):
    """The document that asks for a value, or topiarist itself."""

    MANIFEST = "Manifest"
    OVERRIDE = "Override"
    PROFILE = "Profile"
    CLUSTER_DEFAULTS = "ClusterDefaults"
    BROKER_CONFIG = "BrokerConfig"
    TOPIARIST = "Topiarist"


class ActualSource(str, Enum):
    """The origin of the value that is in effect on the cluster."""

    TOPIC = "Topic"
    DYNAMIC_DEFAULT = "DynamicDefault"
    BROKER_CONFIG = "BrokerConfig"
    BROKERS = "Brokers"


class ValueSource(Struct, frozen=True):
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
    wanted: Mapping[str, int | None] = {}
    if spec and not spec.absent:
        # The cluster's defaults for sizes apply at creation only.
        new = {"partitions": spec.create_partitions, "replicationFactor": spec.create_replication_factor}
        wanted = {"partitions": spec.partitions, "replicationFactor": spec.replication_factor} if exists else new
    partition_count = str(len(listed)) if exists else ""
    factor = " to ".join(map(str, sorted({factors[0], factors[-1]}))) if factors else ""
    for field, actual in (("partitions", partition_count), ("replicationFactor", factor)):
        if spec and (size := wanted.get(field)):
            yield _make_size_source(spec, field, "replicaAssignment" if spec.assignment else field, str(size), actual)
        elif actual:
            yield ValueSource(field, actual=actual, actual_source=ActualSource.TOPIC)
    if spec and spec.assignment and not spec.absent:
        field = "replicaAssignment"
        # The short form of Kafka's own tools: 1:2,2:3.
        desired, actual = (
            ",".join(":".join(map(str, brokers)) for brokers in lists)
            for lists in (spec.assignment, [partition.replicas for partition in listed])
        )
        yield _make_size_source(spec, field, field, desired, actual)


def _make_size_source(spec: TopicSpec, field: str, path: str, desired: str, actual: str) -> ValueSource:
    source, location = _find_desired_source(find_origin(spec, path))
    actual_source = ActualSource.TOPIC if actual else None
    differs, ignored = desired != actual, field in spec.ignored_fields
    return ValueSource(
        field, desired, source, location, actual or None, actual_source, differs=differs, ignored=ignored
    )


def _config_sources(
    state: ClusterState, topic: TopicState | None, cluster: ClusterSpec, spec: TopicSpec | None
) -> Iterator[ValueSource]:
    overrides: Mapping[str, str] = topic.config if topic else {}
    wanted = spec.config if spec and not spec.absent else {}
    settings = cluster.config_rules.merge_dynamic_settings(state.broker_defaults) if topic else {}
    record = topic.valid_record if topic else None
    recorded_keys = record.config_keys if record else ()
    ignored_fields = spec.ignored_fields if spec else frozenset()
    with_known_default = {
        name for name in config_table.TOPIC_CONFIGS if config_rules.server_default(name, settings) is not None
    }
    for key in sorted(overrides.keys() | wanted.keys() | with_known_default):
        desired, override = wanted.get(key), overrides.get(key)
        source, location = None, None
        if spec and desired is not None:
            source, location = _find_desired_source(find_origin(spec, "config", key))
        found = ValueSource(
            f"config.{key}",
            desired,
            source,
            location,
            in_record=key in recorded_keys,
            differs=desired is not None
            and (override is None or not config_values.is_equivalent(key, override, desired)),
            ignored=f"config.{key}" in ignored_fields,
        )
        if override is not None:
            found = replace(found, actual=override, actual_source=ActualSource.TOPIC)
        elif topic:
            found = _add_inherited_value(found, key, state, cluster, settings)
        yield found


def _add_inherited_value(
    found: ValueSource, key: str, state: ClusterState, cluster: ClusterSpec, settings: Mapping[str, str]
) -> ValueSource:
    """Return ``found`` with the value in effect for a topic without an override."""
    text = config_rules.server_default(key, settings)
    if text is None:
        known = (state.known_configs or {}).get(key)
        return replace(found, actual=known.default if known else None, actual_source=ActualSource.BROKERS)
    definition = config_table.TOPIC_CONFIGS[key]  # no other key has a default
    setting = next((name for name in definition.server_defaults if name in settings), "")
    if setting in state.broker_defaults:
        source, location = ActualSource.DYNAMIC_DEFAULT, None
    else:
        source = ActualSource.BROKER_CONFIG
        location = cluster.source.locate(("spec", "brokerConfig", setting)) if cluster.source else None
    return replace(found, actual=text, actual_source=source, broker_setting=setting, actual_location=location)


def _management_sources(spec: TopicSpec | None) -> Iterator[ValueSource]:
    if spec is None:
        return
    values = {
        "ensure": "Absent" if spec.absent else "Present",
        "mode": "Observe" if spec.observe_only else "Enforce",
        "unmanagedConfig": "Remove" if spec.remove_unmanaged else "Keep",
    }
    for field, value in values.items():
        yield ValueSource(field, value, *_find_desired_source(find_origin(spec, field)))
    for field, items in (("ignore", sorted(spec.ignored_fields)), ("withoutConfig", spec.excluded_default_keys)):
        if items:
            yield ValueSource(field, ", ".join(items), *_find_desired_source(find_item_origin(spec, field, items[0])))


def _find_desired_source(value_origin: ValueOrigin) -> tuple[DesiredSource, Location | None]:
    if value_origin.path == ("spec",):
        return DesiredSource.TOPIARIST, None
    return _SOURCE_BY_PATH.get(value_origin.path[:2], DesiredSource.MANIFEST), value_origin.locate()


_SOURCE_BY_PATH: Mapping[FieldPath, DesiredSource] = {
    ("spec", "overrides"): DesiredSource.OVERRIDE,
    ("spec", "profiles"): DesiredSource.PROFILE,
    ("spec", "defaults"): DesiredSource.CLUSTER_DEFAULTS,
    ("spec", "brokerConfig"): DesiredSource.BROKER_CONFIG,
}
"""The source of a value by the start of its path; every other value is the manifest's own."""

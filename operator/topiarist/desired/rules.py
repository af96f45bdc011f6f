"""Rules between fields: errors and warnings of a merged spec that no schema can express.

``resolve`` calls ``spec_errors`` for every spec of a run before any connection is opened. ``spec_warnings`` returns
problems that do not stop a run. The rules that depend on a cluster's *state* are in ``planning``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from topiarist.desired.parse import limit_errors
from topiarist.errors import Diagnostic, FieldPath, Location, Reason
from topiarist.kafka import config_rules, config_table, types
from topiarist.kafka.config_rules import describe_unknown_key, is_min_isr_above, printable_key
from topiarist.kafka.config_values import java_trim
from topiarist.kafka.placement import MAX_REPLICATION_FACTOR
from topiarist.kafka.types import INT_MAX, LAST_ZOOKEEPER_VERSION, format_version, topic_name_problem
from topiarist.model.access import ZooKeeperAccess
from topiarist.model.spec import (
    BROKER_SIZE_SETTINGS,
    ClusterSpec,
    TopicSpec,
    ValueOrigin,
    find_item_origin,
    find_origin,
    layers,
    name_path,
    parse_replica_assignment,
)
from topiarist.schema.check import did_you_mean, key_step
from topiarist.text import quote

AUTO_CREATE = "auto.create.topics.enable"
"""The broker setting that lets clients create topics. Kafka reads it from files only."""

_MAX_SIZES = {"partitions": INT_MAX, "replicationFactor": MAX_REPLICATION_FACTOR}


def spec_errors(spec: TopicSpec, *, cluster_document_known: bool = True) -> Iterator[Diagnostic]:
    """Yield every error of one topic on one cluster, each with its location.

    ``cluster_document_known`` is false if the cluster has no document. Problems that the document could solve are then
    no errors: sizes that its defaults may set, keys that it may allow.
    """
    if problem_text := topic_name_problem(spec.topic):
        yield Diagnostic(spec.manifest.source.locate(name_path(spec.manifest)), problem_text)
    if cluster_document_known and "profiles" in spec.manifest.spec:
        yield from _unknown_profile_errors(spec)
    if not spec.absent:
        yield from _size_errors(spec, cluster_document_known)
        yield from _key_errors(spec)
    rules = spec.cluster.config_rules
    version = rules.newest_version()
    for key, text in spec.config.items():
        problem = rules.config_problem(key, text)
        if problem and (cluster_document_known or key in config_table.TOPIC_CONFIGS):
            yield _make_diagnostic(find_origin(spec, "config", key_step(key)), *problem, reason=Reason.CONFIG_INVALID)
    # Without a document, assume the settings that only the document could declare.
    assumed = {} if cluster_document_known else {config_rules.REMOTE_STORAGE_SETTING: "true"}
    settings = {**assumed, **spec.cluster.broker_config} if assumed else spec.cluster.broker_config
    for key, message in config_rules.find_conflicts(spec.config, version, settings, rules.mode):
        yield _make_diagnostic(find_origin(spec, "config", key), message, reason=Reason.CONFIG_INVALID)
    yield from _min_isr_errors(spec)
    if cluster_document_known and (spec.ignored_fields or spec.excluded_default_keys):
        yield from _unknown_key_errors(spec)


def cluster_errors(cluster: ClusterSpec) -> Iterator[Diagnostic]:
    """Yield the errors of a cluster's limits, ``brokerConfig``, defaults and profiles, also of unused ones."""
    yield from limit_errors(cluster.budgets.limits)
    sections: dict[FieldPath, Mapping[str, Any]] = {("spec", "defaults"): cluster.defaults()}
    sections |= {("spec", "profiles", name): profile for name, profile in cluster.profiles.items()}
    for path, section in sections.items():
        for key, text in section.get("config", {}).items():
            if problem := cluster.config_rules.config_problem(key, text):
                origin = ValueOrigin(cluster.source, (*path, "config", key_step(key)))
                yield _make_diagnostic(origin, *problem, reason=Reason.CONFIG_INVALID)
    is_zookeeper = isinstance(cluster.access, ZooKeeperAccess)
    if is_zookeeper and cluster.version is not None and cluster.version > LAST_ZOOKEEPER_VERSION:
        declared, last = format_version(cluster.version), format_version(LAST_ZOOKEEPER_VERSION)
        message = f"kafkaVersion: found {declared}, but ZooKeeper mode ends with Kafka {last}"
        yield _make_diagnostic(ValueOrigin(cluster.source, ("spec", "kafkaVersion")), message)
    settings = cluster.broker_config
    for field, name in BROKER_SIZE_SETTINGS.items():
        if name in settings and not 1 <= (cluster.broker_size(field) or 0) <= _MAX_SIZES[field]:
            message = f"{name}: found {quote(settings[name])}, wanted a whole number from 1 to {_MAX_SIZES[field]}"
            yield _make_diagnostic(_broker_config_origin(cluster, name), message)
    if java_trim(settings.get(AUTO_CREATE, "true")).lower() not in ("true", "false"):
        message = f"{AUTO_CREATE}: found {quote(settings[AUTO_CREATE])}, wanted true or false"
        yield _make_diagnostic(_broker_config_origin(cluster, AUTO_CREATE), message)


def cluster_warnings(cluster: ClusterSpec) -> Iterator[Diagnostic]:
    """Yield a warning if ``brokerConfig`` enables topic creation by clients.

    Kafka's default is true, but a ``brokerConfig`` without the setting says nothing about the brokers.
    """
    if java_trim(cluster.broker_config.get(AUTO_CREATE, "")).lower() == "true":
        yield _make_diagnostic(
            _broker_config_origin(cluster, AUTO_CREATE),
            f"{AUTO_CREATE} is true: any client that requests a topic creates it, with the brokers' defaults. Topics "
            "appear that no manifest names, a deleted topic can return, and a topic of a manifest can exist before "
            "topiarist creates it as declared",
            f"set {AUTO_CREATE}=false on the brokers, then here",
        )


def _broker_config_origin(cluster: ClusterSpec, name: str) -> ValueOrigin:
    return ValueOrigin(cluster.source, ("spec", "brokerConfig", name))


def spec_warnings(spec: TopicSpec) -> Iterator[Diagnostic]:
    """Yield a warning for each config key that Kafka has deprecated or dropped, and for segments that are too small."""
    version = spec.cluster.config_rules.newest_version()
    for key in config_rules.DEPRECATED_CONFIGS & spec.config.keys():
        if message := config_rules.deprecation_message(key, version):
            yield _make_diagnostic(find_origin(spec, "config", key), f"{printable_key(key)}: {message}")
    if message := config_rules.small_segment_message(spec.config):
        yield _make_diagnostic(find_origin(spec, "config", "segment.bytes"), message)


def _unknown_profile_errors(spec: TopicSpec) -> Iterator[Diagnostic]:
    known = spec.cluster.profiles
    cluster = f"Cluster {spec.cluster.name}" if spec.cluster.name else "the unnamed cluster of an address option"
    for name in spec.manifest.spec["profiles"]:
        if name not in known:
            listed = f"its profiles are: {', '.join(sorted(known))}" if known else "it has no profiles"
            yield _make_diagnostic(
                find_item_origin(spec, "profiles", name),
                f"{spec.topic}: {cluster} has no profile {name}",
                did_you_mean(name, known) or f"{listed}; add {name} to its spec.profiles, or leave it out here",
            )


def _unknown_key_errors(spec: TopicSpec) -> Iterator[Diagnostic]:
    """Yield the unknown keys in ``ignore`` and ``withoutConfig``, which would have no effect."""
    cluster = spec.cluster
    for item in sorted(spec.ignored_fields):
        key = item.removeprefix("config.")
        if key != item and not cluster.config_rules.is_known_key(key):
            yield _make_diagnostic(find_item_origin(spec, "ignore", item), *describe_unknown_key(key, "config."))
    for key in spec.excluded_default_keys:
        if key not in cluster.default_config and not cluster.config_rules.is_known_key(key):
            yield _make_diagnostic(find_item_origin(spec, "withoutConfig", key), *describe_unknown_key(key))


def _size_errors(spec: TopicSpec, cluster_document_known: bool) -> Iterator[Diagnostic]:
    if not spec.manifest.spec.keys().isdisjoint(_FIELDS_WITH_ASSIGNMENTS):
        yield from _assignment_errors(spec)
    if not cluster_document_known or (spec.create_partitions and spec.create_replication_factor):
        return
    sizes = {"partitions": spec.create_partitions, "replicationFactor": spec.create_replication_factor}
    missing = [name for name, size in sizes.items() if not size]
    names = " and ".join(missing)
    settings = " and ".join(BROKER_SIZE_SETTINGS[name] for name in missing)
    yield _make_diagnostic(
        find_origin(spec),
        f"{spec.topic}: found no {names}, neither in the topic nor in the defaults of its cluster",
        f"the brokers' own defaults are not used: set {names} here or in spec.defaults of the Cluster, or "
        f"give the brokers' values in its brokerConfig ({settings})",
    )


_FIELDS_WITH_ASSIGNMENTS = frozenset({"replicaAssignment", "overrides", "profiles"})
"""The fields of a topic's spec that hold a ``replicaAssignment``, or parts that may hold one."""


def _assignment_errors(spec: TopicSpec) -> Iterator[Diagnostic]:
    """Yield the errors of the lists in a ``replicaAssignment``, and the sizes beside it that differ."""
    lists = dict(enumerate(spec.assignment or ()))
    for partition, message in types.find_assignment_errors(lists) if lists else ():
        where = find_origin(spec, "replicaAssignment", partition)
        # An assignment in text form has one location for all lists, so the message names the partition.
        is_located = where.path[-1] == partition or message.startswith("found different")
        yield _make_diagnostic(where, f"replicaAssignment: {'' if is_located else f'partition {partition}: '}{message}")
    for base, layer in layers(spec.manifest, spec.cluster):
        listed = parse_replica_assignment(layer["replicaAssignment"]) if "replicaAssignment" in layer else ()
        counts = (("partitions", len(listed)), ("replicationFactor", len(listed[0]))) if listed else ()
        for field, count in counts:
            if layer.get(field, count) != count:
                place = base.below("replicaAssignment").locate()
                yield _make_diagnostic(
                    base.below(field),
                    f"{field}: found {layer[field]}, but replicaAssignment at {place} has {count}",
                    f"leave {field} out, or set it to {count}",
                )


def _key_errors(spec: TopicSpec) -> Iterator[Diagnostic]:
    """Yield the errors of fields that say how messages are spread over partitions by their keys."""
    if spec.co_partition_group and spec.partitions is None:
        yield _make_diagnostic(
            find_origin(spec, "coPartitionGroup"),
            f"{spec.topic}: found no partitions, and a topic of a coPartitionGroup needs them",
            "set partitions here, in a profile or in an override: all topics of the group need the same number",
        )
    if not spec.keyed and "compact" in spec.config.get("cleanup.policy", ""):
        yield _make_diagnostic(
            find_origin(spec, "keyed"),
            f"{spec.topic}: found keyed: false, and cleanup.policy {quote(spec.config['cleanup.policy'])}",
            "Kafka compacts messages with keys only: leave keyed out, or compact out of cleanup.policy",
        )


def _min_isr_errors(spec: TopicSpec) -> Iterator[Diagnostic]:
    factor, key = spec.replication_factor, "min.insync.replicas"
    if factor is None or not is_min_isr_above(spec.config, factor, spec.cluster.config_rules.newest_version()):
        return
    found = f"{key}: found {spec.config[key]}"
    hint = f"every write with acks=all fails if {key} is larger than the number of replicas"
    if key in spec.inherited_keys:
        # The default suits other topics, so report the error at this topic and not at the default.
        place = find_origin(spec, "replicaAssignment" if spec.assignment else "replicationFactor")
        found += " in the cluster's defaults"
        hint += f"; to leave the default out, add withoutConfig: [{key}]"
    else:
        place = find_origin(spec, "config", key)
    yield _make_diagnostic(place, f"{found}, but {spec.topic} has replication factor {factor}", hint)


def _make_diagnostic(
    where: ValueOrigin, message: str, hint: str = "", reason: Reason = Reason.INVALID_MANIFEST
) -> Diagnostic:
    return Diagnostic(where.locate() or Location("the cluster's defaults"), message, hint, reason.value)

"""Rules between fields: what is wrong with a merged spec although every field by itself passes the schema.

``complaints`` runs over every spec of a run before anything is connected to; ``warnings`` has what is only worth a
word. Whether a cluster's *state* allows what a spec asks is the business of ``plan``.
"""

from __future__ import annotations

from collections.abc import Iterator

from topiarist.errors import Diagnostic, Location, Reason
from topiarist.kafka import config_rules, config_table, explicit_assignment
from topiarist.kafka.config_rules import config_problem, describe_unknown_key, is_min_isr_above, printable_key
from topiarist.kafka.java_numbers import INT_MAX, java_trim
from topiarist.kafka.names import topic_name_problem
from topiarist.kafka.placement import MAX_REPLICATION_FACTOR
from topiarist.kafka.types import MAX_KAFKA_VERSION
from topiarist.model.spec import (
    BROKER_SIZE_SETTINGS,
    ClusterSpec,
    TopicSpec,
    ValueOrigin,
    find_item_origin,
    find_origin,
    find_redundant_counts,
    name_path,
)
from topiarist.schema.check import key_step
from topiarist.text import quote

AUTO_CREATE = "auto.create.topics.enable"
"""The brokers' setting by which clients create topics. Kafka reads it from files only."""

_MAX_SIZES = {"partitions": INT_MAX, "replicationFactor": MAX_REPLICATION_FACTOR}


def spec_errors(spec: TopicSpec, *, cluster_document_known: bool = True) -> Iterator[Diagnostic]:
    """Everything wrong with one topic on one cluster, each at its place.

    ``cluster_document_known`` is false if there is no document of that cluster: what it could make right is then no
    complaint (sizes that its defaults may give, keys that it may allow).
    """
    if wrong := topic_name_problem(spec.topic):
        yield Diagnostic(spec.manifest.source.locate(name_path(spec.manifest)), wrong)
    yield from _size_errors(spec, cluster_document_known)
    release, vendors = spec.cluster.version or MAX_KAFKA_VERSION, spec.cluster.allow_unknown_configs
    for key, text in spec.config.items():
        problem = config_problem(key, text, release, vendors)
        if problem and (cluster_document_known or key in config_table.TOPIC_CONFIGS):
            yield _make_diagnostic(find_origin(spec, "config", key_step(key)), *problem, reason=Reason.CONFIG_INVALID)
    # What only its document can say of a cluster is taken to be said where there is none.
    unsaid = {} if cluster_document_known else {config_rules.REMOTE_STORAGE_SETTING: "true"}
    for key, message in config_rules.find_conflicts(spec.config, release, {**unsaid, **spec.cluster.broker_config}):
        yield _make_diagnostic(find_origin(spec, "config", key), message, reason=Reason.CONFIG_INVALID)
    yield from _min_isr_errors(spec)
    if cluster_document_known and (spec.ignored_fields or spec.excluded_default_keys):
        yield from _unknown_key_errors(spec)


def cluster_errors(cluster: ClusterSpec) -> Iterator[Diagnostic]:
    """What is wrong with a cluster's own defaults, also where no topic uses them."""
    for key, text in cluster.default_config.items():
        if problem := cluster.config_rules.config_problem(key, text):
            yield _make_diagnostic(
                ValueOrigin(cluster.source, ("spec", "defaults", "config", key_step(key))),
                *problem,
                reason=Reason.CONFIG_INVALID,
            )

    yield from _broker_config_errors(cluster)


def _broker_config_errors(cluster: ClusterSpec) -> Iterator[Diagnostic]:
    """Yield what is wrong with the settings of ``brokerConfig`` that decide how topics are created."""
    for field, name in BROKER_SIZE_SETTINGS.items():
        text, most = cluster.broker_config.get(name), _MAX_SIZES[field]
        if text is not None and not 1 <= (cluster.broker_size(field) or 0) <= most:
            yield _make_diagnostic(
                _broker_config_origin(cluster, name),
                f"{name}: found {quote(text)}, wanted a whole number from 1 to {most}",
            )
    text = cluster.broker_config.get(AUTO_CREATE)
    if text is not None and java_trim(text).lower() not in ("true", "false"):
        yield _make_diagnostic(
            _broker_config_origin(cluster, AUTO_CREATE), f"{AUTO_CREATE}: found {quote(text)}, wanted true or false"
        )


def cluster_warnings(cluster: ClusterSpec) -> Iterator[Diagnostic]:
    """Yield a warning if ``brokerConfig`` says that the brokers create topics that clients ask for.

    Kafka's default is true, but a ``brokerConfig`` that does not name the setting says nothing about the brokers.
    """
    if java_trim(cluster.broker_config.get(AUTO_CREATE, "")).lower() == "true":
        yield _make_diagnostic(
            _broker_config_origin(cluster, AUTO_CREATE),
            f"{AUTO_CREATE} is true: any client that asks for a topic creates it, with the brokers' defaults. Topics "
            "appear that no manifest names, a topic that was deleted on purpose can return, and a topic of a manifest "
            "can exist before it is created as declared",
            f"set {AUTO_CREATE}=false on the brokers, then here",
        )


def _broker_config_origin(cluster: ClusterSpec, name: str) -> ValueOrigin:
    return ValueOrigin(cluster.source, ("spec", "brokerConfig", name))


def spec_warnings(spec: TopicSpec) -> Iterator[Diagnostic]:
    """What works but should be known: names that Kafka has deprecated."""
    release = spec.cluster.version or MAX_KAFKA_VERSION
    for key in config_rules.DEPRECATED_CONFIGS & spec.config.keys():
        if message := config_rules.deprecation_message(key, release):
            yield _make_diagnostic(find_origin(spec, "config", key), f"{printable_key(key)}: {message}")


def _unknown_key_errors(spec: TopicSpec) -> Iterator[Diagnostic]:
    """Keys in ``ignore`` and ``withoutConfig`` that nobody knows: what is meant would quietly not be so."""
    cluster = spec.cluster
    for item in sorted(spec.ignored_fields):
        key = item.removeprefix("config.")
        if key != item and not cluster.config_rules.is_known_key(key):
            yield _make_diagnostic(find_item_origin(spec, "ignore", item), *describe_unknown_key(key, "config."))
    for key in spec.excluded_default_keys:
        if key not in cluster.default_config and not cluster.config_rules.is_known_key(key):
            yield _make_diagnostic(find_item_origin(spec, "withoutConfig", key), *describe_unknown_key(key))


def _size_errors(spec: TopicSpec, cluster_document_known: bool) -> Iterator[Diagnostic]:
    if spec.absent:
        return
    for partition, message in (
        explicit_assignment.find_errors(dict(enumerate(spec.assignment))) if spec.assignment else ()
    ):
        where = find_origin(spec, "replicaAssignment", partition)
        # In text, a list has no place of its own.
        about = (
            "" if where.path[-1] == partition or message.startswith("found different") else f"partition {partition}: "
        )
        yield _make_diagnostic(where, f"replicaAssignment: {about}{message}")
    source = spec.manifest.source
    for one in find_redundant_counts(spec):
        if one.given_count != one.listed_count:
            location = source.locate(one.lists_path)
            listed = f"replicaAssignment at {location} has {one.listed_count}"
            message = f"{one.field}: found {one.given_count}, but {listed}"
            yield _make_diagnostic(
                ValueOrigin(source, one.path), message, f"leave {one.field} out, or set it to {one.listed_count}"
            )
    sizes = {"partitions": spec.create_partitions, "replicationFactor": spec.create_replication_factor}
    missing = [name for name, size in sizes.items() if cluster_document_known and not size]
    if missing:
        names = " and ".join(missing)
        settings = " and ".join(BROKER_SIZE_SETTINGS[name] for name in missing)
        yield _make_diagnostic(
            find_origin(spec),
            f"{spec.topic}: found no {names}, neither in the topic nor in the defaults of its cluster",
            "ZooKeeper does not know the brokers' defaults: say what you want, here or in the Cluster's defaults, or "
            f"what the brokers have, in its brokerConfig ({settings})",
        )


def _min_isr_errors(spec: TopicSpec) -> Iterator[Diagnostic]:
    factor, key = spec.replication_factor, "min.insync.replicas"
    if factor is None or not is_min_isr_above(spec.config, factor):
        return
    found = f"{key}: found {spec.config[key]}"
    why = "with more in-sync replicas wanted than there are, every write with acks=all fails"
    if key in spec.inherited_keys:
        # The default is good for other topics: what is wrong is that this one takes it.
        place = find_origin(spec, "replicaAssignment" if spec.assignment else "replicationFactor")
        found += " in the cluster's defaults"
        why += f"; withoutConfig: [{key}] leaves the default out"
    else:
        place = find_origin(spec, "config", key)
    yield _make_diagnostic(place, f"{found}, but {spec.topic} has replication factor {factor}", why)


def _make_diagnostic(
    where: ValueOrigin, message: str, hint: str = "", reason: Reason = Reason.INVALID_MANIFEST
) -> Diagnostic:
    return Diagnostic(where.locate() or Location("the cluster's defaults"), message, hint, reason.value)

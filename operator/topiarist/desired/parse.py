"""Parsers of ``Cluster`` and ``Policy`` manifests, and the rules between fields that no schema can express.

The schema has accepted the manifests. Credentials are parsed as references with their locations: no file or variable is
read, so a manifest can be checked on a machine without the secrets.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from topiarist.errors import Diagnostic, FieldPath, Location, Reason
from topiarist.kafka import config_rules, config_table, types
from topiarist.kafka.config_rules import describe_unknown_key, is_min_isr_above, printable_key
from topiarist.kafka.config_values import BYTES_BY_SIZE_UNIT, MS_BY_TIME_UNIT, java_trim, parse_amount, to_config_text
from topiarist.kafka.placement import MAX_REPLICATION_FACTOR
from topiarist.kafka.types import (
    INT_MAX,
    LAST_ZOOKEEPER_VERSION,
    MIN_KAFKA_VERSION,
    KafkaVersion,
    format_version,
    parse_version,
    topic_name_problem,
)
from topiarist.model.access import (
    Credentials,
    KafkaAccess,
    Kerberos,
    Placement,
    RecordsTopic,
    Sasl,
    SaslAwsIam,
    SaslMechanism,
    SaslOAuth,
    SaslPassword,
    SaslToken,
    SecretKeyRef,
    SecretReference,
    Tls,
    UserPassword,
    Via,
    ZooKeeperAccess,
)
from topiarist.model.moves import UNLIMITED, BatchLimits, MoveKind, MoveSettings
from topiarist.model.policy import Policy, Rule, RuleSubject
from topiarist.model.spec import (
    BROKER_SIZE_SETTINGS,
    AllowedTopics,
    Budgets,
    ClusterSpec,
    DriftPolicy,
    LabelSelector,
    LabelSelectorRequirement,
    Limit,
    LimitedResource,
    LimitScope,
    Manifest,
    NamespacesFrom,
    RackAwareness,
    RetentionStep,
    SelectorOperator,
    Source,
    TopicSource,
    TopicSpec,
    ValueOrigin,
    find_item_origin,
    find_origin,
    layers,
    name_path,
    parse_replica_assignment,
)
from topiarist.model.usage import DeletionCheck, GroupNames, UsageSettings
from topiarist.schema.check import did_you_mean, key_step
from topiarist.text import quote

# The limits of a ``Policy`` or of the budgets of a ``Cluster``: parsed, and checked together.
#
# ``rules`` and ``filters.policies`` report ``limit_errors``, which no schema can express.


def parse_limits(
    given: Iterable[Mapping[str, Any]], title: str, source: Source, path: FieldPath, *, counts_all: bool = True
) -> tuple[Limit, ...]:
    """Parse the limits at ``path`` of a document; ``title`` names the document in messages."""
    return tuple(
        Limit(
            title=f"{title}, limit {fields['name']}",
            scope=LimitScope(fields["per"]),
            allowed={each: parse_bytes(fields[each.value]) for each in LimitedResource if each.value in fields},
            label=fields.get("label", ""),
            deny=fields.get("action", "Deny") == "Deny",
            counts_all=counts_all,
            source=source,
            path=(*path, index),
        )
        for index, fields in enumerate(given)
    )


def parse_bytes(value: str | int) -> int:
    """Return the bytes of a size that the schema accepts: a number, or text such as ``50 MiB``."""
    amount = value if isinstance(value, int) else parse_amount(value.replace(" ", ""), BYTES_BY_SIZE_UNIT)
    assert amount is not None, "the schema accepts amounts only"
    return amount


def limit_errors(limits: Iterable[Limit]) -> Iterator[Diagnostic]:
    """Yield each limit that has no label although it is per Label, or the other way round, and each duplicate name."""
    first: dict[str, Limit] = {}
    for limit in limits:
        place = limit.locate() or Location("the budgets of the cluster")
        earlier = first.setdefault(limit.title, limit)
        if earlier is not limit:
            yield Diagnostic(place, f"{limit.title}: duplicate name, declared at {earlier.locate()} already")
        if (limit.scope is LimitScope.LABEL) is not bool(limit.label):
            found = "no label" if not limit.label else f"label {limit.label}"
            wanted = "the label with the names of the groups" if not limit.label else "per: Label, or no label"
            yield Diagnostic(place, f"{limit.title}: found per: {limit.scope.value} and {found}, wanted {wanted}")


_Fields = Mapping[str, Callable[[Any], Any]]
"""Fields of a document by name, each with its parser."""

_UPPER = re.compile("[A-Z]")


def _take(
    table: _Fields, given: Mapping[str, Any], *, prefix: str = "", names: Mapping[str, str] = {}
) -> dict[str, Any]:
    """Return the fields that a document gives, converted; the other fields keep the defaults of their class.

    A field has the same name in ``model``, in its spelling and with ``prefix``, or the one that ``names`` has for it.
    """
    return {
        names.get(name) or prefix + _to_snake_case(name): convert(given[name])
        for name, convert in table.items()
        if name in given
    }


def _to_snake_case(name: str) -> str:
    return _UPPER.sub(r"_\g<0>", name).lower()


def parse_cluster_spec(manifest: Manifest) -> ClusterSpec:
    """Parse a ``Cluster`` manifest; fields that it leaves out have their defaults."""
    spec = manifest.spec
    ways: dict[str, Any] = {}
    if "zookeeper" in spec:
        ways["zookeeper"] = _parse_zookeeper(manifest, spec["zookeeper"])
    if "kafka" in spec:
        ways["kafka"] = _parse_kafka(manifest, spec["kafka"])
    return ClusterSpec(
        name=manifest.name,
        labels=manifest.labels,
        budgets=_parse_budgets(manifest, spec.get("budgets", {})),
        source=manifest.source,
        **ways,
        **_take(_DEFAULT_FIELDS, spec.get("defaults", {}), prefix="default_"),
        **_take(_CLUSTER_FIELDS, spec, names={"kafkaVersion": "version"}),
    )


def parse_policy(manifest: Manifest) -> Policy:
    """Parse a ``Policy`` manifest."""
    spec = manifest.spec
    selector = spec.get("selector", {})
    return Policy(
        name=manifest.name,
        namespace=manifest.namespace,
        source=manifest.source,
        rules=tuple(_parse_rule(manifest, index, rule) for index, rule in enumerate(spec.get("rules", ()))),
        limits=parse_limits(
            spec.get("limits", ()),
            f"policy {manifest.name}",
            manifest.source,
            ("spec", "limits"),
            counts_all=not {"topics", "matchLabels"} & selector.keys(),
        ),
        topic_patterns=tuple(selector.get("topics", ())),
        topic_labels=selector.get("matchLabels", {}),
        cluster_names=tuple(selector.get("clusters", ())),
        cluster_labels=selector.get("clusterSelector", {}).get("matchLabels", {}),
    )


def _parse_rule(manifest: Manifest, index: int, rule: Mapping[str, Any]) -> Rule:
    field, _, key = rule.get("field", "name").partition(".")
    above = ("metadata",) if field in ("labels", "annotations") else ()
    return Rule(
        policy=manifest.name,
        name=rule["name"],
        expression=rule["expression"],
        message=" ".join(rule["message"].split()),
        subject=RuleSubject(rule.get("subject", RuleSubject.TOPIC)),
        deny=rule.get("action", "Deny") == "Deny",
        field=() if field == "name" else (*above, *filter(None, (field, key))),
        source=manifest.source,
        path=("spec", "rules", index),
    )


def _config_texts(config: Mapping[str, Any]) -> dict[str, str]:
    return {key: to_config_text(key, value) for key, value in config.items()}


def _parse_profiles(profiles: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {name: {**profile, "config": _config_texts(profile.get("config", {}))} for name, profile in profiles.items()}


def _parse_milliseconds(text: str) -> int:
    milliseconds = parse_amount(text, MS_BY_TIME_UNIT)
    assert milliseconds is not None, "the schema accepts amounts only"
    return milliseconds


def _parse_seconds(text: str) -> int:
    return _parse_milliseconds(text) // 1000


def _parse_percent(text: str) -> int:
    return int(text.removesuffix("%"))


def _parse_retention_step(given: Mapping[str, str]) -> RetentionStep:
    return RetentionStep(_parse_percent(given["share"]), _parse_milliseconds(given.get("interval", "1h")))


def _parse_evidence(given: Mapping[str, Any]) -> UsageSettings:
    return UsageSettings(
        **_take(_EVIDENCE_FIELDS, given), **_take(_OVERSIZED_FIELDS, given.get("oversized", {}), prefix="min_")
    )


def _parse_budgets(manifest: Manifest, given: Mapping[str, Any]) -> Budgets:
    place = ("spec", "budgets", "limits")
    limits = parse_limits(given.get("limits", ()), f"Cluster {manifest.name}", manifest.source, place)
    return Budgets(**_take(_BUDGET_FIELDS, given), limits=limits)


def parse_throttle(text: str) -> int:
    """Parse a throttle that the schema accepts (``50MiB`` or ``Unlimited``), in bytes a second."""
    return UNLIMITED if text == "Unlimited" else parse_bytes(text)


def _parse_moves(given: Mapping[str, Any]) -> MoveSettings:
    return MoveSettings(**_take(_MOVE_FIELDS, given))


def _parse_allowed_topics(rule: Mapping[str, Any]) -> AllowedTopics:
    namespaces = rule.get("namespaces", {})
    selector = namespaces.get("selector")
    requirements = (
        LabelSelectorRequirement(each["key"], SelectorOperator(each["operator"]), tuple(each.get("values", ())))
        for each in (selector or {}).get("matchExpressions", ())
    )
    return AllowedTopics(
        namespaces=NamespacesFrom(namespaces.get("from", NamespacesFrom.SAME)),
        selector=None if selector is None else LabelSelector(selector.get("matchLabels", {}), tuple(requirements)),
        name_patterns=tuple(rule.get("names", ("*",))),
    )


def _parse_zookeeper(manifest: Manifest, given: Mapping[str, Any]) -> ZooKeeperAccess:
    def parse_login(scheme: str) -> UserPassword | Kerberos | None:
        fields, path = given.get(scheme), ("zookeeper", scheme)
        if fields is None:
            return None
        if fields.get("mechanism") == SaslMechanism.GSSAPI:
            return _parse_kerberos(manifest, fields, path, "zookeeper")
        return UserPassword(fields["username"], **_take_references(manifest, fields, path, ("password",)))

    digest = parse_login("digest")
    assert not isinstance(digest, Kerberos), "the schema gives it no mechanism"
    return ZooKeeperAccess(
        credentials=Credentials(parse_login("sasl"), digest, _parse_tls(manifest, given, "zookeeper")),
        **_take({"connect": str, "maxBuffer": int}, given, names={"maxBuffer": "jute_max_buffer"}),
    )


def _parse_kafka(manifest: Manifest, given: Mapping[str, Any]) -> KafkaAccess:
    return KafkaAccess(
        bootstrap_servers=given.get("bootstrapServers", ""),
        sasl=_parse_sasl(manifest, given["sasl"]) if "sasl" in given else None,
        tls=_parse_tls(manifest, given, "kafka"),
        **_take(_KAFKA_FIELDS, given),
    )


def _parse_records(given: Mapping[str, Any] | str) -> RecordsTopic | None:
    if isinstance(given, str):
        return None  # the one text that the schema takes is None
    fields: _Fields = {"topic": str, "transactionalId": str, "replicationFactor": int}
    return RecordsTopic(**_take(fields, given, names={"topic": "name"}))


_KAFKA_FIELDS: _Fields = {"records": _parse_records, "requestTimeout": _parse_seconds, "placement": Placement}


def _parse_sasl(manifest: Manifest, given: Mapping[str, Any]) -> Sasl:
    mechanism = SaslMechanism(given["mechanism"])
    path = ("kafka", "sasl")
    extensions = tuple(sorted(given.get("extensions", {}).items()))
    if mechanism is SaslMechanism.GSSAPI:
        return _parse_kerberos(manifest, given, path, "kafka")
    if mechanism is SaslMechanism.AWS_MSK_IAM:
        return SaslAwsIam(location=manifest.source.locate(("spec", *path)), **_take(_IAM_FIELDS, given))
    if mechanism is not SaslMechanism.OAUTHBEARER:
        return SaslPassword(mechanism, given["username"], **_take_references(manifest, given, path, ("password",)))
    if "token" in given:
        return SaslToken(**_take_references(manifest, given, path, ("token",)), extensions=extensions)
    references = _take_references(manifest, given, path, ("clientSecret", "clientKey", "ca"))
    fields: dict[str, Any] = {**_take(_OAUTH_FIELDS, given), **references}
    return SaslOAuth(**fields, extensions=extensions)


def _parse_kerberos(manifest: Manifest, given: Mapping[str, Any], path: FieldPath, service: str) -> Kerberos:
    references = _take_references(manifest, given, path, ("keyTab", "ticketCache"))
    return Kerberos(given["principal"], given.get("serviceName", service), given.get("realm", ""), **references)


def _parse_tls(manifest: Manifest, access: Mapping[str, Any], section: str) -> Tls | None:
    given = access.get("tls")
    if given is None:
        return None
    references = _take_references(manifest, given, (section, "tls"), _TLS_REFERENCES)
    return Tls(**references, server_name=given.get("serverName", ""))


def _take_references(
    manifest: Manifest, given: Mapping[str, Any], path: FieldPath, names: Iterable[str]
) -> dict[str, SecretReference]:
    """Return the references that a document gives below ``path``, by their names in ``model``."""
    return {
        _to_snake_case(name): _parse_secret_reference(manifest, given[name], (*path, name))
        for name in names
        if name in given
    }


def _parse_secret_reference(manifest: Manifest, given: Mapping[str, Any], path: FieldPath) -> SecretReference:
    (kind,) = given
    place = manifest.source.locate(("spec", *path, kind))
    # A relative path is relative to the folder of the manifest's file.
    file = posixpath.join(posixpath.dirname(place.file), given["file"]) if kind == "file" else ""
    secret = SecretKeyRef(**given[kind]) if kind == "secretKeyRef" else None
    return SecretReference(file, given.get("env", ""), place, secret, given.get("command", ""))


_STORE_REFERENCES = ("keyStore", "keyStorePassword", "trustStore", "trustStorePassword")
_TLS_REFERENCES = ("ca", "certificate", "key", "keyPassword", *_STORE_REFERENCES)
_OAUTH_FIELDS: _Fields = dict.fromkeys(("tokenEndpoint", "clientId", "clientKeyId", "scope", "audience"), str)
_IAM_FIELDS: _Fields = dict.fromkeys(("region", "profile", "roleArn", "sessionName"), str)
_DEFAULT_FIELDS: _Fields = {
    "partitions": int,
    "replicationFactor": int,
    "config": _config_texts,
}
_CLUSTER_FIELDS: _Fields = {
    "via": Via,
    "clusterId": str,
    "kafkaVersion": parse_version,
    "rackAwareness": RackAwareness,
    "profiles": _parse_profiles,
    "brokerConfig": _config_texts,
    "allowUnknownConfigs": tuple,
    "excludeBrokers": frozenset,
    "drainBrokers": frozenset,
    "moves": _parse_moves,
    "protected": tuple,
    "retentionStep": _parse_retention_step,
    "evidence": _parse_evidence,
    # An empty list allows no topics.
    "allowedTopics": lambda rules: tuple(map(_parse_allowed_topics, rules)),
    "sources": lambda kinds: frozenset(map(TopicSource, kinds)),
    "adopt": tuple,
    "allowRisk": frozenset,
    "allowDeletion": bool,
    "driftPolicy": DriftPolicy,
}
_EVIDENCE_FIELDS: _Fields = {
    "deletion": DeletionCheck,
    "window": _parse_seconds,
    "quietFor": _parse_seconds,
    "groups": GroupNames,
}
_OVERSIZED_FIELDS: _Fields = {"partitions": int, "bytesPerDay": parse_bytes}
_BUDGET_COUNTS = ("topics", "newPartitions", "partitionsPerTopic", "deletions", "notifications")
_BUDGET_FIELDS: _Fields = {
    **dict.fromkeys((*_BUDGET_COUNTS, "movedReplicas", "movedPartitions"), int),
    "changedShare": _parse_percent,
}
_MOVE_FIELDS: _Fields = {
    "allow": lambda kinds: frozenset(map(MoveKind, kinds)),
    "throttle": parse_throttle,
    "batch": lambda limits: BatchLimits(**limits),
    "stallAfter": _parse_seconds,
    "protected": bool,
}


# Rules between fields: errors and warnings of a merged spec that no schema can express.
#
# ``resolve`` calls ``spec_errors`` for every spec of a run before any connection is opened. ``spec_warnings`` returns
# problems that do not stop a run. The rules that depend on a cluster's *state* are in ``planning``.

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
    yield from _find_min_isr_above(spec, version, f"every write with acks=all fails if {_MIN_ISR_ABOVE}")
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
    """Yield a warning for each config key that Kafka has deprecated or dropped, and for segments that are too small.

    Also for an internal topic, unless it is only observed. Without a declared version of Kafka, also for
    ``min.insync.replicas`` that a version before 3.7 would not cap.
    """
    if (owner := spec.cluster.internal_owner(spec.topic)) and not spec.observe_only:
        message = f"{spec.topic}: {owner}'s own topic, which apply neither creates, changes nor deletes"
        yield _make_diagnostic(find_origin(spec, "topicName"), message, spec.cluster.internal_hint(spec.topic))
    version = spec.cluster.config_rules.newest_version()
    for key in config_rules.DEPRECATED_CONFIGS & spec.config.keys():
        if message := config_rules.deprecation_message(key, version):
            yield _make_diagnostic(find_origin(spec, "config", key), f"{printable_key(key)}: {message}")
    if message := config_rules.small_segment_message(spec.config):
        yield _make_diagnostic(find_origin(spec, "config", "segment.bytes"), message)
    if spec.cluster.config_rules.version is None:
        hint = f"before Kafka 3.7 every write with acks=all fails if {_MIN_ISR_ABOVE}; newer brokers lower it to that"
        hint += " number: set it to that, or declare kafkaVersion in the Cluster"
        yield from _find_min_isr_above(spec, MIN_KAFKA_VERSION, hint)


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
        f"{spec.topic}: found no {names}, and its cluster sets no default",
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


_MIN_ISR_ABOVE = "min.insync.replicas is larger than the number of replicas"


def _find_min_isr_above(spec: TopicSpec, oldest: KafkaVersion, hint: str) -> Iterator[Diagnostic]:
    """Yield the problem of a topic with fewer replicas than brokers from ``oldest`` on may require in sync."""
    factor, key = spec.replication_factor, "min.insync.replicas"
    if factor is None or not is_min_isr_above(spec.config, factor, oldest):
        return
    found = f"{key}: found {spec.config[key]}"
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

"""Parsers of ``Cluster`` and ``Policy`` manifests: documents in, values of ``model`` out.

The schema has accepted the manifests. Credentials are parsed as references with their locations: no file or variable is
read, so a manifest can be checked on a machine without the secrets.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from topiarist.errors import Diagnostic, FieldPath, Location
from topiarist.kafka.config_values import BYTES_BY_SIZE_UNIT, MS_BY_TIME_UNIT, parse_amount, to_config_text
from topiarist.kafka.types import parse_version
from topiarist.model.access import (
    Credentials,
    KafkaAccess,
    RecordsTopic,
    SaslMechanism,
    SaslOAuth,
    SaslPassword,
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
)
from topiarist.model.usage import DeletionCheck, GroupNames, UsageSettings

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


_Fields = Mapping[str, tuple[str, Callable[[Any], Any]]]
"""Fields of a document by name, each with its name in ``model`` and its parser."""


def _take(table: _Fields, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a document gives, converted; the other fields keep the defaults of their class."""
    return {field: convert(given[name]) for name, (field, convert) in table.items() if name in given}


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
        **_take(_DEFAULT_FIELDS, spec.get("defaults", {})),
        **_take(_CLUSTER_FIELDS, spec),
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
    return UsageSettings(**_take(_EVIDENCE_FIELDS, given), **_take(_OVERSIZED_FIELDS, given.get("oversized", {})))


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
    logins = {
        scheme: UserPassword(
            given[scheme]["username"],
            _parse_secret_reference(manifest, given[scheme]["password"], ("zookeeper", scheme, "password")),
        )
        for scheme in ("sasl", "digest")
        if scheme in given
    }
    return ZooKeeperAccess(
        credentials=Credentials(**logins, tls=_parse_tls(manifest, given, "zookeeper")),
        **_take({"connect": ("connect", str), "maxBuffer": ("jute_max_buffer", int)}, given),
    )


def _parse_kafka(manifest: Manifest, given: Mapping[str, Any]) -> KafkaAccess:
    return KafkaAccess(
        bootstrap_servers=given.get("bootstrapServers", ""),
        sasl=_parse_sasl(manifest, given["sasl"]) if "sasl" in given else None,
        tls=_parse_tls(manifest, given, "kafka"),
        **_take({"records": ("records", _parse_records), "requestTimeout": ("request_timeout", _parse_seconds)}, given),
    )


def _parse_records(given: Mapping[str, Any]) -> RecordsTopic:
    return RecordsTopic(**_take({"topic": ("name", str), "replicationFactor": ("replication_factor", int)}, given))


def _parse_sasl(manifest: Manifest, given: Mapping[str, Any]) -> SaslPassword | SaslOAuth:
    mechanism = SaslMechanism(given["mechanism"])
    path = ("kafka", "sasl")
    if mechanism is not SaslMechanism.OAUTHBEARER:
        password = _parse_secret_reference(manifest, given["password"], (*path, "password"))
        return SaslPassword(mechanism, given["username"], password)
    return SaslOAuth(
        token_endpoint=given["tokenEndpoint"],
        client_id=given["clientId"],
        client_secret=_parse_secret_reference(manifest, given["clientSecret"], (*path, "clientSecret")),
        scope=given.get("scope", ""),
        ca=_parse_secret_reference(manifest, given["ca"], (*path, "ca")) if "ca" in given else None,
    )


def _parse_tls(manifest: Manifest, access: Mapping[str, Any], section: str) -> Tls | None:
    given = access.get("tls")
    if given is None:
        return None
    fields = {"ca": "ca", "certificate": "certificate", "key": "key", "key_password": "keyPassword"}
    references = {
        field: _parse_secret_reference(manifest, given[name], (section, "tls", name))
        for field, name in fields.items()
        if name in given
    }
    return Tls(**references, server_name=given.get("serverName", ""))


def _parse_secret_reference(manifest: Manifest, given: Mapping[str, Any], path: FieldPath) -> SecretReference:
    (kind,) = given
    place = manifest.source.locate(("spec", *path, kind))
    # A relative path is relative to the folder of the manifest's file.
    file = posixpath.join(posixpath.dirname(place.file), given["file"]) if kind == "file" else ""
    secret = SecretKeyRef(**given[kind]) if kind == "secretKeyRef" else None
    return SecretReference(file, given.get("env", ""), place, secret)


_DEFAULT_FIELDS: _Fields = {
    "partitions": ("default_partitions", int),
    "replicationFactor": ("default_replication_factor", int),
    "config": ("default_config", _config_texts),
}
_CLUSTER_FIELDS: _Fields = {
    "via": ("via", Via),
    "clusterId": ("cluster_id", str),
    "kafkaVersion": ("version", parse_version),
    "rackAwareness": ("rack_awareness", RackAwareness),
    "profiles": ("profiles", _parse_profiles),
    "brokerConfig": ("broker_config", _config_texts),
    "allowUnknownConfigs": ("allow_unknown_configs", tuple),
    "excludeBrokers": ("exclude_brokers", frozenset),
    "drainBrokers": ("drain_brokers", frozenset),
    "moves": ("moves", _parse_moves),
    "protected": ("protected", tuple),
    "retentionStep": ("retention_step", _parse_retention_step),
    "evidence": ("evidence", _parse_evidence),
    # An empty list allows no topics.
    "allowedTopics": ("allowed_topics", lambda rules: tuple(map(_parse_allowed_topics, rules))),
    "adopt": ("adopt", tuple),
    "allowRisk": ("allow_risk", frozenset),
    "allowDeletion": ("allow_deletion", bool),
    "driftPolicy": ("drift_policy", DriftPolicy),
}
_EVIDENCE_FIELDS: _Fields = {
    "deletion": ("deletion", DeletionCheck),
    "window": ("window", _parse_seconds),
    "quietFor": ("quiet_for", _parse_seconds),
    "groups": ("groups", GroupNames),
}
_OVERSIZED_FIELDS: _Fields = {"partitions": ("min_partitions", int), "bytesPerDay": ("min_bytes_per_day", parse_bytes)}
_BUDGET_FIELDS: _Fields = {
    "topics": ("topics", int),
    "newPartitions": ("new_partitions", int),
    "partitionsPerTopic": ("partitions_per_topic", int),
    "deletions": ("deletions", int),
    "changedShare": ("changed_share", _parse_percent),
    "notifications": ("notifications", int),
    "movedReplicas": ("moved_replicas", int),
    "movedPartitions": ("moved_partitions", int),
}
_MOVE_FIELDS: _Fields = {
    "allow": ("allow", lambda kinds: frozenset(map(MoveKind, kinds))),
    "throttle": ("throttle", parse_throttle),
    "batch": ("batch", lambda limits: BatchLimits(**limits)),
    "stallAfter": ("stall_after", _parse_seconds),
    "protected": ("protected", bool),
}

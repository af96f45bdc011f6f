"""Parsers of ``Cluster`` and ``Policy`` manifests: documents in, values of ``model`` out.

The schema has accepted the manifests. Credentials are parsed as references with their locations: no file or variable is
read, so a manifest can be checked on a machine without the secrets.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from topiarist.desired.limits import parse_limits
from topiarist.errors import FieldPath
from topiarist.kafka.config_values import to_config_text
from topiarist.kafka.types import parse_version
from topiarist.kafka.units import BYTES_BY_SIZE_UNIT, MS_BY_TIME_UNIT, parse_amount
from topiarist.model.access import (
    DEFAULT_RECORDS_TOPIC,
    KafkaAccess,
    RecordsTopic,
    SaslMechanism,
    SaslOAuth,
    SaslPassword,
    Via,
    ZooKeeperAccess,
)
from topiarist.model.credentials import Credentials, SecretKeyRef, SecretReference, Tls, UserPassword
from topiarist.model.moves import UNLIMITED, BatchLimits, MoveKind, MoveSettings
from topiarist.model.policy import Policy, Rule, RuleSubject
from topiarist.model.spec import Budgets, ClusterSpec, Manifest, RackAwareness, RetentionStep
from topiarist.model.tenancy import (
    DEFAULT_ALLOWED_RISKS,
    DEFAULT_ALLOWED_TOPICS,
    AllowedTopics,
    DriftPolicy,
    LabelSelector,
    LabelSelectorRequirement,
    NamespacesFrom,
    SelectorOperator,
)
from topiarist.model.usage import DEFAULT_USAGE_SETTINGS, DeletionCheck, GroupNames, UsageSettings


def parse_cluster_spec(manifest: Manifest) -> ClusterSpec:
    """Parse a ``Cluster`` manifest; fields that it leaves out have their defaults."""
    spec = manifest.spec
    defaults = spec.get("defaults", {})
    given = {
        "cluster_id": spec.get("clusterId"),
        "version": parse_version(spec["kafkaVersion"]) if "kafkaVersion" in spec else None,
        "default_partitions": defaults.get("partitions"),
        "default_replication_factor": defaults.get("replicationFactor"),
        "protected": tuple(spec["protected"]) if "protected" in spec else None,
    }
    return ClusterSpec(
        name=manifest.name,
        labels=manifest.labels,
        rack_awareness=RackAwareness(spec.get("rackAwareness", RackAwareness.ENFORCED)),
        default_config=_config_texts(defaults.get("config", {})),
        profiles={
            name: {**profile, "config": _config_texts(profile.get("config", {}))}
            for name, profile in spec.get("profiles", {}).items()
        },
        broker_config=_config_texts(spec.get("brokerConfig", {})),
        allow_unknown_configs=tuple(spec.get("allowUnknownConfigs", ())),
        exclude_brokers=frozenset(spec.get("excludeBrokers", ())),
        drain_brokers=frozenset(spec.get("drainBrokers", ())),
        moves=_parse_moves(spec.get("moves", {})),
        retention_step=_parse_retention_step(spec.get("retentionStep")),
        evidence=_parse_evidence(spec.get("evidence", {})),
        budgets=_parse_budgets(manifest, spec.get("budgets", {})),
        zookeeper=_parse_zookeeper(manifest, spec["zookeeper"]) if "zookeeper" in spec else None,
        kafka=_parse_kafka(manifest, spec["kafka"]) if "kafka" in spec else None,
        via=Via(spec["via"]) if "via" in spec else None,
        source=manifest.source,
        allowed_topics=(
            # An empty list allows no topics.
            tuple(map(_parse_allowed_topics, spec["allowedTopics"]))
            if "allowedTopics" in spec
            else DEFAULT_ALLOWED_TOPICS
        ),
        adopt=tuple(spec.get("adopt", ())),
        allow_risk=frozenset(spec.get("allowRisk", DEFAULT_ALLOWED_RISKS)),
        allow_deletion=spec.get("allowDeletion", False),
        drift_policy=DriftPolicy(spec.get("driftPolicy", DriftPolicy.REPORT)),
        **{field: value for field, value in given.items() if value is not None},
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


def _parse_retention_step(given: Mapping[str, str] | None) -> RetentionStep | None:
    if given is None:
        return None
    interval = parse_amount(given.get("interval", "1h"), MS_BY_TIME_UNIT)
    assert interval is not None, "the schema accepts times only"
    return RetentionStep(int(given["share"].removesuffix("%")), interval)


def _parse_evidence(given: Mapping[str, Any]) -> UsageSettings:
    default, oversized = DEFAULT_USAGE_SETTINGS, given.get("oversized", {})
    rate = parse_amount(oversized["bytesPerDay"], BYTES_BY_SIZE_UNIT) if "bytesPerDay" in oversized else None
    window = parse_amount(given["window"], MS_BY_TIME_UNIT) if "window" in given else None
    quiet_for = parse_amount(given["quietFor"], MS_BY_TIME_UNIT) if "quietFor" in given else None
    return UsageSettings(
        DeletionCheck(given.get("deletion", default.deletion)),
        default.window if window is None else window // 1000,
        default.quiet_for if quiet_for is None else quiet_for // 1000,
        GroupNames(given.get("groups", default.groups)),
        oversized.get("partitions", default.min_partitions),
        default.min_bytes_per_day if rate is None else rate,
    )


def _parse_budgets(manifest: Manifest, given: Mapping[str, Any]) -> Budgets:
    share = given.get("changedShare")
    limits = {
        "topics": given.get("topics"),
        "new_partitions": given.get("newPartitions"),
        "partitions_per_topic": given.get("partitionsPerTopic"),
        "deletions": given.get("deletions"),
        "changed_share": None if share is None else int(share.removesuffix("%")),
        "notifications": given.get("notifications"),
        "moved_replicas": given.get("movedReplicas"),
        "moved_partitions": given.get("movedPartitions"),
    }
    counts = {field: limit for field, limit in limits.items() if limit is not None}
    place = ("spec", "budgets", "limits")
    return Budgets(
        **counts, limits=parse_limits(given.get("limits", ()), f"Cluster {manifest.name}", manifest.source, place)
    )


def parse_throttle(text: str) -> int:
    """Parse a throttle that the schema accepts (``50MiB`` or ``Unlimited``), in bytes a second."""
    if text == "Unlimited":
        return UNLIMITED
    rate = parse_amount(text, BYTES_BY_SIZE_UNIT)
    assert rate is not None, "the schema accepts amounts only"
    return rate


def _parse_moves(given: Mapping[str, Any]) -> MoveSettings:
    settings: dict[str, Any] = {
        "allow": frozenset(map(MoveKind, given.get("allow", ()))),
        "throttle": parse_throttle(given["throttle"]) if "throttle" in given else None,
        "batch": BatchLimits(**given["batch"]) if "batch" in given else None,
        "stall_after": _parse_seconds(given["stallAfter"]) if "stallAfter" in given else None,
        "protected": given.get("protected"),
    }
    return MoveSettings(**{field: value for field, value in settings.items() if value is not None})


def _parse_seconds(text: str) -> int:
    milliseconds = parse_amount(text, MS_BY_TIME_UNIT)
    assert milliseconds is not None, "the schema accepts amounts only"
    return milliseconds // 1000


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
        connect=given.get("connect", ""),
        jute_max_buffer=given.get("maxBuffer", ZooKeeperAccess().jute_max_buffer),
        credentials=Credentials(**logins, tls=_parse_tls(manifest, given, "zookeeper")),
    )


def _parse_kafka(manifest: Manifest, given: Mapping[str, Any]) -> KafkaAccess:
    records, default = given.get("records", {}), DEFAULT_RECORDS_TOPIC
    access = KafkaAccess(
        bootstrap_servers=given.get("bootstrapServers", ""),
        sasl=_parse_sasl(manifest, given["sasl"]) if "sasl" in given else None,
        tls=_parse_tls(manifest, given, "kafka"),
        records=RecordsTopic(
            records.get("topic", default.name), records.get("replicationFactor", default.replication_factor)
        ),
    )
    if "requestTimeout" in given:
        access = replace(access, request_timeout=_parse_seconds(given["requestTimeout"]))
    return access


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

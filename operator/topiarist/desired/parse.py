"""Parsers of ``Cluster`` and ``Policy`` manifests: documents in, values of ``model`` out.

The schema has accepted the manifests. Credentials are parsed as references with their locations: no file or variable is
read, so a manifest can be checked on a machine without the secrets.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from topiarist.errors import FieldPath
from topiarist.kafka.config_values import to_config_text
from topiarist.kafka.types import parse_version
from topiarist.model.credentials import Credentials, SecretKeyRef, SecretReference, Tls, UserPassword
from topiarist.model.policy import Policy, Rule, RuleSubject
from topiarist.model.spec import Budgets, ClusterSpec, Manifest, RackAwareness
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


def parse_cluster_spec(manifest: Manifest) -> ClusterSpec:
    """Parse a ``Cluster`` manifest; fields that it leaves out have their defaults."""
    spec = manifest.spec
    zookeeper, defaults = spec.get("zookeeper", {}), spec.get("defaults", {})
    given = {
        "connect": zookeeper.get("connect"),
        "jute_max_buffer": zookeeper.get("maxBuffer"),
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
        broker_config=_config_texts(spec.get("brokerConfig", {})),
        allow_unknown_configs=tuple(spec.get("allowUnknownConfigs", ())),
        exclude_brokers=frozenset(spec.get("excludeBrokers", ())),
        budgets=parse_budgets(spec.get("budgets", {})),
        credentials=parse_credentials(manifest),
        source=manifest.source,
        allowed_topics=parse_allowed_topics(spec),
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
        rules=tuple(_parse_rule(manifest, index, rule) for index, rule in enumerate(spec["rules"])),
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
    return {key: to_config_text(value) for key, value in config.items()}


def parse_budgets(given: Mapping[str, Any]) -> Budgets:
    """Parse the limits that are set; a share of ``20%`` is 20."""
    share = given.get("changedShare")
    limits = {
        "topics": given.get("topics"),
        "new_partitions": given.get("newPartitions"),
        "partitions_per_topic": given.get("partitionsPerTopic"),
        "deletions": given.get("deletions"),
        "changed_share": None if share is None else int(share.removesuffix("%")),
        "notifications": given.get("notifications"),
    }
    return Budgets(**{field: limit for field, limit in limits.items() if limit is not None})


def parse_allowed_topics(spec: Mapping[str, Any]) -> tuple[AllowedTopics, ...]:
    """Parse the rules of ``allowedTopics``.

    An empty list allows no topics. Without the field, topics of the cluster's own namespace are allowed.
    """
    if "allowedTopics" not in spec:
        return DEFAULT_ALLOWED_TOPICS
    return tuple(_parse_allowed_topics_rule(rule) for rule in spec["allowedTopics"])


def _parse_allowed_topics_rule(rule: Mapping[str, Any]) -> AllowedTopics:
    namespaces = rule.get("namespaces", {})
    selector = namespaces.get("selector")
    return AllowedTopics(
        namespaces=NamespacesFrom(namespaces.get("from", NamespacesFrom.SAME)),
        selector=None if selector is None else _parse_label_selector(selector),
        name_patterns=tuple(rule.get("names", ("*",))),
    )


def _parse_label_selector(selector: Mapping[str, Any]) -> LabelSelector:
    requirements = (
        LabelSelectorRequirement(
            requirement["key"], SelectorOperator(requirement["operator"]), tuple(requirement.get("values", ()))
        )
        for requirement in selector.get("matchExpressions", ())
    )
    return LabelSelector(selector.get("matchLabels", {}), tuple(requirements))


def parse_credentials(manifest: Manifest) -> Credentials:
    """Parse the credentials in ``spec.zookeeper``.

    A relative path is relative to the folder of the manifest's file.
    """
    zookeeper: Mapping[str, Any] = manifest.spec.get("zookeeper", {})
    return Credentials(
        sasl=_parse_user_password(manifest, zookeeper, "sasl"),
        digest=_parse_user_password(manifest, zookeeper, "digest"),
        tls=_parse_tls(manifest, zookeeper["tls"]) if "tls" in zookeeper else None,
    )


def _parse_user_password(manifest: Manifest, zookeeper: Mapping[str, Any], scheme: str) -> UserPassword | None:
    if scheme not in zookeeper:
        return None
    password = _parse_secret_reference(manifest, zookeeper[scheme]["password"], (scheme, "password"))
    return UserPassword(zookeeper[scheme]["username"], password)


def _parse_tls(manifest: Manifest, given: Mapping[str, Any]) -> Tls:
    fields = {"ca": "ca", "certificate": "certificate", "key": "key", "key_password": "keyPassword"}
    references = {
        field: _parse_secret_reference(manifest, given[name], ("tls", name))
        for field, name in fields.items()
        if name in given
    }
    return Tls(**references, server_name=given.get("serverName", ""))


def _parse_secret_reference(manifest: Manifest, given: Mapping[str, Any], path: FieldPath) -> SecretReference:
    (kind,) = given
    place = manifest.source.locate(("spec", "zookeeper", *path, kind))
    file = posixpath.join(posixpath.dirname(place.file), given["file"]) if kind == "file" else ""
    return SecretReference(
        file, given.get("env", ""), place, SecretKeyRef(**given[kind]) if kind == "secretKeyRef" else None
    )

"""The three CustomResourceDefinitions: names, columns, selectable fields, and CEL rules.

``crd.definition_files`` writes them; ``structural`` converts the schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crd.structural import JsonObject, structural_schema
from topiarist.kafka.types import INTERNAL_TOPICS, MAX_TOPIC_NAME_LENGTH, metric_name
from topiarist.schema import load

SHORT_NAMES = {"Topic": "tpt", "Cluster": "tpc", "Policy": "tpp"}
"""Short names for kubectl, as hints only.

If two definitions have the same short name, kubectl picks one arbitrarily. The documentation uses the plural.
"""

CATEGORY = "topiarist"
"""The category that lists all of topiarist's resources: ``kubectl get topiarist``.

Not ``all``: ten thousand topics among the pods would hide them.
"""

ValidationRule = dict[str, str]

_INTERNAL = ", ".join(f"'{name}'" for name in sorted(map(metric_name, INTERNAL_TOPICS)))
_GROW_ONLY_MESSAGE = (
    "partitions can only grow: Kafka removes no partition. If the larger number was never applied, delete this "
    "resource with deletionPolicy: Retain, which leaves the topic unchanged, and create it again"
)


def _grow_only_rule(now: str, before: str, rule: str, field: str) -> ValidationRule:
    guarded = f"!has(self.{now}) || !has(oldSelf.{before}) || {rule}"
    return {"rule": guarded, "message": _GROW_ONLY_MESSAGE, "fieldPath": f".{field}", "reason": "FieldValueForbidden"}


def _agreement_rule(field: str, listed: str) -> ValidationRule:
    return {
        "rule": f"!has(self.replicaAssignment) || !has(self.{field}) || self.{field} == self.{listed}",
        "message": f"{field} and replicaAssignment do not agree: remove {field}, or give the value of the lists",
        "fieldPath": f".{field}",
    }


_AGREEMENT_RULES = [
    _agreement_rule("partitions", "replicaAssignment.size()"),
    _agreement_rule("replicationFactor", "replicaAssignment[0].size()"),
]

VALIDATION_RULES: Mapping[tuple[str, ...], list[ValidationRule]] = {
    ("Topic",): [
        {
            "rule": f"has(self.spec.topicName) || self.metadata.name.size() <= {MAX_TOPIC_NAME_LENGTH}",
            "message": f"without spec.topicName, metadata.name is the topic's name in Kafka, which has at most "
            f"{MAX_TOPIC_NAME_LENGTH} characters: give a shorter one",
        },
        {
            # On the resource, not on the field: there it would be skipped when the field is added or removed.
            "rule": "(has(self.spec.topicName) ? self.spec.topicName : self.metadata.name) == "
            "(has(oldSelf.spec.topicName) ? oldSelf.spec.topicName : oldSelf.metadata.name)",
            "message": "the topic's name cannot change: Kafka renames no topic. Declare another Topic for the new "
            "name, and delete this one",
            "fieldPath": ".spec.topicName",
            "reason": "FieldValueForbidden",
        },
    ],
    ("Topic", "spec"): [
        *_AGREEMENT_RULES,
        _grow_only_rule("partitions", "partitions", "self.partitions >= oldSelf.partitions", "partitions"),
        _grow_only_rule(
            "replicaAssignment",
            "replicaAssignment",
            "self.replicaAssignment.size() >= oldSelf.replicaAssignment.size()",
            "replicaAssignment",
        ),
        _grow_only_rule(
            "partitions", "replicaAssignment", "self.partitions >= oldSelf.replicaAssignment.size()", "partitions"
        ),
        _grow_only_rule(
            "replicaAssignment",
            "partitions",
            "self.replicaAssignment.size() >= oldSelf.partitions",
            "replicaAssignment",
        ),
    ],
    ("Topic", "spec", "overrides", "[]"): _AGREEMENT_RULES,
    ("Topic", "spec", "topicName"): [
        {
            "rule": f"!(self.replace('.', '_') in [{_INTERNAL}])",
            "message": "the name of an internal topic of Kafka, or one that its metrics cannot tell from it (to them, "
            '"." and "_" are the same)',
        }
    ],
    ("Cluster", "spec"): [
        {
            "rule": "(has(self.via) ? self.via == 'Kafka' : has(self.kafka)) "
            "? has(self.kafka) && has(self.kafka.bootstrapServers) "
            ": has(self.zookeeper) && has(self.zookeeper.connect)",
            "message": "kafka.bootstrapServers or zookeeper.connect is required, in the section that via names: the "
            "operator has no options for addresses",
        }
    ],
}
"""Rules beyond the schemas, by kind and path; ``[]`` means the items of a list."""


def _condition_path(kind: str, field: str) -> str:
    return f'.status.conditions[?(@.type=="{kind}")].{field}'


def column(name: str, path: str, about: str, kind: str = "string", *, wide: bool = False) -> dict[str, Any]:
    """Return a column of ``kubectl get``; ``wide`` columns are shown only with ``-o wide``."""
    made: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path, "description": about}
    return made | {"priority": 1} if wide else made


_COMMON_COLUMNS = [
    column("Ready", _condition_path("Ready", "status"), "True if the clusters are as declared."),
    column("Reason", _condition_path("Ready", "reason"), "The reason of the condition Ready."),
    column("Age", ".metadata.creationTimestamp", "The time since the resource was created.", "date"),
    column("Message", _condition_path("Ready", "message"), "The message of the condition Ready.", wide=True),
]
COLUMNS: Mapping[str, list[dict[str, Any]]] = {
    "Topic": [
        column("Cluster", ".status.clusterNames", "Clusters of the topic."),
        column("Partitions", ".status.partitions", "Partitions that the clusters have."),
        column("Replicas", ".spec.replicationFactor", "Replicas of each partition that are declared.", "integer"),
        *_COMMON_COLUMNS,
        column("Topic", ".status.topicName", "The topic's name in Kafka.", wide=True),
        column("Declared", ".spec.partitions", "Partitions that are declared.", "integer", wide=True),
        column("Mode", ".spec.mode", "Enforce: differences are corrected. Observe: they are only reported.", wide=True),
        column(
            "Drifted",
            _condition_path("DriftDetected", "status"),
            "True if the topic has an external change.",
            wide=True,
        ),
    ],
    "Cluster": [
        column("Kafka", ".spec.kafkaVersion", "Release of the brokers."),
        column("Topics", ".status.topics.total", "Topics that are declared for the cluster.", "integer"),
        column("Synced", ".status.topics.ready", "Topics that are as declared.", "integer"),
        column("Drifted", ".status.topics.drifted", "Topics with an external change.", "integer"),
        column("Refused", ".status.topics.refused", "Topics with a refused change.", "integer"),
        column("Draining", ".status.drainingLeft", "Replicas left on the brokers that are to be drained, or done."),
        *_COMMON_COLUMNS,
        column("Cluster id", ".status.clusterId", "Id of the Kafka cluster.", wide=True),
        column("Brokers", ".status.brokers", "Registered brokers.", "integer", wide=True),
    ],
    "Policy": _COMMON_COLUMNS,
}
SELECTABLE_FIELDS = {
    "Topic": ["spec.topicName", "spec.mode", "spec.ensure", "spec.deletionPolicy"],
    "Cluster": ["spec.clusterId", "spec.kafkaVersion", "spec.driftPolicy"],
    "Policy": [],
}
"""Fields for ``kubectl get topics.topiarist.dev --field-selector spec.mode=Observe``, by kind."""


def definition(kind: str) -> JsonObject:
    """Return the CustomResourceDefinition of a kind, as a document."""
    singular = kind.lower()
    plural = f"{singular.removesuffix('y')}ies" if singular.endswith("y") else f"{singular}s"
    version: JsonObject = {
        "name": load.API_VERSION.partition("/")[2],
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": COLUMNS[kind],
    }
    if SELECTABLE_FIELDS[kind]:
        version["selectableFields"] = [{"jsonPath": f".{path}"} for path in SELECTABLE_FIELDS[kind]]
    version["schema"] = {"openAPIV3Schema": resource_schema(kind)}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{load.API_GROUP}"},
        "spec": {
            "group": load.API_GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": singular,
                "shortNames": [SHORT_NAMES[kind]],
                "categories": [CATEGORY],
            },
            "versions": [version],
        },
    }


def resource_schema(kind: str) -> JsonObject:
    """Return the structural schema of a kind: its spec as in files, its status as the operator writes it."""
    document, status = load.resource_schema(kind), load.load_schema("status")
    fields = document["properties"]
    schema: JsonObject = {
        "description": document["description"],
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": fields["apiVersion"]["description"]},
            "kind": {"type": "string", "description": fields["kind"]["description"]},
            "metadata": _metadata_schema(fields["metadata"]),
            "spec": structural_schema(fields["spec"], document["definitions"], "spec"),
            "status": structural_schema(status["definitions"][kind.lower()], status["definitions"], "status"),
        },
    }
    for path, rules in VALIDATION_RULES.items():
        if path[0] == kind:
            _add_rules(schema, path[1:], rules)
    return schema


def _metadata_schema(given: Mapping[str, Any]) -> JsonObject:
    """Return the schema of metadata, which may only restrict the name in a definition.

    Its maximum length also lowers the estimated cost of the rules that read the name.
    """
    name = given["properties"]["name"]
    return {"type": "object", "properties": {"name": {keyword: name[keyword] for keyword in ("type", "maxLength")}}}


def _add_rules(made: JsonObject, path: tuple[str, ...], rules: list[ValidationRule]) -> None:
    for step in path:
        made = made["items"] if step == "[]" else made["properties"][step]
    made["x-kubernetes-validations"] = [*rules, *made.get("x-kubernetes-validations", ())]

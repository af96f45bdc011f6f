"""The three CustomResourceDefinitions: names, columns, what can be selected, and the CEL rules that no schema says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topiarist import schema
from topiarist.core.names import INTERNAL_TOPICS, MAX_LENGTH, collision_key
from topiarist.crd.structural import Structure, structure

SHORT_NAMES = {"Topic": "tpt", "Cluster": "tpc", "Policy": "tpp"}
"""Hints only: where two definitions have the same one, which of them is meant is luck. Docs name the plural."""

CATEGORY = "topiarist"
"""``kubectl get topiarist`` shows all of ours. Not ``all``: nobody wants ten thousand topics among the pods."""

Rule = dict[str, str]

_INTERNAL = ", ".join(f"'{name}'" for name in sorted(map(collision_key, INTERNAL_TOPICS)))
_GROWS = (
    "partitions can only grow: Kafka takes none away. If the larger number was never applied, delete this resource "
    "under deletionPolicy: Retain, which leaves the topic as it is, and create it again"
)


def _grows(now: str, before: str, rule: str, field: str) -> Rule:
    guarded = f"!has(self.{now}) || !has(oldSelf.{before}) || {rule}"
    return {"rule": guarded, "message": _GROWS, "fieldPath": f".{field}", "reason": "FieldValueForbidden"}


def _agrees(field: str, listed: str) -> Rule:
    return {
        "rule": f"!has(self.replicaAssignment) || !has(self.{field}) || self.{field} == self.{listed}",
        "message": f"{field} and replicaAssignment do not agree: leave {field} out, or give what the lists have",
        "fieldPath": f".{field}",
    }


_AGREEMENT = [
    _agrees("partitions", "replicaAssignment.size()"),
    _agrees("replicationFactor", "replicaAssignment[0].size()"),
]

RULES: Mapping[tuple[str, ...], list[Rule]] = {
    ("Topic",): [
        {
            "rule": f"has(self.spec.topicName) || self.metadata.name.size() <= {MAX_LENGTH}",
            "message": f"without spec.topicName, metadata.name is the topic's name in Kafka, which has at most "
            f"{MAX_LENGTH} characters: give a shorter one",
        },
        {
            # On the resource, not on the field: a rule there is skipped where the field comes or goes.
            "rule": "(has(self.spec.topicName) ? self.spec.topicName : self.metadata.name) == "
            "(has(oldSelf.spec.topicName) ? oldSelf.spec.topicName : oldSelf.metadata.name)",
            "message": "the topic's name cannot change: Kafka renames no topic. Declare another Topic for the new "
            "name, and delete this one",
            "fieldPath": ".spec.topicName",
            "reason": "FieldValueForbidden",
        },
    ],
    ("Topic", "spec"): [
        *_AGREEMENT,
        _grows("partitions", "partitions", "self.partitions >= oldSelf.partitions", "partitions"),
        _grows(
            "replicaAssignment",
            "replicaAssignment",
            "self.replicaAssignment.size() >= oldSelf.replicaAssignment.size()",
            "replicaAssignment",
        ),
        _grows("partitions", "replicaAssignment", "self.partitions >= oldSelf.replicaAssignment.size()", "partitions"),
        _grows(
            "replicaAssignment",
            "partitions",
            "self.replicaAssignment.size() >= oldSelf.partitions",
            "replicaAssignment",
        ),
    ],
    ("Topic", "spec", "overrides", "[]"): _AGREEMENT,
    ("Topic", "spec", "topicName"): [
        {
            "rule": f"!(self.replace('.', '_') in [{_INTERNAL}])",
            "message": "the name of an internal topic of Kafka, or one that its metrics cannot tell from it (to them, "
            '"." and "_" are the same)',
        }
    ],
    ("Cluster", "spec"): [
        {
            "rule": "has(self.zookeeper) && has(self.zookeeper.connect)",
            "message": "zookeeper.connect is needed here: an operator has no --zookeeper",
        }
    ],
}
"""Beside what the schemas say, by kind and path; ``[]`` stands for the items of a list."""


def _condition(kind: str, field: str) -> str:
    return f'.status.conditions[?(@.type=="{kind}")].{field}'


def column(name: str, path: str, about: str, kind: str = "string", *, wide: bool = False) -> dict[str, Any]:
    """A column of ``kubectl get``; ``wide`` ones are shown with ``-o wide`` only."""
    made: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path, "description": about}
    return made | {"priority": 1} if wide else made


_READY = [
    column("Ready", _condition("Ready", "status"), "Whether all is as declared."),
    column("Reason", _condition("Ready", "reason"), "Why, in a word."),
    column("Age", ".metadata.creationTimestamp", "Since when it has been declared.", "date"),
    column("Message", _condition("Ready", "message"), "Why, in words.", wide=True),
]
COLUMNS: Mapping[str, list[dict[str, Any]]] = {
    "Topic": [
        column("Cluster", ".status.clusterNames", "Clusters that it is meant for."),
        column("Partitions", ".status.partitions", "Partitions that the clusters have."),
        column("Replicas", ".spec.replicationFactor", "Replicas of each partition that are declared.", "integer"),
        *_READY,
        column("Topic", ".status.topicName", "The topic's name in Kafka.", wide=True),
        column("Declared", ".spec.partitions", "Partitions that are declared.", "integer", wide=True),
        column("Mode", ".spec.mode", "Whether differences are acted on.", wide=True),
        column("Drifted", _condition("DriftDetected", "status"), "Whether it was changed outside.", wide=True),
    ],
    "Cluster": [
        column("Kafka", ".spec.kafkaVersion", "Release of the brokers."),
        column("Topics", ".status.topics.total", "Topics that are declared for it.", "integer"),
        column("In step", ".status.topics.ready", "Topics that are as declared.", "integer"),
        column("Drifted", ".status.topics.drifted", "Topics that were changed outside.", "integer"),
        column("Refused", ".status.topics.refused", "Topics of which something is refused.", "integer"),
        *_READY,
        column("Cluster id", ".status.clusterId", "Id of the Kafka cluster.", wide=True),
        column("Brokers", ".status.brokers", "Brokers that are registered.", "integer", wide=True),
    ],
    "Policy": _READY,
}
SELECTABLE = {
    "Topic": ["spec.topicName", "spec.mode", "spec.ensure", "spec.deletionPolicy"],
    "Cluster": ["spec.clusterId", "spec.kafkaVersion", "spec.driftPolicy"],
    "Policy": [],
}
"""Fields for ``kubectl get topics.topiarist.dev --field-selector spec.mode=Observe``."""


def definition(kind: str) -> Structure:
    """The CustomResourceDefinition of a kind, as a document."""
    singular = kind.lower()
    plural = f"{singular.removesuffix('y')}ies" if singular.endswith("y") else f"{singular}s"
    version: Structure = {
        "name": schema.VERSION.partition("/")[2],
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": COLUMNS[kind],
    }
    if SELECTABLE[kind]:
        version["selectableFields"] = [{"jsonPath": f".{path}"} for path in SELECTABLE[kind]]
    version["schema"] = {"openAPIV3Schema": resource(kind)}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{schema.GROUP}"},
        "spec": {
            "group": schema.GROUP,
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


def resource(kind: str) -> Structure:
    """The structural schema of a kind: its spec as in files, its status as the operator writes it."""
    document, status = schema.resource_schema(kind), schema.schema("status")
    fields = document["properties"]
    made: Structure = {
        "description": document["description"],
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": fields["apiVersion"]["description"]},
            "kind": {"type": "string", "description": fields["kind"]["description"]},
            "metadata": _metadata(fields["metadata"]),
            "spec": structure(fields["spec"], document["definitions"], "spec"),
            "status": structure(status["definitions"][kind.lower()], status["definitions"], "status"),
        },
    }
    for path, rules in RULES.items():
        if path[0] == kind:
            _add(made, path[1:], rules)
    return made


def _metadata(given: Mapping[str, Any]) -> Structure:
    """Of metadata a definition may only restrict the name, which also prices the rules that read it."""
    name = given["properties"]["name"]
    return {"type": "object", "properties": {"name": {keyword: name[keyword] for keyword in ("type", "maxLength")}}}


def _add(made: Structure, path: tuple[str, ...], rules: list[Rule]) -> None:
    for step in path:
        made = made["items"] if step == "[]" else made["properties"][step]
    made["x-kubernetes-validations"] = [*rules, *made.get("x-kubernetes-validations", ())]

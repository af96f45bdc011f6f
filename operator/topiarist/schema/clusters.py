"""Parts of a ``Cluster`` that are values of their own: its budgets, and who may declare which topics on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topiarist.core.allowed import OWN_NAMESPACE, AllowedTopics, From, LabelSelector, Operator, Requirement
from topiarist.core.budgets import Budgets


def budgets(given: Mapping[str, Any]) -> Budgets:
    """The limits that are set; the share of ``20%`` is 20."""
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


def allowed_topics(spec: Mapping[str, Any]) -> tuple[AllowedTopics, ...]:
    """The rules of ``allowedTopics``; an empty list allows nothing, no list the cluster's own namespace."""
    if "allowedTopics" not in spec:
        return OWN_NAMESPACE
    return tuple(_rule(rule) for rule in spec["allowedTopics"])


def _rule(rule: Mapping[str, Any]) -> AllowedTopics:
    namespaces = rule.get("namespaces", {})
    selector = namespaces.get("selector")
    return AllowedTopics(
        namespaces=From(namespaces.get("from", From.SAME)),
        selector=None if selector is None else _selector(selector),
        names=tuple(rule.get("names", ("*",))),
    )


def _selector(selector: Mapping[str, Any]) -> LabelSelector:
    requirements = (
        Requirement(one["key"], Operator(one["operator"]), tuple(one.get("values", ())))
        for one in selector.get("matchExpressions", ())
    )
    return LabelSelector(selector.get("matchLabels", {}), tuple(requirements))

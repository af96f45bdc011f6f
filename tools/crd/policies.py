"""Admission policies from ``Policy`` documents: the rules about topics that need no cluster.

``crd.policy_files`` calls ``admission_policies``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from crd.admission import CONFIG, NOT_BEING_DELETED, OVERRIDES, REPLICATION_FACTOR, NamedExpressions, admission_policy
from crd.structural import JsonObject
from topiarist.model.policy import Policy, Rule, RuleSubject

_CLUSTER_REFERENCE = re.compile(r"(?<![\w.\"'])cluster\b")
_OPTIONAL_FIELDS = ("partitions", "replicationFactor")
"""Fields that a topic may leave to its cluster's defaults.

Where it does, rules that read such a field are not evaluated at admission.
"""


_PROFILE_FIELDS = ("labels", "config", *_OPTIONAL_FIELDS)
"""Fields that a profile of the cluster may give: rules that read one are not evaluated for a topic with profiles."""

_PROFILES = "object.spec.?profiles.orValue([])"


def translatable_rules(policy: Policy) -> list[Rule]:
    """Return the rules of a policy that an API server can evaluate: about topics, without cluster facts.

    Returns none for a policy with a cluster selector. Raises ``ValueError`` if a translatable policy selects topics,
    which is not implemented.
    """
    if policy.cluster_names or policy.cluster_labels:
        return []
    rules = [
        rule
        for rule in policy.rules
        if rule.subject is RuleSubject.TOPIC and not _CLUSTER_REFERENCE.search(rule.expression)
    ]
    if rules and (policy.topic_patterns or policy.topic_labels):
        raise ValueError(f"policy {policy.name}: selectors of topics cannot be translated for admission")
    return rules


def admission_policies(policy: Policy) -> list[JsonObject]:
    """Return the rules of ``translatable_rules`` as admission policies, each with its binding.

    There is at most one policy that denies and one that warns.
    """
    rules = translatable_rules(policy)
    documents: list[JsonObject] = []
    for deny, suffix in ((True, ""), (False, "-warnings")):
        chosen = [rule for rule in rules if rule.deny is deny]
        if chosen:
            name = f"topiarist-policy-{policy.name}{suffix}"
            validations = [_validation(rule) for rule in chosen]
            action = "Deny" if deny else "Warn"
            documents += admission_policy(
                name, "topics", _match_conditions(chosen), _topic_variables(chosen), validations, action
            )
    return documents


def _match_conditions(rules: Iterable[Rule]) -> list[tuple[str, str]]:
    """Return conditions that match changes of anything that the rules read, on topics to be present.

    Resources that are being deleted do not match.
    """
    changes = ["request.operation == 'CREATE'", "object.spec != oldObject.spec"]
    for part in ("labels", "annotations"):
        if any(f"topic.{part}" in one.expression for one in rules):
            changes.append(f"object.metadata.?{part}.orValue({{}}) != oldObject.metadata.?{part}.orValue({{}})")
    wanted = ("wanted-at-all", "object.spec.?ensure.orValue('Present') != 'Absent'")
    return [("what-it-reads-changes", " || ".join(changes)), wanted, NOT_BEING_DELETED]


def _validation(rule: Rule) -> JsonObject:
    known = [f"!('{field}' in topic) || " for field in _OPTIONAL_FIELDS if f"topic.{field}" in rule.expression]
    if any(f"topic.{field}" in rule.expression for field in _PROFILE_FIELDS):
        known.insert(0, f"size({_PROFILES}) > 0 || ")
    # On separate lines and unchanged, so that it can be compared with the rule in its document.
    expression = f"variables.topics.all(topic, {''.join(known)}(\n{rule.expression.strip()}\n))"
    return {"expression": expression, "message": f"{rule.message} (rule {rule.name})", "reason": "Invalid"}


_MODE = "object.spec.?mode.orValue('Enforce')"
_OVERRIDE_CONFIG = "o.?config.orValue({})"
_MERGED_CONFIG = (
    f"(variables.config.map(k, k) + {_OVERRIDE_CONFIG}.map(k, k).filter(k, !(k in variables.config)))"
    f".transformMapEntry(i, k, {{k: k in {_OVERRIDE_CONFIG} ? string(o.config[k]) : variables.config[k]}})"
)
_OVERRIDE_SIZE = (
    "has(o.replicaAssignment) ? size({0}) : has(o.{1}) ? int(o.{1}) : "
    "has(object.spec.replicaAssignment) && (has(o.partitions) || has(o.replicationFactor)) ? 0 : variables.{1}"
)
_BASE_VALUES = {
    "config": f"{CONFIG}.transformMap(k, v, string(v))",
    "partitions": "has(object.spec.replicaAssignment) ? size(object.spec.replicaAssignment) : "
    "has(object.spec.partitions) ? int(object.spec.partitions) : 0",
    "replicationFactor": REPLICATION_FACTOR.format("object.spec") + "0",
    "observed": f"{_MODE} == 'Observe'",
}
"""Values that overrides may change, as they are without overrides; a size of 0 means not given."""

_OVERRIDE_VALUES = {
    "config": _MERGED_CONFIG,
    "partitions": _OVERRIDE_SIZE.format("o.replicaAssignment", "partitions"),
    "replicationFactor": _OVERRIDE_SIZE.format("o.replicaAssignment[0]", "replicationFactor"),
    "observed": f"o.?mode.orValue({_MODE}) == 'Observe'",
}
_METADATA_VALUES = {
    "name": "object.spec.?topicName.orValue(object.metadata.name)",
    "document": "object.metadata.name",
    "namespace": "object.metadata.namespace",
    "labels": "object.metadata.?labels.orValue({})",
    "annotations": "object.metadata.?annotations.orValue({})",
    "profiles": _PROFILES,
    "coPartitionGroup": "object.spec.?coPartitionGroup.orValue('')",
    "keyed": "object.spec.?keyed.orValue(true)",
}


def _topic_variables(rules: Sequence[Rule]) -> NamedExpressions:
    """Return ``variables.topics``: maps of the values that the rules read, without and with each override.

    If the rules read nothing that overrides can change, there is one map. Defaults of the cluster are unknown here.
    """
    text = "\n".join(rule.expression for rule in rules)
    read_fields = [name for name in (*_METADATA_VALUES, *_BASE_VALUES) if re.search(rf"\btopic\.{name}\b", text)]
    own = [(name, expression) for name, expression in _BASE_VALUES.items() if name in read_fields]
    topics = _map_expression({name: _METADATA_VALUES.get(name, f"variables.{name}") for name in read_fields})
    if not own:
        return [("topics", f"[{topics}]")]
    overridden = _map_expression(
        {name: _METADATA_VALUES.get(name, _OVERRIDE_VALUES.get(name, "")) for name in read_fields}
    )
    return [*own, ("topics", f"[{topics}] + {OVERRIDES}.map(o, {overridden})")]


def _map_expression(entries: Mapping[str, str]) -> str:
    """Return a CEL map of values of several types; sizes that are not given are omitted."""
    lines = []
    for name, expression in entries.items():
        if name in _OPTIONAL_FIELDS:
            # CEL has no let: a map over a list of one element is the only way to name a value.
            value = f"[{expression}].map(n, n == 0 ? optional.none() : optional.of(dyn(n)))[0]"
            lines.append(f"?'{name}': {value}")
        else:
            lines.append(f"'{name}': dyn({expression})")
    return "{\n  " + ",\n  ".join(lines) + "\n}"

"""Rules of ``Policy`` documents as admission policies: those about topics that use nothing only a cluster knows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from crd.admission import CONFIG, NOT_BEING_DELETED, OVERRIDES, REPLICATION_FACTOR, NamedExpressions, admission_policy
from crd.structural import JsonObject
from topiarist.model.policy import Policy, Rule, RuleSubject

_CLUSTER_REFERENCE = re.compile(r"(?<![\w.\"'])cluster\b")
_OPTIONAL_FIELDS = ("partitions", "replicationFactor")
"""What a topic may leave to its cluster's defaults: where it does, rules that name it are not judged at admission."""


def translatable_rules(policy: Policy) -> list[Rule]:
    """The rules of a policy that an API server can judge: about topics, and nothing that only a cluster knows.

    None of a policy with a selector for clusters. Raises ``ValueError`` for one that selects topics, which nobody has
    needed yet.
    """
    if policy.cluster_names or policy.cluster_labels:
        return []
    rules = [
        one
        for one in policy.rules
        if one.subject is RuleSubject.TOPIC and not _CLUSTER_REFERENCE.search(one.expression)
    ]
    if rules and (policy.topic_patterns or policy.topic_labels):
        raise ValueError(f"policy {policy.name}: selectors of topics cannot be translated for admission")
    return rules


def admission_policies(policy: Policy) -> list[JsonObject]:
    """The rules of ``translatable`` as admission policies: one that denies, one that warns, each with its binding."""
    rules = translatable_rules(policy)
    found: list[JsonObject] = []
    for deny, suffix in ((True, ""), (False, "-warnings")):
        chosen = [one for one in rules if one.deny is deny]
        if chosen:
            name = f"topiarist-policy-{policy.name}{suffix}"
            validations = [_validation(one) for one in chosen]
            action = "Deny" if deny else "Warn"
            found += admission_policy(
                name, "topics", _match_conditions(chosen), _topic_variables(chosen), validations, action
            )
    return found


def _match_conditions(rules: Iterable[Rule]) -> list[tuple[str, str]]:
    """Look at what changes anything that the rules read, on topics that are to be there."""
    changes = ["request.operation == 'CREATE'", "object.spec != oldObject.spec"]
    for part in ("labels", "annotations"):
        if any(f"topic.{part}" in one.expression for one in rules):
            changes.append(f"object.metadata.?{part}.orValue({{}}) != oldObject.metadata.?{part}.orValue({{}})")
    wanted = ("wanted-at-all", "object.spec.?ensure.orValue('Present') != 'Absent'")
    return [("what-it-reads-changes", " || ".join(changes)), wanted, NOT_BEING_DELETED]


def _validation(rule: Rule) -> JsonObject:
    known = [f"!('{field}' in topic) || " for field in _OPTIONAL_FIELDS if f"topic.{field}" in rule.expression]
    # In lines of its own, as it is in its document, so that it can be compared with it.
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
"""What overrides may change, as it is without them; 0 is a size that nobody names."""

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
}


def _topic_variables(rules: Sequence[Rule]) -> NamedExpressions:
    """``variables.topics``: the topic without overrides and with each of them, as maps of what the rules read.

    Where overrides change nothing that they read, once. What the defaults of a cluster add nobody knows here.
    """
    text = "\n".join(rule.expression for rule in rules)
    read = [name for name in (*_METADATA_VALUES, *_BASE_VALUES) if re.search(rf"\btopic\.{name}\b", text)]
    own = [(name, expression) for name, expression in _BASE_VALUES.items() if name in read]
    topics = _map_expression({name: _METADATA_VALUES.get(name, f"variables.{name}") for name in read})
    if not own:
        return [("topics", f"[{topics}]")]
    overridden = _map_expression({name: _METADATA_VALUES.get(name, _OVERRIDE_VALUES.get(name, "")) for name in read})
    return [*own, ("topics", f"[{topics}] + {OVERRIDES}.map(o, {overridden})")]


def _map_expression(entries: Mapping[str, str]) -> str:
    """A map of values of several types; sizes that nobody names are not in it."""
    lines = []
    for name, expression in entries.items():
        if name in _OPTIONAL_FIELDS:
            # The one way to name a value in an expression: a list of one, and a map over it.
            value = f"[{expression}].map(n, n == 0 ? optional.none() : optional.of(dyn(n)))[0]"
            lines.append(f"?'{name}': {value}")
        else:
            lines.append(f"'{name}': dyn({expression})")
    return "{\n  " + ",\n  ".join(lines) + "\n}"

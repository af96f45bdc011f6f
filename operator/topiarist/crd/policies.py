"""Rules of ``Policy`` documents as admission policies: those about topics that use nothing only a cluster knows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from topiarist.core.guardrails import Policy, Rule, Subject
from topiarist.crd.admission import CONFIG, FACTOR, NOT_GOING, OVERRIDES, Named, admission_policy
from topiarist.crd.structural import Structure

_CLUSTER = re.compile(r"(?<![\w.\"'])cluster\b")
_OPTIONAL = ("partitions", "replicationFactor")
"""What a topic may leave to its cluster's defaults: where it does, rules that name it are not judged at admission."""


def translatable(policy: Policy) -> list[Rule]:
    """The rules of a policy that an API server can judge: about topics, and nothing that only a cluster knows.

    None of a policy with a selector for clusters. Raises ``ValueError`` for one that selects topics, which nobody has
    needed yet.
    """
    if policy.clusters or policy.cluster_labels:
        return []
    rules = [one for one in policy.rules if one.subject is Subject.TOPIC and not _CLUSTER.search(one.expression)]
    if rules and (policy.topics or policy.labels):
        raise ValueError(f"policy {policy.name}: selectors of topics cannot be translated for admission")
    return rules


def admission_policies(policy: Policy) -> list[Structure]:
    """The rules of ``translatable`` as admission policies: one that denies, one that warns, each with its binding."""
    rules = translatable(policy)
    found: list[Structure] = []
    for deny, suffix in ((True, ""), (False, "-warnings")):
        chosen = [one for one in rules if one.deny is deny]
        if chosen:
            name = f"topiarist-policy-{policy.name}{suffix}"
            validations = [_validation(one) for one in chosen]
            action = "Deny" if deny else "Warn"
            found += admission_policy(name, "topics", _relevant(chosen), _topics(chosen), validations, action)
    return found


def _relevant(rules: Iterable[Rule]) -> list[tuple[str, str]]:
    """Look at what changes anything that the rules read, on topics that are to be there."""
    changes = ["request.operation == 'CREATE'", "object.spec != oldObject.spec"]
    for part in ("labels", "annotations"):
        if any(f"topic.{part}" in one.expression for one in rules):
            changes.append(f"object.metadata.?{part}.orValue({{}}) != oldObject.metadata.?{part}.orValue({{}})")
    wanted = ("wanted-at-all", "object.spec.?ensure.orValue('Present') != 'Absent'")
    return [("what-it-reads-changes", " || ".join(changes)), wanted, NOT_GOING]


def _validation(rule: Rule) -> Structure:
    known = [f"!('{field}' in topic) || " for field in _OPTIONAL if f"topic.{field}" in rule.expression]
    # In lines of its own, as it is in its document, so that it can be compared with it.
    expression = f"variables.topics.all(topic, {''.join(known)}(\n{rule.expression.strip()}\n))"
    return {"expression": expression, "message": f"{rule.message} (rule {rule.name})", "reason": "Invalid"}


_MODE = "object.spec.?mode.orValue('Enforce')"
_O_CONFIG = "o.?config.orValue({})"
_MERGED = (
    f"(variables.config.map(k, k) + {_O_CONFIG}.map(k, k).filter(k, !(k in variables.config)))"
    f".transformMapEntry(i, k, {{k: k in {_O_CONFIG} ? string(o.config[k]) : variables.config[k]}})"
)
_O_SIZE = (
    "has(o.replicaAssignment) ? size({0}) : has(o.{1}) ? int(o.{1}) : "
    "has(object.spec.replicaAssignment) && (has(o.partitions) || has(o.replicationFactor)) ? 0 : variables.{1}"
)
_OWN_VALUES = {
    "config": f"{CONFIG}.transformMap(k, v, string(v))",
    "partitions": "has(object.spec.replicaAssignment) ? size(object.spec.replicaAssignment) : "
    "has(object.spec.partitions) ? int(object.spec.partitions) : 0",
    "replicationFactor": FACTOR.format("object.spec") + "0",
    "observed": f"{_MODE} == 'Observe'",
}
"""What overrides may change, as it is without them; 0 is a size that nobody names."""

_OVERRIDDEN = {
    "config": _MERGED,
    "partitions": _O_SIZE.format("o.replicaAssignment", "partitions"),
    "replicationFactor": _O_SIZE.format("o.replicaAssignment[0]", "replicationFactor"),
    "observed": f"o.?mode.orValue({_MODE}) == 'Observe'",
}
_SHARED = {
    "name": "object.spec.?topicName.orValue(object.metadata.name)",
    "document": "object.metadata.name",
    "namespace": "object.metadata.namespace",
    "labels": "object.metadata.?labels.orValue({})",
    "annotations": "object.metadata.?annotations.orValue({})",
}


def _topics(rules: Sequence[Rule]) -> Named:
    """``variables.topics``: the topic without overrides and with each of them, as maps of what the rules read.

    Where overrides change nothing that they read, once. What the defaults of a cluster add nobody knows here.
    """
    text = "\n".join(rule.expression for rule in rules)
    read = [name for name in (*_SHARED, *_OWN_VALUES) if re.search(rf"\btopic\.{name}\b", text)]
    own = [(name, expression) for name, expression in _OWN_VALUES.items() if name in read]
    topics = _map({name: _SHARED.get(name, f"variables.{name}") for name in read})
    if not own:
        return [("topics", f"[{topics}]")]
    overridden = _map({name: _SHARED.get(name, _OVERRIDDEN.get(name, "")) for name in read})
    return [*own, ("topics", f"[{topics}] + {OVERRIDES}.map(o, {overridden})")]


def _map(entries: Mapping[str, str]) -> str:
    """A map of values of several types; sizes that nobody names are not in it."""
    lines = []
    for name, expression in entries.items():
        if name in _OPTIONAL:
            # The one way to name a value in an expression: a list of one, and a map over it.
            value = f"[{expression}].map(n, n == 0 ? optional.none() : optional.of(dyn(n)))[0]"
            lines.append(f"?'{name}': {value}")
        else:
            lines.append(f"'{name}': dyn({expression})")
    return "{\n  " + ",\n  ".join(lines) + "\n}"

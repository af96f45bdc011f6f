"""ValidatingAdmissionPolicies: what CEL in a definition cannot see, and rules of ``Policy`` documents at admission.

A definition's CEL cannot see config values, since they may be of any scalar type. An admission policy sees the object as
it is. Both kinds of policies here look at what changes the spec (so that whatever stood there before them can still
be given a finalizer, and lose it), and never at what is being deleted. They need Kubernetes 1.33 or later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from topiarist.core import configs
from topiarist.core.guardrails import Policy, Rule, Subject
from topiarist.crd.structural import Structure
from topiarist.schema import GROUP, VERSION

Variables = Sequence[tuple[str, str]]

_CLUSTER = re.compile(r"(?<![\w.\"'])cluster\b")
_OPTIONAL = ("partitions", "replicationFactor")
"""What a topic may leave to its cluster's defaults: where it does, rules that name it are not judged at admission."""

_NOT_GOING = ("not-being-deleted", "!has(object.metadata.deletionTimestamp)")
_OWN = "object.spec.?config.orValue({})"
_OVERRIDES = "object.spec.?overrides.orValue([])"

_ISR = "min.insync.replicas"
_TAKES_EMPTY = [key for key in configs.CONFIGS if not configs.check(key, "") and not configs.stricter(key, "")]


def _each(wrong: str) -> str:
    """The keys, of all maps of configs, for whose value (``c[k]``) ``wrong`` is true, as one text."""
    return f"variables.configs.map(c, c.filter(k, {wrong}).join(', ')).filter(s, s != '').join(', ')"


def _found(name: str, message: str) -> Structure:
    return {
        "expression": f"variables.{name} == ''",
        "messageExpression": f"variables.{name} + ': {message}'",
        "reason": "Invalid",
    }


_VALUES: Variables = [
    ("badKeys", _each("!k.matches('^[a-zA-Z0-9._-]{1,255}$')")),
    ("noValues", _each("type(c[k]) == null_type")),
    ("lostDigits", _each("type(c[k]) == double && (c[k] >= 9007199254740992.0 || c[k] <= -9007199254740992.0)")),
]
_VALUE_RULES = [
    _found("badKeys", 'not the name of a config; wanted 1 to 255 of a-z, A-Z, 0-9, ".", "_" and "-"'),
    _found("noValues", "found nothing, wanted text, a number, true or false"),
    _found("lostDigits", "a number this large has lost digits on its way here; quote it"),
]

# With no override that touches either side, or with one, it is known what holds; with more, the operator says so.
_TOUCHING = (
    f"{_OVERRIDES}.filter(o, has(o.replicationFactor) || has(o.replicaAssignment) || "
    f"(has(o.partitions) && has(object.spec.replicaAssignment)) || '{_ISR}' in o.?config.orValue({{}}))"
)
_FACTOR = "has({0}.replicaAssignment) ? size({0}.replicaAssignment[0]) : has({0}.replicationFactor) ? "
_FACTOR += "int({0}.replicationFactor) : "
_EMPTY = ", ".join(f"'{key}'" for key in _TAKES_EMPTY)
_KNOWN = ", ".join(f"'{key}'" for key in configs.CONFIGS)
_TOPIC_VALUES: Variables = [
    ("configs", f"[{_OWN}] + {_OVERRIDES}.map(o, o.?config.orValue({{}}))"),
    *_VALUES,
    ("empty", _each(f"c[k] == '' && k in [{_KNOWN}] && !(k in [{_EMPTY}])")),
    ("touching", _TOUCHING),
    ("ownFactor", _FACTOR.format("object.spec") + "0"),
    (
        "factor",
        "size(variables.touching) == 0 ? variables.ownFactor : size(variables.touching) > 1 ? 0 : "
        + _FACTOR.format("variables.touching[0]")
        + "has(variables.touching[0].partitions) && has(object.spec.replicaAssignment) ? 0 : variables.ownFactor",
    ),
    ("ownIsr", f"'{_ISR}' in {_OWN} ? string(object.spec.config['{_ISR}']) : ''"),
    (
        "isr",
        f"size(variables.touching) == 1 && '{_ISR}' in variables.touching[0].?config.orValue({{}}) ? "
        f"string(variables.touching[0].config['{_ISR}']) : variables.ownIsr",
    ),
]
_TOPIC_RULES = [
    *_VALUE_RULES,
    _found("empty", "found empty text, which Kafka does not take; leave the key out"),
    {
        "expression": "variables.factor == 0 || !variables.isr.matches('^[0-9]{1,9}$') || "
        "int(variables.isr) <= variables.factor",
        "message": f"{_ISR} is above the replication factor: with more in-sync replicas wanted than there are, every "
        "write with acks=all fails",
        "reason": "Invalid",
    },
]
_CLUSTER_VALUES: Variables = [
    ("configs", "[object.spec.?defaults.?config.orValue({}), object.spec.?brokerConfig.orValue({})]"),
    *_VALUES,
]


def config_policies() -> list[Structure]:
    """What ships beside the definitions: for topics and for clusters, each with its binding."""
    changed = ("the-spec-changes", "request.operation == 'CREATE' || object.spec != oldObject.spec")
    return [
        *_policy("topiarist-topic-config", "topics", [changed, _NOT_GOING], _TOPIC_VALUES, _TOPIC_RULES),
        *_policy("topiarist-cluster-config", "clusters", [changed, _NOT_GOING], _CLUSTER_VALUES, _VALUE_RULES),
    ]


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
            found += _policy(name, "topics", _relevant(chosen), _topics(chosen), validations, "Deny" if deny else "Warn")
    return found


def _relevant(rules: Iterable[Rule]) -> list[tuple[str, str]]:
    """Look at what changes anything that the rules read, on topics that are to be there."""
    changes = ["request.operation == 'CREATE'", "object.spec != oldObject.spec"]
    for part in ("labels", "annotations"):
        if any(f"topic.{part}" in one.expression for one in rules):
            changes.append(f"object.metadata.?{part}.orValue({{}}) != oldObject.metadata.?{part}.orValue({{}})")
    wanted = ("wanted-at-all", "object.spec.?ensure.orValue('Present') != 'Absent'")
    return [("what-it-reads-changes", " || ".join(changes)), wanted, _NOT_GOING]


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
    "config": f"{_OWN}.transformMap(k, v, string(v))",
    "partitions": "has(object.spec.replicaAssignment) ? size(object.spec.replicaAssignment) : "
    "has(object.spec.partitions) ? int(object.spec.partitions) : 0",
    "replicationFactor": _FACTOR.format("object.spec") + "0",
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


def _topics(rules: Sequence[Rule]) -> Variables:
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
    return [*own, ("topics", f"[{topics}] + {_OVERRIDES}.map(o, {overridden})")]


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


def _policy(
    name: str,
    plural: str,
    matches: Sequence[tuple[str, str]],
    variables: Variables,
    validations: list[Structure],
    action: str = "Deny",
) -> list[Structure]:
    api = "admissionregistration.k8s.io/v1"
    resources: dict[str, Any] = {"apiGroups": [GROUP], "apiVersions": [VERSION.partition("/")[2]]}
    resources |= {"operations": ["CREATE", "UPDATE"], "resources": [plural]}
    return [
        {
            "apiVersion": api,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [resources]},
                "matchConditions": [{"name": about, "expression": expression} for about, expression in matches],
                "variables": [{"name": about, "expression": expression} for about, expression in variables],
                "validations": validations,
            },
        },
        {
            "apiVersion": api,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": [action]},
        },
    ]

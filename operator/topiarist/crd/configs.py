"""Admission of config values, which may be of any scalar type: CEL in a definition cannot see them, here it can.

Ships beside the definitions. What cannot be known without the cluster (its defaults, its release) is left to the
operator, and what only several overrides together decide too.
"""

from __future__ import annotations

from topiarist.core import configs
from topiarist.crd.admission import CONFIG, FACTOR, NOT_GOING, OVERRIDES, Named, admission_policy
from topiarist.crd.structural import Structure

_ISR = "min.insync.replicas"
_NEVER_EMPTY = [key for key in configs.CONFIGS if configs.check(key, "") or configs.stricter(key, "")]


def _each(wrong: str) -> str:
    """The keys, of all maps of configs, for whose value (``c[k]``) ``wrong`` is true, as one text."""
    keys = f"c.filter(k, {wrong}).map(k, k == '' ? '\"\"' : k)"
    return f"variables.configs.map(c, {keys}.join(', ')).filter(s, s != '').join(', ')"


def _found(name: str, message: str) -> Structure:
    return {
        "expression": f"variables.{name} == ''",
        "messageExpression": f"variables.{name} + ': {message}'",
        "reason": "Invalid",
    }


_VALUES: Named = [
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
    f"{OVERRIDES}.filter(o, has(o.replicationFactor) || has(o.replicaAssignment) || "
    f"(has(o.partitions) && has(object.spec.replicaAssignment)) || '{_ISR}' in o.?config.orValue({{}}))"
)
_KEYS = ", ".join(f"'{key}'" for key in _NEVER_EMPTY)
_TOPIC_VALUES: Named = [
    ("configs", f"[{CONFIG}] + {OVERRIDES}.map(o, o.?config.orValue({{}}))"),
    *_VALUES,
    ("empty", _each(f"c[k] == '' && k in [{_KEYS}]")),
    ("touching", _TOUCHING),
    ("ownFactor", FACTOR.format("object.spec") + "0"),
    (
        "factor",
        "size(variables.touching) == 0 ? variables.ownFactor : size(variables.touching) > 1 ? 0 : "
        + FACTOR.format("variables.touching[0]")
        + "has(variables.touching[0].partitions) && has(object.spec.replicaAssignment) ? 0 : variables.ownFactor",
    ),
    ("ownIsr", f"'{_ISR}' in {CONFIG} ? string(object.spec.config['{_ISR}']) : ''"),
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
_CLUSTER_VALUES: Named = [
    ("configs", "[object.spec.?defaults.?config.orValue({}), object.spec.?brokerConfig.orValue({})]"),
    *_VALUES,
]


def config_policies() -> list[Structure]:
    """What ships beside the definitions: for topics and for clusters, each with its binding."""
    changed = ("the-spec-changes", "request.operation == 'CREATE' || object.spec != oldObject.spec")
    return [
        *admission_policy("topiarist-topic-config", "topics", [changed, NOT_GOING], _TOPIC_VALUES, _TOPIC_RULES),
        *admission_policy("topiarist-cluster-config", "clusters", [changed, NOT_GOING], _CLUSTER_VALUES, _VALUE_RULES),
    ]

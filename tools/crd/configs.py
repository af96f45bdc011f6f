"""Admission policies for config values, which may be of any scalar type.

CEL in a definition cannot read such values; CEL in an admission policy can. The policies ship beside the definitions.
Checks that need the cluster (its defaults, its release) are left to the operator.
"""

from __future__ import annotations

from crd.admission import CONFIG, NOT_BEING_DELETED, OVERRIDES, NamedExpressions, admission_policy
from crd.structural import JsonObject
from topiarist.kafka import config_table, config_values

_NON_EMPTY_KEYS = [
    key
    for key in config_table.TOPIC_CONFIGS
    if config_values.check_value(key, "") or config_values.check_manifest_value(key, "")
]


def _failing_keys(condition: str) -> str:
    """Return an expression for the keys, in all config maps, for which ``condition`` on ``c[k]`` is true."""
    keys = f"c.filter(k, {condition}).map(k, k == '' ? '\"\"' : k)"
    return f"variables.configs.map(c, {keys}.join(', ')).filter(s, s != '').join(', ')"


def _validation(name: str, message: str) -> JsonObject:
    return {
        "expression": f"variables.{name} == ''",
        "messageExpression": f"variables.{name} + ': {message}'",
        "reason": "Invalid",
    }


_VALUE_VARIABLES: NamedExpressions = [
    ("badKeys", _failing_keys("!k.matches('^[a-zA-Z0-9._-]{1,255}$')")),
    ("noValues", _failing_keys("type(c[k]) == null_type")),
    (
        "lostDigits",
        _failing_keys("type(c[k]) == double && (c[k] >= 9007199254740992.0 || c[k] <= -9007199254740992.0)"),
    ),
]
_VALUE_RULES = [
    _validation("badKeys", 'not the name of a config; wanted 1 to 255 of a-z, A-Z, 0-9, ".", "_" and "-"'),
    _validation("noValues", "found nothing, wanted text, a number, true or false"),
    _validation("lostDigits", "the API server has rounded a number this large; quote it"),
]

_NON_EMPTY_KEY_LIST = ", ".join(f"'{key}'" for key in _NON_EMPTY_KEYS)
_TOPIC_VARIABLES: NamedExpressions = [
    ("configs", f"[{CONFIG}] + {OVERRIDES}.map(o, o.?config.orValue({{}}))"),
    *_VALUE_VARIABLES,
    ("empty", _failing_keys(f"c[k] == '' && k in [{_NON_EMPTY_KEY_LIST}]")),
]
_TOPIC_RULES = [
    *_VALUE_RULES,
    _validation("empty", "found empty text, which Kafka does not accept; remove the key"),
]
_CLUSTER_VARIABLES: NamedExpressions = [
    ("configs", "[object.spec.?defaults.?config.orValue({}), object.spec.?brokerConfig.orValue({})]"),
    *_VALUE_VARIABLES,
]


def config_policies() -> list[JsonObject]:
    """Return the policies that ship beside the definitions: for topics and for clusters, with bindings."""
    changed = ("the-spec-changes", "request.operation == 'CREATE' || object.spec != oldObject.spec")
    return [
        *admission_policy(
            "topiarist-topic-config", "topics", [changed, NOT_BEING_DELETED], _TOPIC_VARIABLES, _TOPIC_RULES
        ),
        *admission_policy(
            "topiarist-cluster-config", "clusters", [changed, NOT_BEING_DELETED], _CLUSTER_VARIABLES, _VALUE_RULES
        ),
    ]

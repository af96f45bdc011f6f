"""ValidatingAdmissionPolicies: the shape and the expressions that all of topiarist's policies share.

A policy checks only changes of the spec, so that a resource that is older than the policy can still get and lose a
finalizer. It never checks a resource that is being deleted. Policies need Kubernetes 1.33 or later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crd.structural import JsonObject
from topiarist.schema.load import API_GROUP, API_VERSION

NamedExpressions = Sequence[tuple[str, str]]
"""Names and expressions: variables, or conditions."""

NOT_BEING_DELETED = ("not-being-deleted", "!has(object.metadata.deletionTimestamp)")
CONFIG = "object.spec.?config.orValue({})"
OVERRIDES = "object.spec.?overrides.orValue([])"
REPLICATION_FACTOR = (
    "has({0}.replicaAssignment) ? size({0}.replicaAssignment[0]) : has({0}.replicationFactor) ? "
    "int({0}.replicationFactor) : "
)
"""The replication factor of a spec or override.

The caller appends the value for a spec that names none.
"""


def admission_policy(
    name: str,
    plural: str,
    match_conditions: NamedExpressions,
    variables: NamedExpressions,
    validations: list[JsonObject],
    action: str = "Deny",
) -> list[JsonObject]:
    """Return a policy for created and changed resources, and its binding.

    ``action`` is ``Deny`` or ``Warn``.
    """
    api = "admissionregistration.k8s.io/v1"
    resources: dict[str, Any] = {"apiGroups": [API_GROUP], "apiVersions": [API_VERSION.partition("/")[2]]}
    resources |= {"operations": ["CREATE", "UPDATE"], "resources": [plural]}
    return [
        {
            "apiVersion": api,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [resources]},
                "matchConditions": [
                    {"name": about, "expression": expression} for about, expression in match_conditions
                ],
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

"""What became of a resource as conditions, which people, ``kubectl wait`` and whatever reads kstatus understand.

``Ready`` says whether all is as asked; ``Reconciling`` that something is under way and will come by itself, ``Stalled``
that somebody has to do something, ``DriftDetected`` that the cluster was changed outside. All are always there. A time
of transition is kept as long as the status is the same, so that nothing changes on a pass that changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from topiarist.errors import Reason
from topiarist.kubernetes.annotations import annotation_errors
from topiarist.kubernetes.api.resources import Resource

Condition = Mapping[str, Any]

NAMESPACE_UNAVAILABLE = "NamespaceAway"
"""The condition of a Cluster, and its reason, while a namespace that the operator watches is away."""

MAX_MESSAGE_BYTES = 1024
"""Bytes of a message, which is as much as an Event takes. The status of each cluster has what is more."""


class ReadyCondition(NamedTuple):
    """How a resource stands: ``ready`` None if that is not known. ``reason`` is a CamelCase word.

    ``drift`` says what was changed on the cluster; empty if nothing was.
    """

    ready: bool | None
    reason: str
    message: str
    reconciling: bool = False
    stalled: bool = False
    drift: str = ""


def invalid_condition(errors: Iterable[str]) -> ReadyCondition:
    """How a resource stands that cannot be used as it is; ``errors`` has one text for each problem."""
    return ReadyCondition(False, Reason.INVALID_MANIFEST.value, "\n".join(errors), stalled=True)


def common_status(
    resource: Resource, ready_condition: ReadyCondition, now: str, unavailable_namespaces: Mapping[str, str] = {}
) -> Mapping[str, Any]:
    """What every status has: the generation that it speaks of, its conditions, and what is wrong with annotations.

    ``now`` is an RFC 3339 time, ``unavailable_namespaces`` are the watched namespaces that are away, and why.
    """
    generation, old = resource.generation, resource.status.get("conditions", ())
    wrong = annotation_errors(resource)
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        # In front: a message may end with a command that is copied.
        ready_condition = ready_condition._replace(message=f"annotation {wrong[0]}{more}. {ready_condition.message}")
    status = {
        "observedGeneration": generation,
        "conditions": build_conditions(ready_condition, generation, old, now, unavailable_namespaces),
    }
    return {**status, "annotations": wrong} if wrong else status


def build_conditions(
    ready_condition: ReadyCondition,
    generation: int,
    old: Iterable[Condition],
    now: str,
    unavailable_namespaces: Mapping[str, str] = {},
) -> Sequence[Condition]:
    """The conditions for a resource; ``old`` are those that it has, ``now`` an RFC 3339 time.

    ``NamespaceAway`` is there only as long as a watched namespace is ``unavailable_namespaces``.
    """
    known = {condition.get("type"): condition for condition in old}
    ready, message = _condition_status(ready_condition.ready), truncate_message(ready_condition.message)
    drift = Reason.DRIFT_DETECTED.value if ready_condition.drift else ready_condition.reason
    values = [
        ("Ready", ready, ready_condition.reason, message),
        ("Reconciling", _condition_status(ready_condition.reconciling), ready_condition.reason, message),
        ("Stalled", _condition_status(ready_condition.stalled), ready_condition.reason, message),
        (
            "DriftDetected",
            _condition_status(bool(ready_condition.drift)),
            drift,
            truncate_message(ready_condition.drift),
        ),
    ]
    if unavailable_namespaces:
        words = "; ".join(f"{name}: {why}" for name, why in sorted(unavailable_namespaces.items()))
        values.append((NAMESPACE_UNAVAILABLE, "True", NAMESPACE_UNAVAILABLE, truncate_message(words)))
    return [
        {
            "type": name,
            "status": status,
            "observedGeneration": generation,
            "lastTransitionTime": known[name]["lastTransitionTime"]
            if name in known and known[name].get("status") == status
            else now,
            "reason": reason,
            "message": words if name == "Ready" or status == "True" else "",
        }
        for name, status, reason, words in values
    ]


def truncate_message(text: str) -> str:
    """Return a text that a condition or an Event can hold, cut between two characters if it is too long."""
    whole = text.encode()
    return text if len(whole) <= MAX_MESSAGE_BYTES else f"{whole[: MAX_MESSAGE_BYTES - 3].decode(errors='ignore')}..."


def _condition_status(value: bool | None) -> str:
    return "Unknown" if value is None else str(value)

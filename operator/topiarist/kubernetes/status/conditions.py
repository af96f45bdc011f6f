"""Conditions of a resource, in the form that ``kubectl wait`` and kstatus read.

``status.topic`` and ``status.cluster`` build a ``ReadyCondition``; this module turns it into the list of conditions.
``Ready``: the resource is as specified. ``Reconciling``: work is in progress and needs no user. ``Stalled``: the user
has to act. ``DriftDetected``: the cluster has external changes. All four are always present. ``Moving``: replicas are
moved; present from the first move on. ``lastTransitionTime`` is kept while the status is the same, so a reconciliation
without changes yields equal conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from topiarist.errors import Reason
from topiarist.kubernetes.api.resources import Resource
from topiarist.kubernetes.approval import annotation_errors

Condition = Mapping[str, Any]

NAMESPACE_UNAVAILABLE = "NamespaceAway"
"""The condition of a Cluster, and its reason, while a watched namespace is unavailable."""

RIGHTS_MISSING = "RightsMissing"
"""The condition of a Cluster, and its reason, while the operator lacks a right that it had at the start."""

MOVING = "Moving"
"""The condition of a Topic or Cluster, and its usual reason, while replicas are moved."""

MAX_MESSAGE_BYTES = 1024
"""Maximum bytes of a message: the limit of an Event. A Topic's parts by cluster have the full text."""


class MovingCondition(NamedTuple):
    """The values of the condition ``Moving`` while replicas are moved; ``reason`` names the problem of a stall."""

    message: str
    reason: str = MOVING


class ReadyCondition(NamedTuple):
    """The values from which the conditions of a resource are built.

    ``ready`` is None if unknown. ``reason`` is in CamelCase. ``drift`` describes the external changes on the cluster;
    empty if there are none. ``moving`` is None if no replica is moved.
    """

    ready: bool | None
    reason: str
    message: str
    reconciling: bool = False
    stalled: bool = False
    drift: str = ""
    moving: MovingCondition | None = None


def invalid_condition(errors: Iterable[str]) -> ReadyCondition:
    """Return the condition of an invalid resource; ``errors`` has one text for each problem."""
    return ReadyCondition(False, Reason.INVALID_MANIFEST.value, "\n".join(errors), stalled=True)


def common_status(
    resource: Resource, ready_condition: ReadyCondition, now: str, alarms: Mapping[str, str] = {}
) -> Mapping[str, Any]:
    """Return the fields that every status has: observed generation, conditions, annotation errors.

    ``now`` is an RFC 3339 time. ``alarms`` maps further conditions, which are True, to their messages.
    ``annotations`` is left out if there are no annotation errors.
    """
    generation, old = resource.generation, resource.status.get("conditions", ())
    wrong = annotation_errors(resource)
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        # Prepend the error: a message may end with a command that the user copies.
        ready_condition = ready_condition._replace(message=f"annotation {wrong[0]}{more}. {ready_condition.message}")
    status = {
        "observedGeneration": generation,
        "conditions": build_conditions(ready_condition, generation, old, now, alarms),
    }
    return {**status, "annotations": wrong} if wrong else status


def build_conditions(
    ready_condition: ReadyCondition,
    generation: int,
    old: Iterable[Condition],
    now: str,
    alarms: Mapping[str, str] = {},
) -> Sequence[Condition]:
    """Return the conditions of a resource.

    ``old`` are its present conditions, ``now`` is an RFC 3339 time. ``alarms`` maps further conditions to
    their messages; each is present only while it is True. ``Moving`` stays after the last move, as False, so that users
    can wait for it.
    """
    known = {condition.get("type"): condition for condition in old}
    message, reason = truncate_message(ready_condition.message), ready_condition.reason
    drift, drift_reason = ready_condition.drift, Reason.DRIFT_DETECTED.value if ready_condition.drift else reason
    values = [
        ("Ready", "Unknown" if ready_condition.ready is None else str(ready_condition.ready), reason, message),
        ("Reconciling", str(ready_condition.reconciling), reason, message),
        ("Stalled", str(ready_condition.stalled), reason, message),
        ("DriftDetected", str(bool(drift)), drift_reason, truncate_message(drift)),
    ]
    if moving := ready_condition.moving:
        values.append((MOVING, "True", moving.reason, truncate_message(moving.message)))
    elif MOVING in known:
        values.append((MOVING, "False", reason, ""))
    values += [(name, "True", name, truncate_message(words)) for name, words in alarms.items()]
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
    """Return the text cut to ``MAX_MESSAGE_BYTES`` bytes of UTF-8, never within a character."""
    whole = text.encode()
    return text if len(whole) <= MAX_MESSAGE_BYTES else f"{whole[: MAX_MESSAGE_BYTES - 3].decode(errors='ignore')}..."

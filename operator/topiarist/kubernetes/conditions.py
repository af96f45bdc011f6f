"""What became of a resource as conditions, which people, ``kubectl wait`` and whatever reads kstatus understand.

``Ready`` says whether all is as asked; ``Reconciling`` that something is under way and will come by itself, ``Stalled``
that somebody has to do something, ``DriftDetected`` that the cluster was changed outside. All are always there. A time
of transition is kept as long as the status is the same, so that nothing changes on a pass that changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from topiarist.errors import Reason
from topiarist.kubernetes.annotation import annotation_problems
from topiarist.kubernetes.resources import Resource

Condition = Mapping[str, Any]

AWAY = "NamespaceAway"
"""The condition of a Cluster, and its reason, while a namespace that the operator watches is away."""

MOST_TEXT = 1024
"""Bytes of a message, which is as much as an Event takes. The status of each cluster has what is more."""


class Standing(NamedTuple):
    """How a resource stands: ``ready`` None if that is not known. ``reason`` is a CamelCase word.

    ``drift`` says what was changed on the cluster; empty if nothing was.
    """

    ready: bool | None
    reason: str
    message: str
    reconciling: bool = False
    stalled: bool = False
    drift: str = ""


def invalid(wrong: Iterable[str]) -> Standing:
    """How a resource stands that cannot be used as it is; ``wrong`` has one text for each problem."""
    return Standing(False, Reason.INVALID_MANIFEST.value, "\n".join(wrong), stalled=True)


def common(resource: Resource, standing: Standing, now: str, away: Mapping[str, str] = {}) -> Mapping[str, Any]:
    """What every status has: the generation that it speaks of, its conditions, and what is wrong with annotations.

    ``now`` is an RFC 3339 time, ``away`` are the watched namespaces that are away, and why.
    """
    generation, old = resource.generation, resource.status.get("conditions", ())
    wrong = annotation_problems(resource)
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        # In front: a message may end with a command that is copied.
        standing = standing._replace(message=f"annotation {wrong[0]}{more}. {standing.message}")
    status = {"observedGeneration": generation, "conditions": conditions(standing, generation, old, now, away)}
    return {**status, "annotations": wrong} if wrong else status


def conditions(
    standing: Standing, generation: int, old: Iterable[Condition], now: str, away: Mapping[str, str] = {}
) -> Sequence[Condition]:
    """The conditions for a resource; ``old`` are those that it has, ``now`` an RFC 3339 time.

    ``NamespaceAway`` is there only as long as a watched namespace is ``away``.
    """
    known = {condition.get("type"): condition for condition in old}
    ready, message = _word(standing.ready), shortened(standing.message)
    drift = Reason.DRIFT_DETECTED.value if standing.drift else standing.reason
    values = [
        ("Ready", ready, standing.reason, message),
        ("Reconciling", _word(standing.reconciling), standing.reason, message),
        ("Stalled", _word(standing.stalled), standing.reason, message),
        ("DriftDetected", _word(bool(standing.drift)), drift, shortened(standing.drift)),
    ]
    if away:
        words = "; ".join(f"{name}: {why}" for name, why in sorted(away.items()))
        values.append((AWAY, "True", AWAY, shortened(words)))
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


def shortened(text: str) -> str:
    """Return a text that a condition or an Event can hold, cut between two characters if it is too long."""
    whole = text.encode()
    return text if len(whole) <= MOST_TEXT else f"{whole[: MOST_TEXT - 3].decode(errors='ignore')}..."


def _word(value: bool | None) -> str:
    return "Unknown" if value is None else str(value)

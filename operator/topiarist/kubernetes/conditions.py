"""What became of a resource as conditions, which people, ``kubectl wait`` and whatever reads kstatus understand.

``Ready`` says whether all is as asked; ``Reconciling`` that something is under way and will come by itself, ``Stalled``
that somebody has to do something, ``DriftDetected`` that the cluster was changed outside. All are always there. A time
of transition is kept as long as the status is the same, so that nothing changes on a pass that changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from topiarist.errors import Reason
from topiarist.kubernetes.resources import Resource

Condition = Mapping[str, Any]

MOST_TEXT = 1024
"""Characters of a message: what is more stands in the status of each cluster."""


class Standing(NamedTuple):
    """How a resource stands: ``ready`` None if that is not known. ``reason`` is a CamelCase word."""

    ready: bool | None
    reason: str
    message: str
    reconciling: bool = False
    stalled: bool = False
    drifted: bool = False


def invalid(wrong: Iterable[str]) -> Standing:
    """How a resource stands that cannot be used as it is; ``wrong`` has one text for each problem."""
    return Standing(False, Reason.INVALID_MANIFEST.value, "\n".join(wrong), stalled=True)


def common(resource: Resource, standing: Standing, now: str) -> Mapping[str, Any]:
    """What every status has: the generation that it speaks of, and its conditions; ``now`` is an RFC 3339 time."""
    generation, old = resource.generation, resource.status.get("conditions", ())
    return {"observedGeneration": generation, "conditions": conditions(standing, generation, old, now)}


def conditions(standing: Standing, generation: int, old: Iterable[Condition], now: str) -> Sequence[Condition]:
    """The conditions for a resource; ``old`` are those that it has, ``now`` an RFC 3339 time."""
    known = {condition.get("type"): condition for condition in old}
    values = {
        "Ready": _word(standing.ready),
        "Reconciling": _word(standing.reconciling),
        "Stalled": _word(standing.stalled),
        "DriftDetected": _word(standing.drifted),
    }
    message = shortened(standing.message)
    return [
        {
            "type": name,
            "status": status,
            "observedGeneration": generation,
            "lastTransitionTime": known[name]["lastTransitionTime"]
            if name in known and known[name].get("status") == status
            else now,
            "reason": standing.reason,
            "message": message if name == "Ready" or status == "True" else "",
        }
        for name, status in values.items()
    ]


def shortened(text: str) -> str:
    """A text that a condition or an event can hold."""
    return text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 3]}..."


def _word(value: bool | None) -> str:
    return "Unknown" if value is None else str(value)

"""What a pass saw of one topic, made without a pass: a test names only what it is about."""

from __future__ import annotations

from typing import Any

from support import bodies
from topiarist import schema
from topiarist.core.change import Finding
from topiarist.core.spec import ClusterSpec, merge
from topiarist.errors import Reason
from topiarist.kubernetes.candidates import Candidate
from topiarist.kubernetes.passes import State, View
from topiarist.kubernetes.resources import Resource

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"

WHY = {
    State.DRIFTED: Reason.DRIFT_DETECTED,
    State.REFUSED: Reason.DATA_LOSS,
    State.WAITING: Reason.REASSIGNMENT_IN_PROGRESS,
}
"""What stands against a topic of which a test only says the state."""


def spec_of(home: Resource) -> ClusterSpec:
    """What a Cluster says."""
    assert home.manifest is not None
    return schema.cluster_spec(home.manifest)


def view(topic: Resource, state: State, *reasons: Reason, home: Resource | None = None, **fields: Any) -> View:
    """A view; with a refusal of each of these reasons, or of the one that goes with the state."""
    assert topic.manifest is not None
    found = reasons or ((WHY[state],) if state in WHY else ())
    refusals = tuple(Finding(reason, f"because of {reason}") for reason in found)
    candidate = Candidate(topic, merge(topic.manifest, spec_of(home or bodies.cluster())))
    return View(candidate, state, refusals=refusals, **fields)

"""The check that a Topic is current, directly before a change that cannot be undone.

A reconciliation plans from the cache of ``cache``. The watch that fills the cache can lag, for example while the API
server cannot send events, or after a restart. A Topic that was recreated since, or that requests no deletion any more,
must not lose its data because of an old view. ``reconciler`` therefore reads the Topic again before each change that
deletes a topic, may lose data, or recreates a topic that the operator deleted. A later reconciliation corrects all
other changes, so they need no request.
"""

from __future__ import annotations

from collections.abc import Callable

from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.api.resources import FINALIZER, Resource
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import CreateTopic, DeleteTopic, TopicPlan
from topiarist.model.run_options import Risk

ReadTopic = Callable[[Resource], Resource | None]
"""Reads the present Topic of this namespace and name; None if there is none. Raises ``TopiaristError``."""

_COMPARED_FIELDS = ("uid", "generation", "labels", "source", "deleting", "declared_spec")
"""The fields from which a plan is made; a status is not among them."""


def check_current_topic(plan: TopicPlan, resource: Resource, read_topic: ReadTopic) -> Outcome | None:
    """Return the outcome of a plan that was made from an old view of ``resource``; None if it may be written."""
    if not _needs_current_topic(plan):
        return None
    try:
        current = read_topic(resource)
    except TopiaristError as error:
        message = f"it is not known whether the Topic has changed: {error.args[0]}"
        return Outcome(plan.topic, Result.CONFLICT, Reason.STATE_CONFLICT, message)
    if current is not None and _is_same(current, resource):
        return None
    message = "the Topic was changed or deleted since it was read: nothing is written before the operator has read it"
    return Outcome(plan.topic, Result.CONFLICT, Reason.STATE_CONFLICT, message)


def _needs_current_topic(plan: TopicPlan) -> bool:
    recreates = plan.record_before is not None and plan.record_before.deleted
    return any(
        isinstance(change, DeleteTopic)
        or change.assessment.risk is Risk.DATA_LOSS
        or (isinstance(change, CreateTopic) and recreates)
        for change in plan.changes
    )


def _is_same(current: Resource, resource: Resource) -> bool:
    held = FINALIZER in current.finalizers, FINALIZER in resource.finalizers
    return held[0] == held[1] and all(getattr(current, field) == getattr(resource, field) for field in _COMPARED_FIELDS)

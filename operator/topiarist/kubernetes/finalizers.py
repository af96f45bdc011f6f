"""Which Topics carry our finalizer, and which are let go: it keeps a resource until its topic has gone, no longer.

Only ``deletionPolicy: Delete`` needs one. It goes when the topic has gone from every cluster that the Topic is meant
for, and wherever there is nothing that we may delete: another Topic has the claim, the topic was never ours or is only
observed, there is no such Cluster any more, or ``topiarist.dev/retain`` says so.
"""

from __future__ import annotations

from collections.abc import Mapping

from topiarist.errors import Reason
from topiarist.kubernetes.annotation import RETAIN
from topiarist.kubernetes.passes import State, View
from topiarist.kubernetes.resources import FINALIZER, Resource

_NOT_OURS = {Reason.NOT_OWNED, Reason.NOT_ADOPTED, Reason.RESOURCE_CONFLICT, Reason.NOT_ALLOWED}


def finalizers(resource: Resource, views: Mapping[str, View | None], *, sure: bool) -> tuple[str, ...]:
    """The finalizers that a Topic should have.

    ``views`` are those of all clusters that it is meant for, None of those that have not been seen; ``sure`` if it is
    known which these are.
    """
    others = tuple(each for each in resource.finalizers if each != FINALIZER)
    return (*others, FINALIZER) if _keeps(resource, views, sure=sure) else others


def _keeps(resource: Resource, views: Mapping[str, View | None], *, sure: bool) -> bool:
    if resource.annotation(RETAIN) == "true":
        return False
    there = FINALIZER in resource.finalizers
    if resource.deleting and not there:
        return False  # nobody may add one any more
    if resource.manifest is None or not sure:
        return there
    if resource.manifest.spec.get("deletionPolicy") != "Delete":
        return False
    settled = [_settled(view) if view else None for view in views.values()]
    return False in settled or (there and None in settled)


def _settled(view: View) -> bool:
    """Whether there is nothing, or nothing more, that we might delete on a cluster."""
    return view.state in (State.ABSENT, State.OBSERVED) or any(refusal.reason in _NOT_OURS for refusal in view.refusals)

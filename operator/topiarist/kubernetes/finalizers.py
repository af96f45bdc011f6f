"""Which Topics carry our finalizer, and which are let go: it keeps a resource until its topic has gone, no longer.

Only ``deletionPolicy: Delete`` needs one. It goes when the topic has gone from every cluster that the Topic is meant
for, and wherever there is nothing that we may delete: another Topic has the claim, the topic was never ours, there is
no such Cluster any more, or ``topiarist.dev/retain`` says so.
"""

from __future__ import annotations

from collections.abc import Mapping

from topiarist.errors import Reason
from topiarist.kubernetes.passes import State, View
from topiarist.kubernetes.permission import RETAIN
from topiarist.kubernetes.resources import FINALIZER, Resource

_NOT_OURS = {Reason.NOT_OWNED, Reason.NOT_ADOPTED, Reason.RESOURCE_CONFLICT, Reason.NOT_ALLOWED}


def finalizers(resource: Resource, views: Mapping[str, View]) -> tuple[str, ...]:
    """The finalizers that a Topic should have; ``views`` are those of all clusters that it is meant for."""
    others = tuple(each for each in resource.finalizers if each != FINALIZER)
    return (*others, FINALIZER) if _keeps(resource, views) else others


def _keeps(resource: Resource, views: Mapping[str, View]) -> bool:
    if resource.annotation(RETAIN) == "true" or not views:
        return False
    if resource.deleting:
        return FINALIZER in resource.finalizers and not all(map(_settled, views.values()))
    wanted = resource.manifest is not None and resource.manifest.spec.get("deletionPolicy") == "Delete"
    return wanted and not all(map(_settled, views.values()))


def _settled(view: View) -> bool:
    """Whether there is nothing, or nothing more, that we might delete on a cluster."""
    return view.state is State.ABSENT or any(refusal.reason in _NOT_OURS for refusal in view.refusals)

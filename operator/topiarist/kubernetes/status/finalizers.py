"""The finalizer of Topics: keeps a resource until its topic is deleted, and no longer.

``manager`` calls ``needs_finalizer`` for each Topic. Only ``deletionPolicy: Delete`` needs a finalizer. It is removed
when the topic is deleted from every target cluster of the Topic. A cluster without a topic that the operator may delete
does not count: another Topic claims the topic, the topic was never owned by the operator or is only observed, or the
Cluster no longer exists. ``topiarist.dev/retain: "true"`` removes the finalizer at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from topiarist.errors import Reason
from topiarist.kubernetes.api.resources import FINALIZER, Resource
from topiarist.kubernetes.approval import RETAIN
from topiarist.kubernetes.reconciler import SyncState, TopicResult

_NOT_DELETABLE_REASONS = {Reason.NOT_OWNED, Reason.NOT_ADOPTED, Reason.RESOURCE_CONFLICT, Reason.NOT_ALLOWED}


def needs_finalizer(resource: Resource, results: Mapping[str, TopicResult | None], *, all_clusters_known: bool) -> bool:
    """Return whether a Topic should have topiarist's finalizer.

    ``results`` maps each target cluster of the Topic to its result, None if the cluster has not been read.
    ``all_clusters_known`` is False if the target clusters cannot be determined: the finalizer is then left as it is.
    """
    if resource.annotation(RETAIN) == "true":
        return False
    there = FINALIZER in resource.finalizers
    if resource.deleting and not there:
        return False  # the API server accepts no new finalizer on a resource that is being deleted
    if resource.manifest is None or not all_clusters_known:
        return there
    if resource.manifest.spec.get("deletionPolicy") != "Delete":
        return False
    settled = [_is_final(view) if view else None for view in results.values()]
    return False in settled or (there and None in settled)


def _is_final(result: TopicResult) -> bool:
    """Return whether the operator has nothing (left) to delete on a cluster."""
    return result.state in (SyncState.ABSENT, SyncState.OBSERVED) or any(
        refusal.reason in _NOT_DELETABLE_REASONS for refusal in result.refusals
    )

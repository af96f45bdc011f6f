"""Which Topics carry our finalizer, and which are let go: it keeps a resource until its topic has gone, no longer.

Only ``deletionPolicy: Delete`` needs one. It goes when the topic has gone from every cluster that the Topic is meant
for, and wherever there is nothing that we may delete: another Topic has the claim, the topic was never ours or is only
observed, there is no such Cluster any more, or ``topiarist.dev/retain`` says so.
"""

from __future__ import annotations

from collections.abc import Mapping

from topiarist.errors import Reason
from topiarist.kubernetes.annotations import RETAIN
from topiarist.kubernetes.api.resources import FINALIZER, Resource
from topiarist.kubernetes.reconciler import SyncState, TopicResult

_NOT_DELETABLE_REASONS = {Reason.NOT_OWNED, Reason.NOT_ADOPTED, Reason.RESOURCE_CONFLICT, Reason.NOT_ALLOWED}


def required_finalizers(
    resource: Resource, results: Mapping[str, TopicResult | None], *, all_clusters_known: bool
) -> tuple[str, ...]:
    """The finalizers that a Topic should have.

    ``results`` are those of all clusters that it is meant for, None of those that have not been seen;
    ``all_clusters_known`` if it is known which these are.
    """
    others = tuple(each for each in resource.finalizers if each != FINALIZER)
    return (
        (*others, FINALIZER) if _needs_finalizer(resource, results, all_clusters_known=all_clusters_known) else others
    )


def _needs_finalizer(
    resource: Resource, results: Mapping[str, TopicResult | None], *, all_clusters_known: bool
) -> bool:
    if resource.annotation(RETAIN) == "true":
        return False
    there = FINALIZER in resource.finalizers
    if resource.deleting and not there:
        return False  # nobody may add one any more
    if resource.manifest is None or not all_clusters_known:
        return there
    if resource.manifest.spec.get("deletionPolicy") != "Delete":
        return False
    settled = [_is_final(view) if view else None for view in results.values()]
    return False in settled or (there and None in settled)


def _is_final(result: TopicResult) -> bool:
    """Whether there is nothing, or nothing more, that we might delete on a cluster."""
    return result.state in (SyncState.ABSENT, SyncState.OBSERVED) or any(
        refusal.reason in _NOT_DELETABLE_REASONS for refusal in result.refusals
    )

"""topiarist's annotations on Topics and Clusters, and the errors in them.

The API server does not validate annotations, so ``status.conditions``, ``approval`` and ``reconciler`` check them with
this module. A mistyped pause or retention must not lead to a write: an unknown value of ``paused`` pauses, and any
annotation error of a Topic blocks the deletion of its topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from topiarist.kubernetes import consent
from topiarist.kubernetes.api.resources import Resource
from topiarist.schema import load
from topiarist.schema.messages import did_you_mean
from topiarist.text import quote

PAUSED = "paused"
"""The annotation that pauses changes for a Topic, or for all Topics of a Cluster."""

RETAIN = "retain"
"""The annotation that allows the deletion of a Topic without the deletion of its topic."""

BOOLEAN_ANNOTATIONS = (PAUSED, RETAIN)
"""Annotations with the value ``"true"`` or ``"false"``."""

ANNOTATIONS_BY_KIND: Mapping[str, tuple[str, ...]] = {
    "Topic": (*BOOLEAN_ANNOTATIONS, *consent.CONSENT_ANNOTATIONS),
    "Cluster": (PAUSED,),
    "Policy": (),
}
"""The annotations that are known on each kind."""

MAX_ERRORS = 10

_RENDER_ANNOTATIONS = ("from-broker-config", "from-defaults")
"""Annotations that ``topiarist render`` writes for information; the operator ignores them."""

_PRODUCT_NAME = "topiarist"


def is_paused(resource: Resource) -> bool:
    """Return whether a resource is paused; any value except ``false`` pauses."""
    return resource.source.annotations.get(f"{load.API_GROUP}/{PAUSED}", "false") != "false"


def annotation_errors(resource: Resource) -> list[str]:
    """Return the errors in a resource's annotations, one text each, at most ``MAX_ERRORS``."""
    annotations = resource.source.annotations
    # Fast path: this runs for every resource in every reconciliation, and most have no annotation of topiarist.
    if not any(_PRODUCT_NAME in key for key in annotations):
        return []
    return [*_find_errors(resource)][:MAX_ERRORS]


def _find_errors(resource: Resource) -> Iterator[str]:
    known = ANNOTATIONS_BY_KIND[resource.kind]
    for key, value in sorted(resource.source.annotations.items()):
        domain, _, name = key.rpartition("/")
        if domain != load.API_GROUP:
            if _PRODUCT_NAME in domain and name in known:
                yield f"{key} is not known: did you mean {load.API_GROUP}/{name}?"
        elif name in _RENDER_ANNOTATIONS:
            continue
        elif name not in known:
            hint = did_you_mean(name, known)
            yield ": ".join(filter(None, (f"{key} is not known on a {resource.kind}", hint)))
        elif name in BOOLEAN_ANNOTATIONS and value not in ("true", "false"):
            taken = ": it counts as a pause" if name == PAUSED else ""
            yield f'{key}: found {quote(value)}, wanted "true" or "false"{taken}'
        elif name in consent.CONSENT_ANNOTATIONS and not consent.is_well_formed(value):
            yield f"{key}: found {quote(value)}, which consents to nothing: wanted the digest that a refusal gives"

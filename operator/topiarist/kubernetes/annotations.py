"""Annotations of ours on Topics and Clusters, and what is wrong with them: an API server checks none of it.

A pause or a retention that is mistyped must not end in a write, so an unknown value of ``paused`` pauses, and whatever
is wrong with a Topic's annotations holds the deletion of its topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from topiarist.kubernetes import consent
from topiarist.kubernetes.api.resources import Resource
from topiarist.schema import load
from topiarist.schema.messages import did_you_mean
from topiarist.text import quote

PAUSED = "paused"
"""The annotation by which a Topic or a Cluster is left alone for a while."""

RETAIN = "retain"
"""The annotation by which a Topic is let go without its topic."""

BOOLEAN_ANNOTATIONS = (PAUSED, RETAIN)
"""Annotations that are ``"true"`` or ``"false"``."""

ANNOTATIONS_BY_KIND: Mapping[str, tuple[str, ...]] = {
    "Topic": (*BOOLEAN_ANNOTATIONS, *consent.CONSENT_ANNOTATIONS),
    "Cluster": (PAUSED,),
    "Policy": (),
}
"""The annotations that each kind may have."""

MAX_ERRORS = 10

_RENDER_ANNOTATIONS = ("from-broker-config", "from-defaults")
"""Annotations that ``topiarist render`` writes, and that nothing reads."""

_PRODUCT_NAME = "topiarist"


def is_paused(resource: Resource) -> bool:
    """Return whether a resource is to be left alone: also if nobody can say what its annotation means."""
    return resource.source.annotations.get(f"{load.API_GROUP}/{PAUSED}", "false") != "false"


def annotation_errors(resource: Resource) -> list[str]:
    """Return what is wrong with a resource's annotations, one text each, the first of them."""
    annotations = resource.source.annotations
    if not any(_PRODUCT_NAME in key for key in annotations):  # as most have none, and all are asked in each pass
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

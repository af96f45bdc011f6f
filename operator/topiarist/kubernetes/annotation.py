"""Annotations of ours on Topics and Clusters, and what is wrong with them: an API server checks none of it.

A pause or a retention that is mistyped must not end in a write, so an unknown value of ``paused`` pauses, and whatever
is wrong with a Topic's annotations holds the deletion of its topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from topiarist import schema
from topiarist.core.values import quoted
from topiarist.kubernetes import consent
from topiarist.kubernetes.resources import Resource
from topiarist.schema.words import guess

PAUSED = "paused"
"""The annotation by which a Topic or a Cluster is left alone for a while."""

RETAIN = "retain"
"""The annotation by which a Topic is let go without its topic."""

SWITCHES = (PAUSED, RETAIN)
"""Annotations that are ``"true"`` or ``"false"``."""

KNOWN: Mapping[str, tuple[str, ...]] = {"Topic": (*SWITCHES, *consent.CONSENTS), "Cluster": (PAUSED,), "Policy": ()}
"""The annotations that each kind may have."""

MAX_PROBLEMS = 10

_MARKS = ("from-broker-config", "from-defaults")
"""Annotations that ``topiarist render`` writes, and that nothing reads."""

_NAME = "topiarist"


def is_paused(resource: Resource) -> bool:
    """Return whether a resource is to be left alone: also if nobody can say what its annotation means."""
    return resource.source.annotations.get(f"{schema.GROUP}/{PAUSED}", "false") != "false"


def annotation_problems(resource: Resource) -> list[str]:
    """Return what is wrong with a resource's annotations, one text each, the first of them."""
    annotations = resource.source.annotations
    if not any(_NAME in key for key in annotations):  # as most have none, and all are asked in each pass
        return []
    return [*_problems(resource)][:MAX_PROBLEMS]


def _problems(resource: Resource) -> Iterator[str]:
    known = KNOWN[resource.kind]
    for key, value in sorted(resource.source.annotations.items()):
        domain, _, name = key.rpartition("/")
        if domain != schema.GROUP:
            if _NAME in domain and name in known:
                yield f"{key} is not known: did you mean {schema.GROUP}/{name}?"
        elif name in _MARKS:
            continue
        elif name not in known:
            hint = guess(name, known)
            yield ": ".join(filter(None, (f"{key} is not known on a {resource.kind}", hint)))
        elif name in SWITCHES and value not in ("true", "false"):
            taken = ": it counts as a pause" if name == PAUSED else ""
            yield f'{key}: found {quoted(value)}, wanted "true" or "false"{taken}'
        elif name in consent.CONSENTS and not consent.well_formed(value):
            yield f"{key}: found {quoted(value)}, which consents to nothing: wanted the digest that a refusal gives"

"""One topic at a time, as a Python worker of Spark sees it: a joined row in, the rows of its findings out.

The same ``compared`` as for a whole cluster, over a state with one topic; what else of its cluster the topic's plan
rests on comes with the ``Frame``. No Spark in here: what runs on a worker can be tested without one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from topiarist.adapters.snapshot import state_of, time_of
from topiarist.core.plan import Run, context_of
from topiarist.core.spec import ClusterSpec
from topiarist.drift.comparing import compared
from topiarist.drift.desired_rows import spec_of
from topiarist.drift.findings import Row
from topiarist.drift.observing import Observation
from topiarist.drift.unevenness import Sighting, sighting


@dataclass(frozen=True, slots=True)
class Frame:
    """What all topics of a cluster share: its document, without what a worker must not have, and its own row.

    ``holders`` are brokers that hold replicas and are not registered; ``neighbours`` topics by the declared ones with
    which their names collide.
    """

    cluster: ClusterSpec
    head: Row
    holders: frozenset[int] = frozenset()
    neighbours: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Done(NamedTuple):
    """What came of one joined row: its findings, and what it adds to the cluster's counts.

    ``declared`` is the topic of its spec, empty without one; ``seen`` that topic as other clusters are compared with.
    """

    cluster: str
    rows: list[Row]
    in_order: int = 0
    unrecorded: int = 0
    left_alone: int = 0
    declared: str = ""
    seen: Sighting | None = None


def work(pairs: Iterable[tuple[str, str]], frames: Mapping[str, Frame], run: Run) -> Iterator[Done]:
    """The findings of joined rows, each the cluster's name and JSON with ``d``, its spec, and ``a``, what is there."""
    for cluster, text in pairs:
        yield settle(cluster, json.loads(text), frames[cluster], run)


def settle(cluster: str, pair: Mapping[str, Any], frame: Frame, run: Run) -> Done:
    """The findings of one joined row; either side may be missing."""
    desired, actual = pair["d"], pair["a"]
    state = state_of(frame.head, [actual] if actual else [])
    specs = [spec_of(desired, frame.cluster)] if desired else []
    declared = specs[0].topic if specs else ""
    context = context_of(state, frame.cluster, run, frame.holders, frame.neighbours.get(declared, ()))
    taken = frame.head["takenAt"]
    done = compared(Observation(cluster, time_of(taken), state), context, specs, taken)
    seen = sighting(specs[0], state.topics.get(declared)) if specs else None
    return Done(cluster, done.rows, done.in_order, done.unrecorded, done.left_alone, declared, seen)

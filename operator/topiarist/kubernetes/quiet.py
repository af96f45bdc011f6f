"""Topics of which the last pass had nothing to say: they are not planned again while nothing that a plan is made from
has changed.

Ten thousand topics in step cost a pass their reading, and next to nothing else. Nothing is guessed: what a topic's plan
is made from are its spec, its state, and what is the same for all topics; ``passes`` plans whatever differs in any.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from topiarist.core.plan import Run
from topiarist.core.spec import ClusterSpec, TopicSpec
from topiarist.core.state import ClusterState, Room, TopicState


class Quiet:
    """The memory of one cluster's passes."""

    def __init__(self) -> None:
        self._shared: object = None
        self._known: dict[str, tuple[TopicSpec, TopicState | None]] = {}

    def others(
        self, state: ClusterState, cluster: ClusterSpec, run: Run, specs: Iterable[TopicSpec]
    ) -> list[TopicSpec]:
        """Those of ``specs`` that have to be planned."""
        # Room counts for changes only, and a topic with changes is never quiet.
        shared = replace(state, topics={}, room=Room()), cluster, run
        if shared != self._shared:
            self._shared, self._known = shared, {}
        return [spec for spec in specs if not self._is_known(spec, state.topics.get(spec.topic))]

    def note(self, spec: TopicSpec, found: TopicState | None, *, quiet: bool) -> None:
        """Whether there was anything to say of a topic that was planned."""
        if quiet:
            self._known[spec.topic] = spec, found
        else:
            self._known.pop(spec.topic, None)

    def _is_known(self, spec: TopicSpec, found: TopicState | None) -> bool:
        known = self._known.get(spec.topic)
        return known is not None and known[0] is spec and known[1] is found

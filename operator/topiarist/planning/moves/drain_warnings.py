"""Warnings about drained brokers that are not empty after the plan, or that return with old logs.

A refused topic says by itself that it stays on a drained broker. Topics without a manifest are in no plan, so their
replicas are only counted. ``planning/planner.py`` calls this module.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from topiarist.model.plan import TopicPlan
from topiarist.model.state import ClusterState
from topiarist.text import format_count


def find_drain_warnings(
    state: ClusterState, drained: Collection[int], declared: Collection[str], plans: Iterable[TopicPlan]
) -> Iterator[str]:
    """Yield a warning for each drained broker that topics without a manifest stay on, or that is not registered.

    ``declared`` are the topics with a manifest, ``plans`` those of them that are not as declared.
    """
    if not drained:
        return
    registered = {broker.id for broker in state.brokers}
    left = {broker for topic in plans if topic.is_actionable for move in topic.moves() for broker in move.removed}
    others = [
        topic for name, topic in state.topics.items() if name not in declared and name not in state.pending_deletions
    ]
    for broker in sorted(drained):
        counts = [sum(replicas.count(broker) for replicas in topic.replicas) for topic in others]
        if replicas := sum(counts):
            topics = format_count(sum(map(bool, counts)), "topic")
            yield f"drained broker {broker} keeps {format_count(replicas, 'replica')} of {topics} without a manifest"
        if broker in left and broker not in registered:
            # Kafka's controller asks a broker once to delete a log, and not again when an offline broker is back.
            yield (
                f"drained broker {broker} is not registered: the logs of the replicas that leave it stay on its disk; "
                "delete them before it comes back"
            )

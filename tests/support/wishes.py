"""Short ways to say what a test wants of a cluster: specs without files, plans, and their results."""

from __future__ import annotations

from typing import Any

from topiarist.core.change import Plan
from topiarist.core.plan import Run, make_plan
from topiarist.core.spec import ClusterSpec, Manifest, TopicSpec, merge
from topiarist.errors import Path, Place
from topiarist.reconcile import Cluster, Outcome, Result

ALL = Run(adopt=("*",))
"""A run that takes over whatever it finds."""


class Nowhere:
    """The source of documents that stand in no file."""

    def place(self, path: Path = ()) -> Place:
        """Always the same."""
        return Place("nowhere.yaml", 1, 1)


def wish(name: str, cluster: ClusterSpec | None = None, **fields: Any) -> TopicSpec:
    """A topic's spec as from a manifest, by default 2 partitions with 3 replicas."""
    fields = {"partitions": 2, "replicationFactor": 3} | fields
    return merge(Manifest("Topic", name, "", {}, fields, Nowhere()), cluster or ClusterSpec())


def planned(cluster: Cluster, *specs: TopicSpec, run: Run = ALL) -> Plan:
    """The plan for these specs."""
    return make_plan(cluster.read(), ClusterSpec(), specs, run)


def outcomes(cluster: Cluster, plan: Plan) -> dict[str, Outcome]:
    """Carry the plan out; outcomes by topic."""
    return {outcome.topic: outcome for outcome in cluster.apply(plan, lambda: False)}


def results(cluster: Cluster, plan: Plan) -> dict[str, Result]:
    """Carry the plan out; results by topic."""
    return {topic: outcome.result for topic, outcome in outcomes(cluster, plan).items()}

"""Short builders of specs without files, of plans, and of their results."""

from __future__ import annotations

from typing import Any

from topiarist.desired.shared_specs import merge
from topiarist.errors import FieldPath, Location
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Plan, RunOptions
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec
from topiarist.planning.planner import make_plan
from topiarist.ports import Cluster

ADOPT_ALL = RunOptions(adopt=("*",))
"""A run that takes over whatever it finds."""


class FixedSource:
    """The source of documents without a file."""

    def locate(self, path: FieldPath = ()) -> Location:
        """Return the same location for every path."""
        return Location("nowhere.yaml", 1, 1)


def topic_spec(name: str, cluster: ClusterSpec | None = None, **fields: Any) -> TopicSpec:
    """Return the spec of a topic as from a manifest, by default 2 partitions with 3 replicas."""
    fields = {"partitions": 2, "replicationFactor": 3} | fields
    return merge(Manifest("Topic", name, "", {}, fields, FixedSource()), cluster or ClusterSpec())


def plan_specs(cluster: Cluster, *specs: TopicSpec, run: RunOptions = ADOPT_ALL) -> Plan:
    """Return the plan for these specs."""
    return make_plan(cluster.read(), ClusterSpec(), specs, run)


def apply_outcomes(cluster: Cluster, plan: Plan) -> dict[str, Outcome]:
    """Apply the plan; return outcomes by topic."""
    return {outcome.topic: outcome for outcome in cluster.apply(plan, lambda: False)}


def apply_results(cluster: Cluster, plan: Plan) -> dict[str, Result]:
    """Apply the plan; return results by topic."""
    return {topic: outcome.result for topic, outcome in apply_outcomes(cluster, plan).items()}

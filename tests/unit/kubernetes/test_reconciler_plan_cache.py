"""Topics that are not planned again while every input of their plan is unchanged."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from support import states
from support.kubernetes import resource_bodies
from topiarist.adapters.size_limits import REQUEST_LIMITS
from topiarist.desired import parse
from topiarist.desired.shared_specs import merge
from topiarist.kafka.types import Broker
from topiarist.kubernetes.reconciler import PlanCache
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import ClusterState

Shared = tuple[ClusterState, ClusterSpec, RunOptions]

RUN = RunOptions(owner="k8s/shop/topiarist")


def spec(cluster: ClusterSpec, name: str = "orders") -> TopicSpec:
    """Return the spec of a Topic."""
    manifest = resource_bodies.topic(name).manifest
    assert manifest is not None
    return merge(manifest, cluster)


def shared() -> Shared:
    """Return a cluster with a synced topic, as a pass reads it."""
    manifest = resource_bodies.cluster().manifest
    assert manifest is not None
    return states.cluster(states.topic("orders", owner=RUN.owner)), parse.parse_cluster_spec(manifest), RUN


def test_a_quiet_topic_is_planned_once() -> None:
    """It is planned again after a change; a topic with a message is planned each time."""
    state, cluster, run = shared()
    wanted, quiet = spec(cluster), PlanCache()
    assert quiet.changed_specs(state, cluster, run, [wanted]) == [wanted]
    quiet.update(wanted, state.topics["orders"], quiet=False)
    assert quiet.changed_specs(state, cluster, run, [wanted]) == [wanted]
    quiet.update(wanted, state.topics["orders"], quiet=True)
    assert quiet.changed_specs(state, cluster, run, [wanted]) == []
    assert quiet.changed_specs(replace(state, size_limits=REQUEST_LIMITS), cluster, run, [wanted]) == []
    quiet.update(wanted, state.topics["orders"], quiet=False)
    assert quiet.changed_specs(state, cluster, run, [wanted]) == [wanted]


@pytest.mark.parametrize(
    "change",
    [
        lambda state, cluster, run: (replace(state, brokers=(*state.brokers, Broker(99, None))), cluster, run),
        lambda state, cluster, run: (replace(state, pending_deletions=frozenset({"orders"})), cluster, run),
        lambda state, cluster, run: (replace(state, broker_defaults={"min.insync.replicas": "2"}), cluster, run),
        lambda state, cluster, run: (replace(state, topics={}), cluster, run),
        lambda state, cluster, run: (
            replace(state, topics={"orders": replace(state.topics["orders"], config={"flush.ms": "7"})}), cluster, run
        ),
        lambda state, cluster, run: (state, replace(cluster, exclude_brokers=frozenset({1})), run),
        lambda state, cluster, run: (state, cluster, replace(run, adopt=("*",))),
    ],
)  # fmt: skip
def test_what_a_plan_is_made_from_breaks_the_quiet(
    change: Callable[[ClusterState, ClusterSpec, RunOptions], Shared],
) -> None:
    """A change of the topic, or of a shared input, causes a new plan."""
    state, cluster, run = shared()
    wanted, quiet = spec(cluster), PlanCache()
    quiet.changed_specs(state, cluster, run, [wanted])
    quiet.update(wanted, state.topics["orders"], quiet=True)
    assert quiet.changed_specs(*change(state, cluster, run), [wanted]) == [wanted]


def test_another_spec_breaks_the_quiet() -> None:
    """Another spec object causes a new plan, also if it is equal."""
    state, cluster, run = shared()
    wanted, quiet = spec(cluster), PlanCache()
    quiet.changed_specs(state, cluster, run, [wanted])
    quiet.update(wanted, state.topics["orders"], quiet=True)
    again = spec(cluster)
    assert quiet.changed_specs(state, cluster, run, [again]) == [again]

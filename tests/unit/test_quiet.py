"""Topics that are not planned again: only while nothing that their plan is made from has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from support import bodies, states
from topiarist import schema
from topiarist.core.plan import Run
from topiarist.core.spec import ClusterSpec, TopicSpec, merge
from topiarist.core.state import Broker, ClusterState, Room
from topiarist.kubernetes.quiet import Quiet

Shared = tuple[ClusterState, ClusterSpec, Run]

RUN = Run(owner="k8s/shop/topiarist")


def spec(cluster: ClusterSpec, name: str = "orders") -> TopicSpec:
    """What a Topic asks for."""
    manifest = bodies.topic(name).manifest
    assert manifest is not None
    return merge(manifest, cluster)


def shared() -> Shared:
    """A cluster with a topic in step, as a pass sees it."""
    manifest = bodies.cluster().manifest
    assert manifest is not None
    return states.cluster(states.topic("orders", owner=RUN.owner)), schema.cluster_spec(manifest), RUN


def test_a_quiet_topic_is_planned_once() -> None:
    """Until it is said to be quiet no more; and one with something to say is planned each time."""
    state, cluster, run = shared()
    wanted, quiet = spec(cluster), Quiet()
    assert quiet.others(state, cluster, run, [wanted]) == [wanted]
    quiet.note(wanted, state.topics["orders"], quiet=False)
    assert quiet.others(state, cluster, run, [wanted]) == [wanted]
    quiet.note(wanted, state.topics["orders"], quiet=True)
    assert quiet.others(state, cluster, run, [wanted]) == []
    assert quiet.others(replace(state, room=Room(topics=7)), cluster, run, [wanted]) == []
    quiet.note(wanted, state.topics["orders"], quiet=False)
    assert quiet.others(state, cluster, run, [wanted]) == [wanted]


@pytest.mark.parametrize(
    "change",
    [
        lambda state, cluster, run: (replace(state, brokers=(*state.brokers, Broker(99, None))), cluster, run),
        lambda state, cluster, run: (replace(state, deleting=frozenset({"orders"})), cluster, run),
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
    change: Callable[[ClusterState, ClusterSpec, Run], Shared],
) -> None:
    """Of the topic itself, and of what is the same for all."""
    state, cluster, run = shared()
    wanted, quiet = spec(cluster), Quiet()
    quiet.others(state, cluster, run, [wanted])
    quiet.note(wanted, state.topics["orders"], quiet=True)
    assert quiet.others(*change(state, cluster, run), [wanted]) == [wanted]


def test_another_spec_breaks_the_quiet() -> None:
    """Also one that says the same: who made it may have had a reason."""
    state, cluster, run = shared()
    wanted, quiet = spec(cluster), Quiet()
    quiet.others(state, cluster, run, [wanted])
    quiet.note(wanted, state.topics["orders"], quiet=True)
    again = spec(cluster)
    assert quiet.others(state, cluster, run, [again]) == [again]

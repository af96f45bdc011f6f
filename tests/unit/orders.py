"""One pass of the operator over a cluster in memory: what it is to do, and what it saw of each topic."""

from __future__ import annotations

import re
from typing import Any

from support import bodies, states
from topiarist import schema
from topiarist.adapters.memory import MemoryCluster
from topiarist.core.spec import merge
from topiarist.core.state import ClusterState, TopicState
from topiarist.errors import Reason
from topiarist.kubernetes.candidates import candidate, candidates
from topiarist.kubernetes.passes import Order, View, look
from topiarist.kubernetes.resources import FINALIZER, Resource

OWNER = "k8s/shop/topiarist"
DELETING = {"deletionTimestamp": "2026-02-01T00:00:00Z", "finalizers": [FINALIZER]}
SHORT, LONG = "3600000", "604800000"


def order(home: Resource, *topics: Resource, **fields: Any) -> Order:
    """What a pass over the cluster ``home`` is to do for these Topics."""
    assert home.manifest is not None
    spec = schema.cluster_spec(home.manifest)
    specs = [candidate(each, merge(each.manifest, spec)) for each in topics if each.manifest is not None]
    return Order(home, spec, candidates(spec, home.namespace, specs, {}), OWNER, **fields)


def passed(port: MemoryCluster, wanted: Order) -> dict[str, View]:
    """A pass, and the view of each topic."""
    seen = look(port, wanted, lambda: False)
    assert seen.error is None
    return {view.candidate.spec.topic: view for view in seen.views}


def reasons(view: View) -> list[Reason]:
    """Why something was refused."""
    return [refusal.reason for refusal in view.refusals]


def ours(name: str, partitions: int = 3, **config: str) -> TopicState:
    """A topic of the operator's on the cluster."""
    named = {key.replace("_", "."): text for key, text in config.items()}
    return states.topic(name, partitions, config=named, ours=sorted(named), owner=OWNER)


def command(view: View) -> tuple[str, str]:
    """The annotation, and its value, in the command that the first refusal of a topic gives."""
    (found,) = re.findall(r" (topiarist\.dev/[a-z-]+)=(sha256:[0-9a-f]{16})", view.refusals[0].instead)
    return str(found[0]), str(found[1])


def consenting(home: Resource, topic: Resource, state: ClusterState) -> Resource:
    """The Topic once its owner has copied the command of the refusal."""
    annotation, digest = command(passed(MemoryCluster(state), order(home, topic))[topic.topic])
    return bodies.again(topic, annotations={annotation: digest})

"""Health of topiarist's statuses in Argo CD and Flux: the samples, run by a real Lua and a real CEL."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import combinations, product
from typing import Any

import pytest
import yaml
from cel_expr_python import cel
from lupa import lua51
from msgspec.structs import replace

from support import states
from support.checkout import ROOT
from support.kubernetes import resource_bodies
from topiarist.adapters.memory import MemoryCluster
from topiarist.desired import parse
from topiarist.desired.merge import merge
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.api.resources import FINALIZER, Resource
from topiarist.kubernetes.cache import build_candidate, select_candidates
from topiarist.kubernetes.moves import TopicMoves
from topiarist.kubernetes.reconciler import ReconcileRequest, ReconcileResult, SyncState, TopicResult, reconcile_cluster
from topiarist.kubernetes.status.cluster import cluster_status, policy_status
from topiarist.kubernetes.status.topic import ReadyCondition, build_conditions, topic_status
from topiarist.schema import load

GITOPS = ROOT / "manifests" / "gitops"
NOW = "2026-01-01T00:00:00Z"
CLOCK = datetime.fromisoformat(NOW)
OWNER = "k8s/shop/topiarist"
DELETING = {"deletionTimestamp": NOW, "finalizers": [FINALIZER]}
PAUSED = {"annotations": {"topiarist.dev/paused": "true"}}

Body = Mapping[str, Any]

MEANS = {"Healthy": "current", "Progressing": "inProgress", "Suspended": "inProgress", "Degraded": "failed"}
"""What Argo CD says, in the words of Flux, which knows nothing of pauses."""


def argocd() -> Mapping[str, str]:
    """Return the scripts of the sample by kind."""
    prefix = "resource.customizations.health.topiarist.dev_"
    config = yaml.safe_load((GITOPS / "argocd" / "argocd-cm.yaml").read_text())
    return {key.removeprefix(prefix): text for key, text in config["data"].items()}


def flux() -> list[Mapping[str, str]]:
    """Return all health check entries of the samples."""
    found = [each for file in GITOPS.glob("flux/*.yaml") for each in yaml.safe_load_all(file.read_text())]
    return [check for each in found for check in each["spec"]["healthCheckExprs"]]


SCRIPT = argocd()["Topic"]
EXPRESSIONS = {word: text for word, text in flux()[0].items() if word in MEANS.values()}
ENV = cel.NewEnv(variables={"metadata": cel.Type.DYN, "status": cel.Type.DYN})
PROGRAMS = {word: ENV.compile(text) for word, text in EXPRESSIONS.items()}


def health(body: Body) -> tuple[str, str]:
    """Return the status and message that Argo CD shows, from Lua 5.1 with almost no libraries."""
    runtime = lua51.LuaRuntime(register_eval=False, register_builtins=False)
    runtime.execute('debug.setmetatable("", nil) string, math, io, os, debug, python = nil')
    runtime.globals().obj = runtime.table_from(body, recursive=True)
    found = runtime.execute(SCRIPT)
    assert set(found) == {"status", "message"}
    return found.status, found.message


def outcomes(body: Body) -> set[str]:
    """Return the Flux expressions that are true for a resource."""
    values = {word: program.eval(ENV.Activation(body)).value() for word, program in PROGRAMS.items()}
    assert all(isinstance(value, bool) for value in values.values()), values
    return {word for word, value in values.items() if value}


def body(resource: Resource, status: Body) -> Body:
    """Return a resource as the API server stores it, with its status."""
    metadata = {"name": resource.name, "generation": resource.generation}
    return {"metadata": metadata | ({"deletionTimestamp": NOW} if resource.deleting else {}), "status": status}


def viewed(
    topic: Resource, *there: Any, home: Resource | None = None, was: bool = False, passes: int = 1
) -> TopicResult:
    """Return a Topic after passes of the operator over these topics; ``was``: it matched its spec before."""
    home = home or resource_bodies.cluster(allowDeletion=True)
    assert home.manifest is not None
    assert topic.manifest is not None
    cluster = parse.parse_cluster_spec(home.manifest)
    spec = merge(topic.manifest, cluster)
    if was:
        there = tuple(
            replace(each, record=states.topic("orders", owner=OWNER, applied_spec=spec).record) for each in there
        )
    port = MemoryCluster(states.cluster(*there))
    for _ in range(passes):
        order = ReconcileRequest(
            home, cluster, select_candidates(cluster, "shop", [build_candidate(topic, spec)], {}), OWNER
        )
        (view,) = reconcile_cluster(port, order, lambda: False).topic_results
    return view


def ours(name: str = "orders", **config: str) -> Any:
    """Return a topic on the cluster that the operator owns."""
    return states.topic(name, config={key.replace("_", "."): text for key, text in config.items()}, owner=OWNER)


STANDS: Mapping[SyncState, tuple[TopicResult, str]] = {
    SyncState.ABSENT: (viewed(resource_bodies.topic("orders", ensure="Absent")), "Healthy"),
    SyncState.CHANGED: (viewed(resource_bodies.topic("orders")), "Progressing"),
    SyncState.DRIFTED: (
        viewed(resource_bodies.topic("orders", config={"flush.ms": 7}), ours(flush_ms="9"), was=True),
        "Degraded",
    ),
    SyncState.MOVING: (
        viewed(resource_bodies.topic("orders"), ours())._replace(state=SyncState.MOVING, moves=TopicMoves(3, 1, 1, 2)),
        "Progressing",
    ),
    SyncState.SYNCED: (viewed(resource_bodies.topic("orders"), passes=2), "Healthy"),
    SyncState.OBSERVED: (viewed(resource_bodies.topic("orders", mode="Observe")), "Healthy"),
    SyncState.PAUSED: (viewed(resource_bodies.topic("orders", meta=PAUSED)), "Suspended"),
    SyncState.REFUSED: (viewed(resource_bodies.topic("orders", partitions=1), ours()), "Degraded"),
    SyncState.WAITING: (viewed(resource_bodies.topic("orders", ensure="Absent"), ours()), "Progressing"),
}


@pytest.mark.parametrize("state", SyncState)
def test_every_state_of_a_topic(state: SyncState) -> None:
    """Argo CD and Flux report the expected health for every state, from statuses that real passes produce."""
    view, wanted = STANDS[state]
    assert view.state is state
    topic = view.candidate.resource
    found = body(topic, topic_status(topic, {"prod": view}, {}, NOW, ("prod",)))
    assert health(found)[0] == wanted
    assert outcomes(found) == {MEANS[wanted]}


def on_two(state: SyncState, other: SyncState) -> Body:
    """Return a Topic with one state on one cluster, and another state on a second cluster."""
    (one, _), (two, _) = STANDS[state], STANDS[other]
    topic = one.candidate.resource
    return body(topic, topic_status(topic, {"a": one, "b": two}, {}, NOW, ("a", "b")))


@pytest.mark.parametrize(("one", "other"), [*combinations(SyncState, 2)])
def test_a_topic_on_two_clusters_stands_as_on_the_worse(one: SyncState, other: SyncState) -> None:
    """The health of a Topic on two clusters is that of the worse cluster, in either order."""
    order = ("Healthy", "Suspended", "Progressing", "Degraded")
    wanted = max(STANDS[one][1], STANDS[other][1], key=order.index)
    for found in (on_two(one, other), on_two(other, one)):
        assert health(found)[0] == wanted
        assert outcomes(found) == {MEANS[wanted]}


def of_cluster(error: TopiaristError | None, *views: TopicResult) -> Body:
    """Return a Cluster after a pass."""
    home = resource_bodies.cluster()
    return body(home, cluster_status(home, ReconcileResult(views, error=error), CLOCK))


def of_policy(*faults: str) -> Body:
    """Return a Policy with these rule errors."""
    found = resource_bodies.policy()
    return body(found, policy_status(found, faults, CLOCK))


def of_topic(topic: Resource, *there: Any, home: Resource | None = None) -> Body:
    """Return a Topic after a pass."""
    return body(topic, topic_status(topic, {"prod": viewed(topic, *there, home=home)}, {}, NOW, ("prod",)))


def renewed(found: Body) -> Body:
    """Return a resource with a spec that changed after its status was written."""
    return {**found, "metadata": {**found["metadata"], "generation": found["metadata"]["generation"] + 1}}


GOING = resource_bodies.topic("orders", deletionPolicy="Delete", meta=DELETING)
WRONG = resource_bodies.topic("orders", partitions="many")
AWAY = TopiaristError(Reason.UNREACHABLE, "nobody answers")
LOCKED_OUT = TopiaristError(Reason.AUTHENTICATION_FAILED, "the password is wrong")
CASES = {
    "changed since": (
        renewed(on_two(SyncState.SYNCED, SyncState.SYNCED)),
        "Progressing",
        "the operator has not looked",
    ),
    "wrong, and changed since": (
        renewed(on_two(SyncState.REFUSED, SyncState.REFUSED)),
        "Progressing",
        "the operator has not",
    ),
    "one cluster refuses": (on_two(SyncState.SYNCED, SyncState.REFUSED), "Degraded", "FewerPartitions: b: "),
    "drift alone": (
        on_two(SyncState.SYNCED, SyncState.DRIFTED),
        "Degraded",
        "DriftDetected: b: another client changed",
    ),
    "drift beside": (on_two(SyncState.REFUSED, SyncState.DRIFTED), "Degraded", "DriftDetected, FewerPartitions: a: "),
    "unreadable": (
        body(WRONG, topic_status(WRONG, {}, {}, NOW, ("prod",))),
        "Degraded",
        "InvalidManifest: spec.partitions: ",
    ),
    "for no cluster": (body(GOING, topic_status(GOING, {}, {}, NOW, ())), "Degraded", "UnknownCluster: "),
    "paused, and wrong": (
        of_topic(resource_bodies.topic("orders", partitions=1, meta=PAUSED), ours()),
        "Suspended",
        "",
    ),
    "going": (of_topic(GOING, ours()), "Progressing", ""),
    "gone but for its resource": (of_topic(GOING), "Progressing", "being deleted; "),
    "not allowed to go": (of_topic(GOING, ours(), home=resource_bodies.cluster()), "Degraded", "DeletionHeld: prod: "),
    "a good cluster": (of_cluster(None, STANDS[SyncState.SYNCED][0]), "Healthy", "Reachable: topics: 1 total, 1 ready"),
    "a cluster with drift": (of_cluster(None, STANDS[SyncState.DRIFTED][0]), "Healthy", "DriftDetected, Reachable: "),
    "a cluster that is away": (of_cluster(AWAY), "Progressing", "Unreachable: nobody answers"),
    "a cluster that locks us out": (of_cluster(LOCKED_OUT), "Degraded", "AuthenticationFailed: the password is wrong"),
    "a good policy": (of_policy(), "Healthy", "Active: "),
    "a policy with a fault": (of_policy("rule a does not compile"), "Degraded", "InvalidRule: rule a does not"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_else_a_status_may_say(case: str) -> None:
    """Argo CD and Flux report the expected health of other Topics, Clusters and Policies, and the message has the
    reason.
    """
    found, wanted, words = CASES[case]
    status, message = health(found)
    assert (status, message[: len(words)]) == (wanted, words)
    assert outcomes(found) == {MEANS[wanted]}


def test_what_nobody_has_looked_at_is_waited_for() -> None:
    """A resource without a status is progressing in Argo CD. Flux cannot evaluate an expression then, so it waits and
    retries.
    """
    new = {"metadata": {"generation": 1}}
    assert health(new)[0] == "Progressing"
    for program in PROGRAMS.values():
        assert not isinstance(program.eval(ENV.Activation(new)).value(), bool)
    empty = {**new, "status": {}}
    assert (health(empty)[0], outcomes(empty)) == ("Progressing", {"inProgress"})


def test_one_word_for_whatever_conditions_there_are() -> None:
    """For any set of conditions exactly one Flux expression is true, and Argo CD agrees."""
    for ready, switches in product((True, False, None), product((True, False), repeat=5)):
        reconciling, stalled, drifted, deleting, newer = switches
        standing = ReadyCondition(
            ready, "Why", "words", reconciling=reconciling, stalled=stalled, drift="words" * drifted
        )
        status = {"observedGeneration": 1, "conditions": build_conditions(standing, 1, (), NOW)}
        metadata = {"generation": 2 if newer else 1} | ({"deletionTimestamp": NOW} if deleting else {})
        found = {"metadata": metadata, "status": status}
        assert outcomes(found) == {MEANS[health(found)[0]]}, standing


def test_one_text_for_all_kinds() -> None:
    """The samples have the same text for every kind, and cover all kinds of topiarist."""
    assert argocd() == dict.fromkeys(load.KINDS, SCRIPT)
    assert {check["kind"] for check in flux()} == set(load.KINDS)
    for check in flux():
        assert check["apiVersion"] == load.API_VERSION
        assert {word: text for word, text in check.items() if word in MEANS.values()} == EXPRESSIONS

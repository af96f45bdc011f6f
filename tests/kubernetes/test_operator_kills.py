"""F32: the operator is killed at every single write of its work, to ZooKeeper and to the API server, and started again.

How many writes there are is counted by clean runs; each of them is gone through, each in a scene of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kubernetes.resources import cluster, path
from kubernetes.scene import PATIENCE, Scene
from kubernetes.stage import Stage, well
from kubernetes.stand import FINALIZER, TRANSACTIONS, Stand
from support.kube import ApiServer
from support.kuberelay import ApiRelay, Asked
from support.waiting import wait_until
from topiarist.adapters.embedded import EmbeddedZooKeeper

AT_A_TIME = 10
"""Scenes at work at the same time: most of what each does is to wait."""

MORE = 4
"""Statuses that a run may write more often than another: the controller is seen in the middle of its work, or not."""


class Run(NamedTuple):
    """What came of a scene: all on both sides, and what was told."""

    outcome: Mapping[str, object]
    events: Counter[str]


def clean(stand: Stand) -> Run:
    """A run in which nothing breaks; each transaction is sent once."""
    stand.operator.start()
    stand.settle()
    assert stand.writes.seen.count("multi") == TRANSACTIONS
    end(stand)
    return Run(stand.outcome(), Counter(stand.events()))


def end(stand: Stand) -> None:
    """The operator ends in order, and has met nothing that nobody had thought of."""
    stand.operator.end()
    assert "Traceback" not in stand.operator.log, stand.operator.log


def killed(stand: Stand, write: int) -> str:
    """Kill the operator there; what the write was. A run that has fewer is killed when it has nothing left to do."""
    stand.writes.strike(write, stand.operator.kill)
    stand.operator.start()
    wait_until(lambda: stand.writes.fired.wait(0.5) or stand.done, f"write {write}", patience=PATIENCE)
    stand.operator.kill()
    return stand.writes.seen[-1] if stand.writes.fired.is_set() else ""


def converges(stand: Stand, wanted: Run) -> None:
    """Started again, it ends as if nothing had been: nothing is done twice, told twice, or left."""
    *before, struck = stand.writes.seen
    sent = before.count("multi") + (struck == "multi" and not stand.writes.fired.is_set())
    stand.writes.spare()
    stand.operator.start()
    stand.settle()
    assert sent + stand.writes.seen.count("multi") == TRANSACTIONS
    end(stand)
    assert stand.outcome() == wanted.outcome
    assert not Counter(stand.events()) - wanted.events


def held(scene: Scene, name: str) -> bool:
    """Whether a Topic has our finalizer."""
    return FINALIZER in scene.found(name)["metadata"].get("finalizers", ())


def deletions(scene: Scene) -> list[str]:
    """The topics whose deletion the Cluster tells of."""
    found = scene.api.call("GET", path(scene.namespace, cluster("prod"), "prod")).body
    return [each["topic"] for each in found["status"]["deletions"]]


def test_f32_killed_at_every_write(server: ApiServer, namespace: str, tmp_path: Path) -> None:
    """Killed at any write, to ZooKeeper or the API server: the next one does what is left, no finalizer is lost."""
    with EmbeddedZooKeeper() as zookeeper, ExitStack() as stack, ThreadPoolExecutor(AT_A_TIME) as pool:

        def made(name: str) -> Stand:
            stand = Stand(server, zookeeper.connect, tmp_path / f"{namespace}-{name}")
            return stack.enter_context(stand)

        first = made("clean")
        wanted = clean(first)
        total = len(first.writes.seen) + MORE
        stands = list(pool.map(made, map(str, range(1, total + 1))))
        struck = list(pool.map(killed, stands, range(1, total + 1)))
        list(pool.map(partial(converges, wanted=wanted), stands))
    assert {*struck} - {""} == {*first.writes.seen}


def test_f32_killed_right_behind_a_deletion(stage: Stage, namespace: str) -> None:
    """Killed behind a deletion of which no status tells yet: it counts against the budget of the day all the same."""
    relay = stage.stack.enter_context(ApiRelay(stage.server))
    scene = stage.scene(namespace)
    scene.cluster(allowDeletion=True, budgets={"deletions": 1})
    operator = stage.operator(namespace, through=relay.api)
    for name in ("a", "b"):
        scene.topic(name, deletionPolicy="Delete")
    scene.until_ready("a", "b")
    wait_until(lambda: held(scene, "a") and held(scene, "b"), "both have a finalizer", patience=PATIENCE)

    def die(_number: int, _asked: Asked) -> bool:
        """At the first write to the API server behind the deletion."""
        if b'"ensure"' in scene.client.get("/topiarist/topics/a")[0]:
            operator.kill()
        return operator.alive

    relay.before(die)
    scene.delete("a")
    wait_until(lambda: not operator.alive, "it is killed", patience=PATIENCE)
    relay.reset()
    assert deletions(scene) == []
    scene.delete("b")
    operator.start()
    operator.until_ready()
    scene.until("b", Stalled=("True", "BudgetExceeded"))
    wait_until(lambda: deletions(scene) == ["a"], "the deletion is told", patience=PATIENCE)
    assert scene.partitions("b") == 3
    well(operator)

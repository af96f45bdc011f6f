"""F32: the operator is killed at every single write of its work, to ZooKeeper and to the API server, and started again.

Which writes there are is seen in a clean run; each of them is struck, each in a scene of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kubernetes.fixtures.fault_fixture import FaultFixture, assert_healthy
from kubernetes.fixtures.kill_fixture import FINALIZER, TRANSACTIONS, KillFixture
from kubernetes.fixtures.operator_fixture import OPERATOR_TIMEOUT_S, OperatorFixture
from kubernetes.fixtures.resources import cluster, resource_path
from support.kubernetes.relay import ApiRelay, WriteRequest
from support.kubernetes.server import ApiServer
from support.waiting import wait_until
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper

AT_A_TIME = 10
"""Scenes at work at the same time: most of what each does is to wait."""

MORE = 2
"""Statuses of a kind that a run may write more often than another: the controller is seen in the middle of its work, or
not.
"""


OUTAGES = {"ClusterUnavailable prod", "Reachable prod"}
"""Events of a server that did not answer in time: on a busy machine they are true, and say nothing of what was done."""


class Target(NamedTuple):
    """A write at which the operator is killed: its kind, and its number among those of its kind."""

    kind: str
    number: int


class Run(NamedTuple):
    """What came of a scene: all on both sides, and what was told."""

    outcome: Mapping[str, object]
    events: Counter[str]


def clean(stand: KillFixture) -> Run:
    """A run in which nothing breaks; each transaction is sent once."""
    stand.operator.start()
    stand.wait_until_idle()
    assert stand.writes.kinds.count("multi") == TRANSACTIONS
    end(stand)
    return Run(stand.outcome(), Counter(stand.event_summaries()))


def end(stand: KillFixture) -> None:
    """The operator ends in order, and has met nothing that nobody had thought of."""
    stand.operator.terminate()
    assert "Traceback" not in stand.operator.log, stand.operator.log


def targets(seen: Sequence[str]) -> list[Target]:
    """Every write of a clean run, and a few more of the kinds of which another run may have more."""
    counts = {kind: number + (MORE if kind.endswith("/status") else 0) for kind, number in Counter(seen).items()}
    return [Target(kind, number) for kind, most in counts.items() for number in range(1, most + 1)]


def killed(stand: KillFixture, write: Target) -> str:
    """Kill the operator there; the kind of the write. A run that has fewer is killed when it has nothing left to do."""
    stand.writes.kill_before_write(write.kind, write.number, stand.operator.kill)
    stand.operator.start()
    wait_until(lambda: stand.writes.triggered.wait(0.5) or stand.is_done, f"{write}", timeout=OPERATOR_TIMEOUT_S)
    stand.operator.kill()
    return write.kind if stand.writes.triggered.is_set() else ""


def converges(stand: KillFixture, wanted: Run) -> None:
    """Started again, it ends as if nothing had been: nothing is done twice, told twice, or left."""
    *before, struck = stand.writes.kinds
    sent = before.count("multi") + (struck == "multi" and not stand.writes.triggered.is_set())
    stand.writes.reset()
    stand.operator.start()
    stand.wait_until_idle()
    assert sent + stand.writes.kinds.count("multi") == TRANSACTIONS
    end(stand)
    assert stand.outcome() == wanted.outcome
    assert {*Counter(stand.event_summaries()) - wanted.events} <= OUTAGES


def held(scene: OperatorFixture, name: str) -> bool:
    """Whether a Topic has our finalizer."""
    return FINALIZER in scene.get_topic(name)["metadata"].get("finalizers", ())


def deletions(scene: OperatorFixture) -> list[str]:
    """The topics whose deletion the Cluster tells of."""
    found = scene.api.call("GET", resource_path(scene.namespace, cluster("prod"), "prod")).body
    return [each["topic"] for each in found["status"]["deletions"]]


def test_f32_killed_at_every_write(server: ApiServer, namespace: str, tmp_path: Path) -> None:
    """Killed at any write, to ZooKeeper or the API server: the next operator does the rest, no finalizer is lost."""
    with EmbeddedZooKeeper() as zookeeper, ExitStack() as stack, ThreadPoolExecutor(AT_A_TIME) as pool:

        def made(name: str) -> KillFixture:
            stand = KillFixture(server, zookeeper.connect, tmp_path / f"{namespace}-{name}")
            return stack.enter_context(stand)

        first = made("clean")
        wanted = clean(first)
        writes = targets(first.writes.kinds)
        stands = list(pool.map(made, map(str, range(1, len(writes) + 1))))
        struck = list(pool.map(killed, stands, writes))
        list(pool.map(partial(converges, wanted=wanted), stands))
    assert {*struck} - {""} == {*first.writes.kinds}, "the first write of a kind is there in every run"


def test_f32_killed_right_behind_a_deletion(stage: FaultFixture, namespace: str) -> None:
    """Killed after a deletion and before its status: the deletion counts against the budget of the day."""
    relay = stage.stack.enter_context(ApiRelay(stage.server))
    scene = stage.make_fixture(namespace)
    scene.declare_cluster(allowDeletion=True, budgets={"deletions": 1})
    operator = stage.start_operator(namespace, through=relay.api)
    for name in ("a", "b"):
        scene.declare_topic(name, deletionPolicy="Delete")
    scene.wait_until_ready("a", "b")
    wait_until(lambda: held(scene, "a") and held(scene, "b"), "both have a finalizer", timeout=OPERATOR_TIMEOUT_S)

    killed: list[int] = []  # several writes are under way: a late one must not kill the operator that starts again

    def die(number: int, _asked: WriteRequest) -> bool:
        """At the first write to the API server behind the deletion."""
        if not killed and b'"ensure"' in scene.client.get("/topiarist/topics/a")[0]:
            killed.append(number)
            operator.kill()
        return not killed

    relay.before_write(die)
    scene.delete_topic("a")
    wait_until(lambda: not operator.alive, "it is killed", timeout=OPERATOR_TIMEOUT_S)
    relay.reset()
    assert deletions(scene) == []
    scene.delete_topic("b")
    operator.start()
    operator.wait_until_ready()
    scene.wait_for_conditions("b", Stalled=("True", "BudgetExceeded"))
    wait_until(lambda: deletions(scene) == ["a"], "the deletion is told", timeout=OPERATOR_TIMEOUT_S)
    assert scene.partition_count("b") == 3
    assert_healthy(operator)

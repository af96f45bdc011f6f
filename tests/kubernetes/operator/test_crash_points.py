"""F32: the operator is killed at every single write, to ZooKeeper and to the API server, and restarted.

A clean run lists the writes; the test kills one operator at each write, each in its own namespace.
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
"""Fixtures that run at the same time; most of their time is waiting."""

MORE = 2
"""Extra status writes of a kind that a run may need: the controller may be read in the middle of its work or not."""


OUTAGES = {"ClusterUnavailable prod", "Reachable prod"}
"""Events of a server that did not answer in time; on a busy machine they are correct and independent of the work."""


class Target(NamedTuple):
    """A write at which the operator is killed: its kind, and its number within the kind."""

    kind: str
    number: int


class Run(NamedTuple):
    """The result of a run: the final state of both servers, and the Events."""

    outcome: Mapping[str, object]
    events: Counter[str]


def clean(stand: KillFixture) -> Run:
    """Run without a fault, and assert that each transaction is sent once."""
    stand.operator.start()
    stand.wait_until_idle()
    assert stand.writes.kinds.count("multi") == TRANSACTIONS
    end(stand)
    return Run(stand.outcome(), Counter(stand.event_summaries()))


def end(stand: KillFixture) -> None:
    """Terminate the operator, and assert that it logged no unexpected error."""
    stand.operator.terminate()
    assert "Traceback" not in stand.operator.log, stand.operator.log


def targets(seen: Sequence[str]) -> list[Target]:
    """Return every write of a clean run, and extra writes of kinds with a varying number."""
    counts = {kind: number + (MORE if kind.endswith("/status") else 0) for kind, number in Counter(seen).items()}
    return [Target(kind, number) for kind, most in counts.items() for number in range(1, most + 1)]


def killed(stand: KillFixture, write: Target) -> str:
    """Kill the operator at a write and return its kind.

    A run with fewer writes of this kind is killed when its work is done; the result is then empty.
    """
    stand.writes.kill_before_write(write.kind, write.number, stand.operator.kill)
    stand.operator.start()
    wait_until(lambda: stand.writes.triggered.wait(0.5) or stand.is_done, f"{write}", timeout=OPERATOR_TIMEOUT_S)
    stand.operator.kill()
    return write.kind if stand.writes.triggered.is_set() else ""


def converges(stand: KillFixture, wanted: Run) -> None:
    """Restart the operator, and assert the result of a clean run: no repeated write, no repeated Event, nothing left to
    do.
    """
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
    """Return True if a Topic has topiarist's finalizer."""
    return FINALIZER in scene.get_topic(name)["metadata"].get("finalizers", ())


def deletions(scene: OperatorFixture) -> list[str]:
    """Return the topics in the list of deletions of the Cluster's status."""
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

    killed: list[int] = []  # several writes are in flight: a late one must not kill the restarted operator

    def die(number: int, _asked: WriteRequest) -> bool:
        """Kill the operator at the first write to the API server after the deletion."""
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

"""``topiarist nudge`` on a real ZooKeeper: topics that the played controller has lost, as Kafka's loses them."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator

import pytest

from conftest import BROKERS
from integration.scene import REPLICAS, opened, witnessed
from support import checker
from support.proxy import Proxy
from support.waiting import wait_until
from support.wishes import outcomes, planned, results, wish
from topiarist.adapters import znodes
from topiarist.adapters.playground import Playground, Topic
from topiarist.adapters.playground.seed import config_bytes, topic_bytes
from topiarist.adapters.zookeeper import ZooKeeperCluster
from topiarist.cli.main import run
from topiarist.core.change import Nudge
from topiarist.core.nudge import Nudging, plan_nudge
from topiarist.errors import Reason
from topiarist.reconcile import Outcome, Result

TOPIC, MARK, REQUEST = "/brokers/topics/orders", "/admin/delete_topics/orders", "/admin/reassign_partitions"
LOCK_TAKEN = 1

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def lost(chroot: str) -> Iterator[Playground]:
    """A cluster whose controller has lost the topic ``orders``, beside one that it could not decode."""
    with Playground(chroot, BROKERS) as cluster, opened(chroot) as port:
        assert results(port, planned(port, wish("well"))) == {"well": Result.DONE}
        cluster.settle()
        transaction = cluster.client.transaction()
        transaction.create("/config/topics/orders", config_bytes({}))
        partitions = {str(partition): list(replicas) for partition, replicas in enumerate(REPLICAS)}
        transaction.create(TOPIC, topic_bytes(partitions, None))
        transaction.create("/brokers/topics/bad", b'{"version":3,"partitions":[]}')
        assert not [result for result in transaction.commit() if isinstance(result, Exception)]
        wait_until(lambda: cluster.faults, "the controller to find the odd topic")
        cluster.client.delete("/brokers/topics/bad")
        cluster.faults.clear()
        yield cluster
        assert cluster.faults == []


def nudging(port: ZooKeeperCluster, *names: str) -> Nudging:
    """The plan that nudges these topics."""
    return plan_nudge(port.read(), "", {name: port.inspect(name) for name in names}, "default")


def states(cluster: Playground) -> list[int]:
    """The partitions of the topic that have a state."""
    paths = checker.look(cluster.connect)
    return [number for number in range(2) if znodes.partition_state_path("orders", number) in paths]


def test_a_topic_that_was_lost_is_taken_over(lost: Playground, capsys: Capture) -> None:
    """Shown by describe with the remedy; nothing of it changes but the version; a second nudge is not needed."""
    before = lost.client.get(TOPIC)
    where = ["--zookeeper", lost.connect]
    assert run(["describe", "orders", *where]) == 0
    assert "topiarist nudge orders" in " ".join(capsys.readouterr().out.split())
    assert run(["nudge", "orders", "well", *where, "--yes"]) == 0
    said = capsys.readouterr()
    assert "nudge: 2 partitions without a state" in said.out
    assert "well: no nudge is needed" in said.err
    assert states(lost) == [0, 1]
    data, stat = lost.client.get(TOPIC)
    assert (data, stat.version) == (before[0], before[1].version + 1)
    assert "/topiarist/topics/orders" not in checker.look(lost.connect)
    assert run(["nudge", "orders", *where, "--yes"]) == 0
    assert "orders: no nudge is needed" in capsys.readouterr().err
    assert lost.client.get(TOPIC)[1].version == stat.version
    assert run(["describe", "orders", *where]) == 0
    assert "nudge" not in capsys.readouterr().out


def test_a_reader_that_ends_after_the_plan(lost: Playground) -> None:
    """``nudge | head -1``: the nudge is done, and its outcome is printed to stderr, not lost."""
    command = f"{shlex.quote(sys.executable)} -m topiarist nudge orders --zookeeper {lost.connect} --yes"
    line = f"set -o pipefail; {command} | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 1
    assert "1 done" in done.stderr
    assert "Traceback" not in done.stderr
    assert states(lost) == [0, 1]


def test_a_nudge_is_one_transaction_and_needs_no_other_owner(lost: Playground, proxy: Proxy) -> None:
    """Nobody's topic, under the fence of every write; the same plan again finds it done."""
    with opened(proxy.through(lost.connect)) as port:
        plan = nudging(port, "orders").plan
        assert plan.topics[0].changes == (Nudge((0, 1)),)
        assert results(port, plan) == {"orders": Result.DONE}
        assert proxy.requests["multi"] == 1
        wait_until(lambda: states(lost) == [0, 1], "the states")
        assert outcomes(port, plan) == {"orders": Outcome("orders", Result.ALREADY)}
        assert proxy.requests["multi"] == 1


@pytest.mark.parametrize("name", ["well", "nowhere"])
def test_what_needs_no_nudge_gets_none(lost: Playground, proxy: Proxy, name: str) -> None:
    """A topic that has all its states, and one that is not there: no write at all."""
    with opened(proxy.through(lost.connect)) as port:
        found = nudging(port, name)
        assert results(port, found.plan) == {}
    assert (found.plan.topics, [*found.well, *found.absent], proxy.writes) == ((), [name], 0)


ENTRY = {"topic": "orders", "partition": 0, "replicas": [4, 5, 6]}
ASKED = json.dumps({"version": 1, "partitions": [ENTRY]}).encode()


@pytest.mark.parametrize("why", [Reason.DELETION_IN_PROGRESS, Reason.REASSIGNMENT_IN_PROGRESS, Reason.ZNODE_UNREADABLE])
def test_what_forbids_a_nudge(lost: Playground, proxy: Proxy, why: Reason) -> None:
    """Nothing is written, and the reason is said."""
    with lost.held(), opened(proxy.through(lost.connect)) as port:
        if why is Reason.ZNODE_UNREADABLE:
            lost.client.set(TOPIC, b'{"version":3,"partitions":[]}')
        elif why is Reason.DELETION_IN_PROGRESS:
            lost.client.create(MARK)
        else:
            lost.client.create(REQUEST, ASKED)
        plan = nudging(port, "orders").plan
        assert [finding.reason for finding in plan.topics[0].refusals] == [why]
        assert (results(port, plan), proxy.writes) == ({}, 0)
        if why is Reason.DELETION_IN_PROGRESS:
            lost.client.delete(MARK)
        lost.client.delete(TOPIC)  # what is odd in it is no fault of ours


def test_partitions_without_a_broker_wait_for_one(cluster: Playground) -> None:
    """The controller takes them over by itself."""
    cluster.add_topics(Topic("orders", ((7,), (7, 8)), {}))
    with opened(cluster.connect) as port:
        (refused,) = nudging(port, "orders").plan.topics[0].refusals
    assert (refused.reason, refused.reason.retryable) == (Reason.BROKERS_MISSING, True)


@pytest.mark.parametrize("what", ["marked", "requested", "grown", "gone"])
def test_what_moves_between_plan_and_write_is_a_conflict(lost: Playground, proxy: Proxy, what: str) -> None:
    """Directly before the write the topic is looked at again."""
    client = lost.client

    def move() -> None:
        if what == "marked":
            client.create(MARK)
        elif what == "requested":
            client.create(REQUEST, ASKED)
        elif what == "grown":
            client.set(TOPIC, znodes.grow_topic(client.get(TOPIC)[0], ((4, 5, 6),)))
        else:
            client.delete(TOPIC)

    with lost.held(), opened(proxy.through(lost.connect)) as port:
        plan = nudging(port, "orders").plan
        proxy.hold(LOCK_TAKEN, move)
        found = outcomes(port, plan)["orders"]
        assert (proxy.fired.is_set(), proxy.requests["multi"]) == (True, 0)
        if what == "marked":
            client.delete(MARK)
    assert (found.result, found.reason) == (Result.MOVED, Reason.STATE_CONFLICT)


def test_a_frozen_cluster_is_not_nudged(lost: Playground, capsys: Capture) -> None:
    """By the gate of every writer."""
    where = ["--zookeeper", lost.connect]
    assert run(["freeze", "--reason", "noon", *where]) == 0
    with witnessed(lost.connect):
        assert run(["nudge", "orders", *where, "--yes"]) == 4
    assert "frozen" in capsys.readouterr().out
    assert states(lost) == []


def test_a_controller_that_does_not_react_is_said(
    lost: Playground, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends with an error, and says what else there is to do."""
    monkeypatch.setattr("topiarist.cli.nudge._PATIENCE", 0.2)
    with lost.held():
        assert run(["nudge", "orders", "--zookeeper", lost.connect, "--yes"]) == 1
    said = capsys.readouterr()
    assert "let another broker become controller" in said.err
    assert "NotTakenOver" in said.out


def test_a_name_that_no_cluster_has_is_an_error(lost: Playground, capsys: Capture) -> None:
    """A word that can be no name is wrong usage; without --yes somebody has to be asked."""
    where = ["--zookeeper", lost.connect]
    assert run(["nudge", "nowhere", *where, "--yes"]) == 1
    assert "no cluster of this run has a topic nowhere" in capsys.readouterr().err
    assert run(["nudge", "a b", *where, "--yes"]) == 2
    assert run(["nudge", "orders", *where]) == 2
    assert states(lost) == []

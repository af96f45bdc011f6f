"""``apply --wait``, ``unmanage``, ``freeze``, ``unfreeze`` as processes: interrupted, at a terminal, used wrongly."""

from __future__ import annotations

import getpass
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from integration.test_terminal import typed
from integration.write_fixtures import REPLICAS, connect_cluster
from support.builders import apply_results, plan_specs, topic_spec
from support.cli.runs import start_topiarist
from support.zookeeper import write_checker
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic

ABSENT = """\
apiVersion: topiarist.dev/v1
kind: Topic
metadata: {name: orders}
spec: {partitions: 2, replicationFactor: 3, ensure: Absent}
"""

ANOTHER = """\
apiVersion: topiarist.dev/v1
kind: Cluster
metadata: {name: prod}
spec: {clusterId: AnotherClustersId00000}
"""


@pytest.fixture
def ours(cluster: SimulatedKafka) -> SimulatedKafka:
    """A cluster with a topic of ours."""
    cluster.add_topics(Topic("orders", REPLICAS, {}))
    with connect_cluster(cluster.connect) as port:
        apply_results(port, plan_specs(port, topic_spec("orders")))
    return cluster


def words(command: str, cluster: SimulatedKafka, *more: str) -> list[str]:
    """A command line."""
    return [sys.executable, "-m", "topiarist", command, *more, "--zookeeper", cluster.connect]


def ran(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command without a terminal."""
    environ = {**os.environ, **environment}
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=environ)


def test_an_interrupt_ends_the_waiting_and_not_the_work(ours: SimulatedKafka, tmp_path: Path) -> None:
    """The mark is set and stays; the run says that it was done, and ends with the signal's code."""
    ours.remove_broker(4)
    (tmp_path / "orders.yaml").write_text(ABSENT)
    consent = ("--yes", "--allow-risk", "DataLoss=orders")
    running = start_topiarist("apply", tmp_path, *consent, "--wait", "--zookeeper", ours.connect)
    assert running.stderr is not None
    assert running.stderr.readline() == "waiting for the controller to delete 1 topic, at most 300 s without progress\n"
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=300)
    assert running.returncode == 130
    assert "no longer waiting for 1 topic: the controller continues" in err
    assert "Applied: 1 done." in out
    tree = write_checker.read_nodes(ours.connect)
    assert "/admin/delete_topics/orders" in tree
    assert not [path for path in tree if path.startswith("/topiarist/lock/")]


@pytest.mark.parametrize(("answer", "code"), [("yes", 0), ("y", 1), ("", 1)])
def test_a_person_is_asked_before_a_topic_is_given_up(ours: SimulatedKafka, answer: str, code: int) -> None:
    """Only the whole word counts."""
    shown, ended = typed(words("unmanage", ours, "orders"), answer)
    assert "Unmanage 1 topic? Type yes" in shown
    assert ended == code
    assert ("/topiarist/topics/orders" in write_checker.read_nodes(ours.connect)) == bool(code)


def test_nobody_is_asked_where_there_is_nothing_to_release(ours: SimulatedKafka) -> None:
    """The command says so and ends well."""
    shown, ended = typed(words("unmanage", ours, "nothing"))
    assert (shown, ended) == ("nothing: nothing to unmanage, it has no ownership record\n", 0)


def test_who_freezes_is_the_user_unless_it_is_said(ours: SimulatedKafka) -> None:
    """By default the name of the user, from the environment another one, and the option before both."""
    freeze = words("freeze", ours, "--reason", "x", "--force")
    assert f"frozen by {getpass.getuser()} since " in ran(freeze).stdout
    assert "frozen by the nightly job since " in ran(freeze, TOPIARIST_USER="the nightly job").stdout
    assert "frozen by ada since " in ran([*freeze, "--user", "ada"], TOPIARIST_USER="the nightly job").stdout


@pytest.mark.parametrize(
    "more", [[], ["--reason", " "], ["--reason", "a\x1b[2J"], ["--reason", "x" * 301], ["--reason", "x", "--user", ""]]
)
def test_a_freeze_without_a_reason_or_a_name_is_wrong_usage(cluster: SimulatedKafka, more: list[str]) -> None:
    """A freeze needs a reason and a name, for the users that it stops; without them nothing is written."""
    done = ran(words("freeze", cluster, *more))
    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    assert "/topiarist" not in write_checker.read_nodes(cluster.connect)


@pytest.mark.parametrize("command", [["unmanage", "orders", "--yes"], ["freeze", "--reason", "x"], ["unfreeze"]])
def test_another_cluster_than_the_manifests_is_left_alone(
    ours: SimulatedKafka, tmp_path: Path, command: list[str]
) -> None:
    """``clusterId`` guards every command that writes."""
    path = tmp_path / "cluster.yaml"
    path.write_text(ANOTHER)
    before = write_checker.read_nodes(ours.connect)
    done = ran([*words(command[0], ours, *command[1:]), "--clusters", str(path)])
    assert done.returncode == 1
    assert "found cluster id 7sYkR0b2QIu1nT4mXc9pAw" in done.stderr
    assert write_checker.read_nodes(ours.connect) == before

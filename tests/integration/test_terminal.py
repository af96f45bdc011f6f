"""The command line as a person meets it: asked in a terminal, interrupted, piped into something that goes away."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.zookeeper import write_checker
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic

REPLICAS = ((1, 2, 3), (2, 3, 4))

ORDERS = """\
apiVersion: topiarist.dev/v1
kind: Topic
metadata:
  name: orders
spec:
  partitions: 2
  replicationFactor: 3
  config:
    retention.ms: {retention}
"""


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """One topic that keeps messages for a day."""
    (tmp_path / "orders.yaml").write_text(ORDERS.format(retention=86_400_000))
    return tmp_path


def words(cluster: SimulatedKafka, manifests: Path, *more: str) -> list[str]:
    """The command line of an apply."""
    program = [sys.executable, "-m", "topiarist", "apply", str(manifests)]
    return [*program, "--zookeeper", cluster.connect, "--kafka-version", "3.9", *more]


def typed(command: list[str], *answers: str | Callable[[], str]) -> tuple[str, int]:
    """Run in a terminal of its own, answer each question as it comes; what was shown, and the exit code.

    An answer that takes thought is called for when it is needed.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "dumb"
        os.execv(command[0], command)
    shown, waiting = "", list(answers)
    while select.select([terminal], [], [], 60)[0]:
        try:
            piece = os.read(terminal, 65_536).decode()
        except OSError:  # Linux says so when the other side of a terminal has closed
            break
        if not piece:
            break
        shown += piece
        if waiting and shown.endswith(": "):
            answer = waiting.pop(0)
            os.write(terminal, (answer if isinstance(answer, str) else answer()).encode() + b"\n")
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    return shown.replace("\r\n", "\n"), os.waitstatus_to_exitcode(status)


def test_a_person_is_asked_and_says_yes(cluster: SimulatedKafka, manifests: Path) -> None:
    """The plan is shown, the question names the number of topics, ``yes`` applies it."""
    shown, code = typed(words(cluster, manifests), "yes")
    assert "Plan: 1 to create." in shown
    assert "Apply to 1 topic? Type yes" in shown
    assert "Applied: 1 done." in shown
    assert code == 0
    assert "orders" in write_checker.decode_topics(write_checker.read_nodes(cluster.connect))


@pytest.mark.parametrize("answer", ["", "no", "y"])
def test_anything_but_yes_writes_nothing(cluster: SimulatedKafka, manifests: Path, answer: str) -> None:
    """Only the whole word counts; the cluster is untouched and the exit code is 1."""
    before = write_checker.read_nodes(cluster.connect)
    shown, code = typed(words(cluster, manifests), answer)
    assert "not confirmed: nothing was written" in shown
    assert code == 1
    assert write_checker.read_nodes(cluster.connect) == before


def test_data_loss_is_answered_for_by_its_number(cluster: SimulatedKafka, manifests: Path) -> None:
    """``yes`` does not cover what may lose data: the number of topics does."""
    cluster.add_topics(Topic("orders", REPLICAS, {"retention.ms": "604800000"}))
    shown, code = typed(words(cluster, manifests, "--adopt=*"), "yes")
    assert "1 topic may lose data" in shown
    assert code == 1
    shown, code = typed(words(cluster, manifests, "--adopt=*"), "1")
    assert "Applied: 1 done." in shown
    assert code == 0


def test_without_a_terminal_somebody_must_have_said_yes(cluster: SimulatedKafka, manifests: Path) -> None:
    """Without a terminal there is no prompt: a usage error before anything is read."""
    done = subprocess.run(
        words(cluster, manifests), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "--yes" in done.stderr


def test_a_reader_that_goes_away_is_no_traceback(cluster: SimulatedKafka, manifests: Path) -> None:
    """``topiarist plan | head -0``: the exit code reports the error, and nothing else is printed."""
    command = words(cluster, manifests)
    command[command.index("apply")] = "plan"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert done.returncode == 1
    assert done.stderr == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_know_the_command(shell: str) -> None:
    """Each shell gets a script that asks topiarist itself."""
    command = [sys.executable, "-m", "topiarist", "completion", shell]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "_TOPIARIST_COMPLETE" in done.stdout


def test_completion_answers(tmp_path: Path) -> None:
    """What the script asks is answered: commands, and the options of a command."""
    asked = {
        **os.environ,
        "_TOPIARIST_COMPLETE": "bash_complete",
        "COMP_WORDS": "topiarist plan --zoo",
        "COMP_CWORD": "2",
    }
    command = [sys.executable, "-m", "topiarist"]
    done = subprocess.run(command, env=asked, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout == "plain,--zookeeper\n"

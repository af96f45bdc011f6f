"""Terminals and streams: questions, completion, and output that fails, ends early or is closed."""

from __future__ import annotations

import json
import os
import pty
import select
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.examples import slow_but
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


@pytest.mark.parametrize("form", ["text", "github"])
def test_text_in_any_encoding_of_the_locale(manifests: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output to a file or a pipe is UTF-8, as documents are; a terminal shows escapes for what it cannot."""
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    (manifests / "orders.yaml").write_text(ORDERS.format(retention=1).replace("orders", "7\u03bc"))
    command = [sys.executable, "-m", "topiarist", "validate", str(manifests), "--format", form]
    done = subprocess.run(command, capture_output=True, check=False)
    assert 'found "7\u03bc"' in (done.stdout + done.stderr).decode()
    shown, code = typed(command)
    assert 'found "7\\u03bc"' in shown
    assert done.returncode == code == 1


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


FULL, CLOSED = (
    "error: standard output cannot be written: No space left on device\n",
    "error: standard output cannot be written: it is closed\n",
)
BROKEN = {">/dev/full": FULL, ">&-": CLOSED}

TOPICS = "\n---\n".join(
    f"{{apiVersion: topiarist.dev/v1, kind: Topic, metadata: {{name: {name}}}, "
    "spec: {partitions: 1, replicationFactor: 3}}"
    for name in ("orders", "clicks")
)

BARE = {
    "help": "--help",
    "version": "--version",
    "help of a command": "operator --help",
    "completion": "completion bash",
    "render topics": "render topics",
    "validate json": "validate topics --format json",
    "dev": "dev",
}
"""Commands that print without any cluster."""

ON_A_CLUSTER = {
    "plan": "plan topics --zookeeper {connect}",
    "plan json": "plan topics --zookeeper {connect} --format json",
    "describe": "describe orders topics --zookeeper {connect}",
    "snapshot": "snapshot --zookeeper {connect}",
    "apply": "apply topics --zookeeper {connect} --yes --report report.jsonl",
}
"""Commands that print before they write, if they write at all."""


def called(command: str, redirection: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command line in a shell, with one redirection."""
    line = f"exec {shlex.quote(sys.executable)} -m topiarist {command} {redirection}"
    return subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False, timeout=100)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with manifests in ``topics``."""
    (tmp_path / "topics").mkdir()
    (tmp_path / "topics" / "all.yaml").write_text(TOPICS)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("name", BARE)
def test_stdout_that_fails(name: str, folder: Path) -> None:
    """One line on stderr that says what failed, and 1: there is no traceback, and no success."""
    for redirection, said in BROKEN.items():
        done = called(BARE[name], redirection, folder)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.endswith(said)
        assert "Traceback" not in done.stderr
        assert done.stderr.count("\n") <= 1 + done.stderr.count("no document here")


@pytest.mark.parametrize("name", slow_but(["plan", "apply"], ON_A_CLUSTER))
def test_stdout_that_fails_before_anything_is_written(name: str, folder: Path, cluster: SimulatedKafka) -> None:
    """If the plan cannot be printed, nothing is applied."""
    for redirection, said in BROKEN.items():
        done = called(ON_A_CLUSTER[name].format(connect=cluster.connect), redirection, folder)
        assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
        assert done.stderr.endswith(said)
    assert write_checker.decode_topics(write_checker.read_nodes(cluster.connect)) == {}


def test_a_reader_that_ends_after_the_plan(folder: Path, cluster: SimulatedKafka) -> None:
    """``apply | head -1``: all is done and said on stderr, the report is whole and has the exit code."""
    command = f"apply topics --zookeeper {cluster.connect} --yes --report report.jsonl --wait"
    line = f"set -o pipefail; {shlex.quote(sys.executable)} -m topiarist {command} | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 1
    assert "Applied: 2 done." in done.stderr
    assert "Traceback" not in done.stderr
    lines = [json.loads(text) for text in (folder / "report.jsonl").read_text().splitlines()]
    assert {row["topic"]: row["result"] for row in lines if "topic" in row} == {"orders": "done", "clicks": "done"}
    assert lines[-1]["exit"] == 1
    assert sorted(write_checker.decode_topics(write_checker.read_nodes(cluster.connect))) == ["clicks", "orders"]


@pytest.mark.slow
@pytest.mark.parametrize("redirection", BROKEN)
def test_what_was_frozen_released_and_unfrozen_is_said_on_stderr(
    redirection: str, folder: Path, cluster: SimulatedKafka
) -> None:
    """These commands write before they print: the write is done, the error is printed, and the exit code is 1."""
    at = f"--zookeeper {cluster.connect}"
    assert called(f"apply topics {at} --yes", "", folder).returncode == 0
    for command, words in (
        (f"freeze {at} --reason disks --user ada", "frozen by ada"),
        (f"unfreeze {at} --user ada", "unfrozen (had been frozen by ada"),
    ):
        done = called(command, redirection, folder)
        assert done.returncode == 1
        first, *rest = done.stderr.splitlines(keepends=True)
        assert (first, words in "".join(rest)) == (BROKEN[redirection], True), done.stderr
    done = called(f"unmanage orders {at} --yes", redirection, folder)
    assert (done.returncode, done.stderr) == (1, BROKEN[redirection])  # its plan comes first
    assert called(f"unmanage orders {at} --yes", "", folder).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_stderr_that_fails(redirection: str, folder: Path, cluster: SimulatedKafka) -> None:
    """The run goes on to its end; what could not be said makes its code 1, and what is printed is whole."""
    at = f"--zookeeper {cluster.connect}"
    done = called(f"apply topics {at} --yes --adopt nothing-of-this-name", redirection, folder)
    assert (done.returncode, done.stderr) == (1, "")
    assert "Applied: 2 done." in done.stdout
    assert called(f"plan topics {at} -q", redirection, folder).returncode == 0
    assert called("validate topics", redirection, folder).returncode == 1
    assert called("plan nowhere", redirection, folder).returncode == 1


def test_all_streams_closed(folder: Path, cluster: SimulatedKafka) -> None:
    """No file and no connection gets the number of a standard stream, so that nothing is written into one."""
    done = called(f"snapshot --zookeeper {cluster.connect} --out kept", "<&- >&- 2>&-", folder)
    assert done.returncode == 1  # it could not say what it wrote
    (kept,) = (folder / "kept").iterdir()
    rows = kept.read_text().splitlines()
    assert all(json.loads(row) for row in rows)
    done = called(f"apply topics --zookeeper {cluster.connect} --yes", "<&- >&- 2>&-", folder)
    assert done.returncode == 1
    assert write_checker.decode_topics(write_checker.read_nodes(cluster.connect)) == {}


def test_stdin_that_is_closed(folder: Path) -> None:
    """Manifests that were to come from there are an error, and not an empty folder."""
    done = called("validate -", "<&-", folder)
    assert done.returncode == 1
    assert done.stderr == "<stdin>: error: cannot be read: it is closed\n1 error\n"

"""``apply``, ``unmanage``, ``freeze`` and ``unfreeze`` as processes: reports, failures, interrupts, terminals."""

from __future__ import annotations

import getpass
import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from kazoo.client import KazooClient

from conftest import BROKERS
from integration.test_terminal import typed
from integration.write_fixtures import FIRST_TOPIC_WRITE, InterceptingProxy
from support.cli.runs import start_topiarist, write_manifests
from support.waiting import wait_until
from support.zookeeper import write_checker
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters import own_values
from topiarist.model.state import Freeze
from topiarist.schema import load


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_reading_writes_nothing(
    meddler: InterceptingProxy, cluster: SimulatedKafka, tmp_path: Path, number: signal.Signals
) -> None:
    """A signal before the first write ends the run at once: no write, no traceback, the exit code of the signal."""
    running = start_topiarist(
        "apply", write_manifests(tmp_path, {"prod": meddler.through(cluster.connect)}, "orders"), "--yes"
    )

    def interrupt(kind: str) -> bool:
        if kind == "multiRead":
            running.send_signal(number)
        return kind != "multiRead"

    meddler.may_forward = interrupt
    out, err = running.communicate(timeout=300)
    assert meddler.writes == 0
    assert "Traceback" not in err
    assert "Applied" not in out
    assert running.returncode in (128 + number, -number)


def test_an_interrupt_leaves_the_clusters_behind_alone(
    cluster: SimulatedKafka, chroot: str, proxy: Proxy, tmp_path: Path
) -> None:
    """Ctrl-C at the first of two clusters: the run creates nothing in the second, not even topiarist's nodes."""
    names = [f"orders-{number:03}" for number in range(300)]
    with SimulatedKafka(f"{chroot}-behind", BROKERS) as second:
        second.client.set("/cluster/id", b'{"version":"1","id":"AnotherClustersId00000"}')
        clusters = {"a": proxy.through(cluster.connect), "b": second.connect}
        running = start_topiarist("apply", write_manifests(tmp_path, clusters, *names), "--yes")
        proxy.hold(50, lambda: running.send_signal(signal.SIGINT))
        out, err = running.communicate(timeout=300)
        assert not [path for path in write_checker.read_nodes(second.connect) if path.startswith("/topiarist")]
    assert running.returncode == 130
    assert "Traceback" not in err
    assert re.search(r"Applied: \d+ done, \d+ skipped\.", out)
    assert "Applied: 300 skipped." in out


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


VALIDATOR = Draft7Validator(load.load_schema("report"))
NAMES = [f"orders-{number:03}" for number in range(150)]


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a report, each validated by the schema."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for line in found:
        VALIDATOR.validate(line)
    return found


def results(path: Path) -> dict[str, str]:
    """Return the result of each topic; no topic has two lines."""
    found = [line for line in lines(path) if line["row"] == "topic"]
    assert len({line["topic"] for line in found}) == len(found)
    return {line["topic"]: line["result"] for line in found}


def apply(folder: Path, report: Path, *more: str, size: int = -1) -> subprocess.Popen[str]:
    """Apply a folder in a separate process, with a file size limit of ``size``."""

    def limit() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if size >= 0:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    command = [sys.executable, "-m", "topiarist", "apply", str(folder), "--yes", "--report", str(report), *more]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=limit, cwd=folder
    )


@pytest.mark.slow
def test_a_report_is_there_as_it_happens(cluster: SimulatedKafka, proxy: Proxy, tmp_path: Path) -> None:
    """The lines of the first topics are readable while the last ones are written; at the end each topic has one."""
    report, seen = tmp_path / "report.jsonl", list[dict[str, Any]]()
    folder = write_manifests(tmp_path, {"prod": proxy.through(cluster.connect)}, *NAMES)

    def look() -> None:
        wait_until(lambda: len(lines(report)) > 1, "a line of the report")
        seen.extend(lines(report))

    proxy.hold(FIRST_TOPIC_WRITE + 140, look)
    running = apply(folder, report)
    _, err = running.communicate(timeout=300)
    assert (running.returncode, err) == (0, "")
    assert seen[0]["row"] == "header"
    assert 1 < len(seen) < 150
    header, *topics, summary = lines(report)
    assert (header["form"], header["clusters"][0]["name"]) == ("manifests", "prod")
    assert results(report) == dict.fromkeys(NAMES, "done")
    assert all(topic["changes"][0]["after"]["replicas"] for topic in topics)
    assert (summary["results"], summary["exit"]) == ({"done": 150}, 0)


def test_a_report_holds_no_address_and_no_path(cluster: SimulatedKafka, tmp_path: Path) -> None:
    """A report has neither the address of ZooKeeper nor a path of this machine."""
    folder = write_manifests(tmp_path, {"prod": cluster.connect}, "orders")
    running = apply(folder, tmp_path / "report.jsonl")
    running.communicate(timeout=300)
    text = (tmp_path / "report.jsonl").read_text()
    assert not re.search(rf"127\.0\.0\.1|{re.escape(str(tmp_path))}|all\.yaml", text)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_ends_its_report(
    cluster: SimulatedKafka, proxy: Proxy, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """After an interrupt every topic has its line, and the summary has the exit code of the signal."""
    report = tmp_path / "report.jsonl"
    folder = write_manifests(tmp_path, {"prod": proxy.through(cluster.connect)}, *NAMES)
    running = apply(folder, report)
    proxy.hold(FIRST_TOPIC_WRITE + 50, lambda: running.send_signal(number))
    running.communicate(timeout=300)
    assert running.returncode == code
    assert set(results(report).values()) == {"done", "skipped"}
    assert len(results(report)) == 150
    assert lines(report)[-1]["exit"] == code


@pytest.mark.slow
def test_a_killed_run_leaves_whole_lines(cluster: SimulatedKafka, proxy: Proxy, tmp_path: Path) -> None:
    """A killed run leaves no summary, but only complete lines; a later run appends to them."""
    report = tmp_path / "report.jsonl"
    folder = write_manifests(tmp_path, {"prod": proxy.through(cluster.connect)}, *NAMES)
    running = apply(folder, report)

    def kill() -> None:
        wait_until(lambda: len(report.read_text().splitlines()) > 1, "a line of the report")
        running.kill()

    proxy.hold(FIRST_TOPIC_WRITE + 140, kill)
    running.communicate(timeout=300)
    first, *others = [line["row"] for line in lines(report)]
    assert (first, set(others)) == ("header", {"topic"})
    assert set(results(report).values()) == {"done"}


def test_what_is_refused_and_what_ended_the_run_is_in_it(
    cluster: SimulatedKafka, client: KazooClient, tmp_path: Path
) -> None:
    """The report of a frozen cluster has each topic with the reason and the withheld changes."""
    client.create("/topiarist", b"")
    client.create("/topiarist/gate", own_values.encode_freeze(Freeze("moving racks")))
    report = tmp_path / "report.jsonl"
    running = apply(write_manifests(tmp_path, {"prod": cluster.connect}, "orders"), report)
    running.communicate(timeout=300)
    (_, topic, summary) = lines(report)
    assert (topic["result"], topic["reason"], topic["changes"]) == ("refused", "Frozen", [])
    assert topic["refusals"][0]["withheld"][0]["kind"] == "CreateTopic"
    assert (summary["exit"], summary["results"]) == (4, {"refused": 1})


@pytest.mark.slow
def test_with_wait_a_created_topic_has_its_id(cluster: SimulatedKafka, client: KazooClient, tmp_path: Path) -> None:
    """When the controller has assigned an id, the report gets a second line with the id of the topic's node."""
    report = tmp_path / "report.jsonl"
    running = apply(write_manifests(tmp_path, {"prod": cluster.connect}, "a", "b"), report, "--wait")
    running.communicate(timeout=300)
    found = [(line["topic"], line["result"], line["topicId"]) for line in lines(report) if line["row"] == "topic"]
    ids = {name: json.loads(client.get(f"/brokers/topics/{name}")[0])["topic_id"] for name in "ab"}
    assert found[:2] == [("a", "done", None), ("b", "done", None)]
    assert sorted(found[2:]) == [("a", "done", ids["a"]), ("b", "done", ids["b"])]
    again = apply(write_manifests(tmp_path, {"prod": cluster.connect}, "a", "b"), report, "--wait")
    again.communicate(timeout=300)
    assert (running.returncode, again.returncode) == (0, 0)
    assert [line["row"] for line in lines(report)].count("topic") == len(found)

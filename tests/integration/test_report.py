"""The report of an apply: written during the run, complete at its end, and a precondition of every write."""

from __future__ import annotations

import json
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

from integration.write_fixtures import FIRST_TOPIC_WRITE
from support.cli.runs import write_manifests
from support.waiting import wait_until
from support.zookeeper import write_checker
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters import own_values
from topiarist.adapters.zookeeper.codec import topics as topics_
from topiarist.model.state import Freeze
from topiarist.schema import load

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


def test_a_topic_that_appears_while_the_run_is_under_way_is_left_as_it_is(
    cluster: SimulatedKafka, proxy: Proxy, client: KazooClient, tmp_path: Path
) -> None:
    """A planned topic that another client creates first stays unchanged: the run reports the reason and exits
    with 5.
    """
    report = tmp_path / "report.jsonl"
    folder = write_manifests(tmp_path, {"prod": proxy.through(cluster.connect)}, "a", "b")

    def meddle() -> None:
        client.create("/config/topics/b", b'{"version":1,"config":{"retention.ms":"7"}}')
        client.create("/brokers/topics/b", topics_.encode_topic(((1,), (2,))))

    proxy.hold(1, meddle)
    running = apply(folder, report)
    out, _ = running.communicate(timeout=300)
    cluster.wait_idle()
    tree = write_checker.read_nodes(cluster.connect)
    found = {line["topic"]: line for line in lines(report) if line["row"] == "topic"}
    assert (running.returncode, results(report)) == (5, {"a": "done", "b": "conflict"})
    assert found["b"]["message"] == "did not exist, and exists now"
    assert [change["kind"] for change in found["b"]["changes"]] == ["CreateTopic"]
    assert "did not exist, and exists now" in out
    assert (len(write_checker.decode_topics(tree)["b"]["partitions"]), write_checker.decode_configs(tree)["b"]) == (
        2,
        {"retention.ms": "7"},
    )
    assert "/topiarist/topics/b" not in tree

"""Several clusters in one run: read at the same time, told in order, and each result accounted for."""

from __future__ import annotations

import json
import re
import signal
import socket
from pathlib import Path

import pytest

from integration.write_fixtures import InterceptingProxy
from support.cli.runs import connect_string_of, document, run_topiarist, start_topiarist, write_manifests
from support.examples import slow_but
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka

NAMES = re.compile("^([0-9a-e])  ", re.MULTILINE)
"""The heads of clusters in a plan."""


def test_plans_stand_in_order_of_name(clusters: dict[str, SimulatedKafka], proxy: Proxy, tmp_path: Path) -> None:
    """Whichever answers first: the same bytes each time, without a write, and every session is closed."""
    connects = {name: proxy.through(cluster.connect) for name, cluster in clusters.items()}
    folder = write_manifests(tmp_path / "all", connects, "orders")
    runs = [run_topiarist("plan", folder) for _ in range(3)]
    assert {run.code for run in runs} == {0}
    assert len({run.out for run in runs}) == 1
    assert NAMES.findall(runs[0].out) == ["a", "b", "c"]
    assert proxy.writes == 0
    assert proxy.requests["connect"] == proxy.requests["closeSession"] == 9


def test_all_that_cannot_be_reached_are_named_and_counted(
    clusters: dict[str, SimulatedKafka], silent: socket.socket, tmp_path: Path
) -> None:
    """A silent server, a closed port and a ZooKeeper without Kafka are named in order; the others are planned."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        connects = {name: cluster.connect for name, cluster in clusters.items()}
        connects |= {
            "0": connect_string_of(silent),
            "d": connect_string_of(probe),
            "e": f"{clusters['a'].connect}/none",
        }
        run = run_topiarist(
            "plan", write_manifests(tmp_path / "all", connects, "orders", "payments"), "--connect-timeout", "1"
        )
    assert run.code == 1
    assert re.findall("^error: cluster (.)", run.err, re.MULTILINE) == ["0", "d", "e"]
    assert run.err.endswith("\n3 of 6 clusters planned; without a result: 6 of 12 topics\n")
    assert NAMES.findall(run.out) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "words",
    slow_but(["apply --yes"], ["plan", "apply --yes", "snapshot --out there", "freeze --reason x", "unfreeze"]),
)
def test_an_interrupt_while_connecting_ends_the_run_at_once(
    clusters: dict[str, SimulatedKafka], silent: socket.socket, tmp_path: Path, words: str
) -> None:
    """Ctrl-C while one of several servers does not answer: no wait for its timeout, no traceback, exit code 130."""
    connects = {name: cluster.connect for name, cluster in clusters.items()} | {"d": connect_string_of(silent)}
    folder = write_manifests(tmp_path / "all", connects, "orders")
    command, *more = (str(tmp_path / word) if word == "there" else word for word in words.split())
    running = start_topiarist(command, folder, *more, "--connect-timeout", "600")
    connection, _ = silent.accept()
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=300)
    connection.close()
    assert running.returncode == 130
    assert "interrupted: " in err
    assert "Traceback" not in err
    assert out == ""
    assert command not in ("freeze", "unfreeze") or "nothing was written" not in err


@pytest.mark.slow
def test_an_interrupt_while_sessions_end_unsays_nothing(
    clusters: dict[str, SimulatedKafka], meddler: InterceptingProxy, tmp_path: Path
) -> None:
    """All is done and said when Ctrl-C comes: the run ends as it would have, and does not say that nothing was done."""
    folder = write_manifests(tmp_path / "all", {"a": meddler.through(clusters["a"].connect)}, "orders")
    running = start_topiarist("apply", folder, "--kafka-version", "3.9", "--yes")

    def interrupt(kind: str) -> bool:
        if kind == "closeSession":
            running.send_signal(signal.SIGINT)
            running.wait(timeout=300)
        return True

    meddler.may_forward = interrupt
    out, err = running.communicate(timeout=300)
    assert (running.returncode, err) == (0, "")
    assert "Applied: 1 done." in out


def test_clusters_with_moves_are_written_last(clusters: dict[str, SimulatedKafka], tmp_path: Path) -> None:
    """Moves may take hours, so no other cluster waits for them; the results are shown in order of name."""
    clusters["a"].moves_replicas = True
    clusters["a"].wait_idle()
    folder = write_manifests(tmp_path / "all", {name: each.connect for name, each in clusters.items()}, "orders")
    moving = {"allow": ["Drain"], "throttle": "Unlimited"}
    draining = document("Cluster", "a", zookeeper={"connect": clusters["a"].connect}, drainBrokers=[1], moves=moving)
    others = (folder / "clusters.yaml").read_text().split("\n---\n")
    others = [other for other in others if "name: a\n" not in other and '"name": "a"' not in other]
    (folder / "clusters.yaml").write_text("\n---\n".join([*others, draining]))
    existing = {"clusters": ["a"], "partitions": 2, "replicationFactor": 3, "config": {"retention.ms": 1000}}
    (folder / "existing.yaml").write_text(document("Topic", "on-a", **existing))
    report = tmp_path / "report.jsonl"
    run = run_topiarist("apply", folder, "--yes", "--adopt=on-a", "--report", report)
    assert run.code == 0, run
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    written = [row["cluster"] for row in rows if row["row"] in ("topic", "move")]
    assert written.index("b") < written.index("a")
    assert written.index("c") < written.index("a")
    assert "move" in {row["row"] for row in rows}
    assert re.findall("^([abc])  ", run.out.rpartition("Plan: ")[0], re.MULTILINE)[:3] == ["a", "b", "c"]

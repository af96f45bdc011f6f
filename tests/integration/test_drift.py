"""``topiarist drift --live`` on real clusters: one read for each cluster, no write, no address in the report."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from conftest import BROKERS
from support.cli.runs import connect_string_of, run_topiarist, write_manifests
from support.drift.repair_story import tell_repair_story
from support.drift.small_fleet import NO_TIMES, read_rows, read_summary, row_keys
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka


def test_a_live_report_is_that_of_snapshots(clusters: dict[str, SimulatedKafka], proxy: Proxy, tmp_path: Path) -> None:
    """A live report has the same findings as a report of snapshots, except for the time; no write is sent."""
    connects = {name: proxy.through(cluster.connect) for name, cluster in clusters.items()}
    folder = write_manifests(tmp_path / "all", connects, "orders", "on-a")
    run = run_topiarist("drift", folder, "--live", "--out", tmp_path / "live", "--exit-code")
    assert (run.code, run.out) == (3, "")
    assert proxy.writes == 0
    run_topiarist("snapshot", folder, "--out", tmp_path / "taken")
    run = run_topiarist(
        "drift", folder, "--snapshots", tmp_path / "taken", "--out", tmp_path / "recorded", "--exit-code"
    )
    assert run.code == 3
    live, recorded = ([row | NO_TIMES for row in read_rows(tmp_path / name)] for name in ("live", "recorded"))
    assert live == recorded
    assert ("b", "orders", "missing", "") in row_keys(live)
    assert ("b", "on-b", "unexpected", "") in row_keys(live)


def test_a_live_report_is_the_same_in_a_pool(clusters: dict[str, SimulatedKafka], proxy: Proxy, tmp_path: Path) -> None:
    """Two processes read each cluster once, and report the same findings as one."""
    connects = {name: proxy.through(cluster.connect) for name, cluster in clusters.items()}
    folder = write_manifests(tmp_path / "all", connects, "orders", "on-a")
    reports = []
    for jobs in ("1", "2"):
        before = len(proxy.connections)
        run = run_topiarist("drift", folder, "--live", "--out", tmp_path / jobs, "--jobs", jobs)
        assert run.code == 0
        assert len(proxy.connections) - before == len(clusters)
        reports.append([row | NO_TIMES for row in read_rows(tmp_path / jobs)])
    assert reports[0] == reports[1] != []
    assert proxy.writes == 0


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_cluster_that_cannot_be_reached_is_a_row(
    clusters: dict[str, SimulatedKafka], silent: socket.socket, tmp_path: Path, jobs: str
) -> None:
    """An unreachable cluster is a row without its address; the others are compared, and the exit code is 1."""
    folder = write_manifests(tmp_path / "all", {"a": clusters["a"].connect, "z": connect_string_of(silent)}, "orders")
    words = ("--live", "--out", tmp_path / "report", "--connect-timeout", "1", "--jobs", jobs)
    run = run_topiarist("drift", folder, *words)
    assert run.code == 1
    assert "error: cluster z: cannot reach ZooKeeper" in run.err
    (row,) = [row for row in read_rows(tmp_path / "report") if row["cluster"] == "z"]
    assert (row["class"], row["topic"], row["message"]) == ("unknown", "", "could not be read (Unreachable)")
    assert read_summary(tmp_path / "report")["clusters"] == {"declared": 2, "compared": 1, "unknown": 1}
    for path in (tmp_path / "report").iterdir():
        assert connect_string_of(silent) not in path.read_text()
        assert clusters["a"].connect.partition("/")[0] not in path.read_text()


def test_a_small_report_starts_no_java(clusters: dict[str, SimulatedKafka], tmp_path: Path) -> None:
    """A small report loads no part of Spark, because this process does all the work."""
    folder = write_manifests(tmp_path / "all", {"a": clusters["a"].connect}, "orders")
    words = json.dumps(["drift", str(folder), "--live", "--out", str(tmp_path / "report"), "-q"])
    script = f"import sys; from topiarist.cli.main import run; run({words}); print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_each_way_of_a_repair_ends_its_findings(chroot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet drifts, its findings are repaired by a commit, a plan and an acceptance, and the next report is empty."""
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        fleet = {name: stack.enter_context(SimulatedKafka(f"{chroot}-{name}", BROKERS)) for name in ("eu", "us")}
        for name, cluster in fleet.items():
            cluster.client.set("/cluster/id", b'{"version":"1","id":"%s"}' % name.encode())

        def set_by_hand(name: str, topic: str, key: str, value: str) -> None:
            client, path = fleet[name].client, f"/config/topics/{topic}"
            found = json.loads(client.get(path)[0])
            found["config"][key] = value
            client.set(path, json.dumps(found).encode())

        specs = {name: {"zookeeper": {"connect": cluster.connect}} for name, cluster in fleet.items()}
        tell_repair_story(tmp_path, specs, set_by_hand)


def test_live_clusters_are_compared_with_each_other(
    clusters: dict[str, SimulatedKafka], proxy: Proxy, tmp_path: Path
) -> None:
    """Live clusters are compared without a manifest of a topic, and no write is sent."""
    connects = {name: proxy.through(cluster.connect) for name, cluster in clusters.items()}
    folder = write_manifests(tmp_path / "all", connects)
    words = ("drift", "--clusters", folder / "clusters.yaml", "--between", "a,b", "--live", "--exit-code")
    run = run_topiarist(*words, "--format", "json")
    assert run.code == 3
    assert [(row["topic"], row["values"]) for row in json.loads(run.out)["values"]] == [
        ("on-a", {"a": "present", "b": None}),
        ("on-b", {"a": None, "b": "present"}),
    ]
    assert proxy.writes == 0

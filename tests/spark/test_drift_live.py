"""Clusters read by the executors: the same report as by one process, without the addresses of clusters."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from support.cli.runs import connect_string_of, document, write_manifests
from support.drift.small_fleet import NO_TIMES, read_rows, read_summary, row_keys
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.cli.main import run


def reported(folder: Path, out: Path, *words: str) -> int:
    """Run ``topiarist drift --live`` in this process; return its exit code."""
    return run(["drift", str(folder), "--live", "--out", str(out), "--connect-timeout", "2", *words])


@pytest.mark.usefixtures("spark")
def test_executors_read_what_this_process_reads(
    clusters: dict[str, SimulatedKafka], proxy: Proxy, tmp_path: Path
) -> None:
    """Both engines report the same findings except for the time; each cluster is read once, and no write is sent."""
    connects = {name: proxy.through(cluster.connect) for name, cluster in clusters.items()}
    folder = write_manifests(tmp_path / "all", connects, "orders", "on-a")
    assert reported(folder, tmp_path / "python", "--exit-code") == 3
    before = len(proxy.connections)
    assert reported(folder, tmp_path / "spark", "--exit-code", "--engine", "spark") == 3
    assert len(proxy.connections) - before == len(clusters)
    assert proxy.writes == 0
    found = [[row | NO_TIMES for row in read_rows(tmp_path / name)] for name in ("python", "spark")]
    assert found[0] == found[1]
    assert ("b", "orders", "missing", "") in row_keys(found[1])
    assert ("b", "on-b", "unexpected", "") in row_keys(found[1])
    names = {path.name for path in (tmp_path / "spark").iterdir()}
    assert names == {path.name for path in (tmp_path / "python").iterdir()} | {"findings.parquet"}


@pytest.mark.usefixtures("spark")
def test_a_cluster_that_no_executor_reaches_is_a_row(
    clusters: dict[str, SimulatedKafka], silent: socket.socket, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unreachable cluster is one finding while the others are compared.

    Stderr names the cause, and the report contains no address.
    """
    folder = write_manifests(tmp_path / "all", {"a": clusters["a"].connect, "z": connect_string_of(silent)}, "orders")
    assert reported(folder, tmp_path / "report", "--engine", "spark") == 1
    assert "error: cluster z: cannot reach ZooKeeper" in capsys.readouterr().err
    (row,) = [row for row in read_rows(tmp_path / "report") if row["cluster"] == "z"]
    assert (row["class"], row["topic"], row["message"]) == ("unknown", "", "could not be read (Unreachable)")
    assert read_summary(tmp_path / "report")["clusters"] == {"declared": 2, "compared": 1, "unknown": 1}
    for path in (tmp_path / "report").rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        assert connect_string_of(silent).encode() not in data
        assert clusters["a"].connect.partition("/")[0].encode() not in data


@pytest.mark.usefixtures("spark")
def test_if_no_cluster_is_reached_there_is_a_report_too(silent: socket.socket, tmp_path: Path) -> None:
    """If no cluster is reachable, the report has one finding for each cluster and no others."""
    folder = write_manifests(
        tmp_path / "all", {"y": connect_string_of(silent), "z": connect_string_of(silent)}, "orders"
    )
    assert reported(folder, tmp_path / "report", "-q", "--engine", "spark") == 1
    assert row_keys(read_rows(tmp_path / "report")) == [("y", "", "unknown", ""), ("z", "", "unknown", "")]


@pytest.mark.usefixtures("spark")
def test_secrets_are_read_by_whoever_enters(clusters: dict[str, SimulatedKafka], tmp_path: Path) -> None:
    """A task gets the path of a password and not the password: without the file its login fails."""
    password = tmp_path / "password"
    login = {"username": "somebody", "password": {"file": str(password)}}
    folder = write_manifests(tmp_path / "all", {"a": clusters["a"].connect}, "on-a")
    cluster = document("Cluster", "a", zookeeper={"connect": clusters["a"].connect, "digest": login})
    (folder / "clusters.yaml").write_text(cluster)
    password.write_text("secret")
    assert reported(folder, tmp_path / "report", "-q", "--engine", "spark") == 0
    assert read_summary(tmp_path / "report")["clusters"]["compared"] == 1
    password.unlink()
    assert reported(folder, tmp_path / "report", "-q", "--engine", "spark") == 1
    (row,) = read_rows(tmp_path / "report")
    assert row["message"] == "could not be read (CredentialsInvalid)"

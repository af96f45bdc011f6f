"""F27: no space or no right for a file: its path is named, the earlier file stays, and nothing more is sent to
ZooKeeper.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from integration.test_apply import apply, results
from support import namespaces
from support.cli.runs import write_manifests
from support.zookeeper import busy_cluster, write_checker
from support.zookeeper.busy_cluster import ClusterTemplate
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka

SCRIPT = """
set -eu
disk=$1 kept=$2 options=$3
shift 3
mount -t tmpfs -o size=12k none "$disk"
echo old >"$disk/plan.json"
echo old >"$disk/report.jsonl"
mount -o "remount,$options" "$disk"
code=0
"$@" || code=$?
cp -a "$disk/." "$kept"
exit $code
"""
"""A disk of 12 KiB that only this process sees, and what is on it in the end."""

WRITERS = {
    "plan": (("plan", "{folder}", "--adopt=*", "--out", "{disk}/plan.json"), "plan.json"),
    "snapshot": (("snapshot", "{folder}", "--out", "{disk}/snapshots"), "snapshots/prod.jsonl"),
    "export": (("export", "{folder}", "--out", "{disk}/export"), "export"),
    "report": (
        ("apply", "{folder}", "--yes", "--adopt=*", "--allow-risk", "DataLoss", "--report", "{disk}/report.jsonl"),
        "report.jsonl",
    ),
}


def on_a_disk(options: str, writer: str, tmp_path: Path, connect: str) -> tuple[str, Path]:
    """Run a command with its file on such a disk; return its error output, and the content of the disk."""
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    kept.mkdir()
    folder = busy_cluster.write_manifest_folder(tmp_path / "manifests", connect)
    words = [word.format(folder=folder, disk=disk) for word in WRITERS[writer][0]]
    command = ["sh", "-c", SCRIPT, "sh", str(disk), str(kept), options, sys.executable, "-m", "topiarist", *words]
    done = subprocess.run([*namespaces.own_disks(), *command], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1, done
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "cannot be written" in line]
    assert str(disk / WRITERS[writer][1]) in line
    return line, kept


@pytest.mark.parametrize("writer", WRITERS)
def test_f27_a_disk_that_may_not_be_written(mould: ClusterTemplate, proxy: Proxy, tmp_path: Path, writer: str) -> None:
    """Mounted read-only: the error has the path and the cause, the earlier file stays, and no write is sent to
    ZooKeeper.
    """
    connect = mould.create_copy()
    before = write_checker.read_nodes(connect)
    line, kept = on_a_disk("ro", writer, tmp_path, proxy.through(connect))
    assert "Read-only file system" in line
    assert sorted(path.name for path in kept.iterdir()) == ["plan.json", "report.jsonl"]
    assert {path.read_text() for path in kept.iterdir()} == {"old\n"}
    assert proxy.writes == 0
    assert write_checker.read_nodes(connect) == before


@pytest.mark.parametrize("writer", WRITERS)
def test_f27_a_full_disk(mould: ClusterTemplate, proxy: Proxy, tmp_path: Path, writer: str) -> None:
    """Full in the middle of the file: the error has the path and the cause, the earlier file is unchanged (a report has
    complete lines), without a part of the new one; transactions in flight finish and nothing more is sent.
    """
    connect = mould.create_copy()
    line, kept = on_a_disk("rw", writer, tmp_path, proxy.through(connect))
    assert "No space left on device" in line
    assert (kept / "plan.json").read_text() == "old\n"
    assert (kept / "report.jsonl").read_text().startswith("old\n")
    assert {path.name for path in kept.rglob("*")} <= {"plan.json", "report.jsonl", "snapshots"}
    if writer != "report":
        assert proxy.writes == 0
    else:
        assert (kept / "report.jsonl").read_text().endswith("}\n")


def test_f27_without_a_report_nothing_is_sent(cluster: SimulatedKafka, proxy: Proxy, tmp_path: Path) -> None:
    """A disk that is full from the beginning: the path is named, no write is sent, the exit code is 1."""
    folder = write_manifests(tmp_path, {"prod": proxy.through(cluster.connect)}, "orders")
    running = apply(folder, Path("/dev/full"))
    _, err = running.communicate(timeout=300)
    assert running.returncode == 1
    assert "error: /dev/full: cannot be written: No space left on device" in err
    assert proxy.writes == 0


def test_f27_a_disk_that_becomes_full_ends_the_sending(
    cluster: SimulatedKafka, client: KazooClient, proxy: Proxy, tmp_path: Path
) -> None:
    """Transactions in flight finish, nothing more is sent, the lines are complete; the next run does the rest."""
    names, report = [f"orders-{number:03}" for number in range(400)], tmp_path / "report.jsonl"
    folder = write_manifests(tmp_path, {"prod": proxy.through(cluster.connect)}, *names)
    running = apply(folder, report, size=8_000)
    out, err = running.communicate(timeout=300)
    assert running.returncode == 1
    assert f"error: {report}: cannot be written: File too large" in err
    match = re.search(r"Applied: (\d+) done, (\d+) skipped", out)
    assert match
    assert int(match[2]) > 100
    assert len(client.get_children("/topiarist/topics")) == int(match[1])
    told = results(report)
    assert set(told.values()) == {"done"}
    assert 0 < len(told) <= int(match[1])
    cluster.wait_idle()
    again = apply(folder, tmp_path / "again.jsonl")
    again.communicate(timeout=300)
    assert (again.returncode, len(results(tmp_path / "again.jsonl"))) == (0, int(match[2]))

"""Snapshots of a run: files are matched to the clusters of the manifests by content, from one file or a folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from support.snapshots import FULL_SIZES, FULL_STATE, SNAPSHOT_TIME, snapshot_error, snapshot_lines, write_snapshot_rows
from topiarist.adapters.size_limits import build_list_limits
from topiarist.adapters.snapshots.files import SnapshotFiles, file_name, load_snapshot
from topiarist.model.access import KafkaAccess, ZooKeeperAccess
from topiarist.model.spec import ClusterSpec


@pytest.mark.parametrize("name", ["absent.jsonl", "folder.jsonl", "\0"])
def test_what_is_no_file_is_said(tmp_path: Path, name: str) -> None:
    """A missing file, a folder and an invalid file name are errors."""
    (tmp_path / "folder.jsonl").mkdir()
    assert "cannot be read" in snapshot_error(load_snapshot, tmp_path / name)


def test_a_device_is_not_read() -> None:
    """A device is refused before it is read, because it may have no end."""
    assert "/dev/zero: found no regular file" in snapshot_error(load_snapshot, Path("/dev/zero"))


def test_a_folder_has_a_file_for_each_cluster(tmp_path: Path) -> None:
    """Clusters are found by the content of the files, not by file names; other and hidden files are ignored."""
    write_snapshot_rows(tmp_path, snapshot_lines(name="eu"), "first.jsonl")
    write_snapshot_rows(tmp_path, snapshot_lines(replace(FULL_STATE, cluster_id="other"), name=""), file_name(""))
    write_snapshot_rows(tmp_path, [b"?"], "README.md")
    write_snapshot_rows(tmp_path, [b"?"], ".eu.jsonl.0123.part")
    found = SnapshotFiles(tmp_path)
    assert found.read(ClusterSpec(name="eu")).cluster_id == "7sYk"
    assert found.read(ClusterSpec()).cluster_id == "other"
    assert found.taken_at == {"eu": SNAPSHOT_TIME, "": SNAPSHOT_TIME}
    assert SnapshotFiles(tmp_path / "default.jsonl").read(ClusterSpec()).cluster_id == "other"


def test_a_cluster_without_a_snapshot_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    """The error names the cluster without a snapshot, the path, and the clusters that have one."""
    path = write_snapshot_rows(tmp_path, snapshot_lines())
    words = snapshot_error(SnapshotFiles(path).read, ClusterSpec(name="us"))
    assert words == f"{path} has no snapshot of cluster us\n    it has cluster eu"
    assert "no snapshot of the cluster without a name" in snapshot_error(SnapshotFiles(path).read, ClusterSpec())


def test_a_folder_without_snapshots_or_with_two_of_one_cluster_is_no_use(tmp_path: Path) -> None:
    """A folder without snapshots, or with two snapshots of one cluster, is an error before planning."""
    assert f"{tmp_path} has no file *.jsonl" in snapshot_error(SnapshotFiles, tmp_path)
    write_snapshot_rows(tmp_path, snapshot_lines(), "a.jsonl")
    write_snapshot_rows(tmp_path, snapshot_lines(), "b.jsonl")
    assert "b.jsonl: found cluster eu, as in " in snapshot_error(SnapshotFiles, tmp_path)
    write_snapshot_rows(tmp_path, [b"?"], "b.jsonl")
    assert "b.jsonl:1: found invalid JSON" in snapshot_error(SnapshotFiles, tmp_path)


@pytest.mark.parametrize("connect", ["", "zk1:2181/kafka", "zk1:2181,zk2:2181/kafka/", "zk1:2181//kafka"])
def test_the_limit_is_that_of_the_run(tmp_path: Path, connect: str) -> None:
    """``maxBuffer`` comes from the manifest and not from the snapshot, as it does with a live cluster."""
    state = SnapshotFiles(write_snapshot_rows(tmp_path, snapshot_lines())).read(
        ClusterSpec(name="eu", zookeeper=ZooKeeperAccess(connect, 5_000_000))
    )
    assert state == replace(FULL_STATE, size_limits=build_list_limits(FULL_SIZES._replace(max_bytes=5_000_000)))


@pytest.mark.parametrize(("connect", "wanted"), [("zk1:2181/other", "/other"), ("zk1:2181", "/")])
def test_an_address_that_leads_to_another_chroot_is_another_cluster(tmp_path: Path, connect: str, wanted: str) -> None:
    """A snapshot of another chroot is refused, unless the cluster id of the manifest matches that of the snapshot."""
    words = snapshot_error(
        SnapshotFiles(write_snapshot_rows(tmp_path, snapshot_lines())).read,
        ClusterSpec(name="eu", zookeeper=ZooKeeperAccess(connect)),
    )
    assert f"was taken at chroot /kafka, and the address of its Cluster has {wanted}" in words
    by_brokers = ClusterSpec(name="eu", kafka=KafkaAccess("b1:9092"))
    assert SnapshotFiles(tmp_path).read(by_brokers).chroot == "/kafka"
    spec = ClusterSpec(name="eu", zookeeper=ZooKeeperAccess(connect), cluster_id="7sYk")
    assert SnapshotFiles(tmp_path).read(spec).chroot == "/kafka"

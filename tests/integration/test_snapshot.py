"""``snapshot`` and ``plan --snapshot`` on real clusters: written whole, without a write to them, and planned from."""

from __future__ import annotations

import json
import re
import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from msgspec.structs import replace

from conftest import BROKERS
from support.cli.runs import connect_string_of, document, run_topiarist, write_manifests
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.snapshots.files import Snapshot, dump_snapshot, load_snapshot
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.errors import Reason
from topiarist.model.access import ZooKeeperAccess

AGE = re.compile(
    r"read from (\S+): (the oldest )?taken \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ, (~?[\d.]+ (seconds?|ms|minutes?)) ago\n"
)


def test_a_plan_of_several_clusters_from_their_snapshots_is_the_live_one(
    clusters: dict[str, SimulatedKafka], proxy: Proxy, tmp_path: Path
) -> None:
    """In every format to the byte; no write is sent, and none of the requests comes from the plan."""
    connects = {name: proxy.through(cluster.connect) for name, cluster in clusters.items()}
    folder, taken = write_manifests(tmp_path / "all", connects, "orders", "on-a", "on-b"), tmp_path / "taken"
    run = run_topiarist("snapshot", folder, "--out", taken)
    assert (run.code, run.out) == (0, "")
    assert run.err == "".join(f"{taken / name}.jsonl: 1 topic\n" for name in "abc")
    assert sorted(path.name for path in taken.iterdir()) == ["a.jsonl", "b.jsonl", "c.jsonl"]
    assert proxy.writes == 0
    for more in (["--format", "text"], ["--format", "json"], ["--cluster", "b"], ["--adopt=*", "-v", "--exit-code"]):
        live = run_topiarist("plan", folder, *more)
        proxy.reset()
        recorded = run_topiarist("plan", folder, *more, "--snapshot", taken)
        assert sum(proxy.requests.values()) == 0
        assert (recorded.code, recorded.out) == (live.code, live.out)
        assert recorded.out
        age = AGE.fullmatch(recorded.err)
        assert age
        assert (age[1], bool(age[2])) == (str(taken), "b" not in more)


def test_a_plan_needs_no_address(clusters: dict[str, SimulatedKafka], tmp_path: Path) -> None:
    """A plan from a snapshot needs no connect string, and still checks the cluster id."""
    folder = write_manifests(tmp_path / "all", {"a": clusters["a"].connect}, "orders")
    run_topiarist("snapshot", folder, "--out", tmp_path / "taken")
    live = run_topiarist("plan", folder, "-q")
    (folder / "clusters.yaml").write_text(document("Cluster", "a"))
    assert run_topiarist("plan", folder, "--snapshot", tmp_path / "taken", "-q") == (0, live.out, "")
    (folder / "clusters.yaml").write_text(document("Cluster", "a", clusterId="another"))
    run = run_topiarist("plan", folder, "--snapshot", tmp_path / "taken" / "a.jsonl")
    assert (run.code, run.out) == (1, "")
    assert "error: cluster a: found cluster id a, wanted another (clusterId)" in run.err


def test_clusters_without_a_snapshot_are_named(clusters: dict[str, SimulatedKafka], tmp_path: Path) -> None:
    """All of them, with what there is; the others are planned, and the run fails at its end."""
    connects = {name: cluster.connect for name, cluster in clusters.items()}
    folder = write_manifests(tmp_path / "all", connects, "orders")
    run_topiarist("snapshot", folder, "--out", tmp_path / "taken", "--cluster", "b")
    run = run_topiarist("plan", folder, "--snapshot", tmp_path / "taken")
    assert run.code == 1
    assert re.findall("error: cluster (.): .* has no snapshot of cluster (.)", run.err) == [("a", "a"), ("c", "c")]
    assert "1 of 3 clusters planned; without a result: 2 of 3 topics" in run.err
    assert "\nb  " in f"\n{run.out}"


def test_a_cluster_that_cannot_be_reached_keeps_the_file_that_it_has(
    clusters: dict[str, SimulatedKafka], silent: socket.socket, tmp_path: Path
) -> None:
    """It is named and fails the run; what stands there stays as it is, and the others are written."""
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "z.jsonl").write_text("what was there")
    folder = write_manifests(tmp_path / "all", {"a": clusters["a"].connect, "z": connect_string_of(silent)})
    run = run_topiarist("snapshot", folder, "--out", taken, "--connect-timeout", "1")
    assert (run.code, run.out) == (1, "")
    assert "error: cluster z: cannot reach ZooKeeper" in run.err
    assert (taken / "z.jsonl").read_text() == "what was there"
    assert list(load_snapshot(taken / "a.jsonl").state.topics) == ["on-a"]


def test_a_place_that_cannot_be_written_fails_with_its_path(
    clusters: dict[str, SimulatedKafka], tmp_path: Path
) -> None:
    """The error names each cluster with an unwritable file."""
    (tmp_path / "file").write_text("what was there")
    folder = write_manifests(tmp_path / "all", {name: clusters[name].connect for name in "ab"})
    run = run_topiarist("snapshot", folder, "--out", tmp_path / "file")
    assert run.code == 1
    for name in "ab":
        assert f"error: cluster {name}: {tmp_path / 'file' / name}.jsonl: cannot be written: " in run.err
    assert (tmp_path / "file").read_text() == "what was there"


def test_one_cluster_goes_to_standard_output(clusters: dict[str, SimulatedKafka], tmp_path: Path) -> None:
    """Without a folder: the same rows; several clusters are a usage error, since a file is of one cluster."""
    run = run_topiarist("snapshot", "--zookeeper", clusters["a"].connect)
    assert (run.code, run.err) == (0, "")
    run_topiarist("snapshot", "--zookeeper", clusters["a"].connect, "--out", tmp_path)
    rows = [json.loads(line) | {"takenAt": ""} for line in run.out.splitlines()]
    assert rows == [
        json.loads(line) | {"takenAt": ""} for line in (tmp_path / "default.jsonl").read_text().splitlines()
    ]
    run = run_topiarist("snapshot", write_manifests(tmp_path / "all", {name: clusters[name].connect for name in "ab"}))
    assert (run.code, run.out) == (2, "")
    assert "there are 2 clusters: add --out FOLDER, or choose one with --cluster" in run.err


@pytest.mark.parametrize("secret", ["ssl.keystore.password", "listener.name.external.scram-sha-512.sasl.jaas.config"])
def test_no_secret_and_no_address_gets_into_a_file(
    clusters: dict[str, SimulatedKafka], tmp_path: Path, secret: str
) -> None:
    """A password among the brokers' dynamic settings stays behind, and so does the way to the cluster."""
    config = {secret: "planted", "log.retention.ms": "5"}
    clusters["a"].client.create(
        "/config/brokers/<default>", json.dumps({"version": 1, "config": config}).encode(), makepath=True
    )
    run_topiarist("snapshot", "--zookeeper", clusters["a"].connect, "--out", tmp_path)
    text = (tmp_path / "default.jsonl").read_text()
    assert '"brokerDefaults":{"log.retention.ms":"5"}' in text
    assert "planted" not in text
    assert clusters["a"].connect.partition("/")[0] not in text


ODD = {
    "/brokers/ids/1": '{"version":5,"endpoints":[],"rack":""}',
    "/brokers/ids/2": '{"version":5,"endpoints":[]}',
    "/controller": '{"version":2,"brokerid":1,"timestamp":"1","kraftControllerEpoch":-1}',
    "/topiarist/topics/stale": '{"version":1,"owner":"default","config":[]}',
    "/brokers/topics/stale": '{"version":1,"partitions":{"0":[1]}}',
    "/brokers/topics/holes": '{"version":3,"partitions":{"0":[1],"7":[],"10":[2,3]},"vendor":1}',
    "/brokers/topics/moving": '{"version":2,"partitions":{"0":[1,2],"1":[2]},"adding_replicas":{"1":[2]}}',
    "/brokers/topics/broken": "{",
    "/brokers/topics/users": '{"version":1,"partitions":{"0":[1]}}',
    "/topiarist/topics/users": '{"version":1,"owner":"other","config":["retention.ms"]}',
    "/config/topics/users": '{"version":1,"config":{"retention.ms":"1","confluent.\u2028":"\\u0000"}}',
    "/topiarist/topics/gone": '{"version":1,"owner":"default","config":[],"ensure":"Absent"}',
    "/topiarist/topics/odd": "[]",
    "/topiarist/gate": '{"version":1,"state":"frozen","reason":"until noon"}',
    "/admin/reassign_partitions": '{"version":1,"partitions":[{"topic":"users","partition":0,"replicas":[1]}]}',
    "/admin/delete_topics/moving": "",
    "/admin/delete_topics/left": "",
    "/config/brokers/<default>": '{"version":1,"config":{"log.retention.ms":"5"}}',
    "/feature": "?",
}
"""Znodes of a cluster that holds about everything that a state can, in the order in which they are written."""


def test_what_is_read_of_a_real_cluster_comes_back_equal(chroot: str, tmp_path: Path) -> None:
    """Holes, reassignments, faults, marks, records of all kinds, a closed gate: the state is the live one."""
    with SimulatedKafka(chroot, BROKERS) as cluster:
        pass
    client = KazooClient(cluster.connect)
    client.start()
    for path, text in ODD.items():
        if client.exists(path):
            client.set(path, text.encode())
        else:
            client.create(path, text.encode(), makepath=True)
    client.stop()
    client.close()
    with ZooKeeperCluster(ZooKeeperAccess(cluster.connect), owner="default") as port:
        state = port.read()
    seen = (
        state.write_block.reason,
        [*state.topics],
        [*state.topic_errors],
        [*state.dangling_records],
        len(state.warnings),
    )
    assert seen == (Reason.FROZEN, ["holes", "moving", "stale", "users"], ["broken", "odd"], ["gone"], 2)
    assert state.requested_at_ms is not None
    # Times of rows are whole seconds, and no plan depends on who deleted a topic.
    state = replace(state, requested_at_ms=state.requested_at_ms // 1000 * 1000, deletion_records={})
    taken = datetime(2025, 1, 31, tzinfo=UTC)
    (tmp_path / "odd.jsonl").write_bytes(b"".join(dump_snapshot(Snapshot("", taken, state))))
    assert load_snapshot(tmp_path / "odd.jsonl") == Snapshot("", taken, state)

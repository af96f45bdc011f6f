"""Adoption of a cluster that has topics already: the requests that are sent, and the znodes that stay the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import BROKERS
from support.zookeeper import write_checker
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.cli.main import run
from topiarist.kafka.types import KafkaVersion

REPLICAS = ((1, 2, 3), (2, 3, 4), (3, 4, 5))

TOPICS = (
    Topic("orders", REPLICAS, {"min.insync.replicas": "2", "retention.ms": "0604800000"}),
    Topic("Users_v2", REPLICAS[:2], {"min.insync.replicas": "2", "confluent.tier.enable": "true"}),
    Topic("clicks", ((1, 2), (2, 3, 4)), {"min.insync.replicas": "2", "cleanup.policy": "delete , compact"}),
    Topic("bare", REPLICAS[:1], {}),
    Topic("__consumer_offsets", REPLICAS, {"cleanup.policy": "compact"}),
)


def texts(folder: Path) -> dict[str, str]:
    """The text of every file below a folder."""
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*.yaml")}


def kafkas(connect: str) -> write_checker.Tree:
    """Every node of a cluster that is not ours, with its data and its last transaction."""
    return {path: node for path, node in write_checker.read_nodes(connect).items() if not path.startswith("/topiarist")}


@pytest.mark.parametrize("release", [(2, 4), (3, 9)])
def test_an_exported_cluster_is_adopted_with_records_alone(
    chroot: str, proxy: Proxy, tmp_path: Path, release: KafkaVersion, capsys: pytest.CaptureFixture[str]
) -> None:
    """Export and plan send no write; apply sends one transaction a topic, and no node of Kafka's is written at all.

    After that there is nothing to do, and an export gives the same files again.
    """
    folder, again = tmp_path / "prod", tmp_path / "again"
    with SimulatedKafka(chroot, BROKERS, release) as cluster:
        cluster.add_topics(*TOPICS)
        through = ["--zookeeper", proxy.through(cluster.connect)]
        before = kafkas(cluster.connect)
        assert run(["export", *through, "--cluster", "prod", "--out", str(folder)]) == 0
        assert run(["validate", str(folder)]) == 0
        assert run(["plan", str(folder), "--exit-code"]) == 3
        assert "Plan: 4 to adopt." in capsys.readouterr().out
        assert proxy.writes == 0
        assert run(["apply", str(folder), "--yes"]) == 0
        assert proxy.requests["multi"] == 4
        assert proxy.requests["setData"] == 0
        cluster.wait_idle()
        assert kafkas(cluster.connect) == before
        records = {path for path in write_checker.read_nodes(cluster.connect) if path.startswith("/topiarist/topics/")}
        assert records == {f"/topiarist/topics/{name}" for name in ("orders", "Users_v2", "clicks", "bare")}
        written = proxy.writes
        assert run(["plan", str(folder), "--exit-code"]) == 0
        assert run(["apply", str(folder), "--yes"]) == 0
        assert run(["export", *through, "--cluster", "prod", "--out", str(again)]) == 0
        assert proxy.writes == written
    assert texts(again) == texts(folder)
    assert sorted(texts(folder)) == [
        "cluster.yaml",
        *(f"topics/prod.{n}.yaml" for n in ("bare", "clicks", "orders", "users-v2")),
    ]


def test_a_folder_that_is_in_use_is_seen_before_anything_is_read(
    cluster: SimulatedKafka, proxy: Proxy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even a connection is made."""
    (tmp_path / "notes.txt").touch()
    assert run(["export", "--zookeeper", proxy.through(cluster.connect), "--out", str(tmp_path)]) == 1
    assert "it is not empty" in capsys.readouterr().err
    assert proxy.connections == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--zookeeper", "zk1", "--cluster", "Prod"], '--cluster: metadata.name: found "Prod", wanted a DNS name'),
        (["--zookeeper", "zk1:2181/"], "--zookeeper: "),
        ([], "found no cluster: add a Cluster document, or give --clusters, --bootstrap-servers or --zookeeper"),
    ],
    ids=["name", "address", "none"],
)
def test_what_no_document_could_have_is_wrong_usage(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Said before any connection: the folder would not be valid."""
    assert run(["export", *words, "--out", str(tmp_path / "prod")]) == 2
    assert said in capsys.readouterr().err


def test_exports_of_two_clusters_plan_together(chroot: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both hold the same topics: side by side in one folder they are adopted, and then nothing is to do."""
    with SimulatedKafka(f"{chroot}-a", BROKERS) as one, SimulatedKafka(f"{chroot}-b", BROKERS) as other:
        other.client.set("/cluster/id", b'{"version": "1", "id": "another"}')
        for name, cluster in {"eu": one, "us": other}.items():
            cluster.add_topics(*TOPICS)
            words = ["export", "--zookeeper", cluster.connect, "--cluster", name, "--out", str(tmp_path / "all" / name)]
            assert run(words) == 0
        assert run(["validate", str(tmp_path / "all")]) == 0
        assert run(["apply", str(tmp_path / "all"), "--yes"]) == 0
        assert "All 2 clusters: 8 to adopt." in capsys.readouterr().out
        assert run(["plan", str(tmp_path / "all"), "--exit-code"]) == 0
        for cluster in (one, other):
            cluster.wait_idle()

"""``topiarist init`` and ``export``: what is written from a cluster, and the requests and znodes of its adoption."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import BROKERS
from support.checkout import ROOT
from support.zookeeper import write_checker
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.cli.main import run
from topiarist.desired.export import derive_cluster_name
from topiarist.kafka.types import KafkaVersion
from topiarist.model.access import ZooKeeperAccess

TOPICS = (Topic("orders", ((1, 2, 3), (2, 3, 4)), {"retention.ms": "1000"}), Topic("clicks", ((1, 2),), {}))
MANIFESTS = {"topics/prod.clicks.yaml", "topics/prod.orders.yaml", "platform/cluster.yaml"}
GUIDE = "topics/README.md"
WORKFLOW = ".github/workflows/topics.yml"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder: a new git repository on GitHub."""
    (tmp_path / "repo/.git").mkdir(parents=True)
    (tmp_path / "repo/.git/config").write_text('[remote "origin"]\n\turl = git@github.com:acme/topics.git\n')
    monkeypatch.chdir(tmp_path / "repo")
    return tmp_path / "repo"


def files(folder: Path) -> set[str]:
    """Return the paths of all files but those of git."""
    found = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return {path for path in found if not path.startswith(".git/")}


def test_a_cluster_becomes_a_repository(
    chroot: str, proxy: Proxy, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exported topics, the project file and the CI configuration are written, and then no command needs a path.

    Nothing is written to the cluster, and a second call writes nothing.
    """
    with SimulatedKafka(chroot, BROKERS) as cluster:
        cluster.add_topics(*TOPICS)
        words = ["--zookeeper", proxy.through(cluster.connect), "--cluster", "prod", "--kafka-version", "3.9"]
        assert run(["init", *words]) == 0
        said = capsys.readouterr()
        assert said.out.splitlines() == [
            "wrote topics/ (2 files)",
            "wrote platform/cluster.yaml",
            f"wrote {WORKFLOW}",
            "wrote topiarist.yaml",
            "wrote topics/README.md",
        ]
        assert "Exported: 2 topics of cluster prod to topics." in said.err
        assert f"{WORKFLOW} (GitHub, by the remote at github.com): replace OWNER" in said.err
        assert files(folder) == {*MANIFESTS, WORKFLOW, "topiarist.yaml", GUIDE}
        assert (folder / GUIDE).read_text() == (ROOT / "docs/add-a-topic.md").read_text()
        assert (folder / WORKFLOW).read_text() == (ROOT / "docs/ci/github.yml").read_text()
        assert proxy.writes == 0
        assert run(["validate"]) == 0
        assert run(["plan"]) == 0
        assert "Plan: 2 to adopt." in capsys.readouterr().out
        assert run(["apply", "--yes"]) == 0
        assert run(["plan", "--exit-code"]) == 0
        before = {path: (folder / path).stat().st_mtime_ns for path in files(folder)}
        assert run(["init", *words]) == 0
        assert "nothing to write: all files exist" in capsys.readouterr().err
        assert {path: (folder / path).stat().st_mtime_ns for path in files(folder)} == before


def test_the_files_of_an_export_are_those_of_init(cluster: SimulatedKafka, folder: Path) -> None:
    """An export and a copy of it give the same manifests as the address, and keep the owner."""
    cluster.add_topics(*TOPICS)
    address = ["--zookeeper", cluster.connect, "--cluster", "prod"]
    assert run(["export", *address, "--out", "../prod"]) == 0
    assert run(["init", "../prod", "--owner", "shop"]) == 0
    copied = {path: (folder / path).read_text() for path in MANIFESTS}
    assert (folder / "topiarist.yaml").read_text().endswith("platform:\n- platform\nowner: shop\n")
    for path in MANIFESTS:
        (folder / path).unlink()
    assert run(["init", *address, "--owner", "shop"]) == 0
    assert {path: (folder / path).read_text() for path in MANIFESTS} == copied


def test_a_dry_run_prints_and_writes_nothing(
    cluster: SimulatedKafka, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text of each file is printed, so that an existing file can be compared with it."""
    cluster.add_topics(*TOPICS)
    assert run(["init", "--zookeeper", cluster.connect, "--cluster", "eu", "--ci", "gitlab", "--dry-run", "-q"]) == 0
    said = capsys.readouterr()
    assert "==> topics/eu.orders.yaml <==\n# yaml-language-server" in said.out
    assert "  topicName: orders\n" in said.out
    assert "==> platform/cluster.yaml <==\n# yaml-language-server" in said.out
    assert f"==> .gitlab-ci.yml <==\n{(ROOT / 'docs/ci/gitlab-ci.yml').read_text()}" in said.out
    assert said.err == ""
    assert files(folder) == set()


def test_an_unreadable_cluster_leaves_the_folder_empty(
    cluster: SimulatedKafka, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A chroot that does not exist is an error, and no file is written; the name is derived from the address."""
    address = f"{cluster.connect}-not"
    assert run(["init", "--zookeeper", address]) == 1
    name = derive_cluster_name(ZooKeeperAccess(address))
    assert name.endswith("-not")
    said = capsys.readouterr().err
    assert said.startswith(f"cluster name: {name}, by --zookeeper; to choose another, add --cluster\n")
    assert f"error: cluster {name}: the chroot" in said
    assert files(folder) == set()


REPLICAS = ((1, 2, 3), (2, 3, 4), (3, 4, 5))

EXPORTED = (
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
        cluster.add_topics(*EXPORTED)
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
            cluster.add_topics(*EXPORTED)
            words = ["export", "--zookeeper", cluster.connect, "--cluster", name, "--out", str(tmp_path / "all" / name)]
            assert run(words) == 0
        assert run(["validate", str(tmp_path / "all")]) == 0
        assert run(["apply", str(tmp_path / "all"), "--yes"]) == 0
        assert "All 2 clusters: 8 to adopt." in capsys.readouterr().out
        assert run(["plan", str(tmp_path / "all"), "--exit-code"]) == 0
        for cluster in (one, other):
            cluster.wait_idle()

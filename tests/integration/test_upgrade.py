"""An upgrade from version 0.1.0: its records, freeze, snapshots, plans, reports and custom resources.

``files-of-0.1.0`` has what that version wrote. This version reads each file, or refuses it with a message that contains
the remedy.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from conftest import BROKERS
from support.cli.runs import run_topiarist
from support.kubernetes.schemas import read_definition
from topiarist.adapters.devcluster import seed
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper

FILES = Path(__file__).parent / "files-of-0.1.0"
MANIFESTS = FILES / "manifests"
DEFINITIONS: dict[str, dict[str, Any]] = json.loads((FILES / "definitions.json").read_text())


class _OldZooKeeper(EmbeddedZooKeeper):
    """A server that starts with the data that 0.1.0 left."""

    def _launch(self, port: int) -> bool:
        data = self.directory / "data" / "version-2"
        if not data.exists():
            shutil.copytree(FILES / "zookeeper", data)
        return super()._launch(port)


@pytest.fixture
def client() -> Iterator[KazooClient]:
    """The session of the brokers and the controller of the cluster that 0.1.0 left, on a real ZooKeeper."""
    with _OldZooKeeper() as server:
        client = KazooClient(f"{server.connect}/kafka")
        client.start()
        try:
            for broker in BROKERS:
                seed.register_broker(client, broker, (3, 9))
            seed.elect_controller(client, BROKERS[0].id, (3, 9))
            yield client
        finally:
            client.stop()
            client.close()


@pytest.fixture
def connect(client: KazooClient) -> str:
    """The connect string of that cluster."""
    host, port = client.hosts[0]
    return f"{host}:{port}/kafka"


def plan_kinds(connect: str, *words: str | Path) -> dict[str, list[str]]:
    """Return the kinds of changes by topic, and the reasons of refusals."""
    result = run_topiarist("plan", *words, "--zookeeper", connect, "--format", "json")
    assert result.code == 0, result.err
    (cluster,) = json.loads(result.out)["clusters"]
    return {
        topic["topic"]: [each["kind"] for each in topic["changes"]] + [each["reason"] for each in topic["refusals"]]
        for topic in cluster["topics"]
    }


@pytest.mark.slow
def test_records_of_0_1_0_are_valid(client: KazooClient, connect: str) -> None:
    """Topics that 0.1.0 created, adopted or deleted are owned; a run changes only what changed in the manifests."""
    assert plan_kinds(connect, MANIFESTS) == {"orders": ["AddPartitions"]}
    assert json.loads(client.get("/topiarist/topics/orders")[0])["version"] == 1
    applied = run_topiarist("apply", MANIFESTS, "--zookeeper", connect, "--yes")
    assert applied.code == 0, applied.err
    assert plan_kinds(connect, MANIFESTS) == {}


@pytest.mark.slow
def test_a_deleted_topic_may_be_created_again(connect: str, tmp_path: Path) -> None:
    """The record of a deletion by 0.1.0 is read: a manifest that declares the topic again creates it."""
    shutil.copytree(MANIFESTS, tmp_path / "manifests")
    retired = tmp_path / "manifests" / "topics" / "retired.yaml"
    retired.write_text(retired.read_text().replace('"ensure": "Absent"', '"partitions": 1'))
    assert plan_kinds(connect, tmp_path / "manifests") == {"orders": ["AddPartitions"], "retired": ["CreateTopic"]}


@pytest.mark.slow
def test_a_record_of_0_1_0_keeps_other_owners_away(connect: str) -> None:
    """A topic of another owner is refused; its owner finds nothing to do."""
    paths = (MANIFESTS / "cluster.yaml", FILES / "other")
    assert plan_kinds(connect, *paths) == {"search": ["NotOwned"]}
    assert plan_kinds(connect, *paths, "--owner", "team-b") == {}


@pytest.mark.slow
def test_a_freeze_of_0_1_0_holds(client: KazooClient, connect: str) -> None:
    """A cluster that 0.1.0 froze refuses every write with the reason of the freeze, until it is unfrozen."""
    client.set("/topiarist/gate", (FILES / "freeze.json").read_bytes())
    refused = run_topiarist("apply", MANIFESTS, "--zookeeper", connect, "--yes")
    assert refused.code == 4
    assert "frozen by on-call since" in refused.out + refused.err
    assert "a drill" in refused.out + refused.err
    unfrozen = run_topiarist("unfreeze", "--zookeeper", connect, "--user", "on-call")
    assert unfrozen.code == 0, unfrozen.err
    assert run_topiarist("apply", MANIFESTS, "--zookeeper", connect, "--yes").code == 0


@pytest.mark.slow
def test_a_snapshot_of_0_1_0_is_refused(connect: str, tmp_path: Path) -> None:
    """A snapshot of 0.1.0 has other words: it is refused with the remedy, and a new one is planned."""
    refused = run_topiarist("plan", MANIFESTS, "--snapshot", FILES / "snapshots")
    assert refused.code == 1
    assert "demo.jsonl:1: writeBlockReason: this required field is missing" in refused.err
    assert "take a new snapshot" in refused.err
    drift = run_topiarist("drift", MANIFESTS, "--snapshots", FILES / "snapshots", "--out", tmp_path / "report")
    assert drift.code == 1
    assert "has them; take these snapshots again" in drift.err
    (broken,) = (tmp_path / "report" / "broken.jsonl").read_text().splitlines()
    assert "writeBlockReason: this required field is missing" in broken
    written = run_topiarist("snapshot", MANIFESTS / "cluster.yaml", "--zookeeper", connect, "--out", tmp_path / "new")
    assert written.code == 0, written.err
    planned = run_topiarist("plan", MANIFESTS, "--snapshot", tmp_path / "new")
    assert "1 to grow, 3 unchanged" in planned.out


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("--plan", FILES / "plan.json"), (MANIFESTS, "--reviewed", FILES / "plan.json")], ids=["plan", "reviewed"]
)
def test_a_saved_plan_of_0_1_0_is_refused(connect: str, client: KazooClient, words: tuple[str | Path, ...]) -> None:
    """A plan that 0.1.0 saved is refused with the remedy, and nothing is written."""
    before = client.get("/brokers/topics/orders")
    refused = run_topiarist("apply", *words, "--zookeeper", connect, "--yes")
    assert refused.code == 1
    assert "plan.json: is not a saved plan" in refused.err
    assert "make a new plan: topiarist plan PATH --out FILE" in refused.err
    assert client.get("/brokers/topics/orders") == before


@pytest.mark.slow
def test_a_drift_report_of_0_1_0_is_refused(connect: str, tmp_path: Path) -> None:
    """A drift report of 0.1.0 as the previous one is refused with the remedy."""
    written = run_topiarist("snapshot", MANIFESTS / "cluster.yaml", "--zookeeper", connect, "--out", tmp_path / "new")
    assert written.code == 0, written.err
    words = ("drift", MANIFESTS, "--snapshots", tmp_path / "new", "--out", tmp_path / "report")
    refused = run_topiarist(*words, "--previous", FILES / "drift")
    assert refused.code == 1
    assert "found no summary of a drift report" in refused.err
    assert "a report that this version wrote, or omit it" in refused.err
    assert run_topiarist(*words).code == 0


def test_manifests_of_0_1_0_are_valid() -> None:
    """Each sample of 0.1.0 passes ``validate``."""
    for path in sorted((FILES / "samples").glob("*.yaml")):
        validated = run_topiarist("validate", path)
        assert validated.code == 0, validated.err


def field_types(schema: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each field of a definition with its type."""
    yield path, schema.get("type", "int or text" if "x-kubernetes-int-or-string" in schema else "any")
    for name, inner in schema.get("properties", {}).items():
        yield from field_types(inner, f"{path}.{name}")
    for mark, key in (("[]", "items"), (".*", "additionalProperties")):
        if isinstance(schema.get(key), dict):
            yield from field_types(schema[key], path + mark)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_resources_of_0_1_0_are_kept(name: str) -> None:
    """Each field of a definition of 0.1.0 has the same type now, so that the API server drops no field of a resource.

    Only the secrets of a Cluster that named files and variables of the operator's pod were removed, with a line in the
    changelog. Names, scope and stored version are the same.
    """
    old = DEFINITIONS[name]["spec"]
    new = read_definition(name)["spec"]
    assert (new["group"], new["scope"]) == (old["group"], old["scope"])
    assert new["names"]["kind"] == old["names"]["kind"]
    assert [(each["name"], each["storage"]) for each in new["versions"]] == [("v1", True)]

    def fields(spec: dict[str, Any]) -> dict[str, str]:
        return dict(field_types(spec["versions"][0]["schema"]["openAPIV3Schema"], "resource"))

    now = fields(new)
    changed = {path for path, kind in fields(old).items() if now.get(path) != kind}
    assert all(path.rpartition(".")[2] in ("file", "env") for path in changed), changed
    assert bool(changed) is (name == "clusters.topiarist.dev")

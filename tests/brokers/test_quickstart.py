"""What a new user reads first, on Kafka 4.4.0 in KRaft mode: the README with its plan, and the quickstart.

The commands run as printed and print what the pages show; ``TOPIARIST_GOLDEN=write`` writes it anew. In Kubernetes,
with real Helm, kubectl and API server, no image runs: the test starts the operator as the Deployment would.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from brokers.topiarist_runs import run_in_process
from kubernetes.fixtures.chart_fixture import EXTERNAL_CRDS_VALUES, ChartFixture
from support.checkout import ROOT
from support.cli.runs import document
from support.kafka.kraft_fixture import KraftFixture, KraftFixtureFactory
from support.kubernetes.helm import only_document, render
from support.kubernetes.operator_process import OperatorProcess
from support.kubernetes.server import ApiServer, open_api_server
from support.repo.pages import Block, blocks
from support.repo.walkthrough import CommandOutput, PageRun, output_blocks, run_on_brokers, write_outputs
from topiarist.adapters.devcluster.seed import CLUSTER_ID
from topiarist.errors import Exit

DOCS = ROOT / "docs"
README, QUICKSTART, ADOPTING = ROOT / "README.md", DOCS / "quickstart.md", DOCS / "adopting.md"
ADD_A_TOPIC, PULL_REQUESTS = DOCS / "add-a-topic.md", DOCS / "pull-requests.md"
ADDRESS = "localhost:9092"
"""The address on the pages, as the image of Kafka has it."""

CLUSTER_ADDRESS = "b1.example.com:9092"
"""The address that the page has in Kubernetes."""

MOST_COMMANDS = 5

(STEPS,) = [block.text for block in blocks(QUICKSTART.read_text()) if "helm install" in block.text]
"""The steps in Kubernetes."""

IMAGE: Mapping[str, Any] = {
    "controllers": 0,
    "properties": {
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
    },
}
"""One node with what Apache's image sets for one node."""

RETENTION = {"retention.ms": "86400000"}

TOPIC = """\
apiVersion: topiarist.dev/v1
kind: Topic
metadata:
  name: {name}
spec:
  partitions: {partitions}
  replicationFactor: 3
  config:
    retention.ms: {retention}
    min.insync.replicas: 2
"""


def walk(page: Path, bed: KraftFixture) -> PageRun:
    """Run all blocks of a page for brokers in order, in an empty folder."""
    shown = {bed.kafka.bootstrap: ADDRESS, bed.kafka.cluster_id: CLUSTER_ID}
    runs = [
        run_on_brokers(block, bed.folder, shown)
        for block in blocks(page.read_text())
        if block.marker.startswith("run on brokers")
    ]
    printed = [output for *_, outputs in runs for output in outputs]
    return PageRun(printed, [(text, expected, code) for text, expected, code, _ in runs])


def check_outputs(page: Path, story: PageRun) -> None:
    """Assert that a page shows what its commands print, or write it."""
    if os.environ.get("TOPIARIST_GOLDEN") == "write":
        write_outputs(page, story)
    for block in output_blocks(page.read_text()):
        wanted = without_broker_loads(story.output(block))
        assert without_broker_loads(block.text) == wanted, f"{page.name}: {block.marker}: TOPIARIST_GOLDEN=write"


def without_broker_loads(text: str) -> str:
    """Return a plan with the change of each broker's load only: Kafka places its own topics by chance."""
    load = re.compile(r" *(\d+) -> (\d+)(?=  |$)", re.MULTILINE)
    return load.sub(lambda found: f" {int(found[2]) - int(found[1]):+}", text)


def indented_blocks(page: str) -> list[Block]:
    """Return the blocks of a page, also those in lists."""
    return blocks("\n".join(line.removeprefix("   ") for line in page.splitlines()))


def commands(text: str) -> list[str]:
    """Return the commands of the shell blocks in a part of a page, without documents given to them."""
    inputs = re.compile(r"<<'END'\n.*?^END$", re.DOTALL | re.MULTILINE)
    shell = (inputs.sub("", block.text) for block in blocks(text) if block.language == "sh")
    return [line for block in shell for line in block.splitlines()]


@pytest.mark.core
def test_a_new_user_makes_a_topic_by_the_quickstart(fresh_kraft: KraftFixtureFactory, kraft_release: str) -> None:
    """Five commands make a repository and a topic; the rest of the page changes it with consent."""
    page = QUICKSTART.read_text()
    task = page[page.index("\n## Your first topic") : page.index("\n## Change it")]
    assert len(commands(task)) <= MOST_COMMANDS
    with fresh_kraft(kraft_release, {1: None}, **IMAGE) as bed:
        story = walk(QUICKSTART, bed)
        assert [(expected, code) for _, expected, code in story.codes] == [(0, 0)] * len(story.codes), story
        check_outputs(QUICKSTART, story)
        made = bed.clients.describe(["orders"])["orders"]
        assert made is not None
        assert len(made.replicas) == 6
        assert bed.clients.overrides(["orders"])["orders"] == {"retention.ms": "86400000"}


@pytest.mark.core
def test_a_new_user_adopts_thirty_topics(fresh_kraft: KraftFixtureFactory, kraft_release: str) -> None:
    """Three commands of the page write manifests and records, and change no topic."""
    task = blocks(ADOPTING.read_text())[0]
    assert len(commands(f"```sh\n{task.text}```\n")) <= MOST_COMMANDS
    names = [f"shop.{number}" for number in range(30)]
    with fresh_kraft(kraft_release, {1: None}, **IMAGE) as bed:
        made = bed.clients.create({name: [[1], [1]] for name in names}, RETENTION)
        assert set(made.values()) <= {""}, made
        before = (bed.clients.describe(names), bed.clients.overrides(names))
        story = walk(ADOPTING, bed)
        assert [code for *_, code in story.codes] == [0]
        plan, applied = (output.text for output in story.printed[1:])
        assert "Plan: 30 to adopt." in plan
        assert "Applied: 30 done." in applied
        assert (bed.clients.describe(names), bed.clients.overrides(names)) == before
        assert len([*(bed.folder / "topics").glob("*.yaml")]) == len(names)


@pytest.mark.core
def test_a_developer_adds_a_topic_by_a_pull_request(fresh_kraft: KraftFixtureFactory, kraft_release: str) -> None:
    """Two pages: the repository and the two commands of its pipeline, and the file and the check of a developer."""
    guide, review = (page.read_text() for page in (ADD_A_TOPIC, PULL_REQUESTS))
    manifest, check = blocks(guide)[:2]
    first, pipeline = (block for block in indented_blocks(review) if block.marker == "run on brokers")
    words = [line for block in (first, check, pipeline) for line in commands(f"```sh\n{block.text}```\n")]
    assert len([line for line in words if line.startswith("topiarist")]) <= MOST_COMMANDS
    with fresh_kraft(kraft_release, {1: "a", 2: "b", 3: "c"}, controllers=0) as bed:
        shown = {bed.kafka.bootstrap: ADDRESS}
        assert run_on_brokers(first, bed.folder, shown)[2] == 0
        assert (bed.folder / "topics/README.md").read_text() == guide
        (bed.folder / "topics" / "shop-orders.yaml").write_text(manifest.text)
        for block in (check, pipeline):
            text, _, code, _ = run_on_brokers(block, bed.folder, shown)
            assert code == 0, text
        assert "#### `shop_orders`: create 6 partitions x 3 replicas" in (bed.folder / "comment.md").read_text()
        made = bed.clients.overrides(["shop_orders"])["shop_orders"]
        assert made == {"retention.ms": "604800000", "segment.bytes": "104857600", "min.insync.replicas": "2"}


@pytest.mark.core
def test_the_readme_is_what_happens(fresh_kraft: KraftFixtureFactory, kraft_release: str) -> None:
    """Its commands make the topic that they declare, and its plan is the one of a cluster with three brokers."""
    with fresh_kraft(kraft_release, {1: None}, **IMAGE) as bed:
        story = walk(README, bed)
        assert [code for *_, code in story.codes] == [0]
        assert bed.clients.describe(["orders"])["orders"] is not None
    with fresh_kraft(kraft_release, {1: "a", 2: "b", 3: "c"}, controllers=0) as bed:
        check_outputs(README, PageRun([shown_plan(bed)], []))


def shown_plan(bed: KraftFixture) -> CommandOutput:
    """Return the plan of the README: a creation, a cut of retention, and fewer partitions."""
    write_topics(bed, clicks=(6, "7d"), payments=(12, "7d"))
    with chdir(bed.folder):
        assert run_in_process("apply", "--yes", "--wait").code == Exit.DONE
        write_topics(bed, clicks=(6, "1d"), orders=(3, "7d"), payments=(6, "7d"))
        said = run_in_process("plan")
    assert said.code == Exit.DONE
    return CommandOutput("topiarist plan", said.out.replace(bed.kafka.cluster_id, CLUSTER_ID), 0)


def write_topics(bed: KraftFixture, **topics: tuple[int, str]) -> None:
    """Write a project file, the Cluster, and topics with their partitions and retention."""
    (bed.folder / "topics").mkdir(exist_ok=True)
    (bed.folder / "topiarist.yaml").write_text("manifests: [topics]\nplatform: [cluster.yaml]\n")
    address = {"bootstrapServers": bed.kafka.bootstrap}
    cluster = document("Cluster", "prod-eu", clusterId=bed.kafka.cluster_id, kafka=address)
    (bed.folder / "cluster.yaml").write_text(cluster)
    for name, (partitions, retention) in topics.items():
        text = TOPIC.format(name=name, partitions=partitions, retention=retention)
        (bed.folder / "topics" / f"{name}.yaml").write_text(text)


@pytest.fixture(scope="module")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Start an API server; without Go the test is skipped, but fails in CI."""
    with open_api_server(tmp_path_factory.mktemp("kube")) as server:
        yield server


def step(program: str) -> list[str]:
    """Return the words of the only step that starts with a program."""
    (line,) = [line for line in STEPS.splitlines() if line.startswith(f"{program} ")]
    return shlex.split(line)


def test_the_image_that_is_built_is_the_one_that_runs() -> None:
    """The steps build and load the image name that the chart uses by default."""
    (container,) = only_document(render(), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == step("docker")[-2] == step("kind")[-1]
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert step("docker") == ["docker", "build", "--tag", container["image"], "."]
    assert (ROOT / "Dockerfile").exists()


@pytest.mark.core
def test_a_new_user_makes_a_topic_in_kubernetes(
    api_server: ApiServer, fresh_kraft: KraftFixtureFactory, kraft_release: str, tmp_path: Path
) -> None:
    """Five commands: Helm installs the chart, and the resources that kubectl applies create the topic."""
    assert len(commands(f"```sh\n{STEPS}```\n")) <= MOST_COMMANDS
    helm = step("helm")
    assert helm[:4] == ["helm", "install", "topiarist", "charts/topiarist"]
    assert {*helm[4:]} == {"--namespace", "topiarist", "--create-namespace", "--wait"}
    site = ChartFixture(api_server, "quickstart")
    site.install(EXTERNAL_CRDS_VALUES, ROOT / helm[3])
    container = site.get_object("apis/apps/v1 deployments/topiarist")["spec"]["template"]["spec"]["containers"][0]
    words = [word for word in container["args"] if not word.startswith("--listen=")]
    token = site.api.request_token(site.namespace, "topiarist")
    rest = STEPS[STEPS.index("kubectl apply") :].replace("--namespace topiarist", f"--namespace {site.namespace}")
    assert rest.count(CLUSTER_ADDRESS) == 1
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(site.api.endpoint.kubectl)
    environment = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(site.api.kubeconfig),
    }
    operator = OperatorProcess(api_server, site.namespace, tmp_path / "operator", *words[1:], token=token)
    with fresh_kraft(kraft_release, {1: None}, **IMAGE) as bed, operator:
        script = rest.replace(CLUSTER_ADDRESS, bed.kafka.bootstrap)
        done = subprocess.run(
            ["bash", "-e", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{operator.process.read_log()}"
        assert done.stdout.endswith("topic.topiarist.dev/orders condition met\n")
        assert bed.clients.overrides(["orders"])["orders"] == {"retention.ms": "604800000"}

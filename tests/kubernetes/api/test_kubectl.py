"""The user's view through a real kubectl: samples, explanations, names, columns and warnings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kubernetes.fixtures.resources import cluster, create, policy, topic
from support.checkout import ROOT
from support.kubernetes.api_client import ApiClient
from topiarist.cli.main import run
from topiarist.kafka.config_table import TOPIC_CONFIGS

MANIFESTS = ROOT / "manifests"
FOLDERS = [MANIFESTS / "policies", MANIFESTS / "demo"]
WITH_FILES = MANIFESTS / "samples" / "cluster-with-login.yaml"
FOR_THE_COMMAND_LINE = (WITH_FILES, MANIFESTS / "samples" / "cluster-kraft.yaml")
"""The samples that are for the command line only: their secrets are in files and environment variables."""

SAMPLES = [
    file
    for folder in (MANIFESTS / "samples", MANIFESTS / "policies")
    for file in sorted(folder.glob("*.yaml"))
    if file not in FOR_THE_COMMAND_LINE
]


@pytest.mark.usefixtures("config_admission")
@pytest.mark.parametrize("given", [*SAMPLES, *FOLDERS], ids=lambda path: path.name)
def test_samples_are_good_here_and_there(api: ApiClient, given: Path) -> None:
    """``topiarist validate`` and ``kubectl apply`` accept the same files without an error, and a second apply changes
    nothing.

    Both accept each folder as a whole. The demo is accepted only as a whole, because its topics need the defaults of
    its cluster.
    """
    assert run(["validate", str(given)]) == 0
    for outcome in ("created", "unchanged"):
        applied = api.kubectl("apply", "--recursive", "-f", given)
        assert (applied.returncode, applied.stderr) == (0, "")
        assert all(line.endswith(outcome) for line in applied.stdout.splitlines())
        assert applied.stdout


def test_a_cluster_with_files_is_for_the_command_line(api: ApiClient) -> None:
    """``kubectl apply`` names each reference that Kubernetes does not support, and the supported reference."""
    assert run(["validate", str(WITH_FILES)]) == 0
    applied = api.kubectl("apply", "-f", WITH_FILES)
    assert applied.returncode == 1
    for field in ("sasl.password.file", "tls.ca.file", "tls.keyPassword.env"):
        assert f'unknown field "spec.zookeeper.{field}"' in applied.stderr
    lenient = api.kubectl("apply", "--validate=false", "-f", WITH_FILES)
    assert lenient.returncode == 1
    assert "wanted secretKeyRef: in a custom resource a reference names a key of a Secret" in lenient.stderr


def test_explain_helps(api: ApiClient) -> None:
    """``kubectl explain`` describes every config and every field."""
    done = api.kubectl("explain", "topic.spec.config")
    assert done.stdout == api.kubectl("explain", "topics.topiarist.dev.spec.config").stdout
    words = " ".join(done.stdout.split())
    assert all(f"{name}: {config.description}" in words for name, config in TOPIC_CONFIGS.items())
    for kind in ("topics", "clusters", "policies"):
        done = api.kubectl("explain", f"{kind}.topiarist.dev", "--recursive")
        assert done.returncode == 0, done.stderr
        assert "conditions" in done.stdout
    assert "not shown" not in done.stdout


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        ("tpt", {"topic"}),
        ("tpc", {"cluster"}),
        ("tpp", {"policy"}),
        ("topics.topiarist.dev", {"topic"}),
        ("topiarist", {"topic", "cluster", "policy"}),
        ("all", set()),
    ],
)
def test_names(api: ApiClient, namespace: str, words: str, kinds: set[str]) -> None:
    """Short names and the category ``topiarist`` work; ``kubectl get all`` lists no topics."""
    for body in (topic(), cluster(), policy()):
        assert create(api, namespace, body).status == 201
    done = api.kubectl("get", words, "-o", "name")
    assert done.returncode == 0, done.stderr
    assert {line.partition(".")[0] for line in done.stdout.splitlines()} == kinds


READY = {
    "type": "Ready",
    "status": "False",
    "reason": "MinIsrAboveReplicas",
    "message": "min.insync.replicas is above",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
STATUSES: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    (
        topic("payments.transactions.by-customer.v12", partitions=1000, replicationFactor=3),
        {"conditions": [READY], "topicName": "payments.transactions", "clusterNames": "prod-eu", "partitions": "999"},
        ["prod-eu", "999", "3", "False", "MinIsrAboveReplicas"],
    ),
    (
        cluster("production-europe-west-1", kafkaVersion="3.9"),
        {"conditions": [READY], "topics": {"total": 10000, "ready": 9990, "drifted": 7, "refused": 3}},
        ["3.9", "10000", "9990", "7", "3", "False", "MinIsrAboveReplicas"],
    ),
    (policy(), {"conditions": [READY]}, ["False", "MinIsrAboveReplicas"]),
]


@pytest.mark.parametrize(("body", "status", "columns"), STATUSES)
def test_rows_fit_and_tell(
    api: ApiClient, namespace: str, body: dict[str, Any], status: dict[str, Any], columns: list[str]
) -> None:
    """The important columns fit in fewer than 120 characters; ``-o wide`` shows the whole message."""
    assert create(api, namespace, body).status == 201
    kind = {"Topic": "topics", "Cluster": "clusters", "Policy": "policies"}[body["kind"]]
    where = f"/apis/topiarist.dev/v1/namespaces/{namespace}/{kind}/{body['metadata']['name']}/status"
    assert api.call("PATCH", where, {"status": status}, "application/merge-patch+json").status == 200
    head, row = api.kubectl("get", f"{kind}.topiarist.dev").stdout.splitlines()
    assert row.split()[1:-1] == columns
    assert max(len(head), len(row)) < 120
    assert READY["message"] not in row
    assert READY["message"] in api.kubectl("get", f"{kind}.topiarist.dev", "-o", "wide").stdout


def test_field_selectors(api: ApiClient, namespace: str) -> None:
    """Field selectors find topics by mode and topic name."""
    for body in (topic("a", mode="Observe"), topic("b", topicName="shop.orders")):
        assert create(api, namespace, body).status == 201
    for selector, name in (("spec.mode=Observe", "a"), ("spec.topicName=shop.orders", "b")):
        done = api.kubectl("get", "tpt", "--field-selector", selector, "-o", "name")
        assert done.stdout.strip() == f"topic.topiarist.dev/{name}"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("9223372036854775807", 9223372036854775807),
        ('"9223372036854775808"', "9223372036854775808"),
        ("0.10", 0.1),
        ('"0.10"', "0.10"),
        ("true", True),
        ("compact", "compact"),
    ],
)
def test_values_arrive_as_written(api: ApiClient, written: str, read: object) -> None:
    """Config values have the same meaning in kubectl, which reads YAML 1.1, as in topiarist's files."""
    given = "apiVersion: topiarist.dev/v1\nkind: Topic\nmetadata: {name: a}\nspec: {config: {a: WRITTEN}}"
    done = api.kubectl("create", "-f", "-", "-o", "json", given=given.replace("WRITTEN", written))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["spec"]["config"]["a"]
    assert (found, type(found)) == (read, type(read))

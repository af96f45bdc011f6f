"""The CronJob that reports drift: the command that it runs, what it is given, and that it may do nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.drift.small_fleet import (
    cluster_state,
    owned_topic,
    read_rows,
    topic_document,
    write_manifests,
    write_snapshot,
)
from support.kubernetes.helm import Document, only_document, render
from topiarist.cli.commands.drift import command
from topiarist.cli.main import run

VALUES: dict[str, Any] = {
    "owner": "k8s/1b4e28ba/kafka/prod",
    "drift": {"enabled": True, "manifests": {"configMap": {"name": "topics"}}},
}


def pod(values: dict[str, Any], name: str = "topiarist") -> Document:
    """The pod of one run."""
    found: Document = only_document(render(values, name=name), "CronJob")["spec"]["jobTemplate"]["spec"]["template"]
    return found


def test_the_command_takes_the_arguments() -> None:
    """Live, with the operator's eyes unless somebody says otherwise, and with the report before where that is."""
    (container,) = pod(VALUES, "prod")["spec"]["containers"]
    assert container["args"][0] == "drift"
    found = command.make_context("drift", container["args"][1:]).params
    wanted = {"paths": ("/manifests",), "live": True, "owner": "k8s/1b4e28ba/kafka/prod", "engine": "auto"}
    assert {key: found[key] for key in wanted} == wanted
    assert found["out"] == found["previous"] == "/reports/latest"


def test_it_is_given_what_it_reads_and_no_more(everything: dict[str, Any]) -> None:
    """Manifests and secrets to read, a place for reports to write; no token, no root, and no right anywhere."""
    spec = pod(everything)["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in spec
    assert spec["securityContext"]["runAsNonRoot"] is True
    (container,) = spec["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    mounts = {each["mountPath"]: each for each in container["volumeMounts"]}
    assert [path for path, each in mounts.items() if not each.get("readOnly")] == ["/tmp", "/reports"]
    volumes = {each["name"]: each for each in spec["volumes"]}
    for name in everything["drift"]["secretNames"]:
        volume = volumes[mounts[f"/run/secrets/{name}"]["name"]]
        assert volume["secret"] == {"secretName": name, "defaultMode": 0o440}
    assert volumes["reports"]["persistentVolumeClaim"] == {"claimName": "drift"}
    assert {each["name"] for each in container["volumeMounts"]} == set(volumes)


def test_of_two_runs_one_waits(everything: dict[str, Any]) -> None:
    """They would have one place for their reports; what fails is not tried again before its time."""
    spec = only_document(render(everything), "CronJob")["spec"]
    assert (spec["concurrencyPolicy"], spec["schedule"], spec["timeZone"]) == (
        "Forbid",
        "*/10 * * * *",
        "Europe/Lisbon",
    )
    assert spec["jobTemplate"]["spec"]["backoffLimit"] == 0
    assert spec["jobTemplate"]["spec"]["activeDeadlineSeconds"] == 600


def test_no_other_pod_is_taken_for_it(everything: dict[str, Any]) -> None:
    """The operator's Service and Deployment do not find it."""
    labels = pod(everything)["metadata"]["labels"]
    assert labels["app.kubernetes.io/component"] == "drift"
    assert not only_document(render(everything), "Service")["spec"]["selector"].items() <= labels.items()


def test_the_first_run_has_no_report_before_it(tmp_path: Path) -> None:
    """With the same words as every other: the second finds what the first has written."""
    write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu", owned_topic("old")))
    manifests = write_manifests(tmp_path / "manifests", ["eu"], topic_document("orders", ["eu"]))
    out = str(tmp_path / "reports" / "latest")
    words = ["drift", str(manifests), "--snapshots", str(tmp_path / "snapshots"), "--out", out, "--previous", out, "-q"]
    for status in ("New", "Unchanged"):
        assert run(words) == 0
        assert {row["status"] for row in read_rows(Path(out))} == {status}


@pytest.mark.parametrize("owner", ["k8s/kafka/prod", "default"])
def test_an_operators_records_may_count_as_ours(tmp_path: Path, owner: str) -> None:
    """Where nothing is written, anybody may look as the operator does."""
    write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu"))
    manifests = write_manifests(tmp_path / "manifests", ["eu"])
    words = ["--snapshots", str(tmp_path / "snapshots"), "--out", str(tmp_path / "report"), "-q"]
    assert run(["drift", str(manifests), "--owner", owner, *words]) == 0

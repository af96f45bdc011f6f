"""The CronJob for drift reports: its command, its inputs, and its lack of other rights."""

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
    """Return the pod of one run."""
    found: Document = only_document(render(values, name=name), "CronJob")["spec"]["jobTemplate"]["spec"]["template"]
    return found


def test_the_command_takes_the_arguments() -> None:
    """The command reads live clusters, by default as the operator does, and uses the previous report if there is
    one.
    """
    (container,) = pod(VALUES, "prod")["spec"]["containers"]
    assert container["args"][0] == "drift"
    found = command.make_context("drift", container["args"][1:]).params
    wanted = {"paths": ("/manifests",), "live": True, "owner": "k8s/1b4e28ba/kafka/prod", "engine": "auto"}
    assert {key: found[key] for key in wanted} == wanted
    assert found["out"] == found["previous"] == "/reports/latest"


def test_it_is_given_what_it_reads_and_no_more(everything: dict[str, Any]) -> None:
    """The pod reads manifests and secrets and writes reports; it has no token, no root and no rights."""
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
    """Runs do not overlap, because they share the report folder, and a failed run waits for its next schedule."""
    spec = only_document(render(everything), "CronJob")["spec"]
    assert (spec["concurrencyPolicy"], spec["schedule"], spec["timeZone"]) == (
        "Forbid",
        "*/10 * * * *",
        "Europe/Lisbon",
    )
    assert spec["jobTemplate"]["spec"]["backoffLimit"] == 0
    assert spec["jobTemplate"]["spec"]["activeDeadlineSeconds"] == 600


def test_no_other_pod_is_taken_for_it(everything: dict[str, Any]) -> None:
    """The selectors of the operator's Service and Deployment do not match the pod."""
    labels = pod(everything)["metadata"]["labels"]
    assert labels["app.kubernetes.io/component"] == "drift"
    assert not only_document(render(everything), "Service")["spec"]["selector"].items() <= labels.items()


def test_the_first_run_has_no_report_before_it(tmp_path: Path) -> None:
    """The first run uses the same arguments as all later runs, and the second run finds its report."""
    write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu", owned_topic("old")))
    manifests = write_manifests(tmp_path / "manifests", ["eu"], topic_document("orders", ["eu"]))
    out = str(tmp_path / "reports" / "latest")
    words = ["drift", str(manifests), "--snapshots", str(tmp_path / "snapshots"), "--out", out, "--previous", out, "-q"]
    for status in ("New", "Unchanged"):
        assert run(words) == 0
        assert {row["status"] for row in read_rows(Path(out))} == {status}


@pytest.mark.parametrize("owner", ["k8s/kafka/prod", "default"])
def test_an_operators_records_may_count_as_ours(tmp_path: Path, owner: str) -> None:
    """The report may use the operator's ownership records, because it writes nothing."""
    write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu"))
    manifests = write_manifests(tmp_path / "manifests", ["eu"])
    words = ["--snapshots", str(tmp_path / "snapshots"), "--out", str(tmp_path / "report"), "-q"]
    assert run(["drift", str(manifests), "--owner", owner, *words]) == 0

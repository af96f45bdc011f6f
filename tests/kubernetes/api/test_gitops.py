"""The GitOps samples and the examples of the guide, through a real kubectl."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from support.checkout import ROOT
from support.kubernetes.api_client import ApiClient
from support.kubernetes.server import ApiServer
from support.repo.pages import blocks

ARGOCD = ROOT / "manifests" / "gitops" / "argocd"
SCRIPTS = {f"resource.customizations.health.topiarist.dev_{kind}" for kind in ("Topic", "Cluster", "Policy")}
INSTALLED = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "argocd-cm", "namespace": "argocd"},
    "data": {"timeout.reconciliation": "180s"},
}
"""The ConfigMap of Argo CD's own installation."""


def whole(data: dict[str, str]) -> bool:
    """Return True if the settings have their original key and a health script for each topiarist kind."""
    return data.keys() == {"timeout.reconciliation", *SCRIPTS} and all("return {status" in data[key] for key in SCRIPTS)


def test_the_patch_leaves_other_settings_alone(server_api: ApiClient) -> None:
    """The patch for Argo CD keeps the other settings, and a second patch changes nothing."""
    server_api.create_object("/api/v1/namespaces", {"metadata": {"name": "argocd"}})
    server_api.create_object("/api/v1/namespaces/argocd/configmaps", INSTALLED)
    words = ("patch", "configmap", "argocd-cm", "--namespace=argocd", "--patch-file", ARGOCD / "argocd-cm.yaml")
    for outcome in ("patched", "patched (no change)"):
        done = server_api.kubectl(*words)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip().endswith(outcome)
    assert whole(server_api.call("GET", "/api/v1/namespaces/argocd/configmaps/argocd-cm").body["data"])


def test_the_folder_is_a_component(server_api: ApiClient, tmp_path: Path) -> None:
    """The Argo CD folder works as a component of the kustomization that installs Argo CD."""
    shutil.copytree(ARGOCD, tmp_path / "topiarist")
    (tmp_path / "argocd").mkdir()
    (tmp_path / "argocd" / "installed.yaml").write_text(json.dumps(INSTALLED))
    own = {"resources": ["installed.yaml"], "components": ["../topiarist"]}
    (tmp_path / "argocd" / "kustomization.yaml").write_text(json.dumps(own))
    done = server_api.kubectl("kustomize", tmp_path / "argocd")
    assert done.returncode == 0, done.stderr
    assert whole(yaml.safe_load(done.stdout)["data"])


@pytest.mark.usefixtures("config_admission")
def test_what_the_guide_shows_is_accepted(server: ApiServer) -> None:
    """The API server accepts all YAML examples of the guide, in order and in the namespaces that they name."""
    server.admin.create_object("/api/v1/namespaces", {"metadata": {"name": "topiarist"}})
    shown = [block for block in blocks((ROOT / "docs" / "kubernetes.md").read_text()) if block.language == "yaml"]
    kinds = [document["kind"] for block in shown for document in yaml.safe_load_all(block.text)]
    assert kinds == ["Cluster", "Namespace", "RoleBinding", "Topic"]
    for block in shown:
        done = server.admin.kubectl("apply", "-f", "-", given=block.text)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_repository_of_flux_builds(server_api: ApiClient, tmp_path: Path) -> None:
    """kustomize, which the Flux controller runs, builds the Flux sample and expands its YAML aliases."""
    for file in (ROOT / "manifests" / "gitops" / "flux").glob("*.yaml"):
        shutil.copy(file, tmp_path)
    own = {"resources": sorted(file.name for file in tmp_path.glob("*.yaml"))}
    (tmp_path / "kustomization.yaml").write_text(json.dumps(own))
    done = server_api.kubectl("kustomize", tmp_path)
    assert done.returncode == 0, done.stderr
    checks = [check for each in yaml.safe_load_all(done.stdout) for check in each["spec"]["healthCheckExprs"]]
    assert [check["kind"] for check in checks] == ["Cluster", "Policy", "Topic", "Topic"]
    assert len({tuple(check[word] for word in ("inProgress", "failed", "current")) for check in checks}) == 1

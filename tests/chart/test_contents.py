"""Copied content of the chart: clusters from values, definitions and policies from ``manifests``, its version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from support.checkout import ROOT
from support.kubernetes.api_client import load_documents
from support.kubernetes.helm import CHART, Document, documents_of_kind, only_document, render
from support.repo.pages import blocks
from topiarist import __version__
from topiarist.adapters.manifests.loader import load_manifests


def test_a_cluster_is_what_the_values_say(everything: dict[str, Any]) -> None:
    """A Cluster equals its values with all digits.

    A hook creates it while its kind is not yet installed, with the labels that let Helm adopt it.
    """
    clusters = {one["metadata"]["name"]: one for one in documents_of_kind(render(everything), "Cluster")}
    for name, wanted in everything["clusters"].items():  # as text: 6e3 is not 6000
        assert json.dumps(clusters[name]["spec"], sort_keys=True) == json.dumps(wanted["spec"], sort_keys=True)
    found, wanted = clusters["prod-eu"], everything["clusters"]["prod-eu"]
    assert wanted["labels"].items() <= found["metadata"]["labels"].items()
    annotations = found["metadata"]["annotations"]
    assert annotations["example.com/owner"] == "platform"
    assert annotations["helm.sh/hook"] == "post-install,post-upgrade"
    assert "before-hook-creation" not in annotations["helm.sh/hook-delete-policy"]
    assert annotations["meta.helm.sh/release-namespace"] == "kafka"


def test_the_definitions_are_those_of_manifests() -> None:
    """The definitions and admission policies equal ``manifests``, except for labels and the annotation that keeps
    definitions.
    """

    def plain(one: Document) -> Document:
        return {**one, "metadata": {"name": one["metadata"]["name"]}}

    found = render()
    wanted = [one for file in sorted((ROOT / "manifests" / "crds").glob("*")) for one in load_documents(file)]
    definitions = documents_of_kind(found, "CustomResourceDefinition")
    assert list(map(plain, definitions)) == wanted
    for one in definitions:
        assert one["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    for one in documents_of_kind(render({"crds": {"keep": False}}), "CustomResourceDefinition"):
        assert "annotations" not in one["metadata"]
    admission = load_documents(ROOT / "manifests" / "admission" / "config.yaml")
    assert [plain(one) for one in found if one["kind"].startswith("Validating")] == admission


def test_the_example_of_the_page_is_valid(tmp_path: Path) -> None:
    """The example values render, and ``topiarist validate`` accepts their Cluster."""
    (example,) = [block for block in blocks((CHART / "README.md").read_text()) if block.language == "yaml"]
    (tmp_path / "cluster.yaml").write_text(
        yaml.safe_dump(only_document(render(yaml.safe_load(example.text)), "Cluster"))
    )
    found = load_manifests([str(tmp_path / "cluster.yaml")])
    assert not found.errors
    assert [manifest.kind for manifest in found.manifests] == ["Cluster"]


def test_the_chart_is_for_this_release() -> None:
    """The chart's version and appVersion equal the version of the package."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)

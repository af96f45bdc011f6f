"""Chart values: refused values with their messages, the strictness of the schema, and content that is copied."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from support.checkout import ROOT
from support.kubernetes.api_client import load_documents
from support.kubernetes.helm import CHART, Document, documents_of_kind, only_document, render
from support.repo.pages import blocks
from topiarist import __version__
from topiarist.adapters.manifests.loader import load_manifests

SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"replicas": 2}, "at '/replicas': value must be 'at most 1, unless leaderElection.enabled is true'"),
        ({"replica": 2}, "additional properties 'replica' not allowed"),
        ({"image": {"tga": "1"}}, "at '/image': additional properties 'tga' not allowed"),
        ({"image": {"digest": "0123"}}, "at '/image/digest': '0123' does not match pattern"),
        ({"image": {"pullPolicy": "Sometimes"}}, "value must be one of 'Always', 'IfNotPresent', 'Never'"),
        ({"period": 0}, "at '/period': minimum: got 0, want 1"),
        ({"logLevel": "loud"}, "at '/logLevel': value must be one of 'debug', 'info', 'warning', 'error'"),
        ({"leaderElection": {"leaseDuration": 1}}, "at '/leaderElection/leaseDuration': minimum: got 1, want 2"),
        ({"period": "1m"}, "at '/period': got string, want integer"),
        ({"clusters": {"Prod": {"spec": {"zookeeper": {"connect": "a"}}}}}, "'Prod' does not match pattern"),
        ({"clusters": {"prod": {}}}, "at '/clusters/prod': missing property 'spec'"),
        ({"clusters": {"prod": {"spec": {}}}}, "at '/clusters/prod/spec': missing property 'zookeeper'"),
        ({"clusters": [{"name": "prod"}]}, "at '/clusters': got array, want object"),
        ({"secretNames": [""]}, "at '/secretNames/0'"),
        ({"watchNamespaces": ["*"]}, "at '/watchNamespaces/0': '*' does not match pattern"),
        ({"prometheusRule": {"disabled": ["TopiaristUp"]}}, "at '/prometheusRule/disabled/0': value must be one of"),
        ({"drift": {"enabled": True}}, "at '/drift/manifests': minProperties: got 0, want 1"),
        ({"drift": {"secretNames": ["A"]}}, "at '/drift/secretNames/0': 'A' does not match pattern"),
        ({"podLabels": {"a": 1}}, "at '/podLabels/a': got number, want string"),
        ({"image": None}, "at '': missing property 'image'"),
        ({"image": {"repository": None}}, "at '/image': missing property 'repository'"),
        ({"crds": {"keep": None}}, "at '/crds': missing property 'keep'"),
        ({"drift": None}, "at '': missing property 'drift'"),
        ({"serviceMonitor": {"interval": "1x"}}, "at '/serviceMonitor/interval': '1x' does not match pattern"),
        ({"serviceMonitor": {"interval": ""}}, "at '/serviceMonitor/interval': minLength: got 0, want 1"),
        ({"serviceMonitor": {"scrapeTimeout": "10 s"}}, "at '/serviceMonitor/scrapeTimeout': '10 s' does not match"),
        ({"resources": {"limits": {"memory": "512MB"}}}, "at '/resources/limits/memory': '512MB' does not match"),
        ({"drift": {"resources": {"requests": {"cpu": -1}}}}, "at '/drift/resources/requests/cpu': minimum: got -1"),
        ({"tmp": {"sizeLimit": "16mb"}}, "at '/tmp/sizeLimit': '16mb' does not match pattern"),
        ({"livenessProbe": {"periodSeconds": "15s"}}, "at '/livenessProbe/periodSeconds': got string, want integer"),
        ({"readinessProbe": {"failureThreshold": 0}}, "at '/readinessProbe/failureThreshold': minimum: got 0, want 1"),
        ({"podDisruptionBudget": {"maxUnavailable": "half"}}, "maxUnavailable': 'half' does not match pattern"),
        ({"drift": {"schedule": "hourly"}}, "at '/drift/schedule': 'hourly' does not match pattern"),
        ({"drift": {"timeZone": "Europe/Berlin?"}}, "at '/drift/timeZone': 'Europe/Berlin?' does not match pattern"),
        ({"fullnameOverride": "a.b"}, "at '/fullnameOverride': 'a.b' does not match pattern"),
    ],
    ids=str,
)
def test_a_mistake_is_refused_at_its_place(values: dict[str, Any], words: str) -> None:
    """An invalid value is refused with its path, the actual value and the expected value."""
    with pytest.raises(helm_python.HelmValuesError) as refused:
        render(values)
    assert words in str(refused.value)


def test_forms_of_durations_and_quantities() -> None:
    """All forms that Kubernetes and Prometheus take are accepted."""
    render(
        {
            "serviceMonitor": {"interval": "1m30s", "scrapeTimeout": "500ms"},
            "resources": {"limits": {"cpu": 0.5, "memory": "1.5Gi", "ephemeral-storage": "1e9"}, "claims": []},
            "drift": {"schedule": "*/15 0-6,22 1 JAN MON-FRI", "timeZone": "Etc/GMT+1"},
            "podDisruptionBudget": {"maxUnavailable": "50%"},
            "livenessProbe": {"initialDelaySeconds": 0},
        }
    )
    render({"drift": {"schedule": "@daily"}, "tmp": {}})


def test_who_skips_the_schema_is_told_too(tmp_path: Path) -> None:
    """Without the schema, templates still require a Lease for several pods and a comparison source for a report."""
    chart = tmp_path / "topiarist"
    shutil.copytree(CHART, chart)
    (chart / "values.schema.json").unlink()
    with pytest.raises(helm_python.HelmRenderError, match=r"replicas: .* set leaderElection.enabled, or replicas: 1"):
        render({"replicas": 2}, chart=chart)
    with pytest.raises(helm_python.HelmRenderError, match=r"wanted leaseRetry < leaseRenewal < leaseDuration"):
        render({"leaderElection": {"leaseDuration": 10}}, chart=chart)
    with pytest.raises(helm_python.HelmRenderError, match=r"drift: there are no manifests to compare with"):
        render({"drift": {"enabled": True}}, chart=chart)


EMPTY = (
    *("podLabels", "podAnnotations", "commonLabels", "commonAnnotations", "secretNames", "watchNamespaces"),
    *("livenessProbe", "readinessProbe", "resources", "podSecurityContext", "securityContext", "extraArgs"),
)
"""Values that people leave without content, with a comment below them."""


@pytest.mark.parametrize("name", EMPTY)
def test_a_value_without_content_is_none(name: str) -> None:
    """``podLabels:`` alone is null, which removes Helm's default: the chart renders as with nothing in it."""
    given = {"drift": {"enabled": True, "manifests": {"configMap": {"name": "a"}}, "owner": "k8s/a/b/c"}}
    kinds = [each["kind"] for each in render(given)]
    found = render({**given, name: None})
    assert [each["kind"] for each in found] == kinds
    (operator,) = only_document(found, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert operator["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert operator["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}


def test_labels_without_content_are_none() -> None:
    """Further labels of a Service and of alerts may be left without content too."""
    found = render({"service": {"labels": None}, "prometheusRule": {"enabled": True, "ruleLabels": None}})
    assert only_document(found, "Service")["metadata"]["labels"]["app.kubernetes.io/component"] == "operator"
    assert only_document(found, "PrometheusRule")["spec"]["groups"]


def test_a_release_with_a_dot_has_another_name_for_its_service() -> None:
    """Helm allows dots in the names of releases, and Kubernetes allows none in those of Services."""
    with pytest.raises(helm_python.HelmRenderError, match=r"the name a.b-topiarist has a dot.* set fullnameOverride"):
        render(name="a.b")
    assert only_document(render({"fullnameOverride": "ab"}, name="a.b"), "Service")["metadata"]["name"] == "ab"


def test_no_value_is_unknown_to_the_schema() -> None:
    """Every level of topiarist's values is closed, and every value has a description and, without parts, a default."""

    def look(schema: dict[str, Any], path: str) -> None:
        assert schema["additionalProperties"] is False, path
        for name, inner in schema["properties"].items():
            assert inner["description"].endswith("."), name
            if "properties" in inner:
                look(inner, f"{path}.{name}")
            else:
                assert "default" in inner, name

    look(SCHEMA, "")
    assert len(list(leaves(SCHEMA))) > 60


def test_the_defaults_are_what_the_schema_says() -> None:
    """``values.yaml`` has exactly the values of the schema."""

    def defaults(schema: dict[str, Any]) -> Any:
        if "properties" not in schema:
            return schema["default"]
        return {name: defaults(inner) for name, inner in schema["properties"].items()}

    found = yaml.safe_load((CHART / "values.yaml").read_text())
    assert found == {name: defaults(inner) for name, inner in SCHEMA["properties"].items()}


@pytest.mark.slow
def test_every_value_has_an_effect(everything: dict[str, Any]) -> None:
    """Every value changes the rendered output; ``everything.yaml`` and OTHERWISE differ from the default."""
    base = put(put(everything, "replicas", None), "crds.enabled", False)
    rendered = render(base)

    def changed(path: str) -> bool:
        if path.startswith("crds"):
            return render(put({}, path, False)) != render()
        return render(put(base, path, OTHERWISE.get(path))) != rendered

    assert [path for path in leaves(SCHEMA) if not changed(path)] == []


OTHERWISE = {
    "watchNamespaces": ["payments"],
    "replicas": 2,
    "image.digest": f"sha256:{64 * 'a'}",
    "admissionPolicies.enabled": False,
    "rbac.create": False,
    "rbac.aggregate": False,
    "serviceAccount.create": False,
    "serviceAccount.name": "somebody",
    "serviceMonitor.interval": "1m",
    "serviceMonitor.annotations": {"a": "b"},
    "prometheusRule.annotations": {"a": "b"},
    "prometheusRule.disabled": ["TopiaristDown"],
    "prometheusRule.selector": 'job="else"',
    "dashboard.labels": {"a": "b"},
    "networkPolicy.apiServerPorts": [8443],
    "podDisruptionBudget.maxUnavailable": "50%",
    "drift.manifests": {"configMap": {"name": "topics"}},
    "resources": {"limits": {"cpu": "1"}},
    "livenessProbe": {"periodSeconds": 99},
    "readinessProbe": {"periodSeconds": 99},
    "terminationGracePeriodSeconds": 99,
    "podSecurityContext": {"runAsUser": 99},
    "securityContext": {"readOnlyRootFilesystem": False},
    "tmp": {"sizeLimit": "99Mi"},
    "nameOverride": "other",
    "fullnameOverride": "other",
}
"""Values that ``everything.yaml`` leaves alone."""


def leaves(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield every value without parts, except ``global``, which is Helm's."""
    for name, inner in schema["properties"].items():
        where = f"{path}.{name}".lstrip(".")
        if "properties" in inner:
            yield from leaves(inner, where)
        elif where != "global":
            yield where


def get(values: dict[str, Any], path: str) -> Any:
    """Return a value. Raises ``KeyError`` if it is missing."""
    for name in path.split("."):
        values = values[name]
    return values


def put(values: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy with another value; None removes the value and leaves the default."""
    name, _, rest = path.partition(".")
    inner = put(values.get(name, {}), rest, value) if rest else value
    kept = {key: each for key, each in values.items() if key != name}
    return kept if inner is None else {**kept, name: inner}


def test_a_cluster_is_what_the_values_say(everything: dict[str, Any]) -> None:
    """A Cluster equals its values with all digits, and has the class of its release unless it names one.

    A hook creates it while its kind is not yet installed, with the labels that let Helm adopt it.
    """
    clusters = {one["metadata"]["name"]: one for one in documents_of_kind(render(everything), "Cluster")}
    for name, wanted in everything["clusters"].items():  # as text: 6e3 is not 6000
        spec = {"class": everything["class"], **wanted["spec"]}
        assert json.dumps(clusters[name]["spec"], sort_keys=True) == json.dumps(spec, sort_keys=True)
    without = documents_of_kind(render({**everything, "class": ""}), "Cluster")
    assert all("class" not in one["spec"] for one in without)
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

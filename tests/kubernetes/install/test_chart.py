"""The chart on an API server without topiarist's definitions: installation, upgrade, removal and reinstallation."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from kubernetes.fixtures.chart_fixture import EXTERNAL_CRDS_VALUES, RELEASE, TOPIC_CRD_PATH, ChartFixture
from kubernetes.fixtures.resources import create, topic
from support.checkout import ROOT
from support.kubernetes.api_client import ApiResponse
from support.kubernetes.helm import CHART, documents_of_kind, only_document, render
from support.kubernetes.server import ApiServer
from support.waiting import wait_until

CLUSTER: Mapping[str, Any] = {
    "labels": {"env": "prod"},
    "spec": {"zookeeper": {"connect": "zk1:2181"}, "defaults": {"config": {"retention.ms": 604800000}}},
}
EVERYTHING = yaml.safe_load((ROOT / "tests" / "chart" / "everything.yaml").read_text())


@pytest.fixture
def blank(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ChartFixture]:
    """Return a fixture on an API server without topiarist's definitions."""
    request.getfixturevalue("server")  # its message names a missing tool
    with ApiServer(tmp_path / "kube") as server:
        yield ChartFixture(server, "kafka")


@pytest.fixture
def site(server: ApiServer, namespace: str) -> Iterator[ChartFixture]:
    """Return a fixture on an API server where the definitions are installed separately."""
    site = ChartFixture(server, f"{namespace}-hard")
    yield site
    site.helm.uninstall(RELEASE, ignore_not_found=True)


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """Return the chart of an earlier release, with an older definition of Topic."""
    chart = tmp_path / "topiarist"
    shutil.copytree(CHART, chart)
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    (chart / "Chart.yaml").write_text(yaml.safe_dump({**about, "version": "0.0.1", "appVersion": "0.0.1"}))
    file = chart / "templates" / "crds" / "topics.topiarist.dev.yaml"
    assert "name: Drifted" in file.read_text()
    file.write_text(file.read_text().replace("name: Drifted", "name: Older"))
    return chart


def columns(definition: Mapping[str, Any]) -> set[str]:
    """Return the names of a definition's columns."""
    return {each["name"] for each in definition["spec"]["versions"][0]["additionalPrinterColumns"]}


def test_installed_upgraded_and_taken_away(blank: ChartFixture, older: Path) -> None:
    """An upgrade from an earlier chart updates the definitions in place, and Topics survive the upgrade and the
    uninstallation.

    A second installation on top of the remaining objects works.
    """
    blank.install(chart=older)
    assert "Older" in columns(blank.get_topic_crd())
    assert blank.get_object("apis/apps/v1 deployments/topiarist")
    wait_until(lambda: create(blank.api, blank.namespace, topic("orders")).status == 201, "topics are served")
    kept = blank.get_object("apis/topiarist.dev/v1 topics/orders")["metadata"]["uid"]

    blank.upgrade()
    assert "Drifted" in columns(blank.get_topic_crd())
    assert "Older" not in columns(blank.get_topic_crd())
    (container,) = blank.get_object("apis/apps/v1 deployments/topiarist")["spec"]["template"]["spec"]["containers"]
    assert not container["image"].endswith(":0.0.1")

    refused = partial(create, blank.api, blank.namespace, topic("bad", config={"/": 1}), keep=False)
    wait_until(lambda: refused().status == 422, "the admission policy has arrived")

    blank.uninstall()
    for gone in (
        "apis/apps/v1 deployments/topiarist",
        "api/v1 services/topiarist",
        "api/v1 serviceaccounts/topiarist",
        "apis/rbac.authorization.k8s.io/v1 roles/topiarist",
    ):
        assert blank.get_object(gone) == {}
    roles = blank.api.call("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles").body["items"]
    assert not [role for role in roles if blank.namespace in role["metadata"]["name"]]
    assert blank.get_object("apis/topiarist.dev/v1 topics/orders")["metadata"]["uid"] == kept

    blank.install()
    assert blank.get_object("apis/apps/v1 deployments/topiarist")
    assert blank.get_object("apis/topiarist.dev/v1 topics/orders")["metadata"]["uid"] == kept


def test_clusters_come_with_the_first_installation(blank: ChartFixture) -> None:
    """The first installation creates Clusters, although their kind is unknown when Helm starts.

    Afterwards they belong to the release.
    """
    blank.install({"clusters": {"prod": CLUSTER}})
    first = blank.get_cluster()
    assert first["spec"]["defaults"] == CLUSTER["spec"]["defaults"]
    assert first["metadata"]["labels"]["env"] == "prod"

    blank.upgrade({"clusters": {"prod": CLUSTER}})
    taken = blank.get_cluster()
    assert taken["metadata"]["uid"] == first["metadata"]["uid"]
    assert "helm.sh/hook" not in taken["metadata"]["annotations"]

    changed = {**CLUSTER, "spec": {"zookeeper": {"connect": "zk2:2181"}}}
    blank.upgrade({"clusters": {"prod": changed, "stage": CLUSTER}})
    assert blank.get_cluster()["spec"]["zookeeper"]["connect"] == "zk2:2181"
    assert "defaults" not in blank.get_cluster()["spec"]
    assert blank.get_cluster()["metadata"]["uid"] == first["metadata"]["uid"]

    blank.upgrade({"clusters": {"stage": CLUSTER}})
    assert blank.get_cluster() == {}
    assert blank.get_cluster("stage")
    blank.uninstall()
    assert blank.get_cluster("stage") == {}


def test_a_cluster_that_is_wrong_stops_the_upgrade(site: ChartFixture) -> None:
    """An invalid Cluster stops the upgrade with the API server's message, and the previous Cluster stays."""
    site.install({**EXTERNAL_CRDS_VALUES, "clusters": {"prod": CLUSTER}})
    wrong = {"spec": {**CLUSTER["spec"], "driftPolicy": "Perhaps"}}
    with pytest.raises(helm_python.HelmError, match='Unsupported value: "Perhaps"'):
        site.upgrade({**EXTERNAL_CRDS_VALUES, "clusters": {"prod": wrong}})
    assert site.get_cluster()["spec"]["driftPolicy"] == "Report"


def test_leader_election_comes_and_goes(site: ChartFixture) -> None:
    """An upgrade can enable and disable leader election, with a complete change of the Deployment's strategy."""
    for several in (False, True, False):
        values = {**EXTERNAL_CRDS_VALUES, "replicas": 2 if several else 1, "leaderElection": {"enabled": several}}
        (site.upgrade if site.get_object("apis/apps/v1 deployments/topiarist") else site.install)(values)
        strategy = site.get_object("apis/apps/v1 deployments/topiarist")["spec"]["strategy"]
        assert strategy["type"] == ("RollingUpdate" if several else "Recreate")
        rules = site.get_object("apis/rbac.authorization.k8s.io/v1 roles/topiarist")["rules"]
        assert (["leases"] in [rule["resources"] for rule in rules]) is several


def test_definitions_go_only_if_that_is_wanted(blank: ChartFixture) -> None:
    """``crds.keep: false`` deletes the definitions with the release."""
    blank.install({"crds": {"keep": False}})
    blank.uninstall()
    wait_until(lambda: blank.api.call("GET", TOPIC_CRD_PATH).status == 404, "the definition has gone")


def test_a_second_release_leaves_the_first_alone(blank: ChartFixture) -> None:
    """A second release fails to install the objects that exist once per API server.

    With these objects disabled it installs and uninstalls without effect on the first release.
    """
    blank.install()
    other = blank.second_namespace()
    with pytest.raises(helm_python.HelmError, match="invalid ownership metadata"):
        other.install()
    other.helm.uninstall(RELEASE, ignore_not_found=True)
    other.install(EXTERNAL_CRDS_VALUES)
    other.uninstall()
    assert blank.get_object("apis/rbac.authorization.k8s.io/v1 roles/topiarist")
    assert columns(blank.get_topic_crd())


def test_everything_is_taken(site: ChartFixture) -> None:
    """A real API server accepts the chart with all options on, including fields that no schema of topiarist covers."""
    for name in ("servicemonitors", "prometheusrules"):
        site.api.create_object(TOPIC_CRD_PATH.rpartition("/")[0], foreign(name))
    for name in ("servicemonitors", "prometheusrules"):
        wait_until(lambda: site.get_object(f"apis/monitoring.coreos.com/v1 {name}"), f"{name} are served")  # noqa: B023
    site.install({**EVERYTHING, **EXTERNAL_CRDS_VALUES})
    for there in (
        "apis/networking.k8s.io/v1 networkpolicies/topiarist",
        "apis/policy/v1 poddisruptionbudgets/topiarist",
        "apis/monitoring.coreos.com/v1 servicemonitors/topiarist",
        "apis/monitoring.coreos.com/v1 prometheusrules/topiarist",
        "api/v1 configmaps/topiarist-dashboard",
        "apis/batch/v1 cronjobs/topiarist-drift",
    ):
        assert site.get_object(there), there
    assert site.get_cluster("prod-eu")["spec"]["excludeBrokers"] == [1000007, 8]
    deployment = site.get_object("apis/apps/v1 deployments/topiarist")["spec"]
    assert (deployment["replicas"], deployment["strategy"]["type"]) == (2, "RollingUpdate")


def foreign(plural: str) -> dict[str, Any]:
    """Return a minimal definition of a kind of the Prometheus operator."""
    singular = plural.removesuffix("s")
    kind = {"servicemonitor": "ServiceMonitor", "prometheusrule": "PrometheusRule"}[singular]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind, "plural": plural, "singular": singular}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["default", "everything"])
def test_a_hardened_namespace_takes_the_pods(site: ChartFixture, values: dict[str, Any]) -> None:
    """The pods of the operator, of ``helm test`` and of drift reports satisfy the restricted Pod Security Standard."""
    for account in ("default", "topiarist"):
        site.api.create_object(f"/api/v1/namespaces/{site.namespace}/serviceaccounts", {"metadata": {"name": account}})
    found = render(values, namespace=site.namespace)
    operator = only_document(found, "Deployment")["spec"]["template"]
    pods = [{**operator, "metadata": {**operator["metadata"], "name": "operator"}}, only_document(found, "Pod")]
    for job in documents_of_kind(found, "CronJob"):
        drift = job["spec"]["jobTemplate"]["spec"]["template"]
        pods.append({**drift, "metadata": {**drift["metadata"], "name": "drift"}})
    for pod in pods:
        taken = tried(site, pod)
        assert taken.status == 201, taken
        softer = {**pod["spec"], "securityContext": {**pod["spec"]["securityContext"], "runAsNonRoot": False}}
        refused = tried(site, {**pod, "spec": softer})
        assert refused.status == 403
        assert "violates PodSecurity" in refused.message


def tried(site: ChartFixture, pod: Mapping[str, Any]) -> ApiResponse:
    """Return the API server's response to a dry-run creation of a pod."""
    body = {"apiVersion": "v1", "kind": "Pod", **pod}
    return site.api.call("POST", f"/api/v1/namespaces/{site.namespace}/pods?dryRun=All&fieldValidation=Strict", body)

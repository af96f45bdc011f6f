"""The chart on an API server that knows nothing of us yet: installed, upgraded, taken away, installed again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from kubernetes.resources import create, path, resource, topic
from support.helm import CHART, Values, of_kind, only, render
from support.kube import ApiServer, NoGo, binaries
from support.kubeapi import Answer, Api
from support.waiting import wait_until

RELEASE = "topiarist"
CLUSTER: Mapping[str, Any] = {
    "labels": {"env": "prod"},
    "spec": {"zookeeper": {"connect": "zk1:2181"}, "defaults": {"config": {"retention.ms": 604800000}}},
}
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}.topiarist.dev"
RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}


@pytest.fixture(scope="module")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server without definitions of ours."""
    try:
        binaries()
    except NoGo as missing:
        pytest.skip(str(missing))
    with ApiServer(tmp_path_factory.mktemp("blank")) as server:
        yield server


class Site:
    """A namespace in which only hardened pods may run, and Helm at work there."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self.namespace = namespace
        self.api = server.api("admin", namespace)
        self.helm = helm_python.Config(kubeconfig_path=self.api.kubeconfig, namespace=namespace)
        self.api.make("/api/v1/namespaces", {"metadata": {"name": namespace, "labels": RESTRICTED}})

    def install(self, values: Values | None = None, chart: Path = CHART) -> None:
        """``helm install``. Raises ``HelmError``."""
        self.helm.install(chart, RELEASE, dict(values or {}), namespace=self.namespace)

    def upgrade(self, values: Values | None = None, chart: Path = CHART) -> None:
        """``helm upgrade``."""
        self.helm.upgrade(chart, RELEASE, dict(values or {}), namespace=self.namespace)

    def get(self, path: str) -> Answer:
        """An object of the namespace: ``apis/apps/v1 deployments/topiarist``."""
        group, _, name = path.partition(" ")
        return self.api.call("GET", f"/{group}/namespaces/{self.namespace}/{name}")

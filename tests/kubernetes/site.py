"""A namespace in which Helm installs the chart, and a look at what is there afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import helm_python

from support.helm import CHART, Values
from support.kube import ApiServer
from support.kubeapi import PATIENCE, Answer
from support.waiting import wait_until

RELEASE = "topiarist"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/topics.topiarist.dev"
RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}

OTHERS = {"crds": {"enabled": False}, "admissionPolicies": {"enabled": False}}
"""Where definitions and admission policies come from elsewhere."""


class Site:
    """A namespace in which only hardened pods may run, and Helm at work there."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self._server = server
        self.namespace = namespace
        self.api = server.api("admin", namespace)
        self.api.make("/api/v1/namespaces", {"metadata": {"name": namespace, "labels": RESTRICTED}})

    @property
    def helm(self) -> helm_python.Config:
        """A Helm that knows of nothing that was done before, as each run of the command is."""
        return helm_python.Config(kubeconfig_path=self.api.kubeconfig, namespace=self.namespace)

    def install(self, values: Values | None = None, chart: Path = CHART) -> None:
        """``helm install``. Raises ``HelmError``."""
        self.helm.install(chart, RELEASE, dict(values or {}), namespace=self.namespace)

    def upgrade(self, values: Values | None = None, chart: Path = CHART) -> None:
        """``helm upgrade``. Raises ``HelmError``."""
        self.helm.upgrade(chart, RELEASE, dict(values or {}), namespace=self.namespace)

    def uninstall(self) -> None:
        """``helm uninstall``."""
        self.helm.uninstall(RELEASE)

    def there(self, path: str) -> Mapping[str, Any]:
        """An object below the namespace's ``apis/GROUP/VERSION``; empty if there is none.

        A kind whose definition has just changed is not served for a moment.
        """
        group, _, name = path.partition(" ")
        answers: list[Answer] = []

        def asked() -> bool:
            answers.append(self.api.call("GET", f"/{group}/namespaces/{self.namespace}/{name}"))
            return answers[-1].status in (200, 404)

        wait_until(asked, path, patience=PATIENCE)
        return answers[-1].body if answers[-1].status == 200 else {}

    def cluster(self, name: str = "prod") -> Mapping[str, Any]:
        """A Cluster."""
        return self.there(f"apis/topiarist.dev/v1 clusters/{name}")

    def beside(self) -> Site:
        """Another namespace of the same API server."""
        return Site(self._server, f"{self.namespace}-2")

    def definition(self) -> Mapping[str, Any]:
        """The definition of Topic."""
        return self.api.call("GET", DEFINITION).body

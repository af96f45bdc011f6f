"""Where the fault tests of the operator happen: scenes, operators, and what they say, all gone when the test ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from conftest import BROKERS
from kubernetes.resources import cluster, path
from kubernetes.scene import Scene
from support.clients import connected
from support.kube import ApiServer
from support.kubeapi import Api
from support.operator import account
from support.operatorforks import ForkedOperator
from support.waiting import wait_until
from topiarist.adapters.embedded import EmbeddedZooKeeper
from topiarist.adapters.playground import Playground

KIND = "topics.topiarist.dev"


def granted(server: ApiServer, namespace: str, *words: str) -> str:
    """A token of an account with the rights of an operator of this namespace, which have arrived."""
    token = account(server, namespace, *words)
    found, ours = server.api(token, namespace), f"/apis/topiarist.dev/v1/namespaces/{namespace}"
    asked = (f"{ours}/topics", f"{ours}/clusters", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + KIND)
    wait_until(lambda: all(found.call("GET", path).status == 200 for path in asked), "its rights are there")
    return token


class Stage(NamedTuple):
    """Makes scenes, and operators for them, that end with the test."""

    server: ApiServer
    zookeeper: EmbeddedZooKeeper
    stack: ExitStack
    folder: Path

    def scene(self, namespace: str, chroot: str = "") -> Scene:
        """A Kafka cluster, and a namespace, which is made if it is not there."""
        connect = f"{self.zookeeper.connect}/{chroot or namespace}"
        kafka = self.stack.enter_context(Playground(connect, BROKERS))
        client = self.stack.enter_context(connected(connect))
        self.server.admin.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        return Scene(self.server.api("admin", namespace), namespace, kafka, client)

    def operator(
        self, namespace: str, *words: str, through: Callable[[str, str], Api] | None = None, everywhere: bool = False
    ) -> ForkedOperator:
        """An operator at work for the Topics of a namespace, or of all; ``through`` is its way to the API server."""
        watched = () if everywhere else ("--watch-namespace", namespace)
        api = (through or self.server.api)(granted(self.server, namespace, *watched), namespace)
        options = ("--namespace", namespace, "--period", "1", *watched, *words)
        operator = ForkedOperator(api.kubeconfig, self.folder / f"said-{namespace}", *options)
        self.stack.callback(operator.kill)
        operator.start()
        operator.until_ready()
        return operator


def well(operator: ForkedOperator) -> None:
    """It is there, says so, and has met nothing that nobody had thought of."""
    assert operator.asked("/healthz") == (200, "ok\n")
    assert "Traceback" not in operator.log, operator.log


def condition(scene: Scene, name: str, kind: str = "Ready") -> tuple[str, str]:
    """A condition of a Cluster: status and reason."""
    found = scene.api.call("GET", path(scene.namespace, cluster(name), name)).body
    for each in found.get("status", {}).get("conditions", ()):
        if each["type"] == kind:
            return each["status"], each["reason"]
    return "", ""


def total(scene: Scene) -> int:
    """How many Topics the Cluster counts."""
    found: dict[str, Any] = dict(scene.api.call("GET", path(scene.namespace, cluster("prod"), "prod")).body)
    return int(found.get("status", {}).get("topics", {}).get("total", -1))

"""One operator for many tests: each has a Kafka cluster, a Cluster and a namespace of its own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from kazoo.client import KazooClient

from kubernetes.resources import cluster, path, topic
from kubernetes.scene import PATIENCE, SIZED, Scene, owner
from support.kube import ApiServer
from support.kubeapi import Api
from support.operator import Operator
from support.waiting import wait_until
from topiarist.adapters.embedded import EmbeddedZooKeeper
from topiarist.adapters.playground import Playground

PAUSE = 0.1
"""Seconds between two looks: each is a connection of its own, which an API server on a small machine feels."""

_numbers = count(1)


def clear_topics(api: Api) -> None:
    """Take away all Topics of all namespaces: one that names no cluster would mean the only one of the next test."""
    kind = "/apis/topiarist.dev/v1"
    for found in api.call("GET", f"{kind}/topics").body["items"]:
        metadata = found["metadata"]
        where = f"{kind}/namespaces/{metadata['namespace']}/topics/{metadata['name']}"
        if metadata.get("finalizers"):
            api.call("PATCH", where, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
        assert api.call("DELETE", where).status in (200, 404)


class Estate(NamedTuple):
    """The operator, and the namespace with its Clusters and Policies, ``home``."""

    server: ApiServer
    zookeeper: EmbeddedZooKeeper
    operator: Operator
    home: str
    folder: Path

    @property
    def owner(self) -> str:
        """As whom it writes records."""
        return owner(self.server.admin, self.home)

    def figure(self, name: str, /, **labels: str) -> float:
        """One of its metrics; 0 if it is not there."""
        status, text = self.operator.asked("/metrics")
        assert status == 200, text
        wanted = {f'{key}="{value}"' for key, value in labels.items()}
        for line in text.splitlines():
            head, _, value = line.rpartition(" ")
            found, _, rest = head.partition("{")
            if found == name and wanted == set(filter(None, rest.removesuffix("}").split(","))):
                return float(value)
        return 0.0


class Place(Scene):
    """A Kafka cluster on an estate; its Topics are in ``namespace`` and name it."""

    def __init__(self, estate: Estate, api: Api, namespace: str, kafka: Playground, client: KazooClient) -> None:
        super().__init__(api, namespace, kafka, client)
        self.estate = estate
        self.name = f"k{next(_numbers)}"

    def apply(self, body: dict[str, Any]) -> None:
        """A server-side apply; Clusters and Policies are the operator's."""
        where = self.namespace if body["kind"] == "Topic" else self.estate.home
        found = self.api.apply(path(where, body), body)
        assert found.status in (200, 201), found

    def cluster(self, annotations: Mapping[str, str] | None = None, **spec: Any) -> None:
        """Declare the cluster, or change what is said of it, and wait until it is seen; all namespaces may name it."""
        zookeeper = {"connect": self.kafka.connect, **spec.pop("zookeeper", {})}
        fields = {"kafkaVersion": "3.9", "allowedTopics": [{"namespaces": {"from": "All"}}], **spec}
        body = cluster(self.name, zookeeper=zookeeper, **fields)
        body["metadata"]["annotations"] = {f"topiarist.dev/{key}": text for key, text in (annotations or {}).items()}
        self.apply(body)
        self.until_seen()

    def until_seen(self) -> None:
        """As for any scene; this Cluster is the operator's."""
        self.wait(lambda: "status" in self.own(), "the Cluster is seen")

    def topic(self, name: str, annotations: Mapping[str, str] | None = None, **spec: Any) -> None:
        """Declare a topic for this cluster, or change it; the label keeps admission from judging it."""
        body = topic(name, **{**SIZED, "clusters": [self.name], **spec})
        body["metadata"]["labels"] = {"unjudged": ""}
        body["metadata"]["annotations"] = {f"topiarist.dev/{key}": text for key, text in (annotations or {}).items()}
        self.apply(body)

    def elsewhere(self, namespace: str) -> Place:
        """The same cluster, for Topics of another namespace."""
        other = Place(self.estate, self.api, namespace, self.kafka, self.client)
        other.name = self.name
        return other

    def leave(self) -> None:
        """Have the Cluster, if it is declared, deleted: the operator looks at it no more."""
        assert self.api.call("DELETE", path(self.estate.home, cluster(self.name), self.name)).status in (200, 404)

    def own(self) -> Mapping[str, Any]:
        """The Cluster as the API server has it."""
        return self.api.call("GET", path(self.estate.home, cluster(self.name), self.name)).body

    def own_conditions(self) -> dict[str, tuple[str, str]]:
        """Those of the Cluster: status and reason."""
        found = self.own().get("status", {}).get("conditions", ())
        return {each["type"]: (each["status"], each["reason"]) for each in found}

    def on(self, name: str) -> Mapping[str, Any]:
        """What the status of a Topic says of this cluster."""
        parts = self.found(name).get("status", {}).get("clusters", ())
        return next((part for part in parts if part["name"] == self.name), {})

    def message(self, name: str, kind: str = "Ready") -> str:
        """The words of a condition of a Topic."""
        (found,) = (each for each in self.found(name)["status"]["conditions"] if each["type"] == kind)
        return str(found["message"])

    def notes(self, name: str) -> list[str]:
        """The texts of the Events about a Topic."""
        found = self.api.call("GET", f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events").body["items"]
        return [event["note"] for event in found if event["regarding"]["name"] == name]

    def command(self, name: str) -> str:
        """The command of kubectl in a Topic's message, which ends with it."""
        self.wait(lambda: "kubectl annotate" in self.message(name), "the message has a command")
        return self.message(name).rsplit("kubectl ", 1)[1]

    def copy_command(self, name: str) -> None:
        """Do what the message of a Topic says."""
        done = self.api.kubectl(*self.command(name).split())
        assert done.returncode == 0, done.stderr

    def annotate(self, name: str, note: str) -> None:
        """Give a Topic an annotation of ours, ``KEY=VALUE``, as a person does."""
        where = f"--namespace={self.namespace}"
        done = self.api.kubectl("annotate", "--overwrite", where, "topics.topiarist.dev", name, f"topiarist.dev/{note}")
        assert done.returncode == 0, done.stderr

    def wait(self, condition: Any, what: str) -> None:
        """Wait for something that the operator brings about."""
        wait_until(condition, f"{self.name}: {what}", patience=PATIENCE, pause=PAUSE)

    def until(self, name: str, **conditions: tuple[str, str]) -> None:
        """Wait until a Topic has these conditions."""
        self.wait(lambda: conditions.items() <= self.conditions(name).items(), f"{name}: {conditions}")

    def until_own(self, **conditions: tuple[str, str]) -> None:
        """Wait until the Cluster has these conditions."""
        self.wait(
            lambda: "status" in self.own() and conditions.items() <= self.own_conditions().items(), str(conditions)
        )

    def until_gone(self, *names: str) -> None:
        """Wait until Topics have gone."""
        for name in names:
            self.wait(lambda name=name: not self.found(name), f"{name} has gone")

    def until_held(self, *names: str) -> None:
        """Wait until Topics have our finalizer."""
        for name in names:
            self.wait(partial(self._held, name), f"{name} has the finalizer")

    def _held(self, name: str) -> bool:
        return "topiarist.dev/finalizer" in self.found(name)["metadata"].get("finalizers", ())

    def pass_by(self) -> None:
        """Wait for a whole pass that begins after this call: one that is under way may have begun before."""
        passes = partial(self.estate.figure, "controller_runtime_reconcile_total", controller=self.name)
        before = passes(result="success") + passes(result="error")
        self.wait(lambda: passes(result="success") + passes(result="error") >= before + 2, "two more passes")

    def stays(self, *names: str) -> bool:
        """Whether topics are in ZooKeeper, with our records."""
        paths = [path for name in names for path in (f"/brokers/topics/{name}", f"/topiarist/topics/{name}")]
        return all(self.client.exists(path) for path in paths)

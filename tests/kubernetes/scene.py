"""A Kafka cluster, the operator and what is declared: what the tests of the operator have in their hands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kazoo.client import KazooClient

from kubernetes.resources import cluster, path, topic
from support.kubeapi import Api
from support.waiting import wait_until
from topiarist.adapters.playground import Playground

PATIENCE = 120.0
SIZED = {"partitions": 3, "replicationFactor": 2}


def owner(api: Api, namespace: str) -> str:
    """As whom the operator of a namespace writes records."""
    system = api.call("GET", "/api/v1/namespaces/kube-system").body
    return f"k8s/{system['metadata']['uid'][:8]}/{namespace}/topiarist"


class Scene:
    """A Kafka cluster, the operator, and the namespace in which both its Cluster and the Topics of a test are."""

    def __init__(self, api: Api, namespace: str, kafka: Playground, client: KazooClient) -> None:
        self.api = api
        self.namespace = namespace
        self.kafka = kafka
        self.client = client

    def cluster(self, **spec: Any) -> None:
        """Declare the cluster, or change what is said of it."""
        where = {"zookeeper": {"connect": self.kafka.connect}, "kafkaVersion": "3.9"}
        self.apply(cluster("prod", **{**where, **spec}))

    def until_seen(self) -> None:
        """Wait until the operator has seen the Cluster: it has two watches, and a Topic that comes first is told so."""
        where = path(self.namespace, cluster(), "prod")
        wait_until(lambda: "status" in self.api.call("GET", where).body, "the Cluster is seen", patience=PATIENCE)

    def topic(self, name: str, annotations: Mapping[str, str] | None = None, **spec: Any) -> None:
        """Declare a topic, or change it."""
        body = topic(name, **{**SIZED, **spec})
        body["metadata"]["annotations"] = {f"topiarist.dev/{key}": text for key, text in (annotations or {}).items()}
        self.apply(body)

    def apply(self, body: dict[str, Any]) -> None:
        """A server-side apply."""
        found = self.api.apply(path(self.namespace, body), body)
        assert found.status in (200, 201), found

    def delete(self, name: str) -> None:
        """Ask for the deletion of a Topic."""
        found = self.api.call("DELETE", path(self.namespace, topic(name), name))
        assert found.status == 200, found

    def found(self, name: str) -> Mapping[str, Any]:
        """A Topic as the API server has it; empty if it has none."""
        found = self.api.call("GET", path(self.namespace, topic(name), name))
        return found.body if found.status == 200 else {}

    def conditions(self, name: str) -> dict[str, tuple[str, str]]:
        """The conditions that speak of the newest generation: status and reason."""
        body = self.found(name)
        return {
            each["type"]: (each["status"], each["reason"])
            for each in body.get("status", {}).get("conditions", ())
            if each["observedGeneration"] == body["metadata"]["generation"]
        }

    def until(self, name: str, **conditions: tuple[str, str]) -> None:
        """Wait until a Topic has these conditions."""
        wait_until(
            lambda: conditions.items() <= self.conditions(name).items(), f"{name}: {conditions}", patience=PATIENCE
        )

    def until_ready(self, *names: str) -> None:
        """Wait until Topics are as asked."""
        for name in names:
            self.until(name, Ready=("True", "InStep"), Stalled=("False", "InStep"))

    def config(self, name: str) -> dict[str, str]:
        """A topic's overrides in ZooKeeper."""
        data, _ = self.client.get(f"/config/topics/{name}")
        found: dict[str, str] = json.loads(data)["config"]
        return found

    def partitions(self, name: str) -> int:
        """A topic's partitions in ZooKeeper; 0 if it is not there."""
        if not self.client.exists(f"/brokers/topics/{name}"):
            return 0
        return len(json.loads(self.client.get(f"/brokers/topics/{name}")[0])["partitions"])

    def events(self, name: str) -> list[str]:
        """The reasons of the Events about a Topic, oldest first."""
        found = self.api.call("GET", f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events").body["items"]
        about = [event for event in found if event["regarding"]["name"] == name]
        return [event["reason"] for event in sorted(about, key=lambda event: str(event["eventTime"]))]

    def until_events(self, name: str, *reasons: str) -> None:
        """Wait for as many Events about a Topic as these; they are these. An Event is written behind its status."""
        wait_until(lambda: len(self.events(name)) >= len(reasons), f"{name}: {reasons}", patience=PATIENCE)
        assert self.events(name) == [*reasons]

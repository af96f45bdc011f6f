"""A scene with something of everything to do, and an operator that can be killed at any write of its work.

A topic to create, whose resource gets a finalizer; one to grow and to take over; one to configure; and one to delete,
whose resource waits for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from conftest import BROKERS
from integration.scene import Meddler
from kubernetes.resources import cluster, path, topic
from kubernetes.scene import PATIENCE, Scene
from kubernetes.stage import granted
from support import checker
from support.clients import connected
from support.kube import ApiServer
from support.kuberelay import ApiRelay
from support.operatorforks import ForkedOperator
from support.waiting import wait_until
from support.writes import Writes
from topiarist.adapters import znodes
from topiarist.adapters.playground import Playground, Topic
from topiarist.adapters.znodes import paths
from topiarist.core.state import TopicRecord

FINALIZER = "topiarist.dev/finalizer"
STAYING = ("configure", "create", "grow")
TRANSACTIONS = 4
"""One for each topic."""

_REPLICAS = ((1, 2), (2, 3))
_READY = {"Ready": ("True", "InStep"), "Stalled": ("False", "InStep")}
_CHANGING = ("lastTransitionTime", "operator", "since", "topicId", "time")
_NOT_OURS = ("/brokers/ids", "/brokers/seqid", "/controller", "/zookeeper", "/config/changes/")


class Stand:
    """``with Stand(server, "a", connect, folder) as stand:``, furnished and not yet started.

    The operator reaches both servers through relays, which tell ``writes`` of what they hand on.
    """

    def __init__(self, server: ApiServer, zookeeper: str, folder: Path) -> None:
        """``folder`` is empty; the scene's namespace has its name."""
        self.writes = Writes()
        self.namespace = folder.name
        self._server = server
        self._connect = f"{zookeeper}/{folder.name}"
        self._folder = folder
        self._stack = ExitStack()

    @property
    def done(self) -> bool:
        """Whether everything is as asked, and its status says so."""
        found = {name: self.scene.found(name) for name in STAYING}
        counts = self._cluster().get("status", {}).get("topics", {})
        return (
            FINALIZER in found["create"]["metadata"].get("finalizers", ())
            and (counts.get("total"), counts.get("ready")) == (3, 3)
            and not self.scene.found("leave")
            and all(_READY.items() <= self.scene.conditions(name).items() for name in STAYING)
        )

    def settle(self) -> None:
        """Wait until all is done and a whole pass has written nothing; the pass after it writes nothing either.

        All may be done while the pass that did it has still something to tell, or before the next one finds a topic id.
        """
        quiet = False
        while not quiet:  # done is asked once a pass: ten who ask all the time would keep the server busy
            self._look()
            before = [*self.writes.seen]
            self._look()
            self._look()  # what the pass between the two has told has been told when the next one has ended
            quiet = (
                self.done and self.writes.seen == before
            )  # in this order: to ask takes time, and all may be done then
        self._look()
        late = self.writes.seen[len(before) :]
        assert not late, f"written by a pass with nothing to do: {late} after {before}\n{self.operator.log}"

    def outcome(self) -> Mapping[str, object]:
        """All that has come of it on both sides, but for times, ids, and what depends on the name of the scene.

        The versions of nodes are part of it: what is written twice has a higher one. Who was killed with the lock in
        its hands keeps it until its session ends; nobody may have needed it since.
        """
        wait_until(lambda: not self.scene.client.get_children(paths.LOCK), "nobody has the lock", patience=PATIENCE)
        tree = checker.look(self._connect)
        told = [_plain(node.data, self.namespace) for path, node in tree.items() if path.startswith("/config/changes/")]
        nodes = {
            path: (_plain(node.data, self.namespace), node.version)
            for path, node in tree.items()
            if not path.startswith(_NOT_OURS)
        }
        resources = {name: self.scene.found(name) for name in STAYING} | {"prod": self._cluster()}
        return {
            "nodes": nodes,
            "told": sorted(map(str, told)),
            "statuses": {name: _steady(body["status"]) for name, body in resources.items()},
            "finalizers": {name: body["metadata"].get("finalizers", []) for name, body in resources.items()},
        }

    def events(self) -> list[str]:
        """What Events have told, of whom, sorted."""
        return sorted(f"{reason} {name}" for name in (*STAYING, "leave", "prod") for reason in self.scene.events(name))

    def __enter__(self) -> Self:
        self._folder.mkdir()
        self._proxy = self._stack.enter_context(Meddler(self._connect.partition("/")[0]))
        relay = self._stack.enter_context(ApiRelay(self._server))
        self._proxy.before = self.writes.zookeeper
        relay.before(self.writes.api)
        kafka = self._stack.enter_context(Playground(self._connect, BROKERS))
        client = self._stack.enter_context(connected(self._connect))
        admin = self._server.api("admin", self.namespace)
        admin.make("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        watched = ("--watch-namespace", self.namespace)
        way = relay.api(granted(self._server, self.namespace, *watched), self.namespace).kubeconfig
        words = ("--namespace", self.namespace, *watched, "--period", "1", "--owner", f"k8s/{self.namespace}/topiarist")
        self.operator = ForkedOperator(way, self._folder / "said", *words)
        self.scene = Scene(admin, self.namespace, kafka, client)
        self._furnish()
        return self

    def __exit__(self, *_: object) -> None:
        self.operator.kill()
        self._stack.close()

    def _look(self) -> None:
        """Wait until a pass has ended in ZooKeeper that had not: whatever the one before it had to tell has been told.

        The operator counts its passes. Requests to ZooKeeper would not do: how many a pass sends depends on its work.
        """
        passes = self._passes() + 1
        look = f"another pass: {self.operator.log[-2000:]}"
        wait_until(lambda: self._passes() >= passes, look, patience=PATIENCE, pause=0.1)

    def _passes(self) -> float:
        return self.operator.figure('topiarist_pass_duration_seconds_count{cluster="prod"}')

    def _cluster(self) -> Mapping[str, Any]:
        return self.scene.api.call("GET", path(self.namespace, cluster("prod"), "prod")).body

    def _furnish(self) -> None:
        scene = self.scene
        scene.kafka.add_topics(
            Topic("grow", _REPLICAS), Topic("configure", _REPLICAS, {"flush.ms": "5"}), Topic("leave", _REPLICAS)
        )
        record = znodes.encode_record(TopicRecord(f"k8s/{self.namespace}/topiarist", ()))
        nodes = {"": b"", "/lock": b"", "/topics": b"", "/gate": znodes.encode_gate(None)}
        for name, data in (nodes | {"/topics/configure": record, "/topics/leave": record}).items():
            scene.client.create(f"/topiarist{name}", data)
        where = {"zookeeper": {"connect": self._proxy.through(self._connect)}, "kafkaVersion": "3.9"}
        wishes = {"adopt": ["*"], "allowDeletion": True, "allowRisk": ["Disruptive"], "driftPolicy": "Correct"}
        scene.apply(cluster("prod", **where, **wishes))
        scene.topic("create", deletionPolicy="Delete", config={"retention.ms": 5000})
        scene.topic("grow", partitions=4)
        scene.topic("configure", partitions=2, config={"flush.ms": 7})
        leaving = topic("leave", partitions=2, replicationFactor=2, deletionPolicy="Delete")
        leaving["metadata"]["finalizers"] = [FINALIZER]
        scene.apply(leaving)
        scene.delete("leave")


def _plain(data: bytes | None, namespace: str) -> object:
    """What a node holds, without topic ids and the name of the scene."""
    text = (data or b"").decode().replace(f"k8s/{namespace}/", "k8s/x/")
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return {key: value for key, value in found.items() if key != "topic_id"} if isinstance(found, dict) else found


def _steady(found: Any) -> Any:
    """A status without what differs from run to run."""
    if isinstance(found, dict):
        return {key: _steady(value) for key, value in found.items() if key not in _CHANGING}
    return [_steady(value) for value in found] if isinstance(found, list) else found

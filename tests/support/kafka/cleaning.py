"""Clusters that several tests share: started at the first use, and cleaned after each test.

A cleaned cluster is as it was at its start: the same brokers with the same properties, and no topics, dynamic configs,
quotas, ACLs, reassignments or records of topiarist, and no internal topics of Kafka. Each cleaning ends with a
comparison; a cluster that differs ends the test with an error, and is replaced for the next one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from kazoo.client import KazooClient

from support.kafka.clients import Clients
from support.kafka.cluster import Cluster
from support.kafka.kraft import KraftCluster
from support.kafka.programs import Program
from support.zookeeper.write_checker import Tree, read_nodes

_VOLATILE = (
    "/brokers/ids/",
    "/brokers/seqid",
    "/config/changes/",
    "/controller",
    "/isr_change_notification/",
    "/latest_producer_id_block",
    "/log_dir_event_notification/",
)
"""Znodes that brokers write at any time; the registrations of brokers are compared by themselves."""

_CLIENT_QUOTAS = ("/config/users/", "/config/clients/", "/config/ips/")


class _Cleaner(Protocol):
    """The way to clean one cluster."""

    def clean(self) -> None:
        """Undo all that a test has done; raise ``AssertionError`` if anything is left."""


AnyCluster = TypeVar("AnyCluster", Cluster, KraftCluster)


class SharedCluster(Generic[AnyCluster]):
    """One cluster of several tests; ``start`` makes one that is entered and left again.

    It ends when another one starts that is not for the same test: an idle broker takes a fortieth of a core.
    """

    _all: ClassVar[list[SharedCluster[Any]]] = []

    def __init__(self, start: Callable[[], AbstractContextManager[AnyCluster]], program: Program) -> None:
        self._start: Callable[[], AbstractContextManager[AnyCluster]] = start
        self._program = program
        self._stack = ExitStack()
        self._running: tuple[AnyCluster, _Cleaner] | None = None
        self._is_used = False
        self._all.append(self)

    @contextmanager
    def cleaned(self) -> Iterator[AnyCluster]:
        """Return the running cluster for one test, and clean it afterwards."""
        if self._running is None:
            for other in self._all:
                if not other._is_used:
                    other.close()
            cluster = self._stack.enter_context(self._start())
            clients = Clients(self._program, cluster.bootstrap)
            self._running = cluster, _cleaner(cluster, clients)
        cluster, cleaner = self._running
        self._is_used = True
        try:
            yield cluster
        finally:
            self._is_used = False
            try:
                cleaner.clean()
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """End the cluster; the next use starts another one."""
        self._running = None
        self._stack.close()


def _cleaner(cluster: Cluster | KraftCluster, clients: Clients) -> _Cleaner:
    if isinstance(cluster, KraftCluster):
        return KraftCleaner(cluster, clients)
    return ZooKeeperCleaner(cluster, clients)


class KraftCleaner:
    """The cleaner of a cluster in KRaft mode, which remembers its state at the start."""

    def __init__(self, kafka: KraftCluster, clients: Clients) -> None:
        self._kafka, self._clients = kafka, clients
        self._before = clients.state()

    def clean(self) -> None:
        """Undo all that a test has done; raise ``AssertionError`` if anything is left."""
        removed = self._kafka.restore()
        racks = {int(broker): rack for broker, rack in self._before["racks"].items()}
        for broker in removed:
            self._clients.unregister(broker)
        self._kafka.wait(lambda: self._clients.racks() == racks, f"exactly these brokers: {racks}")
        errors = self._clients.clean(self._before["configs"].get("", {}))
        assert not errors, errors
        after = self._clients.state()
        assert after == self._before, f"left by the test: {after}"


class ZooKeeperCleaner:
    """The cleaner of a cluster in ZooKeeper mode, which remembers its znodes at the start."""

    def __init__(self, kafka: Cluster, clients: Clients) -> None:
        self._kafka, self._clients = kafka, clients
        self._before = self._state()

    def clean(self) -> None:
        """Undo all that a test has done; raise ``AssertionError`` if anything is left."""
        self._kafka.revive_all()  # a topic is deleted only when all of its brokers are there
        client = self._kafka.client
        if client.exists("/topiarist"):
            client.delete("/topiarist", recursive=True)
        tree = read_nodes(self._kafka.connect)
        for path in _configs(tree):
            if path.startswith(_CLIENT_QUOTAS):
                _unset(client, path)
        self._kafka.wait(self._delete_topics, "all topics to be deleted")
        self._kafka.restore()
        try:
            self._kafka.wait(lambda: self._differences() == {}, "a clean cluster")
        except AssertionError as error:
            raise AssertionError(f"left by the test: {self._differences()}") from error

    def _delete_topics(self) -> bool:
        """Delete what the brokers know; return True once nothing was refused, and no topic is left, known or not."""
        return not self._clients.clean(()) and not self._kafka.client.get_children("/brokers/topics")

    def _differences(self) -> dict[str, object]:
        """Return the parts of the state that differ from the start, as they are now."""
        after = self._state()
        return {name: found for name, found in after.items() if found != self._before[name]}

    def _state(self) -> dict[str, object]:
        tree = read_nodes(self._kafka.connect)
        paths = {path for path in tree if not path.startswith((*_VOLATILE, "/config/"))}
        return {"brokers": self._kafka.registered(), "paths": paths, "configs": _configs(tree)}


def _configs(tree: Tree) -> dict[str, dict[str, str]]:
    """Return the configs of topics, brokers and clients by path; an empty one is as good as none."""
    found = {}
    for path, node in tree.items():
        is_config = path.startswith("/config/") and not path.startswith(_VOLATILE)
        if is_config and node.data and (config := json.loads(node.data)["config"]):
            found[path] = config
    return found


def _unset(client: KazooClient, path: str) -> None:
    """Empty the configs at a path, as Kafka's tools do before Kafka 2.6: with a notification for the brokers."""
    client.set(path, b'{"version":1,"config":{}}')
    change = json.dumps({"version": 2, "entity_path": path.removeprefix("/config/")})
    client.create("/config/changes/config_change_", change.encode(), sequence=True)

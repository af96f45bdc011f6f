"""A real Kafka cluster in ZooKeeper mode on the loopback interface, with control of each broker.

    with ZooKeeper("3.9.2") as zookeeper, Cluster(zookeeper, "3.9.2", {1: "a", 2: "b", 3: "c"}) as kafka:
        kafka.connect, kafka.bootstrap       # the connect string with the chroot, and the brokers
        kafka.kill(kafka.controller())       # like kill -9: its session expires after some seconds
        kafka.start(4, rack="a")             # a new broker, or a stopped broker with other properties
        kafka.tool("kafka-topics", "--bootstrap-server", kafka.bootstrap, "--list")

``clients.Clients`` accesses it through Kafka's own Admin client, producer and consumer.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from support.kafka.jars import fetch_jars
from support.kafka.nodes import BROKER_DEFAULTS, Nodes
from support.kafka.processes import Process, archive_options, java_command, write_properties
from support.kafka.zookeeper import ZooKeeper
from topiarist.adapters.devcluster.zookeeper_server import free_port

DEFAULTS: Mapping[str, object] = {
    **BROKER_DEFAULTS,
    "zookeeper.session.timeout.ms": 6000,
    "zookeeper.connection.timeout.ms": 60_000,
}
"""What every broker in ZooKeeper mode is told."""


class Cluster(Nodes):
    """Brokers by id, with a rack or without (None), below their own chroot of a running ZooKeeper.

    ``properties`` apply to all brokers and override ``DEFAULTS``; ``heap`` suffices for about 4,000 replicas per
    broker. ``with`` starts all brokers and ends them.
    """

    def __init__(
        self,
        zookeeper: ZooKeeper,
        release: str,
        racks: Mapping[int, str | None],
        *,
        chroot: str = "/kafka",
        properties: Mapping[str, object] | None = None,
        heap: str = "256m",
    ) -> None:
        super().__init__(release, zookeeper.directory)
        self.zookeeper, self.chroot = zookeeper, chroot
        self.racks = dict(racks)
        self._first_racks = dict(racks)
        self.ports: dict[int, int] = {}
        self.brokers = self.nodes
        self._properties = {**DEFAULTS, **(properties or {})}
        self._broker_properties: dict[int, dict[str, object]] = {}
        self._heap = heap
        self._folder = zookeeper.directory / chroot.strip("/").replace("/", "-")
        self._client: KazooClient | None = None

    @property
    def connect(self) -> str:
        """The connect string of ZooKeeper, with the chroot."""
        return f"{self.zookeeper.connect}{self.chroot}"

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers that were ever started."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    @property
    def client(self) -> KazooClient:
        """Return a session with ZooKeeper below the chroot, for the use of the test only."""
        if self._client is None:
            self._client = KazooClient(self.connect)
            self._client.start()
        return self._client

    def __enter__(self) -> Self:
        try:
            for broker in self.racks:
                self._launch(broker)
            for broker in self.racks:
                self._wait_until_serving(broker)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self._client.stop()
            self._client.close()
            self._client = None
        for broker in self.brokers.values():
            broker.kill()

    def start(self, broker: int, *, rack: str | None = None, properties: Mapping[str, object] | None = None) -> None:
        """Start a broker and wait until it serves requests.

        The broker has ended before, or is new and belongs to this ``rack``. ``properties`` are permanent for this
        broker.
        """
        self.racks.setdefault(broker, rack)
        self._broker_properties.setdefault(broker, {}).update(properties or {})
        self._launch(broker)
        self._wait_until_serving(broker)

    def remove_properties(self, broker: int, names: Collection[str]) -> None:
        """Forget permanent properties of a broker; its next start is without them."""
        found = self._broker_properties.get(broker, {})
        self._broker_properties[broker] = {key: value for key, value in found.items() if key not in names}

    def revive_all(self) -> None:
        """Let all brokers run that were ever started."""
        for broker, process in self.brokers.items():
            if process.alive:
                process.resume()
            else:
                self.revive(broker)

    def restore(self) -> None:
        """Let exactly the brokers of the start run, with their first properties."""
        changed = {broker for broker, properties in self._broker_properties.items() if properties}
        self._broker_properties.clear()
        for broker in self.brokers.keys() - self._first_racks.keys():
            self.brokers.pop(broker).stop()
            del self.ports[broker]
        self.racks = dict(self._first_racks)
        for broker in changed & self.brokers.keys():
            self.brokers[broker].stop()
        self.revive_all()
        self.wait(lambda: self.registered() == self._first_racks.keys(), "the brokers of the start, and no others")

    def revive(self, broker: int) -> None:
        """Start a killed broker after its session has expired; ZooKeeper refuses its registration before that."""
        self.wait(lambda: broker not in self.registered(), "the session of the killed broker to expire")
        self.start(broker)

    def rack_properties(self, broker: int) -> dict[str, object]:
        """Return the property of a broker's rack; nothing if it has none."""
        rack = self.racks[broker]
        return {} if rack is None else {"broker.rack": rack}

    def restart(self, broker: int, *, properties: Mapping[str, object] | None = None) -> None:
        """Stop a broker and start it again, with optional further properties."""
        self.stop(broker)
        self.start(broker, properties=properties)

    def registered(self) -> set[int]:
        """Return the brokers that are registered in ZooKeeper."""
        return {int(name) for name in self.client.get_children("/brokers/ids")}

    def partition_count(self, topic: str) -> int:
        """Return the partition count of a topic in ZooKeeper; 0 for a missing topic."""
        try:
            return len(json.loads(self.client.get(f"/brokers/topics/{topic}")[0])["partitions"])
        except NoNodeError:
            return 0

    def controller(self) -> int:
        """Wait for a controller and return its id."""
        self.wait(lambda: self._controller() is not None, "a controller")
        found = self._controller()
        assert found is not None, "the controller went as soon as it came"
        return found

    def _controller(self) -> int | None:
        try:
            found: int = json.loads(self.client.get("/controller")[0])["brokerid"]
        except NoNodeError:
            return None
        return found

    def _launch(self, broker: int, *, is_restart: bool = False) -> None:
        if is_restart or broker not in self.ports:
            self.ports[broker] = free_port()
        if broker not in self.brokers:
            jars = fetch_jars(self.release)
            main = [*archive_options(jars), "kafka.Kafka", "server.properties"]
            command = java_command(jars, self.zookeeper.directory, main, heap=self._heap)
            self.brokers[broker] = Process(self._folder / f"broker-{broker}", command)
        process = self.brokers[broker]
        write_properties(process.folder / "server.properties", self._all_properties(broker, process))
        process.start()

    def _all_properties(self, broker: int, process: Process) -> dict[str, object]:
        return {
            **self._properties,
            "broker.id": broker,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[broker]}",
            "zookeeper.connect": self.connect,
            "log.dirs": process.folder / "data",
            **self.rack_properties(broker),
            **self._broker_properties.get(broker, {}),
        }

    def _wait_until_serving(self, broker: int) -> None:
        """Wait until a broker serves requests; replace its port if another process has taken it."""
        process = self.brokers[broker]
        while not process.wait_for_log(f"[KafkaServer id={broker}] started"):
            process.kill()
            self._launch(broker, is_restart=True)

"""A KRaft quorum of one controller in migration mode, next to a cluster with brokers in ZooKeeper mode.

The steps follow Kafka's documentation: the KRaft controller starts, brokers restart with ``migrating`` and the KRaft
controller becomes the controller. Then each broker restarts without ZooKeeper, or the KRaft controller stops and
``/controller`` is deleted.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Self

from kazoo.exceptions import NoNodeError

from support.kafka.cluster import Cluster
from support.kafka.jars import fetch_jars
from support.kafka.nodes import BROKER_DEFAULTS, SESSION
from support.kafka.processes import Process, archive_options, java_command, write_properties
from support.kafka.tools import main_class
from topiarist.adapters.devcluster.zookeeper_server import free_port

CONTROLLER = 3000
"""The id of the controller, which no broker may have."""

_MIGRATION = {"zookeeper.metadata.migration.enable": "true"}
_READY = "Kafka Server started"


class Quorum:
    """The KRaft controller of ``kafka``, not started yet; ``with`` ends it.

    Each start begins with empty storage.
    """

    def __init__(self, kafka: Cluster) -> None:
        self._kafka = kafka
        self._port = free_port()
        self._folder = kafka.zookeeper.directory / "quorum"
        self._starts = 0
        self._process: Process | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def migration_properties(self) -> dict[str, object]:
        """Return the properties of a broker in ZooKeeper mode that is ready for migration."""
        return {**_MIGRATION, **SESSION, **self._voters, "inter.broker.protocol.version": self._kafka.version}

    def start(self) -> None:
        """Format an empty folder, start the controller on it, and wait until it serves requests."""
        self._starts += 1
        folder = self._folder / f"controller-{self._starts}"
        process = Process(folder, self._java("kafka.Kafka"))
        write_properties(folder / "server.properties", self._properties(folder))
        cluster_id = json.loads(self._kafka.client.get("/cluster/id")[0])["id"]
        words = ["format", f"--cluster-id={cluster_id}", "-c", "server.properties"]  # an id may begin with "-"
        form = [*self._java(main_class(self._kafka.release, "kafka-storage"))[:-1], *words]
        subprocess.run(form, cwd=folder, capture_output=True, check=True, timeout=120)
        process.start()
        self._process = process
        assert process.wait_for_log(_READY), f"port {self._port} was taken"

    def stop(self) -> None:
        """Stop the controller if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def finish_migration(self) -> None:
        """End the migration: restart the controller without ZooKeeper, which has a stale copy from then on."""
        process = self._process
        assert process is not None
        process.kill()
        kept = {key: value for key, value in self._properties(process.folder).items() if "zookeeper" not in key}
        write_properties(process.folder / "server.properties", kept)
        process.start()
        assert process.wait_for_log(_READY), f"port {self._port} was taken"

    def is_controller(self) -> bool:
        """Return True if ``/controller`` names a KRaft controller."""
        try:
            found = json.loads(self._kafka.client.get("/controller")[0])
        except NoNodeError:
            return False
        return int(found["kraftControllerEpoch"]) >= 0

    def reset_broker(self, broker: int) -> None:
        """Restart a broker in ZooKeeper mode without its data about the quorum, so that a new quorum can start."""
        self._kafka.stop(broker)
        shutil.rmtree(self._kafka.brokers[broker].folder / "data" / "__cluster_metadata-0")
        self._kafka.start(broker)

    def revert_broker(self, broker: int) -> None:
        """Restart a broker in ZooKeeper mode as before the migration: without the properties and data about it."""
        self._kafka.stop(broker)
        shutil.rmtree(self._kafka.brokers[broker].folder / "data" / "__cluster_metadata-0", ignore_errors=True)
        self._kafka.remove_properties(broker, self.migration_properties)
        self._kafka.start(broker)

    def upgrade(self, release: str) -> None:
        """Restart the controller, and then each broker, with the jars of a newer release on the same folders."""
        controller = self._process
        assert controller is not None
        controller.stop()
        self._process = Process(controller.folder, self._java("kafka.Kafka", release))
        self._process.start()
        assert self._process.wait_for_log(_READY)
        for broker, process in list(self._kafka.brokers.items()):
            process.stop()
            self._kafka.brokers[broker] = Process(process.folder, self._java("kafka.Kafka", release))
            self._start_broker(broker)

    def migrate_broker(self, broker: int) -> None:
        """Restart a broker without ZooKeeper: from then on it belongs to the quorum only."""
        self._kafka.stop(broker)
        process = self._kafka.brokers[broker]
        mine: dict[str, object] = {
            **BROKER_DEFAULTS,
            **SESSION,
            **self._voters,
            "process.roles": "broker",
            "node.id": broker,
            "listeners": f"PLAINTEXT://127.0.0.1:{self._kafka.ports[broker]}",
            "log.dirs": process.folder / "data",
            **self._kafka.rack_properties(broker),
        }
        write_properties(process.folder / "server.properties", mine)
        self._start_broker(broker)

    def _start_broker(self, broker: int) -> None:
        process = self._kafka.brokers[broker]
        process.start()
        assert process.wait_for_log(_READY), f"the port of broker {broker} was taken"

    @property
    def _voters(self) -> dict[str, object]:
        return {
            "controller.quorum.voters": f"{CONTROLLER}@127.0.0.1:{self._port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        }

    def _java(self, main: str, release: str = "") -> list[str]:
        jars = fetch_jars(release or self._kafka.release)
        words = [*archive_options(jars), main, "server.properties"]
        return java_command(jars, self._kafka.zookeeper.directory, words)

    def _properties(self, folder: object) -> dict[str, object]:
        return {
            **_MIGRATION,
            **SESSION,
            **self._voters,
            "process.roles": "controller",
            "node.id": CONTROLLER,
            "listeners": f"CONTROLLER://127.0.0.1:{self._port}",
            "log.dirs": f"{folder}/data",
            "zookeeper.connect": self._kafka.connect,
            "offsets.topic.replication.factor": 1,
            "controller.quorum.election.timeout.ms": 500,
            "controller.quorum.fetch.timeout.ms": 500,
        }

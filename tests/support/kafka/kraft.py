"""A real Kafka cluster in KRaft mode on the loopback interface, with control of each node.

    with KraftCluster("4.4.0", {1: "a", 2: "b", 3: "c"}) as kafka:
        kafka.bootstrap                      # the brokers, without encryption or login
        kafka.kill(2), kafka.start(2)        # like kill -9: its session expires after 3 seconds
        kafka.restart(CONTROLLER)            # the first controller; more of them: controllers=3
        kafka.restore()                      # the nodes of the start again, all of them running
        kafka.tool("kafka-topics", "--bootstrap-server", kafka.bootstrap, "--list")

``KraftOptions.listeners`` adds listeners with TLS or a login beside the plain one; ``kafka.bootstrap_of("CLIENT")`` has
their addresses. With ``ACLS`` in the properties, clients of the plain listener are the super user.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from support.kafka.jars import fetch_jars
from support.kafka.nodes import BROKER_DEFAULTS, SESSION, Nodes
from support.kafka.processes import Process, archive_options, java_command, write_properties
from support.kafka.programs import compile_programs
from support.kafka.tools import main_class
from topiarist.adapters.devcluster.zookeeper_server import free_port

CONTROLLER = 3000
"""The id of the first controller; others follow. No broker may have one of these ids."""

ACLS: Mapping[str, object] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Properties of all nodes: every request needs an ACL, except over the plain listener."""

POLICIES: Mapping[str, object] = {
    "create.topic.policy.class.name": "TopicPolicy",
    "alter.config.policy.class.name": "TopicPolicy",
}
"""Properties of all nodes: ``java/TopicPolicy.java`` checks every new topic and config."""

MAX_ATTEMPTS = 3
"""Attempts to start a cluster on free ports."""

_READY = "Kafka Server started"
_QUORUM: Mapping[str, object] = {
    "controller.quorum.election.timeout.ms": 500,
    "controller.quorum.fetch.timeout.ms": 1000,
    "controller.quorum.election.backoff.max.ms": 200,
}


class KafkaListener(NamedTuple):
    """A further listener of all brokers: its security protocol, and its properties without ``listener.name.NAME.``."""

    protocol: str
    properties: Mapping[str, object]


@dataclass(frozen=True)
class KraftOptions:
    """The options of a cluster beside its release and its brokers.

    ``properties`` apply to all nodes, ``broker_properties`` and ``controller_properties`` to the nodes of their kind.
    ``format_release`` is the release of the metadata version that the cluster is formatted with, such as ``3.3``.
    ``scram_users`` have their passwords by user name, for both SCRAM mechanisms; formatting with them needs Kafka 3.5
    or later. Without a controller of its own (0) the first broker is the controller too, in one process. ``jvm`` are
    further options of the JVM of each node.
    """

    controllers: int = 1
    properties: Mapping[str, object] = field(default_factory=dict)
    broker_properties: Mapping[str, object] = field(default_factory=dict)
    controller_properties: Mapping[str, object] = field(default_factory=dict)
    listeners: Mapping[str, KafkaListener] = field(default_factory=dict)
    scram_users: Mapping[str, str] = field(default_factory=dict)
    format_release: str = ""
    heap: str = "256m"
    jvm: Sequence[str] = ()


DEFAULT_OPTIONS = KraftOptions()


class KraftCluster(Nodes):
    """Brokers by id, with a rack or without (None), and their controllers. ``with`` starts and ends them."""

    def __init__(self, release: str, racks: Mapping[int, str | None], options: KraftOptions = DEFAULT_OPTIONS) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix=f"topiarist-kraft-{release}-")
        super().__init__(release, Path(self._folder.name))
        self.racks = dict(racks)
        self.cluster_id = _random_id()
        self._first_racks = dict(racks)
        self._options = options
        self._controllers = [*range(CONTROLLER, CONTROLLER + options.controllers)] or [min(racks)]
        self._node_properties: dict[int, dict[str, object]] = {}
        self._ports: dict[tuple[str, int], int] = {}

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers without encryption or login."""
        return self.bootstrap_of("PLAINTEXT")

    def bootstrap_of(self, listener: str, host: str = "127.0.0.1") -> str:
        """Return the addresses of one listener of all brokers."""
        return ",".join(f"{host}:{self.port(listener, broker)}" for broker in self.racks)

    def port(self, listener: str, node: int) -> int:
        """Return the port of one listener of a node; that of a controller is ``CONTROLLER``."""
        return self._ports.setdefault((listener, node), free_port())

    @property
    def controllers(self) -> tuple[int, ...]:
        """The ids of the nodes that are controllers."""
        return tuple(self._controllers)

    def __enter__(self) -> Self:
        try:
            for node in dict.fromkeys((*self._controllers, *self.racks)):
                self._format(node)
            for _ in range(MAX_ATTEMPTS):
                if self._start_all():
                    return self
                self._ports.clear()
            raise AssertionError(f"no free ports in {MAX_ATTEMPTS} attempts")
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        for process in self.nodes.values():
            process.kill()
        self._folder.cleanup()

    def start(self, node: int, *, rack: str | None = None, properties: Mapping[str, object] | None = None) -> None:
        """Start a node that has ended before, or a new broker with this ``rack``, and wait until it serves requests.

        ``properties`` are permanent for this node.
        """
        if node not in self.nodes:
            self.racks[node] = rack
            self._format(node)
        self._node_properties.setdefault(node, {}).update(properties or {})
        self._launch(node)
        assert self._wait_until_serving(node), f"a port of node {node} was taken"

    def restart(self, node: int, *, properties: Mapping[str, object] | None = None) -> None:
        """Stop a node and start it again, with optional further properties."""
        self.stop(node)
        self.start(node, properties=properties)

    def restore(self) -> set[int]:
        """Let exactly the nodes of the start run, with their first properties; return the brokers that were removed."""
        changed = {node for node, properties in self._node_properties.items() if properties}
        self._node_properties.clear()
        removed = {node for node in self.nodes if node not in {*self._controllers, *self._first_racks}}
        for node in removed:
            process = self.nodes.pop(node)
            process.kill()
            shutil.rmtree(process.folder)
        self.racks = dict(self._first_racks)
        for node, process in self.nodes.items():
            if process.alive:
                process.resume()
            if not process.alive or node in changed:
                self.restart(node)
        return removed

    def upgrade(self, node: int, release: str) -> None:
        """Restart one node with the jars of another release on the same folder; the others keep theirs."""
        self.stop(node)
        command = self._java("kafka.Kafka", "server.properties", release=release)
        self.nodes[node] = Process(self.nodes[node].folder, command)
        self.start(node)

    def _start_all(self) -> bool:
        """Start all nodes at once; if a port is taken, end them and return False."""
        for node in self.nodes:
            self._launch(node)
        if all(self._wait_until_serving(node) for node in self.nodes):
            return True
        for process in self.nodes.values():
            process.kill()
        return False

    def _launch(self, node: int) -> None:
        process = self.nodes[node]
        write_properties(process.folder / "server.properties", self._all_properties(node))
        process.start()

    def _wait_until_serving(self, node: int) -> bool:
        return self.nodes[node].wait_for_log(_READY)

    def _format(self, node: int) -> None:
        """Prepare the empty storage of a node; what Kafka's tool writes for a plain broker is one file."""
        process = Process(self.directory / f"node-{node}", self._java("kafka.Kafka", "server.properties"))
        self.nodes[node] = process
        if node in self._controllers:
            self._format_controller(node, process.folder)
            return
        (process.folder / "data").mkdir()
        identity = {"version": 1, "cluster.id": self.cluster_id, "node.id": node, "directory.id": _random_id()}
        write_properties(process.folder / "data" / "meta.properties", identity)

    def _format_controller(self, node: int, folder: Path) -> None:
        write_properties(folder / "server.properties", self._all_properties(node))
        words = ["format", f"--cluster-id={self.cluster_id}", "-c", "server.properties"]  # an id may begin with "-"
        words += ["--release-version", self._options.format_release] if self._options.format_release else []
        for name, password in self._options.scram_users.items():
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                words += ["--add-scram", f'{mechanism}=[name="{name}",password="{password}"]']
        command = self._java(main_class(self.release, "kafka-storage"), *words)
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}"  # the command has passwords

    def _java(self, *main: str, release: str = "") -> list[str]:
        jars = fetch_jars(release or self.release)
        words = [*archive_options(jars), *self._options.jvm, *main]
        return java_command(jars, self.directory, words, heap=self._options.heap, classes=[compile_programs()])

    def _all_properties(self, node: int) -> dict[str, object]:
        is_controller, is_broker = node in self._controllers, node in self.racks
        names = [*(["PLAINTEXT", *self._options.listeners] if is_broker else []), *["CONTROLLER"] * is_controller]
        protocols = {"CONTROLLER": "PLAINTEXT", "PLAINTEXT": "PLAINTEXT"}
        protocols |= {name: listener.protocol for name, listener in self._options.listeners.items()}
        addresses = {name: f"{name}://127.0.0.1:{self.port(name, node)}" for name in names}
        voters = (f"{each}@127.0.0.1:{self.port('CONTROLLER', each)}" for each in self._controllers)
        return {
            **BROKER_DEFAULTS,
            **SESSION,
            **_QUORUM,
            "process.roles": ",".join(["broker"] * is_broker + ["controller"] * is_controller),
            "node.id": node,
            "listeners": ",".join(addresses.values()),
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(voters),
            "log.dirs": self.directory / f"node-{node}" / "data",
            **self._options.properties,
            **(self._options.controller_properties if is_controller else {}),
            **(self._properties_of_broker(node) if is_broker else {}),
            **self._node_properties.get(node, {}),
        }

    def _properties_of_broker(self, node: int) -> dict[str, object]:
        rack = self.racks[node]
        return {
            "inter.broker.listener.name": "PLAINTEXT",
            **({} if rack is None else {"broker.rack": rack}),
            **{
                f"listener.name.{name.lower()}.{key}": value
                for name, listener in self._options.listeners.items()
                for key, value in listener.properties.items()
            },
            **self._options.broker_properties,
        }


def plain_and_scram(users: Mapping[str, str], mechanisms: Sequence[str] = ()) -> Mapping[str, object]:
    """Return the properties of a SASL listener with the users of PLAIN, and with SCRAM users of the quorum."""
    module = "org.apache.kafka.common.security"
    known = "".join(f' user_{name}="{password}"' for name, password in users.items())
    properties: dict[str, object] = {
        "sasl.enabled.mechanisms": ",".join(mechanisms or ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
        "plain.sasl.jaas.config": f"{module}.plain.PlainLoginModule required{known};",
    }
    for mechanism in ("scram-sha-256", "scram-sha-512"):
        properties[f"{mechanism}.sasl.jaas.config"] = f"{module}.scram.ScramLoginModule required;"
    return properties


OAUTH: Mapping[str, object] = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "oauthbearer.sasl.jaas.config": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="broker";'
    ),
}
"""The properties of a SASL listener that accepts every unsigned token that has not expired."""


def tls_of(certificate: Path, ca: Path, *, client_certificate: str = "none") -> Mapping[str, object]:
    """Return the properties of a TLS listener: its PEM file with certificate and key, and the CA of its clients.

    ``client_certificate`` is ``none``, ``requested`` or ``required``.
    """
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificate,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": ca,
        "ssl.client.auth": client_certificate,
    }


def _random_id() -> str:
    """Return a new id in Kafka's own text form."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text

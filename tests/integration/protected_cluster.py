"""A cluster behind ACLs, manifests with credentials for it, and runs of the command line against it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha1
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from kazoo.security import ACL, make_acl

from support.zookeeper.secured_server import KAFKA, PASSWORDS, SecuredZooKeeper
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.cli.main import run

READ_ONLY = make_acl("world", "anyone", read=True)

DIGEST_OF_KAFKA = f"{KAFKA}:{b64encode(sha1(f'{KAFKA}:{PASSWORDS[KAFKA]}'.encode()).digest()).decode()}"


class ProtectedCluster(NamedTuple):
    """The cluster ``playground`` on ``server``."""

    server: SecuredZooKeeper
    playground: SimulatedKafka

    @property
    def secure(self) -> str:
        """Return the connect string for TLS."""
        return self.playground.connect.replace(self.server.connect, self.server.secure)

    def protect(self, *acl: ACL, below: str = "/") -> None:
        """Set this ACL on every node below a path, as ``zookeeper-security-migration`` does."""
        client = self.playground.client
        client.set_acls(below, list(acl))
        for child in client.get_children(below):
            self.protect(*acl, below=f"{below.rstrip('/')}/{child}")

    def sasl(self, user: str = KAFKA) -> dict[str, Any]:
        """Return the fields of a SASL login."""
        return {"sasl": {"username": user, "password": {"file": str(self.server.password(user))}}}

    def digest(self, user: str = KAFKA) -> dict[str, Any]:
        """Return the fields of a digest login."""
        return {"digest": {"username": user, "password": {"file": str(self.server.password(user))}}}

    def tls(self, subject: str = "") -> dict[str, Any]:
        """Return the TLS fields, with a client certificate of the tests if there is a subject."""
        ours = {"certificate": {"file": str(self.server.authority.issue(subject))}} if subject else {}
        return {"tls": {"ca": {"file": str(self.server.authority.ca)}, **ours}}


def write_manifests(folder: Path, zookeeper: Mapping[str, Any], *topics: str) -> Path:
    """Write a folder with one ``Cluster`` at ``zookeeper`` and topics for it; return its path."""
    folder.mkdir(exist_ok=True)
    cluster = {"zookeeper": dict(zookeeper), "kafkaVersion": "3.9"}
    documents = [_document("Cluster", "prod", cluster)]
    documents += [_document("Topic", name, {"partitions": 2, "replicationFactor": 3}) for name in topics]
    (folder / "all.yaml").write_text(yaml.safe_dump_all(documents, default_flow_style=False))
    return folder


def _document(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "topiarist.dev/v1", "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}


def run_verbose(command: str, folder: Path, *more: str) -> int:
    """Run a command on a folder with verbose output; return its exit code."""
    wide = [] if command == "validate" else ["--connect-timeout", "5"]
    return run([command, str(folder), "-v", "-v", *wide, *more])

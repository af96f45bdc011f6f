"""The znodes that brokers and Kafka's tools write, by Kafka version.

``simulated_kafka`` and the tests write clusters with it. The bytes equal those of Kafka's Scala 2.13 builds, key order
included. It deliberately does not use ``adapters.zookeeper.codec``: topiarist's codec must agree with Kafka, and a test
with its own output would prove nothing.
"""

from __future__ import annotations

import json
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import RolledBackError, RuntimeInconsistency
from kazoo.protocol.serialization import Create
from kazoo.security import OPEN_ACL_UNSAFE

from topiarist.kafka.types import Broker, KafkaVersion, Replicas

CLUSTER_ID = "7sYkR0b2QIu1nT4mXc9pAw"

_PATHS = (
    "/consumers",
    "/brokers/ids",
    "/brokers/topics",
    "/brokers/seqid",
    "/config/changes",
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/admin/delete_topics",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
)

_TOPICS_PER_TRANSACTION = 25
"""Topics in one transaction: far below the size limit of a request."""


class Topic(NamedTuple):
    """A topic to create as Kafka's tools do, with the replica lists of its partitions from 0."""

    name: str
    replicas: tuple[Replicas, ...]
    config: Mapping[str, str] = {}


def create_cluster(
    client: KazooClient, brokers: Iterable[Broker], version: KafkaVersion, cluster_id: str = CLUSTER_ID
) -> None:
    """Create a cluster of ``brokers`` without topics; the first broker becomes the controller.

    The client's chroot must exist. Brokers and controller exist as long as the client's session.
    """
    for path in _PATHS + (("/config/ips",) if version >= (2, 8) else ()):
        parent, _, _ = path.rpartition("/")
        client.ensure_path(parent or "/")
        client.create(path, None)
    client.create("/cluster", None)
    client.create("/cluster/id", as_json({"version": "1", "id": cluster_id}))
    if version >= (2, 7):
        client.create("/feature", as_json({"features": {}, "version": 2 if version >= (3, 3) else 1, "status": 1}))
    client.create("/controller_epoch", b"0")
    registered = list(brokers)
    for broker in registered:
        register_broker(client, broker, version)
    elect_controller(client, registered[0].id, version)


def register_broker(client: KazooClient, broker: Broker, version: KafkaVersion) -> None:
    """Register a broker as an ephemeral znode."""
    port = 9092 + broker.id
    newer = version >= (2, 7)
    value = {
        **({"features": {}} if newer else {}),
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "endpoints": [f"PLAINTEXT://127.0.0.1:{port}"],
        **({} if broker.rack is None else {"rack": broker.rack}),
        "jmx_port": -1,
        "port": port,
        "host": "127.0.0.1",
        "version": 5 if newer else 4,
        "timestamp": _timestamp_ms(),
    }
    client.create(f"/brokers/ids/{broker.id}", as_json(value), ephemeral=True)


def elect_controller(client: KazooClient, broker: int, version: KafkaVersion) -> tuple[int, int]:
    """Make ``broker`` the controller, as an ephemeral znode; return the new epoch and its znode version."""
    data, stat = client.get("/controller_epoch")
    epoch = int(data) + 1
    value: dict[str, Any] = {"version": 1, "brokerid": broker, "timestamp": _timestamp_ms()}
    if version >= (3, 4):
        value |= {"version": 2, "kraftControllerEpoch": -1}
    transaction = client.transaction()
    transaction.create("/controller", as_json(value), ephemeral=True)
    transaction.set_data("/controller_epoch", b"%d" % epoch, version=stat.version)
    commit(transaction)
    return epoch, stat.version + 1


def add_topics(client: KazooClient, topics: Iterable[Topic], version: KafkaVersion) -> None:
    """Create topics, config znode first, with a topic id since Kafka 2.8."""
    remaining = iter(topics)
    while batch := list(islice(remaining, _TOPICS_PER_TRANSACTION)):
        transaction = client.transaction()
        for topic in batch:
            identity = new_topic_id() if version >= (2, 8) else None
            partitions = {str(partition): list(replicas) for partition, replicas in enumerate(topic.replicas)}
            transaction.create(f"/config/topics/{topic.name}", config_bytes(topic.config))
            transaction.create(f"/brokers/topics/{topic.name}", topic_bytes(partitions, identity))
        commit(transaction)


def topic_bytes(partitions: Mapping[str, list[int]], topic_id: str | None) -> bytes:
    """Return the data of ``/brokers/topics/T``: version 3 with an id, else version 2."""
    moving: dict[str, Any] = {"adding_replicas": {}, "removing_replicas": {}}
    if topic_id is None:
        return as_json({"version": 2, "partitions": partitions, **moving})
    return as_json({"partitions": partitions, "topic_id": topic_id, **moving, "version": 3})


def config_bytes(config: Mapping[str, str]) -> bytes:
    """Return the data of ``/config/topics/T``."""
    return as_json({"version": 1, "config": dict(config)})


def state_bytes(live: list[int], epoch: int) -> bytes:
    """Return the data of a new partition's state znode; the first live replica is the leader."""
    return as_json({"controller_epoch": epoch, "leader": live[0], "version": 1, "leader_epoch": 0, "isr": live})


def new_topic_id() -> str:
    """Return a random topic id: 22 characters; since Kafka 3.2 the first is not a dash."""
    while (text := urlsafe_b64encode(uuid.uuid4().bytes).decode()[:22]).startswith("-"):
        pass
    return text


def as_json(value: Mapping[str, Any]) -> bytes:
    """Return compact UTF-8 JSON, as Kafka writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def commit(transaction: TransactionRequest) -> None:
    """Commit, and raise the error that made the transaction fail: kazoo returns errors in the result.

    The other operations of a failed transaction have a ``RolledBackError`` or ``RuntimeInconsistency``.
    """
    errors = [result for result in transaction.commit() if isinstance(result, Exception)]
    for error in errors:
        if not isinstance(error, RolledBackError | RuntimeInconsistency):
            raise error
    if errors:
        raise errors[0]


def create_with_null_data(transaction: TransactionRequest, path: str) -> None:
    """Add the creation of a znode with null data, which kazoo's transaction API does not offer."""
    whole = transaction.client.chroot + path
    transaction.operations.append(Create(whole, None, OPEN_ACL_UNSAFE, 0))


def _timestamp_ms() -> str:
    return str(int(time.time() * 1000))

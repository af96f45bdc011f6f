"""What brokers and Kafka's own tools write to ZooKeeper, as one release or another writes it.

Byte for byte as in Kafka's Scala 2.13 builds, key order included, and deliberately not made with ``znodes``: what we
read and write ourselves must agree with Kafka, not with itself. After this module comes ``played``, which keeps it
alive.
"""

from __future__ import annotations

import json
import time
import uuid
from base64 import urlsafe_b64encode
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import RolledBackError, RuntimeInconsistency
from kazoo.interfaces import IAsyncResult
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
"""In one transaction: enough to seed 10,000 in a second, and far from the limits of a request."""

_MAX_IN_FLIGHT = 8


class Topic(NamedTuple):
    """A topic to create as Kafka's own tools would, with the replica lists of its partitions from 0."""

    name: str
    replicas: tuple[Replicas, ...]
    config: Mapping[str, str] = {}


def create_cluster(
    client: KazooClient, brokers: Iterable[Broker], version: KafkaVersion, cluster_id: str = CLUSTER_ID
) -> None:
    """Make a cluster of ``brokers`` without topics; the first of them becomes the controller.

    The client's chroot must exist. Brokers and controller live as long as the client's session.
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
    """Register a broker, as an ephemeral node."""
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
    """Make ``broker`` the controller, as an ephemeral node; returns the new epoch and its znode version."""
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
    """Create topics, config node first, with an id where the release gives one; many at once, for large clusters."""
    waiting: deque[IAsyncResult] = deque()
    remaining = iter(topics)
    while some := list(islice(remaining, _TOPICS_PER_TRANSACTION)):
        transaction = client.transaction()
        for topic in some:
            identity = new_topic_id() if version >= (2, 8) else None
            partitions = {str(partition): list(replicas) for partition, replicas in enumerate(topic.replicas)}
            transaction.create(f"/config/topics/{topic.name}", config_bytes(topic.config))
            transaction.create(f"/brokers/topics/{topic.name}", topic_bytes(partitions, identity))
        waiting.append(transaction.commit_async())
        if len(waiting) >= _MAX_IN_FLIGHT:
            raise_first_error(waiting.popleft().get())
    for result in waiting:
        raise_first_error(result.get())


def topic_bytes(partitions: Mapping[str, list[int]], topic_id: str | None) -> bytes:
    """The data of ``/brokers/topics/T``: version 3 with an id, else version 2."""
    moving: dict[str, Any] = {"adding_replicas": {}, "removing_replicas": {}}
    if topic_id is None:
        return as_json({"version": 2, "partitions": partitions, **moving})
    return as_json({"partitions": partitions, "topic_id": topic_id, **moving, "version": 3})


def config_bytes(config: Mapping[str, str]) -> bytes:
    """The data of ``/config/topics/T``."""
    return as_json({"version": 1, "config": dict(config)})


def state_bytes(live: list[int], epoch: int) -> bytes:
    """The data of a new partition's state node: led by its first live replica."""
    return as_json({"controller_epoch": epoch, "leader": live[0], "version": 1, "leader_epoch": 0, "isr": live})


def new_topic_id() -> str:
    """A random topic id: 22 characters that, since Kafka 3.2, do not begin with a dash."""
    while (text := urlsafe_b64encode(uuid.uuid4().bytes).decode()[:22]).startswith("-"):
        pass
    return text


def as_json(value: Mapping[str, Any]) -> bytes:
    """Compact UTF-8 JSON, as Kafka writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def commit(transaction: TransactionRequest) -> None:
    """Commit, and raise the first error that is one: kazoo returns errors instead of raising them."""
    raise_first_error(transaction.commit())


def create_with_null_data(transaction: TransactionRequest, path: str) -> None:
    """Add the creation of a node with null data, which kazoo allows everywhere but in a transaction."""
    whole = transaction.client.chroot + path
    transaction.operations.append(Create(whole, None, OPEN_ACL_UNSAFE, 0))


def raise_first_error(results: list[Any]) -> None:
    """Raise what made a transaction fail, if it did."""
    errors = [result for result in results if isinstance(result, Exception)]
    for error in errors:
        if not isinstance(error, RolledBackError | RuntimeInconsistency):
            raise error
    if errors:
        raise errors[0]


def _timestamp_ms() -> str:
    return str(int(time.time() * 1000))

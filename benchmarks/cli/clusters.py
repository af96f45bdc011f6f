"""A large cluster and its manifests, for benchmarks: topics of 12 partitions, 3 replicas, 5 overrides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kazoo.client import KazooClient

from topiarist.adapters.devcluster.seed import Topic, add_topics, create_cluster
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.kafka.placement import assign_replicas, derive_start_and_shift
from topiarist.kafka.types import Broker

BROKERS = tuple(Broker(1001 + number, "abc"[number % 3]) for number in range(9))


def topic_name(number: int) -> str:
    """Return the name of a topic, of typical length."""
    return f"team.service.topic-{number:06d}"


def topic_config(number: int) -> dict[str, str]:
    """Return the config overrides of the manifest."""
    return {
        "retention.ms": str(86_400_000 + number),
        "cleanup.policy": "delete",
        "min.insync.replicas": "2",
        "segment.bytes": "536870912",
        "max.message.bytes": "1048588",
    }


def make_manifest(number: int) -> str:
    """Return a typical Topic document: labels, an annotation, five configs, a comment."""
    return f"""\
apiVersion: topiarist.dev/v1
kind: Topic
metadata:
  name: {topic_name(number)}
  labels:
    team: payments
  annotations:
    description: "Orders topic number {number}, owned by the payments team"
spec:
  partitions: 12
  replicationFactor: 3
  config:
    retention.ms: {86_400_000 + number}
    cleanup.policy: delete
    min.insync.replicas: 2
    segment.bytes: 536870912
    # a comment line, as real files tend to carry
    max.message.bytes: "1048588"
"""


def write_manifests(folder: Path, count: int, per_folder: int = 1000) -> None:
    """Write one file per topic, in folders of a thousand."""
    for number in range(count):
        place = folder / f"{number // per_folder:03d}"
        place.mkdir(exist_ok=True, parents=True)
        (place / f"{number:06d}.yaml").write_text(make_manifest(number))


@contextmanager
def seeded_cluster(server: EmbeddedZooKeeper, chroot: str, count: int) -> Iterator[str]:
    """Seed a cluster of ``count`` topics without ownership records; yield its connect string.

    Brokers and controller are registered but not simulated: 120,000 partition states would not affect the figures.
    """
    outside = KazooClient(server.connect)
    outside.start()
    outside.create(f"/{chroot}", b"")
    outside.stop()
    outside.close()
    client = KazooClient(f"{server.connect}/{chroot}", timeout=60.0)
    client.start()
    try:
        create_cluster(client, BROKERS, (3, 9))
        add_topics(client, map(make_topic, range(count)), (3, 9))
        yield f"{server.connect}/{chroot}"
    finally:
        client.stop()
        client.close()


def make_topic(number: int) -> Topic:
    """Return a topic of the cluster, with the placement that topiarist computes."""
    start, shift = derive_start_and_shift(topic_name(number), BROKERS)
    lists = assign_replicas(BROKERS, 12, replication_factor=3, start=start, shift=shift)
    return Topic(topic_name(number), tuple(lists), topic_config(number))

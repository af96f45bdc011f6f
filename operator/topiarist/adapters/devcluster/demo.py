"""The demo cluster of ``topiarist dev``: six brokers in three racks, and three existing topics.

The matching manifests are in ``manifests/demo``: ``payments`` equals its manifest, ``clicks`` keeps messages for one
day instead of three, ``audit`` is in no manifest, and ``orders`` has a manifest but does not exist yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import as_file, files

from topiarist.adapters.devcluster.seed import CLUSTER_ID, Topic
from topiarist.adapters.devcluster.simulated_kafka import SimulatedKafka
from topiarist.kafka.types import Broker, Replicas

CONNECT = "127.0.0.1:2181/kafka"
"""The address in ``manifests/demo/cluster.yaml``."""

CLUSTER_NAME = "demo"
"""The name of the Cluster in ``manifests/demo/cluster.yaml``."""

_SCHEMA_PATTERN = re.compile(r"(?<=[$]schema=)[./]*/schemas/([a-z]+[.]json)")

BROKERS = tuple(Broker(number, rack) for number, rack in enumerate("abcabc", start=1))


def _assign_replicas(first: int, partitions: int) -> tuple[Replicas, ...]:
    """Return replica lists with three replicas in three racks: consecutive brokers never share a rack."""
    return tuple(
        tuple((first + partition + replica) % len(BROKERS) + 1 for replica in range(3))
        for partition in range(partitions)
    )


TOPICS = (
    Topic("payments", _assign_replicas(0, 6), {"cleanup.policy": "compact", "min.insync.replicas": "2"}),
    Topic("clicks", _assign_replicas(2, 12), {"min.insync.replicas": "2", "retention.ms": "86400000"}),
    Topic("audit", _assign_replicas(4, 3), {"retention.ms": "31536000000"}),
)


@contextmanager
def run_cluster(connect: str, cluster_id: str = CLUSTER_ID) -> Iterator[SimulatedKafka]:
    """Run the demo cluster at ``connect`` (``host:port/chroot``) inside the ``with``; the chroot is created."""
    playground = SimulatedKafka(connect, BROKERS, cluster_id=cluster_id)
    playground.moves_replicas = True
    with playground:
        playground.add_topics(*TOPICS)
        yield playground


def render_manifests(name: str, connect: str, cluster_id: str) -> Mapping[str, str]:
    """Return the demo's manifests for this cluster: text by path below their folder.

    Their ``$schema`` is the path in the installed package, so that an editor finds it from any folder.
    """
    package = files("topiarist")
    manifests = {}
    with as_file(package / "demo") as samples, as_file(package / "schemas") as schemas:
        for sample in sorted(samples.rglob("*.yaml")):
            text = sample.read_text(encoding="utf-8")
            text = _SCHEMA_PATTERN.sub(lambda match: (schemas.resolve() / match[1]).as_uri(), text)
            if sample.name == "cluster.yaml":
                for old, new in (
                    (CONNECT, connect),
                    (CLUSTER_ID, cluster_id),
                    (f"name: {CLUSTER_NAME}", f"name: {name}"),
                ):
                    text = text.replace(old, new)
            manifests[sample.relative_to(samples).as_posix()] = text
    return manifests

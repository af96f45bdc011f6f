"""What ``topiarist dev`` and the demo show: six brokers in three racks and three topics that are already there.

The manifests that go with it are in ``manifests/demo``: ``payments`` is as its manifest says, ``clicks`` keeps messages
for one day instead of three, ``audit`` is in no manifest, and ``orders`` has a manifest but is not there yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import as_file, files

from topiarist.adapters.playground.played import Playground
from topiarist.adapters.playground.seed import CLUSTER_ID, Topic
from topiarist.core.state import Broker, Replicas

CONNECT = "127.0.0.1:2181/kafka"
"""The address in ``manifests/demo/cluster.yaml``."""

NAME = "demo"
"""The name of the Cluster there."""

_SCHEMA = re.compile(r"(?<=[$]schema=)[./]*/schemas/([a-z]+[.]json)")

BROKERS = tuple(Broker(number, rack) for number, rack in enumerate("abcabc", start=1))


def _spread(first: int, partitions: int) -> tuple[Replicas, ...]:
    """Three replicas in three racks each: brokers that follow one another never share a rack."""
    return tuple(
        tuple((first + partition + replica) % len(BROKERS) + 1 for replica in range(3))
        for partition in range(partitions)
    )


TOPICS = (
    Topic("payments", _spread(0, 6), {"cleanup.policy": "compact", "min.insync.replicas": "2"}),
    Topic("clicks", _spread(2, 12), {"min.insync.replicas": "2", "retention.ms": "86400000"}),
    Topic("audit", _spread(4, 3), {"retention.ms": "31536000000"}),
)


@contextmanager
def run(connect: str, cluster_id: str = CLUSTER_ID) -> Iterator[Playground]:
    """The demo's cluster at ``connect`` (``host:port/chroot``; the chroot is created), alive inside the ``with``."""
    with Playground(connect, BROKERS, cluster_id=cluster_id) as playground:
        playground.add_topics(*TOPICS)
        yield playground


def manifests(name: str, connect: str, cluster_id: str) -> Mapping[str, str]:
    """Return the demo's manifests for this cluster: text by path below their folder.

    Their ``$schema`` is that of the installed package, so that an editor finds it wherever the folder is.
    """
    package = files("topiarist")
    found = {}
    with as_file(package / "demo") as samples, as_file(package / "schemas") as schemas:
        for sample in sorted(samples.rglob("*.yaml")):
            text = sample.read_text(encoding="utf-8")
            text = _SCHEMA.sub(lambda match: (schemas.resolve() / match[1]).as_uri(), text)
            if sample.name == "cluster.yaml":
                for old, new in ((CONNECT, connect), (CLUSTER_ID, cluster_id), (f"name: {NAME}", f"name: {name}")):
                    text = text.replace(old, new)
            found[sample.relative_to(samples).as_posix()] = text
    return found

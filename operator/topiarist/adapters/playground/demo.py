"""What ``topiarist dev`` and the demo show: six brokers in three racks and three topics that are already there.

The manifests that go with it are in ``manifests/demo``: ``payments`` is as its manifest says, ``clicks`` keeps messages
for one day instead of three, ``audit`` is in no manifest, and ``orders`` has a manifest but is not there yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from topiarist.adapters.playground.played import Playground
from topiarist.adapters.playground.seed import Topic
from topiarist.core.state import Broker, Replicas

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
def run(connect: str) -> Iterator[Playground]:
    """The demo's cluster at ``connect`` (``host:port/chroot``; the chroot is created), alive inside the ``with``."""
    with Playground(connect, BROKERS) as playground:
        playground.add_topics(*TOPICS)
        yield playground

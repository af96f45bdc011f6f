"""2,000 topics of 12 partitions by ``apply --wait``: how long the controller takes, and how others fare meanwhile.

Two clients with processes of their own go on asking: one lists reassignments, which the controller answers out of its
one thread, behind all that waits there; one creates topics of a single partition, and has its answer when the new
leader is known to the brokers. With the default pace, and for comparison with none.
"""

from __future__ import annotations

import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.common import process
from benchmarks.kafka import scene
from benchmarks.kafka.contenders import apply, lay_out
from benchmarks.kafka.side_by_side import named, warm
from support.kafka.clients import Clients, Program
from support.kafka.cluster import Cluster
from support.kafka.jars import NEWEST
from topiarist.core.backlog import AHEAD

TOPICS, PARTITIONS = 2000, 12
SPARE = 1000
"""Files that a broker has open besides its logs, at most."""

_PAUSE = 0.1


def room(topics: int) -> int:
    """As many of the topics as the limit of open files lets each of three brokers hold, once it is raised."""
    wanted = topics * PARTITIONS + SPARE
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(wanted, hard)))
    except (ValueError, PermissionError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        scene.say(f"open files: found a limit of {hard:,}, wanted {wanted:,}: fewer topics")
        return min(topics, (hard - SPARE) // PARTITIONS)
    return topics


class Probe:
    """Somebody who asks again and again, in a thread and a process of his own: seconds for each answer."""

    def __init__(self, kafka: Cluster, ask: Callable[[Clients], object]) -> None:
        self.seconds: list[float] = []
        self.failures: list[str] = []
        self._program = Program("Clients", NEWEST)
        self._clients = Clients(self._program, kafka.bootstrap)
        self._ask = ask
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Ask until the block ends; the last answer is waited for."""
        with self._program:
            self._ask(self._clients)
            self._thread.start()
            try:
                yield
            finally:
                self._over.set()
                self._thread.join()

    def _go_on(self) -> None:
        while not self._over.wait(_PAUSE):
            start = time.perf_counter()
            try:
                self._ask(self._clients)
            except Exception as error:
                self.failures.append(str(error))
            self.seconds.append(time.perf_counter() - start)

    def line(self) -> dict[str, Any]:
        """The figures."""
        return {
            "asked": len(self.seconds),
            "failed": len(self.failures),
            "median_seconds": round(statistics.median(self.seconds), 3),
            "most_seconds": round(max(self.seconds), 3),
        }


def _create() -> Callable[[Clients], object]:
    """Creates another topic each time; raises if it was refused."""
    numbers = count()

    def create(clients: Clients) -> None:
        if wrong := clients.create_anywhere({f"probe-{next(numbers)}": (1, 1)}):
            raise RuntimeError(str(wrong))

    return create


def one(topics: int, ahead: int) -> dict[str, Any]:
    """A whole run with so many replicas per broker ahead, in a cluster of its own, and what others felt of it."""
    wanted = named("load", topics, PARTITIONS)
    with (
        scene.cluster(heap="1500m") as kafka,
        tempfile.TemporaryDirectory() as other,
        tempfile.TemporaryDirectory() as folder,
    ):
        warm(kafka, Path(other))
        lay_out(Path(folder), wanted)
        listing, creating = Probe(kafka, Clients.moving), Probe(kafka, _create())
        scene.settle(kafka)
        with listing.asking(), creating.asking():
            command = apply(kafka, Path(folder), "--wait", "--wait-ahead", str(ahead))
            run = process(command)
        scene.say(f"  {topics} topics taken over after {run.seconds:.1f} s; {listing.line()}, {creating.line()}")
        return {
            "replicas_ahead_per_broker": ahead,
            "apply_wait_seconds": round(run.seconds, 2),
            "cpu_seconds": round(run.cpu, 2),
            "list_reassignments": listing.line(),
            "create_a_topic": creating.line(),
        }


def measure(topics: int = TOPICS) -> dict[str, Any]:
    """With the default pace, and with none."""
    topics = room(topics)
    found = {"topics": topics, "partitions": topics * PARTITIONS, "replicas": 3 * topics * PARTITIONS}
    paces = {"paced": AHEAD, "not_paced": 3 * topics * PARTITIONS}
    lines = {}
    for name, ahead in paces.items():
        scene.say(f"load, {name.replace('_', ' ')}")
        lines[name] = one(topics, ahead)
    return {**found, **lines}

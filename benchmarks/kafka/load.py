"""2,000 topics of 12 partitions by ``apply --wait``: how long the controller takes, and how others fare meanwhile.

Three others go on asking. One lists reassignments: the controller answers that out of its one thread, behind all that
waits there. One writes a topic as brokers do when they are asked for one, and looks when the controller has taken it
over. One asks Kafka's API for a topic and waits for the answer, which comes when brokers know the leader: behind all
logs that they still have to make, however little waits for the controller. With the default pace, with none, or others.
"""

from __future__ import annotations

import math
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Self

from kazoo.client import KazooClient

from benchmarks.common import process
from benchmarks.kafka import scene
from benchmarks.kafka.contenders import apply, lay_out
from benchmarks.kafka.side_by_side import REPLICAS, named, warm
from benchmarks.kafka.taking_over import States
from support.kafka.clients import Clients
from support.kafka.cluster import Cluster
from support.kafka.jars import NEWEST
from support.kafka.programs import Program
from topiarist.core.backlog import AHEAD

TOPICS, PARTITIONS = 2000, 12
FEWEST, MOST = 3, 6
"""Brokers."""

SPARE = 1000
"""Files that a broker has open besides its logs, at most."""

_PAUSE = 0.1


def room(topics: int) -> tuple[int, int]:
    """How many brokers it takes to hold the topics (three, if they may have as many files open as that needs), and how
    many topics that is: fewer, if it took more than six.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    each = math.inf if hard == resource.RLIM_INFINITY else hard - SPARE
    brokers = max(FEWEST, math.ceil(REPLICAS * PARTITIONS * topics / each))
    if brokers > MOST:
        scene.say(f"open files: {hard:,} a process is too few for {topics:,} topics on {MOST} brokers: fewer topics")
        return MOST, int(MOST * each) // (REPLICAS * PARTITIONS)
    return brokers, topics


class Probe:
    """Somebody who asks again and again, in a thread of his own: ``seconds`` for each answer."""

    def __init__(self, ask: Callable[[], object]) -> None:
        self.seconds: list[float] = []
        self.failures: list[str] = []
        self._ask = ask
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on)

    def __enter__(self) -> Self:
        self._ask()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ask no more; the last answer is waited for."""
        self._over.set()
        self._thread.join()

    def _go_on(self) -> None:
        while not self._over.wait(_PAUSE):
            start = time.perf_counter()
            try:
                self._ask()
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
            "longer_than_a_second": sum(seconds > 1.0 for seconds in self.seconds),
        }


def _ask(clients: Clients) -> Callable[[], object]:
    """Have one more topic made through Kafka's API; raises if it was refused, or took half a minute."""
    numbers = count()

    def ask() -> None:
        if wrong := clients.create_anywhere({f"asked-{next(numbers)}": (1, 1)}):
            raise RuntimeError(next(iter(wrong.values())))

    return ask


def _write(client: KazooClient) -> Callable[[], object]:
    """Write one more topic, and wait until the controller has taken it over."""
    numbers = count()

    def write() -> None:
        name = f"written-{next(numbers)}"
        client.create(f"/config/topics/{name}", b'{"version":1,"config":{}}')
        topic = b'{"version":2,"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{}}'
        client.create(f"/brokers/topics/{name}", topic)
        States(client, {name: 1}).wait()

    return write


@contextmanager
def others(kafka: Cluster) -> Iterator[dict[str, Probe]]:
    """All three, each in a session or a process of its own, asking until the block ends."""
    with ExitStack() as stack:
        lists, asks = (Clients(stack.enter_context(Program("Clients", NEWEST)), kafka.bootstrap) for _ in range(2))
        probes = {
            "list_reassignments": Probe(lists.moving),
            "create_until_taken_over": Probe(_write(kafka.client)),
            "create_until_answered": Probe(_ask(asks)),
        }
        for probe in probes.values():
            stack.enter_context(probe)
        yield probes


def one(brokers: int, topics: int, ahead: int) -> dict[str, Any]:
    """A whole run with so many replicas per broker ahead, in a cluster of its own, and what others felt of it."""
    wanted = named("load", topics, PARTITIONS)
    with (
        scene.cluster(brokers, heap="1500m") as kafka,
        tempfile.TemporaryDirectory() as other,
        tempfile.TemporaryDirectory() as folder,
    ):
        warm(kafka, Path(other))
        lay_out(Path(folder), wanted)
        scene.settle(kafka)
        with others(kafka) as probes:
            run = process(apply(kafka, Path(folder), "--wait", "--wait-ahead", str(ahead)))
            scene.say(f"  {topics} topics taken over after {run.seconds:.1f} s")
        return {
            "replicas_ahead_per_broker": ahead,
            "apply_wait_seconds": round(run.seconds, 2),
            "cpu_seconds": round(run.cpu, 2),
            "others": {name: probe.line() for name, probe in probes.items()},
        }


def measure(paces: Sequence[int] = (AHEAD, 0), topics: int = TOPICS) -> dict[str, Any]:
    """A run for each pace, in replicas per broker that may be ahead; 0 is none at all."""
    brokers, topics = room(topics)
    partitions = topics * PARTITIONS
    runs = []
    for ahead in paces:
        scene.say(f"load, {ahead:,} replicas per broker ahead" if ahead else "load, without a pace")
        runs.append(one(brokers, topics, ahead or REPLICAS * partitions))
    return {
        "brokers": brokers,
        "topics": topics,
        "partitions": partitions,
        "replicas": REPLICAS * partitions,
        "runs": runs,
    }

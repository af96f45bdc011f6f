"""2,000 topics of 12 partitions by ``apply --wait``: the controller's time, and the latency of other clients meanwhile.

Three other clients send requests all the time. One lists reassignments: the controller answers in its single thread,
after all work in its queue. One writes a topic as brokers do for auto-creation, and waits until the controller has
initialized it. One creates a topic by Kafka's API and waits for the response, which needs brokers that know the leader:
they first create all logs in their own queue. Runs with the default limit of replicas in flight, without, or others.
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

from benchmarks.common import run_process
from benchmarks.kafka import scene
from benchmarks.kafka.contenders import apply_command, write_inputs
from benchmarks.kafka.initialization import PartitionStates
from benchmarks.kafka.side_by_side import REPLICATION_FACTOR, make_topics, warm_up
from support.kafka.clients import Clients
from support.kafka.cluster import Cluster
from support.kafka.jars import NEWEST
from support.kafka.programs import Program
from topiarist.model.plan import MAX_INFLIGHT_REPLICAS_PER_BROKER

TOPICS, PARTITIONS = 2000, 12
MIN_BROKERS, MAX_BROKERS = 3, 6
"""Brokers."""

RESERVED_FILES = 1000
"""Files that a broker has open besides its logs, at most."""

_PAUSE_S = 0.1


def fit_open_files(topics: int) -> tuple[int, int]:
    """Return the number of brokers that the limit of open files requires (three to six), and the number of topics.

    The topics are fewer if six brokers cannot hold them.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    each = math.inf if hard == resource.RLIM_INFINITY else hard - RESERVED_FILES
    brokers = max(MIN_BROKERS, math.ceil(REPLICATION_FACTOR * PARTITIONS * topics / each))
    if brokers > MAX_BROKERS:
        scene.log_progress(
            f"open files: {hard:,} a process is too few for {topics:,} topics on {MAX_BROKERS} brokers: fewer topics"
        )
        return MAX_BROKERS, int(MAX_BROKERS * each) // (REPLICATION_FACTOR * PARTITIONS)
    return brokers, topics


class Probe:
    """A client that sends requests in its own thread; ``seconds`` has the latency of each."""

    def __init__(self, request: Callable[[], object]) -> None:
        self.seconds: list[float] = []
        self.failures: list[str] = []
        self._request = request
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._request()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop after the response to the last request."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(_PAUSE_S):
            start = time.perf_counter()
            try:
                self._request()
            except Exception as error:
                self.failures.append(str(error))
            self.seconds.append(time.perf_counter() - start)

    def figures(self) -> dict[str, Any]:
        """Return the figures."""
        return {
            "asked": len(self.seconds),
            "failed": len(self.failures),
            "median_seconds": round(statistics.median(self.seconds), 3),
            "most_seconds": round(max(self.seconds), 3),
            "longer_than_a_second": sum(seconds > 1.0 for seconds in self.seconds),
        }


def _make_create_request(clients: Clients) -> Callable[[], object]:
    """Create one more topic by Kafka's API; raise if it was refused, or took half a minute."""
    numbers = count()

    def ask() -> None:
        if wrong := clients.create_unassigned({f"asked-{next(numbers)}": (1, 1)}):
            raise RuntimeError(next(iter(wrong.values())))

    return ask


def _make_write_request(client: KazooClient) -> Callable[[], object]:
    """Write one more topic, and wait until the controller has initialized it."""
    numbers = count()

    def write() -> None:
        name = f"written-{next(numbers)}"
        client.create(f"/config/topics/{name}", b'{"version":1,"config":{}}')
        topic = b'{"version":2,"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{}}'
        client.create(f"/brokers/topics/{name}", topic)
        PartitionStates(client, {name: 1}).wait()

    return write


@contextmanager
def run_probes(kafka: Cluster) -> Iterator[dict[str, Probe]]:
    """Run the three clients until the block ends, each in a separate session or process."""
    with ExitStack() as stack:
        lists, asks = (Clients(stack.enter_context(Program("Clients", NEWEST)), kafka.bootstrap) for _ in range(2))
        probes = {
            "list_reassignments": Probe(lists.ongoing_reassignments),
            "create_until_taken_over": Probe(_make_write_request(kafka.client)),
            "create_until_answered": Probe(_make_create_request(asks)),
        }
        for probe in probes.values():
            stack.enter_context(probe)
        yield probes


def measure_run(brokers: int, topics: int, max_inflight: int) -> dict[str, Any]:
    """Measure a run with this limit of replicas in flight, in a fresh cluster, and the other clients meanwhile."""
    wanted = make_topics("load", topics, PARTITIONS)
    with (
        scene.start_cluster(brokers, heap="1500m") as kafka,
        tempfile.TemporaryDirectory() as other,
        tempfile.TemporaryDirectory() as folder,
    ):
        warm_up(kafka, Path(other))
        write_inputs(Path(folder), wanted)
        scene.wait_idle(kafka)
        with run_probes(kafka) as probes:
            run = run_process(
                apply_command(kafka, Path(folder), "--wait", "--max-inflight-replicas", str(max_inflight))
            )
            scene.log_progress(f"  {topics} topics taken over after {run.seconds:.1f} s")
        return {
            "replicas_ahead_per_broker": max_inflight,
            "apply_wait_seconds": round(run.seconds, 2),
            "cpu_seconds": round(run.cpu_seconds, 2),
            "others": {name: probe.figures() for name, probe in probes.items()},
        }


def measure(limits: Sequence[int] = (MAX_INFLIGHT_REPLICAS_PER_BROKER, 0), topics: int = TOPICS) -> dict[str, Any]:
    """Measure a run for each limit of replicas in flight per broker; 0 is no limit."""
    brokers, topics = fit_open_files(topics)
    partitions = topics * PARTITIONS
    runs = []
    for ahead in limits:
        scene.log_progress(f"load, {ahead:,} replicas per broker ahead" if ahead else "load, without a pace")
        runs.append(measure_run(brokers, topics, ahead or REPLICATION_FACTOR * partitions))
    return {
        "brokers": brokers,
        "topics": topics,
        "partitions": partitions,
        "replicas": REPLICATION_FACTOR * partitions,
        "runs": runs,
    }

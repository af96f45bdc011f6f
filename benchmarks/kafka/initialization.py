"""The duration of ``apply --wait`` for 1, 100 and 1,000 topics, compared with the time that the controller needs.

The controller's time is that of Kafka's own API: a connected client creates the same topics, and the time ends when the
same partition states exist. ``apply --wait`` is a whole process, from its start to its end.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from benchmarks.common import run_process
from benchmarks.kafka import scene
from benchmarks.kafka.contenders import apply_command, write_inputs
from benchmarks.kafka.side_by_side import CONFIG, PARTITIONS, REPLICATION_FACTOR, make_topics, median_and_range, warm_up
from support.kafka.clients import Clients
from support.kafka.cluster import Cluster
from support.kafka.jars import NEWEST
from support.kafka.programs import Program

TOPIC_COUNTS = (1, 100, 1000)
_BATCH_SIZE = 200


class PartitionStates:
    """The partitions without a partition state (``remaining``), read from ZooKeeper in a separate session."""

    def __init__(self, client: KazooClient, topics: Mapping[str, int]) -> None:
        self._client = client
        self.remaining = {
            f"/brokers/topics/{name}/partitions/{number}/state": None
            for name, partitions in topics.items()
            for number in range(partitions)
        }

    def poll(self) -> bool:
        """Read the next states until one is missing; return whether all exist."""
        while self.remaining:
            paths = list(self.remaining)[:_BATCH_SIZE]
            answers = [(path, self._client.exists_async(path)) for path in paths]
            there = [path for path, answer in answers if answer.get()]
            for path in there:
                del self.remaining[path]
            if len(there) < len(paths):
                break
        return not self.remaining

    def wait(self) -> None:
        """Wait until all states exist."""
        never, deadline = threading.Event(), time.monotonic() + scene.USABLE_TIMEOUT_S
        while not self.poll():
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"{len(self.remaining)} partitions have no state after {scene.USABLE_TIMEOUT_S:.0f} s"
                )
            never.wait(0.01)


def measure_topiarist(kafka: Cluster) -> Iterator[tuple[int, float]]:
    """Yield the seconds of the process for each number of topics; raise if a state is missing at its end."""
    for size in TOPIC_COUNTS:
        wanted = make_topics(f"taken-{size}", size)
        with tempfile.TemporaryDirectory() as place:
            write_inputs(Path(place), wanted)
            scene.wait_idle(kafka)
            seconds = run_process(apply_command(kafka, Path(place), "--wait")).seconds
        if not PartitionStates(kafka.client, dict.fromkeys(wanted, PARTITIONS)).poll():
            raise RuntimeError("apply --wait ended before all partitions had a state")
        yield size, seconds


def measure_kafka_api(kafka: Cluster) -> Iterator[tuple[int, float]]:
    """Yield the seconds from the request to the last partition state."""
    with Program("Clients", NEWEST) as program, ThreadPoolExecutor() as pool:
        clients = Clients(program, kafka.bootstrap)
        clients.controller()
        for size in TOPIC_COUNTS:
            sizes = dict.fromkeys(make_topics(f"taken-{size}", size), (PARTITIONS, REPLICATION_FACTOR))
            states = PartitionStates(kafka.client, dict.fromkeys(sizes, PARTITIONS))
            scene.wait_idle(kafka)
            start = time.perf_counter()
            answer = pool.submit(clients.create_unassigned, sizes, CONFIG)
            states.wait()
            seconds = time.perf_counter() - start
            # A client sends a request again after a timeout, and then gets TopicExistsException.
            if wrong := [text for text in answer.result().values() if "TopicExistsException" not in text]:
                raise RuntimeError(wrong[0])
            yield size, seconds


def measure(rounds: int) -> list[dict[str, Any]]:
    """Return medians and ranges for each number of topics."""
    found: dict[str, dict[int, list[float]]] = {"apply": {}, "api": {}}
    for number in range(rounds):
        contenders = {"apply": measure_topiarist, "api": measure_kafka_api}
        for name in list(contenders) if number % 2 else reversed(contenders):
            scene.log_progress(f"initialization, round {number + 1} of {rounds}: {name}")
            with scene.start_cluster() as kafka, tempfile.TemporaryDirectory() as folder:
                warm_up(kafka, Path(folder))
                for size, seconds in contenders[name](kafka):
                    scene.log_progress(f"  {size}: {seconds:.2f} s")
                    found[name].setdefault(size, []).append(seconds)
    return [
        {
            "topics": size,
            "apply_wait_seconds": median_and_range(found["apply"][size]),
            "kafka_api_seconds": median_and_range(found["api"][size]),
        }
        for size in TOPIC_COUNTS
    ]

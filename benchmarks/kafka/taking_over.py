"""From ``apply --wait`` to done for 1, 100 and 1,000 topics, beside the time that the controller itself needs.

That is: Kafka's own API is asked for the same topics by a client that runs and is connected already, and the time ends
when the same state nodes are there. ``apply --wait`` is a whole process, from its start to its end.
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

from benchmarks.common import process
from benchmarks.kafka import scene
from benchmarks.kafka.contenders import apply, lay_out
from benchmarks.kafka.side_by_side import CONFIG, PARTITIONS, REPLICAS, named, spread, warm
from support.kafka.clients import Clients
from support.kafka.cluster import Cluster
from support.kafka.jars import NEWEST
from support.kafka.programs import Program

SIZES = (1, 100, 1000)
_AT_A_TIME = 200


class States:
    """Which partitions have a state, asked of ZooKeeper in a session of its own; ``left`` have not been seen yet."""

    def __init__(self, client: KazooClient, topics: Mapping[str, int]) -> None:
        self._client = client
        self.left = {
            f"/brokers/topics/{name}/partitions/{number}/state": None
            for name, partitions in topics.items()
            for number in range(partitions)
        }

    def look(self) -> bool:
        """Ask for the next few until one is missing; whether all have been seen."""
        while self.left:
            paths = list(self.left)[:_AT_A_TIME]
            answers = [(path, self._client.exists_async(path)) for path in paths]
            there = [path for path, answer in answers if answer.get()]
            for path in there:
                del self.left[path]
            if len(there) < len(paths):
                break
        return not self.left

    def wait(self) -> None:
        """Until all are there."""
        never, deadline = threading.Event(), time.monotonic() + scene.LIMIT
        while not self.look():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{len(self.left)} partitions have no state after {scene.LIMIT:.0f} s")
            never.wait(0.01)


def ours(kafka: Cluster) -> Iterator[tuple[int, float]]:
    """Seconds of the process for each number of topics; all states are there when it ends, or this raises."""
    for size in SIZES:
        wanted = named(f"taken-{size}", size)
        with tempfile.TemporaryDirectory() as place:
            lay_out(Path(place), wanted)
            scene.settle(kafka)
            seconds = process(apply(kafka, Path(place), "--wait")).seconds
        if not States(kafka.client, dict.fromkeys(wanted, PARTITIONS)).look():
            raise RuntimeError("apply --wait has ended too early")
        yield size, seconds


def theirs(kafka: Cluster) -> Iterator[tuple[int, float]]:
    """Seconds from the request to the last state node."""
    with Program("Clients", NEWEST) as program, ThreadPoolExecutor() as pool:
        clients = Clients(program, kafka.bootstrap)
        clients.controller()
        for size in SIZES:
            sizes = dict.fromkeys(named(f"taken-{size}", size), (PARTITIONS, REPLICAS))
            states = States(kafka.client, dict.fromkeys(sizes, PARTITIONS))
            scene.settle(kafka)
            start = time.perf_counter()
            answer = pool.submit(clients.create_anywhere, sizes, CONFIG)
            states.wait()
            seconds = time.perf_counter() - start
            # A client whose request has timed out sends it again, and hears that the topics are there.
            if wrong := [text for text in answer.result().values() if "TopicExistsException" not in text]:
                raise RuntimeError(wrong[0])
            yield size, seconds


def measure(rounds: int) -> list[dict[str, Any]]:
    """Medians and ranges for each number of topics."""
    found: dict[str, dict[int, list[float]]] = {"apply": {}, "api": {}}
    for number in range(rounds):
        contenders = {"apply": ours, "api": theirs}
        for name in list(contenders) if number % 2 else reversed(contenders):
            scene.say(f"taking over, round {number + 1} of {rounds}: {name}")
            with scene.cluster() as kafka, tempfile.TemporaryDirectory() as folder:
                warm(kafka, Path(folder))
                for size, seconds in contenders[name](kafka):
                    scene.say(f"  {size}: {seconds:.2f} s")
                    found[name].setdefault(size, []).append(seconds)
    return [
        {
            "topics": size,
            "apply_wait_seconds": spread(found["apply"][size]),
            "kafka_api_seconds": spread(found["api"][size]),
        }
        for size in SIZES
    ]

"""Three brokers to measure on, and what is measured: when a job is usable, what it costs, when all is quiet again."""

from __future__ import annotations

import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.common import Run, cpu_of, process
from benchmarks.kafka import metadata
from support.kafka.cluster import Cluster
from support.kafka.jars import NEWEST
from support.kafka.zookeeper import ZooKeeper

KAFKAS_OWN = {
    "num.network.threads": 3,
    "num.io.threads": 8,
    "background.threads": 10,
    "zookeeper.session.timeout.ms": 18_000,
}
"""Kafka's own defaults, where the tests have less: threads, so that requests need not wait for each other, and a
session that outlives a machine that is busy.
"""

LIMIT = 300.0
"""Seconds after which something that should become usable is given up."""

_LOOK = 0.02
_QUIET = 0.4
_TOLD = re.compile(rb"Finished LeaderAndIsr request in ")
_HEARD = re.compile(rb"Processing override for entityPath: topics/(\S+) with config")


class Measured(NamedTuple):
    """One job: seconds of the whole process and until it was usable, CPU seconds of the process and (until both were
    over) of ZooKeeper and the brokers, packets that ZooKeeper received, less what it receives anyhow, and how often the
    controller told a broker to lead or follow something, on average over the brokers.
    """

    seconds: float
    usable: float
    cpu: float
    cluster_cpu: float
    packets: float
    told: float


def say(text: str) -> None:
    """Tell a person how far it is."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def cluster(brokers: int = 3, heap: str = "512m") -> Iterator[Cluster]:
    """A fresh cluster of the newest release, without racks."""
    racks = dict.fromkeys(range(1, brokers + 1))
    with ZooKeeper(NEWEST) as server, Cluster(server, NEWEST, racks, properties=KAFKAS_OWN, heap=heap) as kafka:
        yield kafka


def packets(kafka: Cluster) -> int:
    """The packets that ZooKeeper has received so far, from everybody."""
    with socket.create_connection(("127.0.0.1", kafka.zookeeper.port), timeout=60) as connection:
        connection.sendall(b"mntr")
        with connection.makefile("rb") as reply:
            found = re.search(rb"^zk_packets_received\s+(\d+)", reply.read(), re.MULTILINE)
    if found is None:
        raise RuntimeError("ZooKeeper does not say how many packets it has received")
    return int(found[1])


def cpu(kafka: Cluster) -> float:
    """CPU seconds that ZooKeeper and the brokers have used so far."""
    return cpu_of(kafka.zookeeper.pid) + sum(cpu_of(broker.pid) for broker in kafka.brokers.values())


def settle(kafka: Cluster, most: float = 20.0) -> float:
    """Wait until the servers use little of a core, as they always do; the packets a second that ZooKeeper has then."""
    never, deadline = threading.Event(), time.monotonic() + most
    while True:
        used, received, start = cpu(kafka), packets(kafka), time.monotonic()
        never.wait(1.0)
        seconds = time.monotonic() - start
        if cpu(kafka) - used < _QUIET * seconds:
            return (packets(kafka) - received) / seconds
        if time.monotonic() > deadline:
            say(f"  (the brokers are still busy after {most:.0f} s: going on)")
            return (packets(kafka) - received) / seconds


def measured(kafka: Cluster, commands: Sequence[Sequence[str]], usable: Callable[[], object], idle: float) -> Measured:
    """Run processes one after the other, and wait for ``usable`` from their start on."""
    used, received, runs = cpu(kafka), packets(kafka), list[Run]()
    failed: list[Exception] = []
    logs = _logs(kafka)

    def work() -> None:
        try:
            runs.extend(process(command) for command in commands)
        except Exception as error:
            failed.append(error)

    worker = threading.Thread(target=work)
    start = time.perf_counter()
    worker.start()
    try:
        never = threading.Event()
        while not usable():
            if failed or time.perf_counter() - start > LIMIT:
                raise RuntimeError(f"it did not become usable within {LIMIT:.0f} s: {failed}")
            never.wait(_LOOK)
        until_usable = time.perf_counter() - start
    finally:
        worker.join()
    if failed:
        raise failed[0]
    took = time.perf_counter() - start
    return Measured(
        seconds=sum(run.seconds for run in runs),
        usable=until_usable,
        cpu=sum(run.cpu for run in runs),
        cluster_cpu=cpu(kafka) - used,
        packets=packets(kafka) - received - idle * took,
        told=sum(len(_TOLD.findall(log.more())) for log in logs) / len(logs),
    )


@contextmanager
def led(kafka: Cluster, topics: Mapping[str, int]) -> Iterator[Callable[[], bool]]:
    """Whether the metadata of every broker shows a leader for every partition of topics, given by their partitions."""
    with ExitStack() as stack:
        brokers = [stack.enter_context(metadata.Broker(port)) for port in kafka.ports.values()]
        wanted = metadata.left(brokers, topics)

        def usable() -> bool:
            for left in wanted:
                left.look()
            return not any(left.topics for left in wanted)

        yield usable


@contextmanager
def heard(kafka: Cluster, topics: Sequence[str]) -> Iterator[Callable[[], bool]]:
    """Whether every broker has logged that it took up a change of each topic's config since now."""
    logs = _logs(kafka)
    left = [set(topics) for _ in logs]

    def usable() -> bool:
        for log, names in zip(logs, left, strict=True):
            names.difference_update(name.decode() for name in _HEARD.findall(log.more()))
        return not any(left)

    yield usable


def _logs(kafka: Cluster) -> list[Log]:
    return [Log(broker.folder / "log") for broker in kafka.brokers.values()]


class Log:
    """What is written to a file from now on, in whole lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = path.stat().st_size

    def more(self) -> bytes:
        """What has come since the last time."""
        with self._path.open("rb") as file:
            file.seek(self._at)
            found = file.read()
        found = found[: found.rfind(b"\n") + 1]
        self._at += len(found)
        return found

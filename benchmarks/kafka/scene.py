"""A cluster of three brokers, and the measurements: the time until a job is usable, its cost, and idle servers."""

from __future__ import annotations

import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.common import ProcessRun, process_cpu_seconds, run_process
from benchmarks.kafka import metadata
from support.kafka.cluster import Cluster
from support.kafka.jars import NEWEST
from support.kafka.zookeeper import ZooKeeper

KAFKA_DEFAULTS = {
    "num.network.threads": 3,
    "num.io.threads": 8,
    "background.threads": 10,
    "zookeeper.session.timeout.ms": 18_000,
}
"""Kafka's own defaults where the tests use less: threads for parallel requests, and a session timeout that a busy
machine does not exceed.
"""

USABLE_TIMEOUT_S = 300.0
"""Seconds to wait for a result to become usable."""

_POLL_INTERVAL_S = 0.02
_IDLE_CPU_SHARE, _IDLE_INTERVAL_S = 0.4, 1.0
_LEADER_AND_ISR_PATTERN = re.compile(rb"Finished LeaderAndIsr request in ")

CONFIG_CHANGE = re.compile(rb"Processing override for entityPath: topics/(\S+) with config")
"""The line of a broker in ZooKeeper mode that has taken up the config of a topic."""


class Measurement(NamedTuple):
    """The cost of one job: seconds of the process and until usable, CPU seconds, packets, controller requests.

    CPU seconds of the servers end when the result is usable. Packets are those beyond the packets of idle clients. The
    controller requests (to lead or follow partitions) are an average per broker.
    """

    seconds: float
    usable_seconds: float
    cpu_seconds: float
    cluster_cpu_seconds: float
    packets: float
    leader_and_isr_requests: float


def log_progress(text: str) -> None:
    """Print a line of progress to standard error."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def start_cluster(brokers: int = 3, heap: str = "512m") -> Iterator[Cluster]:
    """Start a fresh cluster of the newest release, without racks."""
    racks = dict.fromkeys(range(1, brokers + 1))
    with ZooKeeper(NEWEST) as server, Cluster(server, NEWEST, racks, properties=KAFKA_DEFAULTS, heap=heap) as kafka:
        yield kafka


def count_packets(kafka: Cluster) -> int:
    """Return the number of packets that ZooKeeper has received from all clients."""
    with socket.create_connection(("127.0.0.1", kafka.zookeeper.port), timeout=60) as connection:
        connection.sendall(b"mntr")
        with connection.makefile("rb") as reply:
            found = re.search(rb"^zk_packets_received\s+(\d+)", reply.read(), re.MULTILINE)
    if found is None:
        raise RuntimeError("ZooKeeper does not say how many packets it has received")
    return int(found[1])


def cluster_cpu_seconds(kafka: Cluster) -> float:
    """Return the CPU seconds that ZooKeeper and the brokers have used so far."""
    return process_cpu_seconds(kafka.zookeeper.pid) + sum(
        process_cpu_seconds(broker.pid) for broker in kafka.brokers.values()
    )


def wait_idle(kafka: Cluster, timeout_s: float = 20.0) -> float:
    """Wait until the servers are idle; return the packets per second that ZooKeeper then receives."""
    wait_until_cpu_is_idle(lambda: cluster_cpu_seconds(kafka), timeout_s)
    received, start = count_packets(kafka), time.monotonic()
    threading.Event().wait(_IDLE_INTERVAL_S)
    return (count_packets(kafka) - received) / (time.monotonic() - start)


def wait_until_cpu_is_idle(read_cpu_seconds: Callable[[], float], timeout_s: float = 20.0) -> None:
    """Wait until some processes together use little CPU for one second, but no longer than ``timeout_s``."""
    never, deadline = threading.Event(), time.monotonic() + timeout_s
    while True:
        used, start = read_cpu_seconds(), time.monotonic()
        never.wait(_IDLE_INTERVAL_S)
        if read_cpu_seconds() - used < _IDLE_CPU_SHARE * (time.monotonic() - start):
            return
        if time.monotonic() > deadline:
            log_progress(f"  (the brokers are still busy after {timeout_s:.0f} s: going on)")
            return


def measure_commands(
    kafka: Cluster, commands: Sequence[Sequence[str]], usable: Callable[[], object], idle_packets: float
) -> Measurement:
    """Run processes one after the other, and wait for ``usable`` from their start on; return the cost."""
    used, received = cluster_cpu_seconds(kafka), count_packets(kafka)
    logs = _open_logs(kafka)
    done = run_until_usable(commands, usable)
    return Measurement(
        seconds=sum(run.seconds for run in done.runs),
        usable_seconds=done.usable_seconds,
        cpu_seconds=sum(run.cpu_seconds for run in done.runs),
        cluster_cpu_seconds=cluster_cpu_seconds(kafka) - used,
        packets=count_packets(kafka) - received - idle_packets * done.seconds,
        leader_and_isr_requests=sum(len(_LEADER_AND_ISR_PATTERN.findall(log.read_new())) for log in logs) / len(logs),
    )


class UsableRuns(NamedTuple):
    """The runs of some processes, the seconds until their result was usable, and until both had ended."""

    runs: Sequence[ProcessRun]
    usable_seconds: float
    seconds: float


def run_until_usable(commands: Sequence[Sequence[str]], usable: Callable[[], object]) -> UsableRuns:
    """Run processes one after the other, and wait for ``usable`` from their start on."""
    runs: list[ProcessRun] = []
    failed: list[Exception] = []

    def work() -> None:
        try:
            runs.extend(run_process(command) for command in commands)
        except Exception as error:
            failed.append(error)

    worker = threading.Thread(target=work)
    start = time.perf_counter()
    worker.start()
    try:
        never = threading.Event()
        while not usable():
            if failed or time.perf_counter() - start > USABLE_TIMEOUT_S:
                raise RuntimeError(f"it did not become usable within {USABLE_TIMEOUT_S:.0f} s: {failed}")
            never.wait(_POLL_INTERVAL_S)
        until_usable = time.perf_counter() - start
    finally:
        worker.join()
    if failed:
        raise failed[0]
    return UsableRuns(runs, until_usable, time.perf_counter() - start)


@contextmanager
def watch_leaders(ports: Iterable[int], topics: Mapping[str, int]) -> Iterator[Callable[[], bool]]:
    """Return whether every broker, by port, reports a leader for every partition of the topics."""
    with ExitStack() as stack:
        brokers = [stack.enter_context(metadata.BrokerConnection(port)) for port in ports]
        wanted = metadata.make_pending(brokers, topics)

        def usable() -> bool:
            for left in wanted:
                left.poll()
            return not any(left.topics for left in wanted)

        yield usable


@contextmanager
def watch_configs(
    logs: Iterable[Path], topics: Sequence[str], change: re.Pattern[bytes] = CONFIG_CHANGE
) -> Iterator[Callable[[], bool]]:
    """Return whether every broker, by its log, has logged a change of each topic's config since this call."""
    tails = [LogTail(log) for log in logs]
    left = [set(topics) for _ in tails]

    def usable() -> bool:
        for tail, names in zip(tails, left, strict=True):
            names.difference_update(name.decode() for name in change.findall(tail.read_new()))
        return not any(left)

    yield usable


def log_paths(kafka: Cluster) -> list[Path]:
    """Return the logs of the brokers."""
    return [broker.folder / "log" for broker in kafka.brokers.values()]


def _open_logs(kafka: Cluster) -> list[LogTail]:
    return [LogTail(log) for log in log_paths(kafka)]


class LogTail:
    """A reader of the whole lines that are appended to a file from now on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size

    def read_new(self) -> bytes:
        """Return the lines since the last call."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            found = file.read()
        found = found[: found.rfind(b"\n") + 1]
        self._offset += len(found)
        return found

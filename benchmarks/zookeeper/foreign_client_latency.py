"""G7: what another client of the same ZooKeeper feels while we work: how long its sets take, in the slowest hundredth.

A process of its own sets one small node, again and again, first alone and then beside a run that creates topics; also
with 200 brokers, of which each transaction checks those that it uses. Beside it, in the same run, what transactions of
1,000 operations do to the neighbour.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.cli import clusters
from benchmarks.common import FULL_JIT
from benchmarks.zookeeper.write import apply_seconds, make_specs
from kazoo.client import KazooClient

from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.adapters.zookeeper.codec import configs
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import ClusterSpec
from topiarist.planning.planner import make_plan

CREATES, ROUNDS, BROKERS = 5_000, 5, 200


def _foreign_client(connect: str, ready: Any, stop: Any, answers: Any) -> None:
    """In a process of its own: the seconds of each set, until it is told to stop."""
    client = KazooClient(connect)
    client.start()
    client.ensure_path("/neighbour")
    found = []
    ready.set()
    while not stop.is_set():
        start = time.perf_counter()
        client.set("/neighbour", b"x" * 100)
        found.append(time.perf_counter() - start)
    client.stop()
    client.close()
    answers.put(found)


def measure_p99_ms(connect: str, work: Callable[[], object]) -> float:
    """Milliseconds that the neighbour waits at its 99th percentile while ``work`` goes on."""
    context = multiprocessing.get_context("spawn")
    ready, stop, answers = context.Event(), context.Event(), context.Queue()
    process = context.Process(target=_foreign_client, args=(connect, ready, stop, answers))
    process.start()
    ready.wait(60)
    work()
    stop.set()
    found: list[float] = answers.get(timeout=60)
    process.join()
    return 1000 * percentile_99(found)


def percentile_99(seconds: Sequence[float]) -> float:
    """The 99th."""
    return statistics.quantiles(seconds, n=100)[98]


def make_create_work(connect: str, prefix: int) -> Callable[[], object]:
    """A run of ours that creates topics which are not there yet."""

    def work() -> None:
        with ZooKeeperCluster(connect, owner="default") as cluster:
            wanted = make_specs((prefix + 1) * CREATES)[prefix * CREATES :]
            apply_seconds(cluster, make_plan(cluster.read(), ClusterSpec(), wanted, RunOptions()))

    return work


def make_large_transactions(connect: str) -> Callable[[], object]:
    """Transactions of 1,000 operations, one after the other: what we do not do."""

    def work() -> None:
        client = KazooClient(connect)
        client.start()
        for number in range(20):
            transaction = client.transaction()
            for node in range(1000):
                transaction.create(f"/config/topics/crowd-{number}-{node}", configs.encode_config({}))
            transaction.commit()
        client.stop()
        client.close()

    return work


def _measure_round(server: EmbeddedZooKeeper, number: int) -> tuple[float, float, float, float]:
    """The neighbour alone, beside a run, beside one on 200 brokers, beside transactions of 1,000 operations."""
    with clusters.seeded_cluster(server, f"neighbour{number}", 0) as connect:
        alone = measure_p99_ms(connect, lambda: threading.Event().wait(1.0))
        beside = measure_p99_ms(connect, make_create_work(connect, 0))
        client = KazooClient(connect)
        client.start()
        there = sorted(map(int, client.get_children("/brokers/ids")))
        data = client.get(f"/brokers/ids/{there[0]}")[0]
        for broker in range(there[-1] + 1, there[-1] + 1 + BROKERS - len(there)):
            client.create(f"/brokers/ids/{broker}", data)
        many = measure_p99_ms(connect, make_create_work(connect, 1))
        client.stop()
        client.close()
        return alone, beside, many, measure_p99_ms(connect, make_large_transactions(connect))


def measure() -> dict[str, Any]:
    """Medians over the rounds, in milliseconds."""
    with EmbeddedZooKeeper(jvm_options=["-Xmx2g", FULL_JIT]) as server:
        rounds = [_measure_round(server, number) for number in range(ROUNDS)]
    alone, beside, many, crowd = (statistics.median(figures) for figures in zip(*rounds, strict=True))
    return {
        "alone_p99_ms": round(alone, 2),
        "beside_p99_ms": round(beside, 2),
        "beside_200_brokers_p99_ms": round(many, 2),
        "beside_1000_operations_p99_ms": round(crowd, 2),
        "times_less_than_1000_operations": round(crowd / max(beside, many), 2),
    }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))

"""G7: the latency of another client of the same ZooKeeper during a run: the 99th percentile of its writes.

A separate process sets one small znode repeatedly, first alone and then during a run that creates topics; also with 200
brokers, because each transaction checks the brokers that it uses. The same run measures the effect of transactions of
1,000 operations for comparison.
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
from topiarist.adapters.zookeeper.codec import topics
from topiarist.model.access import ZooKeeperAccess
from topiarist.model.plan import RunOptions
from topiarist.model.spec import ClusterSpec
from topiarist.planning.planner import make_plan

CREATES, ROUNDS, BROKERS = 5_000, 5, 200


def _foreign_client(connect: str, ready: Any, stop: Any, answers: Any) -> None:
    """Measure the seconds of each set until ``stop`` is set; runs in a separate process."""
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
    """Return the 99th percentile of the other client's latency during ``work``, in milliseconds."""
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
    """Return the 99th percentile."""
    return statistics.quantiles(seconds, n=100)[98]


def make_create_work(connect: str, prefix: int) -> Callable[[], object]:
    """Return a function that creates new topics with topiarist."""

    def work() -> None:
        with ZooKeeperCluster(ZooKeeperAccess(connect), owner="default") as cluster:
            wanted = make_specs((prefix + 1) * CREATES)[prefix * CREATES :]
            apply_seconds(cluster, make_plan(cluster.read(), ClusterSpec(), wanted, RunOptions()))

    return work


def make_large_transactions(connect: str) -> Callable[[], object]:
    """Return a function that sends transactions of 1,000 operations, which topiarist never does."""

    def work() -> None:
        client = KazooClient(connect)
        client.start()
        for number in range(20):
            transaction = client.transaction()
            for node in range(1000):
                transaction.create(f"/config/topics/crowd-{number}-{node}", topics.encode_config({}))
            transaction.commit()
        client.stop()
        client.close()

    return work


def _measure_round(server: EmbeddedZooKeeper, number: int) -> tuple[float, float, float, float]:
    """Measure the client alone, during a run, during a run on 200 brokers, during transactions of 1,000 operations."""
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
    """Return medians over the rounds, in milliseconds."""
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

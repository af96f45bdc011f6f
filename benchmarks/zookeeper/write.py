"""G6: the creation of 10,000 topics and 1,000 config changes, each in one checked transaction, without throttle.

The same run measures a short script: two plain creates for each topic, one after the other.
"""

from __future__ import annotations

import gc
import json
import statistics
import time
from typing import Any

from benchmarks.cli import clusters
from benchmarks.common import FULL_JIT
from kazoo.client import KazooClient
from msgspec.structs import replace

from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.adapters.zookeeper.codec import paths, topics
from topiarist.adapters.zookeeper.codec.topics import encode_config
from topiarist.desired.shared_specs import merge
from topiarist.errors import FieldPath, Location
from topiarist.model.access import ZooKeeperAccess
from topiarist.model.outcome import Result
from topiarist.model.plan import Plan, RunOptions
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec
from topiarist.planning.planner import make_plan

CREATES, UPDATES, PLAIN_CREATES, RUNS = 10_000, 1_000, 2_000, 5

WARM_UP_RUNS = 3
"""Runs until the server's virtual machine has compiled its code: before, it needs three times the processor time."""


class _NoSource:
    def locate(self, path: FieldPath = ()) -> Location:
        return Location("benchmark")


def make_specs(count: int, flush: int | None = None) -> list[TopicSpec]:
    """Return the specs of the topics of ``clusters``; with ``flush`` they differ in one key."""
    found = []
    for number in range(count):
        config = clusters.topic_config(number) | ({"flush.ms": str(flush)} if flush else {})
        fields = {"partitions": 12, "replicationFactor": 3, "config": config}
        found.append(merge(Manifest("Topic", clusters.topic_name(number), "", {}, fields, _NoSource()), ClusterSpec()))
    return found


def apply_seconds(cluster: ZooKeeperCluster, plan: Plan) -> float:
    """Return the seconds from the first request to the last response; raise if an outcome is not done."""
    start = time.perf_counter()
    results = [outcome.result for outcome in cluster.apply(plan, lambda: False)]
    seconds = time.perf_counter() - start
    if set(results) != {Result.DONE}:
        raise RuntimeError(f"not everything was done: {set(results)}")
    return seconds


def plain_seconds(connect: str) -> float:
    """Return the seconds for ``PLAIN_CREATES`` topics by two plain creates each, one after the other."""
    client = KazooClient(connect)
    client.start()
    start = time.perf_counter()
    for number in range(PLAIN_CREATES):
        name = f"plain-{time.monotonic_ns()}-{number}"
        client.create(paths.config_path(name), encode_config(clusters.topic_config(number)))
        client.create(paths.topic_path(name), topics.encode_topic([(1, 2, 3)] * 12))
    seconds = time.perf_counter() - start
    client.stop()
    client.close()
    return seconds


def _measure_round(server: EmbeddedZooKeeper, number: int) -> tuple[float, float, float]:
    """Return the seconds of the transactions, the config updates and the plain creates."""
    with (
        clusters.seeded_cluster(server, f"round{number}", 0) as connect,
        ZooKeeperCluster(ZooKeeperAccess(connect), owner="default") as cluster,
    ):
        run = RunOptions()
        made = apply_seconds(cluster, make_plan(cluster.read(), ClusterSpec(), make_specs(CREATES), run))
        state = cluster.read()
        updated = apply_seconds(
            cluster, make_plan(state, ClusterSpec(), make_specs(UPDATES, flush=1 + number), replace(run))
        )
        plain = plain_seconds(connect)
    return made, updated, plain


def measure() -> dict[str, Any]:
    """Return medians, and the ratio of rates in the same run; without garbage collection, as in the command line."""
    gc.disable()
    try:
        with EmbeddedZooKeeper(jvm_options=["-Xmx2g", FULL_JIT]) as server:
            rounds = [_measure_round(server, number) for number in range(WARM_UP_RUNS + RUNS)][WARM_UP_RUNS:]
    finally:
        gc.enable()
    made, updated, plain = (statistics.median(figures) for figures in zip(*rounds, strict=True))
    return {
        "creates": CREATES,
        "create_seconds": round(made, 3),
        "creates_per_second": round(CREATES / made),
        "config_updates": UPDATES,
        "config_update_seconds": round(updated, 3),
        "plain_creates_per_second": round(PLAIN_CREATES / plain),
        "times_faster_than_plain": round(
            statistics.median((CREATES / m) / (PLAIN_CREATES / p) for m, _, p in rounds), 2
        ),
    }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))

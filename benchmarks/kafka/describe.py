"""Where brokers spend the time of a read: DescribeConfigs of 1,000 topics, asked in several ways.

Each way is timed in turn on one cluster in KRaft mode: seconds until all answers are there, without decoding them, and
the processor seconds of all brokers meanwhile. ``keys`` is the number of config names in the request (all: none is
named), ``topics`` the number of topics in one request, ``connections`` how many requests are in flight, all to one
broker or each to another one.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.kafka.kraft import cluster_cpu_seconds, make_topics, start_cluster
from benchmarks.kafka.kraft_contenders import apply_command, write_all_inputs
from benchmarks.kafka.scene import log_progress
from support.kafka.kraft import KraftCluster
from topiarist.adapters.kafka_admin.connection.connection import Connection
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.read.configs import build_describe_configs
from topiarist.model.access import KafkaAccess

TOPICS, WARM_UP_ROUNDS = 1000, 10

_KEYS = ("retention.ms", "cleanup.policy", "min.insync.replicas", "segment.bytes", "retention.bytes", "segment.ms")


class Way(NamedTuple):
    """A way to ask. ``keys`` are config names (None: all)."""

    name: str
    topics: int = 250
    keys: Sequence[str] | None = None
    synonyms: bool = False
    connections: int = 1
    brokers: int = 1


WAYS = (
    Way("no key", keys=["no.such.config"]),
    Way("1 key", keys=_KEYS[:1]),
    Way("6 keys", keys=_KEYS),
    Way("all keys"),
    Way("all keys, with synonyms", synonyms=True),
    Way("all keys, 50 topics in a request", topics=50),
    Way("all keys, 1,000 topics in a request", topics=TOPICS),
    Way("all keys, 2 connections, 250 topics", connections=2),
    Way("all keys, 3 connections, 167 topics", topics=167, connections=3),
    Way("all keys, 3 connections to 3 brokers, 167 topics", topics=167, connections=3, brokers=3),
)


def ask(way: Way, names: Sequence[str], connections: Sequence[Connection]) -> None:
    """Send all requests of a way, each connection its share of them."""
    requests = [
        build_describe_configs(names[start : start + way.topics], way.keys, synonyms=way.synonyms)
        for start in range(0, len(names), way.topics)
    ]

    def send(number: int) -> None:
        connection = connections[number]
        for request in requests[number :: len(connections)]:
            connection.call_raw(request, connection.version_of(request))

    with ThreadPoolExecutor(len(connections)) as pool:
        list(pool.map(send, range(len(connections))))


def measure_way(kafka: KraftCluster, way: Way, names: Sequence[str]) -> tuple[float, float]:
    """Return the seconds of one read, and the processor seconds of the cluster meanwhile."""
    addresses = kafka.bootstrap.split(",")[: way.brokers]
    sessions = [Session(KafkaAccess(addresses[each % way.brokers]), 10.0) for each in range(way.connections)]
    connections = [session.any_broker() for session in sessions]
    used, start = cluster_cpu_seconds(kafka), time.perf_counter()
    ask(way, names, connections)
    seconds = time.perf_counter() - start
    for session in sessions:
        session.close()
    return seconds, cluster_cpu_seconds(kafka) - used


def measure(rounds: int) -> dict[str, Any]:
    """Return the medians of each way over five times ``rounds`` reads, in turn."""
    names = list(make_topics(TOPICS))
    found: dict[str, list[tuple[float, float]]] = {way.name: [] for way in WAYS}
    with start_cluster() as kafka, tempfile.TemporaryDirectory() as folder:
        write_all_inputs(kafka, Path(folder), make_topics(TOPICS))
        subprocess.run(apply_command(kafka, Path(folder)), check=True, capture_output=True)
        log_progress(f"DescribeConfigs of {TOPICS:,} topics")
        with closing(Session(KafkaAccess(kafka.bootstrap.split(",")[0]), 10.0)) as session:
            for _ in range(WARM_UP_ROUNDS):  # until the virtual machine has compiled what it runs
                ask(WAYS[3], names, [session.any_broker()])
        for _ in range(5 * rounds):
            for way in WAYS:
                found[way.name].append(measure_way(kafka, way, names))
    return {
        name: {
            "seconds": round(statistics.median(seconds for seconds, _ in runs), 3),
            "least_seconds": round(min(seconds for seconds, _ in runs), 3),
            "cluster_cpu_seconds": round(statistics.mean(cpu for _, cpu in runs), 3),
        }
        for name, runs in found.items()
    }

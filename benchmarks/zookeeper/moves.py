"""The requests of a run that moves replicas: P10 and P11, on a real ZooKeeper with a simulated controller.

P10 is the number of requests of one poll while ten topics are in flight; one of them is ``sync``, without which a
server that lags could show an old state. P11 is the number of writes of a second run, after all moves are done.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from support.builders import spec
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.access import ZooKeeperAccess
from topiarist.model.moves import UNLIMITED, BatchLimits, MoveKind, MoveProgress, MoveSettings
from topiarist.model.plan import RunOptions
from topiarist.model.spec import ClusterSpec
from topiarist.ports import MoveOptions
from topiarist.reconcile import apply_plan, read_and_plan

TOPICS = 10
POLLS = 5

_BROKERS = tuple(Broker(id_, rack) for id_, rack in enumerate("abcabc", start=1))
_LISTS: tuple[Replicas, ...] = ((6, 1), (1, 2), (2, 6))
_DRAINING = ClusterSpec(
    "bench",
    version=(3, 9),
    drain_brokers=frozenset({6}),
    moves=MoveSettings(frozenset(MoveKind), UNLIMITED, BatchLimits(50, 50, 50)),
)


def measure() -> dict[str, Any]:
    """Return the requests of a poll, of how many topics, and the writes of a second run."""
    names = [f"topic-{number}" for number in range(TOPICS)]
    with EmbeddedZooKeeper() as server, SimulatedKafka(server.connect, _BROKERS) as kafka:
        kafka.moves_replicas = True
        kafka.add_topics(*(Topic(name, _LISTS, {}) for name in names))
        kafka.lagging_brokers = {broker.id for broker in _BROKERS}
        polls: list[int] = []
        with Proxy(kafka.connect) as proxy:
            connect = proxy.through(kafka.connect)
            _apply(connect, names, lambda: polls.append(sum(proxy.requests.values())), lambda: len(polls) > POLLS)
            kafka.lagging_brokers = set()
            kafka.run_and_wait(kafka._process_reassignment_request)
            _apply(connect, names, lambda: None, lambda: False)
            proxy.reset()
            _apply(connect, names, lambda: None, lambda: False)
            writes = proxy.writes
    # The first poll also reads the partition states, and the last interval may contain the end of the run.
    requests = [after - before for before, after in pairwise(polls[1:])]
    return {"topics": TOPICS, "requests_per_poll": max(requests), "writes_of_second_run": writes}


def _apply(connect: str, names: list[str], on_poll: Callable[[], None], stop: Callable[[], bool]) -> None:
    """Plan and apply the drain of the topics; ``on_poll`` is called after each poll of a batch."""

    def on_progress(progress: MoveProgress) -> None:
        if progress.copying:
            on_poll()

    specs = [spec(name, _DRAINING, partitions=len(_LISTS), replicationFactor=2) for name in names]
    with ZooKeeperCluster(ZooKeeperAccess(connect), owner="default") as cluster:
        plan = read_and_plan(cluster, _DRAINING, specs, RunOptions(adopt=("*",)))
        options = MoveOptions(_DRAINING.moves, on_progress=on_progress)
        report = apply_plan(cluster, plan, stop=stop, move_options=options)
        if report.error:
            raise report.error

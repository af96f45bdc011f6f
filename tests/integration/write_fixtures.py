"""Shared fixtures of the write tests: a cluster with every kind of pending change, and its checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from support.builders import topic_spec
from support.zookeeper import write_checker
from support.zookeeper.proxy import Connection, Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.model.access import ZooKeeperAccess
from topiarist.model.outcome import Outcome, ReconcileReport, Result
from topiarist.model.plan import Plan
from topiarist.reconcile import apply_plan

REPLICAS = ((1, 2, 3), (2, 3, 4))

DESIRED_SPECS = (
    topic_spec("create", partitions=4, config={"retention.ms": 5000}),
    topic_spec("grow", partitions=5, config={"retention.ms": 1000}),
    topic_spec("configure", config={"retention.ms": 2000}),
    topic_spec("same"),
)

MANY_SPECS = tuple(topic_spec(f"topic-{number:03}") for number in range(150))
"""More than are under way at any time."""

SETUP_WRITES, FIRST_TOPIC_WRITE = 5, 6
"""The first run of a cluster makes four nodes of ours and the lock; then come the transactions, by topic."""


class InterceptingProxy(Proxy):
    """A proxy that calls ``may_forward`` with the kind of each request before it forwards the request; False breaks the
    connection instead. A multi request with the bytes ``break_on_bytes`` breaks the connection too.
    """

    may_forward: Callable[[str], bool] = staticmethod(lambda kind: True)
    break_on_bytes: bytes = b""

    def _request(self, connection: Connection, body: bytes, first: bool) -> bool:
        going_on = super()._request(connection, body, first)
        kind = "connect" if first else connection.request_names[int.from_bytes(body[:4], "big", signed=True)]
        return (
            going_on
            and self._ask(kind)
            and not (self.break_on_bytes and self.break_on_bytes in body and kind == "multi")
        )

    def _ask(self, kind: str) -> bool:
        """Return the result of ``may_forward``; an exception is raised again when the proxy ends."""
        try:
            return self.may_forward(kind)
        except Exception as error:
            self._failures.append(error)
            return True


@contextmanager
def connect_cluster(
    connect: str, *, lock_timeout: float = 5.0, max_buffer: int = 1_048_575
) -> Iterator[ZooKeeperCluster]:
    """Open a separate session, as a run does."""
    with ZooKeeperCluster(ZooKeeperAccess(connect, max_buffer), owner="default", lock_timeout=lock_timeout) as cluster:
        yield cluster


@contextmanager
def verify_changes(connect: str, *allowed: str) -> Iterator[None]:
    """Check at the end that the cluster has no error and that only ``allowed`` topics changed."""
    before = write_checker.read_nodes(connect)
    yield
    assert write_checker.find_problems(before, write_checker.read_nodes(connect), allowed) == []


def create_mixed_topics(cluster: SimulatedKafka) -> list[str]:
    """Create topics that differ from ``WISHES`` in every way; return their names and the name of the new one."""
    cluster.add_topics(
        Topic("grow", REPLICAS, {"retention.ms": "1000"}),
        Topic("configure", REPLICAS, {"retention.ms": "1000", "flush.ms": "5"}),
        Topic("same", REPLICAS, {}),
        Topic("foreign", REPLICAS, {"retention.ms": "7"}),
    )
    return ["create", "grow", "configure", "same"]


def lock_nodes(cluster: SimulatedKafka) -> list[str]:
    """Return the nodes of all runs that hold or request the lock."""
    return lock_nodes_at(cluster.connect)


def lock_nodes_at(connect: str) -> list[str]:
    """Return the lock nodes of the cluster at ``connect``."""
    return [path for path in write_checker.read_nodes(connect) if path.startswith("/topiarist/lock/")]


def apply_without_hooks(port: ZooKeeperCluster, plan: Plan) -> ReconcileReport:
    """Apply the plan without any hooks."""
    return apply_plan(port, plan, stop=lambda: False)


def topics_by_result(outcomes: list[Outcome] | tuple[Outcome, ...]) -> dict[Result, list[str]]:
    """Return the sorted topics of each result; every topic may occur only once."""
    names = [outcome.topic for outcome in outcomes]
    assert len(names) == len(set(names))
    return {
        result: sorted(outcome.topic for outcome in outcomes if outcome.result is result)
        for result in Result
        if any(outcome.result is result for outcome in outcomes)
    }

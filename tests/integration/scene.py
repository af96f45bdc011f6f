"""What the tests of writing share: a cluster on which there is something of everything to do, and who watches it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from support import checker
from support.proxy import Connection, Proxy
from support.wishes import wish
from topiarist.adapters.playground import Playground, Topic
from topiarist.adapters.zookeeper import ZooKeeperCluster
from topiarist.core.change import Plan
from topiarist.reconcile import Hooks, Outcome, Report, Result, carry_out

REPLICAS = ((1, 2, 3), (2, 3, 4))

WISHES = (
    wish("create", partitions=4, config={"retention.ms": 5000}),
    wish("grow", partitions=5, config={"retention.ms": 1000}),
    wish("configure", config={"retention.ms": 2000}),
    wish("same"),
)

MANY = tuple(wish(f"topic-{number:03}") for number in range(150))
"""More than are under way at any time."""

OUR_WRITES, FIRST = 5, 6
"""The first run of a cluster makes four nodes of ours and the lock; then come the transactions, by topic."""


class Meddler(Proxy):
    """A proxy that asks ``before`` about each request, by its kind, before it goes on; False breaks the connection
    instead. So does a request that holds the bytes ``poison``.
    """

    before: Callable[[str], bool] = staticmethod(lambda kind: True)
    poison: bytes = b""

    def _request(self, connection: Connection, body: bytes, first: bool) -> bool:
        going_on = super()._request(connection, body, first)
        kind = "connect" if first else connection.names[int.from_bytes(body[:4], "big", signed=True)]
        return going_on and self.before(kind) and not (self.poison and self.poison in body and kind == "multi")


@contextmanager
def opened(connect: str, *, lock_timeout: float = 5.0, max_buffer: int = 1_048_575) -> Iterator[ZooKeeperCluster]:
    """A session of its own, as one run has it."""
    with ZooKeeperCluster(connect, owner="default", lock_timeout=lock_timeout, max_buffer=max_buffer) as cluster:
        yield cluster


@contextmanager
def witnessed(connect: str, *allowed: str) -> Iterator[None]:
    """Nothing may have gone wrong with the cluster when this ends, and only ``allowed`` topics may have changed."""
    before = checker.look(connect)
    yield
    assert checker.problems(before, checker.look(connect), allowed) == []


def mixed(cluster: Playground) -> list[str]:
    """Put topics on the cluster that ``WISHES`` differs from in every way; their names and the new one's."""
    cluster.add_topics(
        Topic("grow", REPLICAS, {"retention.ms": "1000"}),
        Topic("configure", REPLICAS, {"retention.ms": "1000", "flush.ms": "5"}),
        Topic("same", REPLICAS, {}),
        Topic("foreign", REPLICAS, {"retention.ms": "7"}),
    )
    return ["create", "grow", "configure", "same"]


def locks(cluster: Playground) -> list[str]:
    """The nodes of everybody who holds or wants the lock."""
    return locks_of(cluster.connect)


def locks_of(connect: str) -> list[str]:
    """The same, of the cluster at ``connect``."""
    return [path for path in checker.look(connect) if path.startswith("/topiarist/lock/")]


def carried_out(port: ZooKeeperCluster, plan: Plan) -> Report:
    """The plan carried out, and nobody listens."""
    return carry_out(port, Hooks(), plan)


def by_result(found: list[Outcome] | tuple[Outcome, ...]) -> dict[Result, list[str]]:
    """The topics of each result, sorted; every topic may stand once only."""
    names = [outcome.topic for outcome in found]
    assert len(names) == len(set(names))
    return {
        result: sorted(outcome.topic for outcome in found if outcome.result is result)
        for result in Result
        if any(outcome.result is result for outcome in found)
    }

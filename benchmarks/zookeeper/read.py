"""G3 to G5: the state of 10,000 topics (30,000 znodes with the records), over MultiRead and without, near and far.

The same run measures a script with kazoo alone: the same znodes by ``get_async``, a thousand in flight, not decoded.
"""

from __future__ import annotations

import json
import select
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from statistics import median as middle
from typing import Any

from benchmarks.cli import clusters
from benchmarks.common import FULL_JIT, RUNS, measure_median, measure_seconds, process_cpu_seconds
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler

from support.zookeeper.proxy import Proxy
from topiarist.adapters import own_values
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.zookeeper.codec import paths as paths_
from topiarist.adapters.zookeeper.connection.session import Session, open_session
from topiarist.adapters.zookeeper.read.state import read_state
from topiarist.model.state import OwnershipRecord

TOPICS = 10_000
MAX_IN_FLIGHT = 1000
ONE_WAY_DELAY_S = 0.01
"""Seconds in each direction: a round trip of 20 ms."""


class PollHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threading handler with ``poll()``: kazoo makes a new epoll object for every select."""

    def select(self, readers: Any, writers: Any, _errors: Any, timeout: float | None = None) -> Any:
        """Return the sockets that can be read and written."""
        poller = select.poll()
        for each in {*readers, *writers}:
            wanted = (select.POLLIN if each in readers else 0) | (select.POLLOUT if each in writers else 0)
            poller.register(each, wanted)
        found = dict(poller.poll(None if timeout is None else timeout * 1000))
        ready = [each for each in readers if found.get(each.fileno(), 0) & ~select.POLLOUT]
        return ready, [each for each in writers if found.get(each.fileno(), 0) & select.POLLOUT], []


@contextmanager
def owned_cluster(server: EmbeddedZooKeeper, count: int) -> Iterator[str]:
    """Seed a cluster of ``count`` topics with ownership records; yield the connect string."""
    with clusters.seeded_cluster(server, "reading", count) as connect, plain_client(connect) as client:
        client.ensure_path(paths_.RECORDS)
        record = own_values.encode_record(OwnershipRecord("default", tuple(sorted(clusters.topic_config(0)))))
        made = [client.create_async(paths_.record_path(clusters.topic_name(number)), record) for number in range(count)]
        for one in made:
            one.get()
        yield connect


@contextmanager
def plain_client(connect: str, handler: SequentialThreadingHandler | None = None) -> Iterator[KazooClient]:
    """Yield a plain kazoo client; with a handler of its own if one is given."""
    client = KazooClient(connect, handler=handler)
    client.start()
    yield client
    client.stop()
    client.close()


def read_topics(session: Session, count: int) -> None:
    """Read the whole state; raise if anything is missing."""
    state = read_state(session, jute_max_buffer=1_048_575)
    if len(state.topics) != count or not all(topic.record_valid for topic in state.topics.values()):
        raise RuntimeError(f"read {len(state.topics)} of {count} topics, or not all of their records")


def read_with_kazoo(client: KazooClient, paths: list[str]) -> None:
    """Read the same znodes as fast as kazoo alone can."""
    flying: deque[Any] = deque()
    for path in paths:
        if len(flying) == MAX_IN_FLIGHT:
            flying.popleft().get()
        flying.append(client.get_async(path))
    for one in flying:
        one.get()


def measure(count: int = TOPICS) -> dict[str, Any]:
    """Return the seconds of one read in each way, and the server's CPU seconds for one read."""
    with EmbeddedZooKeeper(jvm_options=["-Xmx1g", FULL_JIT]) as server, owned_cluster(server, count) as connect:
        with closing(open_session(connect, 10.0)) as session, plain_client(connect) as client:
            near, plain = _side_by_side(session, client, count)
            requests = _count_requests(session, count)
            server_cpu = _server_cpu_seconds(server, partial(read_topics, session, count))
            session.supports_multiread = False
            with plain_client(connect, PollHandler()) as polling:
                fallback, polled = _side_by_side(session, polling, count)
        with Proxy(server.connect) as proxy, closing(open_session(proxy.through(connect), 10.0)) as session:
            proxy.delay = ONE_WAY_DELAY_S
            far = measure_median(lambda: measure_seconds(partial(read_topics, session, count)))
    return {
        "topics": count,
        "znodes": 3 * count,
        "seconds": round(near, 3),
        "requests": requests,
        "seconds_at_20_ms": round(far, 3),
        "seconds_without_multiread": round(fallback, 3),
        "times_get_async_with_poll": round(fallback / polled, 2),
        "kazoo_get_async_seconds": round(plain, 3),
        "times_faster_than_get_async": round(plain / near, 1),
        "server_cpu_seconds": round(server_cpu, 3),
    }


def _side_by_side(session: Session, client: KazooClient, count: int) -> tuple[float, float]:
    """Return median seconds of both reads, measured in turns, so that other load affects both."""
    makers = (paths_.topic_path, paths_.config_path, paths_.record_path)
    paths = [make(clusters.topic_name(number)) for number in range(count) for make in makers]
    read_topics(session, count)
    turns = [
        (
            measure_seconds(partial(read_topics, session, count)),
            measure_seconds(partial(read_with_kazoo, client, paths)),
        )
        for _ in range(RUNS)
    ]
    return middle(near for near, _ in turns), middle(plain for _, plain in turns)


def _count_requests(session: Session, count: int) -> int:
    before = session.requests.total()
    read_topics(session, count)
    return session.requests.total() - before


def _server_cpu_seconds(server: EmbeddedZooKeeper, work: partial[None]) -> float:
    used = []
    for _ in range(RUNS):
        before = process_cpu_seconds(server.pid)
        work()
        used.append(process_cpu_seconds(server.pid) - before)
    return middle(used)


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))

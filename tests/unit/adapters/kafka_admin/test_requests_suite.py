"""Brokers in memory answer single requests as real brokers of each release do (``tests/brokers/test_records.py``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from support.kafka.memory_records import MemoryBroker
from support.kafka.releases import RELEASES
from support.kafka.requests_suite import SUITE

globals().update(SUITE)


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    """Return a release as which the brokers answer."""
    found: str = request.param
    return found


@pytest.fixture
def session(release: str) -> MemoryBroker:
    """Return brokers without topics; the marker of a transaction is written a little after its end."""
    return MemoryBroker(release=release, marker_delay=0.05)


@pytest.fixture
def without_broker(session: MemoryBroker) -> Callable[[int], AbstractContextManager[None]]:
    """Return a context in which a broker does not run."""

    @contextmanager
    def stop(broker: int) -> Iterator[None]:
        session.cluster.stopped.add(broker)
        led = [topic.id for topic in session.cluster.topics.values() if topic.replicas[0][0] == broker]
        for each in led:
            session._logs[each].elect()
        yield
        session.cluster.stopped.remove(broker)

    return stop

"""The records of topiarist on real brokers: commits, fences, contending runs, killed runs, another client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from support.kafka import records_suite, requests_suite
from support.kafka.kraft_fixture import KraftFixture
from support.kafka.records_process import TOPIC
from support.kafka.records_suite import committed, count_of
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.records.codec import IntentKind
from topiarist.model.access import KafkaAccess, RecordsTopic

globals().update(records_suite.SUITE | requests_suite.SUITE)


@pytest.fixture
def release(kraft_release: str) -> str:
    """Return the release of the brokers, for the tables of the suite."""
    return kraft_release


@pytest.fixture
def without_broker(kraft: KraftFixture) -> Callable[[int], AbstractContextManager[None]]:
    """Return a context in which a broker is suspended; afterwards all brokers are registered again."""

    @contextmanager
    def suspend(broker: int) -> Iterator[None]:
        kraft.kafka.pause(broker)
        try:
            yield
        finally:
            kraft.kafka.resume(broker)
            kraft.kafka.wait(lambda: broker in kraft.registered(), f"broker {broker} to be back")

    return suspend


@pytest.fixture
def session(kraft: KraftFixture) -> Iterator[Session]:
    """A session to the cluster."""
    opened = Session(KafkaAccess(kraft.kafka.bootstrap), 5.0)
    yield opened
    opened.close()


def start(
    kraft: KraftFixture, topic: RecordsTopic, owner: str, seconds: float, step: str = ""
) -> subprocess.Popen[str]:
    """Start a process that commits in a loop, with a short lease: up to its end for a process that kills itself."""
    tests = Path(__file__).parents[1]
    code = (
        "import sys; from topiarist.adapters.kafka_admin.records import transactions;"
        f"transactions.LEASE_S = 11.0; transactions.MARGIN_S = {0.0 if step else 10.0};"
        "from support.kafka.records_process import main; main(*sys.argv[1:])"
    )
    words = [kraft.kafka.bootstrap, topic.name, owner, str(seconds), *([step] if step else [])]
    search = os.pathsep.join([str(tests), os.environ.get("PYTHONPATH", "")])
    arguments = [sys.executable, "-c", code, *words]
    return subprocess.Popen(arguments, env=os.environ | {"PYTHONPATH": search}, stdout=subprocess.PIPE, text=True)


@pytest.mark.night(area="crash")
def test_contending_processes_lose_no_update(kraft: KraftFixture, session: Session, own: RecordsTopic) -> None:
    """Four processes count one record up: every number is written once, and the numbers of commits have no gap."""
    first = committed(session, own)
    began = count_of(first.topics.get(TOPIC))
    processes = [start(kraft, own, f"owner-{number}", 20) for number in range(4)]
    results = [json.loads(process.communicate(timeout=150)[0]) for process in processes]
    print(results)
    written = sorted(number for result in results for number in result["written"])
    last = committed(session, own)
    count = count_of(last.topics[TOPIC])
    assert len(written) > 1
    assert written == list(range(began + 1, count + 1))
    lost = sum(result["lost"] for result in results)
    # A run that lost may have written its intents, which the next run settles by another commit.
    assert 2 * len(written) <= last.number - first.number <= 2 * (len(written) + lost)


@pytest.mark.parametrize(
    "step", ["intents", *(pytest.param(each, marks=pytest.mark.night(area="crash")) for each in ("acquired", "fenced"))]
)
def test_a_killed_run_is_followed_by_the_next(
    kraft: KraftFixture, session: Session, own: RecordsTopic, step: str
) -> None:
    """kill -9: the next run waits for the lease if there is one, and finds the record without its intent."""
    before = committed(session, own)
    with start(kraft, own, "killed", 60, step) as process:
        assert process.wait(60) == -9
    after = committed(session, own)
    assert count_of(after.topics.get(TOPIC)) == count_of(before.topics.get(TOPIC))
    assert all(each.intent is None or each.intent.kind is IntentKind.GONE for each in after.topics.values())
    assert after.number - before.number == (0 if step == "acquired" else 2)  # intents, and what they became

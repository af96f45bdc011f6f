"""The records of topiarist on real brokers: commits, fences, contending runs, killed runs, another client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kafka.kraft import KraftCluster
from support.kafka.records_process import TOPIC
from support.kafka.records_suite import (
    committed,
    count_of,
    new_run,
    test_a_fenced_producer_stays_fenced,
    test_a_freeze_fences_a_writing_run_at_once,
    test_a_new_run_reads_what_was_committed,
    test_a_newer_run_fences_the_older,
    test_a_plan_reads_each_commit_that_was_answered,
    test_another_clients_open_transaction_blocks,
    test_ten_thousand_records_are_one_commit,
)
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.records.values import IntentKind
from topiarist.model.access import KafkaAccess

__all__ = [
    "test_a_fenced_producer_stays_fenced",
    "test_a_freeze_fences_a_writing_run_at_once",
    "test_a_new_run_reads_what_was_committed",
    "test_a_newer_run_fences_the_older",
    "test_a_plan_reads_each_commit_that_was_answered",
    "test_another_clients_open_transaction_blocks",
    "test_ten_thousand_records_are_one_commit",
]


@pytest.fixture(scope="module")
def kafka(kraft_release: str) -> Iterator[KraftCluster]:
    """Three brokers in three racks, for all tests of this file."""
    with KraftCluster(kraft_release, {1: "a", 2: "b", 3: "c"}) as cluster:
        yield cluster


@pytest.fixture
def session(kafka: KraftCluster) -> Iterator[Session]:
    """A session to the cluster."""
    opened = Session(KafkaAccess(kafka.bootstrap), 5.0)
    yield opened
    opened.close()


def start(
    kafka: KraftCluster, owner: str, seconds: float, step: str = "", lease: float = 11.0
) -> subprocess.Popen[str]:
    """Start a process that commits in a loop, with a short lease."""
    tests = Path(__file__).parents[1]
    code = (
        "import sys; from topiarist.adapters.kafka_admin.records import constants;"
        f"constants.LEASE_S = {lease}; from support.kafka.records_process import main; main(*sys.argv[1:])"
    )
    arguments = [sys.executable, "-c", code, kafka.bootstrap, owner, str(seconds), *([step] if step else [])]
    search = os.pathsep.join([str(tests), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(arguments, env=os.environ | {"PYTHONPATH": search}, stdout=subprocess.PIPE, text=True)


def test_contending_processes_lose_no_update(kafka: KraftCluster, session: Session) -> None:
    """Four processes count one record up: every number is written once, and the numbers of commits have no gap."""
    opener = new_run(session)
    opener.acquire(timeout=60)
    opener.commit({}, hold=False)  # an earlier test may have left the lock held
    first = committed(session)
    began = count_of(first.topics.get(TOPIC))
    processes = [start(kafka, f"owner-{number}", 20) for number in range(4)]
    results = [json.loads(process.communicate(timeout=150)[0]) for process in processes]
    print(results)
    written = sorted(number for result in results for number in result["written"])
    last = committed(session)
    count = count_of(last.topics[TOPIC])
    assert len(written) > 1
    assert written == list(range(began + 1, count + 1))
    lost = sum(result["lost"] for result in results)
    assert 2 * len(written) <= last.number - first.number <= 2 * len(written) + lost


@pytest.mark.parametrize("step", ["acquired", "intents", "fenced"])
def test_a_killed_run_is_followed_by_the_next(kafka: KraftCluster, session: Session, step: str) -> None:
    """kill -9: the next run waits for the lease if there is one, and finds the record without its intent."""
    before = committed(session)
    with start(kafka, "killed", 60, step, lease=11.0) as process:
        assert process.wait(60) == -9
    after = committed(session)
    assert count_of(after.topics.get(TOPIC)) == count_of(before.topics.get(TOPIC))
    assert all(each.intent is None or each.intent.kind is IntentKind.GONE for each in after.topics.values())
    assert after.number - before.number == (0 if step == "acquired" else 2)  # intents, and what they became

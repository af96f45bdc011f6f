"""Tests that brokers in memory and real brokers must both pass: a fake is trusted because it passes what they pass.

A module that imports ``SUITE`` has a fixture ``session``. Here are runs over the records; ``requests_suite`` has single
requests. Every test has topics of its own, so that all of them can share one cluster.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from topiarist.adapters.kafka_admin.records import codec, transactions
from topiarist.adapters.kafka_admin.records.codec import Claim, Records, TopicRecord
from topiarist.adapters.kafka_admin.records.run import ClusterView, RecordsRun
from topiarist.adapters.kafka_admin.records.transactions import SYSTEM_CLOCK, Clock, Fenced, Producer
from topiarist.adapters.own_values import encode_value
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import DEFAULT_RECORDS_TOPIC, RecordsTopic
from topiarist.model.state import AppliedSpec, Freeze, OwnershipRecord


def clock_of(session: Any) -> Clock:
    """Return the virtual clock of brokers in memory, or that of the system."""
    clock: Clock = getattr(session, "clock", SYSTEM_CLOCK)
    return clock


def new_run(
    session: Any, owner: str = "team", topic: RecordsTopic = DEFAULT_RECORDS_TOPIC, lock_timeout: float = 600.0
) -> RecordsRun:
    """Return a run for which no topic exists and the controller never changes."""
    view = ClusterView(dict.fromkeys, lambda: 1)
    return RecordsRun(session, owner, view, topic=topic, clock=clock_of(session), lock_timeout=lock_timeout)


def record(count: int) -> TopicRecord:
    """Return a record that a number identifies."""
    return TopicRecord(OwnershipRecord("team", applied=AppliedSpec(count, ())), "id")


def committed(session: Any, topic: RecordsTopic = DEFAULT_RECORDS_TOPIC) -> Records:
    """Return the records as a new run reads them, which lets the next one begin at once."""
    run = new_run(session, topic=topic)
    records = run.acquire()
    run.release()
    return records


def unique(name: str) -> str:
    """Return a name that no other test has."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def own() -> RecordsTopic:
    """Return a topic of records of the test."""
    return RecordsTopic(unique("records"), 3)


def count_of(record: TopicRecord | None) -> int:
    """Return the counter in a record; 0 without a record."""
    applied = record.record.applied if record and record.record else None
    return int(applied.partitions or 0) if applied else 0


def test_a_new_run_reads_what_was_committed(session: Any, own: RecordsTopic) -> None:
    """The first run makes the topic; a commit is seen by the next run, a large one and a deletion too."""
    run = new_run(session, topic=own)
    start = run.acquire().number
    run.commit({f"big-{number}": record(number + 1) for number in range(3000)}, hold=True)
    run.require_fence()
    run.require_fence()
    run.commit({f"big-{number}": None for number in range(1, 3000)}, hold=False)
    found = committed(session, own)
    assert found.number == start + 2
    assert [name for name in found.topics if name.startswith("big-")] == ["big-0"]
    assert found.meta is not None


def test_a_newer_run_fences_the_older(session: Any, own: RecordsTopic) -> None:
    """The older run may neither send nor commit; the records of the newer stay."""
    older, newer = new_run(session, topic=own), new_run(session, topic=own)
    older.acquire()
    newer._begin()  # as after the lease
    newer.commit({"a": record(1)}, hold=False)
    with pytest.raises(TopiaristError) as error:
        older.commit({"a": record(2)}, hold=True)
    assert error.value.reason is Reason.SESSION_LOST
    assert count_of(committed(session, own).topics["a"]) == 1


def test_claims_keep_the_order_of_the_log(session: Any, own: RecordsTopic) -> None:
    """Records without a transaction: a claim that is renewed keeps its place, one that was removed comes last."""
    run = new_run(session, topic=own)
    run._find_or_create()

    def claim(name: str, attempt: int) -> None:
        value = encode_value(Claim(name, "team", "host", 30_000, attempt))
        run._producer.write(codec.claim_key(name).encode(), value)

    claim("second", 1)
    claim("first", 1)
    claim("second", 2)
    assert [(each.run, each.attempt) for each in run.read().claims] == [("second", 2), ("first", 1)]
    run._producer.write(codec.claim_key("second").encode(), None)
    claim("second", 3)
    assert [each.run for each in run.read().claims] == ["first", "second"]


def test_a_run_that_begins_waits_for_a_live_one(session: Any, own: RecordsTopic) -> None:
    """A run that has acquired the records and written nothing is not fenced: the next one waits, and names it."""
    first, second = new_run(session, topic=own), new_run(session, "other", topic=own, lock_timeout=1)
    first.acquire()
    with pytest.raises(TopiaristError, match="team on") as error:
        second.acquire()
    assert error.value.reason is Reason.LOCKED
    first.commit({"a": record(1)}, hold=False)
    assert second.acquire().topics == {"a": record(1)}
    second.release()


def test_a_freeze_fences_a_writing_run_at_once(session: Any, own: RecordsTopic) -> None:
    """A freeze needs no lock; the run that holds it fails its next fence check; unfreezing lets runs write again."""
    run = new_run(session, topic=own)
    run.acquire()
    run.commit({"a": record(3)}, hold=True)
    run.require_fence()
    new_run(session, topic=own).set_freeze(Freeze("stop", "me", "now"), by="me", force=False)
    with pytest.raises(TopiaristError):
        run.require_fence()
    assert new_run(session, topic=own).read().gate == Freeze("stop", "me", "now")
    new_run(session, topic=own).set_freeze(None, by="me", force=False)


def test_another_clients_open_transaction_blocks(
    session: Any, own: RecordsTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction of another client blocks a run with the offset; when it ends, nothing is lost."""
    monkeypatch.setattr(transactions, "BLOCKED_PATIENCE_S", 1.0)
    new_run(session, topic=own).acquire()
    stranger = Producer(session, own.name, unique("another"), clock_of(session))
    stranger.init()
    stranger._add_partition()
    stranger._produce(next(stranger._batches({b"topic/foreign": b"{}"}))[0])
    with pytest.raises(TopiaristError) as error:
        new_run(session, topic=own)._begin()
    assert error.value.reason is Reason.RECORDS_BLOCKED
    stranger.init()  # aborts it
    run = new_run(session, topic=own)
    run._begin()
    assert "foreign" not in run._records.topics
    assert "foreign" not in run._records.errors


def test_a_plan_reads_each_commit_that_was_answered(session: Any, own: RecordsTopic) -> None:
    """Directly after a commit another reader sees it, 20 times."""
    for number in range(1, 21):
        run = new_run(session, topic=own)
        run.acquire()
        run.commit({"seen": record(number)}, hold=False)
        assert count_of(new_run(session, topic=own).read().topics["seen"]) == number


def test_ten_thousand_records_are_one_commit(session: Any, own: RecordsTopic) -> None:
    """A transaction with several batches is read whole; so is one that deletes nearly all of them."""
    run = new_run(session, topic=own)
    run.acquire()
    run.commit({f"many-{number}": record(number + 1) for number in range(10_000)}, hold=False)
    found = new_run(session, topic=own).read()
    assert sum(name.startswith("many-") for name in found.topics) == 10_000
    assert found.errors == {}
    run.acquire()
    run.commit({f"many-{number}": None for number in range(10_000)}, hold=False)
    assert not any(name.startswith("many-") for name in committed(session, own).topics)


def test_a_fenced_producer_stays_fenced(session: Any, own: RecordsTopic) -> None:
    """The fence check with the own id and epoch never takes the records back from a newer producer."""
    twice = [unique("two")] * 2
    older, newer = (Producer(session, own.name, transactional_id, clock_of(session)) for transactional_id in twice)
    older.init()
    older.require_fence()
    newer.init()
    for _ in range(2):
        with pytest.raises(Fenced):
            older.require_fence()
    newer.require_fence()


SUITE = {name: value for name, value in globals().items() if name.startswith("test_") or name == "own"}
"""The tests and their fixture by name."""

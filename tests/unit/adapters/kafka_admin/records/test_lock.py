"""The wait for the lock of another run, in virtual time."""

from __future__ import annotations

import pytest

from support.kafka.memory_records import MemoryBroker
from support.kafka.records_suite import new_run, record
from topiarist.adapters.kafka_admin.records import constants
from topiarist.adapters.kafka_admin.records.run import RecordsRun
from topiarist.adapters.kafka_admin.records.values import Intent, IntentKind, TopicRecord
from topiarist.errors import Reason, TopiaristError
from topiarist.model.state import Freeze, OwnershipRecord, TopicState


def hold(broker: MemoryBroker) -> None:
    """Leave the lock held, as a killed run does."""
    run = new_run(broker)
    run.acquire()
    run.commit({"a": record(1)}, hold=True)


def test_a_held_lock_is_taken_after_its_lease_and_read_once() -> None:
    """The next run polls the end of the topic, and reads the records again only when it has changed."""
    broker = MemoryBroker()
    hold(broker)
    began, calls = broker.now, len(broker.calls)
    new_run(broker).acquire()
    waited = broker.now - began
    assert constants.LEASE_S <= waited <= constants.LEASE_S + 3 * constants.MAX_LOCK_PAUSE_S
    assert broker.calls[calls:].count("Fetch") <= 2


def test_a_lock_that_is_renewed_is_waited_for_from_its_last_commit() -> None:
    """The holder commits ten seconds later: the wait begins anew."""
    broker = MemoryBroker()
    holder = new_run(broker)
    holder.acquire()
    holder.commit({"a": record(1)}, hold=True)
    began = broker.now

    def renew(_name: str, _number: int) -> None:
        if broker.now >= began + 10:
            broker.before = lambda name, number: None
            holder.commit({"a": record(2)}, hold=True)

    broker.before = renew
    new_run(broker).acquire()
    assert broker.now - began >= 10 + constants.LEASE_S


def test_a_lock_that_is_freed_is_taken_at_once() -> None:
    """The holder gives up the lock after ten seconds."""
    broker = MemoryBroker()
    holder = new_run(broker)
    holder.acquire()
    holder.commit({"a": record(1)}, hold=True)
    began = broker.now

    def free(_name: str, _number: int) -> None:
        if broker.now >= began + 10:
            broker.before = lambda name, number: None
            holder.release()

    broker.before = free
    new_run(broker).acquire()
    assert 10 <= broker.now - began <= 12


def test_a_lock_that_is_taken_between_wait_and_init_is_waited_for_after_it() -> None:
    """The other run can commit no more; requests that it has sent may still be carried out for its lease."""
    broker = MemoryBroker()
    hold(broker)
    new_run(broker).acquire()
    other = new_run(broker)
    other.acquire()
    other.commit({}, hold=False)

    def take(name: str, _number: int) -> None:
        if name == "InitProducerId":
            broker.before = lambda name, number: None
            hold(broker)

    broker.before = take
    began = broker.now
    new_run(broker).acquire()
    assert broker.now - began >= constants.LEASE_S


def test_a_time_limit_below_the_lease_names_the_wait_that_is_needed() -> None:
    """A run that may wait five seconds cannot take the lock of a killed run; its error has the run and the lease."""
    broker = MemoryBroker()
    hold(broker)
    with pytest.raises(TopiaristError, match="team on") as error:
        new_run(broker).acquire(timeout=5)
    assert error.value.reason is Reason.LOCKED
    assert error.value.hint
    assert "30 s" in error.value.hint


def test_a_freeze_keeps_the_lock_of_the_run_that_it_fences() -> None:
    """What the fenced run has sent may be carried out: the next run waits for its lease after the freeze ended."""
    broker = MemoryBroker()
    hold(broker)
    for freeze in (Freeze("stop", "me"), None):
        new_run(broker).set_freeze(freeze, by="me", force=False)
    began = broker.now
    new_run(broker).acquire()
    assert broker.now - began >= constants.LEASE_S


def test_a_chunk_that_takes_too_long_may_write_its_records() -> None:
    """Nothing more is sent after 20 s; the records of what was sent are written, unless another run has taken over."""
    broker = MemoryBroker()
    run = new_run(broker)
    run.acquire()
    run.commit({"a": record(1)}, hold=True)
    broker.now += constants.LEASE_S - constants.MARGIN_S
    for _ in range(2):
        with pytest.raises(TopiaristError):
            run.require_fence()
    run.commit({"a": record(2)}, hold=False)
    assert new_run(broker).read().topics == {"a": record(2)}


def test_a_creation_that_was_given_up_is_recognized_when_it_comes_late() -> None:
    """A killed run leaves the intent of a creation. The next run finds no topic, and puts back what it has read; then
    the creation is carried out late, and the run after it finds the owner.
    """
    broker = MemoryBroker()
    killed = new_run(broker)
    killed.acquire()
    intent = Intent(IntentKind.CREATE, OwnershipRecord("team"), ((1,),))
    killed.commit({"a": TopicRecord(None, None, intent)}, hold=True)
    second = new_run(broker)
    given_up = second.acquire().topics["a"]
    assert given_up.intent == intent._replace(kind=IntentKind.GONE)
    second.commit({"a": given_up}, hold=False)
    late = TopicState(name="a", identity="id", topic_id="id", replicas=((1,),))
    third = RecordsRun(broker, "team", look=lambda names: dict.fromkeys(names, late), clock=broker.clock)
    assert third.acquire().topics["a"] == TopicRecord(OwnershipRecord("team"), "id")

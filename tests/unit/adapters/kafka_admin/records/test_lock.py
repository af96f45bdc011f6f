"""The wait for the lock of another run, in virtual time."""

from __future__ import annotations

import itertools

import pytest

from support.kafka.memory_records import Fault, Killed, MemoryBroker
from support.kafka.records_suite import new_run, record
from topiarist.adapters.kafka_admin.records import transactions
from topiarist.adapters.kafka_admin.records.codec import Intent, IntentKind, TopicRecord
from topiarist.adapters.kafka_admin.records.run import ClusterView, RecordsRun
from topiarist.errors import Reason, TopiaristError
from topiarist.model.outcome import Result
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
    assert transactions.LEASE_S <= waited <= transactions.LEASE_S + 3 * transactions.MAX_LOCK_PAUSE_S
    assert broker.calls[calls:].count("Fetch") == 3  # the lock, the claims, and the whole read


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
    assert broker.now - began >= 10 + transactions.LEASE_S


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
    assert broker.now - began >= transactions.LEASE_S


def test_a_time_limit_below_the_lease_names_the_wait_that_is_needed() -> None:
    """A run that may wait five seconds cannot take the lock of a killed run; its error has the run and the lease."""
    broker = MemoryBroker()
    hold(broker)
    with pytest.raises(TopiaristError, match="team on") as error:
        new_run(broker, lock_timeout=5).acquire()
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
    assert broker.now - began >= transactions.LEASE_S


def test_a_chunk_that_takes_too_long_may_write_its_records() -> None:
    """Nothing more is sent after 20 s; the records of what was sent are written, unless another run has taken over."""
    broker = MemoryBroker()
    run = new_run(broker)
    run.acquire()
    run.commit({"a": record(1)}, hold=True)
    broker.now += transactions.LEASE_S - transactions.MARGIN_S
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
    third = RecordsRun(broker, "team", ClusterView(lambda names: dict.fromkeys(names, late)), clock=broker.clock)
    assert third.acquire().topics["a"] == TopicRecord(OwnershipRecord("team"), "id")


class Other:
    """Another run, which acquires the records while a first one waits for an answer, and commits five seconds later."""

    def __init__(self, broker: MemoryBroker, timeout: float) -> None:
        self.broker = broker
        self.run = new_run(broker, "other", lock_timeout=timeout)
        self.reason: Reason | None = None

    def begin_at(self, step: int) -> None:
        """Begin directly before the request with this number is carried out."""

        def begin(_name: str, _number: int) -> None:
            if len(self.broker.calls) == step:
                self.broker.before = lambda name, number: None
                self._begin()

        self.broker.calls.clear()
        self.broker.before = begin

    def _begin(self) -> None:
        try:
            self.run.acquire()
        except TopiaristError as error:
            self.reason = error.reason
            return
        until = self.broker.now + 5

        def commit(_name: str, _number: int) -> None:
            if self.broker.now >= until:
                self.broker.before = lambda name, number: None
                self.run.commit({"other": record(1)}, hold=False)

        self.broker.before = commit


def prepare() -> MemoryBroker:
    """Return brokers with the topic of records."""
    broker = MemoryBroker()
    broker.create_topic()
    return broker


def calls_of_acquire() -> list[str]:
    """Return the requests with which a run begins."""
    broker = prepare()
    new_run(broker).acquire()
    return broker.calls


CALLS = calls_of_acquire()
CLAIM, INIT = CALLS.index("Produce") + 1, CALLS.index("InitProducerId") + 1


@pytest.mark.parametrize("step", range(1, len(CALLS) + 1))
def test_of_two_runs_that_begin_at_once_one_waits(step: int) -> None:
    """At any request of a run that begins, another one begins: neither is taken over; the first claim counts."""
    broker = prepare()
    other, first = Other(broker, timeout=0), new_run(broker)
    other.begin_at(step)
    first.acquire()
    first.commit({"a": record(1)}, hold=False)
    assert (other.reason is Reason.LOCKED) == (step > CLAIM)
    assert new_run(broker).read().topics.keys() == ({"a"} if other.reason else {"a", "other"})


@pytest.mark.parametrize("step", range(CLAIM + 1, INIT))
def test_a_run_that_stood_still_claims_the_lock_anew(step: int) -> None:
    """A run stands still between its claim and the end of others until another one takes it for killed."""
    broker = prepare()
    other, first = Other(broker, timeout=40), new_run(broker)
    other.begin_at(step)
    first.acquire()
    first.commit({"a": record(1)}, hold=False)
    found = new_run(broker).read()
    assert found.topics.keys() == {"a", "other"}
    assert found.claims == ()


@pytest.mark.parametrize("request_name", ["Produce", "InitProducerId", "AddPartitionsToTxn"])
def test_the_claim_of_a_killed_run_is_waited_for_once(request_name: str) -> None:
    """A run is killed between its claim and its first commit: the next one waits for the lease and removes it."""
    number = 2 if request_name == "Produce" else 1
    broker = MemoryBroker({(request_name, number): Fault(is_done=True, kill=True)})
    with pytest.raises(Killed):
        hold(broker)
    broker.faults.clear()
    began = broker.now
    with pytest.raises(TopiaristError, match="team on") as error:
        new_run(broker, lock_timeout=5).acquire()
    assert (error.value.reason, round(broker.now - began)) == (Reason.LOCKED, 5)
    run = new_run(broker)
    began = broker.now
    run.acquire()
    assert transactions.LEASE_S <= broker.now - began <= transactions.LEASE_S + 3 * transactions.MAX_LOCK_PAUSE_S
    run.commit({"a": record(2)}, hold=False)
    assert new_run(broker).read().claims == ()


def test_a_run_that_waits_for_late_requests_renews_its_claim() -> None:
    """The run after a killed one waits for 70 s, and shows all other runs in time that it is live."""
    broker = MemoryBroker()
    killed = new_run(broker)
    killed.acquire()
    intent = Intent(IntentKind.CHANGE, OwnershipRecord("team"), config={"a": "1"})
    killed.commit({"a": TopicRecord(OwnershipRecord("team"), "id", intent)}, hold=True)
    topic = TopicState(name="a", identity="id", topic_id="id", replicas=((1,),))
    times = list[float]()
    broker.before = lambda name, number: times.append(broker.now) if name == "Produce" else None
    run = RecordsRun(broker, "team", ClusterView(lambda names: dict.fromkeys(names, topic)), clock=broker.clock)
    run.acquire()
    assert times[-1] - times[0] >= transactions.LATE_WRITE_S - 1
    assert (
        max(later - earlier for earlier, later in itertools.pairwise(times))
        < transactions.LEASE_S - transactions.MARGIN_S
    )


@pytest.mark.parametrize("is_held", [False, True])
def test_a_run_with_much_to_compare_is_not_taken_over(is_held: bool) -> None:
    """A run that has acquired the records, and renews its claim or its lock each ten seconds, is waited for."""
    broker = MemoryBroker()
    run = new_run(broker)
    run.acquire()
    if is_held:
        run.commit({}, hold=True)
    times = [broker.now]

    def renew(_name: str, _number: int) -> None:
        if broker.now >= times[-1] + 10:
            times.append(broker.now)
            run.keep()

    broker.before = renew
    with pytest.raises(TopiaristError) as error:
        new_run(broker, lock_timeout=2 * transactions.LEASE_S).acquire()
    assert error.value.reason is Reason.LOCKED
    broker.before = lambda name, number: None
    run.commit({"a": record(1)}, hold=False)


def test_an_unfreeze_without_a_freeze_takes_nothing_over() -> None:
    """There is nothing to change, so a run that is writing goes on."""
    broker = MemoryBroker()
    run = new_run(broker)
    run.acquire()
    run.commit({"a": record(1)}, hold=True)
    assert new_run(broker).set_freeze(None, by="me", force=False).result is Result.UNCHANGED
    run.commit({"a": record(2)}, hold=False)


def test_a_run_that_gave_up_the_lock_acquires_it_again() -> None:
    """Other runs may write meanwhile: a commit without the lock is refused before anything is sent."""
    broker = MemoryBroker()
    run = new_run(broker)
    run.acquire()
    run.commit({"a": record(1)}, hold=False)
    broker.calls.clear()
    with pytest.raises(TopiaristError, match="not acquired"):
        run.commit({"a": record(2)}, hold=True)
    assert broker.calls == []
    run.acquire()
    run.release()
    with pytest.raises(TopiaristError, match="not acquired"):
        run.commit({"a": record(2)}, hold=True)
    assert new_run(broker).read().claims == ()


def test_a_lock_that_is_taken_between_wait_and_init_is_waited_for_in_time() -> None:
    """The time limit counts there too, and the error names the run that took the lock."""
    broker = MemoryBroker()

    def take(name: str, _number: int) -> None:
        if name == "InitProducerId":
            broker.before = lambda name, number: None
            run = new_run(broker, "taker")
            run._begin()
            run.commit({}, hold=True)

    broker.before = take
    with pytest.raises(TopiaristError, match="taker on") as error:
        new_run(broker, lock_timeout=5).acquire()
    assert error.value.reason is Reason.LOCKED
    assert broker.now <= 6

"""One run over the records, in virtual time: what it refuses, what it compares, and how it names its end."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from support.kafka.memory_records import RECORDS, Fault, Killed, MemoryBroker
from support.kafka.records_suite import SUITE, new_run, record
from topiarist.adapters.kafka_admin.connection.connection import NO_ID, Disconnected
from topiarist.adapters.kafka_admin.records import codec, transactions
from topiarist.adapters.kafka_admin.records.codec import Intent, IntentKind, Moved, Records, TopicRecord
from topiarist.adapters.kafka_admin.records.run import (
    HINT_RUN_AGAIN,
    WARNING_ZOOKEEPER_ENDED,
    ClusterView,
    LeftRecordsCheck,
    RecordsRun,
    _not_begun,
    check_left_records,
)
from topiarist.adapters.kafka_admin.records.topic import HINT_NO_RECORDS
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import BatchRecord, ReplicaMove
from topiarist.model.outcome import FreezeResult, Result
from topiarist.model.state import MOVED, Freeze, LeftRecords, OwnershipRecord, TopicState

ADA, BOB = Freeze("incident", "ada"), Freeze("release", "bob")


def reason_of(call: Callable[[], object]) -> tuple[Reason, str]:
    """Return the reason and the message of the error that a call raises."""
    with pytest.raises(TopiaristError) as caught:
        call()
    return caught.value.reason, caught.value.message


@pytest.fixture
def broker() -> MemoryBroker:
    """Return brokers without topics."""
    return MemoryBroker()


def hint_of(call: Callable[[], object]) -> str:
    """Return the hint of the error that a call raises."""
    with pytest.raises(TopiaristError) as caught:
        call()
    return caught.value.hint


def holding(broker: MemoryBroker) -> RecordsRun:
    """Return a run that holds the lock, as a killed one leaves it."""
    run = new_run(broker)
    run.acquire()
    run.commit({"a": record(1)}, hold=True)
    return run


def comparing(
    broker: MemoryBroker, topic: TopicState | None, read_epoch: Callable[[], int | None] = lambda: None
) -> RecordsRun:
    """Return a run that finds this topic under each name."""
    view = ClusterView(lambda names: dict.fromkeys(names, topic), read_epoch)
    return RecordsRun(broker, "team", view, clock=broker.clock)


def leave_intent(broker: MemoryBroker, kind: IntentKind = IntentKind.CHANGE) -> TopicState:
    """Leave the intent of a change or creation, as a killed run does, and return the topic without the change."""
    killed = new_run(broker)
    killed.acquire()
    if kind is IntentKind.CREATE:
        killed.commit({"a": TopicRecord(None, None, Intent(kind, OwnershipRecord("team"), ((1,),)))}, hold=True)
    else:
        intent = Intent(kind, OwnershipRecord("team"), config={"a": "1"})
        killed.commit({"a": TopicRecord(OwnershipRecord("team"), "id", intent)}, hold=True)
    return TopicState(name="a", identity="id", topic_id="id", replicas=((1,),))


def test_a_cluster_without_records(broker: MemoryBroker) -> None:
    """A read creates no topic: there is none afterwards either."""
    run = new_run(broker)
    assert (run.read(), run.find(), run.topic_ids(), run.number) == (Records(), None, {}, 0)
    assert RECORDS not in broker.cluster.topics
    assert run.topic_name == RECORDS
    run.acquire()
    assert run.topic_ids() == {RECORDS: str(run.find() and run.find().topic_id)}  # type: ignore[union-attr]


def test_the_name_of_a_run(broker: MemoryBroker) -> None:
    """It begins with the owner, and no other run has the same."""
    names = [new_run(broker).run for _ in range(2)]
    assert all(re.fullmatch("team-[0-9a-f]{12}", name) for name in names)
    assert names[0] != names[1]


def test_the_number_of_the_last_commit(broker: MemoryBroker) -> None:
    """It rises by one with each commit of any run."""
    run = holding(broker)
    assert run.number == 1
    run.commit({}, hold=False)
    other = new_run(broker)
    assert (run.number, other.acquire().number, other.number) == (2, 2, 2)


def test_nothing_is_sent_without_the_lock(broker: MemoryBroker) -> None:
    """A run that has acquired the records holds the lock only after its intents; before, an Admin request is refused.

    The run ends with it: every later call raises the same error.
    """
    run = new_run(broker)
    assert reason_of(run.require_fence) == (Reason.SESSION_LOST, "the records were not acquired")
    assert hint_of(run.require_fence) == HINT_RUN_AGAIN
    run.acquire()
    reason, message = reason_of(run.require_fence)
    assert (reason, message) == (Reason.SESSION_LOST, "this run has lost the records: the lock is not held")
    assert reason_of(lambda: run.commit({}, hold=True)) == (reason, message)
    assert hint_of(run.require_fence) == HINT_RUN_AGAIN


def test_a_record_that_cannot_be_read_is_not_replaced(broker: MemoryBroker) -> None:
    """The run goes on with all others."""
    run = holding(broker)
    run._producer.commit({f"{codec.TOPIC_PREFIX}{name}".encode(): b"{" for name in ("bad", "worse")})
    run.commit({}, hold=False)
    second = new_run(broker)
    assert second.acquire().errors.keys() == {"bad", "worse"}
    assert reason_of(lambda: second.commit({"b": record(1), "worse": None, "bad": None}, hold=True)) == (
        Reason.UNREADABLE,
        "the record of bad cannot be read, so it is not replaced",
    )
    second.commit({"b": record(1)}, hold=False)
    assert new_run(broker).read().topics == {"a": record(1), "b": record(1)}


def test_records_that_came_from_zookeeper(broker: MemoryBroker) -> None:
    """They and the freeze that was there are one commit, after which the lock is free."""
    run = new_run(broker)
    run.acquire()
    run.commit_moved({"m": record(4)}, Moved("/kafka", 1), ADA)
    found = new_run(broker).read()
    assert (found.topics, found.moved, found.gate) == ({"m": record(4)}, Moved("/kafka", 1, ()), ADA)
    assert (found.number, found.lock.run) == (1, None)


@pytest.mark.parametrize("ignore_freeze", [False, True])
def test_a_frozen_cluster(broker: MemoryBroker, ignore_freeze: bool) -> None:
    """A run that changes topics does not begin, and leaves no claim; one that writes records alone does."""
    new_run(broker).set_freeze(ADA, by="ada", force=False)
    run = new_run(broker)
    if ignore_freeze:
        assert run.acquire(ignore_freeze=True).gate == ADA
        return
    assert reason_of(run.acquire) == (Reason.FROZEN, f"the cluster is {ADA}")
    assert hint_of(new_run(broker).acquire) == "topiarist unfreeze ends the freeze"
    assert new_run(broker).read().claims == ()
    assert reason_of(lambda: run.commit({}, hold=True))[0] is Reason.FROZEN


@pytest.mark.parametrize(
    ("current", "wanted", "by", "force", "result"),
    [
        (None, ADA, "ada", False, Result.DONE),
        (None, None, "ada", False, Result.UNCHANGED),
        (ADA, ADA, "ada", False, Result.UNCHANGED),
        (ADA, ADA._replace(since="2030-01-01T00:00:00Z"), "ada", False, Result.UNCHANGED),
        (ADA, Freeze("other", "ada"), "ada", False, Result.DONE),
        (ADA, ADA._replace(by="bob"), "bob", False, Result.REFUSED),
        (ADA, BOB, "bob", False, Result.REFUSED),
        (ADA, BOB, "bob", True, Result.DONE),
        (ADA, None, "bob", False, Result.REFUSED),
        (ADA, None, "bob", True, Result.DONE),
        (ADA, None, "ada", False, Result.DONE),
    ],
)
def test_a_freeze(
    broker: MemoryBroker, current: Freeze | None, wanted: Freeze | None, by: str, force: bool, result: Result
) -> None:
    """The freeze of another user is changed only by force; the result has the freeze that was there before."""
    if current:
        new_run(broker).set_freeze(current, by=current.by, force=False)
    number = new_run(broker).read().number
    assert new_run(broker).set_freeze(wanted, by=by, force=force) == FreezeResult(result, current)
    found = new_run(broker).read()
    assert found.gate == (wanted if result is Result.DONE else current)
    assert found.number == number + (result is Result.DONE)


def test_a_freeze_that_is_fenced_again_and_again(broker: MemoryBroker) -> None:
    """Its pauses grow to four seconds at most, half of it here, and it gives up in the end."""
    pauses: list[float] = []
    sleep = broker.clock.sleep

    def note(seconds: float) -> None:
        pauses.append(seconds)
        sleep(seconds)

    broker.create_topic()
    broker.clock = broker.clock._replace(sleep=note)
    broker.always = lambda name, now: 90 if name == "AddPartitionsToTxn" else None
    found = reason_of(lambda: new_run(broker).set_freeze(ADA, by="ada", force=False))
    assert found == (Reason.STATE_CONFLICT, "other runs took the records ten times in a row")
    assert broker.calls.count("AddPartitionsToTxn") == 9
    assert pauses == [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.0]
    assert hint_of(lambda: new_run(broker).set_freeze(ADA, by="ada", force=False)) == "run again"


@pytest.mark.parametrize(("is_stopped", "least", "most"), [(False, 20, 25), (True, 0, 1)])
def test_a_begin_that_is_fenced_again_and_again(
    broker: MemoryBroker, is_stopped: bool, least: float, most: float
) -> None:
    """It ends with the time for the lock, or when the run is stopped; its pauses grow to four seconds."""
    come_and_go(broker)
    broker.always = lambda name, now: 90 if name == "InitProducerId" else None
    began = broker.now
    run = new_run(broker, lock_timeout=20)
    assert reason_of(lambda: run.acquire(lambda: is_stopped)) == (
        Reason.LOCKED,
        "other runs took the records: PRODUCER_FENCED (90)",
    )
    assert least <= broker.now - began <= most
    assert 1 <= broker.calls.count("InitProducerId") - 1 <= 20


WRITE, BEGIN = f"cannot write records to {RECORDS}", "cannot begin to write records"
POLICY, GRANT = "POLICY_VIOLATION (44)", "grant it with kafka-acls"
LACKS = f"me lacks Write on the topic {RECORDS} (TOPIC_AUTHORIZATION_FAILED)"
LACKS_ID = "me lacks Write on the transactional id topiarist (TRANSACTIONAL_ID_AUTHORIZATION_FAILED)"
UNSUPPORTED = "the brokers do not support it (UNSUPPORTED_VERSION (35))"
TOO_FEW = "NOT_ENOUGH_REPLICAS (19): fewer replicas are in sync than min.insync.replicas demands"
LEFT = f"the topic {RECORDS}, made for it, stays empty: it does no harm, and may be deleted"
DELETED = f"the topic {RECORDS}, made for it, was deleted again"
LATER, BACK = f"the records cannot be acquired: {BEGIN}", "run again when all brokers are back"


@pytest.mark.parametrize(
    ("codes", "reason", "message", "hint", "is_left"),
    [
        ({"Produce": 44}, Reason.RECORDS_REFUSED, f"{WRITE}: {POLICY}; {DELETED}", HINT_NO_RECORDS, False),
        ({"Produce": 29}, Reason.NO_PERMISSION, f"{WRITE}: {LACKS}; {DELETED}", GRANT, False),
        (
            {"Produce": 44, "DeleteTopics": 29},
            Reason.RECORDS_REFUSED,
            f"{WRITE}: {POLICY}; {LEFT}",
            HINT_NO_RECORDS,
            True,
        ),
        (
            {"AddPartitionsToTxn": 44},
            Reason.RECORDS_REFUSED,
            f"cannot begin a transaction: {POLICY}; {DELETED}",
            HINT_NO_RECORDS,
            False,
        ),
        ({"EndTxn": 29}, Reason.NO_PERMISSION, f"cannot commit records: {LACKS}; {DELETED}", GRANT, False),
        ({"Produce": 19}, Reason.UNREACHABLE, f"{WRITE}: the brokers do not take it for 60 s ({TOO_FEW})", BACK, True),
        ({"InitProducerId": 53}, Reason.NO_PERMISSION, f"{BEGIN}: {LACKS_ID}", GRANT, False),
        ({"InitProducerId": 35}, Reason.PREREQUISITE_MISSING, f"{BEGIN}: {UNSUPPORTED}", HINT_NO_RECORDS, False),
        ({"InitProducerId": 42}, Reason.RECORDS_REFUSED, f"{BEGIN}: INVALID_REQUEST (42)", HINT_NO_RECORDS, False),
        ({"InitProducerId": -1}, Reason.UNREACHABLE, f"{LATER}: UNKNOWN_SERVER_ERROR (-1)", "run again", False),
    ],
)
def test_a_first_write_that_fails(
    broker: MemoryBroker, codes: dict[str, int], reason: Reason, message: str, hint: str, is_left: bool
) -> None:
    """A refusal that lasts leaves no topic behind, or says so; one that may pass keeps it for the next run."""
    broker.always = lambda name, now: codes.get(name)
    run = new_run(broker)

    def write() -> None:
        run.acquire()
        run.commit({"a": record(1)}, hold=True)

    with pytest.raises(TopiaristError) as caught:
        write()
    assert (caught.value.reason, caught.value.message, caught.value.hint) == (reason, message, hint)
    assert (RECORDS in broker.cluster.topics) is is_left
    assert reason_of(lambda: run.commit({}, hold=True))[0] in (reason, Reason.SESSION_LOST)


def test_a_topic_that_another_run_uses_is_not_deleted(broker: MemoryBroker) -> None:
    """The run that has made it fails, and another one has written meanwhile."""
    run = new_run(broker)
    run.acquire()
    come_and_go(broker)
    broker.always = lambda name, now: 44 if name == "AddPartitionsToTxn" else None
    assert "made for it" not in reason_of(lambda: run.commit({"a": record(1)}, hold=True))[1]
    assert RECORDS in broker.cluster.topics


def test_a_topic_that_another_run_makes_meanwhile(broker: MemoryBroker) -> None:
    """Its runs are not fenced by the first question: this one claims the lock first, as over any topic."""

    def make(name: str, _number: int) -> None:
        if name == "Metadata" and broker.calls.count("Metadata") == 2:
            broker.before = lambda name, number: None
            broker.create_topic()
            broker.catch_up()

    broker.before = make
    new_run(broker).acquire()
    assert broker.calls.index("Produce") < broker.calls.index("InitProducerId")


def freeze(broker: MemoryBroker) -> None:
    """Freeze the cluster."""
    new_run(broker, "ada").set_freeze(ADA, by="ada", force=True)


def take_over(broker: MemoryBroker) -> None:
    """Hold the lock as another run, after the lease of this one."""
    other = new_run(broker, "other")
    other.acquire()
    other.commit({}, hold=True)


def come_and_go(broker: MemoryBroker) -> None:
    """Commit as another run, and end."""
    other = new_run(broker, "other")
    other.acquire()
    other.commit({}, hold=False)


def fence(broker: MemoryBroker) -> None:
    """Fence a run without a commit, as a coordinator does after a timeout."""
    new_run(broker)._producer.init()


@pytest.mark.parametrize(
    ("cause", "reason", "words"),
    [
        (freeze, Reason.FROZEN, f"the cluster is {ADA}"),
        (take_over, Reason.SESSION_LOST, "another run has taken over: other on"),
        (come_and_go, Reason.SESSION_LOST, "another run has taken over, and ended"),
        (fence, Reason.SESSION_LOST, "the brokers ended its transaction after 10 s, or another run has taken over"),
    ],
)
def test_a_run_that_was_fenced_does_not_go_on(
    broker: MemoryBroker, cause: Callable[[MemoryBroker], None], reason: Reason, words: str
) -> None:
    """Neither a request nor a record follows, and the error names the cause as far as the records show it."""
    for call in (lambda run: run.require_fence(), lambda run: run.commit({"b": record(2)}, hold=True)):
        broker = MemoryBroker()
        run = holding(broker)
        cause(broker)
        began = broker.now
        found, message = reason_of(lambda call=call, run=run: call(run))  # type: ignore[misc]
        assert (found, words in message) == (reason, True), message
        assert (broker.now - began < transactions.FREEZE_COMMIT_S) is (cause is freeze)
        assert reason_of(lambda run=run: run.commit({}, hold=False))[0] is reason  # type: ignore[misc]
        run.release()
        assert "b" not in new_run(broker).read().topics


def test_a_run_that_was_fenced_and_reads_nothing(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers that do not answer afterwards do not hide that the run has ended."""
    run = holding(broker)
    fence(broker)

    def lose() -> Records:
        raise Disconnected("the answer was lost", was_sent=True)

    monkeypatch.setattr(run, "read", lose)
    reason, message = reason_of(run.require_fence)
    assert reason is Reason.SESSION_LOST
    assert "the brokers ended its transaction after 10 s, or another run has taken over (" in message


@pytest.mark.parametrize("hold", [True, False])
def test_a_commit_with_a_lost_answer(broker: MemoryBroker, hold: bool) -> None:
    """The request is repeated, or the records show that the commit was made: the run goes on."""
    run = holding(broker)
    broker.faults = {("EndTxn", 2): Fault(is_done=True)}
    run.commit({"b": record(2)}, hold=hold)
    assert run.number == 2
    assert new_run(broker).read().topics == {"a": record(1), "b": record(2)}


def test_a_commit_that_was_not_made(broker: MemoryBroker) -> None:
    """Its transaction is aborted when no end arrives in time; the run ends, and says that nothing was written."""
    run = holding(broker)
    broker.faults = {("EndTxn", number): Fault() for number in range(2, 5000)}
    reason, message = reason_of(lambda: run.commit({"b": record(2)}, hold=True))
    assert (reason, message.partition(":")[0]) == (Reason.UNREACHABLE, "the records were not written")
    assert reason_of(run.require_fence) == (reason, message)
    assert hint_of(run.require_fence) == HINT_RUN_AGAIN
    broker.faults.clear()
    assert new_run(broker).read().topics == {"a": record(1)}


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_topic_of_records_that_was_recreated_ends_the_run(broker: MemoryBroker, is_deleted: bool) -> None:
    """Its id is compared after each commit, and before the next request; a run that has seen it does not ask again."""
    run = holding(broker)
    run.require_fence()
    run.commit({"a": record(2)}, hold=True)
    run.note_look(None, 1)
    broker.calls.clear()
    run.require_fence()
    assert "Metadata" not in broker.calls
    run.commit({"a": record(3)}, hold=True)
    if is_deleted:
        del broker.cluster.topics[RECORDS]
        broker.catch_up()
    else:
        broker.delete_topic()
    assert reason_of(run.require_fence)[0] is Reason.RECORDS_LOST
    assert reason_of(lambda: run.commit({}, hold=False))[0] is Reason.RECORDS_LOST


def test_records_that_kafka_deletes_end_the_run(broker: MemoryBroker) -> None:
    """A look that shows another cleanup policy is enough: the brokers are asked, and nothing more is sent."""
    run = holding(broker)
    broker.cluster.topics[RECORDS].config["cleanup.policy"] = "delete"
    run.require_fence()
    run.note_look({"cleanup.policy": "delete"}, 1)
    assert reason_of(run.require_fence)[0] is Reason.RECORDS_LOST


def test_nothing_is_committed_to_a_topic_that_was_recreated(broker: MemoryBroker) -> None:
    """A commit compares the id itself if no Admin request has led to that since the last one."""
    run = holding(broker)
    broker.delete_topic()
    broker.calls.clear()
    assert reason_of(lambda: run.commit({"a": record(2)}, hold=True))[0] is Reason.RECORDS_LOST
    assert "Produce" not in broker.calls


def test_an_error_with_a_remedy_keeps_it(broker: MemoryBroker) -> None:
    """Brokers without topic ids need another version, whatever becomes of the records."""
    broker.create_topic()
    broker.cluster.topics[RECORDS] = dataclasses.replace(broker.cluster.topics[RECORDS], id=NO_ID)
    broker.catch_up()
    assert hint_of(new_run(broker).acquire).startswith("topiarist needs brokers with topic ids")


@pytest.mark.parametrize(
    ("config", "is_lost"),
    [({"cleanup.policy": "compact"}, False), ({"cleanup.policy": "delete"}, True), ({}, True), (None, True)],
)
def test_overrides_that_were_read_anyway(broker: MemoryBroker, config: dict[str, str] | None, is_lost: bool) -> None:
    """They prove that Kafka keeps all records; without that the brokers are asked, here after the policy changed."""
    new_run(broker).acquire()
    broker.cluster.topics[RECORDS].config["cleanup.policy"] = "delete"
    broker.catch_up()
    run = new_run(broker)
    if is_lost:
        assert reason_of(lambda: run.check_config(config))[0] is Reason.RECORDS_LOST
    else:
        run.check_config(config)


def test_the_epoch_of_the_controller_at_the_intents(broker: MemoryBroker) -> None:
    """It is the one that was read a moment ago, else that of now; a lock that is given up has none."""
    asked: list[int] = []

    def ask() -> int:
        asked.append(8)
        return 8

    run = comparing(broker, None, ask)
    run.acquire()
    run.commit({}, hold=True)
    assert (new_run(broker).read().lock.leader_epoch, asked) == (8, [8])
    run.assume_controller(5)
    run.commit({}, hold=True)
    assert (new_run(broker).read().lock.leader_epoch, asked) == (5, [8])
    run.note_look(None, 6)
    run.commit({}, hold=True)
    assert (new_run(broker).read().lock.leader_epoch, asked) == (6, [8])
    run.commit({}, hold=False)
    assert new_run(broker).read().lock == replace(new_run(broker).read().lock, run=None, leader_epoch=None)


@pytest.mark.parametrize(
    ("epoch", "answer_s", "waits"), [(1, 0.0, False), (1, 1.0, False), (1, 1.1, True), (2, 0.0, True), (None, 0, True)]
)
def test_a_request_that_may_be_carried_out_late(
    broker: MemoryBroker, epoch: int | None, answer_s: float, waits: bool
) -> None:
    """It is waited for, unless the controller of the intents answers at once: then no request waits for another one."""
    topic = leave_intent(broker)

    def answer() -> int | None:
        broker.now += answer_s
        return epoch

    began = broker.now
    comparing(broker, topic, answer).acquire()
    assert (broker.now - began >= transactions.LEASE_S + transactions.LATE_WRITE_S) is waits
    assert broker.now - began < transactions.LEASE_S + transactions.LATE_WRITE_S * waits + answer_s + 3


@pytest.mark.parametrize("seconds", [0.1, 0.5, 1.3])
def test_late_requests_are_waited_for_as_long_as_needed(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """The last pause is no longer than what is left."""
    run = holding(broker)
    monkeypatch.setattr(transactions, "LATE_WRITE_S", seconds)
    began = broker.now
    run._wait_for_late_writes(lambda: False)
    assert broker.now - began == pytest.approx(seconds, abs=0.001)
    assert new_run(broker).read().topics["a"].intent is None


def test_a_wait_for_late_requests_that_is_stopped(broker: MemoryBroker) -> None:
    """The run ends at once, and leaves the intents and no claim."""
    run = comparing(broker, leave_intent(broker))
    until = broker.now + transactions.LEASE_S + 10
    reason, message = reason_of(lambda: run.acquire(stop=lambda: broker.now >= until))
    assert (reason, message) == (Reason.LOCKED, "stopped while another run's requests may be carried out")
    assert broker.now <= until + 1
    found = new_run(broker).read()
    assert (found.topics["a"].intent is not None, found.claims) == (True, ())


# The wait for the lock of another run, in virtual time.


def test_a_held_lock_is_taken_after_its_lease_and_read_once(broker: MemoryBroker) -> None:
    """The next run polls the end of the topic, and reads the records again only when it has changed."""
    holding(broker)
    began, calls = broker.now, len(broker.calls)
    new_run(broker).acquire()
    waited = broker.now - began
    assert transactions.LEASE_S <= waited <= transactions.LEASE_S + 3 * transactions.MAX_LOCK_PAUSE_S
    assert broker.calls[calls:].count("Fetch") == 3  # the lock, the claims, and the whole read


@pytest.mark.parametrize(
    ("act", "least", "most"),
    [
        (
            lambda holder: holder.commit({"a": record(2)}, hold=True),
            10 + transactions.LEASE_S,
            10 + 2 * transactions.LEASE_S,
        ),
        (lambda holder: holder.release(), 10, 12),
    ],
    ids=["renewed", "freed"],
)
def test_a_change_of_the_lock_is_seen_while_it_is_waited_for(
    act: Callable[[Any], None], least: float, most: float
) -> None:
    """The holder commits after ten seconds, and the wait begins anew; a lock that it gives up is taken at once."""
    broker = MemoryBroker()
    holder = holding(broker)
    began = broker.now

    def change(_name: str, _number: int) -> None:
        if broker.now >= began + 10:
            broker.before = lambda name, number: None
            act(holder)

    broker.before = change
    new_run(broker).acquire()
    assert least <= broker.now - began <= most


def test_a_lock_that_is_taken_between_wait_and_init_is_waited_for_after_it(broker: MemoryBroker) -> None:
    """The other run can commit no more; requests that it has sent may still be carried out for its lease."""
    holding(broker)
    new_run(broker).acquire()
    other = new_run(broker)
    other.acquire()
    other.commit({}, hold=False)

    def take(name: str, _number: int) -> None:
        if name == "InitProducerId":
            broker.before = lambda name, number: None
            holding(broker)

    broker.before = take
    began = broker.now
    new_run(broker).acquire()
    assert broker.now - began >= transactions.LEASE_S


def test_a_freeze_keeps_the_lock_of_the_run_that_it_fences(broker: MemoryBroker) -> None:
    """What the fenced run has sent may be carried out: the next run waits for its lease after the freeze ended."""
    holding(broker)
    for freeze in (Freeze("stop", "me"), None):
        new_run(broker).set_freeze(freeze, by="me", force=False)
    began = broker.now
    new_run(broker).acquire()
    assert broker.now - began >= transactions.LEASE_S


def test_a_chunk_that_takes_too_long_may_write_its_records(broker: MemoryBroker) -> None:
    """Nothing more is sent after 20 s; the records of what was sent are written, unless another run has taken over."""
    run = holding(broker)
    broker.now += transactions.LEASE_S - transactions.MARGIN_S
    for _ in range(2):
        reason, message = reason_of(run.require_fence)
        assert (reason, message) == (
            Reason.SESSION_LOST,
            "a chunk took longer than 20 s, so nothing more is sent",
        )
        assert hint_of(run.require_fence) == HINT_RUN_AGAIN
    run.commit({"a": record(2)}, hold=False)
    assert new_run(broker).read().topics == {"a": record(2)}


def test_a_creation_that_was_given_up_is_recognized_when_it_comes_late(broker: MemoryBroker) -> None:
    """A killed run leaves the intent of a creation. The next run finds no topic, and puts back what it has read; then
    the creation is carried out late, and the run after it finds the owner.
    """
    late = leave_intent(broker, IntentKind.CREATE)
    second = new_run(broker)
    given_up = second.acquire().topics["a"]
    assert given_up.intent == Intent(IntentKind.GONE, OwnershipRecord("team"), ((1,),))
    second.commit({"a": given_up}, hold=False)
    assert comparing(broker, late).acquire().topics["a"] == TopicRecord(OwnershipRecord("team"), "id")


def test_a_creation_that_cannot_be_carried_out_any_more_leaves_no_record(broker: MemoryBroker) -> None:
    """After the wait for late requests there is neither the topic nor an owner."""
    leave_intent(broker, IntentKind.CREATE)
    other = comparing(broker, None, lambda: 2)
    assert other.acquire().topics == new_run(broker).read().topics == {}


def test_records_of_an_unfinished_run_are_returned_with_all_others(broker: MemoryBroker) -> None:
    """An intent becomes what its topic shows; a record without an intent, and a creation in doubt, are as they were."""
    run = holding(broker)
    change = Intent(IntentKind.CHANGE, OwnershipRecord("team", ("a",)), config={"a": "1"})
    deletion = Intent(IntentKind.DELETE, OwnershipRecord("team", deleted=True))
    before = OwnershipRecord("team")
    changed, gone = TopicRecord(before, "id", change), TopicRecord(before, "id", deletion)
    run.commit({"changed": changed, "gone": gone}, hold=True)
    topic = TopicState(name="changed", identity="id", topic_id="id", replicas=((1,),), config={"a": "1"})
    view = ClusterView(lambda names: {name: topic if name == "changed" else None for name in names})
    found = RecordsRun(broker, "team", view, clock=broker.clock).acquire().topics
    assert found == {
        "a": record(1),
        "changed": TopicRecord(OwnershipRecord("team", ("a",)), "id"),
        "gone": TopicRecord(OwnershipRecord("team", deleted=True)),
    }


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


def calls_of_acquire() -> list[str]:
    """Return the requests with which a run begins."""
    broker = MemoryBroker()
    broker.create_topic()
    new_run(broker).acquire()
    return broker.calls


CALLS = calls_of_acquire()
CLAIM, INIT = CALLS.index("Produce") + 1, CALLS.index("InitProducerId") + 1


@pytest.mark.parametrize("step", range(1, len(CALLS) + 1))
def test_of_two_runs_that_begin_at_once_one_waits(broker: MemoryBroker, step: int) -> None:
    """At any request of a run that begins, another one begins: neither is taken over; the first claim counts."""
    broker.create_topic()
    other, first = Other(broker, timeout=0), new_run(broker)
    other.begin_at(step)
    first.acquire()
    first.commit({"a": record(1)}, hold=False)
    assert (other.reason is Reason.LOCKED) == (step > CLAIM)
    assert new_run(broker).read().topics.keys() == ({"a"} if other.reason else {"a", "other"})


@pytest.mark.parametrize("step", range(CLAIM + 1, INIT))
def test_a_run_that_stood_still_claims_the_lock_anew(broker: MemoryBroker, step: int) -> None:
    """A run stands still between its claim and the end of others until another one takes it for killed."""
    broker.create_topic()
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
    number = 1 if request_name == "AddPartitionsToTxn" else 2  # before the topic is made, transactions are tried
    broker = MemoryBroker({(request_name, number): Fault(is_done=True, kill=True)})
    with pytest.raises(Killed):
        holding(broker)
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


def test_a_run_that_waits_for_late_requests_renews_its_claim(broker: MemoryBroker) -> None:
    """The run after a killed one waits for 70 s, and shows all other runs in time that it is live."""
    topic = leave_intent(broker)
    times = list[float]()
    broker.before = lambda name, number: times.append(broker.now) if name == "Produce" else None
    comparing(broker, topic).acquire()
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


@pytest.mark.parametrize("is_held", [False, True])
def test_a_lease_is_renewed_after_a_third(broker: MemoryBroker, is_held: bool) -> None:
    """The claim and the lock are not written before, and their lease of 30 s begins anew then."""
    run = new_run(broker)
    run.acquire()
    if is_held:
        run.commit({}, hold=True)
    for seconds, is_renewed in ((9.5, False), (0.6, True), (9.5, False), (0.6, True)):
        broker.now += seconds
        broker.calls.clear()
        run.keep()
        assert ("Produce" in broker.calls) is is_renewed


def test_an_unfreeze_without_a_freeze_takes_nothing_over(broker: MemoryBroker) -> None:
    """There is nothing to change, so a run that is writing goes on."""
    run = holding(broker)
    assert new_run(broker).set_freeze(None, by="me", force=False).result is Result.UNCHANGED
    run.commit({"a": record(2)}, hold=False)


def test_a_run_that_gave_up_the_lock_acquires_it_again(broker: MemoryBroker) -> None:
    """Other runs may write meanwhile: a commit without the lock is refused before anything is sent."""
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


def test_a_lock_that_is_taken_between_wait_and_init_is_waited_for_in_time(broker: MemoryBroker) -> None:
    """The time limit counts there too, and the error names the run that took the lock."""

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


# When ZooKeeper is asked about records, and what follows if it does not answer.

OPEN, CLOSED = LeftRecords("c", 2), LeftRecords("c", 2, is_begun=True, freeze=Freeze(MOVED))


def check(
    left: LeftRecords | TopiaristError, *, are_taken: bool = False, is_zookeeper_mode: bool = True
) -> LeftRecordsCheck:
    """Return the check of a cluster with the id ``c``; an error is what reading ZooKeeper raises."""

    def read() -> LeftRecords:
        if isinstance(left, TopiaristError):
            raise left
        return left

    return check_left_records(read, lambda: "c", are_taken=are_taken, is_zookeeper_mode=is_zookeeper_mode)


def forbidden(what: str) -> Callable[[], LeftRecords]:
    """Return a function that fails the test."""

    def fail() -> LeftRecords:
        raise AssertionError(what)

    return fail


UNREACHABLE = TopiaristError(Reason.UNREACHABLE, "no server answers")


@pytest.mark.parametrize("is_zookeeper_mode", [False, True])
def test_records_that_were_not_moved_block_writes_in_each_mode(is_zookeeper_mode: bool) -> None:
    """Also after a migration of Kafka without a move of the records, as long as ZooKeeper answers."""
    found = check(OPEN, is_zookeeper_mode=is_zookeeper_mode)
    assert (found.block.reason, found.warning) == (Reason.RECORDS_NOT_MOVED, "")


def test_a_gate_that_was_opened_blocks_writes() -> None:
    """After the move, in ZooKeeper mode, the gate of ZooKeeper must still be closed."""
    assert check(CLOSED, are_taken=True) == LeftRecordsCheck()
    assert check(OPEN, are_taken=True).block.reason is Reason.MOVED_BACK


def test_zookeeper_is_asked_only_if_its_answer_matters() -> None:
    """Without an address, and in KRaft mode after the move, nothing is read."""
    never = forbidden("ZooKeeper was asked")
    assert check_left_records(None, lambda: "c", are_taken=False, is_zookeeper_mode=True) == LeftRecordsCheck()
    assert check_left_records(never, lambda: "c", are_taken=True, is_zookeeper_mode=False) == LeftRecordsCheck()


def test_a_zookeeper_that_does_not_answer() -> None:
    """In KRaft mode a warning; in ZooKeeper mode a write block, unless the records are known to be in Kafka."""
    assert check(UNREACHABLE, is_zookeeper_mode=False) == LeftRecordsCheck(warning=WARNING_ZOOKEEPER_ENDED)
    block = check(UNREACHABLE).block
    assert block.reason is Reason.RECORDS_NOT_MOVED
    assert "were not moved to Kafka: no server answers" in block.message
    taken = check(UNREACHABLE, are_taken=True)
    assert (taken.block.reason, "would not be noticed: no server answers" in taken.warning) == (None, True)


def test_a_zookeeper_of_another_cluster() -> None:
    """In KRaft mode it was taken into another use; in ZooKeeper mode the address is wrong, and nothing is written."""
    other = OPEN._replace(cluster_id="other")
    assert check(other, is_zookeeper_mode=False) == LeftRecordsCheck(warning=WARNING_ZOOKEEPER_ENDED)
    for are_taken in (False, True):
        block = check(other, are_taken=are_taken).block
        assert block.reason is Reason.RECORDS_NOT_MOVED
        assert "spec.zookeeper leads to another cluster (other), spec.kafka to c" in block.message


# The records over brokers in memory pass what they pass over real brokers (``tests/brokers/test_records.py``).

globals().update(SUITE)


@pytest.fixture
def session() -> MemoryBroker:
    """Return brokers without topics; commits can be read a little after their answer."""
    return MemoryBroker(marker_delay=0.05)


@pytest.mark.parametrize(
    ("error", "reason", "words"),
    [
        (transactions.Fenced("a newer run"), Reason.LOCKED, "other runs took the records: a newer run"),
        (transactions.OutcomeUnknown("late"), Reason.UNREACHABLE, "the records cannot be acquired: late"),
        (Disconnected("gone", was_sent=True), Reason.UNREACHABLE, "the records cannot be acquired: gone"),
    ],
)
def test_records_that_cannot_be_acquired(error: Any, reason: Reason, words: str) -> None:
    """Other runs are no fault of the brokers; both pass."""
    found = _not_begun(error)
    assert (found.reason, found.message, found.hint) == (reason, words, "run again")


def test_the_record_of_moves_is_deleted(broker: MemoryBroker) -> None:
    """No batch is no value, which compaction removes."""
    batch = BatchRecord("team", 1, 2, (ReplicaMove("a", 0, (1,), (2,)),), {})
    run = holding(broker)
    run.commit_batch(batch, hold=True)
    assert new_run(broker).read().moves == batch
    run.commit_batch(None, hold=False)
    assert new_run(broker).read().moves is None

"""One run over the records, in virtual time: what it refuses, what it compares, and how it names its end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from support.kafka.memory_records import RECORDS, Fault, MemoryBroker
from support.kafka.records_suite import new_run, record
from topiarist.adapters.kafka_admin.records import codec, transactions
from topiarist.adapters.kafka_admin.records.codec import Intent, IntentKind, Moved, Records, TopicRecord
from topiarist.adapters.kafka_admin.records.run import ClusterView, RecordsRun
from topiarist.errors import Reason, TopiaristError
from topiarist.model.outcome import FreezeResult, Result
from topiarist.model.state import Freeze, OwnershipRecord, TopicState

ADA, BOB = Freeze("incident", "ada"), Freeze("release", "bob")


def reason_of(call: Callable[[], object]) -> tuple[Reason, str]:
    """Return the reason and the message of the error that a call raises."""
    with pytest.raises(TopiaristError) as caught:
        call()
    return caught.value.reason, str(caught.value.args[0])


@pytest.fixture
def broker() -> MemoryBroker:
    """Return brokers without topics."""
    return MemoryBroker()


def holding(broker: MemoryBroker) -> RecordsRun:
    """Return a run that holds the lock."""
    run = new_run(broker)
    run.acquire()
    run.commit({"a": record(1)}, hold=True)
    return run


def test_a_cluster_without_records(broker: MemoryBroker) -> None:
    """A read creates no topic: there is none afterwards either."""
    run = new_run(broker)
    assert (run.read(), run.find(), run.topic_ids(), run.number) == (Records(), None, {}, 0)
    assert RECORDS not in broker.cluster.topics
    assert run.topic_name == RECORDS
    run.acquire()
    assert run.topic_ids() == {RECORDS: str(run.find() and run.find().topic_id)}  # type: ignore[union-attr]


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
    run.acquire()
    reason, message = reason_of(run.require_fence)
    assert (reason, message) == (Reason.SESSION_LOST, "this run has lost the records: the lock is not held")
    assert reason_of(lambda: run.commit({}, hold=True)) == (reason, message)


def test_a_record_that_cannot_be_read_is_not_replaced(broker: MemoryBroker) -> None:
    """The run goes on with all others."""
    run = holding(broker)
    run._producer.commit({f"{codec.TOPIC_PREFIX}bad".encode(): b"{"})
    run.commit({}, hold=False)
    second = new_run(broker)
    assert second.acquire().errors.keys() == {"bad"}
    assert reason_of(lambda: second.commit({"b": record(1), "bad": None}, hold=True)) == (
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
    """Its pauses grow, and it gives up in the end."""
    broker.always = lambda name, now: 90 if name == "AddPartitionsToTxn" else None
    reason, message = reason_of(lambda: new_run(broker).set_freeze(ADA, by="ada", force=False))
    assert (reason, "ten times in a row" in message) == (Reason.STATE_CONFLICT, True)
    assert broker.calls.count("AddPartitionsToTxn") > 5


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

    run = RecordsRun(broker, "team", ClusterView(dict.fromkeys, ask), clock=broker.clock)
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


def leave_intent(broker: MemoryBroker) -> TopicState:
    """Leave the intent of a change, as a killed run does, and return the topic without the change."""
    killed = new_run(broker)
    killed.acquire()
    intent = Intent(IntentKind.CHANGE, OwnershipRecord("team"), config={"a": "1"})
    killed.commit({"a": TopicRecord(OwnershipRecord("team"), "id", intent)}, hold=True)
    return TopicState(name="a", identity="id", topic_id="id", replicas=((1,),))


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

    run = RecordsRun(broker, "team", ClusterView(lambda names: dict.fromkeys(names, topic), answer), clock=broker.clock)
    began = broker.now
    run.acquire()
    assert (broker.now - began >= transactions.LEASE_S + transactions.LATE_WRITE_S) is waits
    assert new_run(broker).read().topics["a"].intent is None


def test_a_wait_for_late_requests_that_is_stopped(broker: MemoryBroker) -> None:
    """The run ends at once, and leaves the intents and no claim."""
    topic = leave_intent(broker)
    run = RecordsRun(broker, "team", ClusterView(lambda names: dict.fromkeys(names, topic)), clock=broker.clock)
    until = broker.now + transactions.LEASE_S + 10
    reason, message = reason_of(lambda: run.acquire(stop=lambda: broker.now >= until))
    assert (reason, "may be carried out" in message) == (Reason.LOCKED, True)
    assert broker.now <= until + 1
    found = new_run(broker).read()
    assert (found.topics["a"].intent is not None, found.claims) == (True, ())

"""Faults of the records in a topic: every request of a run in turn is lost, refused, or the last of its process."""

from __future__ import annotations

import math

import pytest

from support.builders import spec
from support.kafka.fake_cluster import answer_code
from support.kafka.fake_kafka import FakeKafka, FakeSession, no_hook
from support.kafka.memory_records import RECORDS, Fault, Killed, MemoryBroker
from topiarist.adapters.kafka_admin.records.codec import Intent, IntentKind, Records, TopicRecord
from topiarist.adapters.kafka_admin.records.run import ClusterView, RecordsRun
from topiarist.errors import Reason, TopiaristError
from topiarist.model.outcome import Result
from topiarist.model.state import Freeze, OwnershipRecord

pytestmark = pytest.mark.core

STEPS = ["InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn"]
BEFORE, AFTER = TopicRecord(OwnershipRecord("team"), "id"), TopicRecord(OwnershipRecord("team", ("a",)), "id")
FAULTS = [*((name, number) for name in STEPS for number in (1, 2, 3)), ("InitProducerId", 4), ("Produce", 4)]
BEFORE_INIT = [("InitProducerId", 1), ("Produce", 1), ("InitProducerId", 2)]
"""The requests of a run before it has fenced others: the one that shows whether the brokers take transactions, before
the topic is made; its claim; and the one that fences.
"""


def new_run(broker: MemoryBroker, owner: str = "team") -> RecordsRun:
    """Return a run for which no topic exists."""
    return RecordsRun(
        broker,
        owner,
        ClusterView(lambda names: dict.fromkeys(names), lambda: 1),
        clock=broker.clock,
    )


def make_change(broker: MemoryBroker) -> None:
    """Acquire the records, and write two chunks of one topic."""
    run = new_run(broker)
    run.acquire()
    run.commit({"a": BEFORE._replace(intent=Intent(IntentKind.CHANGE, AFTER.record))}, hold=True)
    run.require_fence()
    run.commit({"a": BEFORE, "b": BEFORE._replace(intent=Intent(IntentKind.DELETE, None))}, hold=True)
    run.require_fence()
    run.commit({"a": AFTER, "b": BEFORE}, hold=False)


def read(broker: MemoryBroker) -> Records:
    """Return the records as the next run reads them, without faults."""
    end_faults(broker)
    return new_run(broker).acquire()


def end_faults(broker: MemoryBroker) -> None:
    """Let the next requests be carried out."""
    broker.faults.clear()
    broker.always, broker.before = lambda name, now: None, lambda name, number: None


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("step", FAULTS, ids=str)
def test_k01_a_killed_run_leaves_whole_commits(step: tuple[str, int], is_done: bool) -> None:
    """After a kill at any request the next run reads all or nothing of each commit, and completes."""
    broker = MemoryBroker(faults={step: Fault(kill=True, is_done=is_done)})
    with pytest.raises(Killed):
        make_change(broker)
    end_faults(broker)
    committed = new_run(broker).read().number
    records = read(broker)
    assert all(each.intent is None for each in records.topics.values())
    assert set(records.topics) == [set(), {"a"}, {"a"}, {"a", "b"}][committed]
    assert records.number in (committed, committed + 1)
    make_change(broker)
    assert read(broker).topics == {"a": AFTER, "b": BEFORE}


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("step", FAULTS, ids=str)
def test_k02_a_lost_answer_does_nothing_twice(step: tuple[str, int], is_done: bool) -> None:
    """A connection that breaks before or after a request is carried out leaves three commits."""
    broker = MemoryBroker(faults={step: Fault(is_done=is_done)})
    make_change(broker)
    records = read(broker)
    assert (records.number, records.topics) == (3, {"a": AFTER, "b": BEFORE})


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("step", FAULTS, ids=str)
def test_k03_a_server_error_is_never_taken_for_an_answer(step: tuple[str, int], is_done: bool) -> None:
    """After -1 with or without effect the run either goes on as if nothing was, or ends; records are whole."""
    broker = MemoryBroker(faults={step: Fault(code=-1, is_done=is_done)})
    failure: TopiaristError | None = None
    try:
        make_change(broker)
    except TopiaristError as error:
        failure = error
    assert failure is None or failure.reason.retryable
    records = read(broker)
    assert failure or (records.number, records.topics) == (3, {"a": AFTER, "b": BEFORE})
    make_change(broker)
    assert read(broker).topics == {"a": AFTER, "b": BEFORE}


@pytest.mark.parametrize("step", FAULTS, ids=str)
def test_k04_a_fenced_run_writes_nothing_more(step: tuple[str, int]) -> None:
    """Another run takes over before any request; the first ends, the other's record stays."""
    broker, other = MemoryBroker(), TopicRecord(OwnershipRecord("other"), "id")

    def take_over(name: str, number: int) -> None:
        if (name, number) == step:
            broker.before = lambda name, number: None
            run = new_run(broker, "other")
            run._begin()
            run.commit({"other": other}, hold=False)

    broker.before = take_over
    if step in BEFORE_INIT:
        make_change(broker)
    else:
        with pytest.raises(TopiaristError) as error:
            make_change(broker)
        assert error.value.reason is Reason.SESSION_LOST
    assert read(broker).topics["other"] == other


def test_k05_again_for_five_seconds_is_waited_out() -> None:
    """CONCURRENT_TRANSACTIONS for five seconds delays a run, for ever it ends as Unreachable."""
    broker = MemoryBroker(always=lambda name, now: 51 if name == "InitProducerId" and now < 5 else None)
    make_change(broker)
    assert 5 <= broker.now < 10
    broker.always = lambda name, now: 51 if name == "InitProducerId" else None
    with pytest.raises(TopiaristError) as error:
        make_change(broker)
    assert error.value.reason is Reason.UNREACHABLE


def test_k06_another_transaction_blocks_and_hides_nothing() -> None:
    """With an open transaction of another client for ever a run ends; after three seconds it reads everything."""
    broker = MemoryBroker()
    make_change(broker)
    stranger = broker.abandon()
    with pytest.raises(TopiaristError) as error:
        new_run(broker).acquire()
    assert error.value.reason is Reason.RECORDS_BLOCKED
    began = broker.now

    def end_later(_name: str, _number: int) -> None:
        if broker.now > began + 3 and broker.records_log.stable < broker.records_log.end:
            broker.before = lambda name, number: None
            stranger.end()

    broker.before = end_later
    assert new_run(broker).acquire().topics == {"a": AFTER, "b": BEFORE}


@pytest.mark.parametrize(
    "step", [step for step in FAULTS if step[0] != "InitProducerId" and step not in BEFORE_INIT], ids=str
)
def test_k07_a_deleted_topic_is_lost(step: tuple[str, int]) -> None:
    """The topic is deleted and recreated inside a transaction: RecordsLost, not success."""
    broker = MemoryBroker()
    broker.before = lambda name, number: broker.delete_topic() if (name, number) == step else None
    with pytest.raises(TopiaristError) as error:
        make_change(broker)
    assert error.value.reason is Reason.RECORDS_LOST


def test_k08_records_of_another_cluster_or_a_deleting_topic_are_refused() -> None:
    """``meta`` of another cluster, and a topic without compaction, are RecordsLost before anything is written."""
    for cluster_id, policy in (("other", "compact"), ("cluster", "delete")):
        broker = MemoryBroker()
        make_change(broker)
        broker.cluster_id = cluster_id
        broker.cluster.change(RECORDS, cleanup_policy=policy)
        broker.catch_up()
        with pytest.raises(TopiaristError) as error:
            new_run(broker).acquire()
        assert error.value.reason is Reason.RECORDS_LOST


def test_k09_a_stopped_run_sends_nothing() -> None:
    """A clock that jumps between the intents and the check, or inside the check, ends the run."""
    for name in ("InitProducerId", None):
        broker = MemoryBroker()
        run = new_run(broker)
        run.acquire()
        run.commit({"a": BEFORE}, hold=True)
        if name:
            broker.before = lambda called, number, broker=broker: broker._advance(1000)  # type: ignore[misc]
        else:
            broker.now += 21
        with pytest.raises(TopiaristError):
            run.require_fence()


def test_k10_a_freeze_between_intents_and_request_stops_the_request() -> None:
    """The freeze fences the run, which names the freeze, and the next run refuses."""
    broker = MemoryBroker()
    run = new_run(broker)
    run.acquire()
    run.commit({"a": BEFORE}, hold=True)
    new_run(broker).set_freeze(Freeze("stop", "me"), by="me", force=False)
    with pytest.raises(TopiaristError) as caught:
        run.require_fence()
    assert (caught.value.reason, caught.value.message) == (Reason.FROZEN, "the cluster is frozen by me: stop")
    with pytest.raises(TopiaristError) as error:
        new_run(broker).acquire()
    assert error.value.reason is Reason.FROZEN


def test_k11_a_batch_larger_than_a_fetch_is_read() -> None:
    """Records in batches larger than a fetch, with aborted ones between them, are read whole."""
    broker = MemoryBroker(fetch_bytes=10)
    make_change(broker)
    broker.abandon().end(commit=False)
    assert read(broker).topics == {"a": AFTER, "b": BEFORE}


def test_k05_a_lost_transaction_state_fences_the_run() -> None:
    """``__transaction_state`` is lost between two commits: the old run is fenced (49), a new one goes on with all."""
    broker = MemoryBroker()
    run = new_run(broker)
    run.acquire()
    run.commit({"a": BEFORE}, hold=True)
    broker.lose_transactions()
    with pytest.raises(TopiaristError) as error:
        run.commit({"a": AFTER}, hold=False)
    assert error.value.reason is Reason.SESSION_LOST
    make_change(broker)
    assert read(broker).topics == {"a": AFTER, "b": BEFORE}


def test_k05_a_lost_transaction_state_does_not_bring_back_a_fenced_run() -> None:
    """The coordinator knows no epoch any more, and gives the older run a new producer: its check fails all the same."""
    broker = MemoryBroker()
    older, newer = new_run(broker), new_run(broker)
    older.acquire()
    older.commit({"a": BEFORE}, hold=True)
    newer._begin()
    newer.commit({"a": AFTER}, hold=False)
    broker.lose_transactions()
    with pytest.raises(TopiaristError) as error:
        older.require_fence()
    assert error.value.reason is Reason.SESSION_LOST
    with pytest.raises(TopiaristError):
        older.commit({"a": BEFORE}, hold=False)
    assert read(broker).topics == {"a": AFTER}


def test_k04_a_check_of_a_fenced_run_aborts_a_commit_of_the_newer() -> None:
    """The newer run ends without that commit, which the next run finds undone; nothing of it is half written."""
    broker = MemoryBroker()
    older, newer = new_run(broker), new_run(broker)
    older.acquire()
    older.commit({"a": BEFORE}, hold=True)
    newer._begin()

    def check(name: str, _number: int) -> None:
        if name == "EndTxn":
            broker.before = lambda name, number: None
            with pytest.raises(TopiaristError):
                older.require_fence()

    broker.before = check
    with pytest.raises(TopiaristError) as error:
        newer.commit({"a": AFTER}, hold=False)
    assert error.value.reason is Reason.SESSION_LOST
    assert error.value.reason.retryable
    assert read(broker).topics == {"a": BEFORE}


def test_k05_too_few_replicas_in_sync_are_waited_for() -> None:
    """NOT_ENOUGH_REPLICAS for five seconds delays a commit, for ever it ends the run with nothing written."""
    broker = MemoryBroker()
    broker.create_topic()
    broker.cluster.stopped |= {1, 2}
    broker.before = lambda name, number: broker.cluster.stopped.clear() if broker.now >= 5 else None
    make_change(broker)
    assert 5 <= broker.now < 10
    before = read(broker)
    broker.always = lambda name, now: 19 if name == "Produce" else None
    with pytest.raises(TopiaristError) as error:
        make_change(broker)
    assert error.value.reason is Reason.UNREACHABLE
    assert read(broker).topics == before.topics


@pytest.mark.parametrize("back_after", [25.0, None])
@pytest.mark.parametrize("release", ["3.9.2", "4.4.0"])
@pytest.mark.parametrize("number", [1, 2, 4])
def test_k05_too_few_replicas_in_sync_inside_a_transaction(release: str, number: int, back_after: float | None) -> None:
    """The coordinator aborts a transaction after 10 s. A run begins it again in time; it is not said as another run."""
    broker = MemoryBroker(release=release)
    broker.create_topic()

    def stop(name: str, found: int) -> None:
        if (name, found) == ("Produce", number):
            broker.cluster.stopped |= {1, 2}
            until = broker.now + back_after if back_after else math.inf
            broker.before = lambda name, number: broker.cluster.stopped.clear() if broker.now >= until else None

    broker.before = stop
    if back_after:
        make_change(broker)
        assert read(broker).topics == {"a": AFTER, "b": BEFORE}
        return
    with pytest.raises(TopiaristError, match=r"min\.insync\.replicas") as error:
        make_change(broker)
    assert error.value.reason is Reason.UNREACHABLE
    assert "another run" not in str(error.value)


def test_k06_a_plan_reads_what_was_committed_before_it() -> None:
    """Records can be read 0.2 s after their commit was answered: a plan waits for them, and so does the next commit."""
    broker = MemoryBroker(marker_delay=0.2)
    make_change(broker)
    assert new_run(broker).read().topics == {"a": AFTER, "b": BEFORE}
    make_change(broker)
    assert new_run(broker).read().number == 6


def test_k06_a_plan_is_blocked_by_another_transaction_too() -> None:
    """With an open transaction of another client a plan ends with the offset, and is never made from old records."""
    broker = MemoryBroker()
    broker.create_topic()
    broker.abandon()
    with pytest.raises(TopiaristError) as error:
        new_run(broker).read()
    assert error.value.reason is Reason.RECORDS_BLOCKED


def test_k11_compaction_changes_nothing() -> None:
    """Old values and tombstones are compacted away between runs: the records and the numbers stay."""
    broker = MemoryBroker()
    make_change(broker)
    run = new_run(broker)
    run.acquire()
    run.commit({"b": None}, hold=False)
    for _ in range(3):
        before = new_run(broker).read()
        broker.records_log.compact()
        assert new_run(broker).read() == before
        make_change(broker)
        run = new_run(broker)
        run.acquire()
        run.commit({"b": None}, hold=False)
    assert "b" not in new_run(broker).read().topics


SPECS = (
    spec("made", partitions=2, replicationFactor=2),
    spec("set", partitions=1, replicationFactor=2, config={"retention.ms": 2000000}),
    spec("grown", partitions=2, replicationFactor=2),
    spec("old", ensure="Absent"),
)
REQUESTS = ("DeleteTopics", "CreateTopics", "IncrementalAlterConfigs", "CreatePartitions")


@pytest.mark.parametrize("epoch", [1, 2], ids=["same controller", "another controller"])
@pytest.mark.parametrize("late", [0.0, 30.0, 65.0])
@pytest.mark.parametrize("request_name", REQUESTS)
def test_k12_a_request_that_is_carried_out_after_its_run_died(request_name: str, late: float, epoch: int) -> None:
    """An Admin request lands up to 65 s after a kill; the next run may begin before, and have other values by then."""
    kafka = FakeKafka()
    first = [spec(each, partitions=1, replicationFactor=2) for each in ("set", "grown", "old")]
    list(kafka.apply(kafka.plan(*first)))
    kafka.cluster.changes.clear()
    run_until(kafka, request_name, late)
    kafka.leader_epoch = epoch
    began = kafka.now
    plan = kafka.plan(*SPECS)
    outcomes = list(kafka.apply(plan))
    assert {outcome.result for outcome in outcomes} <= {Result.DONE, Result.CONFLICT, Result.UNCHANGED}
    has_waited = kafka.now - began > 90
    assert not has_waited if epoch == 1 else has_waited or late <= 30
    kafka._advance(100)
    for _ in range(2):
        list(kafka.apply(kafka.plan(*SPECS)))
    assert not kafka.plan(*SPECS).has_changes
    assert {name: len(topic.replicas) for name, topic in kafka.topics.items()} == {
        "made": 2,
        "set": 1,
        "grown": 2,
    }
    creations = [change for change in kafka.cluster.changes if change[0] in ("create", "grow", "delete")]
    assert sorted(creations) == [("create", "made"), ("delete", "old"), ("grow", "grown")]
    records = kafka.records()
    assert all(records.topics[name].topic_id == topic.id_text for name, topic in kafka.topics.items())


def test_k12_a_controller_that_answers_late_is_no_witness() -> None:
    """The controller is the same and takes two seconds to answer: requests of the dead run may wait in it."""
    broker = MemoryBroker()
    run = new_run(broker)
    run.acquire()
    run.commit({"a": TopicRecord(None, None, Intent(IntentKind.CREATE, AFTER.record, ((1,),)))}, hold=True)

    def answer_late() -> int:
        broker._advance(2)
        return 1

    began = broker.now
    RecordsRun(broker, "team", ClusterView(dict.fromkeys, answer_late), clock=broker.clock).acquire()
    assert broker.now - began > 30 + 70
    assert new_run(broker).read().topics == {}


def run_until(kafka: FakeKafka, request_name: str, late: float) -> None:
    """Kill a run at its request of a name, and let the brokers carry out the request some seconds later."""
    plan = kafka.plan(*SPECS)

    def die(session: FakeSession, number: int, name: str, is_done: bool) -> None:  # noqa: ARG001
        if name == request_name and not is_done:
            kafka.delay(session.request, late)
            raise Killed

    kafka.hook = die
    with pytest.raises(Killed):
        list(kafka.apply(plan))
    kafka.hook = no_hook


def test_k13_a_creation_that_is_answered_as_existing_after_a_failover() -> None:
    """The request was carried out by the controller before, and is answered with TOPIC_ALREADY_EXISTS: it is ours."""
    kafka = FakeKafka()
    kafka.create_topic()
    kafka.cluster.on("CreateTopics", answer_code(36, "Topic 'a' already exists.", with_effect=True))
    plan = kafka.plan(spec("a"))
    assert [outcome.result for outcome in kafka.apply(plan)] == [Result.DONE]
    assert kafka.records().topics["a"].topic_id == kafka.cluster.topics["a"].id_text

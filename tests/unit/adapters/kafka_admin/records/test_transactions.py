"""The producer of the records: what each request has, and what each error code of a broker means for a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from topiarist.adapters.kafka_admin.protocol.batches import has_valid_checksum, size_of_batch
from topiarist.adapters.kafka_admin.records import transactions
from topiarist.adapters.kafka_admin.records import transactions as transactions_module
from topiarist.adapters.kafka_admin.records.transactions import Clock, Fenced, OutcomeUnknown, Producer
from topiarist.errors import Reason, TopiaristError
from unit.adapters.kafka_admin.scripted_session import LOST, NOT_SENT, FakeTime, ScriptedSession, reply

TOPIC, ID = "__topiarist", "topiarist-id"
STEPS = ("InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn")

FENCED = {47, 49, 90}
AGAIN = {3, 5, 6, 14, 15, 16, 51}
REPEATED_BY_STEP = {"Produce": AGAIN | {7, 19, 20}}
DENIED = {29, 30, 31, 53, 65}
REFUSED = {10, 17, 21, 35, 42, 43, 44, 50, 76, 87}
OK_BY_STEP = {"Produce": {0, 46}}
"""46: the batch is there already, from an answer that was lost."""

CODES = range(-1, 110)


def init(code: int = 0) -> Any:
    """Return an answer to InitProducerId."""
    return reply(error_code=code, producer_id=77, producer_epoch=3)


def added(code: int = 0, count: int = 1) -> Any:
    """Return an answer to AddPartitionsToTxn."""
    partitions = [reply(partition_index=0, partition_error_code=code)] * count
    return reply(results_by_topic_v3_and_below=[reply(name=TOPIC, results_by_partition=partitions)])


def produced(code: int = 0, count: int = 1) -> Any:
    """Return an answer to Produce."""
    return reply(responses=[reply(name=TOPIC, partition_responses=[reply(index=0, error_code=code)] * count)])


def ended(code: int = 0) -> Any:
    """Return an answer to EndTxn."""
    return reply(error_code=code)


ANSWERS: dict[str, Callable[[int], Any]] = dict(zip(STEPS, (init, added, produced, ended), strict=True))


class Run:
    """A producer over a script, in virtual time."""

    def __init__(self, **script: Any) -> None:
        self.clock = FakeTime()
        self.session = ScriptedSession({**{name: answer(0) for name, answer in ANSWERS.items()}, **script})
        clock = Clock(self.clock.now, self.clock.sleep, self.clock.random)
        self.producer = Producer(self.session, TOPIC, ID, clock)

    def commit(self) -> None:
        """Begin, and write two records, one of them a tombstone."""
        self.producer.init()
        self.producer.commit({b"a": b"1", b"b": None})


def test_a_commit() -> None:
    """Each request names the transaction, the producer and its epoch, in the old protocol."""
    run = Run()
    run.commit()
    first, second, third, fourth = run.session.sent
    assert [each.name for each in run.session.sent] == [*STEPS]
    assert [each.version for each in run.session.sent] == [4, 3, 11, 4]
    assert [each.broker for each in run.session.sent] == [2, 2, 1, 2]
    assert (first.request.transactional_id, first.request.transaction_timeout_ms) == (ID, 10_000)
    assert (first.request.producer_id, first.request.producer_epoch) == (-1, -1)
    added_to = second.request
    assert (added_to.v3_and_below_transactional_id, added_to.v3_and_below_producer_id) == (ID, 77)
    assert added_to.v3_and_below_producer_epoch == 3
    assert [(each.name, each.partitions) for each in added_to.v3_and_below_topics] == [(TOPIC, [0])]
    assert (third.request.transactional_id, third.request.acks, third.request.timeout_ms) == (ID, -1, 10_000)
    (topic,) = third.request.topic_data
    assert (topic.name, [each.index for each in topic.partition_data]) == (TOPIC, [0])
    assert (fourth.request.transactional_id, fourth.request.producer_id) == (ID, 77)
    assert (fourth.request.producer_epoch, fourth.request.committed) == (3, True)


def batches(run: Run) -> list[Any]:
    """Return the batches that were sent."""
    data = b"".join(
        bytes(each.request.topic_data[0].partition_data[0].records)
        for each in run.session.sent
        if each.name == "Produce"
    )
    found, records = [], MemoryRecords(data)
    while records.has_next():
        found.append(records.next_batch())
    return found


def test_the_batch_of_a_commit() -> None:
    """A batch is transactional, uncompressed, and of the producer with its epoch; sequence numbers go on."""
    run = Run()
    run.commit()
    run.producer.commit({b"c": b"2"})
    first, second = batches(run)
    assert [(each.key, each.value) for each in first] == [(b"a", b"1"), (b"b", None)]
    assert [(each.key, each.value) for each in second] == [(b"c", b"2")]
    assert (first.producer_id, first.producer_epoch) == (77, 3)
    assert (first.base_sequence, second.base_sequence) == (0, 2)
    assert first.is_transactional
    assert first.compression_type == 0
    run.producer.init()
    run.producer.commit({b"d": b"3"})
    assert batches(run)[-1].base_sequence == 0


@pytest.mark.parametrize(
    ("sizes", "counts"),
    [
        ([10, 10], [2]),
        ([600_000], [1]),
        ([600_000, 600_000], [1, 1]),
        ([262_100, 262_080, 1], [2, 1]),
        ([262_100, 262_081, 1], [1, 2]),
    ],
)
def test_large_commits_are_several_batches(sizes: list[int], counts: list[int]) -> None:
    """A batch has at most 512 KiB by keys, values and 32 bytes a record; a larger record is a batch of its own."""
    run = Run()
    run.producer.init()
    values = {str(number).encode() * 22: b"x" * size for number, size in enumerate(sizes)}
    run.producer.commit(values)
    found = batches(run)
    assert [sum(1 for _ in each) for each in found] == counts
    assert [each.base_sequence for each in found] == [sum(counts[:place]) for place in range(len(counts))]
    assert transactions.MAX_BATCH_BYTES == 512 << 10


def test_the_fence() -> None:
    """It asks for the next epoch of this producer: an older one is fenced then."""
    run = Run(InitProducerId=[init(), reply(error_code=0, producer_id=77, producer_epoch=4), init(90)])
    run.producer.init()
    run.producer.require_fence()
    assert (run.session.sent[1].request.producer_id, run.session.sent[1].request.producer_epoch) == (77, 3)
    with pytest.raises(Fenced):
        run.producer.require_fence()
    assert run.session.sent[2].request.producer_epoch == 4


@pytest.mark.parametrize(("epoch", "is_fenced"), [(3, True), (32_765, True), (32_766, False)])
def test_another_producer_id(epoch: int, is_fenced: bool) -> None:
    """A coordinator that gives another id before the last epoch has lost its state: the run is fenced."""
    first, second = (reply(error_code=0, producer_id=each, producer_epoch=epoch) for each in (77, 78))
    run = Run(InitProducerId=[first, second])
    run.producer.init()
    if is_fenced:
        with pytest.raises(Fenced, match="has lost the state"):
            run.producer.require_fence()
    else:
        run.producer.require_fence()


@pytest.mark.parametrize("step", STEPS)
def test_each_code_of_each_step(step: str) -> None:
    """A code that another run has taken over ends the run, one of a busy cluster is repeated, all others end it."""
    for code in CODES:
        require_end(step, code)


def require_end(step: str, code: int) -> None:
    """Check one code."""
    run = Run(**{step: [ANSWERS[step](code), ANSWERS[step](0)]})
    again = REPEATED_BY_STEP.get(step, AGAIN)
    if code in FENCED:
        with pytest.raises(Fenced, match=rf"\({code}\)"):
            run.commit()
    elif code in again or code in OK_BY_STEP.get(step, {0}):
        run.commit()
        assert run.session.names().count(step) == (2 if code in again else 1)
        assert run.clock.slept == ([transactions.RETRY_INTERVAL_S] if code in again else [])
        return
    elif code in DENIED:
        with pytest.raises(TopiaristError) as caught:
            run.commit()
        assert caught.value.reason is Reason.NO_PERMISSION
        right = f"the transactional id {ID}" if code == 53 else f"the topic {TOPIC}"
        assert f"Write on {right}" in caught.value.message
    elif code in REFUSED:
        with pytest.raises(TopiaristError) as caught:
            run.commit()
        assert caught.value.reason is (Reason.PREREQUISITE_MISSING if code == 35 else Reason.RECORDS_REFUSED)
        assert "again" not in str(caught.value.args)
    else:
        with pytest.raises(OutcomeUnknown):
            run.commit()
    assert run.session.names().count(step) == 1


@pytest.mark.parametrize("error", [LOST, NOT_SENT])
@pytest.mark.parametrize("step", STEPS)
def test_a_lost_answer_is_asked_for_again(step: str, error: Exception) -> None:
    """The epoch and the sequence make the second request the same as the first."""
    run = Run(**{step: [error, ANSWERS[step](0)]})
    run.commit()
    first, second = (each.request for each in run.session.sent if each.name == step)
    assert str(first) == str(second)


OPERATIONS = dict(
    zip(
        STEPS,
        (
            "cannot begin to write records",
            "cannot begin a transaction",
            f"cannot write records to {TOPIC}",
            "cannot commit records",
        ),
        strict=True,
    )
)


@pytest.mark.parametrize("code", [19, 20])
def test_too_few_replicas_in_sync(code: int) -> None:
    """The cause is named; the transaction is aborted with the epoch that it had, and begun again."""
    run = Run(Produce=produced(code))
    with pytest.raises(TopiaristError, match=r"in sync than min\.insync\.replicas demands") as caught:
        run.commit()
    assert caught.value.reason is Reason.UNREACHABLE
    ends = {(each.request.producer_epoch, each.request.committed) for each in run.session.sent if each.name == "EndTxn"}
    assert ends == {(3, False)}
    aborted = Run(Produce=produced(code), EndTxn=ended(42))
    with pytest.raises(TopiaristError, match="fewer replicas are in sync"):
        aborted.commit()
    assert aborted.session.names().count("EndTxn") == 1


def test_a_transaction_ends_before_its_timeout() -> None:
    """A leader that takes no records for a minute is tried in several transactions, of some seconds each."""
    run = Run(Produce=produced(19))
    times: dict[str, list[float]] = {"AddPartitionsToTxn": [], "EndTxn": []}
    for step in times:

        def note(_broker: int, _request: Any, step: str = step) -> Any:
            times[step].append(run.clock.current)
            return ANSWERS[step](0)

        run.session.script[step] = note
    with pytest.raises(TopiaristError, match="do not take it for 60 s"):
        run.commit()
    spans = [ended - began for began, ended in zip(*times.values(), strict=True)]
    assert len(spans) > 5
    assert max(spans) < transactions.TRANSACTION_TIMEOUT_MS / 1000 - 2


@pytest.mark.parametrize("step", STEPS)
def test_the_patience(step: str) -> None:
    """After a minute the run gives up; the end of a transaction is not known then."""
    run = Run(**{step: ANSWERS[step](51)})
    with pytest.raises(OutcomeUnknown if step == "EndTxn" else TopiaristError) as caught:
        run.commit()
    if isinstance(caught.value, TopiaristError):
        assert caught.value.reason is Reason.UNREACHABLE
    words = "the brokers do not take it for 60 s (CONCURRENT_TRANSACTIONS (51))"
    assert str(caught.value) == f"{OPERATIONS[step]}: {words}\n    run again when all brokers are back"
    assert sum(run.clock.slept) == pytest.approx(60, abs=0.06)


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize(("step", "answer"), [("AddPartitionsToTxn", added), ("Produce", produced)])
def test_an_answer_for_other_partitions(step: str, answer: Any, count: int) -> None:
    """An answer that does not have exactly the one partition proves nothing."""
    run = Run(**{step: answer(0, count)})
    with pytest.raises(OutcomeUnknown, match="UNKNOWN_SERVER_ERROR"):
        run.commit()


def test_the_times_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record has the time in ms."""
    monkeypatch.setattr(transactions_module, "time", FakeTime(1234.5))
    run = Run()
    run.commit()
    assert {each.timestamp for each in batches(run)[0]} == {1_234_500}


# The checksum of a batch as kafka-python builds it, and that of a batch with one other bit.


@pytest.mark.parametrize("count", [1, 200])
def test_a_batch_with_one_other_bit_has_another_checksum(count: int) -> None:
    """Every byte that the checksum covers counts, at the beginning, in the middle and at the end."""
    builder = DefaultRecordBatchBuilder(2, 0, True, 7, 1, 0, 1 << 20)
    for number in range(count):
        builder.append(number, 1_700_000_000_000, b"topic/orders-%d" % number, b"x" * 100, [])
    batch = bytes(builder.build())
    assert size_of_batch(b"12345" + batch, 5) == len(batch)
    assert has_valid_checksum(batch)
    for position in (21, len(batch) // 2, len(batch) - 1):
        changed = bytearray(batch)
        changed[position] ^= 1
        assert not has_valid_checksum(bytes(changed))

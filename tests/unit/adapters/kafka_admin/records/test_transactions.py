"""The producer of the records: what each request has, and what each error code of a broker means for a run."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from topiarist.adapters.kafka_admin.connection.connection import NO_ID, encode_topic_id
from topiarist.adapters.kafka_admin.protocol.batches import has_valid_checksum, size_of_batch
from topiarist.adapters.kafka_admin.records import transactions
from topiarist.adapters.kafka_admin.records import transactions as transactions_module
from topiarist.adapters.kafka_admin.records.transactions import (
    Clock,
    Fenced,
    FoundTopic,
    OutcomeUnknown,
    Producer,
    choose_replicas,
    create_topic,
    find_topic,
    require_compaction,
)
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import DEFAULT_RECORDS_TOPIC
from unit.adapters.kafka_admin.scripted_session import (
    LOST,
    NOT_SENT,
    FakeTime,
    ScriptedSession,
    metadata,
    partition,
    reply,
)

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
        assert f"Write on {right}" in caught.value.args[0]
    elif code in REFUSED and step != "EndTxn":
        with pytest.raises(TopiaristError) as caught:
            run.commit()
        assert caught.value.reason is (Reason.PREREQUISITE_MISSING if code == 35 else Reason.UNREADABLE)
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


@pytest.mark.parametrize("step", STEPS)
def test_the_patience(step: str) -> None:
    """After a minute the run gives up; the end of a transaction is not known then."""
    run = Run(**{step: ANSWERS[step](51)})
    with pytest.raises(
        OutcomeUnknown if step == "EndTxn" else TopiaristError, match="do not take it for 60 s"
    ) as caught:
        run.commit()
    if isinstance(caught.value, TopiaristError):
        assert caught.value.reason is Reason.UNREACHABLE
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


# The topic of records: how it is found and created, and what a run refuses to write to.

RECORDS_TOPIC = DEFAULT_RECORDS_TOPIC
TOPIC_ID = uuid.UUID(int=5)
FOUND = FoundTopic("cluster", encode_topic_id(TOPIC_ID))


def described(
    *partitions: Any, code: int = 0, name: str = RECORDS_TOPIC.name, topic_id: uuid.UUID = TOPIC_ID, **fields: Any
) -> Any:
    """Return an answer to Metadata with the topic."""
    answer = metadata({name: list(partitions)}, **fields)
    answer.topics[0].topic_id = topic_id
    answer.topics[0].error_code = code
    return answer


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (described(partition(0, 1)), FOUND),
        (described(partition(0, 1), code=5), FOUND),
        (described(partition(0, 1), cluster_id=None), FoundTopic("", FOUND.topic_id)),
        (described(code=3), None),
        (metadata({}), None),
        (described(partition(0, 1), name="other"), None),
    ],
)
def test_the_topic_is_found(answer: Any, found: FoundTopic | None) -> None:
    """A topic without a leader exists, with its id; an unknown topic and an answer without it are none."""
    assert find_topic(ScriptedSession({"Metadata": answer}), RECORDS_TOPIC) == found


@pytest.mark.parametrize(
    ("answer", "reason", "message"),
    [
        (described(code=29), Reason.NO_PERMISSION, f"lacks Describe on the topic {RECORDS_TOPIC.name}"),
        (described(code=17), Reason.UNREADABLE, "cannot read __topiarist"),
        (described(partition(0, 1), code=6), Reason.UNREACHABLE, "cannot read __topiarist"),
        (described(partition(0, 1), partition(1, 1)), Reason.RECORDS_LOST, "has 2 partitions, wanted 1"),
        (described(), Reason.RECORDS_LOST, "has 0 partitions, wanted 1"),
        (described(partition(0, 1), topic_id=NO_ID), Reason.PREREQUISITE_MISSING, "give __topiarist no topic id"),
    ],
)
def test_another_topic_is_refused(answer: Any, reason: Reason, message: str) -> None:
    """A topic that is hidden, unreadable, or has another shape."""
    with pytest.raises(TopiaristError) as caught:
        find_topic(ScriptedSession({"Metadata": answer}), RECORDS_TOPIC)
    assert caught.value.reason is reason
    assert message.replace("__topiarist", RECORDS_TOPIC.name) in caught.value.args[0]
    assert "again" not in caught.value.hint


def configs(value: str | None, code: int = 0) -> Any:
    """Return an answer to DescribeConfigs."""
    entries = [reply(name="other", value="compact"), reply(name="cleanup.policy", value=value)]
    return reply(results=[reply(error_code=code, configs=entries if value is not None else entries[:1])])


def test_a_compacted_topic() -> None:
    """The request asks for one key of the topic."""
    session = ScriptedSession({"DescribeConfigs": configs("compact")})
    require_compaction(session, RECORDS_TOPIC)
    (resource,) = session.sent[0].request.resources
    assert (resource.resource_type, resource.resource_name) == (2, RECORDS_TOPIC.name)
    assert resource.configuration_keys == ["cleanup.policy"]


@pytest.mark.parametrize(
    ("answer", "reason", "message"),
    [
        (configs("delete"), Reason.RECORDS_LOST, "has cleanup.policy=delete, wanted compact"),
        (configs("compact,delete"), Reason.RECORDS_LOST, "has cleanup.policy=compact,delete, wanted compact"),
        (configs(None), Reason.RECORDS_LOST, "has cleanup.policy=None"),
        (configs("compact", 29), Reason.NO_PERMISSION, "DescribeConfigs on the topic"),
    ],
)
def test_a_topic_that_loses_records(answer: Any, reason: Reason, message: str) -> None:
    """Only compaction alone keeps all records."""
    with pytest.raises(TopiaristError) as caught:
        require_compaction(ScriptedSession({"DescribeConfigs": answer}), RECORDS_TOPIC)
    assert caught.value.reason is reason
    assert message in caught.value.args[0]


class Creation:
    """The creation of the topic over a script, in virtual time."""

    def __init__(self, *answers: Any, code: int = 0, **fields: Any) -> None:
        self.clock = FakeTime()
        created = reply(topics=[reply(name=RECORDS_TOPIC.name, error_code=code, error_message="why")])
        self.session = ScriptedSession({"Metadata": [metadata({}, **fields), *answers], "CreateTopics": created})

    def run(self) -> FoundTopic:
        """Create the topic."""
        return create_topic(self.session, RECORDS_TOPIC, Clock(self.clock.now, self.clock.sleep, self.clock.random))


@pytest.mark.parametrize("code", [0, 36])
def test_the_topic_is_created(code: int) -> None:
    """It is compacted, has one partition, and is returned once the brokers know it; another run may be faster."""
    creation = Creation(metadata({}), described(partition(0, 1)), code=code)
    assert creation.run() == FOUND
    assert len(creation.clock.slept) == 1
    (sent,) = (each for each in creation.session.sent if each.name == "CreateTopics")
    assert sent.broker == 3
    (wanted,) = sent.request.topics
    assert (wanted.name, [(each.partition_index, each.broker_ids) for each in wanted.assignments]) == (
        RECORDS_TOPIC.name,
        [(0, [1, 2, 3])],
    )
    assert {each.name: each.value for each in wanted.configs} == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "max.message.bytes": str(1 << 20),
        "message.timestamp.type": "LogAppendTime",
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
    }
    assert (sent.request.timeout_ms, sent.request.validate_only) == (10_000, False)


def test_a_single_broker() -> None:
    """Commits need no second replica there."""
    creation = Creation(described(partition(0, 1)), brokers=(1,))
    creation.run()
    (sent,) = (each for each in creation.session.sent if each.name == "CreateTopics")
    (wanted,) = sent.request.topics
    assert {each.name: each.value for each in wanted.configs}["min.insync.replicas"] == "1"


@pytest.mark.parametrize(
    ("creation", "reason", "message"),
    [
        (Creation(code=29), Reason.NO_PERMISSION, "lacks Create on the topic"),
        (Creation(code=44), Reason.UNREADABLE, "cannot create"),
        (Creation(brokers=()), Reason.UNREACHABLE, "no broker is registered"),
        (Creation(metadata({})), Reason.UNREACHABLE, "do not know the new topic"),
    ],
)
def test_a_topic_that_cannot_be_created(creation: Creation, reason: Reason, message: str) -> None:
    """The error names the right or the cause; after a minute the run waits no longer."""
    with pytest.raises(TopiaristError) as caught:
        creation.run()
    assert caught.value.reason is reason
    assert message in caught.value.args[0]
    assert sum(creation.clock.slept) == (pytest.approx(60, abs=0.06) if "know" in message else 0)


@pytest.mark.parametrize(
    ("racks", "factor", "replicas"),
    [
        ({1: "", 2: "", 3: ""}, 3, (1, 2, 3)),
        ({3: "", 1: "", 2: ""}, 2, (1, 2)),
        ({1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}, 3, (1, 3, 5)),
        ({1: "a", 2: "a", 3: "b", 4: "b"}, 3, (1, 3, 2)),
        ({1: "a", 2: "a", 3: "a", 4: "b"}, 4, (1, 4, 2, 3)),
        ({1: "a"}, 3, (1,)),
        ({}, 3, ()),
    ],
)
def test_replicas(racks: dict[int, str], factor: int, replicas: tuple[int, ...]) -> None:
    """The replicas are on as many racks as possible, the lowest ids first."""
    assert choose_replicas(racks, factor) == replicas

"""Whole runs over a cluster in memory: what is read, what each kind of change sends, and what its record has then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import spec
from support.examples import slow_but
from support.kafka.fake_cluster import shorten_waits
from support.kafka.fake_kafka import FakeKafka, FakeSession, Hook, cut_at, kill_at, no_hook
from support.kafka.memory_records import RECORDS, Killed
from topiarist.adapters.kafka_admin import cluster as cluster_module
from topiarist.adapters.kafka_admin.cluster import (
    HINT_KEEP_RECORDS,
    MESSAGE_HAS_RECORDS,
    MESSAGE_NO_RECORDS,
    WARNING_NO_OWNERS,
    KafkaCluster,
    view_records,
)
from topiarist.adapters.kafka_admin.connection.connection import Disconnected
from topiarist.adapters.kafka_admin.moves import mover as mover_module
from topiarist.adapters.kafka_admin.moves.look import MoveReader
from topiarist.adapters.kafka_admin.read import configs, metadata, topic_reader
from topiarist.adapters.kafka_admin.read import state as cluster_state
from topiarist.adapters.kafka_admin.read.state import REMEDY_NO_RECORDS
from topiarist.adapters.kafka_admin.read.topic_reader import NO_MOVES_WITHOUT_RECORDS
from topiarist.adapters.kafka_admin.records import codec, log
from topiarist.adapters.kafka_admin.records.codec import Intent, IntentKind, Moved, Records, TopicRecord
from topiarist.adapters.kafka_admin.records.run import WARNING_ZOOKEEPER_ENDED, RecordsRun
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import TRANSACTIONS_TOPIC, ClusterMode
from topiarist.model.access import KafkaAccess, Placement, RecordsTopic
from topiarist.model.outcome import FreezeResult, Result
from topiarist.model.plan import Plan, RunOptions
from topiarist.model.state import (
    APACHE_KAFKA,
    GIVEN,
    UNKNOWN,
    Capabilities,
    ClosedRecords,
    ClusterState,
    Freeze,
    IdentifiedRecord,
    LeftRecords,
    OwnershipRecord,
    ReadError,
    Support,
    TopicState,
    WriteBlock,
    find_records_block,
)
from topiarist.planning.moves import ledger as ledger_module
from topiarist.planning.planner import FACTOR_SETTING, PARTITIONS_SETTING
from topiarist.planning.without_specs import UnmanageRequest, plan_unmanage
from topiarist.ports import MoveOptions

SMALL: dict[str, Any] = {"partitions": 1, "replicationFactor": 2}
BEFORE = (
    spec("grown", **SMALL, config={"retention.ms": 1000000}),
    spec("set", **SMALL, config={"retention.ms": 1000000, "segment.ms": 3600000}),
    spec("old", **SMALL),
)
WANTED = (
    spec("new", partitions=2, replicationFactor=3, config={"retention.ms": 1000000}),
    spec("grown", partitions=3, replicationFactor=2, config={"retention.ms": 1000000}),
    spec("set", **SMALL, config={"retention.ms": 2000000}),
    spec("old", ensure="Absent"),
)
REQUESTS = ("CreateTopics", "CreatePartitions", "IncrementalAlterConfigs", "DeleteTopics")
CHANGED_BY = dict(zip(REQUESTS, ("new", "grown", "set", "old"), strict=True))


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_waits(monkeypatch, 0.05)


@pytest.fixture
def kafka() -> FakeKafka:
    """Return a cluster with the topics and records of ``BEFORE``."""
    kafka = FakeKafka()
    outcomes = {each.topic: each.result for each in kafka.apply(kafka.plan(*BEFORE))}
    assert outcomes == dict.fromkeys(("grown", "set", "old"), Result.DONE)
    kafka.cluster.changes.clear()
    kafka.cluster.sent.clear()
    return kafka


def test_all_kinds_of_changes(kafka: FakeKafka) -> None:
    """Each change is made once, in its own request, and the next plan is empty."""
    outcomes = {each.topic: each for each in kafka.apply(kafka.plan(*WANTED))}
    assert {name: each.result for name, each in outcomes.items()} == dict.fromkeys(CHANGED_BY.values(), Result.DONE)
    assert sorted(kafka.cluster.sent) == sorted((*REQUESTS,))
    topics = kafka.cluster.topics
    assert sorted(topics.keys() - {RECORDS}) == ["grown", "new", "set"]
    assert [len(each) for each in topics["new"].replicas] == [3, 3]
    assert [len(each) for each in topics["grown"].replicas] == [2, 2, 2]
    assert topics["new"].config == {"retention.ms": "1000000"}
    assert topics["grown"].config == {"retention.ms": "1000000"}
    assert topics["set"].config == {"retention.ms": "2000000"}
    records = kafka.records().topics
    assert {name: each.intent for name, each in records.items()} == dict.fromkeys(records)
    assert records["new"].topic_id == topics["new"].id_text
    assert outcomes["new"].topic_id == topics["new"].id_text
    assert not kafka.plan(*WANTED).has_changes
    assert not kafka.records().lock.run


def test_the_state_of_a_cluster(kafka: FakeKafka) -> None:
    """Topics have their configs, records and ids; the cluster tells its mode, version and epoch."""
    state = kafka.read()
    topic = state.topics["set"]
    assert topic.config == {"retention.ms": "1000000", "segment.ms": "3600000"}
    assert topic.record is not None
    assert (topic.record.owner, topic.record_valid, topic.modified_externally) == ("default", True, False)
    assert topic.topic_id == kafka.cluster.topics["set"].id_text
    assert (state.mode, state.cluster_id, state.bypasses_brokers) == (ClusterMode.KRAFT, "ID", False)
    assert (state.controller, state.controller_epoch) == (3000, 1)
    assert (state.topic_errors, state.dangling_records, state.warnings) == ({}, {}, ())
    assert state.write_block.reason is None
    assert state.records_topic_id
    kafka.cluster.topics["set"].config["retention.ms"] = "7"
    assert kafka.read().topics["set"].modified_externally
    del kafka.cluster.topics["old"]
    assert [*kafka.read().dangling_records] == ["old"]
    found = kafka.cluster.add("old", (1, 2))
    assert kafka.read().topics["old"].record_valid is False
    assert kafka.read().topics["old"].topic_id == found.id_text


@pytest.mark.parametrize(
    ("code", "result", "reason"),
    [
        (29, Result.FAILED, Reason.NO_PERMISSION),
        (44, Result.REFUSED, Reason.POLICY_VIOLATION),
        (40, Result.REFUSED, Reason.CONFIG_INVALID),
        (42, Result.FAILED, Reason.WRITE_FAILED),
    ],
)
@pytest.mark.parametrize("request_name", REQUESTS)
def test_a_refused_change(kafka: FakeKafka, request_name: str, code: int, result: Result, reason: Reason) -> None:
    """A refusal concerns its topic alone, is not repeated, and leaves its record as it was."""
    name = CHANGED_BY[request_name]
    before = kafka.records().topics.get(name)
    ids = {topic.id_text: each for each, topic in kafka.cluster.topics.items()}

    def veto(asked: str, _element: Any) -> tuple[int, str] | None:
        return (code, "said the broker") if ids.get(asked, asked) == name else None

    kafka.cluster.vetoes.append(veto)
    outcomes = {each.topic: each for each in kafka.apply(kafka.plan(*WANTED))}
    assert (outcomes[name].result, outcomes[name].reason) == (result, reason)
    assert "said the broker" in outcomes[name].message
    others = {each.result for other, each in outcomes.items() if other != name}
    assert others == {Result.DONE}
    assert kafka.cluster.sent.count(request_name) == 1
    after = kafka.records().topics.get(name)
    assert after == before
    kafka.cluster.vetoes.clear()
    assert {each.result for each in kafka.apply(kafka.plan(*WANTED))} == {Result.DONE}


def test_a_freeze(kafka: FakeKafka) -> None:
    """It blocks writes until it is ended by its user, or with force; the state names it."""
    cluster, ada, plan = kafka.open(), Freeze("incident", "ada"), kafka.plan(*WANTED)
    assert cluster.set_freeze(ada, by="ada", force=False) == FreezeResult(Result.DONE, None)
    assert cluster.set_freeze(None, by="bob", force=False) == FreezeResult(Result.REFUSED, ada)
    state = kafka.read()
    assert state.write_block.reason is Reason.FROZEN
    assert "ada" in state.write_block.message
    with pytest.raises(TopiaristError) as caught:
        list(kafka.apply(plan))
    assert caught.value.reason is Reason.FROZEN
    assert kafka.cluster.sent == []
    assert cluster.set_freeze(None, by="bob", force=True) == FreezeResult(Result.DONE, ada)
    assert kafka.read().write_block.reason is None


def test_progress_and_inspection(kafka: FakeKafka) -> None:
    """Partitions with a leader are initialized; a record of an earlier topic of the name is stale."""
    cluster = kafka.open()
    progress = cluster.poll({"set": [0], "none": [0]})
    assert progress["set"].initialized == {0}
    assert not progress["set"].record_stale
    assert progress["none"].identity is None
    found = cluster.inspect("set")
    assert found.assignment == dict(enumerate(kafka.cluster.topics["set"].replicas))
    assert (found.identity, found.topic_id) == (kafka.cluster.topics["set"].id_text,) * 2
    assert cluster.inspect("none").identity is None
    assert [*cluster.inspect_all([kafka.read().topics["set"]])] == ["set"]
    kafka.cluster.add("set", (1, 2))
    assert cluster.poll({"set": [0]})["set"].record_stale
    assert cluster.read_cluster_id() == "ID"
    assert cluster.enable_decode_cache() is cluster
    assert cluster.requests is cluster._session.requests


def test_a_cluster_that_is_read_repeatedly_decodes_what_has_changed(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shows what a new session shows after each change, and decodes nothing while nothing changes."""
    decoded: list[str] = []

    def count(module: Any, name: str) -> None:
        decode = getattr(module, name)

        def decode_and_count(*given: Any) -> Any:
            decoded.append(name)
            return decode(*given)

        monkeypatch.setattr(module, name, decode_and_count)

    count(log, "committed_records")
    count(codec, "decode_records")
    count(configs, "_decode_overrides")
    count(metadata, "decode_metadata")
    for number in range(30):  # a few topics are described as a whole
        kafka.cluster.add(f"other-{number}", (1, 2))
    cluster = kafka.open().enable_decode_cache()
    for change in (
        lambda: None,
        lambda: kafka.cluster.add("other", (1, 2)),
        lambda: kafka.cluster.topics["set"].config.update({"retention.ms": "7"}),
        lambda: kafka.cluster.topics.pop("other"),
        lambda: [*kafka.apply(kafka.plan(*WANTED))],
        lambda: [*kafka.apply(kafka.plan(spec("set", **SMALL), owner="them", take_ownership=("*",)))],
    ):
        change()
        assert cluster.read().topics == kafka.read().topics
        cluster.read()  # in the one before, records that had just been written were not yet readable at first
        decoded.clear()
        state = cluster.read()
        assert (decoded.copy(), state.topics) == ([], kafka.read().topics)


def test_a_topic_of_records_that_was_recreated(kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """The records are lost: no topic counts as owned, and nothing may be written from their absence."""
    cluster = kafka.open()
    assert any(topic.valid_record for topic in cluster.read().topics.values())
    del kafka.cluster.topics[RECORDS]
    state = cluster.read()
    assert (state.records_error.reason, state.write_block.reason) == (Reason.RECORDS_LOST, Reason.RECORDS_LOST)
    assert not any(topic.record for topic in state.topics.values())
    assert state.warnings == (WARNING_NO_OWNERS,)
    monkeypatch.setattr(
        cluster_module, "read_state", lambda *given: replace(cluster_state.read_state(*given), warnings=("old",))
    )
    assert cluster.read().warnings == ("old", WARNING_NO_OWNERS)
    assert state.records_error.message.startswith("the records of topiarist cannot be read: ")


@pytest.mark.parametrize(("policy", "words"), [("delete", "; "), ("compact", "")])
def test_records_that_cannot_be_read_say_what_to_do(kafka: FakeKafka, policy: str, words: str) -> None:
    """What lasts has its hint in the message; the topics are read all the same."""
    kafka.cluster.topics[RECORDS].config["cleanup.policy"] = policy
    state = kafka.open().read()
    assert state.topics.keys() >= {"grown", "set", "old"}
    assert bool(state.records_error.reason) is bool(words)
    assert words in state.records_error.message


def test_the_config_of_records_is_checked_after_they_are_read(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records without an origin are read again after a sync; both reads leave the config to the read of all topics."""
    reads: list[bool] = []

    def read(_run: RecordsRun, *, checks_config: bool = True) -> Records:
        reads.append(checks_config)
        return Records()

    monkeypatch.setattr(RecordsRun, "read", read)
    assert kafka.open().read().records_error.reason is None
    assert reads == [False, False]


def test_a_topic_of_records_that_the_read_does_not_show(kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its config was not read with those of all topics, so that the brokers are asked for it."""
    asked: list[Mapping[str, str] | None] = []

    def read_state(*arguments: Any) -> ClusterState:
        state = cluster_state.read_state(*arguments)
        return replace(state, topics={name: each for name, each in state.topics.items() if name != RECORDS})

    monkeypatch.setattr(RecordsRun, "check_config", lambda _run, config: asked.append(config))
    kafka.open().read()
    monkeypatch.setattr(cluster_module, "read_state", read_state)
    assert kafka.open().read().records_error.reason is None
    assert asked == [kafka.cluster.topics[RECORDS].config, None]


def test_topics_and_records_that_cannot_be_read(kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic is not written if its state is hidden, and not if its record is of a later release."""
    hidden, unreadable = ReadError("topic hidden", "no permission"), ReadError("topic/set", "a later release")

    def read_state(*arguments: Any) -> ClusterState:
        return replace(cluster_state.read_state(*arguments), topic_errors={"hidden": hidden})

    def read(run: RecordsRun, *, checks_config: bool = True) -> Records:
        return read_records(run, checks_config=checks_config)._replace(errors={"set": unreadable})

    read_records = RecordsRun.read
    monkeypatch.setattr(cluster_module, "read_state", read_state)
    monkeypatch.setattr(RecordsRun, "read", read)
    assert kafka.read().topic_errors == {"hidden": hidden, "set": unreadable}


def test_only_records_with_an_intent_wait_for_their_topics() -> None:
    """A creation that was not carried out and a deleted topic leave no owner."""
    team, absent = OwnershipRecord("team"), Intent(IntentKind.CREATE, OwnershipRecord("team"), ((1,),))
    view = view_records(
        Records(
            topics={
                "done": TopicRecord(team, "1"),
                "changing": TopicRecord(team, "2", Intent(IntentKind.CHANGE, team, config={"a": "1"})),
                "deleted": TopicRecord(team, "3", Intent(IntentKind.DELETE, None)),
                "new": TopicRecord(None, None, absent),
            }
        )
    )
    assert view.topics == {"done": IdentifiedRecord(team, "1")}
    shown = TopicState("changing", "2", ((1,),), topic_id="2")
    assert view.resolve_pending({"changing": shown}) == {"changing": IdentifiedRecord(team, "2")}


def answer_to_fetch(code: int, name: str, _now: float) -> int | None:
    """Return a code for each Fetch."""
    return code if name == "Fetch" else None


def test_records_that_may_not_be_read_are_asked_for_once(kafka: FakeKafka) -> None:
    """Only records that seem lost, or a leader that is away, are worth a second read after a sync.

    Whatever keeps the records from being read, the topics are read.
    """
    for code, reason, reads in (
        (29, Reason.NO_PERMISSION, 1),
        (35, Reason.PREREQUISITE_MISSING, 1),
        (1, Reason.RECORDS_LOST, 2),
    ):
        kafka.always = partial(answer_to_fetch, code)
        session = FakeSession(kafka, no_hook)
        assert kafka.open(session=session).read().records_error.reason is reason
        assert session.sent.count("Fetch") == reads


def test_another_commit_counts_as_a_change(kafka: FakeKafka) -> None:
    """Where nothing proves how old metadata are, a second is waited for after each; records that stay are none."""
    session = FakeSession(kafka, no_hook)
    cluster = kafka.open(session=session)
    for is_changed in (True, False, True):
        session.changed_at = 0.0
        cluster.read()
        assert (session.changed_at > 0) is is_changed
        if not is_changed:
            kafka.new_run().set_freeze(Freeze("incident", "ada"), by="ada", force=False)


def test_the_record_of_a_deleted_topic_is_given_up(kafka: FakeKafka) -> None:
    """There is no topic to compare, and none to send a request for."""
    del kafka.cluster.topics["old"]
    plan, _ = plan_unmanage(kafka.read(), "prod", UnmanageRequest(("old",)), RunOptions())
    assert [(each.topic, each.result) for each in kafka.apply(plan)] == [("old", Result.DONE)]
    assert sorted(kafka.records().topics) == ["grown", "set"]
    assert kafka.cluster.sent == []


ADA = Freeze("incident", "ada")
CLOSED = ClosedRecords(
    "ID",
    "/kafka",
    {
        "orders": IdentifiedRecord(OwnershipRecord("team", ("flush.ms",)), "id-1"),
        "gone": IdentifiedRecord(OwnershipRecord("team", (), deleted=True), None),
    },
    freeze=ADA,
)


def count_requests() -> int:
    """Return the number of requests of a move without faults."""
    kafka, steps = FakeKafka(), []
    kafka.hook = lambda session, number, name, is_done: steps.append(number)
    move(kafka)
    return max(steps)


def move(kafka: FakeKafka) -> None:
    """Prepare the topic of records, and take the records, as one process."""
    cluster = kafka.open()
    cluster.prepare_records()
    cluster.take_records(CLOSED)


@pytest.mark.parametrize(
    ("fault", "is_done"),
    slow_but([(cut_at, True)], [(fault, is_done) for fault in (kill_at, cut_at) for is_done in (False, True)]),
)
def test_a_move_that_ends_at_any_request_is_continued(fault: Callable[..., Hook], is_done: bool) -> None:
    """After a kill or a lost connection at each request, all records are there or none; the next call completes."""
    steps = count_requests()
    assert steps > 10
    for step in range(1, steps + 1):
        kafka = FakeKafka()
        kafka.hook = fault(step, is_done=is_done)
        with suppress(Killed, TopiaristError):
            move(kafka)
        kafka.hook = lambda session, number, name, is_done: None
        before = kafka.records()
        assert set(before.topics) in (set(), set(CLOSED.records)), step
        assert (before.moved is None) is (not before.topics), step
        move(kafka)
        after = kafka.records()
        assert after.topics == {name: TopicRecord(*found) for name, found in CLOSED.records.items()}, step
        assert (after.moved, after.gate) == (Moved(CLOSED.chroot, 2), ADA), step
        assert kafka.commit_numbers() == [*range(1, after.number + 1)], step


def test_a_repeated_move_writes_no_record() -> None:
    """The result of the first one is returned, also to a look without a fence."""
    kafka = FakeKafka()
    assert not kafka.open().check_moved_records(CLOSED).repeated
    move(kafka)
    number = kafka.records().number
    assert kafka.open().take_records(CLOSED).repeated
    assert kafka.open().check_moved_records(CLOSED).repeated
    assert kafka.records().number == number


def test_records_of_another_cluster_are_refused() -> None:
    """Both cluster ids are named, and nothing is written."""
    kafka = FakeKafka()
    other = ClosedRecords("OTHER", "/kafka", CLOSED.records)
    for call in (kafka.open().check_moved_records, kafka.open().take_records):
        with pytest.raises(
            TopiaristError, match=r"spec\.kafka leads to the cluster ID, and spec\.zookeeper to OTHER"
        ) as e:
            call(other)
        assert e.value.reason is Reason.WRONG_CLUSTER
        assert e.value.hint == "correct one of the addresses: nothing was written"
    assert kafka.records().number == 0


def left(cluster_id: str = "ID", records: int = 0, **fields: Any) -> Callable[[], LeftRecords]:
    """Return what ZooKeeper answers."""
    return lambda: LeftRecords(cluster_id, records, **fields)


def fail() -> LeftRecords:
    """Raise the error of a ZooKeeper that does not answer."""
    raise TopiaristError(Reason.UNREACHABLE, "no answer of zk:2181")


def test_what_zookeeper_holds_is_in_the_state(kafka: FakeKafka) -> None:
    """Records that were not moved block writes; a ZooKeeper without an answer is a warning; a freeze hides neither.

    Another block of writes comes first, and ZooKeeper is not asked then.
    """
    state = kafka.open(read_left_records=left(records=2)).read()
    assert state.write_block == find_records_block(left(records=2)(), are_taken=False)
    state = kafka.open(read_left_records=fail).read()
    assert (state.write_block, state.warnings) == (WriteBlock(), (WARNING_ZOOKEEPER_ENDED,))
    kafka.open().set_freeze(ADA, by="ada", force=False)
    assert kafka.open(read_left_records=left()).read().write_block.reason is Reason.FROZEN
    state = kafka.open(read_left_records=left(records=2)).read()
    assert state.write_block.reason is Reason.RECORDS_NOT_MOVED
    kafka.cluster.topics[RECORDS].config["cleanup.policy"] = "delete"
    state = kafka.open(read_left_records=left(records=2)).read()
    assert state.write_block.reason is Reason.RECORDS_LOST


def test_records_left_in_zookeeper_end_a_run(kafka: FakeKafka) -> None:
    """A run that writes asks for itself, and names them; nothing is sent."""
    plan = kafka.plan(*WANTED)
    with pytest.raises(TopiaristError, match="ZooKeeper has 2 ownership records, not moved to Kafka") as caught:
        list(kafka.apply(plan, kafka.open(read_left_records=left(records=2))))
    assert caught.value.reason is Reason.RECORDS_NOT_MOVED
    assert kafka.cluster.sent == []


def test_the_settings_of_transactions_are_defaults_while_there_is_no_topic_of_them(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan says which topic the brokers would make; dynamic defaults stay, and the id is that of the records."""

    def read_settings(_session: Any, broker: int, keys: Sequence[str]) -> Mapping[str, str]:
        return dict.fromkeys(keys, f"of broker {broker}")

    def read_state(*arguments: Any) -> ClusterState:
        return replace(cluster_state.read_state(*arguments), broker_defaults={"log.segment.ms": "8"})

    monkeypatch.setattr(cluster_module, "read_static_settings", read_settings)
    monkeypatch.setattr(cluster_module, "read_state", read_state)
    state = kafka.read()
    assert state.broker_defaults == {
        "log.segment.ms": "8",
        **dict.fromkeys((PARTITIONS_SETTING, FACTOR_SETTING), "of broker 1"),
    }
    assert state.records_topic_id == kafka.cluster.topics[RECORDS].id_text
    cluster: Any = kafka.open()
    assert cluster._read_transaction_settings(replace(state, brokers=())) == {}
    kafka.cluster.add(TRANSACTIONS_TOPIC, (1, 2))
    assert kafka.read().broker_defaults == {"log.segment.ms": "8"}


@pytest.mark.parametrize(
    ("denied", "why"),
    [
        ({"transactions": Support(False, "no EndTxn")}, f"no EndTxn; {REMEDY_NO_RECORDS}"),
        ({"topic_ids": Support(False, "no ids")}, "no ids"),
    ],
)
def test_brokers_that_take_no_records(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch, denied: dict[str, Support], why: str
) -> None:
    """A run that writes is refused with what is missing, and what to do."""
    plan = kafka.plan(*WANTED)
    monkeypatch.setattr(cluster_module, "find_capabilities", lambda connection: replace(APACHE_KAFKA, **denied))
    for call in (lambda: list(kafka.apply(plan)), kafka.open().prepare_records):
        with pytest.raises(TopiaristError) as caught:
            call()
        assert (caught.value.reason, caught.value.message) == (Reason.NOT_OFFERED, why)
    assert kafka.cluster.sent == []


def test_lists_of_a_service_that_places_replicas_are_not_asked_about(kafka: FakeKafka) -> None:
    """The Cluster says what becomes of them."""
    plan = replace(kafka.plan(*WANTED), capabilities=Capabilities(replica_lists=UNKNOWN, growth_lists=UNKNOWN))
    assert kafka.open().find_refusals(plan).capabilities.replica_lists == GIVEN
    kafka.cluster.sent.clear()
    kafka.access = replace(kafka.access, placement=next(iter(Placement)))
    assert kafka.open().find_refusals(plan).capabilities == plan.capabilities
    assert kafka.cluster.sent == []


def test_prepared_records_prove_that_they_can_be_written() -> None:
    """One commit is made, also while the cluster is frozen; no lock is held afterwards."""
    kafka = FakeKafka()
    kafka.open().prepare_records()
    assert (kafka.records().number, bool(kafka.records().lock.run)) == (1, False)
    kafka.open().set_freeze(ADA, by="ada", force=False)
    kafka.open().prepare_records()
    assert kafka.records().number == 3


def without_records(kafka: FakeKafka) -> KafkaCluster:
    """Return the cluster for a document that keeps no records."""
    kafka.access = replace(kafka.access, records=None)
    return kafka.open()


def test_a_topic_of_records_blocks_runs_without_records(kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other runs may keep a lock there, even if it is hidden. No freeze and no move is kept without records."""
    cluster, moving = without_records(kafka), Plan("prod", "")
    state = cluster.read()
    blocked = WriteBlock(Reason.RECORDS_LOST, MESSAGE_HAS_RECORDS.format(RECORDS))
    assert state.write_block == blocked
    assert not any(topic.record for topic in state.topics.values())
    assert cluster.clear_moves() is None
    with pytest.raises(TopiaristError) as caught:
        cluster.set_freeze(ADA, by="ada", force=False)
    assert (caught.value.reason, caught.value.message) == (Reason.NOT_OFFERED, MESSAGE_NO_RECORDS)
    assert caught.value.hint == HINT_KEEP_RECORDS
    with pytest.raises(TopiaristError) as caught:
        list(cluster.move(moving, MoveOptions(), lambda: False))
    assert (caught.value.reason, caught.value.message) == (Reason.NOT_OFFERED, NO_MOVES_WITHOUT_RECORDS)
    del kafka.cluster.topics[RECORDS]
    state = cluster.read()
    assert state.write_block == WriteBlock()
    hidden = replace(state, topic_errors={RECORDS: ReadError("topic", "hidden")})
    monkeypatch.setattr(cluster_module, "read_state", lambda *_: hidden)
    assert cluster.read() == replace(hidden, write_block=blocked)
    frozen = WriteBlock(Reason.FROZEN, "the cluster is frozen")
    monkeypatch.setattr(cluster_module, "read_state", lambda *_: replace(hidden, write_block=frozen))
    assert cluster.read().write_block == frozen


@pytest.mark.parametrize(
    ("first", "second", "remedy"),
    [
        (RECORDS, "team-records", f"Remove spec.kafka.records.topic; or delete {RECORDS}"),
        ("team-records", RECORDS, "Set spec.kafka.records.topic: team-records; or delete team-records"),
        ("team-records", "other", "Set spec.kafka.records.topic: team-records; or delete team-records"),
    ],
)
def test_records_do_not_begin_in_a_second_topic(first: str, second: str, remedy: str) -> None:
    """A plan has a write block, and no run writes or fences the live one, also if the second topic exists, empty."""
    kafka = FakeKafka()
    kafka.access = replace(kafka.access, records=RecordsTopic(first))
    plan = kafka.plan(*BEFORE)
    live = kafka.open()._open_records()
    live.acquire()
    live.commit({}, hold=True)
    kafka.access = replace(kafka.access, records=RecordsTopic(second))
    for is_made in (False, True):
        if is_made:
            kafka.cluster.add(second, (1, 2, 3), **{"cleanup.policy": "compact"})
        before = set(kafka.cluster.topics)
        block = kafka.open().read().write_block
        assert block.reason is Reason.RECORDS_LOST
        assert remedy in block.message
        for write in (
            lambda cluster: cluster.set_freeze(ADA, by="ada", force=False),
            KafkaCluster.prepare_records,
            lambda cluster: [*cluster.apply(plan, lambda: False)],
        ):
            with pytest.raises(TopiaristError) as caught:
                write(kafka.open())
            assert (caught.value.reason, caught.value.message) == (Reason.RECORDS_LOST, block.message)
        assert set(kafka.cluster.topics) == before
        live.require_fence()
    assert kafka._logs[kafka.cluster.topics[second].id].end == 0
    del kafka.cluster.topics[first]
    assert kafka.open().read().write_block == WriteBlock()
    kafka.open().set_freeze(ADA, by="ada", force=False)
    assert kafka.open().read().write_block.reason is Reason.FROZEN


def test_runs_without_records_stop_beside_a_custom_topic_of_records() -> None:
    """Its name does not say what it is; its configs do."""
    kafka = FakeKafka()
    kafka.access = replace(kafka.access, records=RecordsTopic("team-records"))
    kafka.open().prepare_records()
    block = without_records(kafka).read().write_block
    assert block == WriteBlock(Reason.RECORDS_LOST, MESSAGE_HAS_RECORDS.format("team-records"))


# What the cluster hands to its parts, which have their own tests.


def test_questions_that_a_reader_answers(kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is asked over the session of the cluster, and its answer is returned."""
    cluster = kafka.open()
    session = cluster._session
    questions = {"find_allowed_operations": "read_allowed_operations", "read_broker_throttles": "read_broker_throttles"}
    for method, function in questions.items():
        monkeypatch.setattr(topic_reader, function, lambda *given: given)
        assert getattr(cluster, method)() == (session,)
    assert cluster.find_capabilities() == cluster_state.read_capabilities(session)


def test_a_session_and_a_run_have_what_the_cluster_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The times, the owner, the topic of records with its known id, and who is told of it; all is closed at the end."""
    made: list[tuple[str, tuple[Any, ...]]] = []
    session = FakeSession(FakeKafka(), no_hook)
    monkeypatch.setattr(session, "close", lambda: made.append(("close", ())))

    def open_session(*given: Any) -> FakeSession:
        made.append(("Session", given))
        return session

    def open_records(*given: Any, **fields: Any) -> None:
        made.append(("RecordsRun", (*given, fields)))

    monkeypatch.setattr(cluster_module, "Session", open_session)
    monkeypatch.setattr(cluster_module, "RecordsRun", open_records)
    notices: list[str] = []
    access = KafkaAccess("kafka:9092", records=RecordsTopic("mine", known_id="ID"))
    with KafkaCluster(access, owner="team", connect_timeout=3.0, lock_timeout=7.0, on_notice=notices.append) as cluster:
        cluster._open_records()
    (_, opened), (_, (used, owner, view, fields)), (end, _) = made
    assert (opened, used, owner, end) == ((access, 3.0), session, "team", "close")
    assert fields == {"topic": access.records, "lock_timeout": 7.0}
    view.on_notice("made without")
    assert notices == ["made without"]
    made.clear()
    KafkaCluster(access, owner="team")._open_records()
    assert (made[0][1][1], made[1][1][3]["lock_timeout"]) == (10.0, 60.0)


@pytest.mark.parametrize("error", [Disconnected("gone", was_sent=True), TopiaristError(Reason.NO_CONTROLLER, "none")])
def test_the_epoch_of_a_controller_that_does_not_answer(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """It is not known: a run waits for late requests then."""
    cluster = kafka.open()
    assert cluster._read_leader_epoch() == 1

    def fail(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(cluster_module, "read_quorum", fail)
    assert cluster._read_leader_epoch() is None


def test_moves_come_before_elections(kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have the session, the records and the stop of the run; so has the end of a record of moves."""
    cluster, plan, options, made = kafka.open(), Plan("prod", ""), MoveOptions(), list[tuple[Any, ...]]()

    class Part:
        def __init__(self, name: str, *given: Any) -> None:
            self.name = name
            made.append((name, *given))

        def execute(self) -> Iterator[str]:
            yield self.name

    def stop() -> bool:
        return False

    for name in ("Mover", "Elector"):
        monkeypatch.setattr(mover_module, name, partial(Part, name))
    monkeypatch.setattr(
        ledger_module, "carry_out", lambda given, *parts: [given, *(each for p in parts for each in p())]
    )
    assert [*cluster.move(plan, options, stop)] == [plan, "Mover", "Elector"]
    for name, (access, *rest) in zip(("Mover", "Elector"), (each[1:] for each in made), strict=True):
        assert (name, rest) == (name, [plan, options])
        assert (access.session, access.stop) == (cluster._session, stop)
        assert isinstance(access.reader, MoveReader)
        assert isinstance(access.records, RecordsRun)
    monkeypatch.setattr(mover_module, "clear_moves", lambda *given: given)
    session, reader, records = cluster.clear_moves()  # type: ignore[misc]
    assert session is cluster._session
    assert (isinstance(reader, MoveReader), isinstance(records, RecordsRun)) == (True, True)

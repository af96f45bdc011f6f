"""Tests of the writer of one plan over brokers in memory: each step of a chunk, and a fault at each step."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import refusal_reasons, spec
from support.kafka.fake_cluster import (
    Lists,
    answer_code,
    lose_answer,
    lose_request,
    refuse_connection,
    shorten_waits,
    veto_topics,
)
from support.kafka.write_bench import Bench, results
from support.memory_cluster import Gate
from topiarist import throttle
from topiarist.adapters.kafka_admin.records.codec import Records
from topiarist.adapters.kafka_admin.write import chunks, writer
from topiarist.adapters.kafka_admin.write.dry_run import ask_brokers
from topiarist.adapters.kafka_admin.write.writer import Writer
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import UNPLACED
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import AddPartitions, CreateTopic, Nudge, Plan, TopicPlan, UpdateConfig
from topiarist.model.state import GIVEN, ReadError, Support
from topiarist.ports import NO_CONTROL
from topiarist.reconcile import withhold_vetoed_changes
from unit.adapters.kafka_admin.scripted_session import FakeTime

ONE_BY_TWO: dict[str, Any] = {"partitions": 1, "replicationFactor": 2}


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_waits(monkeypatch, 0.3)


def test_everything_in_one_plan_and_the_second_run_sends_nothing(bench: Bench) -> None:
    """A run creates, grows and configures, and deletes by id; a second run has nothing to do."""
    bench.cluster.add("grown", (1, 2), (2, 3), retention_ms="1000000")
    bench.cluster.add("old", (1, 2))
    for name in ("grown", "old"):
        bench.own(name)
    specs = (
        spec("new", config={"retention.ms": 3600000}),
        spec("grown", partitions=4, replicationFactor=2, config={"retention.ms": 2000000}),
        spec("old", ensure="Absent"),
    )
    plan = bench.plan(*specs)
    outcomes = bench.apply(plan)
    assert results(outcomes) == dict.fromkeys(("new", "grown", "old"), Result.DONE)
    assert bench.cluster.sent == ["DeleteTopics", "IncrementalAlterConfigs", "CreatePartitions", "CreateTopics"]
    assert bench.records.fence_checks == 4
    assert outcomes["new"].topic_id == bench.cluster.topics["new"].id_text
    assert bench.records.intents == []
    assert not bench.records.is_held
    assert [hold for _, hold in bench.records.commits] == [True, True, True, False]
    bench.cluster.sent.clear()
    assert not bench.plan(*specs).has_changes


def test_a_connection_that_breaks_before_the_request_is_sent_is_opened_again_once(bench: Bench) -> None:
    """A request that no broker can have received is sent over a new connection, after a new check of the fence."""
    bench.cluster.on("CreateTopics", refuse_connection)
    assert results(bench.apply(bench.plan(spec("a")))) == {"a": Result.DONE}
    assert bench.records.fence_checks == 2
    assert bench.session.calls["forget_controller"] == 1
    bench.cluster.on("CreateTopics", refuse_connection, refuse_connection)
    outcomes = bench.apply(bench.plan(spec("a"), spec("b")))
    assert results(outcomes) == {"b": Result.SKIPPED}
    assert bench.error
    assert bench.error.reason is Reason.UNREACHABLE
    assert bench.records.intents == []


def test_ownership_alone_needs_no_request_and_no_intent(bench: Bench) -> None:
    """Taking over an equal topic writes its record in one transaction, and no Admin request."""
    bench.cluster.add("a", (1, 2))
    outcomes = bench.apply(bench.plan(spec("a", partitions=1, replicationFactor=2)))
    assert results(outcomes) == {"a": Result.DONE}
    assert bench.cluster.sent == []
    assert [(sorted(changes), hold) for changes, hold in bench.records.commits] == [(["a"], False)]
    assert bench.records.topics["a"].topic_id == bench.cluster.topics["a"].id_text


@pytest.mark.parametrize("is_stopped", [False, True])
def test_final_records_join_the_intents_of_the_next_chunk(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, is_stopped: bool
) -> None:
    """A run of three chunks has four transactions; only the last one frees the lock.

    After a stop no new chunk begins; the topics of the current one have their outcomes and records.
    """
    monkeypatch.setattr(chunks, "MAX_CREATIONS", 2)
    plan = bench.plan(*(spec(f"t{each}") for each in range(5)))
    outcomes = bench.apply(plan, lambda: is_stopped and bool(bench.records.fence_checks))
    later = Result.SKIPPED if is_stopped else Result.DONE
    assert list(results(outcomes).values()) == [Result.DONE] * 2 + [later] * 3
    commits = [(sorted(changes), hold) for changes, hold in bench.records.commits]
    first = (["t0", "t1"], True)
    if is_stopped:
        assert commits == [first, (["t0", "t1"], False)]
    else:
        joined = [(["t0", "t1", "t2", "t3"], True), (["t2", "t3", "t4"], True)]
        assert commits == [first, *joined, (["t4"], False)]
    assert bench.records.intents == []


def test_a_caller_that_takes_no_more_outcomes_leaves_a_free_lock(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The iteration ends between two chunks: the final records of the first are written, and the lock is free."""
    monkeypatch.setattr(chunks, "MAX_CREATIONS", 1)
    run = bench.run(bench.plan(spec("a"), spec("b"), spec("c")))
    assert next(run).topic == "a"  # committed with the intents of the second chunk
    assert bench.records.is_held
    run.close()  # type: ignore[attr-defined]
    assert not bench.records.is_held
    assert bench.records.intents == []
    assert bench.records.topics.keys() == {"a", "b"}


def test_a_caller_that_leaves_before_the_first_request_writes_nothing(bench: Bench) -> None:
    """Without final records there is nothing to commit, and the lock is free."""
    bench.unreadable = {"a"}
    run = bench.run(bench.plan(spec("a"), spec("b")))
    assert next(run) == Outcome("a", Result.CONFLICT, Reason.TOPIC_UNREADABLE, "a: no permission")
    run.close()  # type: ignore[attr-defined]
    assert (bench.records.commits, bench.cluster.sent, bench.records.is_held) == ([], [], False)


def test_a_topic_that_cannot_be_read_is_not_written(bench: Bench) -> None:
    """A topic that is unreadable before the write is a conflict; after the write its outcome is unknown."""
    bench.unreadable = {"a"}
    assert results(bench.apply(bench.plan(spec("a"), spec("b")))) == {"a": Result.CONFLICT, "b": Result.DONE}
    bench.unreadable = set()

    def hide(look: int) -> None:
        bench.unreadable = {"c"} if look == bench.looks >= third else set()

    third = bench.looks + 3
    bench.before_look = hide
    bench.own("c")
    changed = spec("c", **ONE_BY_TWO, config={"retention.ms": 3600000})
    assert results(bench.apply(bench.plan(spec("b"), changed))) == {"c": Result.UNKNOWN}
    assert bench.records.intents == ["c"]


def test_a_topic_that_another_client_recreates_after_the_intents(bench: Bench) -> None:
    """Nothing is sent for it; its old record comes back, and the outcome says what happened."""
    bench.own("c")
    plan = bench.plan(spec("c", **ONE_BY_TWO, config={"retention.ms": 3600000}))
    old = bench.records.topics["c"]

    def recreate(look: int) -> None:
        if look == 2:
            bench.replace("c", (1, 2))

    bench.looks, bench.before_look = 0, recreate
    (outcome,) = bench.apply(plan).values()
    assert (outcome.result, outcome.reason) == (Result.CONFLICT, Reason.STATE_CONFLICT)
    assert outcome.message == "was deleted and recreated, so it is a different topic"
    assert (bench.records.topics["c"], bench.cluster.topics["c"].config) == (old, {})


def test_a_plan_that_another_run_has_applied(bench: Bench) -> None:
    """Nothing is sent for it a second time."""
    plan = bench.plan(spec("a"))
    bench.apply(plan)
    bench.cluster.sent.clear()
    assert results(bench.apply(plan)) == {"a": Result.UNCHANGED}
    assert bench.cluster.sent == []


def test_a_record_of_another_topic_does_not_count(bench: Bench) -> None:
    """A run that finds the id of an earlier topic in the record sends nothing."""
    bench.own("a")
    plan = bench.plan(spec("a", **ONE_BY_TWO, config={"retention.ms": 3600000}))
    bench.records.topics["a"] = bench.records.topics["a"]._replace(topic_id="another")
    (outcome,) = bench.apply(plan).values()
    assert (outcome.result, outcome.reason) == (Result.CONFLICT, Reason.STATE_CONFLICT)
    assert "missing or stale" in outcome.message
    assert bench.cluster.sent == []


def test_a_record_that_cannot_be_read_is_never_overwritten(bench: Bench) -> None:
    """A record of a later release leaves its topic alone; the others are written."""
    bench.records.errors["a"] = ReadError("topic/a", "version 2 is of a later release")
    outcomes = bench.apply(bench.plan(spec("a"), spec("b")))
    assert results(outcomes) == {"a": Result.CONFLICT, "b": Result.DONE}
    assert "topic/a: version 2" in outcomes["a"].message
    assert "a" not in bench.records.topics


class Turnstile(Gate):
    """A gate that remembers what it saw while it waited."""

    def __init__(self, bench: Bench, room: int) -> None:
        super().__init__(room)
        self._bench = bench
        self.outcomes: list[str] = []
        self.seen: list[tuple[bool, int]] = []

    def wait(self) -> None:
        """Make room."""
        super().wait()
        self.seen.append((self._bench.records.is_held, len(self.outcomes)))

    def on_outcome(self, topic: TopicPlan, outcome: Outcome) -> None:
        """Remember the topic."""
        self.outcomes.append(outcome.topic)


def test_a_run_that_waits_for_the_controller_holds_no_lock_and_has_told_all_outcomes(bench: Bench) -> None:
    """The final records are committed before the wait: another run may go on, and this one acquires them again."""
    turnstile = Turnstile(bench, 2)
    plan = bench.plan(*(spec(f"t{each}") for each in range(5)))
    topics = {topic.topic: topic for topic in plan.topics}
    for outcome in bench.run(plan, throttle=turnstile):
        turnstile.on_outcome(topics[outcome.topic], outcome)
    assert turnstile.outcomes == [f"t{each}" for each in range(5)]
    assert turnstile.seen == [(False, 2), (False, 4)]
    assert bench.records.acquisitions == 3
    assert bench.cluster.sent == ["CreateTopics"] * 3


def test_a_run_without_the_lock_takes_nothing_from_the_throttle(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known of its topics: there is an error, and no outcome."""

    def refuse(_stop: object) -> Records:
        raise TopiaristError(Reason.LOCKED, "another run is writing")

    monkeypatch.setattr(bench.records, "acquire", refuse)
    turnstile = Turnstile(bench, 0)
    run = bench.run(bench.plan(spec("a")), throttle=turnstile)
    with pytest.raises(TopiaristError, match="another run is writing"):
        next(run)
    assert turnstile.waits == 0


def test_nothing_to_do_takes_no_lock_and_sends_nothing(bench: Bench) -> None:
    """A plan without changes does not even acquire the records."""
    assert bench.apply(bench.plan()) == {}
    assert (bench.records.acquisitions, bench.records.commits, bench.looks) == (0, [], 0)


def test_a_nudge_is_refused_with_its_reason(bench: Bench) -> None:
    """Kafka's protocol has no request for it; the other topics are written."""
    bench.own("stuck")
    plan = bench.plan(spec("a"))
    stuck = TopicPlan("stuck", changes=(Nudge((0,)),), before=bench.state().topics["stuck"])
    outcomes = bench.apply(replace(plan, topics=(*plan.topics, stuck)))
    assert results(outcomes) == {"a": Result.DONE, "stuck": Result.REFUSED}
    assert outcomes["stuck"] == Outcome(
        "stuck",
        Result.REFUSED,
        Reason.NOT_INITIALIZED,
        "Kafka's protocol has no request that makes the controller initialize a partition again",
    )


def test_an_error_of_the_first_look_ends_the_run(bench: Bench) -> None:
    """Brokers that cannot be read before a chunk leave its topics as they were."""

    def fail(look: int) -> None:
        if look == 1:
            raise TopiaristError(Reason.UNREACHABLE, "no broker")

    bench.before_look = fail
    assert results(bench.apply(bench.plan(spec("a")))) == {"a": Result.SKIPPED}
    assert bench.cluster.sent == []
    assert bench.error
    assert bench.error.reason is Reason.UNREACHABLE


def test_brokers_that_cannot_be_read_after_the_requests_leave_the_intents(bench: Bench) -> None:
    """What was sent is unknown: the intents stay for the next run."""

    def fail(look: int) -> None:
        if look >= 3:
            raise TopiaristError(Reason.UNREACHABLE, "no broker")

    for name in ("a", "b"):
        bench.own(name)
    bench.before_look = fail
    changed = [spec(name, **ONE_BY_TWO, config={"retention.ms": 3600000}) for name in ("a", "b")]
    assert results(bench.apply(bench.plan(*changed))) == {"a": Result.UNKNOWN, "b": Result.UNKNOWN}
    assert bench.records.intents == ["a", "b"]
    assert bench.error
    assert "a, b" in str(bench.error)


def test_topics_beyond_a_quota_join_a_later_chunk(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is free while the quota is waited for, and what was left out has no intent."""
    waits: list[tuple[bool, bool, list[str]]] = []

    def wait(_: Writer, until: float, *, is_progress: bool) -> None:
        assert until > 0
        waits.append((is_progress, bench.records.is_acquired, bench.records.intents))
        bench.cluster.quota = 2 if len(waits) > 1 else 0

    monkeypatch.setattr(Writer, "_wait_for_quota", wait)
    monkeypatch.setattr(chunks, "QUOTA_WAIT_S", 0.0)
    bench.cluster.quota = 1
    outcomes = bench.apply(bench.plan(*map(spec, "abc")))
    assert results(outcomes) == dict.fromkeys("abc", Result.DONE)
    assert waits == [(True, False, []), (False, False, [])]
    assert bench.cluster.sent == ["CreateTopics"] * 3
    assert bench.records.topics.keys() == {"a", "b", "c"}


def test_a_stopped_run_leaves_out_what_a_quota_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is skipped; what was made has its record."""
    monkeypatch.setattr(chunks, "QUOTA_WAIT_S", 0.0)
    bench.cluster.quota = 1
    outcomes = bench.apply(bench.plan(spec("a"), spec("b")), lambda: bool(bench.cluster.sent))
    assert results(outcomes) == {"a": Result.DONE, "b": Result.SKIPPED}
    assert bench.records.topics.keys() == {"a"}


def test_a_run_that_loses_its_records_saves_what_is_known(bench: Bench) -> None:
    """The fence fails between two requests: what was sent is read once more, and what was not is skipped."""

    def fence(number: int) -> None:
        if number == 2:
            raise TopiaristError(Reason.SESSION_LOST, "fenced", "wait")

    for name in ("grown", "old"):
        bench.own(name)
    bench.records.before_fence = fence
    plan = bench.plan(spec("old", ensure="Absent"), spec("grown", partitions=2, replicationFactor=2))
    outcomes = bench.apply(plan)
    assert results(outcomes) == {"old": Result.DONE, "grown": Result.SKIPPED}
    assert (bench.error and (bench.error.reason, bench.error.hint)) == (Reason.SESSION_LOST, "wait")
    assert bench.records.intents == []


def test_the_record_of_a_change_that_was_made_in_part(bench: Bench) -> None:
    """It has the configs that the topic shows, and the partitions that it has; the next plan grows it alone."""
    bench.own("a")
    wanted = spec("a", partitions=2, replicationFactor=2, config={"retention.ms": 3600000})
    bench.cluster.on("CreatePartitions", answer_code(44, "no growth"))
    (outcome,) = bench.apply(bench.plan(wanted)).values()
    assert (outcome.result, outcome.reason) == (Result.REFUSED, Reason.POLICY_VIOLATION)
    found = bench.records.topics["a"]
    assert (found.topic_id, found.intent) == (bench.cluster.topics["a"].id_text, None)
    assert found.record
    assert found.record.config_keys == ("retention.ms",)
    (topic,) = bench.plan(wanted).topics
    assert [type(change) for change in topic.changes] == [AddPartitions]


def test_a_run_whose_final_records_are_not_written(bench: Bench) -> None:
    """What was made is not known to the records, so its outcome is unknown; a conflict is one all the same."""
    for name in ("changed", "kept"):
        bench.own(name)
    plan = bench.plan(
        spec("changed", **ONE_BY_TWO, config={"retention.ms": 3600000}),
        spec("kept", **ONE_BY_TWO, config={"retention.ms": 3600000}),
        *map(spec, ("later", "new")),
    )
    started = bench.looks

    def recreate(look: int) -> None:
        if look == started + 2:
            bench.replace("kept", (1, 2))

    def end(number: int) -> None:
        bench.records.is_fenced = number >= 2

    bench.before_look, bench.records.before_commit = recreate, end
    outcomes = bench.apply(plan)
    unknown = "whether the change was made is unknown (the run ended before its record was written);"
    assert outcomes == {
        "changed": Outcome(
            "changed", Result.UNKNOWN, Reason.OUTCOME_UNKNOWN, f"{unknown} the next run reads it and completes it"
        ),
        "kept": Outcome(
            "kept", Result.CONFLICT, Reason.STATE_CONFLICT, "was deleted and recreated, so it is a different topic"
        ),
        **{name: Outcome(name, Result.SKIPPED) for name in ("later", "new")},
    }
    assert bench.error
    assert bench.error.message == "another run took over; the outcome of these topics has to be read: changed"
    assert (bench.error.reason, bench.error.hint) == (Reason.SESSION_LOST, "run again")
    assert bench.records.intents == ["changed", "kept"]


@pytest.mark.parametrize("is_over", [False, True])
def test_a_run_that_is_fenced_before_its_first_request(bench: Bench, is_over: bool) -> None:
    """Nothing was sent: old records come back if they still can, and all topics are skipped."""
    bench.own("changed")
    before = dict(bench.records.topics)
    plan = bench.plan(spec("changed", **ONE_BY_TWO, config={"retention.ms": 3600000}), spec("new"))

    def fence(number: int) -> None:
        bench.records.is_fenced = is_over
        raise TopiaristError(Reason.SESSION_LOST, f"fenced at {number}")

    bench.records.before_fence = fence
    outcomes = bench.apply(plan)
    assert outcomes == {name: Outcome(name, Result.SKIPPED) for name in ("changed", "new")}
    assert (bench.error and bench.error.message, bench.cluster.sent) == ("fenced at 1", [])
    assert (bench.records.topics == before) is not is_over
    assert bench.records.intents == (["changed"] if is_over else [])


def test_a_request_whose_outcome_stays_open(bench: Bench) -> None:
    """After the last look its intent stays, and the run ends with what the brokers did not do in time."""
    bench.cluster.on("CreateTopics", lose_request)
    bench.own("a")
    outcomes = bench.apply(bench.plan(spec("new"), spec("other", partitions=1, replicationFactor=1)))
    assert {each.result for each in outcomes.values()} == {Result.SKIPPED}
    words = "it was sent and not carried out: it does not exist (the broker closed the connection)"
    assert {each.message for each in outcomes.values()} == {words}
    assert bench.error
    assert bench.error.message == "the brokers did not answer in time, and not all planned changes were made"
    assert (bench.error.reason, bench.error.hint) == (Reason.NO_CONTROLLER, writer.HINT_RUN_AGAIN)
    assert bench.records.intents == []


@pytest.mark.parametrize("is_registered", [True, False])
def test_lists_that_brokers_refuse_name_brokers_that_were_not_registered(bench: Bench, is_registered: bool) -> None:
    """The code of a list is also that of lists with another fault, so the brokers of the plan are compared."""
    bench.cluster.on("CreateTopics", answer_code(39, "said the broker"))
    plan = bench.plan(spec("a"))
    placed = plan.topics[0].placed_brokers()
    brokers = tuple(each for each in plan.brokers if is_registered or each.id not in placed)
    (outcome,) = bench.apply(replace(plan, brokers=brokers)).values()
    assert (outcome.result, outcome.reason) == (
        (Result.CONFLICT, Reason.STATE_CONFLICT) if is_registered else (Result.REFUSED, Reason.UNKNOWN_BROKERS)
    )


UNKNOWN = "whether the change was made is unknown ({}); the next run reads it and completes it"


@pytest.mark.parametrize(
    ("name", "why"),
    [("new", "the broker closed the connection"), ("grown", "the brokers do not show it yet")],
)
def test_a_stopped_run_reads_once_what_may_be_made_late(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str, why: str
) -> None:
    """It does not wait: the outcome is unknown, with what is missing, and the intent stays."""
    monkeypatch.setattr(writer, "sleep_unless_stopped", lambda seconds, stop: pytest.fail("waits"))
    bench.own("grown")
    bench.cluster.on("CreateTopics", lose_request)
    bench.hidden_looks = range(3, 5)
    outcomes = bench.apply(bench.plan(spec(name, partitions=2, replicationFactor=2)), lambda: bench.looks > 2)
    assert outcomes == {name: Outcome(name, Result.UNKNOWN, Reason.OUTCOME_UNKNOWN, UNKNOWN.format(why))}
    assert bench.records.intents == [name]
    assert [proven for _, proven in bench.asked].count(True) == 2  # after the intents, and after the request


def test_a_run_that_ends_reads_once_what_may_be_made_late(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a look that fails there is one more, which does not wait for a request without an answer."""
    monkeypatch.setattr(writer, "sleep_unless_stopped", lambda seconds, stop: pytest.fail("waits"))
    bench.cluster.on("CreateTopics", lose_request)

    def fail(look: int) -> None:
        if look == 3:
            raise TopiaristError(Reason.UNREACHABLE, "no broker")

    bench.before_look = fail
    outcomes = bench.apply(bench.plan(spec("new")))
    message = UNKNOWN.format("the broker closed the connection")
    assert outcomes == {"new": Outcome("new", Result.UNKNOWN, Reason.OUTCOME_UNKNOWN, message)}
    words = "no broker; the outcome of these topics has to be read: new"
    assert str(bench.error) == f"{words}\n    {writer.HINT_RUN_AGAIN}"
    assert (bench.records.intents, bench.looks) == (["new"], 4)


_GROWN: dict[str, Any] = {"partitions": 2, "replicationFactor": 2}
_CONFIGURED: dict[str, Any] = {"partitions": 1, "replicationFactor": 2, "config": {"retention.ms": "5"}}


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        (spec("a", **_CONFIGURED), [(False, True), (False, False)]),
        (spec("a", **_GROWN), [(True, True), (False, False)]),
        (spec("a", **_GROWN, config={"retention.ms": "5"}), [(True, True), (False, False)]),
        (spec("a", ensure="Absent"), [(True, True), (False, False)]),
        (spec("new"), [(False, True)]),
    ],
    ids=["config", "growth", "both", "deletion", "creation"],
)
def test_what_a_look_costs(bench: Bench, changes: Any, asked: list[tuple[bool, bool]]) -> None:
    """Before configs alone no reassignment is listed, and after requests that were confirmed nothing is proven.

    A creation that the controller confirmed is not read again: its id is that of the answer.
    """
    bench.own("a")
    plan = bench.plan(changes)
    (outcome,) = bench.apply(plan).values()
    assert (outcome.result, bench.asked) == (Result.DONE, asked)
    if made := bench.cluster.topics.get("new"):
        assert (outcome.topic_id, bench.records.topics["new"].topic_id) == (made.id_text, made.id_text)


def test_a_change_that_a_broker_does_not_show_yet(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked for once more, without a pause, at a broker that is proven to have it."""
    monkeypatch.setattr(writer, "sleep_unless_stopped", lambda seconds, stop: pytest.fail("waits"))
    bench.is_late = True
    bench.own("a")
    assert results(bench.apply(bench.plan(spec("a", **_CONFIGURED)))) == {"a": Result.DONE}
    assert bench.asked == [(False, True), (False, False), (False, True)]


@pytest.mark.parametrize("fault", [lose_answer, lose_request], ids=["made", "not made"])
def test_a_change_without_an_answer_is_looked_for_with_a_proof(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, fault: Any
) -> None:
    """What an old look does not show would count as not made."""
    shorten_waits(monkeypatch, 0)
    bench.is_late = True
    bench.own("a")
    bench.cluster.on("IncrementalAlterConfigs", fault)
    found = results(bench.apply(bench.plan(spec("a", **_CONFIGURED))))
    assert found == {"a": Result.DONE if fault is lose_answer else Result.SKIPPED}
    assert {proven for _, proven in bench.asked} == {True}


def test_the_pauses_between_looks(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """They double up to two seconds; there is none after the look that shows the topic."""
    shorten_waits(monkeypatch, 60)
    monkeypatch.setattr(writer, "_LOOK_INTERVAL_S", 0.1)
    pauses: list[float] = []
    monkeypatch.setattr(writer, "sleep_unless_stopped", lambda seconds, stop: pauses.append(seconds))
    bench.cluster.on("CreateTopics", lose_answer)
    bench.hidden_looks = range(3, 9)
    assert results(bench.apply(bench.plan(spec("new")))) == {"new": Result.DONE}
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2.0])


@pytest.mark.parametrize("is_written", [True, False])
def test_a_topic_that_was_made_otherwise_needs_its_record(bench: Bench, is_written: bool) -> None:
    """If the record of what is there is not written, the outcome is unknown, as that of all that was made."""
    bench.cluster.growth_lists = Lists.IGNORED
    bench.own("a")

    def end(number: int) -> None:
        bench.records.is_fenced = number >= 2 and not is_written

    bench.records.before_commit = end
    (outcome,) = bench.apply(bench.plan(spec("a", partitions=3, replicationFactor=2))).values()
    assert (outcome.result, bench.records.intents) == ((Result.DIFFERS, []) if is_written else (Result.UNKNOWN, ["a"]))
    if not is_written:
        assert outcome.message == UNKNOWN.format("the run ended before its record was written")


def test_lists_that_were_carried_out_once_are_not_read_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then each new topic is read before its chunk ends, and chunks of new topics are as small as others."""
    monkeypatch.setattr(chunks, "MAX_CREATIONS", 2)
    monkeypatch.setattr(chunks, "MAX_TOPICS", 1)
    plan = bench.plan(*(spec(f"t{each}") for each in range(5)))
    unknown = replace(plan.capabilities, replica_lists=Support(None))
    assert set(results(bench.apply(replace(plan, capabilities=unknown))).values()) == {Result.DONE}
    sizes = [len(changes) for changes, _ in bench.records.commits]
    assert sizes == [1, 3, 4, 2]  # the intents of a chunk, with the final records of the one before
    assert bench.looks == 2 * 3 + 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    """Replace the time of the writer."""
    clock = FakeTime()
    monkeypatch.setattr(writer, "time", clock)
    monkeypatch.setattr(writer, "QUOTA_TIMEOUT_S", 60.0)
    monkeypatch.setattr(throttle, "time", clock)
    return clock


def new_writer(clock: FakeTime, stop_after: float = float("inf")) -> Writer:
    """Return a writer of an empty plan that is stopped some seconds from now."""
    bench, until = Bench(), clock.current + stop_after
    unused: Any = None
    return Writer(unused, unused, unused, bench.plan(), lambda: clock.current >= until, NO_CONTROL)


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.7, 3.3])
def test_a_wait_ends_in_time(clock: FakeTime, seconds: float) -> None:
    """Neither a quota nor the next look is waited for any longer than asked."""
    waiting, began = new_writer(clock), clock.current
    throttle.sleep_unless_stopped(seconds, waiting._stop)
    assert clock.current - began == pytest.approx(seconds)
    waiting._wait_for_quota(clock.current + seconds, is_progress=True)
    assert clock.current - began == pytest.approx(2 * seconds)


def test_a_wait_ends_soon_after_a_stop(clock: FakeTime) -> None:
    """A user who stops the run need not wait for the quota."""
    began = clock.current
    new_writer(clock, stop_after=2)._wait_for_quota(began + 60, is_progress=True)
    assert 2 <= clock.current - began <= 2 + throttle._STOP_CHECK_INTERVAL_S
    began = clock.current
    throttle.sleep_unless_stopped(60, new_writer(clock, stop_after=2)._stop)
    assert 2 <= clock.current - began <= 2 + throttle._STOP_CHECK_INTERVAL_S


def test_a_quota_that_accepts_nothing(clock: FakeTime) -> None:
    """It ends the run when no topic was accepted for too long; each accepted topic begins the time anew."""
    waiting, began = new_writer(clock), clock.current
    limit = writer.QUOTA_TIMEOUT_S
    for is_progress in (False, True, False):
        waiting._wait_for_quota(clock.current + limit / 2, is_progress=is_progress)
    waiting._wait_for_quota(began + limit * 1.5, is_progress=False)
    with pytest.raises(TopiaristError, match="accepted no topic for") as caught:
        waiting._wait_for_quota(clock.current + 1, is_progress=False)
    assert (caught.value.reason, caught.value.hint) == (
        Reason.THROTTLED,
        "run the same command again, or raise the quota",
    )


class Validator:
    """A cluster with brokers in memory that are asked."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def ask_brokers(self, plan: Plan) -> object:
        """Ask the brokers in memory."""
        return ask_brokers(self._bench.session, plan)


def ask(bench: Bench, plan: Plan) -> dict[str, TopicPlan]:
    """Return the topics of the plan after the brokers were asked."""
    return {topic.topic: topic for topic in withhold_vetoed_changes(Validator(bench), plan).topics}  # type: ignore[arg-type]


def test_a_veto_withholds_the_change_and_shows_the_words_of_the_broker() -> None:
    """A creation that a policy refuses, or for which a right is missing, is a refusal of the plan.

    The other creation stays. A deletion, and a topic beyond the limit of the controller, are not asked about. Nothing
    is written.
    """
    bench = Bench()
    bench.own("old")
    bench.cluster.vetoes += [veto_topics(["bad"], 44, "the name must begin with a team"), veto_topics(["denied"], 29)]
    large = spec("large", partitions=10_001, replicationFactor=1)
    topics = ask(bench, bench.plan(*map(spec, ("bad", "denied", "good")), large, spec("old", ensure="Absent")))
    assert {name: refusal_reasons(topic) for name, topic in topics.items() if topic.refusals} == {
        "bad": ["PolicyViolation"],
        "denied": ["NoPermission"],
        "large": ["TooLarge"],
    }
    (refusal,) = topics["bad"].refusals
    assert "the name must begin with a team" in refusal.message
    assert [type(change) for change in refusal.withheld] == [CreateTopic]
    assert "Create on the topic" in topics["denied"].refusals[0].message
    assert {name for name, topic in topics.items() if topic.changes} == {"good", "old"}
    assert bench.cluster.changes == []
    assert bench.cluster.sent == ["CreateTopics"]


def test_a_veto_of_configs_leaves_the_growth() -> None:
    """Configs and growth are asked about one by one; only what is refused is withheld."""
    bench = Bench()
    bench.cluster.add("a", (1, 2), retention_ms="1000000")
    bench.own("a")
    bench.cluster.on("IncrementalAlterConfigs", answer_code(40, "Invalid value"))
    plan = bench.plan(spec("a", partitions=2, replicationFactor=2, config={"retention.ms": 2000000}))
    topic = ask(bench, plan)["a"]
    assert [type(change) for change in topic.changes] == [AddPartitions]
    (refusal,) = topic.refusals
    assert (refusal.reason, refusal.field) == (Reason.CONFIG_INVALID, ("config", "retention.ms"))
    assert [type(change) for change in refusal.withheld] == [UpdateConfig]
    assert bench.cluster.changes == []


@pytest.mark.parametrize("is_known", [True, False])
def test_replica_lists_that_the_brokers_refuse(is_known: bool) -> None:
    """Brokers that the plan knew are a change of the cluster since; only others are unknown brokers."""
    bench = Bench()
    bench.cluster.on("CreateTopics", answer_code(39, "broker 1 is not registered"))
    plan = bench.plan(spec("a"))
    plan = plan if is_known else replace(plan, brokers=())
    (refusal,) = ask(bench, plan)["a"].refusals
    assert refusal.reason is (Reason.STATE_CONFLICT if is_known else Reason.UNKNOWN_BROKERS)


def test_not_the_controller_is_asked_once_more() -> None:
    """A broker that is not the controller is no veto."""
    bench = Bench()
    bench.cluster.on("CreateTopics", answer_code(41))
    assert ask(bench, bench.plan(spec("a")))["a"].refusals == ()
    assert bench.session.calls["forget_controller"] == 1


@pytest.mark.parametrize(
    ("names", "hint", "message"),
    [
        ([], "", "lost"),
        (["b", "a"], "", "lost; the outcome of these topics has to be read: a, b"),
        ([f"t{number:02}" for number in range(30)], "wait", "t18, t19, ..."),
    ],
)
def test_the_error_of_a_run_names_the_topics_in_doubt(names: list[str], hint: str, message: str) -> None:
    """It has the hint of the error, or that the next run reads them; a long list is cut."""
    found = writer._name_topics(TopiaristError(Reason.UNREACHABLE, "lost", hint), names)
    assert found.message.endswith(message)
    assert found.hint == (hint or (writer.HINT_RUN_AGAIN if names else ""))
    assert found.reason is Reason.UNREACHABLE


def test_a_saved_plan_with_lists_for_a_service_that_places_replicas() -> None:
    """It is refused before anything is sent; a plan with counts, and one without new replicas, is not."""
    refused = Support(False, "CreateTopics with lists is refused")
    creation = TopicPlan("a", changes=(CreateTopic(((1, 2),), {}),))
    counts = TopicPlan("a", changes=(CreateTopic(((UNPLACED, UNPLACED),), {}),))
    for support, plan, is_refused in (
        (refused, creation, True),
        (refused, counts, False),
        (refused, TopicPlan("a"), False),
        (GIVEN, creation, False),
    ):
        bench = Bench()
        whole = replace(bench.plan(), capabilities=replace(bench.plan().capabilities, replica_lists=support))
        unused: Any = None
        found = Writer(unused, unused, unused, whole, lambda: False, NO_CONTROL)._refuse_lists(plan)
        assert bool(found) is is_refused
        if found:
            assert (found.result, found.reason) == (Result.REFUSED, Reason.PLACED_BY_BROKERS)
            assert found.message.endswith("make a new plan")

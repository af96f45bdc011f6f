"""Faults of the requests that change topics: lost answers, refusals, quotas, takeovers, other clients."""

from __future__ import annotations

from typing import Any

import pytest

from support.builders import spec
from support.kafka.fake_cluster import (
    answer_code,
    leave_out,
    leave_out_ids,
    lose_answer,
    lose_request,
    shorten_waits,
    veto_topics,
)
from support.kafka.write_bench import Bench, results
from topiarist.errors import Reason
from topiarist.model.outcome import Result


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_waits(monkeypatch, 0.3)


def test_k13_a_lost_answer_is_resolved_by_reading_and_nothing_is_sent_again(bench: Bench) -> None:
    """The connection breaks after the brokers carried out a creation."""
    bench.cluster.on("CreateTopics", lose_answer)
    assert results(bench.apply(bench.plan(spec("a"), spec("b")))) == {"a": Result.DONE, "b": Result.DONE}
    assert bench.cluster.sent == ["CreateTopics"]
    assert bench.records.topics["a"].topic_id == bench.cluster.topics["a"].id_text


def test_k13_a_timeout_with_effect_is_done(bench: Bench) -> None:
    """The brokers answer REQUEST_TIMED_OUT and have carried out the change all the same."""
    bench.cluster.on("CreateTopics", answer_code(7, "too slow", with_effect=True))
    assert results(bench.apply(bench.plan(spec("a")))) == {"a": Result.DONE}
    assert bench.cluster.sent == ["CreateTopics"]


def test_k13_a_request_that_is_never_carried_out_is_not_sent_again_and_ends_the_run(bench: Bench) -> None:
    """A creation gets no answer and never takes effect; the old state of the records comes back."""
    bench.cluster.on("CreateTopics", lose_request)
    outcomes = bench.apply(bench.plan(spec("a")))
    assert results(outcomes) == {"a": Result.SKIPPED}
    assert bench.error
    assert bench.error.reason is Reason.NO_CONTROLLER
    assert bench.cluster.sent == ["CreateTopics"]
    assert bench.records.topics == {}
    assert results(bench.apply(bench.plan(spec("a")))) == {"a": Result.DONE}


def test_k13_a_creation_that_lands_late_is_found(bench: Bench) -> None:
    """The effect of a request without an answer appears after the first look."""
    bench.cluster.on("CreateTopics", lose_request)
    plan = bench.plan(spec("a"))

    def land(number: int) -> None:
        if number == 5:
            (planned,) = plan.topics
            bench.cluster.add("a", *planned.new_replicas())

    bench.before_look = land
    assert results(bench.apply(plan)) == {"a": Result.DONE}
    assert bench.records.topics["a"].intent is None


def test_k14_a_missing_element_is_an_unknown_outcome_unless_the_topic_is_there(bench: Bench) -> None:
    """An answer has no element for a topic; what is read afterwards decides, and the intent stays."""
    bench.cluster.on("CreateTopics", leave_out("a"))
    assert results(bench.apply(bench.plan(spec("a"), spec("b")))) == {"a": Result.DONE, "b": Result.DONE}
    bench.cluster.on("CreateTopics", leave_out("c", with_effect=False))
    outcomes = bench.apply(bench.plan(spec("c"), spec("d")))
    assert results(outcomes) == {"c": Result.UNKNOWN, "d": Result.DONE}
    assert bench.records.intents == ["c"]


@pytest.mark.parametrize(
    ("code", "message", "result", "reason", "words"),
    [
        (44, "no dots please", Result.REFUSED, Reason.POLICY_VIOLATION, "no dots please"),
        (44, "Excessively large number of partitions", Result.REFUSED, Reason.TOO_LARGE, "Excessively"),
        (40, "Unknown topic config name: x", Result.REFUSED, Reason.CONFIG_INVALID, "Unknown topic config name"),
        (29, "", Result.FAILED, Reason.NO_PERMISSION, "it needs Create"),
        (17, "collides with a_b", Result.CONFLICT, Reason.STATE_CONFLICT, "collides with a_b"),
        (39, "not registered", Result.CONFLICT, Reason.STATE_CONFLICT, "not registered"),
        (42, "doubled", Result.FAILED, Reason.WRITE_FAILED, "doubled"),
        (-1, "boom", Result.UNKNOWN, Reason.OUTCOME_UNKNOWN, "boom"),
    ],
)
def test_k15_each_error_code_is_the_outcome_of_its_topic_alone(
    bench: Bench, code: int, message: str, result: Result, reason: Reason, words: str
) -> None:
    """One topic of a request is refused; its outcome has the words of the broker, and the others are created."""
    bench.cluster.vetoes.append(veto_topics(["bad"], code, message))
    outcomes = bench.apply(bench.plan(spec("bad"), spec("good")))
    assert (outcomes["bad"].result, outcomes["bad"].reason) == (result, reason)
    assert words in outcomes["bad"].message
    assert outcomes["good"].result is Result.DONE
    assert bench.records.intents == (["bad"] if result is Result.UNKNOWN else [])


def test_k15_deletion_is_refused_where_the_brokers_have_disabled_it(bench: Bench) -> None:
    """TOPIC_DELETION_DISABLED leaves the topic and its record as they were."""
    bench.cluster.add("old", (1, 2))
    bench.own("old")
    before = bench.records.topics["old"]
    bench.cluster.vetoes.append(veto_topics(["old"], 73, "Topic deletion is disabled."))
    outcomes = bench.apply(bench.plan(spec("old", ensure="Absent")))
    assert (outcomes["old"].result, outcomes["old"].reason) == (Result.REFUSED, Reason.DELETION_DISABLED)
    assert bench.records.topics["old"] == before


def test_k16_not_the_controller_is_asked_once_more_and_only_once(bench: Bench) -> None:
    """NOT_CONTROLLER means that nothing was made: the controller is found anew, once."""
    bench.cluster.on("CreateTopics", answer_code(41))
    assert results(bench.apply(bench.plan(spec("a")))) == {"a": Result.DONE}
    assert bench.session.calls["forget_controller"] == 1
    bench.cluster.on("CreateTopics", answer_code(41), answer_code(41))
    outcomes = bench.apply(bench.plan(spec("a"), spec("b")))
    assert (outcomes["b"].result, outcomes["b"].reason) == (Result.FAILED, Reason.NO_CONTROLLER)
    assert bench.cluster.sent.count("CreateTopics") == 4


def test_k17_a_quota_lets_through_a_part_and_the_rest_is_sent_after_the_time_the_broker_asks_for(bench: Bench) -> None:
    """THROTTLING_QUOTA_EXCEEDED for some topics of one request; only these are sent again."""
    bench.cluster.quota = 2
    sent: list[int] = []

    def refill(number: int) -> None:
        sent.append(number)
        if number == 2:
            bench.cluster.quota = None

    bench.records.before_fence = refill
    outcomes = bench.apply(bench.plan(*(spec(f"t{each}") for each in range(5))))
    assert set(results(outcomes).values()) == {Result.DONE}
    assert bench.cluster.sent == ["CreateTopics", "CreateTopics"]
    assert [name for _, name in bench.cluster.changes] == ["t0", "t1", "t2", "t3", "t4"]


def test_k17_a_quota_that_accepts_nothing_ends_the_run(bench: Bench) -> None:
    """Topics that a quota never accepts are not sent, and their records stay as they were."""
    bench.cluster.quota = 1
    outcomes = bench.apply(bench.plan(spec("a"), spec("b")))
    assert results(outcomes) == {"a": Result.DONE, "b": Result.SKIPPED}
    assert bench.error
    assert bench.error.reason is Reason.THROTTLED
    assert bench.records.intents == []
    assert not bench.records.is_held


def test_k17_growth_that_a_quota_leaves_out_after_its_configs_is_recorded_in_part(bench: Bench) -> None:
    """A topic has its configs and not its partitions: the outcome is partial, and the next run completes it."""
    bench.cluster.add("a", (1, 2), retention_ms="1000000")
    bench.own("a")
    wanted = spec("a", partitions=2, replicationFactor=2, config={"retention.ms": 2000000})
    bench.cluster.quota = 0
    outcomes = bench.apply(bench.plan(wanted))
    assert (outcomes["a"].result, outcomes["a"].reason) == (Result.PENDING, Reason.THROTTLED)
    record = bench.records.topics["a"]
    assert record.intent is None
    assert record.record
    assert record.record.config_keys == ("retention.ms",)
    bench.cluster.quota = None
    assert results(bench.apply(bench.plan(wanted))) == {"a": Result.DONE}
    assert not bench.plan(wanted).has_changes


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_k18_a_run_that_is_fenced_between_requests_sends_nothing_more(bench: Bench, number: int) -> None:
    """Another run takes over before request NUMBER; only topics that were sent have an unknown outcome."""
    bench.cluster.add("grown", (1, 2), retention_ms="1000000")
    bench.cluster.add("set", (1, 2), retention_ms="1000000")
    bench.cluster.add("old", (1, 2))
    for name in ("grown", "set", "old"):
        bench.own(name)
    plan = bench.plan(
        spec("new"),
        spec("grown", partitions=2, replicationFactor=2),
        spec("set", partitions=1, replicationFactor=2, config={"retention.ms": 2000000}),
        spec("old", ensure="Absent"),
    )

    def fence(check: int) -> None:
        bench.records.is_fenced = check >= number

    bench.records.before_fence = fence
    outcomes = bench.apply(plan)
    assert len(bench.cluster.sent) == number - 1
    assert bench.error
    assert bench.error.reason.retryable
    sent = ["old", "set", "grown"][: number - 1]
    expected = {name: Result.UNKNOWN if name in sent else Result.SKIPPED for name in ("old", "new", "set", "grown")}
    # A record is committed with the intents of the next chunk: the topics of a chunk that is over are done.
    over = {1: (), 4: ("old", "set", "grown")}.get(number, ("old",))
    expected.update(dict.fromkeys(over, Result.DONE))
    assert results(outcomes) == expected
    unknown = [name for name, result in expected.items() if result is Result.UNKNOWN]
    assert all(name in str(bench.error) for name in unknown)


def test_k18_a_run_that_is_fenced_after_a_confirmed_creation_does_not_call_it_done(bench: Bench) -> None:
    """The record of the topic cannot be written: the next run finds the intent, and the topic."""

    def fence(number: int) -> None:
        bench.records.is_fenced = number > 1

    bench.records.before_commit = fence
    assert results(bench.apply(bench.plan(spec("a")))) == {"a": Result.UNKNOWN}
    assert bench.records.intents == ["a"]
    bench.records.before_commit = lambda number: None
    bench.apply(bench.plan(spec("b")))
    assert bench.records.topics["a"].topic_id == bench.cluster.topics["a"].id_text
    assert bench.cluster.sent == ["CreateTopics"] * 2


def test_k18_a_commit_of_intents_that_fails_sends_nothing(bench: Bench) -> None:
    """A run that is fenced at its intents has sent no Admin request, and skips all its topics."""
    bench.records.before_commit = lambda number: setattr(bench.records, "is_fenced", number >= 1)
    assert results(bench.apply(bench.plan(spec("a")))) == {"a": Result.SKIPPED}
    assert bench.error
    assert bench.cluster.sent == []


def test_k18_a_final_commit_that_fails_leaves_the_outcome_to_the_next_run(bench: Bench) -> None:
    """A run that is fenced at its final records names the topics that it has changed."""
    bench.records.before_commit = lambda number: setattr(bench.records, "is_fenced", number >= 2)
    assert results(bench.apply(bench.plan(spec("a")))) == {"a": Result.UNKNOWN}
    assert bench.error
    assert "a" in str(bench.error)
    assert bench.records.intents == ["a"]


@pytest.mark.parametrize("number", [1, 2])
def test_k19_a_topic_that_changes_before_or_after_the_intents_is_a_conflict(bench: Bench, number: int) -> None:
    """Another client changes the config between plan and look, or between intents and requests."""
    for name in ("a", "b"):
        bench.cluster.add(name, (1, 2), retention_ms="1000000")
        bench.own(name, "retention.ms")
    before = bench.records.topics["a"]
    wanted: dict[str, Any] = {"partitions": 1, "replicationFactor": 2, "config": {"retention.ms": 2000000}}
    plan = bench.plan(spec("a", **wanted), spec("b", **wanted))

    def change(look: int) -> None:
        if look == number:
            bench.cluster.change("a", retention_ms="3000000")

    bench.before_look = change
    outcomes = bench.apply(plan)
    assert (outcomes["a"].result, outcomes["a"].reason) == (Result.CONFLICT, Reason.STATE_CONFLICT)
    assert "retention.ms was 1000000, and is 3000000 now" in outcomes["a"].message
    assert bench.records.topics["a"] == before
    assert bench.cluster.changes == [("configure", "b")]


@pytest.mark.parametrize("number", [1, 2])
def test_k19_a_topic_that_is_created_by_another_client_before_the_request_is_not_taken(
    bench: Bench, number: int
) -> None:
    """A topic that appears before the request is a conflict, equal or not, and gets no record."""
    plan = bench.plan(spec("a"))

    def create(look: int) -> None:
        if look == number:
            bench.cluster.add("a", (3, 1))

    bench.before_look = create
    assert results(bench.apply(plan)) == {"a": Result.CONFLICT}
    assert bench.cluster.changes == []
    assert "a" not in bench.records.topics


def test_k19_a_topic_of_another_client_that_appears_with_the_request_is_not_adopted(bench: Bench) -> None:
    """The name is taken between the second look and the request, with other replica lists."""
    bench.records.before_fence = lambda number: bench.replace("a", (3, 1))
    outcomes = bench.apply(bench.plan(spec("a")))
    assert results(outcomes) == {"a": Result.CONFLICT}
    assert "a" not in bench.records.topics


def test_k19_a_recreated_topic_is_not_deleted(bench: Bench) -> None:
    """The topic is deleted and recreated directly before its deletion is sent; the id protects the new one."""
    bench.cluster.add("old", (1, 2))
    bench.own("old")
    plan = bench.plan(spec("old", ensure="Absent"))
    bench.records.before_fence = lambda number: bench.replace("old", (1, 2))
    outcomes = bench.apply(plan)
    assert results(outcomes) == {"old": Result.CONFLICT}
    assert "a different topic" in outcomes["old"].message
    assert "old" in bench.cluster.topics
    assert bench.cluster.changes == []


def test_k19_growth_is_a_compare_and_set_on_the_count(bench: Bench) -> None:
    """Another client adds partitions directly before the growth is sent: the brokers refuse it."""
    bench.cluster.add("a", (1, 2))
    bench.own("a")
    plan = bench.plan(spec("a", partitions=3, replicationFactor=2))

    def grow(number: int) -> None:  # noqa: ARG001
        topic = bench.cluster.topics["a"]
        bench.cluster.topics["a"] = type(topic)(topic.id, (*topic.replicas, (3, 1)), topic.config)

    bench.records.before_fence = grow
    outcomes = bench.apply(plan)
    assert (outcomes["a"].result, outcomes["a"].reason) == (Result.CONFLICT, Reason.STATE_CONFLICT)
    assert bench.records.intents == []


@pytest.mark.parametrize(("looks", "result"), [(2, Result.DONE), (10_000, Result.DIFFERS)])
def test_k20_a_look_that_is_older_than_the_answer_is_repeated(bench: Bench, looks: int, result: Result) -> None:
    """The read after the requests is old; a topic that was confirmed without its id is not called missing at once."""
    bench.cluster.on("CreateTopics", leave_out_ids)
    plan = bench.plan(spec("a"))
    bench.hidden_looks = range(3, 3 + looks)
    outcomes = bench.apply(plan)
    assert results(outcomes) == {"a": result}
    assert bench.cluster.sent == ["CreateTopics"]
    assert ("a" in bench.records.topics) is (result is Result.DONE)

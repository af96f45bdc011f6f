"""Faults at every request of whole runs over Kafka's own protocol: kills, lost answers, takeovers, freezes.

Topiarist's own cluster, writer, reader and records run over brokers in memory. The runs create, grow, configure and
delete topics, in two chunks, so that final records share a transaction with intents.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from faults.conftest import FaultStatistics
from support.builders import spec
from support.kafka.fake_cluster import shorten_waits
from support.kafka.fake_kafka import ADMIN_REQUESTS, FakeKafka, FakeSession, Hook, cut_at, do_at, kill_at, no_hook
from support.kafka.memory_records import Killed
from topiarist.adapters.kafka_admin.records.codec import IntentKind
from topiarist.adapters.kafka_admin.write import chunks
from topiarist.errors import Reason, TopiaristError
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Plan
from topiarist.model.spec import TopicSpec
from topiarist.model.state import Freeze

ONE_BY_TWO: dict[str, Any] = {"partitions": 1, "replicationFactor": 2}
BEFORE = (
    spec("grown", **ONE_BY_TWO, config={"retention.ms": 1000000}),
    spec("set", **ONE_BY_TWO, config={"retention.ms": 1000000, "segment.ms": 3600000}),
    spec("old", **ONE_BY_TWO),
)
WANTED = (
    spec("new", config={"retention.ms": 1000000}),
    spec("bare"),
    spec("grown", partitions=3, replicationFactor=2, config={"retention.ms": 2000000}),
    spec("set", **ONE_BY_TWO, config={"retention.ms": 2000000}),
    spec("old", ensure="Absent"),
)
OTHER = (
    spec("new", config={"retention.ms": 5000000}),
    spec("grown", partitions=4, replicationFactor=2, config={"retention.ms": 7000000}),
    spec("set", **ONE_BY_TWO, config={"retention.ms": 7000000, "segment.ms": 7200000}),
    spec("old", **ONE_BY_TWO),
)
"""Other manifests: other values, a larger growth, without ``bare``, and ``old`` stays."""


pytestmark = pytest.mark.timeout(600)  # each test is hundreds of runs


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_waits(monkeypatch, 0.05)
    monkeypatch.setattr(chunks, "MAX_TOPICS", 3)


def prepared() -> FakeKafka:
    """Return a cluster with the topics and records of ``BEFORE``."""
    kafka = FakeKafka()
    list(kafka.apply(kafka.plan(*BEFORE)))
    kafka.cluster.changes.clear()
    return kafka


def count_requests(*, is_planned: bool = False) -> int:
    """Return the number of requests of a run without faults, of its plan too if ``is_planned`` is true."""
    kafka = prepared()
    cluster = kafka.open()
    list(kafka.apply(kafka.plan(*WANTED, cluster=cluster if is_planned else None), cluster))
    return len(cluster._session.sent)  # type: ignore[attr-defined]


def every_request(*, is_planned: bool = False) -> Iterator[tuple[int, bool]]:
    """Yield each request of a run, before and after it is carried out."""
    return itertools.product(range(1, count_requests(is_planned=is_planned) + 1), (False, True))


def run_with(
    kafka: FakeKafka, hook: Hook, plan: Plan | None
) -> tuple[FakeSession, list[Outcome], TopiaristError | None]:
    """Apply a plan in a process with a hook, which makes it if it is None; return its session, outcomes and error."""
    kafka.hook = hook
    cluster = kafka.open()
    session: Any = cluster._session
    kafka.hook = no_hook
    outcomes: list[Outcome] = []
    failure = None
    try:
        with suppress(Killed):
            for outcome in kafka.apply(plan or kafka.plan(*WANTED, cluster=cluster), cluster):
                outcomes.append(outcome)
    except TopiaristError as error:
        failure = error
    return session, outcomes, failure


def require_converged(kafka: FakeKafka, specs: tuple[TopicSpec, ...] = WANTED, owner: str = "default") -> None:
    """Run again, and demand contract 9: nothing made twice, nothing without owner, no number lost, then no change."""
    plan = kafka.plan(*specs, owner=owner)
    assert not plan.has_refusals, [topic.refusals for topic in plan.topics]
    outcomes = list(kafka.apply(plan))
    assert {outcome.result for outcome in outcomes} <= {Result.DONE}, outcomes
    changes = kafka.cluster.changes
    assert len(changes) == len(set(changes)), changes
    require_records(kafka)
    requests, numbers = list(kafka.calls), kafka.commit_numbers()
    plan = kafka.plan(*specs, owner=owner)
    assert not plan.has_changes, [topic for topic in plan.topics if topic.changes]
    assert not set(kafka.calls[len(requests) :]) & {*ADMIN_REQUESTS, "EndTxn", "InitProducerId"}
    assert kafka.commit_numbers() == numbers


def require_records(kafka: FakeKafka) -> None:
    """Demand a record with the id of its topic for each topic, a free lock, and numbers without a gap.

    No intent is left, but that of a creation that was given up, as long as it may still be carried out.
    """
    records = kafka.records()
    for name, topic in kafka.topics.items():
        assert records.topics[name].topic_id == topic.id_text, name
    intents = {name: each.intent.kind for name, each in records.topics.items() if each.intent}
    assert set(intents.values()) <= {IntentKind.GONE}
    assert not intents.keys() & kafka.topics.keys()
    assert records.lock.run is None
    numbers = kafka.commit_numbers()
    assert numbers == list(range(1, len(numbers) + 1))


def test_k01_a_run_that_is_killed_at_any_request_is_completed(tally: FaultStatistics) -> None:
    """The whole run is killed before and after each of its requests; the next run makes the rest, and nothing twice.

    It applies a plan of another process, or its own, after which it asks less.
    """
    cases = [(own, *case) for own in (False, True) for case in every_request(is_planned=own)]
    for own, step, is_done in cases:
        kafka = prepared()
        hook = kill_at(step, is_done=is_done)
        session, _, _ = run_with(kafka, hook, None if own else kafka.plan(*WANTED))
        assert session.is_dead
        require_converged(kafka)
    tally.set_cases(len(cases))


@pytest.mark.night(area="crash")
def test_k01_two_runs_that_are_killed_are_completed(tally: FaultStatistics, seeds: int) -> None:
    """The run that completes a killed run is killed, too; the third one completes the work."""
    steps = list(range(20, count_requests() + 1))
    cases = 0
    for first, second in itertools.product(steps[:: max(1, 60 // seeds)], repeat=2):
        kafka = prepared()
        for step in (first, second):
            run_with(kafka, kill_at(step, is_done=cases % 2 == 0), kafka.plan(*WANTED))
        require_converged(kafka)
        cases += 1
    tally.set_cases(cases)


@pytest.mark.night(area="crash")
def test_k02_an_answer_that_is_lost_at_any_request_changes_nothing_twice(tally: FaultStatistics) -> None:
    """The connection breaks before and after each request of a run; it ends or goes on, and the next one converges."""
    cases = list(every_request())
    for step, is_done in cases:
        kafka = prepared()
        _, outcomes, failure = run_with(kafka, cut_at(step, is_done=is_done), kafka.plan(*WANTED))
        assert failure is None or failure.reason.retryable, failure
        for outcome in outcomes:
            if outcome.result is Result.DONE:
                record = kafka.records().topics[outcome.topic]
                assert record.intent is None, (step, is_done, outcome)
        require_converged(kafka)
    tally.set_cases(len(cases))


@pytest.mark.parametrize(
    "others",
    [
        pytest.param(WANTED, id="same manifests", marks=pytest.mark.night(area="crash")),
        pytest.param(OTHER, id="other manifests"),
    ],
)
def test_k04_a_takeover_at_any_request_ends_the_run(tally: FaultStatistics, others: tuple[TopicSpec, ...]) -> None:
    """The run stands still at each request until another run has taken over and ended; then it goes on.

    It changes no record any more. It sends at most the one request at which it stood still.
    """
    late = [take_over(step, others, is_done=is_done) for step, is_done in every_request()]
    tally.set_cases(len(late))
    tally.add("requests between check and takeover, which the next run undid", sum(late))


def take_over(step: int, others: tuple[TopicSpec, ...], *, is_done: bool) -> bool:
    """Let another run take over at one request; return whether the first run then changed a topic."""
    kafka = prepared()
    plan = kafka.plan(*WANTED)
    seen: dict[str, Any] = {}

    def run_other(name: str) -> None:
        require_converged_loosely(kafka, others)
        seen.update(name=name, numbers=kafka.commit_numbers(), changes=len(kafka.cluster.changes))

    _, _, failure = run_with(kafka, do_at(step, run_other, is_done=is_done), plan)
    late = kafka.cluster.changes[seen["changes"] :]
    is_newest = kafka.commit_numbers() != seen["numbers"]
    if is_newest:  # it stood still before its own init, and has compared everything after it
        assert failure is None
    elif late:
        assert seen["name"] in ADMIN_REQUESTS
        assert not is_done
        # The brokers refuse another count, another id, and a name that is taken. The rest is carried out.
        allowed = {("configure", "grown"), ("configure", "set")}
        assert set(late) <= allowed | ({("create", "bare"), ("delete", "old")} if others is OTHER else set())
    else:
        assert failure is None or failure.reason.retryable
    if not is_newest and ("create", "bare") in late:
        created = kafka.read().topics["bare"]
        assert created.record_valid  # the intent that was given up still names its owner
    elif not is_newest and ("delete", "old") in late:
        refused = [issue.reason for topic in kafka.plan(*others).topics for issue in topic.refusals]
        assert refused == [Reason.DELETED_EXTERNALLY]  # the next run says so, and recreates nothing unasked
    else:
        require_final(kafka, others)
    return bool(late) and not is_newest


def require_converged_loosely(kafka: FakeKafka, specs: tuple[TopicSpec, ...]) -> None:
    """Run again until nothing is left to do: three runs at most."""
    for _ in range(3):
        plan = kafka.plan(*specs)
        if not plan.has_changes:
            return
        list(kafka.apply(plan))
    assert not kafka.plan(*specs).has_changes


def require_final(kafka: FakeKafka, specs: tuple[TopicSpec, ...]) -> None:
    """Demand that the next runs reach these manifests, and that all topics of them exist with their records."""
    plan = kafka.plan(*specs)
    assert not plan.has_refusals, [topic.refusals for topic in plan.topics]
    require_converged_loosely(kafka, specs)
    require_records(kafka)
    wanted = {each.topic for each in specs if not each.absent}
    assert wanted <= kafka.topics.keys()


@pytest.mark.night(area="crash")
def test_k10_a_freeze_at_any_request_ends_the_run(tally: FaultStatistics) -> None:
    """The cluster is frozen at each request of a run: only this request may be carried out, and no run goes on."""
    cases = list(every_request())
    for step, is_done in cases:
        freeze_at(step, is_done=is_done)
    tally.set_cases(len(cases))


def freeze_at(step: int, *, is_done: bool) -> None:
    """Freeze the cluster at one request of a run; unfreeze it, and demand that the next run converges."""
    kafka = prepared()
    plan = kafka.plan(*WANTED)
    allowed: list[int] = []

    def freeze(name: str) -> None:
        kafka.open().set_freeze(Freeze("stop", "me", "now"), by="me", force=False)
        is_sent = name == "InitProducerId" if is_done else name in ADMIN_REQUESTS  # directly after the check
        allowed.append(len(kafka.cluster.changes) + (len(WANTED) if is_sent else 0))

    run_with(kafka, do_at(step, freeze, is_done=is_done), plan)
    assert len(kafka.cluster.changes) <= allowed[0]
    with pytest.raises(TopiaristError) as error:
        list(kafka.apply(plan))
    assert error.value.reason is Reason.FROZEN
    kafka.open().set_freeze(None, by="me", force=False)
    require_converged(kafka)


@pytest.mark.night(area="crash")
def test_k20_other_manifests_follow_a_killed_run(tally: FaultStatistics) -> None:
    """After a kill at each request the next run has other manifests: it resolves all intents, and reaches its own.

    A topic that left the manifests keeps its owner, if it was made.
    """
    cases = list(every_request())
    for step, is_done in cases:
        kafka = prepared()
        run_with(kafka, kill_at(step, is_done=is_done), kafka.plan(*WANTED))
        require_final(kafka, OTHER)
        if "bare" in kafka.topics:
            record = kafka.records().topics["bare"]
            assert record.record
            assert record.record.owner == "default"
    tally.set_cases(len(cases))


@pytest.mark.night(area="crash")
def test_k20_another_owner_follows_a_killed_run(tally: FaultStatistics) -> None:
    """After a kill at each request another owner applies a topic of its own: it resolves intents, and takes none."""
    cases = list(every_request())
    for step, is_done in cases:
        kafka = prepared()
        run_with(kafka, kill_at(step, is_done=is_done), kafka.plan(*WANTED))
        theirs = (spec("theirs"),)
        outcomes = list(kafka.apply(kafka.plan(*theirs, owner="other")))
        assert [outcome.result for outcome in outcomes] == [Result.DONE]
        records = kafka.records().topics
        assert all(
            each.record.owner == ("other" if name == "theirs" else "default")
            for name, each in records.items()
            if each.record
        )
        require_converged(kafka)
    tally.set_cases(len(cases))

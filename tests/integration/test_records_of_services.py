"""The first apply on a service, and what reads after it: nothing that fails once blocks a later command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.builders import spec
from support.cli.runs import run_topiarist
from support.kafka.fake_kafka import FakeKafka, FakeSession, cut_at, kill_at
from support.kafka.hidden_requests import WANTED, Bench, HidingKafka
from support.kafka.memory_records import RECORDS, Killed
from support.kafka.services import SERVICES
from topiarist.adapters.kafka_admin.connection.connection import Disconnected
from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.model.access import DEFAULT_RECORDS_TOPIC
from topiarist.model.outcome import Result
from topiarist.model.state import WriteBlock

NEW = spec("new", partitions=2, replicationFactor=3)


@pytest.fixture(autouse=True)
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    """Return manifests with one new topic, and shorten the waits."""
    return Bench(monkeypatch, tmp_path, {"new": WANTED["new"]})


def fail(kafka: FakeKafka, number: int, how: str) -> str:
    """Apply the plan of a new topic, and fail at one request; return its name, empty if there is none."""
    failed: list[str] = []
    inner = {"killed": kill_at(number, is_done=True), "cut": cut_at(number, is_done=False)}.get(how)

    def hook(session: FakeSession, at: int, name: str, is_done: bool) -> None:
        if at < number:
            return
        if at == number:
            failed.append(name)
        if inner:
            inner(session, at, name, is_done)
        elif name not in ("Metadata", "DescribeConfigs"):
            raise Disconnected("the broker closed the connection", was_sent=True)

    plan = kafka.plan(NEW)
    kafka.hook = hook
    with suppress(Killed, TopiaristError):
        list(kafka.apply(plan))
    kafka.hook = lambda *_: None
    return failed[0] if failed else ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("service", "how"), [*((name, how) for name in SERVICES for how in ("killed", "cut")), ("kafka", "gone")]
)
def test_after_a_failed_first_apply_all_reads_work(service: str, how: str) -> None:
    """The first apply ends at each of its requests in turn; afterwards a plan is made, and the next apply ends well."""
    number, names = 0, []
    while True:
        number += 1
        kafka = SERVICES[service]()
        name = fail(kafka, number, how)
        if not name:
            break
        names.append(name)
        kafka.now += 100.0  # the lease of a run that was killed, and the timeout of its transaction
        kafka._advance(1.0)
        state = kafka.read()
        assert state.records_error == WriteBlock(), (number, name)
        results = [outcome.result for outcome in kafka.apply(kafka.plan(NEW))]
        assert set(results) <= {Result.DONE, Result.UNCHANGED}, (number, name, results)
        assert not kafka.plan(NEW).has_changes, (number, name)
    assert {"CreateTopics", "InitProducerId", "EndTxn"} <= {*names}


@pytest.mark.parametrize("service", SERVICES)
def test_what_the_service_did_otherwise_is_said(service: str) -> None:
    """A first apply makes the topic of records as the service takes it, and says what it lacks; then never again."""
    kafka, notices = SERVICES[service](), list[str]()
    outcomes = kafka.apply(kafka.plan(NEW), kafka.open(on_notice=notices.append))
    assert [each.result for each in outcomes] == [Result.DONE]
    wanted = {
        "serverless": ["without min.insync.replicas=2, unclean.leader.election.enable=false"],
        "both": ["without min.insync.replicas=2, unclean.leader.election.enable=false"],
        "ignore": ["has 10 partitions, wanted 1: topiarist uses partition 0 alone"],
        "rf1": ["has 1 replica, wanted 3"],
    }.get(service, [])
    assert len(notices) == len(wanted)
    assert all(words in notice for words, notice in zip(wanted, notices, strict=True))
    assert kafka.records().topics.keys() == {"new"}
    made = kafka.cluster.topics[RECORDS]
    assert int(made.config.get("min.insync.replicas", "1")) <= len(made.replicas[0])
    notices.clear()
    list(kafka.apply(kafka.plan(NEW, spec("more")), kafka.open(on_notice=notices.append)))
    assert notices == []


@pytest.mark.parametrize("words", [("apply", "--yes"), ("freeze", "--reason", "a test")])
def test_each_command_that_makes_the_topic_says_what_it_lacks(bench: Bench, words: tuple[str, ...]) -> None:
    """The command that writes first makes the topic of records, and its notice names the cluster."""
    bench.serve(SERVICES["serverless"]())
    command, *options = words
    found = run_topiarist(command, str(bench.folder / "all.yaml"), *options)
    assert found.code == Exit.DONE
    assert "prod: __topiarist was made without min.insync.replicas=2" in found.err


def test_a_refused_topic_of_records_has_its_own_reason(bench: Bench) -> None:
    """A creation that a policy refuses, and a transaction that is refused for good, are no unreadable content."""
    kafka = SERVICES["kafka"]()
    bench.serve(kafka)
    manifests = str(bench.folder / "all.yaml")
    kafka.cluster.reshape = lambda topic: (44, "no internal topics here") if topic.name == RECORDS else (0, "")
    for command in (("apply", manifests, "--yes"), ("freeze", manifests, "--reason", "a test")):
        found = run_topiarist(*command)
        assert (found.code, "no internal topics here" in found.err) == (Exit.ERROR, True), found
    for code in (44, 87):
        kafka.always = lambda name, now, code=code: code if name == "InitProducerId" else None  # type: ignore[misc]
        with pytest.raises(TopiaristError) as caught:
            kafka.open().prepare_records()
        assert caught.value.reason is Reason.RECORDS_REFUSED
    kafka.always = lambda name, now: None
    with pytest.raises(TopiaristError) as caught:
        kafka.open().prepare_records()
    assert (caught.value.reason, "spec.kafka.records: None" in caught.value.hint) == (Reason.RECORDS_REFUSED, True)


def test_transactions_are_tried_before_the_topic_is_made() -> None:
    """A service that refuses InitProducerId for good gets no topic of records, and the refusal names the way out."""
    kafka = SERVICES["kafka"]()
    plan = kafka.plan(NEW)
    kafka.always = lambda name, now: 42 if name == "InitProducerId" else None
    with pytest.raises(TopiaristError, match="cannot begin to write records") as caught:
        list(kafka.apply(plan))
    assert "spec.kafka.records: None" in caught.value.hint
    assert RECORDS not in kafka.cluster.topics


@pytest.mark.parametrize("may_delete", [True, False])
def test_a_topic_whose_first_commit_fails_for_good_is_not_left(may_delete: bool) -> None:
    """It is deleted by its id; without the right to do so it stays, and the error says it."""
    kafka = SERVICES["kafka"]()
    plan = kafka.plan(NEW)
    kafka.always = lambda name, now: 29 if name == "Produce" or (name == "DeleteTopics" and not may_delete) else None
    with pytest.raises(TopiaristError) as caught:
        list(kafka.apply(plan))
    assert caught.value.reason is Reason.NO_PERMISSION
    assert (RECORDS in kafka.cluster.topics) is not may_delete
    left = "was deleted again" if may_delete else "stays empty"
    assert f"the topic {RECORDS}, made for it, {left}" in caught.value.message
    kafka.always = lambda name, now: None
    assert [each.result for each in kafka.apply(kafka.plan(NEW))] == [Result.DONE]


def breaks(kafka: FakeKafka) -> Iterator[Reason]:
    """Break the records in one way after the other, and yield the reason of the write block."""
    found = kafka.cluster.topics[RECORDS]
    for name in ("Fetch", "ListOffsets"):
        kafka.always = lambda sent, now, name=name: 29 if sent == name else None  # type: ignore[misc]
        yield Reason.NO_PERMISSION
    kafka.always = lambda sent, now: None
    kafka.cluster.change(RECORDS, cleanup_policy="delete")
    kafka.catch_up()
    yield Reason.RECORDS_LOST
    kafka.cluster.topics[RECORDS] = found
    kafka.catch_up()


def test_reading_needs_no_records(bench: Bench) -> None:
    """Each command that reads ends as it does without records, and warns; no write begins, and the reason is shown."""
    kafka = bench.serve(HidingKafka())
    list(kafka.apply(kafka.plan(spec("new", partitions=1, replicationFactor=3))))
    manifests = str(bench.folder / "all.yaml")
    for number, reason in enumerate(breaks(kafka)):
        sent = [*kafka.cluster.sent]
        for command in (
            ("list", manifests),
            ("plan", manifests),
            ("describe", "new", "--clusters", manifests),
            ("export", manifests, "--out", str(bench.folder / f"out{number}")),
        ):
            found = run_topiarist(*command)
            said = " ".join((found.out + found.err).split())
            assert found.code in (Exit.DONE, Exit.CHANGES, Exit.REFUSED), (reason, command, said)
            assert "the records" in said, (reason, command, said)
            assert "cannot be read" in said, (reason, command, said)
        found = run_topiarist("apply", manifests, "--yes", "--adopt", "*")
        assert (found.code, reason.value in found.out + found.err) == (reason.exit_code, True), (reason, found)
        assert kafka.cluster.sent == sent


def test_records_that_cannot_be_read_give_no_topic_away() -> None:
    """A topic of another owner is not free to write because its record cannot be read, whatever the run adopts."""
    kafka = SERVICES["kafka"]()
    list(kafka.apply(kafka.plan(NEW, owner="other")))
    for reason in breaks(kafka):
        state = kafka.read()
        assert state.records_error.reason is reason
        plan = kafka.plan(spec("new", partitions=4, replicationFactor=3), adopt=("*",))
        assert not plan.has_changes
        assert {issue.reason for topic in plan.topics for issue in topic.refusals} == {reason}
    kafka.cluster_id = "other"
    assert kafka.read().write_block.reason is Reason.RECORDS_LOST


def test_another_name_and_another_transactional_id() -> None:
    """Both are used everywhere, and a run with another id on the same topic is refused before it writes."""
    kafka = SERVICES["kafka"]()
    topic = DEFAULT_RECORDS_TOPIC._replace(name="team.records", transactional_id="team")
    kafka.access = replace(kafka.access, records=topic)
    list(kafka.apply(kafka.plan(NEW)))
    assert kafka.cluster.topics.keys() == {"new", "team.records"}
    assert [*kafka.coordinator_state._transactions] == ["team"]
    kafka.access = replace(kafka.access, records=topic._replace(transactional_id="topiarist"))
    state = kafka.read()
    assert state.write_block.reason is Reason.RECORDS_LOST
    assert "transactional id team, this Cluster has topiarist" in state.write_block.message

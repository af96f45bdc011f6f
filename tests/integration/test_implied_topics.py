"""The two topics without a manifest that the first apply through brokers makes are announced until they exist."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.builders import state
from support.cli.runs import run_topiarist
from support.kafka.hidden_requests import WANTED, Bench, HidingKafka
from topiarist.adapters.saved_plans.decode import parse_plan_file
from topiarist.cli import execute, terminal
from topiarist.kafka.types import TRANSACTIONS_TOPIC
from topiarist.model.access import DEFAULT_RECORDS_TOPIC
from topiarist.model.spec import ClusterSpec
from topiarist.planning.planner import find_implied_topics

RECORDS = DEFAULT_RECORDS_TOPIC.name
BOTH = (RECORDS, TRANSACTIONS_TOPIC)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    """Return manifests with one new topic."""
    return Bench(monkeypatch, tmp_path, {"new": WANTED["new"]})


@pytest.fixture
def kafka(bench: Bench) -> HidingKafka:
    """Return brokers to which topiarist has never written."""
    return bench.serve(HidingKafka())


def test_the_first_apply_names_both(bench: Bench, kafka: HidingKafka) -> None:
    """The plan has a row for each in every form, and so has the result; without changes none is made."""
    manifests = bench.folder / "all.yaml"
    text = run_topiarist("plan", manifests).out
    assert f"+ {RECORDS}          create 1 partition x 3 replicas" in text
    assert f"+ {TRANSACTIONS_TOPIC}  create 50 partitions x 3 replicas" in text
    comment = run_topiarist("plan", manifests, "--format", "markdown").out
    assert all(f"- `{name}`: create " in comment.partition("#### Also created")[2] for name in BOTH)
    assert (
        f"the run also creates {RECORDS} and {TRANSACTIONS_TOPIC}." in run_topiarist("plan", manifests, "--summary").out
    )
    saved = run_topiarist("plan", manifests, "--format", "json").out
    assert [each["topic"] for each in json.loads(saved)["clusters"][0]["alsoCreates"]] == [*BOTH]
    (plan,) = parse_plan_file(saved.encode(), "plan.json").plans
    assert [each.name for each in plan.implied_topics] == [*BOTH]
    (bench.folder / "plan.json").write_text(saved)
    report, words = bench.folder / "report.jsonl", ("--clusters", manifests, "--yes")
    result = run_topiarist("apply", "--plan", bench.folder / "plan.json", *words, "--report", report).out
    header = json.loads(report.read_text().splitlines()[0])
    assert [each["topic"] for each in header["clusters"][0]["alsoCreates"]] == [*BOTH]
    assert f"+ also created   {RECORDS} (by topiarist), {TRANSACTIONS_TOPIC} (by Kafka)" in result
    assert kafka.cluster.topics.keys() == {"new", RECORDS}
    for form in ("text", "markdown", "json"):
        later = run_topiarist("plan", manifests, "--format", form).out
        assert not [name for name in (*BOTH, "alsoCreates") if name in later]


def test_only_what_does_not_exist_is_named(bench: Bench, kafka: HidingKafka) -> None:
    """A cluster with transactions of other clients gets the topic of records alone."""
    kafka.cluster.add(TRANSACTIONS_TOPIC, (1, 2, 3))
    kafka.catch_up()
    text = run_topiarist("plan", bench.folder / "all.yaml").out
    assert RECORDS in text
    assert TRANSACTIONS_TOPIC not in text


def test_nothing_is_announced_for_a_refused_plan(bench: Bench, kafka: HidingKafka) -> None:
    """A plan that changes nothing makes no topic."""
    kafka.hide("CreateTopics")
    text = run_topiarist("plan", bench.folder / "all.yaml").out
    assert not [name for name in BOTH if name in text]


def test_settings_of_the_brokers() -> None:
    """The settings of the brokers count, and no more replicas than brokers; through ZooKeeper nothing is made."""
    settings = {"transaction.state.log.num.partitions": "10", "transaction.state.log.replication.factor": "1"}
    seen = state(bypasses_brokers=False, broker_defaults=settings)
    records, transactions = find_implied_topics(seen, ClusterSpec("prod"))
    assert (records.partitions, records.replicas) == (1, min(3, len(seen.brokers)))
    assert (transactions.partitions, transactions.replicas) == (10, 1)
    assert find_implied_topics(state(bypasses_brokers=True), ClusterSpec("prod")) == ()


@pytest.mark.usefixtures("kafka")
def test_the_prompt_names_both(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user confirms the two topics too."""
    asked: list[str] = []
    monkeypatch.setattr(terminal, "confirm", lambda question, answer="yes": asked.append(question))
    (plan,) = parse_plan_file(
        run_topiarist("plan", bench.folder / "all.yaml", "--format", "json").out.encode(), "plan.json"
    ).plans
    execute.confirm_plans([plan], "Apply to")
    assert asked == [f"Apply to 1 topic, and create {RECORDS} and {TRANSACTIONS_TOPIC}? Type yes"]

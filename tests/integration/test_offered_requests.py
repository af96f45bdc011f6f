"""Brokers that do not offer a request, or only old versions of it: what every command then says and does.

The brokers are in memory. Each test hides one request, which brokers of a service may do for good, and runs the command
line over it in this process. Nothing that is not offered is sent, no command ends in a traceback, and none gives the
advice to run again. A command that comes out otherwise than with all requests names the request and its purpose.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.builders import spec
from support.cli.runs import RunResult, run_topiarist
from support.kafka.fake_kafka import do_at, no_hook
from support.kafka.hidden_requests import KEYS, WANTED, Bench, HidingKafka
from topiarist.adapters.kafka_admin.connection.connection import NEEDS, NO_ID
from topiarist.errors import Exit, Reason
from topiarist.model.outcome import Result

RUN_AGAIN = ("run again", "run the same command again")
QUICK = ("DescribeConfigs", "ListPartitionReassignments", "DescribeQuorum")
"""Requests that services are known to leave out; the others are hidden in the slow lane."""

OLD = {
    **{"Produce": 2, "Fetch": 3, "ListOffsets": 1, "FindCoordinator": 0, "CreateTopics": 0, "DeleteTopics": 0},
    **{"InitProducerId": 2, "DescribeConfigs": 0},
}
"""The newest versions that lack a field which counts."""


Command = Callable[[Path], RunResult]
CONSENT = ("--yes", "--allow-risk", "DataLoss=old", "--allow-in-use=old")


def run(*words: str) -> Command:
    """Return a run over the manifests; ``FOLDER`` stands for their folder."""
    return lambda folder: run_topiarist(*(word.replace("FOLDER", str(folder)) for word in words))


def apply_saved_plan(folder: Path) -> RunResult:
    """Plan, and apply the saved plan."""
    planned = run_topiarist("plan", folder / "all.yaml", "--out", folder / "plan.json")
    if planned.code:
        return planned
    return run_topiarist("apply", "--plan", folder / "plan.json", "--clusters", folder / "all.yaml", *CONSENT)


READS: dict[str, Command] = {
    "plan": run("plan", "FOLDER/all.yaml"),
    "plan as JSON": run("plan", "FOLDER/all.yaml", "--format", "json"),
    "ask brokers": run("plan", "FOLDER/all.yaml", "--ask-brokers"),
    "check": run("check", "FOLDER/all.yaml"),
    "list": run("list", "FOLDER/all.yaml"),
    "describe": run("describe", "set", "--clusters", "FOLDER/all.yaml"),
    "export": run("export", "FOLDER/all.yaml", "--out", "FOLDER/export"),
    "snapshot": run("snapshot", "FOLDER/all.yaml", "--out", "FOLDER/snapshot"),
    "drift": run("drift", "FOLDER/all.yaml", "--live", "--out", "FOLDER/drift"),
    "upgrade-check": run("upgrade-check", "FOLDER/all.yaml", "--to", "4.4"),
    "moves": run("moves", "FOLDER/all.yaml"),
    "moves clear": run("moves", "clear", "FOLDER/all.yaml", "--yes"),
    "freeze": run("freeze", "FOLDER/all.yaml", "--reason", "a test"),
    "unfreeze": run("unfreeze", "FOLDER/all.yaml"),
}
WRITES: dict[str, Command] = {
    "apply": run("apply", "FOLDER/all.yaml", *CONSENT),
    "apply saved": apply_saved_plan,
    "unmanage": run("unmanage", "set", "--clusters", "FOLDER/all.yaml", "--yes"),
}


def run_all(bench: Bench, name: str = "", newest: int | None = None) -> Iterator[tuple[str, RunResult]]:
    """Yield the result of each command, while the request ``name`` is hidden but for versions to ``newest``.

    Each command that writes gets brokers of its own.
    """
    for group in (READS, *({each: command} for each, command in WRITES.items())):
        kafka = bench.open_brokers()
        if name:
            kafka.hide(name, newest)
        for each, command in group.items():
            yield each, command(bench.folder)
            assert kafka.wrongly_sent == [], each


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    """Return what runs the commands."""
    return Bench(monkeypatch, tmp_path)


@pytest.mark.slow
def test_all_requests(bench: Bench) -> None:
    """With all requests each command succeeds: what another one says later comes from the request that is hidden."""
    results = dict(run_all(bench))
    assert {name: found.code for name, found in results.items()} == dict.fromkeys((*READS, *WRITES), Exit.DONE)
    assert "4 done" in results["apply"].out
    assert "4 done" in results["apply saved"].out


HIDDEN: list[Any] = [
    *(
        pytest.param(name, None, marks=() if name in QUICK else pytest.mark.slow, id=name)
        for name in KEYS
        if name != "Metadata"
    ),
    *(pytest.param(name, newest, marks=pytest.mark.slow, id=f"{name} {newest}") for name, newest in OLD.items()),
]


@pytest.mark.parametrize(("name", "newest"), HIDDEN)
def test_a_hidden_request(name: str, newest: int | None, bench: Bench) -> None:
    """No command ends in a traceback or says that another run helps; each refusal has the request and its purpose."""
    for command, found in run_all(bench, name, newest):
        said = " ".join((found.out + found.err).split())
        assert not [words for words in RUN_AGAIN if words in said], f"{command}: {said}"
        if found.code or (command in ("check", "plan") and name != "DescribeCluster"):
            assert name in said, f"{command}: {said}"
            assert NEEDS[name].purpose in said, f"{command}: {said}"
        if command == "plan as JSON" and not found.code:
            assert json.loads(found.out)["clusters"][0]["mode"] == "KRaft"


@pytest.mark.parametrize("name", ["CreateTopics", "CreatePartitions", "IncrementalAlterConfigs", "DeleteTopics"])
def test_a_request_that_is_hidden_after_the_plan(name: str, bench: Bench) -> None:
    """Topics that need it are refused before anything is written for them; the others are changed."""
    kafka = bench.open_brokers()
    plan = kafka.plan(*(spec(topic, **fields) for topic, fields in WANTED.items()))
    before = kafka.records().topics
    kafka.hide(name)
    outcomes = {each.topic: each for each in kafka.apply(plan)}
    (refused,) = (each for each in outcomes.values() if each.result is not Result.DONE)
    assert (refused.result, refused.reason) == (Result.REFUSED, Reason.NOT_OFFERED)
    assert name in refused.message
    assert kafka.records().topics.get(refused.topic) == before.get(refused.topic)
    assert kafka.wrongly_sent == []


def test_topics_without_ids(bench: Bench) -> None:
    """A plan is made, and nothing is written: no other run would recognize what was."""
    kafka = bench.open_brokers()
    kafka.cluster.topics = {}
    kafka.cluster.add("set", (1, 2), (2, 3))
    kafka.catch_up()
    describe = kafka._describe

    def describe_without_id(name: str | None, topic_id: uuid.UUID | None) -> Any:
        topic = describe(name, topic_id)
        topic.topic_id = NO_ID
        return topic

    kafka._describe = describe_without_id  # type: ignore[method-assign]
    for command in ("plan", "apply"):
        found = {**READS, **WRITES}[command](bench.folder)
        said = " ".join((found.out + found.err).split())
        assert found.code == (Exit.REFUSED if command == "apply" else Exit.DONE), said
        assert "write block: NotOffered: the brokers give topics no ids" in said
        assert not [words for words in RUN_AGAIN if words in said]
    assert kafka.cluster.topics.keys() == {"set"}


@pytest.mark.parametrize("newest", [9, pytest.param(8, marks=pytest.mark.slow)])
def test_metadata_without_ids(newest: int, bench: Bench) -> None:
    """Every command that reads works, and every write is refused with the reason: no topic can be recognized again."""
    for command, run_command in {**READS, **WRITES}.items():
        kafka = bench.open_brokers()
        kafka.cluster.topics = {}
        kafka.cluster.add("set", (1, 2), (2, 3))
        kafka.catch_up()
        kafka.hide("Metadata", newest)
        found = run_command(bench.folder)
        assert [*kafka.cluster.topics] == ["set"], command
        assert kafka.wrongly_sent == [], command
        said = " ".join((found.out + found.err).split())
        assert not [words for words in (*RUN_AGAIN, "ZooKeeper") if words in said], f"{command}: {said}"
        if command in ("check", "list", "describe", "export", "snapshot", "drift", "upgrade-check", "moves", "plan"):
            assert found.code in (Exit.DONE, Exit.CHANGES), f"{command}: {said}"
        if command in ("check", "plan", "apply", "apply saved", "freeze"):
            assert f"Metadata up to version {newest}, and version 10 is needed" in said, f"{command}: {said}"
        assert found.code != Exit.DONE or command not in ("apply", "apply saved", "freeze")


def test_deletions_by_name(bench: Bench) -> None:
    """A plan warns of it, and the topic that has its id directly before the request is deleted.

    The last look goes over the connection of the request, after the fence.
    """
    kafka = bench.open_brokers()
    kafka.hide("DeleteTopics", 5)
    planned = READS["plan"](bench.folder)
    assert "topics are deleted by name" in " ".join(planned.out.split()), planned
    assert "up to version 5, and version 6 is needed to delete topics by their ids" in " ".join(planned.out.split())
    cluster = kafka.open()
    plan = kafka.plan(*(spec(topic, **fields) for topic, fields in WANTED.items()), cluster=cluster)
    outcomes = {each.topic: each.result for each in kafka.apply(plan, cluster)}
    assert outcomes == dict.fromkeys(WANTED, Result.DONE)
    assert "old" not in kafka.topics
    sent = cluster._session.sent  # type: ignore[attr-defined]
    at = sent.index("DeleteTopics")
    assert sent[at - 2 : at] == ["InitProducerId", "Metadata"]
    assert kafka.wrongly_sent == []


def test_a_topic_that_is_recreated_before_its_deletion_by_name(bench: Bench) -> None:
    """Another id in the last look keeps the new topic, and the outcome is a conflict."""
    steps: list[str] = []
    for is_recreated in (False, True):
        kafka = bench.open_brokers()
        kafka.hide("DeleteTopics", 5)
        plan = kafka.plan(spec("old", ensure="Absent"))

        def recreate(_: str, kafka: HidingKafka = kafka) -> None:
            kafka.cluster.add("old", (3,))
            kafka.catch_up()

        kafka.hook = do_at(steps.index("DeleteTopics"), recreate, is_done=False) if is_recreated else no_hook
        cluster = kafka.open()
        (outcome,) = kafka.apply(plan, cluster)
        steps = cluster._session.sent  # type: ignore[attr-defined]
        assert ("DeleteTopics" in steps) is not is_recreated
    assert (outcome.result, outcome.reason) == (Result.CONFLICT, Reason.STATE_CONFLICT)
    assert "deleted and recreated" in outcome.message
    assert kafka.topics["old"].replicas == ((3,),)


@pytest.mark.parametrize("newest", [1, 2, 3])
def test_configs_of_older_versions(newest: int, bench: Bench) -> None:
    """Answers of DescribeConfigs from version 1 on are read as those of version 4."""
    kafka = bench.open_brokers()
    expected = kafka.read()
    kafka.hide("DescribeConfigs", newest)
    found = kafka.read()
    assert found.topics == expected.topics
    assert found.known_configs
    assert expected.known_configs
    assert {key: each.default for key, each in found.known_configs.items()} == {
        key: each.default for key, each in expected.known_configs.items()
    }

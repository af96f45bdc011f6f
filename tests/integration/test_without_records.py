"""A cluster that keeps no records: what a plan, an apply, and two runs at once do without lock and owners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import plan as make_plan
from support.builders import spec
from support.cli.runs import document, run_topiarist
from support.examples import slow_but
from support.kafka.fake_kafka import FakeKafka, do_at, no_hook
from support.kafka.hidden_requests import Bench, HidingKafka
from support.kafka.memory_records import RECORDS
from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.model.access import KafkaAccess
from topiarist.model.outcome import Result
from topiarist.model.plan import Plan, RunOptions
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import ClosedRecords, Freeze
from topiarist.planning.planner import WARNING_NO_RECORDS, find_implied_topics

ACCESS = KafkaAccess("fake:9092", records=None)
CLUSTER = ClusterSpec("prod", kafka=ACCESS)
RECORD_REQUESTS = {"InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn", "Fetch", "ListOffsets"}


@pytest.fixture(autouse=True)
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    """Return a folder for manifests, and shorten the waits."""
    return Bench(monkeypatch, tmp_path, {})


@pytest.fixture
def kafka(bench: Bench) -> HidingKafka:
    """Return brokers without transactions, with a topic of another client."""
    kafka = bench.serve(HidingKafka())
    kafka.access = ACCESS
    for name in ("InitProducerId", "AddPartitionsToTxn", "EndTxn"):
        kafka.hide(name)
    kafka.cluster.add("orders", (1, 2), (2, 3), retention_ms="1000", segment_ms="5000")
    kafka.catch_up()
    return kafka


def planned(kafka: FakeKafka, *specs: TopicSpec, **options: Any) -> Plan:
    """Return the plan of a new process."""
    return make_plan(kafka.read(), *specs, run=RunOptions(**options), on=CLUSTER)


def wanted(name: str = "orders", partitions: int = 2, **config: Any) -> TopicSpec:
    """Return a spec with two replicas; ``retention_ms`` is the key ``retention.ms``."""
    values = {key.replace("_", "."): value for key, value in config.items()}
    return spec(name, on=CLUSTER, partitions=partitions, replicationFactor=2, config=values)


def results(kafka: FakeKafka, plan: Plan) -> dict[str, Result]:
    """Return the results of a new process that applies a plan."""
    return {outcome.topic: outcome.result for outcome in kafka.apply(plan)}


def test_each_topic_with_a_manifest_counts_as_managed(kafka: HidingKafka) -> None:
    """It is created, grown and set without consent to adopt it; a second plan is empty, and no record is written."""
    specs = wanted("new", retention_ms=7000), wanted(partitions=3, retention_ms=7000)
    plan = planned(kafka, *specs)
    assert WARNING_NO_RECORDS in plan.warnings
    assert (plan.implied, find_implied_topics(kafka.read(), CLUSTER)) == ((), ())
    assert results(kafka, plan) == {"new": Result.DONE, "orders": Result.DONE}
    assert kafka.cluster.topics.keys() == {"new", "orders"}
    after = planned(kafka, *specs)
    assert (after.has_changes, after.has_refusals) == (False, False)
    assert WARNING_NO_RECORDS in after.warnings
    assert not RECORD_REQUESTS & {*kafka.calls}
    assert kafka.wrongly_sent == []


def test_nothing_is_removed_by_omission(kafka: HidingKafka) -> None:
    """A config that the manifest does not have stays, unless it asks for its removal; so does each other topic."""
    first = wanted("new", retention_ms=7000, segment_ms=5000)
    results(kafka, planned(kafka, first))
    second = planned(kafka, wanted("new", retention_ms=7000))
    assert (second.has_changes, second.orphans) == (False, ())
    (notice,) = second.topics[0].notices
    assert (notice.reason, "no record shows who set it" in notice.message) == (Reason.UNMANAGED, True)
    removing = spec("new", on=CLUSTER, partitions=2, replicationFactor=2, unmanagedConfig="Remove")
    assert results(kafka, planned(kafka, removing)) == {"new": Result.DONE}
    assert kafka.cluster.topics["new"].config == {}


def test_a_deletion_names_its_topic(kafka: HidingKafka) -> None:
    """``ensure: Absent`` deletes a topic by its id; a topic that another client deleted is created again."""
    plan = planned(kafka, spec("orders", on=CLUSTER, ensure="Absent"))
    assert results(kafka, plan) == {"orders": Result.DONE}
    assert "orders" not in kafka.cluster.topics
    assert results(kafka, planned(kafka, wanted())) == {"orders": Result.DONE}
    del kafka.cluster.topics["orders"]
    kafka.catch_up()
    assert results(kafka, planned(kafka, wanted())) == {"orders": Result.DONE}


@pytest.mark.parametrize("step", slow_but([3, 6, 7], range(1, 16)))
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (wanted("new", 2, retention_ms=7000), wanted("new", 3, retention_ms=8000)),
        (wanted("new", 2), wanted("new", 2)),
        (wanted(partitions=3, retention_ms=7000), wanted(partitions=4, retention_ms=8000)),
        (wanted(retention_ms=7000), wanted(retention_ms=8000)),
        (spec("orders", on=CLUSTER, ensure="Absent"), wanted(partitions=3)),
    ],
)
def test_two_runs_at_once(kafka: HidingKafka, one: TopicSpec, other: TopicSpec, step: int) -> None:
    """A whole other run takes place at each request of a run: nothing is made twice, and no run says it made both."""
    first, second = planned(kafka, one), planned(kafka, other)
    found: list[dict[str, Result]] = []

    def run_other(_name: str) -> None:
        kafka.hook = no_hook
        found.append(results(kafka, second))

    kafka.hook = do_at(step, run_other, is_done=False)
    mine = results(kafka, first)
    made = [change for change in kafka.cluster.changes if change[0] in ("create", "delete")]
    assert len(made) == len(set(made))
    allowed = {Result.DONE, Result.CONFLICT, Result.UNCHANGED}
    assert {*mine.values()} <= allowed
    for each in found:
        assert {*each.values()} <= allowed
    grown = [change for change in kafka.cluster.changes if change[0] == "grow"]
    assert len(grown) <= 1, "the controller takes a growth from the count of the plan alone"


def test_what_needs_records_is_refused(kafka: HidingKafka) -> None:
    """Freezes, moves of replicas and the records of ZooKeeper are refused, with the reason; nothing is written."""
    cluster = kafka.open()
    for action in (
        lambda: cluster.set_freeze(Freeze("maintenance"), by="ada", force=False),
        lambda: cluster.set_freeze(None, by="ada", force=False),
        cluster.prepare_records,
        lambda: cluster.check_moved_records(ClosedRecords("ID", "/")),
    ):
        with pytest.raises(TopiaristError, match="records: None") as caught:
            action()
        assert caught.value.reason is Reason.NOT_OFFERED
    assert cluster.clear_moves() is None
    assert kafka.cluster.changes == []


def test_a_cluster_with_records_is_not_written_without_them(kafka: HidingKafka) -> None:
    """Other runs keep owners and a lock there: a run that would ignore them is refused, and may still read."""
    kafka.create_topic()
    plan = planned(kafka, wanted(retention_ms=7000))
    assert (plan.write_block.reason, plan.has_changes) == (Reason.RECORDS_LOST, False)
    assert RECORDS in plan.write_block.message


@pytest.mark.usefixtures("kafka")
def test_the_commands(bench: Bench) -> None:
    """Plan, apply, saved plan, list and describe over a document with ``records: None``; each plan has the one line."""
    manifests = bench.folder / "all.yaml"
    access = {"bootstrapServers": "fake:9092", "records": "None"}
    documents = [document("Cluster", "prod", clusterId="ID", kafka=access)]
    documents.append(document("Topic", "new", clusters=["prod"], partitions=2, replicationFactor=2))
    manifests.write_text("\n---\n".join(documents))
    for form in ("text", "markdown", "json"):
        said = " ".join(run_topiarist("plan", manifests, "--format", form).out.split())
        assert "without records (spec.kafka.records: None)" in said.replace("`", "")
    saved = bench.folder / "plan.json"
    assert run_topiarist("plan", manifests, "--out", saved).code == Exit.DONE
    applied = run_topiarist("apply", "--plan", saved, "--clusters", manifests, "--yes")
    assert (applied.code, "1 done" in applied.out) == (Exit.DONE, True)
    again = run_topiarist("apply", "--plan", saved, "--clusters", manifests, "--yes")
    assert "already done" in again.out + again.err
    for command in (("list", manifests), ("describe", "new", "--clusters", manifests)):
        assert run_topiarist(*command).code == Exit.DONE
    frozen = run_topiarist("freeze", manifests, "--reason", "a test")
    assert (frozen.code, "keeps none (spec.kafka.records: None)" in frozen.out + frozen.err) == (Exit.REFUSED, True)


def test_a_saved_plan_without_records_is_for_such_a_run_alone(kafka: HidingKafka, bench: Bench) -> None:
    """An edited or old plan without records must not pass the owners of a cluster that keeps them."""
    manifests, saved = bench.folder / "all.yaml", bench.folder / "plan.json"
    topic = document("Topic", "new", clusters=["prod"], partitions=2, replicationFactor=2)

    def write(**access: str) -> None:
        cluster = document("Cluster", "prod", clusterId="ID", kafka={"bootstrapServers": "fake:9092", **access})
        manifests.write_text(f"{cluster}\n---\n{topic}")

    write(records="None")
    assert run_topiarist("plan", manifests, "--out", saved).code == Exit.DONE
    write()
    kafka.access = replace(ACCESS, records=KafkaAccess("fake:9092").records)
    found = run_topiarist("apply", "--plan", saved, "--clusters", manifests, "--yes")
    assert found.code == Exit.ERROR
    assert "the plan was made without records, and this run is with" in " ".join((found.out + found.err).split())
    assert kafka.cluster.changes == []

"""Applies plans to real brokers in KRaft mode: all kinds of changes, policies, quotas, limits, a controller away."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from support.builders import refusal_reasons, spec
from support.kafka.kraft import CONTROLLER
from support.kafka.kraft_fixture import KraftFixture
from support.kafka.live_write_bench import LiveBench
from support.kafka.write_bench import results
from topiarist.errors import Reason
from topiarist.model.outcome import Result
from topiarist.reconcile import withhold_vetoed_changes


@pytest.fixture
def bench(kraft: KraftFixture) -> Iterator[LiveBench]:
    opened = LiveBench(kraft.kafka.bootstrap)
    yield opened
    opened.close()


@pytest.mark.core
def test_one_plan_creates_grows_configures_and_deletes(bench: LiveBench, kraft: KraftFixture) -> None:
    """Kafka's own client shows what the plan says; the second run sends no request that writes."""
    before = (
        spec("apply-grown", partitions=2, replicationFactor=2, config={"retention.ms": 1000000}),
        spec("apply-old"),
        spec("apply-set", config={"retention.ms": 1000000, "cleanup.policy": "compact"}),
    )
    assert set(results(bench.apply(bench.plan(*before))).values()) == {Result.DONE}
    wanted = (
        spec("apply-new", partitions=3, replicationFactor=3, config={"min.insync.replicas": 2}),
        spec("apply-grown", partitions=5, replicationFactor=2, config={"retention.ms": 2000000}),
        spec("apply-old", ensure="Absent"),
        spec("apply-set", config={"retention.ms": 1000000}),
    )
    plan = bench.plan(*wanted)
    planned = {topic.topic: topic for topic in plan.topics}
    outcomes = bench.apply(plan)
    assert set(results(outcomes).values()) == {Result.DONE}
    names = ["apply-new", "apply-grown", "apply-old", "apply-set"]
    shown = kraft.clients.describe(names)
    new, grown = shown["apply-new"], shown["apply-grown"]
    assert new
    assert grown
    assert shown["apply-old"] is None
    assert new.replicas == planned["apply-new"].new_replicas()
    assert new.id == outcomes["apply-new"].topic_id
    assert grown.replicas[2:] == planned["apply-grown"].new_replicas()
    assert bench.look(names).topics["apply-set"].config == {"retention.ms": "1000000"}  # type: ignore[union-attr]
    assert bench.records.intents == []
    writes = bench.writes
    assert not bench.plan(*wanted).has_changes
    assert bench.writes == writes


def test_saved_plans_are_recognized_as_applied(bench: LiveBench) -> None:
    """The same plan a second time is unchanged, and sends no request that writes."""
    plan = bench.plan(spec("saved", config={"cleanup.policy": "compact,delete", "retention.ms": 1000000}))
    assert results(bench.apply(plan)) == {"saved": Result.DONE}
    writes = bench.writes
    assert results(bench.apply(plan)) == {"saved": Result.UNCHANGED}
    assert bench.writes == writes


def test_deletions_and_growth_of_another_topic_of_the_name_are_refused(bench: LiveBench, kraft: KraftFixture) -> None:
    """A topic that is recreated, or grown by another client, directly before the request is not changed."""
    first = (spec("twin"), spec("raced", partitions=2, replicationFactor=2))
    bench.apply(bench.plan(*first))

    def interfere(number: int) -> None:
        if number == deletion:
            kraft.clients.delete(["twin"])
            kraft.kafka.wait(lambda: kraft.clients.describe(["twin"])["twin"] is None, "the deletion")
            kraft.clients.create({"twin": ((1, 2), (2, 3), (3, 1))})
        else:
            kraft.kafka.tool(
                "kafka-topics",
                "--bootstrap-server",
                kraft.kafka.bootstrap,
                "--alter",
                "--topic",
                "raced",
                "--partitions",
                "3",
            )

    deletion = bench.records.fence_checks + 1
    plan = bench.plan(spec("twin", ensure="Absent"), spec("raced", partitions=4, replicationFactor=2))
    bench.records.before_fence = interfere
    outcomes = bench.apply(plan)
    assert results(outcomes) == {"twin": Result.CONFLICT, "raced": Result.CONFLICT}
    topics = bench.look(["twin", "raced"]).topics
    assert topics["twin"]
    assert len(topics["raced"].replicas) == 3  # type: ignore[union-attr]
    assert bench.records.intents == []


@pytest.mark.usefixtures("policies")
def test_policies_and_invalid_configs_in_plan_and_apply(bench: LiveBench) -> None:
    """The brokers' own words are in the plan that asked them, and in the outcomes of one that did not; others pass."""
    bench.apply(bench.plan(spec("set"), spec("grown", partitions=1, replicationFactor=2)))
    wanted = (
        spec("forbidden-topic"),
        spec("fine"),
        spec("set", config={"retention.ms": 1}),
        spec("grown", partitions=2, replicationFactor=2, config={"retention.ms": 1}),
    )
    plan = bench.plan(*wanted)
    writes_before = bench.look(["fine", "grown"]).topics
    asked = {topic.topic: topic for topic in withhold_vetoed_changes(bench, plan).topics}
    assert bench.look(["fine", "grown"]).topics == writes_before
    for name in ("forbidden-topic", "set", "grown"):
        assert refusal_reasons(asked[name]) == ["PolicyViolation"], asked[name]
    assert "names must not begin with forbidden" in asked["forbidden-topic"].refusals[0].message
    assert asked["fine"].refusals == ()
    assert len(asked["grown"].changes) == 1
    outcomes = bench.apply(plan)
    assert {name: each.reason for name, each in outcomes.items()} == {
        "forbidden-topic": Reason.POLICY_VIOLATION,
        "fine": None,
        "set": Reason.POLICY_VIOLATION,
        "grown": Reason.POLICY_VIOLATION,
    }
    # The configs of a topic come before its growth: without them it does not grow.
    assert len(bench.look(["grown"]).topics["grown"].replicas) == 1  # type: ignore[union-attr]
    assert bench.records.intents == []


def test_k17_a_quota_slows_a_run_and_loses_no_topic(bench: LiveBench, kraft: KraftFixture, kraft_release: str) -> None:
    """A quota of mutations leaves out topics; all are created in the end, each once."""
    kraft.kafka.tool(
        "kafka-configs",
        "--bootstrap-server",
        kraft.kafka.bootstrap,
        "--alter",
        "--add-config",
        "controller_mutation_rate=5",
        "--entity-type",
        "users",
        "--entity-default",
    )
    plan = bench.plan(*(spec(f"t{each:02}", partitions=3, replicationFactor=2) for each in range(20)))
    outcomes = bench.apply(plan)
    assert set(results(outcomes).values()) == {Result.DONE}, bench.error
    # Kafka 3.3 keeps the quota in KRaft mode, and accepts everything all the same.
    assert (bench.writes["CreateTopics"] > 1) is (kraft_release != "3.3.2")
    assert bench.records.intents == []


def test_a_thousand_topics_in_chunks(bench: LiveBench) -> None:
    """Two requests and three transactions create 1,001 topics; six change 1,001 configs, each read again."""
    wanted = [spec(f"bulk-{each:04}", partitions=3, replicationFactor=2) for each in range(1_001)]
    outcomes = bench.apply(bench.plan(*wanted))
    assert set(results(outcomes).values()) == {Result.DONE}
    assert bench.writes["CreateTopics"] == 2
    assert len(bench.records.commits) == 3
    assert bench.looks == 4
    state = bench.state()
    assert all(state.topics[name].topic_id == outcome.topic_id for name, outcome in outcomes.items())
    assert not bench.plan(*wanted).has_changes
    changed = [spec(each.topic, partitions=3, replicationFactor=2, config={"retention.ms": 3600000}) for each in wanted]
    assert set(results(bench.apply(bench.plan(*changed))).values()) == {Result.DONE}
    assert bench.writes["IncrementalAlterConfigs"] == 6
    assert not bench.plan(*changed).has_changes


@pytest.mark.night(area="crash")
def test_k15_the_limit_of_a_request_is_that_of_the_controller(secured_node: KraftFixture) -> None:
    """What topiarist refuses as too large the controller refuses too, and what it sends is accepted."""
    bench = LiveBench(secured_node.kafka.bootstrap)
    fits = spec("fits", partitions=9_998, replicationFactor=1, config={"retention.ms": 1000000})
    large = spec("large", partitions=10_000, replicationFactor=1)
    asked = {topic.topic: topic for topic in withhold_vetoed_changes(bench, bench.plan(fits, large)).topics}
    assert asked["fits"].refusals == ()
    assert refusal_reasons(asked["large"]) == ["TooLarge"]
    bench.close()


@pytest.mark.night(area="crash")
def test_k13_a_controller_that_is_away_ends_the_run_and_nothing_is_sent_twice(
    bench: LiveBench, kraft: KraftFixture
) -> None:
    """The controller is killed before the request and comes back after the brokers gave up, or carries it out."""
    plan = bench.plan(spec("late"))
    bench.records.before_fence = lambda number: kraft.kafka.kill(CONTROLLER)
    starter = threading.Timer(15, lambda: kraft.kafka.start(CONTROLLER))
    starter.start()
    began = time.monotonic()
    outcomes = bench.apply(plan)
    starter.join()
    assert time.monotonic() - began < 100
    assert bench.writes["CreateTopics"] == 1
    assert outcomes["late"].result in (Result.DONE, Result.SKIPPED, Result.UNKNOWN)
    bench.records.before_fence = lambda number: None
    if outcomes["late"].result is not Result.DONE:
        assert bench.error
        assert bench.error.reason.retryable
    else:
        assert bench.records.intents == []

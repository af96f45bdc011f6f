"""What every ``Cluster`` promises, in memory and in a real ZooKeeper alike: the fake is trusted because it passes
this.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from contract.worlds import BROKERS, World
from support.wishes import outcomes, planned, results, wish
from topiarist.core.change import Risk
from topiarist.core.inspection import agree
from topiarist.core.plan import Run
from topiarist.core.release import plan_release, wanted
from topiarist.core.waiting import Sight
from topiarist.errors import Reason
from topiarist.reconcile import Hooks, Outcome, Result, carry_out

REPLICAS = ((1, 2, 3), (2, 3, 4))


def test_reads_brokers_with_racks_in_order(world: World) -> None:
    """Brokers are sorted by id and have the racks that they registered with."""
    assert world.open().read().brokers == BROKERS


def test_reads_topics_as_others_made_them(world: World) -> None:
    """A topic of others has its replica lists and overrides, and no record."""
    world.add("orders", REPLICAS, {"retention.ms": "1"})
    topic = world.open().read().topics["orders"]
    assert (topic.replicas, dict(topic.config), topic.record) == (REPLICAS, {"retention.ms": "1"}, None)


def test_creates_what_the_plan_shows(world: World) -> None:
    """A created topic has exactly the planned replica lists and config, and a valid record of ours."""
    cluster = world.open()
    plan = planned(cluster, wish("orders", config={"retention.ms": 5}))
    assert results(cluster, plan) == {"orders": Result.DONE}
    topic = cluster.read().topics["orders"]
    assert topic.replicas == plan.topics[0].new_replicas()
    assert dict(topic.config) == {"retention.ms": "5"}
    assert topic.valid_record == plan.topics[0].record_after
    assert not topic.changed_outside


def test_adds_partitions_and_keeps_the_old(world: World) -> None:
    """Growth adds the planned lists after the existing ones, which stay."""
    world.add("orders", REPLICAS, {})
    cluster = world.open()
    plan = planned(cluster, wish("orders", partitions=5))
    assert results(cluster, plan) == {"orders": Result.DONE}
    assert cluster.read().topics["orders"].replicas == REPLICAS + plan.topics[0].new_replicas()


def test_changes_managed_keys_only(world: World) -> None:
    """A config change sets and removes our keys; the others stay as they were."""
    world.add("orders", REPLICAS, {"segment.bytes": "1000"})
    cluster = world.open()
    results(cluster, planned(cluster, wish("orders", config={"retention.ms": 5, "flush.ms": 7})))
    results(cluster, planned(cluster, wish("orders", config={"retention.ms": 6})))
    assert dict(cluster.read().topics["orders"].config) == {"retention.ms": "6", "segment.bytes": "1000"}


def test_a_second_plan_is_empty(world: World) -> None:
    """Plan, apply, plan: nothing is left to do."""
    world.add("grow", REPLICAS, {"retention.ms": "1"})
    world.add("same", REPLICAS, {})
    cluster = world.open()
    specs = (wish("new"), wish("grow", partitions=4, config={"retention.ms": 2}), wish("same"))
    assert set(results(cluster, planned(cluster, *specs)).values()) == {Result.DONE}
    assert not planned(cluster, *specs).pending


def test_applying_twice_is_already_so(world: World) -> None:
    """The same plan applied again finds everything done."""
    world.add("grow", REPLICAS, {"retention.ms": "1"})
    cluster = world.open()
    plan = planned(cluster, wish("new"), wish("grow", partitions=4, config={"retention.ms": 2}))
    results(cluster, plan)
    assert set(results(cluster, plan).values()) == {Result.ALREADY}


def test_a_deleted_topic_has_gone_and_left_a_tombstone(world: World) -> None:
    """``ensure: Absent`` on a topic of ours deletes it; absent is absent, and Present makes it again."""
    cluster = world.open()
    results(cluster, planned(cluster, wish("orders")))
    world.settle()
    assert results(cluster, planned(cluster, wish("orders", ensure="Absent"))) == {"orders": Result.DONE}
    world.settle()
    state = cluster.read()
    assert "orders" not in state.topics
    assert state.records["orders"].absent
    assert not planned(cluster, wish("orders", ensure="Absent")).pending
    assert results(cluster, planned(cluster, wish("orders"))) == {"orders": Result.DONE}


def test_a_topic_that_appeared_meanwhile_is_moved(world: World) -> None:
    """A create whose topic others have made since is not written over it."""
    cluster = world.open()
    plan = planned(cluster, wish("orders"))
    world.add("orders", REPLICAS, {"retention.ms": "1"})
    assert results(cluster, plan) == {"orders": Result.MOVED}
    assert dict(cluster.read().topics["orders"].config) == {"retention.ms": "1"}


def test_a_topic_that_went_meanwhile_is_moved(world: World) -> None:
    """A change to a topic that others have deleted since brings nothing back."""
    world.add("orders", REPLICAS, {})
    cluster = world.open()
    plan = planned(cluster, wish("orders", partitions=4))
    world.delete("orders")
    assert results(cluster, plan) == {"orders": Result.MOVED}
    assert "orders" not in cluster.read().topics


def test_a_topic_made_again_meanwhile_is_moved(world: World) -> None:
    """The same name with the same values is another topic if it was deleted and made again (F33)."""
    world.add("orders", REPLICAS, {})
    cluster = world.open()
    plan = planned(cluster, wish("orders", partitions=4))
    world.delete("orders")
    world.add("orders", REPLICAS, {})
    assert results(cluster, plan) == {"orders": Result.MOVED}
    assert cluster.read().topics["orders"].replicas == REPLICAS


def test_a_key_changed_meanwhile_is_moved(world: World) -> None:
    """A config change is not written if the value that it was planned from has changed."""
    world.add("orders", REPLICAS, {"retention.ms": "1"})
    cluster = world.open()
    plan = planned(cluster, wish("orders", config={"retention.ms": 2}))
    world.configure("orders", {"retention.ms": "3"})
    assert results(cluster, plan) == {"orders": Result.MOVED}
    assert dict(cluster.read().topics["orders"].config) == {"retention.ms": "3"}


def test_another_key_changed_meanwhile_does_not_matter(world: World) -> None:
    """Preconditions are by value: a key that the plan does not touch voids nothing, and is kept."""
    world.add("orders", REPLICAS, {"retention.ms": "1"})
    cluster = world.open()
    plan = planned(cluster, wish("orders", config={"retention.ms": 2}))
    world.configure("orders", {"retention.ms": "1", "segment.bytes": "1000"})
    assert results(cluster, plan) == {"orders": Result.DONE}
    assert dict(cluster.read().topics["orders"].config) == {"retention.ms": "2", "segment.bytes": "1000"}


def test_growth_that_may_lose_data_meanwhile_is_moved(world: World) -> None:
    """A key that it does not touch decides what it may cost: it was shown as less. A fresh plan says so."""
    world.add("orders", REPLICAS, {"retention.ms": "1"})
    cluster = world.open()
    plan = planned(cluster, wish("orders", partitions=4))
    world.configure("orders", {"retention.ms": "1", "cleanup.policy": "compact"})
    outcome = outcomes(cluster, plan)["orders"]
    assert (outcome.result, outcome.reason) == (Result.MOVED, Reason.STATE_CONFLICT)
    assert "was planned as Disruptive, and is DataLoss now: keys move" in outcome.message
    assert cluster.read().topics["orders"].replicas == REPLICAS
    again = planned(cluster, wish("orders", partitions=4))
    assert (again.topics[0].risk, results(cluster, again)) == (Risk.DATA_LOSS, {"orders": Result.DONE})


def test_a_default_of_the_brokers_changed_meanwhile_may_move_a_topic(world: World) -> None:
    """What a key without override had decides what it costs to set one."""
    world.add("orders", REPLICAS, {})
    world.default({"log.retention.ms": "1"})
    cluster = world.open()
    plan = planned(cluster, wish("orders", config={"retention.ms": 2}))
    world.default({"log.retention.ms": "3"})
    outcome = outcomes(cluster, plan)["orders"]
    assert outcome.result is Result.MOVED
    assert "retention.ms was planned as Disruptive, and is DataLoss now: messages older than" in outcome.message
    assert cluster.read().topics["orders"].config == {}


def test_a_broker_that_went_meanwhile_is_moved(world: World) -> None:
    """New replicas never go to a broker that the plan saw alive and that is not any more (F14)."""
    cluster = world.open()
    plan = planned(cluster, wish("orders", partitions=6))
    world.remove_broker(4)
    assert results(cluster, plan) == {"orders": Result.MOVED}
    assert "orders" not in cluster.read().topics


@pytest.mark.parametrize("fields", [{"ensure": "Absent"}, {"partitions": 4}, None], ids=["delete", "grow", "create"])
@pytest.mark.parametrize("planned_before", [False, True])
def test_a_topic_that_a_request_names_is_left_alone(
    world: World, fields: dict[str, Any] | None, planned_before: bool
) -> None:
    """Neither deleted, grown nor created, whether the request is there at the plan or comes between plan and write."""
    cluster = world.open()
    if fields is not None:
        results(cluster, planned(cluster, wish("orders")))
        world.settle()
    wanted = wish("orders", **(fields or {}))
    plan = planned(cluster, wanted)
    world.request("orders")
    before = cluster.read()
    if planned_before:
        found = outcomes(cluster, plan)["orders"]
        assert (found.result, found.reason) == (Result.MOVED, Reason.STATE_CONFLICT)
    refused = planned(cluster, wanted)
    assert [finding.reason for finding in refused.topics[0].refusals] == [Reason.REASSIGNMENT_IN_PROGRESS]
    assert results(cluster, refused) == {}
    after = cluster.read()
    assert (after.topics, after.records, after.deleting) == (before.topics, before.records, before.deleting)


def test_two_runs_with_different_wishes_do_not_overwrite_each_other(world: World) -> None:
    """One wins, the other is told what it found (F8)."""
    world.add("orders", REPLICAS, {})
    first, second = world.open(), world.open()
    one = planned(first, wish("orders", config={"retention.ms": 2}))
    other = planned(second, wish("orders", config={"retention.ms": 3}))
    assert results(first, one) == {"orders": Result.DONE}
    outcome = outcomes(second, other)["orders"]
    assert (outcome.result, outcome.reason) == (Result.MOVED, Reason.STATE_CONFLICT)
    assert "record" in outcome.message
    assert dict(second.read().topics["orders"].config) == {"retention.ms": "2"}


def test_a_stale_record_counts_as_none(world: World) -> None:
    """A topic deleted and made again by others is unadopted, whatever our old record says (F33)."""
    cluster = world.open()
    results(cluster, planned(cluster, wish("orders", config={"retention.ms": 5})))
    world.delete("orders")
    world.add("orders", REPLICAS, {"retention.ms": "5"})
    topic = cluster.read().topics["orders"]
    assert topic.record is not None
    assert topic.valid_record is None


def test_stopping_sends_nothing_more(world: World) -> None:
    """After ``stop`` every topic still has its outcome: not sent."""
    cluster = world.open()
    plan = planned(cluster, wish("a"), wish("b"))
    outcomes = list(cluster.apply(plan, lambda: True))
    assert outcomes == [Outcome("a", Result.NOT_SENT), Outcome("b", Result.NOT_SENT)]
    assert cluster.read().topics == {}


def test_a_topic_that_changed_since_it_was_planned_is_only_reported(world: World) -> None:
    """What was planned is done, or nothing: no other plan takes its place. The next run does the topic."""
    world.add("orders", REPLICAS, {"retention.ms": "1"})
    cluster = world.open()
    wanted = wish("orders", config={"retention.ms": 2})
    plan = planned(cluster, wanted)
    world.configure("orders", {"retention.ms": "3"})
    report = carry_out(cluster, Hooks(), plan)
    assert [outcome.result for outcome in report.outcomes] == [Result.MOVED]
    assert report.exit == 5
    assert dict(cluster.read().topics["orders"].config) == {"retention.ms": "3"}
    assert results(cluster, planned(cluster, wanted)) == {"orders": Result.DONE}


def test_a_look_tells_topics_apart_and_sees_them_go(world: World) -> None:
    """The identity is that of the plan; a deleted topic has none and no mark, one made again has another."""
    cluster = world.open()
    results(cluster, planned(cluster, wish("orders")))
    world.settle()
    identity = cluster.read().topics["orders"].identity
    assert cluster.look({"none": (), "orders": ()}) == {"none": Sight(None, False), "orders": Sight(identity, False)}
    results(cluster, planned(cluster, wish("orders", ensure="Absent")))
    world.settle()
    assert cluster.look({"orders": ()}) == {"orders": Sight(None, False)}
    world.add("orders", REPLICAS, {})
    again = cluster.look({"orders": ()})["orders"]
    assert (again.marked, again.identity == identity) == (False, False)


def test_a_look_sees_brokers_that_are_away(world: World) -> None:
    """Those with a replica of the topic, and no others."""
    world.add("orders", REPLICAS, {})
    cluster = world.open()
    world.remove_broker(4)
    world.remove_broker(5)
    assert cluster.look({"orders": ()})["orders"].missing == (4,)


@pytest.mark.parametrize("made", ["ours", "tombstone", "stale"])
def test_a_released_topic_is_nobodys(world: World, made: str) -> None:
    """The record goes, whatever it was beside; the topic stays as it is, and again there is nothing to release."""
    cluster = world.open()
    results(cluster, planned(cluster, wish("orders", config={"retention.ms": 5})))
    world.settle()
    if made == "tombstone":
        results(cluster, planned(cluster, wish("orders", ensure="Absent")))
        world.settle()
    elif made == "stale":
        world.delete("orders")
        world.add("orders", REPLICAS, {"retention.ms": "5"})
    before = cluster.read()
    plan, absent = plan_release(before, "", wanted(["orders"]), Run())
    assert (results(cluster, plan), list(absent)) == ({"orders": Result.DONE}, [])
    after = cluster.read()
    nobodys = {
        name: replace(topic, record=None, record_valid=False, changed_outside=False)
        for name, topic in before.topics.items()
    }
    assert (after.topics, after.records) == (nobodys, {})
    assert results(cluster, plan) == {"orders": Result.ALREADY}
    again, absent = plan_release(after, "", wanted(["orders"]), Run())
    assert (again.topics, list(absent)) == ((), ["orders"])


def test_nothing_to_do_is_no_outcome(world: World) -> None:
    """An empty plan applies to nothing."""
    cluster = world.open()
    report = carry_out(cluster, Hooks(), planned(cluster))
    assert (report.outcomes, report.exit) == ((), 0)


@pytest.mark.parametrize("wanted", [{"partitions": 4}, {"config": {"retention.ms": 2}}])
def test_observed_topics_are_never_written(world: World, wanted: dict[str, Any]) -> None:
    """``mode: Observe`` shows the difference and leaves it."""
    world.add("orders", REPLICAS, {})
    cluster = world.open()
    plan = planned(cluster, replace(wish("orders", **wanted), observe=True))
    assert plan.topics[0].changes
    assert results(cluster, plan) == {}
    assert cluster.read().topics["orders"].record is None


def test_an_inspection_is_of_the_topic_that_is_read(world: World) -> None:
    """What the controller has made of a topic, or that nobody knows; never of another topic of its name."""
    world.add("orders", REPLICAS, {})
    world.settle()
    cluster = world.open()
    assert agree(cluster.read(), "orders", cluster.inspect("orders"))
    assert agree(cluster.read(), "none", cluster.inspect("none"))


def test_inspections_of_many_topics_are_those_of_each(world: World) -> None:
    """What is read in one go is what is read topic by topic; where nothing is known, of none."""
    world.add("clicks", REPLICAS, {})
    world.add("orders", REPLICAS, {})
    world.settle()
    cluster = world.open()
    topics = cluster.read().topics
    alone = {name: cluster.inspect(name) for name in topics}
    assert cluster.inspect_all(topics.values()) == {name: one for name, one in alone.items() if one is not None}
    assert cluster.inspect_all([]) == {}

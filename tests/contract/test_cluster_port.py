"""Contract of every ``Cluster``, both in memory and on a real ZooKeeper.

The other tests rely on the fake, because the fake passes this suite.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from contract.cluster_fixtures import BROKERS, ClusterFixture, topics_of
from support.builders import apply_outcomes, apply_results, plan_specs, topic_spec
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import BatchRecord, OwnValue, ReplicaMove
from topiarist.model.outcome import Outcome, Result, TopicProgress
from topiarist.model.plan import Risk, RunOptions, TopicPlan
from topiarist.model.state import is_same_topic
from topiarist.planning.without_specs import parse_unmanage_request, plan_unmanage
from topiarist.ports import WriteControl
from topiarist.reconcile import apply_plan

REPLICAS = ((1, 2, 3), (2, 3, 4))


def test_reads_brokers_with_racks_in_order(world: ClusterFixture) -> None:
    """The cluster returns its brokers sorted by id, with the racks of their registrations."""
    assert world.open().read().brokers == BROKERS


def test_reads_topics_as_others_made_them(world: ClusterFixture) -> None:
    """A topic of another client has its replica lists and overrides, and no ownership record."""
    world.create_topic("orders", REPLICAS, {"retention.ms": "1"})
    topic = world.open().read().topics["orders"]
    assert (topic.replicas, dict(topic.config), topic.record) == (REPLICAS, {"retention.ms": "1"}, None)


def test_creates_what_the_plan_shows(world: ClusterFixture) -> None:
    """A created topic has exactly the planned replica lists and config, and a valid ownership record."""
    cluster = world.open()
    plan = plan_specs(cluster, topic_spec("orders", config={"retention.ms": 5}))
    assert apply_results(cluster, plan) == {"orders": Result.DONE}
    topic = cluster.read().topics["orders"]
    assert topic.replicas == plan.topics[0].new_replicas()
    assert dict(topic.config) == {"retention.ms": "5"}
    assert topic.valid_record == plan.topics[0].record_after
    assert not topic.modified_externally


def test_adds_partitions_and_keeps_the_old(world: ClusterFixture) -> None:
    """Growth adds the planned lists after the existing ones, and keeps the existing ones."""
    world.create_topic("orders", REPLICAS, {})
    cluster = world.open()
    plan = plan_specs(cluster, topic_spec("orders", partitions=5))
    assert apply_results(cluster, plan) == {"orders": Result.DONE}
    assert cluster.read().topics["orders"].replicas == REPLICAS + plan.topics[0].new_replicas()


def test_changes_managed_keys_only(world: ClusterFixture) -> None:
    """A config change sets and removes managed keys only, and keeps the others."""
    world.create_topic("orders", REPLICAS, {"segment.bytes": "2000000"})
    cluster = world.open()
    apply_results(cluster, plan_specs(cluster, topic_spec("orders", config={"retention.ms": 5, "flush.ms": 7})))
    apply_results(cluster, plan_specs(cluster, topic_spec("orders", config={"retention.ms": 6})))
    assert dict(cluster.read().topics["orders"].config) == {"retention.ms": "6", "segment.bytes": "2000000"}


def test_a_second_plan_is_empty(world: ClusterFixture) -> None:
    """A second plan after plan and apply has no changes."""
    world.create_topic("grow", REPLICAS, {"retention.ms": "1"})
    world.create_topic("same", REPLICAS, {})
    cluster = world.open()
    specs = (topic_spec("new"), topic_spec("grow", partitions=4, config={"retention.ms": 2}), topic_spec("same"))
    assert set(apply_results(cluster, plan_specs(cluster, *specs)).values()) == {Result.DONE}
    assert not plan_specs(cluster, *specs).has_changes


def test_applying_twice_is_already_so(world: ClusterFixture) -> None:
    """The second run of the same plan reports everything as unchanged."""
    world.create_topic("grow", REPLICAS, {"retention.ms": "1"})
    cluster = world.open()
    plan = plan_specs(cluster, topic_spec("new"), topic_spec("grow", partitions=4, config={"retention.ms": 2}))
    apply_results(cluster, plan)
    assert set(apply_results(cluster, plan).values()) == {Result.UNCHANGED}


def test_a_deleted_topic_has_gone_and_left_a_tombstone(world: ClusterFixture) -> None:
    """``ensure: Absent`` deletes an owned topic, needs nothing for an absent one, and Present creates the topic
    again.
    """
    cluster = world.open()
    apply_results(cluster, plan_specs(cluster, topic_spec("orders")))
    world.wait_until_idle()
    assert apply_results(cluster, plan_specs(cluster, topic_spec("orders", ensure="Absent"))) == {"orders": Result.DONE}
    world.wait_until_idle()
    state = cluster.read()
    assert "orders" not in state.topics
    assert state.dangling_records["orders"].deleted
    assert not plan_specs(cluster, topic_spec("orders", ensure="Absent")).has_changes
    assert apply_results(cluster, plan_specs(cluster, topic_spec("orders"))) == {"orders": Result.DONE}


def test_a_topic_that_appeared_meanwhile_is_moved(world: ClusterFixture) -> None:
    """If another client has created the topic since the plan, a create is a conflict and overwrites nothing."""
    cluster = world.open()
    plan = plan_specs(cluster, topic_spec("orders"))
    world.create_topic("orders", REPLICAS, {"retention.ms": "1"})
    assert apply_results(cluster, plan) == {"orders": Result.CONFLICT}
    assert dict(cluster.read().topics["orders"].config) == {"retention.ms": "1"}


def test_a_topic_that_went_meanwhile_is_moved(world: ClusterFixture) -> None:
    """A change to a topic that another client has deleted since the plan is a conflict, and does not recreate it."""
    world.create_topic("orders", REPLICAS, {})
    cluster = world.open()
    plan = plan_specs(cluster, topic_spec("orders", partitions=4))
    world.delete_topic("orders")
    assert apply_results(cluster, plan) == {"orders": Result.CONFLICT}
    assert "orders" not in cluster.read().topics


def test_a_topic_made_again_meanwhile_is_moved(world: ClusterFixture) -> None:
    """A topic that was deleted and recreated with the same values is another topic, so its plan is a conflict (F33)."""
    world.create_topic("orders", REPLICAS, {})
    cluster = world.open()
    plan = plan_specs(cluster, topic_spec("orders", partitions=4))
    world.delete_topic("orders")
    world.create_topic("orders", REPLICAS, {})
    assert apply_results(cluster, plan) == {"orders": Result.CONFLICT}
    assert cluster.read().topics["orders"].replicas == REPLICAS


def test_a_key_changed_meanwhile_is_moved(world: ClusterFixture) -> None:
    """A config change is a conflict if the previous value of its key has changed since the plan."""
    world.create_topic("orders", REPLICAS, {"retention.ms": "1"})
    cluster = world.open()
    plan = plan_specs(cluster, topic_spec("orders", config={"retention.ms": 2}))
    world.configure_topic("orders", {"retention.ms": "3"})
    assert apply_results(cluster, plan) == {"orders": Result.CONFLICT}
    assert dict(cluster.read().topics["orders"].config) == {"retention.ms": "3"}


def test_another_key_changed_meanwhile_does_not_matter(world: ClusterFixture) -> None:
    """Preconditions compare values: an external change to a key outside the plan voids nothing, and is kept."""
    world.create_topic("orders", REPLICAS, {"retention.ms": "1"})
    cluster = world.open()
    plan = plan_specs(cluster, topic_spec("orders", config={"retention.ms": 2}))
    world.configure_topic("orders", {"retention.ms": "1", "segment.bytes": "2000000"})
    assert apply_results(cluster, plan) == {"orders": Result.DONE}
    assert dict(cluster.read().topics["orders"].config) == {"retention.ms": "2", "segment.bytes": "2000000"}


def test_growth_that_may_lose_data_meanwhile_is_moved(world: ClusterFixture) -> None:
    """An external change that raises the risk of a growth above the reviewed one is a conflict; a new plan shows it."""
    world.create_topic("orders", REPLICAS, {"retention.ms": "1"})
    cluster = world.open()
    plan = plan_specs(cluster, topic_spec("orders", partitions=4))
    world.configure_topic("orders", {"retention.ms": "1", "cleanup.policy": "compact"})
    outcome = apply_outcomes(cluster, plan)["orders"]
    assert (outcome.result, outcome.reason) == (Result.CONFLICT, Reason.STATE_CONFLICT)
    assert "was planned as Disruptive, and is DataLoss now: keys map to other partitions" in outcome.message
    assert cluster.read().topics["orders"].replicas == REPLICAS
    again = plan_specs(cluster, topic_spec("orders", partitions=4))
    assert (again.topics[0].risk, apply_results(cluster, again)) == (Risk.DATA_LOSS, {"orders": Result.DONE})


def test_a_default_of_the_brokers_changed_meanwhile_may_move_a_topic(world: ClusterFixture) -> None:
    """A changed broker default may raise the risk of setting a key, and then the topic is a conflict."""
    world.create_topic("orders", REPLICAS, {})
    world.set_broker_defaults({"log.retention.ms": "1"})
    cluster = world.open()
    plan = plan_specs(cluster, topic_spec("orders", config={"retention.ms": 2}))
    world.set_broker_defaults({"log.retention.ms": "3"})
    outcome = apply_outcomes(cluster, plan)["orders"]
    assert outcome.result is Result.CONFLICT
    assert "retention.ms was planned as Disruptive, and is DataLoss now: messages older than" in outcome.message
    assert cluster.read().topics["orders"].config == {}


def test_a_broker_that_went_meanwhile_is_moved(world: ClusterFixture) -> None:
    """A broker that is offline since the plan never gets new replicas: the topic is a conflict (F14)."""
    cluster = world.open()
    plan = plan_specs(cluster, topic_spec("orders", partitions=6))
    world.remove_broker(4)
    assert apply_results(cluster, plan) == {"orders": Result.CONFLICT}
    assert "orders" not in cluster.read().topics


@pytest.mark.parametrize("fields", [{"ensure": "Absent"}, {"partitions": 4}, None], ids=["delete", "grow", "create"])
@pytest.mark.parametrize("planned_before", [False, True])
def test_a_topic_that_a_request_names_is_left_alone(
    world: ClusterFixture, fields: dict[str, Any] | None, planned_before: bool
) -> None:
    """A topic of a reassignment request is not deleted, grown or created, for a request before or after the plan."""
    cluster = world.open()
    if fields is not None:
        apply_results(cluster, plan_specs(cluster, topic_spec("orders")))
        world.wait_until_idle()
    wanted = topic_spec("orders", **(fields or {}))
    plan = plan_specs(cluster, wanted)
    world.request_reassignment("orders")
    before = cluster.read()
    if planned_before:
        found = apply_outcomes(cluster, plan)["orders"]
        assert (found.result, found.reason) == (Result.CONFLICT, Reason.STATE_CONFLICT)
    refused = plan_specs(cluster, wanted)
    assert [finding.reason for finding in refused.topics[0].refusals] == [Reason.REASSIGNMENT_IN_PROGRESS]
    assert apply_results(cluster, refused) == {}
    after = cluster.read()
    assert (after.topics, after.dangling_records, after.pending_deletions) == (
        before.topics,
        before.dangling_records,
        before.pending_deletions,
    )


def test_two_runs_with_different_wishes_do_not_overwrite_each_other(world: ClusterFixture) -> None:
    """Of two runs with different specs the first is done, and the second is a conflict with a message (F8)."""
    world.create_topic("orders", REPLICAS, {})
    first, second = world.open(), world.open()
    one = plan_specs(first, topic_spec("orders", config={"retention.ms": 2}))
    other = plan_specs(second, topic_spec("orders", config={"retention.ms": 3}))
    assert apply_results(first, one) == {"orders": Result.DONE}
    outcome = apply_outcomes(second, other)["orders"]
    assert (outcome.result, outcome.reason) == (Result.CONFLICT, Reason.STATE_CONFLICT)
    assert "record" in outcome.message
    assert dict(second.read().topics["orders"].config) == {"retention.ms": "2"}


def test_a_stale_record_counts_as_none(world: ClusterFixture) -> None:
    """A topic that another client deleted and recreated is unadopted, despite topiarist's earlier record (F33)."""
    cluster = world.open()
    apply_results(cluster, plan_specs(cluster, topic_spec("orders", config={"retention.ms": 5})))
    world.delete_topic("orders")
    world.create_topic("orders", REPLICAS, {"retention.ms": "5"})
    topic = cluster.read().topics["orders"]
    assert topic.record is not None
    assert topic.valid_record is None


def test_stopping_sends_nothing_more(world: ClusterFixture) -> None:
    """After ``stop`` every topic still has an outcome: skipped."""
    cluster = world.open()
    plan = plan_specs(cluster, topic_spec("a"), topic_spec("b"))
    outcomes = list(cluster.apply(plan, lambda: True))
    assert outcomes == [Outcome("a", Result.SKIPPED), Outcome("b", Result.SKIPPED)]
    assert topics_of(cluster.read()) == {}


def test_a_topic_that_changed_since_it_was_planned_is_only_reported(world: ClusterFixture) -> None:
    """A topic is changed as planned or not at all: a run makes no new plan for it, and the next run changes it."""
    world.create_topic("orders", REPLICAS, {"retention.ms": "1"})
    cluster = world.open()
    wanted = topic_spec("orders", config={"retention.ms": 2})
    plan = plan_specs(cluster, wanted)
    world.configure_topic("orders", {"retention.ms": "3"})
    report = apply_plan(cluster, plan, stop=lambda: False)
    assert [outcome.result for outcome in report.outcomes] == [Result.CONFLICT]
    assert report.exit_code == 5
    assert dict(cluster.read().topics["orders"].config) == {"retention.ms": "3"}
    assert apply_results(cluster, plan_specs(cluster, wanted)) == {"orders": Result.DONE}


def test_a_look_tells_topics_apart_and_sees_them_go(world: ClusterFixture) -> None:
    """Progress has the planned identity of a topic, none for a deleted topic, and another one for a recreated topic."""
    cluster = world.open()
    apply_results(cluster, plan_specs(cluster, topic_spec("orders")))
    world.wait_until_idle()
    identity = cluster.read().topics["orders"].identity
    assert cluster.poll({"none": (), "orders": ()}) == {
        "none": TopicProgress(None, False),
        "orders": TopicProgress(identity, False),
    }
    apply_results(cluster, plan_specs(cluster, topic_spec("orders", ensure="Absent")))
    world.wait_until_idle()
    assert cluster.poll({"orders": ()}) == {"orders": TopicProgress(None, False)}
    world.create_topic("orders", REPLICAS, {})
    again = cluster.poll({"orders": ()})["orders"]
    assert (again.marked_for_deletion, again.identity == identity) == (False, False)


def test_a_look_sees_brokers_that_are_away(world: ClusterFixture) -> None:
    """Progress has the offline brokers with a replica of the topic, and no other brokers."""
    world.create_topic("orders", REPLICAS, {})
    cluster = world.open()
    world.remove_broker(4)
    world.remove_broker(5)
    assert cluster.poll({"orders": ()})["orders"].missing_brokers == (4,)


@pytest.mark.parametrize("made", ["ours", "tombstone", "stale"])
def test_a_released_topic_is_nobodys(world: ClusterFixture, made: str) -> None:
    """A release removes the record in any state of the topic and keeps the topic; a second release has no changes."""
    cluster = world.open()
    apply_results(cluster, plan_specs(cluster, topic_spec("orders", config={"retention.ms": 5})))
    world.wait_until_idle()
    if made == "tombstone":
        apply_results(cluster, plan_specs(cluster, topic_spec("orders", ensure="Absent")))
        world.wait_until_idle()
    elif made == "stale":
        world.delete_topic("orders")
        world.create_topic("orders", REPLICAS, {"retention.ms": "5"})
    before = cluster.read()
    plan, absent = plan_unmanage(before, "", parse_unmanage_request(["orders"]), RunOptions())
    assert (apply_results(cluster, plan), list(absent)) == ({"orders": Result.DONE}, [])
    after = cluster.read()
    nobodys = {
        name: replace(topic, record=None, record_valid=False, modified_externally=False)
        for name, topic in before.topics.items()
    }
    assert (after.topics, after.dangling_records) == (nobodys, {})
    assert apply_results(cluster, plan) == {"orders": Result.UNCHANGED}
    again, absent = plan_unmanage(after, "", parse_unmanage_request(["orders"]), RunOptions())
    assert (again.topics, list(absent)) == ((), ["orders"])


def test_nothing_to_do_is_no_outcome(world: ClusterFixture) -> None:
    """Applying an empty plan yields no outcomes."""
    cluster = world.open()
    report = apply_plan(cluster, plan_specs(cluster), stop=lambda: False)
    assert (report.outcomes, report.exit_code) == ((), 0)


@pytest.mark.parametrize("wanted", [{"partitions": 4}, {"config": {"retention.ms": 2}}])
def test_observed_topics_are_never_written(world: ClusterFixture, wanted: dict[str, Any]) -> None:
    """``mode: Observe`` shows the difference and writes nothing."""
    world.create_topic("orders", REPLICAS, {})
    cluster = world.open()
    plan = plan_specs(cluster, replace(topic_spec("orders", **wanted), observe_only=True))
    assert plan.topics[0].changes
    assert apply_results(cluster, plan) == {}
    assert cluster.read().topics["orders"].record is None


def test_an_inspection_is_of_the_topic_that_is_read(world: ClusterFixture) -> None:
    """An inspection has the partition states of the topic that was read, or unknown ones; never those of a recreated
    topic.
    """
    world.create_topic("orders", REPLICAS, {})
    world.wait_until_idle()
    cluster = world.open()
    assert is_same_topic(cluster.read(), "orders", cluster.inspect("orders"))
    assert is_same_topic(cluster.read(), "none", cluster.inspect("none"))


def test_inspections_of_many_topics_are_those_of_each(world: ClusterFixture) -> None:
    """Inspecting many topics at once equals inspecting each topic; where no states are known, the result is empty."""
    world.create_topic("clicks", REPLICAS, {})
    world.create_topic("orders", REPLICAS, {})
    world.wait_until_idle()
    cluster = world.open()
    topics = cluster.read().topics
    alone = {name: cluster.inspect(name) for name in topics}
    assert cluster.inspect_all(topics.values()) == {name: one for name, one in alone.items() if one is not None}
    assert cluster.inspect_all([]) == {}


THROTTLED, THEIRS = "follower.replication.throttled.replicas", "leader.replication.throttled.replicas"
BATCH = BatchRecord(
    "default",
    1,
    2,
    (ReplicaMove("orders", 0, (1, 2, 3), (4, 2, 3)),),
    {"topics/orders": {THROTTLED: OwnValue(None, "0:4"), THEIRS: OwnValue("*", "0:1")}},
)


def test_throttles_of_an_ended_run_are_put_back(world: ClusterFixture) -> None:
    """Each value goes back to the one before, the record is deleted, and a second call finds nothing."""
    world.create_topic("orders", REPLICAS, {})
    world.leave_batch(BATCH)
    cluster = world.open()
    assert cluster.read().batch == BATCH
    cleared = cluster.clear_moves()
    assert cleared is not None
    assert (cleared.record, cleared.remarks) == (BATCH, ())
    state = cluster.read()
    assert (dict(state.topics["orders"].config), state.batch) == ({THEIRS: "*"}, None)
    assert cluster.clear_moves() is None


def test_a_throttle_that_another_client_changed_stays(world: ClusterFixture) -> None:
    """A value that is not that of topiarist any more stays, with a remark; the others are put back."""
    world.create_topic("orders", REPLICAS, {})
    world.leave_batch(BATCH)
    world.configure_topic("orders", {THROTTLED: "0:5", THEIRS: "0:1"})
    cluster = world.open()
    cleared = cluster.clear_moves()
    assert cleared is not None
    assert cleared.remarks == (f"topics/orders: another client changed {THROTTLED} to 0:5",)
    assert dict(cluster.read().topics["orders"].config) == {THROTTLED: "0:5", THEIRS: "*"}


def test_throttles_stay_while_a_reassignment_is_requested(world: ClusterFixture) -> None:
    """While brokers may copy, nothing is cleared."""
    world.create_topic("orders", REPLICAS, {})
    world.leave_batch(BATCH)
    world.request_reassignment("orders")
    cluster = world.open()
    with pytest.raises(TopiaristError) as caught:
        cluster.clear_moves()
    assert caught.value.reason is Reason.REASSIGNMENT_IN_PROGRESS
    assert cluster.read().batch == BATCH


def test_the_guard_is_asked_directly_before_each_write(world: ClusterFixture) -> None:
    """An outcome of the guard takes the place of the write; topics that are not written are not asked about."""
    cluster = world.open()
    apply_results(cluster, plan_specs(cluster, topic_spec("same"), topic_spec("gone")))
    plan = plan_specs(cluster, topic_spec("same"), topic_spec("gone", ensure="Absent"), topic_spec("new"))
    asked: list[str] = []
    held = Outcome("gone", Result.CONFLICT, Reason.TOPIC_IN_USE, "a consumer has joined")

    def guard(topic: TopicPlan) -> Outcome | None:
        asked.append(topic.topic)
        return held if topic.topic == "gone" else None

    outcomes = {each.topic: each for each in cluster.apply(plan, lambda: False, WriteControl(guard=guard))}
    assert outcomes["gone"] == held
    assert outcomes["new"].result is Result.DONE
    assert sorted(asked) == ["gone", "new"]
    found = cluster.read()
    assert topics_of(found).keys() == {"same", "gone", "new"}
    assert found.pending_deletions == frozenset()

"""Elections in the filters of a plan: reviews, budgets, saved plans and policies."""

from __future__ import annotations

from msgspec.structs import replace

from support.builders import PROD_CLUSTER, change_kinds, cluster, plan, spec, state, topic
from topiarist.errors import Reason
from topiarist.filters.chain import enforce_budgets
from topiarist.filters.policies import bind_change
from topiarist.filters.review import filter_unreviewed, recheck_saved_plan
from topiarist.model.moves import LeaderChange, MoveKind, MoveSettings
from topiarist.model.plan import ElectLeaders, Plan, TopicPlan
from topiarist.model.spec import Budgets
from topiarist.planning.risk import assess_elections

SEEN = state(topic())


def electing(*partitions: LeaderChange) -> Plan:
    """Return the plan of one topic with an election alone."""
    owned = SEEN.topics["orders"]
    change = ElectLeaders(partitions, assess_elections(partitions))
    planned = TopicPlan("orders", owned, owned.record, owned.record, (change,), spec=spec())
    return replace(plan(SEEN), topics=(planned,))


def test_only_reviewed_leaders_are_elected() -> None:
    """Each partition counts by itself, and the leader before does not count: it may change at any time."""
    reviewed = electing(LeaderChange(0, 2, 1), LeaderChange(1, 3, 2))
    now = electing(LeaderChange(0, 3, 1), LeaderChange(2, 4, 3))
    (topic_plan,) = filter_unreviewed(now, reviewed).topics
    assert topic_plan.elections() == (LeaderChange(0, 3, 1),)
    assert topic_plan.changes[0].assessment.explanation == "leaders of 1 partition change"
    (refusal,) = topic_plan.refusals
    assert (refusal.reason, refusal.message) == (
        Reason.NOT_REVIEWED,
        "the reviewed plan does not elect these leaders",
    )
    assert [change_kinds(replace(topic_plan, changes=refusal.withheld))] == [["ElectLeaders"]]
    assert filter_unreviewed(reviewed, reviewed) == reviewed


def test_an_unreviewed_election_is_withheld() -> None:
    """A review without an election of the topic allows none."""
    (topic_plan,) = filter_unreviewed(electing(LeaderChange(0, 2, 1)), plan(SEEN)).topics
    assert topic_plan.changes == ()
    assert [refusal.reason for refusal in topic_plan.refusals] == [Reason.NOT_REVIEWED]


def test_elections_count_for_no_budget() -> None:
    """After a restart the leaders of most topics differ, and their election is no change of the topics."""
    found = electing(LeaderChange(0, 2, 1))
    tight = Budgets(topics=0, new_partitions=0, moved_replicas=0, moved_partitions=0, deletions=0, changed_share=0)
    assert enforce_budgets(found, tight) == found


def test_a_saved_election_needs_the_permission_of_the_cluster() -> None:
    """The Cluster document of the run counts; without one nothing is allowed, as for every other kind of move."""
    found = electing(LeaderChange(0, 2, 1))
    allowed = cluster("prod", moves=MoveSettings(frozenset({MoveKind.LEADERS})))
    assert recheck_saved_plan(found, allowed, SEEN, planned_brokers=SEEN.brokers) == found
    for forbidding in (cluster("prod"), PROD_CLUSTER):
        (refused,) = recheck_saved_plan(found, forbidding, SEEN, planned_brokers=SEEN.brokers).topics
        assert [refusal.reason for refusal in refused.refusals] == [Reason.MOVE_NOT_ALLOWED]
        assert not refused.changes


def test_a_policy_sees_the_kind_and_the_risk() -> None:
    """Partitions, replication factor and config are those before."""
    (topic_plan,) = electing(LeaderChange(0, 2, 1)).topics
    found = bind_change(topic_plan, topic_plan.changes[0], 6)
    assert (found["change.kind"], found["change.risk"]) == ("ElectLeaders", "Disruptive")
    assert found["change.after.partitions"] == found["change.before.partitions"] == 3

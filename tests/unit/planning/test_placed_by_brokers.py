"""Tests of replicas that the cluster places: what is planned, shown, saved and refused, and what is left to do."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import CLUSTER_ID, cluster, plan, spec, state, topic
from support.memory_cluster import simulate
from topiarist.adapters.saved_plans.decode import parse_plan_file
from topiarist.adapters.saved_plans.encode import dumps, encode_plans
from topiarist.cli.formats import format_plans
from topiarist.cli.terminal import Settings
from topiarist.errors import Reason
from topiarist.filters.review import filter_unreviewed, recheck_saved_plan
from topiarist.kafka.types import UNPLACED, ClusterMode
from topiarist.model.access import KafkaAccess, Placement
from topiarist.model.moves import UNLIMITED, MoveKind, MoveSettings
from topiarist.model.plan import AddPartitions, CreateTopic, Plan, RunOptions, TakeOwnership, UpdateConfig
from topiarist.model.spec import ClusterSpec, RackAwareness
from topiarist.model.state import Capabilities, ClusterState, Support
from topiarist.planning.preconditions import revalidate

DENIED = Support(False, "they ignore lists")
NO_LISTS = Capabilities(replica_lists=DENIED, growth_lists=DENIED)
NO_GROWTH_LISTS = Capabilities(growth_lists=DENIED)
PAIR = (UNPLACED, UNPLACED)


def on(placement: Placement | None = Placement.BROKERS, **fields: Any) -> ClusterSpec:
    """Return a cluster that is reached through its brokers."""
    return cluster("prod", cluster_id=CLUSTER_ID, kafka=KafkaAccess("b:9092", placement=placement), **fields)


def seen(*topics: Any, **fields: Any) -> ClusterState:
    """Return the state of a cluster as its brokers show it."""
    return state(*topics, bypasses_brokers=False, mode=ClusterMode.KRAFT, controller=1, **fields)


def refusal_reasons(found: Plan) -> dict[str, list[Reason]]:
    """Return the reasons of all refusals by topic."""
    return {each.topic: [refusal.reason for refusal in each.refusals] for each in found.topics}


def show(found: Plan, form: str) -> str:
    """Return a plan in one of the formats of the command line."""
    return format_plans([found], Settings(), form)


def test_a_cluster_that_places_replicas_gets_counts() -> None:
    """A new topic has its counts, growth the width of partition 0, and no broker is named."""
    found = plan(seen(topic("grown")), spec("new", on()), spec("grown", on(), partitions=5, replicationFactor=2))
    grown, new = (each.changes[0] for each in found.topics)
    assert isinstance(new, CreateTopic)
    assert new.replicas == (PAIR,) * 3
    assert isinstance(grown, AddPartitions)
    assert (grown.first_replicas, grown.replicas) == (PAIR, (PAIR, PAIR))
    assert [each.placed_brokers() for each in found.topics] == [set(), set()]
    assert (found.load, found.placed_by_brokers) == ({}, "spec.kafka.placement is Brokers")
    assert not any("place new replicas" in each for each in found.warnings)


@pytest.mark.parametrize(
    ("capabilities", "unplaced"),
    [
        (NO_LISTS, ["grown", "new"]),
        (NO_GROWTH_LISTS, ["grown"]),
        (Capabilities(replica_lists=DENIED), ["new"]),
        (Capabilities(replica_lists=DENIED, growth_lists=Support(None)), ["grown", "new"]),
        (Capabilities(replica_lists=Support(None), growth_lists=Support(None)), []),
    ],
)
def test_lists_that_are_not_carried_out_are_not_planned(capabilities: Capabilities, unplaced: list[str]) -> None:
    """A cluster without a declared placement is asked for what it can do; unknown lists are planned."""
    specs = spec("new", on(None)), spec("grown", on(None), partitions=4, replicationFactor=2)
    found = plan(seen(topic("grown"), capabilities=capabilities), *specs)
    assert [each.topic for each in found.topics if UNPLACED in each.new_replicas()[0]] == unplaced
    warnings = [each for each in found.warnings if "place new replicas" in each]
    assert warnings == ["the brokers place new replicas: they ignore lists"][: len(unplaced)]


def test_each_format_has_counts_and_no_lists() -> None:
    """People read who places the replicas, once a topic; programs read -1 for each replica, and why."""
    found = plan(seen(topic("grown")), spec("new", on()), spec("grown", on(), partitions=5, replicationFactor=2))
    text, markdown, page = (show(found, form) for form in ("text", "markdown", "html"))
    assert "create 3 partitions x 2 replicas, placed by the" in text
    assert "grow 3 -> 5 partitions, placed by the" in text
    assert "create 3 partitions x 2 replicas, placed by the brokers" in markdown
    assert "create 3 partitions x 2 replicas, placed by the brokers" in page
    assert not any("[" in shown and "-1" in shown for shown in (text, markdown))
    assert "leaders" not in text
    document = show(found, "json")
    assert '"placedByBrokers": "spec.kafka.placement is Brokers"' in document
    assert '"replicas": [[-1, -1], [-1, -1], [-1, -1]]' in document


def test_a_saved_plan_comes_back_and_is_applied_as_it_was_saved() -> None:
    """The file has the same changes; they apply to a cluster as it was, and are applied after it."""
    before = seen(topic("grown"))
    found = plan(before, spec("new", on()), spec("grown", on(), partitions=5, replicationFactor=2))
    (loaded,) = parse_plan_file(dumps(encode_plans([found])).encode(), "plan.json").plans
    assert [each.changes for each in loaded.topics] == [each.changes for each in found.topics]
    assert loaded.placed_by_brokers == found.placed_by_brokers
    again = revalidate(loaded, before)
    assert not again.conflicts
    assert [each.topic for each in again.plan.topics] == ["grown", "new"]
    assert [each.topic for each in revalidate(loaded, simulate(before, found.topics)).already_applied] == [
        "grown",
        "new",
    ]


def test_nothing_is_left_after_the_cluster_has_placed_them() -> None:
    """Any brokers are as planned: a second plan has no changes, whatever brokers the cluster chose."""
    before = seen(topic("grown"))
    specs = spec("new", on()), spec("grown", on(), partitions=5, replicationFactor=2)
    after = simulate(before, plan(before, *specs).topics)
    assert all(broker > 0 for each in after.topics.values() for replicas in each.replicas for broker in replicas)
    assert plan(after, *specs).topics == ()


@pytest.mark.parametrize(
    ("fields", "wanted", "run", "words"),
    [
        ({"exclude_brokers": frozenset({2})}, {}, RunOptions(), "broker 2 may get no new replicas"),
        ({"drain_brokers": frozenset({2, 3})}, {}, RunOptions(), "broker 2, 3 may get no new replicas"),
        ({}, {}, RunOptions(without_brokers=frozenset({4})), "broker 4 may get no new replicas"),
        ({"rack_awareness": RackAwareness.ENFORCED}, {}, RunOptions(), "rackAwareness is Enforced"),
        ({}, {"replicaAssignment": [[1, 2]]}, RunOptions(), "replicaAssignment lists brokers"),
    ],
)
def test_demands_on_brokers_that_the_plan_cannot_meet_are_refused(
    fields: dict[str, Any], wanted: dict[str, Any], run: RunOptions, words: str
) -> None:
    """A plan that does not choose brokers says so, and creates nothing on brokers that it may not use."""
    found = plan(seen(), spec("new", on(**fields), **wanted), run=run)
    assert refusal_reasons(found) == {"new": [Reason.PLACED_BY_BROKERS]}
    assert words in found.topics[0].refusals[0].message
    assert "spec.kafka.placement is Brokers" in found.topics[0].refusals[0].message
    assert not found.has_changes


@pytest.mark.parametrize("given", ["declared", "seen"])
def test_moves_are_refused_where_the_cluster_chooses_brokers(given: str) -> None:
    """A move is a list of brokers: it is refused with the reason, and the other changes of the topic are made."""
    moving = MoveSettings(frozenset(MoveKind), UNLIMITED)
    place = on(Placement.BROKERS if given == "declared" else None, moves=moving)
    world = seen(topic("moved"), capabilities=NO_LISTS if given == "seen" else Capabilities())
    wanted = {"replicationFactor": 3, "config": {"retention.ms": 1}}
    found = plan(world, spec("moved", place, **wanted), run=RunOptions(adopt=("moved",)))
    (moved,) = found.topics
    assert [type(change) for change in moved.changes if not isinstance(change, TakeOwnership)] == [UpdateConfig]
    assert refusal_reasons(found) == {"moved": [Reason.PLACED_BY_BROKERS]}
    why = "spec.kafka.placement is Brokers" if given == "declared" else "they ignore lists"
    assert moved.refusals[0].message == f"a move lists the brokers of replicas, which the plan cannot ensure: {why}"
    explicit = on(Placement.EXPLICIT, moves=moving)
    saved = plan(world, spec("moved", explicit, **wanted), run=RunOptions(adopt=("moved",)))
    assert saved.topics[0].moves()
    checked = recheck_saved_plan(saved, place, world, planned_brokers=saved.brokers)
    assert refusal_reasons(checked) == {"moved": [Reason.PLACED_BY_BROKERS]}
    assert recheck_saved_plan(saved, explicit, world, planned_brokers=saved.brokers).topics[0].moves()


@pytest.mark.parametrize("mode", [None, RackAwareness.SAFE, RackAwareness.DISABLED])
def test_racks_that_are_not_demanded_are_left_to_the_cluster(mode: RackAwareness | None) -> None:
    """Only a declared ``Enforced`` is a demand: the default leaves racks to those who place replicas."""
    assert plan(seen(), spec("new", on(rack_awareness=mode))).has_changes


def test_lists_that_a_cluster_must_carry_out_and_does_not_are_refused() -> None:
    """``placement: Explicit`` is no permission to place replicas otherwise."""
    specs = (
        spec("new", on(Placement.EXPLICIT)),
        spec("grown", on(Placement.EXPLICIT), partitions=4, replicationFactor=2),
    )
    found = plan(seen(topic("grown"), capabilities=NO_LISTS), *specs)
    assert refusal_reasons(found) == {"new": [Reason.PLACED_BY_BROKERS], "grown": [Reason.PLACED_BY_BROKERS]}


def test_replicas_count_wherever_they_are() -> None:
    """``min.insync.replicas`` is compared with the number of replicas, not with the number of known brokers."""
    place = on(version=(3, 6))
    found = plan(seen(), *(spec(f"t{isr}", place, config={"min.insync.replicas": isr}, **SIZE) for isr in (2, 3)))
    assert refusal_reasons(found) == {"t2": [], "t3": [Reason.MIN_ISR_ABOVE_REPLICAS]}


SIZE = {"partitions": 1, "replicationFactor": 2}


def test_a_review_of_lists_is_none_of_their_absence() -> None:
    """Brokers that were reviewed are not left to the cluster, and a choice of the cluster is not made into a list."""
    listed, left = (plan(seen(), spec("new", on(each))) for each in (Placement.EXPLICIT, Placement.BROKERS))
    for now, then in ((listed, left), (left, listed)):
        assert refusal_reasons(filter_unreviewed(now, then)) == {"new": [Reason.NOT_REVIEWED]}
    assert filter_unreviewed(left, left).has_changes


def test_a_saved_plan_obeys_the_brokers_that_are_excluded_now() -> None:
    """A broker that was excluded after the plan was saved may get no replicas, so nothing is created."""
    saved = plan(seen(), spec("new", on()))
    checked = recheck_saved_plan(saved, on(exclude_brokers=frozenset({3})), seen(), planned_brokers=saved.brokers)
    assert refusal_reasons(checked) == {"new": [Reason.PLACED_BY_BROKERS]}
    assert recheck_saved_plan(saved, on(), seen(), planned_brokers=saved.brokers).has_changes


def test_a_saved_plan_without_brokers_has_someone_who_places_replicas() -> None:
    """An edited file cannot write replicas of no broker to ZooKeeper, or leave out who places them."""
    found = plan(seen(), spec("new", on()))
    for edited in (replace(found, bypasses_brokers=True), replace(found, placed_by_brokers="")):
        with pytest.raises(Exception, match="no brokers that place them"):
            parse_plan_file(dumps(encode_plans([edited])).encode(), "plan.json")

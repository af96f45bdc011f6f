"""Parts of a plan for the whole cluster: write block, undeclared topics, limits, and warnings."""

from __future__ import annotations

from msgspec.structs import replace

from support.builders import (
    PROD_CLUSTER,
    change_kinds,
    cluster,
    plan,
    record_without_values,
    refusal_reasons,
    replica_lists,
    spec,
    state,
    topic,
)
from topiarist.adapters.size_limits import ListSizes, build_list_limits
from topiarist.errors import Reason
from topiarist.model.outcome import RunOptions
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import OwnershipRecord, WriteBlock

KRAFT = WriteBlock(Reason.KRAFT_CONTROLLER, "a KRaft controller is in charge")


def test_a_plan_is_sorted_and_counts_the_rest() -> None:
    """Topics are sorted by name; topics without issues and topics with notices only are counted."""
    seen = state(topic("b", config={"retention.ms": "5"}), topic("c"), topic("d"))
    found = plan(seen, spec("d", partitions=4), spec("c"), spec("b"), spec("a"))
    assert [each.topic for each in found.topics] == ["a", "b", "d"]
    assert found.unchanged == 2
    assert found.has_changes
    assert not found.has_refusals


def test_nothing_to_do() -> None:
    """A plan without changes and issues is empty and not pending."""
    found = plan(state(topic()), spec())
    assert (found.topics, found.unchanged, found.has_changes, found.load) == ((), 1, False, {})


def test_a_closed_gate_holds_everything() -> None:
    """With a write block, every change becomes a refusal that withholds the change, with the message of the write
    block.
    """
    seen = state(topic("old"), write_block=KRAFT)
    found = plan(seen, spec("new"), spec("old", partitions=4, config={"retention.ms": 5}))
    assert not found.has_changes
    assert [refusal_reasons(each) for each in found.topics] == [["KRaftController"], ["KRaftController"]]
    assert [type(change).__name__ for change in found.topics[1].refusals[0].withheld] == [
        "AddPartitions",
        "UpdateConfig",
    ]
    assert found.topics[1].record_after == found.topics[1].record_before
    assert found.topics[0].record_after is None


def test_a_closed_gate_refuses_nothing_that_was_not_asked() -> None:
    """With a write block, topics without a difference and observed topics have no refusal."""
    seen = state(topic("old"), write_block=KRAFT)
    assert not plan(seen, spec("old"), spec("new", mode="Observe")).has_refusals


def test_orphans() -> None:
    """Owned topics without a manifest are reported, if their record is valid and they are not marked for deletion."""
    ours, theirs = OwnershipRecord("default"), OwnershipRecord("team")
    seen = state(
        topic("declared", record=ours),
        topic("orphan", record=ours),
        topic("another", record=ours),
        topic("stale", record=ours, record_valid=False),
        topic("unadopted", record=None),
        topic("theirs", record=theirs),
        topic("going", record=OwnershipRecord("default", deleted=True)),
        pending_deletions=frozenset({"going"}),
    )
    assert plan(seen, spec("declared")).orphans == ("another", "orphan")
    assert plan(seen, spec("declared"), run=RunOptions(owner="team")).orphans == ("theirs",)


def test_a_cluster_without_an_id_to_guard_it() -> None:
    """The warning has the line to paste; without a ``Cluster`` document, there is no such line."""
    assert plan(state(), on=cluster("prod", version=(3, 9))).warnings == (
        "no clusterId guards this cluster; add to spec: clusterId: ID",
    )
    assert plan(state(), on=PROD_CLUSTER).warnings == ()
    assert plan(state(), on=ClusterSpec()).warnings == ()


def test_a_release_that_cannot_be() -> None:
    """A cluster with features newer than the declared release has a warning, after those of the adapter."""
    old = cluster("prod", cluster_id="ID", version=(2, 8))
    assert plan(state(min_version=(2, 8)), on=old).warnings == ()
    assert plan(state(min_version=(3, 4), warnings=("odd",)), on=old).warnings == (
        "odd",
        "kafkaVersion is 2.8, but the metadata of the cluster needs 3.4 or later",
    )


def test_the_guards_that_are_bypassed_are_named() -> None:
    """The plan warns that the brokers' policies are not checked, except if it writes ownership records only."""
    seen = state(topic(record=None))
    assert any("policies" in warning for warning in plan(state(), spec()).warnings)
    assert change_kinds(plan(seen, spec()).topics[0]) == ["TakeOwnership"]
    assert plan(seen, spec()).warnings == ()


def test_through_the_brokers_no_guard_is_bypassed() -> None:
    """An empty cluster that is reached through its brokers has no such warning: the way decides, not the answer."""
    assert plan(state(bypasses_brokers=False), spec()).warnings == ()


def test_a_plan_carries_what_it_rests_on() -> None:
    """A plan has its cluster, id, location, owner and brokers as preconditions; controller and epoch are for
    information.
    """
    seen = replace(state(), chroot="/kafka", controller=3, controller_epoch=42)
    found = plan(seen, spec(), run=RunOptions(owner="team"))
    assert (found.cluster, found.cluster_id, found.chroot, found.owner) == ("prod", "ID", "/kafka", "team")
    assert (found.brokers, found.controller, found.controller_epoch) == (seen.brokers, 3, 42)


def test_lists_that_are_nearly_full() -> None:
    """Above 70 % a list has a warning with the numbers; above 90 % changes that do not fit are refused."""
    seen = state(
        topic("old"),
        size_limits=build_list_limits(ListSizes(topics_bytes=881, notifications_bytes=720, max_bytes=1000)),
    )
    found = plan(seen, spec("anew", config={}), spec("brandnew"), spec("old", config={"retention.ms": 5}))
    assert [(each.topic, change_kinds(each), refusal_reasons(each)) for each in found.topics] == [
        ("anew", ["CreateTopic"], []),
        ("brandnew", [], ["TooLarge"]),
        ("old", ["UpdateConfig"], []),
    ]
    assert found.warnings[:2] == (
        "the list of topics: 889 of 1,000 bytes that a broker can read in one reply",
        "the list of config notifications: 748 of 1,000 bytes that a broker can read in one reply",
    )


def test_a_full_list_of_notifications_lets_topics_grow() -> None:
    """A full list of notifications refuses the config change only; the record does not list keys that were not set."""
    seen = state(topic(), size_limits=build_list_limits(ListSizes(notifications_bytes=890, max_bytes=1000)))
    found = plan(seen, spec(partitions=4, config={"retention.ms": 5})).topics[0]
    assert (change_kinds(found), refusal_reasons(found)) == (["AddPartitions"], ["TooLarge"])
    assert record_without_values(found) == OwnershipRecord("default")


def test_what_is_only_observed_takes_no_room() -> None:
    """Observed topics are neither refused for lack of space nor counted in the space of other topics."""
    seen = state(size_limits=build_list_limits(ListSizes(topics_bytes=880, max_bytes=1000)))
    found = plan(seen, spec("observed-and-long", mode="Observe"), spec("other"))
    assert [refusal_reasons(each) for each in found.topics] == [[], []]


def test_a_topic_too_large_for_its_own_entry() -> None:
    """Growth counts the present partitions: the number in the refusal is the size of the whole entry."""
    seen = state(
        topic(replicas=replica_lists("12", "23", "34")), size_limits=build_list_limits(ListSizes(max_bytes=100))
    )
    assert refusal_reasons(plan(seen, spec(partitions=7)).topics[0]) == []
    found = plan(seen, spec(partitions=30)).topics[0]
    assert (change_kinds(found), refusal_reasons(found)) == ([], ["TooLarge"])

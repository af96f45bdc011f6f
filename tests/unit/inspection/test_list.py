"""Lists of topics: the content of a row, the rows that a filter selects, and the layout of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import pytest
from msgspec.structs import replace

from support.builders import spec, state, topic
from topiarist.cli.commands.list import command
from topiarist.inspection.health import IssueType
from topiarist.inspection.list import (
    STATE_NAMES,
    RowFilter,
    TopicFlag,
    TopicList,
    TopicRow,
    all_topic_names,
    build_rows,
)
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import (
    ClusterState,
    OwnershipRecord,
    PartitionState,
    ReadError,
    Reassignment,
    TopicInspection,
    TopicState,
)
from topiarist.output import list as list_
from topiarist.output.list import describe_state, format_lists
from topiarist.output.text.layout import TextLayout
from topiarist.schema import load

EU = ClusterSpec(name="eu", broker_config={"log.retention.hours": "2"})


def seen(one: TopicState, **otherwise: PartitionState) -> TopicInspection:
    """Return an inspection with healthy partitions, except for the given states (``p3``)."""
    states = {at: PartitionState(replicas[0], replicas) for at, replicas in enumerate(one.replicas) if replicas}
    states |= {int(key[1:]): state for key, state in otherwise.items()}
    return TopicInspection(one.identity, dict(enumerate(one.replicas)), states)


def only(
    one: TopicState, found: TopicInspection | None = None, specs: list[TopicSpec] | None = None, **fields: Any
) -> TopicRow:
    """Return the row of the only topic of a cluster."""
    cluster_state = replace(state(one), **fields)
    inspections: Mapping[str, TopicInspection] = {one.name: found or seen(one)}
    (row,) = build_rows(cluster_state, EU, specs, inspections, [one.name])
    return row


def test_the_topic_of_the_records_needs_no_owner() -> None:
    """It has no record itself and no manifest, and neither is missing."""
    own = topic("__topiarist", record=None)
    assert only(own, specs=[]).flags == (TopicFlag.HEALTHY,)
    assert TopicFlag.UNOWNED in only(topic("__consumer_offsets", record=None), specs=[]).flags


def test_a_topic_that_is_well() -> None:
    """The row of a healthy topic has its size, its owner, its spec and no problem."""
    wanted = spec("orders", EU, partitions=2)
    row = only(topic("orders", 2, "retention.ms"), specs=[wanted])
    assert (row.partitions, row.partitions_by_replicas, row.owner, row.spec) == (2, {3: 2}, "default", wanted)
    assert row.states == {"Well"}


STATES_OF: dict[str, tuple[TopicState, dict[str, PartitionState], dict[str, Any], set[str]]] = {
    "no record": (topic("orders", 2, record=None), {}, {}, {"Well", "Unowned"}),
    "offline": (
        topic("orders", [(1, 2)]),
        {"p0": PartitionState(-1, (1,))},
        {},
        {"Offline", "UnderReplicated"},
    ),
    "under-replicated": (topic("orders", [(1, 2)]), {"p0": PartitionState(1, (1,))}, {}, {"UnderReplicated"}),
    "unequal": (topic("orders", [(1, 2), (1,)]), {}, {}, {"UnequalReplicas"}),
    "listed twice": (topic("orders", [(1, 1)]), {}, {}, {"Well"}),
    "no partitions": (topic("orders", []), {}, {}, {"MalformedPartitions"}),
    "a gap": (topic("orders", [(1, 2), (1, 2)], partition_ids=(0, 2)), {}, {}, {"MalformedPartitions"}),
    "marked": (topic("orders", 1), {}, {"pending_deletions": frozenset({"orders"})}, {"MarkedForDeletion"}),
}


@pytest.mark.parametrize("case", STATES_OF.values(), ids=STATES_OF.keys())
def test_states(case: tuple[TopicState, dict[str, PartitionState], dict[str, Any], set[str]]) -> None:
    """The row has the states of the topic and the conditions of its partitions, as in ``describe``."""
    one, otherwise, fields, states = case
    assert only(one, seen(one, **otherwise), **fields).states == states


def test_a_partition_that_is_being_moved_is_not_of_another_width() -> None:
    """Replicas that a reassignment adds do not count, and do not make replica counts unequal."""
    one = topic("orders", [(1, 2, 3), (1, 2)], reassigning_partitions=(0,))
    row = only(one, replace(seen(one), reassignments={0: Reassignment(adding=(3,))}))
    assert row.partitions_by_replicas == {2: 2}
    assert row.states == {"Reassigning"}


def test_without_states_nothing_is_called_well() -> None:
    """The state of a topic is unknown in a snapshot and without permission to read partition states."""
    one = topic("orders", 2)
    (row,) = build_rows(state(one), EU, None, {}, ["orders"])
    assert row.states == {"Unknown"}
    assert not row.states_known
    assert only(one, replace(seen(one), states={}, states_readable=False)).states == {"Unknown"}


def test_topics_that_are_not_there() -> None:
    """A declared topic that does not exist is missing, a topic with a malformed znode is unreadable, and an absent
    topic that should be absent has no row.
    """
    cluster_state = replace(state(), topic_errors={"odd": ReadError("/brokers/topics/odd", "no JSON")})
    specs = [spec("orders", EU), spec("gone", EU, ensure="Absent")]
    found = {
        row.topic: row.states for row in build_rows(cluster_state, EU, specs, {}, all_topic_names(cluster_state, specs))
    }
    assert found == {"odd": {"Unreadable", "Unowned", "Undeclared"}, "orders": {"Missing"}}


@pytest.mark.parametrize(
    ("name", "specs", "undeclared"),
    [("orders", None, False), ("orders", [], True), ("_schemas", [], False), ("__consumer_offsets", [], False)],
)
def test_undeclared(name: str, specs: list[TopicSpec] | None, undeclared: bool) -> None:
    """A topic is undeclared only if manifests were given, and internal and protected topics never are."""
    assert ("Undeclared" in only(topic(name, 1), specs=specs).states) is undeclared


def test_a_record_that_does_not_count_gives_no_owner() -> None:
    """The record of an earlier topic and a deletion record give no owner."""
    stale = replace(topic("orders", 1), record=OwnershipRecord("b"), record_valid=False)
    noted = replace(topic("orders", 1), record=OwnershipRecord("b", deleted=True), record_valid=True)
    assert [only(one).owner for one in (stale, noted)] == ["", ""]


def test_overrides_that_are_what_brokers_use_anyway_are_left_out() -> None:
    """The row omits overrides that equal a known setting of the brokers, from dynamic configs or ``brokerConfig``."""
    config = {"retention.ms": "7200000", "segment.ms": " 5", "flush.ms": "7", "odd": "x"}
    row = only(topic("orders", 1, config=config), broker_defaults={"log.roll.ms": "5"})
    assert row.config == {"flush.ms": "7", "odd": "x"}


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        (RowFilter(), ["clicks", "orders", "shop.new"]),
        (RowFilter(patterns=("or*", "cl?cks")), ["clicks", "orders"]),
        (RowFilter(owners=frozenset({"default"})), ["orders"]),
        (RowFilter(labels={"team": "shop"}), ["orders", "shop.new"]),
        (RowFilter(labels={"team": "shop", "env": "prod"}), []),
        (RowFilter(states=frozenset({"Missing", "Unowned"})), ["clicks", "shop.new"]),
        (RowFilter(patterns=("*",), labels={"team": "shop"}, states=frozenset({"Well"})), ["orders"]),
    ],
)
def test_filters(chosen: RowFilter, names: list[str]) -> None:
    """A row must match one value of each kind of filter, and all of the labels."""
    shop = [labelled("orders"), labelled("shop.new")]
    cluster_state = state(topic("orders", 1), topic("clicks", 1, record=None))
    inspections = {name: seen(one) for name, one in cluster_state.topics.items()}
    found = build_rows(cluster_state, EU, shop, inspections, all_topic_names(cluster_state, shop))
    assert [row.topic for row in found if chosen.matches(row)] == names


def labelled(name: str) -> TopicSpec:
    """Return the spec of a manifest with a label."""
    found = spec(name, EU)
    return replace(found, manifest=found.manifest._replace(labels={"team": "shop"}))


def listed(state: ClusterState, specs: list[TopicSpec] | None, **otherwise: PartitionState) -> TopicList:
    """Return the list of a cluster with every topic inspected."""
    inspections = {name: seen(one, **otherwise) for name, one in state.topics.items()}
    found = tuple(build_rows(state, EU, specs, inspections, all_topic_names(state, specs)))
    return TopicList(EU, state, found, len(state.topics), specs is not None)


def test_a_terminal_is_sent_nothing_that_it_obeys() -> None:
    """Control characters in names and values from a cluster are escaped."""
    cluster_state = state(topic("orders", 1, config={"a\x1b": "b\x1b[2J"}))
    assert "\x1b" not in format_lists([listed(cluster_state, None)], TextLayout())


def test_the_document_is_of_the_schema() -> None:
    """The JSON document matches the schema with and without manifests and states, and the schema has every state."""
    cluster_state = replace(
        state(topic("orders", [(1, 2), ()]), topic("clicks", 1)), topic_errors={"odd": ReadError("/x", "y")}
    )
    for specs in (None, [labelled("orders"), labelled("shop.new")]):
        made = list_.encode_lists(
            [listed(cluster_state, specs, p0=PartitionState(-1, ())), TopicList(EU, cluster_state, (), 0, True)]
        )
        assert load.first_error("list", made) == ""
    assert load.load_schema("list")["definitions"]["state"]["enum"] == list(STATE_NAMES)


def test_every_state_has_words() -> None:
    """Every state has a text, because a row without one would look healthy."""
    for mark in set(TopicFlag) - {TopicFlag.UNOWNED, TopicFlag.UNDECLARED}:
        assert describe_state(TopicRow("orders", flags=(mark,)))
    assert describe_state(TopicRow("orders", issues={IssueType.OFFLINE: 2})) == "2 offline"


def test_a_shell_completes_states() -> None:
    """Shell completion of states ignores the case of the input."""
    (option,) = [param for param in command.params if param.name == "states"]
    found = option.shell_complete(click.Context(command), "un")
    assert [item.value for item in found] == [state for state in STATE_NAMES if state.startswith(("Un",))]

"""Findings about replica lists: drained brokers, racks, widths and evenness, whatever moves are allowed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import PROD_CLUSTER, RACKED_BROKERS, RACKLESS_BROKERS, replica_lists, spec, state, topic
from support.drift.small_fleet import SNAPSHOT_TIME
from support.examples import examples
from support.strategies import make_plan_input
from topiarist.drift.compare import compare_cluster
from topiarist.drift.findings import DriftClass, FindingRow
from topiarist.drift.placement import find_checker, find_placement_findings
from topiarist.drift.snapshots import ClusterInput
from topiarist.kafka.placement import assign_replicas
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.moves import MoveKind, MoveSettings
from topiarist.model.plan import RunOptions
from topiarist.model.spec import ClusterSpec, RackAwareness
from topiarist.model.state import ClusterState, TopicState

OF_PLACEMENT = {DriftClass.DRAINED.value, DriftClass.RACKS.value, DriftClass.WIDTHS.value, DriftClass.SPREAD.value}

ALL_MOVES = MoveSettings(allow=frozenset(MoveKind), throttle=1_000_000)


def rows(seen: ClusterState, on: ClusterSpec = PROD_CLUSTER, **fields: Any) -> list[FindingRow]:
    """Return the findings of the topic ``orders``."""
    wanted = spec("orders", on, **fields)
    return compare_cluster(ClusterInput("prod", SNAPSHOT_TIME, seen), on, [wanted], RunOptions(), "").rows


def found(
    seen: ClusterState, on: ClusterSpec = PROD_CLUSTER, **fields: Any
) -> dict[str, tuple[str | None, str | None, str]]:
    """Return expected value, actual value and planned action of each finding about replica lists, by class."""
    given = fields or {"partitions": len(seen.topics["orders"].replicas), "replicationFactor": None}
    return {
        row["class"]: (row["expected"], row["actual"], row["planned"])
        for row in rows(seen, on, **{key: value for key, value in given.items() if value is not None})
        if row["class"] in OF_PLACEMENT
    }


def lists(*replicas: str, **fields: Any) -> TopicState:
    """Return the topic ``orders`` with these replica lists."""
    return topic(replicas=replica_lists(*replicas), **fields)


def test_lists_with_fewer_racks_than_they_could_have_are_found() -> None:
    """The finding has the number of partitions, an example, and the copies that would repair them.

    Brokers 1 and 4, 2 and 5, 3 and 6 share a rack.
    """
    wanted, actual, planned = found(state(lists("124", "141", "246", "135")))["racks"]
    assert (wanted, planned) == ("3 replicas on other racks", "Reported")
    assert actual == "2 partitions; for example partition 0 on [1, 2, 4]"


def test_racks_are_compared_only_where_placement_compares_them() -> None:
    """Nothing is found without racks, with a broker without rack, with rackAwareness Disabled, or on a lost broker."""
    topic_on_one_rack = lists("14", "25", "36", "14", "25", "36")
    assert "racks" in found(state(topic_on_one_rack))
    on = replace(PROD_CLUSTER, rack_awareness=RackAwareness.DISABLED)
    assert "racks" not in found(state(topic_on_one_rack), on)
    for brokers in (
        tuple(Broker(broker.id) for broker in RACKED_BROKERS),
        (*RACKED_BROKERS[:5], Broker(6)),
        RACKED_BROKERS[:3],  # brokers 4 to 6 are lost: each is a rack of its own
    ):
        assert "racks" not in found(state(topic_on_one_rack, brokers=brokers))


def test_two_racks_are_enough_if_there_are_no_more() -> None:
    """A list of three replicas on two racks has all racks that it can have."""
    brokers = tuple(Broker(number, rack) for number, rack in enumerate("abab", start=1))
    assert "racks" not in found(state(lists("123", "234", "341", "412"), brokers=brokers))


def test_partitions_of_different_width_are_found() -> None:
    """Different numbers of replicas are a finding with and without a wanted number, and so is 1 beside others."""
    asked: tuple[dict[str, Any], ...] = ({"partitions": 3}, {"partitions": 3, "replicationFactor": 2})
    for fields in asked:
        _, actual, planned = found(state(lists("1", "23", "31")), **fields)["widths"]
        assert (actual, planned) == ("1, 2", "Reported")
    (row,) = (row for row in rows(state(lists("1", "23", "31")), partitions=3) if row["class"] == "widths")
    assert row["message"] == "partitions have different numbers of replicas: 1 in partition 0, and 2 in the 2 others"
    assert "widths" not in found(state(lists("1", "2", "3")), partitions=3, replicationFactor=2)


def test_partitions_without_replicas_are_not_compared() -> None:
    """Partitions without a list, as another client may leave them, make the bounds of the others no wider."""
    uneven = state(lists("21", "", "32", "", "32"), brokers=RACKLESS_BROKERS)
    wanted, actual, _ = found(uneven, partitions=5, replicationFactor=2)["spread"]
    assert wanted == "0 to 2 replicas; 0 to 1 leaders for each broker"
    assert actual == "0 (broker 4) to 3 (broker 2) replicas; 0 (broker 1) to 2 (broker 3) leaders"


def test_replicas_outside_the_bounds_of_placement_are_found_if_they_can_be_spread() -> None:
    """A broker that joined later holds nothing of a topic; the finding has the bounds and the extremes."""
    before = [f"{one}{one % 3 + 1}" for one in (1, 2, 3)] * 4
    wanted, actual, planned = found(state(lists(*before), brokers=RACKLESS_BROKERS))["spread"]
    assert planned == "Reported"
    assert wanted == "6 to 6 replicas for each broker"
    assert actual == "0 (broker 4) to 8 (broker 1) replicas"


def test_leaders_outside_the_bounds_are_found() -> None:
    """Leaders that can be spread by swaps within the lists are a finding, even if replicas are even."""
    wanted, actual, _ = found(state(lists("12", "13", "14", "23", "34", "42"), brokers=RACKLESS_BROKERS))["spread"]
    assert wanted == "1 to 2 leaders for each broker"
    assert actual == "1 (broker 2) to 3 (broker 1) leaders"


@pytest.mark.parametrize("replicas", [["12"], ["12", "23"], ["123", "234"], ["1"]])
def test_small_topics_are_not_uneven(replicas: list[str]) -> None:
    """A topic with fewer partitions than brokers has brokers without replicas by Kafka's own placement."""
    assert found(state(lists(*replicas), brokers=RACKLESS_BROKERS)) == {}


def test_a_broker_that_is_away_makes_no_topic_uneven() -> None:
    """The bounds count the brokers that hold replicas of the topic, registered or not."""
    placed = assign_replicas(RACKLESS_BROKERS, 10, replication_factor=2, start=0, shift=0)
    for away in range(1, 5):
        brokers = tuple(broker for broker in RACKLESS_BROKERS if broker.id != away)
        assert found(state(topic(replicas=placed), brokers=brokers)) == {}


@pytest.mark.parametrize("field", ["drain_brokers", "exclude_brokers"])
def test_a_broker_that_takes_no_replicas_makes_no_topic_uneven(field: str) -> None:
    """A topic that is even on the others stays where it is."""
    placed = assign_replicas(RACKLESS_BROKERS[:3], 10, replication_factor=2, start=0, shift=0)
    seen = state(topic(replicas=placed), brokers=RACKLESS_BROKERS)
    assert [*found(seen)] == ["spread"]
    assert found(seen, replace(PROD_CLUSTER, **{field: frozenset({4})})) == {}


def test_a_drained_broker_takes_nothing_and_an_excluded_one_keeps_its_replicas() -> None:
    """Both take no new replicas, and only a drained broker is to lose its own."""
    given = {"exclude_brokers": frozenset({3}), "drain_brokers": frozenset({4})}
    checker = find_checker(RACKLESS_BROKERS, replace(PROD_CLUSTER, **given))
    assert (checker.drained, checker.takers) == (frozenset({4}), frozenset({1, 2}))


@examples(300)
@given(st.data())
def test_nothing_that_kafka_places_is_found(data: st.DataObject) -> None:
    """Placements by Kafka's algorithm are regular, without racks and with racks of equal size."""
    racks, size = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    racked = data.draw(st.booleans())
    brokers = [Broker(number, f"r{number % racks}" if racked else None) for number in range(racks * size)]
    factor = data.draw(st.integers(1, len(brokers)))
    start, shift = (data.draw(st.integers(0, len(brokers) - 1)) for _ in range(2))
    placed = assign_replicas(
        brokers, data.draw(st.integers(1, 12)), replication_factor=factor, start=start, shift=shift
    )
    checker = find_checker(brokers, PROD_CLUSTER)
    assert checker.is_regular(placed)
    assert not [*find_placement_findings(spec(), topic(replicas=placed), checker, {})]


def test_replicas_on_drained_brokers_are_found() -> None:
    """The finding has the number of replicas and an example, registered or not; forbidden moves are its refusal."""
    on = replace(PROD_CLUSTER, drain_brokers=frozenset({1, 9}))
    seen = state(topic(replicas=((1, 2), (9, 3), (3, 2))))
    assert found(seen, on)["drained"] == (
        None,
        "2 replicas on broker 1, 9; for example partition 0 on [1, 2]",
        "Refused",
    )
    (row,) = (row for row in rows(seen, on, partitions=3) if row["class"] == "drained")
    assert row["reasons"] == ["MoveNotAllowed"]
    assert row["hint"] == "allow Drain in spec.moves of the Cluster"
    allowed = replace(on, moves=ALL_MOVES)
    assert found(seen, allowed)["drained"][1:] == (found(seen, on)["drained"][1], "Change")
    assert {row["hint"] for row in rows(seen, allowed, partitions=3) if row["class"] in OF_PLACEMENT} == {""}


@pytest.mark.parametrize("fields", [{"partitions": 3}, {"replicaAssignment": [[1, 2], [2, 3], [3, 1]]}])
def test_no_refusal_of_a_drain_has_another_class(fields: dict[str, Any]) -> None:
    """Topics that stay on a drained broker are ``drained`` and nothing else, for every reason to stay."""
    for on in (replace(PROD_CLUSTER, protected=("orders",)), PROD_CLUSTER):
        on = replace(on, drain_brokers=frozenset({1}))
        classes = {row["class"] for row in rows(state(lists("12", "23", "31")), on, **fields)}
        assert classes == {"drained"}


def test_explicit_lists_decide() -> None:
    """Lists that the manifest names are not compared with Kafka's placement."""
    seen = state(lists("14", "41", "14"))
    assert found(seen, replicaAssignment=[[1, 4], [4, 1], [1, 4]]) == {}
    assert found(seen, partitions=3) != {}


def test_what_is_in_flight_is_not_found() -> None:
    """Partitions in flight have no right racks, width or evenness; those that leave a drained broker do not count."""
    for fields in ({"reassigning_partitions": (0, 1)}, {"reassigning_partitions": (0, 1, 2)}):
        assert found(state(lists("1241", "14", "12", **fields))) == {}
    assert "racks" in found(state(lists("124", "14", "12", reassigning_partitions=(0,))))
    on = replace(PROD_CLUSTER, drain_brokers=frozenset({1}))
    checker, moving = find_checker(RACKED_BROKERS, on), lists("421", "23", reassigning_partitions=(0,))
    by_target = {
        target: [one.drift_class for one in find_placement_findings(spec(on=on), moving, checker, {0: target})]
        for target in ((4, 2), (1, 2))
    }
    assert by_target == {(4, 2): [], (1, 2): [DriftClass.DRAINED]}


def test_topics_without_a_manifest_have_no_finding_of_placement() -> None:
    """Undeclared topics, topics to be deleted and topics of another owner are not compared."""
    seen = state(lists("14", "41", "1"))
    undeclared = compare_cluster(ClusterInput("prod", SNAPSHOT_TIME, seen), PROD_CLUSTER, [], RunOptions(), "")
    assert [row["class"] for row in undeclared.rows] == ["orphaned"]
    assert [row["class"] for row in rows(seen, ensure="Absent")] == ["unexpected"]
    marked = replace(seen, pending_deletions=frozenset({"orders"}))
    assert [row["class"] for row in rows(marked, partitions=3)] == ["refused"]
    other = compare_cluster(
        ClusterInput("prod", SNAPSHOT_TIME, seen), PROD_CLUSTER, [spec(partitions=3)], RunOptions(owner="other"), ""
    )
    assert [row["class"] for row in other.rows] == ["refused"]


@examples(300)
@given(st.integers(0, 1 << 40))
def test_findings_do_not_depend_on_what_may_be_moved(seed: int) -> None:
    """Allowing every move changes the planned action, and adds only what moves would bring about."""
    world = make_plan_input(seed, 4, 0.25)
    by_moves = []
    for moves in (MoveSettings(), ALL_MOVES):
        cluster = replace(world.cluster, moves=moves)
        specs = [
            replace(one, cluster=cluster, allowed_moves=moves.allow, spread_within_one=False) for one in world.specs
        ]
        done = compare_cluster(ClusterInput("c", SNAPSHOT_TIME, world.state), cluster, specs, world.run, "")
        by_moves.append(
            {
                (row["topic"], row["class"]): (row["expected"], row["actual"])
                for row in done.rows
                if row["class"] in OF_PLACEMENT
            }
        )
    forbidden, allowed = by_moves
    assert forbidden.items() <= allowed.items()


REGULAR: list[tuple[Replicas, ...]] = [
    replica_lists("12", "23", "34"),
    replica_lists("14", "23", "34"),
    replica_lists("12", "13", "14", "15"),
    replica_lists("12", "12", "12"),
    (),
]


@pytest.mark.parametrize("replicas", REGULAR)
def test_a_topic_that_is_regular_has_no_finding(replicas: tuple[Replicas, ...]) -> None:
    """The cheap check never accepts a topic that has a finding."""
    checker = find_checker(RACKED_BROKERS, PROD_CLUSTER)
    findings = [*find_placement_findings(spec(), topic(replicas=replicas), checker, {})]
    assert not (findings and checker.is_regular(replicas))

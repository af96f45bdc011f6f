"""Plans without the moves of topics that are not healthy, and the settings that health depends on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import cluster, plan, replica_lists, spec, state, topic
from topiarist.errors import Reason
from topiarist.model.moves import MoveKind, MoveSettings
from topiarist.model.plan import MoveReplicas, Plan, UpdateConfig
from topiarist.model.state import NO_LEADER, PartitionState, TopicInspection
from topiarist.planning.moves.execution.gate import (
    effective_min_isr,
    find_topic_health_problem,
    withhold_unhealthy_moves,
)

DRAINING = cluster(
    "prod", cluster_id="ID", version=(3, 9), moves=MoveSettings(frozenset(MoveKind), 1000), drain_brokers=frozenset({6})
)
LISTS = replica_lists("61", "12", "26")
HEALTHY = {partition: PartitionState(replicas[0], replicas) for partition, replicas in enumerate(LISTS)}
PLAN = plan(state(topic("orders", LISTS)), spec("orders", DRAINING, partitions=3, replicationFactor=2), on=DRAINING)


def inspection(states: Mapping[int, PartitionState], **fields: Any) -> TopicInspection:
    """Return the partitions of ``orders`` as they are now."""
    assert PLAN.topics[0].before is not None
    given = {"identity": PLAN.topics[0].before.identity, "assignment": dict(enumerate(LISTS)), "states": states}
    return TopicInspection(**{**given, **fields})


def withheld(states: Mapping[int, PartitionState], **fields: Any) -> Plan:
    """Return the plan without unhealthy moves."""
    return withhold_unhealthy_moves(PLAN, {"orders": inspection(states, **fields)}, {})


def has_moves(planned: Plan) -> bool:
    """Return whether the plan still moves the topic."""
    return any(isinstance(change, MoveReplicas) for change in planned.topics[0].changes)


def test_healthy_topics_are_moved() -> None:
    """The plan is unchanged, also for a topic that could not be inspected."""
    assert withheld(HEALTHY) == PLAN
    assert withhold_unhealthy_moves(PLAN, {}, {}) == PLAN


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ({**HEALTHY, 0: PartitionState(6, (6,))}, "broker 1 keeps a replica of partition 0 that is not in sync"),
        ({**HEALTHY, 1: PartitionState(NO_LEADER, (1, 2))}, "partition 1 has no leader"),
        ({0: HEALTHY[0], 2: HEALTHY[2]}, "partition 1 has no state: the controller has not initialized it"),
        (
            {**HEALTHY, 0: PartitionState(6, (6,)), 2: PartitionState(6, (6,))},
            "broker 1 keeps a replica of partition 0 that is not in sync; 1 more partition likewise",
        ),
    ],
)
def test_unhealthy_topics_are_refused(states: Mapping[int, PartitionState], message: str) -> None:
    """All moves of the topic are withheld, with the first problem and the number of others."""
    planned = withheld(states)
    (refusal,) = planned.topics[0].refusals
    assert (refusal.reason, refusal.message) == (Reason.NOT_IN_SYNC, message)
    assert not has_moves(planned)
    assert [type(change) for change in refusal.withheld] == [MoveReplicas]


def test_partitions_below_their_minimum_are_moved() -> None:
    """A dead broker is replaced though writes fail until then; the plan says so, and so it does of what stays below."""
    states = {**HEALTHY, 0: PartitionState(1, (1,)), 2: PartitionState(2, (2,))}
    inspected = {"orders": inspection(states)}
    planned = withhold_unhealthy_moves(PLAN, inspected, {"min.insync.replicas": "2"})
    assert has_moves(planned)
    (notice,) = planned.topics[0].notices
    assert notice.message == (
        "min.insync.replicas is 2, and partition 0 has 1 replica in sync: writes with acks=all fail until it is moved;"
        " 1 more partition likewise"
    )
    old = replace(PLAN, config_rules=replace(PLAN.config_rules, version=(3, 6)))
    planned = withhold_unhealthy_moves(old, inspected, {"min.insync.replicas": "3"})
    assert has_moves(planned)
    assert "writes with acks=all fail also after the move" in planned.topics[0].notices[0].message


def test_the_shortage_of_a_partition_is_said_once() -> None:
    """What the move does to it replaces the notice that it is there; one replica is enough for one since 3.7."""
    on = replace(DRAINING, version=(3, 6))
    config = {"min.insync.replicas": "3"}
    wanted = spec("orders", on, partitions=3, replicationFactor=2, config={"min.insync.replicas": 3})
    planned = plan(state(topic("orders", LISTS, "min.insync.replicas", config=config)), wanted, on=on)
    inspected = {"orders": inspection(HEALTHY)}
    (notice,) = withhold_unhealthy_moves(planned, inspected, {}).topics[0].notices
    assert notice.message.startswith("min.insync.replicas is 3, and partition 0 has 2 replicas in sync")
    capped = plan(state(topic("orders", LISTS, "min.insync.replicas", config=config)), wanted, on=DRAINING)
    assert withhold_unhealthy_moves(capped, inspected, {}).topics[0].notices == ()


def test_a_topic_that_changed_since_is_left_to_the_apply() -> None:
    """Another topic of that name, lists that were changed, and states that cannot be read are compared later."""
    unhealthy = {**HEALTHY, 0: PartitionState(6, (6,))}
    assert withheld(unhealthy, identity="99") == PLAN
    assert withheld(unhealthy, assignment={}) == PLAN
    assert withheld({}, states_readable=False) == PLAN


def test_other_changes_of_an_unhealthy_topic_are_made() -> None:
    """Only its moves are withheld; a topic that is not moved, or only observed, is not looked at."""
    configured = spec("orders", DRAINING, partitions=3, replicationFactor=2, config={"retention.ms": 5})
    planned = plan(state(topic("orders", LISTS)), configured, on=DRAINING)
    unhealthy = {"orders": inspection({})}
    assert [type(change) for change in withhold_unhealthy_moves(planned, unhealthy, {}).topics[0].changes] == [
        UpdateConfig
    ]
    (only,) = planned.topics
    unmoved = tuple(change for change in only.changes if isinstance(change, UpdateConfig))
    still = replace(planned, topics=(replace(only, changes=unmoved),))
    assert withhold_unhealthy_moves(still, unhealthy, {}) == still
    observed = replace(planned, topics=(replace(only, observe_only=True),))
    assert withhold_unhealthy_moves(observed, unhealthy, {}) == observed


def test_a_refused_topic_is_not_refused_again() -> None:
    """A topic that is not moved for another reason keeps that reason alone."""
    refused = withheld({**HEALTHY, 0: PartitionState(6, (6,))})
    assert withhold_unhealthy_moves(refused, {"orders": inspection({})}, {}) == refused
    nothing = replace(PLAN, topics=())
    assert withhold_unhealthy_moves(nothing, {"orders": inspection({})}, {}) == nothing


def test_every_partition_has_a_state_with_a_leader() -> None:
    """The first partition with a problem is named."""
    assert find_topic_health_problem((0, 1, 2), HEALTHY) == ""
    assert find_topic_health_problem((), {}) == ""
    assert find_topic_health_problem((0, 7), HEALTHY).startswith("partition 7 has no state")
    assert find_topic_health_problem((0, 1), {**HEALTHY, 0: PartitionState(-2, (1,))}) == "partition 0 has no leader"


@pytest.mark.parametrize(
    ("config", "settings", "expected"),
    [
        ({}, {}, 1),
        ({}, {"min.insync.replicas": "2"}, 2),
        ({"min.insync.replicas": "3"}, {"min.insync.replicas": "2"}, 3),
        ({"min.insync.replicas": " 3 "}, {}, 3),
        ({"min.insync.replicas": "many"}, {"min.insync.replicas": "2"}, 1),
        ({"min.insync.replicas": ""}, {"min.insync.replicas": "2"}, 2),
    ],
)
def test_min_isr_is_that_in_effect(config: Mapping[str, str], settings: Mapping[str, str], expected: int) -> None:
    """The topic's override, else the setting of the brokers, else Kafka's default."""
    assert effective_min_isr(config, settings) == expected

"""The variables of policy rules: each name has a value of its type, for every topic and every change."""

from __future__ import annotations

import pytest
from hypothesis import given
from msgspec.structs import replace

from support.builders import PROD_CLUSTER, RACKLESS_BROKERS, plan, refusal_reasons, replica_lists, spec, state, topic
from support.examples import examples
from support.policy_builders import evaluate_rules, labelled_spec, policy
from support.strategies import PlanInput, plan_inputs
from topiarist.filters.cel_variables import bind_change, bind_cluster, bind_topic
from topiarist.model.moves import UNLIMITED, MoveKind, MoveSettings
from topiarist.model.plan import CreateTopic, DeleteTopic
from topiarist.model.policy import CHANGE_VARIABLES, TOPIC_VARIABLES, CelBindings, CelType
from topiarist.model.spec import ClusterSpec

_TYPES = {CelType.STRING: str, CelType.INT: int, CelType.BOOL: bool, CelType.LIST: list, CelType.MAP: dict}


@examples(200)
@given(plan_inputs())
def test_every_name_has_a_value_of_its_kind(world: PlanInput) -> None:
    """Every possible topic and change binds exactly the names of the tables, each with a value of its type."""
    for each in world.plan().topics:
        assert each.spec is not None
        found: CelBindings = bind_topic(each.spec, bind_cluster(each.spec.cluster), {})
        assert found.keys() == TOPIC_VARIABLES.keys()
        for change in each.changes:
            both = {**found, **bind_change(each, change, 3)}
            assert both.keys() == CHANGE_VARIABLES.keys()
            assert {name: type(value) for name, value in both.items()} == {
                name: _TYPES[fact.type] for name, fact in CHANGE_VARIABLES.items()
            }
            assert (both["change.before.partitions"] == 0) == (each.before is None)
            assert (both["change.after.partitions"] == 0) == isinstance(change, DeleteTopic)
            assert isinstance(change, CreateTopic) == (both["change.kind"] == "CreateTopic")


def test_a_topic_is_what_it_is_merged_to() -> None:
    """The variables of a topic have the cluster's defaults and overrides merged in, and config values as text."""
    prod = ClusterSpec(
        name="prod", labels={"env": "prod"}, version=(3, 9), default_partitions=6, default_config={"a": "b"}
    )
    made = labelled_spec("x", {"team": "t"}, prod, topicName="y", partitions=None, config={"retention.ms": 5})
    found = bind_topic(made, bind_cluster(prod), {"why": "so"})
    assert (found["topic.name"], found["topic.document"]) == ("y", "x")
    assert (found["topic.partitions"], found["topic.replicationFactor"]) == (6, 2)
    assert found["topic.config"] == {"a": "b", "retention.ms": "5"}
    assert (found["topic.labels"], found["topic.annotations"]) == ({"team": "t"}, {"why": "so"})
    assert (found["cluster.name"], found["cluster.labels"], found["cluster.kafkaVersion"]) == (
        "prod",
        {"env": "prod"},
        "3.9",
    )


def test_a_change_has_a_before_and_an_after() -> None:
    """The before and after values of a change cover the whole topic, with only this change applied."""
    config = {"segment.ms": "5", "retention.ms": "9"}
    seen = state(topic("a", replica_lists("12", "23", "34"), "retention.ms", config=config))
    wanted = spec("a", partitions=4, replicationFactor=2, config={"compression.type": "zstd"})
    (found,) = plan(seen, wanted).topics
    grown, configured = (bind_change(found, change, 6) for change in found.changes)
    assert (grown["change.before.partitions"], grown["change.after.partitions"]) == (3, 4)
    assert (grown["change.keys"], grown["change.after.config"]) == ([], config)
    assert grown["change.risk"] == "Disruptive"
    assert configured["change.after.partitions"] == 3
    assert configured["change.keys"] == ["compression.type", "retention.ms"]
    assert configured["change.after.config"] == {"compression.type": "zstd", "segment.ms": "5"}
    assert configured["cluster.brokers"] == 6


MOVING = replace(
    PROD_CLUSTER, moves=MoveSettings(frozenset(MoveKind), UNLIMITED), drain_brokers=frozenset({4}), name="prod"
)
MOVED = spec("a", MOVING, partitions=3, replicationFactor=3, config={"retention.ms": 5})
SEEN = state(topic("a", replica_lists("12", "24", "31")), brokers=(*RACKLESS_BROKERS,))


def test_a_move_has_its_copies_and_reasons() -> None:
    """A rule sees the number of copies and partitions, the reasons, and the factor; other changes have none of it."""
    (found,) = plan(SEEN, MOVED).topics
    move, configured = (bind_change(found, change, 4) for change in found.changes)
    assert move["change.kind"] == "MoveReplicas"
    assert (move["change.copies"], move["change.movedPartitions"]) == (4, 3)
    assert move["change.reasons"] == ["Drain", "Factor"]
    assert (move["change.before.replicationFactor"], move["change.after.replicationFactor"]) == (2, 3)
    assert (configured["change.copies"], configured["change.movedPartitions"], configured["change.reasons"]) == (
        0,
        0,
        [],
    )


@pytest.mark.parametrize(
    ("expression", "denied"),
    [
        ('change.kind != "move"', True),
        ("change.kind!='move'", True),
        ('change.kind != "MoveReplicas"', True),
        ('!(change.kind == "move" && change.copies > 3)', True),
        ('!(change.kind == "move" && change.copies > 4)', False),
        ("change.movedPartitions < 3", True),
        ('!("Drain" in change.reasons)', True),
        ('!change.reasons.exists(reason, reason in ["Spread", "Assignment"])', False),
        ('change.kind == "move"', False),
        ('topic.name != "move"', False),
    ],
)
def test_a_policy_denies_moves_alone(expression: str, denied: bool) -> None:
    """A rule about moves withholds the move with ``PolicyDenied``, and the config of the topic is changed."""
    law = policy({"subject": "Change", "expression": f"change.kind == 'UpdateConfig' || ({expression})"})
    (found,) = evaluate_rules([law], MOVED, validate_only=False).plan_filter(plan(SEEN, MOVED)).topics
    assert bool(found.moves()) is not denied
    assert refusal_reasons(found) == (["PolicyDenied"] if denied else [])
    assert "UpdateConfig" in [type(change).__name__ for change in found.changes]

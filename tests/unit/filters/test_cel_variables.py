"""The variables of policy rules: each name has a value of its type, for every topic and every change."""

from __future__ import annotations

from hypothesis import given, settings

from support.builders import plan, replica_lists, spec, state, topic
from support.policy_builders import labelled_spec
from support.strategies import PlanInput, plan_inputs
from topiarist.filters.cel_variables import bind_change, bind_cluster, bind_topic
from topiarist.model.plan import CreateTopic, DeleteTopic
from topiarist.model.policy import CHANGE_VARIABLES, TOPIC_VARIABLES, CelBindings, CelType
from topiarist.model.spec import ClusterSpec

_TYPES = {CelType.STRING: str, CelType.INT: int, CelType.BOOL: bool, CelType.LIST: list, CelType.MAP: dict}


@settings(max_examples=200)
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

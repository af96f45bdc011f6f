"""What rules may know: each name has a value of its kind, for every topic and every change."""

from __future__ import annotations

from hypothesis import given, settings

from topiarist.core.change import CreateTopic, DeleteTopic
from topiarist.core.facts import CHANGE, TOPIC, Facts, Kind, of_change, of_cluster, of_topic
from topiarist.core.spec import ClusterSpec
from unit.builders import lists, plan, spec, state, topic
from unit.laws import labelled
from unit.strategies import World, worlds

_TYPES = {Kind.TEXT: str, Kind.NUMBER: int, Kind.TRUTH: bool, Kind.LIST: list, Kind.MAP: dict}


@settings(max_examples=200)
@given(worlds())
def test_every_name_has_a_value_of_its_kind(world: World) -> None:
    """Exactly the names of the tables, for every topic and change that there can be."""
    for each in world.plan().topics:
        assert each.spec is not None
        found: Facts = of_topic(each.spec, of_cluster(each.spec.cluster), {})
        assert found.keys() == TOPIC.keys()
        for change in each.changes:
            both = {**found, **of_change(each, change, 3)}
            assert both.keys() == CHANGE.keys()
            assert {name: type(value) for name, value in both.items()} == {
                name: _TYPES[fact.kind] for name, fact in CHANGE.items()
            }
            assert (both["change.before.partitions"] == 0) == (each.before is None)
            assert (both["change.after.partitions"] == 0) == isinstance(change, DeleteTopic)
            assert isinstance(change, CreateTopic) == (both["change.kind"] == "CreateTopic")


def test_a_topic_is_what_it_is_merged_to() -> None:
    """Defaults of the cluster count, overrides too; config is text."""
    prod = ClusterSpec(
        name="prod", labels={"env": "prod"}, release=(3, 9), default_partitions=6, default_config={"a": "b"}
    )
    made = labelled("x", {"team": "t"}, prod, topicName="y", partitions=None, config={"retention.ms": 5})
    found = of_topic(made, of_cluster(prod), {"why": "so"})
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
    """Of the whole topic, with only this change done."""
    config = {"segment.ms": "5", "retention.ms": "9"}
    seen = state(topic("a", lists("12", "23", "34"), "retention.ms", config=config))
    wanted = spec("a", partitions=4, replicationFactor=2, config={"compression.type": "zstd"})
    (found,) = plan(seen, wanted).topics
    grown, configured = (of_change(found, change, 6) for change in found.changes)
    assert (grown["change.before.partitions"], grown["change.after.partitions"]) == (3, 4)
    assert (grown["change.keys"], grown["change.after.config"]) == ([], config)
    assert grown["change.risk"] == "Disruptive"
    assert configured["change.after.partitions"] == 3
    assert configured["change.keys"] == ["compression.type", "retention.ms"]
    assert configured["change.after.config"] == {"compression.type": "zstd", "segment.ms": "5"}
    assert configured["cluster.brokers"] == 6

"""JSON output of ``topiarist describe``: schema, any cluster content, identical bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from support.examples import examples
from support.states import cluster, spec, topic
from support.strategies import PlanInput, plan_inputs
from topiarist.adapters.saved_plans.encode import dumps
from topiarist.inspection.describe import (
    ActualSource,
    Description,
    DesiredSource,
    ResolvedTopic,
    describe,
    resolve_topic,
    similar_names,
)
from topiarist.inspection.health import IssueType, Phase
from topiarist.model.plan import Plan
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState, PartitionState, ReadError, Reassignment, TopicInspection
from topiarist.output.describe import encode_descriptions, format_descriptions
from topiarist.output.text.layout import TextLayout
from topiarist.planning.planner import make_plan
from topiarist.schema import load

SCHEMA = load.load_schema("describe")
VALIDATOR = Draft7Validator(SCHEMA)
SHARED = (
    "record",
    "risk",
    "explanation",
    "replicas",
    "CreateTopic",
    "AddPartitions",
    "UpdateConfig",
    "DeleteTopic",
    "TakeOwnership",
)


def inspected(state: ClusterState, name: str, seed: int) -> TopicInspection | None:
    """Return generated partition states of a topic, some missing and some invalid."""
    random, seen = Random(f"{seed}{name}"), state.topics.get(name)
    if random.random() < 0.2:
        return None
    lists = {0: (1, 2), 3: (2,)} if name in state.topic_errors else {}
    if seen:
        lists = dict(zip(seen.partition_ids, seen.replicas, strict=True))
    if random.random() < 0.1:
        lists = {}
    states = {
        one: PartitionState(
            random.choice((-2, -1, 1, 2, 9)), tuple(random.sample(range(1, 6), random.randint(0, 3))), 1, 2
        )
        for one in (*lists, 99)
        if random.random() < 0.8
    }
    odd = ReadError("/brokers/topics/x/partitions/\x1b[2J", "it is \u202e odd")
    return TopicInspection(
        seen.identity if seen else None,
        lists,
        states,
        partition_errors={one: odd for one in lists if one not in states and random.random() < 0.3},
        other_errors=(odd,) if random.random() < 0.2 else (),
        reassignments={one: Reassignment((1,), (2, 3)) for one in lists if random.random() < 0.1},
        requested_replicas={one: (5, 6) for one in lists if random.random() < 0.1},
        topic_id=seen.topic_id if seen else None,
    )


def described(world: PlanInput, seed: int) -> Iterator[Description]:
    """Return descriptions of all topics that a cluster or manifest has, and of one that does not exist."""
    state, plan = world.state, world.plan()
    names = {
        *state.topics,
        *state.topic_errors,
        *state.dangling_records,
        *state.pending_deletions,
        *(one.topic for one in world.specs),
        "none",
    }
    for name in sorted(names):
        (what,) = resolve_topic(name, state, world.specs)
        given_plan: Plan | None = plan if seed % 3 else None
        found = inspected(state, what.topic, seed)
        yield describe(state, world.cluster, what, found, given_plan, world.run.owner)


@examples(150)
@given(plan_inputs(), st.integers(0, 1 << 30))
def test_every_description_is_of_the_schema_and_of_the_page(world: PlanInput, seed: int) -> None:
    """Any cluster content yields a valid ASCII document, and text without long lines or control characters."""
    found = list(described(world, seed))
    text = dumps(encode_descriptions("x", found))
    VALIDATOR.validate(json.loads(text))
    assert text.isascii()
    assert text == dumps(encode_descriptions("x", list(described(world, seed))))
    for page in (
        TextLayout(spare_width=0),
        TextLayout(width=140, verbose=True, spare_width=0),
        TextLayout(use_color=True, spare_width=0),
    ):
        for line in format_descriptions(found, page).split("\n"):
            assert page.use_color or (line.isprintable() and len(line) <= page.width), line


def test_every_field_of_the_schema_has_a_description() -> None:
    """The schema is valid, and each of its fields has a description."""
    Draft7Validator.check_schema(SCHEMA)
    fields = list(_fields(SCHEMA))
    assert len(fields) > 60
    for name, inner in fields:
        target = SCHEMA["definitions"][inner["$ref"].rsplit("/", 1)[1]] if "$ref" in inner else inner
        assert target.get("description", "").endswith((".", ")")), name


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        if isinstance(value.get("properties"), dict):
            yield from value["properties"].items()
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from _fields(inner)


@pytest.mark.parametrize("name", SHARED)
def test_what_descriptions_and_plans_share_is_the_same(name: str) -> None:
    """Changes and ownership records have the same definitions in the schemas of descriptions and plans."""
    assert SCHEMA["definitions"][name] == load.load_schema("plan")["definitions"][name]


def test_pending_is_a_plans_word() -> None:
    """Refusals and notices also have the same definitions as in the schema of plans."""
    ours, plans = (
        SCHEMA["definitions"]["pending"]["properties"],
        load.load_schema("plan")["definitions"]["topic"]["properties"],
    )
    for name in ("observed", "changes", "refusals", "notices"):
        assert ours[name] == plans[name], name


def test_the_words_of_the_schema_are_those_of_the_code() -> None:
    """The enums of phases, conditions, layers and holders equal those of the code, in the same order."""
    definitions = SCHEMA["definitions"]
    value = definitions["value"]["properties"]
    assert definitions["topic"]["properties"]["phase"]["enum"] == [phase.value for phase in Phase]
    assert definitions["condition"]["enum"] == [condition.value for condition in IssueType]
    assert definitions["topic"]["properties"]["conditions"]["propertyNames"]["enum"] == definitions["condition"]["enum"]
    assert value["desiredSource"]["oneOf"][1]["enum"] == [layer.value for layer in DesiredSource]
    assert value["actualSource"]["oneOf"][1]["enum"] == [holder.value for holder in ActualSource]


def test_a_word_means_the_topic_before_the_document() -> None:
    """A name selects the desired or actual topic of this name, else the document of this name, and both if two
    match.
    """
    renamed, plain = spec("orders", topicName="orders.v1"), spec("clicks")
    here = cluster(topic("orders"))
    assert resolve_topic("orders.v1", cluster(), [renamed]) == [ResolvedTopic("orders.v1", renamed)]
    assert resolve_topic("orders", cluster(), [renamed]) == [ResolvedTopic("orders.v1", renamed, by_document_name=True)]
    assert resolve_topic("orders", here, [renamed]) == [ResolvedTopic("orders")]
    assert resolve_topic("clicks", here, [renamed, plain]) == [ResolvedTopic("clicks", plain)]
    assert resolve_topic("none", here, [renamed]) == [ResolvedTopic("none")]
    twice = [spec("orders", topicName="a"), spec("orders", topicName="b")]
    assert [each.topic for each in resolve_topic("orders", cluster(), twice)] == ["a", "b"]


def test_close_names_are_found_among_all_that_is_known() -> None:
    """Suggestions come from topics, ownership records and manifests, the closest first, without distant names."""
    state = cluster(topic("orders.v1"), topic("payments"), topic("zebra"))
    assert similar_names("order.v1", state, [spec("orders.v2")]) == ["orders.v1", "orders.v2"]
    assert similar_names("xyz", state, []) == []


def test_a_topic_that_is_as_it_should_be_keeps_its_record() -> None:
    """A synced topic keeps its ownership record, even though its plan has no record."""
    wanted = spec("orders", config={"flush.ms": 5})
    state = cluster(topic("orders", config={"flush.ms": "5"}, managed_keys=["flush.ms"]))
    plan = make_plan(state, ClusterSpec(), [wanted], RunOptions())
    assert plan.topics == ()
    found = describe(state, ClusterSpec(), ResolvedTopic("orders", wanted), None, plan, "default")
    assert found.pending_plan
    assert found.pending_plan.is_empty
    assert found.pending_plan.record_after == state.topics["orders"].record


def test_orphans_are_told_only_where_manifests_were_given() -> None:
    """Without manifests, no topic is reported as undeclared."""
    state = cluster(topic("orders"))
    none = make_plan(state, ClusterSpec(), [], RunOptions())
    assert describe(state, ClusterSpec(), ResolvedTopic("orders"), None, none, "default").is_orphan
    assert not describe(state, ClusterSpec(), ResolvedTopic("orders"), None, None, "default").is_orphan


def test_the_controller_of_a_cluster_is_in_the_document() -> None:
    """A document has the controller with its epoch; a cluster without a controller has none."""
    for controller, expected in ((1, {"broker": 1, "epoch": 42}), (None, None)):
        state = cluster(topic("orders"), controller=controller)
        found = describe(state, ClusterSpec(), ResolvedTopic("orders"), None, None, "default")
        (encoded,) = encode_descriptions("orders", [found])["clusters"]
        assert encoded["controller"] == expected

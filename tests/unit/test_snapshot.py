"""Snapshots: nothing is lost on the way to a file and back, and what does not belong there does not get in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.snapshots import TAKEN, WHOLE, lines, written
from topiarist import schema
from topiarist.adapters.snapshot import Snapshot, dump, load
from topiarist.core.plan import make_plan
from topiarist.core.state import Broker, ClusterState, TopicState
from unit.strategies import World, worlds


def plain(state: ClusterState) -> ClusterState:
    """The state with partition ids as adapters give them: a range only if there are no holes."""
    topics = {
        name: topic if topic.whole else replace(topic, partition_ids=tuple(topic.partition_ids))
        for name, topic in state.topics.items()
    }
    return replace(state, topics=topics)


def renamed(state: ClusterState, names: Mapping[str, str]) -> ClusterState:
    """The state with other names."""
    return replace(
        state,
        topics={names[name]: replace(topic, name=names[name]) for name, topic in state.topics.items()},
        records={names[name]: record for name, record in state.records.items()},
        faults={names[name]: fault for name, fault in state.faults.items()},
        deleting=frozenset(names[name] for name in state.deleting),
        reassigning=frozenset(names[name] for name in state.reassigning),
        stale_requests=frozenset(names[name] for name in state.stale_requests),
    )


@given(worlds(), st.lists(st.text(min_size=1), min_size=10, max_size=10, unique=True), st.text(), st.text())
def test_nothing_is_lost(
    tmp_path_factory: pytest.TempPathFactory, world: World, odd: list[str], name: str, word: str
) -> None:
    """Any state, under any names, comes back equal and in its order, and so do the cluster's name and the time."""
    state = world.state
    known = sorted({*state.topics, *state.records, *state.faults, *state.deleting, *state.reassigning})
    state = plain(renamed(state, dict(zip(known, odd, strict=False))))
    state = replace(state, warnings=(word, name), brokers=(*state.brokers, Broker(77, word)))
    path = written(tmp_path_factory.getbasetemp(), lines(state, name), "any.jsonl")
    found = load(path)
    assert found == Snapshot(name, TAKEN, state)
    assert list(found.state.topics) == list(state.topics)
    assert list(dump(found)) == lines(state, name)


def test_every_field_of_a_state_is_kept(tmp_path: Path) -> None:
    """A state without a single default comes back equal: a field that is added has to be added to the rows too, unless
    it makes no state another one.
    """
    bare = ClusterState("", ())
    for field in (field for field in fields(ClusterState) if field.compare):
        assert getattr(WHOLE, field.name) != getattr(bare, field.name), field.name
    for field in fields(TopicState):
        assert getattr(WHOLE.topics["odd"], field.name) != getattr(TopicState("", 0, ()), field.name), field.name
    assert load(written(tmp_path, lines())) == Snapshot("eu", TAKEN, WHOLE)


@given(worlds())
def test_the_plan_is_that_of_the_state(tmp_path_factory: pytest.TempPathFactory, world: World) -> None:
    """A plan from a snapshot is the plan from the cluster, value for value."""
    world = world._replace(state=plain(world.state))
    path = written(tmp_path_factory.getbasetemp(), lines(world.state, "prod"), "plan.jsonl")
    assert make_plan(load(path).state, world.cluster, world.specs, world.run) == world.plan()


@cache
def validator() -> jsonschema.Draft7Validator:
    """The schema as it stands in the repository."""
    jsonschema.Draft7Validator.check_schema(schema.schema("snapshot"))
    return jsonschema.Draft7Validator(schema.schema("snapshot"))


YOUNGER = {"givesIds", "staleRequests"}
"""Fields that the rows of earlier releases do not have."""


def test_a_snapshot_of_an_earlier_release_is_read(tmp_path: Path) -> None:
    """What its rows do not say is concluded from the topics."""
    for topic_id in (None, "one"):
        topics = {"orders": TopicState("orders", 1, ((1,),), topic_id=topic_id)}
        state = replace(WHOLE, topics=topics, gives_ids=topic_id is not None, stale_requests=frozenset())
        first, *rows = map(json.loads, lines(state))
        older = {key: value for key, value in first.items() if key not in YOUNGER}
        found = load(written(tmp_path, [json.dumps(row).encode() + b"\n" for row in (older, *rows)]))
        assert found.state == state


def test_every_row_is_as_its_schema_says() -> None:
    """The rows are valid by the whole schema, and none of a kind that it does not know is."""
    for line in lines():
        assert list(validator().iter_errors(json.loads(line))) == []
    assert not validator().is_valid({**json.loads(lines()[1]), "kind": "other"})


def test_every_field_of_the_schema_is_described_and_every_one_is_written() -> None:
    """The fields of the rows are those of the schema, all of them, and each says what it is."""
    definitions = schema.schema("snapshot")["definitions"]
    for line in lines():
        row = json.loads(line)
        assert list(row) == list(definitions[row["kind"]]["properties"])
        assert [field for field in row if field not in YOUNGER] == definitions[row["kind"]]["required"]
    for part in definitions.values():
        for name, field in part.get("properties", {}).items():
            assert "$ref" in field or field["description"].endswith("."), name


def test_each_row_makes_sense_by_itself() -> None:
    """Every row has the cluster's name, the time and its kind; the first has how many follow; all is ASCII."""
    rows = [json.loads(line) for line in lines()]
    assert {(row["cluster"], row["takenAt"]) for row in rows} == {("eu", "2025-01-31T12:00:59Z")}
    assert [row["kind"] for row in rows] == ["cluster", "topic", "topic", "topic", "record", "record"]
    assert rows[0]["rows"] == 5
    assert all(line.isascii() and line.endswith(b"\n") for line in lines())


def test_settings_of_brokers_that_bear_on_no_topic_stay_behind() -> None:
    """Listener passwords, key stores and their paths are among the brokers' dynamic settings: none gets into a file."""
    secrets = {
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": "planted password",
        "ssl.keystore.password": "planted password",
        "ssl.keystore.location": "planted path",
    }
    state = replace(WHOLE, broker_defaults={**secrets, "log.retention.hours": "5"})
    text = b"".join(lines(state))
    assert b"planted" not in text
    assert json.loads(lines(state)[0])["brokerDefaults"] == {"log.retention.hours": "5"}

"""Snapshot files: every state is written and read back without loss, and no secret is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.snapshots import FULL_STATE, SNAPSHOT_TIME, snapshot_lines, write_snapshot_rows
from support.strategies import PlanInput, plan_inputs
from topiarist.adapters.size_limits import REQUEST_LIMITS
from topiarist.adapters.snapshots.files import Snapshot, dump_snapshot, load_snapshot
from topiarist.kafka.types import Broker, ClusterMode
from topiarist.model.state import ClusterState, TopicState
from topiarist.planning.planner import make_plan
from topiarist.schema import load as load_


def plain(state: ClusterState) -> ClusterState:
    """Return the state with partition ids as adapters return them: a range only if no id is missing."""
    topics = {
        name: topic if topic.has_contiguous_partitions else replace(topic, partition_ids=tuple(topic.partition_ids))
        for name, topic in state.topics.items()
    }
    return replace(state, topics=topics)


def renamed(state: ClusterState, names: Mapping[str, str]) -> ClusterState:
    """Return the state with other topic names."""
    return replace(
        state,
        topics={names[name]: replace(topic, name=names[name]) for name, topic in state.topics.items()},
        dangling_records={names[name]: record for name, record in state.dangling_records.items()},
        topic_errors={names[name]: fault for name, fault in state.topic_errors.items()},
        pending_deletions=frozenset(names[name] for name in state.pending_deletions),
        reassigning_topics=frozenset(names[name] for name in state.reassigning_topics),
        stale_reassignments=frozenset(names[name] for name in state.stale_reassignments),
    )


@given(plan_inputs(), st.lists(st.text(min_size=1), min_size=10, max_size=10, unique=True), st.text(), st.text())
def test_nothing_is_lost(
    tmp_path_factory: pytest.TempPathFactory, world: PlanInput, odd: list[str], name: str, word: str
) -> None:
    """Any state, with any topic names, is read back equal and in order, with the cluster's name and the time."""
    state = world.state
    known = sorted(
        {
            *state.topics,
            *state.dangling_records,
            *state.topic_errors,
            *state.pending_deletions,
            *state.reassigning_topics,
        }
    )
    state = plain(renamed(state, dict(zip(known, odd, strict=False))))
    state = replace(state, warnings=(word, name), brokers=(*state.brokers, Broker(77, word)))
    path = write_snapshot_rows(tmp_path_factory.getbasetemp(), snapshot_lines(state, name), "any.jsonl")
    found = load_snapshot(path)
    assert found == Snapshot(name, SNAPSHOT_TIME, state)
    assert list(found.state.topics) == list(state.topics)
    assert list(dump_snapshot(found)) == snapshot_lines(state, name)


def test_every_field_of_a_state_is_kept(tmp_path: Path) -> None:
    """A state without default values is read back equal. A new field must be added to the rows too; only the two
    that no plan depends on are left out.
    """
    bare = ClusterState("", ())
    for name in set(ClusterState.__struct_fields__) - {"deletion_records", "records_topic_id"}:
        assert getattr(FULL_STATE, name) != getattr(bare, name), name
    for name in TopicState.__struct_fields__:
        assert getattr(FULL_STATE.topics["odd"], name) != getattr(TopicState("", "0", ()), name), name
    assert load_snapshot(write_snapshot_rows(tmp_path, snapshot_lines())) == Snapshot("eu", SNAPSHOT_TIME, FULL_STATE)


@given(plan_inputs())
def test_the_plan_is_that_of_the_state(tmp_path_factory: pytest.TempPathFactory, world: PlanInput) -> None:
    """A plan from a snapshot equals the plan from the cluster."""
    world = world._replace(state=plain(world.state))
    path = write_snapshot_rows(tmp_path_factory.getbasetemp(), snapshot_lines(world.state, "prod"), "plan.jsonl")
    assert make_plan(load_snapshot(path).state, world.cluster, world.specs, world.run) == world.plan()


@cache
def validator() -> jsonschema.Draft7Validator:
    """Return a validator for the schema in the repository."""
    jsonschema.Draft7Validator.check_schema(load_.load_schema("snapshot"))
    return jsonschema.Draft7Validator(load_.load_schema("snapshot"))


YOUNGER = {
    "assignsTopicIds",
    "staleReassignments",
    "requestedReassignments",
    "requestedAt",
    "batch",
    "batchAt",
    "mode",
    "via",
    "knownConfigs",
    "fencedBrokers",
    "evidence",
}
"""Fields that the rows of earlier releases do not have."""


def test_a_snapshot_of_an_earlier_release_is_read(tmp_path: Path) -> None:
    """Fields that the rows of an earlier release do not have are derived from the topics."""
    for topic_id in (None, "one"):
        topics = {"orders": TopicState("orders", "1", ((1,),), topic_id=topic_id)}
        state = replace(
            FULL_STATE,
            topics=topics,
            assigns_topic_ids=topic_id is not None,
            stale_reassignments=frozenset(),
            mode=ClusterMode.ZOOKEEPER,
            bypasses_brokers=True,
            known_configs=None,
            fenced_brokers={},
            requested_reassignments=(),
            requested_at_ms=None,
            batch=None,
            batch_at_ms=None,
            evidence=None,
            usage={},
        )
        first, *rows = map(json.loads, snapshot_lines(state))
        older = {key: value for key, value in first.items() if key not in YOUNGER}
        found = load_snapshot(
            write_snapshot_rows(tmp_path, [json.dumps(row).encode() + b"\n" for row in (older, *rows)])
        )
        assert found.state == state


def test_a_snapshot_of_a_cluster_behind_its_brokers(tmp_path: Path) -> None:
    """It has no lists that brokers read from ZooKeeper, the limits of a request, and another limit changes nothing."""
    state = replace(FULL_STATE, size_limits=REQUEST_LIMITS)
    path = write_snapshot_rows(tmp_path, snapshot_lines(state))
    assert load_snapshot(path, 5_000_000).state == state
    row = json.loads(snapshot_lines(state)[0])
    assert (row["via"], row["topicListBytes"], row["notificationListBytes"], row["replyLimitBytes"]) == (
        "Kafka",
        None,
        None,
        None,
    )
    assert list(validator().iter_errors(row)) == []


def test_times_are_kept_in_whole_seconds_and_no_clock_breaks_a_snapshot(tmp_path: Path) -> None:
    """Fractions of a second are dropped; a time after the year 9999 is left out."""
    for found, kept in ((1_738_324_800_999, 1_738_324_800_000), (2**62, None)):
        rows = snapshot_lines(replace(FULL_STATE, requested_at_ms=found, batch_at_ms=found))
        state = load_snapshot(write_snapshot_rows(tmp_path, rows)).state
        assert (state.requested_at_ms, state.batch_at_ms) == (kept, kept)


def test_every_row_is_as_its_schema_says() -> None:
    """Every row is valid by the schema, and a row of an unknown kind is not."""
    for line in snapshot_lines():
        assert list(validator().iter_errors(json.loads(line))) == []
    assert not validator().is_valid({**json.loads(snapshot_lines()[1]), "kind": "other"})


def test_every_field_of_the_schema_is_described_and_every_one_is_written() -> None:
    """The rows have exactly the fields of the schema, and each field has a description."""
    definitions = load_.load_schema("snapshot")["definitions"]
    for line in snapshot_lines():
        row = json.loads(line)
        assert list(row) == list(definitions[row["kind"]]["properties"])
        assert [field for field in row if field not in YOUNGER] == definitions[row["kind"]]["required"]
    for part in definitions.values():
        for name, field in part.get("properties", {}).items():
            assert "$ref" in field or field["description"].endswith("."), name


def test_each_row_makes_sense_by_itself() -> None:
    """Every row has the name of the cluster, the time and its kind; the first has the number of rows; all are ASCII."""
    rows = [json.loads(line) for line in snapshot_lines()]
    assert {(row["cluster"], row["takenAt"]) for row in rows} == {("eu", "2025-01-31T12:00:59Z")}
    assert [row["kind"] for row in rows] == ["cluster", "topic", "topic", "topic", "record", "record", "usage"]
    assert rows[0]["rows"] == 6
    assert all(line.isascii() and line.endswith(b"\n") for line in snapshot_lines())


def test_settings_of_brokers_that_bear_on_no_topic_stay_behind() -> None:
    """Listener passwords, key stores and their paths in dynamic broker settings are not written to a snapshot."""
    secrets = {
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": "planted password",
        "ssl.keystore.password": "planted password",
        "ssl.keystore.location": "planted path",
    }
    state = replace(FULL_STATE, broker_defaults={**secrets, "log.retention.hours": "5"})
    text = b"".join(snapshot_lines(state))
    assert b"planted" not in text
    assert json.loads(snapshot_lines(state)[0])["brokerDefaults"] == {"log.retention.hours": "5"}

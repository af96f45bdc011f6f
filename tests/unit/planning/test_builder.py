"""Stale entries of a reassignment request: detection and messages; changes that a cluster cannot make."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import (
    PROD_CLUSTER,
    change_kinds,
    config_changes,
    notice_reasons,
    plan,
    plan_single_topic,
    refusal_reasons,
    spec,
    state,
    topic,
)
from topiarist.drift.findings import make_findings
from topiarist.errors import Reason
from topiarist.kafka.config_rules import is_supported
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kafka.types import ClusterMode, KafkaVersion, KnownConfig
from topiarist.model.moves import UNLIMITED, MoveKind, MoveSettings
from topiarist.model.plan import CreateTopic, Issue
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import APACHE_KAFKA, UNKNOWN, ClusterState, Support, TopicState
from topiarist.planning.builder import explain_stale_entry, find_impossible, may_have_problems, stale_entry_warnings

THROTTLED = replace(PROD_CLUSTER, moves=MoveSettings(frozenset(MoveKind), 1000), drain_brokers=frozenset({6}))
FREE = replace(THROTTLED, moves=MoveSettings(frozenset(MoveKind), UNLIMITED))
TOPICS = {"younger": topic("younger")}


def test_each_entry_is_named_with_its_remedy() -> None:
    """The message names the stale entries in order, up to a readable number, with the remedy."""
    gone, younger = stale_entry_warnings({"younger", "gone"}, TOPICS)
    assert gone.startswith("gone: a reassignment request names it")
    assert "another broker become controller" in gone
    assert younger.startswith("younger: a reassignment request names it")
    assert "kafka-reassign-partitions --bootstrap-server" in younger
    *some, rest = stale_entry_warnings({f"t{number}" for number in range(20)}, ())
    assert (len(some), rest) == (8, "the reassignment request has stale entries of 12 more topics")


def test_a_name_of_a_request_is_not_created() -> None:
    """The creation of a topic that a request names is refused, and the refusal has the remedy."""
    found = plan_single_topic(state(reassigning_topics=frozenset({"orders"})), spec())
    assert (refusal_reasons(found), found.is_actionable) == (["ReassignmentInProgress"], False)
    assert found.refusals[0].hint == explain_stale_entry(topic_exists=False).hint


def test_a_topic_that_is_younger_than_its_request_is_not_deleted_until_that_is_gone() -> None:
    """The deletion of a topic younger than its request is refused until the request is deleted, as it would never
    end.
    """
    named = frozenset({"orders"})
    waits = plan_single_topic(state(topic(), reassigning_topics=named), spec(ensure="Absent")).refusals[0]
    stale = plan_single_topic(
        state(topic(), reassigning_topics=named, stale_reassignments=named), spec(ensure="Absent")
    ).refusals[0]
    assert waits.hint == "run again when the reassignment is done"
    assert stale.hint == explain_stale_entry(topic_exists=True).hint


OLD_NAME = "message.downconversion.enable"


def kraft(*topics: TopicState, version: KafkaVersion = (4, 4), **fields: Any) -> ClusterState:
    """Return a cluster in KRaft mode with brokers of a version."""
    known = {name: KnownConfig() for name in TOPIC_CONFIGS if is_supported(name, version)}
    return state(*topics, mode=ClusterMode.KRAFT, known_configs=known, min_version=(3, 9), **fields)


def test_a_manifest_may_keep_a_dropped_name() -> None:
    """The name is a notice and no difference, for an existing topic as for a new one; 3.9 still gets it."""
    declared = spec(config={OLD_NAME: False, "retention.ms": 5})
    existing = plan_single_topic(kraft(topic(config={"retention.ms": "5"})), declared)
    assert not [change for change in change_kinds(existing) if change != "TakeOwnership"]
    assert (refusal_reasons(existing), notice_reasons(existing)) == ([], ["Ignored"])
    assert existing.notices[0].message == f"{OLD_NAME} false: Kafka has dropped it: ignored from 4.0"
    assert make_findings(existing) == ()
    ignored = spec(config={OLD_NAME: False, "retention.ms": 5}, ignore=[f"config.{OLD_NAME}"])
    assert make_findings(plan_single_topic(kraft(topic(config={"retention.ms": "5"})), ignored)) == ()
    created = plan_single_topic(kraft(), declared)
    assert isinstance(created.changes[0], CreateTopic)
    assert (created.changes[0].config, notice_reasons(created)) == ({"retention.ms": "5"}, ["Ignored"])
    older = plan_single_topic(kraft(topic(config={"retention.ms": "5"}), version=(3, 9)), declared)
    assert config_changes(older) == {OLD_NAME: (None, "false")}


def test_an_upgrade_changes_no_ownership_record() -> None:
    """After an upgrade brokers no longer show a dropped override: there is nothing to do, and no external change."""
    declared = spec(config={OLD_NAME: False, "retention.ms": 5})
    before = topic(config={OLD_NAME: "false", "retention.ms": "5"})
    assert plan_single_topic(state(before), declared).record_after is not None
    record = plan_single_topic(state(before), declared).record_after
    upgraded = replace(topic(config={"retention.ms": "5"}), record=record, record_valid=True)
    assert change_kinds(plan_single_topic(kraft(upgraded), declared)) == []
    changed = replace(upgraded, config={"retention.ms": "6"}, modified_externally=True)
    (message,) = (
        notice.message
        for notice in plan_single_topic(kraft(changed), declared).notices
        if notice.reason.value == "ModifiedExternally"
    )
    assert "retention.ms was 5, and is 6 now" in message
    assert OLD_NAME not in message


def test_a_name_that_the_brokers_do_not_have_yet_is_too_new() -> None:
    """The declared version does not matter: names of the brokers are allowed, other names of Kafka wait."""
    cluster = replace(PROD_CLUSTER, version=(4, 4))
    declared = spec(on=cluster, config={"remote.copy.lag.ms": 5})
    planned = plan_single_topic(kraft(topic(), version=(4, 3)), declared)
    assert refusal_reasons(planned) == ["ConfigTooNew"]
    assert planned.refusals[0].message == (
        "remote.copy.lag.ms: the brokers do not have it; Apache Kafka has it from 4.4 on"
    )
    assert planned.refusals[0].hint == "leave it out until the brokers have it"
    assert refusal_reasons(plan_single_topic(kraft(version=(4, 3)), declared)) == ["ConfigTooNew"]
    assert config_changes(plan_single_topic(kraft(topic()), declared)) == {"remote.copy.lag.ms": (None, "5")}


def test_a_version_that_the_brokers_disprove_is_a_warning() -> None:
    """The warning has both values."""
    cluster = replace(PROD_CLUSTER, version=(3, 9))
    (warning,) = (each for each in plan(kraft(), on=cluster).warnings if "kafkaVersion" in each)
    assert warning.startswith("kafkaVersion is 3.9, but the brokers have the topic configs of Kafka 4.4")
    old = replace(PROD_CLUSTER, version=(3, 5))
    (warning,) = (each for each in plan(kraft(), on=old).warnings if "kafkaVersion" in each)
    assert warning == "kafkaVersion is 3.5, but the metadata of the cluster needs 3.9 or later"


def test_a_stored_segment_that_stops_newer_brokers_is_an_existing_problem() -> None:
    """Every plan reports it, also if the manifest has the same value; a change that repairs it does not."""
    stored = topic(config={"segment.bytes": "1000"})
    for declared in (spec(config={"segment.bytes": 1000}), spec()):
        planned = plan_single_topic(state(stored), declared)
        assert "ExistingProblem" in notice_reasons(planned)
        assert ("fault", "config.segment.bytes") in {
            (finding.drift_class.value, finding.field) for finding in make_findings(planned)
        }
    assert may_have_problems(stored.config, {3})
    repaired = plan_single_topic(state(stored), spec(config={"segment.bytes": 1048576}))
    assert notice_reasons(repaired) == []


def test_writes_through_brokers_bypass_nothing() -> None:
    """The warning about unchecked policies, ACLs and quotas is for writes to ZooKeeper only: the way decides."""
    declared = spec()
    by_brokers = replace(kraft(), bypasses_brokers=False)
    unanswered = replace(by_brokers, mode=ClusterMode.ZOOKEEPER, known_configs=None)
    for found, expected in ((state(), 1), (by_brokers, 0), (unanswered, 0)):
        warnings = plan(found, declared).warnings
        assert len([warning for warning in warnings if warning.startswith("written to ZooKeeper")]) == expected


@pytest.mark.parametrize(
    ("name", "on", "refused"),
    [
        ("creation", FREE, ["new"]),
        ("growth", FREE, ["grown"]),
        ("config_changes", FREE, ["set"]),
        ("deletion", FREE, ["old"]),
        ("moves", FREE, ["moved"]),
        ("throttles", FREE, []),
        ("throttles", THROTTLED, ["moved"]),
        *((name, THROTTLED, []) for name in ("freshness", "quotas", "deletion_by_id", "replica_lists", "growth_lists")),
    ],
)
def test_what_a_cluster_cannot_do(name: str, on: ClusterSpec, refused: list[str]) -> None:
    """Each kind of change is refused without the capabilities that it needs, and no other change is."""
    lists = {"moved": ((1, 6),), "grown": ((1, 2),), "set": ((1, 2),), "old": ((1, 2),)}
    seen = state(*(topic(each, one) for each, one in lists.items()))
    wanted = [
        spec("new", on, partitions=1, replicationFactor=1),
        spec("moved", on, partitions=1),
        spec("grown", on, partitions=2),
    ]
    wanted += [spec("set", on, partitions=1, config={"retention.ms": 5}), spec("old", on, ensure="Absent")]
    planned = plan(seen, *wanted, on=on)
    assert {each.topic for each in planned.actionable_topics()} == {"new", "moved", "grown", "set", "old"}

    def find(support: Support) -> dict[str, list[Issue]]:
        return find_impossible(replace(APACHE_KAFKA, **{name: support}), planned.actionable_topics())

    found = find(Support(False, "because"))
    assert sorted(found) == refused
    assert {(each.reason, each.message) for (each,) in found.values()} <= {(Reason.NOT_OFFERED, "because")}
    assert find(Support(False, "a right", lacks_right=True)) == find(UNKNOWN) == {}

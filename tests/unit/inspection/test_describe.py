"""The sources of a topic's values, and explanations of reasons, configs and fields, found as users write them."""

from __future__ import annotations

from typing import Any

import pytest

from support.builders import PositionedSource, manifest, state, topic
from support.cli.runs import run_topiarist
from topiarist.desired.shared_specs import merge
from topiarist.errors import Exit, FieldPath, Location, Reason
from topiarist.inspection.describe import (
    ActualSource,
    DesiredSource,
    Explanation,
    ValueSource,
    explain,
    find_value_sources,
    list_words,
)
from topiarist.inspection.health import build_partitions
from topiarist.kafka.types import MIN_KAFKA_VERSION
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import ClusterState, ReadError, Reassignment, TopicInspection
from topiarist.output.describe import format_explanation
from topiarist.output.text.layout import TextLayout

EU = ClusterSpec(
    name="eu",
    default_partitions=6,
    default_replication_factor=3,
    default_config={"min.insync.replicas": "2", "segment.ms": "5"},
    broker_config={"log.retention.hours": "2", "ssl.key.password": "hush"},
    source=PositionedSource(
        "clusters.yaml", {("spec", "defaults", "config"): (7, 3), ("spec", "brokerConfig"): (9, 3)}
    ),
)
PLACES: dict[FieldPath, tuple[int, int]] = {
    ("spec", "partitions"): (4, 15),
    ("spec", "config", "retention.ms"): (6, 19),
    ("spec", "overrides", 0, "config", "flush.ms"): (9, 30),
    ("spec", "overrides", 0, "mode"): (10, 11),
    ("spec", "ignore"): (12, 3),
    ("spec", "replicaAssignment"): (14, 3),
}


def wish(**fields: Any) -> TopicSpec:
    """Return the spec of the document ``orders`` on ``EU``."""
    return merge(manifest("orders", positions=PLACES, **fields), EU)


def found(state: ClusterState, wanted: TopicSpec | None = None, on: ClusterSpec = EU) -> dict[str, ValueSource]:
    """Return the values of ``orders``, by field."""
    listed = build_partitions(state, "orders", None, MIN_KAFKA_VERSION)
    return {value.field: value for value in find_value_sources(state, "orders", on, wanted, listed)}


def at(line: int, column: int, file: str = "topics/orders.yaml") -> Location:
    return Location(file, line, column)


def test_each_layer_of_a_spec_is_told_with_its_place() -> None:
    """Each value names its layer and place: manifest, override, cluster defaults or topiarist's default."""
    wanted = wish(
        partitions=3,
        config={"retention.ms": 60},
        overrides=[{"clusters": ["eu"], "config": {"flush.ms": 7}, "mode": "Observe"}],
    )
    seen = found(state(), wanted)
    told = {name: (value.desired, value.desired_source, value.desired_location) for name, value in seen.items()}
    assert told["partitions"] == ("3", DesiredSource.MANIFEST, at(4, 15))
    assert told["replicationFactor"] == ("3", DesiredSource.CLUSTER_DEFAULTS, at(1, 1, "clusters.yaml"))
    assert told["config.retention.ms"] == ("60", DesiredSource.MANIFEST, at(6, 19))
    assert told["config.flush.ms"] == ("7", DesiredSource.OVERRIDE, at(9, 30))
    assert told["config.segment.ms"] == ("5", DesiredSource.CLUSTER_DEFAULTS, at(7, 3, "clusters.yaml"))
    assert told["mode"] == ("Observe", DesiredSource.OVERRIDE, at(10, 11))
    assert told["ensure"] == ("Present", DesiredSource.TOPIARIST, None)
    assert told["unmanagedConfig"] == ("Keep", DesiredSource.TOPIARIST, None)


def test_a_topic_that_is_not_there_holds_nothing() -> None:
    """All declared values of an absent topic differ, and the brokers' defaults are not among its values."""
    seen = found(state(broker_defaults={"log.retention.bytes": "5"}), wish(config={"retention.ms": 60}))
    assert {value.actual_source for value in seen.values()} == {None}
    assert seen["config.retention.ms"].differs
    assert "config.retention.bytes" not in seen


def test_what_holds_is_the_override_then_the_dynamic_default_then_the_brokers_files() -> None:
    """The actual value is the topic's override, then the dynamic default, then ``brokerConfig``. Without any of these,
    only the brokers have the value.
    """
    cluster_state = state(
        topic("orders", config={"flush.ms": "5"}),
        broker_defaults={"log.retention.bytes": "6", "listener.name.x.ssl.keystore.password": "hush"},
    )
    seen = found(cluster_state, wish(config={"max.message.bytes": 9}))
    held = {
        name: (value.actual, value.actual_source, value.broker_setting, value.actual_location)
        for name, value in seen.items()
    }
    assert held["config.flush.ms"] == ("5", ActualSource.TOPIC, "", None)
    assert held["config.retention.bytes"] == ("6", ActualSource.DYNAMIC_DEFAULT, "log.retention.bytes", None)
    assert held["config.retention.ms"] == (
        "7200000",
        ActualSource.BROKER_CONFIG,
        "log.retention.hours",
        at(9, 3, "clusters.yaml"),
    )
    assert held["config.max.message.bytes"] == (None, ActualSource.BROKERS, "", None)
    assert "hush" not in repr(seen)


def test_what_differs_is_what_a_plan_would_change() -> None:
    """A value differs if Kafka treats it as different, and an equal broker default is no override."""
    cluster_state = state(
        topic("orders", 3, config={"retention.ms": "060", "segment.ms": "6"}),
        broker_defaults={"min.insync.replicas": "2"},
    )
    seen = found(cluster_state, wish(partitions=6, config={"retention.ms": 60}, ignore=["config.segment.ms"]))
    differs = {name for name, value in seen.items() if value.differs}
    assert differs == {"partitions", "config.segment.ms", "config.min.insync.replicas"}
    assert [name for name, value in seen.items() if value.ignored] == ["config.segment.ms"]
    assert seen["ignore"].desired == "config.segment.ms"
    assert seen["ignore"].desired_location == at(12, 3)


def test_sizes_from_the_clusters_defaults_count_at_creation_only() -> None:
    """Default sizes count only at creation: an existing topic without declared sizes keeps its own."""
    seen = found(state(topic("orders", 3)), wish())
    assert (seen["partitions"].actual, seen["partitions"].desired) == ("3", None)
    assert (seen["replicationFactor"].actual, seen["replicationFactor"].differs) == ("3", False)


def test_explicit_lists_are_shown_in_the_form_of_kafkas_tools() -> None:
    """Explicit lists have the format of Kafka's tools, and the counts have the place of the lists."""
    wanted = wish(replicaAssignment=[[1, 2], [2, 3]])
    seen = found(state(topic("orders", [(1, 2), (3, 2)])), wanted)
    assert (seen["replicaAssignment"].actual, seen["replicaAssignment"].desired) == ("1:2,3:2", "1:2,2:3")
    assert seen["replicaAssignment"].differs
    assert seen["partitions"].desired_location == seen["replicaAssignment"].desired_location == at(14, 3)


def test_of_an_absent_topic_only_that_is_asked_for() -> None:
    """A topic that should be absent declares only that; its sizes and configs do not count."""
    seen = found(
        state(topic("orders", config={"flush.ms": "5"})), wish(ensure="Absent", partitions=9, config={"flush.ms": 7})
    )
    assert seen["ensure"].desired == "Absent"
    assert not any(value.differs for value in seen.values())
    assert seen["config.flush.ms"].desired is None


def test_our_record_says_which_configs_are_ours() -> None:
    """The ownership record determines the managed keys, and the record of an earlier topic does not count."""
    ours = topic("orders", 3, "flush.ms", config={"flush.ms": "5", "segment.ms": "6"})
    assert [name for name, value in found(state(ours)).items() if value.in_record] == ["config.flush.ms"]
    stale = topic("orders", 3, "flush.ms", config={"flush.ms": "5"}, record_valid=False)
    assert not any(value.in_record for value in found(state(stale)).values())


def test_the_replication_factor_is_counted_as_kafka_counts_it() -> None:
    """The replication factor excludes replicas that a reassignment adds, and is a range if the partitions differ."""
    cluster_state = state(topic("orders", [(4, 1, 2), (1, 2, 3)]))
    seen = TopicInspection("1", {0: (4, 1, 2), 1: (1, 2, 3)}, reassignments={0: Reassignment((4,))})
    listed = build_partitions(cluster_state, "orders", seen, MIN_KAFKA_VERSION)
    held = {
        value.field: value.actual for value in find_value_sources(cluster_state, "orders", ClusterSpec(), None, listed)
    }
    assert held == {"partitions": "2", "replicationFactor": "2 to 3"}


def test_a_topic_of_which_only_the_config_is_odd_has_its_size() -> None:
    """A topic with an unreadable config still has its size."""
    cluster_state = state(topic_errors={"orders": ReadError("/config/topics/orders", "it is empty")})
    listed = build_partitions(cluster_state, "orders", TopicInspection("1", {0: (1, 2)}), MIN_KAFKA_VERSION)
    held = {value.field: value.actual for value in find_value_sources(cluster_state, "orders", EU, None, listed)}
    assert held == {"partitions": "1", "replicationFactor": "2"}
    assert found(cluster_state) == {}


def find(word: str) -> Explanation:
    """Return the only explanation of a word."""
    (found,) = explain(word)
    return found


@pytest.mark.parametrize("reason", Reason, ids=str)
def test_every_reason_has_cause_and_remedy(reason: Reason) -> None:
    """The page of reasons has them, and the text has no Markdown."""
    found = find(reason.value)
    remedy = dict(found.facts)["remedy"]
    assert found.meaning
    assert remedy
    assert not any(mark in found.meaning + remedy for mark in ("`", "](", "|")), found


def test_a_reason_says_what_its_table_says() -> None:
    """A link is followed by its page, so that it can be read in a terminal."""
    found = find("stuckreassignment")
    assert found.title == "reason StuckReassignment"
    assert "(docs/deleting.md#entries-that-outlive-their-topic)" in dict(found.facts)["remedy"]
    assert dict(found.facts)["exit code"] == "1"


def test_a_config_has_units_and_the_settings_of_brokers() -> None:
    """Only a time or a size has units."""
    facts = dict(find("retention.ms").facts)
    assert facts["units"] == "ms, s, m, h, d, w"
    assert facts["broker settings"].startswith("log.retention.ms")
    assert "units" not in dict(find("min.insync.replicas").facts)
    assert dict(find("message.format.version").facts)["ignored from"] == "Kafka 4.0"


@pytest.mark.parametrize("word", ["Topic.spec.moves", "topic.spec.moves", "Topic.spec.overrides.moves"])
def test_a_field_is_found_by_its_path(word: str) -> None:
    """Without regard to case; the brackets of a list are not needed."""
    assert find(word).facts[0] == ("takes", "map")


def test_the_end_of_a_path_may_have_several_fields() -> None:
    """Each kind that has the field explains it, and a map lists the fields directly inside."""
    titles = [each.title for each in explain("moves.allow")]
    assert titles[:1] == ["field Topic.spec.moves.allow"]
    assert "field Cluster.spec.moves.allow" in titles
    assert [name for name, _ in find("Topic.spec.moves").facts] == ["takes", ".allow", ".spread"]


def test_a_kind_comes_before_fields_of_its_name() -> None:
    """The explanation of a kind lists the fields of a document."""
    kind, field = explain("topic")
    assert kind.title == "kind Topic"
    assert [name for name, _ in kind.facts] == [".apiVersion", ".kind", ".metadata", ".spec", ".status"]
    assert field.title == "field Cluster.spec.kafka.records.topic"


@pytest.mark.parametrize("word", ["", "frozn", "spec.mov", "oves.allow", "."])
def test_other_words_have_none(word: str) -> None:
    """A part of a name is no word."""
    assert explain(word) == []


def test_every_word_of_the_list_is_explained() -> None:
    """What completion offers is explained."""
    words = list_words()
    assert len(words) > len(Reason)
    assert all(map(explain, words))


def test_text_keeps_its_width() -> None:
    """Long meanings and facts are wrapped."""
    layout = TextLayout(width=60)
    shown = (format_explanation(layout, each) for word in list_words() for each in explain(word))
    below_titles = {line for text in shown for line in text.splitlines()[1:]}
    assert {line for line in below_titles if len(line) > 60 and " " in line.strip()} == set()


def test_the_command_explains_and_suggests() -> None:
    """JSON for programs, and a suggestion for a misspelled word."""
    shown = run_topiarist("explain", "Frozen", "--format", "json")
    assert shown.code == Exit.DONE
    assert '"title": "reason Frozen"' in shown.out
    unknown = run_topiarist("explain", "frozn")
    assert unknown.code == Exit.USAGE
    assert "did you mean Frozen?" in unknown.err


@pytest.mark.parametrize(
    ("words", "has_color"), [((), False), (("--color", "never"), False), (("--color", "always"), True)]
)
def test_color_is_written_to_a_pipe_on_request(words: tuple[str, ...], has_color: bool) -> None:
    """``--color always`` is for logs that show colors; without it, a pipe gets plain text."""
    shown = run_topiarist("explain", "Frozen", *words)
    assert shown.code == Exit.DONE
    assert ("\x1b[1m" in shown.out) is has_color

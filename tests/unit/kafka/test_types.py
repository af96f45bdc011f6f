"""Kafka versions: the text of each supported version, and the list in the schema."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topiarist.kafka.types import (
    INTERNAL_TOPICS,
    KAFKA_VERSIONS,
    METADATA_LEVELS,
    PROTECTED_TOPIC_PATTERNS,
    Replicas,
    find_assignment_errors,
    format_version,
    has_collision_chars,
    metric_name,
    parse_version,
    topic_name_problem,
)
from topiarist.schema.load import load_schema


def test_the_schema_has_exactly_the_supported_versions() -> None:
    """The schema accepts every version from the oldest to the newest supported one, and no other."""
    texts = load_schema("Cluster")["properties"]["spec"]["properties"]["kafkaVersion"]["enum"]
    assert [*map(parse_version, texts)] == [*KAFKA_VERSIONS] == sorted(KAFKA_VERSIONS)
    assert [*map(format_version, KAFKA_VERSIONS)] == texts


def test_brokers_of_each_version_in_kraft_mode_are_told_from_older_ones() -> None:
    """Each has a level of its own: without one, a broker of a new version would count as the version before."""
    levels = [level for version, level in METADATA_LEVELS.items() if version >= (3, 3)]
    assert levels == sorted({level for level in levels if level is not None})


# Topic names: Kafka's rule, collisions, and the lists of protected names.

LEGAL = st.text(alphabet="abzAZ09._-", min_size=1, max_size=249).filter(lambda name: name not in (".", ".."))


@given(LEGAL)
def test_every_legal_name_passes(name: str) -> None:
    """A name of up to 249 letters, digits, dots, underscores and dashes is valid."""
    assert topic_name_problem(name) == ""


@pytest.mark.parametrize("name", ["...", "_", "-", "a" * 249, ".a", "__consumer_offsets"])
def test_odd_but_legal_names_pass(name: str) -> None:
    """Three dots, a lone dash and Kafka's internal names are valid here; other checks refuse some of them."""
    assert topic_name_problem(name) == ""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "found an empty topic name"),
        (".", 'found topic name ".", which Kafka reserves'),
        ("..", 'found topic name "..", which Kafka reserves'),
        ("a" * 250, "found a topic name of 250 characters, wanted at most 249"),
        ("a b/c", 'found " ", "/" in topic name "a b/c", wanted only a-z, A-Z, 0-9'),
        ("orders\n", 'found "\\n" in topic name'),
        ("caf\u00e9", 'found "\\u00e9" in topic name'),
        ("orders\u0663", 'found "\\u0663" in topic name'),
    ],
)
def test_a_bad_name_is_explained(name: str, words: str) -> None:
    """The message has the found and the wanted name, with invisible characters escaped."""
    assert words in topic_name_problem(name)


@given(LEGAL, LEGAL)
def test_collision_is_equality_after_folding(one: str, other: str) -> None:
    """Two names collide exactly if they differ only in dots and underscores, in either order."""
    same = len(one) == len(other) and all(a == b or {a, b} == {".", "_"} for a, b in zip(one, other, strict=True))
    assert (metric_name(one) == metric_name(other)) is same


@given(LEGAL)
def test_only_names_with_dots_or_underscores_can_collide_with_others(name: str) -> None:
    """A name without dots and underscores is its own collision key, which no other valid name without them shares."""
    assert has_collision_chars(name) is (metric_name(name) != name or "_" in name)


def test_kafkas_own_topics_are_protected() -> None:
    """The list of protected patterns covers every internal topic."""
    assert all(any(fnmatchcase(name, pattern) for pattern in PROTECTED_TOPIC_PATTERNS) for name in INTERNAL_TOPICS)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "connect-configs",
            "docker-connect-offsets",
            "my_connect_configs",
            "my_connect_offsets",
            "my_connect_statuses",
        ),
        *("debezium_connect_status", "my-connect-status", "mm2-configs.a.internal", "mm2-offset-syncs.b.internal"),
        *("mirrormaker2-cluster-configs", "heartbeats", "a.heartbeats", "a.checkpoints.internal"),
        *("schema-changes.inventory", "schemahistory.inventory"),
    ],
)
def test_default_names_of_connect_images_are_protected(name: str) -> None:
    """The topics that Connect, Debezium and MirrorMaker create by default are protected without any setting."""
    assert any(fnmatchcase(name, pattern) for pattern in PROTECTED_TOPIC_PATTERNS)
    assert not any(fnmatchcase("orders.configs", pattern) for pattern in PROTECTED_TOPIC_PATTERNS)


# Explicit replica lists: one check finds every error of every list, including errors that Kafka accepts.


def test_all_errors_are_found_at_once() -> None:
    """One check finds each error of each partition, including errors that Kafka accepts."""
    lists: dict[int, Replicas] = {0: (0, 1), 1: (), 2: (2, 2), 3: (0, -1), 5: (0, 1 << 31)}
    widths = "found different numbers of replicas (0 in partition 1, 2 in partition 0), wanted one number"
    assert list(find_assignment_errors(lists)) == [
        (0, f"{widths} for all partitions"),
        (0, "found partitions 0, 1, 2, 3, 5, wanted 0 to 4 without a hole"),
        (1, "found an empty replica list, wanted one or more broker ids"),
        (2, "found broker 2 twice, wanted each broker once"),
        (3, "found broker id -1, wanted 0 or more"),
        (5, "found broker id 2147483648, wanted at most 2147483647"),
    ]


def test_valid_lists_have_no_errors() -> None:
    """Valid lists have no errors, nor has a topic without lists."""
    assert not list(find_assignment_errors({0: (0, 1), 1: (1, 0)}))
    assert not list(find_assignment_errors({0: ((1 << 31) - 1,)}))
    assert not list(find_assignment_errors({}))

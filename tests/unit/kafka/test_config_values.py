"""Topic configs: exactly Kafka's parser and validators, equality, and the configs of each release.

The accepted and refused values were compared with Kafka's own ``LogConfig`` of 2.8.2, 3.4.1 and 3.9.2.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topiarist.kafka import config_rules, config_values
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kafka.types import KAFKA_VERSIONS, KafkaVersion

LONG_MAX = 2**63 - 1
KNOWN_TEXTS = st.sampled_from(
    [
        "",
        " ",
        "0",
        "-0",
        "1",
        "014",
        "+14",
        "0.5",
        "0.50",
        ".5",
        "NaN",
        "true",
        "TRUE",
        "compact",
        "delete,compact",
        "*",
    ]
)
ANY_TEXT = st.one_of(KNOWN_TEXTS, st.text(max_size=12), st.integers().map(str), st.floats().map(str))


@pytest.mark.parametrize("release", [(2, 4), (2, 8), (3, 0), (3, 6), (3, 9)])
def test_every_default_is_valid(release: KafkaVersion) -> None:
    """Kafka's own default passes Kafka's own check, in every release that has the config."""
    for name, config in TOPIC_CONFIGS.items():
        if config_rules.is_supported(name, release):
            assert config_values.check_value(name, config_rules.kafka_default(name, release), release) == "", name
        else:
            assert config_values.check_value(name, config.default, release).startswith("exists since Kafka "), name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retention.ms", "-1"),
        ("retention.ms", " \t+014\n"),
        ("retention.ms", "0" * 5000 + "14"),
        ("retention.ms", "\u0663"),
        ("retention.bytes", "-9223372036854775808"),
        ("local.retention.ms", "-2"),
        ("segment.bytes", "1048576"),
        ("compression.gzip.level", "-1"),
        ("compression.gzip.level", "9"),
        ("compression.zstd.level", "-131072"),
        ("min.cleanable.dirty.ratio", "0"),
        ("min.cleanable.dirty.ratio", "1"),
        ("min.cleanable.dirty.ratio", "-0.0"),
        ("min.cleanable.dirty.ratio", "0.5f"),
        ("min.cleanable.dirty.ratio", "0x1p-1"),
        ("min.cleanable.dirty.ratio", "NaN"),
        ("preallocate", "TRUE"),
        ("compression.type", " gzip "),
        ("message.timestamp.type", "LogAppendTime"),
        ("cleanup.policy", ""),
        ("cleanup.policy", "delete , compact"),
        ("cleanup.policy", "delete,delete,compact"),
        ("leader.replication.throttled.replicas", "100:10,,12:10,"),
        ("leader.replication.throttled.replicas", ",*"),
        ("message.format.version", "2.8.1-anything"),
        ("message.format.version", "0.10.2-IV0"),
        ("message.format.version", "0.8.2"),
    ],
)
def test_what_kafka_takes(name: str, text: str) -> None:
    """Every text that Kafka accepts is accepted: signs, leading zeros, blanks, type suffixes and empty items."""
    assert config_values.check_value(name, text) == ""


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("retention.ms", "abc", 'found "abc", wanted a whole number from -1 to 9223372036854775807'),
        ("retention.ms", "1_000", 'found "1_000", wanted a whole number from -1 to 9223372036854775807'),
        ("retention.ms", "1e3", 'found "1e3", wanted a whole number from -1 to 9223372036854775807'),
        ("retention.ms", "", 'found "", wanted a whole number from -1 to 9223372036854775807'),
        ("retention.ms", "-2", "found -2, wanted -1 or more"),
        ("segment.bytes", "2147483648", "found 2147483648, wanted a whole number from 1048576 to 2147483647"),
        ("segment.bytes", "1048575", "found 1048575, wanted 1048576 or more"),
        ("compression.gzip.level", "0", "found 0, wanted -1, or 1 to 9"),
        ("compression.lz4.level", "18", "found 18, wanted 1 to 17"),
        ("min.cleanable.dirty.ratio", "1.1", "found 1.1, wanted 0 to 1"),
        ("min.cleanable.dirty.ratio", "Infinity", "found Infinity, wanted 0 to 1"),
        ("min.cleanable.dirty.ratio", "half", 'found "half", wanted a number'),
        ("preallocate", "yes", 'found "yes", wanted true or false'),
        (
            "compression.type",
            "GZIP",
            'found "GZIP", wanted one of uncompressed, zstd, lz4, snappy, gzip, producer',
        ),
        ("cleanup.policy", "delete,", 'found an empty item in "delete,", wanted any of compact, delete'),
        (
            "cleanup.policy",
            "compact,,delete",
            'found an empty item in "compact,,delete", wanted any of compact, delete',
        ),
        ("compression.gzip.level", "high", 'found "high", wanted a whole number from 1 to 9, or -1'),
        (
            "retention.bytes",
            "9223372036854775808",
            "found 9223372036854775808, wanted a whole number from -9223372036854775808 to 9223372036854775807",
        ),
        ("cleanup.policy", "DELETE", 'found "DELETE", wanted any of compact, delete'),
        (
            "leader.replication.throttled.replicas",
            "*,100:10",
            'found "*", wanted * alone, or partition:broker items with commas between',
        ),
        (
            "message.format.version",
            "0.11",
            'found "0.11", wanted a Kafka version of at most 3.9, such as 3.9 or 3.9-IV0',
        ),
        (
            "message.format.version",
            "2.8-IV2",
            'found "2.8-IV2", wanted a Kafka version of at most 3.9, such as 3.9 or 3.9-IV0',
        ),
        ("no.such.config", "1", "Kafka has no such topic config"),
    ],
)
def test_what_kafka_refuses(name: str, text: str, message: str) -> None:
    """Each refusal has a message with the found and the wanted value."""
    assert config_values.check_value(name, text) == message


@pytest.mark.parametrize(
    ("name", "text", "release", "message"),
    [
        ("flush.messages", "0", (3, 2), ""),
        ("flush.messages", "0", (3, 3), "found 0, wanted 1 or more"),
        ("segment.index.bytes", "3", (2, 8), ""),
        ("segment.index.bytes", "3", (3, 3), "found 3, wanted 4 or more"),
        (
            "message.format.version",
            "3.0",
            (2, 8),
            'found "3.0", wanted a Kafka version of at most 2.8, such as 2.8 or 2.8-IV1',
        ),
        ("message.format.version", "3.0", (3, 0), ""),
        ("compression.gzip.level", "1", (3, 7), "exists since Kafka 3.8, wanted one of 3.7"),
    ],
)
def test_bounds_of_a_release(name: str, text: str, release: KafkaVersion, message: str) -> None:
    """Two lower bounds rose with 3.3, and versions and names must not be newer than the release."""
    assert config_values.check_value(name, text, release) == message


@given(st.sampled_from(sorted(TOPIC_CONFIGS)), ANY_TEXT)
def test_reading_is_total(name: str, text: str) -> None:
    """Any text is either valid with a value and a canonical form, or has an error message."""
    if config_values.check_value(name, text) == "":
        assert config_values.canonical_text(name, text) is not None
        assert config_values.parse_value(name, text) is not None
    else:
        assert config_values.check_value(name, text).startswith(("found ", "exists since "))


@given(st.sampled_from(sorted(TOPIC_CONFIGS)), ANY_TEXT)
def test_the_canonical_form_is_equal_and_final(name: str, text: str) -> None:
    """The canonical form is equivalent to the stored text, and is its own canonical form."""
    if config_values.check_value(name, text) == "":
        shown = config_values.canonical_text(name, text)
        assert config_values.is_equivalent(name, text, shown)
        assert config_values.canonical_text(name, shown) == shown


@given(st.sampled_from(sorted(TOPIC_CONFIGS)), ANY_TEXT, ANY_TEXT)
def test_equality_is_equality_of_values(name: str, one: str, other: str) -> None:
    """Two readable texts are equivalent exactly if their values are equal, and equivalence is symmetric."""
    assert config_values.is_equivalent(name, one, other) is config_values.is_equivalent(name, other, one)
    if "" == config_values.check_value(name, one) == config_values.check_value(name, other) and "NaN" not in (
        one + other
    ):
        assert config_values.is_equivalent(name, one, other) is (
            config_values.parse_value(name, one) == config_values.parse_value(name, other)
        )


@pytest.mark.parametrize(
    ("name", "one", "other", "same"),
    [
        ("retention.ms", "604800000", " +0604800000 ", True),
        ("retention.ms", "-0", "0", True),
        ("retention.ms", "9223372036854775807", "9223372036854775806", False),
        ("min.cleanable.dirty.ratio", "0.50", "5e-1", True),
        ("min.cleanable.dirty.ratio", "1", "1.0f", True),
        ("preallocate", "TRUE", "true", True),
        ("cleanup.policy", "compact,delete", "delete, compact,delete", True),
        ("cleanup.policy", "compact", "delete", False),
        ("leader.replication.throttled.replicas", "0:1,,1:2", "1:2,0:1", True),
        ("leader.replication.throttled.replicas", "*", "0:1", False),
        ("message.format.version", "2.8.1", "2.8", True),
        ("message.format.version", "2.8-IV0", "2.8-IV1", False),
        ("message.format.version", "0.10.2.1", "0.10.2", True),
        ("compression.type", " gzip", "gzip", True),
        ("compression.type", "gzip", "GZIP", False),
        ("retention.ms", "abc", " abc ", True),  # unreadable values compare as text
        ("retention.ms", "abc", "abd", False),
        ("retention.ms", "abc", "1", False),
        ("vendor.key", "1", "01", False),
        ("vendor.key", "1", "1 ", True),
    ],
)
def test_when_texts_mean_the_same(name: str, one: str, other: str, same: bool) -> None:
    """Numbers compare by value, lists as sets, versions by significant parts, and all else as trimmed text."""
    assert config_values.is_equivalent(name, one, other) is same


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("min.cleanable.dirty.ratio", "0.50", "0.5"),
        ("min.cleanable.dirty.ratio", "1e-4", "1.0E-4"),
        ("retention.ms", "+014", "14"),
        ("preallocate", "TRUE", "true"),
        ("cleanup.policy", "compact , delete", "compact,delete"),
        ("compression.type", " gzip ", "gzip"),
        ("message.format.version", " 2.8.1 ", "2.8.1"),
    ],
)
def test_the_form_that_kafka_shows(name: str, text: str, shown: str) -> None:
    """The canonical form is the one that ``--describe`` and the Admin API print."""
    assert config_values.canonical_text(name, text) == shown


def test_unreadable_text_has_no_value() -> None:
    """``parse_value`` raises for invalid text with the message, and for a name that Kafka does not have."""
    with pytest.raises(ValueError, match='found "abc", wanted a whole number'):
        config_values.parse_value("retention.ms", "abc")
    with pytest.raises(KeyError):
        config_values.parse_value("no.such.config", "1")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("min.cleanable.dirty.ratio", "0.5f", 'found "0.5f", wanted a plain decimal number'),
        ("min.cleanable.dirty.ratio", "0x1p-1", "wanted a plain decimal number"),
        ("min.cleanable.dirty.ratio", "NaN", "wanted a plain decimal number"),
        ("retention.ms", "\u0663", 'found "\\u0663", wanted ASCII characters only'),
        ("preallocate", "fal\u017fe", "wanted ASCII characters only"),
        ("segment.index.bytes", " +011", "found +011, wanted 12 or more: with less no broker can host the topic"),
        ("leader.replication.throttled.replicas", ",*", 'found ",*", wanted * alone'),
        ("min.cleanable.dirty.ratio", " 5e-1 ", ""),
        ("segment.index.bytes", "12", ""),
        ("leader.replication.throttled.replicas", " * ", ""),
        ("retention.ms", "+014", ""),
        ("vendor.key", "\u0663", ""),
    ],
)
def test_what_no_manifest_should_hold(name: str, text: str, words: str) -> None:
    """A manifest may not hold texts that other readers parse differently, or values that make brokers fail."""
    found = config_values.check_manifest_value(name, text)
    assert words in found
    assert bool(found) is bool(words)


def _edges(name: str) -> set[int]:
    """Return the numbers beside each bound of a config, and some in between."""
    definition = TOPIC_CONFIGS[name]
    bounds = {definition.maximum, definition.min_loadable, definition.also_allowed, 2**31 - 1, 2**63 - 1, 0, 1000}
    bounds |= {definition.minimum_for(release) for release in KAFKA_VERSIONS}
    return {int(bound) + step for bound in bounds if bound is not None for step in (-1, 0, 1)}


@pytest.mark.parametrize("name", sorted(TOPIC_CONFIGS))
def test_the_short_way_for_numbers_accepts_only_what_both_checks_accept(name: str) -> None:
    """At each bound of each release, and for texts that are no plain digits; most valid numbers take the short way."""
    texts = [*map(str, sorted(_edges(name))), "007", "+1", " 1", "\u0661", "1.0", "", "-1", "1" * 30]
    accepted = [
        (text, release)
        for text in texts
        for release in KAFKA_VERSIONS
        if config_values.is_number_within_bounds(TOPIC_CONFIGS[name], text, release)
    ]
    for text, release in accepted:
        assert config_values.check_value(name, text, release) == config_values.check_manifest_value(name, text) == ""
    is_number = TOPIC_CONFIGS[name].type in ("int", "long") and TOPIC_CONFIGS[name].removed is None
    assert bool(accepted) is is_number

"""Topic configs: exactly Kafka's parser and validators, equality, and the configs of each release.

The accepted and refused values were compared with Kafka's own ``LogConfig`` of 2.8.2, 3.4.1 and 3.9.2.
"""

from __future__ import annotations

from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topiarist.adapters.manifests.yaml_text import parse_plain_scalar
from topiarist.kafka import config_rules, config_values
from topiarist.kafka.config_rules import ConfigRules
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kafka.config_values import (
    BYTES_BY_SIZE_UNIT,
    MS_BY_TIME_UNIT,
    add_unit,
    format_double,
    java_split,
    java_trim,
    parse_boolean,
    parse_double,
    parse_integer,
    replace_unit,
    to_config_text,
    units_of,
)
from topiarist.kafka.types import INT_MAX, KAFKA_VERSIONS, LONG_MAX, KafkaVersion

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


# Java's parsing of numbers, booleans and lists, where Python differs.
#
# The expected values are those of Java 17.


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("14", 14),
        ("+14", 14),
        ("-0", 0),
        ("014", 14),
        ("0" * 5000 + "14", 14),
        ("-2147483648", -2147483648),
        ("\u0663", 3),
        ("-\uff11\uff12", -12),
    ],
)
def test_what_java_takes_for_an_integer(text: str, value: int) -> None:
    """Signs, leading zeros (any number of them) and the digits of other scripts are accepted."""
    assert parse_integer(text, limit=INT_MAX) == value


@pytest.mark.parametrize(
    "text",
    ["", "+", "--5", "1_000", "1e3", "14.0", "0x10", "14L", " 14", "\u00b2", "\U0001d7cf", "2147483648", "9" * 5000],
)
def test_what_java_does_not_take_for_an_integer(text: str) -> None:
    """Python's underscores, blanks, superscripts, digits beyond 16 bits and numbers out of range are refused."""
    with pytest.raises(ValueError, match=r"^found "):
        parse_integer(text, limit=INT_MAX)


@given(st.integers(min_value=-LONG_MAX - 1, max_value=LONG_MAX))
def test_every_long_is_read_back(number: int) -> None:
    """The whole range of 64 bits is parsed exactly."""
    assert parse_integer(str(number), limit=LONG_MAX) == number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (".5", 0.5),
        ("5e-1", 0.5),
        ("1.", 1.0),
        ("0.5f", 0.5),
        ("1d", 1.0),
        ("0x1p-1", 0.5),
        ("0x.8p0", 0.5),
        ("0X1.P-1F", 0.5),
        (" 0.5 ", 0.5),
        ("1e400", float("inf")),
        ("0x1p99999", float("inf")),
        ("-0x1p99999", float("-inf")),
        ("-Infinity", float("-inf")),
    ],
)
def test_what_java_takes_for_a_double(text: str, value: float) -> None:
    """Fractions, exponents, hexadecimal forms, type suffixes and blanks are accepted; too large is infinite."""
    assert parse_double(text) == value


@pytest.mark.parametrize("text", ["NaN", "-NaN", "+NaN"])
def test_not_a_number_is_a_double(text: str) -> None:
    """NaN is accepted with any sign."""
    assert isnan(parse_double(text))


@pytest.mark.parametrize("text", ["", ".", "f", "1e", "1_0.5", "nan", "inf", "NaNf", "0x1", "0x1f", "0.5ff", "\u0663"])
def test_what_java_does_not_take_for_a_double(text: str) -> None:
    """Python's spellings of infinity, underscores and digits of other scripts are refused."""
    with pytest.raises(ValueError, match="wanted a number"):
        parse_double(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"),
        (0.5, "0.5"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (0.00012345, "1.2345E-4"),
        (1.5e-7, "1.5E-7"),
        (-0.0, "-0.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (-1e20, "-1.0E20"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles_are_written_as_java_writes_them(value: float, text: str) -> None:
    """A double is written plainly between a thousandth and ten million, and with an exponent beyond."""
    assert format_double(value) == text


@given(st.floats())
def test_a_written_double_is_read_back(value: float) -> None:
    """A double that is written and parsed again has the same value."""
    again = parse_double(format_double(value))
    assert again == value or (isnan(again) and isnan(value))


@pytest.mark.parametrize(("text", "value"), [("true", True), ("TRUE", True), ("False", False), ("fal\u017fe", False)])
def test_booleans_in_any_case(text: str, value: bool) -> None:
    """A boolean may have any case, and Java's case folding maps the long s to s."""
    assert parse_boolean(text) is value


@pytest.mark.parametrize("text", ["", "1", "yes", "on", "tru\u00e9", "t", "truefalse"])
def test_other_words_are_no_booleans(text: str) -> None:
    """Any text other than the two words is not a boolean."""
    with pytest.raises(ValueError, match="wanted true or false"):
        parse_boolean(text)


def test_trim_cuts_control_characters_but_no_other_blanks() -> None:
    """Trimming removes a NUL and keeps a no-break space, which Python's strip would remove."""
    assert java_trim("\x00\t 14 \x1f") == "14"
    assert java_trim("\u00a014\u00a0") == "\u00a014\u00a0"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", [""]),
        (",", []),
        ("a", ["a"]),
        ("a,b", ["a", "b"]),
        ("a,,", ["a"]),
        (",a", ["", "a"]),
        ("a,,b", ["a", "", "b"]),
    ],
)
def test_split_drops_empty_parts_at_the_end_only(text: str, parts: list[str]) -> None:
    """Splitting equals ``String.split``: empty text is one part, and separators alone give none."""
    assert java_split(text, ",") == parts


# Units of times and sizes in manifests.


@pytest.mark.parametrize(
    ("name", "text", "number"),
    [
        ("retention.ms", "7d", "604800000"),
        ("retention.ms", "2w", "1209600000"),
        ("retention.ms", "90m", "5400000"),
        ("retention.ms", "250ms", "250"),
        ("segment.bytes", "100MiB", "104857600"),
        ("max.message.bytes", "10MB", "10000000"),
        ("retention.bytes", "1TiB", "1099511627776"),
        ("log.retention.ms", "12h", "43200000"),
        ("message.max.bytes", "512B", "512"),
    ],
)
def test_a_unit_becomes_the_number_that_kafka_stores(name: str, text: str, number: str) -> None:
    """Milliseconds for a time, bytes for a size, for topics and brokers."""
    assert to_config_text(name, text) == number


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retention.ms", "604800000"),
        ("retention.ms", "-1"),
        ("retention.ms", "7D"),
        ("retention.ms", "1.5h"),
        ("retention.ms", "7 d"),
        ("retention.ms", "100MiB"),
        ("segment.bytes", "7d"),
        ("segment.bytes", "1Mi"),
        ("min.insync.replicas", "2m"),
        ("vendor.tier.ms", "7d"),
        ("log.retention.hours", "7d"),
        ("cleanup.policy", "7d"),
        ("retention.ms", "٣d"),
    ],
)
def test_other_text_is_kept(name: str, text: str) -> None:
    """Without a unit of this config nothing is guessed: the check of the value refuses it, or Kafka knows it."""
    assert to_config_text(name, text) == text


@pytest.mark.parametrize("text", ["7D", "1.5h", "7 d", "100MiB"])
def test_a_wrong_unit_is_an_error_with_the_units(text: str) -> None:
    """The message has the found text, and the advice has the units of the config."""
    problem = ConfigRules(mode=None).config_problem("retention.ms", text)
    assert problem
    assert f'found "{text}"' in problem[0]
    assert problem[1] == "a number may have one of the units ms, s, m, h, d, w, such as 7d"
    template = ConfigRules(mode=None).config_problem("retention.ms", f"${{{text}}}")
    assert template
    assert template[1].startswith("this looks like a template (${): render it first")


@given(st.sampled_from(sorted(TOPIC_CONFIGS)), st.integers(0, 2**63 - 1))
def test_an_added_unit_means_the_same_number(name: str, number: int) -> None:
    """``export --units`` writes what a manifest reads back, and never more characters than the digits."""
    text = add_unit(name, str(number))
    assert replace_unit(name, text) == str(number)
    assert len(text) <= len(str(number))


def test_numbers_are_written_with_the_largest_unit() -> None:
    """Days, not weeks, and binary units only."""
    assert add_unit("retention.ms", "1209600000") == "14d"
    assert add_unit("retention.ms", "86400000") == "1d"
    assert add_unit("segment.bytes", "1073741824") == "1GiB"
    assert add_unit("segment.bytes", "1000000000") == "1000000000"
    assert add_unit("retention.ms", "-1") == "-1"


@pytest.mark.parametrize("unit", [*MS_BY_TIME_UNIT, *BYTES_BY_SIZE_UNIT])
def test_an_amount_is_text_in_every_yaml_version(unit: str) -> None:
    """Without quotes, YAML 1.1, YAML 1.2 and kubectl read it as text; no error asks for quotes."""
    assert parse_plain_scalar(f"10{unit}") == f"10{unit}"


def test_every_time_and_size_has_units() -> None:
    """The table of configs decides by the name; all other configs have none."""
    assert {name for name in TOPIC_CONFIGS if units_of(name)} == {
        name for name in TOPIC_CONFIGS if name.endswith((".ms", ".bytes"))
    }

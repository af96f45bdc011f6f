"""Java's parsing of numbers, booleans and lists, where Python differs.

The expected values are those of Java 17.
"""

from __future__ import annotations

from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topiarist.kafka.config_values import (
    format_double,
    java_split,
    java_trim,
    parse_boolean,
    parse_double,
    parse_integer,
)
from topiarist.kafka.types import INT_MAX, LONG_MAX


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

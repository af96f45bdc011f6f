"""Units of times and sizes in manifests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topiarist.adapters.manifests.yaml_text import parse_plain_scalar
from topiarist.kafka.config_rules import ConfigRules
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kafka.config_values import (
    BYTES_BY_SIZE_UNIT,
    MS_BY_TIME_UNIT,
    add_unit,
    replace_unit,
    to_config_text,
    units_of,
)


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
        definition.name for definition in TOPIC_CONFIGS.values() if definition.unit
    }

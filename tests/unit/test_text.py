"""Numbers in words, as plans show them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topiarist.text import format_count, humanize_bytes, humanize_duration


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (0, "0 ms"),
        (250, "250 ms"),
        (1_000, "1 second"),
        (1_500, "~1.5 seconds"),
        (60_000, "1 minute"),
        (3_600_000, "1 hour"),
        (5_400_000, "~1.5 hours"),
        (86_400_000, "1 day"),
        (86_400_001, "~1 day"),
        (604_800_000, "7 days"),
        (31_536_000_000_000, "365,000 days"),
    ],
)
def test_durations(ms: int, words: str) -> None:
    """A duration has the largest unit that fits, and a rounded value is marked."""
    assert humanize_duration(ms) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1_048_588, "~1 MiB"),
        (1_073_741_824, "1 GiB"),
        (1_503_238_553, "~1.4 GiB"),
        (1 << 50, "1,024 TiB"),
    ],
)
def test_sizes(number: int, words: str) -> None:
    """A size has binary units, as in Kafka's own defaults."""
    assert humanize_bytes(number) == words


@pytest.mark.parametrize(("number", "words"), [(0, "0 topics"), (1, "1 topic"), (12_000, "12,000 topics")])
def test_counts(number: int, words: str) -> None:
    """A count of one has a singular noun."""
    assert format_count(number, "topic") == words


@given(st.integers(0, 1 << 70))
def test_any_number_has_words(number: int) -> None:
    """Any number has a text that starts with a number, also beyond the limits of Kafka."""
    for words in (humanize_duration(number), humanize_bytes(number)):
        assert words.split()[0].lstrip("~").replace(",", "").replace(".", "", 1).isdigit()

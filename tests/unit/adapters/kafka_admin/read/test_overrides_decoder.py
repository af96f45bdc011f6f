"""The decoder of overrides: it reads what the library reads, and refuses what is not an answer."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin import DescribeConfigsResponse

from support.kafka.releases import encode_response
from topiarist.adapters.kafka_admin.protocol.messages import MalformedMessage
from topiarist.adapters.kafka_admin.read import metadata
from topiarist.adapters.kafka_admin.read.metadata import OVERRIDE, VERSION, TopicOverrides, decode_overrides

_RESULT = DescribeConfigsResponse.DescribeConfigsResult
_ENTRY = _RESULT.DescribeConfigsResourceResult
_SIZE_BYTES = 4
_TAGS = bytes.fromhex("020502aabb0600")  # two tagged fields: number 5 with two bytes, number 6 with none

texts = st.text(max_size=12) | st.text("ab", min_size=126, max_size=130)  # from 127 bytes on a length has two bytes
optional_texts = st.none() | texts

synonyms = st.builds(_ENTRY.DescribeConfigsSynonym, name=texts, value=optional_texts, source=st.integers(1, 6))
entries = st.builds(
    _ENTRY,
    name=texts,
    value=optional_texts,
    read_only=st.booleans(),
    config_source=st.integers(0, 8),
    is_sensitive=st.booleans(),
    synonyms=st.lists(synonyms, max_size=3),
    config_type=st.integers(0, 9),
    documentation=optional_texts,
)
results = st.builds(
    _RESULT,
    error_code=st.integers(-1, 120),
    error_message=optional_texts,
    resource_type=st.just(2),
    resource_name=texts,
    configs=st.lists(entries, max_size=5),
)
answers = st.builds(
    DescribeConfigsResponse, throttle_time_ms=st.integers(0, 1 << 30), results=st.lists(results, max_size=5)
)


def encode(answer: Any) -> bytes:
    """Return the bytes of an answer as a connection returns them: with the header, without the size."""
    return encode_response(answer, VERSION, 7)[_SIZE_BYTES:]


def read_with_library(data: bytes) -> list[TopicOverrides]:
    """Return what the decoder should return, read by the classes of the library."""
    answer: Any = DescribeConfigsResponse.decode(data, version=VERSION, header=True)
    return [
        TopicOverrides(
            each.resource_name,
            {one.name: one.value or "" for one in each.configs if one.config_source == OVERRIDE},
            each.error_code,
            each.error_message or "",
        )
        for each in answer.results
    ]


def one_override(name: str = "orders", error_code: int = 0) -> Any:
    """Return an answer with one topic, which has one override and one default."""
    of_topic = _ENTRY(name="retention.ms", value="5", config_source=OVERRIDE, config_type=5, synonyms=[])
    default = _ENTRY(name="segment.ms", value="6", config_source=5, config_type=5, synonyms=[])
    result = _RESULT(error_code=error_code, resource_type=2, resource_name=name, configs=[default, of_topic])
    return DescribeConfigsResponse(throttle_time_ms=0, results=[result])


@given(answers)
def test_it_reads_what_the_library_reads(answer: Any) -> None:
    """Names, overrides, error codes and messages are equal, whatever an answer has beside them."""
    data = encode(answer)
    assert list(decode_overrides(data)) == read_with_library(data)


def test_texts_at_the_border_of_one_byte() -> None:
    """A text of 127 bytes has a length of two bytes, whatever follows it; such entries read as the library reads them.

    With the flags and the type below, the bytes after the text would pass for the end of a shorter entry.
    """
    for size in range(125, 131):
        for key, value in (("k", "v" * size), ("k" * size, "v"), ("k" * size, "v" * size)):
            one = _ENTRY(
                name=key,
                value=value,
                read_only=True,
                config_source=OVERRIDE,
                is_sensitive=True,
                config_type=0,
                synonyms=[],
                documentation=None,
            )
            result = _RESULT(error_code=0, resource_type=2, resource_name="orders", configs=[one])
            data = encode(DescribeConfigsResponse(throttle_time_ms=0, results=[result]))
            assert list(decode_overrides(data)) == [TopicOverrides("orders", {key: value}, 0, "")], (size, key[:2])


def entry(value: str) -> Any:
    """Return an override without documentation."""
    return _ENTRY(name="a", value=value, config_source=OVERRIDE, config_type=5, synonyms=[], documentation=None)


def test_short_entries_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly all entries are short and plain: no function is called for one, unless it has synonyms or a long text."""
    spans: list[int] = []
    read_span = metadata.read_span

    def count(data: bytes, position: int) -> tuple[int, int]:
        spans.append(position)
        return read_span(data, position)

    monkeypatch.setattr(metadata, "read_span", count)
    plain = [entry("5"), entry("v" * 126)]
    for entries_of_topic, calls in (([], 2), (plain, 2), ([*plain, entry("v" * 127)], 5)):
        result = _RESULT(error_code=0, resource_type=2, resource_name="orders", configs=entries_of_topic)
        list(decode_overrides(encode(DescribeConfigsResponse(throttle_time_ms=0, results=[result]))))
        assert len(spans) == calls
        spans.clear()


def test_unknown_tagged_fields_are_skipped() -> None:
    """Fields that a later release adds, of the last result and of the answer, change nothing."""
    data = encode(one_override())
    assert data.endswith(b"\0\0")  # no tagged fields of the result, none of the answer
    assert list(decode_overrides(data[:-2] + _TAGS * 2)) == list(decode_overrides(data))


@given(answers, st.data())
def test_a_cut_answer_is_refused(answer: Any, data: st.DataObject) -> None:
    """No beginning of an answer reads as an answer with less in it."""
    whole = encode(answer)
    with pytest.raises(MalformedMessage):
        list(decode_overrides(whole[: data.draw(st.integers(0, len(whole) - 1))]))


@given(answers, st.binary(min_size=1, max_size=4))
def test_bytes_after_an_answer_are_refused(answer: Any, more: bytes) -> None:
    """An answer with bytes behind it is of another version."""
    with pytest.raises(MalformedMessage):
        list(decode_overrides(encode(answer) + more))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Nothing but ``MalformedMessage`` is raised."""
    with suppress(MalformedMessage):
        list(decode_overrides(data))


@pytest.mark.parametrize("other", [1, 2, 3])
def test_an_answer_of_another_version_is_refused(other: int) -> None:
    """An answer in the form of an older version does not read as one without overrides."""
    with pytest.raises(MalformedMessage):
        list(decode_overrides(encode_response(one_override(), other, 7)[_SIZE_BYTES:]))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "cut off"),
        (bytes(8), "cut off"),
        (bytes.fromhex("0000000101000000000100"), "tagged fields"),
        (bytes.fromhex("0000000100000000000101057f"), "a tagged field ends after the message"),
        (bytes.fromhex("000000010000000000ffffffffff01"), "more than 5 bytes"),
        (bytes.fromhex("000000010000000000ffffffff0f"), "a list has 4,294,967,295 elements"),
        (bytes.fromhex("0000000100000000000100") + b"more", "^4 bytes follow the answer$"),
    ],
)
def test_what_is_wrong_is_named(data: bytes, message: str) -> None:
    """A header with tagged fields is of a version that was not asked for; nothing is read after the end."""
    with pytest.raises(MalformedMessage, match=message):
        list(decode_overrides(data))


def test_an_empty_answer_has_no_topics() -> None:
    """An empty list and a null one are the same."""
    for length in ("01", "00"):
        assert list(decode_overrides(bytes.fromhex("000000010000000000" + length + "00"))) == []

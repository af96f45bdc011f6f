"""Batches of records, compared with another encoder and decoder: that of kafka-python."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

from support.examples import examples
from topiarist.adapters.kafka_admin.protocol.batches import (
    Batch,
    BatchProducer,
    Record,
    build_batch,
    crc32c,
    read_batches,
)
from topiarist.adapters.kafka_admin.protocol.messages import MalformedMessage

ATTRIBUTES, CRC = 21, 17

texts = st.none() | st.binary(max_size=5) | st.binary(min_size=60, max_size=140)
contents = st.lists(st.tuples(texts, texts), min_size=1, max_size=130)
producers = st.builds(BatchProducer, st.integers(-1, 1 << 40), st.integers(-1, 1 << 14), st.integers(-1, 1 << 30))


def build_by_library(records: list[tuple[bytes | None, bytes | None]], producer: BatchProducer, time_ms: int) -> bytes:
    """Return the batch that kafka-python makes."""
    builder = DefaultRecordBatchBuilder(2, 0, True, *producer, 1 << 30)
    for number, (key, value) in enumerate(records):
        builder.append(number, time_ms, key, value, [])
    return bytes(builder.build())


def seal(batch: bytearray) -> bytes:
    """Return a changed batch with the checksum of its bytes."""
    batch[CRC:ATTRIBUTES] = int(calc_crc32c(bytes(batch[ATTRIBUTES:]))).to_bytes(4, "big")
    return bytes(batch)


@given(contents, producers, st.integers(0, 1 << 41))
@examples(500)
def test_batches_are_those_of_another_encoder(
    records: list[tuple[bytes | None, bytes | None]], producer: BatchProducer, time_ms: int
) -> None:
    """A batch has the bytes that kafka-python makes, and its own records are read from them."""
    data = build_batch(records, time_ms, producer, is_transactional=True)
    theirs = build_by_library(records, producer, time_ms)
    assert DefaultRecordBatch(data).validate_crc()
    assert [(each.key, each.value, each.timestamp) for each in DefaultRecordBatch(data)] == [
        (key, value, time_ms) for key, value in records
    ]
    assert data[ATTRIBUTES:] == theirs[ATTRIBUTES:]
    (found,) = read_batches(struct.pack(">q", 7) + theirs[8:])
    wanted = tuple(Record(7 + number, key, value) for number, (key, value) in enumerate(records))
    assert found == Batch(7, 7 + len(records), producer.id, True, False, False, wanted)


@pytest.mark.parametrize(
    ("data", "checksum"),
    [(b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43)],
)
def test_checksums_are_those_of_the_rfc(data: bytes, checksum: int) -> None:
    """The checksums are those of RFC 3720, appendix B.4."""
    assert crc32c(data) == checksum


@given(st.binary(max_size=40), st.integers(0, 40), st.integers(0, 2))
@examples(1000)
def test_checksums_of_any_length(data: bytes, repetitions: int, more: int) -> None:
    """Bytes that are divided at once, and bytes that are made shorter before, have the checksum of a plain loop."""
    content = data * repetitions + data[:more]
    assert crc32c(content) == calc_crc32c(content)


def test_an_answer_may_end_within_a_batch() -> None:
    """Whole batches are read, and the part of another one is not."""
    data = build_batch([(b"a", b"1")], 5)
    assert [each.records[0].key for each in read_batches(data + data + data[:-1])] == [b"a", b"a"]
    assert list(read_batches(data[:11])) == []


@pytest.mark.parametrize(("mark", "is_abort"), [(0, True), (1, False)])
def test_the_mark_that_ends_a_transaction(mark: int, is_abort: bool) -> None:
    """A control batch has no records of a user; that of an abort is told from that of a commit."""
    batch = bytearray(build_batch([(struct.pack(">hh", 0, mark), b"\0" * 6)], 5, BatchProducer(9, 1, -1)))
    batch[ATTRIBUTES + 1] |= 0x30
    (found,) = read_batches(seal(batch))
    assert (found.is_control, found.is_abort, found.producer_id) == (True, is_abort, 9)


@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (16, 1, "of an old format"),
        (60, 255, "wrong checksum"),
        (ATTRIBUTES + 1, 2, "a compressed batch"),
        (60, 4, "a record with a wrong length|follow the last record"),
        (61 + 4, 100, "a record ends after its batch|a record with a wrong length"),
    ],
)
def test_a_batch_that_cannot_be_read(position: int, value: int, message: str) -> None:
    """A batch with wrong bytes is refused with the reason, before any of its records is returned."""
    batch = bytearray(build_batch([(b"key", b"value")], 5))
    batch[position] = value
    with pytest.raises(MalformedMessage, match=message):
        list(read_batches(bytes(batch) if message == "wrong checksum" else seal(batch)))


@given(st.binary(min_size=49, max_size=120))
@examples(1000)
def test_other_bytes_raise_one_error(body: bytes) -> None:
    """Bytes with the right length and checksum are read, or raise ``MalformedMessage``."""
    batch = bytearray(struct.pack(">qiib", 0, len(body), -1, 2) + body[5:])
    with suppress(MalformedMessage):
        list(read_batches(seal(batch)))

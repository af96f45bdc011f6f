"""Batches of records in the format of Kafka 0.11 and later, without compression.

A batch is a header and its records. The checksum is CRC-32C of all bytes after it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from topiarist.adapters.kafka_admin.protocol.messages import MalformedMessage, read_varint, write_varint

# The checksum CRC-32C (RFC 3720, appendix B.4), by the arithmetic of large integers.
#
# Python has no function for it, and a loop over the bytes of a thousand records takes 0.1 s. The checksum is a
# remainder of polynomials with coefficients 0 and 1: ``M(x) * x^32 mod P(x)``. A long ``M`` is made half as long before
# the loop:
#
#     M = high * x^m + low, and so M mod P = (high * (x^m mod P) + low) mod P
#
# The factor ``x^m mod P`` has 32 coefficients, so that the product is the sum (exclusive or) of at most 32 shifts of
# ``high``. Bits are in the order of the bytes: the lowest bit of the first byte is the coefficient of the highest
# power.

_POLYNOMIAL = 0x82F63B78
_ALL_ONES = 0xFFFFFFFF
_WIDTH = 32
_SHORT_BITS = 512
"""The number of bits from which on halving is quicker than the loop."""


def crc32c(data: bytes) -> int:
    """Return the checksum of some bytes."""
    if len(data) * 8 < 2 * _WIDTH:
        return _divide(data, _ALL_ONES) ^ _ALL_ONES
    size, message = len(data) * 8, int.from_bytes(data, "little") ^ _ALL_ONES
    while size > _SHORT_BITS:
        power = (size - 1).bit_length() - 1
        low, high_size = message >> (size - (1 << power)), size - (1 << power)
        high = message & ((1 << high_size) - 1)
        size = max(1 << power, high_size + _WIDTH)
        message = low << (size - (1 << power)) ^ _multiply(high, _power_of_x(power)) << (size - high_size - _WIDTH + 1)
    return _divide(message.to_bytes(size // 8, "little"), 0) ^ _ALL_ONES


def _multiply(value: int, factor: int) -> int:
    product = 0
    for bit in range(_WIDTH):
        if factor >> bit & 1:
            product ^= value << bit
    return product


@cache
def _power_of_x(exponent: int) -> int:
    """Return ``x`` to the power of two to ``exponent``, modulo the polynomial: a square of the one before."""
    if exponent == 0:
        return 1 << (_WIDTH - 2)
    root = _power_of_x(exponent - 1)
    square, factor = 0, root
    for bit in reversed(range(_WIDTH)):
        if root >> bit & 1:
            square ^= factor
        factor = factor >> 1 ^ (_POLYNOMIAL if factor & 1 else 0)
    return square


@cache
def _table() -> tuple[int, ...]:
    found = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
        found.append(byte)
    return tuple(found)


def _divide(data: bytes, remainder: int) -> int:
    table = _table()
    for byte in data:
        remainder = table[(remainder ^ byte) & 255] ^ remainder >> 8
    return remainder


_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH_END, _CRC_OFFSET, _CHECKED_OFFSET = 12, 17, 21
_FORMAT = 2
_COMPRESSION, _TRANSACTIONAL, _CONTROL = 0x07, 0x10, 0x20
_ABORT = 0


class BatchProducer(NamedTuple):
    """The producer of a batch, and the sequence number of its first record."""

    id: int = -1
    epoch: int = -1
    sequence: int = -1


NONE = BatchProducer()
"""The producer of records that no transaction has."""


class Record(NamedTuple):
    """One record."""

    offset: int
    key: bytes | None
    value: bytes | None


class Batch(NamedTuple):
    """A batch. ``is_abort`` is true for the mark that ends a transaction without its records."""

    base_offset: int
    next_offset: int
    producer_id: int
    is_transactional: bool
    is_control: bool
    is_abort: bool
    records: tuple[Record, ...]


def build_batch(
    records: Iterable[tuple[bytes | None, bytes | None]],
    time_ms: int,
    producer: BatchProducer = NONE,
    *,
    is_transactional: bool = False,
) -> bytes:
    """Return a batch of keys and values, all of the same time."""
    body, count = bytearray(), 0
    for key, value in records:
        content = bytearray(b"\0")  # the attributes: none is in use
        _append_signed(content, 0)  # the time after that of the batch
        _append_signed(content, count)
        for part in (key, value):
            _append_signed(content, -1 if part is None else len(part))
            content += part or b""
        _append_signed(content, 0)  # headers
        _append_signed(body, len(content))
        body += content
        count += 1
    attributes = _TRANSACTIONAL if is_transactional else 0
    size = _HEADER.size - _LENGTH_END + len(body)
    head = _HEADER.pack(0, size, -1, _FORMAT, 0, attributes, count - 1, time_ms, time_ms, *producer, count)
    checked = head[_CHECKED_OFFSET:] + bytes(body)
    return head[:_CRC_OFFSET] + crc32c(checked).to_bytes(4, "big") + checked


def read_batches(data: bytes) -> Iterator[Batch]:
    """Yield the whole batches of an answer, which may end within one. Raises ``MalformedMessage``."""
    start = 0
    while start + _LENGTH_END <= len(data):
        size = size_of_batch(data, start)
        if start + size > len(data):
            return
        yield _read_batch(data[start : start + size])
        start += size


def size_of_batch(data: bytes, start: int) -> int:
    """Return the size in bytes of the batch that begins at ``start``, by its own length."""
    return _LENGTH_END + int.from_bytes(data[start + 8 : start + _LENGTH_END], "big")


def has_valid_checksum(batch: bytes) -> bool:
    """Return whether the checksum of a batch is that of its bytes."""
    found = int.from_bytes(batch[_CRC_OFFSET:_CHECKED_OFFSET], "big")
    return found == crc32c(batch[_CHECKED_OFFSET:])


def _read_batch(data: bytes) -> Batch:
    if len(data) < _HEADER.size:
        raise MalformedMessage("a batch with a wrong length")
    base, _, _, layout, _, attributes, last, *_, producer_id, _, _, count = _HEADER.unpack_from(data)
    if layout != _FORMAT or not has_valid_checksum(data):
        raise MalformedMessage("a batch with a wrong checksum or of an old format")
    if attributes & _COMPRESSION:
        raise MalformedMessage("a compressed batch; set compression.type=uncompressed on the topic")
    try:
        records = tuple(_read_records(data, base, count))
    except IndexError:
        raise MalformedMessage("a record with a wrong length") from None
    is_control = bool(attributes & _CONTROL)
    is_abort = is_control and bool(records) and (records[0].key or b"")[2:4] == _ABORT.to_bytes(2, "big")
    return Batch(base, base + last + 1, producer_id, bool(attributes & _TRANSACTIONAL), is_control, is_abort, records)


def _read_records(data: bytes, base: int, count: int) -> Iterator[Record]:
    at = _HEADER.size
    for _ in range(count):
        size, start = _read_signed(data, at)
        _, at = _read_signed(data, start + 1)  # the time, after the attributes
        delta, at = _read_signed(data, at)
        key, at = _read_bytes(data, at)
        value, at = _read_bytes(data, at)
        headers, at = _read_signed(data, at)
        for _ in range(headers):
            _, at = _read_bytes(data, at)
            _, at = _read_bytes(data, at)
        if at != start + size:
            raise MalformedMessage("a record with a wrong length")
        yield Record(base + delta, key, value)
    if at != len(data):
        raise MalformedMessage("bytes follow the last record of a batch")


def _read_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _read_signed(data, at)
    if size < 0:
        return None, at
    if at + size > len(data):
        raise MalformedMessage("a record ends after its batch")
    return data[at : at + size], at + size


def _read_signed(data: bytes, at: int) -> tuple[int, int]:
    """Return a number with its sign in the lowest bit, and the position after it."""
    value, at = read_varint(data, at, most=10)
    return (value >> 1) ^ -(value & 1), at


def _append_signed(out: bytearray, value: int) -> None:
    write_varint(out, (value << 1) ^ (value >> 63))

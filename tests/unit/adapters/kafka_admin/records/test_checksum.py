"""The checksum of a batch as kafka-python builds it, and that of a batch with one other bit."""

from __future__ import annotations

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from topiarist.adapters.kafka_admin.records.transactions import has_valid_checksum, size_of_batch


@pytest.mark.parametrize("count", [1, 200])
def test_a_batch_with_one_other_bit_has_another_checksum(count: int) -> None:
    """Every byte that the checksum covers counts, at the beginning, in the middle and at the end."""
    builder = DefaultRecordBatchBuilder(2, 0, True, 7, 1, 0, 1 << 20)
    for number in range(count):
        builder.append(number, 1_700_000_000_000, b"topic/orders-%d" % number, b"x" * 100, [])
    batch = bytes(builder.build())
    assert size_of_batch(b"12345" + batch, 5) == len(batch)
    assert has_valid_checksum(batch)
    for position in (21, len(batch) // 2, len(batch) - 1):
        changed = bytearray(batch)
        changed[position] ^= 1
        assert not has_valid_checksum(bytes(changed))

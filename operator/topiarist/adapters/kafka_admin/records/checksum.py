"""The checksum of a record batch, CRC-32C, by a library in C: in Python it takes longer than all requests of a plan."""

from __future__ import annotations

from google_crc32c import value as crc32c

LOG_OVERHEAD_BYTES = 12
"""The bytes of a batch that its length does not count: its base offset, and the length itself."""

_CRC_OFFSET, _CHECKED_OFFSET = 17, 21


def size_of_batch(data: bytes, start: int) -> int:
    """Return the size in bytes of the batch that begins at ``start``, by its own length."""
    return LOG_OVERHEAD_BYTES + int.from_bytes(data[start + 8 : start + LOG_OVERHEAD_BYTES], "big")


def has_valid_checksum(batch: bytes) -> bool:
    """Return whether the checksum of a batch of format 2 is that of its bytes."""
    found = int.from_bytes(batch[_CRC_OFFSET:_CHECKED_OFFSET], "big")
    return found == int(crc32c(batch[_CHECKED_OFFSET:]))

"""The checksum CRC-32C (RFC 3720, appendix B.4), by the arithmetic of large integers.

Python has no function for it, and a loop over the bytes of a thousand records takes 0.1 s. The checksum is a remainder
of polynomials with coefficients 0 and 1: ``M(x) * x^32 mod P(x)``. A long ``M`` is made half as long before the loop:

    M = high * x^m + low, and so M mod P = (high * (x^m mod P) + low) mod P

The factor ``x^m mod P`` has 32 coefficients, so that the product is the sum (exclusive or) of at most 32 shifts of
``high``. Bits are in the order of the bytes: the lowest bit of the first byte is the coefficient of the highest power.
"""

from __future__ import annotations

from functools import cache

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

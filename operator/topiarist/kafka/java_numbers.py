"""Java's parsing of numbers and booleans, where Python's own ``int`` and ``float`` differ.

Kafka's config values and the replica lists of its command line are text that Java parses. Python would accept ``1_000``
and refuse ``0.5f``; this module accepts exactly what Java accepts (tested against Java 17). ``config_values`` and
``explicit_assignment`` are its main callers.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from math import inf, isnan

from topiarist.text import escape

_ASCII_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEXADECIMAL = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")
_NAN_OR_INFINITY = re.compile(r"[+-]?(?:NaN|Infinity)")
_TRIMMED_CHARACTERS = "".join(map(chr, range(0x21)))
_TOO_MANY_DIGITS = 20
"""A number of significant digits that no 64-bit number has."""


def java_trim(text: str) -> str:
    """Trim text as ``String.trim`` does: remove all characters up to U+0020 from both ends, and no other blanks."""
    return text.strip(_TRIMMED_CHARACTERS)


def java_split(text: str, separator: str) -> list[str]:
    """Split text as ``String.split`` does without a limit.

    Empty parts at the end are dropped, but empty text is one empty part.
    """
    parts = text.split(separator)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [] if parts == [""] and text else parts


def parse_integer(text: str, *, limit: int) -> int:
    """Parse an integer as ``Integer.parseInt`` or ``Long.parseLong`` does: an optional sign and digits of any script.

    The value must be in the range ``-limit - 1`` to ``limit``. Raises ``ValueError`` with the found and the wanted
    value.
    """
    plain = text if _ASCII_INTEGER.fullmatch(text) else _to_ascii_digits(text)
    digits = plain.lstrip("+-").lstrip("0") or "0"
    value = int(digits) if len(digits) < _TOO_MANY_DIGITS else limit + 2
    value = -value if plain.startswith("-") else value
    if not -limit - 1 <= value <= limit:
        raise ValueError(f"found {quote_unless_integer(text)}, wanted {-limit - 1} to {limit}")
    return value


def parse_double(text: str) -> float:
    """Parse a number as ``Double.parseDouble`` does.

    Accepts decimal and hexadecimal numbers with an optional type suffix, ``NaN`` and ``Infinity``. Raises
    ``ValueError`` with the found value.
    """
    plain = java_trim(text)
    body = plain[:-1] if plain[-1:] in ("f", "F", "d", "D") else plain
    if _DECIMAL.fullmatch(body) or _NAN_OR_INFINITY.fullmatch(plain):
        return float(body if _DECIMAL.fullmatch(body) else plain)
    # The letters f and d are hexadecimal digits too, but never in the exponent, which is mandatory.
    if _HEXADECIMAL.fullmatch(body):
        return _parse_hexadecimal(body)
    raise ValueError(f"found {quote_unless_integer(text)}, wanted a number")


def parse_boolean(text: str) -> bool:
    """Parse ``true`` or ``false`` in any case, as Java does.

    Java converts each character to upper case, then to lower case, so U+017F equals ``s``. Raises ``ValueError`` with
    the found value.
    """
    folded = "".join(character.upper().lower() for character in text)
    if len(folded) != len(text) or folded not in ("true", "false"):
        raise ValueError(f"found {quote_unless_integer(text)}, wanted true or false")
    return folded == "true"


def format_double(value: float) -> str:
    """Format a number as ``Double.toString`` does: ``1.0``, ``0.001``, ``1.0E-4``, ``NaN``."""
    if isnan(value):
        return "NaN"
    if value in (inf, -inf):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    number = Decimal(repr(value)).normalize()
    first, *others = number.as_tuple().digits
    return f"{'-' if value < 0 else ''}{first}.{''.join(map(str, others)) or '0'}E{number.adjusted()}"


def _to_ascii_digits(text: str) -> str:
    sign, digits = (text[:1], text[1:]) if text[:1] in ("+", "-") else ("", text)
    # Java reads 16-bit units, so it does not accept digits beyond the basic plane.
    values = [unicodedata.decimal(digit, -1) if digit <= "\uffff" else -1 for digit in digits]
    if not values or -1 in values:
        raise ValueError(f"found {quote_unless_integer(text)}, wanted a whole number")
    return sign + "".join(map(str, values))


def _parse_hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return -inf if text.startswith("-") else inf


def quote_unless_integer(text: str) -> str:
    """Return text for a message: an integer unchanged, other text in quotes, long text shortened."""
    if len(text) > 60:
        return f"{escape(text[:40])}... ({len(text)} characters)"
    return text if _ASCII_INTEGER.fullmatch(text) else escape(text)

"""Values as manifests have them: the text that Kafka keeps in their place, and how a message may show them.

Manifests may write a config value as text, number or boolean; Kafka stores text. ``spec`` calls ``config_text`` when it
merges, so that everything after it compares text with text. What a text means to Kafka is the business of ``configs``.
"""

from __future__ import annotations

import re
from decimal import Decimal

from topiarist.core.javatext import trim
from topiarist.core.quoting import quoted, shown

__all__ = ["Scalar", "config_text", "quoted", "scalar", "shown"]

Scalar = str | int | bool | Decimal
"""What a manifest may give for a config value; a fraction is a ``Decimal`` so that it keeps its digits."""

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_FRACTION = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+")


def config_text(value: Scalar) -> str:
    """Kafka's text of a value: ``true`` or ``false``, all digits of a number, text without blanks at its ends.

    Text is trimmed as Java does it (everything up to U+0020). A fraction keeps the digits that were written: ``0.50``
    does not become ``0.5``, and none gets an exponent.
    """
    if isinstance(value, str):
        return trim(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else format(value, "f")


def scalar(text: str) -> Scalar:
    """The way back: the truth value, whole number or fraction whose ``config_text`` is ``text``, else the text itself.

    Only what every reader of YAML and JSON keeps: whole numbers of 64 bits, and fractions that a float can hold.
    """
    if text in ("true", "false"):
        return text == "true"
    if _INTEGER.fullmatch(text):
        return int(text) if -(2**63) <= int(text) < 2**63 else text
    if _FRACTION.fullmatch(text) and Decimal(repr(float(text))) == Decimal(text):
        return text if text.startswith("-") and not float(text) else Decimal(text)
    return text

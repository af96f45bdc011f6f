"""What an unquoted scalar means, if it has one meaning: the rule that keeps git and kubectl from reading a file twice.

YAML 1.1, YAML 1.2 and the Go library inside kubectl disagree about what text without quotes is: ``010`` is 8 or 10,
``yes`` is true or text, ``12:30:45`` is text or 45045. Here such text has no meaning at all, only an ``Ambiguous``
error that says "quote it". Used by ``strict`` (fast, stops at the first) and ``thorough`` (finds them all).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Generic, TypeVar

from topiarist.kafka.config_values import Scalar
from topiarist.text import quote

T = TypeVar("T")

_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_FRACTION = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+")
_MAX_INTEGER_LENGTH = len(str(-(2**63)))
_NUMERIC_STARTS = frozenset("+-.0123456789")


def _case_variants(*words: str) -> set[str]:
    return {spelling for word in words for spelling in (word, word.capitalize(), word.upper())}


_NULL_WORDS = _case_variants("null") | {"~"}
_RESERVED_WORDS = _case_variants("true", "false", "yes", "no", "on", "off", "y", "n") | _NULL_WORDS | {"", "=", "<<"}

# Everything numeric is matched after taking out underscores, as kubectl does: it is a superset of YAML 1.1 and 1.2.
# A digit fits one place of a pattern only: a scalar may have millions, and where they can be shared out between two
# places all the ways to do so are tried.
_NUMBER_FORMS = (
    (re.compile(r"[-+]?0[bB][-+]?[01]+|[-+]?0[oO][-+]?[0-7]+"), "a number in another base"),
    (re.compile(r"[-+]?0[xX][0-9a-fA-F]*(?:\.[0-9a-fA-F]*)?(?:[pP][-+]?[0-9]+)?"), "a number in another base"),
    (re.compile(r"[-+]?[0-9]+"), "a number with a sign, a leading zero or underscores"),
    (re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]*)(?:[eE][-+]?[0-9]+)?"), "a number in an unusual form"),
    (re.compile(r"[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?"), "a number to the base of 60"),
    (re.compile(r"[-+]?\.?(?i:inf|infinity|nan)"), "infinity or not-a-number"),
)
_ANY_NUMBER = re.compile("|".join(f"(?:{pattern.pattern})" for pattern, _ in _NUMBER_FORMS))
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"(?:(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]*)?(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::?[0-9]{2})?))?)?"
)


class AmbiguousScalar(ValueError):
    """Text without quotes that YAML versions read differently, or as nothing; has a message and what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def parse_plain_scalar(text: str) -> Scalar:
    """What an unquoted scalar means to every YAML version: text, an integer, a fraction, or a boolean.

    Integers fit 64 bits and fractions a float, since kubectl cannot carry more without quotes. Raises ``Ambiguous``.
    """
    if text[:1] in _NUMERIC_STARTS:
        return _parse_number(text)
    if text not in _RESERVED_WORDS:
        return text
    if text in ("true", "false"):
        return text == "true"
    raise _reserved_word_error(text)


def parse_plain_key(text: str) -> str:
    """What an unquoted key means: its text, also where it looks like a number. Raises ``Ambiguous``.

    A fraction is refused: kubectl would make ``1.5`` of the key ``1.50``.
    """
    if isinstance(parse_plain_scalar(text), Decimal):
        raise _quoting_error(text, "a number")
    return text


def _parse_number(text: str) -> Scalar:
    if _INTEGER.fullmatch(text):
        if len(text) > _MAX_INTEGER_LENGTH or not -(2**63) <= int(text) < 2**63:
            raise _quoting_error(text, "a number of more than 64 bits, which kubectl rounds")
        return int(text)
    if _FRACTION.fullmatch(text):
        return _parse_fraction(text)
    bare = text.replace("_", "")
    if _ANY_NUMBER.fullmatch(bare):
        what = next(what for pattern, what in _NUMBER_FORMS if pattern.fullmatch(bare))
        raise _quoting_error(text, what, "write the number plainly")
    if _DATE.fullmatch(text):
        raise _quoting_error(text, "a date")
    return text


def _parse_fraction(text: str) -> Decimal:
    value = Decimal(text)
    if value != Decimal(repr(float(text))):
        raise _quoting_error(text, "a number of more digits than kubectl keeps")
    if not value and text.startswith("-"):
        raise _quoting_error(text, "a negative zero")
    return value


def _quoting_error(text: str, description: str, alternative: str = "") -> AmbiguousScalar:
    shown = quote(text)
    message = f"found {shown[1:-1]} without quotes, {description}: YAML versions differ on it"
    return AmbiguousScalar(message, f"quote it: {shown}" + (f", or {alternative}" if alternative else ""))


def _reserved_word_error(text: str) -> AmbiguousScalar:
    if text == "":
        return AmbiguousScalar("found no value", 'write one, or leave the line out; empty text is ""')
    if text in _NULL_WORDS:
        return AmbiguousScalar(f"found {text}, which is no value", f'leave the line out, or quote it: "{text}"')
    if text == "<<":
        return AmbiguousScalar("found the merge key <<", 'write the fields out, or quote it: "<<"')
    if text == "=":
        return _quoting_error(text, "a special value")
    return _quoting_error(text, "true or false to some", "write true or false")


class ScalarCache(dict[str, T], Generic[T]):
    """Remembers what scalars mean: manifests repeat themselves. A new one is worked out, or raises ``Ambiguous``.

    Bounded, so that a hostile file cannot fill the memory through it.
    """

    MAX_SIZE = 50_000
    MAX_TEXT_LENGTH = 64

    def __init__(self, parse: Callable[[str], T]) -> None:
        super().__init__()
        self._parse = parse

    def __missing__(self, text: str) -> T:
        value = self._parse(text)
        if len(text) <= self.MAX_TEXT_LENGTH and len(self) < self.MAX_SIZE:
            self[text] = value
        return value

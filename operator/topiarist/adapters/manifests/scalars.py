"""Meaning of unquoted scalars: one meaning in every YAML version, or an error.

YAML 1.1, YAML 1.2 and the Go library inside kubectl read unquoted text differently: ``010`` is 8 or 10, ``yes`` is true
or text, ``12:30:45`` is text or 45045. Such text is an ``AmbiguousScalar`` error with the hint to quote it, so that
topiarist and kubectl never read one file differently. Used by ``parser`` (fast, stops at the first error) and
``diagnose`` (reports all).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Generic, TypeVar

from topiarist.kafka.config_values import PLAIN_FRACTION, PLAIN_INTEGER, Scalar, to_scalar
from topiarist.text import quote

T = TypeVar("T")

_NUMERIC_STARTS = frozenset("+-.0123456789")


def _case_variants(*words: str) -> set[str]:
    return {spelling for word in words for spelling in (word, word.capitalize(), word.upper())}


NULL_WORDS = _case_variants("null") | {"~", ""}
"""Unquoted text that means no value in every YAML version."""

_RESERVED_WORDS = _case_variants("true", "false", "yes", "no", "on", "off", "y", "n") | NULL_WORDS | {"=", "<<"}

# Numbers are matched after underscores are removed, as kubectl does: this is a superset of YAML 1.1 and 1.2.
# In each pattern a digit can match in one place only. A scalar may have millions of digits, and with two possible
# places the regular expression would try every split between them.
_NUMBER_FORMS = (
    (re.compile(r"[-+]?0[bB][-+]?[01]+|[-+]?0[oO][-+]?[0-7]+"), "a number in another base"),
    (re.compile(r"[-+]?0[xX][0-9a-fA-F]*(?:\.[0-9a-fA-F]*)?(?:[pP][-+]?[0-9]+)?"), "a number in another base"),
    (re.compile(r"[-+]?[0-9]+"), "a number with a sign, a leading zero or underscores"),
    (re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]*)(?:[eE][-+]?[0-9]+)?"), "a number in an unusual form"),
    (re.compile(r"[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?"), "a number in base 60"),
    (re.compile(r"[-+]?\.?(?i:inf|infinity|nan)"), "infinity or not-a-number"),
)
_ANY_NUMBER = re.compile("|".join(f"(?:{pattern.pattern})" for pattern, _ in _NUMBER_FORMS))
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"(?:(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]*)?(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::?[0-9]{2})?))?)?"
)


class AmbiguousScalar(ValueError):
    """Unquoted text that YAML versions read differently, or as nothing; has a message and a hint."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def parse_plain_scalar(text: str) -> Scalar:
    """Return the value of an unquoted scalar: text, an integer, a fraction, or a boolean.

    Integers fit 64 bits and fractions a float, because kubectl cannot carry more without quotes. Raises
    ``AmbiguousScalar`` for text that YAML versions read differently.
    """
    if text[:1] in _NUMERIC_STARTS:
        return _parse_number(text)
    if text not in _RESERVED_WORDS:
        return text
    if text in ("true", "false"):
        return text == "true"
    raise _reserved_word_error(text)


def parse_plain_key(text: str) -> str:
    """Return the text of an unquoted key, also of a key that looks like an integer.

    Raises ``AmbiguousScalar``, also for a fraction: kubectl would change the key ``1.50`` to ``1.5``.
    """
    if isinstance(parse_plain_scalar(text), Decimal):
        raise _quoting_error(text, "a number")
    return text


def _parse_number(text: str) -> Scalar:
    value = to_scalar(text)
    if not isinstance(value, str):
        return value
    if PLAIN_INTEGER.fullmatch(text):
        raise _quoting_error(text, "a number of more than 64 bits, which kubectl rounds")
    if PLAIN_FRACTION.fullmatch(text):
        is_zero = text.startswith("-") and not Decimal(text)
        raise _quoting_error(text, "a negative zero" if is_zero else "a number of more digits than kubectl keeps")
    bare = text.replace("_", "")
    if _ANY_NUMBER.fullmatch(bare):
        description = next(description for pattern, description in _NUMBER_FORMS if pattern.fullmatch(bare))
        raise _quoting_error(text, description, "write a plain decimal number")
    if _DATE.fullmatch(text):
        raise _quoting_error(text, "a date")
    return text


def _quoting_error(text: str, description: str, alternative: str = "") -> AmbiguousScalar:
    shown = quote(text)
    message = f"found {shown[1:-1]} without quotes, {description}: YAML versions read it differently"
    return AmbiguousScalar(message, f"quote it: {shown}" + (f", or {alternative}" if alternative else ""))


def _reserved_word_error(text: str) -> AmbiguousScalar:
    if text == "":
        return AmbiguousScalar("found no value", 'write one, or remove the line; empty text is ""')
    if text in NULL_WORDS:
        return AmbiguousScalar(f"found {text}, which means no value", f'remove the line, or quote it: "{text}"')
    if text == "<<":
        return AmbiguousScalar("found the merge key <<", 'write the fields out, or quote it: "<<"')
    if text == "=":
        return _quoting_error(text, "a special value")
    return _quoting_error(text, "a boolean in some YAML versions", "write true or false")


class ScalarCache(dict[str, T], Generic[T]):
    """A cache of parsed scalars, because manifests repeat them; raises ``AmbiguousScalar`` for a new one.

    Bounded, so that a hostile file cannot fill the memory.
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

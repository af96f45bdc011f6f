"""Strict JSON of files: each rule that standard JSON lacks."""

from __future__ import annotations

import pytest

from topiarist.adapters.own_values import JsonError, decode_json

INVALID = {
    "nothing": (b"", "found invalid JSON at column 1 (Expecting value)"),
    "a second line": (b'{"a":\n}', "found invalid JSON at line 2, column 1"),
    "text after the document": (b"{} {}", "found invalid JSON at column 4 (Extra data)"),
    "a byte that is not UTF-8": (b'{"a": "\xff"}', "found the byte 0xff at byte 8, not UTF-8"),
    "a lone surrogate": (b'{"a": "\\ud800"}', "found half of a character (a lone surrogate)"),
    "a duplicate key": (b'{"a": {"b": 1, "b": 1}}', "found a duplicate key in an object"),
    "a fraction": (b"[1.0]", 'found the number "1.0", wanted only integers'),
    "an exponent": (b"[1e3]", 'found the number "1e3", wanted only integers'),
    "no number": (b"[NaN]", 'found the number "NaN", wanted only integers'),
    "a long number": (b"9" * 5000, "found a number with too many digits"),
    "deep nesting": (b"[" * 100_000, "found JSON that is nested too deeply"),
}


@pytest.mark.parametrize(("data", "message"), INVALID.values(), ids=INVALID.keys())
def test_invalid_json(data: bytes, message: str) -> None:
    """Each error names the invalid content."""
    with pytest.raises(JsonError) as caught:
        decode_json(data)
    assert message in str(caught.value)


def test_valid_json() -> None:
    """Values of every type are decoded, with escapes, and integers of any size unless ``parse_int`` rejects them."""
    data = b'{"a": [1, -2, true, null, "\\u00e9 \\ud83d\\ude00"], "b": 99999999999999999999}'
    assert decode_json(data) == {"a": [1, -2, True, None, "\u00e9 \U0001f600"], "b": 10**20 - 1}


def test_integers_are_parsed_by_the_caller() -> None:
    """An exception of ``parse_int`` reaches the caller unchanged."""

    def reject(digits: str) -> int:
        raise JsonError(f"found {digits}")

    with pytest.raises(JsonError, match=r"^found 5$"):
        decode_json(b"[5]", reject)

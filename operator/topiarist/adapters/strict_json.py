"""Strict JSON for files: valid UTF-8, no duplicate keys, no fractions, no lone surrogates.

``saved_plans`` and ``snapshots`` decode their files with it. ``zookeeper.codec`` has a decoder of its own, because
znodes follow the rules of Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NoReturn

from topiarist.text import quote


class JsonError(ValueError):
    """JSON that topiarist never writes; the message says what was found."""


def decode_json(data: bytes, parse_int: Callable[[str], int] = int) -> Any:
    """Decode a JSON document; raise ``JsonError`` if it is not strict JSON.

    ``parse_int`` may raise ``JsonError``. The default is the fast one: C code without a call for each number.
    """
    try:
        value = _make_decoder(parse_int).decode(data.decode())
        if b"\\u" in data:  # only an escape can produce a lone surrogate
            json.dumps(value, ensure_ascii=False).encode()
    except JsonError:
        raise
    except UnicodeEncodeError:
        raise JsonError("found half of a character (a lone surrogate)") from None
    except UnicodeDecodeError as error:
        raise JsonError(f"found the byte 0x{data[error.start]:02x} at byte {error.start + 1:,}, not UTF-8") from None
    except json.JSONDecodeError as error:
        line = f"line {error.lineno:,}, " if error.lineno > 1 else ""
        raise JsonError(f"found invalid JSON at {line}column {error.colno:,} ({error.msg})") from None
    except RecursionError:
        raise JsonError("found JSON that is nested too deeply") from None
    except ValueError:  # CPython's limit on the digits of an integer
        raise JsonError("found a number with too many digits") from None
    return value


def _reject_duplicate_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise JsonError("found a duplicate key in an object")
    return fields


def _reject_number(text: str) -> NoReturn:
    raise JsonError(f"found the number {quote(text)}, wanted only integers")


@cache
def _make_decoder(parse_int: Callable[[str], int]) -> json.JSONDecoder:
    return json.JSONDecoder(
        parse_int=parse_int,
        parse_float=_reject_number,
        parse_constant=_reject_number,
        object_pairs_hook=_reject_duplicate_keys,
    )

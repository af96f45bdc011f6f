"""Mutations that keep the format, so that parsers do not reject most inputs at once.

In JSON and JSON lines, values are replaced and removed; in any text, tokens or the text between two brackets are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import count
from random import Random
from typing import Any

from fuzz.limits import REPEATED_INPUT_BYTES

ByteMutator = Callable[[bytes, int], bytes]
"""Some other mutation of bytes, to at most so many."""

_UNUSUAL_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    0.5,
    2**31,
    2**63,
    "",
    "x",
    "\u202e",
    "\ud800",
    [],
    {},
    [[]],
    {"": []},
)
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9]+|[a-zA-Z_.]+|\s+|.', re.DOTALL)
_OPENING, _CLOSING = b"[{(", b"]})"


def mutate(other: ByteMutator, data: bytes, size: int, seed: int) -> bytes:
    """Return an input of at most ``size`` bytes with values or tokens replaced, or with the other mutation."""
    random = Random(seed)
    match random.randrange(3):
        case 0:
            return other(data, size)
        case 1:
            return (_mutate_values(data, random) or _mutate_tokens(other, data, random))[:size]
        case _:
            return _mutate_tokens(other, data, random)[:size]


def _mutate_values(data: bytes, random: Random) -> bytes:
    """Return JSON, or one line that is JSON, with other values; empty if there is none."""
    lines = data.split(b"\n")
    at = random.randrange(len(lines))
    for begin, end in ((0, len(lines)), (at, at + 1)):
        try:
            body = [json.loads(b"\n".join(lines[begin:end]))]
        except (ValueError, RecursionError):
            continue
        for _ in range(random.choice((1, 1, 2, 4))):
            _exchange_value(body, random)
        return b"\n".join((*lines[:begin], json.dumps(body[0], separators=(",", ":")).encode(), *lines[end:]))
    return b""


def _exchange_value(body: list[Any], random: Random) -> None:
    places = list(_value_slots(body))
    holder, key = random.choice(places)
    giver, from_key = random.choice(places)
    value = holder[key]
    match random.randrange(5):
        case 0 if holder is not body:
            del holder[key]
        case 1 if isinstance(value, int):
            holder[key] = value + random.choice((-1, 1, 7))
        case 1 if isinstance(value, list):
            value.insert(0, deepcopy(giver[from_key]))
        case 1 if isinstance(value, dict):
            value[random.choice((str(from_key), "x"))] = deepcopy(giver[from_key])
        case 2:
            holder[key] = deepcopy(random.choice(_UNUSUAL_VALUES))
        case _:
            holder[key] = deepcopy(giver[from_key])


def _value_slots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Return every container of values and the position in it."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _value_slots(value[key])


def _mutate_tokens(other: ByteMutator, data: bytes, random: Random) -> bytes:
    tokens = _TOKEN.findall(data)
    for _ in range(random.choice((1, 1, 2, 4))):
        begin, end = _token_range(tokens, random)
        source, upto = _token_range(tokens, random)
        piece = tokens[source:upto]
        match random.randrange(4):
            case 0:
                tokens[begin:end] = []
            case 1:
                tokens[begin:end] = piece
            case 2:
                tokens[begin:begin] = piece
            case _:
                tokens[begin:end] = [other(b"".join(tokens[begin:end]) or b"0", 64)]
    return b"".join(tokens)


def _token_range(tokens: list[bytes], random: Random) -> tuple[int, int]:
    """Return the range of a random token, or of the text in brackets if the token is a bracket."""
    begin = end = random.randrange(len(tokens) + 1)
    depth = 0
    while end < len(tokens):
        depth += (tokens[end] in _OPENING) - (tokens[end] in _CLOSING)
        end += 1
        if depth <= 0:
            break
    return begin, end


def repeat_piece(data: bytes, random: Random) -> bytes:
    """Return an input with one piece repeated until it is large; half of the time a number in it counts up."""
    cuts = [match.end() for match in re.finditer(rb"[,\n]", data)] if random.random() < 0.7 else []
    begin, end = sorted(random.choice(cuts) if len(cuts) > 1 else random.randint(0, len(data)) for _ in range(2))
    piece = data[begin:end] or data[begin : begin + 1] or b" "
    times = max(1, (REPEATED_INPUT_BYTES - len(data)) // len(piece))
    numbers = count(1)
    number = re.search(rb"\d+", piece) if random.random() < 0.5 else None
    if number:
        head, tail = piece[: number.start()], piece[number.end() :]
        middle = b"".join(b"%s%d%s" % (head, next(numbers), tail) for _ in range(times))
    else:
        middle = piece * times
    return data[:begin] + middle + data[end:]

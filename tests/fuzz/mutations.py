"""Mutations that keep the form: tokens, or all between two brackets, replaced, doubled, moved or left out."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count
from random import Random

from fuzz.limits import LARGE

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9]+|[a-zA-Z_.]+|\s+|.', re.DOTALL)
_OTHERS = (b"null", b"true", b"-1", b"[]", b"{}", b'""', b"0.5", b"2147483648")
_OPENING, _CLOSING = b"[{(", b"]})"


def mutated(other: Callable[[bytes, int], bytes], data: bytes, size: int, seed: int) -> bytes:
    """An input with a token, or all between two brackets, replaced, doubled, moved or left out."""
    random = Random(seed)
    tokens = _TOKEN.findall(data) if random.random() < 0.5 else []
    if not tokens:
        return other(data, size)
    for _ in range(random.choice((1, 1, 2, 4))):
        begin, end = _part(tokens, random)
        source, upto = _part(tokens, random)
        piece = tokens[source:upto]
        match random.randrange(5):
            case 0:
                tokens[begin:end] = []
            case 1:
                tokens[begin:end] = piece
            case 2:
                tokens[begin:begin] = piece
            case 3:
                tokens[begin:end] = [other(b"".join(tokens[begin:end]) or b"0", 64)]
            case _:
                tokens[begin:end] = [random.choice(_OTHERS)]
        tokens = tokens or [b"0"]
    return b"".join(tokens)[:size]


def _part(tokens: list[bytes], random: Random) -> tuple[int, int]:
    """Where a random token begins and ends, or what a bracket encloses if it is one."""
    begin = end = random.randrange(len(tokens) + 1)
    depth = 0
    while end < len(tokens):
        depth += (tokens[end] in _OPENING) - (tokens[end] in _CLOSING)
        end += 1
        if depth <= 0:
            break
    return begin, end


def repeated(data: bytes, random: Random) -> bytes:
    """An input with one piece of it repeated until it is large; half of the time a number in it counts up."""
    cuts = [match.end() for match in re.finditer(rb"[,\n]", data)] if random.random() < 0.7 else []
    begin, end = sorted(random.choice(cuts) if len(cuts) > 1 else random.randint(0, len(data)) for _ in range(2))
    piece = data[begin:end] or data[begin : begin + 1] or b" "
    times = max(1, (LARGE - len(data)) // len(piece))
    numbers = count(1)
    number = re.search(rb"\d+", piece) if random.random() < 0.5 else None
    if number:
        head, tail = piece[: number.start()], piece[number.end() :]
        middle = b"".join(b"%s%d%s" % (head, next(numbers), tail) for _ in range(times))
    else:
        middle = piece * times
    return data[:begin] + middle + data[end:]

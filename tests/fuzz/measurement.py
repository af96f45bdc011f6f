"""The measuring process, without instrumentation: minimizes finds and searches for slow inputs.

It measures the slowest inputs of the fuzzing process, and other inputs with a piece repeated until they are large.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from fuzz.harness import signature
from fuzz.limits import MAX_MEMORY_BYTES, REPEATED_INPUT_BYTES, cpu_limit_s
from fuzz.mutations import repeat_piece

if TYPE_CHECKING:
    from fuzz.targets import Target


def measure(name: str, folder: Path, seconds: int, seed: int) -> None:
    """Minimize finds and search for slow inputs, for so many seconds; print the slowest ones."""
    target: Target = import_module("fuzz.targets").TARGETS[name]
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    ends = time.monotonic() + seconds
    for find in sorted((folder / "finds").glob("*.txt")):
        small = minimize(
            find.with_suffix("").read_bytes(), find.stem, partial(_record_and_read, folder, target.check), ends
        )
        find.with_suffix("").write_bytes(small)
    worst, measured = (0.0, 0), 0
    for data in _inputs_to_measure(folder, Random(seed)):
        if time.monotonic() > ends:
            break
        spent, measured = (
            max(_cpu_seconds(partial(_record_and_read, folder, read), data) for read in target.readers),
            measured + 1,
        )
        if spent > cpu_limit_s(len(data)):
            find = folder / "finds" / f"slow-{sha256(data).hexdigest()[:12]}"
            find.write_bytes(data)
            find.with_name(f"{find.name}.txt").write_text(f"{spent:.3f} s for {len(data):,} bytes\n")
        if len(data) >= REPEATED_INPUT_BYTES // 2:
            worst = max(worst, (spent / len(data) * 1e6, len(data)))
    print(f"measured={measured} worst={worst[0]:.3f}")


def _record_and_read(folder: Path, read: Callable[[bytes], object], data: bytes) -> None:
    """Write the input to a file, as while fuzzing, and read it."""
    (folder / "current").write_bytes(len(data).to_bytes(8, "big") + data)
    read(data)


def _inputs_to_measure(folder: Path, random: Random) -> Iterator[bytes]:
    """Return the slowest inputs unchanged, then random inputs with a piece of them repeated."""
    for path in (folder / "slow").iterdir():
        yield path.read_bytes()
    files = sorted([*(folder / "corpus").iterdir(), *(folder / "seeds").iterdir(), *(folder / "slow").iterdir()])
    while files:
        yield repeat_piece(random.choice(files).read_bytes(), random)


def _cpu_seconds(read: Callable[[bytes], object], data: bytes) -> float:
    """Return the CPU seconds of reading; the minimum of three if the first value exceeds the limit."""
    limit = cpu_limit_s(len(data))
    least = limit * 1000
    for _ in range(3):
        began = time.process_time()
        read(data)
        least = min(least, time.process_time() - began)
        if least <= limit:
            break
    return least


def minimize(data: bytes, name: str, check: Callable[[bytes], object], ends: float) -> bytes:
    """Return a smaller input with the same find, by removing ever shorter pieces."""
    length = len(data) // 2
    while length and time.monotonic() < ends:
        at = 0
        while at < len(data) and time.monotonic() < ends:
            less = data[:at] + data[at + length :]
            if _fails_the_same(less, name, check):
                data = less
            else:
                at += length
        length //= 2
    return data


def _fails_the_same(data: bytes, name: str, check: Callable[[bytes], object]) -> bool:
    try:
        check(data)
    except BaseException as error:
        return signature(error) == name
    return False

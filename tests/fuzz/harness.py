"""The fuzzing process: runs the inputs of atheris, keeps those that raise, and continues.

Each input is written to a file before it runs, so that the file has the input if the process crashes.
"""

from __future__ import annotations

import mmap
import resource
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from fuzz.limits import MAX_INPUT_BYTES, MAX_MEMORY_BYTES, ROOT
from fuzz.mutations import mutate

_HARNESS_FILES = ("harness.py", "measurement.py")

MAX_SLOW_INPUTS = 20
"""The slowest inputs that are kept to be measured."""


def fuzz(name: str, folder: Path, seconds: int, seed: int) -> None:
    """Fuzz one target; never returns."""
    import atheris  # only where it is installed: see the Makefile

    with atheris.instrument_imports(include=["topiarist", "yaml"]):
        check = import_module("fuzz.targets").TARGETS[name].check
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    options = [
        *(f"-max_total_time={seconds}", f"-seed={seed}", f"-max_len={MAX_INPUT_BYTES}"),
        # A binary format has no words, and libFuzzer refuses an empty dictionary.
        *([f"-dict={words}"] if (words := folder / "words").stat().st_size else []),
        *("-timeout=120", "-rss_limit_mb=0", "-print_final_stats=1", "-verbosity=1", "-len_control=20"),
        *(f"-artifact_prefix={folder}/libfuzzer-", str(folder / "corpus"), str(folder / "seeds")),
    ]
    trial = FuzzHarness(check, folder)
    atheris.Setup(["fuzz", *options], trial, custom_mutator=lambda *given: mutate(atheris.Mutate, *given))
    atheris.Fuzz()


class FuzzHarness:
    """A harness that runs one input after the other, and keeps those that raise or are slow."""

    def __init__(self, check: Callable[[bytes], object], folder: Path) -> None:
        self._check = check
        self._folder = folder
        self._sizes: dict[str, int] = {}
        self._slow: list[float] = [0.0] * MAX_SLOW_INPUTS
        with (folder / "current").open("w+b") as file:
            file.truncate(MAX_INPUT_BYTES + 8)
            self._current = mmap.mmap(file.fileno(), MAX_INPUT_BYTES + 8)

    def __call__(self, data: bytes) -> None:
        self._current[:8] = len(data).to_bytes(8, "big")
        self._current[8 : 8 + len(data)] = data
        began = time.thread_time()
        try:
            self._check(data)
        except BaseException as error:  # a panic of a Rust library is no Exception
            self._save_find(data, error)
        else:
            self._record_time(data, (time.thread_time() - began) / (len(data) + 4096))
        self._current[:8] = bytes(8)

    def _save_find(self, data: bytes, error: BaseException) -> None:
        """Keep the smallest input that fails at the same place in the same way."""
        name = signature(error)
        if len(data) < self._sizes.get(name, MAX_INPUT_BYTES + 1):
            self._sizes[name] = len(data)
            (self._folder / "finds" / name).write_bytes(data)
            (self._folder / "finds" / f"{name}.txt").write_text("".join(traceback.format_exception(error)))

    def _record_time(self, data: bytes, weight: float) -> None:
        lightest = min(self._slow)
        if weight > lightest:
            place = self._slow.index(lightest)
            self._slow[place] = weight
            (self._folder / "slow" / str(place)).write_bytes(data)


def signature(error: BaseException) -> str:
    """Return the name of a find: the error, its place in topiarist's sources, and the caller of that place.

    The name does not depend on the process that runs the input.
    """
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).name not in _HARNESS_FILES
    ]
    ours = [frame for frame in frames if str(ROOT) in frame.filename] or frames
    places = (f"{Path(frame.filename).parent.name}-{Path(frame.filename).stem}-{frame.lineno}" for frame in ours[-2:])
    return "-".join((type(error).__name__, *places))

"""CPU limits of reading, and the folders of the fuzzer's files."""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CACHE = Path(os.environ.get("TOPIARIST_CACHE") or ROOT / ".cache") / "fuzz"

TARGET_NAMES = ("manifests", "znodes", "plans", "snapshots", "rules", "answers", "overrides", "batches", "records")
"""The targets. The process that starts others for them must not import them: each is imported with instrumentation."""

MAX_MEMORY_BYTES = 1 << 30
"""Bytes of address space that reading may take, the interpreter and the fuzzer's own tables among them."""

MAX_INPUT_BYTES, REPEATED_INPUT_BYTES = 1 << 16, 1 << 18
"""Bytes of an input while fuzzing, and of one that is repeated to be measured."""

SECONDS_PER_MB, BASE_SECONDS = 1.0, 0.25
"""CPU time that reading may take: so much for each MB, and so much in any case (a hundred errors with guesses)."""


def cpu_limit_s(size: int) -> float:
    """Return the CPU seconds that reading so many bytes may take."""
    return BASE_SECONDS + SECONDS_PER_MB * size / 1e6

"""``make fuzz``: run each target for a given time under atheris, and report the finds.

Each target has two processes. The first fuzzes, with the modules of topiarist and PyYAML instrumented: inputs that
raise are kept and fuzzing continues; an input is written to a file before it runs, so that it is kept if the process
crashes. The second process, without instrumentation, minimizes the finds and measures: the slowest inputs, and many of
the others with a piece of them repeated until they are large. Both have a limited address space.

Usage: ``python tests/fuzz/run.py --seconds N [TARGET...]``; the exit code is 1 if there are finds.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import time
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from fuzz import harness, measurement
from fuzz.limits import CACHE, HERE, MAX_INPUT_BYTES, TARGET_NAMES

if TYPE_CHECKING:
    from fuzz.targets import Target

HANG_TIMEOUT_S = 300
"""Seconds that a process may take beyond its time before it is killed: it hangs."""

MAX_CRASHES = 10
"""Deaths of the process after which a target is given up."""


def fuzz_target(name: str, seconds: int) -> int:
    """Fuzz and measure one target; print one line of figures and each find, and return the number of finds."""
    folder = _prepare_folder(name)
    ends, deaths, log = time.monotonic() + seconds, 0, folder / "log"
    log.unlink(missing_ok=True)
    while (left := int(ends - time.monotonic())) > 0 and deaths < MAX_CRASHES:
        deaths += _task_crashed("fuzz", name, folder, left)
    _task_crashed("measure", name, folder, max(10, seconds // 5))
    finds = sorted(path for path in (folder / "finds").iterdir() if path.suffix != ".txt")
    print(f"{name}: {_format_statistics(log.read_text(errors='replace'))}, {len(finds)} finds", flush=True)
    for find in finds:
        words = find.with_name(f"{find.name}.txt")
        said = words.read_text().strip().splitlines()[-1:] if words.exists() else []
        print(f"  {find.relative_to(CACHE)} ({find.stat().st_size:,} bytes): {''.join(said)}"[:200], flush=True)
    return len(finds)


def _prepare_folder(name: str) -> Path:
    """Create the target's folder with its seeds and dictionary, in a separate process that may import the target."""
    folder = CACHE / name
    for part in ("corpus", "seeds", "finds", "slow"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("seeds/*"), *folder.glob("finds/*"), *folder.glob("slow/*"), *folder.glob("libfuzzer-*")):
        old.unlink()
    subprocess.run([sys.executable, __file__, "--as", "prepare", name], check=True)
    return folder


def prepare(name: str, folder: Path, _seconds: int, _seed: int) -> None:
    """Write the seeds, including former finds, and the dictionary of the format."""
    target: Target = import_module("fuzz.targets").TARGETS[name]
    cases = (path.read_bytes() for path in sorted((HERE / "cases" / name).glob("*")))
    for data in (*target.seeds(), *cases):
        if len(data) <= MAX_INPUT_BYTES:
            (folder / "seeds" / _hash(data)).write_bytes(data)
    quoted = ("".join(f"\\x{byte:02x}" for byte in word.encode()) for word in target.tokens.split())
    (folder / "words").write_text("".join(f'"{word}"\n' for word in quoted))


def _task_crashed(task: str, name: str, folder: Path, seconds: int) -> bool:
    """Run a task in a process, and return whether it failed; the last input of a failed process is kept."""
    command = [sys.executable, __file__, "--as", task, "--seconds", str(seconds), name]
    with (folder / "log").open("ab") as log:
        try:
            code = subprocess.run(
                command, stdout=log, stderr=log, timeout=seconds + HANG_TIMEOUT_S, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
    if code == 0:
        return False
    current = (folder / "current").read_bytes()
    data = current[8 : 8 + int.from_bytes(current[:8], "big")]
    find = folder / "finds" / f"died-{_hash(data)}"
    find.write_bytes(data)
    find.with_name(f"{find.name}.txt").write_text(f"{task}: the process ended with {code}; see {folder / 'log'}\n")
    return True


def _format_statistics(log: str) -> str:
    """Return the final figures of libFuzzer and of the measurement."""
    executed = sum(map(int, re.findall(r"number_of_executed_units:\s+(\d+)", log)))
    coverage = max(map(int, re.findall(r"cov: (\d+)", log)), default=0)
    memory = max(map(int, re.findall(r"peak_rss_mb:\s+(\d+)", log)), default=0)
    corpus = max(map(int, re.findall(r"corp: (\d+)", log)), default=0)
    measured = re.search(r"measured=(\d+) worst=([\d.]+)", log)
    slow = f"{measured[1]} measured, at most {measured[2]} s/MB" if measured else "nothing measured"
    return f"{executed:,} executions, coverage {coverage:,}, {corpus:,} inputs kept, {memory} MB, {slow}"


def _hash(data: bytes) -> str:
    return sha256(data).hexdigest()[:12]


TASKS = {"fuzz": harness.fuzz, "measure": measurement.measure, "prepare": prepare}


def main() -> int:
    """Run the given targets, or all; or run a task as one of the child processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--as", dest="task", choices=TASKS, help=argparse.SUPPRESS)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGET_NAMES)}; without any, all")
    given = parser.parse_args()
    if strange := set(given.targets) - set(TARGET_NAMES):
        parser.error(f"found {', '.join(sorted(strange))}, wanted targets of: {', '.join(TARGET_NAMES)}")
    if given.task:
        TASKS[given.task](given.targets[0], CACHE / given.targets[0], given.seconds, time.time_ns() % (1 << 31))
        return 0
    return min(1, sum(fuzz_target(name, given.seconds) for name in given.targets or TARGET_NAMES))


if __name__ == "__main__":
    sys.exit(main())

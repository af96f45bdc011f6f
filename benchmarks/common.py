"""Shared by all benchmarks: medians, whole processes with their memory, and facts about the machine."""

from __future__ import annotations

import compileall
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

RUNS = 5

FULL_JIT = "-XX:TieredStopAtLevel=4"
"""The JVM option for a measured server, as in ZooKeeper's own script; servers of tests use a JVM that starts faster."""

ROOT = Path(__file__).resolve().parent.parent


def compile_package() -> None:
    """Compile the bytecode of the package, as an installation does, so that no measured process compiles it."""
    compileall.compile_dir(ROOT / "operator" / "topiarist", quiet=2)


class ProcessRun(NamedTuple):
    """One finished process: wall-clock seconds, CPU seconds, peak memory in MiB, exit code."""

    seconds: float
    cpu_seconds: float
    peak_mib: float
    exit_code: int


def make_memory_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder in memory, if possible, so that the disk does not affect the figures."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)


def measure_median(measure: Callable[[], float], runs: int = RUNS) -> float:
    """Return the median of several measurements, after a warm-up."""
    measure()
    return statistics.median(measure() for _ in range(runs))


def measure_seconds(work: Callable[[], object]) -> float:
    """Return the seconds that ``work`` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def run_process(command: Sequence[str], expected: int = 0) -> ProcessRun:
    """Run a command and discard its output; raise if its exit code is not ``expected``."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert child.stderr is not None
    errors = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != expected:
        raise RuntimeError(f"{' '.join(command)} ended with {child.returncode}: {errors.decode(errors='replace')}")
    return ProcessRun(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, child.returncode)


def topiarist_command(*words: str) -> list[str]:
    """Return a command line of topiarist with this interpreter."""
    return [sys.executable, "-m", "topiarist", *words]


def summarize_runs(runs: Sequence[ProcessRun]) -> dict[str, float]:
    """Return the median time and CPU, and the highest memory."""
    return {
        "seconds": round(statistics.median(run.seconds for run in runs), 3),
        "cpu_seconds": round(statistics.median(run.cpu_seconds for run in runs), 3),
        "peak_mib": round(max(run.peak_mib for run in runs), 1),
    }


def process_cpu_seconds(pid: int) -> float:
    """Return the CPU seconds that a running process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def describe_machine() -> dict[str, Any]:
    """Return the facts about the machine that belong to every figure."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    return {
        "cpus": os.cpu_count(),
        "cpu": _read_value("/proc/cpuinfo", "model name"),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "java": java.splitlines()[0] if java else "none",
    }


def _read_value(path: str, key: str) -> str:
    for line in Path(path).read_text().splitlines():
        if line.startswith(key):
            return line.partition(":")[2].strip()
    return "unknown"

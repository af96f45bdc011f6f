"""What every benchmark needs: medians, whole processes with their memory, and facts about the machine."""

from __future__ import annotations

import compileall
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

RUNS = 5

FULL_JIT = "-XX:TieredStopAtLevel=4"
"""For the JVM of a server whose work is measured: as ZooKeeper's own script starts it. Those of tests start sooner."""

ROOT = Path(__file__).resolve().parent.parent


def compile_package() -> None:
    """Compile what a process would compile at its first start, as an installed package is: that is not our figure."""
    compileall.compile_dir(ROOT / "operator" / "topiarist", quiet=2)


class ProcessRun(NamedTuple):
    """One finished process: wall-clock seconds, CPU seconds, peak memory in MiB, exit code."""

    seconds: float
    cpu_seconds: float
    peak_mib: float
    exit_code: int


def make_memory_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder in memory where the system has one: what the disk does to 100,000 small files is not our figure."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)


def measure_median(measure: Callable[[], float], runs: int = RUNS) -> float:
    """The median of several measurements, after one that does not count."""
    measure()
    return statistics.median(measure() for _ in range(runs))


def measure_seconds(work: Callable[[], object]) -> float:
    """Seconds that ``work`` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def run_process(command: Sequence[str], expected: int = 0) -> ProcessRun:
    """Run a command with its output thrown away; raises if it does not end with ``expected``."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert child.stderr is not None
    said = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != expected:
        raise RuntimeError(f"{' '.join(command)} ended with {child.returncode}: {said.decode(errors='replace')}")
    return ProcessRun(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, child.returncode)


def run_process_tree(command: Sequence[str], expected: int = 0) -> ProcessRun:
    """As ``process``, with the memory of all processes that it starts, at the moment when they have most together.

    Looked at ten times a second. Memory that two of them share is counted twice.
    """
    peak, ended = 0.0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not ended.wait(0.1):
            peak = max(peak, _resident_mib(os.getpid()))

    own = _resident_mib(os.getpid(), root_only=True)
    watching = threading.Thread(target=watch)
    watching.start()
    try:
        run = run_process(command, expected)
    finally:
        ended.set()
        watching.join()
    return run._replace(peak_mib=max(run.peak_mib, peak - own))


def _resident_mib(root: int, *, root_only: bool = False) -> float:
    """MiB that a process and those that it has started hold."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
    family = {root}
    while not root_only and (more := {pid for pid, parent in parents.items() if parent in family} - family):
        family |= more
    pages = 0
    for pid in family:
        with suppress(OSError, IndexError):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def topiarist_command(*words: str) -> list[str]:
    """The command line of this very interpreter."""
    return [sys.executable, "-m", "topiarist", *words]


def summarize_runs(runs: Sequence[ProcessRun]) -> dict[str, float]:
    """Median time and CPU, and the highest memory."""
    return {
        "seconds": round(statistics.median(run.seconds for run in runs), 3),
        "cpu_seconds": round(statistics.median(run.cpu_seconds for run in runs), 3),
        "peak_mib": round(max(run.peak_mib for run in runs), 1),
    }


def process_cpu_seconds(pid: int) -> float:
    """CPU seconds that a running process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def describe_machine() -> dict[str, Any]:
    """Facts that a figure means nothing without."""
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

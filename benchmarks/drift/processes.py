"""CPU seconds and peak memory of a run by role: of every process that it starts, and of processes beside it.

The kernel's counters are read twenty times a second, so that a process may have used a little more before its end.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

_INTERVAL_S = 0.05

_TICKS, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")

_ROLES = (
    ("CoarseGrainedExecutorBackend", "executor JVM"),
    ("org.apache.spark.deploy.master", "master and workers"),
    ("org.apache.spark.deploy.worker", "master and workers"),
    ("org.apache.spark", "driver JVM"),
    ("spark_submit.py", "driver Python"),
    ("stage.py", "driver Python"),
    ("bare_driver.py", "driver Python"),
    ("pyspark.daemon", "executor Python"),
    ("pyspark/daemon", "executor Python"),
)
"""Parts of command lines with the role of the process; all other processes are Python of the command itself."""


class RoleFigures(NamedTuple):
    """The processes of a role: CPU seconds of all, and the peak of the largest in MiB."""

    cpu_seconds: float
    peak_mib: float
    processes: int


class MeasuredRun(NamedTuple):
    """A finished run with its wall-clock seconds, and the figures of each role."""

    seconds: float
    exit_code: int
    out: str
    roles: dict[str, RoleFigures]

    def summarize(self) -> dict[str, Any]:
        """Return the figures as JSON values, with the CPU seconds of all processes."""
        roles = {
            role: {
                "cpu_seconds": round(each.cpu_seconds, 2),
                "peak_mib": round(each.peak_mib),
                "number": each.processes,
            }
            for role, each in sorted(self.roles.items())
        }
        total = round(sum(each.cpu_seconds for each in self.roles.values()), 2)
        return {"seconds": round(self.seconds, 2), "cpu_seconds": total, "roles": roles}


class _Sample(NamedTuple):
    cpu_seconds: float
    mib: float
    role: str


def measure_roles(running: subprocess.Popen[str], beside: Iterable[int] = ()) -> MeasuredRun:
    """Wait for a started process, and return the figures of its tree and of the trees of processes ``beside`` it."""
    roots = [running.pid, *beside]
    before = {pid: _sample(pid) for root in roots[1:] for pid in _tree(root)}
    found: dict[int, _Sample] = {}
    start = time.perf_counter()
    while running.poll() is None:
        for pid in [pid for root in roots for pid in _tree(root)]:
            if sample := _sample(pid):
                last = found.get(pid)
                found[pid] = sample._replace(mib=max(sample.mib, last.mib)) if last else sample
        time.sleep(_INTERVAL_S)
    seconds = time.perf_counter() - start
    out, _ = running.communicate()
    roles: dict[str, RoleFigures] = {}
    for pid, sample in found.items():
        role = "driver Python" if pid == running.pid and sample.role == "Python" else sample.role
        earlier = before.get(pid)
        used = sample.cpu_seconds - (earlier.cpu_seconds if earlier else 0.0)
        figures = roles.get(role, RoleFigures(0.0, 0.0, 0))
        roles[role] = RoleFigures(figures.cpu_seconds + used, max(figures.peak_mib, sample.mib), figures.processes + 1)
    return MeasuredRun(seconds, running.returncode, out or "", roles)


def start_process(command: Sequence[str]) -> subprocess.Popen[str]:
    """Start a command for ``measure_roles``, without its messages."""
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def _tree(root: int) -> list[int]:
    pids = [root]
    for pid in pids:
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                pids.extend(map(int, (task / "children").read_text().split()))
    return pids


def _sample(pid: int) -> _Sample | None:
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        if not command:  # the process has ended, or has not begun
            return None
        role = next((role for part, role in _ROLES if part in command), "Python")
        return _Sample((int(fields[11]) + int(fields[12])) / _TICKS, int(fields[21]) * _PAGE / 2**20, role)
    return None

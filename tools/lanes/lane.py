"""A lane of ``tests/lanes.toml``, and one run of it: pytest in a process of its own, with a record of each test."""

from __future__ import annotations

import ctypes
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("TOPIARIST_CACHE") or ROOT / ".cache")

CORE, WHOLE, NIGHT, CHANGED = "core", "whole", "night", "changed"
"""The parts of a lane: what runs with every change, all but the tests of the night, all, what the change can touch."""

_NO_FAILURE, _TESTS_FAILED = 0, 1
_ORPHANS_END_S = float(os.environ.get("TOPIARIST_ORPHANS_END_S", "20"))
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, kw_only=True)
class Lane:
    """One table of ``tests/lanes.toml``, which explains the fields."""

    name: str
    paths: Sequence[str]
    touched_by: Sequence[str]
    at_least: int
    excluded: Sequence[str] = ()
    marks: str = ""
    core: str = ""
    night: Mapping[str, Sequence[str]] = field(default_factory=dict)
    workers: str = "cores"
    dist: str = "loadgroup"
    reruns: bool = False
    cost: Mapping[str, float] = field(default_factory=dict)
    examples: float = 1.0


class Part(NamedTuple):
    """The part of a lane that runs: ``core``, ``whole`` or ``night``, and the areas of the night that run beside it."""

    name: str = WHOLE
    areas: tuple[str, ...] = ()

    def expression(self, lane: Lane) -> str:
        """Return pytest's ``-m`` expression; empty for all tests."""
        if self.name == NIGHT:
            return lane.marks
        marks = [f"({lane.marks})"] if lane.marks else []
        chosen = lane.core if self.name == CORE and lane.core else " and ".join([*marks, "not night"])
        return " or ".join([chosen, *(f"night(area={area!r})" for area in self.areas)])


class Run(NamedTuple):
    """What one run of pytest did: its exit code, its tests, and the processor time of all its processes.

    ``survivors`` are processes that the tests started and did not end.
    """

    exit_code: int
    outcomes: Mapping[str, str]
    traces: Mapping[str, str]
    cpu_of_tests: Mapping[str, float]
    cpu_s: float
    wall_s: float
    speed_s: float
    survivors: Sequence[str]

    @property
    def executed(self) -> int:
        """The number of tests that passed or failed."""
        return sum(outcome != "skipped" for outcome in self.outcomes.values())

    @property
    def failed(self) -> Sequence[str]:
        """The tests, or files that could not be collected, that failed."""
        return [name for name, outcome in self.outcomes.items() if outcome == "failed"]

    def dearest(self, count: int = 10) -> Sequence[tuple[str, float]]:
        """Return the tests with the most processor time."""
        return sorted(self.cpu_of_tests.items(), key=lambda each: -each[1])[:count]

    def cpu_of_folders(self) -> Mapping[str, float]:
        """Return the processor time of each folder: two levels below ``tests`` for unit tests, else one."""
        total: defaultdict[str, float] = defaultdict(float)
        for name, seconds in self.cpu_of_tests.items():
            folders = name.partition("::")[0].split("/")[:-1]
            total["/".join(folders[: 3 if folders[1:2] == ["unit"] else 2])] += seconds
        return dict(sorted(total.items()))


def load_lanes() -> Mapping[str, Lane]:
    """Read the lanes by name."""
    return {
        name: Lane(name=name, **{"excluded" if key == "except" else key: value for key, value in table.items()})
        for name, table in _read_lanes()["lane"].items()
    }


def load_untouching() -> Sequence[str]:
    """Read the globs of files that touch no lane."""
    globs: Sequence[str] = _read_lanes()["nothing"]
    return globs


def load_cost_speed() -> float:
    """Read what ``recorder.measure_speed`` returns on the machine that the costs of lanes were measured on."""
    return float(_read_lanes()["cost_speed_s"])


@cache
def _read_lanes() -> dict[str, Any]:
    return tomllib.loads((ROOT / "tests/lanes.toml").read_text(encoding="utf-8"))


def run_pytest(lane: Lane, tests: Sequence[str], options: Sequence[str], *, seed: int, night: bool = False) -> Run:
    """Run pytest on tests, and return its record; an exit code of at least 2 means that there is none.

    The processor time is that of all processes that ended below this one, orphans included. The record stays in the
    cache, as ``lanes/LANE.tests.json``.
    """
    _adopt_orphans()
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record.json"
        environment = {
            **os.environ,
            "TOPIARIST_RECORD": str(record),
            "TOPIARIST_EXAMPLES": str(lane.examples * (10 if night else 1)),
        }
        command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={CACHE / 'pytest' / lane.name}"]
        command += [f"--hypothesis-seed={seed}", *options, *tests]
        before, begin = _cpu_of_children(), time.monotonic()
        code = subprocess.run(command, cwd=ROOT, env=_tests_environment(environment), check=False).returncode
        survivors = _wait_for_orphans()
        cpu_s, wall_s = _cpu_of_children() - before, time.monotonic() - begin
        if not record.exists():
            return Run(max(code, 2), {}, {}, {}, cpu_s, wall_s, 0.0, survivors)
        read = json.loads(record.read_text(encoding="utf-8"))
        kept = CACHE / "lanes" / f"{lane.name}.tests.json"
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(record, kept)
    outcomes, traces, cpu = (
        {name: test[key] for name, test in read["tests"].items()} for key in ("outcome", "trace", "cpu_s")
    )
    return Run(code, outcomes, traces, cpu, cpu_s, wall_s, read["speed_s"], survivors)


def worker_count(lane: Lane) -> int:
    """Return the number of worker processes: ``WORKERS`` in the environment stands for the cores."""
    cores = int(os.environ.get("WORKERS") or os.cpu_count() or 2)
    return {"1": 1, "cores": cores, "cores + 1": cores + 1, "2 * cores": 2 * cores}[lane.workers]


def draw_seed() -> int:
    """Return the seed of a run: ``TOPIARIST_SEED``, or a new one."""
    return int(os.environ.get("TOPIARIST_SEED") or random.SystemRandom().randrange(2**32))


def _tests_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the folders that the Makefile adds for scripts; those of a browser stay."""
    paths = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if Path(path).is_absolute()]
    kept = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
    return {**kept, "PYTHONPATH": os.pathsep.join(paths)} if paths else kept


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _adopt_orphans() -> None:
    """Make this process the parent of orphans, such as a server that outlives its test, where the system can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _wait_for_orphans() -> Sequence[str]:
    """Wait for processes that are about to end, so that their time counts; end and return those that do not."""
    deadline = time.monotonic() + _ORPHANS_END_S
    while time.monotonic() < deadline:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.05)
        except ChildProcessError:
            return []
    survivors = []
    for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split():
        words = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        survivors.append(f"{child}: {words[:200]}")
        os.kill(int(child), signal.SIGKILL)
        os.waitpid(int(child), 0)
    return survivors

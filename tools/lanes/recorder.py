"""A pytest plugin that records each test of a run: its outcome and its processor time.

``tests/conftest.py`` loads it. The process that was started by ``make`` writes the record to the file that
``TOPIARIST_RECORD`` names; without this variable nothing is written. The time of a test includes its fixtures and the
processes that ended with it. Fixtures of several tests count for the test that made them.
"""

from __future__ import annotations

import json
import os
import re
import resource
import statistics
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_CPU = "cpu_s"
_TESTS_PER_MEASUREMENT = 100
_begin = pytest.StashKey[float]()
_is_last = pytest.StashKey[bool]()
_GROUP = re.compile(r"(?<=[\w\]])@[^@\[\]]+$")


def processor_seconds() -> float:
    """Return the processor time of this process and of its ended children, in seconds."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


class Speed:
    """The processor time of a fixed piece of work: its median over a run, which other work may slow down at times.

    Budgets are compared in this unit, because a second of one machine is not a second of another.
    """

    def __init__(self) -> None:
        self._begun = 0
        self._seconds: list[float] = []

    def note_test(self) -> None:
        """Do the work at every hundredth call, from the first one on."""
        if self._begun % _TESTS_PER_MEASUREMENT == 0:
            self._seconds.append(_time_fixed_work())
        self._begun += 1

    @property
    def seconds(self) -> float:
        """The median; NaN without a test."""
        return statistics.median(self._seconds) if self._seconds else float("nan")


def measure_speed() -> float:
    """Return the processor time of the fixed piece of work now, in seconds: the median of a few."""
    return statistics.median(_time_fixed_work() for _ in range(15))


def _time_fixed_work() -> float:
    begin = time.process_time()
    words = {f"topic-{number}": [number % 7, str(number)] for number in range(4_000)}
    decoded = json.loads(json.dumps(words, sort_keys=True))
    sum(len(key) * value[0] for key, value in sorted(decoded.items()))
    return time.process_time() - begin


_speed = Speed()


def _without_group(test: str) -> str:
    """Return the name of a test without the group that xdist appends to it."""
    return _GROUP.sub("", test)


class Recorder:
    """Collects the reports of one run, and writes the record at its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._outcomes: dict[str, str] = {}
        self._traces: dict[str, str] = {}
        self._cpu: dict[str, float] = {}
        self._speeds: list[float] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the worst outcome of a test's phases, the trace of a failure, and the processor time."""
        test = _without_group(report.nodeid)
        if report.failed or self._outcomes.get(test, "passed") == "passed":
            self._outcomes[test] = report.outcome
        if report.failed:
            self._traces[test] = report.longreprtext
        for name, value in report.user_properties:
            if name == _CPU:
                self._cpu[test] = float(str(value))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep a file that cannot be collected as a failure."""
        if report.failed:
            self._outcomes[report.nodeid] = "failed"
            self._traces[report.nodeid] = report.longreprtext

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Keep the speed that a worker measured."""
        self._speeds.append(getattr(node, "workeroutput", {}).get("speed_s", float("nan")))

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the record."""
        measured = [speed for speed in (*self._speeds, _speed.seconds) if speed == speed] or [0.0]
        record = {
            "exit": int(exitstatus),
            "speed_s": sum(measured) / len(measured),
            "tests": {
                test: {
                    "outcome": outcome,
                    _CPU: round(self._cpu.get(test, 0.0), 4),
                    "trace": self._traces.get(test, ""),
                }
                for test, outcome in sorted(self._outcomes.items())
            },
        }
        self._path.write_text(json.dumps(record), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Record in the process that the user started, not in its workers."""
    if (path := os.environ.get("TOPIARIST_RECORD")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(Path(path)))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the speed of this worker."""
    if os.environ.get("TOPIARIST_RECORD") and hasattr(session.config, "workeroutput"):
        session.config.workeroutput["speed_s"] = _speed.seconds


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Note the processor time before a test."""
    if os.environ.get("TOPIARIST_RECORD"):
        _speed.note_test()
    item.stash[_begin] = processor_seconds()
    item.stash[_is_last] = nextitem is None
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the processor time of a test to the report of its last phase.

    After its last test a process ends the servers of all its tests: that time belongs to none of them.
    """
    report = yield
    if call.when == ("call" if item.stash[_is_last] else "teardown"):
        report.user_properties.append((_CPU, processor_seconds() - item.stash[_begin]))
    return report

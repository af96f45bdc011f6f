"""What the tests of the fault matrix count, and the record of a run: how many cases of each fault, and what was seen.

A test belongs to the fault of its number: ``test_f07_...`` to F7. With ``TOPIARIST_FAULTS`` in the environment the
record is written to the file that it names; ``docs/reliability.md`` is made from it.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from integration.conftest import protected, secured, strict, superuser
from integration.write_fixtures import InterceptingProxy
from support.cli.forked_runs import ForkedRuns
from support.zookeeper.busy_cluster import ClusterTemplate
from support.zookeeper.client import connect_client
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper

__all__ = ["protected", "secured", "strict", "superuser"]

SOAK = bool(os.environ.get("TOPIARIST_SOAK"))

_fault_records: dict[str, dict[str, Any]] = defaultdict(lambda: {"tests": 0, "cases": 0, "seen": {}})


class FaultStatistics:
    """What one test has gone through: ``cases``, and figures by the words that stand with them on the page."""

    def __init__(self, record: Callable[[str, object], None]) -> None:
        self._record = record

    def set_cases(self, count: int) -> None:
        """How many cases there were; without it a test is one."""
        self._record("cases", count)

    def add(self, what: str, count: int) -> None:
        """How often something was seen; over the tests of a fault these add up."""
        self._record(f"sum {what}", count)

    def record_maximum(self, what: str, value: float) -> None:
        """A measure of which the largest over all tests of a fault counts."""
        self._record(f"max {what}", value)


@pytest.fixture
def tally(record_property: Callable[[str, object], None]) -> FaultStatistics:
    """The counts of this test."""
    return FaultStatistics(record_property)


@pytest.fixture
def seeds() -> int:
    """How many seeds a test with random moments goes through: ten, in a soak a hundred."""
    return 100 if SOAK else 10


@pytest.fixture(scope="session")
def processes(zookeeper: EmbeddedZooKeeper) -> ForkedRuns:  # its Java process must not be a child of a fork  # noqa: ARG001  # its Java process must not be a child of a fork
    """Processes of our own that start in no time, to be killed."""
    return ForkedRuns()


@pytest.fixture
def mould(zookeeper: EmbeddedZooKeeper) -> Iterator[ClusterTemplate]:
    """Where copies come from of a cluster with much of everything to do, whose brokers never do anything."""
    with connect_client(zookeeper.connect) as server:
        yield ClusterTemplate(zookeeper.connect, server)


@pytest.fixture
def meddler(zookeeper: EmbeddedZooKeeper) -> Iterator[InterceptingProxy]:
    """A proxy that asks before every request."""
    between = InterceptingProxy(zookeeper.connect)
    with between:
        yield between


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count a test that has passed; where tests run in several processes this is the one that hears of all."""
    match = re.search(r"test_f(\d\d)_", report.nodeid.rpartition("::")[2])
    if not match or report.when != "call" or not report.passed or os.environ.get("PYTEST_XDIST_WORKER"):
        return
    fault = _fault_records[f"F{int(match[1])}"]
    properties = [(name, value) for name, value in report.user_properties if isinstance(value, int | float)]
    fault["tests"] += 1
    fault["cases"] += dict(properties).get("cases", 1)
    for name, value in properties:
        kind, _, what = name.partition(" ")
        if kind == "sum":
            fault["seen"][what] = fault["seen"].get(what, 0) + value
        elif kind == "max":
            fault["seen"][what] = max(fault["seen"].get(what, 0), value)


def pytest_sessionfinish(exitstatus: int) -> None:
    """Write the record of a run in which nothing failed."""
    place = os.environ.get("TOPIARIST_FAULTS")
    if place and exitstatus == 0 and not os.environ.get("PYTEST_XDIST_WORKER"):
        faults = {name: _fault_records[name] for name in sorted(_fault_records, key=lambda name: int(name[1:]))}
        record = {"date": datetime.now(UTC).date().isoformat(), "soak": SOAK, "faults": faults}
        Path(place).write_text(json.dumps(record, indent=2, sort_keys=False) + "\n")

"""Counts of the fault tests, and the record of a run: cases and observations of each fault.

A test belongs to the fault of its number: ``test_f07_...`` to F7, ``test_m07_...`` to M7, ``test_k07_...`` to K7. With
``TOPIARIST_FAULTS`` in the environment the record is written to that file; ``docs/internals/reliability.md`` is
generated from it.
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
from support.soak import SOAK
from support.zookeeper.busy_cluster import ClusterTemplate
from support.zookeeper.client import connect_client
from support.zookeeper.moves import MovingCluster, moving_cluster
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper

__all__ = ["protected", "secured", "strict", "superuser"]

_fault_records: dict[str, dict[str, Any]] = defaultdict(lambda: {"tests": 0, "cases": 0, "seen": {}})


class FaultStatistics:
    """The counts of one test: ``cases``, and figures by their text on the page."""

    def __init__(self, record: Callable[[str, object], None]) -> None:
        self._record = record

    def set_cases(self, count: int) -> None:
        """Set the number of cases; the default is one."""
        self._record("cases", count)

    def add(self, what: str, count: int) -> None:
        """Count an observation; the counts of all tests of a fault are added."""
        self._record(f"sum {what}", count)

    def record_maximum(self, what: str, value: float) -> None:
        """Record a measure; the maximum over all tests of a fault is kept."""
        self._record(f"max {what}", value)


@pytest.fixture
def tally(record_property: Callable[[str, object], None]) -> FaultStatistics:
    """Return the counts of this test."""
    return FaultStatistics(record_property)


@pytest.fixture
def seeds() -> int:
    """Return the seeds of a test with random moments: ten, in a soak a hundred."""
    return 100 if SOAK else 10


@pytest.fixture(scope="session")
def processes(zookeeper: EmbeddedZooKeeper) -> ForkedRuns:  # its Java process must not be a child of a fork  # noqa: ARG001  # its Java process must not be a child of a fork
    """Prepare Python processes that start fast, to be killed."""
    return ForkedRuns()


@pytest.fixture
def mould(zookeeper: EmbeddedZooKeeper) -> Iterator[ClusterTemplate]:
    """Return a template of a cluster with many pending changes, without reactions of brokers."""
    with connect_client(zookeeper.connect) as server:
        yield ClusterTemplate(zookeeper.connect, server)


@pytest.fixture
def meddler(zookeeper: EmbeddedZooKeeper) -> Iterator[InterceptingProxy]:
    """Return a proxy that calls back before every request."""
    between = InterceptingProxy(zookeeper.connect)
    with between:
        yield between


@pytest.fixture
def moving(zookeeper: EmbeddedZooKeeper) -> Iterator[MovingCluster]:
    """Return a cluster with the topic ``orders`` on broker 6."""
    with moving_cluster(zookeeper.connect) as kafka:
        yield kafka


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count a passed test; with several worker processes, the main process gets all reports."""
    match = re.search(r"test_([fmk])(\d\d)_", report.nodeid.rpartition("::")[2])
    if not match or report.when != "call" or not report.passed or os.environ.get("PYTEST_XDIST_WORKER"):
        return
    fault = _fault_records[f"{match[1].upper()}{int(match[2])}"]
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
    """Write the record of a run without failures."""
    place = os.environ.get("TOPIARIST_FAULTS")
    if place and exitstatus == 0 and not os.environ.get("PYTEST_XDIST_WORKER"):
        names = sorted(_fault_records, key=lambda name: (name[0], int(name[1:])))
        faults = {name: _fault_records[name] for name in names}
        record = {"date": datetime.now(UTC).date().isoformat(), "soak": SOAK, "faults": faults}
        Path(place).write_text(json.dumps(record, indent=2, sort_keys=False) + "\n")

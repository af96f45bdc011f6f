"""The emulator, built once, and the record of all cells: ``docs/services.json``, from which the page is made.

A cell must end as the record says. With ``TOPIARIST_SERVICES=write`` in the environment, which is what ``make
record-services`` does, a run without failures writes the record.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from services.servers import MissingToolError, build_emulator
from services.story import CELLS, Story
from support.checkout import ROOT
from topiarist.adapters.kafka_admin.read import sync

RECORD = ROOT / "docs" / "services.json"
WRITES = os.environ.get("TOPIARIST_SERVICES") == "write"

Recorder = Callable[[str, Story], None]

_seen: dict[str, dict[str, str]] = {}


@pytest.fixture(scope="session")
def emulator() -> Path:
    """Return the emulator; without Go the test is skipped, but fails in CI."""
    try:
        return build_emulator()
    except MissingToolError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture
def at_once() -> Iterator[None]:
    """Wait for no second where nothing proves that metadata are new: brokers in memory are never behind."""
    with _settling(0.0):
        yield


@pytest.fixture
def soon() -> Iterator[None]:
    """Wait a fifth of that second: one real node learns in milliseconds of what it has done."""
    with _settling(0.2):
        yield


@contextmanager
def _settling(seconds: float) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SETTLE_S", "LIST_SETTLE_S"):
            patch.setattr(sync, name, seconds)
        yield


@pytest.fixture
def record_cell(record_property: Callable[[str, object], None]) -> Recorder:
    """Return a function that compares the results of a cell with the record, or keeps them for a new one."""

    def record(name: str, story: Story) -> None:
        record_property("cell", json.dumps([name, {"results": story.results, "messages": story.messages}]))
        if not WRITES:
            changed = f"make record-services writes new results; {story.messages}"
            assert story.results == _load_record().get(name), changed

    return record


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the results of a cell; with several worker processes, the main process gets all reports."""
    if report.when == "call" and report.passed:
        for key, value in report.user_properties:
            if key == "cell":
                name, found = json.loads(str(value))
                _seen[name] = found["results"]


def pytest_sessionfinish(exitstatus: int) -> None:
    """Write the record of a run without failures."""
    if WRITES and exitstatus == 0 and not os.environ.get("PYTEST_XDIST_WORKER"):
        found = {**_load_record(), **_seen}
        cells = {name: found[name] for name in CELLS if name in found}
        RECORD.write_text(json.dumps({"cells": cells}, indent=1) + "\n", encoding="utf-8")


def _load_record() -> dict[str, dict[str, str]]:
    """Return the results of all cells on record, by name and step."""
    cells: dict[str, dict[str, str]] = json.loads(RECORD.read_text(encoding="utf-8"))["cells"]
    return cells

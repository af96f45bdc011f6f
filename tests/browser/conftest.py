"""One browser and a few reports for all tests of this process, because both take seconds to create."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from support.drift import generated_reports
from support.drift.browser import TIMEOUT_MS, launch_browser
from topiarist.cli.main import run

TIME = 600
"""Seconds for a test: a page opens in one, and in many on a machine that has other work."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Set the timeout of the tests in this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(TIME))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Yield a headless Chromium."""
    expect.set_options(timeout=TIMEOUT_MS)
    with launch_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a report of 60 clusters with 600 findings, three owners and 20 earlier reports."""
    out = tmp_path_factory.mktemp("fleet") / "report"
    generated_reports.write_report(
        out, generated_reports.make_findings(60, 600), owners=("default", "payments", "search"), days=20
    )
    return out


@pytest.fixture(scope="session")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a report with accepted drift, unmatched exceptions, incomplete clusters and broken manifests."""
    out = tmp_path_factory.mktemp("notes") / "report"
    generated_reports.write_report(out, generated_reports.make_findings(60, 600), days=20, notes=True)
    return out


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a report of 300 clusters with 24,000 findings: more than a page holds."""
    out = tmp_path_factory.mktemp("large") / "report"
    generated_reports.write_report(out, generated_reports.make_findings(300, 24_000), days=3)
    return out


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a report with hostile names of topics, values, fields and owners."""
    out = tmp_path_factory.mktemp("hostile") / "report"
    generated_reports.write_report(
        out, generated_reports.hostile_findings(), owners=generated_reports.HOSTILE_TEXTS, days=1
    )
    return out


@pytest.fixture(scope="session")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a report without findings, of the unnamed cluster."""
    out = tmp_path_factory.mktemp("clean") / "report"
    generated_reports.write_report(out, generated_reports.no_findings())
    return out


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the report of the sample fleet, which has every class of drift and upgrade risks."""
    folder = tmp_path_factory.mktemp("demo") / "fleet"
    assert run(["drift", "--demo", str(folder), "-q"]) == 1
    return folder / "report"

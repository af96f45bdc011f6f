"""One browser and a few reports for all tests of this process: both take seconds to make."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from support import drawn
from support.browser import PATIENCE, started

TIME = 600
"""Seconds for a test: a page opens in one, and in many on a machine that has other work."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder their time."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(TIME))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    expect.set_options(timeout=PATIENCE)
    with started() as browser:
        yield browser


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of 60 clusters with 600 findings, of three owners, and with 20 reports before it."""
    out = tmp_path_factory.mktemp("fleet") / "report"
    drawn.write(out, drawn.found(60, 600), owners=("default", "payments", "search"), days=20)
    return out


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of 300 clusters with 24,000 findings: more than a page holds."""
    out = tmp_path_factory.mktemp("large") / "report"
    drawn.write(out, drawn.found(300, 24_000), days=3)
    return out


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of topics, values, fields and owners as nobody should name them."""
    out = tmp_path_factory.mktemp("hostile") / "report"
    drawn.write(out, drawn.hostile(), owners=drawn.HOSTILE, days=1)
    return out


@pytest.fixture(scope="session")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report without any finding, of the unnamed cluster."""
    out = tmp_path_factory.mktemp("clean") / "report"
    drawn.write(out, drawn.nothing())
    return out

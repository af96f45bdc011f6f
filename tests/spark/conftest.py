"""One Spark session for all tests of this process: its JVM takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from integration.conftest import clusters, silent
from topiarist.drift.spark.session import create_local_session

__all__ = ["clusters", "silent"]

PATIENCE = 600
"""Seconds for a test: a job takes one, and many on a machine that has other work; the first takes ten."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder their time."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(PATIENCE))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark in a JVM of its own, with small partitions: what is tested is what it finds."""
    started = create_local_session("1g")
    started.conf.set("spark.sql.shuffle.partitions", "2")
    yield started
    started.stop()

"""One Spark session for all tests of this process, because its JVM takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from integration.conftest import clusters, silent
from topiarist.drift.spark.session import create_local_session

__all__ = ["clusters", "silent"]

PATIENCE = 600
"""Seconds for one test; a job takes one second, the first takes ten, and a busy machine needs longer."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Set a longer timeout for the tests of this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(PATIENCE))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Start Spark in its own JVM, with few shuffle partitions; the tests check results, not speed."""
    started = create_local_session("1g")
    started.conf.set("spark.sql.shuffle.partitions", "2")
    yield started
    started.stop()

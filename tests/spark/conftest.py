"""One Spark session for all tests of this process: its JVM takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from topiarist.drift.spark import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark in a JVM of its own, with small partitions: what is tested is what it finds."""
    started = session("1g")
    started.conf.set("spark.sql.shuffle.partitions", "2")
    yield started
    started.stop()

"""One Spark session for all tests of this process, because its JVM takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from integration.conftest import clusters, silent
from topiarist.adapters.devcluster.zookeeper_server import FAST_START_JVM_OPTIONS
from topiarist.drift.spark.session import create_local_session

__all__ = ["clusters", "silent"]

PATIENCE = 600
"""Seconds for one test; a job takes one second, the first takes ten, and a busy machine needs longer."""


QUICK = frozenset(
    {
        "test_findings_are_there_as_parquet",
        "test_hostile_rows_are_the_same",
        "test_the_reports_are_the_same",
    }
)
"""The tests with Spark that ``make test`` runs: its reports are those of this process. Tables, histories and
live clusters are slow.
"""


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups of tests in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Set a longer timeout for this folder; run tests with the session in one process, most as slow ones."""
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        item.add_marker(pytest.mark.timeout(PATIENCE))
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
            if getattr(item, "originalname", "") not in QUICK:
                item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start Spark in its own JVM, with few shuffle partitions; the tests check results, not speed.

    The JVM has its quick compiler only: most of the time of small jobs is that of the other one.
    """
    folder = tmp_path_factory.mktemp("spark-conf")
    options = f"spark.driver.extraJavaOptions {' '.join(FAST_START_JVM_OPTIONS)}\n"
    (folder / "spark-defaults.conf").write_text(options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(folder))
        started = create_local_session("1g")
    started.conf.set("spark.sql.shuffle.partitions", "2")
    yield started
    started.stop()

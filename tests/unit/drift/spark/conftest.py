"""A Spark session without a JVM, which the package's modules use instead of Spark's functions."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark import SparkFiles

from support.drift.folder_store import STORE, store
from topiarist.drift import report
from topiarist.drift.spark import engine, outputs, session
from unit.drift.spark.local_spark import FUNCTIONS, LocalSpark, Table, Window

__all__ = ["store"]


class Place(NamedTuple):
    """A session, and the folder behind the address of its store."""

    spark: LocalSpark
    store: Path


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, store: Path) -> Place:
    """Return a session with an empty store; the command uses it if it starts Spark."""
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    monkeypatch.setattr(SparkFiles, "_root_directory", str(tmp_path / "files"))
    spark = LocalSpark({STORE: store})
    for module in (engine, outputs):
        monkeypatch.setattr(module, "f", FUNCTIONS)
    monkeypatch.setattr(outputs, "Window", Window)
    monkeypatch.setattr(engine, "DataFrame", Table)
    monkeypatch.setattr(session, "start_session", lambda **_: spark)
    monkeypatch.setattr(report, "find_java", lambda purpose: "java")
    return Place(spark, store)

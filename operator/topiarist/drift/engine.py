"""The engines of a drift report: this process or Spark, and the choice between them.

``cli.commands.drift`` selects an engine and calls it. The base class has the input and output of
local paths. This module does not import PySpark, so that reports without Spark do not need it.
"""

from __future__ import annotations

import importlib.util
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from topiarist import extras
from topiarist.adapters.devcluster.zookeeper_server import find_java
from topiarist.drift import history, report
from topiarist.drift.history import PreviousReport
from topiarist.drift.live import ConnectOptions
from topiarist.drift.outputs.folder import ReportFolder
from topiarist.drift.report import ReportJob
from topiarist.drift.snapshots import SnapshotInventory
from topiarist.drift.uris import REMOTE_REASON, is_remote, spark_required_reason
from topiarist.errors import Reason, TopiaristError
from topiarist.model.spec import ClusterSpec
from topiarist.text import printable

SPARK_MIN_TOPICS = 10_000_000
"""Number of topics from which the engine ``auto`` starts Spark: on one machine, one process is faster (docs/drift.md).
"""

PYTHON, SPARK, AUTO = "python", "spark", "auto"

_HINT_PYTHON_ENGINE = "or compare in this process: --engine python"


def is_spark_submit() -> bool:
    """Return whether ``spark-submit`` started this process, so that a JVM exists and a master is chosen."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def is_spark_selected(engine: str, snapshots: Iterable[str], report_paths: Iterable[str]) -> bool:
    """Return whether Spark is required or requested, independent of the fleet's size.

    ``report_paths`` are the paths of this and the previous report. Raises ``TopiaristError``: WrongUsage if only Spark
    can read or write a path and the engine is ``python``, PrerequisiteMissing if Spark is selected and missing.
    """
    reasons = {path: spark_required_reason(path) for path in snapshots}
    reasons |= {path: REMOTE_REASON for path in report_paths if is_remote(path)}
    path, reason = next(((path, reason) for path, reason in reasons.items() if reason), ("", ""))
    if engine == PYTHON and reason:
        message = f"{printable(path, 4096)} {reason}: it needs Spark, and --engine python excludes Spark"
        hint = "remove --engine python, or use local files and folders of JSON lines"
        raise TopiaristError(Reason.WRONG_USAGE, message, hint)
    is_selected = engine == SPARK or (engine == AUTO and (bool(reason) or is_spark_submit()))
    if is_selected:
        require_spark("" if reason else _HINT_PYTHON_ENGINE)
    return is_selected


def require_spark(hint: str = _HINT_PYTHON_ENGINE) -> None:
    """Raise ``TopiaristError`` (PrerequisiteMissing) if PySpark or Java is missing.

    ``hint`` names the alternative without Spark.
    """
    if is_spark_submit():
        return
    if importlib.util.find_spec("pyspark") is None:
        raise extras.missing_packages_error("drift", "comparing by Spark", hint)
    try:
        find_java("compare by Spark")
    except TopiaristError as error:
        raise TopiaristError(error.reason, str(error.args[0]), hint) from error


class Engine(ABC):
    """An engine that reads inputs, compares clusters and writes reports; this base class serves local paths."""

    def exists(self, path: str) -> bool:
        """Return whether a path is a file or a non-empty folder."""
        where = Path(path)
        return any(where.iterdir()) if where.is_dir() else where.exists()

    def load_previous(self, path: str) -> PreviousReport:
        """Read an earlier report. Raises ``Unreadable``."""
        return history.load_previous(path)

    def open_snapshots(self, paths: Sequence[str], clusters: Mapping[str, ClusterSpec]) -> SnapshotInventory:
        """Open the snapshots at some paths. Raises ``SnapshotUnusable``."""
        return SnapshotInventory(paths, clusters)

    def read_live(
        self, clusters: Mapping[str, ClusterSpec], connect_options: ConnectOptions, folder: ReportFolder
    ) -> SnapshotInventory | None:
        """Read live clusters; return None if the caller must read the clusters itself."""
        return None

    def create_report_folder(self, path: str) -> ReportFolder:
        """Create the staging folder of the report. Raises ``Unwritable``."""
        return ReportFolder(path)

    @abstractmethod
    def compare_and_write(self, job: ReportJob, inventory: SnapshotInventory, folder: ReportFolder) -> dict[str, Any]:
        """Compare the clusters of an inventory, write the report, and return its summary."""


class LocalEngine(Engine):
    """The engine that runs in this process, one cluster at a time."""

    def compare_and_write(self, job: ReportJob, inventory: SnapshotInventory, folder: ReportFolder) -> dict[str, Any]:
        """Compare the clusters of an inventory, write the report, and return its summary."""
        return report.compare_and_write(job, inventory.read_clusters(job.desired.specs, job.options.owner), folder)

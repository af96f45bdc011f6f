"""The Spark engine of a drift report: implements ``Engine`` and translates all Spark errors.

``cli.commands.drift`` creates it if Spark is selected. Paths that do not need Spark are passed to the local
implementation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from topiarist.drift import history
from topiarist.drift.engine import LocalEngine
from topiarist.drift.history import PreviousReport
from topiarist.drift.live import ConnectOptions
from topiarist.drift.outputs.folder import WORK_FOLDER, ReportFolder
from topiarist.drift.report import ReportJob
from topiarist.drift.snapshots import SnapshotInventory
from topiarist.drift.spark import outputs, report, session
from topiarist.drift.spark.errors import translate_errors
from topiarist.drift.spark.filesystem import Storage
from topiarist.drift.spark.inputs import LiveInventory, SparkSnapshotInventory
from topiarist.drift.uris import is_remote, spark_required_reason
from topiarist.model.spec import ClusterSpec


class SparkEngine:
    """The engine that runs on the Spark session of this process; ``quiet`` disables progress bars."""

    def __init__(self, *, quiet: bool = False) -> None:
        with translate_errors():
            self._spark = session.start_session(quiet=quiet)
            self._storage = Storage(self._spark)

    def exists(self, path: str) -> bool:
        """Return whether a path or URI is a file or a non-empty folder."""
        return bool(self._storage.list_names(path)) if is_remote(path) else LocalEngine().exists(path)

    def load_previous(self, path: str) -> PreviousReport:
        """Read an earlier report."""
        return outputs.load_previous(self._storage, path) if is_remote(path) else history.load_previous(path)

    def open_snapshots(self, paths: Sequence[str], clusters: Mapping[str, ClusterSpec]) -> SnapshotInventory:
        """Open the snapshots at some paths or URIs, files or Parquet tables."""
        if not any(map(spark_required_reason, paths)):
            return SnapshotInventory(paths, clusters)
        with translate_errors():
            return SparkSnapshotInventory(self._spark, paths, clusters)

    def read_live(
        self, clusters: Mapping[str, ClusterSpec], approach: ConnectOptions, folder: ReportFolder
    ) -> LiveInventory:
        """Read live clusters with the executors; the rows are stored in the work folder of ``folder``."""
        with translate_errors():
            return LiveInventory(self._spark, clusters, approach, f"{folder.staging_path}/{WORK_FOLDER}")

    def create_report_folder(self, path: str) -> ReportFolder:
        """Create the staging folder of the report."""
        return outputs.RemoteReportFolder(self._storage, path) if is_remote(path) else ReportFolder(path)

    def compare_and_write(self, job: ReportJob, recorded: SnapshotInventory, folder: ReportFolder) -> dict[str, Any]:
        """Compare the clusters of an inventory by Spark, write the report, and return its summary."""
        with translate_errors():
            return report.compare_and_write(self._spark, job, recorded, folder)

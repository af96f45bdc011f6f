"""The Spark engine of a drift report: the same folder as processes of one machine write.

``cli.commands.drift`` creates it if Spark is selected. It makes the same parts as ``drift.report``, runs
``drift.spark.job``, and translates all Spark errors. Paths that do not need Spark are passed to the base class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from topiarist.drift.engine import Engine
from topiarist.drift.history.previous import PreviousReport
from topiarist.drift.history.runs import RunHistory
from topiarist.drift.outputs.folder import ReportFolder
from topiarist.drift.report import ReportJob, make_parts, sources_of
from topiarist.drift.snapshots import SnapshotInventory
from topiarist.drift.spark import inputs, outputs, session
from topiarist.drift.spark.errors import translate_errors
from topiarist.drift.spark.filesystem import Storage
from topiarist.drift.spark.history import SparkHistory
from topiarist.drift.spark.inputs import SparkSnapshotInventory
from topiarist.drift.spark.job import SparkJob
from topiarist.drift.task import LiveCluster
from topiarist.drift.uris import is_remote, spark_required_reason
from topiarist.model.spec import ClusterSpec


class SparkEngine(Engine):
    """The engine that runs on the Spark session of this process; ``quiet`` disables progress bars.

    ``reason`` says why Spark compares.
    """

    def __init__(self, reason: str, *, quiet: bool = False) -> None:
        super().__init__(f"Spark: {reason}")
        with translate_errors():
            self._spark = session.start_session(quiet=quiet)
            self._storage = Storage(self._spark)

    def exists(self, path: str) -> bool:
        """Return whether a path or URI is a file or a non-empty folder."""
        return bool(self._storage.list_names(path)) if is_remote(path) else super().exists(path)

    def load_previous(self, path: str) -> PreviousReport:
        """Read an earlier report."""
        return outputs.load_previous(self._storage, path) if is_remote(path) else super().load_previous(path)

    def open_history(self, path: str) -> RunHistory:
        """Return the history at a path or URI."""
        return SparkHistory(self._spark, path)

    def open_snapshots(self, paths: Sequence[str], clusters: Mapping[str, ClusterSpec]) -> SnapshotInventory:
        """Open the snapshots at some paths or URIs, files or Parquet tables."""
        if not any(map(spark_required_reason, paths)):
            return super().open_snapshots(paths, clusters)
        with translate_errors():
            return SparkSnapshotInventory(self._spark, paths, clusters)

    def create_report_folder(self, path: str) -> ReportFolder:
        """Create the staging folder of the report."""
        return (
            outputs.RemoteReportFolder(self._storage, path) if is_remote(path) else super().create_report_folder(path)
        )

    def compare(self, job: ReportJob, given: SnapshotInventory | LiveCluster, folder: ReportFolder) -> dict[str, Any]:
        """Compare the clusters of a job on executors, write the report, and return its summary."""
        with translate_errors():
            parts = {part.cluster: part for part in make_parts(job, sources_of(job, given))}
            sources = inputs.distribute_parts(self._spark, given, parts.values())
            folder.add_final_step(lambda place: outputs.write_parquet(self._spark, folder, place))
            return SparkJob(self._spark, job, folder).run(parts, sources)

"""The engines of a drift report: processes of this machine or Spark, and the choice between them.

``cli.commands.drift`` selects an engine and calls it. The base class has the input and output of local paths. This
module does not import PySpark, so that reports without Spark do not need it.
"""

from __future__ import annotations

import importlib.util
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from topiarist.adapters.devcluster.zookeeper_server import find_java
from topiarist.drift.compare import ClusterResult
from topiarist.drift.history.runs import PreviousReport, load_previous
from topiarist.drift.outputs.folder import ReportFolder
from topiarist.drift.report import ReportJob, compare_and_write, run_here, sources_of
from topiarist.drift.snapshots import REMOTE_REASON, SnapshotInventory, is_remote, spark_required_reason
from topiarist.drift.task import LiveCluster, Part, Shipped, run_in_processes
from topiarist.errors import Reason, TopiaristError, missing_packages_error
from topiarist.model.spec import ClusterSpec
from topiarist.text import format_count, printable

if TYPE_CHECKING:
    from topiarist.drift.history.runs import RunHistory

PYTHON, SPARK = "python", "spark"

_HINT_PYTHON_ENGINE = "or compare without Spark: --engine python"

_SECONDS_PER_TOPIC, _SECONDS_PER_LIVE_TOPIC, _SECONDS_PER_FINDING = 4e-6, 1e-4, 160e-6
"""CPU seconds, from ``make bench-drift``: to compare a topic of a snapshot, to read one of a cluster, for a finding."""

_POOL_MIN_SECONDS = 2.0
"""CPU seconds from which several processes are worth their start."""


class Cost(NamedTuple):
    """The cost of a run in clusters, topics, and earlier findings, as far as it is known before the run."""

    clusters: int
    topics: int
    findings: int
    is_live: bool = False

    @property
    def cpu_seconds(self) -> float:
        """Return a rough estimate of the CPU time of the comparison."""
        per_topic = _SECONDS_PER_LIVE_TOPIC if self.is_live else _SECONDS_PER_TOPIC
        return self.topics * per_topic + self.findings * _SECONDS_PER_FINDING

    def __str__(self) -> str:
        counts = [format_count(self.topics, "topic")]
        counts += [format_count(self.findings, "earlier finding")] if self.findings else []
        work = f"about {self.cpu_seconds:.0f} s" if self.cpu_seconds >= 1 else "less than a second"
        return f"{' and '.join(counts)}, {work} of work"


def is_spark_submit() -> bool:
    """Return whether ``spark-submit`` started this process, so that a JVM exists and a master is chosen."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def find_spark_reason(engine: str, snapshots: Iterable[str], report_paths: Iterable[str]) -> str:
    """Return the reason why Spark compares; empty if processes of this machine do.

    ``report_paths`` are the paths of this and the previous report, and of the history. Raises ``TopiaristError``:
    WrongUsage if only Spark can read or write a path and the engine is ``python``, PrerequisiteMissing if Spark is
    selected and missing.
    """
    reasons = {path: spark_required_reason(path) for path in snapshots}
    reasons |= {path: REMOTE_REASON for path in report_paths if is_remote(path)}
    path, reason = next(((path, reason) for path, reason in reasons.items() if reason), ("", ""))
    if engine == PYTHON and reason:
        message = f"{printable(path, 4096)} {reason}: it needs Spark, and --engine python excludes Spark"
        hint = "remove --engine python, or use local files and folders of JSON lines"
        raise TopiaristError(Reason.WRONG_USAGE, message, hint)
    if engine == PYTHON or not (engine == SPARK or reason or is_spark_submit()):
        return ""
    require_spark("" if reason else _HINT_PYTHON_ENGINE)
    if reason:
        return f"{printable(path, 4096)} {reason}"
    return "--engine spark" if engine == SPARK else "started by spark-submit"


def require_spark(hint: str = _HINT_PYTHON_ENGINE) -> None:
    """Raise ``TopiaristError`` (PrerequisiteMissing) if PySpark or Java is missing.

    ``hint`` names the alternative without Spark.
    """
    if is_spark_submit():
        return
    if importlib.util.find_spec("pyspark") is None:
        raise missing_packages_error("drift", "comparing by Spark", hint)
    try:
        find_java("compare by Spark")
    except TopiaristError as error:
        raise TopiaristError(error.reason, str(error.args[0]), hint) from error


class Engine(ABC):
    """An engine that reads inputs, compares clusters and writes reports; this base class serves local paths.

    ``description`` says what compares the fleet, and why.
    """

    def __init__(self, description: str) -> None:
        self.description = description

    def exists(self, path: str) -> bool:
        """Return whether a path is a file or a non-empty folder."""
        where = Path(path)
        return any(where.iterdir()) if where.is_dir() else where.exists()

    def load_previous(self, path: str) -> PreviousReport:
        """Read an earlier report. Raises ``Unreadable``."""
        return load_previous(path)

    def open_history(self, path: str) -> RunHistory:
        """Return the history in a folder. Raises ``PrerequisiteMissing`` if pyarrow is missing."""
        if importlib.util.find_spec("pyarrow") is None:
            raise missing_packages_error("history", "--history")
        from topiarist.drift.history.parquet import ParquetHistory

        return ParquetHistory(path)

    def open_snapshots(self, paths: Sequence[str], clusters: Mapping[str, ClusterSpec]) -> SnapshotInventory:
        """Open the snapshots at some paths. Raises ``SnapshotUnusable``."""
        return SnapshotInventory(paths, clusters)

    def create_report_folder(self, path: str) -> ReportFolder:
        """Create the staging folder of the report. Raises ``Unwritable``."""
        return ReportFolder(path)

    @abstractmethod
    def compare(self, job: ReportJob, given: SnapshotInventory | LiveCluster, folder: ReportFolder) -> dict[str, Any]:
        """Compare the clusters of a job, from snapshots or live, write the report, and return its summary."""


class LocalEngine(Engine):
    """The engine that runs in processes of this machine; with one job it runs in this process."""

    def __init__(self) -> None:
        super().__init__("this process")
        self.jobs = 1

    def choose_jobs(self, jobs: int | None, cost: Cost) -> None:
        """Set the number of processes: ``jobs`` if it is given, else a process for each core if the fleet is large."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        is_large = jobs is not None or cost.cpu_seconds >= _POOL_MIN_SECONDS
        self.jobs = max(min(jobs or cores, cost.clusters), 1) if is_large else 1
        reasons = [f"--jobs {jobs}"] if jobs else [format_count(cores, "core")] if is_large else []
        place = "this process" if self.jobs == 1 else f"{self.jobs} processes"
        self.description = f"{place}: {', '.join([str(cost), *reasons])}"

    def compare(self, job: ReportJob, given: SnapshotInventory | LiveCluster, folder: ReportFolder) -> dict[str, Any]:
        """Compare the clusters of a job, from snapshots or live, write the report, and return its summary."""

        def run(parts: Iterable[Part], shipped: Shipped) -> Iterator[ClusterResult]:
            if self.jobs == 1:
                return run_here(parts, shipped)
            return run_in_processes([*parts], shipped, self.jobs, folder.make_work_folder())

        return compare_and_write(job, sources_of(job, given), folder, run)

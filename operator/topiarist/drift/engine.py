"""From when on Spark is worth its start, and whether it can be started here; nothing of it is imported.

The ways to run a report: in this process, or by Spark; both bring input and output, and do the same with them.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

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
"""Topics for which Spark is started where nobody asks: on one machine, one process is quicker (docs/drift.md)."""

PYTHON, SPARK, AUTO = "python", "spark", "auto"

_HINT_PYTHON_ENGINE = "or compare in this process: --engine python"


def is_spark_submit() -> bool:
    """Whether ``spark-submit`` has started this process: then there is a JVM, and a master has been chosen."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def is_spark_selected(engine: str, snapshots: Iterable[str], report_paths: Iterable[str]) -> bool:
    """Whether Spark is needed, or wanted, whatever the size of the fleet; ``report_paths`` are where reports are.

    Raises ``TopiaristError``: WrongUsage if only Spark could do it and is not to, PrerequisiteMissing without it.
    """
    reasons = [
        *((path, spark_required_reason(path)) for path in snapshots),
        *((path, REMOTE_REASON) for path in report_paths if is_remote(path)),
    ]
    path, why = next(((path, why) for path, why in reasons if why), ("", ""))
    if engine == PYTHON and why:
        message = (
            f"{printable(path, 4096)} {why}: only Spark can read and write there, and --engine python is without it"
        )
        raise TopiaristError(Reason.WRONG_USAGE, message, "leave --engine out, or name files and folders of JSON lines")
    chosen = engine == SPARK or (engine == AUTO and (bool(why) or is_spark_submit()))
    if chosen:
        require_spark("" if why else _HINT_PYTHON_ENGINE)
    return chosen


def require_spark(hint: str = _HINT_PYTHON_ENGINE) -> None:
    """Raise ``TopiaristError`` (PrerequisiteMissing) if PySpark or Java is missing; ``hint`` is the way without."""
    if is_spark_submit():
        return
    if importlib.util.find_spec("pyspark") is None:
        raise extras.missing_packages_error("drift", "comparing by Spark", hint)
    try:
        find_java("compare by Spark")
    except TopiaristError as error:
        raise TopiaristError(error.reason, str(error.args[0]), hint) from error


class Engine(Protocol):
    """What compares, and how it gets at what it needs."""

    def exists(self, path: str) -> bool:
        """Whether anything is at a path, or in the folder there."""

    def load_previous(self, path: str) -> PreviousReport:
        """An earlier report. Raises ``Unreadable``."""

    def open_snapshots(self, paths: Sequence[str], clusters: Mapping[str, ClusterSpec]) -> SnapshotInventory:
        """The snapshots at some paths. Raises ``SnapshotUnusable``."""

    def read_live(
        self, clusters: Mapping[str, ClusterSpec], approach: ConnectOptions, folder: ReportFolder
    ) -> SnapshotInventory | None:
        """The clusters themselves, as others have read them; None if that is left to whoever asks."""

    def create_report_folder(self, path: str) -> ReportFolder:
        """The place of the report. Raises ``Unwritable``."""

    def compare_and_write(self, job: ReportJob, recorded: SnapshotInventory, folder: ReportFolder) -> dict[str, Any]:
        """Compare what was recorded, and put the report in its place; gives its summary."""


class LocalEngine:
    """All of it in this process, one cluster after the other."""

    def exists(self, path: str) -> bool:
        """Whether anything is there."""
        where = Path(path)
        return any(where.iterdir()) if where.is_dir() else where.exists()

    def load_previous(self, path: str) -> PreviousReport:
        """An earlier report."""
        return history.load_previous(path)

    def open_snapshots(self, paths: Sequence[str], clusters: Mapping[str, ClusterSpec]) -> SnapshotInventory:
        """The snapshots at some paths."""
        return SnapshotInventory(paths, clusters)

    def read_live(
        self, _clusters: Mapping[str, ClusterSpec], _approach: ConnectOptions, _folder: ReportFolder
    ) -> SnapshotInventory | None:
        """There are no others."""
        return None

    def create_report_folder(self, path: str) -> ReportFolder:
        """The place of the report."""
        return ReportFolder(path)

    def compare_and_write(self, job: ReportJob, recorded: SnapshotInventory, folder: ReportFolder) -> dict[str, Any]:
        """Compare what was recorded."""
        return report.compare_and_write(job, recorded.read_clusters(job.desired.specs, job.options.owner), folder)

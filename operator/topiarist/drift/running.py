"""The ways to run a report: in this process, or by Spark; both bring input and output, and do the same with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from topiarist.core.spec import ClusterSpec
from topiarist.drift import history, report
from topiarist.drift.history import Previous
from topiarist.drift.observing import Recorded
from topiarist.drift.outputs import Folder
from topiarist.drift.reading_live import Approach
from topiarist.drift.report import Job


class Engine(Protocol):
    """What compares, and how it gets at what it needs."""

    def exists(self, path: str) -> bool:
        """Whether anything is at a path, or in the folder there."""

    def previous(self, path: str) -> Previous:
        """An earlier report. Raises ``Unreadable``."""

    def recorded(self, paths: Sequence[str], clusters: Mapping[str, ClusterSpec]) -> Recorded:
        """The snapshots at some paths. Raises ``SnapshotUnusable``."""

    def live(self, clusters: Mapping[str, ClusterSpec], approach: Approach, folder: Folder) -> Recorded | None:
        """The clusters themselves, as others have read them; None if that is left to whoever asks."""

    def folder(self, path: str) -> Folder:
        """The place of the report. Raises ``Unwritable``."""

    def write(self, job: Job, recorded: Recorded, folder: Folder) -> dict[str, Any]:
        """Compare what was recorded, and put the report in its place; gives its summary."""


class InProcess:
    """All of it in this process, one cluster after the other."""

    def exists(self, path: str) -> bool:
        """Whether anything is there."""
        where = Path(path)
        return any(where.iterdir()) if where.is_dir() else where.exists()

    def previous(self, path: str) -> Previous:
        """An earlier report."""
        return history.load(path)

    def recorded(self, paths: Sequence[str], clusters: Mapping[str, ClusterSpec]) -> Recorded:
        """The snapshots at some paths."""
        return Recorded(paths, clusters)

    def live(self, _clusters: Mapping[str, ClusterSpec], _approach: Approach, _folder: Folder) -> Recorded | None:
        """There are no others."""
        return None

    def folder(self, path: str) -> Folder:
        """The place of the report."""
        return Folder(path)

    def write(self, job: Job, recorded: Recorded, folder: Folder) -> dict[str, Any]:
        """Compare what was recorded."""
        return report.write(job, recorded.observations(job.desired.specs, job.run.owner), folder)

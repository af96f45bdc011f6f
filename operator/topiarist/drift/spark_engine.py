"""A report by Spark from end to end: whatever goes wrong there comes out as a ``TopiaristError``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from topiarist.core.spec import ClusterSpec
from topiarist.drift import history, spark_outputs, spark_report, spark_session
from topiarist.drift.hadoop import Storage
from topiarist.drift.history import Previous
from topiarist.drift.observing import Recorded
from topiarist.drift.outputs import WORK, Folder
from topiarist.drift.places import beyond_us, remote
from topiarist.drift.reading_live import Approach
from topiarist.drift.report import Job
from topiarist.drift.running import InProcess
from topiarist.drift.spark_errors import in_words
from topiarist.drift.spark_inputs import Stored
from topiarist.drift.spark_live import Live


class BySpark:
    """The session of this process, and what is done by it; ``quiet`` even if somebody looks."""

    def __init__(self, *, quiet: bool = False) -> None:
        with in_words():
            self._started = spark_session.start(quiet=quiet)
            self._storage = Storage(self._started)

    def exists(self, path: str) -> bool:
        """Whether anything is at a path or address, or in the folder there."""
        return bool(self._storage.names(path)) if remote(path) else InProcess().exists(path)

    def previous(self, path: str) -> Previous:
        """An earlier report."""
        return spark_outputs.previous(self._storage, path) if remote(path) else history.load(path)

    def recorded(self, paths: Sequence[str], clusters: Mapping[str, ClusterSpec]) -> Recorded:
        """The snapshots at some paths or addresses, or tables of them."""
        if not any(map(beyond_us, paths)):
            return Recorded(paths, clusters)
        with in_words():
            return Stored(self._started, paths, clusters)

    def live(self, clusters: Mapping[str, ClusterSpec], approach: Approach, folder: Folder) -> Live:
        """The clusters themselves, as the executors have read them; ``folder`` has room for that until its end."""
        with in_words():
            return Live(self._started, clusters, approach, f"{folder.place}/{WORK}")

    def folder(self, path: str) -> Folder:
        """The place of the report."""
        return spark_outputs.StoredFolder(self._storage, path) if remote(path) else Folder(path)

    def write(self, job: Job, recorded: Recorded, folder: Folder) -> dict[str, Any]:
        """Compare what was recorded."""
        with in_words():
            return spark_report.write(self._started, job, recorded, folder)

"""Report outputs that need Spark: findings as Parquet, and report folders at remote URIs.

``drift.spark.engine`` uses them. The Parquet table is partitioned by the day when clusters
were read, for queries over many reports. A remote report is written to a staging folder beside its target and then
renamed. Not every store renames a folder atomically, so that ``summary.json`` gets its name last, with a rename of one
file, which every store does atomically: a folder without ``summary.json`` is not a report.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from types import TracebackType

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from topiarist.drift.history import previous
from topiarist.drift.history.previous import (
    ACCEPTED_FILE,
    FINDINGS_FILE,
    NOT_EVALUATED_FILE,
    SUMMARY_FILE,
    PreviousReport,
)
from topiarist.drift.outputs.folder import WORK_FOLDER, ReportFolder, raise_not_replaceable
from topiarist.drift.spark.columns import report_row_type
from topiarist.drift.spark.filesystem import Storage
from topiarist.drift.uris import is_remote, to_literal_uri, to_uri
from topiarist.errors import TopiaristError

PARQUET_FOLDER, PART_FILE = "findings.parquet", "part.parquet"


def write_parquet(spark: SparkSession, folder: ReportFolder, staging: Path) -> None:
    """Write the rows of ``findings.jsonl`` in ``staging`` as Parquet, with one file ``part.parquet`` per day."""
    rows = spark.read.schema(report_row_type("finding")).json(
        to_literal_uri(folder.share_file(staging / FINDINGS_FILE))
    )
    days = rows.withColumn("date", f.substring("takenAt", 1, 10)).coalesce(1)
    target = f"{folder.staging_path}/{PARQUET_FOLDER}"
    days.write.partitionBy("date").option("compression", "zstd").parquet(to_uri(target))
    # Spark's file names are random in each run, and readers do not need the checksum and marker files of Spark.
    if is_remote(target):
        storage = Storage(spark)
        for address in storage.list_files(target):
            storage.move(address, f"{address.rpartition('/')[0]}/{PART_FILE}")
        storage.remove(f"{target}/_SUCCESS")
    else:
        for file in [*Path(target).rglob("*.crc"), Path(target, "_SUCCESS")]:
            file.unlink(missing_ok=True)
        for file in [*Path(target).rglob("*.parquet")]:
            file.rename(file.with_name(PART_FILE))


_PENDING_SUMMARY_FILE = f"{SUMMARY_FILE}.last"


class RemoteReportFolder(ReportFolder):
    """A ``ReportFolder`` at a URI: files are written locally and uploaded when all are complete."""

    def __init__(self, storage: Storage, address: str) -> None:
        self._storage = storage
        self._uri = address.rstrip("/")
        self._parent = self._uri.rpartition("/")[0]
        self._existing_names = storage.list_names(self._uri)
        names = self._existing_names
        if names and SUMMARY_FILE not in names and _PENDING_SUMMARY_FILE not in names:
            raise_not_replaceable(address)
        self._staging_uri = f"{self._parent}/.topiarist-{token_hex(8)}"
        storage.make_folder(self._staging_uri, address)
        self._sent: set[Path] = set()
        self._local_folder = TemporaryDirectory(prefix="topiarist-drift-")
        super().__init__(f"{self._local_folder.name}/report")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._local_folder.cleanup()
        with suppress(TopiaristError):  # an error of the cleanup must not hide the first error
            self._storage.remove(self._staging_uri)

    @property
    def staging_path(self) -> str:
        """Return the URI of the staging folder."""
        return self._staging_uri

    def share_file(self, file: Path) -> str:
        """Upload a file of the report to the staging folder, and return its URI."""
        address = f"{self._staging_uri}/{file.relative_to(self._staging)}"
        self._storage.upload(file, address)
        self._sent.add(file)
        return address

    def _publish(self) -> None:
        self._storage.remove(f"{self._staging_uri}/{WORK_FOLDER}")
        for file in sorted({*self._staging.iterdir()} - self._sent):
            # The summary marks a complete report, so that it gets its final name after the folder is in place.
            name = _PENDING_SUMMARY_FILE if file.name == SUMMARY_FILE else file.name
            self._storage.upload(file, f"{self._staging_uri}/{name}")
        backup = f"{self._parent}/.topiarist-{token_hex(8)}"
        if self._existing_names is not None:
            self._storage.move(self._uri, backup)
        try:
            self._storage.move(self._staging_uri, self._uri)
            self._storage.move(f"{self._uri}/{_PENDING_SUMMARY_FILE}", f"{self._uri}/{SUMMARY_FILE}")
        except BaseException:
            if self._existing_names is not None:
                with suppress(TopiaristError):
                    self._storage.remove(self._uri)
                    self._storage.move(backup, self._uri)
            raise
        self._storage.remove(backup)


def load_previous(storage: Storage, address: str) -> PreviousReport:
    """Read the report at a URI; raises the errors of ``history.previous.load_previous``."""
    address = address.rstrip("/")
    with TemporaryDirectory(prefix="topiarist-drift-") as here:
        for name in (SUMMARY_FILE, NOT_EVALUATED_FILE, FINDINGS_FILE, ACCEPTED_FILE):
            storage.download(f"{address}/{name}", Path(here, name))
        try:
            return previous.load_previous(here)
        except TopiaristError as error:
            raise TopiaristError(error.reason, str(error.args[0]).replace(here, address), error.hint) from error

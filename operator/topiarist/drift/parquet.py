"""Findings as Parquet, partitioned by the day on which clusters were read: for whoever asks many reports at once."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from topiarist.core.values import shown
from topiarist.drift.columns import finding
from topiarist.drift.hadoop import Storage
from topiarist.drift.history import FINDINGS
from topiarist.drift.outputs import Folder
from topiarist.drift.places import address, exact, remote
from topiarist.drift.spark_session import distributed
from topiarist.errors import Reason, TopiaristError

FOLDER, PART = "findings.parquet", "part.parquet"


def write(spark: SparkSession, folder: Folder, aside: Path) -> None:
    """Write what ``findings.jsonl`` in ``aside`` has beside it; one file a day, named as such, and no other."""
    rows = spark.read.schema(finding()).json(exact(folder.shared(aside / FINDINGS)))
    days = rows.withColumn("date", f.substring("takenAt", 1, 10)).coalesce(1)
    place = f"{folder.place}/{FOLDER}"
    days.write.partitionBy("date").option("compression", "zstd").parquet(address(place))
    # Spark's names are made up anew each time, and its own notes beside the files say nothing that a reader needs.
    if remote(place):
        _name(Storage(spark), place)
    else:
        _name_here(Path(place))
    if distributed(spark):
        _require_all(spark, aside, place)


def _name(storage: Storage, place: str) -> None:
    for file in storage.files(place):
        storage.move(file, f"{file.rpartition('/')[0]}/{PART}")
    storage.remove(f"{place}/_SUCCESS")


def _name_here(place: Path) -> None:
    for file in [*place.rglob("*.crc"), place / "_SUCCESS"]:
        file.unlink(missing_ok=True)
    for file in place.rglob("*.parquet"):
        file.rename(file.with_name(PART))


def _require_all(spark: SparkSession, aside: Path, place: str) -> None:
    """Raise ``Unwritable`` if rows are missing: machines that do not share a folder each write to one of their own."""
    with (aside / FINDINGS).open("rb") as lines:
        wanted = sum(1 for _ in lines)
    found = spark.read.schema(finding()).parquet(exact(place)).count()
    if found != wanted:
        message = f"{shown(place, 4096)}: found {found:,} findings after {wanted:,} were written there"
        instead = "give --out a folder that all machines of the cluster share, or an address such as hdfs:"
        raise TopiaristError(Reason.UNWRITABLE, message, instead)

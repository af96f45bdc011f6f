"""Findings as Parquet, partitioned by the day on which clusters were read: for whoever asks many reports at once."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from topiarist.drift.columns import finding
from topiarist.drift.history import FINDINGS

FOLDER = "findings.parquet"


def write(spark: SparkSession, folder: Path) -> None:
    """Write what ``findings.jsonl`` in ``folder`` has beside it; one file a day, named as such, and no other."""
    rows = spark.read.schema(finding()).json(str(folder / FINDINGS))
    days = rows.withColumn("date", f.substring("takenAt", 1, 10)).coalesce(1)
    place = folder / FOLDER
    days.write.partitionBy("date").option("compression", "zstd").parquet(str(place))
    # Spark's names are made up anew each time, and its own notes beside the files say nothing that a reader needs.
    for file in [*place.rglob("*.crc"), place / "_SUCCESS"]:
        file.unlink(missing_ok=True)
    for file in place.rglob("*.parquet"):
        file.rename(file.with_name("part.parquet"))

"""The least driver of a Spark job, for comparison: it opens a session, sends a file, and reads a table of one row.

PySpark imports pandas and pyarrow for that, where they are installed; the client of a Connect server needs them. A
module that executors import costs the driver 20 MiB more.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

if __name__ == "__main__":
    spark = SparkSession.builder.getOrCreate()
    spark.addArtifacts(__file__, pyfile=True)
    spark.createDataFrame([(1,)], "number int").collect()
    spark.stop()

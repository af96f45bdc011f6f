"""Reports from S3 to S3 by Spark through s3a, on a server that speaks S3."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping

import pytest

from support.drift import drifted_fleet
from support.drift.drifted_fleet import DriftedFleet
from support.spark.cluster import FAST_START_OPTIONS
from support.spark.jars import fetch_jars
from support.spark.s3 import S3A, Bucket, serve_bucket

pytestmark = pytest.mark.slow

Report = Callable[..., None]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> DriftedFleet:
    """Return a small fleet."""
    return drifted_fleet.make_fleet(tmp_path_factory.mktemp("fleet"), 6, 40, 2)


@pytest.fixture(scope="module")
def bucket(fleet: DriftedFleet) -> Iterator[Bucket]:
    """Serve a bucket with the snapshots of the fleet."""
    with serve_bucket() as bucket:
        bucket.upload(fleet.snapshots, "snapshots")
        yield bucket


@pytest.fixture
def report(fleet: DriftedFleet, bucket: Bucket) -> Report:
    """Return a function that reports from the bucket to the bucket."""

    def run(scheme: str, out: str, *words: str, options: Mapping[str, str] = {}) -> None:
        command = [sys.executable, "-m", "topiarist", "drift", str(fleet.manifests), "-q"]
        command += ["--snapshots", f"{scheme}://fleet/snapshots", "--out", f"{scheme}://fleet/{out}", *words]
        conf = [f"--conf {name}={value}" for name, value in options.items()]
        submit = [f"--driver-java-options '{FAST_START_OPTIONS}'", *conf, "pyspark-shell"]
        variables = bucket.environment | {"PYSPARK_SUBMIT_ARGS": " ".join(submit)}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        messages = [line for line in done.stderr.splitlines() if not line.startswith("SLF4J: ")]  # of the SDK of AWS
        assert (done.returncode, messages) == (1, [])

    return run


def test_spark_reports_from_s3_to_s3(bucket: Bucket, report: Report) -> None:
    """Spark reads and writes by s3a with the magic committer; the joined files have the bytes of one process."""
    jars = ",".join(map(str, fetch_jars()))
    options = {**S3A, "spark.jars": jars, "spark.hadoop.fs.s3a.endpoint": bucket.endpoint}
    previous = ("--previous", "s3a://fleet/first")
    report("s3a", "first", "--engine", "python")
    report("s3a", "one", "--engine", "python", *previous)
    report("s3a", "spark", "--engine", "spark", *previous, options=options)
    assert bucket.read_report("spark") == bucket.read_report("one")
    parts = [key for key in bucket.list_keys("spark/findings.jsonl") if "part-" in key]
    assert parts
    assert [key for key in bucket.list_keys("spark/findings.parquet") if key.endswith(".parquet")]
    assert bucket.list_keys(".topiarist") == []

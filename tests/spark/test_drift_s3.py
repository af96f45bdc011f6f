"""Reports from S3 to S3: by one process through s3fs, and by Spark through s3a, on a server that speaks S3."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from botocore.session import Session
from moto.server import ThreadedMotoServer

from support.drift import drifted_fleet
from support.spark.cluster import FAST_START_OPTIONS
from support.spark.jars import fetch_jars

pytestmark = pytest.mark.slow

S3A = {
    "spark.hadoop.fs.s3a.path.style.access": "true",
    "spark.hadoop.fs.s3a.endpoint.region": "eu-central-1",
    "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3a": "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory",
    "spark.hadoop.fs.s3a.committer.name": "magic",
}
"""The settings that the documentation has."""


class Bucket:
    """A bucket with the snapshots of a fleet, and the environment of a command that reaches it."""

    def __init__(self, endpoint: str, fleet: drifted_fleet.DriftedFleet) -> None:
        names = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "eu-central-1"}
        self.endpoint, self.fleet = endpoint, fleet
        self.environment = {**os.environ, **names, "AWS_ENDPOINT_URL": endpoint}
        self._client: Any = Session().create_client(
            "s3",
            "eu-central-1",
            endpoint_url=endpoint,
            aws_access_key_id="key",
            aws_secret_access_key="secret",
        )
        self._client.create_bucket(Bucket="fleet", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        for path in fleet.snapshots.rglob("*.jsonl"):
            self._client.put_object(Bucket="fleet", Key=f"snapshots/{path.name}", Body=path.read_bytes())

    def list_keys(self, prefix: str) -> list[str]:
        """Return the keys of all objects below a prefix."""
        found = self._client.list_objects_v2(Bucket="fleet", Prefix=prefix)
        return [each["Key"] for each in found.get("Contents", ())]

    def read_report(self, prefix: str) -> dict[str, bytes]:
        """Return the files of a report except Parquet; those of executors are joined."""
        found: dict[str, bytes] = {}
        for key in self.list_keys(prefix):
            name = key.removeprefix(f"{prefix}/").partition("/")[0]
            if name != "findings.parquet":
                body = self._client.get_object(Bucket="fleet", Key=key)["Body"].read()
                found[name] = found.get(name, b"") + body
        return found

    def report(self, scheme: str, out: str, *words: str, options: Mapping[str, str] = {}) -> None:
        """Report from the bucket to the bucket."""
        command = [sys.executable, "-m", "topiarist", "drift", str(self.fleet.manifests), "-q"]
        command += ["--snapshots", f"{scheme}://fleet/snapshots", "--out", f"{scheme}://fleet/{out}", *words]
        conf = [f"--conf {name}={value}" for name, value in options.items()]
        submit = [f"--driver-java-options '{FAST_START_OPTIONS}'", *conf, "pyspark-shell"]
        variables = self.environment | {"PYSPARK_SUBMIT_ARGS": " ".join(submit)}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        messages = [line for line in done.stderr.splitlines() if not line.startswith("SLF4J: ")]  # of the SDK of AWS
        assert (done.returncode, messages) == (1, [])


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """Start a server of S3 on the loopback address."""
    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    try:
        port = server.get_host_and_port()[1]
        fleet = drifted_fleet.make_fleet(tmp_path_factory.mktemp("fleet"), 6, 40, 2)
        yield Bucket(f"http://127.0.0.1:{port}", fleet)
    finally:
        server.stop()


def test_a_process_and_a_pool_report_from_s3_to_s3(bucket: Bucket) -> None:
    """Both write the same report and the same history; nothing else is left in the bucket."""
    for jobs in ("1", "2"):
        for _ in range(2):
            bucket.report("s3", f"pool-{jobs}", "--jobs", jobs, "--history", f"s3://fleet/history-{jobs}")
        found = bucket.read_report(f"pool-{jobs}")
        assert {*found} >= {"summary.json", "findings.jsonl", "report.html"}
        assert found["findings.jsonl"].count(b"\n") == len(bucket.fleet.expected)
        assert len(bucket.list_keys(f"history-{jobs}/runs")) == 1
    assert bucket.read_report("pool-1") == bucket.read_report("pool-2")
    assert bucket.list_keys(".topiarist") == []


def test_spark_reports_from_s3_to_s3(bucket: Bucket) -> None:
    """Spark reads and writes by s3a with the magic committer; the joined files have the bytes of one process."""
    jars = ",".join(map(str, fetch_jars()))
    options = {**S3A, "spark.jars": jars, "spark.hadoop.fs.s3a.endpoint": bucket.endpoint}
    previous = ("--previous", "s3a://fleet/first")
    bucket.report("s3a", "first", "--engine", "python")
    bucket.report("s3a", "one", "--engine", "python", *previous)
    bucket.report("s3a", "spark", "--engine", "spark", *previous, options=options)
    assert bucket.read_report("spark") == bucket.read_report("one")
    parts = [key for key in bucket.list_keys("spark/findings.jsonl") if "part-" in key]
    assert parts
    assert [key for key in bucket.list_keys("spark/findings.parquet") if key.endswith(".parquet")]
    assert bucket.list_keys(".topiarist") == []

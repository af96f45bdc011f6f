"""A server of S3 on the loopback address, one bucket in it, and what a command needs to reach it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from botocore.session import Session
from moto.server import ThreadedMotoServer

BUCKET, REGION = "fleet", "eu-central-1"

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": REGION}

S3A: Mapping[str, str] = {
    "spark.hadoop.fs.s3a.path.style.access": "true",
    "spark.hadoop.fs.s3a.endpoint.region": REGION,
    "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3a": "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory",
    "spark.hadoop.fs.s3a.committer.name": "magic",
}
"""The settings that the documentation has."""


class Bucket:
    """The bucket; ``environment`` are the variables with which a command reaches it."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.environment = {**os.environ, **CREDENTIALS, "AWS_ENDPOINT_URL": endpoint}
        self._client: Any = Session().create_client(
            "s3",
            REGION,
            endpoint_url=endpoint,
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )
        self._client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})

    def upload(self, folder: Path, prefix: str) -> None:
        """Put all snapshots of a folder below a prefix."""
        for path in folder.rglob("*.jsonl"):
            self._client.put_object(Bucket=BUCKET, Key=f"{prefix}/{path.name}", Body=path.read_bytes())

    def list_keys(self, prefix: str) -> list[str]:
        """Return the keys of all objects below a prefix."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [each["Key"] for page in pages for each in page.get("Contents", ())]

    def read_report(self, prefix: str) -> dict[str, bytes]:
        """Return the files of a report except Parquet; those of executors are joined."""
        found: dict[str, bytes] = {}
        for key in self.list_keys(prefix):
            name = key.removeprefix(f"{prefix}/").partition("/")[0]
            if name != "findings.parquet":
                body = self._client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
                found[name] = found.get(name, b"") + body
        return found


@contextmanager
def serve_bucket() -> Iterator[Bucket]:
    """Serve an empty bucket from threads of this process."""
    server = ThreadedMotoServer("127.0.0.1", 0)
    with redirect_stdout(sys.stderr):  # it says where it listens
        server.start()
    try:
        yield Bucket(f"http://127.0.0.1:{server.get_host_and_port()[1]}")
    finally:
        server.stop()

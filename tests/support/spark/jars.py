"""Jars that Spark needs for S3, fetched once into ``TOPIARIST_CACHE`` by Maven and pinned by checksum.

The release of hadoop-aws is that of the Hadoop in PySpark's own jars.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from support.kafka.jars import cache_folder

_POM, _PINS = Path(__file__).with_name("pom.xml"), Path(__file__).with_name("s3a.sha256")

_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


def fetch_jars() -> list[Path]:
    """Return hadoop-aws with all that it needs. Raises ``CalledProcessError`` if Maven cannot bring the jars."""
    folder = cache_folder().with_name("spark-s3a")
    pins = {name: checksum for checksum, name in map(str.split, _PINS.read_text().splitlines())}
    if not all((folder / name).exists() for name in pins):
        subprocess.run(["mvn", "-q", "-B", "-f", str(_POM), _GOAL, f"-DoutputDirectory={folder}"], check=True)
    for name, checksum in pins.items():
        with (folder / name).open("rb") as jar:
            assert hashlib.file_digest(jar, "sha256").hexdigest() == checksum, name
    return [folder / name for name in pins]

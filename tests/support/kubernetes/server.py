"""A real Kubernetes API server for the tests: kube-apiserver and etcd as processes.

``tools/kube/build.sh`` builds them from Go modules. There are no controllers: a deleted namespace stays
``Terminating``, garbage collection does not run, and no ServiceAccount is created automatically. So each test has its
own namespace, which is never deleted. The server ends with the run, by SIGKILL, because on SIGTERM it waits for its
watches.
"""

from __future__ import annotations

import os
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Self

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from support.checkout import ROOT
from support.kafka.processes import Process
from support.kubernetes.api_client import API_TIMEOUT_S, ApiClient, ApiEndpoint
from support.waiting import wait_until
from topiarist.adapters.devcluster.zookeeper_server import free_port

START_TIMEOUT_S = 300.0
"""Seconds for a start, which takes 3 on a quiet machine and has taken 85 on a busy one."""


class MissingToolsError(Exception):
    """A missing build tool for the API server; the message says what to install."""


def binaries() -> Path:
    """Return the folder with kube-apiserver, etcd and kubectl, built if they are missing. Raises ``NoGo``."""
    done = subprocess.run([ROOT / "tools/kube/build.sh"], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        raise MissingToolsError(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


class ApiServer:
    """etcd and kube-apiserver on free loopback ports, with RBAC: ``with ApiServer(folder) as server:``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""
        self.etcd: Process
        self.process: Process
        self._stack = ExitStack()
        self._numbers = count(1)

    @property
    def ca(self) -> Path:
        """The self-signed certificate of the server."""
        return self.folder / "certs" / "apiserver.crt"

    @property
    def admin(self) -> ApiClient:
        """A client with all rights."""
        return self.api("admin")

    def api(self, token: str, namespace: str = "default") -> ApiClient:
        """Return a client with a token; ``kubeconfig`` is a file with the same credentials."""
        site = ApiEndpoint(self.url, self.ca, self.folder / "bin" / "kubectl")
        return ApiClient(site, token, self.folder / f"kubeconfig-{next(self._numbers)}", namespace)

    def restart(self) -> None:
        """Stop the API server and start it again, on the same port with the data of etcd."""
        self.process.kill()
        self.process.start()
        assert self.process.wait_ready(lambda: self._is_ready(f"{self.url}/readyz"), START_TIMEOUT_S), (
            "its port was taken"
        )

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "bin").symlink_to(binaries())
        (self.folder / "tokens.csv").write_text('admin,admin,admin,"system:masters"\n')
        _write_keys(self.folder)
        # Another process may take the free port before the server binds it.
        while not self._start_etcd():
            pass
        while not self._start_server():
            pass

    def _start_etcd(self) -> bool:
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        options = {
            "data-dir": self.folder / "etcd-data",
            "log-level": "warn",
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
        }
        command = [str(self.folder / "bin" / "etcd"), *_flags(options), "--unsafe-no-fsync"]
        self._etcd_url = client
        self.etcd = Process(self.folder / "etcd", command)
        return self._start_process(self.etcd, f"{client}/health")

    def _start_server(self) -> bool:
        port = free_port()
        self.url = f"https://127.0.0.1:{port}"
        keys = self.folder / "service-accounts"
        options = {
            "etcd-servers": self._etcd_url,
            "bind-address": "127.0.0.1",
            "secure-port": port,
            "cert-dir": self.folder / "certs",
            "endpoint-reconciler-type": "none",
            "service-cluster-ip-range": "10.0.0.0/24",
            "authorization-mode": "RBAC",
            "token-auth-file": self.folder / "tokens.csv",
            "service-account-issuer": "https://localhost",
            "service-account-key-file": f"{keys}.pub",
            "service-account-signing-key-file": f"{keys}.key",
            "profiling": "false",
        }
        command = [str(self.folder / "bin" / "kube-apiserver"), *_flags(options)]
        self.process = Process(self.folder / "apiserver", command)
        return self._start_process(self.process, f"{self.url}/readyz")

    def _start_process(self, process: Process, url: str) -> bool:
        """Start a process and wait until it responds; return False if its port was in use."""
        self._stack.callback(process.kill)
        process.start()
        return process.wait_ready(lambda: self._is_ready(url), START_TIMEOUT_S)

    def _is_ready(self, url: str) -> bool:
        # The certificate may not exist before the server is ready.
        if url.startswith("https") and not self.ca.exists():
            return False
        try:
            context = ssl.create_default_context(cafile=str(self.ca)) if url.startswith("https") else None
            request = urllib.request.Request(url, headers={"Authorization": "Bearer admin"})
            with urllib.request.urlopen(request, context=context, timeout=API_TIMEOUT_S) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def install_definitions(api: ApiClient, folder: Path = ROOT / "manifests" / "crds") -> None:
    """Install topiarist's custom resource definitions and wait until the API server serves them."""
    for words in (("apply", "--server-side", "-f", folder), ("wait", "--for=condition=Established", "-f", folder)):
        done = api.kubectl(*words)
        assert done.returncode == 0, done.stderr
    # The condition Established becomes true shortly before the server serves the kind.
    kinds = ("topics", "clusters", "policies")
    wait_until(
        lambda: all(api.call("GET", f"/apis/topiarist.dev/v1/{kind}").status == 200 for kind in kinds),
        "our kinds are served",
        timeout=API_TIMEOUT_S,
    )


def _flags(options: Mapping[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in options.items()]


def _write_keys(folder: Path) -> None:
    """Write the keys that sign and verify tokens of ServiceAccounts."""
    key = ec.generate_private_key(ec.SECP256R1())
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.TraditionalOpenSSL, plain)
    public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / "service-accounts.key").write_bytes(private)
    (folder / "service-accounts.pub").write_bytes(public)


@contextmanager
def open_api_server(folder: Path) -> Iterator[ApiServer]:
    """Start an API server with topiarist's definitions; without Go the test is skipped, but fails in CI."""
    try:
        binaries()
    except MissingToolsError as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))
    with ApiServer(folder) as server:
        install_definitions(server.admin)
        yield server

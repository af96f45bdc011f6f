"""The operator as a separate process, with the ServiceAccount and the rights of the chart."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.error import URLError
from urllib.request import urlopen

from support.kafka.processes import Process
from support.kubernetes.helm import Values
from support.kubernetes.rbac import grant, rbac_documents
from support.kubernetes.server import ApiServer
from topiarist.adapters.devcluster.zookeeper_server import free_port
from topiarist.cli.commands.operator import command

PROGRAM = ("-m", "topiarist", "operator")
"""What a Python interpreter is to run."""


def create_account_token(server: ApiServer, namespace: str, *words: str, secrets: Sequence[str] = ()) -> str:
    """Return a token of an account with the rights for these operator arguments and read access to these Secrets."""
    return grant(server, rbac_documents(namespace, {**chart_values(words), "secretNames": [*secrets]}))


def chart_values(words: Sequence[str]) -> Values:
    """Return the chart values that start the operator with these arguments."""
    said = command.make_context("operator", [*words]).params
    return {"watchNamespaces": [*said["namespaces"]], "leaderElection": {"enabled": said["leader_election"]}}


def http_get(port: int, path: str) -> tuple[int, str]:
    """Return the HTTP response of an operator on this port; status 0 without a response."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except URLError as error:
        return getattr(error, "code", 0), str(error)
    except OSError as error:
        return 0, str(error)


class OperatorProcess:
    """``with Operator(server, namespace, folder) as operator:``, ready when the block begins.

    Without a token the operator gets its own account, with the rights of the chart for its arguments; ``secrets`` are
    the Secrets that it may read.
    """

    def __init__(
        self, server: ApiServer, namespace: str, folder: Path, *words: str, token: str = "", secrets: Sequence[str] = ()
    ) -> None:
        self.token = token or create_account_token(server, namespace, *words, secrets=secrets)
        api = server.api(self.token, namespace)
        self.port = free_port()
        program = [
            *("env", f"KUBECONFIG={api.kubeconfig}", "KUBERNETES_SERVICE_HOST=", sys.executable, *PROGRAM),
            *("--namespace", namespace, "--listen", f"127.0.0.1:{self.port}", "--period", "5", *words),
        ]
        self.process = Process(folder, program)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self.process.pid

    def http_get(self, path: str) -> tuple[int, str]:
        """Return its HTTP response; status 0 without a response."""
        return http_get(self.port, path)

    def start(self) -> None:
        """Start the operator, and wait until it has read all resources."""
        self.process.start()
        self.process.wait_ready(lambda: self.http_get("/readyz")[0] == 200)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.stop()

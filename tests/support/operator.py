"""The operator as a process of its own, with the ServiceAccount and the rights that the chart gives it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.error import URLError
from urllib.request import urlopen

from support.helm import Document, Values, render
from support.kafka.processes import Process, free_port
from support.kube import ApiServer
from topiarist.cli.operator import command

BEGIN = "from topiarist.cli.operator import command; command()"
"""The operator is no command of the command line yet."""

RELEASE = "topiarist"

WITHOUT: Values = {"crds": {"enabled": False}, "admissionPolicies": {"enabled": False}, "rbac": {"aggregate": False}}
"""What the operator's rights are rendered without: what there is one of for the whole API server, and people's roles."""

PATHS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}


def rights(namespace: str, values: Values | None = None) -> list[Document]:
    """The ServiceAccount with its roles and bindings, as the chart has them for a release of these values."""
    found = render({**(values or {}), **WITHOUT}, name=RELEASE, namespace=namespace)
    return [one for one in found if one["kind"] in PATHS]


def grant(server: ApiServer, given: Sequence[Document]) -> str:
    """Make an account with its roles and bindings; gives a token of it."""
    api = server.admin
    for one in given:
        api.make(PATHS[one["kind"]].format(one["metadata"].get("namespace")), one)
    (account,) = (one["metadata"] for one in given if one["kind"] == "ServiceAccount")
    return api.token_of(account["namespace"], account["name"])


def account(server: ApiServer, namespace: str, *words: str, secrets: Sequence[str] = ()) -> str:
    """A token of an account that may do what an operator with these words needs; it may read these Secrets."""
    return grant(server, rights(namespace, {**values_of(words), "secretNames": [*secrets]}))


def values_of(words: Sequence[str]) -> Values:
    """The values that let the chart start the operator with these words."""
    said = command.make_context("operator", [*words]).params
    return {"watchNamespaces": [*said["namespaces"]], "leaderElection": {"enabled": said["leader_election"]}}


class Operator:
    """``with Operator(server, namespace, folder) as operator:``, ready when the block begins.

    Without a token it gets an account of its own, with the rights that the chart gives it for its words; ``secrets``
    are the Secrets that it may read.
    """

    def __init__(
        self, server: ApiServer, namespace: str, folder: Path, *words: str, token: str = "", secrets: Sequence[str] = ()
    ) -> None:
        api = server.api(token or account(server, namespace, *words, secrets=secrets), namespace)
        self.port = free_port()
        program = [
            *("env", f"KUBECONFIG={api.kubeconfig}", "KUBERNETES_SERVICE_HOST=", sys.executable, "-c", BEGIN),
            *("--namespace", namespace, "--listen", f"127.0.0.1:{self.port}", "--period", "5", *words),
        ]
        self.process = Process(folder, program)

    def asked(self, path: str) -> tuple[int, str]:
        """What it answers; 0 if it does not."""
        try:
            with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except URLError as error:
            return getattr(error, "code", 0), str(error)
        except OSError as error:
            return 0, str(error)

    def start(self) -> None:
        """Start it, and wait until it has seen everything."""
        self.process.start()
        self.process.wait_until(lambda: self.asked("/readyz")[0] == 200)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.stop()

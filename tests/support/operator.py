"""The operator as a process of its own, with a ServiceAccount and no more rights than it needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import URLError
from urllib.request import urlopen

from support.kafka.processes import Process, free_port
from support.kube import ApiServer
from support.kubeapi import Api

ACCOUNT = "topiarist"

RULES: Sequence[Mapping[str, Any]] = (
    {"apiGroups": ["topiarist.dev"], "resources": ["topics"], "verbs": ["list", "watch", "patch"]},
    {"apiGroups": ["topiarist.dev"], "resources": ["topics/status"], "verbs": ["patch"]},
    {"apiGroups": ["topiarist.dev"], "resources": ["clusters", "policies"], "verbs": ["list", "watch"]},
    {"apiGroups": ["topiarist.dev"], "resources": ["clusters/status", "policies/status"], "verbs": ["patch"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]},
    {
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        "resourceNames": ["topics.topiarist.dev"],
        "verbs": ["get"],
    },
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
)


def account(server: ApiServer, namespace: str, rules: Sequence[Mapping[str, Any]] = RULES) -> str:
    """A ServiceAccount with these rights everywhere; gives a token of it."""
    api = server.admin
    name = f"{ACCOUNT}-{namespace}"
    api.make(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": ACCOUNT}})
    api.make("/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": name}, "rules": list(rules)})
    api.make(
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
        },
    )
    return api.token_of(namespace, ACCOUNT)


class Operator:
    """``with Operator(server, namespace, folder) as operator:``, ready when the block begins."""

    def __init__(
        self,
        server: ApiServer,
        namespace: str,
        folder: Path,
        *words: str,
        token: str = "",
        through: Callable[[str, str], Api] | None = None,
    ) -> None:
        """``words`` are further options; ``through`` gives a client that takes another way to the server."""
        token = token or account(server, namespace)
        api = (through or server.api)(token, namespace)
        self.port = free_port()
        command = [
            *(
                "env",
                f"KUBECONFIG={api.kubeconfig}",
                "KUBERNETES_SERVICE_HOST=",
                sys.executable,
                "-m",
                "topiarist",
                "operator",
            ),
            *("--namespace", namespace, "--listen", f"127.0.0.1:{self.port}", "--period", "5", *words),
        ]
        self.process = Process(folder, command)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self.process.pid

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

"""Two ways to talk to the API server of the tests: plain HTTP, where every answer counts, and a real kubectl."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

API_TIMEOUT_S = 120.0
"""Seconds for an answer: an API server on a busy machine needs its time."""

_CONFIG = """\
apiVersion: v1
kind: Config
current-context: test
clusters: [{{name: test, cluster: {{server: "{server}", certificate-authority: "{ca}"}}}}]
users: [{{name: user, user: {{token: "{token}"}}}}]
contexts: [{{name: test, context: {{cluster: test, user: user, namespace: "{namespace}"}}}}]
"""


class ApiEndpoint(NamedTuple):
    """Where an API server is, the certificate that it shows, and a kubectl."""

    url: str
    ca: Path
    kubectl: Path


class ApiResponse(NamedTuple):
    """What the API server said: the HTTP status, and an object; plain text is its ``message``."""

    status: int
    body: Mapping[str, Any]

    @property
    def message(self) -> str:
        """Its words, if it refused."""
        return str(self.body.get("message", ""))


class ApiClient:
    """A client with one token: HTTP as it is, and kubectl. ``kubeconfig`` is written, for whoever wants the same."""

    def __init__(self, endpoint: ApiEndpoint, token: str, kubeconfig: Path, namespace: str) -> None:
        self.endpoint = endpoint
        self.token = token
        self.kubeconfig = kubeconfig
        self._tls = ssl.create_default_context(cafile=str(endpoint.ca))
        kubeconfig.write_text(_CONFIG.format(server=endpoint.url, ca=endpoint.ca, token=token, namespace=namespace))

    def call(self, method: str, path: str, body: object = None, kind: str = "application/json") -> ApiResponse:
        """One request, whatever the answer is."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind, "Accept": "application/json"}
        request = urllib.request.Request(self.endpoint.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=API_TIMEOUT_S) as answer:
                return ApiResponse(answer.status, json.load(answer))
        except urllib.error.HTTPError as error:
            text = error.read().decode()  # a path that nobody serves answers in plain text
            return ApiResponse(error.code, json.loads(text) if text.startswith("{") else {"message": text})

    def create_object(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Create an object below ``path``. Raises ``AssertionError`` with what the server says against it."""
        answer = self.call("POST", path, body)
        assert answer.status == 201, answer
        return answer.body

    def apply(self, path: str, body: Mapping[str, Any], manager: str = "test") -> ApiResponse:
        """A server-side apply of ``path/NAME``; unknown fields are refused."""
        query = f"?fieldManager={manager}&fieldValidation=Strict"
        return self.call("PATCH", f"{path}/{body['metadata']['name']}{query}", body, "application/apply-patch+yaml")

    def kubectl(self, *words: str | Path, given: str | None = None) -> subprocess.CompletedProcess[str]:
        """``kubectl``, with ``given`` on its standard input; whatever the exit code is."""
        command = [str(self.endpoint.kubectl), *map(str, words)]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.kubeconfig.parent),
            "KUBECONFIG": str(self.kubeconfig),
            "COLUMNS": "120",
        }
        return subprocess.run(
            command, input=given, env=environment, capture_output=True, text=True, timeout=API_TIMEOUT_S, check=False
        )

    def request_token(self, namespace: str, account: str) -> str:
        """A fresh token of a ServiceAccount, by a TokenRequest."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(self.create_object(path, wanted)["status"]["token"])


def load_documents(path: Path) -> list[dict[str, Any]]:
    """The documents of a YAML file."""
    return [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one]


def to_yaml(found: Iterable[Mapping[str, Any]]) -> str:
    """Documents as YAML, for the standard input of kubectl."""
    return yaml.safe_dump_all(found, sort_keys=False)

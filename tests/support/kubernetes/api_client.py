"""Two clients of the API server of the tests: plain HTTP that returns every response, and a real kubectl."""

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
    """The address and certificate of an API server, and the path of a kubectl."""

    url: str
    ca: Path
    kubectl: Path


class ApiResponse(NamedTuple):
    """A response of the API server: the HTTP status and an object; plain text is its ``message``."""

    status: int
    body: Mapping[str, Any]

    @property
    def message(self) -> str:
        """The message of a refusal."""
        return str(self.body.get("message", ""))


class ApiClient:
    """A client with one token: plain HTTP and kubectl.

    ``kubeconfig`` is a written file with the same credentials.
    """

    def __init__(self, endpoint: ApiEndpoint, token: str, kubeconfig: Path, namespace: str) -> None:
        self.endpoint = endpoint
        self.token = token
        self.kubeconfig = kubeconfig
        self._tls = ssl.create_default_context(cafile=str(endpoint.ca))
        kubeconfig.write_text(_CONFIG.format(server=endpoint.url, ca=endpoint.ca, token=token, namespace=namespace))

    def call(self, method: str, path: str, body: object = None, kind: str = "application/json") -> ApiResponse:
        """Send one request and return any response."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind, "Accept": "application/json"}
        request = urllib.request.Request(self.endpoint.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=API_TIMEOUT_S) as answer:
                return ApiResponse(answer.status, json.load(answer))
        except urllib.error.HTTPError as error:
            text = error.read().decode()  # the response for an unserved path is plain text
            return ApiResponse(error.code, json.loads(text) if text.startswith("{") else {"message": text})

    def create_object(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Create an object below ``path``. Raises ``AssertionError`` with the message of the server."""
        answer = self.call("POST", path, body)
        assert answer.status == 201, answer
        return answer.body

    def apply(self, path: str, body: Mapping[str, Any], manager: str = "test") -> ApiResponse:
        """Send a server-side apply of ``path/NAME``; the server refuses unknown fields."""
        query = f"?fieldManager={manager}&fieldValidation=Strict"
        return self.call("PATCH", f"{path}/{body['metadata']['name']}{query}", body, "application/apply-patch+yaml")

    def kubectl(self, *words: str | Path, given: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run ``kubectl`` with ``given`` on its standard input, for any exit code."""
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
        """Return a new token of a ServiceAccount, from a TokenRequest."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(self.create_object(path, wanted)["status"]["token"])


def load_documents(path: Path) -> list[dict[str, Any]]:
    """Return the documents of a YAML file."""
    return [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one]


def to_yaml(found: Iterable[Mapping[str, Any]]) -> str:
    """Return documents as YAML, for the standard input of kubectl."""
    return yaml.safe_dump_all(found, sort_keys=False)

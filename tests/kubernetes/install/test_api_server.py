"""The API server of the tests: rights, tokens, and no process left after a test run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from kubernetes.fixtures.resources import create, resource_path, topic
from support.checkout import ROOT
from support.kubernetes.api_client import ApiClient
from support.kubernetes.server import ApiServer, install_definitions
from support.waiting import is_alive, wait_until

RBAC = "/apis/rbac.authorization.k8s.io/v1"

PROGRAM = """
import sys
from pathlib import Path
from support.kubernetes.server import ApiServer
with ApiServer(Path(sys.argv[1])) as server:
    print(server.process.pid, server.etcd.pid, flush=True)
    sys.stdin.read()
"""


def test_an_account_may_do_what_its_role_says(server: ApiServer, api: ApiClient, namespace: str) -> None:
    """An account with a token from TokenRequest may do only what its role permits, and only in the namespace of its
    role.
    """
    core = f"/api/v1/namespaces/{namespace}"
    api.create_object(f"{core}/serviceaccounts", {"metadata": {"name": "reader"}})
    rights = {"apiGroups": ["topiarist.dev"], "resources": ["topics"], "verbs": ["list"]}
    api.create_object(f"{RBAC}/namespaces/{namespace}/roles", {"metadata": {"name": "reader"}, "rules": [rights]})
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    api.create_object(
        f"{RBAC}/namespaces/{namespace}/rolebindings",
        {"metadata": {"name": "reader"}, "subjects": [subject], "roleRef": role},
    )
    reader = server.api(api.request_token(namespace, "reader"), namespace)
    topics = "/apis/topiarist.dev/v1/namespaces/{}/topics"
    wait_until(lambda: reader.call("GET", topics.format(namespace)).status == 200, "the role has arrived")
    assert reader.call("GET", topics.format("default")).status == 403
    refused = create(reader, namespace, topic())
    assert refused.status == 403
    assert f'User "system:serviceaccount:{namespace}:reader" cannot create' in refused.message
    assert api.call("GET", "/nowhere").status == 404
    assert server.api("nobody").call("GET", topics.format(namespace)).status == 401


def test_what_was_there_is_there_after_a_restart(server: ApiServer, api: ApiClient, namespace: str) -> None:
    """After a restart the API server has the same address and objects, and existing clients still work."""
    assert create(api, namespace, topic()).status == 201
    before = server.process.pid
    server.restart()
    install_definitions(server.admin)  # which waits until topiarist's kinds are served again
    assert server.process.pid != before
    found = api.call("GET", resource_path(namespace, topic(), "a"))
    assert (found.status, found.body["kind"]) == (200, "Topic")


def test_it_ends_when_its_starter_is_killed(tmp_path: Path) -> None:
    """The API server and etcd end when the process that started them is killed."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'tests'}:{ROOT / 'operator'}"}
    starter = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "kube")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    with starter:
        assert starter.stdout is not None
        pids = [int(word) for word in starter.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(is_alive, pids))
        starter.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(map(is_alive, pids)), "API server and etcd have ended")

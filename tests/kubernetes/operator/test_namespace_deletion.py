"""Deletion of a namespace, or of the definition of Topic, with all Topics in it: no topic is deleted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kubernetes.fixtures.fault_fixture import FaultFixture, assert_healthy
from kubernetes.fixtures.operator_fixture import OPERATOR_TIMEOUT_S, OperatorFixture
from support.kubernetes.server import ApiServer, install_definitions
from support.waiting import wait_until
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper

NAMES = tuple(f"topic-{number:02}" for number in range(50))
FEW = ("a", "b", "c")
HOME, TEAM = "home", "team"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/topics.topiarist.dev"


@pytest.fixture
def alone(
    server: ApiServer,  # without Go the test is skipped as all are  # noqa: ARG001  # without Go the test is skipped as all are
    zookeeper: EmbeddedZooKeeper,
    tmp_path: Path,
) -> Iterator[FaultFixture]:
    """Return a factory on its own API server, because deleting the definition would delete the Topics of other
    tests.
    """
    with ApiServer(tmp_path / "kube") as own, ExitStack() as stack:
        install_definitions(own.admin)
        for name in (HOME, TEAM):
            own.admin.create_object("/api/v1/namespaces", {"metadata": {"name": name}})
        yield FaultFixture(own, zookeeper, stack, tmp_path)


def topics(scene: OperatorFixture) -> list[dict[str, Any]]:
    """Return all Topics of a namespace, or an empty list if the kind does not exist."""
    found = scene.api.call("GET", f"/apis/topiarist.dev/v1/namespaces/{scene.namespace}/topics")
    return list(found.body.get("items", ()))


def stand(scene: OperatorFixture, count: int, kind: str, reason: str) -> None:
    """Wait until ``count`` Topics have a condition with this reason and topiarist's finalizer."""

    def there() -> bool:
        found = [
            body
            for body in topics(scene)
            for each in body.get("status", {}).get("conditions", ())
            if (each["type"], each["status"], each["reason"]) == (kind, "True", reason)
            and body["metadata"].get("finalizers") == ["topiarist.dev/finalizer"]
        ]
        return len(found) == count

    wait_until(there, f"{count} Topics are {kind}: {reason}", timeout=OPERATOR_TIMEOUT_S)


def let_go(scene: OperatorFixture) -> None:
    """Annotate all Topics of a namespace, and wait until they are deleted."""
    done = scene.api.kubectl("annotate", "topics.topiarist.dev", "--all", "topiarist.dev/retain=true")
    assert done.returncode == 0, done.stderr
    wait_until(lambda: not topics(scene), "all have gone", timeout=OPERATOR_TIMEOUT_S)


def test_f32_a_namespace_or_the_definition_goes(alone: FaultFixture) -> None:
    """A namespace with 50 Topics, or the definition of the kind, is deleted: each Topic is held and says so, although
    the Cluster allows deletions and has room for all; an annotation releases them without their topics.
    """
    home = alone.make_fixture(HOME)
    team = OperatorFixture(alone.server.api("admin", TEAM), TEAM, home.kafka, home.client)
    rules = [{"namespaces": {"from": "All"}}]
    home.declare_cluster(allowDeletion=True, allowedTopics=rules, budgets={"deletions": 1000})
    operator = alone.start_operator(HOME, everywhere=True)
    for scene, names in ((team, NAMES), (home, FEW)):
        for name in names:
            scene.declare_topic(name, partitions=1, deletionPolicy="Delete")
    stand(team, len(NAMES), "Ready", "Synced")
    stand(home, len(FEW), "Ready", "Synced")

    assert alone.server.admin.call("DELETE", f"/api/v1/namespaces/{TEAM}").status == 200
    # This request replaces the namespace controller, which does not run here.
    assert team.api.call("DELETE", f"/apis/topiarist.dev/v1/namespaces/{TEAM}/topics").status == 200
    stand(team, len(NAMES), "Stalled", "DeletionHeld")
    let_go(team)

    assert alone.server.admin.call("DELETE", DEFINITION).status == 200
    stand(home, len(FEW), "Stalled", "DeletionHeld")
    let_go(home)
    wait_until(
        lambda: alone.server.admin.call("GET", DEFINITION).status == 404,
        "the kind has gone",
        timeout=OPERATOR_TIMEOUT_S,
    )
    assert [home.partition_count(name) for name in (*NAMES, *FEW)] == [1] * (len(NAMES) + len(FEW))
    assert_healthy(operator)

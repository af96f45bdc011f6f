"""Opening the cluster of a spec: the access chooses the adapter, and the adapter gets every connection setting."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from topiarist.adapters import open_cluster as module
from topiarist.adapters.zookeeper import cluster as zookeeper
from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.model.access import Credentials, KafkaAccess, Via, ZooKeeperAccess
from topiarist.model.spec import ClusterSpec

BY_KAFKA, BY_ZOOKEEPER = KafkaAccess("b1:9092"), ZooKeeperAccess("zk:2181/kafka", 4_194_304, Credentials())
KAFKA_CLUSTER = "topiarist.adapters.kafka_admin.cluster"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any, dict[str, Any]]]:
    """Return the calls of stubs in the places of both adapters: name, address and options."""
    calls: list[tuple[str, Any, dict[str, Any]]] = []
    kafka = ModuleType(KAFKA_CLUSTER)
    kafka.KafkaCluster = lambda access, **rest: calls.append(("Kafka", access, rest))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, KAFKA_CLUSTER, kafka)
    monkeypatch.setattr(
        zookeeper, "ZooKeeperCluster", lambda connect, **rest: calls.append(("ZooKeeper", connect, rest))
    )
    return calls


def test_zookeeper_gets_the_access(opened: list[Any]) -> None:
    """The adapter gets the access as it is, with owner and timeouts of the run."""
    run = {"owner": "ada", "connect_timeout": 3, "lock_timeout": 5}
    module.open_cluster(ClusterSpec(zookeeper=BY_ZOOKEEPER), **run)  # type: ignore[arg-type]
    assert opened == [("ZooKeeper", BY_ZOOKEEPER, run)]


def test_brokers_get_the_access(opened: list[Any]) -> None:
    """The adapter gets the access as it is, with owner and timeouts of the run."""
    notices: list[str] = []
    run = {"owner": "ada", "connect_timeout": 3, "lock_timeout": 5, "on_notice": notices.append}
    module.open_cluster(ClusterSpec(kafka=BY_KAFKA), **run)  # type: ignore[arg-type]
    assert opened == [("Kafka", BY_KAFKA, {**run, "read_left_records": None})]


@pytest.mark.parametrize("via", Via)
def test_via_chooses_one_of_two(opened: list[Any], via: Via) -> None:
    """A spec with both ways is reached by the one that it names."""
    module.open_cluster(ClusterSpec(kafka=BY_KAFKA, zookeeper=BY_ZOOKEEPER, via=via), owner="ada")
    assert [name for name, *_ in opened] == [via.value]


def test_a_spec_without_an_address_is_an_error() -> None:
    """Nothing is opened for a document that is only checked."""
    with pytest.raises(TopiaristError) as caught:
        module.open_cluster(ClusterSpec("prod"), owner="ada")
    assert caught.value.reason is Reason.INVALID_MANIFEST


PROGRAM = """
import sys
from topiarist.cli.main import main
try:
    main()
except SystemExit as end:
    print(end.code)
print(*(name for name in sys.modules if name.startswith("topiarist.adapters.kafka_admin")))
"""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], Exit.DONE),
        (["plan", "--help"], Exit.DONE),
        (["list", "--zookeeper", "127.0.0.1:1", "--connect-timeout", "0.1"], Reason.UNREACHABLE.exit_code),
    ],
)
def test_kafkas_protocol_is_imported_for_brokers_only(arguments: list[str], code: int) -> None:
    """Help and runs through ZooKeeper import nothing of the way through brokers."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-2:] == [str(int(code)), ""]

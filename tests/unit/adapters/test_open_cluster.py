"""Opening the cluster of a spec: the access chooses the adapter, and the adapter gets every connection setting."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
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


def test_zookeeper_gets_all_connection_settings(opened: list[Any]) -> None:
    """Address, buffer size and credentials come from the spec, owner and timeouts from the run."""
    module.open_cluster(ClusterSpec(zookeeper=BY_ZOOKEEPER), owner="ada", connect_timeout=3, lock_timeout=5)
    settings = {"jute_max_buffer": 4_194_304, "credentials": BY_ZOOKEEPER.credentials}
    assert opened == [
        ("ZooKeeper", "zk:2181/kafka", {"owner": "ada", "connect_timeout": 3, "lock_timeout": 5, **settings})
    ]


def test_brokers_get_the_access(opened: list[Any]) -> None:
    """The adapter gets the access as it is, with owner and timeouts of the run."""
    module.open_cluster(ClusterSpec(kafka=BY_KAFKA), owner="ada", connect_timeout=3, lock_timeout=5)
    run = {"owner": "ada", "connect_timeout": 3, "lock_timeout": 5}
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


class Unimportable:
    """A finder for which the module of the adapter needs a module that does not exist."""

    def __init__(self, missing: str) -> None:
        self._missing = missing

    def find_spec(self, name: str, *_: object) -> None:
        """Raise the error of the missing module."""
        if name == KAFKA_CLUSTER:
            raise ModuleNotFoundError(f"No module named '{self._missing}'", name=self._missing)


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that takes a module away from the adapter for Kafka's own protocol."""

    def take_away(missing: str) -> None:
        monkeypatch.delitem(sys.modules, KAFKA_CLUSTER, raising=False)
        monkeypatch.setattr(sys, "meta_path", [Unimportable(missing), *sys.meta_path])

    return take_away


@pytest.mark.parametrize("missing", ["kafka.protocol", "google_crc32c"])
def test_a_missing_package_is_named_with_its_remedy(without: Callable[[str], None], missing: str) -> None:
    """The packages for the brokers are an extra; the error has the command that installs them."""
    without(missing)
    with pytest.raises(TopiaristError) as caught:
        module.open_cluster(ClusterSpec(kafka=BY_KAFKA), owner="ada")
    assert caught.value.reason is Reason.PREREQUISITE_MISSING
    assert "kafka-python==" in str(caught.value)


def test_a_bug_is_no_missing_package(without: Callable[[str], None]) -> None:
    """Another module that cannot be imported is reported as what it is."""
    without("topiarist.no_such_module")
    with pytest.raises(ModuleNotFoundError):
        module.open_cluster(ClusterSpec(kafka=BY_KAFKA), owner="ada")


PROGRAM = """
import sys
from topiarist.cli.main import main
try:
    main()
except SystemExit as end:
    print(end.code)
print(*(name for name in sys.modules if name.partition(".")[0] == "kafka"))
"""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], Exit.DONE),
        (["plan", "--help"], Exit.DONE),
        (["list", "--zookeeper", "127.0.0.1:1", "--connect-timeout", "0.1"], Reason.UNREACHABLE.exit_code),
    ],
)
def test_nothing_of_kafka_python_is_imported(arguments: list[str], code: int) -> None:
    """Help and runs through ZooKeeper work without the extra."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-2:] == [str(int(code)), ""]

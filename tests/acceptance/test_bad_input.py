"""Bad input without a folder in ``tests/examples``: ten thousand broken files, or no cluster at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from acceptance.cases import run_command
from support.zookeeper.client import connect_client
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper

TOPIC = """apiVersion: topiarist.dev/v1
kind: Topic
metadata:
  name: topic-{0}
spec:
  partitions: 3
  replicationFactor: {1}
"""


@pytest.fixture
def client(zookeeper: EmbeddedZooKeeper) -> Iterator[KazooClient]:
    """Return a client without any chroot."""
    with connect_client(zookeeper.connect) as client:
        yield client


@pytest.mark.slow
def test_of_ten_thousand_broken_files_the_first_hundred_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ten thousand broken files, validate prints a hundred errors in file order and the total number."""
    for number in range(10_000):
        (tmp_path / f"{number:05}.yaml").write_text(TOPIC.format(number, 0))
    monkeypatch.chdir(tmp_path)
    command, label, *lines = run_command("validate .").splitlines()
    assert (command, label) == ("$ topiarist validate .", "--- stderr")
    wanted = "error: spec.replicationFactor: found 0, wanted a whole number from 1 to 32767"
    assert lines[:100] == [f"{number:05}.yaml:7:22: {wanted}" for number in range(100)]
    assert lines[100:] == ["... and 9,900 more", "10,000 errors", "--- exit 1"]


@pytest.mark.parametrize("command", ["plan", "apply --yes"])
def test_nothing_is_created_where_there_is_no_kafka(
    command: str, client: KazooClient, chroot: str, tmp_path: Path
) -> None:
    """topiarist creates no missing chroot, and changes nothing in a chroot without Kafka."""
    (tmp_path / "topic.yaml").write_text(TOPIC.format(1, 3))
    path = "/" + chroot.partition("/")[2]
    line = f"{command} {tmp_path} --zookeeper {chroot}"
    assert f"the chroot {path} does not exist" in run_command(line)
    assert client.exists(path) is None
    client.create(f"{path}/other", b"data", makepath=True)
    assert "this is not a Kafka cluster" in run_command(line)
    assert (client.get_children(path), client.get_children(f"{path}/other")) == (["other"], [])
    assert client.get(f"{path}/other")[1].version == 0

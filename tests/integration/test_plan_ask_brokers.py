"""``topiarist plan --ask-brokers`` on a cluster that is reached through ZooKeeper, and with a snapshot."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli.runs import write_manifests
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.cli.main import run


def test_through_zookeeper_no_broker_can_be_asked(
    cluster: SimulatedKafka, proxy: Proxy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The option is refused with the way out; a plan without the option is made."""
    folder = write_manifests(tmp_path / "manifests", {"eu": proxy.through(cluster.connect)}, "orders")
    assert run(["plan", str(folder), "--ask-brokers"]) == 2
    shown = capsys.readouterr().err
    assert "--ask-brokers: this cluster is reached through ZooKeeper" in shown
    assert "via: Kafka" in shown
    assert run(["plan", str(folder)]) == 0
    assert proxy.writes == 0


def test_a_snapshot_has_no_brokers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The two options exclude each other."""
    folder = write_manifests(tmp_path / "manifests", {"eu": "127.0.0.1:1"}, "orders")
    assert run(["plan", str(folder), "--ask-brokers", "--snapshot", str(tmp_path)]) == 2
    assert "a snapshot has no brokers" in capsys.readouterr().err

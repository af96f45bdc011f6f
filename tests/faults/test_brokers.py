"""F14 and F34: brokers stop, start, change their rack or are excluded: no replica is placed on a broker that the plan
did not see.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from faults.conftest import FaultStatistics
from integration.write_fixtures import FIRST_TOPIC_WRITE, connect_cluster, verify_changes
from support.builders import apply_outcomes, plan_specs, topic_spec
from support.cli.runs import document
from support.zookeeper import busy_cluster, write_checker
from support.zookeeper.busy_cluster import ClusterTemplate
from support.zookeeper.client import connect_client
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.zookeeper.write import writer
from topiarist.cli.main import run
from topiarist.errors import Exit
from topiarist.model.outcome import Result

PLACED = [name for name in busy_cluster.NAMES if name[2:] in ("create", "leftover", "grow", "both")]


def replicas(connect: str) -> Mapping[str, set[int]]:
    """Return the brokers of each topic."""
    found = write_checker.decode_topics(write_checker.read_nodes(connect))
    return {
        name: {broker for lists in topic["partitions"].values() for broker in lists} for name, topic in found.items()
    }


@pytest.mark.parametrize("broker", range(1, 7))
def test_f14_a_broker_that_goes_between_plan_and_apply(
    mould: ClusterTemplate, broker: int, tally: FaultStatistics
) -> None:
    """Any broker: topics with new replicas on it are conflicts with its number, and all others are done."""
    connect = mould.create_copy()
    before = write_checker.read_nodes(connect)
    with connect_client(connect) as client, connect_cluster(connect) as port:
        plan = plan_specs(port, *busy_cluster.desired_specs())
        client.delete(f"/brokers/ids/{broker}")
        found = apply_outcomes(port, plan)
    hit = {topic.topic for topic in plan.topics if any(broker in lists for lists in topic.new_replicas())}
    moved = {topic: outcome.message for topic, outcome in found.items() if outcome.result is Result.CONFLICT}
    assert moved == dict.fromkeys(hit, f"broker {broker} was registered, and is not now")
    assert {found[topic].result for topic in found.keys() - hit} == {Result.DONE}
    after = write_checker.decode_topics(write_checker.read_nodes(connect))
    for name, node in write_checker.decode_topics(before).items():
        assert set(after[name]["partitions"]) == set(node["partitions"]) or name not in hit
    tally.set_cases(len(PLACED))


def test_f14_a_broker_that_comes_between_plan_and_apply(mould: ClusterTemplate) -> None:
    """A new broker gets nothing from a plan that did not see it, and does not invalidate the plan."""
    connect = mould.create_copy()
    with connect_client(connect) as client, connect_cluster(connect) as port:
        plan = plan_specs(port, *busy_cluster.desired_specs())
        client.create("/brokers/ids/7", client.get("/brokers/ids/1")[0])
        assert {outcome.result for outcome in apply_outcomes(port, plan).values()} == {Result.DONE}
    assert not [name for name, brokers in replicas(connect).items() if 7 in brokers]


def test_f14_a_broker_that_comes_back_in_another_rack_in_the_middle(
    mould: ClusterTemplate, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, tally: FaultStatistics
) -> None:
    """A restarted broker has the same registration version: topics that were read before are done; all others with new
    replicas on it are conflicts, with both racks.
    """
    monkeypatch.setattr(writer, "BATCH_SIZE", 1)
    for write in range(2, 2 + len(busy_cluster.NAMES)):
        connect = mould.create_copy()
        proxy.reset()
        with connect_client(connect) as client, connect_cluster(proxy.through(connect)) as port:
            plan = plan_specs(port, *busy_cluster.desired_specs())

            def move(client: KazooClient = client) -> None:
                found = json.loads(client.get("/brokers/ids/2")[0])
                client.delete("/brokers/ids/2")
                client.create("/brokers/ids/2", json.dumps({**found, "rack": "elsewhere"}).encode())
                assert client.get("/brokers/ids/2")[1].version == 0

            proxy.hold(write, move)
            found = apply_outcomes(port, plan)
            assert proxy.triggered.is_set()
        later = [topic for topic in plan.topics if topic.topic in busy_cluster.NAMES[write - 1 :]]
        hit = [topic.topic for topic in later if any(2 in lists for lists in topic.new_replicas())]
        moved = {topic: outcome.message for topic, outcome in found.items() if outcome.result is Result.CONFLICT}
        assert moved == dict.fromkeys(hit, "broker 2 was in rack b, and is in elsewhere now"), write
        assert {found[topic].result for topic in found.keys() - moved.keys()} == {Result.DONE}
        tally.set_cases(1)


def folder(place: Path, connect: str, **cluster: Any) -> Path:
    """Write manifests of topics that need new replicas, for a cluster with these fields."""
    place.mkdir(exist_ok=True)
    texts = [document("Cluster", "prod", zookeeper={"connect": connect}, kafkaVersion="3.9", **cluster)]
    for name in PLACED:
        texts.append(
            document("Topic", name, **{"partitions": 2, "replicationFactor": 3, **busy_cluster.DESIRED_TOPICS[name]})
        )
    (place / "all.yaml").write_text("\n---\n".join(texts))
    return place


FLAGS = ("--yes", "--adopt=*", "--allow-risk", "DataLoss")


def test_f34_a_plan_in_a_rolling_restart(
    mould: ClusterTemplate, proxy: Proxy, tmp_path: Path, capsys: pytest.CaptureFixture[str], tally: FaultStatistics
) -> None:
    """A broker with replicas is offline: nothing is created and nothing grows, and the message has the fix. When the
    broker is back, the same command does everything.
    """
    connect = mould.create_copy()
    place = folder(tmp_path / "manifests", proxy.through(connect))
    with connect_client(connect) as client:
        registration = client.get("/brokers/ids/2")[0]
        client.delete("/brokers/ids/2")
        before = replicas(connect)
        assert run(["apply", str(place), *FLAGS]) == Exit.REFUSED
        said = " ".join(capsys.readouterr().out.split())
        assert f"{len(PLACED)} refused" in said
        assert "wait until all are registered again, pass --without-brokers, or set excludeBrokers" in said
        assert replicas(connect) == before
        client.create("/brokers/ids/2", registration)
    assert run(["apply", str(place), *FLAGS]) == Exit.DONE
    assert replicas(connect).keys() >= set(PLACED)
    tally.set_cases(len(PLACED))


@pytest.mark.parametrize(
    ("cluster", "flags"),
    [({"excludeBrokers": [2]}, ()), ({}, ("--without-brokers", "2"))],
    ids=["excludeBrokers", "--without-brokers"],
)
@pytest.mark.parametrize("away", [True, False], ids=["away", "there"])
def test_f34_a_drained_broker(
    mould: ClusterTemplate,
    cluster: Mapping[str, Any],
    flags: tuple[str, ...],
    away: bool,
    tmp_path: Path,
    tally: FaultStatistics,
) -> None:
    """An excluded broker, registered or not: everything is placed, and no new replica is on it."""
    connect = mould.create_copy()
    if away:
        with connect_client(connect) as client:
            client.delete("/brokers/ids/2")
    before = write_checker.decode_topics(write_checker.read_nodes(connect))
    assert run(["apply", str(folder(tmp_path / "manifests", connect, **cluster)), *FLAGS, *flags]) == Exit.DONE
    after = write_checker.decode_topics(write_checker.read_nodes(connect))
    for name in PLACED:
        there = before[name]["partitions"] if name in before else {}
        new = {
            brokers for number, lists in after[name]["partitions"].items() if number not in there for brokers in lists
        }
        assert new
        assert 2 not in new, name
    tally.set_cases(len(PLACED))


def test_f14_a_broker_that_goes_before_the_write_is_named(cluster: SimulatedKafka, proxy: Proxy) -> None:
    """A broker that stops between the start of the run and the transaction: nothing is placed on it, and the message
    names it.
    """
    with verify_changes(cluster.connect), connect_cluster(proxy.through(cluster.connect)) as port:
        plan = plan_specs(port, topic_spec("orders", partitions=6))
        proxy.hold(FIRST_TOPIC_WRITE, lambda: cluster.remove_broker(4))
        found = apply_outcomes(port, plan)["orders"]
        assert proxy.triggered.is_set()
    assert (found.result, found.message) == (Result.CONFLICT, "broker 4 was registered, and is not now")


def test_f14_a_broker_that_changed_its_rack_is_named(cluster: SimulatedKafka, client: KazooClient) -> None:
    """Placements depend on racks: with another rack the plan is outdated."""
    with verify_changes(cluster.connect), connect_cluster(cluster.connect) as port:
        plan = plan_specs(port, topic_spec("orders", partitions=6))
        node = json.loads(client.get("/brokers/ids/4")[0])
        client.set("/brokers/ids/4", json.dumps(node | {"rack": "c"}).encode())
        found = apply_outcomes(port, plan)["orders"]
    assert (found.result, found.message) == (Result.CONFLICT, "broker 4 was in rack a, and is in c now")

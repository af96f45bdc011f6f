"""``topiarist describe`` on a real ZooKeeper: it shows the work of the simulated controller and sends no write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import ACL, make_acl

from conftest import BROKERS
from integration.protected_cluster import ProtectedCluster
from integration.write_fixtures import REPLICAS, InterceptingProxy, connect_cluster
from support.builders import apply_results, plan_specs, topic_spec
from support.zookeeper import write_checker
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters import own_values
from topiarist.adapters.devcluster.seed import Topic
from topiarist.cli.main import run
from topiarist.model.state import Freeze, PartitionState, ReadError, Reassignment, TopicInspection

ORDERS = """\
apiVersion: topiarist.dev/v1
kind: Topic
metadata: {name: orders}
spec: {partitions: 3, replicationFactor: 3}
"""

STATE = "/brokers/topics/orders/partitions/%s/state"

Capture = pytest.CaptureFixture[str]


def said(capsys: Capture, *words: str, code: int = 0) -> dict[str, Any]:
    """Return the only cluster of a description."""
    assert run(["describe", *words, "--format", "json"]) == code
    (found,) = json.loads(capsys.readouterr().out)["clusters"]
    return dict(found)


def state(leader: int, *isr: int, **more: Any) -> bytes:
    """Return the state of a partition as the controller writes it."""
    fields = {"controller_epoch": 1, "leader": leader, "version": 1, "leader_epoch": 4, "isr": list(isr), **more}
    return json.dumps(fields).encode()


@pytest.fixture
def orders(cluster: SimulatedKafka) -> SimulatedKafka:
    """A cluster with the topic ``orders``."""
    cluster.add_topics(Topic("orders", REPLICAS, {"retention.ms": "5"}))
    return cluster


@pytest.mark.parametrize("is_frozen", [False, True])
def test_no_write_is_sent(
    orders: SimulatedKafka, proxy: Proxy, client: KazooClient, tmp_path: Path, capsys: Capture, is_frozen: bool
) -> None:
    """Describe only reads, with a pending change and with a write block."""
    (tmp_path / "orders.yaml").write_text(ORDERS)
    if is_frozen:
        client.create("/topiarist/gate", own_values.encode_freeze(Freeze("inventory", "ada")), makepath=True)
    before = write_checker.read_nodes(orders.connect)
    words = ("orders", str(tmp_path), "--zookeeper", proxy.through(orders.connect), "--adopt=*")
    found = said(capsys, *words)
    assert proxy.writes == 0
    assert write_checker.read_nodes(orders.connect) == before
    assert (found["writeBlock"] or {}).get("reason") == ("Frozen" if is_frozen else None)
    assert found["pending"]["refusals" if is_frozen else "changes"]
    assert [one["state"]["leader"] for one in found["partitions"]] == [1, 2]


@pytest.mark.parametrize(
    ("path", "phase"),
    [
        ("/brokers/topics/orders/partitions/1/state", "Initialized"),
        ("/brokers/topics/orders/partitions", "Exists"),
        ("/brokers/topics/orders", "Unreadable"),
        ("/config/topics/orders", "Unreadable"),
    ],
)
def test_what_may_not_be_read_is_named(protected: ProtectedCluster, capsys: Capture, path: str, phase: str) -> None:
    """Describe names each unreadable path and shows the rest."""
    nobody: list[ACL] = [make_acl("digest", "kafka:x", all=True)]
    protected.playground.add_topics(Topic("orders", REPLICAS, {}))
    protected.playground.wait_idle()
    protected.playground.client.set_acls(path, nobody)
    found = said(capsys, "orders", "--zookeeper", protected.playground.connect)
    assert found["phase"] == phase
    assert [fault["path"] for fault in found["readErrors"]] == [path]
    assert all("no permission" in fault["message"] for fault in found["readErrors"])


def test_a_topic_is_seen_through_its_life(orders: SimulatedKafka, client: KazooClient, capsys: Capture) -> None:
    """Describe follows the controller: waiting for a broker, initialized, growing, with another leader, marked for
    deletion, deleted.
    """
    at = ("--zookeeper", orders.connect)
    orders.remove_broker(6)
    orders.add_topics(Topic("late", ((1, 2), (6,)), {}))
    found = said(capsys, "late", *at)
    assert (found["phase"], found["blockedBy"]) == ("PartlyInitialized", "broker 6, not registered")
    orders.add_broker(BROKERS[5])
    assert said(capsys, "late", *at)["phase"] == "Initialized"
    orders.remove_broker(6)
    found = said(capsys, "late", *at)
    assert found["conditions"] == {"Offline": 1}
    client.create("/admin/delete_topics/late", b"")
    orders.wait_idle()
    found = said(capsys, "late", *at)
    assert (found["phase"], found["blockedBy"]) == (
        "MarkedForDeletion",
        "broker 6, with replicas of it, is not registered",
    )
    orders.add_broker(BROKERS[5])
    assert said(capsys, "late", *at, code=1)["phase"] == "Unknown"


def test_states_are_read_as_brokers_leave_them(orders: SimulatedKafka, client: KazooClient) -> None:
    """One description shows no leader, a smaller ISR, an unclean election, moving replicas and invalid nodes."""
    client.set(STATE % 0, state(-1, 2))
    client.set(STATE % 1, state(3, 3, 4, leader_recovery_state=1))
    client.create(STATE % 7, b"", makepath=True)
    client.create("/brokers/topics/orders/partitions/x", b"")
    client.create("/brokers/topics/orders/partitions/8", b"")  # its state comes next
    topic = json.loads(client.get("/brokers/topics/orders")[0])
    topic |= {"partitions": {"0": [4, 1, 2, 3], "1": [2, 3, 4]}, "adding_replicas": {"0": [4]}}
    client.set("/brokers/topics/orders", json.dumps(topic).encode())
    request = '{"version":1,"partitions":[{"topic":"x","partition":0,"replicas":[1]},%s]}'
    ours = '{"topic":"orders","partition":1,"replicas":[5,6]}'
    client.create("/admin/reassign_partitions", (request % ours).encode())
    orders.wait_idle()
    with connect_cluster(orders.connect) as port:
        found = port.inspect("orders")
        identity = port.read().topics["orders"].identity
    assert found == TopicInspection(
        identity,
        {0: (4, 1, 2, 3), 1: (2, 3, 4)},
        {0: PartitionState(-1, (2,), 4, 1), 1: PartitionState(3, (3, 4), 4, 1, recovering=True)},
        partition_errors={7: ReadError(STATE % 7, "it is empty")},
        other_errors=(
            ReadError(
                "/brokers/topics/orders/partitions/x", '"x" is not an id (a decimal number from 0 to 2147483647)'
            ),
        ),
        reassignments={0: Reassignment((4,))},
        requested_replicas={1: (5, 6)},
        topic_id=topic["topic_id"],
    )


def test_a_topic_that_is_not_there_has_nothing(cluster: SimulatedKafka) -> None:
    """A missing topic has no identity and no partition."""
    with connect_cluster(cluster.connect) as port:
        assert port.inspect("none") == TopicInspection(None, {})


def test_a_topic_that_grows_while_it_is_read_is_read_again(
    orders: SimulatedKafka, meddler: InterceptingProxy, client: KazooClient, capsys: Capture
) -> None:
    """Values and partitions have one point in time: values from before a growth are not combined with partitions from
    after it.
    """
    reads = 0

    def grow(kind: str) -> bool:
        nonlocal reads
        reads += kind == "sync"
        if kind == "sync" and reads == 2:  # the look at one topic, after the cluster has been read
            data, stat = client.get("/brokers/topics/orders")
            grown = json.loads(data)
            grown["partitions"]["2"] = [3, 4, 5]
            client.set("/brokers/topics/orders", json.dumps(grown).encode(), version=stat.version)
        return True

    meddler.may_forward = grow
    found = said(capsys, "orders", "--zookeeper", meddler.through(orders.connect))
    assert reads == 4
    assert [one["partition"] for one in found["partitions"]] == [0, 1, 2]
    assert found["values"][0]["actual"] == "3"


@pytest.mark.slow
def test_few_requests_for_one_topic_of_many(cluster: SimulatedKafka, proxy: Proxy, capsys: Capture) -> None:
    """Describe reads the whole cluster in bulk, and the partitions of one topic in a few requests."""
    cluster.add_topics(*(Topic(f"topic-{number:04}", REPLICAS, {}) for number in range(800)))
    found = said(capsys, "topic-0500", "--zookeeper", proxy.through(cluster.connect))
    assert (found["phase"], len(found["partitions"])) == ("Initialized", 2)
    assert proxy.writes == 0
    assert sum(number for kind, number in proxy.requests.items() if kind != "ping") < 60


def test_pending_is_what_the_plan_says(orders: SimulatedKafka, tmp_path: Path, capsys: Capture) -> None:
    """Pending shows the same changes and refusals as the plan with the same flags, and nothing after apply."""
    (tmp_path / "orders.yaml").write_text(ORDERS)
    at = (str(tmp_path), "--zookeeper", orders.connect)
    for more in ((), ("--adopt=*",), ("--adopt=*", "--owner", "team")):
        assert run(["plan", *at, *more, "--format", "json"]) == 0
        (topic,) = json.loads(capsys.readouterr().out)["clusters"][0]["topics"]
        pending = said(capsys, "orders", *at, *more)["pending"]
        assert pending["recordAfter"] == topic["record"]["after"]
        for field in ("observed", "risk", "changes", "refusals", "notices"):
            assert pending[field] == topic[field], field
    with connect_cluster(orders.connect) as port:
        apply_results(port, plan_specs(port, topic_spec("orders", partitions=3)))
    orders.wait_idle()
    found = said(capsys, "orders", *at)
    assert (found["pending"]["changes"], found["phase"], found["record"]["valid"]) == ([], "Initialized", True)


def test_what_could_not_be_read_is_not_said_to_lack_the_topic(
    clusters: dict[str, SimulatedKafka], chroot: str, tmp_path: Path, capsys: Capture
) -> None:
    """If one of four clusters is unreadable, the topic is missing on the three others only, and a topic of one cluster
    is still shown.
    """
    names = [*clusters, "wrong"]
    document = "apiVersion: topiarist.dev/v1\nkind: Cluster\nmetadata: {name: %s}\nspec: {zookeeper: {connect: %s}}\n"
    (tmp_path / "clusters.yaml").write_text("---\n".join(document % (name, f"{chroot}-{name}") for name in names))
    assert run(["describe", "on-x", "--clusters", str(tmp_path / "clusters.yaml")]) == 1
    err = capsys.readouterr().err
    assert "error: cluster wrong: the chroot" in err
    assert (
        'error: none of the 3 clusters that could be read has a topic "on-x"\n    did you mean on-a, on-b, on-c?' in err
    )
    assert run(["describe", "on-a", "--clusters", str(tmp_path / "clusters.yaml")]) == 1
    out = capsys.readouterr().out
    assert out.count("no topic and no ownership record of this name") == 2
    assert "  on-a             initialized by the controller\n" in out

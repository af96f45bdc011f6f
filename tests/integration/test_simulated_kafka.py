"""The cluster for development against the contract, and ``topiarist dev``."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
import yaml
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError

from conftest import BROKERS
from support.waiting import read_until, wait_until
from support.zookeeper import write_checker
from support.zookeeper.client import connect_client
from support.zookeeper.server import RestartableZooKeeper
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster import simulated_kafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.devcluster.simulated_kafka import run_cluster
from topiarist.adapters.devcluster.zookeeper_server import free_port
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import Broker, KafkaVersion

PLAIN = b'{"version":2,"partitions":{"0":[1,2,3],"1":[2,3,4]},"adding_replicas":{},"removing_replicas":{}}'


def read(client: KazooClient, path: str) -> Any:
    return json.loads(client.get(path)[0])


def create(client: KazooClient, name: str, data: bytes = PLAIN) -> None:
    """Create a topic as an old tool would: config, then topic, without an id."""
    client.create(f"/config/topics/{name}", b'{"version":1,"config":{}}')
    client.create(f"/brokers/topics/{name}", data)


def state_exists(client: KazooClient, name: str, partition: int) -> bool:
    return client.exists(f"/brokers/topics/{name}/partitions/{partition}/state") is not None


def test_a_fresh_cluster_has_what_kafka_makes(cluster: SimulatedKafka) -> None:
    """All parents that a started broker leaves are there, brokers and controller are ephemeral, nothing else exists."""
    tree = write_checker.read_nodes(cluster.connect)
    expected = {
        *("/admin/delete_topics", "/brokers/topics", "/brokers/seqid", "/cluster/id", "/consumers", "/feature"),
        *("/config/changes", "/config/topics", "/config/clients", "/config/users", "/config/brokers", "/config/ips"),
        *("/isr_change_notification", "/latest_producer_id_block", "/log_dir_event_notification"),
    }
    assert expected < set(tree)
    ephemeral = {path for path, node in tree.items() if node.ephemeral_owner}
    assert ephemeral == {"/controller", *(f"/brokers/ids/{broker.id}" for broker in BROKERS)}
    assert {json.loads(tree[f"/brokers/ids/{broker.id}"].data or b"")["rack"] for broker in BROKERS} == {"a", "b", "c"}
    assert json.loads(tree["/cluster/id"].data or b"")["version"] == "1"
    assert (tree["/controller_epoch"].data, tree["/controller_epoch"].version) == (b"1", 1)


class Written(NamedTuple):
    """What tells the releases apart: znode versions, None where there is no node."""

    broker: int
    controller: int
    feature: int | None
    ips: bool
    topic: int


@pytest.mark.parametrize(
    ("release", "written"),
    [
        ((2, 4), Written(broker=4, controller=1, feature=None, ips=False, topic=2)),
        ((2, 7), Written(broker=5, controller=1, feature=1, ips=False, topic=2)),
        ((2, 8), Written(broker=5, controller=1, feature=1, ips=True, topic=3)),
        ((3, 9), Written(broker=5, controller=2, feature=2, ips=True, topic=3)),
    ],
    ids=["2.4", "2.7", "2.8", "3.9"],
)
def test_each_release_writes_its_own_versions(chroot: str, release: KafkaVersion, written: Written) -> None:
    """Znode versions, optional nodes and topic ids are those that the contract names for each release."""
    with SimulatedKafka(chroot, BROKERS, release) as playground:
        playground.add_topics(Topic("t", ((1, 2), (2, 3)), {"retention.ms": "1"}))
        client = playground.client
        broker, controller = read(client, "/brokers/ids/1"), read(client, "/controller")
        topic = read(client, "/brokers/topics/t")
        feature = read(client, "/feature")["version"] if client.exists("/feature") else None
        ips = client.exists("/config/ips") is not None
        assert Written(broker["version"], controller["version"], feature, ips, topic["version"]) == written
        assert ("kraftControllerEpoch" in controller) == (written.controller == 2)
        assert ("topic_id" in topic) == (written.topic == 3)
        assert write_checker.decode_configs(write_checker.read_nodes(chroot)) == {"t": {"retention.ms": "1"}}


def test_a_new_topic_gets_an_id_and_states(cluster: SimulatedKafka, client: KazooClient) -> None:
    """The controller's watch sees a topic without id, gives it one (version 1 then), and makes a state a partition."""
    create(client, "fresh")
    wait_until(lambda: state_exists(client, "fresh", 1), "the controller to take the topic over")
    topic = read(client, "/brokers/topics/fresh")
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", topic["topic_id"])
    assert (topic["version"], client.exists("/brokers/topics/fresh").version) == (3, 1)
    state = {"controller_epoch": 1, "leader": 2, "version": 1, "leader_epoch": 0, "isr": [2, 3, 4]}
    assert read(client, "/brokers/topics/fresh/partitions/1/state") == state
    tree = write_checker.read_nodes(cluster.connect)
    assert tree["/brokers/topics/fresh/partitions"].data is None
    assert tree["/brokers/topics/fresh/partitions/0"].data is None


def test_only_live_replicas_lead_and_a_partition_without_any_waits(
    cluster: SimulatedKafka, client: KazooClient
) -> None:
    """Leader and ISR are the live replicas; a partition with none gets its state when such a broker comes."""
    cluster.remove_broker(1)
    cluster.add_topics(Topic("partly", ((1, 3), (9, 1))))
    first = read(client, "/brokers/topics/partly/partitions/0/state")
    assert (first["leader"], first["isr"]) == (3, [3])
    assert not state_exists(client, "partly", 1)
    cluster.add_broker(Broker(9, "a"))
    second = read(client, "/brokers/topics/partly/partitions/1/state")
    assert (second["leader"], second["isr"]) == (9, [9])


def test_a_mark_deletes_topic_then_config_then_itself(cluster: SimulatedKafka, client: KazooClient) -> None:
    """A deletion is carried out in the order of the contract, and nothing of the topic stays."""
    cluster.add_topics(Topic("doomed", ((1, 2), (2, 3))), Topic("spared", ((1, 2),)))
    client.create("/admin/delete_topics/doomed", b"")
    wait_until(lambda: not client.get_children("/admin/delete_topics"), "the mark to go")
    tree = write_checker.read_nodes(cluster.connect)
    assert [path for path in tree if "doomed" in path] == []
    assert set(write_checker.decode_topics(tree)) == {"spared"}
    parents = ("/brokers/topics", "/config/topics", "/admin/delete_topics")
    last_changes = [client.exists(parent).pzxid for parent in parents]
    assert last_changes == sorted(set(last_changes))


def test_a_mark_without_a_topic_goes_and_does_nothing_else(client: KazooClient) -> None:
    """Kafka drops such a mark; a leftover config node stays."""
    client.create("/config/topics/leftover", b'{"version":1,"config":{}}')
    client.create("/admin/delete_topics/leftover", b"")
    wait_until(lambda: not client.exists("/admin/delete_topics/leftover"), "the mark to go")
    assert client.exists("/config/topics/leftover")


def test_another_controller_moves_the_epoch(cluster: SimulatedKafka, client: KazooClient) -> None:
    """After an election the epoch and its version have moved, and new states carry the new epoch."""
    cluster.elect_controller(4)
    assert read(client, "/controller")["brokerid"] == 4
    data, stat = client.get("/controller_epoch")
    assert (data, stat.version) == (b"2", 2)
    cluster.add_topics(Topic("later", ((1, 2),)))
    assert read(client, "/brokers/topics/later/partitions/0/state")["controller_epoch"] == 2


def test_what_a_real_controller_fails_on_is_a_fault(chroot: str) -> None:
    """Garbage in a topic node is reported as a fault, and the controller goes on."""
    with SimulatedKafka(chroot, BROKERS) as playground:
        playground.client.create("/brokers/topics/garbage", b"[]")
        playground.wait_idle()
        assert any("/brokers/topics/garbage holds no topic" in fault for fault in playground.controller_errors)
        playground.client.delete("/brokers/topics/garbage")
        create(playground.client, "good")
        wait_until(lambda: state_exists(playground.client, "good", 1), "the good topic to be taken over")


@pytest.mark.slow
def test_it_goes_on_after_a_restart_of_zookeeper() -> None:
    """A restarted server finds brokers and controller again, and the watches work as before."""
    with RestartableZooKeeper() as server, SimulatedKafka(f"{server.connect}/kafka", BROKERS) as playground:
        server.restart()
        wait_until(lambda: playground.client.connected, "the connection")
        create(playground.client, "after")
        wait_until(lambda: state_exists(playground.client, "after", 1), "the controller to take the topic over")
        assert len(playground.client.get_children("/brokers/ids")) == len(BROKERS)
        assert playground.controller_errors == []


def test_the_end_takes_brokers_and_controller_along(chroot: str) -> None:
    """After close no thread of the playground runs and no ephemeral node is left; topics stay."""
    threads = set(threading.enumerate())
    with SimulatedKafka(chroot, BROKERS) as playground:
        playground.add_topics(Topic("stays", ((1, 2),)))
    assert set(threading.enumerate()) <= threads
    tree = write_checker.read_nodes(chroot)
    assert [path for path, node in tree.items() if node.ephemeral_owner] == []
    assert set(write_checker.decode_topics(tree)) == {"stays"}


def test_two_topics_of_one_name_are_an_error(cluster: SimulatedKafka) -> None:
    """What ZooKeeper refuses is raised, not lost in a transaction's list of results."""
    with pytest.raises(NodeExistsError):
        cluster.add_topics(Topic("twice", ((1,),)), Topic("twice", ((1,),)))


def test_the_demo_has_three_topics_on_six_brokers(chroot: str) -> None:
    """The demo's cluster holds payments, clicks and audit, every partition in three racks."""
    with run_cluster(chroot) as playground:
        racks = {broker.id: broker.rack for broker in playground.brokers.values()}
        topics = write_checker.decode_topics(write_checker.read_nodes(chroot))
        assert set(topics) == {"payments", "clicks", "audit"}
        lists = [replicas for topic in topics.values() for replicas in topic["partitions"].values()]
        assert all({racks[replica] for replica in replicas} == {"a", "b", "c"} for replicas in lists)
        assert playground.controller_errors == []


def test_without_a_zookeeper_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a server at the address: one line with the address, and no process is left."""
    monkeypatch.setattr(simulated_kafka, "_CONNECT_TIMEOUT_S", 0.2)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(TopiaristError, match=f"no ZooKeeper answers at {address}") as caught:
            SimulatedKafka(f"{address}/kafka", BROKERS).start()
    assert caught.value.reason is Reason.UNREACHABLE


def test_a_cluster_that_does_not_delete_throws_marks_away(cluster: SimulatedKafka, client: KazooClient) -> None:
    """As brokers do with ``delete.topic.enable=false``: the mark goes, the topic stays."""
    cluster.add_topics(Topic("orders", ((1, 2),)))
    cluster.deletion_enabled = False
    client.create("/admin/delete_topics/orders")
    cluster.wait_idle()
    assert client.get_children("/admin/delete_topics") == []
    assert client.exists("/brokers/topics/orders/partitions/0/state")
    assert client.exists("/config/topics/orders")


def test_a_reassignment_goes_through_kafkas_steps(cluster: SimulatedKafka, client: KazooClient) -> None:
    """In flight while a broker of the target lags; done with the target as list, leader and in-sync replicas."""
    cluster.add_topics(Topic("orders", ((1, 2), (2, 3))))
    cluster.moves_replicas, cluster.lagging_brokers = True, {4}
    cluster.wait_idle()  # a controller watches the request from its start
    entries = [
        {"topic": "orders", "partition": 0, "replicas": [4, 2]},
        {"topic": "gone", "partition": 0, "replicas": [1]},
    ]
    client.create("/admin/reassign_partitions", json.dumps({"version": 1, "partitions": entries}).encode())
    cluster.wait_idle()
    topic = read(client, "/brokers/topics/orders")
    assert (topic["partitions"]["0"], topic["adding_replicas"], topic["removing_replicas"]) == (
        [4, 2, 1],
        {"0": [4]},
        {"0": [1]},
    )
    assert [entry["topic"] for entry in read(client, "/admin/reassign_partitions")["partitions"]] == ["orders"]
    cluster.lagging_brokers = set()
    cluster.wait_idle()
    topic, state = read(client, "/brokers/topics/orders"), read(client, "/brokers/topics/orders/partitions/0/state")
    assert (topic["partitions"], topic["adding_replicas"], topic["removing_replicas"]) == (
        {"0": [4, 2], "1": [2, 3]},
        {},
        {},
    )
    assert (state["leader"], state["isr"]) == (4, [2, 4])
    assert client.exists("/admin/reassign_partitions") is None
    assert cluster.controller_errors == []


DEV = [sys.executable, "-m", "topiarist", "dev"]
SCHEMA = re.compile(r"^# yaml-language-server: [$]schema=(\S+)$", re.MULTILINE)


@contextmanager
def running(*args: str) -> Iterator[str]:
    """Run the command until the block ends; gives what it printed."""
    with subprocess.Popen([*DEV, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout
        try:
            yield read_until(process.stdout, "Ctrl-C")
        finally:
            process.send_signal(signal.SIGINT)
            process.stdout.read()


def topiarist(*args: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a terminal of its own."""
    words = [sys.executable, "-m", "topiarist", *args]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_manifests_lead_to_the_cluster(tmp_path: Path) -> None:
    """Its port, its name and its id are those of the Cluster document, so that no other option is needed."""
    port, ids = free_port(), []
    for folder in (tmp_path / "one", tmp_path / "two"):
        with running("--manifests", str(folder), "--name", "local", "--port", str(port)) as said:
            assert f"The test cluster is running at   127.0.0.1:{port}/kafka\n" in said
            document = yaml.safe_load((folder / "cluster.yaml").read_text())
            with connect_client(f"127.0.0.1:{port}/kafka") as client:
                ids.append(json.loads(client.get("/cluster/id")[0])["id"])
            assert (document["metadata"]["name"], document["spec"]["clusterId"]) == ("local", ids[-1])
            assert document["spec"]["zookeeper"] == {"connect": f"127.0.0.1:{port}/kafka"}
            planned = topiarist("plan", str(folder))
            assert (planned.returncode, planned.stderr) == (0, "")
            assert planned.stdout.startswith(f"local   cluster {ids[-1]}, ")
            assert topiarist("apply", str(folder), "--adopt=clicks", "--yes").returncode == 0
    assert ids[0] != ids[1]


def test_editors_find_the_schemas() -> None:
    """Each manifest names a schema by an address that leads to a file, wherever the manifest is."""
    found = simulated_kafka.render_manifests("local", "127.0.0.1:1/kafka", "id")
    assert sorted(found) == ["cluster.yaml", "topics/clicks.yaml", "topics/orders.yaml", "topics/payments.yaml"]
    for name, text in found.items():
        address = urlsplit(SCHEMA.findall(text)[0])
        path = Path(url2pathname(address.path))
        assert (address.scheme, path.name) == ("file", "cluster.json" if name == "cluster.yaml" else "topic.json")
        assert json.loads(path.read_text())["$schema"]


@pytest.mark.slow
def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    """One line and exit 1; nothing is written."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = topiarist("dev", "--port", str(port), "--manifests", str(tmp_path / "new"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: another process uses port {port} of 127.0.0.1\n    give another port")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["Local", "a_b", "-a", "a" * 64, "a\nb"])
def test_a_name_that_no_cluster_may_have_is_wrong_usage(name: str) -> None:
    """It would be refused as soon as the manifests are read."""
    done = topiarist("dev", "--name", name)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "wanted 1 to 63 lowercase letters" in done.stderr


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A file in the way ends in a line, and the server ends too."""
    (tmp_path / "file").write_text("")
    done = topiarist("dev", "--manifests", str(tmp_path / "file" / "below"))
    assert done.returncode == 1
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr

"""The move of records on a real ZooKeeper: what is handed over, crashes at each step, and other clients meanwhile."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from integration.write_fixtures import REPLICAS, connect_cluster, lock_nodes, verify_changes
from support.builders import apply_results, plan_specs, topic_spec
from support.zookeeper.proxy import CutTiming, Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters import open_cluster, own_values
from topiarist.adapters.devcluster.seed import CLUSTER_ID, Topic
from topiarist.adapters.kafka_admin.records.codec import Records, merge_moved
from topiarist.adapters.own_values import encode_batch
from topiarist.cli import terminal
from topiarist.cli.main import run
from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.kafka.types import Broker
from topiarist.model.moves import BatchRecord
from topiarist.model.outcome import FreezeResult, Result
from topiarist.model.state import MOVED, MOVING, ClosedRecords, ClusterState, Freeze, MovedRecords, WriteBlock

ADA = Freeze("disks are being moved", "ada", "2026-01-31T12:00:00Z")
GATE = "/topiarist/gate"


class RecordsTopic:
    """The topic of records in memory, with the calls of the port that a move uses."""

    def __init__(self) -> None:
        self.records = Records()
        self.prepared = 0
        self.write_block = WriteBlock()
        self.failure: TopiaristError | None = None

    def check_moved_records(self, closed: ClosedRecords) -> MovedRecords:
        """Return the result of a move."""
        return merge_moved(closed, self.records).result

    def prepare_records(self) -> None:
        """Count the call."""
        self.prepared += 1

    def take_records(self, closed: ClosedRecords) -> MovedRecords:
        """Write the records, or fail."""
        if self.failure:
            raise self.failure
        merged = merge_moved(closed, self.records)
        if not merged.result.repeated:
            topics = {**self.records.topics, **merged.topics}
            self.records = self.records._replace(topics=topics, moved=merged.moved, gate=merged.gate)
        return merged.result

    def read(self) -> ClusterState:
        """Return an empty state."""
        return ClusterState(CLUSTER_ID, (), {}, write_block=self.write_block)

    def close(self) -> None:
        """Do nothing."""


@pytest.fixture
def kafka() -> RecordsTopic:
    """The records topic of the test."""
    return RecordsTopic()


@pytest.fixture
def owned(cluster: SimulatedKafka) -> SimulatedKafka:
    """A cluster with two topics of topiarist, a deleted one, and a record of an earlier topic."""
    cluster.add_topics(Topic("elsewhere", REPLICAS, {}))
    with connect_cluster(cluster.connect) as port:
        specs = [topic_spec(name, config={"flush.ms": 5}) for name in ("clicks", "deleted", "orders", "recreated")]
        assert set(apply_results(port, plan_specs(port, *specs)).values()) == {Result.DONE}
        cluster.wait_idle()
        cluster.client.create("/admin/delete_topics/deleted")
        cluster.client.create("/admin/delete_topics/recreated")
        cluster.wait_idle()
        cluster.add_topics(Topic("recreated", REPLICAS, {}))
    return cluster


def gate(client: KazooClient) -> Freeze | None:
    """Return the content of the gate."""
    return own_values.decode_freeze(client.get(GATE)[0])


def reason(client: KazooClient) -> str | None:
    """Return the reason of the present freeze."""
    found = gate(client)
    return found.reason if found else None


def move(cluster: SimulatedKafka, kafka: RecordsTopic) -> MovedRecords:
    """Move the records in a separate session."""
    with connect_cluster(cluster.connect) as port:
        return port.move_records(kafka.take_records)


def test_records_are_handed_over_with_the_ids_of_their_topics(
    owned: SimulatedKafka, client: KazooClient, kafka: RecordsTopic
) -> None:
    """Valid records have the id of their topic, records without a topic have none, and a record of an earlier topic is
    left behind. The gate is closed before and after; nothing of Kafka's is written.
    """
    seen = []

    def take(closed: ClosedRecords) -> MovedRecords:
        seen.append((reason(client), closed))
        return kafka.take_records(closed)

    with verify_changes(owned.connect), connect_cluster(owned.connect) as port:
        ids = {name: topic.topic_id for name, topic in port.read().topics.items()}
        left = port.read_left_records()
        assert (left.cluster_id, left.records, left.is_begun, left.freeze) == (CLUSTER_ID, 4, False, None)
        preview = port.find_records()
        assert gate(client) is None
        assert port.move_records(take) == MovedRecords(port.read().chroot, 3, ("recreated",))
    ((gate_before, closed),) = seen
    assert (gate_before, closed, reason(client)) == (MOVING, preview, MOVED)
    assert closed.stale == ("recreated",)
    moved = {name: found.topic_id for name, found in closed.records.items()}
    assert moved == {"clicks": ids["clicks"], "orders": ids["orders"], "deleted": None}
    assert closed.records["orders"].record.config_keys == ("flush.ms",)
    assert lock_nodes(owned) == []


def test_after_the_move_runs_through_zookeeper_are_refused(
    owned: SimulatedKafka, client: KazooClient, kafka: RecordsTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plan shows the freeze and the way to go; an apply and an unfreeze without force are refused, also for a user of
    the same name; a freeze of a user does not replace the one of the move.
    """
    move(owned, kafka)
    before = client.get(GATE)
    with connect_cluster(owned.connect) as port:
        block = port.read().write_block
        assert block.reason is Reason.FROZEN
        assert "moved to Kafka; reach the cluster through its brokers (spec.kafka, via: Kafka)" in block.message
        assert port.set_freeze(None, by="topiarist move-records", force=False).result is Result.REFUSED
        assert port.set_freeze(ADA, by="topiarist move-records", force=False).result is Result.REFUSED
    assert run(["unfreeze", "--zookeeper", owned.connect]) == Exit.REFUSED
    assert "its records were moved to Kafka, where runs continue" in capsys.readouterr().out
    assert client.get(GATE) == before


def test_a_second_move_writes_nothing(
    owned: SimulatedKafka, client: KazooClient, kafka: RecordsTopic, proxy: Proxy
) -> None:
    """A move after a finished one takes the lock, and changes neither the gate nor the records."""
    move(owned, kafka)
    before, records = client.get(GATE), kafka.records
    with connect_cluster(proxy.through(owned.connect)) as port:
        assert port.move_records(kafka.take_records).repeated
    assert (client.get(GATE), kafka.records) == (before, records)
    assert (proxy.requests["multi"], proxy.requests["setData"]) == (0, 0)


class Crash(Exception):
    """The end of a process."""


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_crash_while_the_records_are_taken_is_continued(
    owned: SimulatedKafka, client: KazooClient, kafka: RecordsTopic, is_taken: bool
) -> None:
    """Before and after the transaction in Kafka: ZooKeeper stays closed, and the next call completes the move, with the
    freeze that was there before the first one.
    """
    client.set(GATE, own_values.encode_freeze(ADA))

    def crash(closed: ClosedRecords) -> MovedRecords:
        if is_taken:
            kafka.take_records(closed)
        raise Crash

    with connect_cluster(owned.connect) as port, pytest.raises(Crash):
        port.move_records(crash)
    assert reason(client) == MOVING
    with connect_cluster(owned.connect) as port:
        assert port.find_records().freeze == ADA
        assert port.read().write_block.reason is Reason.FROZEN
    assert move(owned, kafka).repeated is is_taken
    assert (kafka.records.gate, reason(client), len(kafka.records.topics)) == (ADA, MOVED, 3)


@pytest.mark.parametrize("timing", [*CutTiming])
@pytest.mark.parametrize("write", [1, 2, 3, 4])
def test_a_lost_connection_at_each_write(
    owned: SimulatedKafka, client: KazooClient, kafka: RecordsTopic, proxy: Proxy, write: int, timing: CutTiming
) -> None:
    """The lock, the two transactions of the gate, and the end of the lock: each is lost before or after the server has
    it. The move ends as without a fault.
    """
    proxy.cut(write, timing)
    with connect_cluster(proxy.through(owned.connect)) as port:
        assert port.move_records(kafka.take_records).records == 3
    assert proxy.triggered.is_set()
    assert (reason(client), len(kafka.records.topics)) == (MOVED, 3)


def test_two_moves_at_once(owned: SimulatedKafka, client: KazooClient, kafka: RecordsTopic) -> None:
    """The second waits for the lock, and finds everything moved."""
    is_taking, results = threading.Event(), []

    def take(closed: ClosedRecords) -> MovedRecords:
        is_taking.set()
        second.join(0.5)  # it waits for the lock meanwhile
        assert second.is_alive()
        return kafka.take_records(closed)

    second = threading.Thread(target=lambda: results.append(is_taking.wait() and move(owned, kafka)))
    second.start()
    with connect_cluster(owned.connect) as port:
        assert not port.move_records(take).repeated
    second.join()
    assert [each and each.repeated for each in results] == [True]
    assert reason(client) == MOVED


def test_a_gate_that_is_opened_during_the_move_is_reported(
    owned: SimulatedKafka, client: KazooClient, kafka: RecordsTopic
) -> None:
    """A run of an earlier release writes after its user has opened the gate by force: the move does not end as if
    nothing was, and the next call names the record that was not taken.
    """

    def take(closed: ClosedRecords) -> MovedRecords:
        result = kafka.take_records(closed)
        with connect_cluster(owned.connect) as other:
            assert other.set_freeze(None, by="ada", force=True) == FreezeResult(Result.DONE, gate_before())
            record = kafka.records.topics["orders"].record
            assert record
            client.create("/topiarist/topics/late", own_values.encode_record(record))
        return result

    def gate_before() -> Freeze | None:
        return gate(client) or freeze

    freeze: Freeze | None = None
    with connect_cluster(owned.connect) as port:

        def remember(closed: ClosedRecords) -> MovedRecords:
            nonlocal freeze
            freeze = gate(client)
            return take(closed)

        with pytest.raises(TopiaristError, match="changed /topiarist/gate during the move") as raised:
            port.move_records(remember)
    assert raised.value.reason is Reason.STATE_CONFLICT
    assert gate(client) is None
    again = move(owned, kafka)
    assert (again.repeated, again.unmatched, reason(client)) == (True, ("late",), MOVED)


def test_a_move_is_refused_before_the_gate_is_closed(
    owned: SimulatedKafka, client: KazooClient, kafka: RecordsTopic
) -> None:
    """A batch of moves that has not ended, and a topic that cannot be read: the cluster stays open."""
    batch = BatchRecord(owner="default", batch=1, batches=2, moves=(), throttles={})
    client.create("/topiarist/moves", encode_batch(batch))
    with pytest.raises(TopiaristError, match="a batch of moves has not ended") as raised:
        move(owned, kafka)
    assert raised.value.reason is Reason.REASSIGNMENT_IN_PROGRESS
    client.delete("/topiarist/moves")
    client.set("/topiarist/topics/orders", b"{")
    with pytest.raises(TopiaristError, match="topic orders cannot be read: /topiarist/topics/orders"):
        move(owned, kafka)
    assert (gate(client), kafka.records) == (None, Records())


def test_topics_without_an_id_stay_in_zookeeper(chroot: str, kafka: RecordsTopic) -> None:
    """Brokers before 2.8 give topics no id: nothing is closed."""
    with SimulatedKafka(chroot, [Broker(1, None)], (2, 4)) as old:
        with connect_cluster(old.connect) as port:
            spec = topic_spec("orders", partitions=1, replicationFactor=1)
            assert apply_results(port, plan_specs(port, spec)) == {"orders": Result.DONE}
        with pytest.raises(TopiaristError, match="1 topic with a record and without a topic id, such as orders"):
            move(old, kafka)
        assert gate(old.client) is None


def test_records_move_during_dual_write(owned: SimulatedKafka, client: KazooClient, kafka: RecordsTopic) -> None:
    """A KRaft controller keeps topiarist from writing Kafka's znodes, not from closing its own."""
    client.create("/migration", b'{"version":0,"kraft_metadata_offset":-1}')
    client.delete("/controller")
    client.create("/controller", b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":4}')
    assert move(owned, kafka).records == 3
    assert reason(client) == MOVED


MANIFESTS = """
apiVersion: topiarist.dev/v1
kind: Cluster
metadata: {{name: eu}}
spec:
  clusterId: {cluster_id}
  zookeeper: {{connect: "{connect}"}}
  kafka: {{bootstrapServers: "127.0.0.1:1"}}
  via: Kafka
---
apiVersion: topiarist.dev/v1
kind: Cluster
metadata: {{name: us}}
spec:
  kafka: {{bootstrapServers: "127.0.0.1:1"}}
"""


@pytest.fixture
def folder(owned: SimulatedKafka, kafka: RecordsTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Manifests with the cluster in both sections, and one without ZooKeeper; the topic of records is in memory."""
    (tmp_path / "clusters.yaml").write_text(MANIFESTS.format(connect=owned.connect, cluster_id=CLUSTER_ID))
    monkeypatch.setattr(open_cluster, "load_kafka_cluster", lambda: lambda *_, **__: kafka)
    return tmp_path


def test_the_command_shows_what_it_moved(
    folder: Path, client: KazooClient, kafka: RecordsTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command names the records that are left behind and the freeze that stays; a second one has nothing to do."""
    client.set(GATE, own_values.encode_freeze(ADA))
    assert run(["move-records", str(folder), "--yes"]) == Exit.DONE
    said = capsys.readouterr()
    assert "eu: to move: 3 records from ZooKeeper (/test-" in said.out
    assert "left behind, of earlier topics of the same name: 1 topic: recreated\n" in said.out
    assert "the cluster stays frozen by ada since 2026-01-31T12:00:00Z: disks are being moved\n" in said.out
    assert "eu: moved: 3 records from ZooKeeper" in said.out
    assert said.err == "ignored 1 cluster without both spec.zookeeper and spec.kafka\n"
    assert (kafka.records.gate, reason(client), kafka.prepared) == (ADA, MOVED, 1)
    before = client.get(GATE)
    assert run(["move-records", str(folder), "--yes", "-q"]) == Exit.DONE
    assert capsys.readouterr().out.startswith("eu: already moved: 3 records")
    assert (client.get(GATE), kafka.prepared) == (before, 1)


def test_a_move_that_another_run_made_meanwhile(
    folder: Path,
    owned: SimulatedKafka,
    kafka: RecordsTopic,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The second run does not call the records moved by itself."""
    monkeypatch.setattr(terminal, "require_interactive", lambda *_: None)
    monkeypatch.setattr(terminal, "confirm", lambda _: move(owned, kafka))
    assert run(["move-records", str(folder)]) == Exit.DONE
    assert "eu: already moved: 3 records from ZooKeeper" in capsys.readouterr().out


def test_the_command_needs_a_terminal_or_yes(folder: Path, client: KazooClient, kafka: RecordsTopic) -> None:
    """Without --yes and a terminal, nothing is moved."""
    assert run(["move-records", str(folder)]) == Exit.USAGE
    assert (gate(client), kafka.records) == (None, Records())


def test_a_cluster_that_cannot_take_records_keeps_zookeeper_open(
    folder: Path, client: KazooClient, kafka: RecordsTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    """Brokers between two steps of a migration, another cluster id, and a missing section: each is an error, and the
    gate stays open.
    """
    kafka.write_block = WriteBlock(Reason.KRAFT_MIGRATION, "broker 1 has been restarted for it")
    assert run(["move-records", str(folder), "--yes"]) == Exit.REFUSED
    assert "eu: broker 1 has been restarted for it" in capsys.readouterr().err
    kafka.write_block = WriteBlock()
    path = folder / "clusters.yaml"
    path.write_text(path.read_text().replace(CLUSTER_ID, "A" * 22))
    assert run(["move-records", str(folder), "--yes"]) == Exit.ERROR
    assert CLUSTER_ID in capsys.readouterr().err
    assert run(["move-records", str(folder), "--yes", "--cluster", "us"]) == Exit.ERROR
    assert "clusters.yaml:14:1: error: Cluster us: wanted both" in capsys.readouterr().err
    assert (gate(client), kafka.records) == (None, Records())


def test_a_move_that_fails_says_how_to_continue(
    folder: Path, client: KazooClient, kafka: RecordsTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error while the records are taken leaves ZooKeeper closed: the command says to run again."""

    kafka.failure = TopiaristError(Reason.UNREACHABLE, "the brokers do not take it")
    assert run(["move-records", str(folder), "--yes"]) == Exit.ERROR
    assert "run topiarist move-records again: until it ends, runs of either way are refused" in capsys.readouterr().err
    assert reason(client) == MOVING

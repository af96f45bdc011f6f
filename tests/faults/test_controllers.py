"""F9 to F11, F14 and F34: controllers and brokers that write, fail over, stop, change or are excluded during a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from faults.conftest import FaultStatistics
from integration.write_fixtures import (
    DESIRED_SPECS,
    FIRST_TOPIC_WRITE,
    InterceptingProxy,
    apply_without_hooks,
    connect_cluster,
    create_mixed_topics,
    topics_by_result,
    verify_changes,
)
from support.builders import apply_outcomes, apply_results, plan_specs, topic_spec
from support.cli.runs import document, write_manifests
from support.zookeeper import busy_cluster, write_checker
from support.zookeeper.busy_cluster import ClusterTemplate
from support.zookeeper.client import connect_client
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.zookeeper.write import writer
from topiarist.cli.main import run
from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.model.outcome import Result
from topiarist.model.state import Freeze

EVERY = busy_cluster.desired_specs()
FIRST, LAST = 2, 21
"""The transactions of a run that does everything: the lock is taken before them."""

ZOOKEEPER_MODE = {"version": 2, "brokerid": 2, "timestamp": "1", "kraftControllerEpoch": -1}
KRAFT = {"version": 2, "brokerid": 3000, "timestamp": "1", "kraftControllerEpoch": 1}
MIGRATION = {"version": 0, "kraft_controller_id": -1, "kraft_controller_epoch": -1, "kraft_metadata_offset": -1}
COPIED = {"version": 0, "kraft_controller_id": 3000, "kraft_controller_epoch": 1, "kraft_metadata_offset": 1234}


def take_over(client: KazooClient, controller: dict[str, Any]) -> None:
    """Elect another controller: its znode, and a new epoch."""
    epoch = int(client.get("/controller_epoch")[0])
    transaction = client.transaction()
    transaction.delete("/controller")
    transaction.create("/controller", json.dumps(controller).encode())
    transaction.set_data("/controller_epoch", b"%d" % (epoch + 1))
    assert not [result for result in transaction.commit() if isinstance(result, Exception)]


def test_f09_every_topic_gets_its_id_before_its_transaction(
    zookeeper: EmbeddedZooKeeper, proxy: Proxy, tally: FaultStatistics
) -> None:
    """The controller of a newer release writes the id of each existing topic just before the transaction: that topic
    alone is read and sent again, and its id is kept.
    """
    identity = "UXyU9i5ARn6W00ON2taeWA"
    there = [name for name in busy_cluster.NAMES if name not in busy_cluster.CREATED_NAMES]
    with connect_client(zookeeper.connect) as server:
        mould = ClusterTemplate(zookeeper.connect, server, release=(2, 7))
        for topic in there:
            connect = mould.create_copy()
            before = write_checker.read_nodes(connect)
            proxy.reset()
            with connect_client(connect) as client, connect_cluster(proxy.through(connect)) as port:

                def give_id(client: KazooClient = client, path: str = f"/brokers/topics/{topic}") -> None:
                    node = json.loads(client.get(path)[0])
                    client.set(path, json.dumps(node | {"version": 3, "topic_id": identity}).encode())

                proxy.hold(FIRST + busy_cluster.NAMES.index(topic), give_id)
                assert apply_results(port, plan_specs(port, *EVERY)) == dict.fromkeys(busy_cluster.NAMES, Result.DONE)
                assert busy_cluster.faulted_topic(proxy) == topic
                assert not plan_specs(port, *EVERY).has_changes
            assert proxy.requests["multi"] == len(busy_cluster.NAMES) + 1
            after = write_checker.read_nodes(connect)
            assert list(busy_cluster.find_damage(before, after)) == []
            assert write_checker.decode_topics(after)[topic]["topic_id"] == identity
    tally.set_cases(len(there))


def test_f10_a_new_controller_before_every_transaction(
    mould: ClusterTemplate, proxy: Proxy, tally: FaultStatistics
) -> None:
    """The epoch has changed: transactions in flight are read, compared and sent once more under the new epoch, and are
    done.
    """
    for write in range(FIRST, LAST + 1):
        connect = mould.create_copy()
        before = write_checker.read_nodes(connect)
        proxy.reset()
        with connect_client(connect) as client, connect_cluster(proxy.through(connect)) as port:
            plan = plan_specs(port, *EVERY)
            proxy.hold(write, lambda client=client: take_over(client, ZOOKEEPER_MODE))  # type: ignore[misc]
            assert apply_results(port, plan) == dict.fromkeys(busy_cluster.NAMES, Result.DONE)
            assert proxy.triggered.is_set()
            assert not plan_specs(port, *EVERY).has_changes
        assert list(busy_cluster.find_damage(before, write_checker.read_nodes(connect))) == []
    tally.set_cases(LAST + 1 - FIRST)


def test_f11_a_takeover_before_every_transaction(mould: ClusterTemplate, proxy: Proxy, tally: FaultStatistics) -> None:
    """KRaft becomes active during the run: from that moment no znode of the cluster changes except topiarist's lock,
    which is deleted.
    """
    for write in range(FIRST, LAST + 1):
        connect, seen = mould.create_copy(), dict[str, Any]()
        proxy.reset()
        with connect_client(connect) as client, connect_cluster(proxy.through(connect)) as port:

            def migrate(
                client: KazooClient = client, connect: str = connect, seen: dict[str, Any] = seen, write: int = write
            ) -> None:
                busy_cluster.wait_for_transactions(proxy, write - FIRST)
                client.create("/migration", json.dumps(COPIED).encode())
                take_over(client, KRAFT)
                seen.update(write_checker.read_nodes(connect))

            plan = plan_specs(port, *EVERY)
            proxy.hold(write, migrate)
            report = apply_without_hooks(port, plan)
            assert proxy.triggered.is_set()
        assert report.error is not None
        assert report.error.reason is Reason.KRAFT_CONTROLLER
        after = write_checker.read_nodes(connect)
        assert after == {path: node for path, node in seen.items() if not path.startswith("/topiarist/lock/")}
        done = write - FIRST
        assert topics_by_result(report.outcomes) == {
            result: list(names)
            for result, names in (
                (Result.DONE, busy_cluster.NAMES[:done]),
                (Result.SKIPPED, busy_cluster.NAMES[done:]),
            )
            if names
        }, (write, report.outcomes)
    tally.set_cases(LAST + 1 - FIRST)


def test_f11_a_quorum_that_connects_before_every_transaction(
    mould: ClusterTemplate, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, tally: FaultStatistics
) -> None:
    """A migration begins during the run, and KRaft is not active yet: topics that were read before are finished,
    because the migration copies them, and no others are begun. The error does not claim that nothing was written.
    """
    monkeypatch.setattr(writer, "BATCH_SIZE", 4)
    for write in range(FIRST, LAST + 1):
        connect = mould.create_copy()
        proxy.reset()
        with connect_client(connect) as client, connect_cluster(proxy.through(connect)) as port:
            plan = plan_specs(port, *EVERY)
            proxy.hold(write, lambda client=client: quorum_connected(client))  # type: ignore[misc]
            report = apply_without_hooks(port, plan)
            assert proxy.triggered.is_set()
        done = min(len(busy_cluster.NAMES), -((FIRST - write - 1) // 4) * 4)
        assert topics_by_result(report.outcomes) == {
            result: list(names)
            for result, names in (
                (Result.DONE, busy_cluster.NAMES[:done]),
                (Result.SKIPPED, busy_cluster.NAMES[done:]),
            )
            if names
        }, (write, report.outcomes)
        if report.error is None:
            assert done == len(busy_cluster.NAMES)
        else:
            assert report.error.reason is Reason.KRAFT_MIGRATION
            assert report.error.hint == "nothing more is written: topics that were not sent are unchanged"
    tally.set_cases(LAST + 1 - FIRST)


def test_f11_a_quorum_that_connects_before_anything_is_sent(mould: ClusterTemplate, proxy: Proxy) -> None:
    """A migration begins between the plan and the lock: nothing is written, and the error says so."""
    connect = mould.create_copy()
    with connect_client(connect) as client, connect_cluster(proxy.through(connect)) as port:
        plan = plan_specs(port, *EVERY)
        proxy.hold(1, lambda: quorum_connected(client))
        report = apply_without_hooks(port, plan)
    assert topics_by_result(report.outcomes) == {Result.SKIPPED: list(busy_cluster.NAMES)}
    assert report.error is not None
    assert (report.error.reason, report.error.hint) == (Reason.KRAFT_MIGRATION, "nothing was written")


def quorum_connected(client: KazooClient) -> None:
    """A KRaft quorum in migration mode has connected; the ZooKeeper controller is still active."""
    client.create("/migration", json.dumps(MIGRATION).encode())


def dual_write(client: KazooClient) -> None:
    """KRaft is active and mirrors its writes to ZooKeeper."""
    client.create("/migration", json.dumps(COPIED).encode())
    take_over(client, KRAFT)


def finished(client: KazooClient) -> None:
    """The brokers have left ZooKeeper: its content is a stale copy."""
    dual_write(client)
    for broker in client.get_children("/brokers/ids"):
        client.delete(f"/brokers/ids/{broker}")


def rolled_back(client: KazooClient) -> None:
    """A ZooKeeper controller is active again, and the migration znode remains."""
    dual_write(client)
    take_over(client, ZOOKEEPER_MODE)


each_state = pytest.mark.parametrize("state", [quorum_connected, dual_write, finished, rolled_back])


@each_state
def test_f11_not_even_our_gate_is_touched(
    mould: ClusterTemplate, proxy: Proxy, state: Callable[[KazooClient], None]
) -> None:
    """Freezing writes no znode of Kafka's, and is refused too."""
    connect = mould.create_copy()
    with connect_client(connect) as client:
        state(client)
    with connect_cluster(proxy.through(connect)) as port, pytest.raises(TopiaristError) as raised:
        port.set_freeze(Freeze("disks are being moved"), by="ada", force=True)
    assert raised.value.reason in (Reason.KRAFT_CONTROLLER, Reason.KRAFT_MIGRATION)
    assert proxy.writes == 0


@each_state
def test_f11_every_state_of_a_migration(
    mould: ClusterTemplate,
    proxy: Proxy,
    state: Callable[[KazooClient], None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """For each state of a migration in ZooKeeper: no write is sent, and each topic is withheld or refused with the
    cause.
    """
    connect = mould.create_copy()
    with connect_client(connect) as client:
        state(client)
    before = write_checker.read_nodes(connect)
    folder = write_manifests(tmp_path / "manifests", {"prod": proxy.through(connect)}, "a-create", "b-grow")
    assert run(["apply", str(folder), "--yes", "--adopt=*", "--kafka-version", "3.9"]) == Exit.REFUSED
    said = " ".join(capsys.readouterr().out.split())
    assert "KRaft" in said
    assert said.endswith(("Applied: 2 held back.", "Applied: 2 refused, 1 held back."))
    assert proxy.writes == 0
    assert write_checker.read_nodes(connect) == before


def test_f09_a_topic_that_moves_every_time_is_given_up(
    cluster: SimulatedKafka, meddler: InterceptingProxy, client: KazooClient
) -> None:
    """A topic that another client writes before each attempt is a conflict after the third; nothing is overwritten."""
    create_mixed_topics(cluster)

    def touch(kind: str) -> bool:
        if kind == "multi":
            client.set("/brokers/topics/grow", client.get("/brokers/topics/grow")[0])
        return True

    with verify_changes(cluster.connect, "grow"), connect_cluster(meddler.through(cluster.connect)) as port:
        plan = plan_specs(port, DESIRED_SPECS[1])
        meddler.may_forward = touch
        found = apply_outcomes(port, plan)["grow"]
    assert (found.result, found.reason) == (Result.CONFLICT, Reason.STATE_CONFLICT)
    assert found.message == "/brokers/topics/grow changed while it was written, 3 times in a row"
    assert meddler.requests["multi"] == 3
    assert len(write_checker.decode_topics(write_checker.read_nodes(cluster.connect))["grow"]["partitions"]) == 2


def test_f10_controllers_that_change_without_end_end_the_tries(
    cluster: SimulatedKafka, meddler: InterceptingProxy, client: KazooClient
) -> None:
    """A new epoch before every attempt: the run stops after a few attempts, and does not hold the lock forever."""

    def elect(kind: str) -> bool:
        if kind == "multi":
            client.set("/controller_epoch", str(int(client.get("/controller_epoch")[0]) + 1).encode())
        return True

    with verify_changes(cluster.connect), connect_cluster(meddler.through(cluster.connect)) as port:
        plan = plan_specs(port, topic_spec("orders"))
        meddler.may_forward = elect
        found = apply_outcomes(port, plan)["orders"]
    assert (found.result, found.reason) == (Result.CONFLICT, Reason.STATE_CONFLICT)
    assert "/controller_epoch" in found.message
    assert 1 < meddler.requests["multi"] <= 5


def test_f10_an_election_in_the_middle_is_waited_for(
    cluster: SimulatedKafka, meddler: InterceptingProxy, client: KazooClient
) -> None:
    """Without a controller nothing is written; after the election the run continues (contract 7, 12)."""
    names = create_mixed_topics(cluster)
    written_without: list[str] = []
    state = {"multis": 0, "reads": 0}

    def play(kind: str) -> bool:
        if kind == "multi":
            state["multis"] += 1
            if state["multis"] == 2:
                client.delete("/controller")
        elif kind == "multiRead" and not client.exists("/controller"):
            state["reads"] += 1
            written_without.extend(write_checker.decode_topics(write_checker.read_nodes(cluster.connect)))
            if state["reads"] == 5:
                cluster.wait_idle()  # elects
        return True

    with verify_changes(cluster.connect, *names), connect_cluster(meddler.through(cluster.connect)) as port:
        plan = plan_specs(port, *DESIRED_SPECS)
        meddler.may_forward = play
        assert set(apply_results(port, plan).values()) == {Result.DONE}
    assert state["reads"] >= 5
    assert "create" not in written_without


def test_f09_a_config_that_changes_under_a_growth_is_not_vouched_for(
    cluster: SimulatedKafka, proxy: Proxy, client: KazooClient
) -> None:
    """The ownership record lists the keys with topiarist's values: a key that another client changes between read and
    write is a conflict.
    """
    create_mixed_topics(cluster)

    def meddle() -> None:
        client.set("/config/topics/grow", b'{"version":1,"config":{"retention.ms":"666"}}')

    with connect_cluster(proxy.through(cluster.connect)) as port:
        plan = plan_specs(port, DESIRED_SPECS[1])
        after = plan.topics[0].record_after
        assert after is not None
        assert (after.owner, after.config_keys) == ("default", ("retention.ms",))
        proxy.hold(FIRST, meddle)
        found = apply_outcomes(port, plan)["grow"]
        assert proxy.triggered.is_set()
    assert found.result is Result.CONFLICT
    assert "retention.ms" in found.message
    assert not client.exists("/topiarist/topics/grow")


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

"""F9 to F11: the controller writes between our reading and our writing, another one takes over, or KRaft does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from faults.conftest import Tally
from integration.scene import WISHES, Meddler, by_result, carried_out, mixed, opened, witnessed
from support import checker, plenty
from support.clients import connected
from support.plenty import Mould
from support.proxy import Proxy
from support.runs import manifests
from support.wishes import outcomes, planned, results, wish
from topiarist.adapters.embedded import EmbeddedZooKeeper
from topiarist.adapters.playground import Playground
from topiarist.adapters.zookeeper import writing
from topiarist.cli.main import run
from topiarist.core.state import Freeze
from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.reconcile import Result

EVERY = plenty.wishes()
FIRST, LAST = 2, 21
"""The transactions of a run that does everything: the lock is taken before them."""

ZOOKEEPER_MODE = {"version": 2, "brokerid": 2, "timestamp": "1", "kraftControllerEpoch": -1}
KRAFT = {"version": 2, "brokerid": 3000, "timestamp": "1", "kraftControllerEpoch": 1}
MIGRATION = {"version": 0, "kraft_controller_id": -1, "kraft_controller_epoch": -1, "kraft_metadata_offset": -1}
COPIED = {"version": 0, "kraft_controller_id": 3000, "kraft_controller_epoch": 1, "kraft_metadata_offset": 1234}


def take_over(client: KazooClient, controller: dict[str, Any]) -> None:
    """Another controller: its node, and the epoch that moves on."""
    epoch = int(client.get("/controller_epoch")[0])
    transaction = client.transaction()
    transaction.delete("/controller")
    transaction.create("/controller", json.dumps(controller).encode())
    transaction.set_data("/controller_epoch", b"%d" % (epoch + 1))
    assert not [result for result in transaction.commit() if isinstance(result, Exception)]


def test_f09_every_topic_gets_its_id_before_its_transaction(
    zookeeper: EmbeddedZooKeeper, proxy: Proxy, tally: Tally
) -> None:
    """A controller of a newer release writes the id of each topic that is there, just before we write: that topic
    alone is read and sent again, and its id is kept.
    """
    identity = "UXyU9i5ARn6W00ON2taeWA"
    there = [name for name in plenty.NAMES if name not in plenty.NEW]
    with connected(zookeeper.connect) as server:
        mould = Mould(zookeeper.connect, server, release=(2, 7))
        for topic in there:
            connect = mould.cast()
            before = checker.look(connect)
            proxy.reset()
            with connected(connect) as client, opened(proxy.through(connect)) as port:

                def give_id(client: KazooClient = client, path: str = f"/brokers/topics/{topic}") -> None:
                    node = json.loads(client.get(path)[0])
                    client.set(path, json.dumps(node | {"version": 3, "topic_id": identity}).encode())

                proxy.hold(FIRST + plenty.NAMES.index(topic), give_id)
                assert results(port, planned(port, *EVERY)) == dict.fromkeys(plenty.NAMES, Result.DONE)
                assert plenty.struck(proxy) == topic
                assert not planned(port, *EVERY).pending
            assert proxy.requests["multi"] == len(plenty.NAMES) + 1
            after = checker.look(connect)
            assert list(plenty.harm(before, after)) == []
            assert checker.topics(after)[topic]["topic_id"] == identity
    tally.cases(len(there))


def test_f10_a_new_controller_before_every_transaction(mould: Mould, proxy: Proxy, tally: Tally) -> None:
    """The epoch has moved: what was under way is read, compared and sent once more under the new one, and is done."""
    for write in range(FIRST, LAST + 1):
        connect = mould.cast()
        before = checker.look(connect)
        proxy.reset()
        with connected(connect) as client, opened(proxy.through(connect)) as port:
            plan = planned(port, *EVERY)
            proxy.hold(write, lambda client=client: take_over(client, ZOOKEEPER_MODE))  # type: ignore[misc]
            assert results(port, plan) == dict.fromkeys(plenty.NAMES, Result.DONE)
            assert proxy.fired.is_set()
            assert not planned(port, *EVERY).pending
        assert list(plenty.harm(before, checker.look(connect))) == []
    tally.cases(LAST + 1 - FIRST)


def test_f11_a_takeover_before_every_transaction(mould: Mould, proxy: Proxy, tally: Tally) -> None:
    """KRaft takes over in the middle: from that moment on no node of the cluster changes but our lock, which goes."""
    for write in range(FIRST, LAST + 1):
        connect, seen = mould.cast(), dict[str, Any]()
        proxy.reset()
        with connected(connect) as client, opened(proxy.through(connect)) as port:

            def migrate(
                client: KazooClient = client, connect: str = connect, seen: dict[str, Any] = seen, write: int = write
            ) -> None:
                plenty.answered(proxy, write - FIRST)
                client.create("/migration", json.dumps(COPIED).encode())
                take_over(client, KRAFT)
                seen.update(checker.look(connect))

            plan = planned(port, *EVERY)
            proxy.hold(write, migrate)
            report = carried_out(port, plan)
            assert proxy.fired.is_set()
        assert report.error is not None
        assert report.error.reason is Reason.KRAFT_CONTROLLER
        after = checker.look(connect)
        assert after == {path: node for path, node in seen.items() if not path.startswith("/topiarist/lock/")}
        done = write - FIRST
        assert by_result(report.outcomes) == {
            result: list(names)
            for result, names in ((Result.DONE, plenty.NAMES[:done]), (Result.NOT_SENT, plenty.NAMES[done:]))
            if names
        }, (write, report.outcomes)
    tally.cases(LAST + 1 - FIRST)


def test_f11_a_quorum_that_connects_before_every_transaction(
    mould: Mould, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    """A migration begins in the middle, and nothing has taken over yet: the topics that were read before are finished,
    which the takeover will copy, and no others are begun. The error does not say that nothing was written.
    """
    monkeypatch.setattr(writing, "WINDOW", 4)
    for write in range(FIRST, LAST + 1):
        connect = mould.cast()
        proxy.reset()
        with connected(connect) as client, opened(proxy.through(connect)) as port:
            plan = planned(port, *EVERY)
            proxy.hold(write, lambda client=client: quorum_connected(client))  # type: ignore[misc]
            report = carried_out(port, plan)
            assert proxy.fired.is_set()
        done = min(len(plenty.NAMES), -((FIRST - write - 1) // 4) * 4)
        assert by_result(report.outcomes) == {
            result: list(names)
            for result, names in ((Result.DONE, plenty.NAMES[:done]), (Result.NOT_SENT, plenty.NAMES[done:]))
            if names
        }, (write, report.outcomes)
        if report.error is None:
            assert done == len(plenty.NAMES)
        else:
            assert report.error.reason is Reason.KRAFT_MIGRATION
            assert report.error.hint == "nothing more is written: what was not sent before is left as it was"
    tally.cases(LAST + 1 - FIRST)


def test_f11_a_quorum_that_connects_before_anything_is_sent(mould: Mould, proxy: Proxy) -> None:
    """Between the plan and the lock: then nothing was written, and that is what is said."""
    connect = mould.cast()
    with connected(connect) as client, opened(proxy.through(connect)) as port:
        plan = planned(port, *EVERY)
        proxy.hold(1, lambda: quorum_connected(client))
        report = carried_out(port, plan)
    assert by_result(report.outcomes) == {Result.NOT_SENT: list(plenty.NAMES)}
    assert report.error is not None
    assert (report.error.reason, report.error.hint) == (Reason.KRAFT_MIGRATION, "nothing was written")


def quorum_connected(client: KazooClient) -> None:
    """A KRaft quorum in migration mode is up; the ZooKeeper controller is still in charge."""
    client.create("/migration", json.dumps(MIGRATION).encode())


def dual_write(client: KazooClient) -> None:
    """KRaft has taken over and mirrors what it writes."""
    client.create("/migration", json.dumps(COPIED).encode())
    take_over(client, KRAFT)


def finished(client: KazooClient) -> None:
    """The brokers have left ZooKeeper: what is there is a stale copy."""
    dual_write(client)
    for broker in client.get_children("/brokers/ids"):
        client.delete(f"/brokers/ids/{broker}")


def rolled_back(client: KazooClient) -> None:
    """A ZooKeeper controller is in charge again, and the mark of the migration has stayed."""
    dual_write(client)
    take_over(client, ZOOKEEPER_MODE)


each_state = pytest.mark.parametrize("state", [quorum_connected, dual_write, finished, rolled_back])


@each_state
def test_f11_not_even_our_gate_is_touched(mould: Mould, proxy: Proxy, state: Callable[[KazooClient], None]) -> None:
    """Freezing writes no node of Kafka's, and is refused all the same."""
    connect = mould.cast()
    with connected(connect) as client:
        state(client)
    with opened(proxy.through(connect)) as port, pytest.raises(TopiaristError) as raised:
        port.turn(Freeze("disks are being moved"), by="ada", force=True)
    assert raised.value.reason in (Reason.KRAFT_CONTROLLER, Reason.KRAFT_MIGRATION)
    assert proxy.writes == 0


@each_state
def test_f11_every_state_of_a_migration(
    mould: Mould, proxy: Proxy, state: Callable[[KazooClient], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever a migration leaves in ZooKeeper: no write is sent, each topic is held or refused, and why is said."""
    connect = mould.cast()
    with connected(connect) as client:
        state(client)
    before = checker.look(connect)
    folder = manifests(tmp_path / "manifests", {"prod": proxy.through(connect)}, "a-create", "b-grow")
    assert run(["apply", str(folder), "--yes", "--adopt=*", "--kafka-version", "3.9"]) == Exit.REFUSED
    said = " ".join(capsys.readouterr().out.split())
    assert "KRaft" in said
    assert said.endswith(("Applied: 2 held back.", "Applied: 2 refused, 1 held back."))
    assert proxy.writes == 0
    assert checker.look(connect) == before


def test_f09_a_topic_that_moves_every_time_is_given_up(
    cluster: Playground, meddler: Meddler, client: KazooClient
) -> None:
    """A topic that somebody else writes before each of our tries is moved after the third; nothing is overwritten."""
    mixed(cluster)

    def touch(kind: str) -> bool:
        if kind == "multi":
            client.set("/brokers/topics/grow", client.get("/brokers/topics/grow")[0])
        return True

    with witnessed(cluster.connect, "grow"), opened(meddler.through(cluster.connect)) as port:
        plan = planned(port, WISHES[1])
        meddler.before = touch
        found = outcomes(port, plan)["grow"]
    assert (found.result, found.reason) == (Result.MOVED, Reason.STATE_CONFLICT)
    assert found.message == "/brokers/topics/grow changed while it was written, 3 times in a row"
    assert meddler.requests["multi"] == 3
    assert len(checker.topics(checker.look(cluster.connect))["grow"]["partitions"]) == 2


def test_f10_controllers_that_change_without_end_end_the_tries(
    cluster: Playground, meddler: Meddler, client: KazooClient
) -> None:
    """A new epoch before every try: given up after a few, instead of for ever under the lock."""

    def elect(kind: str) -> bool:
        if kind == "multi":
            client.set("/controller_epoch", str(int(client.get("/controller_epoch")[0]) + 1).encode())
        return True

    with witnessed(cluster.connect), opened(meddler.through(cluster.connect)) as port:
        plan = planned(port, wish("orders"))
        meddler.before = elect
        found = outcomes(port, plan)["orders"]
    assert (found.result, found.reason) == (Result.MOVED, Reason.STATE_CONFLICT)
    assert "/controller_epoch" in found.message
    assert 1 < meddler.requests["multi"] <= 5


def test_f10_an_election_in_the_middle_is_waited_for(
    cluster: Playground, meddler: Meddler, client: KazooClient
) -> None:
    """While there is no controller nothing is written; when there is one the run goes on (contract 7, 12)."""
    names = mixed(cluster)
    written_without: list[str] = []
    state = {"multis": 0, "reads": 0}

    def play(kind: str) -> bool:
        if kind == "multi":
            state["multis"] += 1
            if state["multis"] == 2:
                client.delete("/controller")
        elif kind == "multiRead" and not client.exists("/controller"):
            state["reads"] += 1
            written_without.extend(checker.topics(checker.look(cluster.connect)))
            if state["reads"] == 5:
                cluster.settle()  # elects
        return True

    with witnessed(cluster.connect, *names), opened(meddler.through(cluster.connect)) as port:
        plan = planned(port, *WISHES)
        meddler.before = play
        assert set(results(port, plan).values()) == {Result.DONE}
    assert state["reads"] >= 5
    assert "create" not in written_without


def test_f09_a_config_that_changes_under_a_growth_is_not_vouched_for(
    cluster: Playground, proxy: Proxy, client: KazooClient
) -> None:
    """Our record says which keys hold our values: a key changed by others between reading and writing voids that."""
    mixed(cluster)

    def meddle() -> None:
        client.set("/config/topics/grow", b'{"version":1,"config":{"retention.ms":"666"}}')

    with opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, WISHES[1])
        after = plan.topics[0].record_after
        assert after is not None
        assert (after.owner, after.config) == ("default", ("retention.ms",))
        proxy.hold(FIRST, meddle)
        found = outcomes(port, plan)["grow"]
        assert proxy.fired.is_set()
    assert found.result is Result.MOVED
    assert "retention.ms" in found.message
    assert not client.exists("/topiarist/topics/grow")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda client: client.create("/migration", b'{"version":0,"kraft_metadata_offset":-1}'),
            Reason.KRAFT_MIGRATION,
        ),
        (lambda client: client.delete("/controller"), Reason.NO_CONTROLLER),
    ],
)
def test_f11_a_closed_gate_means_no_write(
    cluster: Playground, client: KazooClient, change: Callable[[KazooClient], object], reason: Reason
) -> None:
    """With a migration begun, or without a controller, the plan refuses everything and apply creates nothing at all."""
    mixed(cluster)
    with opened(cluster.connect) as port:
        open_plan = planned(port, *WISHES)
        change(client)
        closed = planned(port, *WISHES)
        assert not closed.pending
        assert {finding.reason for topic in closed.topics for finding in topic.refusals} == {reason}
        with pytest.raises(TopiaristError) as raised:
            results(port, open_plan)
    assert raised.value.reason is reason
    assert not client.exists("/topiarist")

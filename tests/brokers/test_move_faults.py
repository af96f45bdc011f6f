"""Faults while replicas of real brokers move: M3, M4, M8, M9, M10, M12, M14, M15, M17 and M26.

After each fault one more run finishes the work: the lists are as declared, all replicas are in sync, and no request, no
record and no throttle is left.
"""

from __future__ import annotations

import json

import pytest

from brokers.moves_fixture import (
    REQUEST,
    SLOW,
    Lists,
    MovesFixture,
    Traffic,
    change_controller,
    check_done,
    check_traffic,
)
from support.cli.runs import RunResult
from support.kafka.jars import NEWEST
from support.zookeeper.proxy import CutTiming, Proxy
from topiarist.errors import Exit

LEADER_RATE = "leader.replication.throttled.rate"


@pytest.fixture
def newest(release: str) -> None:
    """Skip the test on older releases: their controllers have the same code for it."""
    if release != NEWEST:
        pytest.skip("tested with the newest release")


def run_kafka_tool(moves: MovesFixture, option: str, topic: str, lists: Lists) -> str:
    """Run ``kafka-reassign-partitions`` of the newest release with an option for these targets; return its output."""
    entries = [{"topic": topic, "partition": at, "replicas": list(replicas)} for at, replicas in enumerate(lists)]
    targets = moves.bed.folder / "targets.json"
    targets.write_text(json.dumps({"version": 1, "partitions": entries}))
    words = ("--bootstrap-server", moves.kafka.bootstrap, "--reassignment-json-file", str(targets), option)
    said = moves.kafka.tool("kafka-reassign-partitions", *words, release=NEWEST)
    assert said.code == 0, said
    return said.out


def check_stalled(said: RunResult, *words: str) -> None:
    """Assert that a run ended because nothing moved on, and that it names the cause."""
    assert said.code == Exit.ERROR, said
    for word in ("no progress for ", "run again to wait for it", *words):
        assert word in said.err, said


KILLS = ((2, CutTiming.AFTER), (5, CutTiming.BEFORE), (5, CutTiming.AFTER), (8, CutTiming.BEFORE))
"""The moments of a kill, by write: each batch, and the last transaction, come between taking and releasing the lock."""


@pytest.mark.night(area="moves")
def test_m03_the_run_is_killed(moves: MovesFixture, release: str) -> None:
    """``kill -9`` before and after each of two batches, and before the throttles are put back: the next run ends with
    the lists of the first plan, and nothing that was moved is sent again.
    """
    here: Lists = ((1, 2), (2, 1), (1, 2), (2, 1))
    there: Lists = ((1, 3), (2, 3), (1, 3), (2, 3))
    moves.create({"m3": here}, messages=2)
    moves.declare_target("m3", here)
    check_done(moves.apply())
    for write, timing in KILLS if release == NEWEST else KILLS[1::2]:
        with Proxy(moves.kafka.zookeeper.connect) as proxy:
            moves.declare_target("m3", there, batch=2, connect=proxy.through(moves.kafka.connect))
            process = moves.start()
            if timing is CutTiming.BEFORE:
                proxy.cut(write, timing, refuse=True, action=process.kill)
            else:  # with the next write, which releases the lock: no run has to wait until the session expires
                proxy.hold(write + 1, process.kill)
            moves.finish(process)
            assert proxy.triggered.is_set()
        sent = write // 3 + (timing is CutTiming.AFTER)
        assert moves.move_writes() == sent - 1
        moves.kafka.wait(lambda: moves.kafka.client.exists(REQUEST) is None, "the controller to end the batch")
        assert moves.lists("m3") == (*there[: 2 * sent], *here[2 * sent :])
        moves.declare_target("m3", there, batch=2)
        assert moves.plan_lists({"m3": moves.lists("m3")}) == {"m3": there}
        check_done(moves.apply())
        moves.check_lists({"m3": there})
        here, there = there, here


def test_m04_the_controller_changes(moves: MovesFixture) -> None:
    """Another controller while a batch is in flight, and between two runs: it goes on, and nothing is sent twice."""
    moves.create({"m4": ((1, 2), (2, 1))})
    target: Lists = ((1, 3), (2, 3))
    process = moves.start_slow("m4", target)
    sent = moves.kafka.client.get(REQUEST)[1].czxid
    change_controller(moves.kafka)
    moves.wait_in_flight({("m4", 0), ("m4", 1)}, process)
    process.kill()
    moves.finish(process)
    change_controller(moves.kafka)
    assert moves.kafka.client.get(REQUEST)[1].czxid == sent
    check_done(moves.release("m4", target))
    moves.check_lists({"m4": target})


@pytest.mark.night(area="moves")
def test_m08_another_client_cancels(moves: MovesFixture) -> None:
    """``kafka-reassign-partitions --cancel`` while a batch is in flight leaves lists in another order than
    before: the run reports them, and the next run moves the partition as declared.
    """
    moves.create({"m8": ((1, 2),)})
    target: Lists = ((3, 2),)
    process = moves.start_slow("m8", target)
    run_kafka_tool(moves, "--cancel", "m8", target)
    said = moves.finish(process)
    assert said.code == Exit.CONFLICT, said
    assert "partition 0 was on [1, 2], was to be on [3, 2], and is on [2, 1] now" in said.out, said
    moves.check_lists({"m8": ((2, 1),)})
    check_done(moves.release("m8", target))
    moves.check_lists({"m8": target})


@pytest.mark.night(area="moves")
@pytest.mark.usefixtures("newest")
def test_m09_another_client_removes_the_throttles(moves: MovesFixture) -> None:
    """``kafka-reassign-partitions --verify`` of another topic leaves all throttles while anything is in flight. Its
    cancellation removes the rates of every broker: the next batch sets them again, and nothing is left at the end.
    """
    moves.create({"m9": ((1, 2), (2, 1)), "m9-done": ((1, 2),)}, messages=12)
    target: Lists = ((1, 3), (2, 3))
    moves.declare_target("m9", target, throttle=SLOW, batch=1)
    process = moves.start()
    moves.wait_in_flight({("m9", 0)}, process)
    assert LEADER_RATE in moves.throttles()["brokers/1"]
    run_kafka_tool(moves, "--verify", "m9-done", ((1, 2),))
    assert LEADER_RATE in moves.throttles()["brokers/1"]
    run_kafka_tool(moves, "--cancel", "m9-done", ((1, 2),))
    assert "brokers/1" not in moves.throttles()
    moves.wait_sent(2, process)
    assert LEADER_RATE in moves.throttles()["brokers/2"]
    process.kill()
    moves.finish(process)
    check_done(moves.release("m9", target))
    moves.check_lists({"m9": target})


@pytest.mark.night(area="moves")
def test_m10_the_topic_is_deleted(moves: MovesFixture) -> None:
    """Another client deletes the topic in the middle: the run reports the entry that stays. No run sends anything, and
    none creates a topic of that name, until the entry is removed.
    """
    delete_in_the_middle(moves, "m10")
    moves.create({"m10-other": ((1, 2),)}, messages=1)
    moves.declare_target("m10-other", ((1, 3),))
    check_stuck(moves.apply(), "m10")
    assert moves.lists("m10-other") == ((1, 2),)
    moves.declare({"m10": {"partitions": 1, "replicationFactor": 2}})
    said = moves.apply()
    check_stuck(said, "m10")
    assert "m10 refused" in said.out, said
    assert moves.kafka.client.exists("/brokers/topics/m10") is None
    remove_entry(moves, "m10", ((1, 2),))
    moves.declare_target("m10-other", ((1, 3),))
    check_done(moves.apply())
    moves.check_lists({"m10-other": ((1, 3),)})


@pytest.mark.night(area="moves")
def test_m12_the_topic_is_deleted_and_recreated(moves: MovesFixture) -> None:
    """Another client deletes the topic in the middle and recreates it: the entry is recognised as older than the topic.
    After the remedy of the message, another controller leaves the topic where it was created.
    """
    delete_in_the_middle(moves, "m12")
    moves.create({"m12": ((1, 2),)}, messages=1)
    moves.declare({"m12": {"partitions": 1, "replicationFactor": 2}})
    said = moves.apply()
    check_stuck(said, "m12")
    assert "is older than the topic" in said.err, said
    remove_entry(moves, "m12", ((1, 2),))
    check_done(moves.apply())
    change_controller(moves.kafka)
    moves.check_lists({"m12": ((1, 2),)})


def delete_in_the_middle(moves: MovesFixture, topic: str) -> None:
    """Delete a topic as another client while a run moves it; the run ends with the error for the entry that stays."""
    moves.create({topic: ((1, 2),)})
    process = moves.start_slow(topic, ((3, 2),))
    assert moves.bed.clients.delete([topic]) == {}
    check_stuck(moves.finish(process), topic)


def check_stuck(said: RunResult, topic: str) -> None:
    """Assert that a run ended with the error for an entry that the controller never removes."""
    assert said.code == Exit.ERROR, said
    assert f"/admin/reassign_partitions: {topic}, partition 0: " in said.err, said


def remove_entry(moves: MovesFixture, topic: str, lists: Lists) -> None:
    """Remove a stuck entry by the remedy of the message: a request to the Admin API for the present replicas."""
    # For a topic that does not exist the API answers with an error, and removes the entry all the same.
    moves.bed.clients.reassign({topic: dict(enumerate(lists))})
    moves.kafka.wait(lambda: moves.kafka.client.exists(REQUEST) is None, "the stuck entry to be removed")


def test_m14_a_target_broker_dies_and_returns(moves: MovesFixture) -> None:
    """The run names the broker when it stalls, and a run after its return ends; nothing is sent twice."""
    moves.create({"m14": ((1, 2),)})
    target: Lists = ((1, 3),)
    process = moves.start_slow("m14", target, stall_after="8s")
    sent = moves.kafka.client.get(REQUEST)[1].czxid
    moves.kafka.kill(3)
    check_stalled(moves.finish(process), "broker 3 is not registered", "partition m14 0")
    moves.kafka.revive(3)
    assert moves.kafka.client.get(REQUEST)[1].czxid == sent
    check_done(moves.release("m14", target))
    moves.check_lists({"m14": target})


@pytest.mark.night(area="moves")
def test_m15_a_broker_that_keeps_its_replica_dies(moves: MovesFixture) -> None:
    """The copy may end, and the move cannot: the stall names the broker that is missing."""
    moves.create({"m15": ((2, 3, 1),)})
    target: Lists = ((2, 4, 1),)
    process = moves.start_slow("m15", target, stall_after="3s")
    moves.kafka.stop(1)
    check_stalled(moves.finish(process), "no progress for 3 s: broker 1 is not registered", "partition m15 0")
    moves.kafka.revive(1)
    check_done(moves.release("m15", target))
    moves.check_lists({"m15": target})


@pytest.mark.night(area="moves")
@pytest.mark.usefixtures("newest")
def test_m17_a_drained_broker_dies(moves: MovesFixture) -> None:
    """The move ends without the broker that leaves, and a plan warns of the logs that stay on its disk."""
    moves.create({"m17": ((1, 4), (4, 1))}, messages=4)
    topics = {"m17": {"partitions": 2, "replicationFactor": 2}}
    moves.declare(topics, drain=[4], throttle=SLOW)
    process = moves.start()
    moves.wait_in_flight({("m17", 0), ("m17", 1)}, process)
    moves.kafka.kill(4)
    process.kill()
    moves.finish(process)
    moves.kafka.wait(lambda: 4 not in moves.kafka.registered(), "the session of the killed broker to expire")
    moves.declare(topics, drain=[4])
    check_done(moves.apply())
    assert all(4 not in replicas for replicas in moves.lists("m17"))
    moves.check_nothing_left()
    moves.kafka.revive(4)


@pytest.mark.night(area="moves")
@pytest.mark.usefixtures("newest")
def test_m26_a_throttle_below_production(moves: MovesFixture) -> None:
    """Producers write more than the throttle permits to copy: the stall names the throttle, and a run with a higher one
    ends.
    """
    moves.create({"m26": ((1, 2),)}, messages=8)
    target: Lists = ((1, 3),)
    with Traffic(moves.kafka.bootstrap, {"m26": 1}) as traffic:
        process = moves.start_slow("m26", target, stall_after="3s")
        check_stalled(moves.finish(process), "throttle of 1,024 bytes/s is below what is produced")
        check_done(moves.release("m26", target))
        moves.check_lists({"m26": target})
    check_traffic(traffic)


@pytest.mark.night(area="moves")
@pytest.mark.usefixtures("newest")
def test_the_run_is_killed_while_a_broker_is_down(moves: MovesFixture) -> None:
    """The target broker hangs in the third of ten batches, and the run is killed. A second run names the broker, the
    partition that waits for it and the remedy. After the broker's return one run ends the work: the lists are those of
    the first plan, nothing is copied twice, and no throttle is left.
    """
    before: Lists = ((1, 2), (2, 1)) * 5
    moves.create({"night": before}, messages=2)
    topics = {"night": {"partitions": 10, "replicationFactor": 2}}
    moves.declare(topics)
    check_done(moves.apply())
    with Proxy(moves.kafka.zookeeper.connect) as proxy:
        moves.declare(topics, drain=[2], batch=1, connect=proxy.through(moves.kafka.connect))
        planned = moves.plan_lists({"night": before})["night"]
        assert all(4 in replicas for replicas in planned)
        proxy.reset()
        proxy.hold(8, lambda: moves.kafka.pause(4))
        process = moves.start()
        moves.wait_sent(3, process)
        process.kill()
        moves.finish(process)
    moves.kafka.kill(4)
    moves.kafka.wait(lambda: 4 not in moves.kafka.registered(), "the session of the killed broker to expire")
    sent = moves.kafka.client.get(REQUEST)[1].czxid
    moves.declare(topics, drain=[2], batch=1, stall_after="4s")
    said = moves.apply()
    assert said.code == Exit.ERROR, said
    assert "batch 3 of 10 of moves by owner default is in progress: 1 partition left" in said.out, said
    assert "broker 4 holds replicas but is not registered" in said.out, said
    assert "wait until it is registered again, or drain it" in said.out, said
    assert "no progress for 4 s: broker 4 is not registered: partition night 2 waits for it" in said.err, said
    assert "run again to wait for it" in said.err, said
    assert moves.kafka.client.get(REQUEST)[1].czxid == sent
    moves.kafka.revive(4)
    moves.kafka.wait(lambda: moves.kafka.client.exists(REQUEST) is None, "the controller to end the third batch")
    moved = [partition for partition, replicas in enumerate(moves.lists("night")) if replicas == planned[partition]]
    assert len(moved) == 3
    moves.declare(topics, drain=[2], batch=1)
    assert moves.plan_lists({"night": moves.lists("night")})["night"] == planned
    said = moves.apply()
    check_done(said)
    assert "batch 3 of 10 of moves by owner default is done, and its throttles are still set" in said.out, said
    moves.check_lists({"night": planned})

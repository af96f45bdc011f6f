"""M14 to M20, M22, M25 and M34: brokers, replicas and partitions that are not healthy, before and during moves."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from conftest import BROKERS
from faults.conftest import FaultStatistics
from integration.write_fixtures import InterceptingProxy, connect_cluster
from support.zookeeper.moves import LISTS, RECORD, REQUEST, SETTINGS, MovingCluster, OnceInFlight, outcome_of
from topiarist.adapters.zookeeper.moves import mover
from topiarist.errors import Reason
from topiarist.model.moves import MoveProgress
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Plan
from topiarist.planning.moves import ledger
from topiarist.ports import MoveOptions
from topiarist.reconcile import apply_plan

pytestmark = pytest.mark.timeout(300)

LAST = BROKERS[-1]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs refuse a partition that is not healthy at once."""
    monkeypatch.setattr(ledger, "HEALTH_TIMEOUT_S", 0.0)


def send(kafka: MovingCluster, plan: Plan) -> Outcome:
    """Apply a plan that cannot be sent; return the outcome of its topic, and check that nothing was written."""
    version = kafka.client.exists("/brokers/topics/orders").version
    report = kafka.apply(plan)
    assert report.error is None
    assert kafka.client.exists("/brokers/topics/orders").version == version
    assert kafka.client.exists(REQUEST) is None
    assert kafka.client.exists(RECORD) is None
    assert kafka.throttles() == {}
    return outcome_of(report)


def state(kafka: MovingCluster, partition: int) -> Any:
    """Return the state of a partition."""
    return kafka.read(f"/brokers/topics/orders/partitions/{partition}/state")


@pytest.mark.usefixtures("impatient")
def test_m14_a_target_is_away_before_the_batch(moving: MovingCluster, tally: FaultStatistics) -> None:
    """Its moves are not sent, with the broker named; the other partitions move."""
    plan = moving.plan()
    moves = plan.topics[0].moves()
    gone = moves[-1].added[0]
    moving.kafka.remove_broker(gone)
    report = moving.apply(plan)
    outcome = outcome_of(report)
    assert (outcome.result, outcome.reason) == (Result.REFUSED, Reason.NOT_IN_SYNC)
    assert f"broker {gone}, which partition" in outcome.message
    for move in moves:
        expected = move.before if gone in move.added else move.after
        assert moving.lists()[move.partition] == expected
    assert moving.leftovers() == []
    tally.set_cases(len(moves))


def test_m14_a_target_goes_away_at_the_very_moment(moving: MovingCluster, meddler: InterceptingProxy) -> None:
    """The registration is checked in the transaction: nothing is written, and the batch is sent when it is back."""
    plan = moving.plan()
    target = next(broker for broker in BROKERS if broker.id == plan.topics[0].moves()[0].added[0])
    multis: list[bool] = []

    def may_forward(kind: str) -> bool:
        if kind == "multi":
            multis.append(True)
            if len(multis) == 2:
                moving.kafka.remove_broker(target.id)
        elif len(multis) == 2:
            multis.append(False)
            assert moving.client.exists(REQUEST) is None
            assert moving.throttles() == {}
            moving.kafka.add_broker(target)
        return True

    meddler.may_forward = may_forward
    report = moving.apply(plan, connect=meddler.through(moving.kafka.connect))
    assert outcome_of(report).result is Result.DONE
    assert moving.problems(plan) == []


def test_m14_a_target_goes_away_during_the_batch_and_comes_back(moving: MovingCluster) -> None:
    """The run waits, names the broker, and goes on by itself."""
    plan = moving.plan()
    target = next(broker for broker in BROKERS if broker.id == plan.topics[0].moves()[0].added[0])
    moving.lag()
    remarks: list[str] = []

    def on_progress(progress: MoveProgress) -> None:
        if not remarks:
            moving.kafka.remove_broker(target.id)
            remarks.append("")
        elif "not registered" in progress.waiting_for and len(remarks) == 1:
            remarks.append(progress.waiting_for)
            moving.kafka.add_broker(target)
            moving.catch_up()

    report = moving.apply(plan, on_progress=on_progress)
    assert remarks[1].startswith(f"broker {target.id} is not registered: ")
    assert outcome_of(report).result is Result.DONE
    assert moving.problems(plan) == []


def test_m15_a_replica_that_stays_fails_in_the_middle(moving: MovingCluster) -> None:
    """The controller waits for it without end: the run stalls and names it; when it is back the next run ends."""
    plan = moving.plan()
    move = plan.topics[0].moves()[0]
    (kept,) = set(move.before) & set(move.after)
    moving.lag(*move.added)

    def fail() -> None:
        moving.kafka.wait_idle()
        moving.set_state(move.partition, isr=[6])
        moving.catch_up()

    settings = replace(SETTINGS, stall_after=1)
    report = moving.apply(plan, settings=settings, on_progress=OnceInFlight(fail))
    assert report.error is not None
    assert report.error.reason is Reason.MOVES_STALLED
    assert f"broker {kept} keeps a replica that is not in sync: partition orders {move.partition} waits" in str(
        report.error
    )
    assert outcome_of(report).result is Result.PENDING
    moving.set_state(move.partition, isr=[*state(moving, move.partition)["isr"], kept])
    moving.catch_up()
    again = moving.apply(moving.plan())
    assert outcome_of(again).result is Result.DONE
    assert moving.problems(plan) == []


@pytest.mark.usefixtures("impatient")
def test_m16_a_replica_that_stays_is_not_in_sync_before(moving: MovingCluster) -> None:
    """Neither planned, nor sent if it failed after the plan; the other partitions of the topic move."""
    plan = moving.plan()
    move = plan.topics[0].moves()[0]
    (kept,) = set(move.before) & set(move.after)
    moving.set_state(move.partition, isr=[6])
    (refusal,) = moving.plan().topics[0].refusals
    assert refusal.reason is Reason.NOT_IN_SYNC
    outcome = outcome_of(moving.apply(plan))
    assert (outcome.result, outcome.reason) == (Result.REFUSED, Reason.NOT_IN_SYNC)
    assert f"broker {kept} keeps a replica of partition {move.partition} that is not in sync" in outcome.message
    lists = [each.after if each is not move else each.before for each in plan.topics[0].moves()]
    assert [moving.lists()[each.partition] for each in plan.topics[0].moves()] == lists
    assert moving.leftovers() == []


def test_m16_it_gets_in_sync_while_the_run_waits(moving: MovingCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The partition is looked at again, and moved."""
    monkeypatch.setattr(mover, "_HEALTH_POLL_S", 0.0)
    plan = moving.plan()
    move = plan.topics[0].moves()[0]
    moving.set_state(move.partition, isr=[6])

    def on_progress(progress: MoveProgress) -> None:
        if "not in sync" in progress.waiting_for:
            moving.set_state(move.partition, isr=list(move.before))

    report = moving.apply(plan, on_progress=on_progress)
    assert outcome_of(report).result is Result.DONE
    assert moving.problems(plan) == []


def test_m17_the_drained_broker_fails_in_the_middle_and_stays_away(moving: MovingCluster) -> None:
    """The moves end without it; a later plan says that its logs are still on its disk."""
    plan = moving.plan()
    moving.lag()

    def fail() -> None:
        moving.kafka.wait_idle()
        for move in plan.topics[0].moves():
            others = [broker for broker in state(moving, move.partition)["isr"] if broker != LAST.id]
            moving.set_state(move.partition, isr=others, leader=others[0])
        moving.kafka.remove_broker(LAST.id)
        moving.catch_up()

    report = moving.apply(plan, on_progress=OnceInFlight(fail))
    assert outcome_of(report).result is Result.DONE
    assert moving.problems(plan) == []


@pytest.mark.usefixtures("impatient")
def test_m17_a_plan_without_the_drained_broker_warns_of_its_logs(moving: MovingCluster) -> None:
    """What it held stays on its disk for good, so the plan says so before it is drained."""
    for partition in range(len(LISTS)):
        others = [broker for broker in LISTS[partition] if broker != LAST.id]
        moving.set_state(partition, isr=others, leader=others[0])
    moving.kafka.remove_broker(LAST.id)
    plan = moving.plan()
    assert "drained broker 6 is not registered" in "\n".join(plan.warnings)
    assert outcome_of(moving.apply(plan)).result is Result.DONE
    assert moving.problems(plan) == []


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("leader", [6, -1, 9], ids=["leaves", "none", "unknown"])
def test_m18_the_last_replica_in_sync_is_the_one_that_leaves(moving: MovingCluster, leader: int) -> None:
    """Nothing is sent: its data would depend on a broker that is to be emptied."""
    plan = moving.plan()
    for move in plan.topics[0].moves():
        moving.set_state(move.partition, isr=[6], leader=leader)
    outcome = send(moving, plan)
    assert (outcome.result, outcome.reason) == (Result.REFUSED, Reason.NOT_IN_SYNC)


def offline(kafka: MovingCluster) -> None:
    """Take the leader of a partition away that is not moved."""
    kafka.set_state(1, leader=-1)


def without_state(kafka: MovingCluster) -> None:
    """Delete the state of a partition that is not moved."""
    kafka.client.delete("/brokers/topics/orders/partitions/1/state")


def unknown_leader(kafka: MovingCluster) -> None:
    """Let every partition have a leader that is not registered."""
    for partition in range(len(LISTS)):
        kafka.set_state(partition, leader=9)


def malformed_state(kafka: MovingCluster) -> None:
    """Write a state that cannot be decoded."""
    kafka.client.set("/brokers/topics/orders/partitions/1/state", b"{")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("disturb", [offline, without_state, unknown_leader, malformed_state])
def test_m19_a_partition_without_a_leader_or_state(
    moving: MovingCluster, disturb: Callable[[MovingCluster], None]
) -> None:
    """The topic is refused as a whole, in the plan and before a batch, and its znode is not touched."""
    plan = moving.plan()
    disturb(moving)
    assert moving.plan().topics[0].refusals[0].reason is Reason.NOT_IN_SYNC
    outcome = send(moving, plan)
    assert (outcome.result, outcome.reason) == (Result.REFUSED, Reason.NOT_IN_SYNC)


@pytest.mark.usefixtures("impatient")
def test_m20_a_partition_is_added_just_before(moving: MovingCluster) -> None:
    """While the controller does not know it, nothing of the topic is moved: it would be lost."""
    plan = moving.plan()
    with moving.kafka.pause_controller():
        grow(moving)
        outcome = send(moving, plan)
    assert "partition 6 has no state" in outcome.message
    assert (outcome.result, outcome.reason) == (Result.REFUSED, Reason.NOT_IN_SYNC)
    moving.kafka.wait_idle()
    assert outcome_of(moving.apply(plan)).result is Result.DONE
    assert moving.lists()[6] == (2, 3)


def grow(kafka: MovingCluster) -> None:
    """Add a partition to ``orders``, as another client."""
    partitions = kafka.read("/brokers/topics/orders")["partitions"]
    kafka.change("/brokers/topics/orders", partitions={**partitions, "6": [2, 3]})


def test_m20_a_partition_is_added_just_after_and_lost(moving: MovingCluster) -> None:
    """The controller writes the topic from its memory, without the new partition: the run notices and reports it."""
    plan = moving.plan()
    moving.kafka.moves_replicas = False  # the test writes what a controller writes that was stopped
    polls: list[int] = []

    def on_progress(progress: MoveProgress) -> None:
        polls.append(progress.batch)
        if len(polls) == 1:
            grow(moving)
        elif len(polls) == 3:
            entries = {str(each["partition"]): each["replicas"] for each in moving.read(REQUEST)["partitions"]}
            lists = {str(number): list(replicas) for number, replicas in enumerate(LISTS)}
            moving.change("/brokers/topics/orders", partitions={**lists, **entries})
            moving.client.delete(REQUEST)

    outcome = outcome_of(moving.apply(plan, on_progress=on_progress))
    assert (outcome.result, outcome.reason) == (Result.CONFLICT, Reason.STATE_CONFLICT)
    assert "partition 6 was added by another client while the topic was moved, and is lost" in outcome.message


@pytest.mark.usefixtures("impatient")
def test_m22_replicas_were_changed_by_hand(moving: MovingCluster) -> None:
    """In-sync replicas that are not in the list: refused in the plan; a list that changed afterwards is a conflict."""
    plan = moving.plan()
    partitions = moving.read("/brokers/topics/orders")["partitions"]
    moving.change("/brokers/topics/orders", partitions={**partitions, "0": [6, 3]})
    assert outcome_of(moving.apply(plan)).result is Result.CONFLICT
    (refusal,) = moving.plan().topics[0].refusals
    assert refusal.reason is Reason.NOT_IN_SYNC
    assert "is in sync for partition 0, and is not in its replica list" in refusal.message
    moving.change("/brokers/topics/orders", partitions=partitions)
    moving.set_state(0, isr=[6, 1, 4])
    assert outcome_of(moving.apply(plan)).result is Result.REFUSED


def test_m25_the_controller_drops_a_batch(moving: MovingCluster) -> None:
    """The topic is failed and not done; the throttles are put back, and nothing more is sent."""
    plan = moving.plan()
    moving.kafka.moves_replicas = False
    dropped = OnceInFlight(lambda: moving.client.delete(REQUEST))
    outcome = outcome_of(moving.apply(plan, on_progress=dropped))
    assert (outcome.result, outcome.reason) == (Result.FAILED, Reason.MOVE_DROPPED)
    assert "2 moves ended without effect" in outcome.message
    assert moving.lists() == LISTS
    assert moving.leftovers() == []


def test_m25_a_partition_in_flight_without_an_entry(moving: MovingCluster) -> None:
    """A partition without a state leaves the request and stays in flight: failed, and not done."""
    plan = moving.plan()
    move = plan.topics[0].moves()[0]
    with moving.kafka.pause_controller():
        with connect_cluster(moving.kafka.connect) as cluster:
            apply_plan(cluster, plan, stop=lambda: False, move_options=MoveOptions(SETTINGS, wait=False))
        moving.client.delete(f"/brokers/topics/orders/partitions/{move.partition}/state")
    moving.kafka.wait_idle()
    assert moving.read("/brokers/topics/orders")["adding_replicas"] == {str(move.partition): list(move.added)}
    outcome = outcome_of(moving.apply(plan))
    assert (outcome.result, outcome.reason) == (Result.FAILED, Reason.REASSIGNMENT_IN_PROGRESS)
    assert f"partition {move.partition} is being reassigned, and no reassignment request names it" in outcome.message
    assert moving.leftovers() == []


def test_m34_another_client_raises_min_insync_replicas_in_the_middle(moving: MovingCluster) -> None:
    """All batches end: each leaves as many replicas in sync as before, though fewer than that."""
    plan = moving.plan()
    moving.lag()

    def configure() -> None:
        found = moving.read("/config/topics/orders")["config"]
        moving.set_config("topics/orders", {**found, "min.insync.replicas": "3"})
        moving.catch_up()

    outcome = outcome_of(moving.apply(plan, on_progress=OnceInFlight(configure)))
    assert outcome.result is Result.DONE
    assert moving.problems(plan) == []
    assert moving.leftovers() == []
    assert json.loads(moving.client.get("/config/topics/orders")[0])["config"] == {"min.insync.replicas": "3"}

"""M26 to M31, M35, M37 and M38: throttles, a freeze, other runs, large topics, KRaft and the clock during moves."""

from __future__ import annotations

import threading
import time
from itertools import cycle
from typing import Any

import pytest
from msgspec.structs import replace

from faults.conftest import FaultStatistics
from integration.write_fixtures import InterceptingProxy, connect_cluster
from support.zookeeper import moves as scene
from support.zookeeper.moves import (
    DRAINING,
    LISTS,
    LISTS_KEYS,
    RATE,
    RATES,
    RECORD,
    REQUEST,
    SETTINGS,
    MovingCluster,
    OnceInFlight,
    moving_cluster,
    outcome_of,
)
from support.zookeeper.proxy import Proxy
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.errors import Reason
from topiarist.model.access import ZooKeeperAccess
from topiarist.model.moves import UNLIMITED, BatchLimits, MoveProgress, MoveSettings
from topiarist.model.outcome import ReconcileReport, Result
from topiarist.model.state import Freeze
from topiarist.ports import MoveOptions
from topiarist.reconcile import apply_plan, read_and_plan

pytestmark = pytest.mark.timeout(300)

KRAFT = {"version": 2, "brokerid": 3000, "timestamp": "1", "kraftControllerEpoch": 1}


def rates(kafka: MovingCluster) -> set[str]:
    """Return the rates of all brokers."""
    found = (config for entity, config in kafka.throttles().items() if entity.startswith("brokers/"))
    return {value for config in found for value in config.values()}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(RATE, 5 * RATE, {str(5 * RATE)}), (RATE, UNLIMITED, set()), (UNLIMITED, RATE, {str(RATE)})],
    ids=["faster", "unlimited", "limited"],
)
def test_m26_a_throttle_below_production(moving: MovingCluster, first: int, second: int, expected: set[str]) -> None:
    """The run stalls and names the throttle; the next one gives the batch under way its own rate, and ends."""
    plan = moving.plan()
    moving.lag()
    report = moving.apply(plan, settings=replace(SETTINGS, throttle=first, stall_after=1))
    assert report.error is not None
    assert report.error.reason is Reason.MOVES_STALLED
    assert (f"throttle of {first:,} bytes/s is below what is produced" in str(report.error)) is (first != UNLIMITED)
    assert rates(moving) == ({str(first)} if first else set())
    seen: list[set[str]] = []

    def on_progress(_: MoveProgress) -> None:
        if not seen:
            seen.append(rates(moving))
        moving.catch_up()

    again = moving.apply(moving.plan(), settings=replace(SETTINGS, throttle=second), on_progress=on_progress)
    assert outcome_of(again).result is Result.DONE
    assert seen == [expected]
    assert moving.problems(plan) == []


def test_m26_only_the_batch_under_way_gets_another_rate(zookeeper: EmbeddedZooKeeper) -> None:
    """While a request of another client is awaited, the rates of a batch that is done stay, until they are put back."""
    with moving_cluster(zookeeper.connect, Topic("orders", LISTS, {}), Topic("other", ((1, 2),), {})) as kafka:
        plan = kafka.plan()
        assert kafka.apply(plan, wait=False).error is None
        kafka.kafka.wait_idle()
        kafka.lag()
        kafka.request(("other", 0, [3, 2]))
        seen: list[set[str]] = []

        def on_progress(_: MoveProgress) -> None:
            seen.append(rates(kafka))
            kafka.catch_up()

        faster = replace(SETTINGS, throttle=5 * RATE)
        assert outcome_of(kafka.apply(plan, settings=faster, on_progress=on_progress)).result is Result.DONE
        assert seen[0] == {str(RATE)}
        assert kafka.problems(plan) == []


def test_m27_rates_of_users_are_not_written(moving: MovingCluster, proxy: Proxy) -> None:
    """Where all brokers have one, no transaction is sent for another rate."""
    for broker in moving.kafka.brokers:
        moving.set_config(f"brokers/{broker}", dict.fromkeys(RATES, "777"))
    plan = moving.plan()
    report = moving.apply(plan, connect=proxy.through(moving.kafka.connect))
    assert outcome_of(report).result is Result.DONE
    assert proxy.requests["multi"] == 1 + 3 + 1  # the adoption, the batches, the end
    assert rates(moving) == {"777"}


@pytest.mark.parametrize("theirs", [" * ", "*", "0:1,7:3", "0:1, 7:3", ""])
def test_m27_throttles_of_users_come_back_to_the_byte(moving: MovingCluster, theirs: str) -> None:
    """A rate of a user on a broker is kept and said; a list or ``*`` on the topic is there again at the end."""
    rate = dict.fromkeys(RATES, "777")
    lists = dict.fromkeys(LISTS_KEYS, theirs)
    moving.set_config("brokers/2", {**rate, "log.cleaner.threads": "2"})
    moving.set_config("topics/orders", {**lists, "segment.ms": "7"})
    before = {entity: moving.client.get(f"/config/{entity}")[0] for entity in ("brokers/2", "topics/orders")}
    plan = moving.plan()
    moving.lag()
    in_flight: list[Any] = []

    def look() -> None:
        in_flight.append(moving.throttles())
        moving.catch_up()

    callback = OnceInFlight(look)
    assert outcome_of(moving.apply(plan, on_progress=callback)).result is Result.DONE
    assert in_flight[0]["brokers/2"] == rate
    assert "brokers/2: leader.replication.throttled.rate is 777 already, and stays" in callback.remarks
    for value in in_flight[0]["topics/orders"].values():
        assert value.startswith(theirs)
        assert (value == theirs) is ("*" in theirs)
    after = {entity: moving.client.get(f"/config/{entity}")[0] for entity in before}
    assert after == before
    assert moving.throttles() == {"brokers/2": rate, "topics/orders": lists}


def test_m28_a_user_changes_a_rate_of_ours_in_the_middle(moving: MovingCluster) -> None:
    """It is left as it is, and said; all other values are put back."""
    plan = moving.plan()
    moving.lag()

    def change() -> None:
        moving.set_config("brokers/1", dict.fromkeys(RATES, "9"))
        moving.catch_up()

    callback = OnceInFlight(change)
    assert outcome_of(moving.apply(plan, on_progress=callback)).result is Result.DONE
    assert "brokers/1: another client changed leader.replication.throttled.rate to 9" in callback.remarks
    assert moving.throttles() == {"brokers/1": dict.fromkeys(RATES, "9")}
    assert moving.client.exists(RECORD) is None


def test_m28_a_user_changes_the_topic_in_the_middle(moving: MovingCluster) -> None:
    """The throttles of the next batches do not make another client's change of the topic look like topiarist's."""
    plan = moving.plan()
    moving.lag()

    def change() -> None:
        found = moving.read("/config/topics/orders")["config"]
        moving.set_config("topics/orders", {**found, "segment.ms": "7"})
        moving.catch_up()

    assert outcome_of(moving.apply(plan, on_progress=OnceInFlight(change))).result is Result.DONE
    assert moving.read("/config/topics/orders")["config"] == {"segment.ms": "7"}
    with ZooKeeperCluster(ZooKeeperAccess(moving.kafka.connect), owner="default") as cluster:
        assert cluster.read().topics["orders"].modified_externally


def test_m29_a_manifest_names_a_throttle(moving: MovingCluster) -> None:
    """Its throttled moves are refused: both would write the same key."""
    spec = scene.topic(config={LISTS_KEYS[0]: "*"})
    (refusal,) = moving.plan(spec).topics[0].refusals
    assert refusal.reason is Reason.THROTTLE_DECLARED
    unlimited = replace(DRAINING, moves=replace(SETTINGS, throttle=UNLIMITED))
    free = scene.topic(on=unlimited, config={LISTS_KEYS[0]: "*"})
    assert scene.moves_by_topic(moving.plan(free, on=unlimited))


@pytest.mark.parametrize("batch", [1, 2])
def test_m30_a_freeze_during_a_batch(moving: MovingCluster, batch: int) -> None:
    """No further batch is sent, and nothing is written; after the thaw the next run goes on with the same lists."""
    plan = moving.plan()
    moving.lag()

    def freeze() -> None:
        with ZooKeeperCluster(ZooKeeperAccess(moving.kafka.connect), owner="default") as cluster:
            cluster.set_freeze(Freeze("night", "me", "2026-01-01T00:00:00Z"), by="me", force=True)
        moving.catch_up()

    def go_on() -> None:
        moving.catch_up()
        moving.lag()

    first, second = OnceInFlight(go_on), OnceInFlight(freeze, batch)
    report = moving.apply(plan, on_progress=scene.call_each(*([first] if batch > 1 else []), second))
    assert report.error is not None
    assert report.error.reason is Reason.FROZEN
    assert outcome_of(report).result is Result.PENDING
    assert f"{2 * batch} of 5 partitions moved" in outcome_of(report).message
    assert moving.client.exists(REQUEST) is None
    with ZooKeeperCluster(ZooKeeperAccess(moving.kafka.connect), owner="default") as cluster:
        cluster.set_freeze(None, by="me", force=True)
    assert outcome_of(moving.apply(moving.plan())).result is Result.DONE
    assert moving.problems(plan) == []


def test_m31_two_runs_of_one_owner(zookeeper: EmbeddedZooKeeper, seeds: int, tally: FaultStatistics) -> None:
    """Both apply the same plan at the same time: each batch is sent once, and each replica copied once."""
    for _ in range(seeds):
        with moving_cluster(zookeeper.connect) as kafka:
            plan = kafka.plan()
            reports: list[ReconcileReport] = []
            runs = [threading.Thread(target=lambda: reports.append(kafka.apply(plan))) for _ in range(2)]  # noqa: B023
            for run in runs:
                run.start()
            for run in runs:
                run.join()
            assert [report.error for report in reports] == [None, None]
            assert {outcome_of(report).result for report in reports} <= {Result.DONE, Result.UNCHANGED}
            assert kafka.problems(plan) == []
    tally.set_cases(seeds)


def test_m31_another_owner_between_the_batches(zookeeper: EmbeddedZooKeeper) -> None:
    """Its batch is waited for, keeps its own rate, and both end with their lists; no throttle of either is left."""
    with moving_cluster(zookeeper.connect, Topic("orders", LISTS, {}), Topic("theirs", LISTS, {})) as kafka:
        settings = replace(SETTINGS, throttle=3 * RATE)
        theirs = replace(DRAINING, moves=settings)
        with ZooKeeperCluster(ZooKeeperAccess(kafka.kafka.connect), owner="theirs") as cluster:
            options = replace(scene.ADOPT, owner="theirs")
            plan = read_and_plan(cluster, theirs, (scene.topic("theirs", on=theirs),), options)
            kafka.lag()
            sent = apply_plan(cluster, plan, stop=lambda: False, move_options=MoveOptions(settings, wait=False))
        assert outcome_of(sent, "theirs").result is Result.PENDING
        ours = kafka.plan()
        seen: list[set[str]] = []

        def on_progress(progress: MoveProgress) -> None:
            if "batch 1 of 3 of an earlier run" in progress.waiting_for:
                seen.append(rates(kafka))
                kafka.catch_up()

        assert outcome_of(kafka.apply(ours, on_progress=on_progress)).result is Result.DONE
        assert seen[0] == {str(3 * RATE)}
        with ZooKeeperCluster(ZooKeeperAccess(kafka.kafka.connect), owner="theirs") as cluster:
            report = apply_plan(cluster, plan, stop=lambda: False, move_options=MoveOptions(settings))
        assert outcome_of(report, "theirs").result is Result.DONE
        assert kafka.problems(plan) == kafka.problems(ours) == []


def test_m35_a_topic_with_a_thousand_partitions(zookeeper: EmbeddedZooKeeper, tally: FaultStatistics) -> None:
    """It is moved in batches that fit a request, although the declared batch is larger."""
    lists = ((6, 1), (1, 2)) * 500
    settings = MoveSettings(SETTINGS.allow, RATE, BatchLimits(2000, 2000, 2000), stall_after=60)
    on = replace(DRAINING, moves=settings)
    with moving_cluster(zookeeper.connect, Topic("orders", lists, {})) as kafka:
        plan = kafka.plan(scene.topic(on=on, partitions=1000), on=on)
        batches: list[int] = []
        options = MoveOptions(settings, on_progress=lambda progress: batches.append(progress.batch))
        with connect_cluster(kafka.kafka.connect, max_buffer=60_000) as cluster:
            report = apply_plan(cluster, plan, stop=lambda: False, move_options=options)
        assert (report.error, outcome_of(report).result) == (None, Result.DONE)
        assert max(batches) > 1
        assert kafka.problems(plan) == []
        tally.set_cases(max(batches))


def test_m35_a_single_move_that_is_too_large(moving: MovingCluster) -> None:
    """It is refused with its size, before anything is sent."""
    moving.set_config("brokers/1", {"ssl.cipher.suites": "x" * 9000})
    plan = moving.plan()
    with connect_cluster(moving.kafka.connect, max_buffer=8000) as cluster:
        outcome = outcome_of(apply_plan(cluster, plan, stop=lambda: False, move_options=MoveOptions(SETTINGS)))
    assert (outcome.result, outcome.reason) == (Result.REFUSED, Reason.TOO_LARGE)
    assert "the maximum is 7,200" in outcome.message
    assert moving.client.exists(REQUEST) is None


@pytest.mark.parametrize("takeover", ["/controller", "/migration"])
def test_m37_kraft_takes_over_in_the_middle(moving: MovingCluster, takeover: str) -> None:
    """The run ends and says how many partitions are in flight; nothing more is written."""
    plan = moving.plan()
    moving.lag()

    def take_over() -> None:
        if takeover == "/controller":
            moving.change("/controller", **KRAFT)
        else:
            moving.client.create("/migration", b'{"version":0,"kraft_metadata_offset":-1}')

    report = moving.apply(plan, on_progress=OnceInFlight(take_over))
    assert report.error is not None
    expected = Reason.KRAFT_CONTROLLER if takeover == "/controller" else Reason.KRAFT_MIGRATION
    assert report.error.reason is expected
    assert "2 partitions of the reassignment request in flight" in str(report.error)
    assert outcome_of(report).result is Result.PENDING
    assert "2 in flight" in outcome_of(report).message
    version = moving.client.exists(RECORD).version
    again = moving.apply(plan)
    assert again.error is not None
    assert again.error.reason is expected
    assert moving.client.exists(RECORD).version == version


def test_m38_a_clock_that_jumps(moving: MovingCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A day forward and back at each reading of the clock: the same lists; no wait ends early, and none is longer."""
    plan = moving.plan()
    jumps, now = cycle((0, 86_400, -86_400)), time.time
    monkeypatch.setattr(time, "time", lambda: now() + next(jumps))
    moving.lag(*[move.added[0] for move in plan.topics[0].moves()])
    report = moving.apply(plan, on_progress=OnceInFlight(moving.catch_up))
    assert (report.error, outcome_of(report).result) == (None, Result.DONE)
    assert moving.problems(plan) == []


def test_m30_stopped_while_it_waits_for_the_lock(moving: MovingCluster, meddler: InterceptingProxy) -> None:
    """A run that is stopped between two batches puts its throttles back, although the lock is held by another run."""
    plan = moving.plan()
    stopped = threading.Event()
    creates: list[str] = []

    def may_forward(kind: str) -> bool:
        # The locks of a run: one to adopt the topic, one for each batch. The second batch finds another run's lock.
        if kind == "create":
            creates.append(moving.client.create("/topiarist/lock/run-0-", b"{}", sequence=True, ephemeral=True))
        return True

    def on_progress(progress: MoveProgress) -> None:
        if progress.done == 2 and not creates:
            meddler.may_forward = may_forward

    def stop() -> bool:
        if creates and not stopped.is_set():
            stopped.set()
            meddler.may_forward = lambda kind: True
            moving.client.delete(creates[0])
        return stopped.is_set()

    report = moving.apply(plan, connect=meddler.through(moving.kafka.connect), stop=stop, on_progress=on_progress)
    assert creates
    assert report.error is None
    assert outcome_of(report).result is Result.PENDING
    assert moving.leftovers() == []
    assert outcome_of(moving.apply(plan)).result is Result.DONE
    assert moving.problems(plan) == []

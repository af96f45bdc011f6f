"""Elections of preferred leaders on a real ZooKeeper with a simulated controller: sent once, awaited, compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import NoNodeError
from msgspec.structs import replace

from integration.write_fixtures import connect_cluster
from support.builders import spec
from support.cli.runs import document, run_topiarist
from support.zookeeper.proxy import CutTiming, Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.zookeeper.connection.session import PendingReply, Session
from topiarist.adapters.zookeeper.write.transaction import MultiRequest
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import BatchLimits, LeaderChange, MoveKind, MoveProgress, MoveSettings
from topiarist.model.outcome import Outcome, ReconcileReport, Result
from topiarist.model.plan import Plan, RunOptions
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.ports import MoveOptions
from topiarist.reconcile import apply_plan, read_and_plan

REQUEST, REASSIGNMENT = "/admin/preferred_replica_election", "/admin/reassign_partitions"
SETTINGS = MoveSettings(frozenset({MoveKind.LEADERS}), stall_after=20)
ELECTING = ClusterSpec("prod", version=(3, 9), moves=SETTINGS)
LISTS = ((1, 2, 3), (2, 3, 4), (3, 4, 5), (4, 5, 6))
ADOPT = RunOptions(adopt=("*",))
WAITING, SENDING = MoveOptions(SETTINGS), MoveOptions(SETTINGS, wait=False)


def _spec(name: str = "orders", on: ClusterSpec = ELECTING, **fields: Any) -> TopicSpec:
    return spec(name, on, **{"partitions": len(LISTS), "replicationFactor": 3} | fields)


@pytest.fixture
def adopted(cluster: SimulatedKafka) -> SimulatedKafka:
    """A cluster with the topic ``orders``, which has an ownership record."""
    _add_topic(cluster, "orders")
    return cluster


def _add_topic(kafka: SimulatedKafka, name: str) -> None:
    kafka.add_topics(Topic(name, LISTS, {}))
    assert _apply(kafka, _plan(kafka, _spec(name))).outcomes == (Outcome(name, Result.DONE),)


def _plan(kafka: SimulatedKafka, *specs: TopicSpec, on: ClusterSpec = ELECTING, connect: str = "") -> Plan:
    with connect_cluster(connect or kafka.connect) as cluster:
        return read_and_plan(cluster, on, specs or [_spec()], ADOPT)


def _apply(
    kafka: SimulatedKafka,
    plan: Plan,
    options: MoveOptions = WAITING,
    *,
    stop: Callable[[], bool] = lambda: False,
    connect: str = "",
    max_buffer: int = 1_048_575,
) -> ReconcileReport:
    with connect_cluster(connect or kafka.connect, max_buffer=max_buffer) as cluster:
        return apply_plan(cluster, plan, stop=stop, move_options=options)


def _state_path(partition: int, topic: str = "orders") -> str:
    return f"/brokers/topics/{topic}/partitions/{partition}/state"


def _set_state(kafka: SimulatedKafka, partition: int, topic: str = "orders", **fields: Any) -> None:
    state = json.loads(kafka.client.get(_state_path(partition, topic))[0])
    kafka.client.set(_state_path(partition, topic), json.dumps({**state, **fields}).encode())


def _move_leaders(kafka: SimulatedKafka, topic: str = "orders") -> None:
    """Give each partition its second replica as leader, as after a restart of the brokers one by one."""
    for partition, replicas in enumerate(LISTS):
        _set_state(kafka, partition, topic, leader=replicas[1])


def _leaders(kafka: SimulatedKafka, topic: str = "orders") -> list[int]:
    states = (kafka.client.get(_state_path(partition, topic))[0] for partition in range(len(LISTS)))
    return [json.loads(state)["leader"] for state in states]


def _listed(kafka: SimulatedKafka) -> list[tuple[str, int]]:
    """Return the entries of the election request; none without a request."""
    try:
        request = json.loads(kafka.client.get(REQUEST)[0])
    except NoNodeError:
        return []
    assert request["version"] == 1
    return [(entry["topic"], entry["partition"]) for entry in request["partitions"]]


def _only(report: ReconcileReport) -> Outcome:
    (outcome,) = report.outcomes
    return outcome


def _elect_now(kafka: SimulatedKafka) -> None:
    kafka.elects_leaders = True
    kafka.run_and_wait(kafka.process_election_request)


def test_leaders_are_elected(adopted: SimulatedKafka) -> None:
    """The first replicas lead, no request is left, and a second plan has nothing to do."""
    assert not _plan(adopted).topics
    _move_leaders(adopted)
    plan = _plan(adopted)
    assert plan.topics[0].elections() == tuple(
        LeaderChange(partition, replicas[1], replicas[0]) for partition, replicas in enumerate(LISTS)
    )
    assert _only(_apply(adopted, plan)) == Outcome("orders", Result.DONE)
    assert _leaders(adopted) == [1, 2, 3, 4]
    assert adopted.client.exists(REQUEST) is None
    assert not _plan(adopted).topics
    assert _only(_apply(adopted, plan)) == Outcome("orders", Result.UNCHANGED)


def test_what_the_controller_gives_up_is_named(adopted: SimulatedKafka) -> None:
    """A replica that falls out of sync while the request waits is given up without a message; the state shows it."""
    _move_leaders(adopted)
    plan = _plan(adopted)
    adopted.elects_leaders = False

    def elect(progress: MoveProgress) -> None:
        if not adopted.elects_leaders:
            assert (progress.batch, progress.total, progress.waiting_for) == (1, 4, "an election of preferred leaders")
            _set_state(adopted, 2, isr=[4, 5])
            _elect_now(adopted)

    outcome = _only(_apply(adopted, plan, MoveOptions(SETTINGS, on_progress=elect)))
    assert outcome.result is Result.PENDING
    assert "3 of 4 leaders elected: broker 3, the first replica of partition 2, is not in sync" in outcome.message
    assert adopted.client.exists(REQUEST) is None


def test_another_election_is_waited_for(adopted: SimulatedKafka) -> None:
    """A request of another client is neither set nor deleted; the run sends its own afterwards."""
    _move_leaders(adopted)
    plan = _plan(adopted)
    adopted.elects_leaders = False
    theirs = b'{"version":1,"partitions":[{"topic":"orders","partition":1}]}'
    adopted.client.create(REQUEST, theirs)

    def elect(progress: MoveProgress) -> None:
        if not adopted.elects_leaders:
            data, stat = adopted.client.get(REQUEST)
            assert (progress.batch, data, stat.version) == (0, theirs, 0)
            _elect_now(adopted)

    assert _only(_apply(adopted, plan, MoveOptions(SETTINGS, on_progress=elect))) == Outcome("orders", Result.DONE)
    assert _leaders(adopted) == [1, 2, 3, 4]


def test_without_waiting_another_election_is_left_alone(adopted: SimulatedKafka) -> None:
    """Nothing is sent, and the next run sends it."""
    _move_leaders(adopted)
    plan = _plan(adopted)
    adopted.elects_leaders = False
    adopted.client.create(REQUEST, b'{"version":1,"partitions":[]}')
    outcome = _only(_apply(adopted, plan, SENDING))
    assert outcome == Outcome("orders", Result.SKIPPED, Reason.NOT_ELECTED, "another election is in progress")
    assert _listed(adopted) == []
    _elect_now(adopted)
    assert _only(_apply(adopted, plan, SENDING)).result is Result.PENDING
    adopted.wait_idle()
    assert _leaders(adopted) == [1, 2, 3, 4]


def test_a_request_that_appears_during_the_write_is_waited_for(adopted: SimulatedKafka, proxy: Proxy) -> None:
    """The create fails, nothing of the transaction is applied, and the run waits and sends again."""
    _move_leaders(adopted)
    connect = proxy.through(adopted.connect)
    plan = _plan(adopted)
    adopted.elects_leaders = False
    proxy.hold(2, lambda: adopted.client.create(REQUEST, b'{"version":1,"partitions":[]}'))
    seen: list[MoveProgress] = []

    def elect(progress: MoveProgress) -> None:
        seen.append(progress)
        if progress.batch == 0:
            _elect_now(adopted)

    outcome = _only(_apply(adopted, plan, MoveOptions(SETTINGS, on_progress=elect), connect=connect))
    assert (proxy.triggered.is_set(), outcome) == (True, Outcome("orders", Result.DONE))
    assert seen[0].batch == 0


def test_a_request_that_stays_ends_the_run(adopted: SimulatedKafka) -> None:
    """After the declared time the run ends with an error, and the request stays."""
    _move_leaders(adopted)
    plan = _plan(adopted)
    adopted.elects_leaders = False
    report = _apply(adopted, plan, MoveOptions(replace(SETTINGS, stall_after=1)))
    assert report.error is not None
    assert report.error.reason is Reason.MOVES_STALLED
    assert f"{REQUEST}: the controller has not removed it for 1 s" in str(report.error)
    assert _only(report).result is Result.PENDING
    assert len(_listed(adopted)) == 4
    _elect_now(adopted)


@pytest.mark.parametrize("timing", CutTiming)
def test_a_lost_reply_is_decided_by_the_states(adopted: SimulatedKafka, proxy: Proxy, timing: CutTiming) -> None:
    """Whether or not the request arrived, the leaders are elected, and no request is left."""
    _move_leaders(adopted)
    plan = _plan(adopted)
    proxy.cut(2, timing)
    outcome = _only(_apply(adopted, plan, connect=proxy.through(adopted.connect)))
    assert proxy.triggered.is_set()
    assert b"preferred_replica_election" in proxy.faulted_write
    assert outcome == Outcome("orders", Result.DONE)
    assert _leaders(adopted) == [1, 2, 3, 4]
    assert adopted.client.exists(REQUEST) is None


def test_a_session_that_ends_leaves_an_unknown_outcome(
    adopted: SimulatedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request may have arrived: the run ends with the error, and the next run compares the leaders."""
    _move_leaders(adopted)
    plan, result = _plan(adopted), Session.result

    def end_session(session: Session, pending: PendingReply) -> Any:
        answer = result(session, pending)
        if isinstance(answer, list) and set(answer) == {True}:
            raise TopiaristError(Reason.SESSION_LOST, "the session has ended")
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(Session, "result", end_session)
        report = _apply(adopted, plan)
    assert report.error is not None
    assert (report.error.reason, _only(report).reason) == (Reason.SESSION_LOST, Reason.OUTCOME_UNKNOWN)
    adopted.wait_idle()
    assert _only(_apply(adopted, plan)) == Outcome("orders", Result.UNCHANGED)


def test_an_unusable_reply_is_decided_by_the_states(adopted: SimulatedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply with fewer results than operations proves nothing; the leaders do."""
    _move_leaders(adopted)
    plan = _plan(adopted)
    monkeypatch.setattr(MultiRequest, "deserialize", lambda self, buffer, offset: [])
    assert _only(_apply(adopted, plan)) == Outcome("orders", Result.DONE)
    assert _leaders(adopted) == [1, 2, 3, 4]


def test_a_takeover_by_kraft_ends_the_wait(adopted: SimulatedKafka) -> None:
    """No controller carries out the request any more: the run ends with the reason, long before it stalls."""
    _move_leaders(adopted)
    plan = _plan(adopted)
    adopted.elects_leaders = False
    data, _ = adopted.client.get("/controller")

    def take_over(_: MoveProgress) -> None:
        adopted.client.set("/controller", json.dumps({**json.loads(data), "kraftControllerEpoch": 3}).encode())

    report = _apply(adopted, plan, MoveOptions(SETTINGS, on_progress=take_over))
    adopted.client.set("/controller", data)
    assert report.error is not None
    assert report.error.reason is Reason.KRAFT_CONTROLLER
    assert "is in place, and is not carried out any more" in str(report.error)
    assert _only(report).result is Result.PENDING
    _elect_now(adopted)


def test_a_large_request_is_split(adopted: SimulatedKafka, proxy: Proxy) -> None:
    """Several requests follow one another, each smaller than the servers accept; one partition may be too large."""
    _move_leaders(adopted)
    plan = _plan(adopted)
    connect = proxy.through(adopted.connect)
    assert _only(_apply(adopted, plan, connect=connect, max_buffer=900)) == Outcome("orders", Result.DONE)
    assert proxy.requests["multi"] > 1
    assert _leaders(adopted) == [1, 2, 3, 4]
    _move_leaders(adopted)
    outcome = _only(_apply(adopted, plan, max_buffer=300))
    assert (outcome.result, outcome.reason) == (Result.REFUSED, Reason.TOO_LARGE)


def test_a_partition_that_is_reassigned_is_not_elected(adopted: SimulatedKafka) -> None:
    """A partition that a reassignment request names is left out; the others are elected, and nothing waits for it."""
    _move_leaders(adopted)
    plan = _plan(adopted)
    entry = {"topic": "orders", "partition": 1, "replicas": [4, 5, 6]}
    adopted.client.create(REASSIGNMENT, json.dumps({"version": 1, "partitions": [entry]}).encode())
    outcome = _only(_apply(adopted, plan))
    assert outcome.message == "3 of 4 leaders elected: partition 1 is being reassigned; run again"
    assert _leaders(adopted) == [1, 3, 3, 4]
    assert not _plan(adopted).topics


def test_an_election_follows_the_other_changes(adopted: SimulatedKafka) -> None:
    """A topic that grows and is configured has one outcome; the leaders of its old partitions are elected."""
    _move_leaders(adopted)
    wanted = _spec(partitions=5, config={"retention.ms": 7})
    report = _apply(adopted, _plan(adopted, wanted))
    assert _only(report) == Outcome("orders", Result.DONE)
    assert _leaders(adopted) == [1, 2, 3, 4]
    assert not _plan(adopted, wanted).topics


def test_elections_follow_the_moves_of_other_topics(adopted: SimulatedKafka) -> None:
    """The topic with moves gets its leaders from the moves; a stalled batch leaves the elections unsent."""
    _add_topic(adopted, "moved")
    _move_leaders(adopted)
    adopted.moves_replicas = True
    allow = frozenset({MoveKind.LEADERS, MoveKind.FACTOR})
    settings = replace(SETTINGS, allow=allow, throttle=1_000_000, batch=BatchLimits(partitions=2), stall_after=1)
    on = replace(ELECTING, moves=settings)
    wanted = [_spec("moved", on, replicationFactor=4), _spec("orders", on)]
    plan = _plan(adopted, *wanted, on=on)
    assert [bool(topic.moves()) for topic in plan.topics] == [True, False]
    adopted.lagging_brokers = {broker for move in plan.topics[0].moves() for broker in move.added}
    stalled = _apply(adopted, plan, MoveOptions(settings))
    assert [outcome.result for outcome in stalled.outcomes] == [Result.PENDING, Result.SKIPPED]
    assert _leaders(adopted) == [2, 3, 4, 5]
    adopted.lagging_brokers = set()
    adopted.run_and_wait(adopted._process_reassignment_request)
    done = _apply(adopted, plan, MoveOptions(replace(settings, stall_after=20)))
    assert [outcome.result for outcome in done.outcomes] == [Result.DONE, Result.DONE], done
    assert _leaders(adopted) == [1, 2, 3, 4]


def test_an_entry_without_a_state_keeps_the_request(adopted: SimulatedKafka) -> None:
    """The simulated controller stops at it, as Kafka's does, and skips unknown topics and partitions."""
    adopted.client.delete(_state_path(0))
    _set_state(adopted, 3, leader=5)
    listed = [("absent", 0), ("orders", 9), ("orders", 3), ("orders", 0)]
    entries = [{"topic": topic, "partition": partition} for topic, partition in listed]
    adopted.client.create(REQUEST, json.dumps({"version": 1, "partitions": entries}).encode())
    adopted.wait_idle()
    assert json.loads(adopted.client.get(_state_path(3))[0])["leader"] == 4
    assert adopted.client.exists(REQUEST) is not None
    assert "orders-0 has no state" in adopted.controller_errors[0]
    adopted.client.delete(REQUEST)
    adopted.wait_idle()
    adopted.controller_errors.clear()


def test_a_saved_plan_elects_and_is_done_the_second_time(adopted: SimulatedKafka, tmp_path: Path) -> None:
    """The text names the leaders; the plan file is applied once; a snapshot knows no leaders and says so."""
    _move_leaders(adopted)
    cluster = document(
        "Cluster", "prod", zookeeper={"connect": adopted.connect}, kafkaVersion="3.9", moves={"allow": ["Leaders"]}
    )
    topic = document("Topic", "orders", clusters=["prod"], partitions=4, replicationFactor=3)
    (tmp_path / "manifests.yaml").write_text(f"{cluster}\n---\n{topic}")
    manifests, saved = tmp_path / "manifests.yaml", tmp_path / "plan.json"
    run_topiarist("snapshot", manifests, "--out", tmp_path / "snapshot.jsonl")
    from_snapshot = run_topiarist("plan", manifests, "--snapshot", tmp_path / "snapshot.jsonl")
    assert "Leaders: no election is planned for 1 topic" in from_snapshot.out
    planned = run_topiarist("plan", manifests, "--out", saved)
    assert "elect the preferred leaders of 4 partitions" in planned.out
    assert "0: 2 -> 1  1: 3 -> 2  2: 4 -> 3  3: 5 -> 4" in planned.out
    described = run_topiarist("describe", "orders", manifests)
    assert "elect the preferred leaders of 4 partitions" in described.out
    assert run_topiarist("apply", "--plan", saved, "--clusters", manifests, "--yes").code == 0
    assert _leaders(adopted) == [1, 2, 3, 4]
    again = run_topiarist("apply", "--plan", saved, "--clusters", manifests, "--yes")
    assert (again.code, adopted.client.exists(REQUEST)) == (0, None)

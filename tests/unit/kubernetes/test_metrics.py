"""Figures for Prometheus: every name with its labels, what counts into it, and nothing for each topic."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from support import builders
from support.kubernetes import resource_bodies
from support.kubernetes.passes import OWNER, make_request, make_result, reconcile_topics
from support.memory_cluster import MemoryCluster
from topiarist import __version__
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.identity import Requeue, WorkLoop
from topiarist.kubernetes.metrics import Metrics
from topiarist.kubernetes.moves import ClusterMoves, TopicMoves
from topiarist.kubernetes.reconciler import ReconcileResult, SyncState, TopicResult
from topiarist.model.moves import ReplicaMove
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    AddPartitions,
    Change,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    Issue,
    MoveReplicas,
    Nudge,
    ReleaseOwnership,
    Risk,
    RiskAssessment,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
GROWTH = AddPartitions(3, (1, 2, 3), ((1, 2, 3),), RiskAssessment(Risk.DISRUPTIVE, "keys move"))

NAMES: dict[str, set[str]] = {
    "controller_runtime_reconcile_total": {"controller", "result"},
    "controller_runtime_reconcile_errors_total": {"controller"},
    "controller_runtime_reconcile_time_seconds_count": {"controller"},
    "workqueue_depth": {"name"},
    "workqueue_adds_total": {"name"},
    "workqueue_retries_total": {"name"},
    "leader_election_master_status": {"name"},
    "topiarist_topics": {"cluster", "state"},
    "topiarist_topic_changes_total": {"cluster", "action", "outcome"},
    "topiarist_drift_detected_total": {"cluster", "kind"},
    "topiarist_pass_duration_seconds_count": {"cluster"},
    "topiarist_last_successful_pass_timestamp_seconds": {"cluster"},
    "topiarist_missing_rights": set(),
    "topiarist_cluster_session_state": {"cluster"},
    "topiarist_cluster_requests_total": {"cluster", "op", "result"},
    "topiarist_build_info": {"version"},
    "topiarist_moves_partitions_left": {"cluster"},
    "topiarist_moves_copies_left": {"cluster"},
    "topiarist_moves_copies_in_flight": {"cluster"},
    "topiarist_moves_stalled": {"cluster"},
    "topiarist_moves_throttle_left": {"cluster"},
    "topiarist_moves_drained_replicas_left": {"cluster", "broker"},
    "topiarist_moves_batches_total": {"cluster"},
    "topiarist_moves_partitions_moved_total": {"cluster"},
    "rest_client_requests_total": {"method", "code"},
    "process_cpu_seconds_total": set(),
    "process_max_fds": set(),
    "process_open_fds": set(),
    "process_resident_memory_bytes": set(),
    "process_start_time_seconds": set(),
    "process_virtual_memory_bytes": set(),
}
"""As documented: those of controller-runtime where they mean the same, and ours."""


def figures(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    """The samples of a name as they are scraped, by the values of their labels in the order of the labels' names."""
    text = generate_latest(metrics.registry).decode()
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


def labels(metrics: Metrics) -> dict[str, set[str]]:
    """The labels of every sample that is scraped, by name."""
    text = generate_latest(metrics.registry).decode()
    return {
        sample.name: sample.labels.keys() - {"le"}
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith(("_bucket", "_sum", "_created"))
    }


def done(name: str, result: Result, *changes: Change) -> TopicResult:
    """Return the result of a topic with an outcome."""
    found = make_result(resource_bodies.topic(name), SyncState.CHANGED)
    plan = TopicPlan(name, changes=changes, spec=found.candidate.spec)
    return found._replace(plan=plan, outcome=Outcome(name, result))


def drifted(name: str, *held: Change) -> TopicResult:
    """A topic that was changed outside."""
    found = make_result(resource_bodies.topic(name), SyncState.DRIFTED)
    return found._replace(refusals=(Issue(Reason.DRIFT_DETECTED, "changed", withheld=held),))


def passed(
    metrics: Metrics, views: Sequence[TopicResult], before: Sequence[TopicResult] = (), seconds: float = 0.5
) -> None:
    """Take in a pass over ``prod`` that went well."""
    metrics.record_reconcile("prod", ReconcileResult(views, builders.state()), before, seconds, MOMENT)


def moved(metrics: Metrics, moves: ClusterMoves) -> None:
    """Take in a pass with these moves."""
    metrics.record_reconcile("prod", ReconcileResult([], builders.state(), moves=moves), (), 0.5, MOMENT)


def failed(metrics: Metrics) -> None:
    """Take in one that did not."""
    metrics.record_reconcile(
        "prod", ReconcileResult([], error=TopiaristError(Reason.UNREACHABLE, "no answer")), (), 10.0, MOMENT
    )


def test_every_documented_name_is_there_with_its_labels() -> None:
    """The documented names and labels are all that exist: dashboards rely on them, and none is about one topic."""
    metrics = Metrics(lambda: {"prod": WorkLoop(asyncio.Event().wait, 60.0)}, lambda: {("GET", "200"): 2})  # type: ignore[arg-type]
    metrics.leader.labels("topiarist").set(1)
    passed(metrics, [done("secret-name", Result.DONE, GROWTH), drifted("b", GROWTH)])
    failed(metrics)
    metrics.count_cluster_requests("prod", {("read", "ok"): 3})
    moved(metrics, ClusterMoves(draining={5: 12}))
    assert labels(metrics) == NAMES
    assert "secret-name" not in generate_latest(metrics.registry).decode()


def test_moves_are_counted() -> None:
    """Gauges are those of the last pass, batches and moved partitions add up, and a drained broker has its own."""
    metrics = Metrics()
    moves = (ReplicaMove("a", 0, (5, 1), (2, 1)), ReplicaMove("a", 1, (5,), (2,)))
    moved(metrics, ClusterMoves(moves[1:], moves[:1], 1, 2, is_sent=True, draining={5: 12, 6: 3}))
    moved(metrics, ClusterMoves((), moves[1:], 2, 2, is_sent=True, moved=1, draining={5: 11}))
    names = ("partitions_left", "copies_left", "copies_in_flight", "batches_total", "partitions_moved_total")
    found = [figures(metrics, f"topiarist_moves_{name}")[("prod",)] for name in names]
    assert found == [1, 1, 1, 2, 1]
    assert figures(metrics, "topiarist_moves_drained_replicas_left") == {("5", "prod"): 11}
    problem = Issue(Reason.MOVES_STALLED, "no progress")
    moved(metrics, ClusterMoves(problem=problem, throttle_left=True))
    assert figures(metrics, "topiarist_moves_stalled")[("prod",)] == 1
    assert figures(metrics, "topiarist_moves_throttle_left")[("prod",)] == 1
    metrics.remove_cluster("prod")
    assert figures(metrics, "topiarist_moves_stalled") == {}


def test_moves_in_progress_are_no_failed_changes() -> None:
    """A topic with moves left counts its other changes as done, and its moves not at all: the alert would fire."""
    metrics = Metrics()
    found = done("a", Result.PENDING, GROWTH, MoveReplicas((ReplicaMove("a", 0, (5,), (2,)),), SAFE_ASSESSMENT))
    outcome = Outcome("a", Result.PENDING, Reason.MOVES_UNFINISHED)
    passed(metrics, [found._replace(outcome=outcome, moves=TopicMoves(1, 1, 1, 1))])
    assert figures(metrics, "topiarist_topic_changes_total") == {("grow", "prod", "done"): 1}


def test_topics_by_state() -> None:
    """The counts are of the last successful pass; every state has a value, so that a former state is 0."""
    metrics = Metrics()
    topics = [resource_bodies.topic(name) for name in "abc"]
    passed(
        metrics,
        [
            make_result(topics[0], SyncState.SYNCED),
            make_result(topics[1], SyncState.SYNCED),
            make_result(topics[2], SyncState.REFUSED),
        ],
    )
    found = figures(metrics, "topiarist_topics")
    assert {state for _, state in found} == {state.value for state in SyncState}
    assert (found["prod", "Synced"], found["prod", "Refused"], found["prod", "Drifted"]) == (2, 1, 0)
    failed(metrics)
    assert figures(metrics, "topiarist_topics") == found
    passed(metrics, [])
    assert set(figures(metrics, "topiarist_topics").values()) == {0}


def test_changes_by_action_and_outcome() -> None:
    """Each change of a topic counts."""
    metrics = Metrics()
    passed(
        metrics,
        [
            done("a", Result.DONE, GROWTH),
            done("b", Result.DONE, GROWTH, TakeOwnership()),
            done("c", Result.FAILED, GROWTH),
            make_result(resource_bodies.topic("d"), SyncState.SYNCED),
        ],
    )
    assert figures(metrics, "topiarist_topic_changes_total") == {
        ("grow", "prod", "done"): 2,
        ("grow", "prod", "failed"): 1,
        ("adopt", "prod", "done"): 1,
    }


def test_drift_counts_once() -> None:
    """When it is found, by what it would take to undo it; not in each pass that finds it again."""
    metrics = Metrics()
    one = drifted("a", GROWTH)
    passed(metrics, [one])
    passed(metrics, [one], [one])
    assert figures(metrics, "topiarist_drift_detected_total") == {("prod", "grow"): 1}
    well = make_result(one.candidate.resource, SyncState.SYNCED)
    passed(metrics, [well], [one])
    passed(metrics, [one], [well])
    assert figures(metrics, "topiarist_drift_detected_total") == {("prod", "grow"): 2}


def test_corrected_drift_counts_as_detected_and_as_corrected() -> None:
    """Each kind of change that a pass reverted counts once; a correction that was not made counts not at all."""
    metrics = Metrics()
    met = builders.spec("orders", config={"flush.ms": "7"})
    drift = builders.topic("orders", config={"flush.ms": "9"}, owner=OWNER, applied_spec=met)
    wanted = make_request(
        resource_bodies.cluster(driftPolicy="Correct"), resource_bodies.topic("orders", config={"flush.ms": 7})
    )
    reverted = reconcile_topics(MemoryCluster(builders.state(drift)), wanted)["orders"]
    passed(metrics, [reverted])
    passed(metrics, [reverted._replace(outcome=Outcome("orders", Result.CONFLICT))])
    for name in ("detected", "corrected"):
        assert figures(metrics, f"topiarist_drift_{name}_total") == {("prod", "configure"): 1}
    assert labels(metrics)["topiarist_drift_corrected_total"] == {"cluster", "kind"}


def test_passes_and_their_results() -> None:
    """How often, how long, when the last good one was, and whether there is a session."""
    metrics = Metrics()
    passed(metrics, [], seconds=0.5)
    assert figures(metrics, "topiarist_cluster_session_state") == {("prod",): 1}
    failed(metrics)
    assert figures(metrics, "controller_runtime_reconcile_total") == {("prod", "success"): 1, ("prod", "error"): 1}
    assert figures(metrics, "controller_runtime_reconcile_errors_total") == {("prod",): 1}
    for name in ("controller_runtime_reconcile_time_seconds", "topiarist_pass_duration_seconds"):
        assert figures(metrics, f"{name}_sum") == {("prod",): 10.5}
        assert figures(metrics, f"{name}_count") == {("prod",): 2}
    stamp = figures(metrics, "topiarist_last_successful_pass_timestamp_seconds")
    assert stamp == {("prod",): MOMENT.timestamp()}
    assert figures(metrics, "topiarist_cluster_session_state") == {("prod",): 0}


def test_requests_add_up() -> None:
    """By operation and result."""
    metrics = Metrics()
    for _ in range(2):
        metrics.count_cluster_requests("prod", {("read", "ok"): 3, ("multi", "failed"): 1})
    assert figures(metrics, "topiarist_cluster_requests_total") == {
        ("prod", "read", "ok"): 6,
        ("prod", "multi", "failed"): 2,
    }


def test_a_cluster_that_is_gone_leaves_nothing_that_stands_still() -> None:
    """Otherwise an alert would never end; other clusters keep their series, and what was counted is kept."""
    metrics = Metrics()
    moves = (ReplicaMove("a", 0, (5, 1), (2, 1)),)
    for cluster in ("prod", "test"):
        found = ReconcileResult(
            [], builders.state(), moves=ClusterMoves((), moves, 1, 1, is_sent=True, draining={5: 1})
        )
        metrics.record_reconcile(cluster, found, (), 0.5, MOMENT)
    metrics.remove_cluster("prod")
    of_moves = ("partitions_left", "copies_left", "copies_in_flight", "stalled", "throttle_left")
    gauges = [f"moves_{name}" for name in of_moves] + [
        "cluster_session_state",
        "last_successful_pass_timestamp_seconds",
    ]
    assert [[*figures(metrics, f"topiarist_{name}")] for name in gauges] == [[("test",)]] * 7
    assert {cluster for cluster, _ in figures(metrics, "topiarist_topics")} == {"test"}
    metrics.remove_cluster("never-seen")
    assert [*figures(metrics, "topiarist_moves_drained_replicas_left")] == [("5", "test")]
    assert {*figures(metrics, "topiarist_moves_batches_total")} == {("prod",), ("test",)}


def test_clusters_are_a_work_queue() -> None:
    """Whether a pass is called for, how often it was, and how often one followed a failure."""

    async def failing() -> Requeue:
        return Requeue.AFTER_BACKOFF

    loop = WorkLoop(failing, 60.0)
    metrics = Metrics(lambda: {"prod": loop})
    assert figures(metrics, "workqueue_depth") == {("prod",): 0}
    loop.enqueue()
    loop.enqueue()
    loop.retries = 4
    assert figures(metrics, "workqueue_depth") == {("prod",): 1}
    assert figures(metrics, "workqueue_adds_total") == {("prod",): 2}
    assert figures(metrics, "workqueue_retries_total") == {("prod",): 4}


@pytest.mark.parametrize("value", [0, 1])
def test_leader_and_build(value: int) -> None:
    """Which version runs, and whether it works or waits."""
    metrics = Metrics()
    metrics.leader.labels("topiarist").set(value)
    assert figures(metrics, "leader_election_master_status") == {("topiarist",): value}
    assert figures(metrics, "topiarist_build_info") == {(__version__,): 1}


def test_topics_that_no_pass_looks_at_are_counted() -> None:
    """By the reason, with an empty cluster; zero once there are none, and a cluster that goes takes nothing along."""
    metrics, broken = Metrics(), resource_bodies.topic("wrong", partitions=0)
    lost = [resource_bodies.topic(f"lost{number}", clusters=["nowhere"]) for number in range(2)]
    for topics, unknown, unreadable in (([*lost, broken], 2, 1), ([], 0, 0)):
        metrics.set_unassigned_topics(topics)
        metrics.remove_cluster("prod")
        assert figures(metrics, "topiarist_topics") == {("", "UnknownCluster"): unknown, ("", "Unreadable"): unreadable}


def test_requests_to_the_api_server_are_counted() -> None:
    """By method and answer, as they are at the moment of the scrape."""
    requests = {("GET", "200"): 2, ("PATCH", "<error>"): 1}
    metrics = Metrics(requests=lambda: requests)
    assert figures(metrics, "rest_client_requests_total") == {("200", "GET"): 2, ("<error>", "PATCH"): 1}
    requests["GET", "200"] += 1
    assert figures(metrics, "rest_client_requests_total")["200", "GET"] == 3


def test_namespaces_and_resources_of_others_are_those_of_now() -> None:
    """A namespace that is back, and a resource that another release has left, are no longer counted."""
    metrics = Metrics()
    metrics.set_unavailable_namespaces({"team": "why", "pay": "why"})
    metrics.set_other_release_resources(
        {("Topic", "shop", "a"): "green", ("Topic", "pay", "a"): "green", ("Policy", "shop", "a"): "blue"}
    )
    assert figures(metrics, "topiarist_namespace_away") == {("team",): 1, ("pay",): 1}
    assert figures(metrics, "topiarist_resources_held_by_others") == {("green", "Topic"): 2, ("blue", "Policy"): 1}
    metrics.set_unavailable_namespaces({"pay": "why"})
    metrics.set_other_release_resources({("Topic", "shop", "a"): "green"})
    assert figures(metrics, "topiarist_namespace_away") == {("pay",): 1}
    assert figures(metrics, "topiarist_resources_held_by_others") == {("green", "Topic"): 1}
    assert labels(metrics)["topiarist_namespace_away"] == {"watched_namespace"}
    assert labels(metrics)["topiarist_resources_held_by_others"] == {"kind", "holder"}


@pytest.mark.parametrize(
    ("change", "action"),
    [
        (CreateTopic(builders.spread_replicas(3), {}), "create"),
        (GROWTH, "grow"),
        (MoveReplicas((ReplicaMove("a", 0, (5,), (2,)),), SAFE_ASSESSMENT), "move"),
        (ElectLeaders((), SAFE_ASSESSMENT), "elect"),
        (UpdateConfig(()), "configure"),
        (DeleteTopic(3, 9, RiskAssessment(Risk.DATA_LOSS, "messages are lost")), "delete"),
        (TakeOwnership(), "adopt"),
        (ReleaseOwnership(), "unmanage"),
        (Nudge((0,)), "nudge"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_kind_of_change_has_its_action(change: Change, action: str) -> None:
    """Dashboards and alerts name the actions."""
    metrics = Metrics()
    passed(metrics, [done("a", Result.DONE, change)])
    assert figures(metrics, "topiarist_topic_changes_total") == {(action, "prod", "done"): 1}


def test_durations_are_in_buckets_up_to_five_minutes() -> None:
    """A pass of a large cluster takes minutes, one of a small cluster some hundredths of a second."""
    metrics = Metrics()
    passed(metrics, [], seconds=0.07)
    for name in ("topiarist_pass_duration_seconds", "controller_runtime_reconcile_time_seconds"):
        buckets = {float(limit): count for (_, limit), count in figures(metrics, f"{name}_bucket").items()}
        assert sorted(buckets) == [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, float("inf")]
        assert (buckets[0.05], buckets[0.1]) == (0, 1)

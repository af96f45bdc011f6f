"""Prometheus metrics of the operator.

``manager`` updates them after each reconciliation; ``main`` serves them. Metrics that controller-runtime has too use
its names, because dashboards for these names exist. No metric has a label per topic: ten thousand topics would make ten
thousand time series that no dashboard shows.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from topiarist import __version__
from topiarist.errors import Reason
from topiarist.kubernetes.identity import WorkLoop
from topiarist.kubernetes.moves import ClusterMoves
from topiarist.kubernetes.reconciler import ReconcileResult, SyncState, TopicResult
from topiarist.kubernetes.resources import Resource
from topiarist.model import plan
from topiarist.model.outcome import Result
from topiarist.output.view import CHANGE_KINDS

_ACTIONS = {
    **{kind: each.name for kind, each in CHANGE_KINDS.items()},
    plan.TakeOwnership: "adopt",
    plan.ReleaseOwnership: "unmanage",
}

UNREADABLE, UNKNOWN_CLUSTER = "Unreadable", "UnknownCluster"
"""States of Topics that belong to no cluster's reconciliation; counted with an empty ``cluster`` label."""

_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)

_RECONCILE_METRIC = "controller_runtime_reconcile"


class Metrics:
    """The metrics of the operator, in their own registry.

    ``loops`` returns the work loops of the clusters by name. ``requests`` returns the number of answers of the API
    server so far, by method and code.
    """

    def __init__(
        self,
        loops: Callable[[], Mapping[str, WorkLoop]] = dict,
        requests: Callable[[], Mapping[tuple[str, str], int]] = dict,
    ) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)

        def gauge(name: str, about: str, *labels: str) -> Gauge:
            return Gauge(name, about, labels, registry=registry)

        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(name, about, labels, registry=registry)

        def seconds(name: str, label: str) -> Histogram:
            return Histogram(name, "Duration of a reconciliation.", [label], registry=registry, buckets=_BUCKETS)

        self._reconciles = counter(_RECONCILE_METRIC, "Reconciliations, by result.", "controller", "result")
        self._reconcile_errors = counter(
            f"{_RECONCILE_METRIC}_errors", "Reconciliations that ended with an error.", "controller"
        )
        self._reconcile_seconds = seconds(f"{_RECONCILE_METRIC}_time_seconds", "controller")
        self.leader = gauge("leader_election_master_status", "1 if this process is the leader.", "name")
        about = "Topics by state. cluster is empty for Topics that belong to no Cluster."
        self._topics = gauge("topiarist_topics", about, "cluster", "state")
        self._changes = counter("topiarist_topic_changes", "Changes, by outcome.", "cluster", "action", "outcome")
        self._drift = counter("topiarist_drift_detected", "Topics that another client changed.", "cluster", "kind")
        self._corrected = counter("topiarist_drift_corrected", "External changes reverted.", "cluster", "kind")
        self._cluster_reconcile_seconds = seconds("topiarist_pass_duration_seconds", "cluster")
        name = "topiarist_last_successful_pass_timestamp_seconds"
        self._last_success = gauge(name, "End of the last successful reconciliation.", "cluster")
        self._session_state = gauge(
            "topiarist_cluster_session_state", "1 if the last reconciliation had a session with the cluster.", "cluster"
        )
        name = "topiarist_cluster_requests"
        self._cluster_requests = counter(name, "Requests, by answer.", "cluster", "op", "result")
        self._moves = _MoveMetrics(registry)
        about = "1 for a watched namespace that the operator cannot read."
        # The label is not "namespace": Prometheus gives its targets that label.
        self._unavailable_namespaces = gauge("topiarist_namespace_away", about, "watched_namespace")
        about = "Permissions that the operator has lost since its start."
        self.missing_rights = gauge("topiarist_missing_rights", about)
        about = "Resources in the scope of this release that another one serves."
        self._other_release_resources = gauge("topiarist_resources_held_by_others", about, "kind", "holder")
        gauge("topiarist_build_info", "1, with the version.", "version").labels(__version__).set(1)
        registry.register(_LiveCollector(loops, requests))

    def record_reconcile(
        self, cluster: str, seen: ReconcileResult, before: Iterable[TopicResult], seconds: float, now: datetime
    ) -> None:
        """Record one reconciliation.

        ``before`` are the results of the previous one: a topic counts as drifted once, when it becomes drifted.
        ``seconds`` is the duration, ``now`` the end.
        """
        self._reconciles.labels(cluster, "error" if seen.error else "success").inc()
        self._reconcile_seconds.labels(cluster).observe(seconds)
        self._cluster_reconcile_seconds.labels(cluster).observe(seconds)
        self._session_state.labels(cluster).set(seen.state is not None)
        for view in seen.topic_results:  # also of a pass that an error ended: its writes are made
            self._count_changes(cluster, view)
        if seen.error:
            self._reconcile_errors.labels(cluster).inc()
            return
        self._last_success.labels(cluster).set(now.timestamp())
        if seen.moves:
            self._moves.record(cluster, seen.moves)
        states = Counts(view.state for view in seen.topic_results)
        for state in SyncState:
            self._topics.labels(cluster, state.value).set(states[state])
        drifted = {view.candidate.resource.key for view in before if view.state is SyncState.DRIFTED}
        for view in seen.topic_results:
            if view.state is SyncState.DRIFTED and view.candidate.resource.key not in drifted:
                drift = [refusal for refusal in view.refusals if refusal.reason is Reason.DRIFT_DETECTED]
                withheld = [change for refusal in drift for change in refusal.withheld]
                for kind in {_ACTIONS[type(change)] for change in withheld}:
                    self._drift.labels(cluster, kind).inc()

    def _count_changes(self, cluster: str, view: TopicResult) -> None:
        if view.outcome and view.plan:
            # Moves that later passes continue are no outcome yet; all other changes of such a topic are made.
            result = Result.DONE if view.is_applied and view.moves else view.outcome.result
            for change in view.plan.changes:
                if not (view.moves and isinstance(change, plan.MoveReplicas)):
                    self._changes.labels(cluster, _ACTIONS[type(change)], result.value).inc()
        for kind in {_ACTIONS[type(change)] for change in view.written_changes[1]}:
            self._drift.labels(cluster, kind).inc()
            self._corrected.labels(cluster, kind).inc()

    def set_unassigned_topics(self, topics: Iterable[Resource]) -> None:
        """Count the Topics that belong to no cluster's reconciliation, by state."""
        states = Counts(UNKNOWN_CLUSTER if topic.manifest else UNREADABLE for topic in topics)
        for state in (UNKNOWN_CLUSTER, UNREADABLE):
            self._topics.labels("", state).set(states[state])

    def count_cluster_requests(self, cluster: str, requests: Mapping[tuple[str, str], int]) -> None:
        """Add the requests of a reconciliation to a cluster, by operation and result."""
        for (operation, result), number in requests.items():
            self._cluster_requests.labels(cluster, operation, result).inc(number)

    def set_unavailable_namespaces(self, namespaces: Iterable[str]) -> None:
        """Replace the watched namespaces that are reported as unavailable."""
        self._unavailable_namespaces.clear()
        for name in namespaces:
            self._unavailable_namespaces.labels(name).set(1)

    def set_other_release_resources(self, held: Mapping[tuple[str, str, str], str]) -> None:
        """Count the resources that another release serves.

        ``held`` maps kind, namespace and name of a resource to the owner name of that release.
        """
        self._other_release_resources.clear()
        for (kind, holder), number in Counts((kind, holder) for (kind, _, _), holder in held.items()).items():
            self._other_release_resources.labels(kind, holder).set(number)

    def remove_cluster(self, cluster: str) -> None:
        """Remove the gauges of a removed cluster, which would otherwise keep their last value."""
        for metric in (self._last_success, self._session_state, self._topics):
            metric.remove_by_labels({"cluster": cluster})
        self._moves.remove_cluster(cluster)


_MOVE_GAUGES: Mapping[str, tuple[str, Callable[[ClusterMoves], float]]] = {
    "partitions_left": ("Partitions that are still to be moved, also those in flight.", lambda moves: moves.left),
    "copies_left": ("Replicas that are still to be copied, also those in flight.", lambda moves: moves.copies_left),
    "copies_in_flight": ("Replicas that brokers copy now.", lambda moves: moves.copies_in_flight),
    "stalled": (
        "1 if the moves need a user: no progress, or a stuck reassignment request.",
        lambda moves: moves.problem is not None,
    ),
    "throttle_left": (
        "1 if throttles of a finished batch could not be restored.",
        lambda moves: moves.throttle_left,
    ),
}
"""The gauges of the moves of a cluster, each with its description and its value."""


class _MoveMetrics:
    """The metrics of moves of replicas."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, about: str, *labels: str) -> Gauge:
            return Gauge(f"topiarist_moves_{name}", about, ["cluster", *labels], registry=registry)

        self._gauges = {name: gauge(name, about) for name, (about, _) in _MOVE_GAUGES.items()}
        self._drained = gauge("drained_replicas_left", "Replicas on a broker that must be drained.", "broker")
        self._batches = Counter("topiarist_moves_batches", "Batches sent.", ["cluster"], registry=registry)
        self._moved = Counter("topiarist_moves_partitions_moved", "Partitions moved.", ["cluster"], registry=registry)

    def record(self, cluster: str, moves: ClusterMoves) -> None:
        """Record the moves of a cluster after a pass."""
        for name, (_, value_of) in _MOVE_GAUGES.items():
            self._gauges[name].labels(cluster).set(value_of(moves))
        self._batches.labels(cluster).inc(moves.is_sent)
        self._moved.labels(cluster).inc(moves.moved)
        self._drained.remove_by_labels({"cluster": cluster})
        for broker, replicas in moves.draining.items():
            self._drained.labels(cluster, str(broker)).set(replicas)

    def remove_cluster(self, cluster: str) -> None:
        """Remove the gauges of a removed cluster."""
        for gauge in (*self._gauges.values(), self._drained):
            gauge.remove_by_labels({"cluster": cluster})


class _LiveCollector(Collector):
    """A collector of values that are read when they are served.

    They are the clusters as a work queue, and the requests to the API server under client-go's name, without watches.
    """

    def __init__(
        self, loops: Callable[[], Mapping[str, WorkLoop]], requests: Callable[[], Mapping[tuple[str, str], int]]
    ) -> None:
        self._loops = loops
        self._requests = requests

    def collect(self) -> Iterator[Metric]:
        """Yield the present values."""
        depth = GaugeMetricFamily("workqueue_depth", "1 if a reconciliation is requested.", labels=["name"])
        adds = CounterMetricFamily("workqueue_adds", "Requested reconciliations.", labels=["name"])
        retries = CounterMetricFamily("workqueue_retries", "Reconciliations after a failed one.", labels=["name"])
        answers = CounterMetricFamily(
            "rest_client_requests", "Requests to the API server, without watches.", labels=["method", "code"]
        )
        for name, loop in self._loops().items():
            depth.add_metric([name], loop.is_queued)
            adds.add_metric([name], loop.enqueue_count)
            retries.add_metric([name], loop.retries)
        for (method, code), number in sorted(self._requests().items()):
            answers.add_metric([method, code], number)
        yield from (depth, adds, retries, answers)

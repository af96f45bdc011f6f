"""Figures for Prometheus. Where controller-runtime has a name for the same, it is used: dashboards for it exist.

No label for each topic: with ten thousand of them, whoever stores the figures would pay for what nobody looks at.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from topiarist import __version__
from topiarist.core.change import AddPartitions, Adopt, Change, CreateTopic, DeleteTopic, GiveUp, Nudge, UpdateConfig
from topiarist.errors import Reason
from topiarist.kubernetes.loop import Loop
from topiarist.kubernetes.passes import Seen, State, View
from topiarist.kubernetes.resources import Resource

_ACTIONS = {
    CreateTopic: "create",
    AddPartitions: "grow",
    UpdateConfig: "configure",
    DeleteTopic: "delete",
    Adopt: "adopt",
    GiveUp: "release",
    Nudge: "nudge",
}

UNREADABLE, UNKNOWN_CLUSTER = "Unreadable", "UnknownCluster"
"""States of Topics that no cluster's pass looks at: they are counted with an empty ``cluster``."""

_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)

_RUNTIME = "controller_runtime_reconcile"


class Metrics:
    """All of them, in a registry of their own.

    ``loops`` gives those of the clusters, by name, ``requests`` the API server's answers so far, by method and code.
    """

    def __init__(
        self,
        loops: Callable[[], Mapping[str, Loop]] = dict,
        requests: Callable[[], Mapping[tuple[str, str], int]] = dict,
    ) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._reconciled = Counter(_RUNTIME, "Passes by result.", ["controller", "result"], registry=registry)
        self._errors = Counter(f"{_RUNTIME}_errors", "Passes that an error ended.", ["controller"], registry=registry)
        self._seconds = Histogram(
            f"{_RUNTIME}_time_seconds", "Time of a pass.", ["controller"], registry=registry, buckets=_BUCKETS
        )
        self.leader = Gauge(
            "leader_election_master_status", "1 if this process is the leader.", ["name"], registry=registry
        )
        self._topics = Gauge(
            "topiarist_topics",
            "Topics by state. cluster is empty for Topics that no pass looks at.",
            ["cluster", "state"],
            registry=registry,
        )
        self._changes = Counter(
            "topiarist_topic_changes", "Changes, by outcome.", ["cluster", "action", "outcome"], registry=registry
        )
        self._drift = Counter(
            "topiarist_drift_detected", "Topics found changed outside.", ["cluster", "kind"], registry=registry
        )
        self._duration = Histogram(
            "topiarist_pass_duration_seconds", "Time of a pass.", ["cluster"], registry=registry, buckets=_BUCKETS
        )
        self._succeeded = Gauge(
            "topiarist_last_successful_pass_timestamp_seconds", "End of the last one.", ["cluster"], registry=registry
        )
        self._session = Gauge(
            "topiarist_zookeeper_session_state", "1 if the last pass had one.", ["cluster"], registry=registry
        )
        self._requests = Counter(
            "topiarist_zookeeper_requests", "Requests, by answer.", ["cluster", "op", "result"], registry=registry
        )
        self._away = Gauge(
            "topiarist_namespace_away", "1 for a watched namespace that is away.", ["namespace"], registry=registry
        )
        self._held = Gauge(
            "topiarist_resources_held_by_others",
            "Resources in the scope of this release that another one serves.",
            ["kind", "holder"],
            registry=registry,
        )
        build = Gauge("topiarist_build_info", "1, with the version.", ["version"], registry=registry)
        build.labels(__version__).set(1)
        registry.register(_Queue(loops))
        registry.register(_Requests(requests))

    def passed(self, cluster: str, seen: Seen, before: Iterable[View], seconds: float, now: datetime) -> None:
        """Take in one pass."""
        self._reconciled.labels(cluster, "error" if seen.error else "success").inc()
        self._seconds.labels(cluster).observe(seconds)
        self._duration.labels(cluster).observe(seconds)
        self._session.labels(cluster).set(seen.state is not None)
        if seen.error:
            self._errors.labels(cluster).inc()
            return
        self._succeeded.labels(cluster).set(now.timestamp())
        states = Counts(view.state for view in seen.views)
        for state in State:
            self._topics.labels(cluster, state.value).set(states[state])
        drifted = {view.candidate.resource.key for view in before if view.state is State.DRIFTED}
        for view in seen.views:
            if view.outcome and view.plan:
                for change in view.plan.changes:
                    self._changes.labels(cluster, _ACTIONS[type(change)], view.outcome.result.value).inc()
            if view.state is State.DRIFTED and view.candidate.resource.key not in drifted:
                for kind in _drifted(view):
                    self._drift.labels(cluster, kind).inc()

    def unclaimed(self, topics: Iterable[Resource]) -> None:
        """Count the Topics that no cluster's pass looks at."""
        states = Counts(UNKNOWN_CLUSTER if topic.manifest else UNREADABLE for topic in topics)
        for state in (UNKNOWN_CLUSTER, UNREADABLE):
            self._topics.labels("", state).set(states[state])

    def asked(self, cluster: str, requests: Mapping[tuple[str, str], int]) -> None:
        """Count what was asked of a cluster's ZooKeeper in a pass, by operation and result."""
        for (operation, result), number in requests.items():
            self._requests.labels(cluster, operation, result).inc(number)

    def away(self, namespaces: Iterable[str]) -> None:
        """Which watched namespaces are away."""
        self._away.clear()
        for name in namespaces:
            self._away.labels(name).set(1)

    def held(self, held: Mapping[tuple[str, str, str], str]) -> None:
        """Which resources (kind, namespace, name) another release serves, and which one."""
        self._held.clear()
        for (kind, holder), number in Counts((kind, holder) for (kind, _, _), holder in held.items()).items():
            self._held.labels(kind, holder).set(number)

    def forget(self, cluster: str) -> None:
        """A cluster that is gone leaves no figures that stand still."""
        for metric in (self._succeeded, self._session, self._topics):
            metric.remove_by_labels({"cluster": cluster})


class _Queue(Collector):
    """The clusters as a work queue: those that a pass has been called for, how often, and how often again."""

    def __init__(self, loops: Callable[[], Mapping[str, Loop]]) -> None:
        self._loops = loops

    def collect(self) -> Iterator[Metric]:
        """As they are now."""
        depth = GaugeMetricFamily("workqueue_depth", "1 if a pass is called for.", labels=["name"])
        adds = CounterMetricFamily("workqueue_adds", "Calls for a pass.", labels=["name"])
        retries = CounterMetricFamily("workqueue_retries", "Passes after one that failed.", labels=["name"])
        for name, loop in self._loops().items():
            depth.add_metric([name], loop.marked)
            adds.add_metric([name], loop.marks)
            retries.add_metric([name], loop.retries)
        yield from (depth, adds, retries)


class _Requests(Collector):
    """Requests to the API server, under client-go's name; watches are not among them."""

    def __init__(self, requests: Callable[[], Mapping[tuple[str, str], int]]) -> None:
        self._requests = requests

    def collect(self) -> Iterator[Metric]:
        """As they are now."""
        found = CounterMetricFamily(
            "rest_client_requests", "Requests to the API server but watches.", labels=["method", "code"]
        )
        for (method, code), number in sorted(self._requests().items()):
            found.add_metric([method, code], number)
        yield found


def _drifted(view: View) -> set[str]:
    held: list[Change] = [
        change for refusal in view.refusals if refusal.reason is Reason.DRIFT_DETECTED for change in refusal.held
    ]
    return {_ACTIONS[type(change)] for change in held}

"""Figures for Prometheus. Where controller-runtime has a name for the same, it is used: dashboards for it exist.

No label for each topic: with ten thousand of them, whoever stores the figures would pay for what nobody looks at.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from topiarist import __version__
from topiarist.core.change import AddPartitions, Adopt, Change, CreateTopic, DeleteTopic, GiveUp, UpdateConfig
from topiarist.errors import Reason
from topiarist.kubernetes.passes import Seen, State, View

_ACTIONS = {
    CreateTopic: "create",
    AddPartitions: "grow",
    UpdateConfig: "configure",
    DeleteTopic: "delete",
    Adopt: "adopt",
    GiveUp: "release",
}

_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """All of them, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.reconciled = Counter(
            "controller_runtime_reconcile",
            "Passes by result.",
            ["controller", "result"],
            registry=registry,
        )
        self.errors = Counter(
            "controller_runtime_reconcile_errors", "Passes that an error ended.", ["controller"], registry=registry
        )
        self.leader = Gauge(
            "leader_election_master_status", "Whether this process is the leader.", ["name"], registry=registry
        )
        self.topics = Gauge("topiarist_topics", "Topics, by how they stand.", ["cluster", "state"], registry=registry)
        self.changes = Counter(
            "topiarist_topic_changes", "Changes, by outcome.", ["cluster", "action", "outcome"], registry=registry
        )
        self.drift = Counter(
            "topiarist_drift_detected", "Topics found changed outside.", ["cluster", "kind"], registry=registry
        )
        self.duration = Histogram(
            "topiarist_pass_duration_seconds", "Time of a pass.", ["cluster"], registry=registry, buckets=_BUCKETS
        )
        self.succeeded = Gauge(
            "topiarist_last_successful_pass_timestamp_seconds", "End of the last one.", ["cluster"], registry=registry
        )
        self.session = Gauge(
            "topiarist_zookeeper_session_state",
            "1 if the last pass had one.",
            ["cluster"],
            registry=registry,
        )
        self.requests = Counter("topiarist_zookeeper_requests", "Requests sent.", ["cluster"], registry=registry)
        build = Gauge("topiarist_build_info", "1, with the version.", ["version"], registry=registry)
        build.labels(__version__).set(1)

    def passed(self, cluster: str, seen: Seen, before: Iterable[View], seconds: float, now: float) -> None:
        """Take in one pass."""
        self.reconciled.labels(cluster, "error" if seen.error else "success").inc()
        self.duration.labels(cluster).observe(seconds)
        self.session.labels(cluster).set(seen.error is None or not seen.error.reason.retryable)
        if seen.error:
            self.errors.labels(cluster).inc()
            return
        self.succeeded.labels(cluster).set(now)
        states = Counts(view.state for view in seen.views)
        for state in State:
            self.topics.labels(cluster, state.value).set(states[state])
        drifted = {view.candidate.resource.key for view in before if view.state is State.DRIFTED}
        for view in seen.views:
            if view.outcome and view.plan:
                for change in view.plan.changes:
                    self.changes.labels(cluster, _ACTIONS[type(change)], view.outcome.result.name.lower()).inc()
            if view.state is State.DRIFTED and view.candidate.resource.key not in drifted:
                for kind in sorted(_drifted(view)):
                    self.drift.labels(cluster, kind).inc()

    def forget(self, cluster: str) -> None:
        """A Cluster is gone: its figures go too."""
        for state in State:
            self.topics.remove(cluster, state.value)
        for gauge in (self.succeeded, self.session):
            gauge.remove(cluster)


def _drifted(view: View) -> set[str]:
    held: list[Change] = [
        change for refusal in view.refusals if refusal.reason is Reason.DRIFT_DETECTED for change in refusal.held
    ]
    return {_ACTIONS[type(change)] for change in held}

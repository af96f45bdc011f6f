"""The manager of the clusters' work loops, which writes the results of each reconciliation.

``main`` creates it. ``informer`` fills its ``Store``, which enqueues clusters here. A reconciliation
(``cluster_worker``) takes the present content of the store and works in a thread. Its results yield statuses,
finalizers, Events and metrics.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from topiarist.errors import TopiaristError
from topiarist.kubernetes.api import clock
from topiarist.kubernetes.api.client import KubernetesClient
from topiarist.kubernetes.api.resources import Resource
from topiarist.kubernetes.cache import UNASSIGNED, ResourceId, ResourceKey, Store
from topiarist.kubernetes.cluster_worker import ClusterSession, ClusterWorker
from topiarist.kubernetes.metrics import Metrics
from topiarist.kubernetes.policy_cache import PolicyCache, errors_of_policy
from topiarist.kubernetes.reconciler import ReconcileResult, TopicResult, recent_deletions
from topiarist.kubernetes.status.cluster import cluster_status, policy_status
from topiarist.kubernetes.status.events import Event, annotation_events, cluster_events, topic_events, unusable_events
from topiarist.kubernetes.status.finalizers import required_finalizers
from topiarist.kubernetes.status.topic import topic_status
from topiarist.kubernetes.status.writer import StatusWriter
from topiarist.kubernetes.work_loop import Requeue, WorkLoop
from topiarist.output.change_details import describe_changes

Writes = Iterator[Coroutine[Any, Any, None]]

log = logging.getLogger(__name__)


class Manager:
    """A manager of the work loops of all Clusters in the operator's namespace that have its class.

    Call ``set_owner`` before ``run``.
    """

    def __init__(
        self, api: KubernetesClient, operator_namespace: str, operator_class: str, instance: str, period: float
    ) -> None:
        self.store = Store(operator_namespace, self._enqueue, operator_class)
        self.metrics = Metrics(
            lambda: {name or "rest": loop for name, loop in self._loops.items()}, lambda: api.requests
        )
        self._loops: dict[str, WorkLoop] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._period = period
        self._api = api
        self._owner = ""
        self._logged_other_releases: Mapping[ResourceId, str] = {}
        self._status_writer = StatusWriter(api, self.store.on_write_response, instance)
        self._policy_cache = PolicyCache()
        self._results: dict[str, Mapping[ResourceKey, TopicResult]] = {}
        self._read_errors: dict[str, TopiaristError] = {}
        self._unavailable_namespaces: Mapping[str, str] = {}
        self._topics_of_removed_clusters: set[ResourceKey] = set()
        self._pending_writes: set[ResourceKey] = set()
        self._emitted_warnings: dict[ResourceKey, Collection[Event]] = {}
        self._cluster_inventory: dict[str, tuple[bool, frozenset[str]]] = {}
        self._stopping = False

    def set_owner(self, owner: str) -> None:
        """Set the owner that is written to every ownership record and status."""
        self._owner = self.store.owner = owner

    async def run(self) -> None:
        """Run all work loops until cancelled; reconciliations in progress are finished first."""
        with tempfile.TemporaryDirectory(prefix="topiarist-") as folder:
            rest = asyncio.create_task(self._make_unassigned_loop().run())
            try:
                while True:
                    await self._sync_loops(Path(folder))
                    await asyncio.sleep(1.0)
            finally:
                self._stopping = True
                for loop in self._loops.values():
                    loop.stop()
                await asyncio.gather(rest, *self._tasks.values(), return_exceptions=True)

    def set_unavailable_namespaces(self, namespaces: Mapping[str, str]) -> None:
        """Set the unavailable watched namespaces, each with the reason.

        A change is logged once, and every Cluster is reconciled so that its status has it.
        """
        if namespaces == self._unavailable_namespaces:
            return
        for name, why in namespaces.items():
            if why != self._unavailable_namespaces.get(name):
                log.warning("a watched namespace is away", extra={"namespace": name, "why": why})
        for name in self._unavailable_namespaces.keys() - namespaces.keys():
            log.info("a watched namespace is back", extra={"namespace": name})
        self._unavailable_namespaces = dict(namespaces)
        self.metrics.set_unavailable_namespaces(namespaces)
        for name in self._loops:
            self._enqueue(name)

    def last_completed(self) -> Iterator[tuple[str, float]]:
        """Yield each cluster with the ``time.monotonic`` time of its last completed reconciliation."""
        return ((name, loop.last_completed_at) for name, loop in self._loops.items())

    def _enqueue(self, name: str) -> None:
        if name in self._loops:
            self._loops[name].enqueue()

    def _make_unassigned_loop(self) -> WorkLoop:
        """Create the loop for Policies and for Topics without a target cluster."""
        loop = self._loops[UNASSIGNED] = WorkLoop(self._reconcile_unassigned, self._period)
        return loop

    async def _sync_loops(self, folder: Path) -> None:
        """Start a loop for each new Cluster, stop those of removed Clusters.

        The end of a loop is not awaited: a later call removes the cluster.
        """
        for name, task in [*self._tasks.items()]:
            if name not in self.store.clusters:
                self._loops[name].stop()
            if task.done():
                self._remove_cluster(name)
        for name in self.store.clusters.keys() - self._tasks.keys():
            round_ = ClusterWorker(
                self._api, self._policy_cache, ClusterSession(self._owner, folder), lambda: self._stopping
            )
            self._tasks[name] = asyncio.create_task(self._run_loop(name, round_), name=f"cluster {name}")

    async def _run_loop(self, name: str, round_: ClusterWorker) -> None:
        """Run the loop of one cluster to its end, then close its worker."""
        loop = self._loops[name] = WorkLoop(lambda: self._reconcile(name, round_), self._period)
        try:
            await loop.run()
        finally:
            await round_.close()

    def _remove_cluster(self, name: str) -> None:
        """Remove a cluster after its loop has ended.

        The unassigned loop then updates the statuses of its Topics.
        """
        del self._loops[name], self._tasks[name]
        self._topics_of_removed_clusters.update(self._results.pop(name, {}))
        self._read_errors.pop(name, None)
        self._cluster_inventory.pop(name, None)
        self._policy_cache.rule_errors.pop(name, None)
        self.metrics.remove_cluster(name)
        self._enqueue(UNASSIGNED)

    async def _reconcile(self, name: str, round_: ClusterWorker) -> Requeue:
        """Reconcile one cluster and write the results."""
        home = self.store.clusters.get(name)
        if home is None:
            return Requeue.AFTER_PERIOD
        begun, before = time.monotonic(), self._results.get(name, {})
        seen = await round_.reconcile(self.store, home, self._owner)
        views = {view.candidate.resource.key: view for view in seen.topic_results}
        changed = self._changed_topics(name, before, views, seen.error)
        self._results[name] = views
        self.metrics.record_reconcile(name, seen, before.values(), time.monotonic() - begun, clock.now())
        self.metrics.count_zookeeper_requests(name, round_.new_requests())
        _log_changes(name, seen)
        await self._status_writer.run_all(chain(self._cluster_writes(home, seen), self._topic_writes(changed, name)))
        if seen.error:
            return Requeue.AFTER_BACKOFF
        return Requeue.SOON if any(view.is_in_progress for view in seen.topic_results) else Requeue.AFTER_PERIOD

    def _changed_topics(
        self,
        name: str,
        before: Mapping[ResourceKey, TopicResult],
        views: Mapping[ResourceKey, TopicResult],
        error: TopiaristError | None,
    ) -> Collection[ResourceKey]:
        """Return the Topics that may need a new status or Event.

        All Topics of the cluster are returned after an error, on recovery, and if the set of Clusters has changed.
        """
        basis, away = (
            (not self.store.unreadable_clusters, frozenset(self.store.clusters)),
            self._read_errors.pop(name, None),
        )
        if error:
            self._read_errors[name] = error
        if error or away or self._cluster_inventory.get(name) != basis:
            self._cluster_inventory[name] = basis
            return {*before, *views, *self.store.topic_keys(name)}
        new = [key for key, view in views.items() if before.get(key) != view]
        return {*new, *(before.keys() - views.keys()), *(self._pending_writes & views.keys())}

    def _cluster_writes(self, home: Resource, seen: ReconcileResult) -> Writes:
        """Yield the writes for a Cluster: Events, then its status if it has changed."""
        now = clock.now()
        deletions = recent_deletions(home, None, self._owner, now) if seen.deletions is None else seen.deletions
        status = {**cluster_status(home, seen, deletions, now, self._unavailable_namespaces), "operator": self._owner}
        for event in chain(cluster_events(home, status), annotation_events(home, status)):
            yield self._status_writer.create_event(home, event)
        if status != home.status:
            yield self._status_writer.write_status(home, status)

    def _topic_writes(self, keys: Iterable[ResourceKey], cluster: str = "") -> Writes:
        """Yield the writes for Topics: statuses and finalizers, then the Events of ``cluster``."""
        now, known, happened = clock.format_time(clock.now()), not self.store.unreadable_clusters, []
        for key in keys:
            topic = self.store.topics.get(key)
            if topic is None:
                self._pending_writes.discard(key)
                self._emitted_warnings.pop(key, None)
                continue
            views = {name: self._results.get(name, {}).get(key) for name in self.store.target_clusters(topic)}
            view = views.get(cluster)
            happened += (
                [(topic, event) for event in topic_events(cluster, topic.status_on(cluster), view)] if view else []
            )
            status = topic_status(topic, views, self._read_errors, now, self.store.clusters)
            status = {**status, "operator": self._owner}
            wanted = required_finalizers(
                topic, views, all_clusters_known=known and not self.store.has_ambiguous_target(topic)
            )
            # A write may fail: the Topic stays pending until there is nothing left to write.
            settled = status == topic.status and wanted == topic.finalizers
            if not settled:
                yield self._status_writer.write_topic(topic, status, wanted)
            (self._pending_writes.discard if settled else self._pending_writes.add)(key)
            if settled:
                self._emitted_warnings.pop(key, None)
            standing = [*unusable_events(topic, status)]
            told = self._emitted_warnings.get(key, ())
            happened += [(topic, event) for event in standing if event not in told]
            if standing:  # two loops may handle the Topic before its status is written
                self._emitted_warnings[key] = standing
        yield from (self._status_writer.create_event(topic, event) for topic, event in happened)

    async def _reconcile_unassigned(self) -> Requeue:
        """Write the statuses of Policies, and of Topics without an existing cluster."""
        rules, faults = self.store.parsed_policies(), list[str]()
        if rules:  # in a thread: compiling rules would block the event loop
            faults += await asyncio.to_thread(self._policy_cache.check_rules, rules)
        faults += [fault for found in self._policy_cache.rule_errors.values() for fault in found]
        statuses = [
            (policy, policy_status(policy, list(dict.fromkeys(errors_of_policy(policy.name, faults))), clock.now()))
            for policy in self.store.policies.values()
        ]
        statuses = [(policy, {**status, "operator": self._owner}) for policy, status in statuses]
        works = (
            self._status_writer.write_status(policy, status) for policy, status in statuses if status != policy.status
        )
        happened = (
            self._status_writer.create_event(policy, event)
            for policy, status in statuses
            for event in unusable_events(policy, status)
        )
        homeless = [*self.store.untargeted_topics()]
        self.metrics.set_unassigned_topics(homeless)
        left = (
            key
            for key in self._topics_of_removed_clusters
            if (topic := self.store.topics.get(key)) and not self.store.is_of_other_release(topic)
        )
        topics = {*left, *(topic.key for topic in homeless)}
        self._topics_of_removed_clusters.clear()
        self._report_other_releases()
        await self._status_writer.run_all(chain(works, happened, self._topic_writes(topics)))
        return Requeue.AFTER_PERIOD

    def _report_other_releases(self) -> None:
        """Log and count the resources in this operator's scope that another release serves.

        They are left to that release. Each is logged once.
        """
        held = self.store.other_release_owners()
        for (kind, namespace, name), holder in held.items():
            if self._logged_other_releases.get((kind, namespace, name)) != holder:
                log.warning(
                    "another release serves this: it is left alone. Give one of the two a class, or other namespaces",
                    extra={"kind": kind, "namespace": namespace, "resource": name, "holder": holder},
                )
        self._logged_other_releases = held
        self.metrics.set_other_release_resources(held)


def _log_changes(cluster: str, result: ReconcileResult) -> None:
    """Log the outcome of each topic that a reconciliation has written or tried to write."""
    for view in result.topic_results:
        if view.outcome and view.plan:
            what = {"cluster": cluster, "topic": view.outcome.topic, "changes": describe_changes(view.plan.changes)}
            log.info(view.outcome.message or view.outcome.result.value, extra=what)

"""The manager of the clusters' work loops, which writes the results of each reconciliation.

``main`` creates it. Informers and kopf's Cluster handler fill its ``Store``, which enqueues clusters here. A
reconciliation (``cluster_worker``) takes the present content of the store and works in a thread. Its results yield
statuses, finalizers, Events and metrics.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes import client, status_writer, topic_status
from topiarist.kubernetes.cache import UNASSIGNED, ResourceId, ResourceKey, Store
from topiarist.kubernetes.client import ApiError, KubernetesClient
from topiarist.kubernetes.cluster_worker import ClusterSession, ClusterWorker, PolicyCache, errors_of_policy
from topiarist.kubernetes.identity import ClusterIdentities, Requeue, WorkLoop
from topiarist.kubernetes.informer import Definition, KafkaTopicInformers, describe_missing, prune
from topiarist.kubernetes.metrics import Metrics
from topiarist.kubernetes.reconciler import ReconcileResult, TopicResult
from topiarist.kubernetes.resources import (
    FINALIZER,
    KAFKA_TOPIC,
    NOT_JUDGED,
    TOPIC_KINDS,
    Resource,
    Verdict,
    parse_resource,
    resource_key,
    resource_path,
)
from topiarist.output.groups import describe_changes

CLUSTER_READ_TIMEOUT_S = 5.0
"""Seconds to wait for the present Cluster before a reconciliation; without it the last known one is used."""

REFUSED_WRITES = "/refused writes"
"""The name of the loop that repeats refused writes; no Cluster can have it."""

Writes = Iterator[Coroutine[Any, Any, None]]
Events = list[tuple[Resource, status_writer.Event]]

log = logging.getLogger(__name__)


class _LastPass(NamedTuple):
    """The last pass of a cluster: its Cluster as it was then, the result, and the result of each Topic."""

    home: Resource
    result: ReconcileResult
    topics: Mapping[ResourceKey, TopicResult]


class Manager:
    """A manager of the work loops of all Clusters in the operator's namespace that have its class.

    Fill ``store`` and set its owner before ``start``. ``record_event`` posts an Event about a resource. ``namespaces``
    are the watched namespaces; empty: all.
    """

    def __init__(
        self,
        api: KubernetesClient,
        operator_namespace: str,
        operator_class: str,
        period: float,
        record_event: Callable[[Resource, status_writer.Event], None],
        namespaces: tuple[str, ...] = (),
    ) -> None:
        self.store = Store(operator_namespace, self._enqueue, operator_class)
        self.kafka_topics = KafkaTopicInformers(api, self.store, namespaces, period, self.enqueue_all)
        self.metrics = Metrics(
            lambda: {name or "rest": loop for name, loop in self._loops.items()}, lambda: api.requests
        )
        self._loops: dict[str, WorkLoop] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._period = period
        self._api = api
        self._logged_other_releases: Mapping[ResourceId, str] = {}
        self._record_event = record_event
        self._status_writer = status_writer.StatusWriter(api, self.store.on_write_response, self._on_write_refused)
        self._refused_writes: set[ResourceId] = set()
        self._repeat_loop = WorkLoop(self._repeat_writes, period)
        self._policy_cache = PolicyCache()
        self._identities = ClusterIdentities(api, self.store)
        self._last_passes: dict[str, _LastPass] = {}
        self._unavailable_namespaces: Mapping[str, str] = {}
        self.missing_rights: Sequence[str] = ()
        self._lacking_definitions: Mapping[str, Definition] = {}
        self._topics_of_removed_clusters: set[ResourceKey] = set()
        self._pending_writes: set[ResourceKey] = set()
        self._emitted_warnings: dict[ResourceKey, Collection[status_writer.Event]] = {}
        self._cluster_inventory: dict[str, tuple[bool, frozenset[str]]] = {}
        self._secrets_folder: tempfile.TemporaryDirectory[str] | None = None
        self._stopping = False

    def start(self) -> None:
        """Start a work loop for each Cluster in the store, and one for Topics without a cluster and for Policies."""
        self._secrets_folder = tempfile.TemporaryDirectory(prefix="topiarist-")
        self._start_loop(UNASSIGNED, WorkLoop(self._reconcile_unassigned, self._period))
        self._tasks[REFUSED_WRITES] = asyncio.create_task(self._repeat_loop.run(), name=REFUSED_WRITES)
        for name in self.store.clusters:
            self._enqueue(name)

    async def stop(self) -> None:
        """Stop all work loops; reconciliations in progress are finished first."""
        self._stopping = True
        for loop in (*self._loops.values(), self._repeat_loop):
            loop.stop()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        if self._secrets_folder:
            self._secrets_folder.cleanup()

    def enqueue_all(self) -> None:
        """Request a reconciliation of everything, also of the statuses: a restore of etcd sets them back."""
        self._cluster_inventory.clear()
        for name in [*self._loops]:
            self._enqueue(name)

    def set_unavailable_namespaces(self, namespaces: Mapping[str, str]) -> None:
        """Set the unavailable watched namespaces, each with the reason.

        A change is logged once, and every Cluster is reconciled so that its status has it.
        """
        if namespaces == self._unavailable_namespaces:
            return
        for name, why in namespaces.items():
            if why != self._unavailable_namespaces.get(name):
                log.warning("a watched namespace is unavailable", extra={"namespace": name, "why": why})
        for name in self._unavailable_namespaces.keys() - namespaces.keys():
            log.info("a watched namespace is available again", extra={"namespace": name})
        self._unavailable_namespaces = dict(namespaces)
        self.metrics.set_unavailable_namespaces(namespaces)
        self.enqueue_all()

    def set_missing_rights(self, rights: Sequence[str]) -> None:
        """Set the rights that the operator has lost since its start.

        A change is logged once, and every Cluster is reconciled so that its status has it.
        """
        if rights == self.missing_rights:
            return
        if rights:
            log.error("the operator's ServiceAccount has lost permissions", extra={"missing": "; ".join(rights)})
        else:
            log.info("the operator's ServiceAccount has all permissions again")
        self.missing_rights = rights
        self.metrics.missing_rights.set(len(rights))
        self.enqueue_all()

    def set_definitions(self, lacking: Mapping[str, Definition]) -> None:
        """Set the definitions of the API server that lack a field of this release, by kind.

        A change is logged once. No Kafka cluster is read or changed until ``lacking`` is empty.
        """
        if lacking == self._lacking_definitions:
            return
        self._lacking_definitions = dict(lacking)
        if lacking:
            log.error("nothing is written to Kafka", extra={"reason": describe_missing(lacking)})
        else:
            log.info("the CRDs have all fields of this release again")
        self.enqueue_all()

    def _own_status(self, kind: str, status: topic_status.Status) -> topic_status.Status:
        """Return the fields of a status that the API server accepts, with the owner.

        The owner tells another release in the same namespace that this resource is served.
        """
        whole, lacking = {**status, "operator": self.store.owner}, self._lacking_definitions.get(kind)
        return prune(whole, lacking.status) if lacking else whole

    def problems(self) -> Iterator[str]:
        """Yield why the operator cannot do its work."""
        if self._lacking_definitions:
            yield f"CRDs of another release: {describe_missing(self._lacking_definitions)}"
        if self.missing_rights:
            yield f"missing rights: {'; '.join(self.missing_rights)}"

    def _alarms(self, cluster: str) -> Mapping[str, str]:
        """Return the further conditions of a Cluster, with their messages."""
        away, rights = sorted(self._unavailable_namespaces.items()), self.missing_rights
        verdicts = self.store.verdicts.get(cluster, {}).values()
        active = [each.issue for each in verdicts if each.issue and each.issue.reason is Reason.STRIMZI_ACTIVE]
        kept = f"{active[0].message}; KafkaTopics that are left to it: {len(active):,}" if active else ""
        lost = f"the operator's ServiceAccount may not: {'; '.join(rights)}" if rights else ""
        alarms = {
            Reason.STRIMZI_ACTIVE.value: kept,
            topic_status.NAMESPACE_UNAVAILABLE: "; ".join(f"{name}: {why}" for name, why in away),
            topic_status.RIGHTS_MISSING: lost,
        }
        return {name: message for name, message in alarms.items() if message}

    def last_completed(self) -> Iterator[tuple[str, float]]:
        """Yield each cluster with the ``time.monotonic`` time of its last completed reconciliation."""
        return ((name, loop.last_completed_at) for name, loop in self._loops.items())

    def _enqueue(self, name: str, source: Resource | None = None) -> None:
        """Request a reconciliation of a cluster; start the loop of a new Cluster, stop that of a removed one.

        ``source`` is the resource that has changed. A Topic that may declare nothing there gets few reconciliations.
        """
        loop = self._loops.get(name)
        if loop is not None:
            if name not in self.store.clusters and name != UNASSIGNED:
                loop.stop()
            elif source and source.kind in TOPIC_KINDS and self._declares_nothing(source, name):
                loop.enqueue_rarely()
            else:
                loop.enqueue()
        elif name in self.store.clusters and self._secrets_folder and not self._stopping:
            session = ClusterSession(self.store.owner, Path(self._secrets_folder.name))
            worker = ClusterWorker(
                *(self._api, self._policy_cache, session, lambda: self._stopping, self._identities, self.kafka_topics)
            )
            self._start_loop(name, WorkLoop(lambda: self._reconcile(name, worker), self._period), worker)

    def _declares_nothing(self, topic: Resource, cluster: str) -> bool:
        """Return whether a Topic cannot change the cluster: it may not declare its topic, or was refused as it is."""
        spec = self.store.cluster_spec(cluster)
        if spec is None:
            return False
        result = self._last_result(cluster, topic.key)
        return (
            topic.manifest is None
            or (result is not None and bool(result.candidate.refusals))
            or not self.store.may_declare(topic, spec)
        )

    def _start_loop(self, name: str, loop: WorkLoop, worker: ClusterWorker | None = None) -> None:
        async def run() -> None:
            await loop.run()
            if worker:
                await worker.close()
                if not self._stopping:
                    self._remove_cluster(name)

        self._loops[name] = loop
        self._tasks[name] = asyncio.create_task(run(), name=f"cluster {name}")

    def _remove_cluster(self, name: str) -> None:
        """Remove a cluster after its loop has ended.

        The unassigned loop then updates the statuses of its Topics. A Cluster of this name that was created since gets
        a loop only now: two loops would use one lock and one set of results.
        """
        del self._loops[name], self._tasks[name]
        if last := self._last_passes.pop(name, None):
            self._topics_of_removed_clusters.update(last.topics)
        self._cluster_inventory.pop(name, None)
        self._policy_cache.rule_errors.pop(name, None)
        self.metrics.remove_cluster(name)
        self._enqueue(UNASSIGNED)
        self._enqueue(name)

    async def _reconcile(self, name: str, worker: ClusterWorker) -> Requeue:
        home = await self._refresh_cluster(name)
        if home is None:
            return Requeue.AFTER_PERIOD
        # The statuses are compared with those of the last pass, so that a pass without news writes nothing.
        begun, last = time.monotonic(), self._last_passes.get(name)
        before, verdicts = last.topics if last else {}, self.store.verdicts.get(name, {})
        # A status that the API server refuses hides what was done, and a field that it drops was never asked for.
        if blocked := bool(self._lacking_definitions):
            result = _definitions_result(self._lacking_definitions)
        else:
            result = await worker.reconcile(self.store, home, self.store.owner)
        results = {each.candidate.resource.key: each for each in result.topic_results}
        changed = {
            *self._changed_topics(name, before, results, has_error=result.error is not None),
            *self._changed_kafka_topics(name, verdicts),
        }
        self._last_passes[name] = _LastPass(home, result, results)
        self.metrics.record_reconcile(name, result, before.values(), time.monotonic() - begun, client.utc_now())
        self.metrics.count_cluster_requests(name, worker.new_requests())
        for each in result.topic_results:
            # A drain of a thousand topics would otherwise log each of them in each pass.
            is_news = not each.moves or before.get(each.candidate.resource.key) != each
            if each.outcome and each.plan and is_news:
                what = {"cluster": name, "topic": each.outcome.topic, "changes": describe_changes(each.plan.changes)}
                log.info(each.outcome.message or each.outcome.result.value, extra=what)
        events: Events = []
        await self._write(
            chain(self._cluster_writes(home, result, events), self._topic_writes(changed, events, name)), events
        )
        if result.error:
            # A refused Cluster takes over at once when the other one is deleted, so a request must shorten the wait.
            is_refused = result.error.reason is Reason.CLUSTER_CONFLICT
            return Requeue.AFTER_PERIOD if blocked or is_refused else Requeue.AFTER_BACKOFF
        if result.moves and result.moves.left:
            left_before = last.result.moves.left if last and last.result.moves else 0
            return Requeue.MOVED if result.moves.is_sent or left_before != result.moves.left else Requeue.MOVING
        return Requeue.SOON if any(each.is_in_progress for each in result.topic_results) else Requeue.AFTER_PERIOD

    async def _refresh_cluster(self, name: str) -> Resource | None:
        """Read a Cluster from the API server and return it; return None if it was deleted.

        kopf does not notice a deletion while its watch is interrupted. If the API server does not answer, the cluster
        is reconciled with the last known spec.
        """
        home = self.store.clusters.get(name)
        if home is None:
            return None
        try:
            async with asyncio.timeout(CLUSTER_READ_TIMEOUT_S):
                body = await self._api.get(resource_path(home))
            self.store.upsert(parse_resource(body, home))
        except TimeoutError:
            pass
        except ApiError as error:
            if error.not_found:
                self.store.remove(home)
        return self.store.clusters.get(name)

    async def _write(self, writes: Writes, events: Events) -> None:
        await self._status_writer.run_all(writes)
        # Events last: if the operator is killed in between, the status still has the change, and no Event is repeated.
        for about, event in events:
            self._record_event(about, event)

    def _on_write_refused(self, of: Resource) -> None:
        self._refused_writes.add((of.kind, of.namespace, of.name))
        self._repeat_loop.enqueue()

    async def _repeat_writes(self) -> Requeue:
        """Compute the refused statuses and finalizers anew from the last reconciliation, and write them.

        Its Events are posted already. A Cluster that was changed since waits for its next reconciliation; statuses of
        Policies, and of Topics without a cluster, are those of the unassigned loop.
        """
        await self._status_writer.wait_for_pause()
        refused, self._refused_writes = self._refused_writes, set()
        topics = [resource_key(*each) for each in refused if each[0] in TOPIC_KINDS]
        if any(kind == "Policy" for kind, _, _ in refused):
            self._enqueue(UNASSIGNED)
        clusters = (
            write
            for kind, _, name in refused
            if kind == "Cluster" and (last := self._last_passes.get(name)) and (home := self.store.clusters.get(name))
            if last.home.generation == home.generation
            for write in self._cluster_writes(home, last.result, [])
        )
        events: Events = []
        await self._write(chain(clusters, self._topic_writes(topics, events)), events)
        return Requeue.AFTER_BACKOFF if self._refused_writes else Requeue.AFTER_PERIOD

    def _changed_topics(
        self,
        name: str,
        before: Mapping[ResourceKey, TopicResult],
        views: Mapping[ResourceKey, TopicResult],
        *,
        has_error: bool,
    ) -> Collection[ResourceKey]:
        """Return the Topics that may need a new status or Event.

        All Topics of the cluster are returned after an error, and if the set of Clusters has changed. On recovery, a
        Topic without a result keeps its status, and any other Topic has a new result if its status changes.
        """
        basis = not self.store.unreadable_clusters, frozenset(self.store.clusters)
        if has_error or self._cluster_inventory.get(name) != basis:
            self._cluster_inventory[name] = basis
            return {*before, *views, *self.store.topic_keys(name)}
        new = [key for key, view in views.items() if before.get(key) != view]
        return {*new, *(before.keys() - views.keys()), *(self._pending_writes & views.keys())}

    def _changed_kafka_topics(self, name: str, before: Mapping[ResourceKey, Verdict]) -> Iterator[ResourceKey]:
        """Yield the KafkaTopics that may need a write although no pass has a result of them.

        They were judged otherwise than ``before``; or they are topiarist's, and cannot be read, are in deletion, or
        have Strimzi's finalizer.
        """
        verdicts = self.store.verdicts.get(name, {})
        for each in self.store.kafka_topics(name):
            verdict = verdicts.get(each.key, NOT_JUDGED)
            is_left = each.manifest is None or each.deleting or each.is_held_by_strimzi
            if before.get(each.key, NOT_JUDGED) != verdict or (verdict.may_tell and is_left):
                yield each.key

    def _cluster_writes(self, home: Resource, result: ReconcileResult, events: Events) -> Writes:
        status = self._own_status(
            "Cluster", status_writer.cluster_status(home, result, client.utc_now(), self._alarms(home.name))
        )
        news = chain(status_writer.cluster_events(home, status), status_writer.records_events(result))
        events += [(home, event) for event in news]
        if status != home.status:
            yield self._status_writer.write_status(home, status)

    def _topic_writes(self, keys: Iterable[ResourceKey], events: Events, cluster: str = "") -> Writes:
        """Yield the writes of Topics' statuses and finalizers; add the Events of ``cluster`` to ``events``."""
        now = client.format_time(client.utc_now())
        errors = {name: last.result.error for name, last in self._last_passes.items() if last.result.error}
        for key in keys:
            topic = self.store.topics.get(key)
            if topic is None:
                self._pending_writes.discard(key)
                self._emitted_warnings.pop(key, None)
                continue
            results = {name: self._result_of(topic, name) for name in self.store.target_clusters(topic)}
            found: list[status_writer.Event] = []
            if result := self._last_result(cluster, key):
                found += status_writer.topic_events(cluster, status_writer.told_part(topic, cluster), result)
            status, finalizer, release = self._wanted(topic, results, errors, now)
            # A write may fail: the Topic stays pending until there is nothing left to write.
            applied = topic_status.applied_clusters(topic, results)
            known_values = topic.status, FINALIZER in topic.finalizers, topic.applied_clusters
            settled = (status, finalizer, applied) == known_values and not (release and topic.is_held_by_strimzi)
            if not settled:
                yield self._status_writer.write_topic(
                    topic, status, finalizer=finalizer, applied_to=applied, release=release
                )
            (self._pending_writes.discard if settled else self._pending_writes.add)(key)
            events += ((topic, event) for event in self._select_news(topic, status, found, settled=settled))

    def _select_news(
        self, topic: Resource, status: topic_status.Status, found: Sequence[status_writer.Event], *, settled: bool
    ) -> Iterator[status_writer.Event]:
        """Yield the Events of a Topic that were not posted yet: two loops may handle it before its status is written.

        The status of a KafkaTopic that another operator has never says what was posted.
        """
        warnings = [*status_writer.unusable_events(topic, status), *status_writer.left_events(topic, status)]
        posted = self._emitted_warnings.get(topic.key, ())
        if topic.kind == KAFKA_TOPIC:
            warnings += [event for event in found if event.warning]
            found = [event for event in found if not event.warning]
        yield from found
        yield from (event for event in warnings if event not in posted)
        if warnings:
            self._emitted_warnings[topic.key] = warnings
        elif settled:
            self._emitted_warnings.pop(topic.key, None)

    def _wanted(
        self, topic: Resource, results: Mapping[str, TopicResult | None], errors: Mapping[str, TopiaristError], now: str
    ) -> tuple[topic_status.Status, bool, bool]:
        """Return the status of a Topic, whether it has topiarist's finalizer, and whether Strimzi's is removed."""
        known = not self.store.unreadable_clusters and not self.store.has_ambiguous_target(topic)
        finalizer = status_writer.needs_finalizer(topic, results, all_clusters_known=known)
        whole = topic_status.topic_status(topic, results, errors, now, self.store.clusters)
        if topic.kind != KAFKA_TOPIC:
            return self._own_status("Topic", whole), finalizer, False
        verdict, held = self.store.verdict(topic), FINALIZER in topic.finalizers
        if not verdict.is_ours and results:
            finalizer = held  # another operator may have it
        is_unread = verdict.issue is None and topic.manifest is not None and not any(results.values())
        is_known = topic.told_at > topic.foreign_at and topic.status.get("observedGeneration") == topic.generation
        if not verdict.may_tell or (is_unread and is_known):
            return topic.status, finalizer, verdict.is_ours
        return topic_status.kafka_topic_status(topic, whole, verdict.issue, now), finalizer, verdict.is_ours

    def _last_result(self, cluster: str, topic: ResourceKey) -> TopicResult | None:
        last = self._last_passes.get(cluster)
        return last.topics.get(topic) if last else None

    def _result_of(self, topic: Resource, cluster: str) -> TopicResult | None:
        """Return the result of a Topic as it is now; None if the last reconciliation had an older one."""
        result = self._last_result(cluster, topic.key)
        seen = result and result.candidate.resource
        return result if seen and (seen.uid, seen.generation) == (topic.uid, topic.generation) else None

    async def _reconcile_unassigned(self) -> Requeue:
        """Write the statuses of Policies, and of Topics without an existing cluster."""
        rules, errors = self.store.parsed_policies(), list[str]()
        if rules:  # in a thread: compiling rules would block the event loop
            errors += await asyncio.to_thread(self._policy_cache.check_rules, rules)
        errors += [error for found in self._policy_cache.rule_errors.values() for error in found]
        events: Events = []
        untargeted = [*self.store.untargeted_topics()]
        self.metrics.set_unassigned_topics(untargeted)
        left = (
            key
            for key in self._topics_of_removed_clusters
            if (topic := self.store.topics.get(key)) and not self.store.is_of_other_release(topic)
        )
        topics = {*left, *(topic.key for topic in untargeted)}
        self._topics_of_removed_clusters.clear()
        self._report_other_releases()
        errors = list(dict.fromkeys(errors))
        await self._write(chain(self._policy_writes(errors, events), self._topic_writes(topics, events)), events)
        return Requeue.AFTER_PERIOD

    def _policy_writes(self, errors: Sequence[str], events: Events) -> Writes:
        for policy in [*self.store.policies.values()]:
            status = status_writer.policy_status(policy, errors_of_policy(policy.name, errors), client.utc_now())
            status = self._own_status("Policy", status)
            events += [(policy, event) for event in status_writer.unusable_events(policy, status)]
            if status != policy.status:
                yield self._status_writer.write_status(policy, status)

    def _report_other_releases(self) -> None:
        """Log and count the resources in this operator's scope that another release serves.

        They are left to that release. Each is logged once.
        """
        held = self.store.other_release_owners()
        for (kind, namespace, name), holder in held.items():
            if self._logged_other_releases.get((kind, namespace, name)) != holder:
                log.warning(
                    "another release serves this resource, so this one does not change it. "
                    "Give one of the two a class, or other namespaces",
                    extra={"kind": kind, "namespace": namespace, "resource": name, "holder": holder},
                )
        self._logged_other_releases = held
        self.metrics.set_other_release_resources(held)


def _definitions_result(lacking: Mapping[str, Definition]) -> ReconcileResult:
    """Return the result of a pass that definitions of another release prevent."""
    message = f"the CRDs in the API server are of another release: {describe_missing(lacking)}"
    hint = "apply those of this release: kubectl apply --server-side -f manifests/crds"
    return ReconcileResult([], error=TopiaristError(Reason.PREREQUISITE_MISSING, f"{message}: {hint}"))

"""The Kafka cluster of each Cluster, which is claimed on first use by one Cluster, and the loop of work of each
Cluster.

``cluster_worker`` claims the Kafka cluster that a session has reached before it is read. The first claim writes the
cluster id to an annotation of the Cluster, and nothing is written to Kafka before the annotation is stored. An address
that leads to another Kafka cluster later is refused as ``WrongCluster``. The id is in an annotation and not in the
status: a status is a view that may be lost or not written, while a backup of the Cluster has its annotations.

If two Clusters lead to one Kafka cluster, the older one is served and the other one is refused as ``ClusterConflict``:
their Topics have one owner in Kafka, so each would undo the changes of the other. The younger one takes over when the
older one is deleted or gets another Kafka cluster.

The work loop of one cluster reconciles on events and periodically, with a backoff after a failure. ``manager`` runs one
``WorkLoop`` per cluster, so a failing cluster does not delay any other cluster. The loop runs in the event loop, as
does all access to the store and the API server; a reconciliation accesses the cluster in a thread.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum, auto

from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.approval import CLUSTER_ID, RECORDS_TOPIC_ID, is_unmanaged
from topiarist.kubernetes.cache import ResourceKey, Store
from topiarist.kubernetes.client import ApiError, KubernetesClient
from topiarist.kubernetes.resources import Resource, identity_body, parse_resource, resource_path
from topiarist.reconcile import require_cluster_id
from topiarist.schema import load

IDENTITY_MANAGER = "topiarist-identity"
"""The field manager of the annotation with the cluster id."""


class ClusterIdentities:
    """The claims of the Clusters in ``store`` to Kafka clusters. All methods run in the event loop."""

    def __init__(self, api: KubernetesClient, store: Store) -> None:
        self._api = api
        self._store = store
        self._in_pass: dict[ResourceKey, str] = {}

    async def claim(self, home: Resource, cluster_id: str) -> None:
        """Bind the Cluster ``home`` to its Kafka cluster, and begin its pass, which ends with ``release``.

        ``cluster_id`` is the id of the Kafka cluster that the address of ``home`` leads to.

        Raises ``WrongCluster`` if it is bound to another one, ``ClusterConflict`` if an older Cluster is bound to this
        one, ``Locked`` while the pass of a younger one is in progress, and ``Unreachable`` if the annotation cannot be
        written. A Kafka cluster without an id cannot be claimed, and is accepted.
        """
        if not cluster_id:
            return
        require_bound_cluster(home, cluster_id)
        rivals = [each for each in self._store.other_clusters(home) if self._bound_id(each) == cluster_id]
        first = min((home, *rivals), key=_precedence)
        if first is not home:
            raise TopiaristError(Reason.CLUSTER_CONFLICT, _conflict_message(first, home, cluster_id))
        self._in_pass[home.key] = cluster_id
        if home.annotation(CLUSTER_ID) != cluster_id:
            await self._bind(home, {CLUSTER_ID: cluster_id})
            for rival in rivals:
                self._store.enqueue(rival)
        if busy := next((each for each in rivals if each.key in self._in_pass), None):
            message = f"Cluster {busy.name}, which is younger, has begun to reconcile this Kafka cluster"
            raise TopiaristError(Reason.LOCKED, message)

    async def bind_records(self, home: Resource, topic_id: str) -> None:
        """Store the id of the topic of records in the Cluster ``home``, which has claimed its Kafka cluster.

        Raises ``Unreachable`` or ``NoPermission`` if the annotation cannot be written.
        """
        current = self._store.find(home.kind, home.namespace, home.name)
        if not topic_id or current is None or current.annotation(RECORDS_TOPIC_ID) == topic_id:
            return
        if bound := current.annotation(CLUSTER_ID):
            await self._bind(current, {CLUSTER_ID: bound, RECORDS_TOPIC_ID: topic_id})

    def release(self, home: Resource) -> None:
        """End the pass of a Cluster."""
        self._in_pass.pop(home.key, None)

    def declared_by_others(self, home: Resource) -> Mapping[str, str]:
        """Return the topics that Topics of other Clusters with the Kafka cluster of ``home`` declare.

        Each has the text that names the Topic. A Cluster counts if anything suggests that its Kafka cluster is the same
        one, also a status: that only holds deletions.
        """
        found: dict[str, str] = {}
        ids = self._suggested_ids(home)
        for rival in self._store.clusters.values():
            spec = self._store.last_cluster_spec(rival.name)  # a mistake in a Cluster takes no topic from its Topics
            if spec is None or rival.name == home.name or ids.isdisjoint(self._suggested_ids(rival)):
                continue
            for key in self._store.topic_keys(rival.name):
                topic = self._store.topics[key]
                is_claim = (
                    not topic.deleting and not is_unmanaged(topic) and topic.declared_spec.get("ensure") != "Absent"
                )
                if is_claim and self._store.may_declare(topic, spec):
                    found[topic.topic_name] = f"{topic.kind} {topic.namespace}/{topic.name} of Cluster {rival.name}"
        return found

    def _bound_id(self, resource: Resource) -> str:
        """Return the id of the Kafka cluster that a Cluster is bound to; empty if its spec names another one since."""
        bound = self._in_pass.get(resource.key) or resource.annotation(CLUSTER_ID)
        return bound if resource.declared_spec.get("clusterId") in (None, bound) else ""

    def _suggested_ids(self, resource: Resource) -> set[str]:
        if bound := self._bound_id(resource):
            return {bound}
        return {*filter(None, (resource.declared_spec.get("clusterId"), resource.status.get("clusterId")))}

    async def _bind(self, home: Resource, ids: Mapping[str, str]) -> None:
        body = identity_body(home)
        body["metadata"]["annotations"] = {f"{load.API_GROUP}/{name}": value for name, value in ids.items()}
        try:
            answer = await self._api.apply(resource_path(home), body, IDENTITY_MANAGER)
        except ApiError as error:
            what = ", ".join(f"{name} {value}" for name, value in ids.items())
            message = f"the annotation {what} cannot be stored in the Cluster: {error}"
            raise TopiaristError(error.reason, message) from error
        self._store.on_write_response(parse_resource(answer, home))


def require_bound_cluster(home: Resource, cluster_id: str) -> None:
    """Raise ``WrongCluster`` if a Cluster names another id than ``cluster_id``, or was first used with another one."""
    declared, bound = home.declared_spec.get("clusterId", ""), home.annotation(CLUSTER_ID)
    require_cluster_id(declared, cluster_id)
    if not declared and bound and bound != cluster_id:
        raise TopiaristError(
            Reason.WRONG_CLUSTER,
            f"found cluster id {cluster_id}, and this Cluster was first used with {bound}: correct the address; or, to "
            f"change the Kafka cluster on purpose, set spec.clusterId to {cluster_id}",
        )


def known_records_id(resource: Resource) -> str:
    """Return the id of the topic of records that an earlier pass has seen; empty if the Cluster is another now.

    A Cluster that names another ``clusterId`` than the one it is bound to was given another Kafka cluster.
    """
    wanted = resource.declared_spec.get("clusterId")
    if wanted and wanted != resource.annotation(CLUSTER_ID):
        return ""
    return resource.annotation(RECORDS_TOPIC_ID)


def _precedence(resource: Resource) -> tuple[bool, str, str, str]:
    """Return the sort key of a claim: the oldest first, and those being deleted last."""
    return resource.deleting, resource.created, resource.name, resource.namespace


def _conflict_message(first: Resource, home: Resource, cluster_id: str) -> str:
    where = first.name if first.namespace == home.namespace else f"{first.namespace}/{first.name}"
    why = "is not being deleted" if home.deleting and not first.deleting else "came first"
    return (
        f"Cluster {where} has the same Kafka cluster ({cluster_id}), and {why}: nothing is written for this Cluster; "
        "delete one of the two, or correct its address"
    )


DEBOUNCE_S = 0.1
"""Seconds in which several events are merged into one reconciliation."""

RARE_INTERVAL_S = 10.0
"""Minimum seconds between two reconciliations that ``enqueue_rarely`` causes."""

MIN_BACKOFF_S, MAX_BACKOFF_S = 1.0, 60.0
"""Seconds to wait after a failure: the first delay, doubled with each further failure, and the maximum."""

FIRST_MOVE_PAUSE_S, MAX_MOVE_PAUSE_S = 0.5, 15.0
"""Seconds between reconciliations while replicas are moved: the first pause after progress, and the maximum.

After the first one, a pause is about a quarter of the time since the last progress: the next batch follows soon.
"""

log = logging.getLogger(__name__)


class Requeue(Enum):
    """The time of the next reconciliation.

    ``SOON`` if something was written or is in progress. ``MOVING`` if replicas are moved, ``MOVED`` if their moves have
    also progressed since the last reconciliation.
    """

    AFTER_PERIOD = auto()
    SOON = auto()
    MOVING = auto()
    MOVED = auto()
    AFTER_BACKOFF = auto()


class WorkLoop:
    """A work loop that calls ``reconcile`` for one cluster, also without a request once in ``period`` seconds.

    ``last_completed_at`` is the ``time.monotonic`` time of the last completed reconciliation. ``enqueue_count`` is the
    number of requested reconciliations, ``retries`` the number of those that failed and are retried.
    """

    def __init__(self, reconcile: Callable[[], Awaitable[Requeue]], period: float) -> None:
        self._reconcile = reconcile
        self._period = period
        self._queued = asyncio.Event()
        self._rare_after = float("-inf")
        self._rare_request: asyncio.TimerHandle | None = None
        self._stopped = asyncio.Event()
        self._repeat_count = 0
        self._failures = 0
        self.enqueue_count = 0
        self.retries = 0
        self.last_completed_at = time.monotonic()

    @property
    def is_queued(self) -> bool:
        """Return whether a reconciliation was requested and has not begun."""
        return self._queued.is_set()

    def enqueue(self) -> None:
        """Request a reconciliation."""
        self.enqueue_count += 1
        self._queued.set()

    def enqueue_rarely(self) -> None:
        """Request a reconciliation, at most one in ``RARE_INTERVAL_S``; any other reconciliation meets the request."""
        loop = asyncio.get_running_loop()
        if loop.time() >= self._rare_after:
            self._rare_after = loop.time() + RARE_INTERVAL_S
            self.enqueue()
        elif self._rare_request is None:
            self._rare_request = loop.call_at(self._rare_after, self._enqueue_rare_request)

    def _enqueue_rare_request(self) -> None:
        self._rare_request = None
        self.enqueue_rarely()

    def _drop_rare_request(self) -> None:
        if self._rare_request:
            self._rare_request.cancel()
            self._rare_request = None

    def stop(self) -> None:
        """Stop the loop after the current reconciliation."""
        self._drop_rare_request()
        self._stopped.set()
        self._queued.set()

    async def run(self) -> None:
        """Reconcile repeatedly until ``stop`` is called."""
        while not self._stopped.is_set():
            # Cleared before, not after: a request that comes during the pass asks for another one.
            self._queued.clear()
            self._drop_rare_request()
            try:
                ending = await self._reconcile()
            except Exception:  # a bug in topiarist must not end the loop of a cluster for good
                log.exception("a reconciliation has failed: this is a defect in topiarist, please report it")
                ending = Requeue.AFTER_BACKOFF
            self.last_completed_at = time.monotonic()
            self._failures = self._failures + 1 if ending is Requeue.AFTER_BACKOFF else 0
            self.retries += ending is Requeue.AFTER_BACKOFF
            self._repeat_count = self._repeat_count + 1 if ending in (Requeue.SOON, Requeue.MOVING) else 0
            await self._wait_for_next(ending)

    async def _wait_for_next(self, ending: Requeue) -> None:
        """Wait until a reconciliation is requested or the delay is over.

        After a failure, requests do not shorten the delay.
        """
        called = self._queued
        if ending is Requeue.AFTER_BACKOFF:
            called = self._stopped
            # Otherwise every event would lead to another attempt at a cluster that does not answer.
            longest = min(MIN_BACKOFF_S * 2.0 ** min(self._failures - 1, 10), MAX_BACKOFF_S) * random.uniform(0.5, 1.0)
        elif ending is Requeue.SOON:
            longest = min(DEBOUNCE_S * 1.25 ** min(self._repeat_count - 1, 100), self._period)
        elif ending in (Requeue.MOVING, Requeue.MOVED):
            pause = FIRST_MOVE_PAUSE_S * 1.25 ** min(self._repeat_count, 100)
            longest = min(pause, MAX_MOVE_PAUSE_S, self._period)
        else:
            # Jitter: the clusters must not all reconcile at the same moment.
            longest = self._period * random.uniform(0.9, 1.1)
        try:
            async with asyncio.timeout(longest):
                await called.wait()
        except TimeoutError:
            return
        # A commit changes many Topics at once: the pause lets one pass plan them all.
        if not self._stopped.is_set():
            await asyncio.sleep(DEBOUNCE_S)

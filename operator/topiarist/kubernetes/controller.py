"""The operator's work: what the API server holds, a loop for each Cluster, and what each pass has to tell.

``handlers`` and ``listing`` feed the store, which marks clusters here. A pass takes what the store has at that moment,
works in a thread, and comes back with views; from these follow statuses, finalizers, Events and metrics.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from topiarist import judging
from topiarist.core.change import DeleteTopic, Plan
from topiarist.core.guardrails import Policy
from topiarist.core.spec import ClusterSpec
from topiarist.desired import Desired
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.api import Api, ApiError
from topiarist.kubernetes.candidates import Candidate, candidates
from topiarist.kubernetes.events import events
from topiarist.kubernetes.finalizers import finalizers
from topiarist.kubernetes.loop import Loop
from topiarist.kubernetes.metrics import Metrics
from topiarist.kubernetes.pace import Digestion
from topiarist.kubernetes.passes import Order, Seen, State, View, look
from topiarist.kubernetes.resources import Resource, annotations_of
from topiarist.kubernetes.scribe import Scribe
from topiarist.kubernetes.sessions import Secrets, Session, secret_keys
from topiarist.kubernetes.statuses import Status, cluster_status, differs, last_asked, topic_status
from topiarist.kubernetes.store import Key, Store
from topiarist.reconcile import Result

DAY = timedelta(days=1)

LEAVING = "its namespace is being deleted, and a topic must not go because of that"

log = logging.getLogger(__name__)


class Controller:
    """Runs the loops of all Clusters in the operator's namespace. ``owner`` is ours in every record."""

    def __init__(self, api: Api, home: str, owner: str, instance: str, metrics: Metrics, period: float) -> None:
        self._metrics = metrics
        self._period = period
        self.store = Store(home, self._mark)
        self._api = api
        self._owner = owner
        self._scribe = Scribe(api, self.store.put, instance)
        self._loops: dict[str, tuple[Loop, asyncio.Task[None]]] = {}
        self._views: dict[str, Mapping[Key, View]] = {}
        self._stopping = False
        self._folder = tempfile.TemporaryDirectory(prefix="topiarist-")

    async def run(self) -> None:
        """Until cancelled; what is under way is finished first."""
        try:
            while True:
                await self._attend()
                await asyncio.sleep(1.0)
        finally:
            self._stopping = True
            tasks = [task for _, task in self._loops.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._folder.cleanup()

    def alive(self) -> Iterator[tuple[str, float]]:
        """Each cluster, and when its loop last ended a pass (of ``time.monotonic``)."""
        return ((name, loop.alive) for name, (loop, _) in self._loops.items())

    def _mark(self, name: str) -> None:
        if name in self._loops:
            self._loops[name][0].mark()

    async def _attend(self) -> None:
        """Have a loop for each Cluster that there is, and none for others."""
        for name in self.store.clusters.keys() - self._loops.keys():
            session = Session(self._owner, Path(self._folder.name))
            loop = Loop(lambda name=name, session=session: self._pass(name, session), self._period)  # type: ignore[misc]
            self._loops[name] = loop, asyncio.create_task(loop.run(), name=f"cluster {name}")
        for name in self._loops.keys() - self.store.clusters.keys():
            self._loops.pop(name)[1].cancel()
            gone = self._views.pop(name, {})
            self._metrics.forget(name)
            await self._tell(gone.keys())

    async def _pass(self, name: str, session: Session) -> tuple[bool, bool]:
        """One pass over one cluster: whether it went well, and whether there is more to see soon."""
        begun = time.monotonic()
        home, spec = self.store.clusters.get(name), self.store.cluster(name)
        seen = Seen([]) if home is None or spec is None else await self._seen(session, home, spec)
        before = self._views.get(name, {})
        self._metrics.passed(name, seen, before.values(), time.monotonic() - begun, time.time())
        self._views[name] = {view.candidate.resource.key: view for view in seen.views}
        if home is not None:
            await self._report(home, seen)
        await self._tell(before.keys() | self._views[name].keys(), name)
        return seen.error is None, any(view.state is State.CHANGED for view in seen.views)

    async def _seen(self, session: Session, home: Resource, spec: ClusterSpec) -> Seen:
        """What a pass saw and did; the store is asked before, the rest is done in a thread."""
        store = self.store
        meant, policies = list(store.specs(home.name)), store.rules()
        labels, leaving = dict(store.namespaces), frozenset(store.leaving)
        try:
            secrets = await self._secrets(spec)
        except ApiError as error:
            return Seen([], error=TopiaristError(Reason.UNREACHABLE, str(error)))

        def work() -> Seen:
            found = candidates(spec, home.namespace, meant, labels)
            known = {each.spec.topic: last_asked(each.resource, home.name) for each in found if not each.objections}
            order = Order(
                home,
                spec,
                found,
                self._owner,
                known={topic: was for topic, was in known.items() if was},
                held={each.spec.topic: LEAVING for each in found if each.resource.namespace in leaving},
                guard=_guard(policies, spec, found),
                deletions=len(_recent(home, datetime.now(UTC))),
            )
            return self._looked(session, order, secrets)

        return await asyncio.to_thread(work)

    def _looked(self, session: Session, order: Order, secrets: Secrets) -> Seen:
        """In a thread: the pass itself. A session that failed is not used again."""

        def stop() -> bool:
            return self._stopping

        try:
            cluster = session.cluster(order.cluster, secrets)
            seen = look(cluster, order, stop, Digestion(cluster, stop))
        except TopiaristError as error:
            seen = Seen([], error=error)
        if seen.error is not None:
            session.close()
            log.warning("a pass has ended early", extra={"cluster": order.cluster.name, "error": str(seen.error)})
        return seen

    async def _secrets(self, spec: ClusterSpec) -> Secrets:
        """What is in the Secrets that a Cluster names, as of now; keys that are not there are left out."""
        found = {}
        for name in {key.name for key in secret_keys(spec.credentials)}:
            try:
                data = (await self._api.get(f"/api/v1/namespaces/{self.store.home}/secrets/{name}")).get("data", {})
            except ApiError as error:
                if not error.missing:
                    raise
                continue
            found.update({key: data[key.key] for key in secret_keys(spec.credentials) if key.name == name})
        return found

    async def _report(self, home: Resource, seen: Seen) -> None:
        """Write the status of a Cluster."""
        now = datetime.now(UTC)
        facts: dict[str, Any] = {
            key: home.status[key] for key in ("clusterId", "brokers", "deletions") if key in home.status
        }
        if seen.state is not None:
            facts |= {"clusterId": seen.state.cluster_id, "brokers": len(seen.state.brokers)}
        deleted = [_text(now) for view in seen.views if _deleted(view)]
        facts["deletions"] = [*_recent(home, now), *deleted]
        status = cluster_status(home, seen.views, seen.error, facts, _text(now))
        if differs(home, status):
            await self._scribe.status(home, status)

    async def _tell(self, keys: Iterable[Key], cluster: str = "") -> None:
        """Write the statuses and finalizers of Topics where they differ, and Events of what happened on a cluster."""
        now, works = _text(datetime.now(UTC)), []
        for key in keys:
            topic = self.store.topics.get(key)
            if topic is None:
                continue
            views = {name: views[key] for name, views in self._views.items() if key in views}
            status = topic_status(topic, views, now)
            if cluster in views:
                part: Status = next((each for each in topic.status.get("clusters", ()) if each["name"] == cluster), {})
                works += [self._scribe.event(topic, event) for event in events(cluster, part, views[cluster])]
            if differs(topic, status):
                works.append(self._scribe.status(topic, status))
            if (wanted := finalizers(topic, views)) != topic.finalizers:
                works.append(self._scribe.finalizers(topic, wanted))
        await self._scribe.all(works)


def _guard(policies: Sequence[Policy], spec: ClusterSpec, found: Sequence[Candidate]) -> Callable[[Plan], Plan]:
    """What the policies leave of the plan of a cluster."""
    specs = tuple(each.spec for each in found if not each.objections)
    desired = Desired({spec.name: specs}, {spec.name: spec})
    return judging.judged(desired, policies, {spec.name: spec}, annotations_of, alone=False).guard


def _deleted(view: View) -> bool:
    done = view.outcome is not None and view.outcome.result is Result.DONE and view.plan is not None
    return done and any(isinstance(change, DeleteTopic) for change in view.plan.changes)  # type: ignore[union-attr]


def _recent(home: Resource, now: datetime) -> list[str]:
    """When topics of a Cluster were deleted within the last day."""
    times: list[str] = home.status.get("deletions", [])
    return [time for time in times if now - datetime.fromisoformat(time) < DAY]


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")

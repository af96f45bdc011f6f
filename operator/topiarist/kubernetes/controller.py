"""The operator's work: what the API server holds, a loop for each Cluster, and what each pass has to tell.

``handlers`` and ``listing`` feed the store, which marks clusters here. A pass (``rounds``) takes what the store has at
that moment and works in a thread; from its views follow statuses, finalizers, Events and metrics.
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
from topiarist.kubernetes import clock
from topiarist.kubernetes.api import Api
from topiarist.kubernetes.deletions import recent
from topiarist.kubernetes.details import in_words
from topiarist.kubernetes.events import Event, annotation_events, cluster_events, standing_events, topic_events
from topiarist.kubernetes.finalizers import finalizers
from topiarist.kubernetes.loop import Ending, Loop
from topiarist.kubernetes.metrics import Metrics
from topiarist.kubernetes.passes import Seen, View
from topiarist.kubernetes.policing import Policing, of_policy
from topiarist.kubernetes.resources import Resource
from topiarist.kubernetes.rounds import Round
from topiarist.kubernetes.scribe import Scribe
from topiarist.kubernetes.sessions import Session
from topiarist.kubernetes.statuses import topic_status
from topiarist.kubernetes.store import REST, Held, Key, Store
from topiarist.kubernetes.summaries import cluster_status, policy_status

Works = Iterator[Coroutine[Any, Any, None]]

log = logging.getLogger(__name__)


class Controller:
    """Runs the loops of all Clusters in the operator's namespace that have its class, once it knows as whom."""

    def __init__(self, api: Api, home: str, operator_class: str, instance: str, period: float) -> None:
        self.store = Store(home, self._mark, operator_class)
        self.metrics = Metrics(
            lambda: {name or "rest": loop for name, loop in self._loops.items()}, lambda: api.requests
        )
        self._loops: dict[str, Loop] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._period = period
        self._api = api
        self._owner = ""
        self._told: Mapping[Held, str] = {}
        self._scribe = Scribe(api, self.store.answered, instance)
        self._policing = Policing()
        self._views: dict[str, Mapping[Key, View]] = {}
        self._away: dict[str, TopiaristError] = {}
        self._namespaces: Mapping[str, str] = {}
        self._left: set[Key] = set()
        self._open: set[Key] = set()
        self._warned: dict[Key, Collection[Event]] = {}
        self._basis: dict[str, tuple[bool, frozenset[str]]] = {}
        self._stopping = False

    def serve(self, owner: str) -> None:
        """Work as this owner, in every record and status."""
        self._owner = self.store.owner = owner

    async def run(self) -> None:
        """Until cancelled; what is under way is finished first."""
        with tempfile.TemporaryDirectory(prefix="topiarist-") as folder:
            rest = asyncio.create_task(self._rest().run())
            try:
                while True:
                    await self._attend(Path(folder))
                    await asyncio.sleep(1.0)
            finally:
                self._stopping = True
                for loop in self._loops.values():
                    loop.end()
                await asyncio.gather(rest, *self._tasks.values(), return_exceptions=True)

    def away(self, namespaces: Mapping[str, str]) -> None:
        """Which watched namespaces are away, and why: it is told, once, and by every Cluster."""
        if namespaces == self._namespaces:
            return
        for name, why in namespaces.items():
            if why != self._namespaces.get(name):
                log.warning("a watched namespace is away", extra={"namespace": name, "why": why})
        for name in self._namespaces.keys() - namespaces.keys():
            log.info("a watched namespace is back", extra={"namespace": name})
        self._namespaces = dict(namespaces)
        self.metrics.away(namespaces)
        for name in self._loops:
            self._mark(name)

    def alive(self) -> Iterator[tuple[str, float]]:
        """Each cluster, and when its loop last ended a pass (of ``time.monotonic``)."""
        return ((name, loop.alive) for name, loop in self._loops.items())

    def _mark(self, name: str) -> None:
        if name in self._loops:
            self._loops[name].mark()

    def _rest(self) -> Loop:
        """The loop for what no cluster's pass looks at."""
        loop = self._loops[REST] = Loop(self._tell_rest, self._period)
        return loop

    async def _attend(self, folder: Path) -> None:
        """Have a loop for each Cluster that there is, and none for others; nobody waits for one that is ending."""
        for name, task in [*self._tasks.items()]:
            if name not in self.store.clusters:
                self._loops[name].end()
            if task.done():
                self._forget(name)
        for name in self.store.clusters.keys() - self._tasks.keys():
            round_ = Round(self._api, self._policing, Session(self._owner, folder), lambda: self._stopping)
            self._tasks[name] = asyncio.create_task(self._passes(name, round_), name=f"cluster {name}")

    async def _passes(self, name: str, round_: Round) -> None:
        """All passes of one cluster."""
        loop = self._loops[name] = Loop(lambda: self._pass(name, round_), self._period)
        try:
            await loop.run()
        finally:
            await round_.close()

    def _forget(self, name: str) -> None:
        """A cluster whose passes have ended: the loop for the rest tells what was meant for it."""
        del self._loops[name], self._tasks[name]
        self._left.update(self._views.pop(name, {}))
        self._away.pop(name, None)
        self._basis.pop(name, None)
        self._policing.faults.pop(name, None)
        self.metrics.forget(name)
        self._mark(REST)

    async def _pass(self, name: str, round_: Round) -> Ending:
        """One pass over one cluster, and all that is to be told of it."""
        home = self.store.clusters.get(name)
        if home is None:
            return Ending.WELL
        begun, before = time.monotonic(), self._views.get(name, {})
        seen = await round_.look(self.store, home, self._owner)
        views = {view.candidate.resource.key: view for view in seen.views}
        changed = self._changed(name, before, views, seen.error)
        self._views[name] = views
        self.metrics.passed(name, seen, before.values(), time.monotonic() - begun, clock.now())
        self.metrics.asked(name, round_.requests())
        _log(name, seen)
        await self._scribe.all(chain(self._cluster(home, seen), self._topics(changed, name)))
        if seen.error:
            return Ending.FAILED
        return Ending.SOON if any(view.under_way for view in seen.views) else Ending.WELL

    def _changed(
        self, name: str, before: Mapping[Key, View], views: Mapping[Key, View], error: TopiaristError | None
    ) -> Collection[Key]:
        """The Topics of which there may be something new to tell; all that the cluster is meant for, if in doubt."""
        basis, away = (not self.store.unread, frozenset(self.store.clusters)), self._away.pop(name, None)
        if error:
            self._away[name] = error
        if error or away or self._basis.get(name) != basis:
            self._basis[name] = basis
            return {*before, *views, *self.store.keys(name)}
        new = [key for key, view in views.items() if before.get(key) != view]
        return {*new, *(before.keys() - views.keys()), *(self._open & views.keys())}

    def _cluster(self, home: Resource, seen: Seen) -> Works:
        """What is to be written about a Cluster."""
        now = clock.now()
        deletions = recent(home, None, self._owner, now) if seen.deletions is None else seen.deletions
        status = {**cluster_status(home, seen, deletions, now, self._namespaces), "operator": self._owner}
        for event in chain(cluster_events(home, status), annotation_events(home, status)):
            yield self._scribe.event(home, event)
        if status != home.status:
            yield self._scribe.status(home, status)

    def _topics(self, keys: Iterable[Key], cluster: str = "") -> Works:
        """What is to be written about Topics: statuses and finalizers, then Events of what happened on ``cluster``."""
        now, known, happened = clock.seconds(clock.now()), not self.store.unread, []
        for key in keys:
            topic = self.store.topics.get(key)
            if topic is None:
                self._open.discard(key)
                self._warned.pop(key, None)
                continue
            views = {name: self._views.get(name, {}).get(key) for name in self.store.meant(topic)}
            view = views.get(cluster)
            happened += [(topic, event) for event in topic_events(cluster, topic.on(cluster), view)] if view else []
            status = topic_status(topic, views, self._away, now, self.store.clusters)
            status = {**status, "operator": self._owner}
            wanted = finalizers(topic, views, sure=known and not self.store.undecided(topic))
            # What is written may fail: it is looked at again until there is nothing to write.
            settled = status == topic.status and wanted == topic.finalizers
            if not settled:
                yield self._scribe.topic(topic, status, wanted)
            (self._open.discard if settled else self._open.add)(key)
            if settled:
                self._warned.pop(key, None)
            standing = [*standing_events(topic, status)]
            told = self._warned.get(key, ())
            happened += [(topic, event) for event in standing if event not in told]
            if standing:  # two loops may look at the Topic before its status is written
                self._warned[key] = standing
        yield from (self._scribe.event(topic, event) for topic, event in happened)

    async def _tell_rest(self) -> Ending:
        """The statuses of Policies, and of Topics that are meant for no cluster, or were for one that is gone."""
        rules, faults = self.store.rules(), list[str]()
        if rules:  # to compile them takes its time
            faults += await asyncio.to_thread(self._policing.check, rules)
        faults += [fault for found in self._policing.faults.values() for fault in found]
        statuses = [
            (policy, policy_status(policy, list(dict.fromkeys(of_policy(policy.name, faults))), clock.now()))
            for policy in self.store.policies.values()
        ]
        statuses = [(policy, {**status, "operator": self._owner}) for policy, status in statuses]
        works = (self._scribe.status(policy, status) for policy, status in statuses if status != policy.status)
        happened = (
            self._scribe.event(policy, event)
            for policy, status in statuses
            for event in standing_events(policy, status)
        )
        homeless = [*self.store.homeless()]
        self.metrics.unclaimed(homeless)
        left = (key for key in self._left if (topic := self.store.topics.get(key)) and not self.store.is_others(topic))
        topics = {*left, *(topic.key for topic in homeless)}
        self._left.clear()
        self._tell_held()
        await self._scribe.all(chain(works, happened, self._topics(topics)))
        return Ending.WELL

    def _tell_held(self) -> None:
        """What another release serves although it is in our scope: it is left to that one, and said once."""
        held = self.store.held_by_others()
        for (kind, namespace, name), holder in held.items():
            if self._told.get((kind, namespace, name)) != holder:
                log.warning(
                    "another release serves this: it is left alone. Give one of the two a class, or other namespaces",
                    extra={"kind": kind, "namespace": namespace, "resource": name, "holder": holder},
                )
        self._told = held
        self.metrics.held(held)


def _log(cluster: str, seen: Seen) -> None:
    """What a pass has done; one that did nothing says nothing."""
    for view in seen.views:
        if view.outcome and view.plan:
            what = {"cluster": cluster, "topic": view.outcome.topic, "changes": in_words(view.plan.changes)}
            log.info(view.outcome.message or view.outcome.result.value, extra=what)

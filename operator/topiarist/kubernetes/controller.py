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
from topiarist.kubernetes.events import cluster_events, topic_events
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
from topiarist.kubernetes.store import REST, Key, Store
from topiarist.kubernetes.summaries import cluster_status, policy_status
from topiarist.render.changes import action

Works = Iterator[Coroutine[Any, Any, None]]

log = logging.getLogger(__name__)


class Controller:
    """Runs the loops of all Clusters in the operator's namespace. ``owner`` is ours in every record."""

    def __init__(self, api: Api, home: str, owner: str, instance: str, period: float) -> None:
        self.store = Store(home, self._mark)
        self.metrics = Metrics(lambda: {name or "rest": loop for name, loop in self._loops.items()})
        self._loops: dict[str, Loop] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._period = period
        self._api = api
        self._owner = owner
        self._scribe = Scribe(api, self.store.answered, instance)
        self._policing = Policing()
        self._views: dict[str, Mapping[Key, View]] = {}
        self._away: dict[str, TopiaristError] = {}
        self._left: set[Key] = set()
        self._open: set[Key] = set()
        self._sure: dict[str, bool] = {}
        self._stopping = False

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
        self._sure.pop(name, None)
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
        sure, away = not self.store.unread, self._away.pop(name, None)
        if error:
            self._away[name] = error
        if error or away or self._sure.get(name) is not sure:
            self._sure[name] = sure
            return {*before, *views, *self.store.keys(name)}
        new = [key for key, view in views.items() if before.get(key) != view]
        return {*new, *(before.keys() - views.keys()), *(self._open & views.keys())}

    def _cluster(self, home: Resource, seen: Seen) -> Works:
        """What is to be written about a Cluster."""
        now = clock.now()
        deletions = recent(home, None, self._owner, now) if seen.deletions is None else seen.deletions
        status = cluster_status(home, seen, deletions, now)
        for event in cluster_events(home, status):
            yield self._scribe.event(home, event)
        if status != home.status:
            yield self._scribe.status(home, status)

    def _topics(self, keys: Iterable[Key], cluster: str = "") -> Works:
        """What is to be written about Topics: statuses and finalizers, then Events of what happened on ``cluster``."""
        now, sure, happened = clock.seconds(clock.now()), not self.store.unread, []
        for key in keys:
            topic = self.store.topics.get(key)
            if topic is None:
                self._open.discard(key)
                continue
            views = {name: self._views.get(name, {}).get(key) for name in self.store.meant(topic)}
            view = views.get(cluster)
            happened += [(topic, event) for event in topic_events(cluster, topic.on(cluster), view)] if view else []
            status, wanted = topic_status(topic, views, self._away, now), finalizers(topic, views, sure=sure)
            # What is written may fail: it is looked at again until there is nothing to write.
            settled = status == topic.status and wanted == topic.finalizers
            if not settled:
                yield self._scribe.topic(topic, status, wanted)
            (self._open.discard if settled else self._open.add)(key)
        yield from (self._scribe.event(topic, event) for topic, event in happened)

    async def _tell_rest(self) -> Ending:
        """The statuses of Policies, and of Topics that are meant for no cluster, or were for one that is gone."""
        faults = [fault for found in self._policing.faults.values() for fault in found]
        statuses = [
            (policy, policy_status(policy, list(dict.fromkeys(of_policy(policy.name, faults))), clock.now()))
            for policy in self.store.policies.values()
        ]
        works = (self._scribe.status(policy, status) for policy, status in statuses if status != policy.status)
        topics = {*self._left, *(topic.key for topic in self.store.homeless())}
        self._left.clear()
        await self._scribe.all(chain(works, self._topics(topics)))
        return Ending.WELL


def _log(cluster: str, seen: Seen) -> None:
    """What a pass has done; one that did nothing says nothing."""
    for view in seen.views:
        if view.outcome and view.plan:
            what = {"cluster": cluster, "topic": view.outcome.topic, "changes": action(view.plan.changes)}
            log.info(view.outcome.message or view.outcome.result.value, extra=what)

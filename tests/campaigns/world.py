"""One run of the operator in virtual time: an API server, Kafka clusters, and operators that are killed and restarted.

The operator is the real one without its process: ``Informers``, ``Manager``, its work loops, ``ClusterWorker`` and the
reconciler. Replaced are the API server, kopf's watch of Clusters (same events, same loss of deletions), the session
with Kafka, and the clock. Threads of clusters are real; the virtual clock is held while one of them works.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from unittest.mock import patch

from campaigns.api_server import HOME, Body, MemoryApiClient, MemoryApiServer, View
from campaigns.interruptions import Fault, Interruptions
from campaigns.kafka_clusters import KafkaClusters
from support.virtual_time import VirtualTimeLoop
from topiarist.kubernetes import client, cluster_worker, identity
from topiarist.kubernetes.client import ApiError
from topiarist.kubernetes.informer import Informers
from topiarist.kubernetes.manager import Manager
from topiarist.kubernetes.resources import Resource, collection_path
from topiarist.kubernetes.status_writer import Event
from topiarist.schema import load

OWNER = "k8s/test/shop/topiarist"
PERIOD_S = 60.0
STEP_S = 5.0
"""Virtual seconds that the operator has for one step of a user."""

SETTLE_S = 200.0
"""Virtual seconds until the final state: three periods, and the longest delays after failures."""

RESTART_S = 1.0
"""Virtual seconds until a killed operator is started again."""

START = datetime(2026, 1, 1, tzinfo=UTC)

T = TypeVar("T")


class CampaignLoop(VirtualTimeLoop):
    """An event loop in virtual time that stands still while a thread works."""

    def __init__(self) -> None:
        super().__init__()
        self.working = 0

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run a call in a thread and hold the clock until its result has arrived."""
        future = super().run_in_executor(executor, func, *args)
        self.working += 1
        future.add_done_callback(self._on_returned)
        return future

    def _on_returned(self, _future: asyncio.Future[Any]) -> None:
        self.working -= 1

    def _run_once(self) -> None:
        if self.working:
            asyncio.SelectorEventLoop._run_once(self)  # type: ignore[attr-defined]
        else:
            super()._run_once()


class RunningOperator:
    """One process of the operator, from its start until it is killed."""

    def __init__(self, world: World, view: View) -> None:
        self._world = world
        self._view = view
        self.api = MemoryApiClient(world.server, view, world.interruptions)
        self.manager = Manager(self.api, HOME, "", PERIOD_S, self._record_event)  # type: ignore[arg-type]
        self.manager.store.owner = OWNER
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """List everything, then watch, as the process does."""
        manager = self.manager
        informers = self._informers = Informers(
            self.api,  # type: ignore[arg-type]
            manager.store,
            (),
            PERIOD_S,
            on_relist=manager.enqueue_all,
            on_unavailable=manager.set_unavailable_namespaces,
        )
        while True:
            try:
                await informers.refresh()
                break
            except ApiError:
                await asyncio.sleep(2.0)
        manager.start()
        self._tasks = [asyncio.create_task(informers.run()), asyncio.create_task(self._watch_clusters())]

    async def kill(self) -> None:
        """End the process at once."""
        self.api.dead = True
        self._world.kafka.kill_sessions()
        tasks = [*self._tasks, *self.manager._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.manager.stop()

    def errors(self) -> list[BaseException]:
        """Return the exceptions that ended a task of the process."""
        ended = [task for task in (*self._tasks, *self.manager._tasks.values()) if task.done()]
        found = [task.exception() for task in ended if not task.cancelled()]
        return [each for each in found if each is not None]

    async def _watch_clusters(self) -> None:
        """Watch the Clusters of the operator's namespace as kopf does: a new list yields no deletions."""
        path, version = collection_path("Cluster", HOME), ""
        while True:
            try:
                if not version:
                    async for page in self.api.list_pages(path):
                        version = page["metadata"]["resourceVersion"]
                        for body in page["items"]:
                            self._informers.clusters.handle({"type": None, "object": body})
                async for event in self.api.watch(path, version):
                    version = event["object"]["metadata"]["resourceVersion"]
                    self._informers.clusters.handle(event)
            except ApiError as error:
                version = "" if error.gone else version
                await asyncio.sleep(2.0)

    def _record_event(self, about: Resource, event: Event) -> None:
        if not self.api.dead:
            self._world.events.append(f"{about.kind}/{about.name} {event.reason}")


class World:
    """Everything of one run. ``view`` is the view of the operator that runs now."""

    def __init__(self, validate: Callable[[str, Body, Body | None], list[str]] | None = None) -> None:
        self.interruptions = Interruptions()
        self.server = MemoryApiServer(validate)
        self.kafka = KafkaClusters(self.interruptions, virtual_now)
        self.events: list[str] = []
        self.view = View()
        self.failures: list[BaseException] = []
        self.waiting: list[Callable[[World], None]] = []
        self._operator: RunningOperator | None = None

    async def perform(self, *steps: Callable[[World], None]) -> None:
        """Do the steps of a user one after the other, then let the operator work.

        A user who cannot create a resource, because one of its name is still being deleted, waits with all later steps.
        """
        self.waiting += steps
        while self.waiting:
            try:
                self.waiting[0](self)
            except ApiError as error:
                if not error.conflict:
                    raise
                break
            del self.waiting[0]
        await self.advance(STEP_S)

    async def start_operator(self, view: View | None = None) -> None:
        """Start an operator with a view, by default of the present."""
        self.view = view or View()
        self._operator = RunningOperator(self, self.view)
        await self._operator.start()

    async def kill_operator(self) -> None:
        """Kill the operator."""
        assert self._operator is not None
        self.failures += [each for each in self._operator.errors() if isinstance(each, Exception)]
        await self._operator.kill()

    async def advance(self, seconds: float) -> None:
        """Let the operator work for virtual seconds; an operator that is killed meanwhile is started again."""
        ends = asyncio.get_running_loop().time() + seconds
        killed = self.interruptions.killed
        while (remaining := ends - asyncio.get_running_loop().time()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(remaining):
                    await killed.wait()
            if killed.is_set():
                killed.clear()
                await self.kill_operator()
                await asyncio.sleep(RESTART_S)
                await self.start_operator()

    def set_view(self, limit: int | None, *, connected: bool = True) -> None:
        """Change the view of the running operator."""
        self.view.limit, self.view.connected = limit, connected
        self.server.notify()

    def expire_watches(self) -> None:
        """Answer the next watch of each collection with 410, so that the operator lists again."""
        home = f"/apis/{load.API_VERSION}/namespaces/{HOME}"
        self.view.expired = {
            "/api/v1/namespaces",
            collection_path("Topic"),
            collection_path("Cluster"),
            f"{home}/clusters",
            f"{home}/policies",
        }
        self.server.notify()

    def request_full_pass(self) -> None:
        """Request a reconciliation of everything."""
        assert self._operator is not None
        self._operator.manager.enqueue_all()


class FailureHandler(logging.Handler):
    """A handler that collects the exceptions of failed passes, which a work loop logs and survives."""

    def __init__(self, failures: list[BaseException]) -> None:
        super().__init__(logging.ERROR)
        self._failures = failures

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the exception of a record."""
        if record.exc_info and record.exc_info[1]:
            self._failures.append(record.exc_info[1])


def virtual_now() -> datetime:
    """Return the virtual time as a date, also in the thread of a cluster."""
    return START + timedelta(seconds=_running[-1].time())


_running: list[CampaignLoop] = []


@contextlib.contextmanager
def _replaced_parts(executors: list[ThreadPoolExecutor], open_cluster: Callable[..., Any]) -> Iterator[None]:
    def make_executor(*args: Any) -> ThreadPoolExecutor:
        executors.append(ThreadPoolExecutor(*args))
        return executors[-1]

    with (
        patch.object(cluster_worker, "ThreadPoolExecutor", make_executor),
        patch.object(cluster_worker, "open_cluster", open_cluster),
        patch.object(cluster_worker, "open_usage_reader", lambda *_, **__: None),
        patch.object(client, "utc_now", virtual_now),
    ):
        yield


def run_world(
    work: Callable[[World], Awaitable[T]],
    validate: Callable[[str, Body, Body | None], list[str]] | None = None,
    fault: tuple[int, Fault] = (0, Fault.KILL),
) -> T:
    """Run ``work`` with a new world in virtual time, with a fault at a write (0: none); return its result."""
    random.seed(0)
    executors: list[ThreadPoolExecutor] = []

    async def main() -> T:
        world = World(validate)
        world.interruptions.position, world.interruptions.fault = fault
        handler = FailureHandler(world.failures)
        logging.getLogger(identity.__name__).addHandler(handler)
        with _replaced_parts(executors, world.kafka.open):
            try:
                return await work(world)
            finally:
                logging.getLogger(identity.__name__).removeHandler(handler)
                await world.kill_operator()

    with asyncio.Runner(loop_factory=CampaignLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, CampaignLoop)
        _running.append(loop)
        try:
            return runner.run(main())
        finally:
            _running.remove(loop)
            for executor in executors:
                executor.shutdown()

"""The operator process: kopf's handlers, login, rights check, leader election, logging, probes.

The command line calls ``run``, which runs kopf. kopf calls the handlers at the end of this module: at the start, to log
in, for each event of a Cluster in the operator's namespace, and at the end. A handler only passes events on, so a
failure of later work cannot lose an event. The operator uses no change-detecting handlers, timers or daemons of kopf:
each would need a write and a finalizer for every object.

SIGTERM ends the process in order: reconciliations in progress are finished, then the Lease is released. If the Lease
is lost, the process exits at once: another replica may be active, and the lock of the cluster refuses the pending
writes of this process. The log on standard error has one JSON object per line, or text.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import logging
import os
import signal
import socket
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import kopf
from aiohttp import web
from msgspec import Struct
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from pythonjsonlogger.json import JsonFormatter

from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes import client
from topiarist.kubernetes.informer import Definitions, Informers
from topiarist.kubernetes.manager import Manager
from topiarist.kubernetes.status_writer import EventRecorder
from topiarist.schema import load

# HTTP server of the operator for kubelet and Prometheus: ``/healthz``, ``/readyz`` and ``/metrics``.
#
# ``main`` starts it. A process is healthy if its event loop answers and its reconciliations end. It is ready if it has
# listed all resources and may do its work, or waits for the Lease. Neither depends on a Kafka cluster, because a
# restart of the operator would not repair it.

RECONCILE_TIMEOUT_S = 1800.0
"""Seconds that one reconciliation may take; after a longer one, its cluster counts as stuck."""

MAX_JITTER = 1.1
"""The longest pause between two reconciliations, in periods."""


class Probes:
    """An HTTP server for probes and metrics.

    ``last_completed`` returns each cluster with the ``time.monotonic`` time of its last completed reconciliation.
    ``problems`` returns why the operator cannot do its work, one text for each cause. ``period`` are the seconds from
    one reconciliation to the next: a cluster is not stuck while it waits for it.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        last_completed: Callable[[], Iterable[tuple[str, float]]],
        problems: Callable[[], Iterable[str]],
        period: float,
    ) -> None:
        self.ready = False
        self._registry = registry
        self._last_completed = last_completed
        self._problems = problems
        self._timeout_s = RECONCILE_TIMEOUT_S + MAX_JITTER * period
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Start to listen; return the port, which is a free one if ``port`` is 0.

        An empty ``host`` means all IPv4 and IPv6 addresses. Raises ``WrongUsage`` if the address cannot be used.
        """
        app = web.Application()
        app.add_routes(
            [web.get("/healthz", self._healthz), web.get("/readyz", self._readyz), web.get("/metrics", self._metrics)]
        )
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site: web.BaseSite = web.TCPSite(self._runner, host or "0.0.0.0", port)
        try:
            if not host and socket.has_dualstack_ipv6():
                both = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
                site = web.SockSite(self._runner, both)
            await site.start()
        except OSError as error:
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            message = f"cannot listen on port {port} of {host or 'all addresses'}: {why}"
            raise TopiaristError(Reason.WRONG_USAGE, message, "give another address: --listen") from error
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Stop to listen; do nothing if the server was not started."""
        if self._runner:
            await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        stuck = [name for name, ended in self._last_completed() if time.monotonic() - ended > self._timeout_s]
        if stuck:
            return web.Response(
                status=500, text=f"no reconciliation has completed for too long: {', '.join(sorted(stuck))}\n"
            )
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        problems = [*self._problems()] if self.ready else ["not everything is listed yet"]
        if problems:
            return web.Response(status=503, text="".join(f"{each}\n" for each in problems))
        return web.Response(text="ok\n")

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


_JSON_FIELD_NAMES: Mapping[str, str] = {"levelname": "level", "name": "logger", "exc_info": "exception"}

RETRY_DELAY_S = 2.0
"""Seconds between two attempts to reach the API server at the start."""

log = logging.getLogger(__name__)


def configure_logging(log_format: str, level: str = "info") -> None:
    """Configure logging as ``json`` or ``text`` from ``level`` up; of kopf from ``warning`` up."""
    handler = logging.StreamHandler(sys.stderr)
    if log_format == "json":
        handler.setFormatter(
            JsonFormatter("%(levelname)s %(name)s %(message)s", rename_fields=_JSON_FIELD_NAMES, timestamp="time")
        )
    else:
        handler.setFormatter(_TextFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("kopf").setLevel(max(logging.WARNING, logging.getLogger().level))  # INFO: a line for each event
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)


class _TextFormatter(logging.Formatter):
    """A formatter that appends a record's extra fields to the line as ``key=value``."""

    _standard_fields = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}

    def format(self, record: logging.LogRecord) -> str:
        more = [f"{key}={value}" for key, value in vars(record).items() if key not in self._standard_fields]
        return " ".join([super().format(record), *more])


class OperatorOptions(Struct, frozen=True):
    """The options of the operator process.

    ``namespaces`` are the watched namespaces; empty: all. An empty ``host`` means all addresses. An empty ``owner`` is
    derived from the uid of the Kubernetes cluster.

    ``period`` is the number of seconds after which a cluster is reconciled without an event. The ``lease_*`` options
    are the seconds of ``LeaseTimings``.
    """

    namespace: str
    release: str = "topiarist"
    owner: str = ""
    operator_class: str = ""
    namespaces: tuple[str, ...] = ()
    leader_election: bool = False
    host: str = ""
    port: int = 8080
    period: float = 60.0
    log_format: str = "json"
    log_level: str = "info"
    lease_duration: float = 15.0
    lease_renewal: float = 10.0
    lease_retry: float = 2.0

    @property
    def watched_namespaces(self) -> tuple[str, ...]:
        """The watched namespaces, including the operator's own; empty: all."""
        return tuple(sorted({self.namespace, *self.namespaces})) if self.namespaces else ()


def run(options: OperatorOptions) -> int:
    """Run the operator until a signal; return the exit code.

    Raises ``TopiaristError`` if the operator cannot start or cannot continue.
    """
    configure_logging(options.log_format, options.log_level)
    gc.enable()  # the command line disables it, because a short-lived process does not need it
    return asyncio.run(_run_kopf(options))


def login(**_: Any) -> kopf.ConnectionInfo:
    """Log in with the pod's ServiceAccount or a kubeconfig.

    Raises ``CredentialsInvalid`` if there is neither, or the kubeconfig or its certificates cannot be used.
    """
    settings = kopf.OperatorSettings()
    try:
        found = kopf.login_with_service_account(settings=settings) or kopf.login_with_kubeconfig(settings=settings)
        if found:
            found.as_ssl_context()
            if not urlsplit(found.server or "").scheme:
                raise kopf.LoginError(f"found server {found.server}, wanted an address such as https://127.0.0.1:6443")
    except Exception as error:  # kopf reads the file without checks: any error of YAML, base64, a certificate, a type
        known = isinstance(error, OSError | kopf.LoginError)
        why = " ".join(f"{'' if known else f'{type(error).__name__}: '}{error}".split())
        message, hint = f"the kubeconfig cannot be used: {why}", "set KUBECONFIG to a file that kubectl can use"
        raise TopiaristError(Reason.CREDENTIALS_INVALID, message, hint) from error
    if found is None:
        message = "found neither the token of a ServiceAccount nor a kubeconfig"
        raise TopiaristError(Reason.CREDENTIALS_INVALID, message, "run it in a pod, or set KUBECONFIG")
    return found


async def _run_kopf(options: OperatorOptions) -> int:
    operator, others = _Operator(options), asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        memo=kopf.Memo(operator=operator), namespaces=[options.namespace], standalone=True, stop_flag=operator.stopping
    )
    for number in (signal.SIGTERM, signal.SIGINT):  # in place of kopf's: the exit code depends on the signal
        asyncio.get_running_loop().add_signal_handler(number, operator.end_by, number)
    try:
        await kopf.run_tasks(tasks, ignored=others)
    except Exception as error:
        message = f"watching the API server has ended: {error}"
        operator.error = operator.error or TopiaristError(Reason.UNREACHABLE, message)
    if operator.error:
        raise operator.error
    return operator.exit_code


class _Operator:
    """The parts of the operator process, and its background tasks.

    ``stopping`` ends kopf. ``error`` is the error that ends the process, if any.
    """

    def __init__(self, options: OperatorOptions) -> None:
        self._options = options
        self.stopping = asyncio.Event()
        self.exit_code = 0
        self.error: BaseException | None = None
        self.events = EventRecorder()
        self.instance = f"{socket.gethostname()}_{uuid.uuid4()}"
        self._tasks: set[asyncio.Task[None]] = set()
        self._api = api = client.KubernetesClient(login)
        self.manager = Manager(
            *(api, options.namespace, options.operator_class, options.period, self.events.record),
            options.watched_namespaces,
        )
        metrics, manager = self.manager.metrics, self.manager
        self._probes = Probes(metrics.registry, manager.last_completed, manager.problems, options.period)
        self._lease: client.Lease | None = None
        self._stack = contextlib.AsyncExitStack()
        self.informers: Informers

    def end_by(self, number: signal.Signals) -> None:
        """End the process because of a signal."""
        self.exit_code = 130 if number == signal.SIGINT else 0
        self.stopping.set()

    async def begin(self) -> None:
        """Start everything; return when this process leads and has listed all resources.

        kopf watches nothing before. Raises ``TopiaristError`` if the operator cannot start.
        """
        try:
            await self._stack.enter_async_context(self._api)
            await self._start_parts()
        except BaseException as error:  # kopf does not call the cleanup handler if the start fails or is cancelled
            if not isinstance(error, asyncio.CancelledError):
                self.error = error
            await asyncio.shield(self.end())
            raise

    async def end(self) -> None:
        """Finish the reconciliations in progress, then end everything and release the Lease."""
        self.stopping.set()  # otherwise kopf waits 5 seconds for its own task that waits for this
        await self.manager.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._lease:
            await self._lease.release()
        await self._stack.aclose()

    async def _start_parts(self) -> None:
        options, api, manager = self._options, self._api, self.manager
        port = await self._probes.start(options.host, options.port)
        self._stack.push_async_callback(self._probes.stop)
        log.info("listening", extra={"port": port})
        leader = manager.metrics.leader.labels(options.release)  # served as 0 from now on
        lease_name = options.release if options.leader_election else ""
        rights = [*client.required_rights(options.namespace, options.watched_namespaces, lease=lease_name)]
        if not options.owner:
            rights.append(client.IDENTITY_RIGHT)
        await _retry_until_answered(lambda: client.require_rights(api, rights))
        await _retry_until_answered(self._set_owner)
        if options.leader_election:
            self._probes.ready = True  # a standby is ready: it only waits for the Lease
            timings = client.LeaseTimings(options.lease_duration, options.lease_renewal, options.lease_retry)
            self._lease = client.Lease(api, options.namespace, options.release, self.instance, timings)
            await self._lease.acquire(lambda holder: log.info("waiting for the Lease", extra={"holder": holder}))
            log.info("the Lease is acquired")
            self._spawn(_hold_lease(self._lease))
        leader.set(1)
        definitions = Definitions(api, manager.set_definitions)
        await _retry_until_answered(definitions.refresh)
        self.informers = Informers(
            api,
            manager.store,
            options.watched_namespaces,
            options.period,
            on_relist=manager.enqueue_all,
            on_unavailable=manager.set_unavailable_namespaces,
        )
        await _retry_until_answered(self.informers.refresh)
        self._probes.ready = True
        manager.start()
        self._spawn(self.informers.run())
        self._spawn(definitions.run())
        self._spawn(manager.kafka_topics.run())
        self._spawn(client.monitor_rights(api, rights, manager.set_missing_rights))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a background task; its failure ends the process."""

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()):
                self.error = self.error or error
                self.stopping.set()

        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(done)

    async def _set_owner(self) -> None:
        """Set the owner of the release, from the options or from the uid of ``kube-system``.

        Two Kubernetes clusters that manage one Kafka cluster need different owners. The uid of ``kube-system`` is
        constant for the life of a Kubernetes cluster; its first 8 characters distinguish the clusters. Raises
        ``PrerequisiteMissing`` if there is no such namespace.
        """
        options, owner = self._options, self._options.owner
        if not owner:
            try:
                uid = (await self._api.get(f"/api/v1/namespaces/{client.IDENTITY_RIGHT.name}"))["metadata"]["uid"]
            except client.ApiError as error:
                if not error.not_found:
                    raise
                message = f"there is no namespace {client.IDENTITY_RIGHT.name}; its uid identifies a Kubernetes cluster"
                hint = "set the owner of the records: --owner"
                raise TopiaristError(Reason.PREREQUISITE_MISSING, message, hint) from error
            owner = f"k8s/{uid[:8]}/{options.namespace}/{options.release}"
        self.manager.store.owner = owner
        log.info("serving", extra={"owner": owner, "class": options.operator_class})


async def _hold_lease(lease: client.Lease) -> None:
    await lease.renew_until_lost()
    log.error("the Lease is lost: another replica may be active, this process ends")
    os._exit(1)


async def _retry_until_answered(call: Callable[[], Awaitable[None]]) -> None:
    """Repeat ``call`` until the API server answers.

    Raises ``TopiaristError`` if the error is not retryable.
    """
    while True:
        try:
            return await call()
        except client.ApiError as error:
            if error.not_found:
                message = f"the API server does not know topiarist's kinds: {error}"
                hint = "install the CRDs: kubectl apply --server-side -f manifests/crds"
                raise TopiaristError(Reason.PREREQUISITE_MISSING, message, hint) from error
            if not error.retryable:
                raise TopiaristError(Reason.NO_PERMISSION, str(error)) from error
            log.warning("the API server does not answer", extra={"error": str(error)})
            await asyncio.sleep(max(RETRY_DELAY_S, error.retry_after))


@kopf.on.startup(errors=kopf.ErrorsMode.PERMANENT)
async def begin(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
    """Configure kopf and start the operator. A standby stays in this handler until it holds the Lease."""
    operator: _Operator = memo.operator
    settings.scanning.disabled = True  # the kinds are fixed, and the operator has no right to list definitions
    settings.watching.server_timeout = 600
    settings.watching.inactivity_timeout = 90  # bookmarks arrive about once a minute
    settings.networking.request_timeout, settings.networking.connect_timeout = 30, 10
    # Forever: after its last attempt kopf ends the whole operator if the API server answers with an error.
    settings.networking.error_backoffs = itertools.repeat(2.0)
    settings.posting.default_backoffs = (1, 2, 4, 8)
    settings.posting.worker_limit = 8
    settings.posting.idle_timeout = 0.01  # a worker that waits for more Events of its object blocks other objects
    settings.posting.reporting_component = f"{load.API_GROUP}/operator"
    settings.posting.reporting_instance = operator.instance
    settings.posting.event_name_prefix = "topiarist-"
    try:
        await operator.begin()
    except Exception as error:
        raise kopf.PermanentError(str(error)) from error


kopf.on.login()(login)


@kopf.on.event(load.API_GROUP, "v1", "clusters")
async def on_cluster(type: str | None, body: kopf.Body, memo: kopf.Memo, **_: Any) -> None:
    """Pass an event of a Cluster in the operator's namespace on to the informers."""
    operator: _Operator = memo.operator
    operator.events.attach()
    operator.informers.clusters.handle({"type": type, "object": dict(body)})


@kopf.on.cleanup()
async def end(memo: kopf.Memo, **_: Any) -> None:
    """End the operator; kopf has ended its watches before."""
    await memo.operator.end()

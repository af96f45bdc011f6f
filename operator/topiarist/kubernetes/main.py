"""The operator process: login, rights check, leader election, initial lists, watches, logging.

The command line calls ``run``; it connects ``manager``, ``informer``, ``namespaces``, ``probes`` and the Lease.
SIGTERM ends the process in order: reconciliations in progress are finished, then the Lease is released. If the Lease is
lost, the process exits at once: another replica may be active, and the lock in ZooKeeper refuses the pending writes of
this process. The log on standard error has one JSON object per line, or text.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import re
import signal
import socket
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import kopf
from pythonjsonlogger.json import JsonFormatter

from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes import informer
from topiarist.kubernetes.api.client import ApiError, KubernetesClient
from topiarist.kubernetes.api.lease import Lease, LeaseTimings
from topiarist.kubernetes.api.rbac_check import IDENTITY_RIGHT, require_rights, required_rights
from topiarist.kubernetes.manager import Manager
from topiarist.kubernetes.namespaces import WatchedNamespaces
from topiarist.kubernetes.probes import Probes
from topiarist.text import printable

WATCH_ERROR_INTERVAL_S = 60.0
"""Minimum seconds between two log lines about failing watches."""

_FAILED_ATTEMPT = re.compile(r"Request attempt #\d+/\d+ failed")
_WATCH_FAILED_MESSAGE = "the API server cannot be watched: this is tried again until it can"

_JSON_FIELD_NAMES: Mapping[str, str] = {"levelname": "level", "name": "logger", "exc_info": "exception"}


def configure_logging(log_format: str, level: str = "info") -> None:
    """Configure logging as ``json`` or ``text`` from ``level`` up; of kopf only errors are logged."""
    handler = logging.StreamHandler(sys.stderr)
    if log_format == "json":
        handler.setFormatter(
            JsonFormatter("%(levelname)s %(name)s %(message)s", rename_fields=_JSON_FIELD_NAMES, timestamp="time")
        )
    else:
        handler.setFormatter(_TextFormatter("%(asctime)s %(levelname)s %(message)s"))
    handler.addFilter(_WatchErrorFilter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # kopf logs each failed attempt of a watch twice, by this logger and under "watching": one line is enough.
    logging.getLogger("kopf").setLevel(logging.ERROR)
    logging.getLogger("kopf._cogs.clients.errors").setLevel(logging.CRITICAL)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)


class _WatchErrorFilter(logging.Filter):
    """A filter that limits kopf's log lines about failed watch attempts to one per minute.

    Three watches that cannot connect log four lines per second. The remaining line gets a clear message.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last_logged_at = -WATCH_ERROR_INTERVAL_S
        self._dropped = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record; replace the message of a failed watch attempt."""
        text = record.getMessage()
        if not record.name.startswith("kopf") or not _FAILED_ATTEMPT.match(text):
            return True
        now = time.monotonic()
        if now - self._last_logged_at < WATCH_ERROR_INTERVAL_S:
            self._dropped += 1
            return False
        record.msg, record.args, record.levelno, record.levelname = (
            _WATCH_FAILED_MESSAGE,
            (),
            logging.WARNING,
            "WARNING",
        )
        record.exc_info = record.exc_text = None
        vars(record).update(error=printable(text.partition(" -> ")[2] or text, 200), attempts=self._dropped + 1)
        self._last_logged_at, self._dropped = now, 0
        return True


class _TextFormatter(logging.Formatter):
    """A formatter that appends a record's extra fields to the line as ``key=value``."""

    _standard_fields = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "exc_text", "taskName"}

    def format(self, record: logging.LogRecord) -> str:
        more = [f"{key}={value}" for key, value in vars(record).items() if key not in self._standard_fields]
        return " ".join([super().format(record), *more])


NAMESPACE_RETRY_INTERVAL_S = 15.0
"""Seconds after which an unavailable namespace is checked again."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """The options of the operator process.

    ``namespaces`` are the watched namespaces; empty: all. An empty ``host`` means all addresses. An empty ``owner`` is
    derived from the uid of the Kubernetes cluster.

    ``period`` is the number of seconds after which a cluster is reconciled without an event. ``relist`` is the number
    of seconds after which everything is listed again, because an interrupted watch may miss a deletion. The
    ``lease_*`` options are the seconds of ``LeaseTimings``.
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
    relist: float = 300.0
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
    try:
        return asyncio.run(_run_operator(options))
    except ExceptionGroup as group:
        raise _root_error(group) from group


def _root_error(group: ExceptionGroup[Exception]) -> Exception:
    """Return the first error of a group: the other tasks were cancelled because of it."""
    error: Exception = group
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def login() -> kopf.ConnectionInfo:
    """Log in with the pod's ServiceAccount or a kubeconfig.

    Raises ``CredentialsInvalid`` if there is neither, or the kubeconfig cannot be used.
    """
    settings = informer.build_kopf_settings()
    try:
        found = kopf.login_with_service_account(settings=settings) or kopf.login_with_kubeconfig(settings=settings)
    except (OSError, kopf.LoginError) as error:
        message, hint = f"the kubeconfig cannot be used: {error}", "set KUBECONFIG to a file that can be read"
        raise TopiaristError(Reason.CREDENTIALS_INVALID, message, hint) from error
    if found is None:
        message = "found neither the token of a ServiceAccount nor a kubeconfig"
        raise TopiaristError(Reason.CREDENTIALS_INVALID, message, "run it in a pod, or set KUBECONFIG")
    return found


async def _run_operator(options: OperatorOptions) -> int:
    stop, ended_by = asyncio.Event(), list[int]()

    def end(number: signal.Signals) -> None:
        ended_by.append(number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end, number)
    identity = f"{socket.gethostname()}_{uuid.uuid4()}"
    async with KubernetesClient(login) as api:
        controller = Manager(api, options.namespace, options.operator_class, identity, options.period)
        probes = Probes(controller.metrics.registry, controller.last_completed)
        port = await probes.start(options.host, options.port)
        log.info("listening", extra={"port": port})
        try:
            async with asyncio.TaskGroup() as tasks:
                work = tasks.create_task(_run_as_leader(options, api, controller, probes, identity))
                await stop.wait()
                work.cancel()
        finally:
            await probes.stop()
    return 130 if ended_by[0] == signal.SIGINT else 0


async def _run_as_leader(
    options: OperatorOptions, api: KubernetesClient, manager: Manager, probes: Probes, identity: str
) -> None:
    """Check the rights, acquire the Lease, and run the manager.

    The function returns only by an error or cancellation. There is no Lease without leader election. The process exits
    with code 1 when the Lease is lost.
    """
    terms = LeaseTimings(options.lease_duration, options.lease_renewal, options.lease_retry)
    lease = Lease(api, options.namespace, options.release, identity, terms) if options.leader_election else None
    leader = manager.metrics.leader.labels(options.release)
    leader.set(0)
    rights = [*required_rights(options.namespace, options.watched_namespaces, lease=options.release if lease else "")]
    if not options.owner:
        rights.append(IDENTITY_RIGHT)
    await _retry_until_answered(lambda: require_rights(api, rights))
    await _retry_until_answered(lambda: _set_owner(options, api, manager))
    if lease:
        probes.ready = True  # a standby is ready: it only waits for the Lease

        def waiting(holder: str) -> None:
            log.info("waiting for the Lease", extra={"holder": holder})

        await lease.acquire(waiting)
        log.info("the Lease is ours")
    leader.set(1)
    try:
        async with asyncio.TaskGroup() as tasks:
            if lease:
                tasks.create_task(_hold_lease(lease))
            places = WatchedNamespaces(options.watched_namespaces)
            await _refresh_all(api, manager, places, is_first=True)
            probes.ready = True
            tasks.create_task(manager.run())
            tasks.create_task(_relist_periodically(options, api, manager, places))
            tasks.create_task(_watch_namespaces(manager, places))
    finally:
        if lease:
            await asyncio.shield(lease.release())


async def _set_owner(options: OperatorOptions, api: KubernetesClient, manager: Manager) -> None:
    """Set the manager's owner, from the options or from the uid of ``kube-system``.

    Two Kubernetes clusters that manage one Kafka cluster need different owners. The uid of ``kube-system`` is constant
    for the life of a Kubernetes cluster; its first 8 characters distinguish the clusters. Raises
    ``PrerequisiteMissing`` if there is no such namespace.
    """
    owner = options.owner
    if not owner:
        try:
            uid = (await api.get(f"/api/v1/namespaces/{IDENTITY_RIGHT.name}"))["metadata"]["uid"]
        except ApiError as error:
            if not error.not_found:
                raise
            message = f"there is no namespace {IDENTITY_RIGHT.name}, by which Kubernetes clusters are told apart"
            raise TopiaristError(Reason.PREREQUISITE_MISSING, message, "say whose the records are: --owner") from error
        owner = f"k8s/{uid[:8]}/{options.namespace}/{options.release}"
    manager.set_owner(owner)
    log.info("serving", extra={"owner": owner, "class": options.operator_class})


async def _hold_lease(lease: Lease) -> None:
    await lease.renew_until_lost()
    log.error("the Lease is lost: another replica may be at work, this one ends")
    os._exit(1)


async def _refresh_all(
    api: KubernetesClient, manager: Manager, namespaces: WatchedNamespaces, *, is_first: bool = False
) -> None:
    """List all resources into the store; retry until the API server answers."""
    await _retry_until_answered(lambda: namespaces.refresh(manager.store, api, first=is_first))
    manager.set_unavailable_namespaces(namespaces.unavailable)


async def _watch_namespaces(manager: Manager, namespaces: WatchedNamespaces) -> None:
    """Watch the available namespaces; restart the watch when their set changes.

    Raises ``TopiaristError`` if the watch ends.
    """
    while True:
        namespaces.changed.clear()
        watching = asyncio.create_task(informer.watch(manager.store, login, namespaces.available))
        changed = asyncio.create_task(namespaces.changed.wait())
        try:
            await asyncio.wait((watching, changed), return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()
        finally:
            changed.cancel()
            watching.cancel()
            await asyncio.gather(watching, changed, return_exceptions=True)


async def _retry_until_answered(call: Callable[[], Awaitable[None]]) -> None:
    """Repeat ``call`` until the API server answers.

    Raises ``TopiaristError`` if the error is not retryable.
    """
    while True:
        try:
            return await call()
        except ApiError as error:
            if error.not_found:
                message = f"the API server does not know our kinds: {error}"
                hint = "install the definitions: kubectl apply --server-side -f manifests/crds"
                raise TopiaristError(Reason.PREREQUISITE_MISSING, message, hint) from error
            if not error.retryable:
                raise TopiaristError(Reason.NO_PERMISSION, str(error)) from error
            log.warning("the API server cannot be asked", extra={"error": str(error)})
            await asyncio.sleep(2.0)


async def _relist_periodically(
    options: OperatorOptions, api: KubernetesClient, manager: Manager, namespaces: WatchedNamespaces
) -> None:
    while True:
        await asyncio.sleep(
            min(options.relist, NAMESPACE_RETRY_INTERVAL_S) if namespaces.unavailable else options.relist
        )
        await _refresh_all(api, manager, namespaces)

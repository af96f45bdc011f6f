"""The operator's log on standard error: one JSON object a line, or text for a person.

The operator as a process: log in, ask for our rights, wait for the Lease, see everything once, watch and work.

SIGTERM ends it in order: what is under way is finished, the Lease is given up. Losing the Lease ends it at once:
another replica is at work already, and the lock in ZooKeeper refuses whatever we still had under way.
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
"""Seconds between two lines about watches that fail."""

_FAILED_ATTEMPT = re.compile(r"Request attempt #\d+/\d+ failed")
_WATCH_FAILED_MESSAGE = "the API server cannot be watched: this is tried again until it can"

_JSON_FIELD_NAMES: Mapping[str, str] = {"levelname": "level", "name": "logger", "exc_info": "exception"}


def configure_logging(log_format: str, level: str = "info") -> None:
    """Log from here on, as ``json`` or ``text``, from this ``level`` up; of kopf only what a person has to know."""
    handler = logging.StreamHandler(sys.stderr)
    if log_format == "json":
        handler.setFormatter(
            JsonFormatter("%(levelname)s %(name)s %(message)s", rename_fields=_JSON_FIELD_NAMES, timestamp="time")
        )
    else:
        handler.setFormatter(_TextFormatter("%(asctime)s %(levelname)s %(message)s"))
    handler.addFilter(_WatchErrorFilter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # kopf logs each failed attempt of a watch twice, here and under "watching": one of both is enough.
    logging.getLogger("kopf").setLevel(logging.ERROR)
    logging.getLogger("kopf._cogs.clients.errors").setLevel(logging.CRITICAL)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)


class _WatchErrorFilter(logging.Filter):
    """A filter that lets one line a minute through of what kopf logs for each failed attempt of each watch.

    Three watches that cannot connect log four lines a second. The line that is left says what it means.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last_logged_at = -WATCH_ERROR_INTERVAL_S
        self._dropped = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged; a line about a failed attempt gets words of its own."""
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
    """A line with what else is known of it at its end."""

    _standard_fields = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "exc_text", "taskName"}

    def format(self, record: logging.LogRecord) -> str:
        more = [f"{key}={value}" for key, value in vars(record).items() if key not in self._standard_fields]
        return " ".join([super().format(record), *more])


NAMESPACE_RETRY_INTERVAL_S = 15.0
"""Seconds after which a namespace that is away is looked for again."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """What the operator was told: its namespace and release, whose Topics count (none: all), and where it listens (no
    host: on all addresses). Without an ``owner`` it finds out which Kubernetes cluster it is in.

    ``period`` and ``relist`` are seconds: after the one a cluster is looked at anew, after the other everything is
    listed again, since a watch that broke may have missed that something is gone. The seconds of a Lease are those of
    ``lease.Terms``.
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
        """The namespaces that are watched; none: all."""
        return tuple(sorted({self.namespace, *self.namespaces})) if self.namespaces else ()


def run(options: OperatorOptions) -> int:
    """Run until a signal comes; gives the exit code. Raises ``TopiaristError`` if it cannot begin, or go on."""
    configure_logging(options.log_format, options.log_level)
    gc.enable()  # the command line, which is short-lived, does without
    try:
        return asyncio.run(_run_operator(options))
    except ExceptionGroup as group:
        raise _root_error(group) from group


def _root_error(group: ExceptionGroup[Exception]) -> Exception:
    """Why the tasks of the operator have ended: one says it, the others were cancelled."""
    error: Exception = group
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def login() -> kopf.ConnectionInfo:
    """As the pod's ServiceAccount, or by a kubeconfig. Raises ``CredentialsInvalid`` if there is neither."""
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
    """Wait for the Lease if there is one, and work as long as it is ours."""
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
        probes.ready = True  # a standby is as ready as it can be

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
    """Have the controller know as whom it writes: two Kubernetes clusters that manage one Kafka cluster are two owners.

    The uid of ``kube-system`` stays for as long as the Kubernetes cluster does; a part of it tells two apart.
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
    """List everything, as often as it takes."""
    await _retry_until_answered(lambda: namespaces.refresh(manager.store, api, first=is_first))
    manager.set_unavailable_namespaces(namespaces.unavailable)


async def _watch_namespaces(manager: Manager, namespaces: WatchedNamespaces) -> None:
    """Watch the namespaces that are there: anew when one has gone, or is back. Raises what ends a watch."""
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
    """Ask the API server until it answers. Raises ``TopiaristError`` if asking again would not help."""
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

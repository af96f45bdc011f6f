"""The operator as a process: log in, ask for our rights, wait for the Lease, see everything once, watch and work.

SIGTERM ends it in order: what is under way is finished, the Lease is given up. Losing the Lease ends it at once:
another replica is at work already, and the lock in ZooKeeper refuses whatever we still had under way.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import kopf

from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes import handlers, logs
from topiarist.kubernetes.api import Api, ApiError
from topiarist.kubernetes.controller import Controller
from topiarist.kubernetes.lease import Lease, Terms
from topiarist.kubernetes.places import Places
from topiarist.kubernetes.probes import Probes
from topiarist.kubernetes.rights import IDENTITY, require_rights, wanted

SEARCH = 15.0
"""Seconds after which a namespace that is away is looked for again."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Words:
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
    def watched(self) -> tuple[str, ...]:
        """The namespaces that are watched; none: all."""
        return tuple(sorted({self.namespace, *self.namespaces})) if self.namespaces else ()


def run(words: Words) -> int:
    """Run until a signal comes; gives the exit code. Raises ``TopiaristError`` if it cannot begin, or go on."""
    logs.begin(words.log_format, words.log_level)
    gc.enable()  # the command line, which is short-lived, does without
    try:
        return asyncio.run(_run(words))
    except ExceptionGroup as group:
        raise _first(group) from group


def _first(group: ExceptionGroup[Exception]) -> Exception:
    """Why the tasks of the operator have ended: one says it, the others were cancelled."""
    error: Exception = group
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def login() -> kopf.ConnectionInfo:
    """As the pod's ServiceAccount, or by a kubeconfig. Raises ``CredentialsInvalid`` if there is neither."""
    settings = handlers.settings()
    try:
        found = kopf.login_with_service_account(settings=settings) or kopf.login_with_kubeconfig(settings=settings)
    except (OSError, kopf.LoginError) as error:
        message, hint = f"the kubeconfig cannot be used: {error}", "set KUBECONFIG to a file that can be read"
        raise TopiaristError(Reason.CREDENTIALS_INVALID, message, hint) from error
    if found is None:
        message = "found neither the token of a ServiceAccount nor a kubeconfig"
        raise TopiaristError(Reason.CREDENTIALS_INVALID, message, "run it in a pod, or set KUBECONFIG")
    return found


async def _run(words: Words) -> int:
    stop, ended_by = asyncio.Event(), list[int]()

    def end(number: signal.Signals) -> None:
        ended_by.append(number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end, number)
    identity = f"{socket.gethostname()}_{uuid.uuid4()}"
    async with Api(login) as api:
        controller = Controller(api, words.namespace, words.operator_class, identity, words.period)
        probes = Probes(controller.metrics.registry, controller.alive)
        port = await probes.start(words.host, words.port)
        log.info("listening", extra={"port": port})
        try:
            async with asyncio.TaskGroup() as tasks:
                work = tasks.create_task(_lead(words, api, controller, probes, identity))
                await stop.wait()
                work.cancel()
        finally:
            await probes.stop()
    return 130 if ended_by[0] == signal.SIGINT else 0


async def _lead(words: Words, api: Api, controller: Controller, probes: Probes, identity: str) -> None:
    """Wait for the Lease if there is one, and work as long as it is ours."""
    terms = Terms(words.lease_duration, words.lease_renewal, words.lease_retry)
    lease = Lease(api, words.namespace, words.release, identity, terms) if words.leader_election else None
    leader = controller.metrics.leader.labels(words.release)
    leader.set(0)
    rights = [*wanted(words.namespace, words.watched, lease=words.release if lease else "")]
    if not words.owner:
        rights.append(IDENTITY)
    await _answered(lambda: require_rights(api, rights))
    await _answered(lambda: _introduce(words, api, controller))
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
                tasks.create_task(_hold(lease))
            places = Places(words.watched)
            await _see(api, controller, places, first=True)
            probes.ready = True
            tasks.create_task(controller.run())
            tasks.create_task(_again(words, api, controller, places))
            tasks.create_task(_watch(controller, places))
    finally:
        if lease:
            await asyncio.shield(lease.release())


async def _introduce(words: Words, api: Api, controller: Controller) -> None:
    """Have the controller know as whom it writes: two Kubernetes clusters that manage one Kafka cluster are two owners.

    The uid of ``kube-system`` stays for as long as the Kubernetes cluster does; a part of it tells two apart.
    """
    owner = words.owner
    if not owner:
        try:
            uid = (await api.get(f"/api/v1/namespaces/{IDENTITY.name}"))["metadata"]["uid"]
        except ApiError as error:
            if not error.missing:
                raise
            message = f"there is no namespace {IDENTITY.name}, by which Kubernetes clusters are told apart"
            raise TopiaristError(Reason.PREREQUISITE_MISSING, message, "say whose the records are: --owner") from error
        owner = f"k8s/{uid[:8]}/{words.namespace}/{words.release}"
    controller.serve(owner)
    log.info("serving", extra={"owner": owner, "class": words.operator_class})


async def _hold(lease: Lease) -> None:
    await lease.hold()
    log.error("the Lease is lost: another replica may be at work, this one ends")
    os._exit(1)


async def _see(api: Api, controller: Controller, places: Places, *, first: bool = False) -> None:
    """List everything, as often as it takes."""
    await _answered(lambda: places.look(controller.store, api, first=first))
    controller.away(places.away)


async def _watch(controller: Controller, places: Places) -> None:
    """Watch the namespaces that are there: anew when one has gone, or is back. Raises what ends a watch."""
    while True:
        places.changed.clear()
        watching = asyncio.create_task(handlers.watch(controller.store, login, places.present))
        changed = asyncio.create_task(places.changed.wait())
        try:
            await asyncio.wait((watching, changed), return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()
        finally:
            changed.cancel()
            watching.cancel()
            await asyncio.gather(watching, changed, return_exceptions=True)


async def _answered(ask: Callable[[], Awaitable[None]]) -> None:
    """Ask the API server until it answers. Raises ``TopiaristError`` if asking again would not help."""
    while True:
        try:
            return await ask()
        except ApiError as error:
            if error.missing:
                message = f"the API server does not know our kinds: {error}"
                hint = "install the definitions: kubectl apply --server-side -f manifests/crds"
                raise TopiaristError(Reason.PREREQUISITE_MISSING, message, hint) from error
            if not error.retryable:
                raise TopiaristError(Reason.NO_PERMISSION, str(error)) from error
            log.warning("the API server cannot be asked", extra={"error": str(error)})
            await asyncio.sleep(2.0)


async def _again(words: Words, api: Api, controller: Controller, places: Places) -> None:
    while True:
        await asyncio.sleep(min(words.relist, SEARCH) if places.away else words.relist)
        await _see(api, controller, places)

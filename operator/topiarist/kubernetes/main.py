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
from topiarist.kubernetes import handlers, listing, logs
from topiarist.kubernetes.api import Api, ApiError
from topiarist.kubernetes.controller import Controller
from topiarist.kubernetes.lease import Lease
from topiarist.kubernetes.probes import Probes
from topiarist.kubernetes.rights import require_rights, wanted

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Words:
    """What the operator was told: its namespace and release, whose Topics count (none: all), and where it listens (no
    host: on all addresses).

    ``period`` and ``relist`` are seconds: after the one a cluster is looked at anew, after the other everything is
    listed again, since a watch that broke may have missed that something is gone.
    """

    namespace: str
    release: str = "topiarist"
    namespaces: tuple[str, ...] = ()
    leader_election: bool = False
    host: str = ""
    port: int = 8080
    period: float = 60.0
    relist: float = 300.0
    log_format: str = "json"

    @property
    def watched(self) -> tuple[str, ...]:
        """The namespaces that are watched; none: all."""
        return tuple(sorted({self.namespace, *self.namespaces})) if self.namespaces else ()

    @property
    def owner(self) -> str:
        """As whom the operator writes records."""
        return f"k8s/{self.namespace}/{self.release}"


def run(words: Words) -> int:
    """Run until a signal comes; gives the exit code. Raises ``TopiaristError`` if it cannot begin, or go on."""
    logs.begin(words.log_format)
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
        controller = Controller(api, words.namespace, words.owner, identity, words.period)
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
    lease = Lease(api, words.namespace, words.release, identity) if words.leader_election else None
    leader = controller.metrics.leader.labels(words.release)
    leader.set(0)
    rights = [*wanted(words.namespace, words.watched, lease=words.release if lease else "")]
    await _answered(lambda: require_rights(api, rights))
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
            await _see(words, api, controller)
            probes.ready = True
            tasks.create_task(controller.run())
            tasks.create_task(_again(words, api, controller))
            tasks.create_task(handlers.watch(controller.store, login, words.watched))
    finally:
        if lease:
            await asyncio.shield(lease.release())


async def _hold(lease: Lease) -> None:
    await lease.hold()
    log.error("the Lease is lost: another replica may be at work, this one ends")
    os._exit(1)


async def _see(words: Words, api: Api, controller: Controller) -> None:
    """List everything, as often as it takes."""

    async def listed() -> None:
        await listing.namespaces(controller.store, api, words.watched)
        await listing.fill(controller.store, api, words.watched)

    await _answered(listed)


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


async def _again(words: Words, api: Api, controller: Controller) -> None:
    while True:
        await asyncio.sleep(words.relist)
        await _see(words, api, controller)

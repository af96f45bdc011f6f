"""What kubelet and Prometheus hear: whether the operator is alive, whether it is ready, its figures, and where."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Gauge

from topiarist.kubernetes.main import RECONCILE_TIMEOUT_S, Probes

PLACES = [("", "127.0.0.1"), *([("", "[::1]"), ("::1", "[::1]")] if socket.has_dualstack_ipv6() else [])]

Ask = Callable[[str], Awaitable[tuple[int, str]]]


def played(probes: Probes, work: Callable[[Ask], Awaitable[None]], host: str = "127.0.0.1", at: str = "") -> None:
    """Have it listen on ``host``, ask it at another address if need be, and have it listen no more."""

    async def run() -> None:
        port = await probes.start(host, 0)
        try:
            async with aiohttp.ClientSession(f"http://{at or host}:{port}") as session:

                async def ask(path: str) -> tuple[int, str]:
                    async with session.get(path) as answer:
                        return answer.status, await answer.text()

                await work(ask)
        finally:
            await probes.stop()

    asyncio.run(run())


@pytest.mark.parametrize("period", [60.0, 7200.0])
def test_alive_is_a_process_whose_passes_end(period: float) -> None:
    """A pass that does not end is named, since only a restart helps. No server has to be reachable for it, and a long
    period is no standstill.
    """
    ended = {"prod": time.monotonic(), "test": time.monotonic()}
    probes = Probes(CollectorRegistry(), ended.items, list, period)

    async def work(ask: Ask) -> None:
        assert await ask("/healthz") == (200, "ok\n")
        ended["test"] -= 1.1 * period
        assert await ask("/healthz") == (200, "ok\n")
        ended["test"] -= RECONCILE_TIMEOUT_S
        assert await ask("/healthz") == (500, "no pass has completed for too long: test\n")

    played(probes, work)


def test_ready_is_what_has_seen_everything() -> None:
    """Before that the operator is alive, but not ready."""
    probes = Probes(CollectorRegistry(), lambda: (), list, 60.0)

    async def work(ask: Ask) -> None:
        assert await ask("/readyz") == (503, "not everything is listed yet\n")
        assert (await ask("/healthz"))[0] == 200
        probes.ready = True
        assert await ask("/readyz") == (200, "ok\n")

    played(probes, work)


def test_ready_is_what_may_do_its_work() -> None:
    """What the operator lacks is named; it is alive all the same, since a restart does not help."""
    problems = ["missing rights: patch topics"]
    probes = Probes(CollectorRegistry(), lambda: (), lambda: problems, 60.0)
    probes.ready = True

    async def work(ask: Ask) -> None:
        assert await ask("/readyz") == (503, "missing rights: patch topics\n")
        assert (await ask("/healthz"))[0] == 200
        problems.clear()
        assert await ask("/readyz") == (200, "ok\n")

    played(probes, work)


def test_figures_are_given() -> None:
    """In the form that Prometheus reads."""
    registry = CollectorRegistry()
    Gauge("topiarist_some", "Some.", registry=registry).set(7)

    async def work(ask: Ask) -> None:
        assert "\ntopiarist_some 7.0\n" in (await ask("/metrics"))[1]

    played(Probes(registry, lambda: (), list, 60.0), work)


@pytest.mark.parametrize(("host", "at"), PLACES)
def test_it_listens_where_it_is_asked(host: str, at: str) -> None:
    """Without a host on all addresses: a pod may have one of IPv6 alone."""

    async def work(ask: Ask) -> None:
        assert (await ask("/healthz"))[0] == 200

    played(Probes(CollectorRegistry(), lambda: (), list, 60.0), work, host, at)

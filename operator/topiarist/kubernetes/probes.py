"""What kubelet and Prometheus ask: ``/healthz``, ``/readyz`` and ``/metrics`` over HTTP.

Alive is a process whose event loop answers and whose passes end; ready is one that has seen everything, or waits for
its turn. That a ZooKeeper is up is neither: a restart would not bring it back.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

RECONCILE_TIMEOUT_S = 1800.0
"""Seconds after which a cluster whose pass has not ended counts as stuck."""


class Probes:
    """The server. ``alive`` gives each cluster with the time at which its loop last ended a pass."""

    def __init__(self, registry: CollectorRegistry, last_completed: Callable[[], Iterable[tuple[str, float]]]) -> None:
        self.ready = False
        self._registry = registry
        self._last_completed = last_completed
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen, without a host on all addresses of IPv4 and IPv6; gives the port, a free one if 0 was wanted."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site: web.BaseSite = web.TCPSite(self._runner, host or "0.0.0.0", port)
        if not host and socket.has_dualstack_ipv6():
            both = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
            site = web.SockSite(self._runner, both)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Listen no more."""
        if self._runner:
            await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        stuck = [name for name, ended in self._last_completed() if time.monotonic() - ended > RECONCILE_TIMEOUT_S]
        if stuck:
            return web.Response(status=500, text=f"no pass has ended for too long: {', '.join(sorted(stuck))}\n")
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n") if self.ready else web.Response(status=503, text="not all seen yet\n")

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

"""HTTP server of the operator for kubelet and Prometheus: ``/healthz``, ``/readyz`` and ``/metrics``.

``main`` starts it. A process is healthy if its event loop answers and its reconciliations end. It is ready if it has
listed all resources and may do its work, or waits for the Lease. Neither depends on a Kafka cluster, because a restart
of the operator would not repair it.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

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

        An empty ``host`` means all IPv4 and IPv6 addresses.
        """
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
        """Stop to listen; do nothing if the server was not started."""
        if self._runner:
            await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        stuck = [name for name, ended in self._last_completed() if time.monotonic() - ended > self._timeout_s]
        if stuck:
            return web.Response(status=500, text=f"no pass has completed for too long: {', '.join(sorted(stuck))}\n")
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        problems = [*self._problems()] if self.ready else ["not everything is listed yet"]
        if problems:
            return web.Response(status=503, text="".join(f"{each}\n" for each in problems))
        return web.Response(text="ok\n")

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

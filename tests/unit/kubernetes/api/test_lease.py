"""Holding the Lease: whoever slept for longer than it lasts asks nothing more."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from topiarist.kubernetes.api.client import KubernetesClient
from topiarist.kubernetes.api.lease import Lease, LeaseTimings


class Silent:
    """An API server that must not be asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def get(self, path: str) -> dict[str, Any]:
        """The Lease."""
        self.asked.append(path)
        return {"spec": {"holderIdentity": "us"}}


def test_a_leader_that_slept_too_long_ends_at_once() -> None:
    """Before it renews, which would let everything else go on that waits to be sent."""
    api = Silent()
    lease = Lease(
        cast(KubernetesClient, api),
        "shop",
        "topiarist",
        "us",
        LeaseTimings(duration=0.1, renew_deadline=0.01, retry_period=0.05),
    )
    asyncio.run(lease.renew_until_lost())
    assert api.asked == []

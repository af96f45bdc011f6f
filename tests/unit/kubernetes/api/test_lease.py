"""Holding the Lease: a leader that was suspended for longer than the Lease lasts sends no more requests."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from topiarist.kubernetes.api.client import KubernetesClient
from topiarist.kubernetes.api.lease import Lease, LeaseTimings


class Silent:
    """An API server that records requests; the test expects none."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def get(self, path: str) -> dict[str, Any]:
        """Return the Lease."""
        self.asked.append(path)
        return {"spec": {"holderIdentity": "us"}}


def test_a_leader_that_slept_too_long_ends_at_once() -> None:
    """A leader that was suspended for too long ends before it renews, so that no pending request is sent."""
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

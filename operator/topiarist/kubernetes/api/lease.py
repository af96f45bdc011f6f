"""Leader election among several replicas of the operator, by a Lease and the rules of controller-runtime.

Only the leader runs passes; the others wait and hold no watches. Time is measured here, from the moment at which a
change of the Lease was seen, so clocks need not agree. A leader that cannot renew in time must not go on: ``hold``
returns, and the process ends. That a leader which was stopped for longer writes nothing is not the Lease's doing but
that of the lock in ZooKeeper.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from topiarist.kubernetes.api import clock
from topiarist.kubernetes.api.client import ApiError, KubernetesClient


@dataclass(frozen=True, slots=True)
class LeaseTimings:
    """Seconds: how long a Lease counts, for how long its holder tries to renew it, and how often it is looked at."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


class Lease:
    """One Lease; ``identity`` is unique to this process."""

    def __init__(
        self, api: KubernetesClient, namespace: str, name: str, identity: str, timings: LeaseTimings = LeaseTimings()
    ) -> None:
        self._api = api
        self._collection_path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._name = name
        self._identity = identity
        self._timings = timings
        self._observed_spec: Any = None
        self._observed_at = 0.0

    async def acquire(self, on_waiting: Callable[[str], None]) -> None:
        """Return when the Lease is ours; ``on_waiting`` hears who holds it, at each change."""
        told = None
        while not await self._try_acquire():
            holder = (self._observed_spec or {}).get("holderIdentity") or ""
            if holder != told:
                on_waiting(holder)
                told = holder
            await asyncio.sleep(self._retry_delay())

    async def renew_until_lost(self) -> None:
        """Renew the Lease for as long as that succeeds in time; returns when it is lost."""
        renewed = time.monotonic()
        while time.monotonic() - renewed < self._timings.renew_deadline:
            await asyncio.sleep(self._timings.retry_period)
            left = self._timings.renew_deadline - (time.monotonic() - renewed)
            if left <= 0.0:  # we slept: whatever else waits to be sent must not go before we end
                return
            try:
                async with asyncio.timeout(left):
                    if await self._try_acquire():
                        renewed = time.monotonic()
                    elif self._observed_spec["holderIdentity"] != self._identity:
                        return
            except TimeoutError:
                return

    async def release(self) -> None:
        """Give the Lease up, if it is ours, so that nobody has to wait for its end."""
        try:
            found = await self._api.get(f"{self._collection_path}/{self._name}")
            if found["spec"].get("holderIdentity") == self._identity:
                spec = {
                    **found["spec"],
                    "holderIdentity": "",
                    "leaseDurationSeconds": 1,
                    "renewTime": clock.format_micro_time_now(),
                }
                await self._api.replace(f"{self._collection_path}/{self._name}", {**found, "spec": spec})
        except ApiError:
            return  # it ends by itself

    async def _try_acquire(self) -> bool:
        """Take the Lease or renew it, if nobody else holds it; False also if the API server cannot be asked."""
        try:
            try:
                found = await self._api.get(f"{self._collection_path}/{self._name}")
            except ApiError as error:
                if not error.not_found:
                    raise
                return await self._create()
            return await self._acquire_or_renew(found)
        except ApiError:
            return False

    async def _create(self) -> bool:
        metadata = {"name": self._name}
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": self._build_spec({}),
        }
        self._observe((await self._api.create(self._collection_path, body))["spec"])
        return True

    async def _acquire_or_renew(self, found: dict[str, Any]) -> bool:
        spec = found.get("spec") or {}
        self._observe(spec)
        holder = spec.get("holderIdentity")
        ends = self._observed_at + float(spec.get("leaseDurationSeconds") or 0)
        if holder and holder != self._identity and time.monotonic() < ends:
            return False
        body = {**found, "spec": self._build_spec(spec)}
        self._observe((await self._api.replace(f"{self._collection_path}/{self._name}", body))["spec"])
        return True

    def _observe(self, spec: dict[str, Any]) -> None:
        if spec != self._observed_spec:
            self._observed_spec, self._observed_at = spec, time.monotonic()

    def _build_spec(self, old: dict[str, Any]) -> dict[str, Any]:
        ours = old.get("holderIdentity") == self._identity
        now = clock.format_micro_time_now()
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._timings.duration),
            "acquireTime": old["acquireTime"] if ours else now,
            "renewTime": now,
            "leaseTransitions": old.get("leaseTransitions", 0) + (0 if ours or not old else 1),
        }

    def _retry_delay(self) -> float:
        return self._timings.retry_period * random.uniform(1.0, 1.2)

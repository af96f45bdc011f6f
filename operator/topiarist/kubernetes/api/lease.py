"""Leader election among replicas of the operator, by a Lease and the rules of controller-runtime.

``main`` acquires and renews the Lease. Only the leader reconciles; the other replicas wait and hold no watches. Time is
measured locally from the moment a change of the Lease is observed, so clocks need not agree. A leader that cannot renew
in time must stop: ``renew_until_lost`` returns, and the process exits. The Lease does not prevent writes of a leader
that was suspended for longer: the lock of the Kafka cluster does.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from topiarist.kubernetes.api import client
from topiarist.kubernetes.api.client import ApiError, KubernetesClient


class LeaseTimings(Struct, frozen=True):
    """The timings of a Lease, in seconds.

    ``duration``: validity of the Lease. ``renew_deadline``: time the holder has to renew it. ``retry_period``: interval
    between two attempts.
    """

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


class Lease:
    """A Lease that this process acquires and renews; ``identity`` is unique to the process."""

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
        """Wait until this process holds the Lease.

        ``on_waiting`` is called with the holder's identity each time that the holder changes.
        """
        told = None
        while not await self._try_acquire():
            holder = (self._observed_spec or {}).get("holderIdentity") or ""
            if holder != told:
                on_waiting(holder)
                told = holder
            await asyncio.sleep(self._timings.retry_period * random.uniform(1.0, 1.2))

    async def renew_until_lost(self) -> None:
        """Renew the Lease until it is lost, or was not renewed within ``renew_deadline``."""
        renewed = time.monotonic()
        while time.monotonic() - renewed < self._timings.renew_deadline:
            await asyncio.sleep(self._timings.retry_period)
            left = self._timings.renew_deadline - (time.monotonic() - renewed)
            if left <= 0.0:  # the process was suspended: end before any pending write is sent
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
        """Release the Lease if this process holds it.

        Without this, another replica would wait for its expiry. Errors of the API server are ignored.
        """
        try:
            found = await self._api.get(f"{self._collection_path}/{self._name}")
            if found["spec"].get("holderIdentity") == self._identity:
                found["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                found["spec"]["renewTime"] = client.format_micro_time_now()
                await self._api.replace(f"{self._collection_path}/{self._name}", found)
        except ApiError:
            return  # the Lease expires by itself

    async def _try_acquire(self) -> bool:
        """Acquire or renew the Lease, unless another replica holds it.

        Return whether this process holds the Lease now; False also if a request to the API server failed.
        """
        try:
            found = await self._api.get(f"{self._collection_path}/{self._name}")
        except ApiError as error:
            if not error.not_found:
                return False
            found = {}
        spec = found.get("spec") or {}
        self._observe(spec)
        holder = spec.get("holderIdentity")
        expires_at = self._observed_at + float(spec.get("leaseDurationSeconds") or 0)
        if holder and holder != self._identity and time.monotonic() < expires_at:
            return False
        is_renewal, now = holder == self._identity, client.format_micro_time_now()
        new = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._timings.duration),
            "acquireTime": spec["acquireTime"] if is_renewal else now,
            "renewTime": now,
            "leaseTransitions": spec.get("leaseTransitions", 0) + (0 if is_renewal or not spec else 1),
        }
        try:
            if found:
                path = f"{self._collection_path}/{self._name}"
                answer = await self._api.replace(path, {**found, "spec": new})
            else:
                body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self._name}}
                answer = await self._api.create(self._collection_path, {**body, "spec": new})
        except ApiError:
            return False
        self._observe(answer["spec"])
        return True

    def _observe(self, spec: dict[str, Any]) -> None:
        if spec != self._observed_spec:
            self._observed_spec, self._observed_at = spec, time.monotonic()

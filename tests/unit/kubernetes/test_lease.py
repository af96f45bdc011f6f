"""Holding the Lease, with a virtual clock: one holder at a time, which ends before another replica begins."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from support.virtual_time import loop_time, run_in_virtual_time
from topiarist.kubernetes import client
from topiarist.kubernetes.client import ApiError, KubernetesClient, Lease

LEASES = "/apis/coordination.k8s.io/v1/namespaces/shop/leases"
START = datetime(2026, 1, 1, tzinfo=UTC)

Work = Callable[[], Coroutine[Any, Any, None]]


class Server:
    """An API server with one Lease, which refuses a write from an old view of it; ``code`` is its error, if any."""

    def __init__(self, **spec: Any) -> None:
        self.lease: dict[str, Any] | None = None
        self.code: int | None = None
        self.write_code: int | None = None
        self.hangs = False
        self.asked_at: list[float] = []
        if spec:
            self.write(spec)

    def write(self, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
        """Store the spec of the Lease with a new resource version, and return the Lease."""
        old = self.lease["metadata"] if self.lease else {"name": "topiarist", "resourceVersion": "0"}
        version = str(int(old["resourceVersion"]) + 1)
        self.lease = {"metadata": {**old, **metadata, "resourceVersion": version}, "spec": dict(spec)}
        return deepcopy(self.lease)

    async def get(self, path: str) -> dict[str, Any]:
        """Return the Lease."""
        assert path == f"{LEASES}/topiarist"
        self.asked_at.append(loop_time())
        if self.hangs:
            await asyncio.Event().wait()
        if self.code or self.lease is None:
            raise ApiError(self.code or 404, "no")
        return deepcopy(self.lease)

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create the Lease."""
        assert path == LEASES
        assert (body["apiVersion"], body["kind"]) == ("coordination.k8s.io/v1", "Lease")
        assert body["metadata"] == {"name": "topiarist"}
        if self.write_code or self.lease:
            raise ApiError(self.write_code or 409, "already exists")
        return self.write(body["spec"])

    async def replace(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Replace the Lease if the body has its resource version."""
        assert path == f"{LEASES}/topiarist"
        assert self.lease is not None
        if self.write_code or body["metadata"] != self.lease["metadata"]:
            raise ApiError(self.write_code or 409, "the object has been modified")
        return self.write(body["spec"])

    @property
    def spec(self) -> dict[str, Any]:
        """The spec of the Lease."""
        assert self.lease is not None
        return cast(dict[str, Any], self.lease["spec"])


@pytest.fixture(autouse=True)
def _virtual_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the Lease read the clock of the loop, and wait without jitter."""
    monkeypatch.setattr(client, "time", SimpleNamespace(monotonic=loop_time))
    monkeypatch.setattr(client, "utc_now", lambda: START + timedelta(seconds=loop_time()))
    monkeypatch.setattr(random, "uniform", lambda least, most: least)


def lease_of(server: Server, identity: str = "us") -> Lease:
    """Return the Lease as one replica sees it, with the default timings."""
    return Lease(cast(KubernetesClient, server), "shop", "topiarist", identity)


def moment(seconds: float) -> str:
    """Return the time in a Lease, so many seconds after the start."""
    return f"{START + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S.%fZ}"


def held(by: str, **spec: Any) -> dict[str, Any]:
    """Return the spec of a Lease that a replica has acquired long ago."""
    acquired = {"acquireTime": moment(-900), "renewTime": moment(-900), "leaseTransitions": 4}
    return {"holderIdentity": by, "leaseDurationSeconds": 15, **acquired, **spec}


def acquired_at(server: Server, during: Work | None = None) -> tuple[float, list[str]]:
    """Acquire the Lease beside ``during``; return the seconds that it took, and the holders that were waited for."""
    holders: list[str] = []

    async def work() -> float:
        other = asyncio.create_task(during()) if during else None
        await lease_of(server).acquire(holders.append)
        done = loop_time()
        if other:
            await other
        return done

    return run_in_virtual_time(work), holders


@pytest.mark.parametrize(
    ("before", "transitions"),
    [({}, 0), (held(""), 5), (held("", leaseTransitions=0), 1), ({"holderIdentity": ""}, 1)],
    ids=["no Lease", "released", "first change of the holder", "without other fields"],
)
def test_a_free_lease_is_acquired_at_once(before: dict[str, Any], transitions: int) -> None:
    """A Lease without a holder is acquired at once, from now on, and counts one more change of its holder."""
    server = Server(**before)
    assert acquired_at(server) == (0.0, [])
    now = moment(0)
    times = {"acquireTime": now, "renewTime": now, "leaseDurationSeconds": 15}
    assert server.spec == {"holderIdentity": "us", "leaseTransitions": transitions, **times}


def test_a_lease_of_another_replica_is_acquired_when_it_has_expired() -> None:
    """The duration counts from the moment that a change was observed, so the clocks of two machines need not agree."""
    server = Server(**held("them", renewTime=moment(9_000)))

    async def renews() -> None:
        await asyncio.sleep(9.0)
        server.write({**server.spec, "renewTime": moment(9_009)})

    took, holders = acquired_at(server, renews)
    assert (took, holders) == (26.0, ["them"])  # observed after 10 s, and expired 15 s later: asked every 2 s
    assert server.spec["holderIdentity"] == "us"
    assert server.asked_at == [float(2 * number) for number in range(14)]


def test_a_lease_ends_exactly_with_its_duration() -> None:
    """A Lease is free in the moment that its duration is over; one without a duration is free at once."""
    assert acquired_at(Server(**held("them", leaseDurationSeconds=4)))[0] == 4.0
    assert acquired_at(Server(**held("them", leaseDurationSeconds=None)))[0] == 0.0


def test_a_standby_reports_each_new_holder_once() -> None:
    """The log of a standby names the holder that it waits for, and no holder twice in a row."""
    server = Server(**held("first"))

    async def changes() -> None:
        await asyncio.sleep(5.0)
        server.write(held("second"))

    assert acquired_at(server, changes)[1] == ["first", "second"]


@pytest.mark.parametrize("code", [403, 409, 500])
@pytest.mark.parametrize("reads", [True, False])
def test_a_request_that_fails_acquires_nothing(code: int, reads: bool) -> None:
    """The Lease is not acquired while it cannot be read or written; it is tried again."""
    server = Server(**held(""))
    server.code, server.write_code = (code, None) if reads else (None, code)

    async def recovers() -> None:
        await asyncio.sleep(3.0)
        server.code = server.write_code = None

    assert acquired_at(server, recovers)[0] == 4.0


@pytest.mark.parametrize("least", [True, False])
def test_two_standbys_do_not_ask_in_step(least: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause between two attempts is up to a fifth longer than the retry period, at random."""
    monkeypatch.setattr(random, "uniform", lambda *ends: min(ends) if least else max(ends))
    server = Server(**held("them", leaseDurationSeconds=1))
    assert acquired_at(server)[0] == pytest.approx(2.0 if least else 2.4)


def test_of_two_replicas_one_acquires_the_lease() -> None:
    """The replica with the older view of the Lease is refused by the API server, and waits for the other one."""
    server = Server(**held(""))
    read = server.get

    async def get_before_the_other_writes(path: str) -> dict[str, Any]:
        found = await read(path)
        if loop_time() == 0.0:
            server.write(held("them"))
        return found

    server.get = get_before_the_other_writes  # type: ignore[method-assign]
    took, holders = acquired_at(server)
    assert (took, holders[-1]) == (18.0, "them")  # seen after 2 s, and expired 15 s later


def renewed_until(server: Server, during: Work | None = None) -> float:
    """Renew the Lease beside ``during`` until it is lost; return the seconds that it took."""

    async def work() -> float:
        other = asyncio.create_task(during()) if during else None
        async with asyncio.timeout(500.0):
            await lease_of(server).renew_until_lost()
        done = loop_time()
        if other:
            await other
        return done

    return cast(float, run_in_virtual_time(work))


def test_a_holder_renews_its_lease() -> None:
    """A renewal keeps the time of acquisition and the number of changes; the Lease is renewed every two seconds."""
    server = Server(**held("us"))

    async def ends() -> None:
        await asyncio.sleep(61.0)
        assert server.spec == held("us", renewTime=moment(60))
        server.write(held("them"))

    assert renewed_until(server, ends) == 62.0
    assert server.spec == held("them")
    assert server.asked_at == [float(2 * number) for number in range(1, 32)]


def test_a_holder_that_cannot_renew_ends_at_its_deadline() -> None:
    """It ends five seconds before its Lease, without a last request; an outage that is shorter ends nothing."""
    server = Server(**held("us"))

    async def breaks() -> None:
        await asyncio.sleep(5.0)
        server.code = 503
        await asyncio.sleep(6.0)
        server.code = None
        await asyncio.sleep(2.0)
        server.write_code = 503

    assert renewed_until(server, breaks) == 22.0  # renewed last after 12 s
    assert server.asked_at[-1] == 20.0


def test_a_holder_whose_request_hangs_ends_at_its_deadline() -> None:
    """An API server that does not answer at all must not keep a leader at work longer than one that refuses."""
    server = Server(**held("us"))
    server.hangs = True
    assert renewed_until(server) == 10.0


def test_a_lease_that_was_deleted_is_created_again() -> None:
    """A user who deletes the Lease ends no leader."""
    server = Server(**held("us"))

    async def deletes() -> None:
        await asyncio.sleep(1.0)
        server.lease = None
        await asyncio.sleep(20.0)
        assert server.spec["holderIdentity"] == "us"
        server.write(held("them"))

    assert renewed_until(server, deletes) == 22.0


def test_a_released_lease_need_not_expire() -> None:
    """Another replica acquires the Lease at once; the time of the release stays in it."""
    server = Server(**held("us"))
    run_in_virtual_time(lease_of(server).release)
    assert server.spec == held("", leaseDurationSeconds=1, renewTime=moment(0))
    assert acquired_at(server)[0] == 0.0


def test_only_the_holder_releases() -> None:
    """A replica that has lost the Lease leaves it to the next holder; errors of the API server end no process."""
    server = Server(**held("them"))
    run_in_virtual_time(lease_of(server).release)
    assert server.spec == held("them")
    server.code = 503
    run_in_virtual_time(lease_of(server).release)
    server.code, server.lease = None, None
    run_in_virtual_time(lease_of(server).release)


@pytest.mark.parametrize(("slept", "asked_at"), [(10.0, []), (9.5, [2.0, 4.0, 6.0])])
def test_a_leader_that_slept_too_long_ends_at_once(
    slept: float, asked_at: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that was suspended for too long ends before it renews, so that no pending request is sent.

    Half a second before its deadline it is still the leader, and its next deadline counts from then on.
    """
    now = [0.0]
    monkeypatch.setattr(client, "time", SimpleNamespace(monotonic=lambda: now[0]))

    async def work() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(1.0, now.__setitem__, 0, slept)
        loop.call_later(3.0, now.__setitem__, 0, 19.0)
        loop.call_later(5.0, server.write, held("them"))
        await lease_of(server).renew_until_lost()

    server = Server(**held("us"))
    run_in_virtual_time(work)
    assert server.asked_at == asked_at

"""F15 to F17: an ensemble of three servers with a leader that dies, a lost quorum, and a member that lags."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from queue import Queue
from random import Random
from typing import NamedTuple

import pytest

from faults.conftest import FaultStatistics
from integration.write_fixtures import connect_cluster
from support.builders import apply_outcomes, apply_results, plan_specs, topic_spec
from support.cli.runs import write_manifests
from support.examples import scaled
from support.soak import SOAK
from support.waiting import wait_until
from support.zookeeper import busy_cluster, write_checker
from support.zookeeper.busy_cluster import ClusterTemplate
from support.zookeeper.client import connect_client
from support.zookeeper.ensemble import Ensemble, EnsembleProxies
from support.zookeeper.proxy import Proxy
from topiarist.errors import Reason
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Plan
from topiarist.reconcile import apply_plan

pytestmark = pytest.mark.timeout(1800)

SEEDS = 50 if SOAK else min(10, scaled(3))
TOPICS = [f"topic-{number:03}" for number in range(100)]
WISHES = [*busy_cluster.desired_specs(), *(topic_spec(name) for name in TOPICS)]
NAMES = (*busy_cluster.NAMES, *TOPICS)


@pytest.fixture(scope="module")
def ensemble() -> Iterator[Ensemble]:
    """Start three servers."""
    with Ensemble() as ensemble:
        yield ensemble


@pytest.fixture
def whole(ensemble: Ensemble) -> Ensemble:
    """Return the ensemble with all three servers running."""
    ensemble.restore_members()
    return ensemble


@pytest.fixture
def cast(whole: Ensemble) -> str:
    """Prepare a cluster on it, with all three servers in the connect string."""
    with connect_client(whole.connect) as client:
        alone = ClusterTemplate(whole.leader.connect, client).create_copy()
    return f"{whole.connect}/{alone.partition('/')[2]}"


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Survived(NamedTuple):
    """One run with a leader that died: its seed and chroot, the cluster before it, and the outcome of each topic."""

    seed: int
    chroot: str
    before: write_checker.Tree
    results: Mapping[str, Result]


def without_its_leader(ensemble: Ensemble, chroot: str, seed: int) -> tuple[Survived, int]:
    """Run with a leader that is killed in the middle; also return how often the connection was lost."""
    ensemble.restore_members()
    leader = ensemble.leader
    before = write_checker.read_nodes(f"{leader.connect}/{chroot}")
    with EnsembleProxies(ensemble) as gates, connect_cluster(f"{gates.connect}/{chroot}", lock_timeout=60) as port:
        gates.hold(Random(seed).randint(2, len(NAMES)), lambda _: leader.kill())
        plan = plan_specs(port, *WISHES)
        report = apply_plan(port, plan, stop=lambda: False)
        assert gates.triggered.is_set()
        losses = port._session.disconnects
    results = {outcome.topic: outcome.result for outcome in report.outcomes}
    assert results.keys() == set(NAMES)
    assert set(results.values()) <= {Result.DONE, Result.UNKNOWN, Result.SKIPPED}, seed
    return Survived(seed, chroot, before, results), losses


def test_f15_the_leader_dies(whole: Ensemble, tally: FaultStatistics) -> None:
    """At a random transaction of 120: no acknowledged write is missing, unknown outcomes are resolved by reading or
    named, and the next run does the rest.
    """
    losses, ended = 0, []
    with connect_client(whole.connect) as client:
        mould = ClusterTemplate("", client, setup_server=whole.leader.connect)
        chroots = [mould.create_copy().lstrip("/") for _ in range(SEEDS)]
    for seed, chroot in enumerate(chroots):
        survived, lost = without_its_leader(whole, chroot, seed)
        ended.append(survived)
        losses += lost
    whole.restore_members()
    # Only now, when the sessions of those that were lost have ended by themselves, and with them their locks.
    for seed, chroot, before, results_ in ended:
        there = write_checker.read_nodes(f"{whole.leader.connect}/{chroot}")
        done = [name for name, result in results_.items() if result is Result.DONE]
        assert [name for name in done if f"/topiarist/topics/{name}" not in there] == [], seed
        with connect_cluster(f"{whole.connect}/{chroot}", lock_timeout=60) as port:
            assert set(apply_results(port, plan_specs(port, *WISHES)).values()) <= {Result.DONE}
            assert not plan_specs(port, *WISHES).has_changes
        after = write_checker.read_nodes(f"{whole.leader.connect}/{chroot}")
        assert list(busy_cluster.find_damage(before, after, NAMES)) == [], seed
    tally.set_cases(SEEDS)
    tally.add("connections lost", losses)
    tally.add("topics left in doubt", sum(list(one.results.values()).count(Result.UNKNOWN) for one in ended))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux to see what another process uses")
def test_f16_the_quorum_is_lost(whole: Ensemble, cast: str, tmp_path: Path, tally: FaultStatistics) -> None:
    """Two of three servers stop during a real process: it ends by itself with one message, and uses almost no processor
    time while it waits.
    """
    with EnsembleProxies(whole) as gates:
        chroot = cast.partition("/")[2]
        folder = write_manifests(tmp_path / "manifests", {"prod": f"{gates.connect}/{chroot}"}, *TOPICS)
        processes: Queue[int] = Queue()
        seen: list[tuple[float, float]] = []

        def lose(connected_to: int) -> None:
            for member in whole.members:
                if member.number != connected_to:
                    member.kill()
            look(processes.get(timeout=300))

        def look(pid: int) -> None:
            with suppress(OSError, ValueError, IndexError):  # it has gone, or is about to
                seen.append((time.monotonic(), processor_seconds(pid)))

        def over() -> bool:
            look(running.pid)
            return running.poll() is not None

        gates.hold(50, lose)
        command = [sys.executable, "-m", "topiarist", "apply", str(folder), "--yes", "--kafka-version", "3.9"]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        processes.put(running.pid)
        assert gates.triggered.wait(60)
        wait_until(over, "the end of the run")
        out, err = running.communicate()
    (begun, used), (ended, all_used) = seen[0], max(seen, key=lambda look: look[1])
    share = (all_used - used) / (ended - begun)
    assert running.returncode == 1
    assert err.count("error:") == 1
    assert "the session with ZooKeeper at" in err
    assert "ended during the run" in err
    assert "skipped" in out
    assert share < 0.05
    whole.restore_members()
    tally.record_maximum("% of a core used while there was no quorum", round(100 * share, 1))


def test_f17_a_follower_that_lags(whole: Ensemble, cast: str) -> None:
    """A plan is never older than its start: while the follower receives nothing the read waits, and then it has all
    writes of other clients before its start.
    """
    follower, leader = whole.followers[0], whole.leader
    chroot = cast.partition("/")[2]
    valve = follower.relays[leader.number]
    with (
        connect_client(f"{leader.connect}/{chroot}") as writer,
        connect_client(f"{follower.connect}/{chroot}") as reader,
        Proxy(follower.connect) as proxy,
        connect_cluster(f"{proxy.connect}/{chroot}") as port,
    ):
        early = plan_specs(port, topic_spec("orders", partitions=5))
        valve.flowing.clear()
        try:
            writer.create("/config/topics/orders", b'{"version":1,"config":{"flush.ms":"7"}}')
            writer.create("/brokers/topics/orders", writer.get("/brokers/topics/foreign")[0])
            assert reader.exists("/brokers/topics/orders") is None  # it lags
            found: Queue[Plan] = Queue()
            before = proxy.requests["sync"]
            planning = threading.Thread(target=lambda: found.put(plan_specs(port, topic_spec("orders", partitions=5))))
            planning.start()
            wait_until(lambda: proxy.requests["sync"] > before, "the sync")
        finally:
            valve.flowing.set()
        planning.join(60)
        (fresh,) = found.get(timeout=300).topics
        assert fresh.before is not None
        assert fresh.before.config == {"flush.ms": "7"}
        assert apply_outcomes(port, early)["orders"][1:4] == (
            Result.CONFLICT,
            Reason.STATE_CONFLICT,
            "did not exist, and exists now",
        )


def test_f17_an_old_plan_by_a_follower_that_lags(whole: Ensemble, cast: str) -> None:
    """Applied through a follower without the latest writes of other clients: it is compared with the current values,
    and refused by value.
    """
    follower, leader = whole.followers[0], whole.leader
    chroot = cast.partition("/")[2]
    valve = follower.relays[leader.number]
    with (
        connect_client(f"{leader.connect}/{chroot}") as writer,
        Proxy(follower.connect) as proxy,
        connect_cluster(f"{proxy.connect}/{chroot}") as port,
    ):
        plan = plan_specs(port, *busy_cluster.desired_specs())
        found: Queue[dict[str, Outcome]] = Queue()
        valve.flowing.clear()
        try:
            writer.set("/config/topics/c-configure", b'{"version":1,"config":{"flush.ms":"5","retention.ms":"6"}}')
            applying = threading.Thread(target=lambda: found.put(apply_outcomes(port, plan)))
            applying.start()
            wait_until(lambda: proxy.requests["sync"] > 1, "the sync")
        finally:
            valve.flowing.set()
        applying.join(60)
        ended = found.get(timeout=300)
    assert ended.pop("c-configure").message == "retention.ms was 86400000, and is 6 now"
    assert {outcome.result for outcome in ended.values()} == {Result.DONE}

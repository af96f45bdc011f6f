"""F7, F8, F19 and F30: two runs at once, a thousand topics with thirty-seven that fail, and signals at every write."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from threading import Event
from typing import NamedTuple

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from conftest import BROKERS
from faults.conftest import FaultStatistics
from integration.write_fixtures import (
    FIRST_TOPIC_WRITE,
    MANY_SPECS,
    REPLICAS,
    apply_without_hooks,
    connect_cluster,
    lock_nodes_at,
    topics_by_result,
)
from support.builders import apply_outcomes, apply_results, plan_specs, topic_spec
from support.cli import forked_runs
from support.cli.forked_runs import ForkedRuns
from support.waiting import wait_until
from support.zookeeper import busy_cluster, write_checker
from support.zookeeper.busy_cluster import ClusterTemplate
from support.zookeeper.client import connect_client
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from support.zookeeper.write_checker import Tree
from topiarist.adapters.devcluster.seed import new_topic_id, state_bytes, topic_bytes
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.zookeeper.codec import paths, topics
from topiarist.errors import Exit, Reason
from topiarist.model.outcome import Outcome, ReconcileReport, Result
from topiarist.model.spec import TopicSpec
from topiarist.reconcile import apply_plan

pytestmark = pytest.mark.timeout(600)

EVERY = busy_cluster.desired_specs()
KEPT = tuple(spec for spec in EVERY if spec.topic not in busy_cluster.DELETED_NAMES)


class Racer(threading.Thread):
    """A run that plans at once, and applies through its own connection when it may start."""

    def __init__(self, connect: str, proxy: Proxy, specs: Sequence[TopicSpec]) -> None:
        super().__init__(daemon=True)
        self.report: ReconcileReport | None = None
        self.ready, self.begin = threading.Event(), threading.Event()
        self._connect, self._proxy, self._specs = connect, proxy, specs
        self.start()

    def run(self) -> None:
        """Apply in the thread."""
        with connect_cluster(self._proxy.through(self._connect), lock_timeout=60) as port:
            plan = plan_specs(port, *self._specs)
            self.ready.set()
            self.begin.wait(60)
            self.report = apply_plan(port, plan, stop=lambda: False)

    def outcomes(self) -> Mapping[str, Outcome]:
        """Return the outcome of each topic, after a run without error."""
        self.join(60)
        assert self.report is not None
        assert self.report.error is None
        return {outcome.topic: outcome for outcome in self.report.outcomes}


class Ended(NamedTuple):
    """The outcomes of both runs, and the cluster before and after."""

    first: Mapping[str, Outcome]
    second: Mapping[str, Outcome]
    before: Tree
    after: Tree


def race(zookeeper: EmbeddedZooKeeper, connect: str, random: Random, wishes: Sequence[Sequence[TopicSpec]]) -> Ended:
    """Plan both runs from the same state; the second applies at the same time, at a random write of the first, or after
    it.
    """
    before = write_checker.read_nodes(connect)
    with Proxy(zookeeper.connect) as one, Proxy(zookeeper.connect) as other:
        first, second = (Racer(connect, proxy, specs) for proxy, specs in zip((one, other), wishes, strict=True))
        for racer, proxy in ((first, one), (second, other)):
            assert racer.ready.wait(60)
            proxy.delay = random.uniform(0, 0.002)
        if moment := random.randint(0, 22):
            one.hold(moment, second.begin.set)
        else:
            second.begin.set()
        first.begin.set()
        of_first = first.outcomes()
        second.begin.set()  # the first may have had less to write than that
        return Ended(of_first, second.outcomes(), before, write_checker.read_nodes(connect))


def written(tree: Tree) -> dict[str, tuple[bytes | None, int]]:
    """Return the content and the write count of each znode, without session and time."""
    parents = ("/brokers/topics/", "/config/topics/", "/topiarist/topics/", "/admin/delete_topics/")
    return {path: (node.data, node.version) for path, node in tree.items() if path.startswith(parents)}


def test_f07_two_runs_with_the_same_wishes(
    mould: ClusterTemplate, zookeeper: EmbeddedZooKeeper, seeds: int, tally: FaultStatistics
) -> None:
    """Twenty topics: each is done by exactly one run, each znode is written once, and the result is that of one run."""
    alone = mould.create_copy()
    with connect_cluster(alone) as port:
        apply_plan(port, plan_specs(port, *EVERY), stop=lambda: False)
    expected, done = written(write_checker.read_nodes(alone)), Counter[str]()
    for seed in range(seeds):
        ended = race(zookeeper, mould.create_copy(), Random(seed), (EVERY, EVERY))
        for topic in busy_cluster.NAMES:
            both = sorted(outcomes[topic].result.value for outcomes in (ended.first, ended.second))
            assert both == sorted((Result.DONE.value, Result.UNCHANGED.value)), (seed, topic)
        assert written(ended.after) == expected, seed
        assert list(busy_cluster.find_damage(ended.before, ended.after)) == [], seed
        done["second"] += sum(outcome.result is Result.DONE for outcome in ended.second.values())
    tally.set_cases(seeds)


def others(random: Random) -> tuple[TopicSpec, ...]:
    """Return other sizes and values for the same topics."""
    return tuple(
        topic_spec(name, partitions=random.randint(1, 8), config={"retention.ms": 1000 * random.randint(1, 9)})
        for name in busy_cluster.NAMES
        if name not in busy_cluster.DELETED_NAMES
    )


def sizes(tree: Tree) -> dict[str, int]:
    """Return the partition count of each topic."""
    return {name: len(topic["partitions"]) for name, topic in write_checker.decode_topics(tree).items()}


def test_f08_two_runs_with_different_wishes(
    mould: ClusterTemplate, zookeeper: EmbeddedZooKeeper, seeds: int, tally: FaultStatistics
) -> None:
    """One of the runs wins each topic. The other reports what it found, and does nothing else."""
    moved = 0
    for seed in range(seeds):
        random = Random(seed)
        wishes = (others(random), others(random))
        ended = race(zookeeper, mould.create_copy(), random, wishes)
        allowed = tuple(spec.topic for spec in wishes[0])
        assert write_checker.find_problems(ended.before, ended.after, allowed) == [], seed
        now = sizes(ended.after)
        for name, count in sizes(ended.before).items():
            assert now[name] >= count, (seed, name)
        for name in allowed:
            results = [outcomes[name].result for outcomes in (ended.first, ended.second) if name in outcomes]
            moved += results.count(Result.CONFLICT)
            assert results.count(Result.DONE) <= 1, (seed, name)
            assert set(results) <= {Result.DONE, Result.CONFLICT, Result.UNCHANGED}, (seed, name)
    assert moved > 0
    tally.set_cases(seeds)
    tally.add("conflicts reported", moved)


RACES = 100
"""Topics that one run creates and another grows at once, whatever the length of the other tests."""


def test_f08_growth_while_the_controller_takes_the_topic_over(
    zookeeper: EmbeddedZooKeeper, chroot: str, tally: FaultStatistics
) -> None:
    """The controller reads a new topic and sets it with its id at any version, so growth in between could be lost.
    Growth is refused, or present at the end.
    """
    found = Counter[Result]()
    with Proxy(zookeeper.connect) as slow, SimulatedKafka(slow.through(chroot), BROKERS) as cluster:
        with connect_cluster(chroot) as creator, connect_cluster(chroot) as grower:
            for seed in range(RACES):
                random, name = Random(seed), f"topic-{seed}"
                slow.delay = random.uniform(0, 0.006)
                assert apply_outcomes(creator, plan_specs(creator, topic_spec(name)))[name].result is Result.DONE
                time.sleep(random.uniform(0, 0.01))
                plan = plan_specs(grower, topic_spec(name, partitions=4))
                result = apply_outcomes(grower, plan)[name].result if plan.has_changes else Result.REFUSED
                slow.delay = 0
                # The controller makes the states after it has set the node: behind them nothing is lost any more.
                wait_until(partial(cluster.client.exists, paths.partition_state_path(name, 1)), f"the states of {name}")
                node = topics.decode_topic(cluster.client.get(paths.topic_path(name))[0])
                assert (len(node.replicas), node.topic_id is None) == (4 if result is Result.DONE else 2, False), seed
                found[result] += 1
        assert cluster.controller_errors == []
    assert found.keys() <= {Result.DONE, Result.REFUSED, Result.CONFLICT}
    tally.set_cases(RACES)
    tally.add("growth refused until the controller has taken a topic over", found[Result.REFUSED])


NAMES = [f"topic-{number:04}" for number in range(1000)]
EXISTS, CHANGED, DENIED, LARGE = NAMES[7:17], NAMES[100:110], NAMES[500:510], NAMES[990:997]
BAD = sorted({*EXISTS, *CHANGED, *DENIED, *LARGE})
GOOD = sorted({*NAMES} - {*BAD})


def wanted() -> list[TopicSpec]:
    """Return the specs of a thousand topics; some of them do not fit into a transaction."""
    throttled = {"leader.replication.throttled.replicas": ",".join(f"{partition}:1" for partition in range(4000))}
    return [
        topic_spec(
            name,
            partitions=3 if name in CHANGED or name in DENIED else 1,
            config=throttled if name in LARGE else {"retention.ms": 5},
        )
        for name in NAMES
    ]


def make(client: KazooClient, retention: str, *names: str) -> None:
    """Create topics as another client does, and give each its id and states as the controller does."""
    for name in names:
        client.create(f"/config/topics/{name}", topics.encode_config({"retention.ms": retention}))
        client.create(
            f"/brokers/topics/{name}",
            topic_bytes({str(at): list(ids) for at, ids in enumerate(REPLICAS)}, new_topic_id()),
        )
        for partition, replicas in enumerate(REPLICAS):
            path = paths.partition_state_path(name, partition)
            client.create(path, state_bytes(list(replicas), epoch=1), makepath=True)


def test_f19_37_of_1000(mould: ClusterTemplate, proxy: Proxy, tally: FaultStatistics) -> None:
    """Created or configured by another client meanwhile, not permitted, too large: 963 are done, 37 have their reasons,
    the exit code shows it, and a second run reports only the 37.
    """
    wishes, connect = wanted(), mould.create_copy()
    with connect_client(connect) as client:
        make(client, "5", *CHANGED, *DENIED)
        with connect_cluster(connect) as port:
            plan = plan_specs(port, *wishes)
            assert [topic.topic for topic in plan.actionable_topics()] == NAMES
        make(client, "1", *EXISTS)
        for name in CHANGED:
            client.set(f"/config/topics/{name}", topics.encode_config({"retention.ms": "6"}))
        for name in DENIED:
            client.set_acls(f"/brokers/topics/{name}", [make_acl("world", "anyone", read=True, admin=True)])
        before = write_checker.read_nodes(connect)
        with connect_cluster(proxy.through(connect), max_buffer=24_000) as port:
            report = apply_without_hooks(port, plan)
            assert proxy.requests["multi"] == len(GOOD) + len(DENIED)
            proxy.reset()
            again = apply_without_hooks(port, plan)
        assert proxy.requests["multi"] == len(DENIED)
    found = topics_by_result(report.outcomes)
    assert found == {
        Result.DONE: GOOD,
        Result.CONFLICT: sorted([*EXISTS, *CHANGED]),
        Result.FAILED: DENIED,
        Result.REFUSED: LARGE,
    }
    told = {outcome.topic: outcome for outcome in report.outcomes if outcome.topic in BAD}
    assert Counter(outcome.reason for outcome in told.values()) == {
        Reason.STATE_CONFLICT: 20,
        Reason.NO_PERMISSION: 10,
        Reason.TOO_LARGE: 7,
    }
    assert all(told[name].message == "did not exist, and exists now" for name in EXISTS)
    assert all("retention.ms was 5, and is 6 now" in told[name].message for name in CHANGED)
    assert all(told[name].message == f"no permission to set /brokers/topics/{name}" for name in DENIED)
    assert all("its transaction has " in told[name].message for name in LARGE)
    assert (report.exit_code, again.exit_code) == (Exit.ERROR, Exit.ERROR)
    assert topics_by_result(again.outcomes) == {
        **{result: names for result, names in found.items() if result is not Result.DONE},
        Result.UNCHANGED: GOOD,
    }
    assert write_checker.find_problems(before, write_checker.read_nodes(connect), GOOD) == []
    tally.set_cases(len(NAMES))


RUN = ("--yes", "--adopt=*", "--allow-risk", "DataLoss", "--lock-timeout", "30")
WRITES = len(busy_cluster.NAMES) + 2
"""The lock, a transaction for each topic, the lock again."""

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


def converges(connect: str, before: write_checker.Tree) -> None:
    """Check that the next run does the rest, and another one nothing."""
    with connect_cluster(connect, lock_timeout=30) as port:
        assert set(apply_results(port, plan_specs(port, *busy_cluster.desired_specs())).values()) <= {Result.DONE}
        assert not plan_specs(port, *busy_cluster.desired_specs()).has_changes
    assert list(busy_cluster.find_damage(before, write_checker.read_nodes(connect))) == []


def send(running: list[BaseProcess], number: signal.Signals, said: Path) -> None:
    """Send the signal to the run, and wait until the run has received it."""
    wait_until(lambda: running, "the process")
    os.kill(forked_runs.pid(running[0]), number)
    wait_until(lambda: "nothing more is sent" in said.read_text(), "word of the signal")


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_f30_at_every_write(  # noqa: PLR0913
    mould: ClusterTemplate,
    proxy: Proxy,
    processes: ForkedRuns,
    tmp_path: Path,
    number: signal.Signals,
    code: int,
    tally: FaultStatistics,
) -> None:
    """A whole run gets the signal just before each of its writes: the lock is released, the summary has every topic,
    the exit code is that of the signal, and the next run does the rest.
    """
    for write in range(1, WRITES + 1):
        connect = mould.create_copy()
        before = write_checker.read_nodes(connect)
        running = list[BaseProcess]()

        proxy.reset()
        proxy.hold(write, lambda running=running: send(running, number, tmp_path / "said"))  # type: ignore[misc]
        folder = busy_cluster.write_manifest_folder(tmp_path / "manifests", proxy.through(connect))
        running.append(processes.start("apply", folder, *RUN, output_file=tmp_path / "said"))
        assert forked_runs.wait_for_exit_code(running[0]) == code
        said = (tmp_path / "said").read_text()
        counts = re.search(r"Applied: (?:(\d+) done)?(?:, )?(?:(\d+) skipped)?", said)
        assert counts, said
        assert sum(int(count or 0) for count in counts.groups()) == len(busy_cluster.NAMES)
        assert lock_nodes_at(connect) == []
        converges(connect, before)
    tally.set_cases(WRITES)


def test_f30_nothing_more_is_sent_after_the_signal(cluster: SimulatedKafka, proxy: Proxy) -> None:
    """During many topics that were read together: transactions in flight finish, the others are not begun."""
    stopped = Event()
    with connect_cluster(proxy.through(cluster.connect)) as port:
        plan = plan_specs(port, *MANY_SPECS)
        proxy.hold(FIRST_TOPIC_WRITE + 10, stopped.set)
        found = topics_by_result(list(port.apply(plan, stopped.is_set)))
    assert sorted(write_checker.decode_topics(write_checker.read_nodes(cluster.connect))) == found[Result.DONE]
    assert len(found[Result.DONE]) == proxy.requests["multi"]
    assert len(found[Result.DONE]) + len(found[Result.SKIPPED]) == len(MANY_SPECS)


def test_f30_a_second_signal_ends_at_once(
    mould: ClusterTemplate, proxy: Proxy, processes: ForkedRuns, tmp_path: Path
) -> None:
    """A second signal while the first is being handled, with an unanswered write: the process ends at once, and the
    next run does the rest when the session has expired.
    """
    ended = []
    for write, (number, code) in zip((1, 2, 11, WRITES), SIGNALS * 2, strict=True):
        connect = mould.create_copy()
        before, running = write_checker.read_nodes(connect), list[BaseProcess]()

        def twice(running: list[BaseProcess] = running, number: signal.Signals = number) -> None:
            send(running, number, tmp_path / "said")
            os.kill(forked_runs.pid(running[0]), number)
            forked_runs.wait_for_exit(running[0])

        proxy.reset()
        proxy.hold(write, twice)
        folder = busy_cluster.write_manifest_folder(tmp_path / "manifests", proxy.through(connect))
        running.append(processes.start("apply", folder, *RUN, output_file=tmp_path / "said"))
        assert forked_runs.wait_for_exit_code(running[0]) == code
        assert "Applied" not in (tmp_path / "said").read_text()
        assert proxy.triggered.wait(30)
        ended.append((connect, before))
    for connect, before in ended:
        converges(connect, before)

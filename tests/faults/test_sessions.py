"""F5 and F6: the session ends during a run, or its process is suspended until another run has finished: nothing is
written from outdated state.
"""

from __future__ import annotations

import os
import signal
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from integration.write_fixtures import (
    DESIRED_SPECS,
    FIRST_TOPIC_WRITE,
    MANY_SPECS,
    apply_without_hooks,
    connect_cluster,
    create_mixed_topics,
    lock_nodes,
    topics_by_result,
    verify_changes,
)
from support.builders import apply_results, plan_specs
from support.cli import forked_runs
from support.cli.forked_runs import ForkedRuns
from support.waiting import wait_until
from support.zookeeper import busy_cluster, write_checker
from support.zookeeper.client import expire_session
from support.zookeeper.independent_client import Node
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.zookeeper.write import writer
from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.model.outcome import Outcome, Result


def test_f05_between_plan_and_apply(cluster: SimulatedKafka, proxy: Proxy) -> None:
    """The session of the plan has ended: topiarist opens no other for it, nothing is written, and the error has its own
    reason.
    """
    names = create_mixed_topics(cluster)
    before = write_checker.read_nodes(cluster.connect)
    with connect_cluster(proxy.through(cluster.connect)) as port:
        plan = plan_specs(port, *DESIRED_SPECS)
        expire_session(cluster.connect, port._session.client.client_id)
        report = apply_without_hooks(port, plan)
    assert report.error is not None
    assert report.error.reason is Reason.SESSION_LOST
    assert topics_by_result(report.outcomes) == {Result.SKIPPED: sorted(names)}
    assert proxy.writes == 0
    assert write_checker.read_nodes(cluster.connect) == before


@pytest.mark.parametrize("done", range(1, 4))
def test_f05_between_transactions(
    cluster: SimulatedKafka, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    """Earlier transactions are done, the one in flight is unknown, and nothing is sent afterwards."""
    monkeypatch.setattr(writer, "BATCH_SIZE", 1)
    names = create_mixed_topics(cluster)
    with verify_changes(cluster.connect, *names), connect_cluster(proxy.through(cluster.connect)) as port:
        plan = plan_specs(port, *DESIRED_SPECS)
        proxy.hold(FIRST_TOPIC_WRITE + done, lambda: expire_session(cluster.connect, port._session.client.client_id))
        report = apply_without_hooks(port, plan)
    found = topics_by_result(report.outcomes)
    assert report.error is not None
    assert report.error.reason is Reason.SESSION_LOST
    assert {result: len(topics) for result, topics in found.items()} == {
        result: count
        for result, count in ((Result.DONE, done), (Result.UNKNOWN, 1), (Result.SKIPPED, 3 - done))
        if count
    }
    assert proxy.writes == FIRST_TOPIC_WRITE + done
    with connect_cluster(cluster.connect) as port:
        assert set(apply_results(port, plan_specs(port, *DESIRED_SPECS)).values()) <= {Result.DONE}
        assert not plan_specs(port, *DESIRED_SPECS).has_changes


@pytest.mark.parametrize("write", [1, 20])
def test_f06_stopped_for_longer_than_its_session(
    cluster: SimulatedKafka, proxy: Proxy, processes: ForkedRuns, tmp_path: Path, write: int
) -> None:
    """A real process is suspended until its session has expired; another run does everything meanwhile. After resuming
    it writes nothing and ends with its own reason.
    """
    busy_cluster.create_initial_state(cluster)
    folder = busy_cluster.write_manifest_folder(tmp_path / "manifests", proxy.through(cluster.connect))
    started = list[BaseProcess]()

    def oversleep() -> None:
        wait_until(lambda: started, "the process")
        os.kill(forked_runs.pid(started[0]), signal.SIGSTOP)
        wait_until(lambda: not lock_nodes(cluster), "the end of its session")
        with connect_cluster(cluster.connect) as port:
            apply_results(port, plan_specs(port, *busy_cluster.desired_specs()))
        cluster.wait_idle()
        seen.update(write_checker.read_nodes(cluster.connect))
        os.kill(forked_runs.pid(started[0]), signal.SIGCONT)

    seen: dict[str, Node] = {}
    before = write_checker.read_nodes(cluster.connect)
    proxy.hold(write + 1, oversleep)
    flags = ("--yes", "--adopt=*", "--allow-risk", "DataLoss")
    started.append(running := processes.start("apply", folder, *flags, output_file=tmp_path / "said"))
    assert forked_runs.wait_for_exit_code(running) == Exit.ERROR
    said = (tmp_path / "said").read_text()
    assert "the session with ZooKeeper at" in said
    assert "ended during the run" in said
    assert seen
    assert write_checker.read_nodes(cluster.connect) == seen
    assert list(busy_cluster.find_damage(before, seen)) == []


def test_f05_in_the_pipeline_doubt_is_left_only_where_there_is_some(cluster: SimulatedKafka, proxy: Proxy) -> None:
    """Done topics are written, skipped ones are not, and only transactions in flight are unknown; the next run does the
    rest.
    """

    with verify_changes(cluster.connect, *(spec.topic for spec in MANY_SPECS)):
        with connect_cluster(proxy.through(cluster.connect)) as port:
            plan = plan_specs(port, *MANY_SPECS)
            proxy.hold(FIRST_TOPIC_WRITE + 40, lambda: expire_session(cluster.connect, port._session.client.client_id))
            report = apply_without_hooks(port, plan)
        there = set(write_checker.decode_topics(write_checker.read_nodes(cluster.connect)))
        found = topics_by_result(report.outcomes)
        assert sum(map(len, found.values())) == len(MANY_SPECS)
        assert report.error is not None
        assert report.error.reason is Reason.SESSION_LOST
        assert set(found.get(Result.DONE, ())) <= there <= {*found.get(Result.DONE, ()), *found[Result.UNKNOWN]}
        with connect_cluster(cluster.connect) as port:
            assert set(apply_results(port, plan_specs(port, *MANY_SPECS)).values()) <= {Result.DONE}
            assert not plan_specs(port, *MANY_SPECS).has_changes


def test_f06_a_lock_that_goes_in_the_middle_leaves_no_doubt(
    cluster: SimulatedKafka, proxy: Proxy, client: KazooClient
) -> None:
    """After the deletion of the lock's znode every transaction is refused: the outcome is known also for those in
    flight.
    """

    def take_it_away() -> None:
        wait_until(lambda: client.exists("/brokers/topics/topic-039"), "the transactions before this one")
        (name,) = client.get_children("/topiarist/lock")
        client.delete(f"/topiarist/lock/{name}")

    with connect_cluster(proxy.through(cluster.connect)) as port:
        plan = plan_specs(port, *MANY_SPECS)
        proxy.hold(FIRST_TOPIC_WRITE + 40, take_it_away)
        report = apply_without_hooks(port, plan)
    found = topics_by_result(report.outcomes)
    assert {result: len(names) for result, names in found.items()} == {Result.DONE: 40, Result.SKIPPED: 110}
    assert sorted(write_checker.decode_topics(write_checker.read_nodes(cluster.connect))) == found[Result.DONE]
    assert report.error is not None
    assert report.error.reason is Reason.SESSION_LOST
    assert report.exit_code is Exit.ERROR


def test_f06_without_the_lock_nothing_is_written(cluster: SimulatedKafka, proxy: Proxy, client: KazooClient) -> None:
    """A holder without its znode (it was suspended for too long) is refused by its own check."""
    create_mixed_topics(cluster)

    def take_the_lock_away() -> None:
        (path,) = lock_nodes(cluster)
        client.delete(path)

    before, found = write_checker.decode_topics(write_checker.read_nodes(cluster.connect)), list[Outcome]()
    with connect_cluster(proxy.through(cluster.connect)) as port:
        plan = plan_specs(port, *DESIRED_SPECS)
        proxy.hold(6, take_the_lock_away)
        with pytest.raises(TopiaristError) as raised:
            found.extend(port.apply(plan, lambda: False))
    assert raised.value.reason is Reason.SESSION_LOST
    assert topics_by_result(found) == {Result.SKIPPED: sorted(spec.topic for spec in DESIRED_SPECS)}
    assert write_checker.decode_topics(write_checker.read_nodes(cluster.connect)) == before

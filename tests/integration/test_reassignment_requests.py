"""Topics in a reassignment request on a real ZooKeeper: not created, not deleted, and reported with a fix."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from integration.write_fixtures import REPLICAS, connect_cluster
from support.builders import apply_outcomes, apply_results, plan_specs, topic_spec
from support.cli.runs import run_topiarist, write_manifests
from support.drift.small_fleet import read_rows
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.errors import Reason
from topiarist.model.outcome import Result
from topiarist.model.spec import TopicSpec

REQUEST, MARK = "/admin/reassign_partitions", "/admin/delete_topics/orders"
LOCK_TAKEN = 1
"""The first write of a run on a cluster that has our root: everything of the topic is read after it."""

CREATED, DELETED = topic_spec("new"), topic_spec("orders", ensure="Absent")


def entries(*topics: str) -> bytes:
    """Return a request that moves partition 0 of each of these topics."""
    listed = [{"topic": topic, "partition": 0, "replicas": [4, 5, 6]} for topic in topics]
    return json.dumps({"version": 1, "partitions": listed}).encode()


@pytest.fixture
def ours(cluster: SimulatedKafka) -> SimulatedKafka:
    """A cluster with two topics that topiarist manages."""
    with connect_cluster(cluster.connect) as port:
        assert set(apply_results(port, plan_specs(port, topic_spec("orders"), topic_spec("other"))).values()) == {
            Result.DONE
        }
    cluster.wait_idle()
    return cluster


@pytest.mark.parametrize("wanted", [CREATED, DELETED], ids=["created", "deleted"])
def test_an_entry_that_comes_after_the_read_is_seen_where_there_is_a_request(
    ours: SimulatedKafka, client: KazooClient, proxy: Proxy, wanted: TopicSpec
) -> None:
    """The transaction checks the version of an existing request; a request that only loses entries blocks nothing."""
    client.create(REQUEST, entries("other"))
    with connect_cluster(proxy.through(ours.connect)) as port:
        plan = plan_specs(port, wanted)
        proxy.hold(LOCK_TAKEN + 1, lambda: client.set(REQUEST, entries("other", wanted.topic)))
        found = apply_outcomes(port, plan)[wanted.topic]
        assert (proxy.triggered.is_set(), proxy.requests["multi"], found.result) == (True, 1, Result.CONFLICT)
        client.set(REQUEST, entries("other"))
        proxy.reset()
        plan = plan_specs(port, wanted)
        proxy.hold(LOCK_TAKEN + 1, lambda: client.delete(REQUEST))
        assert apply_outcomes(port, plan)[wanted.topic].result is Result.DONE
        assert (proxy.triggered.is_set(), proxy.requests["multi"]) == (True, 2)


@pytest.mark.parametrize("data", [b"{", b'{"version":1,"partitions":[],"log_dirs":["new"]}'])
def test_a_request_that_cannot_be_read_counts_for_all_that_it_could_name(
    ours: SimulatedKafka, client: KazooClient, data: bytes
) -> None:
    """An unreadable request counts for every topic, also for a missing one; the message reports only that it is
    unreadable.
    """
    client.create(REQUEST, data)
    with connect_cluster(ours.connect) as port:
        state = port.read()
        named = b"new" in data
        assert (state.reassigning_topics, state.stale_reassignments) == ({"new"} if named else frozenset(), frozenset())
        assert [warning.split(" cannot")[0] for warning in state.warnings] == [REQUEST]
        reasons = [finding.reason for finding in plan_specs(port, CREATED).topics[0].refusals]
    assert reasons == ([Reason.REASSIGNMENT_IN_PROGRESS] if named else [])


def test_entries_that_outlived_their_topics_are_named_by_every_command(
    ours: SimulatedKafka, client: KazooClient, tmp_path: Path
) -> None:
    """Every command names the entries of a deleted and of a recreated topic, and not that of a topic that really
    moves.
    """
    client.create(REQUEST, entries("orders", "new", "other", "gone"))
    client.create(MARK)
    ours.wait_idle()
    ours.add_topics(Topic("orders", REPLICAS, {}))
    folder = write_manifests(tmp_path / "all", {"prod": ours.connect}, "orders", "new")
    with connect_cluster(ours.connect) as port:
        assert port.read().stale_reassignments == {"orders", "new", "gone"}
    said = [f"{name}: a reassignment request names it" for name in ("gone", "new", "orders", "other")]
    plan = " ".join(run_topiarist("plan", folder).out.split())
    assert [words in plan for words in said] == [True, True, True, False]
    assert run_topiarist("snapshot", folder, "--out", tmp_path / "taken").code == 0
    recorded = " ".join(run_topiarist("plan", folder, "--snapshot", tmp_path / "taken").out.split())
    assert [words in recorded for words in said] == [True, True, True, False]
    for name in ("gone", "orders"):
        described = run_topiarist("describe", name, "--clusters", folder)
        assert (described.code, "a reassignment request names it" in described.out) == (0, True), name
    for kind in ("--live", "--snapshots"):
        place = tmp_path / kind[2:]
        run_topiarist("drift", folder, kind, *([tmp_path / "taken"] if kind == "--snapshots" else []), "--out", place)
        stale = {row["topic"]: row["hint"] for row in read_rows(place) if row["class"] == "stuck"}
        assert stale.keys() == {"gone", "new", "orders"}
        assert all("another broker become controller" in instead for instead in stale.values())

"""Topics that a reassignment request names, on a real ZooKeeper: not created, not deleted, and said with a remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from integration.scene import REPLICAS, opened, witnessed
from support.fleets import lines
from support.proxy import Proxy
from support.runs import ended, manifests
from support.wishes import outcomes, planned, results, wish
from topiarist.adapters.playground import Playground, Topic
from topiarist.core.spec import TopicSpec
from topiarist.errors import Reason
from topiarist.reconcile import Result

REQUEST, MARK = "/admin/reassign_partitions", "/admin/delete_topics/orders"
LOCK_TAKEN = 1
"""The first write of a run on a cluster that has our root: everything of the topic is read after it."""

CREATED, DELETED = wish("new"), wish("orders", ensure="Absent")


def entries(*topics: str) -> bytes:
    """A request that moves partition 0 of each of these topics."""
    listed = [{"topic": topic, "partition": 0, "replicas": [4, 5, 6]} for topic in topics]
    return json.dumps({"version": 1, "partitions": listed}).encode()


@pytest.fixture
def ours(cluster: Playground) -> Playground:
    """A cluster with two topics of ours."""
    with opened(cluster.connect) as port:
        assert set(results(port, planned(port, wish("orders"), wish("other"))).values()) == {Result.DONE}
    cluster.settle()
    return cluster


@pytest.mark.parametrize("wanted", [CREATED, DELETED], ids=["created", "deleted"])
def test_a_request_that_comes_after_the_plan_is_seen(
    ours: Playground, client: KazooClient, proxy: Proxy, wanted: TopicSpec
) -> None:
    """Directly before the write: nothing is sent."""
    with witnessed(ours.connect), opened(proxy.through(ours.connect)) as port:
        plan = planned(port, wanted)
        proxy.hold(LOCK_TAKEN, lambda: client.create(REQUEST, entries(wanted.topic)))
        found = outcomes(port, plan)[wanted.topic]
        assert (proxy.fired.is_set(), proxy.requests["multi"]) == (True, 0)
    assert (found.result, found.reason) == (Result.MOVED, Reason.STATE_CONFLICT)
    assert "a reassignment request names it now" in found.message


@pytest.mark.parametrize("wanted", [CREATED, DELETED], ids=["created", "deleted"])
def test_an_entry_that_comes_after_the_read_is_seen_where_there_is_a_request(
    ours: Playground, client: KazooClient, proxy: Proxy, wanted: TopicSpec
) -> None:
    """Its version is checked in the transaction; one that only loses entries in between holds nothing up."""
    client.create(REQUEST, entries("other"))
    with opened(proxy.through(ours.connect)) as port:
        plan = planned(port, wanted)
        proxy.hold(LOCK_TAKEN + 1, lambda: client.set(REQUEST, entries("other", wanted.topic)))
        found = outcomes(port, plan)[wanted.topic]
        assert (proxy.fired.is_set(), proxy.requests["multi"], found.result) == (True, 1, Result.MOVED)
        client.set(REQUEST, entries("other"))
        proxy.reset()
        plan = planned(port, wanted)
        proxy.hold(LOCK_TAKEN + 1, lambda: client.delete(REQUEST))
        assert outcomes(port, plan)[wanted.topic].result is Result.DONE
        assert (proxy.fired.is_set(), proxy.requests["multi"]) == (True, 2)


@pytest.mark.parametrize("data", [b"{", b'{"version":1,"partitions":[],"log_dirs":["new"]}'])
def test_a_request_that_cannot_be_read_counts_for_all_that_it_could_name(
    ours: Playground, client: KazooClient, data: bytes
) -> None:
    """Also for a topic that is not there yet; nothing else of it is said than that it cannot be read."""
    client.create(REQUEST, data)
    with opened(ours.connect) as port:
        state = port.read()
        named = b"new" in data
        assert (state.reassigning, state.stale_requests) == ({"new"} if named else frozenset(), frozenset())
        assert [warning.split(" cannot")[0] for warning in state.warnings] == [REQUEST]
        reasons = [finding.reason for finding in planned(port, CREATED).topics[0].refusals]
    assert reasons == ([Reason.REASSIGNMENT_IN_PROGRESS] if named else [])


def test_entries_that_outlived_their_topics_are_named_by_every_command(
    ours: Playground, client: KazooClient, tmp_path: Path
) -> None:
    """A topic that is gone, one that was made again since, and one that really moves: of that nothing is said."""
    client.create(REQUEST, entries("orders", "new", "other", "gone"))
    client.create(MARK)
    ours.settle()
    ours.add_topics(Topic("orders", REPLICAS, {}))
    folder = manifests(tmp_path / "all", {"prod": ours.connect}, "orders", "new")
    with opened(ours.connect) as port:
        assert port.read().stale_requests == {"orders", "new", "gone"}
    said = [f"{name}: a reassignment request names it" for name in ("gone", "new", "orders", "other")]
    plan = " ".join(ended("plan", folder).out.split())
    assert [words in plan for words in said] == [True, True, True, False]
    assert ended("snapshot", folder, "--out", tmp_path / "taken").code == 0
    recorded = " ".join(ended("plan", folder, "--snapshot", tmp_path / "taken").out.split())
    assert [words in recorded for words in said] == [True, True, True, False]
    for name in ("gone", "orders"):
        described = ended("describe", name, "--clusters", folder)
        assert (described.code, "a reassignment request names it" in described.out) == (0, True), name
    for kind in ("--live", "--snapshots"):
        place = tmp_path / kind[2:]
        ended("drift", folder, kind, *([tmp_path / "taken"] if kind == "--snapshots" else []), "--out", place)
        stale = {row["topic"]: row["instead"] for row in lines(place) if row["field"] == "reassignment"}
        assert stale.keys() == {"gone", "new", "orders"}
        assert all("another broker become controller" in instead for instead in stale.values())

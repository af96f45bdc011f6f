"""F12, F13 and F33: another client deletes, recreates or reassigns a topic at the worst moment."""

from __future__ import annotations

import json

import pytest
from kazoo.client import KazooClient

from faults.conftest import FaultStatistics
from integration.conftest import ours
from integration.test_deletion import ABSENT, MARK, RECORD, TOPIC, about_to_delete
from integration.write_fixtures import (
    DESIRED_SPECS,
    FIRST_TOPIC_WRITE,
    REPLICAS,
    InterceptingProxy,
    connect_cluster,
    create_mixed_topics,
    verify_changes,
)
from support.builders import apply_outcomes, apply_results, plan_specs, topic_spec
from support.zookeeper import busy_cluster, write_checker
from support.zookeeper.busy_cluster import ClusterTemplate
from support.zookeeper.client import connect_client
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.zookeeper.write import writer
from topiarist.errors import Reason
from topiarist.model.outcome import Result
from topiarist.model.plan import RunOptions

pytestmark = pytest.mark.core

__all__ = ["ours"]

EVERY = busy_cluster.desired_specs()
THERE = [name for name in busy_cluster.NAMES if name not in busy_cluster.CREATED_NAMES]
STATE = f"{TOPIC}/partitions/0/state"
TAKEN = 1
"""The first write of a run takes the lock; everything of a topic is read after it, and its transactions follow."""


def make_again(cluster: SimulatedKafka, client: KazooClient) -> None:
    """Delete and recreate the topic as another client: a different topic with identical bytes and versions."""
    paths = (TOPIC, "/config/topics/orders", STATE)
    before = {path: client.get(path)[1] for path in paths}
    client.create(MARK)
    cluster.wait_idle()
    cluster.add_topics(Topic("orders", REPLICAS, {}))
    after = {path: client.get(path)[1] for path in paths}
    assert {path: stat.version for path, stat in after.items()} == {path: stat.version for path, stat in before.items()}
    assert after[TOPIC].czxid > before[TOPIC].czxid


def test_f12_deleted_before_its_transaction(mould: ClusterTemplate, proxy: Proxy, tally: FaultStatistics) -> None:
    """Each existing topic is deleted just before its transaction: a conflict, it is not recreated, and the others are
    done.
    """
    for topic in THERE:
        connect = mould.create_copy()
        proxy.reset()
        with connect_client(connect) as client, connect_cluster(proxy.through(connect)) as port:
            plan = plan_specs(port, *EVERY)
            proxy.hold(
                TAKEN + 1 + busy_cluster.NAMES.index(topic),
                lambda client=client, topic=topic: busy_cluster.remove_topic(client, topic),  # type: ignore[misc]
            )
            found = apply_outcomes(port, plan)
            assert busy_cluster.faulted_topic(proxy) == topic
            moved = found.pop(topic)
            assert (moved.result, moved.message) == (Result.CONFLICT, "existed, and does not exist now")
            assert {outcome.result for outcome in found.values()} == {Result.DONE}
        tree = write_checker.read_nodes(connect)
        left = [path for path in tree if path.endswith(f"/{topic}")]
        assert left == ([f"/topiarist/topics/{topic}"] if topic in busy_cluster.OWNED_NAMES else [])
    tally.set_cases(len(THERE))


def test_f12_marked_before_its_transaction(mould: ClusterTemplate, proxy: Proxy, tally: FaultStatistics) -> None:
    """A deletion request just before the transaction: no topic is created, none grows and none is requested again."""
    kinds = [name for name in busy_cluster.NAMES if name[2:] in ("create", "leftover", "grow", "both", "delete")]
    for topic in kinds:
        connect = mould.create_copy()
        before = write_checker.read_nodes(connect)
        proxy.reset()
        with connect_client(connect) as client, connect_cluster(proxy.through(connect)) as port:
            plan = plan_specs(port, *EVERY)
            mark = f"/admin/delete_topics/{topic}"
            proxy.hold(
                TAKEN + 1 + busy_cluster.NAMES.index(topic),
                lambda client=client, mark=mark: client.create(mark),  # type: ignore[misc]
            )
            found = apply_outcomes(port, plan)
            assert busy_cluster.faulted_topic(proxy) == topic
            moved = found.pop(topic)
            assert (moved.result, moved.message) == (Result.CONFLICT, "is marked for deletion now")
            assert {outcome.result for outcome in found.values()} == {Result.DONE}
        now = busy_cluster.topic_nodes(write_checker.read_nodes(connect), topic)
        assert now.pop(mark) is not None
        assert now == {path: node for path, node in busy_cluster.topic_nodes(before, topic).items() if path != mark}
    tally.set_cases(len(kinds))


def test_f12_made_again_between_plan_and_apply(mould: ClusterTemplate, tally: FaultStatistics) -> None:
    """All topics are deleted and recreated, equal byte for byte and in every version: none of them gets changes of the
    plan, and new topics are created.
    """
    connect = mould.create_copy()
    with connect_client(connect) as client, connect_cluster(connect) as port:
        plan = plan_specs(port, *EVERY)
        for topic in THERE:
            busy_cluster.recreate_topic(client, topic)
        before = write_checker.read_nodes(connect)
        found = apply_outcomes(port, plan)
    assert {found.pop(topic).result for topic in busy_cluster.CREATED_NAMES} == {Result.DONE}
    words = {"was deleted and recreated, so it is a different topic"}
    assert {(outcome.result, outcome.message) for outcome in found.values()} == {(Result.CONFLICT, *words)}
    assert write_checker.find_problems(before, write_checker.read_nodes(connect), busy_cluster.CREATED_NAMES) == []
    tally.set_cases(len(THERE))


def test_f33_our_record_of_an_earlier_topic(mould: ClusterTemplate, tally: FaultStatistics) -> None:
    """After a whole run everything is deleted and recreated by another client; topiarist's ownership records remain.
    They are recognized as stale: nothing is deleted, removed or overwritten because of them.
    """
    connect = mould.create_copy()
    names = [name for name in busy_cluster.NAMES if name not in busy_cluster.DELETED_NAMES]
    with connect_client(connect) as client, connect_cluster(connect) as port:
        first = [spec for spec in EVERY if spec.topic in names]
        assert set(apply_results(port, plan_specs(port, *first)).values()) == {Result.DONE}
        for topic in names:
            if topic in busy_cluster.CREATED_NAMES:
                client.create(f"/brokers/topics/{topic}/partitions")
            busy_cluster.recreate_topic(client, topic)
        before = write_checker.read_nodes(connect)
        stricter = [topic_spec(name, partitions=9, config={"segment.ms": 5}) for name in names[::2]]
        absent = [topic_spec(name, ensure="Absent") for name in names[1::2]]
        plan = plan_specs(port, *stricter, *absent, run=RunOptions())
        assert not plan.has_changes
        for refused in plan.topics:
            reasons = {finding.reason for finding in refused.refusals}
            # Topics that our run has made have no id, since no controller is there.
            assert Reason.NOT_ADOPTED in reasons <= {Reason.NOT_ADOPTED, Reason.NOT_INITIALIZED}
        assert apply_results(port, plan) == {}
        assert write_checker.read_nodes(connect) == before
    tally.set_cases(len(names))


@pytest.mark.parametrize("kind", ["e-delete", "d-remove", "b-grow", "c-configure"])
def test_f33_made_again_before_every_request(
    mould: ClusterTemplate, meddler: InterceptingProxy, kind: str, tally: FaultStatistics
) -> None:
    """Recreated before each single request of a run, reads included, up to the last read: not written."""
    spec = next(spec for spec in EVERY if spec.topic == kind)
    requests = _requests(mould, meddler, kind)
    reads = [number for number, name in enumerate(requests[: requests.index("multi")]) if name == "multiRead"]
    last_read = reads[-1]
    for moment in range(requests.index("sync"), last_read + 1):
        connect, seen = mould.create_copy(), list[str]()
        before = write_checker.read_nodes(connect)

        def again(request: str, connect: str = connect, seen: list[str] = seen, moment: int = moment) -> bool:
            seen.append(request)
            if len(seen) == moment + 1:
                with connect_client(connect) as client:
                    busy_cluster.recreate_topic(client, kind)
            return True

        meddler.may_forward = again
        with connect_cluster(meddler.through(connect)) as port:
            found = apply_outcomes(port, plan_specs(port, spec, run=RunOptions()))
        meddler.may_forward = lambda request: True
        after = write_checker.read_nodes(connect)
        assert len(seen) > moment
        now = busy_cluster.topic_nodes(after, kind)
        topic, config = now[f"/brokers/topics/{kind}"], now[f"/config/topics/{kind}"]
        assert topic.czxid > before[f"/brokers/topics/{kind}"].czxid
        assert (topic.version, config.version) == (0, 0), (moment, requests[moment], found)
        assert now[f"/admin/delete_topics/{kind}"] is None, (moment, requests[moment], found)
    tally.set_cases(last_read + 1 - requests.index("sync"))


def _requests(mould: ClusterTemplate, meddler: InterceptingProxy, kind: str) -> list[str]:
    """Return the requests of an undisturbed run about one topic."""
    seen: list[str] = []
    connect = mould.create_copy()

    def note(request: str) -> bool:
        seen.append(request)
        return True

    meddler.may_forward = note
    with connect_cluster(meddler.through(connect)) as port:
        apply_results(port, plan_specs(port, next(spec for spec in EVERY if spec.topic == kind)))
    meddler.may_forward = lambda request: True
    return seen


def test_f12_made_again_since_the_plan_it_is_not_deleted(
    ours: SimulatedKafka, client: KazooClient, proxy: Proxy
) -> None:
    """A topic with the same versions as the planned one: distinguished by its identity, and not written."""
    with about_to_delete(ours, proxy) as (port, plan):
        proxy.hold(TAKEN, lambda: make_again(ours, client))
        found = apply_outcomes(port, plan)["orders"]
        assert proxy.triggered.is_set()
        before = write_checker.read_nodes(ours.connect)
        again = plan_specs(port, ABSENT)
        assert [finding.reason for finding in again.topics[0].refusals] == [Reason.NOT_ADOPTED]
    assert (found.result, found.message) == (Result.CONFLICT, "was deleted and recreated, so it is a different topic")
    assert write_checker.find_problems(before, write_checker.read_nodes(ours.connect), []) == []
    assert not client.exists(MARK)


def test_f12_made_again_and_not_taken_over_it_is_not_deleted(
    ours: SimulatedKafka, client: KazooClient, proxy: Proxy
) -> None:
    """Recreated at the moment of the write: as long as the new topic has no state, the check of the old one's state
    fails.
    """
    data = client.get(TOPIC)[0]

    def swap() -> None:
        client.create(MARK)
        ours.wait_idle()
        for broker in range(1, 5):
            ours.remove_broker(broker)
        client.create(TOPIC, data)
        ours.wait_idle()
        assert not client.exists(STATE)

    with about_to_delete(ours, proxy) as (port, plan):
        proxy.hold(TAKEN + 1, swap)
        found = apply_outcomes(port, plan)["orders"]
        assert proxy.triggered.is_set()
    assert (found.result, found.reason) == (Result.CONFLICT, Reason.STATE_CONFLICT)
    assert client.exists(TOPIC)
    assert not client.exists(MARK)


def test_f12_deleted_by_others_in_between_it_is_reported(
    ours: SimulatedKafka, client: KazooClient, proxy: Proxy
) -> None:
    """Deleted between read and write: a conflict, and the ownership record is unchanged."""

    def delete() -> None:
        client.create(MARK)
        ours.wait_idle()

    record = client.get(RECORD)
    with about_to_delete(ours, proxy) as (port, plan):
        proxy.hold(TAKEN + 1, delete)
        found = apply_outcomes(port, plan)["orders"]
        assert proxy.triggered.is_set()
    assert (found.result, found.message) == (Result.CONFLICT, "existed, and does not exist now")
    assert client.get(RECORD) == record


def test_f12_marked_by_others_in_between_it_is_reported(
    ours: SimulatedKafka, client: KazooClient, proxy: Proxy
) -> None:
    """Another client has requested the same deletion, and a broker is offline: the deletion continues without
    topiarist.
    """
    ours.remove_broker(4)
    with about_to_delete(ours, proxy) as (port, plan):
        proxy.hold(TAKEN + 1, lambda: client.create(MARK))
        found = apply_outcomes(port, plan)["orders"]
        assert proxy.triggered.is_set()
    assert (found.result, found.message) == (Result.CONFLICT, "is marked for deletion now")


def test_f13_a_reassignment_that_begins_in_between_refuses_growth(cluster: SimulatedKafka, client: KazooClient) -> None:
    """Growth of a topic under reassignment would be undone; the other topics continue."""
    create_mixed_topics(cluster)
    with connect_cluster(cluster.connect) as port:
        plan = plan_specs(port, *DESIRED_SPECS)
        node = json.loads(client.get("/brokers/topics/grow")[0])
        moving = node | {"partitions": {"0": [4, 1, 2, 3], "1": [2, 3, 4]}, "adding_replicas": {"0": [4]}}
        client.set("/brokers/topics/grow", json.dumps(moving).encode())
        found = apply_outcomes(port, plan)
        assert found.pop("grow").result is Result.CONFLICT
        assert {outcome.result for outcome in found.values()} == {Result.DONE}
        (refused,) = [topic for topic in plan_specs(port, *DESIRED_SPECS).topics if topic.refusals]
        assert [finding.reason for finding in refused.refusals] == [Reason.REASSIGNMENT_IN_PROGRESS]


def test_f12_a_leftover_config_is_overwritten_at_its_version(cluster: SimulatedKafka, client: KazooClient) -> None:
    """A config znode without a topic, left by a crash of another client, becomes the new topic's."""
    client.create("/config/topics/create", b'{"version":1,"config":{"flush.ms":"9"}}')
    with connect_cluster(cluster.connect) as port:
        assert apply_results(port, plan_specs(port, DESIRED_SPECS[0])) == {"create": Result.DONE}
    assert write_checker.decode_configs(write_checker.read_nodes(cluster.connect))["create"] == {"retention.ms": "5000"}


def test_f13_a_reassignment_asked_for_in_the_middle_of_a_run_is_seen(
    cluster: SimulatedKafka, proxy: Proxy, client: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request exists and the controller has not begun it: the growth of the topic would be undone."""
    monkeypatch.setattr(writer, "BATCH_SIZE", 1)
    names = create_mixed_topics(cluster)
    request = b'{"version":1,"partitions":[{"topic":"grow","partition":0,"replicas":[4,5,6]}]}'
    with verify_changes(cluster.connect, *names), connect_cluster(proxy.through(cluster.connect)) as port:
        plan = plan_specs(port, *DESIRED_SPECS)
        proxy.hold(FIRST_TOPIC_WRITE, lambda: client.create("/admin/reassign_partitions", request))
        found = apply_outcomes(port, plan)
    grow = found.pop("grow")
    assert (grow.result, grow.message) == (Result.CONFLICT, "its replicas are being reassigned now")
    assert {outcome.result for outcome in found.values()} == {Result.DONE}
    assert len(write_checker.decode_topics(write_checker.read_nodes(cluster.connect))["grow"]["partitions"]) == 2


def test_f33_made_again_in_the_very_moment_it_is_reported(
    chroot: str, proxy: Proxy, cluster: SimulatedKafka, client: KazooClient
) -> None:
    """Between the last read and its transaction nothing can prevent a write to another topic of that name, because
    versions start again; the run detects and reports it.
    """
    cluster.add_topics(Topic("orders", REPLICAS, {"retention.ms": "1"}))
    seen = {path: client.get(path)[1] for path in ("/brokers/topics/orders", "/config/topics/orders")}

    def make_again() -> None:
        client.create("/admin/delete_topics/orders")
        cluster.wait_idle()
        cluster.add_topics(Topic("orders", REPLICAS, {"retention.ms": "1"}))
        assert {path: client.get(path)[1].version for path in seen} == {p: stat.version for p, stat in seen.items()}

    with connect_cluster(proxy.through(chroot)) as port:
        plan = plan_specs(port, topic_spec("orders", config={"retention.ms": 2}))
        proxy.hold(FIRST_TOPIC_WRITE, make_again)
        found = apply_outcomes(port, plan)["orders"]
        assert proxy.triggered.is_set()
    assert (found.result, found.reason) == (Result.FAILED, Reason.STATE_CONFLICT)
    assert "/brokers/topics/orders was deleted or recreated" in found.message

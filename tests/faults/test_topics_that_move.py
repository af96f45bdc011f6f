"""F12, F13 and F33: a topic is deleted, marked, made again or moved by others at exactly the wrong moment."""

from __future__ import annotations

import json

import pytest
from kazoo.client import KazooClient

from faults.conftest import Tally
from integration.conftest import ours
from integration.scene import FIRST, REPLICAS, WISHES, Meddler, mixed, opened, witnessed
from integration.test_deletion import ABSENT, LOCK_TAKEN, MARK, RECORD, STATE, TOPIC, about_to_delete, make_again
from support import checker, plenty
from support.clients import connected
from support.plenty import Mould
from support.proxy import Proxy
from support.wishes import outcomes, planned, results, wish
from topiarist.adapters.playground import Playground, Topic
from topiarist.adapters.zookeeper import writing
from topiarist.core.plan import Run
from topiarist.errors import Reason
from topiarist.reconcile import Result

__all__ = ["ours"]

EVERY = plenty.wishes()
THERE = [name for name in plenty.NAMES if name not in plenty.NEW]
TAKEN = 1
"""The first write of a run that does everything takes the lock; its transactions follow."""


def test_f12_deleted_before_its_transaction(mould: Mould, proxy: Proxy, tally: Tally) -> None:
    """Each topic that is there, gone at the very moment of its transaction: moved, nothing of it made again, and the
    others are done.
    """
    for topic in THERE:
        connect = mould.cast()
        proxy.reset()
        with connected(connect) as client, opened(proxy.through(connect)) as port:
            plan = planned(port, *EVERY)
            proxy.hold(
                TAKEN + 1 + plenty.NAMES.index(topic),
                lambda client=client, topic=topic: plenty.unmake(client, topic),  # type: ignore[misc]
            )
            found = outcomes(port, plan)
            assert plenty.struck(proxy) == topic
            moved = found.pop(topic)
            assert (moved.result, moved.message) == (Result.MOVED, "existed, and is gone now")
            assert {outcome.result for outcome in found.values()} == {Result.DONE}
        tree = checker.look(connect)
        left = [path for path in tree if path.endswith(f"/{topic}")]
        assert left == ([f"/topiarist/topics/{topic}"] if topic in plenty.OURS else [])
    tally.cases(len(THERE))


def test_f12_marked_before_its_transaction(mould: Mould, proxy: Proxy, tally: Tally) -> None:
    """Marked for deletion at the very moment: no topic is created, none grows and none is marked again."""
    kinds = [name for name in plenty.NAMES if name[2:] in ("create", "leftover", "grow", "both", "delete")]
    for topic in kinds:
        connect = mould.cast()
        before = checker.look(connect)
        proxy.reset()
        with connected(connect) as client, opened(proxy.through(connect)) as port:
            plan = planned(port, *EVERY)
            mark = f"/admin/delete_topics/{topic}"
            proxy.hold(
                TAKEN + 1 + plenty.NAMES.index(topic),
                lambda client=client, mark=mark: client.create(mark),  # type: ignore[misc]
            )
            found = outcomes(port, plan)
            assert plenty.struck(proxy) == topic
            moved = found.pop(topic)
            assert (moved.result, moved.message) == (Result.MOVED, "is marked for deletion now")
            assert {outcome.result for outcome in found.values()} == {Result.DONE}
        now = plenty.nodes_of(checker.look(connect), topic)
        assert now.pop(mark) is not None
        assert now == {path: node for path, node in plenty.nodes_of(before, topic).items() if path != mark}
    tally.cases(len(kinds))


def test_f12_made_again_between_plan_and_apply(mould: Mould, tally: Tally) -> None:
    """All topics deleted and made again, alike to the byte and in every version: nothing of the plan is done to them,
    and what was to be new is created.
    """
    connect = mould.cast()
    with connected(connect) as client, opened(connect) as port:
        plan = planned(port, *EVERY)
        for topic in THERE:
            plenty.make_again(client, topic)
        before = checker.look(connect)
        found = outcomes(port, plan)
    assert {found.pop(topic).result for topic in plenty.NEW} == {Result.DONE}
    words = {"was deleted and made again: it is another topic now"}
    assert {(outcome.result, outcome.message) for outcome in found.values()} == {(Result.MOVED, *words)}
    assert checker.problems(before, checker.look(connect), plenty.NEW) == []
    tally.cases(len(THERE))


def test_f33_our_record_of_an_earlier_topic(mould: Mould, tally: Tally) -> None:
    """A whole run, and then everything is deleted and made again by others; our records are still there. They are
    recognised as stale: nothing is deleted, removed or overwritten on their strength.
    """
    connect = mould.cast()
    names = [name for name in plenty.NAMES if name not in plenty.DELETED]
    with connected(connect) as client, opened(connect) as port:
        first = [spec for spec in EVERY if spec.topic in names]
        assert set(results(port, planned(port, *first)).values()) == {Result.DONE}
        for topic in names:
            if topic in plenty.NEW:
                client.create(f"/brokers/topics/{topic}/partitions")
            plenty.make_again(client, topic)
        before = checker.look(connect)
        stricter = [wish(name, partitions=9, config={"segment.ms": 5}) for name in names[::2]]
        absent = [wish(name, ensure="Absent") for name in names[1::2]]
        plan = planned(port, *stricter, *absent, run=Run())
        assert not plan.pending
        for refused in plan.topics:
            reasons = {finding.reason for finding in refused.refusals}
            # Topics that our run has made have no id, since no controller is there.
            assert Reason.NOT_ADOPTED in reasons <= {Reason.NOT_ADOPTED, Reason.NOT_TAKEN_OVER}
        assert results(port, plan) == {}
        assert checker.look(connect) == before
    tally.cases(len(names))


@pytest.mark.parametrize("kind", ["e-delete", "d-remove", "b-grow", "c-configure"])
def test_f33_made_again_before_every_request(mould: Mould, meddler: Meddler, kind: str, tally: Tally) -> None:
    """Made again before each single request of a run, reads and all, up to the last read: not touched."""
    spec = next(spec for spec in EVERY if spec.topic == kind)
    requests = _requests(mould, meddler, kind)
    reads = [number for number, name in enumerate(requests[: requests.index("multi")]) if name == "multiRead"]
    last_read = reads[-1]
    for moment in range(requests.index("sync"), last_read + 1):
        connect, seen = mould.cast(), list[str]()
        before = checker.look(connect)

        def again(request: str, connect: str = connect, seen: list[str] = seen, moment: int = moment) -> bool:
            seen.append(request)
            if len(seen) == moment + 1:
                with connected(connect) as client:
                    plenty.make_again(client, kind)
            return True

        meddler.before = again
        with opened(meddler.through(connect)) as port:
            found = outcomes(port, planned(port, spec, run=Run()))
        meddler.before = lambda request: True
        after = checker.look(connect)
        assert len(seen) > moment
        now = plenty.nodes_of(after, kind)
        topic, config = now[f"/brokers/topics/{kind}"], now[f"/config/topics/{kind}"]
        assert topic.czxid > before[f"/brokers/topics/{kind}"].czxid
        assert (topic.version, config.version) == (0, 0), (moment, requests[moment], found)
        assert now[f"/admin/delete_topics/{kind}"] is None, (moment, requests[moment], found)
    tally.cases(last_read + 1 - requests.index("sync"))


def _requests(mould: Mould, meddler: Meddler, kind: str) -> list[str]:
    """The requests of a run about one topic, in which nothing happens."""
    seen: list[str] = []
    connect = mould.cast()

    def note(request: str) -> bool:
        seen.append(request)
        return True

    meddler.before = note
    with opened(meddler.through(connect)) as port:
        results(port, planned(port, next(spec for spec in EVERY if spec.topic == kind)))
    meddler.before = lambda request: True
    return seen


def test_f12_made_again_since_the_plan_it_is_not_deleted(ours: Playground, client: KazooClient, proxy: Proxy) -> None:
    """Equal in every version to the one that was planned for: told apart by its identity, and left alone."""
    with about_to_delete(ours, proxy) as (port, plan):
        proxy.hold(LOCK_TAKEN, lambda: make_again(ours, client))
        found = outcomes(port, plan)["orders"]
        assert proxy.fired.is_set()
        before = checker.look(ours.connect)
        again = planned(port, ABSENT)
        assert [finding.reason for finding in again.topics[0].refusals] == [Reason.NOT_ADOPTED]
    assert (found.result, found.message) == (Result.MOVED, "was deleted and made again: it is another topic now")
    assert checker.problems(before, checker.look(ours.connect), []) == []
    assert not client.exists(MARK)


def test_f12_made_again_and_not_taken_over_it_is_not_deleted(
    ours: Playground, client: KazooClient, proxy: Proxy
) -> None:
    """In the very moment of writing: while the new topic has no state yet, the check of the old one's state fails."""
    data = client.get(TOPIC)[0]

    def swap() -> None:
        client.create(MARK)
        ours.settle()
        for broker in range(1, 5):
            ours.remove_broker(broker)
        client.create(TOPIC, data)
        ours.settle()
        assert not client.exists(STATE)

    with about_to_delete(ours, proxy) as (port, plan):
        proxy.hold(LOCK_TAKEN + 1, swap)
        found = outcomes(port, plan)["orders"]
        assert proxy.fired.is_set()
    assert (found.result, found.reason) == (Result.MOVED, Reason.STATE_CONFLICT)
    assert client.exists(TOPIC)
    assert not client.exists(MARK)


def test_f12_deleted_by_others_in_between_it_is_reported(ours: Playground, client: KazooClient, proxy: Proxy) -> None:
    """Gone between our reading and our writing: moved, and our record is still what it was."""

    def delete() -> None:
        client.create(MARK)
        ours.settle()

    record = client.get(RECORD)
    with about_to_delete(ours, proxy) as (port, plan):
        proxy.hold(LOCK_TAKEN + 1, delete)
        found = outcomes(port, plan)["orders"]
        assert proxy.fired.is_set()
    assert (found.result, found.message) == (Result.MOVED, "existed, and is gone now")
    assert client.get(RECORD) == record


def test_f12_marked_by_others_in_between_it_is_reported(ours: Playground, client: KazooClient, proxy: Proxy) -> None:
    """Others have asked for the same in the meantime, and a broker is away: their deletion goes on without us."""
    ours.remove_broker(4)
    with about_to_delete(ours, proxy) as (port, plan):
        proxy.hold(LOCK_TAKEN + 1, lambda: client.create(MARK))
        found = outcomes(port, plan)["orders"]
        assert proxy.fired.is_set()
    assert (found.result, found.message) == (Result.MOVED, "is marked for deletion now")


def test_f13_a_reassignment_that_begins_in_between_refuses_growth(cluster: Playground, client: KazooClient) -> None:
    """Growth of a topic under reassignment would be undone; the other topics go on."""
    mixed(cluster)
    with opened(cluster.connect) as port:
        plan = planned(port, *WISHES)
        node = json.loads(client.get("/brokers/topics/grow")[0])
        moving = node | {"partitions": {"0": [4, 1, 2, 3], "1": [2, 3, 4]}, "adding_replicas": {"0": [4]}}
        client.set("/brokers/topics/grow", json.dumps(moving).encode())
        found = outcomes(port, plan)
        assert found.pop("grow").result is Result.MOVED
        assert {outcome.result for outcome in found.values()} == {Result.DONE}
        (refused,) = [topic for topic in planned(port, *WISHES).topics if topic.refusals]
        assert [finding.reason for finding in refused.refusals] == [Reason.REASSIGNMENT_IN_PROGRESS]


def test_f12_a_leftover_config_is_overwritten_at_its_version(cluster: Playground, client: KazooClient) -> None:
    """A config node without a topic, left by a crash of others, becomes the new topic's."""
    client.create("/config/topics/create", b'{"version":1,"config":{"flush.ms":"9"}}')
    with opened(cluster.connect) as port:
        assert results(port, planned(port, WISHES[0])) == {"create": Result.DONE}
    assert checker.configs(checker.look(cluster.connect))["create"] == {"retention.ms": "5000"}


def test_f13_a_reassignment_asked_for_in_the_middle_of_a_run_is_seen(
    cluster: Playground, proxy: Proxy, client: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request is there and the controller has not touched the topic yet: its growth would be undone."""
    monkeypatch.setattr(writing, "WINDOW", 1)
    names = mixed(cluster)
    request = b'{"version":1,"partitions":[{"topic":"grow","partition":0,"replicas":[4,5,6]}]}'
    with witnessed(cluster.connect, *names), opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, *WISHES)
        proxy.hold(FIRST, lambda: client.create("/admin/reassign_partitions", request))
        found = outcomes(port, plan)
    grow = found.pop("grow")
    assert (grow.result, grow.message) == (Result.MOVED, "its replicas are being reassigned now")
    assert {outcome.result for outcome in found.values()} == {Result.DONE}
    assert len(checker.topics(checker.look(cluster.connect))["grow"]["partitions"]) == 2


def test_f33_made_again_in_the_very_moment_it_is_reported(
    chroot: str, proxy: Proxy, cluster: Playground, client: KazooClient
) -> None:
    """Between the last read and its transaction nothing can keep us from writing to another topic of that name, since
    versions start over; it is noticed and said.
    """
    cluster.add_topics(Topic("orders", REPLICAS, {"retention.ms": "1"}))
    seen = {path: client.get(path)[1] for path in ("/brokers/topics/orders", "/config/topics/orders")}

    def make_again() -> None:
        client.create("/admin/delete_topics/orders")
        cluster.settle()
        cluster.add_topics(Topic("orders", REPLICAS, {"retention.ms": "1"}))
        assert {path: client.get(path)[1].version for path in seen} == {p: stat.version for p, stat in seen.items()}

    with opened(proxy.through(chroot)) as port:
        plan = planned(port, wish("orders", config={"retention.ms": 2}))
        proxy.hold(FIRST, make_again)
        found = outcomes(port, plan)["orders"]
        assert proxy.fired.is_set()
    assert (found.result, found.reason) == (Result.FAILED, Reason.STATE_CONFLICT)
    assert "/brokers/topics/orders was deleted or made again" in found.message

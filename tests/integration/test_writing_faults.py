"""What happens between our reading and our writing: controllers, brokers, topics, permissions and connections that
change at exactly the wrong moment. Each is made to happen at the proxy, before the server sees the write.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from integration.scene import FIRST, MANY, WISHES, Meddler, by_result, carried_out, mixed, opened, witnessed
from support import checker
from support.proxy import Proxy, When
from support.waiting import wait_until
from support.wishes import planned
from topiarist.adapters import znodes
from topiarist.adapters.embedded import EmbeddedZooKeeper
from topiarist.adapters.playground import Playground
from topiarist.adapters.zookeeper import footing
from topiarist.adapters.zookeeper.head import Head
from topiarist.adapters.zookeeper.session import Session
from topiarist.adapters.zookeeper.site import read_site
from topiarist.adapters.zookeeper.transaction import Site
from topiarist.core.state import Freeze
from topiarist.errors import Exit, Reason
from topiarist.reconcile import Result


@pytest.fixture
def meddler(zookeeper: EmbeddedZooKeeper) -> Iterator[Meddler]:
    """A proxy that asks before every request."""
    between = Meddler(zookeeper.connect)
    with between:
        yield between


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lock of a run that finds out what it stands on, each time that it does."""
    found: list[str] = []

    def look(session: Session, lock_path: str, hint: str) -> tuple[Site, Head]:
        found.append(lock_path)
        return read_site(session, lock_path, hint)

    monkeypatch.setattr(footing, "read_site", look)
    return found


@pytest.mark.parametrize("cut", [False, True])
def test_a_gate_that_closes_in_the_middle_leaves_no_doubt(
    cluster: Playground, proxy: Proxy, client: KazooClient, looks: list[str], cut: bool
) -> None:
    """Frozen while many transactions are under way: what was done is done, the rest not sent, nothing is unknown; not
    even if the answers after the first refusal are lost.
    """

    def freeze() -> None:
        wait_until(lambda: client.exists("/brokers/topics/topic-039"), "the transactions before this one")
        client.set("/topiarist/gate", znodes.encode_gate(Freeze("maintenance")))

    with witnessed(cluster.connect, *(spec.topic for spec in MANY)), opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, *MANY)
        proxy.hold(FIRST + 40, freeze)
        if cut:
            proxy.cut(FIRST + 41, When.AFTER)
        report = carried_out(port, plan)
    found = by_result(report.outcomes)
    assert {result: len(names) for result, names in found.items()} == {Result.DONE: 40, Result.NOT_SENT: 110}
    assert report.error is not None
    assert report.error.reason is Reason.FROZEN
    assert "maintenance" in str(report.error)
    assert report.exit is Exit.REFUSED
    assert sorted(checker.topics(checker.look(cluster.connect))) == found[Result.DONE]
    assert len(looks) == 2


def test_one_look_tells_of_a_new_controller_whatever_fell_with_the_old_one(
    cluster: Playground, proxy: Proxy, looks: list[str]
) -> None:
    """Many transactions were under way: all of them are sent once more."""

    def elect() -> None:
        wait_until(lambda: cluster.client.exists("/brokers/topics/topic-039"), "the transactions before this one")
        cluster.elect(5)

    with witnessed(cluster.connect, *(spec.topic for spec in MANY)), opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, *MANY)
        proxy.hold(FIRST + 40, elect)
        assert by_result(carried_out(port, plan).outcomes) == {Result.DONE: [spec.topic for spec in MANY]}
    assert proxy.requests["multi"] > len(MANY) + 1
    assert len(looks) == 2


def test_a_gate_that_goes_before_the_first_transaction_is_named(
    cluster: Playground, proxy: Proxy, client: KazooClient
) -> None:
    """There is nothing for the transactions to check any more: none is sent."""
    mixed(cluster)
    with opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, *WISHES)
        proxy.hold(FIRST - 1, lambda: client.delete("/topiarist/gate"))
        report = carried_out(port, plan)
    assert report.error is not None
    assert report.error.reason is Reason.STATE_CONFLICT
    assert "/topiarist/gate has gone in the middle of the run" in str(report.error)
    assert by_result(report.outcomes) == {Result.NOT_SENT: ["configure", "create", "grow", "same"]}
    assert proxy.requests["multi"] == 0

"""Freezing and unfreezing on a real ZooKeeper: without the lock, against other clients, and during a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from integration.write_fixtures import FIRST_TOPIC_WRITE, connect_cluster, create_mixed_topics, verify_changes
from support.builders import apply_outcomes, apply_results, plan_specs, topic_spec
from support.cli.runs import write_manifests
from support.waiting import wait_until
from support.zookeeper.proxy import CutTiming, Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters import own_values
from topiarist.cli.main import run
from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.model.outcome import FreezeResult, Result
from topiarist.model.state import Freeze

GATE = "/topiarist/gate"
ADA = Freeze("disks are being moved", "ada", "2026-01-31T12:00:00Z")
LATER = ADA._replace(since="2026-02-01T00:00:00Z")
BOB = Freeze("incident 4711", "bob", "2026-02-01T00:00:00Z")


def freeze(cluster: SimulatedKafka, wanted: Freeze | None, by: str, *, force: bool = False) -> FreezeResult:
    """Freeze or unfreeze in a separate session."""
    with connect_cluster(cluster.connect) as port:
        return port.set_freeze(wanted, by=by, force=force)


def gate(client: KazooClient) -> Freeze | None:
    """Return the content of the freeze znode."""
    return own_values.decode_freeze(client.get(GATE)[0])


def test_freezing_makes_what_is_missing_and_sets_once(
    cluster: SimulatedKafka, client: KazooClient, proxy: Proxy
) -> None:
    """On a cluster without topiarist's nodes, freeze creates topiarist's root with the ACL of Kafka's topics and sends
    one set, without the lock.
    """
    acl = [make_acl("world", "anyone", read=True, create=True, delete=True, write=True)]
    client.set_acls("/brokers/topics", acl)
    with verify_changes(cluster.connect), connect_cluster(proxy.through(cluster.connect)) as port:
        assert port.set_freeze(ADA, by="ada", force=False) == FreezeResult(Result.DONE, None)
    assert json.loads(client.get(GATE)[0]) == {"version": 1, "state": "frozen", **ADA._asdict()}
    assert {path: client.get_acls(path)[0] for path in ("/topiarist", GATE)} == {"/topiarist": acl, GATE: acl}
    assert (proxy.requests["setData"], proxy.requests["create"], proxy.requests["multi"]) == (1, 4, 0)


def test_unfreezing_what_nobody_froze_writes_nothing(cluster: SimulatedKafka, proxy: Proxy) -> None:
    """A missing freeze znode means unfrozen: unfreeze creates nothing."""
    with connect_cluster(proxy.through(cluster.connect)) as port:
        assert port.set_freeze(None, by="ada", force=False) == FreezeResult(Result.UNCHANGED, None)
    assert proxy.writes == 0


def test_a_holder_of_the_lock_does_not_keep_anybody_from_freezing(cluster: SimulatedKafka, client: KazooClient) -> None:
    """Freeze does not wait for the lock, because its purpose is to stop a run in progress."""
    client.create("/topiarist/lock/run-1-0000000000", makepath=True)
    assert freeze(cluster, ADA, "ada").result is Result.DONE


def test_frozen_again_by_the_same_for_the_same_reason_is_nothing(cluster: SimulatedKafka, client: KazooClient) -> None:
    """The same freeze by the same user keeps its first time; another reason of that user replaces it."""
    freeze(cluster, ADA, "ada")
    assert freeze(cluster, LATER, "ada") == FreezeResult(Result.UNCHANGED, ADA)
    assert gate(client) == ADA
    other = LATER._replace(reason="and switches")
    assert freeze(cluster, other, "ada") == FreezeResult(Result.DONE, ADA)
    assert gate(client) == other


def test_what_another_froze_takes_force(cluster: SimulatedKafka, client: KazooClient) -> None:
    """The freeze of another user is neither replaced nor removed without ``force``."""
    freeze(cluster, ADA, "ada")
    assert freeze(cluster, BOB, "bob") == FreezeResult(Result.REFUSED, ADA)
    assert freeze(cluster, BOB._replace(reason=ADA.reason), "bob") == FreezeResult(Result.REFUSED, ADA)
    assert freeze(cluster, None, "bob") == FreezeResult(Result.REFUSED, ADA)
    assert gate(client) == ADA
    assert freeze(cluster, BOB, "bob", force=True) == FreezeResult(Result.DONE, ADA)
    assert gate(client) == BOB
    assert freeze(cluster, None, "bob") == FreezeResult(Result.DONE, BOB)
    assert gate(client) is None


def test_of_two_who_freeze_at_once_the_second_is_told(
    cluster: SimulatedKafka, client: KazooClient, proxy: Proxy
) -> None:
    """Freeze sets the znode at the version that it read: a concurrent freeze by another user is detected and stays.

    A lagging server would return the old znode, so freeze sends a sync before it reads again.
    """
    syncs = []

    def be_faster() -> None:
        syncs.append(proxy.requests["sync"])
        client.set(GATE, own_values.encode_freeze(BOB))

    freeze(cluster, None, "ada")
    client.create(GATE, own_values.encode_freeze(None), makepath=True)
    with connect_cluster(proxy.through(cluster.connect)) as port:
        proxy.hold(1, be_faster)
        assert port.set_freeze(ADA, by="ada", force=False) == FreezeResult(Result.REFUSED, BOB)
        assert proxy.requests["sync"] == syncs[0] + 1
    assert gate(client) == BOB


@pytest.mark.parametrize("when", list(CutTiming))
@pytest.mark.parametrize("wanted", [ADA, None])
def test_a_cut_connection_is_resolved_by_reading(
    cluster: SimulatedKafka, client: KazooClient, proxy: Proxy, wanted: Freeze | None, when: CutTiming
) -> None:
    """A connection cut before or after the write leads to exactly one write."""
    client.create(GATE, own_values.encode_freeze(None if wanted else BOB), makepath=True)
    with connect_cluster(proxy.through(cluster.connect)) as port:
        proxy.cut(1, when)
        assert port.set_freeze(wanted, by="ada", force=True).result is Result.DONE
        assert proxy.triggered.is_set()
    assert gate(client) == wanted
    assert client.get(GATE)[1].version == 1


@pytest.mark.parametrize("data", [b"", b"frozen", b'{"version":9,"state":"open"}', b'{"version":1,"state":"ajar"}'])
def test_a_gate_that_cannot_be_read_is_closed_and_unfreezing_mends_it(
    cluster: SimulatedKafka, client: KazooClient, data: bytes
) -> None:
    """An invalid freeze znode blocks all writes, since it may be a freeze, until a user unfreezes the cluster."""
    client.create(GATE, data, makepath=True)
    with connect_cluster(cluster.connect) as port:
        plan = plan_specs(port, topic_spec("orders"))
        assert [finding.reason for finding in plan.topics[0].refusals] == [Reason.FROZEN]
        assert "topiarist unfreeze fixes it" in plan.write_block.message
    assert freeze(cluster, None, "ada").result is Result.DONE
    assert gate(client) is None


def test_freezing_needs_no_controller(cluster: SimulatedKafka, client: KazooClient) -> None:
    """Freeze works during an outage and changes nothing of Kafka; the plan then shows the freeze."""
    client.delete("/controller")
    assert freeze(cluster, ADA, "ada").result is Result.DONE
    with connect_cluster(cluster.connect) as port:
        assert port.read().write_block.reason is Reason.FROZEN


def test_no_permission_is_named(cluster: SimulatedKafka, client: KazooClient) -> None:
    """A user without write permission gets the path of the node."""
    client.create(GATE, own_values.encode_freeze(None), makepath=True)
    client.set_acls(GATE, [make_acl("world", "anyone", read=True)])
    with pytest.raises(TopiaristError) as raised:
        freeze(cluster, ADA, "ada")
    assert (raised.value.reason, raised.value.message) == (Reason.NO_PERMISSION, f"no permission to set {GATE}")


def test_a_run_that_is_frozen_in_the_middle_says_what_was_done(
    cluster: SimulatedKafka, proxy: Proxy, client: KazooClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that is frozen midway reports its written and skipped topics and never that nothing was written; a run
    frozen before its start reports exactly that.
    """
    folder = write_manifests(
        tmp_path, {"prod": proxy.through(cluster.connect)}, *(f"t{number:02}" for number in range(40))
    )
    words = ["apply", str(folder), "--yes", "--kafka-version", "3.9"]

    def freeze_it() -> None:
        freeze(cluster, ADA, "ada")

    def freeze_late() -> None:
        wait_until(lambda: client.exists("/brokers/topics/t13"), "the transactions before this one")
        freeze_it()

    proxy.hold(FIRST_TOPIC_WRITE + 14, freeze_late)
    assert run(words) == Exit.REFUSED
    said = capsys.readouterr()
    assert "Applied: 14 done, 26 skipped." in said.out
    assert "frozen by ada" in said.err
    assert "nothing more is written" in said.err
    assert "nothing was written" not in said.err
    freeze(cluster, None, "ada")
    proxy.reset()
    proxy.hold(1, freeze_it)
    assert run(words) == Exit.REFUSED
    said = capsys.readouterr()
    assert "Applied: 26 skipped." in said.out
    assert "nothing was written" in said.err


def test_a_run_goes_on_after_a_freeze_that_did_not_last(cluster: SimulatedKafka, proxy: Proxy) -> None:
    """After a freeze and unfreeze during a run its checks fail; the run reads the freeze znode again and completes the
    rest.
    """
    names = create_mixed_topics(cluster)

    def to_and_fro() -> None:
        freeze(cluster, ADA, "ada")
        freeze(cluster, None, "ada")

    with verify_changes(cluster.connect, *names), connect_cluster(proxy.through(cluster.connect)) as port:
        plan = plan_specs(port, topic_spec("create"), topic_spec("grow", partitions=5, config={"retention.ms": 1000}))
        proxy.hold(FIRST_TOPIC_WRITE, to_and_fro)
        assert set(apply_results(port, plan).values()) == {Result.DONE}
        assert proxy.triggered.is_set()
        assert apply_outcomes(port, plan)["create"].result is Result.UNCHANGED

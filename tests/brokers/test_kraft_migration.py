"""F11 with real processes: a cluster of the newest release during a migration to KRaft, its rollback and its end.

Kafka itself causes every state. In each state the commands run as a user runs them, through a proxy that counts writes.
A run in progress when the KRaft controller becomes active is stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from brokers.topiarist_runs import run_in_process
from integration.write_fixtures import topics_by_result
from support.builders import plan_specs, topic_spec
from support.cli.runs import RunResult
from support.kafka.jars import NEWEST
from support.kafka.kafka_fixture import KafkaFixture, KafkaFixtureFactory
from support.kafka.quorum import CONTROLLER, Quorum
from support.zookeeper import write_checker
from support.zookeeper.proxy import Proxy
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.errors import Exit, Reason
from topiarist.model.access import ZooKeeperAccess
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import TopicPlan
from topiarist.reconcile import apply_plan

BROKER = 1
"""The id of the only broker, which is restarted several times."""

KEPT = {"partitions": 2, "replicationFactor": 1, "config": {"flush.ms": 1000}}

IN_CHARGE = f"a KRaft controller ({CONTROLLER}) is active"
BEGUN = "/migration exists: a migration to KRaft has begun"

RUSHED = tuple(f"rushed-{number:03}" for number in range(100))
"""Topics of the run in progress when the KRaft controller becomes active: more than are ever in flight."""


def declared(bed: KafkaFixture, proxy: Proxy, *more: str) -> Path:
    """Declare the managed topic and the topics to create, on the cluster behind the proxy; return the folder."""
    bed.declare(dict.fromkeys(("kept", *more), KEPT), zookeeper={"connect": proxy.through(bed.kafka.connect)})
    return bed.folder / "manifests"


def said_by(*words: str | Path) -> RunResult:
    """Run topiarist and return the result with its output on one line."""
    found = run_in_process(*words)
    return found._replace(out=" ".join(found.out.split()), err=" ".join(found.err.split()))


def check_closed(bed: KafkaFixture, proxy: Proxy, reason: Reason, words: str) -> None:
    """Assert that topiarist reads everything in this state of the cluster, writes nothing, and reports the reason."""
    folder = declared(bed, proxy, "wanted")
    proxy.reset()
    before = write_checker.read_nodes(bed.kafka.connect)
    plan = said_by("plan", folder, "--exit-code")
    assert (plan.code, words in plan.out) == (Exit.REFUSED, True), plan
    for command in (
        ("apply", folder, "--yes"),
        ("unmanage", "kept", "--clusters", folder, "--yes"),
        ("freeze", folder, "--reason", "test", "--force"),
        ("unfreeze", folder, "--force"),
    ):
        said = said_by(*command)
        assert (said.code, words in said.out + said.err) == (Exit.REFUSED, True), (command, said)
    snapshot = run_in_process("snapshot", "--zookeeper", proxy.through(bed.kafka.connect))
    head = json.loads(snapshot.out.splitlines()[0])
    assert (snapshot.code, head["writeBlockReason"]) == (Exit.DONE, reason.value)
    assert words in head["writeBlockMessage"]
    assert proxy.writes == 0
    assert proxy.requests["multiRead"] > 0
    after = write_checker.read_nodes(bed.kafka.connect)
    for path in ("/brokers/topics/wanted", "/config/topics/wanted", "/topiarist/topics/wanted"):
        assert path not in after
    ours = [{path: node for path, node in tree.items() if path.startswith("/topiarist")} for tree in (before, after)]
    assert ours[0] == ours[1]


def check_open(bed: KafkaFixture, proxy: Proxy, *names: str) -> None:
    """Assert that topiarist creates topics in this state of the cluster, and that brokers host them."""
    folder = declared(bed, proxy, *names)
    said = run_in_process("apply", folder, "--yes", "--wait")
    assert said.code == Exit.DONE, said
    found = bed.describe_in_sync(["kept", *names])
    bed.write_messages({name: topic.replicas for name, topic in found.items()}, "message")
    assert run_in_process("plan", folder, "--exit-code").code == Exit.DONE


@pytest.mark.core
def test_f11_a_quorum_that_waits(bare: KafkaFixture) -> None:
    """A quorum that has found ZooKeeper closes the cluster: topiarist reads everything and writes nothing. Once the
    quorum has ended and ``/migration`` is removed, topiarist continues as before.
    """
    if bare.kafka.release != NEWEST:
        pytest.skip("migrated is the newest release")
    with Quorum(bare.kafka) as quorum, Proxy(bare.kafka.zookeeper.connect) as proxy:
        check_open(bare, proxy, "before")
        quorum.start()
        bare.kafka.wait(lambda: bare.kafka.client.exists("/migration"), "the quorum to find ZooKeeper")
        check_closed(bare, proxy, Reason.KRAFT_MIGRATION, f"{BEGUN} (a KRaft quorum has connected)")
        quorum.stop()
        bare.kafka.client.delete("/migration")
        check_open(bare, proxy, "before", "after")


@pytest.mark.night(area="migration")
def test_f11_a_migration_and_the_way_back(fresh: KafkaFixtureFactory) -> None:
    """A quorum connects, becomes active, and is rolled back; each time topiarist reads everything and writes nothing,
    until the last step of Kafka's rollback is done, and then continues as before. The second quorum becomes active
    during a run, which ends; after the migration ZooKeeper has only a stale copy.
    """
    with opened(fresh) as (bed, quorum, proxy):
        kafka = bed.kafka
        check_open(bed, proxy, "before")
        quorum.start()
        kafka.wait(lambda: kafka.client.exists("/migration"), "the quorum to find ZooKeeper")
        check_closed(bed, proxy, Reason.KRAFT_MIGRATION, f"{BEGUN} (a KRaft quorum has connected)")
        kafka.restart(BROKER, properties=quorum.migration_properties)
        kafka.wait(quorum.is_controller, "the quorum to take over")
        check_closed(bed, proxy, Reason.KRAFT_CONTROLLER, IN_CHARGE)
        assert bed.clients.create({"by-kraft": ((BROKER,), (BROKER,))}, {"flush.ms": "5"}) == {}
        kafka.wait(lambda: kafka.client.exists("/brokers/topics/by-kraft"), "the quorum to write to ZooKeeper too")
        go_back(bed, quorum)
        check_closed(bed, proxy, Reason.KRAFT_MIGRATION, f"{BEGUN} (its content has been copied to KRaft)")
        kafka.client.delete("/migration")
        check_open(bed, proxy, "before", "after")
        bed.describe_in_sync(["before", "by-kraft"])
        quorum.reset_broker(BROKER)
        begin_anew(bed, quorum)
        quorum.migrate_broker(BROKER)
        kafka.wait(lambda: kafka.registered() == set(), "the broker to leave ZooKeeper")
        quorum.finish_migration()
        assert bed.clients.create({"not-in-zookeeper": ((BROKER,),)}) == {}
        bed.describe_in_sync(["not-in-zookeeper", "kept"])
        assert not kafka.client.exists("/brokers/topics/not-in-zookeeper")
        check_closed(bed, proxy, Reason.KRAFT_CONTROLLER, IN_CHARGE)


@contextmanager
def opened(fresh: KafkaFixtureFactory) -> Iterator[tuple[KafkaFixture, Quorum, Proxy]]:
    """Start a broker in ZooKeeper mode and the counting proxy; the quorum is prepared and not started."""
    with fresh(NEWEST, {BROKER: None}) as bed, Quorum(bed.kafka) as quorum, Proxy(bed.kafka.zookeeper.connect) as proxy:
        yield bed, quorum, proxy


def go_back(bed: KafkaFixture, quorum: Quorum) -> None:
    """Do the first steps of Kafka's rollback: stop the quorum and delete ``/controller``, so that the broker becomes
    controller.
    """
    quorum.stop()
    bed.kafka.client.delete("/controller")
    bed.kafka.wait(lambda: bed.kafka.client.exists("/controller"), "the broker to become controller")
    assert not quorum.is_controller()


def begin_anew(bed: KafkaFixture, quorum: Quorum) -> None:
    """Start the quorum in the middle of a run, so that it becomes active; from then on topiarist writes nothing.

    The migrated cluster has all topics that were written before.
    """
    kafka = bed.kafka

    def there() -> set[str]:
        return set(RUSHED) & set(kafka.client.get_children("/brokers/topics"))

    def migrate(_topic: TopicPlan, _outcome: Outcome) -> None:
        if not quorum.is_controller():
            bed.describe_in_sync(there())
            quorum.start()
            kafka.wait(quorum.is_controller, "the quorum to take over in the middle of a run")

    specs = [topic_spec(name, partitions=1, replicationFactor=1) for name in RUSHED]
    with ZooKeeperCluster(ZooKeeperAccess(kafka.connect), owner="default") as port:
        found = apply_plan(port, plan_specs(port, *specs), stop=lambda: False, on_outcome=migrate)
    assert found.error is not None
    assert found.error.reason is Reason.KRAFT_CONTROLLER
    results = topics_by_result(found.outcomes)
    assert results.keys() == {Result.DONE, Result.SKIPPED}
    assert there() == set(results[Result.DONE])
    bed.describe_in_sync(results[Result.DONE])
    assert set(bed.clients.describe(results[Result.SKIPPED]).values()) == {None}

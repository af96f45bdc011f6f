"""K26 to K29 with real brokers in KRaft mode: a quorum that fails over, lost replicas and transactions, two releases.

The real command runs in a process of its own, which stops at a request while the fault is brought about.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from brokers.shared_clusters import THREE_RACKS
from brokers.test_records_crash import PLACED, Folder
from support.kafka.cleaning import SharedCluster
from support.kafka.clients import Clients
from support.kafka.jars import NEWEST
from support.kafka.kraft import CONTROLLER, KraftCluster, KraftOptions
from support.kafka.kraft_fixture import KraftFixture, KraftFixtureFactory
from support.kafka.programs import Program
from support.soak import SOAK
from topiarist.adapters.kafka_admin.cluster import KafkaCluster
from topiarist.errors import Exit
from topiarist.model.access import KafkaAccess

pytestmark = pytest.mark.night(area="crash")

DROPPED, ADDED = "message.downconversion.enable", "remote.copy.lag.ms"
"""A config that Kafka 4.0 has dropped, and one that 4.4 has added."""

UPGRADED = "4.4.0"
"""The release at the end of a rolling upgrade."""

REQUESTS = ["DeleteTopics", "CreateTopics", "CreatePartitions"] if SOAK else ["CreateTopics"]


@pytest.fixture(scope="module")
def shared_quorum(kraft_release: str, program: Program) -> Iterator[SharedCluster[KraftCluster]]:
    """Share three brokers and three controllers."""
    options = KraftOptions(controllers=3)
    with closing(SharedCluster(lambda: KraftCluster(kraft_release, THREE_RACKS, options), program)) as shared:
        yield shared


@pytest.fixture
def folder(shared_quorum: SharedCluster[KraftCluster], program: Program, tmp_path: Path) -> Iterator[Folder]:
    """Manifests with every kind of change, beside a cluster with three controllers."""
    with shared_quorum.cleaned() as kafka:
        manifests = Folder(KraftFixture(kafka, Clients(program, kafka.bootstrap), tmp_path), "faults")
        manifests.begin()
        yield manifests


@pytest.mark.parametrize("request_name", REQUESTS)
def test_k26_the_quorum_fails_over_in_a_chunk(folder: Folder, request_name: str) -> None:
    """The active controller of three is killed directly before a request of a chunk: another takes over."""
    kafka = folder.kraft.kafka
    before = active_controller(folder.kraft)
    folder.run_with_fault((request_name, 1, "before"), lambda: kafka.kill(before))
    kafka.wait(lambda: active_controller(folder.kraft) not in (before, -1), "another controller")
    folder.require_converged()
    kafka.start(before)
    folder.require_converged()


def test_k27_the_records_lose_their_replicas(folder: Folder) -> None:
    """Two of three replicas of the records end between intents and final records: nothing is lost, the rest waits."""
    kafka = folder.kraft.kafka
    topic = folder.kraft.clients.describe(["__topiarist"])["__topiarist"]
    assert topic
    leader = topic.partitions[0].leader
    others = [broker for broker in THREE_RACKS if broker != leader]

    def fault() -> None:
        for broker in others:
            kafka.kill(broker)
        kafka.wait(lambda: folder.kraft.registered() == {leader}, "the sessions of the killed brokers to expire")

    folder.run_with_fault(("EndTxn", 1, "after"), fault)
    closed = folder.run("apply", "--yes", "--lock-timeout", "5")
    assert closed.returncode in (Exit.ERROR, Exit.REFUSED), closed
    for broker in others:
        kafka.start(broker)
    folder.require_converged()


def test_k28_the_state_of_transactions_is_lost(folder: Folder) -> None:
    """The log of ``__transaction_state`` is empty after a restart, between intents and request: nothing is lost."""
    kafka = folder.kraft.kafka

    def fault() -> None:
        topic = folder.kraft.clients.describe(["__transaction_state"])["__transaction_state"]
        assert topic
        (holder,) = topic.partitions[0].replicas
        kafka.kill(holder)
        shutil.rmtree(kafka.nodes[holder].folder / "data" / "__transaction_state-0")
        kafka.start(holder)

    folder.run_with_fault(("CreateTopics", 1, "before"), fault)
    folder.require_converged()


@pytest.mark.skipif(not SOAK, reason="takes minutes: make soak")
def test_k29_brokers_of_two_releases(fresh_kraft: KraftFixtureFactory) -> None:
    """A rolling upgrade from 3.9 to 4.4, one node after the other: the same manifests have nothing to do at each step,
    another topic is created, and a config that not all brokers know is refused or set, as the controller says.
    """
    with fresh_kraft(NEWEST, THREE_RACKS) as bed:
        folder = Folder(bed, "rolling")
        folder.write(kept=f"{PLACED.format(2, 1000000)[:-1]}, {DROPPED}: false}}")
        assert folder.run("apply", "--yes").returncode == Exit.DONE
        for step, node in enumerate((CONTROLLER, 1, 2, 3)):
            bed.kafka.upgrade(node, UPGRADED)
            bed.kafka.wait(lambda: bed.registered() == set(THREE_RACKS), "all brokers")
            for _ in range(3):
                planned = folder.run("plan", "--exit-code")
                assert planned.returncode == Exit.DONE, (node, planned)
            folder.write(**{f"step{step}": PLACED.format(1, 1000000)})
            applied = folder.run("apply", "--yes", "--wait")
            assert applied.returncode == Exit.DONE, (node, applied)
        folder.write(added=f"{PLACED.format(1, 1000000)[:-1]}, {ADDED}: 0}}")
        assert folder.run("apply", "--yes").returncode == Exit.DONE
        again = folder.run("plan", "--exit-code")
        assert again.returncode == Exit.DONE, again
        assert "ignored from 4.0" in again.stderr


def active_controller(kraft: KraftFixture) -> int:
    """Return the id of the active controller, -1 if there is none."""
    with KafkaCluster(KafkaAccess(kraft.kafka.bootstrap), owner="test") as cluster:
        return cluster.read().controller or -1

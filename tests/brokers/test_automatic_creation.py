"""Races between a declared topic and automatic creation of the same topic for a producer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import pytest

from brokers.shared_clusters import AUTO_CREATE_PROPERTIES
from brokers.topiarist_runs import PlannedTopic, manifest_folder, plan_topics
from support.cli.runs import run_topiarist
from support.kafka.clients import Clients
from support.kafka.cluster import Cluster
from support.kafka.kafka_fixture import KafkaFixture
from support.kafka.programs import Program
from support.kafka.zookeeper import ZooKeeper
from support.zookeeper import write_checker
from support.zookeeper.proxy import Connection, Proxy
from topiarist.errors import Exit

SAME: dict[str, Any] = {"partitions": 3, "replicationFactor": 2}
"""The topic that brokers create for a producer on the cluster of these tests."""

OTHER: dict[str, Any] = {"partitions": 3, "replicationFactor": 2, "config": {"flush.ms": 1000}}
"""A topic that differs from the one that brokers create."""

TRANSACTION = 2
"""The number of the write with a run's first transaction, after the lock, if topiarist's own znodes exist."""

RACING = 30

SESSION = 18_000
"""Milliseconds for which a broker may be disconnected from ZooKeeper."""


class OnTheWay(Proxy):
    """A proxy that runs an action once, before it forwards the first write that contains ``needle``."""

    needle = b"nothing"
    meanwhile: Callable[[], None] = staticmethod(lambda: None)

    def _write(self, connection: Connection, xid: int, body: bytes) -> bool:
        if self.needle in body and not self.triggered.is_set():
            self._run_action(self.meanwhile)
        return super()._write(connection, xid, body)


@pytest.fixture
def between(automatic: KafkaFixture) -> Iterator[Proxy]:
    """Return a proxy between topiarist and ZooKeeper; topiarist's own znodes exist already."""
    automatic.declare({"first-of-all": SAME})
    automatic.apply("--adopt=*")
    with Proxy(automatic.kafka.zookeeper.connect) as proxy:
        yield proxy


def declare(bed: KafkaFixture, topics: dict[str, dict[str, Any]], proxy: Proxy) -> None:
    """Replace the manifests; ZooKeeper is behind the proxy."""
    bed.declare(topics, zookeeper={"connect": proxy.through(bed.kafka.connect)})


def written_to(bed: KafkaFixture, *names: str) -> None:
    """Write to topics that do not exist, as a producer does that knows only their names."""
    for name in names:
        assert bed.clients.produce({name: 1}, "first") == {name: [0]}


def check_whole(bed: KafkaFixture, names: list[str]) -> None:
    """Assert that brokers host the topics with the sizes of ``SAME`` and keep the acknowledged message."""
    found = bed.describe_in_sync(names)
    assert {(len(topic.partitions), len(topic.replicas[0])) for topic in found.values()} == {(3, 2)}
    assert bed.clients.consume(dict.fromkeys(names, 1)) == {name: [["first"]] for name in names}


def test_f09_a_topic_that_appears_under_a_saved_plan(automatic: KafkaFixture) -> None:
    """A broker creates a topic for a producer after the plan was saved: nothing is sent, and the conflicts are
    named.
    """
    bed = automatic
    bed.declare({"saved-a": SAME, "saved-b": OTHER})
    assert {name: changes[0]["kind"] for name, changes in bed.plan().items()} == {
        "saved-a": "CreateTopic",
        "saved-b": "CreateTopic",
    }
    written_to(bed, "saved-b")
    before = write_checker.read_nodes(bed.kafka.connect)
    clusters = str(manifest_folder(bed) / "all.yaml")
    said = run_topiarist("apply", "--plan", bed.folder / "plan.json", "--clusters", clusters, "--yes")
    assert said.code == Exit.CONFLICT, said
    assert "saved-b" in said.out
    assert "did not exist, and exists now" in " ".join(said.out.split())
    assert write_checker.decode_topics(write_checker.read_nodes(bed.kafka.connect)) == write_checker.decode_topics(
        before
    )
    assert plan_topics(manifest_folder(bed)) == {
        "saved-a": PlannedTopic(("CreateTopic",)),
        "saved-b": PlannedTopic((), ("NotAdopted",)),
    }
    check_whole(bed, ["saved-b"])


def test_f09_a_topic_that_appears_before_its_transaction(automatic: KafkaFixture, between: Proxy) -> None:
    """A broker creates the topic for a producer after topiarist read that it does not exist: a conflict, and the topic
    is not changed. The next run adopts it if it equals its manifest, and otherwise refuses it until ``--adopt`` is
    given; no message is lost.
    """
    bed = automatic
    declare(bed, {"late-a-same": SAME, "late-b-other": OTHER, "late-c-ours": OTHER}, between)
    between.reset()
    between.hold(TRANSACTION, lambda: written_to(bed, "late-a-same", "late-b-other"))
    said = bed.run("apply", "--yes")
    assert between.triggered.is_set()
    assert said.code == Exit.CONFLICT, said
    assert plan_topics(manifest_folder(bed)) == {
        "late-a-same": PlannedTopic(("TakeOwnership",)),
        "late-b-other": PlannedTopic((), ("NotAdopted",)),
    }
    assert bed.run("apply", "--yes").code == Exit.REFUSED
    assert plan_topics(manifest_folder(bed)) == {"late-b-other": PlannedTopic((), ("NotAdopted",))}
    written_to(bed, "late-c-ours")
    names = ["late-a-same", "late-b-other", "late-c-ours"]
    check_whole(bed, names)
    tree = write_checker.read_nodes(bed.kafka.connect)
    assert [f"/topiarist/topics/{name}" in tree for name in names] == [True, False, True]
    assert write_checker.decode_configs(tree)["late-b-other"] == {}
    bed.apply("--adopt=late-b-*")
    assert bed.clients.overrides(names)["late-b-other"] == {"flush.ms": "1000"}
    assert bed.run("plan", "--exit-code").code == Exit.DONE
    check_whole(bed, names)


def test_a_race_that_nobody_referees(automatic: KafkaFixture, between: Proxy, report: Callable[[str], None]) -> None:
    """Each of thirty topics is created completely, by topiarist or for a producer that writes during the run.

    No acknowledged message is lost. One more run with ``--adopt`` brings all topics to their manifests.
    """
    bed, names = automatic, [f"race-{number:02}" for number in range(RACING)]
    declare(bed, dict.fromkeys(names, OTHER), between)
    order = Random(bed.kafka.release).sample(names, RACING)
    between.delay = 0.1  # in each direction: every read is at least this old when the write arrives
    wrong: list[BaseException] = []

    def write() -> None:
        try:
            written_to(bed, *order)
        except BaseException as error:  # also a failed assertion: the main thread asserts that there is none
            wrong.append(error)

    producer = Thread(target=write)
    producer.start()
    said = bed.run("apply", "--yes")
    producer.join()
    between.reset()
    assert wrong == []
    assert said.code in (Exit.DONE, Exit.CONFLICT), said
    tree = write_checker.read_nodes(bed.kafka.connect)
    ours = [name for name in names if f"/topiarist/topics/{name}" in tree]
    found = plan_topics(manifest_folder(bed))
    assert {name: one.refusals for name, one in found.items() if one.refusals} == {
        name: ("NotAdopted",) for name in names if name not in ours
    }
    check_whole(bed, names)
    report(f"Kafka {bed.kafka.release}: of {RACING} topics {len(ours)} were made by us, the others for a producer")
    bed.apply("--adopt=*")
    assert plan_topics(manifest_folder(bed)) == {}
    assert set(map(str, bed.clients.overrides(names).values())) == {str({"flush.ms": "1000"})}
    check_whole(bed, names)


def test_a_broker_that_writes_over_what_we_have_made(
    server: ZooKeeper, release: str, program: Program, tmp_path: Path
) -> None:
    """A broker that has not seen topiarist's new topic overwrites its config with an empty one.

    Its own creation then fails. The topic stays, without its config. The next plan reports ``ModifiedExternally``, and
    an apply restores the config.
    """
    settings = AUTO_CREATE_PROPERTIES | {"default.replication.factor": 1, "zookeeper.session.timeout.ms": SESSION}
    with (
        OnTheWay(server.connect) as proxy,
        Cluster(server, release, {}, chroot="/kafka/behind", properties=settings) as kafka,
    ):
        kafka.start(1, properties={"zookeeper.connect": proxy.through(kafka.connect)})
        bed = KafkaFixture(kafka, Clients(program, kafka.bootstrap), tmp_path)
        bed.declare({"overwritten": {"partitions": 5, "replicationFactor": 1, "config": {"flush.ms": 1000}}})

        def create() -> None:
            bed.apply()

        proxy.needle, proxy.meanwhile = b"/config/topics/overwritten", create
        written_to(bed, "overwritten")
        assert proxy.triggered.is_set()
        assert len(bed.describe_in_sync(["overwritten"])["overwritten"].partitions) == 5
        assert plan_topics(manifest_folder(bed)) == {
            "overwritten": PlannedTopic(("flush.ms None -> 1000",), (), ("ModifiedExternally",))
        }
        bed.apply()
        assert bed.clients.overrides(["overwritten"]) == {"overwritten": {"flush.ms": "1000"}}
        assert bed.run("plan", "--exit-code").code == Exit.DONE

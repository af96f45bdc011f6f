"""The page about the migration from ZooKeeper to KRaft, walked on a real one: 3.9.2 in ZooKeeper mode to 4.4.0.

Kafka itself causes every state, with the processes of its releases. The commands of the page run as a user runs them,
and print what the page shows (``TOPIARIST_GOLDEN=write`` writes it anew). Between them, in each phase, the manifests of
the page have nothing to do, every topic has its record and its id, and a second owner creates one more topic, but where
the brokers would not carry it out.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from brokers.topiarist_runs import run_in_process
from support.checkout import ROOT
from support.cli.runs import RunResult, document, without_notice
from support.kafka.jars import NEWEST
from support.kafka.kafka_fixture import KafkaFixture, KafkaFixtureFactory
from support.kafka.quorum import CONTROLLER, Quorum
from support.repo.pages import blocks
from support.repo.walkthrough import CommandOutput, PageRun, output_blocks, run_on_brokers, write_outputs
from topiarist.adapters.devcluster.seed import CLUSTER_ID
from topiarist.adapters.kafka_admin.cluster import KafkaCluster
from topiarist.errors import Exit, Reason
from topiarist.model.access import KafkaAccess
from topiarist.model.state import TopicState

PAGE = ROOT / "docs" / "from-zookeeper-to-kraft.md"
BROKERS: dict[int, str | None] = {1: "a", 2: "b"}
TARGET = "4.4.0"
OTHER = "phases"
"""The owner of the topics that are created in each phase."""

SHOWN_CONNECT, SHOWN_BOOTSTRAP = "localhost:2181/kafka", "127.0.0.1:9092"

CLUSTER = """\
apiVersion: topiarist.dev/v1
kind: Cluster
metadata:
  name: prod
spec:
  clusterId: {cluster_id}
  zookeeper:
    connect: {connect}
"""
TOPIC = """\
apiVersion: topiarist.dev/v1
kind: Topic
metadata:
  name: {name}
spec:
  partitions: 2
  replicationFactor: 2
  config:
"""
CONFIGS = {"clicks": "segment.bytes: 1000", "orders": "retention.ms: 86400000"}
"""The configs of the page's topics at the start; brokers of Kafka 4.4 do not start with the first one."""

PHASE: Mapping[str, Any] = {"partitions": 2, "replicationFactor": 2}
DROPPED: Mapping[str, Any] = {**PHASE, "config": {"message.downconversion.enable": False}}
"""A topic with a config that Kafka 4 has dropped."""


class Migration:
    """The cluster, its quorum, the folder of the page, and the topics of all phases so far."""

    def __init__(self, bed: KafkaFixture, quorum: Quorum) -> None:
        self.bed, self.kafka, self.quorum = bed, bed.kafka, quorum
        self.folder = bed.folder
        self.phases: dict[str, Mapping[str, Any]] = {}
        self.ids: dict[str, str | None] = {}
        (self.folder / "topics").mkdir()
        (self.folder / "phases").mkdir()
        self.cluster_id = json.loads(bed.kafka.client.get("/cluster/id")[0])["id"]
        cluster = CLUSTER.format(cluster_id=self.cluster_id, connect=bed.kafka.connect)
        (self.folder / "topics" / "cluster.yaml").write_text(cluster)
        for name, config in CONFIGS.items():
            (self.folder / "topics" / f"{name}.yaml").write_text(f"{TOPIC.format(name=name)}    {config}\n")

    @property
    def owners(self) -> dict[str, str]:
        """Return the owner of each topic of the manifests."""
        names = [path.stem for path in (self.folder / "topics").glob("*.yaml") if path.stem != "cluster"]
        return {**dict.fromkeys(names, "default"), **dict.fromkeys(self.phases, OTHER)}

    def run(self, command: str, *words: str) -> RunResult:
        """Run topiarist on the page's folder; return the result with its output on one line."""
        return on_one_line(run_in_process(command, self.folder / "topics", *words))

    def run_phases(self, command: str, *words: str) -> RunResult:
        """Run topiarist on the topics of the phases, with their own owner."""
        documents = [document("Topic", name, **fields) for name, fields in self.phases.items()]
        (self.folder / "phases" / "all.yaml").write_text("\n---\n".join(documents))
        clusters = ("--clusters", str(self.folder / "topics" / "cluster.yaml"), "--owner", OTHER)
        return on_one_line(run_in_process(command, self.folder / "phases", *clusters, *words))

    def check_open(self, phase: str) -> None:
        """Assert that nothing is to do, that every topic still has its record and id, and that one more is created."""
        self.check_nothing_to_do()
        self.phases[phase] = PHASE if self.phases else DROPPED
        said = self.run_phases("apply", "--yes", "--wait")
        assert (said.code, "Applied: 1 done." in said.out) == (Exit.DONE, True), (phase, said)
        self.check_nothing_to_do()
        self.wait_in_sync()

    def check_nothing_to_do(self) -> None:
        """Assert an empty plan of an open cluster, and that no topic has lost its record or its id."""
        for run in (self.run, self.run_phases) if self.phases else (self.run,):
            said = run("plan", "--exit-code")
            assert (said.code, "write block" in said.out) == (Exit.DONE, False), said
        with KafkaCluster(KafkaAccess(self.kafka.bootstrap), owner="test") as cluster:
            topics = cluster.read().topics
        owners = self.owners
        assert {name: owner_of(topics[name]) for name in owners} == owners
        ids = {name: topics[name].topic_id for name in owners}
        assert self.ids.items() <= ids.items()
        self.ids = ids

    def check_closed(self, reason: Reason, words: str, *options: str) -> None:
        """Assert that a plan names the write block, and that nothing is applied."""
        wanted = {**self.phases}
        self.phases["unwanted"] = PHASE
        planned, applied = self.run_phases("plan", *options), self.run_phases("apply", "--yes", *options)
        self.phases = wanted
        assert f"write block: {reason.value}" in planned.out, planned
        assert words in planned.out, planned
        assert applied.code == Exit.REFUSED, applied
        assert self.bed.clients.describe(["unwanted"]) == {"unwanted": None}

    def wait_in_sync(self) -> None:
        """Wait until all replicas of the topics so far are in sync. The brokers are asked: ZooKeeper may have ended."""

        def is_in_sync() -> bool:
            found = self.bed.clients.describe([*self.ids])
            return all(topic is not None and topic.is_in_sync for topic in found.values())

        self.kafka.wait(is_in_sync, "all replicas to be in sync")

    def begin(self) -> None:
        """Try what holds after the move, start the quorum, and restart one broker for the migration."""
        self._check_move()
        self.check_open("zookeeper-mode")
        self._start_quorum()
        self.check_open("quorum-waits")
        self._restart_first_broker()

    def stop_and_restart_second_broker(self) -> None:
        """Restart the other broker for the migration; while it is stopped, topiarist waits too."""
        self.kafka.stop(2)
        self.kafka.wait(lambda: self.kafka.controller() == 1, "the first broker to become controller")
        self.check_closed(Reason.KRAFT_MIGRATION, "broker 2 is not there")
        self._restart_second_broker()

    def migrate(self) -> None:
        """Go from dual write back to ZooKeeper mode, to dual write again, and to KRaft mode."""
        kafka, quorum = self.kafka, self.quorum
        self.check_open("dual-write")
        self._roll_back()
        self.check_open("rolled-back")
        self._start_quorum()
        self._restart_first_broker()
        self._restart_second_broker()
        self.check_open("dual-write-again")
        quorum.migrate_broker(1)
        self.check_nothing_to_do()
        quorum.migrate_broker(2)
        kafka.wait(lambda: kafka.registered() == set(), "the brokers to leave ZooKeeper")
        self.check_open("brokers-kraft")
        quorum.finish_migration()
        self.check_open("kraft")
        kafka.zookeeper.kill()
        self.check_nothing_to_do()

    def upgrade(self) -> None:
        """Restart all nodes with the next release on the same folders, with spec.zookeeper still there."""
        self.quorum.upgrade(TARGET)
        self.wait_in_sync()
        self.check_open("upgraded")

    def _check_move(self) -> None:
        """Runs through ZooKeeper are refused; opened by force, it stops runs through the brokers until a new move."""
        again = self.run("move-records", "--yes")
        assert (again.code, "already moved: 2 records" in again.out) == (Exit.DONE, True), again
        through_zookeeper = ("--zookeeper", self.kafka.connect)
        self.check_closed(Reason.FROZEN, "moved to Kafka", *through_zookeeper)
        refused = self.run("unfreeze", *through_zookeeper)
        assert (refused.code, "through its brokers" in refused.out) == (Exit.REFUSED, True), refused
        assert self.run("unfreeze", "--force", *through_zookeeper).code == Exit.DONE
        self.check_closed(Reason.MOVED_BACK, "ZooKeeper is open now")
        assert self.run("move-records", "--yes").code == Exit.DONE

    def _start_quorum(self) -> None:
        self.quorum.start()
        self.kafka.wait(lambda: self.kafka.client.exists("/migration"), "the quorum to find ZooKeeper")

    def _restart_first_broker(self) -> None:
        self.kafka.restart(1, properties=self.quorum.migration_properties)
        self.wait_in_sync()
        self.check_closed(Reason.KRAFT_MIGRATION, "broker 1 has been restarted for it, broker 2 has not")

    def _restart_second_broker(self) -> None:
        """Restart the other broker for the migration, and wait until the quorum is the controller."""
        self.kafka.restart(2, properties=self.quorum.migration_properties)
        self.kafka.wait(self.quorum.is_controller, "the quorum to take over")
        self.wait_in_sync()

    def _roll_back(self) -> None:
        """Stop the quorum, make a broker controller, and restart the brokers as they were."""
        self.quorum.stop()
        self.kafka.client.delete("/controller")
        self.kafka.wait(lambda: self.kafka.client.exists("/controller"), "a broker to become controller")
        self.kafka.client.delete("/migration")
        for broker in BROKERS:
            self.quorum.revert_broker(broker)
        self.wait_in_sync()


def on_one_line(found: RunResult) -> RunResult:
    """Return a result without the line breaks of its output."""
    return found._replace(out=" ".join(found.out.split()), err=" ".join(found.err.split()))


def owner_of(topic: TopicState) -> str | None:
    """Return the owner in a valid record."""
    return topic.valid_record.owner if topic.valid_record else None


def walk(page: str, migration: Migration) -> PageRun:
    """Run all blocks of the page in order, and the steps of Kafka between them."""
    kafka = migration.kafka
    steps: Mapping[str, Callable[[], None]] = {
        "restart one broker for the migration": migration.begin,
        "restart the other broker for the migration": migration.stop_and_restart_second_broker,
        "migrate": migration.migrate,
        "upgrade to Kafka 4.4": migration.upgrade,
    }
    printed: list[CommandOutput] = []
    codes: list[tuple[str, int, int]] = []
    done = []
    shown = {kafka.bootstrap: SHOWN_BOOTSTRAP, kafka.connect: SHOWN_CONNECT, migration.cluster_id: CLUSTER_ID}
    for block in blocks(page):
        if name := re.fullmatch("step: (.*)", block.marker):
            done.append(name[1])
            steps[name[1]]()
        elif block.marker.startswith("run on brokers"):
            text, expected, code, outputs = run_on_brokers(block, migration.folder, shown)
            codes.append((text, expected, code))
            printed += [output._replace(text=hide_chance(output.text)) for output in outputs]
    assert done == [*steps]
    return PageRun(printed, codes)


def hide_chance(text: str) -> str:
    """Replace the controller and its epoch, which differ from run to run, and leave out that a connection took long."""
    text = re.sub(rf"controller (?!{CONTROLLER})\d\b", "controller 1", without_notice(text))
    return re.sub(rf"controller {CONTROLLER}, epoch \d\b", f"controller {CONTROLLER}, epoch 2", text)


@pytest.mark.night(area="migration")
@pytest.mark.timeout(1200)  # many restarts: 4 to 8 minutes were measured on busy machines
def test_the_page_on_a_real_migration(fresh: KafkaFixtureFactory) -> None:
    """Records by ZooKeeper, moved to Kafka, dual write, rollback, dual write, KRaft, Kafka 4.4: every command of the
    page ends and prints as the page says, and in each phase the same manifests have nothing to do.
    """
    page = PAGE.read_text()
    with fresh(NEWEST, BROKERS) as bed, Quorum(bed.kafka) as quorum:
        migration = Migration(bed, quorum)
        assert migration.run("apply", "--yes", "--wait").code == Exit.DONE
        story = walk(page, migration)
        migration.check_open("without-zookeeper")
    for text, expected, found in story.codes:
        assert found == expected, text
    if os.environ.get("TOPIARIST_GOLDEN") == "write":
        write_outputs(PAGE, story)
        page = PAGE.read_text()
    shown = output_blocks(page)
    assert len(shown) >= 8
    for block in shown:
        assert block.text == story.output(block), f"{block.marker}: not so; TOPIARIST_GOLDEN=write writes it anew"

"""The real command on real brokers in KRaft mode: killed or stopped at its requests, and followed by another run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from support.kafka.kraft_fixture import KraftFixture
from support.soak import SOAK
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.records.codec import IntentKind, Records
from topiarist.adapters.kafka_admin.records.run import ClusterView, RecordsRun
from topiarist.errors import Exit
from topiarist.model.access import KafkaAccess

_Result = TypeVar("_Result")

TOPIC = """apiVersion: topiarist.dev/v1
kind: Topic
metadata: {{name: {name}}}
spec:
  clusters: [demo]
  {fields}
"""
PLACED = "partitions: {}\n  replicationFactor: 2\n  config: {{retention.ms: {}}}"
KILLS = [
    ("InitProducerId", 1, "after"),
    ("EndTxn", 1, "before"),
    ("EndTxn", 1, "after"),
    ("DeleteTopics", 1, "before"),
    ("DeleteTopics", 1, "after"),
    ("EndTxn", 2, "before"),
    ("EndTxn", 2, "after"),
    ("CreateTopics", 1, "before"),
    ("CreateTopics", 1, "after"),
    ("IncrementalAlterConfigs", 1, "before"),
    ("IncrementalAlterConfigs", 1, "after"),
    ("CreatePartitions", 1, "before"),
    ("CreatePartitions", 1, "after"),
    ("Produce", 3, "after"),
    ("EndTxn", 3, "before"),
    ("EndTxn", 3, "after"),
    ("EndTxn", 4, "before"),
    ("EndTxn", 4, "after"),
]
"""The requests of a run with a chunk that deletes, one that configures and grows, and one that creates."""

CORE_KILL = ("CreateTopics", 1, "after")
"""The kill that every run of these tests has: a topic exists, and its record is still an intent."""

STOPS = [
    ("InitProducerId", 2, "before"),  # the first of the two checks of the deletion
    ("InitProducerId", 3, "after"),  # the second one
    ("CreateTopics", 1, "after"),
    ("InitProducerId", 4, "before"),  # the first check of the configs
    ("EndTxn", 4, "before"),
]

if not SOAK:
    # Each takes a quarter of a minute, to wait for a lease. make test-faults tries every request, without brokers.
    KILLS = [fault for fault in KILLS if fault[0] in ("EndTxn", "CreateTopics") and fault[1] != 2]
    STOPS = STOPS[1:3]


class Folder:
    """The manifests of one test, with names of their own on the shared cluster."""

    def __init__(self, kraft: KraftFixture, prefix: str, name: str = "manifests") -> None:
        self.kraft = kraft
        self.prefix = prefix
        self.path = kraft.folder / name
        self.path.mkdir()
        (self.path / "cluster.yaml").write_text(
            "apiVersion: topiarist.dev/v1\nkind: Cluster\nmetadata: {name: demo}\n"
            f'spec:\n  kafka: {{bootstrapServers: "{kraft.kafka.bootstrap}"}}\n'
        )

    def write(self, **topics: str) -> None:
        """Write the manifests of topics."""
        for name, fields in topics.items():
            (self.path / f"{name}.yaml").write_text(TOPIC.format(name=f"{self.prefix}-{name}", fields=fields))

    def begin(self) -> None:
        """Create three topics, and write manifests that create, configure, grow and delete."""
        self.write(grown=PLACED.format(1, 1000000), set=PLACED.format(1, 1000000), old=PLACED.format(1, 1000000))
        assert self.run("apply", "--yes").returncode == 0
        self.write(
            new=PLACED.format(3, 3000000),
            grown=PLACED.format(3, 2000000),
            set=PLACED.format(1, 2000000),
            old="ensure: Absent",
        )

    def start(self, fault: tuple[str, int, str], signal_name: str = "KILL") -> subprocess.Popen[str]:
        """Start the command that applies the manifests, with a signal at one request."""
        request, number, when = fault
        words = [signal_name, request, str(number), when, "apply", str(self.path), *APPROVED]
        return start_process("support.kafka.faulty_command", *words)

    def run_with_fault(self, request: tuple[str, int, str], fault: Callable[[], _Result]) -> _Result:
        """Stop the command at a request, bring the fault about, and let it go on; return what the fault returned.

        The command must end without a traceback: done, with an error, or with a conflict if a broker has ended.
        """
        process = self.start(request, "STOP")
        try:
            wait_until_stopped(process)
            found = fault()
            os.kill(process.pid, signal.SIGCONT)
            out, err = process.communicate(timeout=300)
        finally:
            process.kill()
            process.wait()
        assert process.returncode in (Exit.DONE, Exit.ERROR, Exit.CONFLICT), (out, err)
        assert "Traceback" not in err
        return found

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the command without a fault."""
        command, *options = words
        process = start_process(
            "support.kafka.faulty_command", "KILL", "none", "0", "", command, str(self.path), *options
        )
        out, err = process.communicate(timeout=240)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def records(self) -> Records:
        """Return the records of the cluster."""
        session = Session(KafkaAccess(self.kraft.kafka.bootstrap), 10.0)
        try:
            return RecordsRun(session, "default", ClusterView(dict.fromkeys)).read()
        finally:
            session.close()

    def require_converged(self) -> None:
        """Run again, and demand what the manifests say, a record with each id, no intent, and no change after it."""
        done = self.run("apply", *APPROVED)
        assert done.returncode == 0, done
        shown = self.kraft.clients.describe([f"{self.prefix}-{name}" for name in ("new", "grown", "set", "old")])
        sizes = {name.rpartition("-")[2]: topic and len(topic.replicas) for name, topic in shown.items()}
        assert sizes == {"new": 3, "grown": 3, "set": 1, "old": None}
        records = self.records()
        for name, topic in shown.items():
            assert topic is None or records.topics[name].topic_id == topic.id
        assert [
            name for name, each in records.topics.items() if each.intent and each.intent.kind is not IntentKind.GONE
        ] == []
        assert records.lock.run is None
        again = self.run("plan", "--exit-code", "--format", "json")
        assert again.returncode == 0, again
        (cluster,) = json.loads(again.stdout)["clusters"]
        assert cluster["topics"] == []
        assert self.records().number == records.number


NO_FAULT = ("none", 0, "")
APPROVED = ("--yes", "--allow-risk", "DataLoss", "--allow-risk", "Disruptive")


def start_process(module: str, *words: str) -> subprocess.Popen[str]:
    """Start a module of the tests in a process of its own."""
    search = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-m", module, *words],
        env=os.environ | {"PYTHONPATH": search},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.core
@pytest.mark.parametrize(
    "fault",
    [pytest.param(each, marks=() if each == CORE_KILL else pytest.mark.night(area="crash")) for each in KILLS],
    ids=str,
)
def test_a_killed_command_is_completed_by_the_next(kraft: KraftFixture, fault: tuple[str, int, str]) -> None:
    """kill -9 at a request: the next run completes the work, makes nothing twice, and leaves nothing without owner."""
    folder = Folder(kraft, "kill-" + "-".join(map(str, fault)).lower())
    folder.begin()
    with folder.start(fault) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, (out, err)
    name = f"{folder.prefix}-new"
    is_created = fault == CORE_KILL or fault[:2] == ("EndTxn", 4)
    assert (kraft.clients.describe([name])[name] is not None) is is_created
    folder.require_converged()


@pytest.mark.night(area="crash")
@pytest.mark.parametrize("fault", STOPS, ids=str)
def test_a_stopped_command_sends_nothing_after_its_lease(kraft: KraftFixture, fault: tuple[str, int, str]) -> None:
    """SIGSTOP at a request or its check, another run completes, SIGCONT: the first ends and writes nothing."""
    folder = Folder(kraft, "stop-" + "-".join(map(str, fault)).lower())
    folder.begin()
    process = folder.start(fault, "STOP")
    try:
        wait_until_stopped(process)
        folder.require_converged()
        number_of_commits = folder.records().number
        os.kill(process.pid, signal.SIGCONT)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode != 0, (out, err)
    assert folder.records().number == number_of_commits
    folder.require_converged()


@pytest.mark.night(area="crash")
def test_contending_commands_leave_one_result(kraft: KraftFixture) -> None:
    """Four commands apply other values to the same topics at once: each wins or loses, and all records are right."""
    folder = Folder(kraft, "contend")
    names = [f"t{number}" for number in range(10)]
    folder.write(**dict.fromkeys(names, PLACED.format(1, 1000000)))
    assert folder.run("apply", *APPROVED).returncode == 0
    before = folder.records().number
    variants = [Folder(kraft, "contend", f"variant-{number}") for number in range(4)]
    for number, variant in enumerate(variants):
        variant.write(**dict.fromkeys(names, PLACED.format(1, 2000000 + number)))
    processes = [variant.start(NO_FAULT) for variant in variants]
    ended = [(process.communicate(timeout=300), process.returncode) for process in processes]
    assert {code for _, code in ended} <= {0, 1, 5}, ended  # 5: a conflict
    assert any(code == 0 for _, code in ended), ended
    records = folder.records()
    overrides = kraft.clients.overrides([f"contend-{name}" for name in names])
    values = set()
    for name, config in overrides.items():
        record = records.topics[name].record
        assert record
        assert record.applied
        assert dict(record.applied.config) == config, name
        values.add(config["retention.ms"])
    assert len(values) == 1, "a chunk has the values of two runs"
    assert [name for name, each in records.topics.items() if name in overrides and each.intent] == []
    assert records.number > before


@pytest.mark.night(area="crash")
@pytest.mark.parametrize("fault", [("EndTxn", 1, "before"), ("EndTxn", 3, "before")], ids=str)
def test_brokers_of_the_records_are_lost_inside_a_transaction(kraft: KraftFixture, fault: tuple[str, int, str]) -> None:
    """The leader of the records is killed inside a transaction: this run or the next ends well."""
    bed = kraft
    folder = Folder(bed, "lost")
    folder.begin()

    def kill_leader() -> int:
        topic = bed.clients.describe(["__topiarist"])["__topiarist"]
        assert topic
        leader = topic.partitions[0].leader
        assert leader
        bed.kafka.kill(leader)
        return leader

    bed.kafka.start(folder.run_with_fault(fault, kill_leader))
    folder.require_converged()


def wait_until_stopped(process: subprocess.Popen[str]) -> None:
    """Wait until a process has stopped itself."""
    deadline = time.monotonic() + 120
    while read_state(process.pid) != "T":
        assert time.monotonic() < deadline, "it did not stop"
        time.sleep(0.05)


def read_state(pid: int) -> str:
    """Return the state of a process: T if it is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]

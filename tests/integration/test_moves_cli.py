"""Moves by the command line: progress, report, ``--no-wait``, Ctrl-C, ``topiarist moves``, ``clear`` and ``revert``."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from integration.test_terminal import typed
from support.cli.runs import RunResult, run_topiarist, start_topiarist
from support.waiting import wait_until
from support.zookeeper.moves import LISTS, RATES, RECORD, REQUEST, MovingCluster
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic, config_bytes
from topiarist.schema import load

MOVED = 5
"""Partitions of ``LISTS`` on broker 6."""

BATCHES = 3
MANIFESTS = """\
apiVersion: topiarist.dev/v1
kind: Cluster
metadata: {{name: prod}}
spec:
  zookeeper: {{connect: "{connect}"}}
  kafkaVersion: "3.9"
  drainBrokers: {drained}
  moves: {{allow: [Drain], throttle: 50MiB, batch: {{partitions: 2}}}}
---
apiVersion: topiarist.dev/v1
kind: Topic
metadata: {{name: orders}}
spec: {{partitions: 6, replicationFactor: 2}}
"""
MOVES_SCHEMA = Draft7Validator(load.load_schema("moves"))
REPORT_SCHEMA = Draft7Validator(load.load_schema("report"))


class Night(MovingCluster):
    """An operator with a cluster that has a topic on a drained broker."""

    def __init__(self, kafka: SimulatedKafka, folder: Path) -> None:
        super().__init__(kafka)
        self.folder = folder
        self.report = str(folder / "report.jsonl")
        self.back = str(folder / "back.json")
        self.declare()

    @property
    def manifests(self) -> str:
        """Return the path of the manifests."""
        return str(self.folder / "all.yaml")

    def declare(self, *, drained: str = "[6]") -> None:
        """Write the manifests."""
        Path(self.manifests).write_text(MANIFESTS.format(connect=self.kafka.connect, drained=drained))

    def applies(self, *words: str) -> RunResult:
        """Apply the manifests."""
        return run_topiarist("apply", self.manifests, "--yes", "--adopt=*", *words)

    def reverts(self, *words: str) -> RunResult:
        """Make the plan of the reverse of the report."""
        return run_topiarist("moves", "revert", self.report, "--clusters", self.manifests, *words)

    def status(self) -> dict[str, Any]:
        """Return the status of the cluster, validated by the schema."""
        document = json.loads(run_topiarist("moves", self.manifests, "--format", "json").out)
        MOVES_SCHEMA.validate(document)
        (cluster,) = document["clusters"]
        return dict(cluster)

    def rows(self, kind: str) -> list[dict[str, Any]]:
        """Return the rows of one kind in the report, validated by the schema."""
        rows = [json.loads(line) for line in Path(self.report).read_text().splitlines()]
        for row in rows:
            REPORT_SCHEMA.validate(row)
        return [row for row in rows if row["row"] == kind]

    def throttled(self) -> list[str]:
        """Return each throttle config that a topic or broker has, with its entity."""
        return [f"{entity} {key}" for entity, config in sorted(self.throttles().items()) for key in config]


@pytest.fixture
def night(cluster: SimulatedKafka, tmp_path: Path) -> Night:
    """A topic with five partitions on the drained broker 6; the controller carries out reassignments."""
    cluster.moves_replicas = True
    cluster.add_topics(Topic("orders", LISTS, {}))
    return Night(cluster, tmp_path)


@pytest.fixture
def held(night: Night) -> Night:
    """The same after a run that has sent the first batch, and did not wait for it."""
    night.lag()
    said = night.applies("--no-wait")
    assert said.code == 1, said
    return night


def test_progress_goes_to_stderr(night: Night) -> None:
    """The first batch has a line without a terminal; the result says how many partitions were moved."""
    said = night.applies()
    assert said.code == 0, said
    assert said.err.startswith(f"prod: batch 1 of {BATCHES}: 0 of {MOVED} partitions, 2 copying (")
    assert f"+ moved {MOVED} partitions of 1 topic, {MOVED} replicas copied" in said.words
    assert night.throttled() == []


def test_quiet_runs_show_no_progress(night: Night) -> None:
    """With ``-q`` nothing is printed on standard error."""
    said = night.applies("-q")
    assert (said.code, said.err) == (0, "")


def test_the_end_of_an_earlier_batch_is_named(night: Night) -> None:
    """A run that only ends it does not look as if it had done nothing."""
    for _ in range(BATCHES):
        assert night.applies("--no-wait").code == 1
        night.catch_up()
    said = night.applies()
    assert (said.code, said.out.splitlines()[-1]) == (0, "Applied: nothing to do.")
    assert said.err == f"prod: ended batch {BATCHES} of {BATCHES} of an earlier run, and put its throttles back\n"


def test_a_report_has_each_moved_partition(night: Night) -> None:
    """Each partition has one line with its lists, before the line of its topic; the batches are in order."""
    assert night.applies("--report", night.report).code == 0
    rows = night.rows("move")
    assert {row["partition"]: (tuple(row["before"]), tuple(row["after"])) for row in rows} == {
        partition: (before, after)
        for partition, (before, after) in enumerate(zip(LISTS, night.lists(), strict=True))
        if before != after
    }
    assert [row["batch"] for row in rows] == [1, 1, 2, 2, 3]
    assert {tuple(row["reasons"]) for row in rows} == {("Drain",)}


def test_a_terminal_has_one_line_that_is_replaced(night: Night) -> None:
    """The question names the copies; progress is drawn in the place of the line before, and removed at the end."""
    program = [sys.executable, "-m", "topiarist", "apply", night.manifests, "--adopt=*"]
    shown, code = typed(program, "yes")
    assert code == 0, shown
    assert f"Apply to 1 topic, and copy {MOVED} replicas? Type yes" in shown
    assert f"\r\x1b[Kprod: batch 1 of {BATCHES}: 0 of {MOVED} partitions, 2 copying" in shown
    assert shown.rindex("\r\x1b[K") > shown.rindex("prod: batch")


def test_no_wait_sends_one_batch(held: Night) -> None:
    """The run ends with 1 while moves are left, and the next one sends nothing while the batch is in progress."""
    request = held.kafka.client.get(REQUEST)[0]
    said = held.applies("--no-wait")
    assert said.code == 1
    assert "MovesUnfinished" in said.out
    assert held.kafka.client.get(REQUEST)[0] == request


def test_no_wait_can_be_repeated_until_all_is_done(held: Night) -> None:
    """Each run sends one batch; after the last one the throttles are put back."""
    held.catch_up()
    codes = []
    for _ in range(BATCHES):
        codes.append(held.applies("--no-wait").code)
        wait_until(lambda: held.kafka.client.exists(REQUEST) is None, "the controller to end the batch")
    assert codes == [1] * (BATCHES - 1) + [0]
    assert not any(6 in replicas for replicas in held.lists())
    assert held.throttled() == []


def test_no_wait_excludes_wait(night: Night) -> None:
    """The two options contradict each other: a usage error, with nothing written."""
    assert night.applies("--wait", "--no-wait").code == 2
    assert night.lists() == LISTS


@pytest.fixture
def waiting(night: Night) -> Iterator[subprocess.Popen[str]]:
    """A run that waits for its first batch."""
    night.lag()
    process = start_topiarist("apply", night.manifests, "--yes", "--adopt=*")
    assert process.stderr is not None
    while "batch 1 of" not in process.stderr.readline():
        assert process.poll() is None
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


def test_an_interrupt_ends_before_the_next_batch(night: Night, waiting: subprocess.Popen[str]) -> None:
    """The run says what continues; the next one waits for that batch, sends the others, and leaves no throttle."""
    waiting.send_signal(signal.SIGINT)
    out, _ = waiting.communicate(timeout=300)
    assert waiting.returncode == 130
    words = " ".join(out.split())
    assert "2 in flight" in words
    assert "continues at the controller" in words
    assert night.throttled() != []
    night.catch_up()
    said = night.applies()
    assert said.code == 0, said
    assert not any(6 in replicas for replicas in night.lists())
    assert night.throttled() == []
    assert night.kafka.client.exists(RECORD) is None


def test_nothing_moves(night: Night) -> None:
    """A cluster without moves has one line below its name; ``moves status`` is the same command."""
    said = run_topiarist("moves", night.manifests)
    assert said.code == 0
    assert said.out.splitlines()[1:] == ["Nothing moves."]
    assert run_topiarist("moves", "status", night.manifests) == said


def test_the_status_of_a_batch(held: Night) -> None:
    """The batch, its partitions with the brokers that copy, and its throttles; nothing is wrong."""
    said = run_topiarist("moves", held.manifests)
    assert said.code == 0
    assert f"batch 1 of {BATCHES} by owner default, 2 partitions, sent" in said.words
    assert "2 left orders 0 to" in said.words
    assert "Moving: 2 partitions left of the batch; apply waits for it." in said.words
    status = held.status()
    assert [each["lagging"] == each["adding"] != [] for each in status["partitions"]] == [True, True]
    assert {each["now"] == each["ours"] for each in status["throttles"]} == {True}
    assert status["unexplainedThrottles"] == []


def test_the_status_after_a_batch(held: Night) -> None:
    """A batch that is done while no run waits leaves throttles, and the status says what removes them."""
    held.catch_up()
    said = run_topiarist("moves", held.manifests)
    assert said.code == 0
    words = "The batch is done, and its throttles are left: unless an apply is running, run it as owner default"
    assert words in said.words


@pytest.mark.parametrize(
    ("entry", "remedy"),
    [(("ghost", 0, [1, 2]), "let another broker become controller"), (("orders", 1, [1, 1]), "a broker twice")],
)
def test_an_entry_that_never_ends_is_an_error(night: Night, entry: tuple[str, int, list[int]], remedy: str) -> None:
    """The entry of a missing topic, or with a broker twice, ends the status with 1 and has its remedy."""
    night.kafka.moves_replicas = False
    night.request(entry)
    night.kafka.wait_idle()
    said = run_topiarist("moves", night.manifests)
    assert said.code == 1
    assert remedy in said.words
    assert "Stuck" in said.out


def test_clear_is_refused_while_brokers_copy(held: Night) -> None:
    """With a request nothing is cleared: exit code 4, and the throttles stay."""
    before = held.throttled()
    said = run_topiarist("moves", "clear", held.manifests, "--yes")
    assert said.code == 4
    assert "there is a reassignment request" in said.err
    assert held.throttled() == before


def test_clear_puts_values_back(held: Night) -> None:
    """All values of the record are put back, a value that another client changed stays, and the record is deleted."""
    held.catch_up()
    first = held.status()["throttles"][0]
    held.kafka.client.set(f"/config/{first['entity']}", config_bytes({first["config"]: "7"}))
    said = run_topiarist("moves", "clear", held.manifests, "--yes")
    assert said.code == 0, said
    assert f"{first['entity']}: another client changed {first['config']} to 7" in said.out
    assert held.throttled() == [f"{first['entity']} {first['config']}"]
    assert held.kafka.client.exists(RECORD) is None
    again = run_topiarist("moves", "clear", held.manifests, "--yes")
    assert (again.code, again.out) == (0, "prod: nothing to clear: there is no record of a batch\n")


def test_clear_asks_first(held: Night) -> None:
    """The values are shown, and any answer but ``yes`` writes nothing."""
    held.catch_up()
    before = held.throttled()
    program = [sys.executable, "-m", "topiarist", "moves", "clear", held.manifests]
    shown, code = typed(program, "no")
    assert code == 1
    assert "Clear the last batch of 1 cluster? Type yes" in shown
    assert "52428800 -> not set" in shown
    assert held.throttled() == before


def test_clear_reports_a_record_that_cannot_be_read(night: Night) -> None:
    """A malformed record is an error, not an absent one."""
    night.kafka.client.ensure_path(RECORD)
    night.kafka.client.set(RECORD, b"{}")
    said = run_topiarist("moves", "clear", night.manifests, "--yes")
    assert said.code == 1
    assert f"{RECORD} cannot be read" in said.err


@pytest.fixture
def drained(night: Night) -> Night:
    """A cluster after a drain with a report; the broker is not drained any more."""
    assert night.applies("--report", night.report).code == 0
    night.declare(drained="[]")
    return night


def test_moves_are_reverted_by_a_plan(drained: Night) -> None:
    """The plan has each partition of the report; applied, all lists are as before the run, order included."""
    said = drained.reverts("--out", drained.back)
    assert said.code == 0, said
    assert f"move {MOVED} of {len(LISTS)} partitions, {MOVED} copies" in said.words
    assert drained.lists() != LISTS
    said = run_topiarist("apply", "--plan", drained.back, "--clusters", drained.manifests, "--yes")
    assert said.code == 0, said
    assert drained.lists() == LISTS
    assert drained.throttled() == []
    again = drained.reverts()
    assert again.words.endswith("No changes: the plan has no topics.")
    assert "prod: nothing to move back of 1 of 1 topic that the report moved" in again.err


def test_the_report_of_an_interrupted_run_is_reverted_too(night: Night) -> None:
    """A batch that was done between two runs has no line of its own; its topic has one, with the planned moves."""
    night.lag()
    assert night.applies("--no-wait", "--report", night.report).code == 1
    night.catch_up()
    assert night.applies("--report", night.report).code == 0
    assert len(night.rows("move")) == MOVED - 2
    night.declare(drained="[]")
    (topic,) = json.loads(night.reverts("--format", "json").out)["clusters"][0]["topics"]
    (change,) = topic["changes"]
    assert {move["partition"]: tuple(move["after"]) for move in change["moves"]} == {
        partition: replicas for partition, replicas in enumerate(LISTS) if 6 in replicas
    }
    assert topic["refusals"] == []


def test_a_report_of_another_cluster_is_an_error(drained: Night) -> None:
    """The id of the cluster in the report is compared with that at the address."""
    drained.kafka.client.set("/cluster/id", b'{"version":"1","id":"another"}')
    said = drained.reverts()
    assert said.code == 1
    assert "wanted" in said.err
    assert said.out == ""


def test_a_line_that_is_cut_off_is_named(drained: Night) -> None:
    """A killed run may leave half a line: the plan is made without it, and says so."""
    text = Path(drained.report).read_text()
    Path(drained.report).write_text(text + '{"row": "mo')
    said = drained.reverts()
    assert said.code == 0
    assert f"line {len(text.splitlines()) + 1} is cut off" in said.err


@pytest.mark.parametrize("text", ["", "no report\n", "[]\n", '{"row": "move"}\n'])
def test_a_file_that_is_no_report(night: Night, text: str) -> None:
    """Anything else than a report is an error that names the file."""
    Path(night.report).write_text(text)
    said = night.reverts()
    assert said.code == 1
    assert night.report in said.err


def test_a_remark_about_another_throttle_is_printed_once(night: Night) -> None:
    """A rate that another client has set stays, and one line on standard error says so."""
    night.kafka.client.ensure_path("/config/brokers/1")
    night.kafka.client.set("/config/brokers/1", config_bytes({RATES[1]: "7"}))
    said = night.applies()
    assert said.code == 0, said
    assert said.err.count(f"brokers/1: {RATES[1]} is 7 already, and stays") == 1
    assert night.throttled() == [f"brokers/1 {RATES[1]}"]

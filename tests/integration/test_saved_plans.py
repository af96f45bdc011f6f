"""Saved plans, applied to a real ZooKeeper after changes by other clients."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from integration.test_terminal import typed
from integration.write_fixtures import FIRST_TOPIC_WRITE, REPLICAS, SETUP_WRITES
from support.cli.runs import RunResult, run_topiarist, start_topiarist
from support.zookeeper import write_checker
from support.zookeeper.proxy import CutTiming, Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters import own_values
from topiarist.adapters.devcluster.seed import Topic, config_bytes
from topiarist.adapters.saved_plans.encode import compute_fingerprint, dumps
from topiarist.kafka.types import Broker
from topiarist.model.state import Freeze

TOPIC = """\
apiVersion: topiarist.dev/v1
kind: Topic
metadata: {{name: {name}}}
spec: {spec}
"""

LOSSES = ("--allow-risk", "DataLoss")
AS_PLANNED = ("--kafka-version", "3.9", "--adopt", "*")


class Desk:
    """A user of the command line with a folder of manifests and one cluster."""

    def __init__(self, folder: Path, connect: str) -> None:
        self.folder = folder
        self.connect = connect
        self.kept = str(folder / "plan.json")

    def wants(self, **specs: str) -> None:
        """Replace all manifests by these, by topic."""
        for path in self.folder.glob("*.yaml"):
            path.unlink()
        for name, spec in specs.items():
            (self.folder / f"{name}.yaml").write_text(TOPIC.format(name=name, spec=spec))

    def says(self, *words: str, connect: str | None = None) -> RunResult:
        """Run one command line."""
        return run_topiarist(*words, "--zookeeper", connect or self.connect)

    def keeps(self, *words: str) -> None:
        """Write the plan to the file and remove the manifests."""
        said = self.says("plan", str(self.folder), "--kafka-version", "3.9", "--out", self.kept, "--adopt=*", *words)
        assert said.code == 0, said.err
        self.wants()

    def applies(self, *words: str, connect: str | None = None, consent: Sequence[str] = LOSSES) -> RunResult:
        """Apply the file; the run allows changes that may lose data."""
        return self.says("apply", "--plan", self.kept, "--yes", *consent, *words, connect=connect)


@pytest.fixture
def desk(tmp_path: Path, cluster: SimulatedKafka) -> Desk:
    """A desk for the cluster."""
    return Desk(tmp_path, cluster.connect)


@pytest.fixture
def kept(desk: Desk, cluster: SimulatedKafka) -> Desk:
    """A plan that creates a topic, grows one and configures one, with retained config keys."""
    cluster.add_topics(
        Topic("grow", REPLICAS, {}),
        Topic("conf", REPLICAS, {"retention.ms": "1000", "segment.ms": "9000", "flush.ms": "5"}),
    )
    desk.wants(
        conf="{partitions: 2, replicationFactor: 3, config: {retention.ms: 500, segment.ms: 9000}}",
        fresh="{partitions: 2, replicationFactor: 3, config: {retention.ms: 7}}",
        grow="{partitions: 4, replicationFactor: 3}",
    )
    desk.keeps()
    return desk


def configs(cluster: SimulatedKafka, name: str) -> dict[str, str]:
    return dict(json.loads(cluster.client.get(f"/config/topics/{name}")[0])["config"])


def test_a_plan_is_applied_from_its_file_alone(kept: Desk, cluster: SimulatedKafka) -> None:
    """Without manifests, apply does exactly what the file holds."""
    planned = json.loads(Path(kept.kept).read_text())["clusters"][0]["topics"]
    before = write_checker.read_nodes(cluster.connect)
    said = kept.applies()
    assert (said.code, said.err) == (0, "")
    assert "Applied: 3 done." in said.out
    after = write_checker.read_nodes(cluster.connect)
    assert write_checker.find_problems(before, after, ("conf", "fresh", "grow")) == []
    lists = {topic["topic"]: change["after"] for topic in planned for change in topic["changes"] if "after" in change}
    assert list(write_checker.decode_topics(after)["fresh"]["partitions"].values()) == lists["fresh"]["replicas"]
    assert configs(cluster, "conf") == {"retention.ms": "500", "segment.ms": "9000", "flush.ms": "5"}


def test_the_file_says_nothing_of_the_machine(kept: Desk, cluster: SimulatedKafka, tmp_path: Path) -> None:
    """The file has no address, path, user or time; a second plan of the same state is identical."""
    text = Path(kept.kept).read_text()
    host = cluster.connect.partition("/")[0]
    assert not re.search(rf"{re.escape(host)}|{re.escape(str(tmp_path))}|127\.0\.0\.1|yaml|20[0-9][0-9]-", text)


def test_a_consent_to_no_topic_of_the_plan(kept: Desk) -> None:
    """A misspelled name is reported, as with manifests; a topic of the plan is not."""
    said = kept.applies(consent=["--allow-risk", "DataLoss=cnof"])
    assert (said.code, said.err) == (4, "--allow-risk: no topic of the plan matches cnof\n")
    assert kept.applies(consent=["--allow-risk", "DataLoss=conf"]).err == ""


def test_applied_twice_is_already_done(kept: Desk, proxy: Proxy, cluster: SimulatedKafka) -> None:
    """The second apply sends nothing, not even a request for the lock, and exits with 0."""
    assert kept.applies().code == 0
    cluster.wait_idle()
    said = kept.applies(connect=proxy.through(cluster.connect))
    assert said.code == 0
    assert "already done: conf, fresh, grow" in said.out
    assert proxy.writes == 0


def test_a_report_has_all_that_the_file_has(kept: Desk, cluster: SimulatedKafka, tmp_path: Path) -> None:
    """The report has a line for each topic of the file, whether it was written, unchanged or a conflict."""

    def reported(*words: str) -> dict[str, str]:
        kept.applies("--report", str(tmp_path / "report.jsonl"), *words)
        lines = map(json.loads, (tmp_path / "report.jsonl").read_text().splitlines())
        return {line["topic"]: line["result"] for line in lines if "result" in line}

    MOVES["made"][0](cluster)
    assert reported() == {"conf": "skipped", "fresh": "conflict", "grow": "skipped"}
    assert reported("--partial") == {"conf": "done", "fresh": "conflict", "grow": "done"}
    assert reported("--partial") == {"conf": "unchanged", "fresh": "conflict", "grow": "unchanged"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "when"),
    [(2, CutTiming.BEFORE), (FIRST_TOPIC_WRITE, CutTiming.AFTER), (FIRST_TOPIC_WRITE + 1, CutTiming.BEFORE)],
)
def test_an_apply_that_was_cut_off_is_resumed(
    kept: Desk, proxy: Proxy, cluster: SimulatedKafka, write: int, when: CutTiming
) -> None:
    """If the connection breaks for good at any write, the same command completes the plan; each topic is created
    once.
    """
    before = write_checker.read_nodes(cluster.connect)
    proxy.cut(write, when, refuse=True)
    assert kept.applies("--connect-timeout", "1", connect=proxy.through(cluster.connect)).code == 1
    cluster.wait_idle()
    said = kept.applies()
    assert (said.code, said.err) == (0, "")
    after = write_checker.read_nodes(cluster.connect)
    assert write_checker.find_problems(before, after, ("conf", "fresh", "grow")) == []
    assert len([path for path in after if path.startswith("/config/changes/")]) == 1
    assert "already done: conf, fresh, grow" in kept.applies().out


def _set(path: str, data: bytes) -> Callable[[SimulatedKafka], None]:
    def act(cluster: SimulatedKafka) -> None:
        cluster.client.set(path, data)

    return act


def _place(*replicas: list[int]) -> Callable[[SimulatedKafka], None]:
    def act(cluster: SimulatedKafka) -> None:
        topic = json.loads(cluster.client.get("/brokers/topics/grow")[0])
        topic["partitions"] = {str(partition): brokers for partition, brokers in enumerate(replicas)}
        cluster.client.set("/brokers/topics/grow", json.dumps(topic).encode())

    return act


def _again(cluster: SimulatedKafka) -> None:
    """Delete and recreate an identical topic as another client (F33)."""
    cluster.client.create("/admin/delete_topics/grow", b"")
    cluster.wait_idle()
    cluster.add_topics(Topic("grow", REPLICAS, {}))


def _broker(cluster: SimulatedKafka) -> None:
    """Stop a broker that is to get replicas, and start another one."""
    (first, *_), *_ = json.loads(cluster.client.get("/brokers/topics/grow")[0])["partitions"].values()
    cluster.remove_broker(first)
    cluster.add_broker(Broker(9, "a"))


MOVES: dict[str, tuple[Callable[[SimulatedKafka], None], str]] = {
    "made": (lambda cluster: cluster.add_topics(Topic("fresh", REPLICAS, {})), "did not exist, and exists now"),
    "made again": (_again, "was deleted and recreated, so it is a different topic"),
    "a key": (
        _set("/config/topics/conf", config_bytes({"retention.ms": "8", "segment.ms": "9000"})),
        "retention.ms was 1000, and is 8 now",
    ),
    "a key that is vouched for": (
        _set("/config/topics/conf", config_bytes({"retention.ms": "1000", "segment.ms": "8"})),
        "segment.ms was 9000, and is 8 now",
    ),
    "a broker that went": (_broker, "was registered, and is not now"),
    "unreadable": (_set("/config/topics/conf", b"{"), "it is not JSON"),
}


@pytest.mark.parametrize(("act", "words"), MOVES.values(), ids=MOVES.keys())
def test_what_moved_is_named_and_nothing_is_sent(
    kept: Desk, proxy: Proxy, cluster: SimulatedKafka, act: Callable[[SimulatedKafka], None], words: str
) -> None:
    """One topic in neither the state before nor the state after is a conflict: the message has the expected and the
    actual value, no write is sent, and the exit code is 5.
    """
    act(cluster)
    proxy.reset()
    said = kept.applies(connect=proxy.through(cluster.connect))
    assert said.code == 5
    assert words in said.words
    assert "nothing is sent: " in said.err
    assert "--partial" in said.err
    assert proxy.writes == 0


@pytest.mark.parametrize("name", ["made again", "a key"])
def test_partial_does_what_still_stands(kept: Desk, cluster: SimulatedKafka, name: str) -> None:
    """With ``--partial`` the other topics are written, the conflicting topic stays unchanged, and the exit code is
    still 5.
    """
    act, words = MOVES[name]
    act(cluster)
    before = write_checker.read_nodes(cluster.connect)
    said = kept.applies("--partial")
    assert said.code == 5
    assert "Applied: 2 done, 1 conflict." in said.out
    assert words in said.words
    others = ("conf" if name != "a key" else "grow", "fresh")
    assert write_checker.find_problems(before, write_checker.read_nodes(cluster.connect), others) == []


def _election(cluster: SimulatedKafka) -> None:
    cluster.elect_controller(5)


def _restart(cluster: SimulatedKafka) -> None:
    broker = cluster.brokers[4]
    cluster.remove_broker(4)
    cluster.add_broker(broker)


def _throttle(cluster: SimulatedKafka) -> None:
    values = {"retention.ms": "1000", "segment.ms": "9000", "follower.replication.throttled.replicas": "*"}
    cluster.client.set("/config/topics/conf", config_bytes(values))


def _unrelated(cluster: SimulatedKafka) -> None:
    values = {"retention.ms": "1000", "segment.ms": "9000", "max.message.bytes": "77"}
    cluster.client.set("/config/topics/conf", config_bytes(values))


VOIDS_NOTHING = (_election, _restart, _throttle, _unrelated)


@pytest.mark.parametrize("act", VOIDS_NOTHING)
def test_what_voids_nothing(kept: Desk, cluster: SimulatedKafka, act: Callable[[SimulatedKafka], None]) -> None:
    """A failover of the controller, a restart of a broker, a throttle or an unrelated key leaves the plan valid."""
    act(cluster)
    found = configs(cluster, "conf")
    said = kept.applies()
    assert (said.code, said.err) == (0, "")
    assert "Applied: 3 done." in said.out
    assert configs(cluster, "conf") == {**found, "retention.ms": "500"}


def test_another_cluster_is_refused(kept: Desk, cluster: SimulatedKafka, proxy: Proxy) -> None:
    """A cluster with another id at the address is an error: nothing is written, and the exit code is 1."""
    cluster.client.set("/cluster/id", b'{"version":"1","id":"AnotherClustersId00000"}')
    said = kept.applies(connect=proxy.through(cluster.connect))
    assert said.code == 1
    assert "the plan was made for cluster 7sYkR0b2QIu1nT4mXc9pAw" in said.err
    assert "found cluster AnotherClustersId00000" in said.err
    assert proxy.writes == 0


def test_the_same_cluster_below_another_chroot_is_refused(kept: Desk, clusters: dict[str, SimulatedKafka]) -> None:
    """A chroot that brokers left behind has the same cluster id, but no broker reads it: the run is refused."""
    left = clusters["a"]
    left.client.set("/cluster/id", b'{"version":"1","id":"7sYkR0b2QIu1nT4mXc9pAw"}')
    said = kept.applies(connect=left.connect)
    assert (said.code, left.client.exists("/brokers/topics/fresh")) == (1, None)
    chroots = (connect.partition("/")[2] for connect in (kept.connect, left.connect))
    made, found = (f"7sYkR0b2QIu1nT4mXc9pAw at /{chroot}" for chroot in chroots)
    assert f"the plan was made for cluster {made}, found cluster {found} at its address" in said.err


def test_a_plan_of_no_topics(desk: Desk) -> None:
    """A plan of an empty folder has nothing to do and is no error."""
    desk.wants()
    desk.keeps()
    said = desk.applies()
    assert (said.code, said.err) == (0, "the plan has no cluster: nothing to do\n")
    said = desk.applies("--cluster", "eu")
    assert (said.code, said.err) == (1, "error: the plan has no cluster eu\n")


def test_what_the_brokers_know_says_the_run(desk: Desk, cluster: SimulatedKafka) -> None:
    """The file records the release and the vendor keys of its plan; the options of the run that applies it decide."""
    cluster.add_topics(Topic("tiered", REPLICAS, {"confluent.tier": "x"}))
    document = {"apiVersion": "topiarist.dev/v1", "kind": "Cluster", "metadata": {"name": "eu"}}
    document["spec"] = {"zookeeper": {"connect": desk.connect}, "allowUnknownConfigs": ["confluent.*"]}
    eu = desk.folder / "eu.json"
    eu.write_text(json.dumps(document))
    desk.wants(
        fresh="{partitions: 2, replicationFactor: 3, config: {confluent.tier: hot}}",
        newer="{partitions: 2, replicationFactor: 3, config: {message.timestamp.after.max.ms: 5}}",
        tiered="{partitions: 2, replicationFactor: 3, config: {flush.ms: 5}}",
    )
    desk.keeps("--clusters", str(eu))
    held = write_checker.read_nodes(cluster.connect)
    said = desk.applies("--partial")
    assert (said.code, write_checker.read_nodes(cluster.connect)) == (5, held)
    found = said.words
    assert found.count("ConfigInvalid") == found.count("with --clusters") == 1
    assert found.count("ConfigTooNew") == 1
    assert "conflict: the config after the change would be invalid now: confluent.tier" in found
    said = desk.applies("--clusters", str(eu), "--kafka-version", "3.9")
    assert (said.code, said.err) == (0, "")
    assert "Applied: 3 done." in said.out


@pytest.mark.parametrize("reason", ["moving racks", ""])
def test_a_frozen_cluster_is_left_alone(kept: Desk, cluster: SimulatedKafka, proxy: Proxy, reason: str) -> None:
    """A present freeze withholds every change and is reported with its user; the exit code is that of a refusal."""
    cluster.client.create("/topiarist", b"")
    cluster.client.create("/topiarist/gate", own_values.encode_freeze(Freeze(reason)))
    said = kept.applies(connect=proxy.through(cluster.connect))
    assert said.code == 4
    assert f"write block: Frozen: the cluster is frozen{': ' * bool(reason)}{reason}" in said.out
    assert proxy.writes == 0


def test_a_plan_of_a_frozen_cluster_says_what_held_it_back(kept: Desk, cluster: SimulatedKafka) -> None:
    """A plan of a frozen cluster changes nothing, even after the unfreeze, and reports the freeze as the reason."""
    cluster.client.create("/topiarist", b"")
    cluster.client.create("/topiarist/gate", own_values.encode_freeze(Freeze("moving racks")))
    kept.wants(fresh="{partitions: 2, replicationFactor: 3}")
    kept.keeps()
    cluster.client.set("/topiarist/gate", own_values.encode_freeze(None))
    said = kept.applies()
    assert (said.code, cluster.client.exists("/brokers/topics/fresh")) == (4, None)
    assert (
        "the cluster was closed when the plan was made, so make a new plan: the cluster is frozen: moving racks"
        in said.out
    )


def test_what_may_not_be_done_need_not_stand(desk: Desk, cluster: SimulatedKafka) -> None:
    """A deletion without its confirmation is refused, and a conflict of that topic does not block the others."""
    cluster.add_topics(Topic("grow", REPLICAS, {}))
    desk.wants(grow="{partitions: 2, replicationFactor: 3}")
    assert desk.says("apply", str(desk.folder), "--yes", "--kafka-version", "3.9").code == 0
    desk.wants(grow="{ensure: Absent}", fresh="{partitions: 2, replicationFactor: 3}")
    desk.keeps()
    _place([1, 2, 3], [2, 3, 4], [3, 4, 5])(cluster)
    said = desk.applies(consent=())
    assert (said.code, said.err) == (4, "")
    assert "Applied: 1 done, 1 refused." in said.out


def command(desk: Desk, *more: str) -> list[str]:
    """Return the command line that applies the file, for a separate process."""
    return [sys.executable, "-m", "topiarist", "apply", "--plan", desk.kept, "--zookeeper", desk.connect, *more]


def test_a_person_answers_for_a_plan(kept: Desk) -> None:
    """Without ``--yes`` apply shows the plan and asks; changes that may lose data are confirmed by their number."""
    shown, code = typed(command(kept), "1")
    assert "1 topic may lose data. Type the number of topics (1) to confirm the whole plan" in shown
    assert "Applied: 3 done." in shown
    assert code == 0


def test_what_moves_while_a_person_thinks_stops_the_plan(kept: Desk, cluster: SimulatedKafka) -> None:
    """Topics are read and compared again after the answer, before the first write: after an external change nothing is
    sent.
    """

    def answer() -> str:
        MOVES["a key"][0](cluster)
        return "1"

    shown, code = typed(command(kept), answer)
    assert "nothing is sent: 1 topic changed" in shown
    assert "Applied: 1 conflict, 2 skipped." in shown
    assert code == 5
    assert cluster.client.exists("/brokers/topics/fresh") is None


def compacted(cluster: SimulatedKafka, name: str) -> None:
    """Set the cleanup policy of a topic to compact as another client."""
    cluster.client.set(f"/config/topics/{name}", config_bytes({"cleanup.policy": "compact"}))


def test_a_file_that_says_too_little_of_a_risk_is_not_believed(kept: Desk, cluster: SimulatedKafka) -> None:
    """A file that was edited to understate a data loss is not trusted: topiarist computes the risk from the cluster."""
    content = json.loads(Path(kept.kept).read_text())
    (conf,) = (topic for topic in content["clusters"][0]["topics"] if topic["topic"] == "conf")
    (change,) = conf["changes"]
    for each in (change, *change["config"]):
        assert each["risk"] == "DataLoss"
        each.update(risk="Disruptive", explanation="nothing much")
    conf["risk"] = "Disruptive"
    Path(kept.kept).write_text(dumps({**content, "fingerprint": compute_fingerprint(content)}))
    before = write_checker.read_nodes(cluster.connect)
    said = kept.applies()
    assert (said.code, write_checker.read_nodes(cluster.connect)) == (5, before)
    assert "retention.ms was planned as Disruptive, and is DataLoss now" in said.words


@pytest.fixture(params=["file", "manifests", "reviewed"])
def growing(request: pytest.FixtureRequest, desk: Desk, cluster: SimulatedKafka) -> list[str]:
    """Return the words that apply the planned growth of a topic, in every form of apply."""
    cluster.add_topics(Topic("grow", REPLICAS, {}))
    desk.wants(grow="{partitions: 4, replicationFactor: 3}")
    desk.keeps()
    desk.wants(grow="{partitions: 4, replicationFactor: 3}")
    folder = [str(desk.folder), *AS_PLANNED]
    words = {"file": ["--plan", desk.kept], "manifests": folder, "reviewed": [*folder, "--reviewed", desk.kept]}
    return words[request.param]


def count_partitions(name: str, cluster: SimulatedKafka) -> int:
    """Return the number of partitions of a topic."""
    return len(write_checker.decode_topics(write_checker.read_nodes(cluster.connect))[name]["partitions"])


def test_a_risk_that_rises_while_a_person_thinks(desk: Desk, cluster: SimulatedKafka, growing: list[str]) -> None:
    """The answer confirms only the displayed risk."""

    def answer() -> str:
        compacted(cluster, "grow")
        return "yes"

    program = [sys.executable, "-m", "topiarist", "apply", "--zookeeper", desk.connect]
    shown, code = typed([*program, *growing], answer)
    assert "is DataLoss now" in " ".join(shown.split())
    assert (code, count_partitions("grow", cluster)) == (5, 2)


def test_a_risk_that_rises_while_the_lock_is_waited_for(
    desk: Desk, cluster: SimulatedKafka, proxy: Proxy, growing: list[str]
) -> None:
    """The run may do only what was planned: it has ``--yes`` and no approval of data loss."""
    connect = proxy.through(cluster.connect)
    proxy.hold(SETUP_WRITES, lambda: compacted(cluster, "grow"))
    said = desk.says("apply", "--yes", *growing, connect=connect)
    assert proxy.triggered.is_set()
    assert "is DataLoss now" in said.words
    assert (said.code, count_partitions("grow", cluster)) == (5, 2)


def test_what_was_not_shown_is_not_done(desk: Desk, cluster: SimulatedKafka) -> None:
    """A change that was already done when the plan was shown, and reverted by another client before the answer, is not
    done: the user did not confirm it.
    """
    cluster.add_topics(*(Topic(name, REPLICAS, {"flush.ms": "5"}) for name in ("one", "two")))
    wanted = "{partitions: 2, replicationFactor: 3, config: {flush.ms: 9}}"
    desk.wants(one=wanted, two=wanted)
    desk.keeps()
    assert desk.applies().code == 0

    def undo(name: str) -> None:
        cluster.client.delete(f"/topiarist/topics/{name}")
        cluster.client.set(f"/config/topics/{name}", config_bytes({"flush.ms": "5"}))

    def answer() -> str:
        undo("two")
        return "yes"

    undo("one")
    shown, code = typed(command(desk), answer)
    assert "Apply to 1 topic?" in shown
    assert "conflict: its changes differ from those shown" in " ".join(shown.split())
    assert (code, configs(cluster, "two")) == (5, {"flush.ms": "5"})


def test_a_share_is_one_of_the_topics_that_there_are(kept: Desk, tmp_path: Path) -> None:
    """A budget in percent counts the topics of the cluster, regardless of the number of unchanged topics in the
    file.
    """
    document = {"zookeeper": {"connect": kept.connect}, "budgets": {"changedShare": "50%"}}
    manifest = {"apiVersion": "topiarist.dev/v1", "kind": "Cluster", "metadata": {"name": "eu"}, "spec": document}
    (tmp_path / "cluster.yaml").write_text(json.dumps(manifest))
    content = json.loads(Path(kept.kept).read_text())
    content["clusters"][0]["unchanged"] = 10_000
    Path(kept.kept).write_text(dumps({**content, "fingerprint": compute_fingerprint(content)}))
    said = kept.applies("--platform", str(tmp_path / "cluster.yaml"))
    assert (said.code, said.err) == (
        4,
        "--plan: policies are not evaluated again; they were evaluated when the plan was made\n",
    )
    assert "2 of 2 existing topics changed, 50% allowed (changedShare)" in said.out
    assert kept.applies("--platform", str(tmp_path / "cluster.yaml"), "-q").err == ""


MANY = [f"topic-{number:03}" for number in range(300)]
LATE = ("topic-250", "topic-251")
"""Of the second window."""


@pytest.mark.slow
def test_a_topic_that_moves_while_others_are_written_ends_the_sending(
    desk: Desk, cluster: SimulatedKafka, proxy: Proxy
) -> None:
    """A conflict during the writes lets transactions in flight finish and stops the rest: done, conflicting and skipped
    topics are listed separately.
    """
    desk.wants(**dict.fromkeys(MANY, "{partitions: 1, replicationFactor: 1}"))
    desk.keeps()
    connect = proxy.through(cluster.connect)
    proxy.hold(FIRST_TOPIC_WRITE, lambda: cluster.add_topics(*(Topic(name, REPLICAS, {}) for name in LATE)))
    said = desk.applies(connect=connect)
    assert said.code == 5
    match = re.search(r"Applied: (\d+) done, (\d+) conflict, (\d+) skipped", said.out)
    assert match
    assert (int(match[1]) >= 200, sum(map(int, match.groups()))) == (True, 300)
    assert said.err.count("nothing more is sent: ") == 1
    assert "nothing more is sent: topic-250 changed since it was planned" in said.err
    there = cluster.client.get_children("/topiarist/topics")
    assert len(there) == int(match[1])
    cluster.wait_idle()


@pytest.mark.slow
def test_partial_goes_on_when_a_topic_moves_while_others_are_written(
    desk: Desk, cluster: SimulatedKafka, proxy: Proxy
) -> None:
    """With ``--partial`` a conflict during the writes does not stop the other topics."""
    desk.wants(**dict.fromkeys(MANY, "{partitions: 1, replicationFactor: 1}"))
    desk.keeps()
    connect = proxy.through(cluster.connect)
    proxy.hold(FIRST_TOPIC_WRITE, lambda: cluster.add_topics(*(Topic(name, REPLICAS, {}) for name in LATE)))
    said = desk.applies("--partial", connect=connect)
    assert (said.code, said.err) == (5, "")
    assert "Applied: 298 done, 2 conflict." in said.out


def test_what_was_reviewed_is_done_with_its_lists(desk: Desk, cluster: SimulatedKafka) -> None:
    """After a new broker a new plan would place replicas differently: the reviewed replica lists are written, and no
    other key.
    """
    cluster.add_topics(Topic("conf", REPLICAS, {"retention.ms": "1000"}))
    manifests = {
        "conf": "{partitions: 2, replicationFactor: 3, config: {retention.ms: 500}}",
        "fresh": "{partitions: 6, replicationFactor: 3}",
    }
    desk.wants(**manifests)
    desk.keeps()
    wanted = json.loads(Path(desk.kept).read_text())["clusters"][0]["topics"][1]["changes"][0]["after"]["replicas"]
    cluster.add_broker(Broker(0, "a"))
    merged = "{partitions: 2, replicationFactor: 3, config: {retention.ms: 500, segment.ms: 7}}"
    desk.wants(**manifests | {"conf": merged})
    words = ("apply", str(desk.folder), "--kafka-version", "3.9", "--adopt=*", "--yes")
    said = desk.says(*words, *LOSSES, "--reviewed", desk.kept)
    assert said.code == 5
    assert "NotReviewed" in said.out
    assert "Applied: 2 done, 1 refused." in said.out
    assert (
        list(write_checker.decode_topics(write_checker.read_nodes(cluster.connect))["fresh"]["partitions"].values())
        == wanted
    )
    assert configs(cluster, "conf") == {"retention.ms": "500"}


@pytest.mark.slow
def test_an_interrupted_apply_is_resumed(desk: Desk, cluster: SimulatedKafka, proxy: Proxy) -> None:
    """After Ctrl-C in the middle the same command finds the written changes done and completes the rest."""
    desk.wants(**dict.fromkeys(MANY, "{partitions: 1, replicationFactor: 1}"))
    desk.keeps()
    address = proxy.through(cluster.connect)
    running = start_topiarist("apply", "--plan", desk.kept, "--yes", "--zookeeper", address)
    proxy.hold(FIRST_TOPIC_WRITE + 50, lambda: running.send_signal(signal.SIGINT))
    out, _ = running.communicate(timeout=300)
    assert running.returncode == 130
    match = re.search(r"Applied: (\d+) done, \d+ skipped", out)
    assert match
    cluster.wait_idle()
    said = desk.applies()
    assert said.code == 0
    assert f"Applied: {300 - int(match[1])} done, {match[1]} unchanged." in said.out

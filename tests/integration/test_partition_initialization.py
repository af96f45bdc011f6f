"""``apply --wait`` for new partitions on a real ZooKeeper: initialization by the controller, and pacing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from integration.test_apply import lines
from integration.test_terminal import typed
from integration.write_fixtures import InterceptingProxy, connect_cluster, lock_nodes
from support.builders import apply_results, plan_specs, topic_spec
from support.cli.runs import document, run_topiarist, start_topiarist
from support.zookeeper import write_checker
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.zookeeper.codec import topics as topics_
from topiarist.adapters.zookeeper.write import write_context
from topiarist.model.outcome import FINISHED, Outcome, Result, evaluate_progress, partitions_to_initialize
from topiarist.model.plan import TopicPlan
from topiarist.ports import WriteControl

REPLICAS = ((1, 2, 3), (2, 3, 4))
TOPIC = "/brokers/topics/orders"
WAITING = "waiting for the controller to initialize 1 topic, at most {} s without progress\n"


def folder(path: Path, *names: str, partitions: int = 4) -> Path:
    """Write a folder with these topics, for any cluster."""
    spec = {"partitions": partitions, "replicationFactor": 3}
    (path / "topics.yaml").write_text("\n---\n".join(document("Topic", name, **spec) for name in names))
    return path


def waited(connect: str, path: Path, *more: str) -> list[str | Path]:
    """Return the command line of an apply that waits and adopts existing topics."""
    return ["apply", path, "--zookeeper", connect, "--adopt=*", "--yes", "--wait", *more]


def told(running: subprocess.Popen[str]) -> str:
    """Return the next line that a run writes to stderr."""
    assert running.stderr is not None
    return running.stderr.readline()


def report(path: Path) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """Return the results of each topic, line by line, and the summary; each line is validated by the schema."""
    _, *found, summary = lines(path)
    results: dict[str, list[str]] = {}
    for line in found:
        results.setdefault(line["topic"], []).append(line["result"])
    return results, summary


@pytest.fixture
def grown(cluster: SimulatedKafka, tmp_path: Path) -> Path:
    """A cluster with a topic of two partitions, and a manifest with four partitions for it."""
    cluster.add_topics(Topic("orders", REPLICAS, {}))
    return folder(tmp_path, "orders")


def test_a_run_ends_when_the_controller_has_taken_everything_over(cluster: SimulatedKafka, tmp_path: Path) -> None:
    """The run ends only when each partition has its state. The report has one line for each topic and a second line
    with the id of the created topic; a second run waits for nothing.
    """
    cluster.add_topics(Topic("grow", REPLICAS, {}))
    wanted = folder(tmp_path, "grow", "new", partitions=30)
    lines = tmp_path / "report.jsonl"
    with cluster.pause_controller():
        running = start_topiarist(*waited(cluster.connect, wanted, "--report", str(lines)))
        assert told(running) == WAITING.format(300).replace("1 topic", "2 topics")
        assert cluster.client.get_children("/brokers/topics/grow/partitions") == ["0", "1"]
    out, err = running.communicate(timeout=300)
    assert (running.returncode, err) == (0, "2 topics initialized by the controller\n")
    assert "Applied: 2 done." in out
    tree = write_checker.read_nodes(cluster.connect)
    for name in ("grow", "new"):
        assert all(f"/brokers/topics/{name}/partitions/{number}/state" in tree for number in range(30))
    assert report(lines)[0] == {"grow": ["done"], "new": ["done", "done"]}
    again = run_topiarist(*waited(cluster.connect, wanted))
    assert (again.code, again.err) == (0, "")


def marked(client: KazooClient) -> None:
    """Request the deletion of the topic as another client."""
    client.create("/admin/delete_topics/orders")


def deleted(client: KazooClient) -> None:
    """Delete the topic as another client."""
    client.delete(TOPIC, recursive=True)


def made_again(client: KazooClient) -> None:
    """Delete and recreate the topic as another client, as similar as possible."""
    data = client.get(TOPIC)[0]
    client.delete(TOPIC, recursive=True)
    client.create(TOPIC, data)


def shrunk(client: KazooClient) -> None:
    """Write the topic as a controller does that read it before its growth."""
    client.set(TOPIC, topics_.encode_topic(REPLICAS))


def garbled(client: KazooClient) -> None:
    """Write an invalid topic as another client."""
    client.set(TOPIC, b'{"version":3,"partitions":7}')


@pytest.mark.slow
@pytest.mark.parametrize(
    ("meddle", "words"),
    [
        (marked, "it was written, and is marked for deletion now"),
        (deleted, "it was written, and does not exist now: another client deleted it"),
        (made_again, "another client deleted and recreated it: it is a different topic now"),
        (shrunk, "partitions 2, 3 were written, and then lost"),
        (garbled, "it was written, and cannot be read now"),
    ],
)
def test_what_somebody_else_makes_of_it_meanwhile_is_told(
    cluster: SimulatedKafka, client: KazooClient, grown: Path, meddle: Callable[[KazooClient], None], words: str
) -> None:
    """The run reports an external change during the wait at once, not at the time-out: the run failed, with the reason
    (F33).
    """
    lines = grown / "report.jsonl"
    with cluster.pause_controller():
        running = start_topiarist(*waited(cluster.connect, grown, "--report", str(lines)))
        assert told(running) == WAITING.format(300)
        meddle(client)
        out, err = running.communicate(timeout=300)
        if meddle is garbled:
            shrunk(client)
    assert running.returncode == 1
    assert words in " ".join(out.split())
    assert "Applied: 1 failed." in out
    assert "taken over" not in err
    assert report(lines)[0] == {"orders": ["done", "failed"]}


def test_without_a_controller_it_is_waited_until_the_time_is_over(cluster: SimulatedKafka, grown: Path) -> None:
    """The run waits for a new controller until the time-out and then reports that there is none."""
    lines = grown / "report.jsonl"
    with cluster.pause_controller():
        running = start_topiarist(*waited(cluster.connect, grown, "--wait-timeout", "1", "--report", str(lines)))
        assert told(running) == WAITING.format(1)
        cluster.client.delete("/controller")
        out, err = running.communicate(timeout=300)
    assert (running.returncode, err) == (1, "")
    assert (
        "pending: the controller has not initialized 2 of 2 new partitions; the cluster has no controller"
        in " ".join(out.split())
    )
    results, summary = report(lines)
    assert results == {"orders": ["done", "pending"]}
    assert (summary["results"], summary["exit"]) == ({"pending": 1}, 1)


def test_a_controller_that_fails_over_is_waited_for(cluster: SimulatedKafka, grown: Path) -> None:
    """The run waits for the next controller, which continues the initialization."""
    with cluster.pause_controller():
        running = start_topiarist(*waited(cluster.connect, grown))
        assert told(running) == WAITING.format(300)
        cluster.client.delete("/controller")
    cluster.wait_idle()
    _, err = running.communicate(timeout=300)
    assert (running.returncode, err) == (0, "1 topic initialized by the controller\n")


def test_a_plan_from_a_file_is_waited_for_although_it_is_done(cluster: SimulatedKafka, grown: Path) -> None:
    """If an earlier run wrote the changes and was cut off, applying the saved plan again waits for them."""
    plan = grown / "plan.json"
    connection = ("--zookeeper", cluster.connect)
    assert run_topiarist("plan", grown, *connection, "--adopt=*", "--out", plan).code == 0
    apply = ("apply", "--plan", plan, *connection, "--yes")
    with cluster.pause_controller():
        assert run_topiarist(*apply).code == 0
        running = start_topiarist(*apply, "--wait")
        assert told(running) == WAITING.format(300)
    _, err = running.communicate(timeout=300)
    assert (running.returncode, err) == (0, "1 topic initialized by the controller\n")


def test_progress_is_shown_at_a_terminal(cluster: SimulatedKafka, grown: Path) -> None:
    """A terminal shows a progress bar that is removed at the end; the text before and after it stays."""
    command = ["-m", "topiarist", *map(str, waited(cluster.connect, grown))]
    shown, code = typed([sys.executable, *command])
    assert code == 0
    assert "\r\x1b[K1 topic initialized by the controller" in shown


AHEAD = 24
NAMES = [f"topic-{number:02}" for number in range(40)]
"""Each has 12 replicas on six brokers: of twelve topics or fewer they may be ahead of the controller."""

HELD = f"throttled: the controller has to initialize earlier partitions first, {AHEAD} replicas per broker at a time\n"


def ahead(client: KazooClient) -> Counter[int]:
    """Return the number of replicas per broker in partitions without a state."""
    found: Counter[int] = Counter()
    for name in client.get_children("/brokers/topics"):
        topic = json.loads(client.get(f"/brokers/topics/{name}")[0])
        try:
            there = set(client.get_children(f"/brokers/topics/{name}/partitions"))
        except NoNodeError:
            there = set()
        found.update(
            broker for number, replicas in topic["partitions"].items() if number not in there for broker in replicas
        )
    return found


def paced(connect: str, path: Path, *more: str) -> list[str | Path]:
    """Return the command line of an apply with a pacing limit."""
    return [*waited(connect, path, *more), "--max-inflight-replicas", str(AHEAD)]


@pytest.mark.slow
def test_never_more_is_ahead_of_the_controller_than_was_said(
    cluster: SimulatedKafka, client: KazooClient, meddler: InterceptingProxy, tmp_path: Path
) -> None:
    """The number of uninitialized replicas never exceeds the limit before any transaction, and at the end everything is
    written and initialized.
    """
    most: list[int] = []

    def look(kind: str) -> bool:
        if kind == "multi":
            most.append(max(ahead(client).values(), default=0))
        return True

    meddler.may_forward = look
    done = run_topiarist(*paced(meddler.through(cluster.connect), folder(tmp_path, *NAMES)))
    assert (done.code, len(most)) == (0, 40)
    assert max(most) < AHEAD
    assert done.err.endswith("40 topics initialized by the controller\n")
    assert done.err.startswith(HELD)
    assert not ahead(client)


def test_without_wait_nothing_is_held_back(
    cluster: SimulatedKafka, client: KazooClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without ``--wait`` there is no pacing, regardless of the backlog of the controller."""
    monkeypatch.setenv("TOPIARIST_MAX_INFLIGHT_REPLICAS", str(AHEAD))  # as an option it would be a usage error
    with cluster.pause_controller():
        command = [word for word in waited(cluster.connect, folder(tmp_path, *NAMES)) if word != "--wait"]
        done = run_topiarist(*command)
        assert (done.code, done.err) == (0, "")
        assert max(ahead(client).values()) > AHEAD


class Held(NamedTuple):
    """A run that is paced because the controller does nothing, until ``release``: ``written`` topics of ``NAMES`` exist
    and the rest do not; and its report.
    """

    written: int
    running: subprocess.Popen[str]
    report: Path
    release: Callable[[], None]

    def ended(self) -> tuple[int, str, str]:
        """Wait for the end of the run; return exit code, stdout as one line, and stderr."""
        out, err = self.running.communicate(timeout=300)
        return self.running.returncode, " ".join(out.split()), err


@pytest.fixture
def held(cluster: SimulatedKafka, proxy: Proxy, tmp_path: Path) -> Iterator[Held]:
    """Return a run after its first few topics."""
    path = tmp_path / "report.jsonl"
    command = paced(proxy.through(cluster.connect), folder(tmp_path, *NAMES), "--report", str(path))
    with ExitStack() as stuck:
        stuck.enter_context(cluster.pause_controller())
        running = start_topiarist(*command)
        try:
            assert told(running) == HELD
            there = topics(cluster)
            assert there == NAMES[: len(there)]
            assert 6 <= len(there) <= 12
            yield Held(len(there), running, path, stuck.close)
        finally:
            running.kill()
            running.communicate()


def topics(cluster: SimulatedKafka) -> list[str]:
    """Return the existing topics."""
    return sorted(write_checker.decode_topics(write_checker.read_nodes(cluster.connect)))


@pytest.mark.slow
def test_an_interrupt_while_it_is_held_back_ends_the_run(cluster: SimulatedKafka, held: Held) -> None:
    """An interrupt ends a paced run: written changes stay, the rest is not sent, and the lock, held until then, is
    free.
    """
    assert len(lock_nodes(cluster)) == 1
    held.running.send_signal(signal.SIGINT)
    code, out, err = held.ended()
    assert code == 130
    assert f"Applied: {held.written} done, {40 - held.written} skipped." in out
    assert f"no longer waiting for {held.written} topics: the controller continues" in err
    assert (topics(cluster), lock_nodes(cluster)) == (NAMES[: held.written], [])
    results, summary = report(held.report)
    assert Counter(map(tuple, results.values())) == {("done",): held.written, ("skipped",): 40 - held.written}
    assert summary["exit"] == 130


def test_a_controller_that_does_nothing_ends_the_run(cluster: SimulatedKafka, tmp_path: Path) -> None:
    """The time-out ends the run: written topics are pending, and skipped topics are named."""
    path = tmp_path / "report.jsonl"
    with cluster.pause_controller():
        done = run_topiarist(
            *paced(cluster.connect, folder(tmp_path, *NAMES), "--report", str(path), "--wait-timeout", "0.5")
        )
    assert done.code == 1
    there = len(topics(cluster))
    assert f"Applied: {there} pending, {40 - there} skipped." in done.out
    assert "error: the controller has made no progress for 0.5 s: nothing more is sent" in done.err
    assert lock_nodes(cluster) == []
    results, summary = report(path)
    assert Counter(map(tuple, results.values())) == {("done", "pending"): there, ("skipped",): 40 - there}
    assert (summary["errors"], summary["exit"]) == (["NotInitialized"], 1)
    again = run_topiarist(*paced(cluster.connect, folder(tmp_path, *NAMES)))
    assert (again.code, topics(cluster)) == (0, NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("multiread", [True, False])
def test_a_look_costs_little(cluster: SimulatedKafka, proxy: Proxy, multiread: bool) -> None:
    """A poll lists each uninitialized topic once and reads the state of each initialized partition once. Without
    MultiRead each is one request, with MultiRead a hundredth of that.
    """
    wishes = [topic_spec(f"topic-{number:03}", partitions=12) for number in range(200)]
    with connect_cluster(proxy.through(cluster.connect)) as port:
        plan = plan_specs(port, *wishes)
        port._session.supports_multiread = multiread
        with cluster.pause_controller():
            apply_results(port, plan)
            asked = {topic.topic: tuple(partitions_to_initialize(topic)) for topic in plan.topics}
            proxy.reset()
            sights = port.poll(asked)
            before = proxy.requests
            assert not any(sight.initialized for sight in sights.values())
        cluster.wait_idle()
        proxy.reset()
        sights = port.poll(asked)
        after = proxy.requests
        assert {evaluate_progress(topic, sights[topic.topic]) for topic in plan.topics} == {FINISHED}
    if multiread:
        assert before.keys() | after.keys() == {"sync", "multiRead"}
        assert before["multiRead"] <= 20
        assert after["multiRead"] <= 35
    else:
        common = {"sync": 1, "getChildren": 200 + 2}
        assert before == common | {"getData": 2 * 200 + 2}
        assert after == common | {"getData": 2 * 200 + 2 + 200 * 12}


def test_only_a_state_says_that_a_partition_is_taken_over(cluster: SimulatedKafka, client: KazooClient) -> None:
    """Only a state proves that a partition is initialized: the controller creates the znodes of all partitions of all
    its topics first.
    """
    with connect_cluster(cluster.connect) as port, cluster.pause_controller():
        plan = plan_specs(port, topic_spec("orders", partitions=3))
        apply_results(port, plan)
        for path in ("", "/0", "/1", "/1/state"):
            client.create(f"{TOPIC}/partitions{path}", b"")
        sight = port.poll({"orders": (0, 1, 2)})["orders"]
        client.delete(f"{TOPIC}/partitions", recursive=True)
    assert sight.initialized == {1}
    words = "the controller has not initialized 2 of 3 new partitions"
    assert evaluate_progress(plan.topics[0], sight).message == words


def test_who_may_not_look_any_more_is_told(cluster: SimulatedKafka, client: KazooClient, grown: Path) -> None:
    """A run that loses the permission to read states has written its changes and ends with an error."""
    with cluster.pause_controller():
        running = start_topiarist(*waited(cluster.connect, grown))
        assert told(running) == WAITING.format(300)
        client.set_acls(TOPIC, [make_acl("world", "anyone", create=True, delete=True, write=True, admin=True)])
        _, err = running.communicate(timeout=300)
        client.set_acls(TOPIC, OPEN_ACL_UNSAFE)
    assert running.returncode == 1
    assert "the permission to read the awaited topics was removed" in err


def test_names_that_come_meanwhile_count(cluster: SimulatedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was paced for a long time reads the names again, because no transaction checks whether a new name
    collides with another.
    """
    monkeypatch.setattr(write_context, "CONTEXT_MAX_AGE_S", 0.0)

    class Pace:
        room = 1

        def try_acquire(self, topic: TopicPlan) -> bool:
            self.room -= 1
            return self.room >= 0

        def wait(self) -> None:
            self.room = 1
            cluster.add_topics(Topic("or_ders", REPLICAS, {}))

        def on_outcome(self, topic: TopicPlan, outcome: Outcome) -> None:
            pass

    with connect_cluster(cluster.connect) as port:
        plan = plan_specs(port, topic_spec("a"), topic_spec("or.ders"))
        first, second = port.apply(plan, lambda: False, WriteControl(Pace()))
    assert first == Outcome("a", Result.DONE)
    assert (second.result, second.message) == (Result.CONFLICT, "would collide with or_ders, which exists now")

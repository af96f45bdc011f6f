"""The action from end to end: topiarist itself on a real ZooKeeper, and a stand-in for GitHub's API beside it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from support.cli.github_action import (
    OUTCOME_MARKER,
    PLAN_MARKER,
    merge_pull_request,
    run_action,
    run_comment_script,
    run_reviewed_script,
)
from support.cli.github_api import BOT, FakeGitHubApi
from support.cli.runs import document, run_topiarist
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka

pytestmark = pytest.mark.slow

PASSWORD = {"TOPIARIST_SHOP_PASSWORD": "only-jobs-of-the-repository-have-it"}
LOGIN = {"username": "planner", "password": {"env": "TOPIARIST_SHOP_PASSWORD"}}
SIZES = {"name": "sizes", "field": "partitions", "message": "at most 12 partitions"}


def topic(name: str, partitions: int, factor: int = 3) -> str:
    """A manifest in block style, so that each field has a line of its own."""
    return f"""apiVersion: topiarist.dev/v1
kind: Topic
metadata:
  name: {name}
spec:
  partitions: {partitions}
  replicationFactor: {factor}
"""


def platform(folder: Path, connect: str, most: int = 12) -> Path:
    """A folder with a cluster that wants a password, and a policy about the size of topics."""
    folder.mkdir(parents=True)
    cluster = document("Cluster", "shop", kafkaVersion="3.9", zookeeper={"connect": connect, "digest": LOGIN})
    policy = document("Policy", "shop", rules=[{**SIZES, "expression": f"topic.partitions <= {most}"}])
    (folder / "shop.yaml").write_text(f"{cluster}\n---\n{policy}\n")
    return folder


@pytest.fixture
def branch(tmp_path: Path) -> Path:
    """The working copy of a branch, with no topic yet."""
    folder = tmp_path / "branch"
    (folder / "topics").mkdir(parents=True)
    return folder


def test_a_change_from_its_first_plan_to_what_is_applied(
    cluster: SimulatedKafka, branch: Path, tmp_path: Path, api: FakeGitHubApi
) -> None:
    """The comment follows the branch; after the merge what it showed is done, by the platform's rules, and no more.

    A cluster and a policy that the branch brings have no effect, before the merge and after it.
    """
    platform(branch / "trusted" / "platform", cluster.connect)
    platform(branch / "topics" / "ours", "127.0.0.1:1", most=1000)
    (branch / "topics" / "huge.yaml").write_text(topic("huge", 24))
    for number, partitions in enumerate((3, 6), start=1):
        (branch / "topics" / "orders.yaml").write_text(topic("orders", partitions))
        log, output = run_action(branch, "plan", PLATFORM="trusted/platform", **PASSWORD)
        text = (branch / "out" / "plan.md").read_text()
        assert output == "exit-code=0\n"
        assert f"create {partitions} partitions x 3 replicas" in (branch / "out" / "plan.html").read_text()
        assert "2 documents outside --platform: Cluster shop (topics/ours/shop.yaml:1:" in log
        assert "::error file=topics/huge.yaml,line=6,col=15,title=huge on shop%3A refused (PolicyDenied)::" in log
        assert log.splitlines()[-1].startswith("::")  # annotations are the last lines
        assert (branch / "summary").read_text().endswith(text)
        assert text.startswith(f"{PLAN_MARKER}\n### Plan: 1 to create, 1 refused.\n")
        assert f"#### `orders`: create {partitions} partitions x 3 replicas" in text
        assert run_comment_script(api, tmp_path, text).returncode == 0
        assert [(entry["body"], entry["user"]["login"]) for entry in api.comments] == [(text, BOT)]
        assert [request.method for request in api.requests if request.method != "GET"] == ["POST", "PATCH"][:number]
    assert cluster.client.get_children("/brokers/topics") == []

    merge_pull_request(api, {name: (branch / "out" / name).read_text() for name in ("plan.json", "plan.md")})
    main = tmp_path / "main"
    shutil.copytree(branch / "topics", main / "topics")
    platform(main / "platform", cluster.connect)
    (main / "topics" / "clicks.yaml").write_text(topic("clicks", 3))
    (main / "out").mkdir()
    assert run_reviewed_script(api, main / "out" / "plan.json").returncode == 0
    log, output = run_action(main, "apply", PLATFORM="platform", REVIEWED="true", **PASSWORD)
    assert output == "exit-code=5\n"
    assert "2 documents outside --platform: Cluster shop" in log
    assert cluster.client.get_children("/brokers/topics") == ["orders"]
    assert len(json.loads(cluster.client.get("/brokers/topics/orders")[0])["partitions"]) == 6
    told = (main / "out" / "outcome.md").read_text()
    assert (main / "summary").read_text() == told
    assert told.startswith(f"{OUTCOME_MARKER}\n### Not all applied: 2 refused, 1 done.\n")
    assert "| `clicks` | `shop` | `refused` | `NotReviewed` |" in told
    assert run_comment_script(api, tmp_path, told).returncode == 0
    assert [entry["body"] for entry in api.comments] == [text, told]
    rows = [json.loads(line) for line in (main / "out" / "report.jsonl").read_text().splitlines()]
    assert {row["topic"]: (row["result"], row["reason"]) for row in rows if "topic" in row} == {
        "clicks": ("refused", "NotReviewed"),
        "huge": ("refused", "PolicyDenied"),
        "orders": ("done", None),
    }


def test_a_fork_is_planned_from_a_snapshot_without_credentials(
    cluster: SimulatedKafka, branch: Path, proxy: Proxy
) -> None:
    """Nothing is connected to, and the plan is the one that the cluster would have given."""
    platform(branch / "trusted" / "platform", proxy.through(cluster.connect))
    (branch / "topics" / "orders.yaml").write_text(topic("orders", 3))
    with pytest.MonkeyPatch.context() as job:
        for name, value in PASSWORD.items():
            job.setenv(name, value)
        assert run_topiarist("snapshot", branch / "trusted" / "platform", "--out", branch / "snapshots").code == 0
    live, _ = run_action(branch, "plan", PLATFORM="trusted/platform", **PASSWORD)
    text, kept = (branch / "out" / "plan.md").read_text(), (branch / "out" / "plan.json").read_bytes()
    assert text.startswith(f"{PLAN_MARKER}\n### Plan: 1 to create.\n")
    proxy.reset()
    log, output = run_action(branch, "plan", PLATFORM="trusted/platform", SNAPSHOT="snapshots")
    assert (output, sum(proxy.requests.values())) == ("exit-code=0\n", 0)
    assert "read from snapshots: taken " in log
    assert (branch / "out" / "plan.md").read_text() == text
    assert (branch / "out" / "plan.json").read_bytes() == kept
    assert log.splitlines()[-1] == live.splitlines()[-1]


def test_a_fork_without_a_snapshot_has_no_plan(cluster: SimulatedKafka, branch: Path) -> None:
    """The comment names the cluster, the log has the reason, and the job fails after both were written."""
    platform(branch / "trusted" / "platform", cluster.connect)
    (branch / "topics" / "orders.yaml").write_text(topic("orders", 3))
    log, output = run_action(branch, "plan", PLATFORM="trusted/platform")
    assert output == "exit-code=1\n"
    assert "TOPIARIST_SHOP_PASSWORD" in log
    text = (branch / "out" / "plan.md").read_text()
    assert (branch / "summary").read_text() == text
    assert "| `shop` | **not planned** |" in text
    assert not (branch / "out" / "plan.json").exists()


def test_a_refusal_on_the_only_cluster_names_none(cluster: SimulatedKafka, branch: Path) -> None:
    """Its annotation has the line of the field; the name of a cluster by its address alone would say nothing."""
    (branch / "topics" / "orders.yaml").write_text(topic("orders", 3, factor=9))
    log, _ = run_action(branch, "plan", "--zookeeper", cluster.connect)
    assert "::error file=topics/orders.yaml,line=7,col=22,title=orders%3A refused (TooFewBrokers)::" in log


def test_wrong_manifests_are_a_comment_too(branch: Path) -> None:
    """There is no plan, and the reviewer sees why; what the log shows of it is no command to the runner."""
    (branch / "topics" / "orders.yaml").write_text(topic("orders", 3, factor=0))
    shown, output = run_action(branch, "plan", "--zookeeper", "127.0.0.1:1")
    assert output == "exit-code=1\n"
    first, *log = shown.splitlines()
    token = first.removeprefix("::stop-commands::")
    assert len(token) == 32
    between, after = log[: log.index(f"::{token}::")], log[log.index(f"::{token}::") + 1 :]
    assert any("topics/orders.yaml:7:22: error" in line for line in between)
    (line,) = after
    assert line.startswith("::error file=topics/orders.yaml,line=7,col=22,")
    assert "### No plan: 1 error in the manifests" in (branch / "out" / "plan.md").read_text()


@pytest.mark.parametrize("command", ["plan", "apply"])
def test_paths_without_a_topic_are_an_error(branch: Path, command: str) -> None:
    """A folder that was renamed, or files that are named otherwise, must not pass as a change of nothing."""
    (branch / "topics" / "orders.YAML").write_text(topic("orders", 3))
    log, output = run_action(branch, command, "--zookeeper", "127.0.0.1:1", REVIEWED="false")
    assert output == "exit-code=1\n"
    assert "topics/orders.YAML: warning: not read" in log
    assert "topics: error: found no Topic here" in log


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--no-such-option"], "No such option"),
        (["--clusters", "topics"], "--clusters cannot be combined with --platform"),
    ],
)
def test_wrong_usage_is_said_in_the_comment(branch: Path, args: list[str], words: str) -> None:
    """Where topiarist printed nothing there is a comment all the same; the log has its words."""
    platform(branch / "platform", "127.0.0.1:1")
    log, output = run_action(branch, "plan", *args, PLATFORM="platform")
    assert (output, words in log) == ("exit-code=2\n", True)
    assert (branch / "out" / "plan.md").read_text() == (
        f"{PLAN_MARKER}\n### No plan: topiarist ended with 2. See the log of the run.\n"
    )


def test_what_is_applied_without_a_review_is_reported_too(cluster: SimulatedKafka, branch: Path) -> None:
    """With ``reviewed: false`` all of the manifests counts; the report is kept."""
    (branch / "topics" / "orders.yaml").write_text(topic("orders", 3))
    log, output = run_action(branch, "apply", "--zookeeper", cluster.connect, REVIEWED="false")
    assert output == "exit-code=0\n"
    assert "Applied: 1 done." in log
    assert cluster.client.exists("/brokers/topics/orders")
    assert (branch / "out" / "report.jsonl").exists()
    assert (branch / "summary").read_text().startswith(f"{OUTCOME_MARKER}\n### Applied: 1 done.\n")


def test_an_apply_that_could_not_begin_has_an_outcome_too(branch: Path) -> None:
    """Its summary names the exit code; why, and which address it was, stands in the log."""
    (branch / "topics" / "orders.yaml").write_text(topic("orders", 3))
    log, output = run_action(branch, "apply", "--zookeeper", "127.0.0.1:1", "--connect-timeout", "1", REVIEWED="false")
    assert output == "exit-code=1\n"
    assert "127.0.0.1:1" in log
    told = (branch / "summary").read_text()
    assert told == f"{OUTCOME_MARKER}\n### Not all applied: no topic. topiarist ended with 1; see the log of the run.\n"


@pytest.mark.parametrize("kept", [None, "", "{}", '{"formatVersion": 1}'], ids=["none", "empty", "nothing", "no plan"])
def test_nothing_is_applied_where_no_plan_was_reviewed(cluster: SimulatedKafka, branch: Path, kept: str | None) -> None:
    """A file that is missing or empty is an error, and no permission for everything."""
    (branch / "topics" / "orders.yaml").write_text(topic("orders", 3))
    (branch / "out").mkdir()
    if kept is not None:
        (branch / "out" / "plan.json").write_text(kept)
    log, output = run_action(branch, "apply", "--zookeeper", cluster.connect, REVIEWED="true")
    assert output == "exit-code=1\n"
    assert "plan.json" in log
    assert not cluster.client.exists("/brokers/topics/orders")

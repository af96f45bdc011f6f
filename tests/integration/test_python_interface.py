"""``topiarist.api`` on a real ZooKeeper: docs/python.md and its tasks as written, and the guards of a run."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import re
import signal
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from integration.write_fixtures import REPLICAS, connect_cluster
from support.checkout import ROOT
from support.repo.pages import blocks
from support.zookeeper import write_checker
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist import api
from topiarist.adapters.devcluster.seed import Topic
from topiarist.cli.main import run

PAGE = ROOT / "docs" / "python.md"
EXAMPLE = ROOT / "docs" / "python" / "scheduled_topics.py"
CLUSTER = "apiVersion: topiarist.dev/v1\nkind: Cluster\nmetadata: {{name: prod}}\nspec: {spec}\n"
TOPIC = "apiVersion: topiarist.dev/v1\nkind: Topic\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"
SIZE = "partitions: 2, replicationFactor: 3"


class Desk:
    """A folder with manifests of one cluster, and the settings that name it."""

    def __init__(self, folder: Path, cluster: SimulatedKafka) -> None:
        self.folder = folder
        self.clusters = folder / "clusters.yaml"
        (folder / "topics").mkdir()
        self.use(cluster)

    def use(self, cluster: SimulatedKafka, more: str = "") -> None:
        """Write the Cluster document."""
        self.clusters.write_text(CLUSTER.format(spec=f"{{zookeeper: {{connect: '{cluster.connect}'}}{more}}}"))

    def declare(self, name: str, spec: str = SIZE) -> None:
        """Write the manifest of a topic."""
        (self.folder / "topics" / f"{name}.yaml").write_text(TOPIC.format(name=name, spec=spec))

    def settings(self, **more: Any) -> api.RunSettings:
        """Return the settings of a run from manifests."""
        return api.RunSettings(paths=(str(self.folder / "topics"),), clusters=(str(self.clusters),), **more)

    def saved(self, **more: Any) -> api.RunSettings:
        """Return the settings of a run from a saved plan."""
        return api.RunSettings(clusters=(str(self.clusters),), **more)


@pytest.fixture
def desk(tmp_path: Path, cluster: SimulatedKafka, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk with one topic, in the working directory."""
    monkeypatch.chdir(tmp_path)
    found = Desk(tmp_path, cluster)
    found.declare("orders")
    return found


@pytest.fixture(autouse=True)
def silent(capfd: pytest.CaptureFixture[str]) -> Any:
    """Require that no test of the interface prints, handles a signal or configures logging."""
    before = (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), [*logging.root.handlers])
    environment = dict(os.environ)
    yield
    assert before == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), logging.root.handlers)
    assert {key: text for key, text in os.environ.items() if key != "PYTEST_CURRENT_TEST"} == {
        key: text for key, text in environment.items() if key != "PYTEST_CURRENT_TEST"
    }
    assert tuple(capfd.readouterr()) == ("", "")


def results(result: api.ApplyResult) -> dict[str, str]:
    return {each.topic: each.result.value for report in result.reports for each in report.outcomes}


def load_example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scheduled_topics", EXAMPLE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.usefixtures("desk")
def test_the_page_works_as_written(cluster: SimulatedKafka, capfd: pytest.CaptureFixture[str]) -> None:
    """The first block plans and applies, the block about errors runs, and the page has the example as the file is."""
    found = [block for block in blocks(PAGE.read_text()) if block.language == "python"]
    names: dict[str, Any] = {}
    for block in found:
        if block.marker.startswith("file: "):
            assert block.text == (PAGE.parent / block.marker.removeprefix("file: ")).read_text()
        else:
            exec(block.text, names)
    assert capfd.readouterr().out.startswith("('orders',)\n[]\nprod   cluster ")
    assert set(write_checker.decode_topics(write_checker.read_nodes(cluster.connect))) == {"orders"}


def test_every_setting_on_the_page_exists() -> None:
    """The table of permissions names settings of ``RunSettings``, in valid Python."""
    shown = re.findall(r"\| `(\w+=.+?)` \|", PAGE.read_text())
    assert len(shown) == 5
    for text in shown:
        eval(f"api.RunSettings({text})", {"api": api})


def test_tasks_pass_the_plan_on_as_json(desk: Desk, cluster: SimulatedKafka) -> None:
    """Plan, approval, apply: each task gets text alone; a repeated apply finds everything done."""
    tasks = load_example()
    cluster.add_topics(Topic("old", REPLICAS, {}))
    desk.declare("old")
    api.apply_manifests(desk.settings()).require_done()
    desk.declare("old", f"{SIZE}, ensure: Absent")
    desk.declare("clicks", f"{SIZE}, config: {{retention.ms: 1d}}")
    plan = json.loads(json.dumps(tasks.plan_topics(str(desk.folder / "topics"), str(desk.clusters))))
    shown = tasks.describe_plan(plan)
    assert shown["deleted"] == ["old"]
    assert "create 2 partitions x 3 replicas" in shown["text"]
    with pytest.raises(RuntimeError, match="is not the approved one"):
        tasks.apply_topics(plan, "0" * 64, ["old"], str(desk.clusters))
    with pytest.raises(api.TopiaristError, match="old: refused") as raised:
        tasks.apply_topics(plan, shown["fingerprint"], [], str(desk.clusters))
    assert raised.value.reason is api.Reason.DATA_LOSS
    for expected in ({"clicks": "unchanged", "old": "done"}, {"clicks": "unchanged", "old": "unchanged"}):
        done = json.loads(tasks.apply_topics(plan, shown["fingerprint"], ["old"], str(desk.clusters)))
        assert {each["topic"]: each["result"] for each in done["clusters"][0]["outcomes"]} == expected
        assert (done["exitCode"], done["errors"]) == (0, {})
        cluster.wait_idle()
    assert "old" not in write_checker.decode_topics(write_checker.read_nodes(cluster.connect))


def test_the_plan_is_the_plan_file_of_the_command(desk: Desk, capfd: pytest.CaptureFixture[str]) -> None:
    """Both make the same bytes, and each applies what the other has made."""
    plans = api.make_plans(desk.settings())
    words = [str(desk.folder / "topics"), "--clusters", str(desk.clusters)]
    assert run(["plan", *words, "--out", "plan.json"]) == 0
    text = (desk.folder / "plan.json").read_text()
    assert plans.to_json() == text
    assert api.parse_plans(text).fingerprint == plans.fingerprint
    assert api.parse_plans(text).to_json() == text
    assert run(["plan", *words, "--format", "markdown"]) == 0
    assert capfd.readouterr().out.endswith(plans.to_markdown(str(desk.folder)))
    assert run(["plan", *words, "--format", "html", "--page", "plan.html"]) == 0
    page = (desk.folder / "plan.html").read_text()
    assert (capfd.readouterr().out, plans.to_html(str(desk.folder))) == (page, page)
    (desk.folder / "other.json").write_text(plans.to_json())
    assert run(["apply", "--plan", "other.json", "--clusters", str(desk.clusters), "--yes"]) == 0
    capfd.readouterr()
    assert results(api.apply_plans(desk.saved(), text)) == {"orders": "unchanged"}


def test_a_plan_that_is_no_longer_true_sends_nothing(desk: Desk, cluster: SimulatedKafka) -> None:
    """Another client has made the topic: a conflict, and no other topic is written; with ``partial`` it is."""
    desk.declare("clicks")
    plan = api.make_plans(desk.settings()).to_json()
    cluster.add_topics(Topic("orders", REPLICAS, {}))
    before = write_checker.read_nodes(cluster.connect)
    result = api.apply_plans(desk.saved(), plan)
    assert results(result) == {"orders": "conflict", "clicks": "skipped"}
    assert result.exit_code is api.Exit.CONFLICT
    assert write_checker.read_nodes(cluster.connect) == before
    with pytest.raises(api.TopiaristError, match=r"orders: conflict: .*exists now \(and 1 more\)") as raised:
        result.require_done()
    assert raised.value.reason is api.Reason.STATE_CONFLICT
    assert results(api.apply_plans(desk.saved(partial=True), plan)) == {"orders": "conflict", "clicks": "done"}


def test_a_locked_cluster_is_an_error(desk: Desk, cluster: SimulatedKafka) -> None:
    """A run that waits for the lock in vain reports every topic as skipped, and the error names the holder."""
    with connect_cluster(cluster.connect) as other:
        plans = api.make_plans(desk.settings())
        running = other.apply(plans.plans[0], lambda: False)
        next(running)
        desk.declare("clicks")
        result = api.apply_manifests(desk.settings(lock_timeout=0.1))
        assert results(result) == {"clicks": "skipped"}
        with pytest.raises(api.TopiaristError) as raised:
            result.require_done()
        assert raised.value.reason is api.Reason.LOCKED
        assert raised.value.reason.retryable
        list(running)


def test_only_what_was_reviewed_is_applied(desk: Desk) -> None:
    """A topic that came after the review is refused, and the reviewed one is made."""
    reviewed = api.make_plans(desk.settings())
    desk.declare("later")
    result = api.apply_manifests(desk.settings(), reviewed=reviewed)
    assert results(result) == {"orders": "done"}
    assert result.exit_code is api.Exit.CONFLICT
    again = api.apply_manifests(desk.settings(), reviewed=reviewed.to_json())
    assert again.remarks == ("prod: already done: orders",)


def test_the_error_of_one_cluster_is_raised_or_kept(desk: Desk) -> None:
    """An unreachable cluster does not hide: ``make_plans`` raises unless told to keep going; ``apply`` reports it."""
    other = CLUSTER.format(spec="{zookeeper: {connect: 'localhost:1'}}").replace("prod", "away")
    desk.clusters.write_text(f"{desk.clusters.read_text()}---\n{other}")
    desk.declare("orders", f"clusters: [prod, away], {SIZE}")
    short = desk.settings(connect_timeout=0.3)
    with pytest.raises(api.TopiaristError) as raised:
        api.make_plans(short)
    assert raised.value.reason is api.Reason.UNREACHABLE
    kept = api.make_plans(short, keep_going=True)
    assert ([plan.cluster for plan in kept.plans], [*kept.errors]) == (["prod"], ["away"])
    again = api.parse_plans(kept.to_json())
    assert ([*again.errors], again.to_json(), again.fingerprint) == (["away"], kept.to_json(), kept.fingerprint)
    assert [*api.read_clusters(short).errors] == ["away"]
    result = api.apply_manifests(short)
    assert results(result) == {"orders": "done"}
    with pytest.raises(api.TopiaristError) as raised:
        result.require_done()
    assert raised.value.reason is api.Reason.UNREACHABLE
    assert result.to_dict()["errors"]["away"]["reason"] == "Unreachable"


def test_each_of_two_documents_of_one_cluster_has_the_error(desk: Desk) -> None:
    """If two addresses lead to one cluster, neither document has a plan, and both have the error."""
    text = desk.clusters.read_text()
    desk.clusters.write_text(f"{text}---\n{text.replace('prod', 'twin')}")
    desk.declare("orders", f"clusters: [prod, twin], {SIZE}")
    found = api.make_plans(desk.settings(), keep_going=True)
    assert {name: error.reason for name, error in found.errors.items()} == dict.fromkeys(
        ("prod", "twin"), api.Reason.WRONG_CLUSTER
    )
    assert found.plans == ()


def test_a_listener_follows_the_run_and_stop_ends_it(desk: Desk) -> None:
    """The listener gets each outcome; after ``stop`` returns true nothing more is sent, in any thread."""

    class Heard(api.RunListener):
        """A listener that keeps the outcomes."""

        def __init__(self) -> None:
            self.outcomes: list[str] = []
            self.messages: list[str] = []

        def on_outcome(self, plan: api.Plan, topic: api.TopicPlan, outcome: api.Outcome) -> None:
            """Keep an outcome."""
            self.outcomes.append(f"{plan.cluster}/{topic.topic} {outcome.result.value}")

        def on_message(self, text: str, *, important: bool = False) -> None:
            """Keep a message."""
            self.messages.append(text)

    heard = Heard()
    stopped = api.apply_manifests(desk.settings(), heard, lambda: True)
    assert results(stopped) == {"orders": "skipped"}
    found: list[api.ApplyResult] = []
    task = threading.Thread(target=lambda: found.append(api.apply_manifests(desk.settings(wait=True), heard)))
    task.start()
    task.join()
    assert results(found[0]) == {"orders": "done"}
    assert heard.outcomes == ["prod/orders skipped", "prod/orders done"]
    assert heard.messages[-1] == "1 topic initialized by the controller"


def test_a_snapshot_is_for_plans_alone(desk: Desk, capfd: pytest.CaptureFixture[str]) -> None:
    """A plan from a snapshot is that of the cluster; apply refuses it before anything is read."""
    assert run(["snapshot", "--clusters", str(desk.clusters), "--out", "snapshots"]) == 0
    capfd.readouterr()
    from_snapshot = desk.settings(snapshot="snapshots")
    assert api.make_plans(from_snapshot).to_json() == api.make_plans(desk.settings()).to_json()
    assert [*api.read_clusters(from_snapshot).states] == ["prod"]
    with pytest.raises(api.TopiaristError, match="found snapshot, which is for plans alone"):
        api.apply_manifests(from_snapshot)


def test_a_plan_of_another_owner_or_cluster_is_refused(desk: Desk, cluster: SimulatedKafka) -> None:
    """The owner of the run must be that of the plan, and the cluster that at the address."""
    plan = api.make_plans(desk.settings())
    with pytest.raises(api.TopiaristError) as raised:
        api.apply_plans(desk.saved(owner="billing"), plan)
    assert raised.value.reason is api.Reason.NOT_OWNED
    cluster.client.set("/cluster/id", b'{"version":"1","id":"another"}')
    result = api.apply_plans(desk.saved(), plan)
    assert (result.reports, result.errors["prod"].reason) == ((), api.Reason.WRONG_CLUSTER)
    cluster.client.set("/cluster/id", json.dumps({"version": "1", "id": plan.plans[0].cluster_id}).encode())
    with pytest.raises(api.TopiaristError, match="found paths, or a selection"):
        api.apply_plans(desk.settings(), plan)
    with pytest.raises(api.TopiaristError, match="give --adopt when the plan is made"):
        api.apply_plans(desk.saved(adopt=("*",)), plan)

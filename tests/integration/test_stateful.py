"""Any sequence of what teams, their manifests, saved plans, other people's tools and an administrator may do to one
cluster: whatever the order, nothing foreign changes, and nothing is deleted that was not asked for twice.

Against a real ZooKeeper, through the command line; a small model predicts the possible results a second time, and
looks at znodes only.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Collection, Mapping
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from kazoo.client import KazooClient

from conftest import BROKERS
from support.examples import scaled
from support.zookeeper import write_checker
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec import topics as configs_
from topiarist.cli.main import run

TEAMS = ("payments", "search")
TOPICS = ("clicks", "orders")
CONFIG_KEYS = ("flush.ms", "retention.ms", "segment.ms")

_chroots = count(1)

configs = st.dictionaries(st.sampled_from(CONFIG_KEYS), st.sampled_from(["60000", "120000", "240000"]), max_size=2)
specs = st.fixed_dictionaries(
    {"partitions": st.integers(1, 3), "config": configs},
    optional={"unmanagedConfig": st.just("Remove")},
)
sizes = st.integers(1, 3)
hows = st.sampled_from(["plan", "reviewed", "later"])
often = st.sampled_from([True, True, False])


class Scope(NamedTuple):
    """The scope of one command: its owner, its specs, and its permissions."""

    owner: str
    wanted: Mapping[str, Mapping[str, Any]]
    adopt: bool = True
    take: bool = False
    delete: bool = False
    release: Collection[str] = ()


class Saved(NamedTuple):
    """A plan that was written down, and what it was made for."""

    file: Path
    scope: Scope


class Machine(RuleBasedStateMachine):
    """One cluster and everybody who works on it."""

    server: ClassVar[EmbeddedZooKeeper]

    def __init__(self) -> None:
        super().__init__()
        self.stack = contextlib.ExitStack()
        connect = f"{self.server.connect}/stateful-{next(_chroots)}"
        self.playground = self.stack.enter_context(SimulatedKafka(connect, BROKERS))
        self.connect = connect
        self.client = KazooClient(connect)
        self.client.start()
        self.stack.callback(self.client.close)
        self.stack.callback(self.client.stop)
        self.folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.manifests: dict[str, dict[str, dict[str, Any]]] = {team: {} for team in TEAMS}
        self.saved: list[Saved] = []
        self.frozen = False
        self.playground.add_topics(Topic("foreign", ((1, 2), (2, 3)), {"retention.ms": "7"}))

    def teardown(self) -> None:
        """End everything that the example began."""
        self.stack.close()

    # What teams do in git.

    @rule(team=st.sampled_from(TEAMS), topic=st.sampled_from(TOPICS), spec=specs)
    def declare(self, team: str, topic: str, spec: dict[str, Any]) -> None:
        """A manifest comes or changes."""
        self.manifests[team][topic] = spec

    @rule(team=st.sampled_from(TEAMS), topic=st.sampled_from(TOPICS))
    def undeclare(self, team: str, topic: str) -> None:
        """A manifest goes: that is never a deletion."""
        self.manifests[team].pop(topic, None)

    @rule(team=st.sampled_from(TEAMS), topic=st.sampled_from(TOPICS))
    def condemn(self, team: str, topic: str) -> None:
        """A manifest says that its topic shall be absent."""
        if topic in self.manifests[team]:
            self.manifests[team][topic] = {**self.manifests[team][topic], "ensure": "Absent"}

    # What teams run.

    @initialize(specs=st.tuples(specs, specs))
    def begin(self, specs: tuple[dict[str, Any], dict[str, Any]]) -> None:
        """Each team has a topic of its own."""
        for team, topic, spec in zip(TEAMS, TOPICS, specs, strict=True):
            self.manifests[team][topic] = spec
            self.apply(team, adopt=False, take=False, delete=False)

    @rule(team=st.sampled_from(TEAMS), topic=st.sampled_from(TOPICS), spec=specs, adopt=often, take=st.booleans())
    def push(self, team: str, topic: str, spec: dict[str, Any], adopt: bool, take: bool) -> None:
        """A manifest changes, and is applied at once."""
        self.declare(team, topic, spec)
        self.apply(team, adopt, take, delete=False)

    @rule(team=st.sampled_from(TEAMS), adopt=often, take=st.booleans(), delete=often)
    def apply(self, team: str, adopt: bool, take: bool, delete: bool) -> None:
        """A run of today's manifests; one that ends well leaves nothing to do."""
        scope = Scope(team, dict(self.manifests[team]), adopt, take, delete)
        words = ["apply", str(self.write(team)), *self.flags(scope), "--yes"]
        if self.watched(words, scope) == 0 and not self.frozen:
            assert self.watched(words, Scope(team, {})) == 0

    @rule(team=st.sampled_from(TEAMS), adopt=often, take=st.booleans(), how=hows, delete=often)
    def save(self, team: str, adopt: bool, take: bool, how: str, delete: bool) -> None:
        """A plan is written down, to be applied at once or at any time later."""
        scope = Scope(team, dict(self.manifests[team]), adopt, take)
        file = self.folder / f"plan-{len(self.saved)}.json"
        words = ["plan", str(self.write(team)), *self.flags(scope), "--out", str(file)]
        assert self.watched(words, Scope(team, {})) == 0
        self.saved.append(Saved(file, scope))
        if how == "plan":
            self.carry_out(self.saved[-1], delete)
        elif how == "reviewed":
            self.carry_out_reviewed(self.saved[-1], delete)

    @rule(team=st.sampled_from(TEAMS), topic=st.sampled_from(TOPICS), spec=specs, adopt=often, how=hows)
    def propose(self, team: str, topic: str, spec: dict[str, Any], adopt: bool, how: str) -> None:
        """A manifest changes, and its plan is written down and perhaps carried out."""
        self.declare(team, topic, spec)
        self.save(team, adopt, take=False, how=how, delete=False)

    @precondition(lambda self: self.saved)
    @rule(data=st.data(), delete=st.booleans())
    def apply_saved(self, data: st.DataObject, delete: bool) -> None:
        """An old plan is carried out from its file alone."""
        self.carry_out(data.draw(st.sampled_from(self.saved)), delete)

    def carry_out(self, saved: Saved, delete: bool) -> None:
        """Apply a plan from its file alone."""
        scope = saved.scope._replace(delete=delete)
        words = ["apply", "--plan", str(saved.file), "--owner", scope.owner, *self.where(), *self.risks(scope), "--yes"]
        self.watched(words, scope)

    @precondition(lambda self: self.saved)
    @rule(data=st.data(), delete=st.booleans())
    def apply_reviewed(self, data: st.DataObject, delete: bool) -> None:
        """Today's manifests are planned anew, and only what an old plan holds is done."""
        self.carry_out_reviewed(data.draw(st.sampled_from(self.saved)), delete)

    def carry_out_reviewed(self, saved: Saved, delete: bool) -> None:
        """Apply of today's manifests what a plan holds too."""
        today = self.manifests[saved.scope.owner]
        both = {topic: spec for topic, spec in saved.scope.wanted.items() if topic in today}
        scope = saved.scope._replace(wanted=both, delete=delete)
        folder = str(self.write(scope.owner))
        self.watched(["apply", folder, "--reviewed", str(saved.file), *self.flags(scope), "--yes"], scope)

    @rule(team=st.sampled_from(TEAMS), topic=st.sampled_from(TOPICS))
    def release(self, team: str, topic: str) -> None:
        """A team gives a topic up: nothing of Kafka's goes."""
        words = ["unmanage", topic, "--owner", team, *self.where(), "--yes"]
        self.watched(words, Scope(team, {}, release=(topic,)))

    # What others do.

    @rule(topic=st.sampled_from(TOPICS), partitions=sizes, config=configs, team=st.sampled_from(TEAMS))
    def create_outside(self, topic: str, partitions: int, config: dict[str, str], team: str) -> None:
        """Another client creates or recreates a topic; then a team runs and adopts none."""
        self.delete_outside(topic)
        self.playground.add_topics(Topic(topic, ((1, 2), (2, 3), (3, 4))[:partitions], config))
        self.apply(team, adopt=False, take=False, delete=True)

    @rule(topic=st.sampled_from(TOPICS))
    def delete_outside(self, topic: str) -> None:
        """Another client deletes a topic with Kafka's own tool."""
        if self.client.exists(paths.topic_path(topic)):
            self.client.create(paths.deletion_request_path(topic))
        self.playground.wait_idle()

    @rule(topic=st.sampled_from(TOPICS), config=configs)
    def configure_outside(self, topic: str, config: dict[str, str]) -> None:
        """Another client sets a topic's config with Kafka's own tool."""
        if self.client.exists(paths.config_path(topic)):
            self.client.set(paths.config_path(topic), configs_.encode_config(config))

    @rule(broker=st.integers(1, 6))
    def fail_over(self, broker: int) -> None:
        """Another broker becomes the controller."""
        self.playground.elect_controller(broker)

    @rule(team=st.sampled_from(TEAMS))
    def freeze(self, team: str) -> None:
        """An administrator stops every writer: a run of then writes nothing; and lets them go on."""
        assert self.command(["freeze", "--reason", "an audit", *self.where()]) == 0
        self.frozen = True
        self.apply(team, adopt=True, take=True, delete=True)
        if self.saved:
            self.carry_out(self.saved[-1], delete=True)
        assert self.command(["unfreeze", *self.where()]) == 0
        self.frozen = False

    # What must hold.

    @invariant()
    def the_controller_is_content(self) -> None:
        """Nothing was written that the controller could not read."""
        self.playground.wait_idle()
        assert self.playground.controller_errors == []

    def watched(self, words: list[str], scope: Scope) -> int:
        """Run a command and hold what it did against what it may do."""
        self.playground.wait_idle()
        before = write_checker.read_nodes(self.connect)
        code = self.command(words)
        self.playground.wait_idle()
        after = write_checker.read_nodes(self.connect)
        assert code in (0, 4, 5)
        if self.frozen:
            assert after == before
            return code
        deleted = {topic for topic in TOPICS if _gone(topic, before, after)}
        kept = {path: node for path, node in before.items() if not deleted.intersection(path.split("/"))}
        assert write_checker.find_problems(kept, after, [*scope.wanted, *scope.release]) == []
        for topic in TOPICS:
            _judge(topic, before, after, scope)
        return code

    def command(self, words: list[str]) -> int:
        """Run a command line in this process; its exit code."""
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return run(words)

    def where(self) -> list[str]:
        """The words for the cluster."""
        return ["--zookeeper", self.connect]

    def risks(self, scope: Scope) -> list[str]:
        """The words for the deletions that a run allows."""
        return ["--allow-risk", "DataLoss"] if scope.delete else []

    def flags(self, scope: Scope) -> list[str]:
        """The words for all that a run is and may do."""
        words = ["--owner", scope.owner, *self.where(), *self.risks(scope), "--kafka-version", "3.9"]
        return words + ["--adopt=*"] * scope.adopt + ["--take-ownership=*"] * scope.take

    def write(self, team: str) -> Path:
        """The folder of a team's manifests, as they are today."""
        folder = self.folder / team
        folder.mkdir(exist_ok=True)
        for file in folder.iterdir():
            file.unlink()
        for topic, spec in self.manifests[team].items():
            document = {
                "apiVersion": "topiarist.dev/v1",
                "kind": "Topic",
                "metadata": {"name": topic},
                "spec": {"replicationFactor": 2, **spec},
            }
            (folder / f"{topic}.yaml").write_text(json.dumps(document))
        return folder


def _judge(topic: str, before: write_checker.Tree, after: write_checker.Tree, scope: Scope) -> None:
    """What a command did to one topic is what its manifest wants, and its run was allowed to do."""
    ours = [paths.topic_path(topic), paths.config_path(topic), paths.record_path(topic)]
    if [before.get(path) for path in ours] == [after.get(path) for path in ours]:
        return
    record = _record(topic, before)
    assert topic in scope.wanted or topic in scope.release
    assert record is None or record["owner"] == scope.owner or scope.take
    kafkas = [_data(before, path) for path in ours[:2]] != [_data(after, path) for path in ours[:2]]
    if not kafkas:
        return
    spec = scope.wanted[topic]
    if _gone(topic, before, after):
        assert spec.get("ensure") == "Absent"
        assert record is not None
        assert record["owner"] == scope.owner
        assert scope.delete
        return
    assert spec.get("ensure") != "Absent"
    existed = ours[0] in before
    assert record is not None or scope.adopt or not existed
    had, has = (len(_json(tree, ours[0]).get("partitions", {})) for tree in (before, after))
    assert has in (had, spec["partitions"])
    assert has >= had
    _judge_config(_config(before, topic) if existed else {}, _config(after, topic), spec, record)


def _judge_config(
    before: Mapping[str, str], after: Mapping[str, str], spec: Mapping[str, Any], record: Mapping[str, Any] | None
) -> None:
    for key in before.keys() | after.keys():
        if before.get(key) == after.get(key):
            continue
        if key in spec["config"]:
            assert after[key] == spec["config"][key]
        else:
            assert key not in after
            assert spec.get("unmanagedConfig") == "Remove" or (record is not None and key in record["config"])


def _gone(topic: str, before: write_checker.Tree, after: write_checker.Tree) -> bool:
    path = paths.topic_path(topic)
    return path in before and (path not in after or after[path].czxid != before[path].czxid)


def _record(topic: str, tree: write_checker.Tree) -> Mapping[str, Any] | None:
    """The record that counts: one at least as new as its topic."""
    node, record = tree.get(paths.topic_path(topic)), tree.get(paths.record_path(topic))
    if node is None or record is None or record.mzxid < node.czxid:
        return None
    found: Mapping[str, Any] = json.loads(record.data or b"")
    return found


def _json(tree: write_checker.Tree, path: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(_data(tree, path) or b"{}")
    return found


def _data(tree: write_checker.Tree, path: str) -> bytes | None:
    return tree[path].data if path in tree else None


def _config(tree: write_checker.Tree, topic: str) -> Mapping[str, str]:
    found: Mapping[str, str] = _json(tree, paths.config_path(topic)).get("config", {})
    return found


@pytest.mark.slow
def test_whatever_the_order_nothing_foreign_changes(zookeeper: EmbeddedZooKeeper) -> None:
    """Random sequences of manifests, runs, saved plans, freezes and other people's work, each step held against what
    it may do.
    """

    class Here(Machine):
        server = zookeeper

    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=scaled(15),
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            # To make a failure small takes minutes, since each step is a run against a real server.
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
        ),
    )

"""``--platform``: the clusters, policies and topics that count, and the messages about the ignored documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from topiarist.adapters.manifests import loader
from topiarist.desired.shared_specs import ClusterTopicSpecs
from topiarist.errors import InvalidManifests, TopiaristError
from topiarist.model.moves import UNLIMITED, MoveKind, MoveSettings
from topiarist.model.spec import Budgets, TopicSpec
from topiarist.runs.inputs import load_manifests, load_with_platform
from topiarist.runs.settings import RunListener, RunSettings

HEAD = "apiVersion: topiarist.dev/v1\nkind: {kind}\nmetadata: {{name: {name}}}\n"
TOPIC = HEAD.format(kind="Topic", name="orders") + "spec: {partitions: 1, replicationFactor: 1}\n"
OURS = HEAD.format(kind="Cluster", name="ours") + "spec: {zookeeper: {connect: zk1:2181}}\n"
THEIRS = HEAD.format(kind="Cluster", name="theirs") + "spec: {zookeeper: {connect: zk2:2181}}\n"
BROKEN = "apiVersion: topiarist.dev/v1\nkind: Cluster\nmetadata: {name: [}\n"


@pytest.fixture
def branch(tmp_path: Path) -> Path:
    """Return the folder of a branch, with a topic and an untrusted Cluster."""
    (tmp_path / "branch").mkdir()
    (tmp_path / "branch" / "all.yaml").write_text(f"{TOPIC}---\n{THEIRS}")
    return tmp_path / "branch"


def _platform(folder: Path, text: str) -> Path:
    (folder / "platform.yaml").write_text(text)
    return folder / "platform.yaml"


def _names(found: loader.Loaded) -> list[str]:
    return [f"{manifest.kind} {manifest.name}" for manifest in found.manifests]


class Heard(RunListener):
    """A listener that keeps the messages."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def on_message(self, text: str, *, important: bool = False) -> None:
        """Keep a message; a quiet run shows only the important ones."""
        assert not important
        self.messages.append(text)


def test_without_a_platform_all_counts(branch: Path) -> None:
    """Without ``--platform``, every document of the paths counts."""
    found = loader.load_manifests([str(branch)])
    heard = Heard()
    assert load_with_platform(found, RunSettings(), heard) is found
    assert heard.messages == []


def test_a_cluster_counts_there_alone_and_a_topic_elsewhere(tmp_path: Path, branch: Path) -> None:
    """The Cluster of the branch and the Topic of the platform have no effect, and topiarist reports the Cluster."""
    heard = Heard()
    settings = RunSettings(platform=(str(_platform(tmp_path, f"{TOPIC}---\n{OURS}")),))
    assert _names(load_with_platform(loader.load_manifests([str(branch)]), settings, heard)) == [
        "Topic orders",
        "Cluster ours",
    ]
    assert heard.messages == [f"ignored 1 document outside --platform: Cluster theirs ({branch}/all.yaml:6:1)"]


def test_a_file_that_both_paths_lead_to_is_the_platforms(branch: Path) -> None:
    """A Cluster in a file that both paths contain counts, under any name of the file, without a message."""
    link = branch.with_name("link")
    link.symlink_to(branch)
    heard = Heard()
    found = load_with_platform(loader.load_manifests([str(branch)]), RunSettings(platform=(str(link),)), heard)
    assert _names(found) == ["Topic orders", "Cluster theirs"]
    assert heard.messages == []


def test_a_platform_that_guards_nothing_is_wrong_usage(tmp_path: Path, branch: Path) -> None:
    """A platform without Cluster and Policy is a usage error: a mistyped path would remove every restriction."""
    settings = RunSettings(platform=(str(_platform(tmp_path, TOPIC)),))
    with pytest.raises(TopiaristError, match="found no Cluster and no Policy"):
        load_with_platform(loader.load_manifests([str(branch)]), settings)


def test_what_is_wrong_in_a_platform_is_a_error(tmp_path: Path, branch: Path) -> None:
    """An invalid document in the platform is reported as such, and not as a missing Cluster."""
    found = load_with_platform(
        loader.load_manifests([str(branch)]), RunSettings(platform=(str(_platform(tmp_path, BROKEN)),))
    )
    assert [diagnostic.location.file for diagnostic in found.errors] == [str(tmp_path / "platform.yaml")]


def test_what_does_not_go_with_a_platform(branch: Path) -> None:
    """A platform is the only source of Clusters, and a branch must not be able to write to it."""
    settings = RunSettings(platform=("x",), clusters=("y",))
    with pytest.raises(TopiaristError, match="--clusters cannot be combined with --platform"):
        load_with_platform(loader.load_manifests([str(branch)]), settings)


PLATFORM = (
    HEAD.format(kind="Cluster", name="ours")
    + "spec: {zookeeper: {connect: zk1:2181}, moves: {allow: [Drain, Factor], throttle: 50MiB}}\n"
)
MOVING_BRANCH = (
    HEAD.format(kind="Topic", name="orders")
    + "spec: {partitions: 1, replicationFactor: 1, moves: {allow: [Factor, Spread, Assignment]}}\n---\n"
    + HEAD.format(kind="Topic", name="users")
    + "spec: {partitions: 1, replicationFactor: 1}\n---\n"
    + HEAD.format(kind="Cluster", name="ours")
    + "spec: {zookeeper: {connect: zk2:2181}, drainBrokers: [1, 2], excludeBrokers: [3], budgets: {movedReplicas: 999},"
    + " moves: {allow: [Drain, Racks, Factor, Assignment, Spread], throttle: Unlimited, protected: true}}\n"
)


def _load_branch(folder: Path, **options: Any) -> dict[str, TopicSpec]:
    """Return the topics of a branch that asks for everything, on the cluster of the platform."""
    (folder / "topics.yaml").write_text(MOVING_BRANCH)
    settings = RunSettings((str(folder / "topics.yaml"),), platform=(str(_platform(folder, PLATFORM)),), **options)
    return {spec.topic: spec for spec in load_manifests(settings).desired.specs["ours"]}


def test_a_branch_allows_itself_no_move(tmp_path: Path) -> None:
    """A Topic narrows what the platform allows, and the Cluster document of the branch adds nothing: no kind, no
    drained broker, no throttle, no budget, no protected topic.
    """
    found = _load_branch(tmp_path)
    assert found["orders"].allowed_moves == {MoveKind.FACTOR}
    assert found["users"].allowed_moves == {MoveKind.DRAIN, MoveKind.FACTOR}
    on = found["users"].cluster
    assert on.moves == MoveSettings(frozenset({MoveKind.DRAIN, MoveKind.FACTOR}), 50 << 20)
    assert (on.drain_brokers, on.exclude_brokers, on.budgets) == (frozenset(), frozenset(), Budgets())


def test_the_throttle_of_a_run_replaces_that_of_the_cluster(tmp_path: Path) -> None:
    """``--throttle`` changes the pace and nothing that is allowed; 0 is Unlimited and not a missing value."""
    for throttle in (1024, UNLIMITED):
        moves = _load_branch(tmp_path, throttle=throttle)["users"].cluster.moves
        assert moves == MoveSettings(frozenset({MoveKind.DRAIN, MoveKind.FACTOR}), throttle)


def test_a_selection_keeps_the_names_of_the_other_topics(tmp_path: Path) -> None:
    """The specs are those of the selected topics; the names of the others are kept, for the share of a budget."""
    (tmp_path / "topics.yaml").write_text(MOVING_BRANCH)
    desired = load_manifests(RunSettings((str(tmp_path / "topics.yaml"),), topic=("ord*",))).desired
    assert [spec.topic for spec in desired.specs["ours"]] == ["orders"]
    assert desired.unselected == {"ours": {"users"}}
    everything = load_manifests(RunSettings((str(tmp_path / "topics.yaml"),))).desired
    assert everything.unselected == {}


@pytest.mark.parametrize("named", ["", "clusters: [ours]"])
@pytest.mark.parametrize("text", ["a: b: c\n", OURS.replace("Cluster", "Clster"), BROKEN, ""])
def test_topics_are_not_blamed_for_a_cluster_that_cannot_be_read(tmp_path: Path, text: str, named: str) -> None:
    """Only the file of the Cluster has an error, be it absent: defaults that a topic lacks may be in it."""
    (tmp_path / "orders.yaml").write_text(f"{HEAD.format(kind='Topic', name='orders')}spec: {{{named}}}\n")
    platform = tmp_path / "platform.yaml"
    if text:
        platform.write_text(text)
    for settings in (
        RunSettings((str(tmp_path / "orders.yaml"), str(platform))),
        RunSettings((str(tmp_path / "orders.yaml"),), clusters=(str(platform),)),
    ):
        with pytest.raises(InvalidManifests) as raised:
            load_manifests(settings, offline=True)
        assert {error.location.file for error in raised.value.errors} == {str(platform)}


def test_a_fleet_makes_no_spec_before_it_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters share their specs until one is asked for; without a pattern of topics, loading asks for none."""
    made: list[str] = []

    def record(_: ClusterTopicSpecs, spec: TopicSpec) -> TopicSpec:
        made.append(spec.topic)
        return spec

    monkeypatch.setattr(ClusterTopicSpecs, "for_cluster", record)
    (tmp_path / "clusters.yaml").write_text(f"{OURS}---\n{THEIRS}")
    (tmp_path / "topic.yaml").write_text(TOPIC.replace("spec: {", "spec: {clusters: [ours, theirs], "))
    load_manifests(RunSettings(paths=(str(tmp_path),)))
    assert made == []
    heard = Heard()
    load_manifests(RunSettings(paths=(str(tmp_path),), adopt=("orders", "clicks")), heard)
    assert (made, heard.messages) == (["orders"] * 2, ["--adopt: no topic of the manifests matches clicks"])

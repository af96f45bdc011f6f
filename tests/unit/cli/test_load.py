"""``--platform``: of what lies around, which clusters and policies count, which topics, and what is said of others."""

from __future__ import annotations

from pathlib import Path

import pytest
from click import UsageError

from topiarist.adapters.manifests import loader
from topiarist.cli.load import load_with_platform
from topiarist.cli.settings import Settings

HEAD = "apiVersion: topiarist.dev/v1\nkind: {kind}\nmetadata: {{name: {name}}}\n"
TOPIC = HEAD.format(kind="Topic", name="orders") + "spec: {partitions: 1, replicationFactor: 1}\n"
OURS = HEAD.format(kind="Cluster", name="ours") + "spec: {zookeeper: {connect: zk1:2181}}\n"
THEIRS = HEAD.format(kind="Cluster", name="theirs") + "spec: {zookeeper: {connect: zk2:2181}}\n"
BROKEN = "apiVersion: topiarist.dev/v1\nkind: Cluster\nmetadata: {name: [}\n"


@pytest.fixture
def branch(tmp_path: Path) -> Path:
    """A folder of a branch: a topic, and a cluster that is not the platform's to trust."""
    (tmp_path / "branch").mkdir()
    (tmp_path / "branch" / "all.yaml").write_text(f"{TOPIC}---\n{THEIRS}")
    return tmp_path / "branch"


def _platform(folder: Path, text: str) -> Path:
    (folder / "platform.yaml").write_text(text)
    return folder / "platform.yaml"


def _names(found: loader.Loaded) -> list[str]:
    return [f"{manifest.kind} {manifest.name}" for manifest in found.manifests]


def test_without_a_platform_all_counts(branch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the paths hold is what there is."""
    found = loader.load_manifests([str(branch)])
    assert load_with_platform(found, Settings()) is found
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("quiet", [False, True])
def test_a_cluster_counts_there_alone_and_a_topic_elsewhere(
    tmp_path: Path, branch: Path, capsys: pytest.CaptureFixture[str], quiet: bool
) -> None:
    """The branch's cluster has no effect, which is said unless the run is quiet; nor has the platform's topic."""
    settings = Settings(platform=(str(_platform(tmp_path, f"{TOPIC}---\n{OURS}")),), verbosity=-quiet)
    assert _names(load_with_platform(loader.load_manifests([str(branch)]), settings)) == [
        "Topic orders",
        "Cluster ours",
    ]
    said = f"ignored 1 document outside --platform: Cluster theirs ({branch}/all.yaml:6:1)\n"
    assert capsys.readouterr().err == ("" if quiet else said)


def test_a_file_that_both_paths_lead_to_is_the_platforms(branch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its cluster counts, by whatever name the file is reached, and there is nothing to say."""
    link = branch.with_name("link")
    link.symlink_to(branch)
    found = load_with_platform(loader.load_manifests([str(branch)]), Settings(platform=(str(link),)))
    assert _names(found) == ["Topic orders", "Cluster theirs"]
    assert capsys.readouterr().err == ""


def test_a_platform_that_guards_nothing_is_wrong_usage(tmp_path: Path, branch: Path) -> None:
    """Neither cluster nor policy there: a path that was mistyped must not open everything."""
    settings = Settings(platform=(str(_platform(tmp_path, TOPIC)),))
    with pytest.raises(UsageError, match="found no Cluster and no Policy"):
        load_with_platform(loader.load_manifests([str(branch)]), settings)


def test_what_is_wrong_in_a_platform_is_a_error(tmp_path: Path, branch: Path) -> None:
    """There is a document, and what is wrong with it says more than that there is none."""
    found = load_with_platform(
        loader.load_manifests([str(branch)]), Settings(platform=(str(_platform(tmp_path, BROKEN)),))
    )
    assert [diagnostic.location.file for diagnostic in found.errors] == [str(tmp_path / "platform.yaml")]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (Settings(platform=("x",), clusters=("y",)), "--clusters cannot be combined with --platform"),
        (Settings(platform=("-",)), "wanted a file or a folder, not standard input"),
    ],
)
def test_what_does_not_go_with_a_platform(branch: Path, settings: Settings, words: str) -> None:
    """Clusters have one source, and it is a place that a branch cannot write to."""
    with pytest.raises(UsageError, match=words):
        load_with_platform(loader.load_manifests([str(branch)]), settings)

"""``--platform``: the clusters, policies and topics that count, and the messages about the ignored documents."""

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
    """Return the folder of a branch, with a topic and an untrusted Cluster."""
    (tmp_path / "branch").mkdir()
    (tmp_path / "branch" / "all.yaml").write_text(f"{TOPIC}---\n{THEIRS}")
    return tmp_path / "branch"


def _platform(folder: Path, text: str) -> Path:
    (folder / "platform.yaml").write_text(text)
    return folder / "platform.yaml"


def _names(found: loader.Loaded) -> list[str]:
    return [f"{manifest.kind} {manifest.name}" for manifest in found.manifests]


def test_without_a_platform_all_counts(branch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without ``--platform``, every document of the paths counts."""
    found = loader.load_manifests([str(branch)])
    assert load_with_platform(found, Settings()) is found
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("quiet", [False, True])
def test_a_cluster_counts_there_alone_and_a_topic_elsewhere(
    tmp_path: Path, branch: Path, capsys: pytest.CaptureFixture[str], quiet: bool
) -> None:
    """The Cluster of the branch and the Topic of the platform have no effect, and topiarist reports the Cluster unless
    the run is quiet.
    """
    settings = Settings(platform=(str(_platform(tmp_path, f"{TOPIC}---\n{OURS}")),), verbosity=-quiet)
    assert _names(load_with_platform(loader.load_manifests([str(branch)]), settings)) == [
        "Topic orders",
        "Cluster ours",
    ]
    said = f"ignored 1 document outside --platform: Cluster theirs ({branch}/all.yaml:6:1)\n"
    assert capsys.readouterr().err == ("" if quiet else said)


def test_a_file_that_both_paths_lead_to_is_the_platforms(branch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A Cluster in a file that both paths contain counts, under any name of the file, without a message."""
    link = branch.with_name("link")
    link.symlink_to(branch)
    found = load_with_platform(loader.load_manifests([str(branch)]), Settings(platform=(str(link),)))
    assert _names(found) == ["Topic orders", "Cluster theirs"]
    assert capsys.readouterr().err == ""


def test_a_platform_that_guards_nothing_is_wrong_usage(tmp_path: Path, branch: Path) -> None:
    """A platform without Cluster and Policy is a usage error: a mistyped path would remove every restriction."""
    settings = Settings(platform=(str(_platform(tmp_path, TOPIC)),))
    with pytest.raises(UsageError, match="found no Cluster and no Policy"):
        load_with_platform(loader.load_manifests([str(branch)]), settings)


def test_what_is_wrong_in_a_platform_is_a_error(tmp_path: Path, branch: Path) -> None:
    """An invalid document in the platform is reported as such, and not as a missing Cluster."""
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
    """A platform is the only source of Clusters, and a branch must not be able to write to it."""
    with pytest.raises(UsageError, match=words):
        load_with_platform(loader.load_manifests([str(branch)]), settings)

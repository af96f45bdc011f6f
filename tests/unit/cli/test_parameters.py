"""Completion of names in a shell: from manifests alone, and silent about whatever is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from support.cli.runs import document
from topiarist.cli.main import cli


def complete(*words: str, start: str = "") -> list[str]:
    """Return what a shell offers for a word that begins with ``start``, after these words."""
    shell = ShellComplete(cli, {}, "topiarist", "_TOPIARIST_COMPLETE")
    return [each.value for each in shell.get_completions([*words], start) if each.type == "plain"]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with two clusters and three topics."""
    (tmp_path / "topics").mkdir()
    for name in ("prod-eu", "prod-us"):
        (tmp_path / f"{name}.yaml").write_text(document("Cluster", name, zookeeper={"connect": "zk:2181"}))
    for name in ("orders", "offers"):
        (tmp_path / "topics" / f"{name}.yaml").write_text(document("Topic", name, partitions=1))
    (tmp_path / "topics" / "clicks.yaml").write_text(document("Topic", "clicks", topicName="Web.Clicks"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "start", "names"),
    [
        (["plan", "--cluster"], "", ["prod-eu", "prod-us"]),
        (["plan", "--cluster"], "prod-u", ["prod-us"]),
        (["plan", "topics", "--cluster"], "", []),
        (["plan", "topics", "--clusters", "prod-eu.yaml", "--cluster"], "", ["prod-eu"]),
        (["apply", "topics", "--topic"], "o", ["offers", "orders"]),
        (["drift", "--topic"], "W", ["Web.Clicks"]),
        (["apply", "--adopt"], "", ["Web.Clicks", "offers", "orders"]),
        (["describe"], "or", ["orders"]),
        (["unmanage", "orders"], "of", ["offers"]),
        (["plan", "missing", "--topic"], "", []),
    ],
)
def test_names_come_from_the_manifests_of_the_command(words: list[str], start: str, names: list[str]) -> None:
    """From its paths, or from the current folder if there are none yet."""
    assert complete(*words, start=start) == names


def test_broken_manifests_are_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    """The others are offered, and nothing is printed between what the user types."""
    Path("topics/broken.yaml").write_text("kind: Topic\nmetadata: {name: [\n")
    Path("topics/binary.yaml").write_bytes(b"\xff\xfe\x00")
    assert complete("plan", "topics", "--topic") == ["Web.Clicks", "offers", "orders"]
    assert capfd.readouterr() == ("", "")

"""Options with patterns of topic names: each needs a value, and rejects other options and paths as values."""

from __future__ import annotations

from pathlib import Path

import pytest

from topiarist.cli.main import run
from topiarist.errors import Exit

OPTIONS = ("--adopt", "--take-ownership", "--recreate")
TOPIC = (
    "{apiVersion: topiarist.dev/v1, kind: Topic, metadata: {name: orders}, spec: {partitions: 1, replicationFactor: 1}}"
)

each = pytest.mark.parametrize("option", OPTIONS)


@each
@pytest.mark.parametrize(
    "word", ["--yes", "-q", "--adopt", "--zookeeper=zk:2181", "topics/", "./topics", "a b", "orders,clicks"]
)
def test_a_word_that_is_no_pattern(option: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An option or a path as the pattern is a usage error, so that neither is lost."""
    assert run(["plan", "topics", option, word]) == Exit.USAGE
    said = capsys.readouterr().err
    assert f"Invalid value for '{option}'" in said
    assert f"""wanted a topic name or a pattern such as 'orders.*'; for every topic: {option} '*'""" in said


@each
def test_an_option_without_its_value(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An option without a pattern is a usage error, because it would name no topic."""
    assert run(["plan", "topics", option]) == Exit.USAGE
    assert f"Option '{option}' requires an argument" in capsys.readouterr().err


@each
def test_a_path_beside_an_option_is_not_lost(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--adopt orders`` beside a file of that name adopts the topic orders, and the path must be given separately."""
    monkeypatch.chdir(tmp_path)
    Path("orders").write_text(TOPIC)
    assert run(["plan", option, "orders", "--zookeeper", "127.0.0.1:1"]) == Exit.USAGE
    assert "give at least one file or folder" in capsys.readouterr().err


@pytest.mark.parametrize("words", [(option, "order") for option in OPTIONS] + [("--allow-risk", "DataLoss=order")])
def test_a_pattern_that_no_topic_has_is_said(
    words: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """stderr reports a pattern that matches no topic, before topiarist connects, and reports no matching pattern."""
    (tmp_path / "orders.yaml").write_text(TOPIC)
    command = ("apply", str(tmp_path), "--zookeeper", "127.0.0.1:1", "--connect-timeout", "0.1", "--yes")
    assert run([*command, *words]) == Exit.ERROR
    assert f"{words[0]}: no topic of the manifests matches order\n" in capsys.readouterr().err
    assert run([*command, words[0], f"{words[1]}s"]) == Exit.ERROR
    assert "no topic of these manifests" not in capsys.readouterr().err

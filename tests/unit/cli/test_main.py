"""Commands with two words, and their completion."""

from __future__ import annotations

import click
import pytest
from click.shell_completion import ShellComplete

from topiarist.cli.main import COMMANDS, cli, run


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (["moves"], "topiarist moves [OPTIONS] [PATH]..."),
        (["moves", "status"], "topiarist moves status [OPTIONS] [PATH]..."),
        (["moves", "clear"], "topiarist moves clear [OPTIONS] [PATH]..."),
        (["moves", "revert"], "topiarist moves revert [OPTIONS] REPORT"),
    ],
)
def test_a_second_word_selects_a_command(words: list[str], usage: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The help of each command has its own usage."""
    assert run([*words, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: {usage}\n")


def test_another_second_word_is_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    """A word that is no command is the argument of the first one."""
    assert run(["moves", "no-such-file.yaml"]) == 1
    assert "no-such-file.yaml" in capsys.readouterr().err


def test_the_first_word_of_each_pair_is_a_command() -> None:
    """Help and completion list first words only, so each must be a command by itself."""
    pairs = [name.split() for name in COMMANDS if " " in name]
    assert pairs
    assert all(first in COMMANDS for first, _ in pairs)


@pytest.mark.parametrize(
    ("words", "incomplete", "proposed"),
    [
        ([], "mo", ["move-records", "moves"]),
        (["moves"], "", ["status", "clear", "revert"]),
        (["moves"], "cl", ["clear"]),
    ],
)
def test_both_words_are_completed(words: list[str], incomplete: str, proposed: list[str]) -> None:
    """The first word is proposed once, and after it the words that may follow."""
    assert isinstance(cli, click.Group)
    found = ShellComplete(cli, {}, "topiarist", "_TOPIARIST_COMPLETE").get_completions(words, incomplete)
    assert [item.value for item in found if item.type == "plain"] == proposed


def test_options_of_the_second_word_are_completed() -> None:
    """After two words the options are those of that command."""
    found = ShellComplete(cli, {}, "topiarist", "_TOPIARIST_COMPLETE").get_completions(["moves", "revert"], "--o")
    assert [item.value for item in found] == ["--owner", "--out"]

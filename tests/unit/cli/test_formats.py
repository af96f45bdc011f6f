"""The formats of commands: each that ``--format`` accepts has a row in a table, and another one is an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import pytest

from topiarist.cli import formats
from topiarist.cli.drift_tasks import BETWEEN_FORMATS
from topiarist.cli.main import COMMANDS, cli, run

TABLES: dict[str, Mapping[str, Any]] = {
    "check": formats.CHECK_FORMATS,
    "describe": formats.DESCRIPTION_FORMATS,
    "drift": BETWEEN_FORMATS,
    "explain": formats.EXPLANATION_FORMATS,
    "list": formats.LIST_FORMATS,
    "moves": formats.MOVES_FORMATS,
    "moves revert": formats.PLAN_FORMATS,
    "plan": formats.PLAN_FORMATS,
    "render": formats.RENDER_FORMATS,
    "upgrade-check": formats.UPGRADE_FORMATS,
    # As text, errors go to stderr, as those of every command.
    "validate": {"text": None, **formats.DIAGNOSTIC_FORMATS},
}


def choices_of(name: str) -> list[str] | None:
    """Return the formats that a command accepts; None if it has no ``--format``."""
    command = cli.get_command(click.Context(cli), name)
    assert command
    found = [each.type for each in command.params if each.name == "form"]
    return [*found[0].choices] if found and isinstance(found[0], click.Choice) else None


def test_each_format_of_each_command_has_a_row() -> None:
    """A command that accepts a format without a row would fail, or print another format."""
    accepted = {name: choices for name in COMMANDS if (choices := choices_of(name)) is not None}
    assert accepted == {name: [*table] for name, table in TABLES.items()}


@pytest.mark.parametrize("name", TABLES)
def test_an_unknown_format_is_a_usage_error(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the formats that there are."""
    assert run([*name.split(), "--format", "xml"]) == 2
    listed = ", ".join(map(repr, TABLES[name]))
    assert f"'xml' is not one of {listed}" in " ".join(capsys.readouterr().err.split())

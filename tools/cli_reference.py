"""Generator of the command reference in ``docs/cli.md``, from the options of the command line.

``reference`` calls ``commands_part``, because the page is one of its generated pages. The text of a command is that
of its ``--help``: description, options with defaults and environment variables, examples.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import click

from topiarist.cli.main import ALIASES, COMMANDS, cli

EXAMPLES_PATTERN = re.compile(r"\bExamples:\n(.*?)(?:\n\n|\Z)", re.DOTALL)


class OptionRow(NamedTuple):
    """The cells of an option in a table."""

    syntax: str
    default: str
    variable: str
    meaning: str


SHARED_BY = 3
"""The commands that an option must have, with the same text, to be described once for all."""

MOST_EXAMPLES = 4
"""The examples of a command in the page; ``--help`` has all."""


def commands_part() -> str:
    """Return all commands in the order of ``topiarist --help``: links, shared options, a section for each."""
    context = click.Context(cli, info_name="topiarist")
    overview = ", ".join(f"[`{name}`](#topiarist-{name.replace(' ', '-')})" for name in COMMANDS)
    rows = {name: [*_option_rows(context, name)] for name in COMMANDS}
    counts = Counter(row for found in rows.values() for row in found)
    frequent = [row for found in rows.values() for row in found if counts[row] >= SHARED_BY]
    shared = sorted({row.syntax: row for row in reversed(frequent)}.values(), key=lambda row: row.syntax.lstrip("`-"))
    own = {name: [row for row in found if not _is_shared(row, shared)] for name, found in rows.items()}
    sections = "\n".join(_section(context, name, rows[name], own[name]) for name in COMMANDS)
    about = "Options of several commands; the section of a command names those that it has."
    table = f"## Shared options\n\n{about}\n\n{_table(shared)}"
    return f"\n{overview}.\n\n{table}\n{sections}\n"


def _section(parent: click.Context, name: str, rows: Sequence[OptionRow], own: Sequence[OptionRow]) -> str:
    command = cli.get_command(parent, name)
    assert command is not None, name
    context = click.Context(command, info_name=name, parent=parent)
    usage = " ".join(["topiarist", name, *command.collect_usage_pieces(context)])
    aliases = "".join(f"Also: `topiarist {alias}`.\n\n" for alias, target in ALIASES.items() if target == name)
    examples = EXAMPLES_PATTERN.search(inspect.cleandoc(command.epilog or ""))
    parts = [f"## topiarist {name}\n", f"`{usage}`\n", _description(command), aliases.rstrip("\n") + "\n"]
    parts.append(_table(own))
    if names := ", ".join(row.syntax.split(" ")[0].strip("`,") for row in rows if row not in own):
        parts.append(f"[Shared](#shared-options): `{names}`.\n".replace(", ", "`, `"))
    if examples:
        first = re.split(r"\n(?! )", inspect.cleandoc(examples[1]))[:MOST_EXAMPLES]
        parts.append("```text\n{}\n```\n".format("\n".join(first)))
    return "\n".join(part for part in parts if part.strip())


def _is_shared(row: OptionRow, shared: Iterable[OptionRow]) -> bool:
    """Return whether the table of shared options says all that the row says."""
    return any(row[:-1] == other[:-1] and other.meaning.startswith(row.meaning) for other in shared)


def _description(command: click.Command) -> str:
    paragraphs = inspect.cleandoc((command.help or "").replace("\b", "")).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs) + "\n"


def _option_rows(parent: click.Context, name: str) -> Iterator[OptionRow]:
    command = cli.get_command(parent, name)
    assert command is not None, name
    context = click.Context(command, info_name=name, parent=parent)
    for option in (param for param in command.params if isinstance(param, click.Option)):
        # A callable default (the user's name) differs from machine to machine; the help text names it.
        constant = not callable(option.default) and (option.show_default or context.show_default)
        default = f"`{option.get_default(context)}`" if constant else ""
        syntax, variable = f"`{_syntax(option, context)}`", f"`{option.envvar}`" if option.envvar else ""
        yield OptionRow(syntax, default, variable, str(option.help))


def _table(rows: Iterable[OptionRow]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows]
    return "".join(["| option | default | variable | meaning |\n| --- | --- | --- | --- |\n", *lines]) if lines else ""


def _syntax(option: click.Option, context: click.Context) -> str:
    names = ", ".join((*option.opts, *option.secondary_opts))
    return names if option.is_flag or option.count else f"{names} {option.make_metavar(context)}"

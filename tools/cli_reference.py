"""Generator of the command reference in ``docs/cli.md``, from the options of the command line.

``reference`` calls ``commands_part``, because the page is one of its generated pages. The text of a command is that
of its ``--help``: description, options with defaults and environment variables, examples.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from topiarist.cli.main import ALIASES, COMMANDS, cli

EXAMPLES_PATTERN = re.compile(r"\bExamples:\n(.*?)(?:\n\n|\Z)", re.DOTALL)


def commands_part() -> str:
    """Return all commands in the order of ``topiarist --help``: an overview, then a section for each."""
    context = click.Context(cli, info_name="topiarist")
    anchors = {name: name.replace(" ", "-") for name in COMMANDS}
    overview = "".join(
        f"| [`topiarist {name}`](#topiarist-{anchors[name]}) | {each.summary} |\n" for name, each in COMMANDS.items()
    )
    sections = "\n".join(_section(context, name) for name in COMMANDS)
    return f"\n| command | does |\n| --- | --- |\n{overview}\n{sections}\n"


def _section(parent: click.Context, name: str) -> str:
    command = cli.get_command(parent, name)
    assert command is not None, name
    context = click.Context(command, info_name=name, parent=parent)
    usage = " ".join(["topiarist", name, *command.collect_usage_pieces(context)])
    aliases = "".join(f"Also: `topiarist {alias}`.\n\n" for alias, target in ALIASES.items() if target == name)
    examples = EXAMPLES_PATTERN.search(inspect.cleandoc(command.epilog or ""))
    parts = [f"## topiarist {name}\n", f"```text\n{usage}\n```\n", _description(command), aliases.rstrip("\n") + "\n"]
    parts.append("".join(_options_table(command, context)))
    if examples:
        parts.append(f"```text\n{inspect.cleandoc(examples[1])}\n```\n")
    return "\n".join(part for part in parts if part.strip())


def _description(command: click.Command) -> str:
    paragraphs = inspect.cleandoc((command.help or "").replace("\b", "")).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs) + "\n"


def _options_table(command: click.Command, context: click.Context) -> Iterator[str]:
    options = [param for param in command.params if isinstance(param, click.Option)]
    if options:
        yield "| option | default | variable | meaning |\n| --- | --- | --- | --- |\n"
    for option in options:
        # A callable default (the user's name) differs from machine to machine; the help text names it.
        constant = not callable(option.default) and (option.show_default or context.show_default)
        default = f"`{option.get_default(context)}`" if constant else ""
        cells = (f"`{_syntax(option, context)}`", default, f"`{option.envvar}`" if option.envvar else "", option.help)
        yield "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |\n"


def _syntax(option: click.Option, context: click.Context) -> str:
    names = ", ".join((*option.opts, *option.secondary_opts))
    return names if option.is_flag or option.count else f"{names} {option.make_metavar(context)}"

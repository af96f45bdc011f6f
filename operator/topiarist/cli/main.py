"""The door: ``topiarist COMMAND``. Commands are loaded when they are called; errors end here, in words, with their
code.
"""

from __future__ import annotations

import gc
import sys
from difflib import get_close_matches
from importlib import import_module

import click

from topiarist import __version__
from topiarist.cli import streams, terminal
from topiarist.errors import Exit, TopiaristError
from topiarist.model.outcome import worst_exit_code
from topiarist.text import quote

COMMANDS = {
    "validate": "Check manifests without a cluster.",
    "render": "Print the specs after defaults and overrides.",
    "plan": "Show what would change on the clusters.",
    "apply": "Change the clusters to what the manifests say.",
    "describe": "Show topics, whole: values, partitions, what is pending.",
    "list": "List the topics of clusters, with size, owner and state (also: get).",
    "export": "Write what a cluster holds as manifests.",
    "snapshot": "Write down what clusters hold, to plan without them.",
    "drift": "Report what a fleet holds, against what manifests say.",
    "release": "Give topics up: our record goes, nothing of Kafka's.",
    "nudge": "Make the controller look again at topics that it has overlooked.",
    "freeze": "Stop every writer of a cluster.",
    "thaw": "Let writers in again.",
    "operator": "Run the Kubernetes operator.",
    "dev": "Run a playground: a real ZooKeeper with a seeded cluster.",
    "completion": "Print the completion script for a shell.",
}

_COMMAND_MODULES = {
    "apply": ("apply.command", "command"),
    "release": ("commands.unmanage", "command"),
    "thaw": ("commands.freeze", "thaw_command"),
}
"""Module and attribute of the commands that are not ``command`` in the module of their name."""

ALIASES = {"get": "list"}
"""Other words for commands, not listed by themselves."""


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is called, not for its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which people need them."""
        return list(COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with the command that was probably meant."""
        if args and args[0] not in COMMANDS | ALIASES:
            close = get_close_matches(args[0], COMMANDS, n=1)
            ctx.fail(f"no such command: {quote(args[0])}" + (f"; did you mean {close[0]}?" if close else ""))
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now."""
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        module, attribute = _COMMAND_MODULES.get(name, (f"commands.{name}", "command"))
        command = getattr(import_module(f"topiarist.cli.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Examples:
  topiarist validate topics/
  topiarist plan topics/ --zookeeper zk1:2181,zk2:2181/kafka
  topiarist apply topics/ --clusters clusters.yaml --yes
  topiarist dev

\b
Exit codes:
  0 done, or nothing to do    3 changes pending (plan --exit-code)
  1 an error                  4 something was refused
  2 wrong usage               5 a topic moved under the plan

Most options can be given in the environment, --zookeeper as TOPIARIST_ZOOKEEPER: the help of
each command says which.
""",
)
@click.version_option(__version__, prog_name="topiarist")
def cli() -> None:
    """Keep Kafka topics in the shape that git says they have.

    Topic specs live in git as YAML. Topiarist compares them with what a ZooKeeper-mode Kafka cluster (2.4 to 3.9)
    holds in ZooKeeper, shows the difference as a plan, and makes exactly that difference happen.
    """


def run(arguments: list[str]) -> int:
    """Run one command line; its exit code."""
    try:
        code = cli.main(arguments, prog_name="topiarist", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of standard output has ended: head, less
        code = Exit.ERROR
    except click.ClickException as error:
        error.show()
        code = Exit.USAGE if isinstance(error, click.UsageError) else Exit.ERROR
    except (click.Abort, KeyboardInterrupt):
        if sys.stderr.isatty():
            terminal.log("")  # the cursor stands behind a question, or behind ^C
        terminal.log("interrupted: nothing was written")
        code = 130
    except TopiaristError as error:
        terminal.print_error(error)
        code = error.reason.exit_code
    return int(code or Exit.DONE)


def main() -> None:
    """The entry point of the command and of ``python -m topiarist``."""
    # One command is one short life: collecting garbage among the objects of a large plan costs a third of its time.
    gc.disable()
    guarded = streams.replace_standard_streams()
    code = run(sys.argv[1:])
    if any(stream.failure for stream in guarded) and code <= max(Exit):
        code = int(worst_exit_code([Exit(code), Exit.ERROR]))
    sys.exit(code)

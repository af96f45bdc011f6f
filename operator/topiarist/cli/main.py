"""The entry point of the command line: lazy commands, error reporting, exit codes.

``main`` runs ``topiarist COMMAND``. A command's module is imported only when the command is called. All errors end
here, as a message on stderr and an exit code.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click

from topiarist import __version__
from topiarist.cli import terminal
from topiarist.errors import Exit, TopiaristError
from topiarist.text import quote


class _Entry(NamedTuple):
    """A command: its line in the help, its module in ``cli.commands``, and the name of its function there."""

    summary: str
    module: str
    attribute: str = "command"


COMMANDS: Mapping[str, _Entry] = {
    "init": _Entry("Start a repository of topics: project file, manifests, CI.", "init"),
    "check": _Entry(
        "Show what works with a cluster, what does not, and what to configure.", "describe", "check_command"
    ),
    "validate": _Entry("Check manifests, without a cluster.", "plan", "validate_command"),
    "render": _Entry("Print manifests with defaults and overrides merged.", "plan", "render_command"),
    "plan": _Entry("Show the changes that apply would make.", "plan"),
    "apply": _Entry("Make the clusters match the manifests.", "apply"),
    "describe": _Entry("Show topics in detail: values, partitions, pending changes.", "describe"),
    "explain": _Entry("Explain a reason, a topic config, or a field of a manifest.", "describe", "explain_command"),
    "list": _Entry("List topics with size, owner and state (alias: get).", "list"),
    "export": _Entry("Write the topics of a cluster as manifests.", "init", "export_command"),
    "import": _Entry("Write the topics of another tool's files as manifests.", "import_"),
    "snapshot": _Entry("Save the state of clusters, for plans without a connection.", "snapshot"),
    "drift": _Entry("Report differences between many clusters and their manifests.", "drift"),
    "upgrade-check": _Entry(
        "Find topic configs that a newer Kafka refuses, drops or changes.", "list", "upgrade_check_command"
    ),
    "unmanage": _Entry("Remove ownership records; the topics stay.", "apply", "unmanage_command"),
    "move-records": _Entry("Move ownership records from ZooKeeper to Kafka.", "move_records"),
    "moves": _Entry("Show the moves of replicas that are in progress, and throttles.", "moves"),
    "moves clear": _Entry("Put back the throttles of moves that no run continues.", "moves", "clear_command"),
    "moves revert": _Entry(
        "Make a plan that moves replicas back, from the report of an apply.", "moves", "revert_command"
    ),
    "nudge": _Entry("Make the controller initialize topics that it has missed.", "apply", "nudge_command"),
    "freeze": _Entry("Stop topiarist from writing to clusters.", "moves", "freeze_command"),
    "unfreeze": _Entry("Allow writes again.", "moves", "unfreeze_command"),
    "operator": _Entry("Run the Kubernetes operator.", "operator"),
    "dev": _Entry("Run a local test cluster: a real ZooKeeper, simulated brokers.", "dev"),
    "completion": _Entry("Print a completion script for a shell.", "dev", "completion_command"),
}
"""The commands in the order in which users need them.

To add a command:

1. Write it in a module of ``cli.commands``, with the groups of ``cli.options`` and the class that says what it takes
   from the project file. Import its machinery inside of its functions: the help of a command imports none.
2. Add its row here, and its required arguments to ``REQUIRED`` in ``tests/unit/cli/test_options.py``.
3. Add a case to ``tests/examples`` and run ``make golden``.
4. Run ``make generate``, which writes its options to ``docs/cli.md``. Run ``make check``.
"""

ALIASES = {"get": "list", "moves status": "moves"}
"""Other names of commands, not listed separately."""

_PLAN_HINT = "topiarist plan shows what apply would change, and writes nothing"
_COMMAND_HINTS = {
    _PLAN_HINT: ("diff", "dry-run", "preview"),
    "set ensure: Absent in the manifest of the topic, then topiarist apply: docs/deleting.md": (
        "delete",
        "destroy",
        "drop",
        "remove",
        "rm",
    ),
    "revert the commit, then topiarist plan and topiarist apply: docs/deleting.md": ("revert", "rollback", "undo"),
    "write the topic as a manifest, then topiarist plan and topiarist apply": ("alter", "create", "edit", "update"),
    "topiarist apply makes the changes": ("deploy", "reconcile", "sync", "up", "upgrade"),
    "topiarist list has the topics of a cluster, topiarist describe one of them": ("show", "status", "topics"),
    "topiarist validate reads manifests without a cluster": ("lint", "test", "verify"),
    "topiarist --version has it": ("version",),
    "topiarist COMMAND --help has the options of a command": ("help",),
    "topiarist export writes the topics of a cluster as manifests": ("backup", "dump", "pull"),
    "topiarist apply adopts the topics of manifests: docs/adopting.md": ("adopt", "manage"),
    "name brokers in drainBrokers of the Cluster, then topiarist apply: docs/move-replicas.md": ("drain",),
    "topiarist apply moves replicas, as far as the Cluster allows: docs/move-replicas.md": ("reassign", "rebalance"),
}
"""Hints for commands of other tools, each with the names of these commands."""

_PLAN_OPTIONS = ("--check", "--diff", "--dry-run", "--dryrun")
"""Options of other tools for a run without a write."""

_OPTION_HINTS = {
    "yes": ("--yes applies without a question", ("--approve", "--auto-approve", "--confirm", "--no-confirm")),
    "allow_risk": ("--allow-risk RISK=TOPIC consents to a loss, for one topic", ("--force",)),
    "exit_code": ("a run that only reads needs no consent: give it to apply", ("--allow-risk", "--yes")),
    "paths": ("a path needs no option", ("--file", "--filename", "--recursive", "-f", "-R")),
    "form": ("use --format", ("--json", "--output", "-o")),
    "topic": ("use --topic", ("--target", "--topics", "-t")),
}
"""Options of other tools and commands, by a parameter of the command that they are given to."""


class LazyGroup(click.Group):
    """A command group that imports a command's module only when the command is called, not for its own help.

    The name of a command may have two words. Its first word is a command too.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what it made then stays until the process ends.

        A large plan takes a tenth of the run's time to free object by object. The traceback of the exception has the
        command's variables, and it lives until Python collects it, because it refers to itself. ``main`` prevents that.
        """
        try:
            return super().invoke(ctx)
        except click.exceptions.Exit as ended:
            ended.__dict__["kept"] = ended
            raise

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the first words of the commands in the order in which users need them."""
        return [name for name in COMMANDS if " " not in name]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command as click does; suggest a similar name for an unknown command."""
        if (two_words := " ".join(args[:2])) in {**COMMANDS, **ALIASES}:
            args = [two_words, *args[2:]]
        if args and args[0] not in {**COMMANDS, **ALIASES}:
            from difflib import get_close_matches

            close = get_close_matches(args[0], COMMANDS, n=1)
            hint = next((hint for hint, names in _COMMAND_HINTS.items() if args[0].lower() in names), "")
            hint = hint or (f"did you mean {close[0]}?" if close else "")
            ctx.fail(f"no such command: {quote(args[0])}" + (f"; {hint}" if hint else ""))
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None for an unknown name."""
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        entry = COMMANDS[name]
        command = getattr(import_module(f"topiarist.cli.commands.{entry.module}"), entry.attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from ``COMMANDS``, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples and exit codes, and the project file that commands would use here."""
        super().format_epilog(ctx, formatter)
        if text := _describe_project():
            formatter.write_paragraph()
            formatter.write(f"{text}\n")


def _describe_project() -> str:
    """Return the project file of the working folder as a line; empty if there is none."""
    given = os.environ.get("TOPIARIST_PROJECT") or None
    from topiarist.cli.parameters import Project, load_project

    try:
        project = load_project(given)
    except TopiaristError as error:
        return f"Project file, with an error:\n{terminal.sanitize_lines(str(error))}"
    return f"Project file: {project.file.name}" if isinstance(project, Project) else ""


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Examples:
  topiarist validate topics/
  topiarist plan topics/ --bootstrap-servers b1:9092,b2:9092
  topiarist apply topics/ --clusters clusters.yaml --yes
  topiarist dev

\b
Exit codes:
  0 done, or nothing to do    3 changes are pending (plan --exit-code)
  1 error                     4 a change was refused
  2 usage error               5 a topic changed since it was planned

Most options can also be set as environment variables, for example --bootstrap-servers as
TOPIARIST_BOOTSTRAP_SERVERS. A file topiarist.yaml can hold paths, clusters and owner of all runs.
Run "topiarist COMMAND --help" for the options of a command.
""",
)
@click.version_option(__version__, prog_name="topiarist")
def cli() -> None:
    """Manage Kafka topics with manifests in git.

    Topiarist compares YAML manifests with the topics of Kafka clusters, shows the difference as a plan, and applies the
    plan. It reaches a cluster through its brokers (KRaft mode from 3.3, ZooKeeper mode from 2.8) or through its
    ZooKeeper (2.4 to 3.9, without a connection to brokers).
    """


def _with_hint(error: click.ClickException) -> click.ClickException:
    """Return an error about an option of another tool with a hint at what does the same; others unchanged."""
    if not isinstance(error, click.NoSuchOption):
        return error
    command = error.ctx.command if error.ctx else cli
    names = {param.name for param in command.params}
    if error.option_name in _PLAN_OPTIONS:
        asks = "yes" in names and command.name != "apply"
        hint = (
            f"without --yes, topiarist {command.name} shows what it would write, and asks first" if asks else _PLAN_HINT
        )
    else:
        found = (
            hint for name, (hint, options) in _OPTION_HINTS.items() if name in names and error.option_name in options
        )
        hint = next(found, "")
    return click.UsageError(f"{error.message.rstrip('.')}: {hint}", error.ctx) if hint else error


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        code = cli.main(arguments, prog_name="topiarist", standalone_mode=False)
        # A full disk or a closed pipe shows only when the buffer is written: here it is still an error of the run.
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of standard output has ended, such as head or less
        code = Exit.ERROR
    except click.ClickException as error:
        _with_hint(error).show()
        code = Exit.USAGE if isinstance(error, click.UsageError) else Exit.ERROR
    except (click.Abort, KeyboardInterrupt):
        if sys.stderr.isatty():
            terminal.log("")  # the cursor is behind a prompt or ^C: start a new line
        terminal.log("interrupted: nothing was written")
        code = 130
    except TopiaristError as error:
        terminal.print_error(error)
        code = error.reason.exit_code
    except FileNotFoundError:
        try:
            os.getcwd()  # noqa: PTH109
        except FileNotFoundError:  # a relative path leads nowhere
            terminal.log("error: the working folder was deleted: change to another one")
            code = Exit.ERROR
        else:
            raise
    return int(code or Exit.DONE)


def main() -> None:
    """Run the command line of the process and exit; the entry point of ``topiarist`` and ``python -m topiarist``."""
    # A command is a short process: garbage collection among the objects of a large plan costs a third of its time.
    gc.disable()
    guarded = terminal.replace_standard_streams()
    code = run(sys.argv[1:])
    if any(stream.failure for stream in guarded) and code <= max(Exit):
        from topiarist.model.outcome import worst_exit_code

        code = int(worst_exit_code([Exit(code), Exit.ERROR]))
    gc.freeze()  # the exit of the process frees all memory at once
    sys.exit(code)

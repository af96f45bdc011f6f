"""The ``topiarist completion`` command: print a shell's completion script."""

from __future__ import annotations

import click

from topiarist.cli import options, terminal


@click.command(
    "completion",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist completion bash > /etc/bash_completion.d/topiarist
  eval "$(topiarist completion zsh)"
  topiarist completion fish > ~/.config/fish/completions/topiarist.fish
""",
)
@options.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print a completion script for a shell.

    The shell then completes commands, options, and the names of clusters and topics: from the manifests of the command
    line, or else below the current folder, never from a cluster.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    terminal.print_result(kind(context.find_root().command, {}, "topiarist", "_TOPIARIST_COMPLETE").source())

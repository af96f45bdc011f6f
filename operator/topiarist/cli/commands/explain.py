"""The ``topiarist explain`` command: what a reason, a topic config or a field of a manifest means."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from topiarist.cli import formats, options, terminal
from topiarist.inspection.explanation import explain, list_words
from topiarist.schema.messages import did_you_mean
from topiarist.text import quote


def _complete_word(_context: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(word) for word in list_words() if word.lower().startswith(incomplete.lower())]


@click.command(
    "explain",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist explain MoveNotAllowed
  topiarist explain retention.ms
  topiarist explain Topic.spec.moves

\b
Exit codes: 0 explained; 2 usage error, also for an unknown word.
""",
)
@options.argument("word", metavar="REASON|CONFIG|FIELD", shell_complete=_complete_word)
@options.format_option(formats.EXPLANATION_FORMATS)
@options.color
def command(word: str, form: str) -> None:
    """Explain a reason of an error or refusal, a topic config, or a field of a manifest.

    A field is given by its path, or by the end of its path: moves.allow. Those of the project file begin with Project,
    such as Project.owner. Needs neither manifests nor a cluster.
    """
    found = explain(word)
    if not found:
        hint = did_you_mean(word, list_words())
        message = f"{quote(word)} is no reason, no topic config and no field of a manifest"
        raise click.UsageError(f"{message}; {hint}" if hint else message)
    terminal.print_result(formats.EXPLANATION_FORMATS[form](found))

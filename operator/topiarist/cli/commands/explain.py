"""The ``topiarist explain`` command: what a reason, a topic config or a field of a manifest means."""

from __future__ import annotations

import json
import sys

import click
from click.shell_completion import CompletionItem

from topiarist.cli import options, terminal
from topiarist.cli.settings import Settings
from topiarist.inspection.explanation import explain, list_words
from topiarist.output.describe import format_explanation
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
@options.format_option(("text", "json"))
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
    if form == "json":
        documents = [{"title": each.title, "meaning": each.meaning, "facts": dict(each.facts)} for each in found]
        terminal.print_result(json.dumps(documents, indent=2, ensure_ascii=False) + "\n")
        return
    layout = terminal.make_layout(sys.stdout, Settings())
    terminal.print_result("\n".join(format_explanation(layout, each) for each in found))

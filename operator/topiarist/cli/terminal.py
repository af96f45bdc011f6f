"""Talking to a person: product on stdout, everything else on stderr; colour and progress only where somebody looks."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from typing import TextIO

import click

from topiarist.cli.settings import Settings
from topiarist.errors import Diagnostic, Exit, InvalidManifests, TopiaristError
from topiarist.model.outcome import Outcome, ReconcileReport
from topiarist.output.diagnostics import to_text
from topiarist.output.text.layout import TextLayout, format_progress_bar, sanitize
from topiarist.text import format_count

_MAX_WIDTH = 100


def can_use_color(stream: TextIO) -> bool:
    """Whether ``stream`` is a terminal whose owner has not turned colour off."""
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def terminal_width(stream: TextIO) -> int:
    """Columns to write in: the terminal's or, where there is none, 80; never more than an eye can follow in a line."""
    return min(shutil.get_terminal_size((80, 24)).columns, _MAX_WIDTH) if stream.isatty() else 80


def print_result(text: str) -> None:
    """What the command was called for, to stdout; nothing at all if it is empty."""
    if text:
        click.echo(text, nl=not text.endswith("\n"))


def print_outcome(text: str) -> Exit:
    """Print what became of what was written: to stdout or, if that fails, to stderr. It must not be lost.

    Returns ``ERROR`` if stdout failed, which is reported first.
    """
    try:
        print_result(text)
    except (BrokenPipeError, TopiaristError) as error:
        if isinstance(error, TopiaristError):
            print_error(error)
        log(text.rstrip("\n"))
        return Exit.ERROR
    return Exit.DONE


def log(text: str) -> None:
    """A word beside the product, to stderr."""
    click.echo(text, err=True)


def log_over_progress(text: str) -> None:
    """A word to stderr where a bar may be drawn: in its place, and the bar comes again."""
    click.echo(("\r\x1b[K" if sys.stderr.isatty() else "") + text, err=True)


def print_report(report: ReconcileReport, text: str) -> Exit:
    """Print ``text``, which is what became of a plan, and the error that ended its run, if any; as ``outcome`` does."""
    shown = print_outcome(text)
    if report.error:
        print_error(report.error, report.plan.cluster)
    return shown


def confirm(question: str, expected: str = "yes") -> None:
    """Ask, and end the command with ``ERROR`` if the answer is not the ``expected`` one."""
    answer = click.prompt(question, prompt_suffix=": ", default="", show_default=False, err=True)
    if answer.strip() != expected:
        log("not confirmed: nothing was written")
        raise click.exceptions.Exit(int(Exit.ERROR))


def print_error(error: TopiaristError, cluster: str = "") -> None:
    """Print an error, with the name of its cluster if it has one; errors of manifests with their number."""
    if isinstance(error, InvalidManifests):
        click.echo(to_text(error.errors, suppressed_count=error.suppressed_count), nl=False, err=True)
        log(format_count(len(error.errors) + error.suppressed_count, "complaint"))
    else:
        log(sanitize_lines(f"error: {f'cluster {cluster}: ' if cluster else ''}{error}"))


def sanitize_lines(text: str) -> str:
    """``text`` with nothing in it that a terminal would obey, but for its line ends."""
    return "\n".join(map(sanitize, text.split("\n")))


def print_warnings(warnings: Sequence[Diagnostic]) -> None:
    """Warnings in order of place; of many the first hundred, and how many more there are."""
    click.echo(to_text(warnings, "warning"), nl=False, err=True)


def is_interactive() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def require_interactive(yes: bool, verb: str) -> None:
    """Raise ``click.UsageError`` if a command has to ask before it may ``verb``, and no person can be asked."""
    if not yes and not is_interactive():
        raise click.UsageError(f"nobody can be asked here: this is no terminal. Add --yes to {verb} without asking")


def make_layout(stream: TextIO, settings: Settings) -> TextLayout:
    """How to write a plan to ``stream``: as wide as it is, in colour if it is a terminal."""
    return TextLayout(width=terminal_width(stream), use_color=can_use_color(stream), verbose=settings.verbosity > 0)


class ProgressBar:
    """A bar on stderr while topics are written; silent where nobody looks."""

    def __init__(self, total: int, settings: Settings) -> None:
        self._total = total
        self._done = 0
        self._is_visible = sys.stderr.isatty() and total > 0 and settings.verbosity >= 0
        self._next_draw = 0.0

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_visible:
            click.echo("\r\x1b[K", nl=False, err=True)

    def step(self, _outcome: Outcome | None = None) -> None:
        """One more topic is settled; drawn at most ten times a second."""
        self._done += 1
        if self._is_visible and (now := time.monotonic()) >= self._next_draw:
            self._next_draw = now + 0.1
            click.echo(
                "\r" + format_progress_bar(self._done, self._total, terminal_width(sys.stderr)), nl=False, err=True
            )

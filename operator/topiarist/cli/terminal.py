"""Talking to a person: product on stdout, everything else on stderr; colour and progress only where somebody looks."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from typing import TextIO

import click

from topiarist.core.units import count
from topiarist.errors import Complaint, Exit, InvalidManifests, TopiaristError
from topiarist.reconcile import Outcome, Report
from topiarist.render.complaints import to_text
from topiarist.render.page import Page, bar, plain
from topiarist.settings import Settings

_WIDEST = 100


def coloured(stream: TextIO) -> bool:
    """Whether ``stream`` is a terminal whose owner has not turned colour off."""
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def width(stream: TextIO) -> int:
    """Columns to write in: the terminal's or, where there is none, 80; never more than an eye can follow in a line."""
    return min(shutil.get_terminal_size((80, 24)).columns, _WIDEST) if stream.isatty() else 80


def product(text: str) -> None:
    """What the command was called for, to stdout; nothing at all if it is empty."""
    if text:
        click.echo(text, nl=not text.endswith("\n"))


def outcome(text: str) -> Exit:
    """Print what became of what was written: to stdout or, if that fails, to stderr. It must not be lost.

    Returns ``ERROR`` if stdout failed, which is reported first.
    """
    try:
        product(text)
    except (BrokenPipeError, TopiaristError) as error:
        if isinstance(error, TopiaristError):
            fail(error)
        say(text.rstrip("\n"))
        return Exit.ERROR
    return Exit.DONE


def say(text: str) -> None:
    """A word beside the product, to stderr."""
    click.echo(text, err=True)


def aside(text: str) -> None:
    """A word to stderr where a bar may be drawn: in its place, and the bar comes again."""
    click.echo(("\r\x1b[K" if sys.stderr.isatty() else "") + text, err=True)


def report(found: Report, text: str) -> Exit:
    """Print ``text``, which is what became of a plan, and the error that ended its run, if any; as ``outcome`` does."""
    shown = outcome(text)
    if found.error:
        fail(found.error, found.plan.cluster)
    return shown


def confirm(question: str, wanted: str = "yes") -> None:
    """Ask, and end the command with ``ERROR`` if the answer is not the ``wanted`` one."""
    answer = click.prompt(question, prompt_suffix=": ", default="", show_default=False, err=True)
    if answer.strip() != wanted:
        say("not confirmed: nothing was written")
        raise click.exceptions.Exit(int(Exit.ERROR))


def fail(error: TopiaristError, cluster: str = "") -> None:
    """Print an error, with the name of its cluster if it has one; errors of manifests with their number."""
    if isinstance(error, InvalidManifests):
        click.echo(to_text(error.complaints, more=error.more), nl=False, err=True)
        say(count(len(error.complaints) + error.more, "complaint"))
    else:
        say(plain_lines(f"error: {f'cluster {cluster}: ' if cluster else ''}{error}"))


def plain_lines(text: str) -> str:
    """``text`` with nothing in it that a terminal would obey, but for its line ends."""
    return "\n".join(map(plain, text.split("\n")))


def warn(complaints: Sequence[Complaint]) -> None:
    """Warnings in order of place; of many the first hundred, and how many more there are."""
    click.echo(to_text(complaints, "warning"), nl=False, err=True)


def interactive() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def require_answer(yes: bool, verb: str) -> None:
    """Raise ``click.UsageError`` if a command has to ask before it may ``verb``, and no person can be asked."""
    if not yes and not interactive():
        raise click.UsageError(f"nobody can be asked here: this is no terminal. Add --yes to {verb} without asking")


def page(stream: TextIO, settings: Settings) -> Page:
    """How to write a plan to ``stream``: as wide as it is, in colour if it is a terminal."""
    return Page(width=width(stream), colour=coloured(stream), verbose=settings.verbosity > 0)


class Progress:
    """A bar on stderr while topics are written; silent where nobody looks."""

    def __init__(self, total: int, settings: Settings) -> None:
        self._total = total
        self._done = 0
        self._shown = sys.stderr.isatty() and total > 0 and settings.verbosity >= 0
        self._next = 0.0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            click.echo("\r\x1b[K", nl=False, err=True)

    def step(self, _outcome: Outcome | None = None) -> None:
        """One more topic is settled; drawn at most ten times a second."""
        self._done += 1
        if self._shown and (now := time.monotonic()) >= self._next:
            self._next = now + 0.1
            click.echo("\r" + bar(self._done, self._total, width(sys.stderr)), nl=False, err=True)

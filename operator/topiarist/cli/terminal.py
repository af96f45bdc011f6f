"""The process of a command line: its settings, standard streams, signals, and all output.

Results go to stdout, messages to stderr; color and progress are only on terminals. Every command prints through this
module. It also asks for confirmation and draws the progress bar.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

import click

from topiarist.errors import Diagnostic, Exit, InvalidManifests, Reason, TopiaristError
from topiarist.runs.settings import RunListener, RunSettings
from topiarist.text import format_count

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from topiarist.output.text.layout import TextLayout
    from topiarist.runs.sessions import ClusterSessions


# The settings of one command line: those of its run, and those of what it prints.
#
# ``options.build_settings`` makes it. Packages below the command line read neither options nor environment.


class Settings(RunSettings, frozen=True):
    """The settings of one command line.

    ``address_from`` names the option or variable that gave the address. ``verbosity`` is -1 with ``-q``, else the
    number of ``-v``.
    """

    address_from: str = ""
    verbosity: int = 0
    summary: bool = False

    @property
    def address_source(self) -> str:
        """The option or variable that gave the address; empty if there is none."""
        return self.address_from


# Standard streams that report failures: a full disk, a closed descriptor, an ended reader.
#
# ``main`` replaces stdout and stderr with them. A stream fails once, and text written after its failure is discarded. A
# failure of standard output is an error of the run, raised where the text was written. A failure of standard error
# cannot be reported: nothing is raised, the run continues, and only its exit code shows it.

_BUFFER_BYTES = 1 << 16


class StandardStream(io.FileIO):
    """The bytes of a standard stream; ``failure`` is the operating system's error of its first failed write.

    The first failed write of standard output raises ``TopiaristError`` (Unwritable). ``BrokenPipeError`` is raised as
    it is: the reader needs no more output.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number, "w", closefd=False)
        self.is_output = number == 1
        self.failure: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        """Write, or discard if the stream has failed."""
        if self.failure is None:
            try:
                return super().write(data)
            except OSError as error:
                self.failure = error
                if self.is_output:
                    if isinstance(error, BrokenPipeError):
                        raise
                    why = "it is closed" if error.errno == errno.EBADF else error.strerror
                    raise TopiaristError(Reason.UNWRITABLE, f"standard output cannot be written: {why}") from error
        return memoryview(data).nbytes


def replace_standard_streams() -> tuple[StandardStream, StandardStream]:
    """Replace standard output and standard error with ``StandardStream``s, and return both.

    A closed descriptor is first opened on the null device, in a mode that fails for its use. Otherwise the next file or
    connection would get its number, and messages for the user would be written into it.
    """
    for number, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # returns the lowest free number, which is this one
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    output, errors = StandardStream(1), StandardStream(2)
    sys.stdout = _open_text_stream(output, sys.stdout)
    sys.stderr = _open_text_stream(errors, sys.stderr)
    return output, errors


def _open_text_stream(stream: StandardStream, previous: TextIO | None) -> TextIO:
    """Return the stream for text: UTF-8, as documents are; at a terminal its encoding, and escapes for the rest."""
    is_terminal = stream.isatty()
    encoding = previous.encoding if previous is not None and is_terminal else "utf-8"
    lines = is_terminal or not stream.is_output
    buffer = io.BufferedWriter(stream, _BUFFER_BYTES)
    return io.TextIOWrapper(buffer, encoding, "backslashreplace", line_buffering=lines)


# Ctrl-C and SIGTERM during writes: the first ends the run in order, the second at once.
#
# The commands that write enter an ``Interrupt`` and pass ``has_happened`` to the run as its stop condition.

_STDERR_FD = 2


class Interrupt:
    """A context manager that handles SIGINT and SIGTERM.

    ``exit_code`` is 0 until a signal arrives, then 128 plus its number. Restores the previous handlers on exit.
    """

    def __init__(self) -> None:
        self.exit_code = 0
        self._previous_handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous_handlers[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)

    def has_happened(self) -> bool:
        """Return whether the run should end."""
        return self.exit_code != 0

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.exit_code:
            os._exit(self.exit_code)
        self.exit_code = 128 + number
        # Not through a Python stream: the signal may interrupt its write, and a reentrant write raises.
        with suppress(OSError):
            os.write(
                _STDERR_FD,
                b"\nstopping: writes in progress are finished, nothing more is sent (repeat to stop at once)\n",
            )


_MAX_WIDTH = 100
"""Columns of running text: longer lines are hard to read."""


def terminal_columns(stream: TextIO) -> int | None:
    """Return the columns of a terminal; None if the stream is no terminal."""
    if not stream.isatty():
        return None
    from shutil import get_terminal_size

    return get_terminal_size((80, 24)).columns


def print_result(text: str) -> None:
    """Print the result of a command to stdout; print nothing if it is empty."""
    if text:
        click.echo(text, nl=not text.endswith("\n"))


def print_outcome(text: str) -> Exit:
    """Print the outcome of writes to stdout or, if that fails, to stderr, so that it is not lost.

    Returns ``ERROR`` if stdout failed, after reporting that failure; else ``DONE``.
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
    """Print a message to stderr."""
    click.echo(text, err=True)


def log_over_progress(text: str) -> None:
    """Print a message to stderr in place of a progress bar, which is drawn again later."""
    click.echo(("\r\x1b[K" if sys.stderr.isatty() else "") + text, err=True)


def label_cluster(cluster: str) -> str:
    """Return the start of a message about a cluster: ``prod: ``; empty for the cluster of an address option."""
    return f"{cluster}: " if cluster else ""


def confirm(question: str, expected: str = "yes") -> None:
    """Ask the user; end the command with ``ERROR`` unless the answer is ``expected``."""
    answer = click.prompt(question, prompt_suffix=": ", default="", show_default=False, err=True)
    if answer.strip() != expected:
        log("not confirmed: nothing was written")
        raise click.exceptions.Exit(int(Exit.ERROR))


def print_error(error: TopiaristError, cluster: str = "") -> None:
    """Print an error with the name of its cluster, if any; print errors of manifests with their number."""
    if isinstance(error, InvalidManifests):
        from topiarist.output.text.layout import format_diagnostics

        click.echo(format_diagnostics(error.errors, suppressed_count=error.suppressed_count), nl=False, err=True)
        log(format_count(len(error.errors) + error.suppressed_count, "error"))
    else:
        log_over_progress(sanitize_lines(f"error: {f'cluster {cluster}: ' if cluster else ''}{error}"))


def sanitize_lines(text: str) -> str:
    """Return ``text`` without characters that a terminal interprets, except line ends."""
    from topiarist.text import sanitize

    return "\n".join(map(sanitize, text.split("\n")))


def print_warnings(warnings: Sequence[Diagnostic]) -> None:
    """Print warnings in order of location; at most the first hundred, and how many more there are."""
    from topiarist.output.text.layout import format_diagnostics

    click.echo(format_diagnostics(warnings, "warning"), nl=False, err=True)


class TerminalListener(RunListener):
    """A listener that prints the messages of a run to stderr; with ``-q`` only errors and important messages."""

    owns_process = True

    def __init__(self, settings: Settings) -> None:
        self._is_quiet = settings.verbosity < 0
        self._is_verbose = settings.verbosity > 0

    def on_message(self, text: str, *, important: bool = False) -> None:
        """Print a message."""
        if important or not self._is_quiet:
            log(sanitize_lines(text))

    def on_detail(self, text: str) -> None:
        """Print a message with ``-v``."""
        if self._is_verbose:
            log(sanitize_lines(text))

    def on_pause(self, text: str) -> None:
        """Print the cause in place of a progress bar."""
        if not self._is_quiet:
            log_over_progress(sanitize_lines(text))

    def on_error(self, error: TopiaristError, cluster: str = "") -> None:
        """Print an error that does not end the run."""
        print_error(error, cluster)

    def on_warnings(self, warnings: Sequence[Diagnostic]) -> None:
        """Print warnings about manifests."""
        if not self._is_quiet:
            print_warnings(warnings)


def open_sessions(settings: Settings, *, keep_open: bool = True) -> ClusterSessions:
    """Return the sessions of the clusters of a run without topics; errors of single clusters go to stderr.

    Raises ``InvalidManifests`` with every error of the Cluster documents.
    """
    from topiarist.runs.inputs import load_clusters
    from topiarist.runs.sessions import ClusterSessions

    listener = TerminalListener(settings)
    return ClusterSessions(load_clusters(settings, listener), settings, listener, keep_open=keep_open)


def require_interactive(yes: bool, verb: str) -> None:
    """Raise ``click.UsageError`` if a command must ask before it may ``verb`` and cannot."""
    if not yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(f"stdin or stderr is not a terminal: add --yes to {verb} without confirmation")


def make_layout(stream: TextIO, settings: Settings) -> TextLayout:
    """Return the layout of text for ``stream``: 80 columns, or those of its terminal, with color.

    The option ``--color`` decides, if it is given; the environment turns color off with ``NO_COLOR`` or ``TERM=dumb``.
    """
    from topiarist.output.text.layout import TextLayout

    context = click.get_current_context(silent=True)
    use_color = context.color if context else None
    if use_color is None:
        use_color = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    columns = terminal_columns(stream)
    width = 80 if columns is None else min(columns, _MAX_WIDTH)
    spare_width = None if columns is None else columns - width
    return TextLayout(width, use_color, settings.verbosity > 0, spare_width=spare_width)


class ProgressBar:
    """A progress bar of written topics on stderr; not drawn if stderr is no terminal, or with ``-q``.

    While a text is in its place, the bar itself is not drawn.
    """

    def __init__(self, total: int, settings: Settings) -> None:
        self._total = total
        self._done = 0
        self._has_text = False
        self._is_visible = sys.stderr.isatty() and total > 0 and settings.verbosity >= 0
        self._next_draw = 0.0

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_visible:
            click.echo("\r\x1b[K", nl=False, err=True)

    def step(self) -> None:
        """Count one more finished topic; draws at most ten times a second."""
        self._done = min(self._done + 1, self._total)
        if self._is_visible and not self._has_text and (now := time.monotonic()) >= self._next_draw:
            self._next_draw = now + 0.1
            from topiarist.output.text.layout import format_progress_bar

            width = min(terminal_columns(sys.stderr) or 80, _MAX_WIDTH)
            click.echo("\r" + format_progress_bar(self._done, self._total, width), nl=False, err=True)

    def draw_text(self, text: str) -> None:
        """Draw one line of text in the place of the bar, cut to the width of the terminal."""
        if self._is_visible:
            self._has_text = True
            # A line as wide as the terminal would make some terminals begin a new one.
            from shutil import get_terminal_size

            width = get_terminal_size((80, 24)).columns - 1
            cut = text if len(text) <= width else f"{text[: max(width - 3, 0)]}..."
            click.echo(f"\r\x1b[K{cut}", nl=False, err=True)

    def clear_text(self) -> None:
        """Remove the text, so that the bar is drawn again."""
        if self._has_text:
            self._has_text = False
            click.echo("\r\x1b[K", nl=False, err=True)

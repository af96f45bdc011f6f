"""Standard streams that can fail: a disk that is full, a stream that is closed, a reader that has ended.

A stream fails once. A failure of standard output is an error of the run, raised where the text was written. A failure
of standard error can be reported nowhere: nothing is raised, the run goes on, and only its exit code tells of it. Text
that is written to a stream after its failure is discarded.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

from topiarist.errors import Reason, TopiaristError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


_BUFFER_BYTES = 1 << 16


class StandardStream(io.FileIO):
    """The bytes of a standard stream. ``failed`` is what the system said when it failed first."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "w", closefd=False)
        self.failure: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        """Write, or discard if the stream has failed. Raises what ``on_failure`` raises."""
        if self.failure is None:
            try:
                return super().write(data)
            except OSError as error:
                self.failure = error
                self.on_failure(error)
        return memoryview(data).nbytes

    def on_failure(self, error: OSError) -> None:
        """Do nothing: standard error has nowhere to report to."""


class StandardOutput(StandardStream):
    """The bytes of standard output, whose failure is raised."""

    def on_failure(self, error: OSError) -> None:
        """Raise ``TopiaristError`` (Unwritable); ``BrokenPipeError`` as it is: its reader has seen enough."""
        if isinstance(error, BrokenPipeError):
            raise error
        why = "it is closed" if error.errno == errno.EBADF else error.strerror
        raise TopiaristError(Reason.UNWRITABLE, f"standard output cannot be written: {why}") from error


def replace_standard_streams() -> tuple[StandardStream, StandardStream]:
    """Put guarded streams in the place of standard output and standard error, and return both.

    A descriptor that is closed is opened first, on something that can be neither read nor written: otherwise the next
    file or connection would get its number, and what is meant for a person would be written into it.
    """
    for number, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # the lowest number that is free, which is this one
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    output, errors = StandardOutput(1), StandardStream(2)
    sys.stdout, sys.stderr = (
        _open_text_stream(output, sys.stdout),
        _open_text_stream(errors, sys.stderr, "backslashreplace"),
    )
    return output, errors


def _open_text_stream(stream: StandardStream, previous: TextIO | None, errors: str = "strict") -> TextIO:
    """Return the stream for text, encoded as the one before it."""
    encoding = previous.encoding if previous is not None else "utf-8"
    lines = stream.isatty() or not isinstance(stream, StandardOutput)
    errors = (previous.errors if previous is not None else None) or errors
    return io.TextIOWrapper(io.BufferedWriter(stream, _BUFFER_BYTES), encoding, errors, line_buffering=lines)

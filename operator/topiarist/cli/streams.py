"""Standard streams that report failures: a full disk, a closed descriptor, an ended reader.

``main`` replaces stdout and stderr with them. A stream fails once, and text written after its failure is discarded. A
failure of standard output is an error of the run, raised where the text was written. A failure of standard error cannot
be reported: nothing is raised, the run continues, and only its exit code shows it.
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
    sys.stderr = _open_text_stream(errors, sys.stderr, "backslashreplace")
    return output, errors


def _open_text_stream(stream: StandardStream, previous: TextIO | None, errors: str = "strict") -> TextIO:
    """Return the stream for text, encoded as the previous stream."""
    encoding = previous.encoding if previous is not None else "utf-8"
    lines = stream.isatty() or not stream.is_output
    errors = (previous.errors if previous is not None else None) or errors
    return io.TextIOWrapper(io.BufferedWriter(stream, _BUFFER_BYTES), encoding, errors, line_buffering=lines)

"""Ctrl-C and SIGTERM during writes: the first ends the run in order, the second at once.

The commands that write enter an ``Interrupt`` and pass ``has_happened`` to the run as its stop condition.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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

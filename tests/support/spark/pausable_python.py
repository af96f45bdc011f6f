"""A Python for executors of Spark that can be held back: a job then stands still in its middle as long as need be."""

from __future__ import annotations

import sys
from pathlib import Path

_SCRIPT = """#!/bin/sh
echo >"{folder}/here.$PPID"
while [ -e "{folder}/hold" ]; do sleep 0.05; done
exec {python} "$@"
"""


class PausablePython:
    """A script that is called in place of Python, with these options of it; after ``hold`` it waits for ``release``.

    A job comes to it after it has joined what it compares, and before it asks the planner.
    """

    def __init__(self, folder: Path, options: str = "") -> None:
        self._folder = folder
        self.script = folder / "python"
        self.script.write_text(_SCRIPT.format(folder=folder, python=f"{sys.executable} {options}"))
        self.script.chmod(0o755)

    @property
    def caller_pids(self) -> list[int]:
        """The processes that have called it since the last ``hold``, or ever."""
        return [int(path.suffix[1:]) for path in self._folder.glob("here.*")]

    def pause(self) -> None:
        """From now on whoever calls it waits."""
        for path in self._folder.glob("here.*"):
            path.unlink()
        (self._folder / "hold").touch()

    def resume(self) -> None:
        """Nobody waits any more."""
        (self._folder / "hold").unlink(missing_ok=True)

"""A pausable Python for Spark executors: a test can suspend a job in the middle for any time."""

from __future__ import annotations

import sys
from pathlib import Path

_SCRIPT = """#!/bin/sh
echo >"{folder}/here.$PPID"
while [ -e "{folder}/hold" ]; do sleep 0.05; done
{path}
exec {python} "$@"
"""


class PausablePython:
    """A script that replaces Python, with these options; after ``hold`` it waits for ``release``.

    A job calls it before it compares the first cluster. ``packages`` is a folder of packages that it can import.
    """

    def __init__(self, folder: Path, options: str = "", packages: Path | None = None) -> None:
        self._folder = folder
        self.script = folder / "python"
        path = f'export PYTHONPATH="$PYTHONPATH:{packages}"' if packages else ""
        self.script.write_text(_SCRIPT.format(folder=folder, python=f'"{sys.executable}" {options}', path=path))
        self.script.chmod(0o755)

    @property
    def caller_pids(self) -> list[int]:
        """Return the processes that called the script since the last ``hold``, or since the start."""
        return [int(path.suffix[1:]) for path in self._folder.glob("here.*")]

    def pause(self) -> None:
        """Suspend every later caller."""
        for path in self._folder.glob("here.*"):
            path.unlink()
        (self._folder / "hold").touch()

    def resume(self) -> None:
        """Resume all callers."""
        (self._folder / "hold").unlink(missing_ok=True)

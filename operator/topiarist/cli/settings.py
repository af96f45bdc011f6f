"""The settings of one command line: those of its run, and those of what it prints.

``options.build_settings`` makes it. Packages below the command line read neither options nor environment.
"""

from __future__ import annotations

from topiarist.runs.settings import RunSettings


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

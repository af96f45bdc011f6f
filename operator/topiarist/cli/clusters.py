"""The clusters of a command: sessions with the terminal as their listener."""

from __future__ import annotations

from collections.abc import Mapping

from topiarist.cli import terminal
from topiarist.cli.settings import Settings
from topiarist.model.spec import ClusterSpec
from topiarist.runs import sessions


class ClusterSessions(sessions.ClusterSessions):
    """The sessions of a command line, with its terminal as the listener."""

    def __init__(self, specs: Mapping[str, ClusterSpec], settings: Settings, *, keep_open: bool = True) -> None:
        super().__init__(specs, settings, terminal.TerminalListener(settings), keep_open=keep_open)

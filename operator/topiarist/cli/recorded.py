"""Clusters as snapshots have them: what ``plan`` and ``describe`` look at in place of sessions."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from topiarist.adapters.memory import MemoryCluster
from topiarist.adapters.snapshot import Snapshots
from topiarist.cli import terminal
from topiarist.core.spec import ClusterSpec
from topiarist.core.units import duration
from topiarist.settings import Settings


class Recorded:
    """The snapshots of a run. Raises ``SnapshotUnusable`` if there are none at their path."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._snapshots = Snapshots(Path(settings.snapshot))

    def cluster(self, spec: ClusterSpec) -> MemoryCluster:
        """The cluster as it was; raises what ``Snapshots.read`` raises."""
        return MemoryCluster(self._snapshots.read(spec))

    def say_age(self) -> None:
        """Say on stderr when the oldest of the snapshots was taken that were read."""
        if self._snapshots.taken and self._settings.verbosity >= 0:
            oldest = min(self._snapshots.taken.values())
            age = duration(max(int((datetime.now(UTC) - oldest).total_seconds()), 0) * 1000)
            which = "the oldest " if len(self._snapshots.taken) > 1 else ""
            words = f"planned from {self._settings.snapshot}: {which}taken {oldest:%Y-%m-%dT%H:%M:%SZ}, {age} ago"
            terminal.say(terminal.plain_lines(words))

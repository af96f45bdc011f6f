"""Everything a run was told, from flags and environment, in one value; nothing below the command line reads either."""

from __future__ import annotations

from dataclasses import dataclass

from topiarist.core.backlog import AHEAD
from topiarist.core.plan import EVERY, Run
from topiarist.core.policy import Allowance
from topiarist.core.state import Release


@dataclass(frozen=True, slots=True)
class Settings:
    """One run's settings. Times are in seconds; ``zookeeper`` is a connect string with chroot, ``snapshot`` a file or
    folder, each empty if not given.
    """

    paths: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    cluster: str | None = None
    zookeeper: str = ""
    snapshot: str = ""
    kafka_version: Release | None = None
    owner: str = "default"
    take_ownership: bool = False
    adopt: tuple[str, ...] = ()
    recreate: bool = False
    without_brokers: frozenset[int] = frozenset()
    allow_unknown_brokers: bool = False
    platform: tuple[str, ...] = ()
    partial: bool = False
    allow_risk: tuple[Allowance, ...] = ()
    connect_timeout: float = 10.0
    lock_timeout: float = 60.0
    wait: bool = False
    wait_timeout: float = 300.0
    wait_ahead: int = AHEAD
    verbosity: int = 0

    @property
    def run(self) -> Run:
        """What planning has to know of the run."""
        return Run(
            owner=self.owner,
            take_ownership=EVERY if self.take_ownership else (),
            adopt=self.adopt,
            recreate=EVERY if self.recreate else (),
            without_brokers=self.without_brokers,
            allow_unknown_brokers=self.allow_unknown_brokers,
        )

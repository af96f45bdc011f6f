"""Everything a run was told, from flags and environment, in one value; nothing below the command line reads either."""

from __future__ import annotations

from dataclasses import dataclass

from topiarist.kafka.types import KafkaVersion
from topiarist.model.run_options import MAX_INFLIGHT_REPLICAS_PER_BROKER, RiskApproval, RunOptions


@dataclass(frozen=True, slots=True)
class Settings:
    """One run's settings. Times are in seconds; ``zookeeper`` is a connect string with chroot, ``snapshot`` a file or
    folder, each empty if not given. ``zookeeper_from`` names the option or variable that gave ``zookeeper``.
    """

    paths: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    cluster: str | None = None
    zookeeper: str = ""
    zookeeper_from: str = "--zookeeper"
    snapshot: str = ""
    kafka_version: KafkaVersion | None = None
    owner: str = "default"
    take_ownership: tuple[str, ...] = ()
    adopt: tuple[str, ...] = ()
    recreate: tuple[str, ...] = ()
    without_brokers: frozenset[int] = frozenset()
    allow_unknown_brokers: bool = False
    platform: tuple[str, ...] = ()
    require_topics: bool = False
    partial: bool = False
    allow_risk: tuple[RiskApproval, ...] = ()
    connect_timeout: float = 10.0
    lock_timeout: float = 60.0
    wait: bool = False
    wait_timeout: float = 300.0
    wait_ahead: int = MAX_INFLIGHT_REPLICAS_PER_BROKER
    verbosity: int = 0
    summary: bool = False

    @property
    def run_options(self) -> RunOptions:
        """What planning has to know of the run."""
        return RunOptions(
            owner=self.owner,
            take_ownership=self.take_ownership,
            adopt=self.adopt,
            recreate=self.recreate,
            without_brokers=self.without_brokers,
            allow_unknown_brokers=self.allow_unknown_brokers,
        )

"""The settings of a run, from options and environment, in one value.

``options.build_settings`` makes it. Packages below the command line read neither options nor environment.
"""

from __future__ import annotations

from dataclasses import dataclass

from topiarist.desired.selection import TopicSelection, parse_label_selector
from topiarist.kafka.types import KafkaVersion
from topiarist.model.run_options import MAX_INFLIGHT_REPLICAS_PER_BROKER, RiskApproval, RunOptions


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one run.

    Times are in seconds. ``zookeeper`` is a connect string with chroot, ``bootstrap_servers`` a list of addresses of
    brokers, ``snapshot`` a file or folder; each is empty if not given, and at most one of the two addresses is given.
    ``address_from`` names the option or variable that gave the address. ``topic`` has patterns of names, ``selector``
    is a label selector. ``throttle`` is in bytes a second, or ``UNLIMITED``. ``verbosity`` is -1 with ``-q``, else the
    number of ``-v``.
    """

    paths: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    cluster: str | None = None
    zookeeper: str = ""
    bootstrap_servers: str = ""
    address_from: str = ""
    snapshot: str = ""
    ask_brokers: bool = False
    kafka_version: KafkaVersion | None = None
    owner: str = "default"
    take_ownership: tuple[str, ...] = ()
    adopt: tuple[str, ...] = ()
    recreate: tuple[str, ...] = ()
    without_brokers: frozenset[int] = frozenset()
    allow_unknown_brokers: bool = False
    drain_brokers: frozenset[int] = frozenset()
    max_moves: int | None = None
    throttle: int | None = None
    platform: tuple[str, ...] = ()
    require_topics: bool = False
    topic: tuple[str, ...] = ()
    selector: str = ""
    partial: bool = False
    allow_risk: tuple[RiskApproval, ...] = ()
    connect_timeout: float = 10.0
    lock_timeout: float = 60.0
    wait: bool = False
    wait_timeout: float = 300.0
    no_wait: bool = False
    max_inflight_replicas: int = MAX_INFLIGHT_REPLICAS_PER_BROKER
    verbosity: int = 0
    summary: bool = False

    @property
    def address_option(self) -> str:
        """The option of the address that the run was given, by itself or by its variable; empty if there is none."""
        return "--zookeeper" if self.zookeeper else "--bootstrap-servers" if self.bootstrap_servers else ""

    @property
    def selection(self) -> TopicSelection:
        """The selection of topics; it has no text if all topics are selected."""
        given = [f"--topic {pattern}" for pattern in self.topic]
        given += [f"--selector {self.selector}"] if self.selector else []
        return TopicSelection(self.topic, parse_label_selector(self.selector), " ".join(given))

    @property
    def run_options(self) -> RunOptions:
        """The options that planning needs."""
        return RunOptions(
            owner=self.owner,
            take_ownership=self.take_ownership,
            adopt=self.adopt,
            recreate=self.recreate,
            without_brokers=self.without_brokers,
            allow_unknown_brokers=self.allow_unknown_brokers,
            drain_brokers=self.drain_brokers,
            max_moves=self.max_moves,
            selection=self.selection.text,
        )

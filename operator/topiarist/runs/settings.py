"""The settings of a run in one value: its inputs, its permissions, its limits of time.

The command line builds it from options and environment, and callers of ``topiarist.api`` build it themselves; nothing
below reads options or environment. ``setting_checks`` checks the values for both.
"""

from __future__ import annotations

from msgspec import Struct

from topiarist.desired.resolve import TopicSelection, parse_label_selector
from topiarist.kafka.types import KafkaVersion
from topiarist.model.outcome import MAX_INFLIGHT_REPLICAS_PER_BROKER, RiskApproval, RunOptions


class RunSettings(Struct, frozen=True):
    """The settings of one run; each has the name and the meaning of an option of ``topiarist apply``.

    Times are in seconds. ``paths`` are files and folders with manifests, ``clusters`` and ``platform`` those with
    Cluster documents. ``zookeeper`` is a connect string with chroot, ``bootstrap_servers`` a list of addresses of
    brokers, ``snapshot`` a file or folder; each is empty if not given, and at most one of the two addresses is given.
    ``kafka_version`` is major and minor: ``(3, 9)``. ``topic`` has patterns of names, ``selector`` is a label selector.
    ``adopt``, ``take_ownership`` and ``recreate`` have patterns of topics, and ``allow_risk`` the approvals of changes
    that may lose data. ``max_moves`` is a number of copied replicas; None is no limit. ``throttle`` is in bytes a
    second; 0 is unlimited, and None leaves it to the Cluster. ``evidence`` is a file or folder of earlier snapshots
    with usage, empty if not given; ``allow_in_use`` has exact names of topics that may be deleted although in use.
    """

    paths: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    cluster: str | None = None
    zookeeper: str = ""
    bootstrap_servers: str = ""
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
    evidence: str = ""
    allow_in_use: tuple[str, ...] = ()

    @property
    def address_option(self) -> str:
        """The option of the address that the run was given, by itself or by its variable; empty if there is none."""
        return "--zookeeper" if self.zookeeper else "--bootstrap-servers" if self.bootstrap_servers else ""

    @property
    def address_source(self) -> str:
        """The name of the setting that gave the address, for messages; empty if there is none."""
        return self.address_option

    def allows_in_use(self, topic: str, _usage: object = None) -> bool:
        """Return whether a topic may be deleted although it is in use, or its use is not known."""
        return topic in self.allow_in_use

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

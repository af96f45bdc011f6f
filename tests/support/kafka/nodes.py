"""What clusters in both modes share: the settings of brokers, control of each process, and Kafka's tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import DEVNULL, run

from support.cli.runs import RunResult
from support.kafka.jars import NEWEST, RELEASES_WITHOUT_TOOLS, fetch_jars
from support.kafka.processes import Process, archive_options, java_command
from support.kafka.tools import main_class
from support.waiting import wait_until

BROKER_DEFAULTS: Mapping[str, object] = {
    # Small: many brokers on a small machine.
    "num.network.threads": 1,
    "num.io.threads": 2,
    "background.threads": 2,
    "queued.max.requests": 50,
    "socket.send.buffer.bytes": 65_536,
    "socket.receive.buffer.bytes": 65_536,
    "log.cleaner.dedupe.buffer.size": 2_097_152,
    "log.cleaner.io.buffer.size": 65_536,
    "log.index.size.max.bytes": 65_536,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    # Short timeouts and intervals.
    "group.initial.rebalance.delay.ms": 0,
    "log.segment.delete.delay.ms": 1000,
    "controlled.shutdown.enable": "false",
    # No automatic actions: tests request every change.
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "delete.topic.enable": "true",
}
"""What every broker is told; ``log.index.size.max.bytes`` and ``log.segment.delete.delay.ms`` show up in ``--describe``
as settings that are not Kafka's defaults."""

SESSION: Mapping[str, object] = {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500}
"""As short as they may be on a busy machine: a returning broker waits until its old session has expired."""


class Nodes:
    """The processes of one cluster by node id, of one release; ``directory`` is for files that all of them share."""

    def __init__(self, release: str, directory: Path) -> None:
        self.release, self.directory = release, directory
        self.nodes: dict[int, Process] = {}

    @property
    def version(self) -> str:
        """The release in the form of a manifest: ``3.9``."""
        return ".".join(self.release.split(".")[:2])

    def stop(self, node: int) -> None:
        """Stop a node gracefully: its session ends at once, and its data stays."""
        self.nodes[node].stop()

    def kill(self, node: int) -> None:
        """Kill a node as ``kill -9`` does: its session expires after some seconds, and its data stays."""
        self.nodes[node].kill()

    def pause(self, node: int) -> None:
        """Suspend a node, as on a machine without free memory."""
        self.nodes[node].pause()

    def resume(self, node: int) -> None:
        """Resume a paused node."""
        self.nodes[node].resume()

    def wait(self, condition: Callable[[], object], what: str) -> None:
        """Wait for a condition; raise ``AssertionError`` with ``what`` after 90 s.

        The pause between two looks is long: each look is a request to brokers, and costs more than the wait.
        """
        wait_until(condition, what, timeout=90.0, interval=0.05)

    def tool(self, name: str, *words: str, release: str = "", text: str | None = None) -> RunResult:
        """Run one of Kafka's command line tools as a process, by default of the cluster's release if it has tools."""
        found = release or (NEWEST if self.release in RELEASES_WITHOUT_TOOLS else self.release)
        jars = fetch_jars(found)
        main = [*archive_options(jars), main_class(found, name), *words]
        command = java_command(jars, self.directory, main, quiet=True)
        said = run(
            command,
            input=text,
            stdin=None if text else DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return RunResult(said.returncode, said.stdout, said.stderr)

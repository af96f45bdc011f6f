"""Brokers in memory that can hide requests, and the command line over them in this process.

bench = Bench(monkeypatch, tmp_path)
kafka = bench.open_brokers()
kafka.hide("DescribeQuorum")
run_topiarist("plan", bench.folder / "all.yaml")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest

from support.builders import spec
from support.cli.runs import document
from support.kafka.fake_kafka import FakeKafka, FakeSession, no_hook
from topiarist.adapters import open_cluster
from topiarist.adapters.kafka_admin.cluster import KafkaCluster
from topiarist.adapters.kafka_admin.connection.connection import Message
from topiarist.adapters.kafka_admin.read import sync
from topiarist.adapters.kafka_admin.usage import reader
from topiarist.adapters.kafka_admin.write import chunks, writer

AnyKafka = TypeVar("AnyKafka", bound=FakeKafka)

BEFORE = [
    spec("grown", partitions=1, replicationFactor=2),
    spec("set", partitions=1, replicationFactor=2, config={"retention.ms": 1000000}),
    spec("old", partitions=1, replicationFactor=2),
]
"""The topics that topiarist owns at first."""

WANTED: dict[str, dict[str, Any]] = {
    "new": {"partitions": 2, "replicationFactor": 3},
    "grown": {"partitions": 3, "replicationFactor": 2},
    "set": {"partitions": 1, "replicationFactor": 2, "config": {"retention.ms": 2000000}},
    "old": {"ensure": "Absent"},
}
"""A creation, a growth, a config, and a deletion."""

KEYS: dict[str, int] = {
    **{
        "Produce": 0,
        "Fetch": 1,
        "ListOffsets": 2,
        "Metadata": 3,
        "FindCoordinator": 10,
        "CreateTopics": 19,
        "DeleteTopics": 20,
    },
    **{"InitProducerId": 22, "AddPartitionsToTxn": 24, "EndTxn": 26, "DescribeConfigs": 32, "CreatePartitions": 37},
    **{"IncrementalAlterConfigs": 44, "ListPartitionReassignments": 46, "DescribeQuorum": 55, "DescribeCluster": 60},
}


class HidingKafka(FakeKafka):
    """Brokers that can hide requests; ``wrongly_sent`` are those that arrived all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.wrongly_sent: list[str] = []

    def hide(self, name: str, newest: int | None = None) -> None:
        """Offer a request up to a version, or not at all."""
        offered = {key: versions for key, versions in self.release.offered.items() if key != KEYS[name]}
        if newest is not None:
            offered[KEYS[name]] = (0, newest)
        self.release = self.release._replace(offered=offered)
        self.versions = offered

    def call_raw(self, request: Message, version: int, timeout: float | None = None) -> bytes:
        """Note requests that the brokers do not offer, to which they close the connection."""
        low, high = self.versions.get(request.API_KEY, (0, -1))
        if not low <= version <= high:
            self.wrongly_sent.append(f"{request.name} {version}")
        return super().call_raw(request, version, timeout)


class Bench:
    """A folder with manifests in ``all.yaml``, and brokers for the command line."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, folder: Path, wanted: Mapping[str, Mapping[str, Any]] = WANTED
    ) -> None:
        self._patch = monkeypatch
        self.folder = folder
        documents = [document("Cluster", "prod", clusterId="ID", kafka={"bootstrapServers": "fake:9092"})]
        documents += [document("Topic", name, clusters=["prod"], **fields) for name, fields in wanted.items()]
        (folder / "all.yaml").write_text("\n---\n".join(documents))
        for module, name in (
            *((chunks, "ANSWER_TIMEOUT_S"), (chunks, "OLD_LOOK_S"), (writer, "_LOOK_INTERVAL_S")),
            *((sync, "LIST_SETTLE_S"), (sync, "SETTLE_S")),
        ):
            monkeypatch.setattr(module, name, 0.0)

    def open_brokers(self) -> HidingKafka:
        """Return brokers with three topics that topiarist owns, which the command line reaches."""
        kafka = HidingKafka()
        list(kafka.apply(kafka.plan(*BEFORE)))
        return self.serve(kafka)

    def serve(self, kafka: AnyKafka) -> AnyKafka:
        """Let the command line reach these brokers."""

        def open_brokers(*_: object, owner: str, on_notice: Callable[[str], None], **__: object) -> KafkaCluster:
            return kafka.open(owner, on_notice=on_notice)

        self._patch.setattr(open_cluster, "load_kafka_cluster", lambda: open_brokers)
        self._patch.setattr(reader, "Session", lambda *_, **__: FakeSession(kafka, no_hook))
        return kafka

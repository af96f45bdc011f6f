"""Deletions of topics in use by the operator: refused, and allowed for as many groups as the annotation says."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from types import TracebackType
from typing import Self

import pytest

from support import states
from support.kubernetes import resource_bodies
from topiarist.adapters.memory import MemoryCluster
from topiarist.errors import Reason
from topiarist.kubernetes.approval import annotation_errors, format_issue
from topiarist.kubernetes.reconciler import SyncState
from topiarist.model.usage import Evidence, GroupType, TopicSample, UsageRead
from topiarist.usage.fold import TopicGroup, add_groups
from unit.kubernetes.reconcile_requests import (
    make_request,
    owned_topic,
    reconcile_topics,
    refusal_reasons,
)

CLUSTER = resource_bodies.cluster(allowRisk=["DataLoss"], allowDeletion=True)


class Brokers:
    """Brokers that know some groups with a member each."""

    def __init__(self, groups: int, records: int = 0) -> None:
        found = [TopicGroup(f"group-{number}", GroupType.CLASSIC, 1, {}) for number in range(groups)]
        self._sample = add_groups(TopicSample(ends=(records,), begins=(0,)), found)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close nothing."""

    def read_cluster_id(self) -> str:
        """Return the cluster id of the state."""
        return states.cluster().cluster_id

    def read(self, topics: Collection[str] | None = None) -> UsageRead:
        """Return the sample for each topic."""
        evidence = Evidence(1_763_800_000, 1, 1, groups_complete=True, retention_minutes=10_080)
        return UsageRead(evidence, dict.fromkeys(topics or (), self._sample))


@pytest.mark.parametrize(
    ("groups", "annotation", "is_deleted"),
    [(0, None, True), (2, None, False), (2, "2 groups", True), (3, "2 groups", False), (1, "1 group", True)],
)
def test_an_annotation_allows_as_many_groups_as_it_says(groups: int, annotation: str | None, is_deleted: bool) -> None:
    """When more groups appear, the annotation allows nothing, and the topic stays."""
    port = MemoryCluster(states.cluster(owned_topic("orders")))
    topic = resource_bodies.topic("orders", ensure="Absent")
    if annotation:
        topic = resource_bodies.updated_body(topic, annotations={"topiarist.dev/allow-in-use": annotation})
    request = make_request(CLUSTER, topic, open_usage_reader=lambda: Brokers(groups))
    view = reconcile_topics(port, request)["orders"]
    assert ("orders" not in port.read().topics) is is_deleted
    assert refusal_reasons(view) == ([] if is_deleted else [Reason.TOPIC_IN_USE])
    assert (view.state is SyncState.REFUSED) is not is_deleted


def test_the_message_of_a_topic_in_use_has_no_measured_values() -> None:
    """While a topic in use gets more records, its message stays: no pass writes the status and an Event anew."""
    port = MemoryCluster(states.cluster(owned_topic("orders")))
    topic = resource_bodies.topic("orders", ensure="Absent")
    shown = set()
    for records in (0, 100):
        request = make_request(CLUSTER, topic, open_usage_reader=partial(Brokers, 2, records))
        (refusal,) = reconcile_topics(port, request)["orders"].refusals
        shown.add(format_issue(refusal))
    (message,) = shown
    assert message.startswith("is in use, with 2 groups: group-0, group-1 [partitions 3 -> 0]: ")
    assert "topiarist.dev/allow-in-use" in message


@pytest.mark.parametrize("value", ["", "true", "two groups", "2", "*", "99999999 groups"])
def test_another_value_of_the_annotation_is_reported(value: str) -> None:
    """A value that is no number of groups allows nothing, and is named."""
    topic = resource_bodies.updated_body(
        resource_bodies.topic("orders"), annotations={"topiarist.dev/allow-in-use": value}
    )
    (error,) = annotation_errors(topic)
    assert "wanted the number of groups" in error


class NoBrokers(Brokers):
    """Brokers that know nothing of the topic."""

    def __init__(self) -> None:
        super().__init__(0)

    def read(self, topics: Collection[str] | None = None) -> UsageRead:
        """Return no sample."""
        return UsageRead(super().read(topics).evidence, {})


@pytest.mark.parametrize("annotation", [None, "0 groups"])
def test_an_unknown_usage_counts_as_no_group(annotation: str | None) -> None:
    """A Cluster that requires evidence keeps a topic of unknown usage, until its owner says that it has no group."""
    port = MemoryCluster(states.cluster(owned_topic("orders")))
    topic = resource_bodies.topic("orders", ensure="Absent")
    if annotation:
        topic = resource_bodies.updated_body(topic, annotations={"topiarist.dev/allow-in-use": annotation})
    strict = resource_bodies.cluster(
        allowRisk=["DataLoss"], allowDeletion=True, evidence={"deletion": "RequireNotSeen"}
    )
    view = reconcile_topics(port, make_request(strict, topic, open_usage_reader=NoBrokers))["orders"]
    assert ("orders" not in port.read().topics) is (annotation is not None)
    assert bool(view.refusals) is (annotation is None)

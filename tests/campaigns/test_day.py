"""A short day of the operator, and proofs that a day finds what it looks for. ``make soak-day`` runs a whole day."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

import pytest

from campaigns.day import find_alarms, run_day
from campaigns.kafka_clusters import CampaignCluster
from topiarist.kubernetes.cache import Store
from topiarist.kubernetes.resources import Resource
from topiarist.kubernetes.status_writer import StatusWriter
from topiarist.model.outcome import Outcome
from topiarist.model.plan import Plan, TopicPlan


@pytest.mark.slow
def test_a_short_day_raises_no_alarm() -> None:
    """Two hours with 20 Topics: every quarter has changes and writes of all kinds, and no alarm."""
    quarters = run_day(topics=20, hours=2)
    assert [*find_alarms(quarters)] == []
    assert all(each.topics == 20 and each.writes for each in quarters)
    assert {kind for each in quarters for kind in each.changes} == {"user", "client", "pipeline", "disturbance"}
    assert {"FewerPartitions", "DataLoss"} <= {reason for each in quarters for reason in each.not_ready}


def _forget_a_topic(upsert: Callable[..., None]) -> Callable[..., None]:
    def planted(store: Store, found: Resource, *listed_at: int) -> None:
        if not found.name.endswith("7"):
            upsert(store, found, *listed_at)

    return planted


def _write_to_others(apply_topic: Callable[..., Outcome]) -> Callable[..., Outcome]:
    def planted(cluster: CampaignCluster, plan: Plan, topic: TopicPlan, *guard: Any) -> Outcome:
        for name in (each for each in cluster.state.topics if each.startswith("warehouse")):
            cluster._clusters.change_topic(name, config={"flush.ms": "77"})
        return apply_topic(cluster, plan, topic, *guard)

    return planted


def _keep_statuses(write_status: Callable[..., Any]) -> Callable[..., Any]:
    def planted(writer: Any, of: Resource, status: Mapping[str, Any]) -> Any:
        vars(writer).setdefault("kept", []).append(repr(status))
        return write_status(writer, of, status)

    return planted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "method", "plant", "alarm"),
    [
        (Store, "upsert", _forget_a_topic, "is NoStatus"),
        (CampaignCluster, "_apply_topic", _write_to_others, "which is not the operator's"),
        (StatusWriter, "write_status", _keep_statuses, "memory: "),
    ],
    ids=("a Topic is forgotten", "a topic of another owner is written", "memory is not freed"),
)
def test_a_planted_fault_raises_its_alarm(
    owner: type, method: str, plant: Callable[[Any], Callable[..., Any]], alarm: str
) -> None:
    """Each kind of alarm is raised by a fault of its kind."""
    with patch.object(owner, method, plant(getattr(owner, method))):
        assert any(alarm in each for each in find_alarms(run_day(topics=20, hours=2)))

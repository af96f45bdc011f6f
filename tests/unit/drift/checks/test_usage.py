"""Findings of drift reports about usage: dormant and oversized topics, and no finding for what is not known."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from topiarist.drift.checks.usage import find_usage_findings
from topiarist.drift.findings.finding import DriftClass
from topiarist.kafka.types import Broker
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState, TopicState
from topiarist.model.usage import DAY_S, CurvePoint, Evidence, Side, TopicSample, TopicUsage, UsageState

NOW = 1_763_800_000
SPEC = ClusterSpec("prod")
UNSEEN = Side(UsageState.NOT_SEEN, observed_since=NOW - 40 * DAY_S)
USED = Side(UsageState.USED, NOW - 60, NOW - 30, NOW - 40 * DAY_S)
MIB = 1 << 20


def find(usage: TopicUsage, name: str = "t", **config: str) -> dict[tuple[DriftClass, str], str | None]:
    """Return the findings of one topic, each with its actual value."""
    keys = {key.replace("_", "."): value for key, value in config.items()}
    topics = {name: TopicState(name, "1", ((1,),), keys)}
    state = ClusterState("7sYk", (Broker(1),), topics, evidence=Evidence(NOW), usage={name: usage})
    found = find_usage_findings(state, SPEC, {})
    return {(each.drift_class, each.field): each.actual for _, each in found}


def sample(partitions: int, size: int, age_days: float = 1) -> TopicSample:
    """Return a sample with partitions of a size, and an age of their oldest record."""
    oldest = int((NOW - age_days * DAY_S) * 1000)
    return TopicSample(
        ends=(9,) * partitions, begins=(0,) * partitions, sizes=(size,) * partitions, oldest=(oldest,) * partitions
    )


@pytest.mark.parametrize(
    ("written", "read", "dormant"),
    [
        (UNSEEN, UNSEEN, True),
        (UNSEEN._replace(observed_since=NOW - 34 * DAY_S), UNSEEN, False),
        (UNSEEN, Side(), False),
        (USED, UNSEEN, False),
        (UNSEEN, USED, False),
        (UNSEEN, UNSEEN._replace(after=NOW - 35 * DAY_S, before=NOW - 34 * DAY_S), False),
    ],
)
def test_a_topic_is_dormant_if_both_sides_are_unseen_for_the_window(written: Side, read: Side, dormant: bool) -> None:
    """An unknown side, a use within the window, and a shorter observation are no finding."""
    found = find(TopicUsage(sample(1, MIB), written, read))
    assert ((DriftClass.DORMANT, "") in found) is dormant


def test_protected_and_internal_topics_are_not_judged() -> None:
    """Topics of other software and of Kafka have no finding."""
    for name in ("__consumer_offsets", "_schemas", "__topiarist"):
        assert find(TopicUsage(sample(1, MIB), UNSEEN, UNSEEN), name) == {}


@pytest.mark.parametrize(
    ("partitions", "days", "rate", "found"),
    [(12, 8, 1, True), (11, 8, 1, False), (12, 6, 1, False), (12, 8, 12, False)],
)
def test_partitions_that_hardly_grow_are_too_many(partitions: int, days: int, rate: int, found: bool) -> None:
    """Twelve partitions with less than 1 MiB a day each, over a week; fewer, or a shorter look, are not judged."""
    curve = (CurvePoint(NOW - days * DAY_S, 0, 1, 1), CurvePoint(NOW, 0, 9, 9))
    usage = TopicUsage(sample(partitions, MIB), USED, USED, curve, rate * MIB)
    assert ((DriftClass.OVERSIZED, "partitions") in find(usage)) is found


@pytest.mark.parametrize(
    ("size", "age_days", "text"),
    [
        (100 * MIB, 2.0, "retention.bytes of 100 MiB cuts first: 2 days are kept"),
        (15 * MIB, 6.9, "retention.bytes of 100 MiB is never reached"),
        (15 * MIB, 2.0, None),
        (50 * MIB, 6.9, None),
        (5 * MIB, 6.9, None),
    ],
)
def test_a_size_limit_that_is_never_reached_or_cuts_first(size: int, age_days: float, text: str | None) -> None:
    """The fullest partition decides; a small log is not judged."""
    config = {"retention_bytes": str(100 * MIB), "retention_ms": str(7 * DAY_S * 1000), "segment_bytes": str(MIB)}
    found = find(TopicUsage(sample(1, size, age_days), USED, USED), **config)
    assert found.get((DriftClass.OVERSIZED, "config.retention.bytes")) == text


def test_no_evidence_is_no_finding() -> None:
    """A snapshot without usage has no findings of these classes."""
    state = ClusterState("7sYk", (Broker(1),), {"t": TopicState("t", "1", ((1,),))})
    assert list(find_usage_findings(state, SPEC, {})) == []
    unlimited = TopicUsage(replace(sample(1, MIB), oldest=(None,)), USED, USED)
    assert find(unlimited, retention_bytes="-1") == {}

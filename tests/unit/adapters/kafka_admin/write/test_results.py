"""Tests of the outcomes and final records of a chunk: a message has only what was compared."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from topiarist.adapters.kafka_admin.write.chunks import Kind, TopicWrite
from topiarist.adapters.kafka_admin.write.requests import CreatedTopic, Element
from topiarist.adapters.kafka_admin.write.results import (
    FinalRecord,
    build_partial_record,
    find_result,
)
from topiarist.model.outcome import Result
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    AddPartitions,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.state import AppliedSpec, OwnershipRecord, ReadError, TopicState

LISTS = ((1, 2), (2, 3))
OLD = OwnershipRecord("default", ("a", "retention.ms"), applied=AppliedSpec(2, (("a", "1"), ("retention.ms", "10"))))
NEW = OwnershipRecord(
    "default",
    ("cleanup.policy", "retention.ms"),
    applied=AppliedSpec(3, (("cleanup.policy", "compact"), ("retention.ms", "20"))),
)


def topic(lists: Any = LISTS, topic_id: str = "ID", **config: str) -> TopicState:
    """Return the topic as it is read."""
    return TopicState(
        "t", "ID", lists, {key.replace("_", "."): text for key, text in config.items()}, topic_id=topic_id
    )


def change_plan() -> TopicPlan:
    """Return a plan that removes a key, sets two, and adds a partition."""
    items = (
        ConfigItem("a", "1", None, SAFE_ASSESSMENT),
        ConfigItem("cleanup.policy", None, "compact", SAFE_ASSESSMENT),
        ConfigItem("retention.ms", "10", "20", SAFE_ASSESSMENT),
    )
    before = TopicState(
        "t", "ID", LISTS, {"a": "1", "retention.ms": "10"}, topic_id="ID", record=OLD, record_valid=True
    )
    growth = AddPartitions(2, (1, 2), ((3, 1),), SAFE_ASSESSMENT)
    return TopicPlan("t", before, OLD, NEW, (growth, UpdateConfig(items)))


CREATION = TopicPlan("t", record_after=NEW, changes=(CreateTopic(LISTS, {"retention.ms": "20"}),))
DELETION = TopicPlan("t", topic(), OLD, OwnershipRecord("default", deleted=True), (DeleteTopic(2, 4, SAFE_ASSESSMENT),))


def write(plan: TopicPlan, element: Element | None = None, kind: Kind = Kind.CREATE, **fields: Any) -> TopicWrite:
    """Return a topic after its requests."""
    fields.setdefault("is_touched", True)
    problem = (element, kind) if element else None
    return TopicWrite(plan, None if plan is CREATION else "ID", problem, **fields)


@pytest.mark.parametrize(
    ("sent", "shown", "result", "record"),
    [
        (write(CREATION), topic(retention_ms="20"), Result.DONE, FinalRecord.PLANNED),
        (write(CREATION), topic(retention_ms=" +020 "), Result.DONE, FinalRecord.PLANNED),
        (write(CREATION, Element(36)), topic(retention_ms="20"), Result.DONE, FinalRecord.PLANNED),
        (write(CREATION, Element(36), is_touched=False), topic(retention_ms="30"), Result.CONFLICT, FinalRecord.BEFORE),
        (write(CREATION, Element(None), late_until=5.0), topic(((3, 1),)), Result.DIFFERS, FinalRecord.BEFORE),
        (write(CREATION, Element(None), late_until=5.0), None, None, None),
        (write(CREATION, Element(None), late_until=0.5), None, Result.SKIPPED, FinalRecord.BEFORE),
        (write(CREATION, Element(None)), None, Result.UNKNOWN, FinalRecord.INTENT),
        (write(CREATION), None, Result.DIFFERS, FinalRecord.BEFORE),
        (write(CREATION), topic(((2, 1), (3, 2)), retention_ms="20"), Result.DIFFERS, FinalRecord.PLANNED),
        (write(CREATION), topic(((2,), (3,)), retention_ms="20"), Result.DIFFERS, FinalRecord.PLANNED),
        (write(CREATION), topic(((2, 1),), retention_ms="20"), Result.DIFFERS, FinalRecord.MADE),
        (write(CREATION), topic(), Result.DIFFERS, FinalRecord.MADE),
        (
            write(CREATION, visible_by=5.0),
            topic(((2, 1), (3, 2)), retention_ms="20"),
            Result.DIFFERS,
            FinalRecord.PLANNED,
        ),
        (write(CREATION, created=CreatedTopic("OTHER")), topic(retention_ms="20"), Result.DIFFERS, FinalRecord.BEFORE),
        (write(CREATION, visible_by=5.0), None, None, None),
        (write(CREATION, Element(44), is_touched=False), None, Result.REFUSED, FinalRecord.BEFORE),
        (write(DELETION), None, Result.DONE, FinalRecord.PLANNED),
        (write(DELETION, Element(100), Kind.DELETE), None, Result.DONE, FinalRecord.PLANNED),
        (
            write(DELETION, Element(100), Kind.DELETE, is_touched=False),
            topic(topic_id="X"),
            Result.CONFLICT,
            FinalRecord.BEFORE,
        ),
        (write(DELETION), topic(topic_id="X"), Result.DIFFERS, FinalRecord.BEFORE),
        (write(DELETION), topic(), Result.DIFFERS, FinalRecord.BEFORE),
        (write(DELETION, Element(73), Kind.DELETE, is_touched=False), topic(), Result.REFUSED, FinalRecord.BEFORE),
        (write(DELETION, Element(7), Kind.DELETE, late_until=5.0), topic(), None, None),
        (write(CREATION), ReadError("t", "no permission"), Result.UNKNOWN, FinalRecord.INTENT),
    ],
)
def test_results(sent: TopicWrite, shown: Any, result: Result | None, record: FinalRecord | None) -> None:
    """What is there decides; a doubt that is not over is read again."""
    found = find_result(sent, shown, now=1.0)
    if result is None:
        assert found is None
    else:
        assert found
        assert found.outcome
        assert (found.outcome.result, found.record) == (result, record)


GROWN = ((1, 2), (2, 3), (3, 1))


@pytest.mark.parametrize(
    ("element", "kind", "late_until", "shown", "result", "reason"),
    [
        (None, Kind.GROW, None, topic(GROWN, cleanup_policy="compact", retention_ms="20"), Result.DONE, None),
        (Element(39), Kind.GROW, None, topic(cleanup_policy="compact", retention_ms="20"), Result.DIFFERS, None),
        (Element(None), Kind.GROW, 5.0, topic(cleanup_policy="compact", retention_ms="20"), None, None),
        (Element(None), Kind.GROW, 0.5, topic(cleanup_policy="compact", retention_ms="20"), Result.PENDING, None),
        (Element(None), Kind.CONFIGURE, 5.0, topic(cleanup_policy="compact", retention_ms="20"), Result.PENDING, None),
        (Element(None), Kind.CONFIGURE, 5.0, topic(a="1", retention_ms="10"), None, None),
        (Element(89), Kind.GROW, None, topic(cleanup_policy="compact", retention_ms="20"), Result.PENDING, "Throttled"),
        (Element(29), Kind.GROW, None, topic(cleanup_policy="compact", retention_ms="20"), Result.FAILED, None),
    ],
)
def test_a_topic_that_has_its_configs_and_not_its_partitions(
    element: Element | None, kind: Kind, late_until: float | None, shown: TopicState, result: Result, reason: str | None
) -> None:
    """Configs come first: an outcome says whether the growth is missing, and the record keeps what was made."""
    found = find_result(write(change_plan(), element, kind, late_until=late_until), shown, now=1.0)
    if result is None:
        assert found is None
        return
    assert found
    assert found.outcome
    assert found.outcome.result is result
    assert found.record is (FinalRecord.PLANNED if result is Result.DONE else FinalRecord.PARTIAL)
    if reason:
        assert found.outcome.reason == reason


def test_a_plan_of_growth_or_of_configs_alone_is_not_made_in_part() -> None:
    """A refusal is the outcome; no message says that configs were changed, or that partitions are missing."""
    both = change_plan()
    growth, configs = (replace(both, changes=(each,)) for each in both.changes)
    for plan, kind, shown in ((growth, Kind.GROW, topic()), (configs, Kind.CONFIGURE, topic(a="1"))):
        found = find_result(write(plan, Element(44, "no"), kind), shown, now=1.0)
        assert found
        assert found.outcome
        assert found.outcome.result is Result.REFUSED
        assert "its configs were changed" not in found.outcome.message


def test_the_record_of_a_part_has_the_keys_that_the_topic_shows() -> None:
    """Only what was made is recorded as applied; keys of the old record that are still set stay managed."""
    plan = change_plan()
    all_set = build_partial_record(plan, topic(cleanup_policy="compact", retention_ms="20"))
    assert all_set == OwnershipRecord(
        "default",
        ("cleanup.policy", "retention.ms"),
        applied=AppliedSpec(2, (("cleanup.policy", "compact"), ("retention.ms", "20"))),
    )
    nothing_set = build_partial_record(plan, topic(a="1", retention_ms="10"))
    assert nothing_set == OLD
    assert build_partial_record(DELETION, topic()) == OLD

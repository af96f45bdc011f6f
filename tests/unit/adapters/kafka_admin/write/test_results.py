"""Tests of the outcomes and final records of a chunk: a message has only what was compared."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from topiarist.adapters.kafka_admin.records.codec import Intent, IntentKind
from topiarist.adapters.kafka_admin.write.chunks import Kind, TopicWrite
from topiarist.adapters.kafka_admin.write.requests import CreatedTopic, Element
from topiarist.adapters.kafka_admin.write.results import (
    FinalRecord,
    build_intent,
    build_partial_record,
    find_created_result,
    find_differences,
    find_result,
    forget_applied,
)
from topiarist.errors import Reason
from topiarist.kafka.types import UNPLACED
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


MADE = CreatedTopic("ID", 2, 2, {"retention.ms": "20"})


@pytest.mark.parametrize(
    ("created", "record", "words"),
    [
        (MADE, FinalRecord.PLANNED, ""),
        (MADE._replace(config={"retention.ms": "20", "retention.bytes": "5"}), FinalRecord.PLANNED, ""),
        (MADE._replace(partitions=3), FinalRecord.MADE, "wanted 2 partitions, found 3"),
        (MADE._replace(replication_factor=3), FinalRecord.PLANNED, "wanted 2 replicas, found 3"),
        (MADE._replace(config={"retention.ms": "30"}), FinalRecord.MADE, "retention.ms: wanted 20, found 30"),
        (MADE._replace(config={}), None, ""),
        (MADE._replace(config={"retention.ms": None}), None, ""),
        (CreatedTopic("ID"), None, ""),
        (None, None, ""),
    ],
)
def test_an_answer_with_counts_and_configs_decides(
    created: CreatedTopic | None, record: FinalRecord | None, words: str
) -> None:
    """What the answer leaves out has to be read; a difference from the plan is shown with both values."""
    found = find_created_result(write(CREATION, created=created), are_lists_obeyed=True)
    assert (found and found.record) == record
    if found:
        assert found.outcome
        assert found.outcome.topic_id == "ID"
        assert found.outcome.result is (Result.DIFFERS if words else Result.DONE)
        assert found.outcome.message.endswith(words)


def test_lists_that_may_not_be_obeyed_are_read() -> None:
    """An answer has no lists: only a plan without lists, or a difference, is decided without a read."""
    lists, counts = CREATION, replace(CREATION, changes=(CreateTopic(((UNPLACED,) * 2,) * 2, {"retention.ms": "20"}),))
    assert find_created_result(write(lists, created=MADE), are_lists_obeyed=False) is None
    done = find_created_result(write(counts, created=MADE), are_lists_obeyed=False)
    assert done
    assert done.outcome
    assert done.outcome.result is Result.DONE
    assert find_created_result(write(lists, created=MADE._replace(partitions=1)), are_lists_obeyed=False)
    assert find_created_result(write(change_plan(), created=MADE), are_lists_obeyed=True) is None


def test_only_a_creation_has_an_id_in_its_outcome() -> None:
    """The id of a topic that was there before is no news."""
    created = find_result(write(CREATION), topic(retention_ms="20"), now=1.0)
    changed = find_result(write(change_plan()), topic(GROWN, cleanup_policy="compact", retention_ms="20"), now=1.0)
    assert [found and found.outcome and found.outcome.topic_id for found in (created, changed)] == ["ID", None]


def test_a_refused_topic_that_cannot_be_read_has_its_refusal() -> None:
    """A refusal is certain, whatever can be read: it has its reason, and the right that the request needs."""
    hidden = ReadError("t", "no permission")
    refused = find_result(write(CREATION, Element(29), is_touched=False), hidden, now=1.0)
    assert refused
    assert refused.outcome
    assert (refused.outcome.result, refused.outcome.reason) == (Result.FAILED, Reason.NO_PERMISSION)
    assert "Create on the topic" in refused.outcome.message
    assert refused.record is FinalRecord.BEFORE


@pytest.mark.parametrize(
    ("fields", "result", "record"),
    [
        ({"is_touched": False}, Result.CONFLICT, FinalRecord.BEFORE),
        ({"created": CreatedTopic("ID")}, Result.UNKNOWN, FinalRecord.PLANNED),
        ({"element": Element(29)}, Result.UNKNOWN, FinalRecord.INTENT),
        ({"element": Element(None)}, Result.UNKNOWN, FinalRecord.INTENT),
    ],
)
def test_a_topic_that_cannot_be_read(fields: dict[str, Any], result: Result, record: FinalRecord) -> None:
    """Only a topic that no request may have changed has a certain outcome."""
    found = find_result(write(CREATION, **fields), ReadError("t", "no permission"), now=1.0)
    assert found
    assert found.outcome
    assert (found.outcome.result, found.record) == (result, record)
    assert "no permission" in found.outcome.message


@pytest.mark.parametrize(("element", "words"), [(Element(None, "lost"), "lost"), (Element(None), "no answer")])
def test_a_change_that_nothing_explains(element: Element, words: str) -> None:
    """Both values are shown, and why it is not known who made it; nothing is recorded for another topic."""
    shown = topic(((3, 1),))
    for sent in (write(CREATION, element), write(CREATION, element, late_until=5.0)):
        found = find_result(sent, shown, now=1.0)
        assert found
        assert found.outcome
        assert (found.outcome.result, found.outcome.reason) == (Result.DIFFERS, Reason.STATE_CONFLICT)
        assert "wanted 2 partitions, found 1" in found.outcome.message
        assert found.outcome.message.endswith(f"it is not known which client did it ({words})")


def test_the_intent_of_each_kind_of_plan() -> None:
    """It has what a later run needs to see what was made: lists, counts and values, and the record after it."""
    assert build_intent(CREATION) == Intent(IntentKind.CREATE, NEW, LISTS, config={"retention.ms": "20"})
    assert build_intent(DELETION) == Intent(IntentKind.DELETE, DELETION.record_after)
    both = change_plan()
    values = {"a": None, "cleanup.policy": "compact", "retention.ms": "20"}
    assert build_intent(both) == Intent(IntentKind.CHANGE, NEW, ((3, 1),), 2, values)
    growth, configs = (replace(both, changes=(each,)) for each in both.changes)
    assert build_intent(growth) == Intent(IntentKind.CHANGE, NEW, ((3, 1),), 2, {})
    assert build_intent(configs) == Intent(IntentKind.CHANGE, NEW, (), 0, values)


def test_values_that_were_applied_can_be_forgotten() -> None:
    """Owner and keys stay, and whether unmanaged keys are removed."""
    record = OwnershipRecord("default", ("a",), applied=AppliedSpec(2, (("a", "1"),), remove_unmanaged=True))
    assert forget_applied(record) == OwnershipRecord("default", ("a",), applied=AppliedSpec(remove_unmanaged=True))
    bare = OwnershipRecord("default")
    assert (forget_applied(bare), forget_applied(None)) == (bare, None)


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


@pytest.mark.parametrize(
    ("plan", "shown", "differences"),
    [
        (DELETION, None, []),
        (DELETION, topic(), ["it still exists"]),
        (DELETION, topic(topic_id="X"), ["it was recreated: it is another topic now"]),
        (CREATION, None, ["it does not exist"]),
        (
            CREATION,
            topic(((1, 2), (3, 2)), retention_ms="20"),
            ["wanted the replicas [2, 3] of partition 1, found [3, 2]"],
        ),
        (CREATION, topic(((1, 2), (3,)), retention_ms="20"), ["wanted 2 replicas, found 1"]),
        (CREATION, topic(((1, 2),)), ["wanted 2 partitions, found 1", "retention.ms: wanted 20, found not set"]),
    ],
)
def test_what_differs_is_named(plan: TopicPlan, shown: TopicState | None, differences: list[str]) -> None:
    """Each difference has both values, and the partition that it is in."""
    assert find_differences(write(plan), shown) == differences


@pytest.mark.parametrize(
    ("shown", "record"),
    [
        (topic(((1, 2), (2, 3), (1, 3)), cleanup_policy="compact", retention_ms="20"), FinalRecord.PLANNED),
        (topic(cleanup_policy="compact", retention_ms="20"), FinalRecord.PARTIAL),
        (topic(GROWN, a="1", retention_ms="10"), FinalRecord.PARTIAL),
    ],
)
def test_the_record_of_a_change_that_was_made_otherwise(shown: TopicState, record: FinalRecord) -> None:
    """It is the planned one only if all partitions and all values are there."""
    found = find_result(write(change_plan()), shown, now=1.0)
    assert found
    assert found.outcome
    assert (found.outcome.result, found.record) == (Result.DIFFERS, record)

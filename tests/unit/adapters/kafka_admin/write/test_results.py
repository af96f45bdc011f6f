"""Tests of the outcomes and final records of a chunk: a message has only what was compared."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from topiarist.adapters.kafka_admin.records.codec import Intent, IntentKind
from topiarist.adapters.kafka_admin.write.chunks import TopicWrite
from topiarist.adapters.kafka_admin.write.requests import CreatedTopic, Element, Kind
from topiarist.adapters.kafka_admin.write.results import (
    TopicResult,
    build_intent,
    build_partial_record,
    find_created_result,
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


def show(found: TopicResult | None) -> str:
    """Return a result as one line: its outcome with the id, and its record."""
    if found is None:
        return "read again"
    if found.outcome is None:
        return f"requeued -> {found.record.name}"
    _, result, reason, message, topic_id = found.outcome
    words = " ".join(filter(None, (result.name, reason and reason.name, topic_id)))
    return f"{words}{message and ': '}{message} -> {found.record.name}"


BOTH = change_plan()
GROWTH, CONFIGS = (replace(BOTH, changes=(each,)) for each in BOTH.changes)
GROWN, GROWN_OTHERWISE = ((1, 2), (2, 3), (3, 1)), ((1, 2), (2, 3), (1, 3))
OLD_CONFIG, NEW_CONFIG = {"a": "1", "retention_ms": "10"}, {"cleanup_policy": "compact", "retention_ms": "20"}
HIDDEN = ReadError("t", "no permission")

OTHERWISE = "DIFFERS MADE_OTHERWISE: the brokers confirmed it, but it is not as planned:"
NEW_OTHERWISE = OTHERWISE.replace(":", " ID:", 1)
UNEXPLAINED = "DIFFERS STATE_CONFLICT: it is not as planned:"
SMALLER = "wanted 2 partitions, found 1; retention.ms: wanted 20, found not set; which client changed it is unknown"
UNSET = "a: wanted not set, found 1; cleanup.policy: wanted compact, found not set; retention.ms: wanted 20, found 10"
LAST_OTHERWISE = "wanted the replicas [3, 1] of partition 2, found [1, 3]"
RECREATED = "was deleted and recreated, so it is a different topic"
ABSENT = "it does not exist -> BEFORE"
NOT_SENT = "SKIPPED NOT_SENT: it was sent and not carried out:"
NOT_GROWN = "its configs were changed, and its partitions were not added"
CONFIGS_ALONE = f"PENDING NOT_SENT: {NOT_GROWN}: run again for that -> PARTIAL"
UNKNOWN = "UNKNOWN OUTCOME_UNKNOWN: whether the change was made is unknown"
NEXT_RUN = "the next run reads it and completes it"
UNREADABLE = f"{UNKNOWN} (it cannot be read: no permission); {NEXT_RUN}"
NOT_ANSWERED = f"{UNKNOWN} (the brokers answered for other topics, and not for this one); {NEXT_RUN} -> INTENT"
BAD_LISTS = "the brokers refuse its replica lists now: the brokers answered INVALID_REPLICA_ASSIGNMENT (39)"
INVALID = "REFUSED CONFIG_INVALID: the brokers answered INVALID_CONFIG (40): bad -> BEFORE"
GONE = "STATE_CONFLICT: existed, and does not exist now: the brokers answered UNKNOWN_TOPIC_OR_PARTITION (3) -> BEFORE"
DENIED = "the brokers answered TOPIC_AUTHORIZATION_FAILED (29)"
LACKS = "FAILED NO_PERMISSION: no permission: it needs"
POLICY = "REFUSED POLICY_VIOLATION: the brokers answered POLICY_VIOLATION (44)"
QUOTA = "FAILED THROTTLED: the brokers answered THROTTLING_QUOTA_EXCEEDED (89) -> BEFORE"
DISABLED = "REFUSED DELETION_DISABLED: the brokers answered TOPIC_DELETION_DISABLED (73) -> BEFORE"
HIDDEN_BEFORE = "CONFLICT TOPIC_UNREADABLE: t: no permission -> BEFORE"


def created(lists: Any = LISTS) -> TopicState:
    """Return the new topic with its configs."""
    return topic(lists, retention_ms="20")


def changed(lists: Any = LISTS, topic_id: str = "ID") -> TopicState:
    """Return the topic with its new configs."""
    return topic(lists, topic_id, **NEW_CONFIG)


def unchanged(lists: Any = LISTS) -> TopicState:
    """Return the topic with its old configs."""
    return topic(lists, **OLD_CONFIG)


def creation(code: int | None, message: str = "", **fields: Any) -> TopicWrite:
    """Return a creation with a problem."""
    return write(CREATION, Element(code, message), **fields)


def deletion(code: int, **fields: Any) -> TopicWrite:
    """Return a deletion with a problem."""
    return write(DELETION, Element(code), Kind.DELETE, **fields)


def growth(code: int | None, message: str = "", plan: TopicPlan = BOTH, **fields: Any) -> TopicWrite:
    """Return a growth with a problem, after new configs unless the plan has none."""
    return write(plan, Element(code, message), Kind.GROW, **fields)


def configured(code: int | None, message: str = "", plan: TopicPlan = BOTH, **fields: Any) -> TopicWrite:
    """Return a change of configs with a problem, before growth unless the plan has none."""
    return write(plan, Element(code, message), Kind.CONFIGURE, **fields)


@pytest.mark.parametrize(
    ("sent", "shown", "expected"),
    [
        (write(CREATION), created(), "DONE ID -> PLANNED"),
        (write(CREATION), topic(retention_ms=" +020 "), "DONE ID -> PLANNED"),
        (creation(36), created(), "DONE ID -> PLANNED"),
        (
            creation(36, is_touched=False),
            topic(retention_ms="30"),
            "CONFLICT STATE_CONFLICT: another topic of this name exists now: retention.ms: wanted 20, found 30"
            " -> BEFORE",
        ),
        (creation(None, late_until=5.0), topic(((3, 1),)), f"{UNEXPLAINED} {SMALLER} (no answer) -> BEFORE"),
        (creation(None, "lost"), topic(((3, 1),)), f"{UNEXPLAINED} {SMALLER} (lost) -> BEFORE"),
        (creation(None, late_until=5.0), None, "read again"),
        (creation(None, late_until=1.0), None, f"{NOT_SENT} it does not exist (no answer) -> BEFORE"),
        (creation(None, "lost", late_until=1.0), None, f"{NOT_SENT} it does not exist (lost) -> BEFORE"),
        (creation(None), None, NOT_ANSWERED),
        (write(CREATION), None, f"{OTHERWISE} {ABSENT}"),
        (
            write(CREATION),
            created(((2, 1), (3, 2))),
            f"{NEW_OTHERWISE} wanted the replicas [1, 2] of partition 0, found [2, 1] -> PLANNED",
        ),
        (write(CREATION), created(((2,), (3,))), f"{NEW_OTHERWISE} wanted 2 replicas, found 1 -> PLANNED"),
        (write(CREATION), created(((2, 1),)), f"{NEW_OTHERWISE} wanted 2 partitions, found 1 -> MADE"),
        (write(CREATION), topic(), f"{NEW_OTHERWISE} retention.ms: wanted 20, found not set -> MADE"),
        (
            write(CREATION, visible_by=5.0),
            created(((1, 2), (3, 2))),
            f"{NEW_OTHERWISE} wanted the replicas [2, 3] of partition 1, found [3, 2] -> PLANNED",
        ),
        (write(CREATION, created=CreatedTopic("OTHER")), created(), f"{OTHERWISE} it {RECREATED} -> BEFORE"),
        (write(CREATION, visible_by=5.0), None, "read again"),
        (write(CREATION, visible_by=1.0), None, f"{OTHERWISE} {ABSENT}"),
        (creation(44, is_touched=False), None, f"{POLICY} -> BEFORE"),
        (creation(39, is_touched=False), None, f"CONFLICT STATE_CONFLICT: {BAD_LISTS} -> BEFORE"),
        (creation(89, is_touched=False), None, "requeued -> BEFORE"),
        (creation(89), None, QUOTA),
        (write(DELETION), None, "DONE -> PLANNED"),
        (deletion(100), None, "DONE -> PLANNED"),
        (deletion(100, is_touched=False), topic(topic_id="X"), f"CONFLICT STATE_CONFLICT: {RECREATED} -> BEFORE"),
        (deletion(100), topic(topic_id="X"), f"DIFFERS STATE_CONFLICT: {RECREATED} -> BEFORE"),
        (write(DELETION), topic(topic_id="X"), f"{OTHERWISE} it was recreated, so it is a different topic -> BEFORE"),
        (write(DELETION), topic(), f"{OTHERWISE} it still exists -> BEFORE"),
        (write(DELETION, visible_by=5.0), topic(), "read again"),
        (deletion(73, is_touched=False), topic(), DISABLED),
        (deletion(29, is_touched=False), topic(), f"{LACKS} Delete on the topic; {DENIED} -> BEFORE"),
        (deletion(7, late_until=5.0), topic(), "read again"),
        (write(BOTH), changed(GROWN), "DONE -> PLANNED"),
        (write(BOTH), changed(GROWN_OTHERWISE), f"{OTHERWISE} {LAST_OTHERWISE} -> PLANNED"),
        (write(BOTH), changed(), f"{OTHERWISE} wanted 3 partitions, found 2 -> PARTIAL"),
        (write(BOTH), unchanged(GROWN), f"{OTHERWISE} {UNSET} -> PARTIAL"),
        (write(BOTH), changed(GROWN, "X"), f"{OTHERWISE} it {RECREATED} -> BEFORE"),
        (write(BOTH, visible_by=5.0), unchanged(GROWN), "read again"),
        (write(BOTH, visible_by=5.0), changed(), "read again"),
        (write(BOTH, visible_by=5.0), changed(GROWN_OTHERWISE), f"{OTHERWISE} {LAST_OTHERWISE} -> PLANNED"),
        (growth(39), changed(), f"DIFFERS STATE_CONFLICT: {NOT_GROWN}: {BAD_LISTS} -> PARTIAL"),
        (
            growth(29),
            changed(),
            f"FAILED NO_PERMISSION: {NOT_GROWN}: no permission: it needs Alter on the topic; {DENIED} -> PARTIAL",
        ),
        (growth(89), changed(), f"PENDING THROTTLED: {NOT_GROWN}, because of a quota: run again for that -> PARTIAL"),
        (growth(None, late_until=5.0), changed(), "read again"),
        (growth(None, late_until=0.5), changed(), CONFIGS_ALONE),
        (configured(None, late_until=5.0), changed(), CONFIGS_ALONE),
        (configured(None, late_until=5.0), unchanged(), "read again"),
        (
            growth(None, "lost", late_until=5.0),
            changed(GROWN_OTHERWISE),
            f"{UNEXPLAINED} {LAST_OTHERWISE}; which client changed it is unknown (lost) -> PARTIAL",
        ),
        (
            growth(37),
            changed(GROWN_OTHERWISE),
            f"DIFFERS STATE_CONFLICT: {NOT_GROWN}: has another partition count now: the brokers answered"
            " INVALID_PARTITIONS (37) -> PARTIAL",
        ),
        (configured(40, "bad", is_touched=False), unchanged(), INVALID),
        (configured(40, "bad", is_touched=False), changed(), INVALID),
        (growth(44, "no", GROWTH, is_touched=False), topic(), f"{POLICY}: no -> BEFORE"),
        (growth(44, "no", GROWTH), topic(), f"{POLICY}: no -> PARTIAL"),
        (growth(39, "", GROWTH, is_touched=False), topic(), f"CONFLICT STATE_CONFLICT: {BAD_LISTS} -> BEFORE"),
        (growth(89, "", GROWTH, is_touched=False), topic(), "requeued -> BEFORE"),
        (configured(44, "no", CONFIGS), topic(a="1"), f"{POLICY}: no -> PARTIAL"),
        (configured(None, "", CONFIGS, late_until=0.5), unchanged(), f"{NOT_SENT} {UNSET} (no answer) -> PARTIAL"),
        (configured(3, "", CONFIGS), None, f"DIFFERS {GONE}"),
        (configured(3, "", CONFIGS, is_touched=False), None, f"CONFLICT {GONE}"),
        (write(CREATION, is_touched=False), HIDDEN, HIDDEN_BEFORE),
        (write(CREATION), HIDDEN, f"{UNREADABLE} -> INTENT"),
        (write(CREATION, created=CreatedTopic("ID")), HIDDEN, f"{UNREADABLE} -> PLANNED"),
        (creation(29), HIDDEN, f"{UNREADABLE} -> INTENT"),
        (creation(None), HIDDEN, f"{UNREADABLE} -> INTENT"),
        (creation(29, is_touched=False), HIDDEN, f"{LACKS} Create on the topic or on the cluster; {DENIED} -> BEFORE"),
        (creation(89, is_touched=False), HIDDEN, HIDDEN_BEFORE),
    ],
)
def test_results(sent: TopicWrite, shown: Any, expected: str) -> None:
    """What is there decides, and a message has only what was compared; a doubt that is not over is read again.

    Configs come before growth: an outcome says if the growth alone is missing. Only a creation has an id.
    """
    assert show(find_result(sent, shown, now=1.0)) == expected


@pytest.mark.parametrize(("plan", "kind", "is_touched"), [(CREATION, Kind.CREATE, False), (BOTH, Kind.GROW, True)])
def test_lists_of_brokers_that_were_not_registered(plan: TopicPlan, kind: Kind, is_touched: bool) -> None:
    """A refusal of lists is that of the brokers which the plan did not know."""
    sent = write(plan, Element(39), kind, is_touched=is_touched)
    found = find_result(sent, topic(**NEW_CONFIG) if plan is BOTH else None, now=1.0, unknown_brokers=True)
    assert found
    assert found.outcome
    assert (found.outcome.result, found.outcome.reason) == (Result.REFUSED, Reason.UNKNOWN_BROKERS)


MADE = CreatedTopic("ID", 2, 2, {"retention.ms": "20"})


@pytest.mark.parametrize(
    ("created", "expected"),
    [
        (MADE, "DONE ID -> PLANNED"),
        (MADE._replace(config={"retention.ms": "20", "retention.bytes": "5"}), "DONE ID -> PLANNED"),
        (MADE._replace(partitions=3), f"{NEW_OTHERWISE} wanted 2 partitions, found 3 -> MADE"),
        (MADE._replace(replication_factor=3), f"{NEW_OTHERWISE} wanted 2 replicas, found 3 -> PLANNED"),
        (MADE._replace(config={"retention.ms": "30"}), f"{NEW_OTHERWISE} retention.ms: wanted 20, found 30 -> MADE"),
        (
            CreatedTopic("ID", 1, 1, {"retention.ms": "30"}),
            f"{NEW_OTHERWISE} wanted 2 partitions, found 1; wanted 2 replicas, found 1;"
            " retention.ms: wanted 20, found 30 -> MADE",
        ),
        (MADE._replace(config={}), "read again"),
        (MADE._replace(config={"retention.ms": None}), "read again"),
        (CreatedTopic("ID"), "read again"),
        (None, "read again"),
    ],
)
def test_an_answer_with_counts_and_configs_decides(created: CreatedTopic | None, expected: str) -> None:
    """What the answer leaves out has to be read; a difference from the plan is shown with both values."""
    assert show(find_created_result(write(CREATION, created=created), are_lists_obeyed=True)) == expected


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


@pytest.mark.parametrize(("is_valid", "keys"), [(True, ("a", "cleanup.policy")), (False, ("cleanup.policy",))])
def test_the_keys_of_an_earlier_topic_do_not_count(is_valid: bool, keys: tuple[str, ...]) -> None:
    """A record that was left by a deleted topic of the name has no keys that stay managed."""
    plan = change_plan()
    assert plan.before
    stale = replace(plan, before=replace(plan.before, record_valid=is_valid))
    found = build_partial_record(stale, topic(a="1", cleanup_policy="compact"))
    assert found
    assert found.config_keys == keys

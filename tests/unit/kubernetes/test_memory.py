"""The operator's memory in records: which consents are used up, and when a cut of retention had its last step."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from support import states
from support.kubernetes import resource_bodies
from support.plans import DATA_LOSS_RISK
from topiarist.errors import Reason
from topiarist.kubernetes.approval import current_consents_digest, write_memory
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    Change,
    ConfigItem,
    Issue,
    Plan,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.state import NO_MEMORY, OperatorMemory, OwnershipRecord, WriteBlock

NOW = datetime(2026, 2, 1, 12, tzinfo=UTC)
NOW_MS = 1_769_947_200_000
PLAIN = resource_bodies.topic("orders")
CONSENT = resource_bodies.topic("orders", meta={"annotations": {"topiarist.dev/allow-risk": "sha256:0123456789abcdef"}})
DIGEST = current_consents_digest(CONSENT)
CUT = UpdateConfig((ConfigItem("retention.ms", "8000", "4000", DATA_LOSS_RISK),))
SAFE_CHANGE = UpdateConfig((ConfigItem("flush.ms", "1", "2", SAFE_ASSESSMENT),))
STEP = Issue(Reason.RETENTION_STEP, "2 more")


def written(
    *changes: Change, memory: OperatorMemory = NO_MEMORY, topic: Any = PLAIN, **fields: Any
) -> OperatorMemory | None:
    """Return the memory in the record that the plan of ``orders`` writes; None if it writes none."""
    before = OwnershipRecord("default", memory=memory)
    seen = replace(states.topic("orders"), record=before)
    found = TopicPlan("orders", seen, before, before, changes, spec=states.spec("orders"))
    plan = Plan("prod", "id", topics=(replace(found, **fields),))
    (made,) = write_memory(plan, states.cluster(seen), {"orders": topic}, {"orders": states.spec("orders")}, NOW).topics
    return made.record_after.memory if made.record_after else None


@pytest.mark.parametrize(
    ("changes", "fields", "memory", "after"),
    [
        ((CUT,), {"notices": (STEP,)}, NO_MEMORY, OperatorMemory("used", NOW_MS)),
        ((CUT,), {"notices": (STEP,)}, OperatorMemory("", 5), OperatorMemory("used", NOW_MS)),
        ((CUT,), {}, OperatorMemory("", 5), OperatorMemory("used")),
        ((SAFE_CHANGE,), {"notices": (STEP,)}, OperatorMemory("", 5), OperatorMemory("", 5)),
        ((SAFE_CHANGE,), {}, OperatorMemory("", 5), NO_MEMORY),
        ((SAFE_CHANGE,), {}, OperatorMemory("old"), OperatorMemory("old")),
        ((SAFE_CHANGE,), {"record_before": None}, NO_MEMORY, NO_MEMORY),
        ((SAFE_CHANGE,), {"record_after": None}, OperatorMemory("", 5), None),
    ],
)
def test_a_change_writes_what_is_to_be_remembered(
    changes: tuple[Change, ...], fields: dict[str, Any], memory: OperatorMemory, after: OperatorMemory | None
) -> None:
    """A step has its time while others follow, a change with a consent uses it up, and other changes keep both."""
    digest = current_consents_digest(PLAIN)
    expected = after._replace(consent=digest) if after and after.consent == "used" else after
    assert written(*changes, memory=memory, **fields) == expected


def test_a_plan_without_changes_writes_nothing() -> None:
    """Notices alone write no record."""
    assert written(memory=OperatorMemory("x", 5), notices=(STEP,)) == OperatorMemory("x", 5)


def used_up(record: OwnershipRecord | None, block: WriteBlock = WriteBlock(), **spec: Any) -> tuple[TopicPlan, ...]:
    """Return the topics of an empty plan after the consents of ``orders`` were looked at."""
    seen = replace(states.topic("orders"), record=record, record_valid=record is not None)
    specs = {"orders": states.spec("orders", **spec)}
    plan = Plan("prod", "id", write_block=block)
    return write_memory(plan, states.cluster(seen), {"orders": CONSENT}, specs, NOW).topics


def test_a_consent_that_nothing_is_left_for_is_used_up() -> None:
    """The record of a topic that is as asked is written alone, once, and keeps the rest of its memory."""
    record = OwnershipRecord("default", ("flush.ms",), memory=OperatorMemory("", 5))
    (made,) = used_up(record)
    assert (made.topic, made.changes, made.record_before) == ("orders", (TakeOwnership(),), record)
    assert made.record_after == replace(record, memory=OperatorMemory(DIGEST, 5))
    assert made.record_after is not None
    assert used_up(made.record_after) == ()


@pytest.mark.parametrize(
    ("record", "block", "fields"),
    [
        (None, WriteBlock(), {}),
        (OwnershipRecord("team"), WriteBlock(), {}),
        (OwnershipRecord("default", deleted=True), WriteBlock(), {}),
        (OwnershipRecord("default"), WriteBlock(Reason.FROZEN, "frozen"), {}),
        (OwnershipRecord("default"), WriteBlock(), {"mode": "Observe"}),
        (OwnershipRecord("default"), WriteBlock(), {"ensure": "Absent"}),
    ],
)
def test_a_consent_stays_where_nothing_may_be_written(
    record: OwnershipRecord | None, block: WriteBlock, fields: dict[str, Any]
) -> None:
    """Without an own record, with a write block, and for topics that are observed or to be absent, nothing is used."""
    assert used_up(record, block, **fields) == ()


def test_a_consent_stays_while_something_is_refused() -> None:
    """A refusal may be what the consent is for."""
    record = OwnershipRecord("default")
    seen = replace(states.topic("orders"), record=record)
    refused = TopicPlan(
        "orders", seen, record, record, refusals=(Issue(Reason.DATA_LOSS, "no"),), spec=states.spec("orders")
    )
    plan = Plan("prod", "id", topics=(refused,))
    found = write_memory(plan, states.cluster(seen), {"orders": CONSENT}, {"orders": states.spec("orders")}, NOW)
    assert found.topics == (refused,)

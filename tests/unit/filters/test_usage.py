"""Usage in a plan: deletions of topics in use are refused, and each topic says what its changes mean for its data."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from support.builders import change_kinds, plan, refusal_reasons, spec, state, topic
from topiarist.filters.observed import filter_usage
from topiarist.model.plan import Plan, TopicPlan
from topiarist.model.usage import (
    DAY_S,
    DEFAULT_USAGE_SETTINGS,
    DeletionCheck,
    Evidence,
    GroupType,
    GroupUsage,
    Side,
    TopicSample,
    TopicUsage,
    UsageSettings,
    UsageState,
)

NOW = 100 * DAY_S
DATA = TopicSample(ends=(5, 5, 5), begins=(0, 0, 0), sizes=(500, 500, 500))
UNSEEN = Side(UsageState.NOT_SEEN, observed_since=NOW - 40 * DAY_S)
UNUSED = TopicUsage(DATA, UNSEEN, UNSEEN)
READ = replace(UNUSED, sample=replace(DATA, groups=(GroupUsage("billing", GroupType.CLASSIC, members=2),)))
WRITTEN = replace(UNUSED, written=Side(UsageState.USED, NOW - 7200, NOW - 3600, NOW - 40 * DAY_S))
NEW = replace(UNUSED, read=Side(UsageState.UNKNOWN, why=("FirstSample",)))
COMPLETE = Evidence(NOW, groups_complete=True)
PROOF = UsageSettings(DeletionCheck.REQUIRE_NOT_SEEN)


def _deletion(usage: TopicUsage | None, evidence: Evidence | None = COMPLETE) -> Plan:
    """Return the plan that deletes ``a``, with its usage."""
    made = plan(state(topic("a")), spec("a", ensure="Absent"))
    return replace(made, usage={"a": usage} if usage else {}, evidence=evidence)


def _filtered(found: Plan, settings: UsageSettings = DEFAULT_USAGE_SETTINGS) -> TopicPlan:
    (left,) = filter_usage(found, settings).topics
    return left


@pytest.mark.parametrize("usage", [READ, WRITTEN], ids=["members", "a write of today"])
def test_a_topic_in_use_is_not_deleted(usage: TopicUsage) -> None:
    """The refusal says who uses the topic and names the override, which needs no proof of anything."""
    left = _filtered(_deletion(usage))
    assert (change_kinds(left), refusal_reasons(left)) == ([], ["TopicInUse"])
    assert left.refusals[0].message.startswith("is in use: deletes 1.5 KiB of data, 15 offsets; ")
    assert left.refusals[0].hint.endswith("--allow-in-use a")
    (allowed,) = filter_usage(_deletion(usage), PROOF, lambda name, known: (name, known) == ("a", usage)).topics
    assert (change_kinds(allowed), allowed.refusals) == (["DeleteTopic"], ())


def test_only_the_deletion_is_refused() -> None:
    """A topic that is read may be changed, and only topics of the plan with usage get a text."""
    made = plan(
        state(topic("a"), topic("b", config={"segment.bytes": "100"})),
        spec("a", ensure="Absent"),
        spec("b", config={"retention.bytes": 300}),
    )
    first, second = filter_usage(replace(made, usage={"b": READ}, evidence=COMPLETE), DEFAULT_USAGE_SETTINGS).topics
    assert (change_kinds(first), first.usage) == (["DeleteTopic"], ())
    assert change_kinds(second) == ["UpdateConfig"]
    # Of each partition 200 bytes are too many, and Kafka keeps up to a segment of 100 of them.
    assert second.usage == (
        "retention.bytes deletes between 300 bytes and 600 bytes of 1.5 KiB; "
        "perhaps read by 1 group: billing (2 members)",
    )


PROOFS: dict[str, tuple[TopicUsage | None, Evidence | None, str]] = {
    "not read": (None, COMPLETE, "its usage was not read"),
    "first look": (
        NEW,
        COMPLETE,
        "no write seen since 1970-03-02 (40 days); it is not known who reads it (this is the first look)",
    ),
    "no evidence": (
        NEW,
        None,
        "no write seen since 1970-03-02 (0 days); it is not known who reads it (this is the first look)",
    ),
    "incomplete": (
        NEW,
        replace(COMPLETE, groups=4, groups_unread=3),
        "no write seen since 1970-03-02 (40 days); it is not known who reads it (this is the first look);"
        " 3 of 4 groups could not be read",
    ),
}


@pytest.mark.parametrize(("usage", "evidence", "words"), PROOFS.values(), ids=PROOFS.keys())
def test_a_cluster_may_require_proof(usage: TopicUsage | None, evidence: Evidence | None, words: str) -> None:
    """Where proof is required, unknown usage refuses a deletion with what is missing; elsewhere it does not."""
    left = _filtered(_deletion(usage, evidence), PROOF)
    assert (change_kinds(left), refusal_reasons(left)) == ([], ["UsageUnknown"])
    assert left.refusals[0].message == f"is not proven to be out of use: {words}"
    assert left.refusals[0].hint.endswith("--evidence; or --allow-in-use a")
    assert change_kinds(_filtered(_deletion(usage, evidence))) == ["DeleteTopic"]


def test_a_whole_window_without_use_is_proof() -> None:
    """The deletion is made, and says what it deletes and which readers may be unknown."""
    left = _filtered(_deletion(UNUSED, replace(COMPLETE, groups_opaque=2)), PROOF)
    assert (change_kinds(left), left.refusals) == (["DeleteTopic"], ())
    meaning, missing = left.usage
    assert meaning.startswith("deletes 1.5 KiB of data, 15 offsets; no write seen since 1970-03-02 (40 days); ")
    assert missing == "2 groups without a readable subscription"

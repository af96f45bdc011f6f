"""Plans of ``topiarist unmanage``: records to remove, and records to keep for another owner."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders import spec, state, topic
from topiarist.errors import Reason
from topiarist.kafka.types import topic_name_problem
from topiarist.model.plan import ALL_TOPICS, ReleaseOwnership, Risk, RunOptions
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import Freeze, OwnershipRecord, ReadError, WriteBlock
from topiarist.output.text.layout import TextLayout
from topiarist.output.text.plan import format_plans
from topiarist.planning.planner import make_plan
from topiarist.planning.preconditions import simulate
from topiarist.planning.without_specs import UnmanageRequest, parse_unmanage_request, plan_unmanage

SEEN = state(
    topic("legacy-a"),
    topic("legacy-b", owner="shop"),
    topic("legacy-c", record=None),
    topic("made-again", record_valid=False),
    dangling_records={
        "gone": OwnershipRecord("default", deleted=True),
        "legacy-gone": OwnershipRecord("default", ("retention.ms",)),
    },
    topic_errors={"odd": ReadError("/topiarist/topics/odd", "it is empty")},
)


def test_names_and_patterns_are_told_apart() -> None:
    """Names and patterns are listed once and sorted; an argument with a character that no topic name has is a
    pattern.
    """
    assert parse_unmanage_request(["b", "a*", "b", "x?", "[ab]"]) == UnmanageRequest(("b",), ("[ab]", "a*", "x?"))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([""], "found an empty topic name"),
        (["topics/orders"], 'found "/" in topic name'),
        ([".."], "which Kafka reserves"),
        (["a b*"], 'the pattern "a b*", which no topic name can match'),
        (["/*", "ok", "\x1b"], 'found "\\u001b" in topic name "\\x1b"'),
    ],
)
def test_words_that_can_be_no_topic_are_refused(words: list[str], why: str) -> None:
    """Invalid topic names are refused with all their errors, before any connection to a cluster."""
    with pytest.raises(ValueError, match="found") as raised:
        parse_unmanage_request(words)
    assert why in str(raised.value)
    assert "\x1b" not in str(raised.value)


@given(st.text())
def test_a_word_is_a_topic_name_a_pattern_or_an_error(word: str) -> None:
    """Every argument is a valid topic name, a pattern, or an error."""
    try:
        found = parse_unmanage_request([word])
    except ValueError:
        return
    assert not any(map(topic_name_problem, found.names))
    assert found.names + found.patterns == (word,)


def test_a_pattern_means_our_own_only() -> None:
    """A pattern selects topics of this owner only; another owner's topic given by name is refused."""
    plan, absent = plan_unmanage(SEEN, "prod", parse_unmanage_request(["legacy-*"]), RunOptions())
    assert [topic.topic for topic in plan.topics] == ["legacy-a", "legacy-gone"]
    assert not absent
    named, _ = plan_unmanage(SEEN, "prod", parse_unmanage_request(["legacy-b"]), RunOptions())
    assert [finding.reason for finding in named.topics[0].refusals] == [Reason.NOT_OWNED]
    taken, _ = plan_unmanage(SEEN, "prod", parse_unmanage_request(["legacy-b"]), RunOptions(take_ownership=ALL_TOPICS))
    assert taken.topics[0].changes == (ReleaseOwnership(),)


def test_what_has_no_record_is_named() -> None:
    """The plan names topics that were never owned, and names without a topic."""
    plan, absent = plan_unmanage(SEEN, "prod", parse_unmanage_request(["legacy-c", "nothing", "gone"]), RunOptions())
    assert [topic.topic for topic in plan.topics] == ["gone"]
    assert absent == ["legacy-c", "nothing"]


def test_a_record_that_cannot_be_read_is_refused() -> None:
    """An unreadable record is refused, because its owner is unknown."""
    plan, absent = plan_unmanage(SEEN, "prod", parse_unmanage_request(["odd"]), RunOptions())
    (refusal,) = plan.topics[0].refusals
    assert (refusal.reason, refusal.message) == (Reason.TOPIC_UNREADABLE, "/topiarist/topics/odd: it is empty")
    assert not absent


def test_releasing_is_safe_and_the_text_says_so() -> None:
    """The text has one Safe line per topic, and marks the record of an earlier topic."""
    plan, _ = plan_unmanage(SEEN, "prod", parse_unmanage_request(["made-again", "legacy-a"]), RunOptions())
    assert {topic.risk for topic in plan.topics} == {Risk.SAFE}
    assert [[notice.reason for notice in topic.notices] for topic in plan.topics] == [
        [],
        [Reason.STALE_OWNERSHIP_RECORD],
    ]
    text = format_plans([plan], TextLayout())
    assert "= legacy-a       unmanage: only the ownership record is removed           Safe" in text
    assert "note         its ownership record belongs to an earlier topic of this" in text
    assert text.endswith("Plan: 2 to unmanage.\n")


def test_a_closed_gate_keeps_every_record() -> None:
    """With a write block, every removal of a record is withheld with the message of the write block."""
    gate = WriteBlock(Reason.FROZEN, f"the cluster is {Freeze('inventory', 'ada', 'today')}")
    closed = state(topic("orders"), write_block=gate)
    plan, _ = plan_unmanage(closed, "prod", parse_unmanage_request(["orders"]), RunOptions())
    assert not plan.has_changes
    assert plan.topics[0].refusals[0].message == "the cluster is frozen by ada since today: inventory"


def test_a_released_topic_is_adopted_again_like_any_other() -> None:
    """After a release the topic is unadopted: it is adopted if it equals its spec, else refused."""
    plan, _ = plan_unmanage(SEEN, "prod", parse_unmanage_request(["legacy-a", "gone"]), RunOptions())
    after = simulate(SEEN, plan.topics)
    assert after.topics.keys() == SEEN.topics.keys()
    assert (after.topics["legacy-a"].record, "gone" in after.dangling_records) == (None, False)
    differs = make_plan(after, ClusterSpec(), [spec("legacy-a", partitions=9), spec("gone")], RunOptions())
    created, refused = differs.topics
    assert [finding.reason for finding in refused.refusals] == [Reason.NOT_ADOPTED]
    assert created.is_actionable

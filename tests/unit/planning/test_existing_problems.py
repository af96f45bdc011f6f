"""Stale entries of a reassignment request: detection and messages."""

from __future__ import annotations

from support.builders import plan_single_topic, refusal_reasons, spec, state, topic
from topiarist.planning.builder import explain_stale_entry, stale_entry_warnings

TOPICS = {"younger": topic("younger")}


def test_each_entry_is_named_with_its_remedy() -> None:
    """The message names the stale entries in order, up to a readable number, with the remedy."""
    gone, younger = stale_entry_warnings({"younger", "gone"}, TOPICS)
    assert gone.startswith("gone: a reassignment request names it")
    assert "another broker become controller" in gone
    assert younger.startswith("younger: a reassignment request names it")
    assert "kafka-reassign-partitions --bootstrap-server" in younger
    *some, rest = stale_entry_warnings({f"t{number}" for number in range(20)}, ())
    assert (len(some), rest) == (8, "the reassignment request has stale entries of 12 more topics")


def test_a_name_of_a_request_is_not_created() -> None:
    """The creation of a topic that a request names is refused, and the refusal has the remedy."""
    found = plan_single_topic(state(reassigning_topics=frozenset({"orders"})), spec())
    assert (refusal_reasons(found), found.is_actionable) == (["ReassignmentInProgress"], False)
    assert found.refusals[0].hint == explain_stale_entry(topic_exists=False).hint


def test_a_topic_that_is_younger_than_its_request_is_not_deleted_until_that_is_gone() -> None:
    """The deletion of a topic younger than its request is refused until the request is deleted, as it would never
    end.
    """
    named = frozenset({"orders"})
    waits = plan_single_topic(state(topic(), reassigning_topics=named), spec(ensure="Absent")).refusals[0]
    stale = plan_single_topic(
        state(topic(), reassigning_topics=named, stale_reassignments=named), spec(ensure="Absent")
    ).refusals[0]
    assert waits.hint == "run again when the reassignment is done"
    assert stale.hint == explain_stale_entry(topic_exists=True).hint

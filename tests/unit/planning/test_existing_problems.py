"""Entries of a reassignment request that outlived their topic: which they are, and what is said of them."""

from __future__ import annotations

from support.builders import plan_single_topic, refusal_reasons, spec, state, topic
from topiarist.planning.existing_problems import explain_stale_entry, find_stale_names, stale_entry_warnings

NAMES = frozenset({"gone", "younger", "older", "odd"})
TOPICS = {"younger": topic("younger", identity=9), "older": topic("older", identity=5), "plain": topic("plain")}


def test_an_entry_is_stale_if_its_topic_is_absent_or_younger() -> None:
    """One that cannot be read may be the one that is meant; of a request that cannot be read nothing is known."""
    assert find_stale_names(NAMES, 7, TOPICS, {"odd"}) == {"gone", "younger"}
    assert find_stale_names(NAMES, None, TOPICS, ()) == frozenset()
    assert find_stale_names((), 7, TOPICS, ()) == frozenset()


def test_each_entry_is_named_with_its_remedy() -> None:
    """In the order of names, and not more of them than a person reads."""
    gone, younger = stale_entry_warnings({"younger", "gone"}, TOPICS)
    assert gone.startswith("gone: a reassignment request names it")
    assert "another broker become controller" in gone
    assert younger.startswith("younger: a reassignment request names it")
    assert "kafka-reassign-partitions --bootstrap-server" in younger
    *some, rest = stale_entry_warnings({f"t{number}" for number in range(20)}, ())
    assert (len(some), rest) == (8, "the reassignment request has stale entries of 12 more topics")


def test_a_name_of_a_request_is_not_created() -> None:
    """Whatever else would be said of it; the remedy stands beside."""
    found = plan_single_topic(state(reassigning_topics=frozenset({"orders"})), spec())
    assert (refusal_reasons(found), found.is_actionable) == (["ReassignmentInProgress"], False)
    assert found.refusals[0].hint == explain_stale_entry(topic_exists=False).hint


def test_a_topic_that_is_younger_than_its_request_is_not_deleted_until_that_is_gone() -> None:
    """To wait for its end would be in vain."""
    named = frozenset({"orders"})
    waits = plan_single_topic(state(topic(), reassigning_topics=named), spec(ensure="Absent")).refusals[0]
    stale = plan_single_topic(
        state(topic(), reassigning_topics=named, stale_reassignments=named), spec(ensure="Absent")
    ).refusals[0]
    assert waits.hint == "run again when the reassignment is done"
    assert stale.hint == explain_stale_entry(topic_exists=True).hint

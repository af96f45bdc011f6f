"""Stale entries of a reassignment request, by the transaction numbers of topics and request."""

from __future__ import annotations

from support.builders import topic
from topiarist.adapters.zookeeper.read.state import find_stale_names

NAMES = frozenset({"gone", "younger", "older", "odd"})
TOPICS = {"younger": topic("younger", identity="9"), "older": topic("older", identity="5"), "plain": topic("plain")}


def test_an_entry_is_stale_if_its_topic_is_absent_or_younger() -> None:
    """An unreadable topic may be the one that the entry means; an unreadable request yields no stale entries."""
    assert find_stale_names(NAMES, 7, TOPICS, {"odd"}) == {"gone", "younger"}
    assert find_stale_names(NAMES, None, TOPICS, ()) == frozenset()
    assert find_stale_names((), 7, TOPICS, ()) == frozenset()

"""Sizes are computed, not guessed: what an assignment takes in bytes, and which changes take room in which list."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from topiarist.core.room import NOTIFICATION_BYTES, assignment_bytes, within_room
from topiarist.core.state import Replicas, Room
from unit.builders import plan, refused, spec, state

_LISTS = st.lists(st.lists(st.integers(0, 5000), max_size=5).map(tuple), max_size=30).map(tuple)


@given(_LISTS, st.integers(0, 20000))
def test_the_size_of_an_assignment_is_that_of_its_json(replicas: tuple[Replicas, ...], first: int) -> None:
    """Each list with its partition's id, exactly; the braces are not counted, a comma is counted for each."""
    text = json.dumps({str(first + index): list(each) for index, each in enumerate(replicas)}, separators=(",", ":"))
    assert assignment_bytes(replicas, first) == len(text) - 1 if replicas else assignment_bytes(replicas, first) == 0


def test_a_notification_is_as_long_as_its_name_in_a_reply() -> None:
    """Four bytes of length, and the sequential name."""
    assert len("config_change_" + "0" * 10) + 4 == NOTIFICATION_BYTES


def test_room_is_taken_by_those_that_fit_only() -> None:
    """A long name that does not fit leaves room for a short one after it."""
    wanted = plan(state(), spec("a" * 100), spec("b"), spec("c"))
    kept, warnings = within_room(wanted.topics, Room(topics=80, limit=100))
    assert [refused(each) for each in kept] == [["TooLarge"], [], []]
    assert warnings == ["the list of topics: 90 of 100 bytes that a broker can read in one reply"]

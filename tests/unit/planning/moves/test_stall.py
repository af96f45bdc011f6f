"""Entries of the reassignment request that the controller never removes, and what removes them."""

from __future__ import annotations

import pytest

from topiarist.kafka.types import Replicas
from topiarist.model.moves import RequestedReassignment
from topiarist.planning.moves.stall import explain_invalid_entry, find_stuck_entry


@pytest.mark.parametrize(
    ("replicas", "cause", "remedy"),
    [
        ((1, 1, 2), "has a broker twice", "request the present replicas of the partition"),
        ((1, -5), "has a negative broker id", "request the replicas that it had before"),
        ((-5, -5), "has a negative broker id", "--cancel"),
    ],
)
def test_an_entry_with_an_invalid_target_is_stuck(replicas: Replicas, cause: str, remedy: str) -> None:
    """A duplicate or a negative id stays in the request for ever; the message names the partition and the remedy."""
    message = find_stuck_entry(RequestedReassignment("orders", 3, replicas), exists=True, is_younger=False)
    assert message.startswith("orders, partition 3: the target ")
    assert cause in message
    assert remedy in message


def test_a_valid_entry_is_not_stuck() -> None:
    """A target of different brokers, or an empty one, is no reason by itself; the entry of a deleted topic is."""
    for replicas in ((1, 2), (0,), ()):
        entry = RequestedReassignment("orders", 0, replicas)
        assert explain_invalid_entry(entry) is None
        assert find_stuck_entry(entry, exists=True, is_younger=False) == ""
        assert find_stuck_entry(entry, exists=True, is_younger=True)
        assert find_stuck_entry(entry, exists=False, is_younger=False)

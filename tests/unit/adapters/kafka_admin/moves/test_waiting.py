"""The time after which moves without progress end a run."""

from __future__ import annotations

import pytest

from topiarist.adapters.kafka_admin.moves.waiting import Progress
from topiarist.errors import Reason, TopiaristError
from topiarist.planning.moves.execution.stall import PartitionInFlight

COPYING = PartitionInFlight("orders", 0, (3, 2), (3,), (1, 2))
SYNCED = PartitionInFlight("orders", 1, (3, 2), (3,), (1, 2, 3))


def test_progress_moves_the_deadline() -> None:
    """Fewer partitions, or fewer replicas that lag, are progress; the same again is none."""
    progress = Progress(10, 1000)
    assert progress.check([COPYING, COPYING], {1, 2, 3}, 0) == ""
    assert progress.check([COPYING, SYNCED], {1, 2, 3}, 9) == ""
    assert progress.check([COPYING], {1, 2, 3}, 18) == ""
    with pytest.raises(TopiaristError, match="broker 3 has not copied all of 1 partition yet") as caught:
        progress.check([COPYING], {1, 2, 3}, 28)
    assert caught.value.reason is Reason.MOVES_STALLED


def test_what_blocks_is_named_before_the_deadline() -> None:
    """A target that is not registered; further moves begin a new time."""
    progress = Progress(10, 1000)
    assert "broker 3 is not registered" in progress.check([COPYING], {1, 2}, 0)
    progress.reset()
    assert progress.check([COPYING, COPYING], {1, 2, 3}, 11) == ""

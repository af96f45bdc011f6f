"""States of partitions and replicas on the move as znodes: what Kafka writes is read, and nothing else is."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topiarist.adapters.zookeeper.codec.partitions import decode_partition_state, decode_reassignments
from topiarist.adapters.zookeeper.codec.strict_json import ZnodeError
from topiarist.model.state import PartitionState, Reassignment

KAFKAS = b'{"controller_epoch":7,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}'


def state(**fields: Any) -> bytes:
    """A state with some fields otherwise; those that are None are missing."""
    found = json.loads(KAFKAS) | fields
    return json.dumps({name: value for name, value in found.items() if value is not None}).encode()


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        (KAFKAS, PartitionState(1, (1, 2), 0, 7)),
        (state(leader=-1, isr=[3]), PartitionState(-1, (3,), 0, 7)),
        (state(leader=-2, isr=[]), PartitionState(-2, (), 0, 7)),
        (state(leader_recovery_state=1, isr=[1]), PartitionState(1, (1,), 0, 7, recovering=True)),
        (state(leader_recovery_state=0), PartitionState(1, (1, 2), 0, 7)),
        (state(vendor="x"), PartitionState(1, (1, 2), 0, 7)),
    ],
)
def test_a_state_is_read(raw: bytes, wanted: PartitionState) -> None:
    """Every release's, with no leader, during a deletion, and after an unclean election (contract 4.4)."""
    assert decode_partition_state(raw) == wanted


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "it is empty"),
        (b"null", "it is not a JSON object"),
        (state(version=2), '"version" is 2, newer than the 1 this program knows'),
        (state(version=None), '"version" must be a positive integer'),
        (state(leader="1"), '"leader" must be an integer'),
        (state(leader=-3), '"leader" must be a broker id, -1 or -2, not -3'),
        (state(leader=True), '"leader" must be an integer'),
        (state(isr=None), '"isr" must be a list of broker ids, not missing or null'),
        (state(isr=[1, "2"]), '"isr" must be a list of broker ids, not [1, "2"]'),
        (state(isr=[-1]), '"isr" must be a list of broker ids'),
        (state(isr=[True]), '"isr" must be a list of broker ids'),
        (state(isr=[2**31]), '"isr" must be a list of broker ids'),
        (state(leader_epoch=None), '"leader_epoch" must be an integer'),
        (state(controller_epoch="7"), '"controller_epoch" must be an integer'),
        (state(leader_recovery_state=2), '"leader_recovery_state" must be 0 or 1, not 2'),
    ],
)
def test_an_odd_state_says_why(raw: bytes, why: str) -> None:
    """What Kafka would not have written is never guessed at."""
    with pytest.raises(ZnodeError, match=re.escape(why)):
        decode_partition_state(raw)


def test_what_moves_is_read_from_the_topic() -> None:
    """Replicas added and removed, each partition once, in order; empty lists are no move."""
    raw = b'{"version":3,"partitions":{},"adding_replicas":{"10":[4],"2":[5,6]},"removing_replicas":{"2":[1],"3":[]}}'
    assert decode_reassignments(raw) == {2: Reassignment((5, 6), (1,)), 10: Reassignment((4,), ())}
    assert decode_reassignments(b'{"version":1,"partitions":{"0":[1]}}') == {}
    with pytest.raises(ZnodeError, match="adding_replicas"):
        decode_reassignments(b'{"adding_replicas":{"0":1}}')


@given(
    st.binary(max_size=60)
    | st.builds(
        lambda fields: state(**fields),
        st.dictionaries(
            st.sampled_from(["leader", "isr", "version", "leader_epoch", "leader_recovery_state"]),
            st.none() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=3) | st.booleans(),
        ),
    )
)
def test_no_bytes_do_more_than_say_why(raw: bytes) -> None:
    """Whatever stands there, reading it ends in a state or in one kind of error."""
    for decode in (decode_partition_state, decode_reassignments):
        with suppress(ZnodeError):
            decode(raw)

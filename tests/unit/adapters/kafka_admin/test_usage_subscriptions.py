"""Subscriptions and assignments of classic consumers: what clients write, and what no client writes."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topiarist.adapters.kafka_admin.usage.groups import Undecodable, decode_assignment, decode_subscription


def text(value: str) -> bytes:
    """Return a text with its length."""
    return struct.pack(">h", len(value.encode())) + value.encode()


def subscription(*topics: str, version: int = 1) -> bytes:
    """Return a subscription as clients write it, with what later versions add."""
    return struct.pack(">hi", version, len(topics)) + b"".join(map(text, topics)) + struct.pack(">ii", -1, 0)


def assignment(**topics: list[int]) -> bytes:
    """Return an assignment as clients write it."""
    parts = (text(name) + struct.pack(f">i{len(ids)}i", len(ids), *ids) for name, ids in topics.items())
    return struct.pack(">hi", 0, len(topics)) + b"".join(parts) + struct.pack(">i", -1)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 32])
def test_the_topics_of_all_versions_are_read(version: int) -> None:
    """The topics come first in every version."""
    assert decode_subscription(subscription("orders", "ümlaut", version=version)) == {"orders", "ümlaut"}
    assert decode_subscription(subscription(version=version)) == frozenset()


def test_an_assignment_names_the_topics_with_partitions() -> None:
    """A topic without partitions is not assigned, and a member without an assignment has no bytes."""
    assert decode_assignment(assignment(orders=[0, 2], idle=[])) == {"orders"}
    assert decode_assignment(b"") == frozenset()


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\0", b"\0\1opaque", subscription("a")[:8], struct.pack(">hi", 1, -1)),
        struct.pack(">hih", 1, 1, -1) + b"abcd",
        struct.pack(">hih", 1, 1, 0) + b"abcd",
        *(subscription("a", version=version) for version in (-1, 33)),
        struct.pack(">hi", 1, 2) + text("a"),
        struct.pack(">hih", 1, 1, 2) + b"\xff\xff",
    ],
)
def test_other_bytes_are_no_subscription(data: bytes) -> None:
    """What is not of the form is an error, never an empty subscription."""
    with pytest.raises(Undecodable):
        decode_subscription(data)


@pytest.mark.parametrize(
    ("cut", "words"), [(6, "it ends early"), (7, "it ends early"), (8, "no topic name"), (9, "no topic name")]
)
def test_a_subscription_that_is_cut(cut: int, words: str) -> None:
    """A length that is not whole is told from a name that is missing, or shorter than its length."""
    with pytest.raises(Undecodable, match=words):
        decode_subscription(subscription("ab")[:cut])


@pytest.mark.parametrize(("count", "is_read"), [(2, True), (3, False), (-1, True)])
def test_an_assignment_that_is_cut(count: int, is_read: bool) -> None:
    """All partitions have to be there; a null list has none."""
    data = struct.pack(">hi", 0, 1) + text("a") + struct.pack(">i", count) + struct.pack(">ii", 0, 1) * (count > 0)
    if is_read:
        assert decode_assignment(data) == ({"a"} if count > 0 else frozenset())
    else:
        with pytest.raises(Undecodable):
            decode_assignment(data)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """No bytes raise anything else."""
    for decode in (decode_subscription, decode_assignment):
        with suppress(Undecodable):
            assert all(decode(data))

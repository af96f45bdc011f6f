"""What reaches the operator's store late: events from before a listing, and answers about what has gone since."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support import bodies
from topiarist.kubernetes.resources import Resource
from topiarist.kubernetes.store import Store


@pytest.fixture
def store() -> Store:
    """One that was filled by a listing at version 100, which has seen nothing."""
    found = Store("shop", lambda name: None)
    found.listed("Topic", "", 100)
    return found


def orders(version: int, uid: str = "a") -> Resource:
    """A Topic as it was at this version."""
    return replace(bodies.topic("orders"), version=version, uid=uid)


@pytest.mark.parametrize(("version", "there"), [(99, False), (100, False), (101, True)])
def test_what_a_listing_has_not_seen_does_not_come_back(store: Store, version: int, there: bool) -> None:
    """An event of before, which was under way for long, tells of a Topic that was deleted since."""
    store.heard(orders(version))
    assert bool(store.topics) is there


def test_a_listing_of_one_namespace_says_nothing_of_others(store: Store) -> None:
    """What is new there is taken."""
    store.listed("Topic", "elsewhere", 200)
    store.heard(orders(150))
    assert store.topics


def test_the_end_of_an_earlier_one_leaves_the_later(store: Store) -> None:
    """A Topic that was deleted and made again; the listing has seen that before the watch told of the deletion."""
    store.put(orders(120, uid="b"))
    store.drop(orders(110, uid="a"))
    assert store.topics["shop", "orders"].uid == "b"
    store.drop(orders(130, uid="b"))
    assert not store.topics


def test_an_answer_brings_nothing_back(store: Store) -> None:
    """A status was written, the Topic was deleted, and only then the answer came; also if there is another by now."""
    store.answered(orders(110))
    assert not store.topics
    store.put(orders(120, uid="b"))
    store.answered(orders(125, uid="a"))
    assert store.topics["shop", "orders"].uid == "b"
    store.answered(orders(126, uid="b"))
    assert store.topics["shop", "orders"].version == 126

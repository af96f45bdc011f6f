"""What reaches the operator's store late: events behind answers, and answers about what was deleted since."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.kubernetes import resource_bodies
from topiarist.kubernetes.api.resources import Resource
from topiarist.kubernetes.cache import Store


@pytest.fixture
def store() -> Store:
    """One that is empty."""
    return Store("shop", lambda name: None)


def orders(version: int, uid: str = "a") -> Resource:
    """A Topic as it was at this version."""
    return replace(resource_bodies.topic("orders"), resource_version=version, uid=uid)


def test_the_end_of_an_earlier_one_leaves_the_later(store: Store) -> None:
    """A Topic that was deleted and created again: the end of the first is received behind the second."""
    store.upsert(orders(120, uid="b"))
    store.remove(orders(130, uid="a"))
    assert store.topics["shop", "orders"].uid == "b"


def test_a_list_removes_what_was_written_since_the_last_event(store: Store) -> None:
    """The answer to a write came, then the watch was interrupted; the informer knows only the older version."""
    store.upsert(orders(110))
    store.on_write_response(orders(120))
    store.remove(orders(110))
    assert not store.topics


def test_an_answer_and_an_event_that_cross(store: Store) -> None:
    """Whichever comes first, the later version stays; an equal one counts."""
    store.upsert(orders(110))
    store.on_write_response(orders(120))
    store.upsert(orders(115))
    assert store.topics["shop", "orders"].resource_version == 120
    newest = orders(120)
    store.upsert(newest)
    assert store.topics["shop", "orders"] is newest


def test_an_answer_brings_nothing_back(store: Store) -> None:
    """A status was written, the Topic was deleted, and only then the answer came; also if there is another by now."""
    store.on_write_response(orders(110))
    assert not store.topics
    store.upsert(orders(120, uid="b"))
    store.on_write_response(orders(125, uid="a"))
    assert store.topics["shop", "orders"].uid == "b"
    store.on_write_response(orders(126, uid="b"))
    assert store.topics["shop", "orders"].resource_version == 126

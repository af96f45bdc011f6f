"""Late data in the operator's store: events that follow newer responses, and responses about deleted resources."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from support.kubernetes import resource_bodies
from topiarist.kubernetes.api.resources import Resource
from topiarist.kubernetes.cache import Store


@pytest.fixture
def store() -> Store:
    """Return an empty store."""
    return Store("shop", lambda *_: None)


def orders(version: int, uid: str = "a") -> Resource:
    """Return a Topic at this version."""
    return replace(resource_bodies.topic("orders"), resource_version=version, uid=uid)


def test_the_end_of_an_earlier_one_leaves_the_later(store: Store) -> None:
    """The late deletion event of a Topic does not remove the recreated Topic."""
    store.upsert(orders(120, uid="b"))
    store.remove(orders(130, uid="a"))
    assert store.topics["shop", "orders"].uid == "b"


def test_a_list_removes_what_was_written_since_the_last_event(store: Store) -> None:
    """A list removes a Topic that was deleted during an interrupted watch, although a write response had a newer
    version.
    """
    store.upsert(orders(110))
    store.on_write_response(orders(120))
    store.remove(orders(110))
    assert not store.topics


def test_an_answer_and_an_event_that_cross(store: Store) -> None:
    """The later version remains in either order of response and event; an equal version counts."""
    store.upsert(orders(110))
    store.on_write_response(orders(120))
    store.upsert(orders(115))
    assert store.topics["shop", "orders"].resource_version == 120
    newest = orders(120)
    store.upsert(newest)
    assert store.topics["shop", "orders"] is newest


def test_an_answer_brings_nothing_back(store: Store) -> None:
    """The late response to a status write does not restore a deleted Topic, nor replace a recreated one."""
    store.on_write_response(orders(110))
    assert not store.topics
    store.upsert(orders(120, uid="b"))
    store.on_write_response(orders(125, uid="a"))
    assert store.topics["shop", "orders"].uid == "b"
    store.on_write_response(orders(126, uid="b"))
    assert store.topics["shop", "orders"].resource_version == 126


@pytest.mark.parametrize(("listed_at", "kept"), [(0, 120), (115, 120), (120, 110), (130, 110)])
def test_a_later_list_replaces_a_later_version(store: Store, listed_at: int, kept: int) -> None:
    """A list that crosses the response to a write changes nothing; a later one shows that etcd was restored."""
    store.upsert(orders(110))
    store.on_write_response(orders(120))
    store.upsert(orders(110), listed_at)
    assert store.topics["shop", "orders"].resource_version == kept

"""What reaches the operator's store late: events from before a listing, and answers about what has gone since."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.kubernetes import resource_bodies
from topiarist.kubernetes.api.resources import Resource
from topiarist.kubernetes.cache import Store


@pytest.fixture
def store() -> Store:
    """One that was filled by a listing at version 100, which has seen nothing."""
    found = Store("shop", lambda name: None)
    found.record_list_version("Topic", "", 100)
    return found


def orders(version: int, uid: str = "a") -> Resource:
    """A Topic as it was at this version."""
    return replace(resource_bodies.topic("orders"), resource_version=version, uid=uid)


@pytest.mark.parametrize(("version", "there"), [(99, False), (100, False), (101, True)])
def test_what_a_listing_has_not_seen_does_not_come_back(store: Store, version: int, there: bool) -> None:
    """An event of before, which was under way for long, tells of a Topic that was deleted since."""
    store.on_watch_event(orders(version))
    assert bool(store.topics) is there


def test_a_listing_of_one_namespace_says_nothing_of_others(store: Store) -> None:
    """What is new there is taken."""
    store.record_list_version("Topic", "elsewhere", 200)
    store.on_watch_event(orders(150))
    assert store.topics


def test_the_end_of_an_earlier_one_leaves_the_later(store: Store) -> None:
    """A Topic that was deleted and made again; the listing has seen that before the watch told of the deletion."""
    store.upsert(orders(120, uid="b"))
    store.remove(orders(110, uid="a"))
    assert store.topics["shop", "orders"].uid == "b"
    store.remove(orders(130, uid="b"))
    assert not store.topics


def test_an_answer_brings_nothing_back(store: Store) -> None:
    """A status was written, the Topic was deleted, and only then the answer came; also if there is another by now."""
    store.on_write_response(orders(110))
    assert not store.topics
    store.upsert(orders(120, uid="b"))
    store.on_write_response(orders(125, uid="a"))
    assert store.topics["shop", "orders"].uid == "b"
    store.on_write_response(orders(126, uid="b"))
    assert store.topics["shop", "orders"].resource_version == 126

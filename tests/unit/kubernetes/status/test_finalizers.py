"""Which Topics carry our finalizer: those whose topics may have to go with them, for as long as that may be."""

from __future__ import annotations

from typing import Any

import pytest

from support.kubernetes import resource_bodies
from topiarist.errors import Reason
from topiarist.kubernetes.api.resources import FINALIZER, Resource
from topiarist.kubernetes.reconciler import SyncState
from topiarist.kubernetes.status.finalizers import needs_finalizer
from unit.kubernetes.topic_results import make_result

GOING: dict[str, Any] = {"deletionTimestamp": "2026-02-01T00:00:00Z"}
HELD: dict[str, Any] = {**GOING, "finalizers": [FINALIZER]}
THERE = [state for state in SyncState if state not in (SyncState.ABSENT, SyncState.OBSERVED)]
"""The states of a topic that is, or may be, on the cluster, and that we may have to delete."""


def held(topic: Resource, *states: SyncState | None, sure: bool = True) -> bool:
    """Whether a Topic has our finalizer afterwards, on clusters where it stands so (None: not seen)."""
    views = {f"c{number}": make_result(topic, state) if state else None for number, state in enumerate(states)}
    return needs_finalizer(topic, views, all_clusters_known=sure)


def topic(policy: str = "Delete", **meta: Any) -> Resource:
    """A Topic with a deletion policy."""
    return resource_bodies.topic("orders", deletionPolicy=policy, meta=meta)


@pytest.mark.parametrize("state", SyncState)
def test_retain_has_none(state: SyncState) -> None:
    """Nothing has to be done when it goes; one that it still has goes."""
    assert not held(topic("Retain"), state)
    assert not held(topic("Retain", finalizers=[FINALIZER]), state)


@pytest.mark.parametrize("state", SyncState)
def test_delete_has_one_where_the_topic_may_be(state: SyncState) -> None:
    """Also where it does not exist yet, or is refused: whatever may become of it."""
    assert held(topic(), state) is (state in THERE)
    assert held(topic(finalizers=[FINALIZER]), state) is (state in THERE)


@pytest.mark.parametrize("state", SyncState)
def test_a_deletion_waits_until_the_topic_is_gone(state: SyncState) -> None:
    """And no longer."""
    assert held(topic(**HELD), state) is (state in THERE)


@pytest.mark.parametrize("reason", [Reason.NOT_OWNED, Reason.NOT_ADOPTED, Reason.RESOURCE_CONFLICT, Reason.NOT_ALLOWED])
def test_what_is_not_ours_to_delete_needs_none(reason: Reason) -> None:
    """Another Topic has the claim, or the topic was never ours: the resource may go at once."""
    metas: list[dict[str, Any]] = [{}, {"finalizers": [FINALIZER]}, HELD]
    for meta in metas:
        found = topic(**meta)
        results = {"prod": make_result(found, SyncState.REFUSED, reason)}
        assert not needs_finalizer(found, results, all_clusters_known=True)


@pytest.mark.parametrize("reason", [Reason.DELETION_HELD, Reason.BUDGET_EXCEEDED, Reason.FROZEN, Reason.DATA_LOSS])
def test_a_deletion_that_is_held_keeps_the_resource(reason: Reason) -> None:
    """It is not forgotten."""
    found = topic(**HELD)
    results = {"prod": make_result(found, SyncState.REFUSED, reason)}
    assert needs_finalizer(found, results, all_clusters_known=True)


def test_every_cluster_counts() -> None:
    """The last one from which the topic goes lets the resource go."""
    assert held(topic(**HELD), SyncState.ABSENT, SyncState.WAITING)
    assert not held(topic(**HELD), SyncState.ABSENT, SyncState.ABSENT)


def test_a_cluster_that_was_not_seen_changes_nothing() -> None:
    """Nobody knows whether the topic is there: what is there stays, and what is not is not added."""
    assert held(topic(**HELD), None)
    assert held(topic(**HELD), SyncState.ABSENT, None)
    assert held(topic(finalizers=[FINALIZER]), None)
    assert not held(topic(), None)
    assert held(topic(), SyncState.SYNCED, None)


def test_without_a_cluster_there_is_nothing_to_delete() -> None:
    """A Cluster that is gone takes the finalizers with it: records and topics stay."""
    assert not held(topic(**HELD))
    assert not held(topic(finalizers=[FINALIZER]))


def test_as_long_as_nobody_knows_the_clusters_all_stays_as_it_is() -> None:
    """A Cluster that cannot be read may be the one that is meant."""
    for state in (SyncState.ABSENT, SyncState.SYNCED, None):
        assert held(topic(**HELD), state, sure=False)
        assert not held(topic(), state, sure=False)
    assert held(topic(**HELD), sure=False)


def test_a_topic_that_cannot_be_read_keeps_what_it_has() -> None:
    """What it asks for is not known."""
    for there in (True, False):
        meta = {"finalizers": [FINALIZER]} if there else {}
        broken = resource_bodies.topic("orders", partitions=0, meta=meta)
        assert broken.manifest is None
        assert needs_finalizer(broken, {}, all_clusters_known=True) is there


@pytest.mark.parametrize("sure", [True, False])
def test_an_annotation_lets_go_whatever_else_is_so(sure: bool) -> None:
    """Its owner's word, for a deletion that is held, and for a Topic that cannot be read."""
    notes: dict[str, Any] = {"annotations": {"topiarist.dev/retain": "true"}}
    assert not held(topic(**HELD, **notes), SyncState.REFUSED, None, sure=sure)
    assert not held(topic(**notes), SyncState.SYNCED, sure=sure)
    broken = resource_bodies.topic("orders", partitions=0, meta={"finalizers": [FINALIZER], **notes})
    assert not needs_finalizer(broken, {}, all_clusters_known=sure)
    other: dict[str, Any] = {"annotations": {"topiarist.dev/retain": "yes"}}
    assert held(topic(**HELD, **other), SyncState.REFUSED, sure=sure)


def test_none_is_added_to_what_is_going() -> None:
    """The API server would refuse it."""
    assert not held(topic(**GOING, finalizers=["another"]), SyncState.SYNCED)


def test_a_topic_that_switched_to_retain_while_going_is_let_go() -> None:
    """Whoever finds a deletion held may still say that the topic is to stay."""
    assert not held(topic("Retain", **HELD), SyncState.REFUSED)

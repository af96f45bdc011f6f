"""Finalizers of Topics: which Topics carry topiarist's finalizer, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from support.kubernetes import resource_bodies
from topiarist.errors import Reason
from topiarist.kubernetes.api.resources import FINALIZER, Resource
from topiarist.kubernetes.reconciler import SyncState
from topiarist.kubernetes.status.writer import needs_finalizer
from unit.kubernetes.topic_results import make_result

GOING: dict[str, Any] = {"deletionTimestamp": "2026-02-01T00:00:00Z"}
HELD: dict[str, Any] = {**GOING, "finalizers": [FINALIZER]}
THERE = [state for state in SyncState if state not in (SyncState.ABSENT, SyncState.OBSERVED)]
"""The states of a topic that is, or may be, on the cluster, and that we may have to delete."""


def held(topic: Resource, *states: SyncState | None, sure: bool = True) -> bool:
    """Return if a Topic needs the finalizer, for these states on its clusters (None: no result)."""
    views = {f"c{number}": make_result(topic, state) if state else None for number, state in enumerate(states)}
    return needs_finalizer(topic, views, all_clusters_known=sure)


def topic(policy: str = "Delete", **meta: Any) -> Resource:
    """Return a Topic with a deletion policy."""
    return resource_bodies.topic("orders", deletionPolicy=policy, meta=meta)


@pytest.mark.parametrize("state", SyncState)
def test_retain_has_none(state: SyncState) -> None:
    """A Topic with policy Retain needs no finalizer, and topiarist removes an existing one."""
    assert not held(topic("Retain"), state)
    assert not held(topic("Retain", finalizers=[FINALIZER]), state)


@pytest.mark.parametrize("state", SyncState)
def test_delete_has_one_where_the_topic_may_be(state: SyncState) -> None:
    """A Topic with policy Delete needs the finalizer while its topic may exist, also before creation and after a
    refusal.
    """
    assert held(topic(), state) is (state in THERE)
    assert held(topic(finalizers=[FINALIZER]), state) is (state in THERE)


@pytest.mark.parametrize("state", SyncState)
def test_a_deletion_waits_until_the_topic_is_gone(state: SyncState) -> None:
    """The finalizer delays the deletion of a Topic until its topic is deleted, and no longer."""
    assert held(topic(**HELD), state) is (state in THERE)


@pytest.mark.parametrize("reason", [Reason.NOT_OWNED, Reason.NOT_ADOPTED, Reason.RESOURCE_CONFLICT, Reason.NOT_ALLOWED])
def test_what_is_not_ours_to_delete_needs_none(reason: Reason) -> None:
    """A Topic that lost the claim, or does not own its topic, needs no finalizer and can be deleted at once."""
    metas: list[dict[str, Any]] = [{}, {"finalizers": [FINALIZER]}, HELD]
    for meta in metas:
        found = topic(**meta)
        results = {"prod": make_result(found, SyncState.REFUSED, reason)}
        assert not needs_finalizer(found, results, all_clusters_known=True)


@pytest.mark.parametrize("reason", [Reason.DELETION_HELD, Reason.BUDGET_EXCEEDED, Reason.FROZEN, Reason.DATA_LOSS])
def test_a_deletion_that_is_held_keeps_the_resource(reason: Reason) -> None:
    """A withheld deletion keeps the finalizer, so the resource remains."""
    found = topic(**HELD)
    results = {"prod": make_result(found, SyncState.REFUSED, reason)}
    assert needs_finalizer(found, results, all_clusters_known=True)


def test_every_cluster_counts() -> None:
    """topiarist removes the finalizer only after the topic is absent from every cluster."""
    assert held(topic(**HELD), SyncState.ABSENT, SyncState.WAITING)
    assert not held(topic(**HELD), SyncState.ABSENT, SyncState.ABSENT)


def test_a_cluster_that_was_not_seen_changes_nothing() -> None:
    """A cluster without a result neither adds nor removes a finalizer, because the state of the topic is unknown."""
    assert held(topic(**HELD), None)
    assert held(topic(**HELD), SyncState.ABSENT, None)
    assert held(topic(finalizers=[FINALIZER]), None)
    assert not held(topic(), None)
    assert held(topic(), SyncState.SYNCED, None)


def test_without_a_cluster_there_is_nothing_to_delete() -> None:
    """After the deletion of the Cluster, Topics need no finalizer; records and topics remain."""
    assert not held(topic(**HELD))
    assert not held(topic(finalizers=[FINALIZER]))


def test_as_long_as_nobody_knows_the_clusters_all_stays_as_it_is() -> None:
    """If not all Clusters are readable, finalizers remain unchanged, because an unreadable Cluster may be the selected
    one.
    """
    for state in (SyncState.ABSENT, SyncState.SYNCED, None):
        assert held(topic(**HELD), state, sure=False)
        assert not held(topic(), state, sure=False)
    assert held(topic(**HELD), sure=False)


def test_a_topic_that_cannot_be_read_keeps_what_it_has() -> None:
    """An unreadable Topic keeps its finalizer, if any, because its spec is unknown."""
    for there in (True, False):
        meta = {"finalizers": [FINALIZER]} if there else {}
        broken = resource_bodies.topic("orders", partitions=0, meta=meta)
        assert broken.manifest is None
        assert needs_finalizer(broken, {}, all_clusters_known=True) is there


@pytest.mark.parametrize("sure", [True, False])
def test_an_annotation_lets_go_whatever_else_is_so(sure: bool) -> None:
    """The annotation ``topiarist.dev/retain`` removes the finalizer, also for a withheld deletion and for an unreadable
    Topic.
    """
    notes: dict[str, Any] = {"annotations": {"topiarist.dev/retain": "true"}}
    assert not held(topic(**HELD, **notes), SyncState.REFUSED, None, sure=sure)
    assert not held(topic(**notes), SyncState.SYNCED, sure=sure)
    broken = resource_bodies.topic("orders", partitions=0, meta={"finalizers": [FINALIZER], **notes})
    assert not needs_finalizer(broken, {}, all_clusters_known=sure)
    other: dict[str, Any] = {"annotations": {"topiarist.dev/retain": "yes"}}
    assert held(topic(**HELD, **other), SyncState.REFUSED, sure=sure)


def test_none_is_added_to_what_is_going() -> None:
    """topiarist adds no finalizer to a Topic that is being deleted; the API server would reject it."""
    assert not held(topic(**GOING, finalizers=["another"]), SyncState.SYNCED)


def test_a_topic_that_switched_to_retain_while_going_is_let_go() -> None:
    """A Topic that changes to Retain during a withheld deletion loses its finalizer."""
    assert not held(topic("Retain", **HELD), SyncState.REFUSED)

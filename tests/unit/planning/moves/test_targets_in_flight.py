"""The targets of partitions in flight: of topiarist's own last batch, or of another client."""

from __future__ import annotations

from typing import Any

import pytest

from support.builders import replica_lists, state, topic
from topiarist.kafka.types import Replicas
from topiarist.model.moves import BatchRecord, ReplicaMove, RequestedReassignment
from topiarist.model.state import ClusterState
from topiarist.planning.moves.topic import find_targets_in_flight

MOVE = ReplicaMove("orders", 0, (1, 2), (3, 2))
OTHER = ReplicaMove("orders", 1, (2, 3), (2, 4))
BATCH = BatchRecord("default", 1, 1, (MOVE, OTHER), {})
BEGUN = topic("orders", ((3, 2, 1), (2, 3)), reassigning_partitions=(0,))
BEFORE = topic("orders", replica_lists("12", "23"))


def find(found: ClusterState, batch: BatchRecord | None = BATCH) -> tuple[dict[int, Replicas], bool]:
    """Return the targets in flight, and whether other partitions are."""
    targets, is_foreign = find_targets_in_flight(
        ClusterState(**{**_fields(found), "batch": batch}), found.topics["orders"]
    )
    return dict(targets), is_foreign


def _fields(found: ClusterState) -> dict[str, Any]:
    return {name: getattr(found, name) for name in found.__struct_fields__}


def requested(*entries: tuple[int, Replicas]) -> dict[str, Any]:
    """Return the fields of a state with a request of these partitions."""
    listed = tuple(RequestedReassignment("orders", partition, replicas) for partition, replicas in entries)
    return {"requested_reassignments": listed, "reassigning_topics": frozenset({"orders"})}


def test_nothing_in_flight_has_no_target() -> None:
    """A batch that is done does not count, whatever its record says."""
    assert find(state(BEFORE)) == ({}, False)
    assert find(state(BEFORE), None) == ({}, False)


@pytest.mark.parametrize("found", [BEFORE, topic("orders", replica_lists("32", "23")), BEGUN])
def test_our_own_batch_counts_with_its_target(found: Any) -> None:
    """Before the controller begins, in flight, and when it has not removed the entry yet."""
    assert find(state(found, **requested((0, (3, 2))))) == ({0: (3, 2)}, False)


def test_in_flight_without_a_request_counts_if_it_is_ours() -> None:
    """The request was removed, or cannot be read, and the lists are those of the batch."""
    assert find(state(BEGUN)) == ({0: (3, 2)}, False)


@pytest.mark.parametrize(
    ("found", "entries", "batch"),
    [
        (BEFORE, ((0, (4, 2)),), BATCH),  # another target
        (BEFORE, ((0, (3, 2)),), None),  # no record
        (topic("orders", replica_lists("52", "23")), ((0, (3, 2)),), BATCH),  # another list
        (BEGUN, (), None),
        (BEGUN, (), BATCH._replace(moves=(OTHER,))),
        (BEGUN, (), BATCH._replace(moves=(MOVE._replace(topic="clicks"),))),
    ],
)
def test_another_client_has_no_known_target(found: Any, entries: Any, batch: BatchRecord | None) -> None:
    """Nothing else of the topic is planned then."""
    assert find(state(found, **(requested(*entries) if entries else {})), batch) == ({}, True)


def test_entries_of_other_topics_do_not_count() -> None:
    """Another topic of the same request or batch may have the same partition with other lists."""
    clicks = RequestedReassignment("clicks", 0, (5, 2))
    fields = requested((0, (3, 2)))
    found = state(BEFORE, **{**fields, "requested_reassignments": (*fields["requested_reassignments"], clicks)})
    batch = BATCH._replace(moves=(MOVE, MOVE._replace(topic="clicks", after=(5, 2))))
    assert find(found, batch) == ({0: (3, 2)}, False)
    assert find(state(BEFORE, requested_reassignments=(clicks,)), batch) == ({}, False)


def test_a_partition_of_another_client_beside_ours_is_foreign() -> None:
    """Ours still counts with its target."""
    assert find(state(BEGUN, **requested((0, (3, 2)), (1, (5, 3))))) == ({0: (3, 2)}, True)


def test_a_stale_or_unreadable_request_is_foreign() -> None:
    """What it would do to the topic is not known."""
    stale = state(BEGUN, stale_reassignments=frozenset({"orders"}), **requested((0, (3, 2))))
    assert find(stale) == ({}, True)
    assert find(state(BEFORE, reassigning_topics=frozenset({"orders"}))) == ({}, True)

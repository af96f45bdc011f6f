"""A snapshot in which nothing is at its default, its lines, and files with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from topiarist.adapters.snapshot import Snapshot, dump
from topiarist.core.state import Broker, ClusterState, Fault, Gate, Room, TopicRecord, TopicState
from topiarist.errors import Reason, TopiaristError

TAKEN = datetime(2025, 1, 31, 12, 0, 59, tzinfo=UTC)

WHOLE = ClusterState(
    cluster_id="7sYk",
    brokers=(Broker(1, "a"), Broker(2, ""), Broker(3)),
    topics={
        "odd": TopicState(
            "odd",
            2**62,
            ((1, 2), (), (3,)),
            {"retention.ms": "1", "": "\n\u202e\x1b[2J"},
            partition_ids=(0, 2, 7),
            topic_id="IvlLS4OaQluDznKjP0kYgQ",
            reassigning=(2, 7),
            record=TopicRecord("k8s/a/b", ("cleanup.policy", "retention.ms"), absent=True),
            record_valid=True,
            changed_outside=True,
            unknown_fields=("vendor",),
        ),
        "orders": TopicState("orders", 7, ((1,),)),
    },
    location="/kafka",
    controller=3,
    controller_epoch=42,
    gate=Gate(Reason.FROZEN, "the cluster is frozen: until noon"),
    deleting=frozenset({"odd", "gone", "broken"}),
    reassigning=frozenset({"orders", "never"}),
    records={"kept": TopicRecord("default", (), absent=True), "lost": TopicRecord("other", ("a", "b"))},
    faults={"broken": Fault("/brokers/topics/broken", "it is not JSON")},
    broker_defaults={"log.retention.ms": "-1"},
    release_at_least=(3, 9),
    room=Room(100, 200, 300),
    warnings=("/feature cannot be read: it is empty",),
    gives_ids=True,
    stale_requests=frozenset({"never"}),
    next_identity=99,
)
"""Nothing in it is at its default."""


def lines(state: ClusterState = WHOLE, name: str = "eu") -> list[bytes]:
    """The lines of a snapshot."""
    return list(dump(Snapshot(name, TAKEN, state)))


def written(folder: Path, rows: Iterable[bytes], name: str = "eu.jsonl") -> Path:
    """A file with these lines."""
    path = folder / name
    path.write_bytes(b"".join(rows))
    return path


def told(work: Callable[..., object], *arguments: object) -> str:
    """The error that a snapshot gives, which is one for a person; empty if there is none."""
    error = None
    try:
        work(*arguments)
    except TopiaristError as raised:
        error = raised
    if error is None:
        return ""
    assert error.reason in (Reason.SNAPSHOT_UNUSABLE, Reason.WRONG_CLUSTER)
    assert all(line.isprintable() for line in str(error).split("\n"))
    return str(error)

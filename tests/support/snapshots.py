"""A snapshot with only non-default values, its lines, and files with these lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from topiarist.adapters.size_limits import ListSizes, build_list_limits
from topiarist.adapters.snapshots.files import Snapshot, dump_snapshot
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import Broker, ClusterMode, KnownConfig
from topiarist.model.moves import BatchRecord, OwnValue, ReplicaMove, RequestedReassignment
from topiarist.model.state import (
    UNKNOWN,
    Capabilities,
    ClusterState,
    OwnershipRecord,
    ReadError,
    Support,
    TopicState,
    WriteBlock,
)
from topiarist.model.usage import (
    CurvePoint,
    Evidence,
    GroupType,
    GroupUsage,
    Side,
    TopicSample,
    TopicUsage,
    UsageProblem,
    UsageState,
)

SNAPSHOT_TIME = datetime(2025, 1, 31, 12, 0, 59, tzinfo=UTC)

FULL_SIZES = ListSizes(100, 200, 300)

FULL_STATE = ClusterState(
    cluster_id="7sYk",
    brokers=(Broker(1, "a"), Broker(2, ""), Broker(3)),
    topics={
        "odd": TopicState(
            "odd",
            str(2**62),
            ((1, 2), (), (3,)),
            {"retention.ms": "1", "": "\n\u202e\x1b[2J"},
            partition_ids=(0, 2, 7),
            topic_id="IvlLS4OaQluDznKjP0kYgQ",
            reassigning_partitions=(2, 7),
            record=OwnershipRecord("k8s/a/b", ("cleanup.policy", "retention.ms"), deleted=True),
            record_valid=True,
            modified_externally=True,
            unknown_fields=("vendor",),
        ),
        "orders": TopicState("orders", "7", ((1,),)),
    },
    chroot="/kafka",
    controller=3,
    controller_epoch=42,
    write_block=WriteBlock(Reason.FROZEN, "the cluster is frozen: until noon"),
    pending_deletions=frozenset({"odd", "gone", "broken"}),
    reassigning_topics=frozenset({"orders", "never"}),
    dangling_records={
        "kept": OwnershipRecord("default", (), deleted=True),
        "lost": OwnershipRecord("other", ("a", "b")),
    },
    topic_errors={"broken": ReadError("/brokers/topics/broken", "it is not JSON")},
    broker_defaults={"log.retention.ms": "-1"},
    min_version=(3, 9),
    size_limits=build_list_limits(FULL_SIZES),
    mode=ClusterMode.KRAFT,
    bypasses_brokers=False,
    capabilities=Capabilities(
        replica_lists=UNKNOWN, deletion_by_id=Support(False, "by name"), freshness=Support(False, "no right", True)
    ),
    known_configs={"retention.ms": KnownConfig("LONG", "604800000"), "vendor.key": KnownConfig()},
    fenced_brokers={4: "a", 5: None},
    warnings=("/feature cannot be read: it is empty",),
    assigns_topic_ids=True,
    stale_reassignments=frozenset({"never"}),
    next_identity=99,
    requested_reassignments=(RequestedReassignment("orders", 0, (2, 1)), RequestedReassignment("never", -1, (3, -5))),
    requested_at_ms=1_738_324_800_000,
    batch=BatchRecord(
        "k8s/a/b",
        2,
        3,
        (ReplicaMove("orders", 0, (1,), (2, 1)),),
        {"brokers/1": {"leader.replication.throttled.rate": OwnValue(None, "1000")}},
    ),
    batch_at_ms=1_738_324_790_000,
    evidence=Evidence(1_738_324_700, 3, 2, 7, 2, 1, True, 10_080, (UsageProblem("ListGroups", 3, 15),), 4),
    usage={
        "orders": TopicUsage(
            TopicSample(
                "IvlLS4OaQluDznKjP0kYgQ",
                (9, None),
                (1, None),
                (700, None),
                2100,
                (1_738_000_000_000, None),
                (1_738_300_000_123, None),
                (GroupUsage("billing", GroupType.CONSUMER, 3, 1, 8, 1), GroupUsage("audit", GroupType.SIMPLE)),
                2,
                "0f" * 32,
            ),
            Side(UsageState.USED, 1_738_000_000, 1_738_324_700, 1_730_000_000, ("Grew",)),
            Side(UsageState.NOT_SEEN, None, None, 1_730_000_000, ("NoGroup",)),
            (CurvePoint(1_738_000_000, 1, 5, 300), CurvePoint(1_738_324_700, 1, 9, 700)),
            107,
        )
    },
)
"""Nothing in it is at its default."""


def snapshot_lines(state: ClusterState = FULL_STATE, name: str = "eu") -> list[bytes]:
    """Return the lines of a snapshot."""
    return list(dump_snapshot(Snapshot(name, SNAPSHOT_TIME, state)))


def write_snapshot_rows(folder: Path, rows: Iterable[bytes], name: str = "eu.jsonl") -> Path:
    """Write a file with these lines."""
    path = folder / name
    path.write_bytes(b"".join(rows))
    return path


def snapshot_error(work: Callable[..., object], *arguments: object) -> str:
    """Return the user-facing error of a snapshot; empty without an error."""
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

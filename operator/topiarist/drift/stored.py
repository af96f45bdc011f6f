"""What can be told of a topic and its spec without a plan: that they are equal as stored, so that no plan has a word.

Only what is certain: whatever is not equal here goes to ``plan_topic``, which decides. A condition that is too strict
costs time, one that is too lax would lose findings. Two texts that mean the same (``0.5`` and ``0.50``) are not equal
here. ``sameness`` says the same to Spark, condition by condition, and a test holds the two to the same verdict on every
row; another holds this one to what plans say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from topiarist.adapters.snapshot import Lists, Size
from topiarist.core.spec import TopicSpec

_MIN_ISR = "min.insync.replicas"
_PLAIN = re.compile("[0-9]{1,9}")


def equal(spec: TopicSpec, row: Mapping[str, Any], lists: Lists, owner: str) -> bool:
    """Whether the plan of a topic of which ``row`` and ``lists`` are has neither change nor refusal nor notice about a
    difference.

    What its record lacks is no difference, but that it is somebody else's is.
    """
    return (
        equal_but_for_replicas(spec, row, owner)
        and equal_size(spec, lists.size, least_replicas(row))
        and equally_placed(spec, lists)
    )


def equal_but_for_replicas(spec: TopicSpec, row: Mapping[str, Any], owner: str) -> bool:
    """What of ``equal`` the replica lists have no part in."""
    return (
        row["fault"] is None
        and not row["deleting"]
        and not spec.absent
        and not spec.ignore
        and row["partitionIds"] is None
        and not row["movingPartitions"]
        and spec.config == row["config"]
        and (row["record"] is None or not row["recordValid"] or _as_left(spec, row["record"], owner))
    )


def _as_left(spec: TopicSpec, record: Mapping[str, Any], owner: str) -> bool:
    """Whether a record is ours, and remembers what the spec asks for, in the same words, or nothing."""
    applied = record.get("applied")
    return record["owner"] == owner and (
        applied is None
        or (
            applied["config"] == spec.config
            and (spec.partitions is None or applied["partitions"] == spec.partitions)
            and applied["removeUnmanaged"] == spec.remove_unmanaged
        )
    )


def equal_size(spec: TopicSpec, size: Size, least: int | None) -> bool:
    """What of ``equal`` the numbers of partitions and replicas decide; each partition must have ``least`` of these."""
    return (
        least is not None
        and size.partitions > 0
        and min(size.widths) >= max(least, 1)
        and (spec.partitions is None or spec.partitions == size.partitions)
        and len(size.widths) == 1
        and (spec.replication_factor is None or size.widths == {spec.replication_factor})
    )


def equally_placed(spec: TopicSpec, lists: Lists) -> bool:
    """What of ``equal`` explicit replica lists decide."""
    return spec.assignment is None or spec.assignment == lists.replicas


def least_replicas(row: Mapping[str, Any]) -> int | None:
    """The in-sync replicas that a topic wants (0: it does not say); None for a text of another form than usual."""
    text = row["config"].get(_MIN_ISR)
    if text is None:
        return 0
    return int(text) if _PLAIN.fullmatch(text) else None


def recorded(spec: TopicSpec, row: Mapping[str, Any]) -> bool:
    """Whether an equal topic has the record that a plan would leave there; a valid one is not another owner's."""
    record = row["record"]
    return bool(
        record and row["recordValid"] and not record["absent"] and list(record["config"]) == sorted(spec.config)
    )

"""Kafka's own checks of explicit replica lists, and the format of its command line, for the vectors.

topiarist itself is stricter: ``kafka/types.py`` has its checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from topiarist.kafka.config_values import java_split, java_trim, parse_integer
from topiarist.kafka.placement import AssignmentError, prepare_brokers
from topiarist.kafka.types import INT_MAX, Broker, Replicas


def check_create(assignment: Mapping[int, Replicas]) -> None:
    """Check explicit lists for a new topic as Kafka does; raise ``AssignmentError`` if Kafka refuses them.

    The order is Kafka's: equal length, duplicates, partition ids 0 to n-1. As in Kafka, the check of the ids compares
    the sum of the ids that are not negative: -1, 1, 2 passes. Empty lists and unknown brokers pass.
    """
    count = len(assignment)
    if len({len(replicas) for replicas in assignment.values()}) != 1:
        raise AssignmentError("invalid_replica_assignment", "lists of different length, or none")
    if any(len(set(replicas)) < len(replicas) for replicas in assignment.values()):
        raise AssignmentError("invalid_replica_assignment", "a broker twice in a list")
    if sum(partition for partition in assignment if partition >= 0) != count * (count - 1) // 2:
        raise AssignmentError("invalid_replica_assignment", "a hole in the partition ids")


def check_expand(
    brokers: Sequence[Broker], existing: Mapping[int, Replicas], lists: Sequence[Replicas], total: int
) -> tuple[Replicas, ...]:
    """Check explicit ``lists`` for the new partitions of a topic as Kafka does, and return them."""
    known = {broker.id for broker in prepare_brokers(brokers, "enforced")}
    if 0 not in existing:
        raise AssignmentError("admin_operation", "no partition 0")
    if total <= len(existing):
        raise AssignmentError("invalid_partitions", "no new partitions")
    if len(lists) != total - len(existing):
        raise AssignmentError("invalid_replica_assignment", "not one list for each new partition")
    for replicas in lists:
        if not replicas or len(set(replicas)) < len(replicas):
            raise AssignmentError("invalid_replica_assignment", "an empty list, or a broker twice in a list")
        if not known.issuperset(replicas):
            raise AssignmentError("broker_not_available", "an unknown broker")
    if any(len(replicas) != len(existing[0]) for replicas in lists):
        raise AssignmentError("invalid_replica_assignment", "not as many replicas as partition 0")
    return tuple(lists)


def parse_cli_assignment(text: str) -> tuple[Replicas, ...]:
    """Parse ``1:2:3,2:3:1``: commas between partitions, colons between replicas, blanks around ids."""
    lists: list[Replicas] = []
    for part in java_split(text, ","):
        try:
            replicas = tuple(parse_integer(java_trim(piece), limit=INT_MAX) for piece in java_split(part, ":"))
        except ValueError as error:
            raise AssignmentError("illegal_argument", str(error)) from error
        if len(set(replicas)) < len(replicas):
            raise AssignmentError("illegal_argument", "a broker twice in a list")
        lists.append(replicas)
        if len(replicas) != len(lists[0]):
            raise AssignmentError("admin_operation", "lists of different length")
    return tuple(lists)

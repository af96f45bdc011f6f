"""Replica lists that a person gives: Kafka's own checks of them, and the stricter ones that manifests must pass.

Kafka lets some lists pass that no cluster should have (empty ones, brokers that do not exist, a hole in the partition
ids). What others have written with them must be readable, so the two sets of checks are apart: ``check_create`` and
``check_expand`` are Kafka's, ``problems`` is ours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NoReturn

from topiarist.kafka.java_numbers import INT_MAX, java_split, java_trim, parse_integer
from topiarist.kafka.placement import AssignmentError, count_new_partitions, partition_zero_replicas, prepare_brokers
from topiarist.kafka.types import Broker, Replicas
from topiarist.text import quote


def check_create(assignment: Mapping[int, Replicas]) -> None:
    """Kafka's check of explicit lists for a new topic, in its order: equal width, duplicates, partition ids 0 to n-1.

    The last is done as Kafka does it, by the sum of the ids that are not negative: -1, 1, 2 passes. Empty lists and
    unknown brokers pass. Raises ``AssignmentError``.
    """
    if len({len(replicas) for replicas in assignment.values()}) != 1:
        _raise_invalid(_describe_unequal_lengths(assignment) or "found no partitions, wanted one or more")
    for partition, replicas in assignment.items():
        if twice := _first_duplicate(replicas):
            _raise_invalid(f"partition {partition}: found {twice} twice in {list(replicas)}, wanted each broker once")
    count = len(assignment)
    if sum(partition for partition in assignment if partition >= 0) != count * (count - 1) // 2:
        _raise_invalid(f"found partitions {_format_ids(assignment)}, wanted 0 to {count - 1} without a hole")


def check_expand(
    brokers: Sequence[Broker], existing: Mapping[int, Replicas], lists: Sequence[Replicas], total: int
) -> tuple[Replicas, ...]:
    """Kafka's check of explicit ``lists`` for the partitions that take a topic to ``total``; returns them.

    One list for each new partition, none empty, no duplicates, registered brokers only, as wide as partition 0. Raises
    ``AssignmentError``; an unknown broker is ``broker_not_available`` (Kafka's broker API: an invalid assignment).
    """
    known = {broker.id for broker in prepare_brokers(brokers, "enforced")}
    width = len(partition_zero_replicas(existing))
    added = count_new_partitions(existing, total)
    if len(lists) != added:
        _raise_invalid(f"found {len(lists)} replica lists, wanted {added}: one for each new partition")
    for partition, replicas in enumerate(lists, len(existing)):
        _check_new_partition(partition, replicas, known)
    for partition, replicas in enumerate(lists, len(existing)):
        if len(replicas) != width:
            _raise_invalid(
                f"partition {partition}: found {len(replicas)} replicas, wanted {width}, as many as partition 0 has"
            )
    return tuple(lists)


def find_errors(lists: Mapping[int, Replicas], registered: Collection[int] | None = None) -> Iterator[tuple[int, str]]:
    """Everything wrong with explicit lists by our own rules, as partition id and message.

    Beside Kafka's checks: no empty list, no id that is negative or no 32-bit number, partition ids without a hole, and
    only brokers that are ``registered`` (None: not known here, or unknown ones are allowed).
    """
    if lists and (wrong := _describe_unequal_lengths(lists)):
        yield min(lists), wrong
    if sorted(lists) != list(range(len(lists))):
        yield min(lists), f"found partitions {_format_ids(lists)}, wanted 0 to {len(lists) - 1} without a hole"
    for partition, replicas in lists.items():
        if not replicas:
            yield partition, "found an empty replica list, wanted one or more broker ids"
        if twice := _first_duplicate(replicas):
            yield partition, f"found broker {twice} twice, wanted each broker once"
        if negative := [broker for broker in replicas if broker < 0]:
            yield partition, f"found broker id {negative[0]}, wanted 0 or more"
        elif large := [broker for broker in replicas if broker > INT_MAX]:
            yield partition, f"found broker id {large[0]}, beyond any that Kafka has"
        elif registered is not None and (unknown := [broker for broker in replicas if broker not in registered]):
            yield partition, f"found broker {unknown[0]}, which is not registered"


def parse_cli_assignment(text: str) -> tuple[Replicas, ...]:
    """Read the form of Kafka's command line: ``1:2:3,2:3:1`` has a comma between partitions, a colon between replicas.

    Blanks around ids are allowed, as is a separator at the very end. Raises ``AssignmentError``: ``illegal_argument``
    for what is not a number or stands twice in a list, ``admin_operation`` for lists of different width.
    """
    lists: list[Replicas] = []
    for partition, part in enumerate(java_split(text, ",")):
        replicas = tuple(_parse_broker_id(piece, partition) for piece in java_split(part, ":"))
        if twice := _first_duplicate(replicas):
            message = f"partition {partition}: found broker {twice} twice in {quote(part)}"
            raise AssignmentError("illegal_argument", message)
        lists.append(replicas)
        if len(replicas) != len(lists[0]):
            message = f"partition {partition}: found {len(replicas)} replicas, wanted {len(lists[0])} as in partition 0"
            raise AssignmentError("admin_operation", message)
    return tuple(lists)


def _parse_broker_id(text: str, partition: int) -> int:
    try:
        return parse_integer(java_trim(text), limit=INT_MAX)
    except ValueError as error:
        raise AssignmentError("illegal_argument", f"partition {partition}: {error}") from error


def _check_new_partition(partition: int, replicas: Replicas, registered: Collection[int]) -> None:
    if not replicas:
        _raise_invalid(f"partition {partition}: found an empty replica list, wanted one or more broker ids")
    if twice := _first_duplicate(replicas):
        _raise_invalid(
            f"partition {partition}: found broker {twice} twice in {list(replicas)}, wanted each broker once"
        )
    if unknown := sorted(set(replicas).difference(registered)):
        message = f"partition {partition}: found broker {unknown[0]}, wanted one of {_format_ids(registered)}"
        raise AssignmentError("broker_not_available", message)


def _raise_invalid(message: str) -> NoReturn:
    raise AssignmentError("invalid_replica_assignment", message)


def _describe_unequal_lengths(lists: Mapping[int, Replicas]) -> str:
    """What to say of lists of different width; empty if there is nothing to say."""
    widths = {len(replicas): partition for partition, replicas in reversed([*lists.items()])}
    if len(widths) < 2:
        return ""
    found = ", ".join(f"{width} in partition {partition}" for width, partition in sorted(widths.items()))
    return f"found different numbers of replicas ({found}), wanted one number for all partitions"


def _first_duplicate(replicas: Sequence[int]) -> str:
    """The first broker that stands twice in a list, as text; empty if none does."""
    if len(set(replicas)) == len(replicas):
        return ""
    return str(next(broker for broker in replicas if replicas.count(broker) > 1))


def _format_ids(numbers: Collection[int]) -> str:
    return ", ".join(map(str, sorted(numbers)[:20])) + (", ..." if len(numbers) > 20 else "")

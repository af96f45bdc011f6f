"""Checks of explicit replica lists: Kafka's own checks, and the stricter checks for manifests.

Kafka accepts some lists that no cluster should have (empty lists, unknown brokers, a hole in the partition ids). Lists
that another client wrote must be readable, so there are two sets of checks: ``check_create`` and ``check_expand`` are
Kafka's, ``find_errors`` is topiarist's. ``desired/rules.py`` and ``adapters/saved_plans/validate.py`` call
``find_errors``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NoReturn

from topiarist.kafka.java_numbers import INT_MAX, java_split, java_trim, parse_integer
from topiarist.kafka.placement import AssignmentError, count_new_partitions, partition_zero_replicas, prepare_brokers
from topiarist.kafka.types import Broker, Replicas
from topiarist.text import quote


def check_create(assignment: Mapping[int, Replicas]) -> None:
    """Check explicit lists for a new topic as Kafka does; raise ``AssignmentError`` if Kafka refuses them.

    In Kafka's order: equal length, duplicates, partition ids 0 to n-1. The ids are checked as in Kafka, by the sum of
    the ids that are not negative: -1, 1, 2 passes. Empty lists and unknown brokers pass.
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
    """Check explicit ``lists`` for the new partitions of a topic as Kafka does, and return them.

    ``total`` is the new partition count. There must be one list for each new partition, none empty, without duplicates,
    with registered brokers only, and as long as the list of partition 0. Raises ``AssignmentError``; an unknown broker
    is ``broker_not_available`` (Kafka's broker API: an invalid assignment).
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
    """Yield all errors of explicit lists by topiarist's own rules, as partition id and message.

    In addition to Kafka's checks: no empty list, no negative id, no id above 32 bits, partition ids without a hole, and
    only brokers in ``registered`` (None: the brokers are not known, or unknown brokers are allowed).
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
    """Parse the format of Kafka's command line: ``1:2:3,2:3:1`` has commas between partitions, colons between replicas.

    Blanks around ids are allowed, and so is a separator at the very end. Raises ``AssignmentError``:
    ``illegal_argument`` for an id that is not a number or is repeated in a list, ``admin_operation`` for lists of
    different length.
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
    """Return a message for lists of different length; empty if all lengths are equal."""
    widths = {len(replicas): partition for partition, replicas in reversed([*lists.items()])}
    if len(widths) < 2:
        return ""
    found = ", ".join(f"{width} in partition {partition}" for width, partition in sorted(widths.items()))
    return f"found different numbers of replicas ({found}), wanted one number for all partitions"


def _first_duplicate(replicas: Sequence[int]) -> str:
    """Return the first broker that occurs twice in a list, as text; empty if there is none."""
    if len(set(replicas)) == len(replicas):
        return ""
    return str(next(broker for broker in replicas if replicas.count(broker) > 1))


def _format_ids(numbers: Collection[int]) -> str:
    return ", ".join(map(str, sorted(numbers)[:20])) + (", ..." if len(numbers) > 20 else "")

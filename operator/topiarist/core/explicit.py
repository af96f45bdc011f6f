"""Replica lists that a person gives: Kafka's own checks of them, and the stricter ones that manifests must pass.

Kafka lets some lists pass that no cluster should have (empty ones, brokers that do not exist, a hole in the partition
ids). What others have written with them must be readable, so the two sets of checks are apart: ``check_create`` and
``check_expand`` are Kafka's, ``problems`` is ours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NoReturn

from topiarist.core.assignment import AssignmentError, new_partitions, partition_zero, placement_brokers
from topiarist.core.javatext import INT_MAX, integer, split, trim
from topiarist.core.quoting import quoted
from topiarist.core.state import Broker, Replicas


def check_create(assignment: Mapping[int, Replicas]) -> None:
    """Kafka's check of explicit lists for a new topic, in its order: equal width, duplicates, partition ids 0 to n-1.

    The last is done as Kafka does it, by the sum of the ids that are not negative: -1, 1, 2 passes. Empty lists and
    unknown brokers pass. Raises ``AssignmentError``.
    """
    if len({len(replicas) for replicas in assignment.values()}) != 1:
        _refuse(_widths(assignment) or "found no partitions, wanted one or more")
    for partition, replicas in assignment.items():
        if twice := _repeated(replicas):
            _refuse(f"partition {partition}: found {twice} twice in {list(replicas)}, wanted each broker once")
    count = len(assignment)
    if sum(partition for partition in assignment if partition >= 0) != count * (count - 1) // 2:
        _refuse(f"found partitions {_shown(assignment)}, wanted 0 to {count - 1} without a hole")


def check_expand(
    brokers: Sequence[Broker], existing: Mapping[int, Replicas], lists: Sequence[Replicas], total: int
) -> tuple[Replicas, ...]:
    """Kafka's check of explicit ``lists`` for the partitions that take a topic to ``total``; returns them.

    One list for each new partition, none empty, no duplicates, registered brokers only, as wide as partition 0. Raises
    ``AssignmentError``; an unknown broker is ``broker_not_available`` (Kafka's broker API: an invalid assignment).
    """
    known = {broker.id for broker in placement_brokers(brokers, "enforced")}
    width = len(partition_zero(existing))
    added = new_partitions(existing, total)
    if len(lists) != added:
        _refuse(f"found {len(lists)} replica lists, wanted {added}: one for each new partition")
    for partition, replicas in enumerate(lists, len(existing)):
        _check_new(partition, replicas, known)
    for partition, replicas in enumerate(lists, len(existing)):
        if len(replicas) != width:
            _refuse(
                f"partition {partition}: found {len(replicas)} replicas, wanted {width}, as many as partition 0 has"
            )
    return tuple(lists)


def problems(lists: Mapping[int, Replicas], registered: Collection[int] | None = None) -> Iterator[tuple[int, str]]:
    """Everything wrong with explicit lists by our own rules, as partition id and message.

    Beside Kafka's checks: no empty list, no id that is negative or no 32-bit number, partition ids without a hole, and
    only brokers that are ``registered`` (None: not known here, or unknown ones are allowed).
    """
    if lists and (wrong := _widths(lists)):
        yield min(lists), wrong
    if sorted(lists) != list(range(len(lists))):
        yield min(lists), f"found partitions {_shown(lists)}, wanted 0 to {len(lists) - 1} without a hole"
    for partition, replicas in lists.items():
        if not replicas:
            yield partition, "found an empty replica list, wanted one or more broker ids"
        if twice := _repeated(replicas):
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
    for partition, part in enumerate(split(text, ",")):
        replicas = tuple(_broker_id(piece, partition) for piece in split(part, ":"))
        if twice := _repeated(replicas):
            message = f"partition {partition}: found broker {twice} twice in {quoted(part)}"
            raise AssignmentError("illegal_argument", message)
        lists.append(replicas)
        if len(replicas) != len(lists[0]):
            message = f"partition {partition}: found {len(replicas)} replicas, wanted {len(lists[0])} as in partition 0"
            raise AssignmentError("admin_operation", message)
    return tuple(lists)


def _broker_id(text: str, partition: int) -> int:
    try:
        return integer(trim(text), limit=INT_MAX)
    except ValueError as error:
        raise AssignmentError("illegal_argument", f"partition {partition}: {error}") from error


def _check_new(partition: int, replicas: Replicas, known: Collection[int]) -> None:
    if not replicas:
        _refuse(f"partition {partition}: found an empty replica list, wanted one or more broker ids")
    if twice := _repeated(replicas):
        _refuse(f"partition {partition}: found broker {twice} twice in {list(replicas)}, wanted each broker once")
    if unknown := sorted(set(replicas).difference(known)):
        message = f"partition {partition}: found broker {unknown[0]}, wanted one of {_shown(known)}"
        raise AssignmentError("broker_not_available", message)


def _refuse(message: str) -> NoReturn:
    raise AssignmentError("invalid_replica_assignment", message)


def _widths(lists: Mapping[int, Replicas]) -> str:
    """What to say of lists of different width; empty if there is nothing to say."""
    widths = {len(replicas): partition for partition, replicas in reversed([*lists.items()])}
    if len(widths) < 2:
        return ""
    found = ", ".join(f"{width} in partition {partition}" for width, partition in sorted(widths.items()))
    return f"found different numbers of replicas ({found}), wanted one number for all partitions"


def _repeated(replicas: Sequence[int]) -> str:
    """The first broker that stands twice in a list, as text; empty if none does."""
    if len(set(replicas)) == len(replicas):
        return ""
    return str(next(broker for broker in replicas if replicas.count(broker) > 1))


def _shown(numbers: Collection[int]) -> str:
    return ", ".join(map(str, sorted(numbers)[:20])) + (", ..." if len(numbers) > 20 else "")

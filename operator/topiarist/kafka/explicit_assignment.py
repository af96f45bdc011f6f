"""Checks of explicit replica lists, for manifests and saved plans.

Kafka accepts some lists that no cluster should have: empty lists, unknown brokers, a hole in the partition ids.
``find_errors`` refuses them. ``desired/rules.py`` and ``adapters/saved_plans/decode.py`` call it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from topiarist.kafka.java_numbers import INT_MAX
from topiarist.kafka.types import Replicas
from topiarist.text import shorten_list


def find_errors(lists: Mapping[int, Replicas], registered: Collection[int] | None = None) -> Iterator[tuple[int, str]]:
    """Yield all errors of explicit lists, as partition id and message.

    Wanted are lists of equal length, none empty, partition ids without a hole, and in each list different ids from 0 to
    2**31 - 1 that are in ``registered`` (None: the brokers are not known, or unknown brokers are allowed).
    """
    partition_by_length = {len(replicas): partition for partition, replicas in reversed([*lists.items()])}
    if len(partition_by_length) > 1:
        found = ", ".join(f"{length} in partition {first}" for length, first in sorted(partition_by_length.items()))
        yield min(lists), f"found different numbers of replicas ({found}), wanted one number for all partitions"
    if sorted(lists) != list(range(len(lists))):
        yield min(lists), f"found partitions {shorten_list(sorted(lists))}, wanted 0 to {len(lists) - 1} without a hole"
    for partition, replicas in lists.items():
        if not replicas:
            yield partition, "found an empty replica list, wanted one or more broker ids"
        if len(set(replicas)) < len(replicas):
            duplicate = next(broker for broker in replicas if replicas.count(broker) > 1)
            yield partition, f"found broker {duplicate} twice, wanted each broker once"
        if negative := [broker for broker in replicas if broker < 0]:
            yield partition, f"found broker id {negative[0]}, wanted 0 or more"
        elif large := [broker for broker in replicas if broker > INT_MAX]:
            yield partition, f"found broker id {large[0]}, wanted at most {INT_MAX}"
        elif registered is not None and (unknown := [broker for broker in replicas if broker not in registered]):
            yield partition, f"found broker {unknown[0]}, which is not registered"

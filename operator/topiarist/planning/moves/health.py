"""Decides whether a partition is healthy enough to be moved: a move that begins must be able to end.

The controller ends a reassignment when every replica of the target is in sync, and it cannot be cancelled through
ZooKeeper. A replica that stays and is not in sync therefore keeps the whole batch from ending. Only replicas that leave
may be out of sync.

A plan calls it for the topics that it moves, and the adapter again directly before each batch.
"""

from __future__ import annotations

from collections.abc import Collection

from topiarist.model.moves import ReplicaMove
from topiarist.model.state import PartitionState
from topiarist.text import format_count


def find_health_problem(
    move: ReplicaMove, state: PartitionState | None, registered: Collection[int], min_isr: int
) -> str:
    """Return why ``move`` must not begin; empty if it may.

    ``state`` is None if the controller has not initialized the partition, ``registered`` are the brokers that are
    online, ``min_isr`` is the ``min.insync.replicas`` in effect.
    """
    where = f"partition {move.partition}"
    if state is None:
        return f"{where} has no state: the controller has not initialized it"
    if state.leader < 0:
        return f"{where} has no leader"
    if state.leader not in registered:
        return f"broker {state.leader}, the leader of {where}, is not registered"
    if unknown := [broker for broker in state.isr if broker not in move.before]:
        return f"broker {unknown[0]} is in sync for {where}, and is not in its replica list"
    if lagging := [broker for broker in move.before if broker in move.after and broker not in state.isr]:
        return f"broker {lagging[0]} keeps a replica of {where} that is not in sync"
    fewest = min(len(state.isr), len(move.after))
    if fewest < min_isr:
        what = "in sync" if fewest == len(state.isr) else "left"
        return f"{where} would have {format_count(fewest, 'replica')} {what}, and min.insync.replicas is {min_isr}"
    return ""

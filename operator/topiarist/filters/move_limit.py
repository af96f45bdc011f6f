"""Limits the replicas that one run copies: ``--max-moves``.

The limit splits work over several runs, such as one a night. It takes the first copies by topic and partition, so the
next run continues where this one ended. ``runs.inputs`` calls this module.
"""

from __future__ import annotations

from msgspec.structs import replace

from topiarist.errors import Reason
from topiarist.model.moves import ReplicaMove
from topiarist.model.plan import Issue, MoveReplicas, Plan, TopicPlan, withhold
from topiarist.planning.risk import assess_moves
from topiarist.text import format_count

_Limited = tuple[TopicPlan, MoveReplicas | None]
"""A topic with two moves in place of one, and the move to withhold; None if all of its moves stay."""


def limit_moves(plan: Plan, max_copies: int | None) -> Plan:
    """Return ``plan`` with the first ``max_copies`` copies of replicas; None is no limit.

    A partition is moved as a whole, and nothing behind the first one that exceeds the limit is copied. Moves that copy
    nothing are not limited. ::

        --max-moves 3    orders 0  [1,2] -> [1,2,3]      1 copy     stays
                         orders 1  [2,3] -> [3,2]        none       stays
                         orders 2  [5,6] -> [3,4]        2 copies   stays
                         users  0  [1,2] -> [1,2,3]      1 copy     withheld
    """
    if max_copies is None:
        return plan
    left = max_copies
    limited: list[_Limited] = []
    for topic in plan.topics:
        copying = [move for move in topic.moves() if move.added] if topic.is_actionable else []
        allowed = 0
        for move in copying:
            if len(move.added) > left:
                left = 0
                break
            left -= len(move.added)
            allowed += 1
        limited.append(_split(topic, copying[allowed:]))
    withheld = [rest for _, rest in limited if rest]
    if not withheld:
        return plan
    issue = _make_issue(max_copies, [move for rest in withheld for move in rest.moves])
    topics = [withhold(topic, (rest,), issue) if rest else topic for topic, rest in limited]
    return replace(plan, topics=tuple(topics))


def _split(topic: TopicPlan, rest: list[ReplicaMove]) -> _Limited:
    if not rest:
        return topic, None
    withheld = MoveReplicas(tuple(rest), assess_moves(rest))
    partitions = {move.partition for move in rest}
    kept = tuple(move for move in topic.moves() if move.partition not in partitions)
    parts = (*((MoveReplicas(kept, assess_moves(kept)),) if kept else ()), withheld)
    changes = [part for change in topic.changes for part in (parts if isinstance(change, MoveReplicas) else (change,))]
    return replace(topic, changes=tuple(changes)), withheld


def _make_issue(max_copies: int, rest: list[ReplicaMove]) -> Issue:
    copies = sum(len(move.added) for move in rest)
    replicas, partitions = format_count(copies, "replica"), format_count(len(rest), "partition")
    message = f"{replicas} of {partitions} remain to be copied: --max-moves is {max_copies}"
    hint, first = "run again for the next ones", len(rest[0].added)
    if first > max_copies:
        hint = f"pass at least --max-moves {first}: partition {rest[0].partition} of {rest[0].topic} needs that many"
    return Issue(Reason.MOVES_LIMITED, message, hint=hint)

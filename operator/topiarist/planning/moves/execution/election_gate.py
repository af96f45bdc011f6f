"""Decides for one topic, directly before and after an election, which partitions the controller can elect.

The adapter reads the topic under the lock and calls ``judge_elections``; only the planned leader counts, and not the
leader before, which may have changed since. ::

    another topic or owner, another first replica          conflict: no leader of the topic is elected
    the first replica leads                                elected
    in flight, no state, not registered, not in sync       held, with the cause
    otherwise                                              ready
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from topiarist.model.moves import LeaderChange
from topiarist.model.plan import TopicPlan
from topiarist.planning.moves.execution.gate import MovedTopic, find_topic_conflict
from topiarist.planning.moves.leaders import find_election_problem


class ElectionJudgement(NamedTuple):
    """The elections of one topic by what is to be done; ``conflict`` says why no leader of the topic is elected."""

    conflict: str = ""
    elected: tuple[LeaderChange, ...] = ()
    ready: tuple[LeaderChange, ...] = ()
    held: tuple[tuple[LeaderChange, str], ...] = ()


def judge_elections(
    elections: Iterable[LeaderChange], plan: TopicPlan, current: MovedTopic, requested: Collection[int] = ()
) -> ElectionJudgement:
    """Return what is to be done with ``elections``, which are those of ``plan`` that are not known to be done.

    ``current`` has partition states. ``requested`` are the partitions that a reassignment request names.
    """
    if conflict := find_topic_conflict(plan, current):
        return ElectionJudgement(conflict)
    topic, states = current.topic, current.states or {}
    assert topic is not None
    lists = dict(zip(topic.partition_ids, topic.replicas, strict=True))
    elected, ready, held = [], [], []
    for each in elections:
        partition, state = each.partition, states.get(each.partition)
        if partition not in lists:
            return ElectionJudgement(f"partition {partition} existed, and does not exist now")
        if partition in requested or partition in current.reassignments:
            held.append((each, f"partition {partition} is being reassigned"))
        elif lists[partition][:1] != (each.after,):
            now = list(lists[partition])
            return ElectionJudgement(
                f"broker {each.after} was the first replica of partition {partition}, which is on {now} now"
            )
        elif state is not None and state.leader == each.after:
            elected.append(each)
        elif problem := find_election_problem(partition, each.after, state, current.brokers):
            held.append((each, problem))
        else:
            ready.append(each)
    return ElectionJudgement("", tuple(elected), tuple(ready), tuple(held))

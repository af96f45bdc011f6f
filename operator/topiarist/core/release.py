"""Giving topics up: the plan that takes our records away and leaves everything of Kafka's as it is.

A plan as any other, so that the cluster's gate closes it, ``evolve`` carries it out in memory, and it is shown and
written as all plans are. Tombstones and stale records go too: a record needs no topic to be released.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from topiarist.core.change import Finding, GiveUp, Plan, TopicPlan
from topiarist.core.names import fits, name_problem
from topiarist.core.plan import Run, plan_without_specs
from topiarist.core.quoting import quoted
from topiarist.core.state import ClusterState, TopicRecord
from topiarist.errors import Reason

_GLOB = frozenset("*?[]!")


class Wanted(NamedTuple):
    """What is to be released: topics by name, and glob patterns, which mean those of the run's own owner only."""

    names: tuple[str, ...]
    patterns: tuple[str, ...] = ()


def wanted(words: Iterable[str]) -> Wanted:
    """Words of a person, sorted into names and patterns; ``ValueError`` says what is wrong with those that are odd."""
    distinct = sorted(set(words))
    patterns = tuple(word for word in distinct if not _GLOB.isdisjoint(word))
    names = tuple(word for word in distinct if _GLOB.isdisjoint(word))
    problems = [problem for name in names if (problem := name_problem(name))]
    for pattern in patterns:
        if name_problem("".join("x" if letter in _GLOB else letter for letter in pattern)):
            problems.append(f"found the pattern {quoted(pattern)}, which no topic name meets")
    if problems:
        raise ValueError("; ".join(problems))
    return Wanted(names, patterns)


def plan_release(state: ClusterState, cluster: str, what: Wanted, run: Run) -> tuple[Plan, Sequence[str]]:
    """The plan that releases ``what`` from the cluster of this name, and the names that have no record to release."""
    found = _records(state)
    names = {name for name in found if fits(name, what.patterns)}
    names = {name for name in names if found[name].owner == run.owner}.union(what.names)
    known = sorted(name for name in names if name in found or name in state.faults)
    topics = [_topic(state, name, found.get(name), run) for name in known]
    plan = plan_without_specs(state, cluster, run.owner, topics)
    return plan, sorted(names.difference(known))


def _records(state: ClusterState) -> dict[str, TopicRecord]:
    """Every record that can be read, with a topic or without."""
    beside = {name: topic.record for name, topic in state.topics.items() if topic.record is not None}
    return {**state.records, **beside}


def _topic(state: ClusterState, name: str, record: TopicRecord | None, run: Run) -> TopicPlan:
    topic = state.topics.get(name)
    if record is None:
        fault = state.faults[name]
        refusal = Finding(Reason.ZNODE_UNREADABLE, f"{fault.where}: {fault.why}", instead="mend it, then ask again")
    elif record.owner != run.owner and not run.takes(name):
        message = f"the record is that of owner {record.owner}, this run is {run.owner}"
        refusal = Finding(
            Reason.NOT_OWNED, message, instead=f"leave it to its owner, or run with --take-ownership={name}"
        )
    else:
        stale = topic is not None and not topic.record_valid
        message = "our record belongs to an earlier topic of this name: it counts as none"
        notices = (Finding(Reason.STALE_RECORD, message),) if stale else ()
        return TopicPlan(name, topic, record, changes=(GiveUp(),), notices=notices)
    return TopicPlan(name, topic, record, record, refusals=(refusal,))

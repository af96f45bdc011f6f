"""Giving topics up: the plan that takes our records away and leaves everything of Kafka's as it is.

A plan as any other, so that the cluster's gate closes it, ``evolve`` carries it out in memory, and it is shown and
written as all plans are. Tombstones and stale records go too: a record needs no topic to be released.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from topiarist.errors import Reason
from topiarist.kafka.names import matches_any, topic_name_problem
from topiarist.model.plan import Issue, Plan, ReleaseOwnership, TopicPlan
from topiarist.model.run_options import RunOptions
from topiarist.model.state import ClusterState, OwnershipRecord
from topiarist.planning.planner import plan_without_specs
from topiarist.text import quote

_GLOB_CHARACTERS = frozenset("*?[]!")


class UnmanageRequest(NamedTuple):
    """What is to be released: topics by name, and glob patterns, which mean those of the run's own owner only."""

    names: tuple[str, ...]
    patterns: tuple[str, ...] = ()


def parse_unmanage_request(arguments: Iterable[str]) -> UnmanageRequest:
    """Words of a person, sorted into names and patterns; ``ValueError`` says what is wrong with those that are odd."""
    distinct = sorted(set(arguments))
    patterns = tuple(word for word in distinct if not _GLOB_CHARACTERS.isdisjoint(word))
    names = tuple(word for word in distinct if _GLOB_CHARACTERS.isdisjoint(word))
    problems = [problem for name in names if (problem := topic_name_problem(name))]
    for pattern in patterns:
        if topic_name_problem("".join("x" if letter in _GLOB_CHARACTERS else letter for letter in pattern)):
            problems.append(f"found the pattern {quote(pattern)}, which no topic name meets")
    if problems:
        raise ValueError("; ".join(problems))
    return UnmanageRequest(names, patterns)


def plan_unmanage(
    state: ClusterState, cluster: str, request: UnmanageRequest, options: RunOptions
) -> tuple[Plan, Sequence[str]]:
    """Return the plan that unmanages the topics of ``request``, and the names without an ownership record."""
    found = _readable_records(state)
    names = {name for name in found if matches_any(name, request.patterns)}
    names = {name for name in names if found[name].owner == options.owner}.union(request.names)
    known = sorted(name for name in names if name in found or name in state.topic_errors)
    topics = [_plan_topic(state, name, found.get(name), options) for name in known]
    plan = plan_without_specs(state, cluster, options.owner, topics)
    return plan, sorted(names.difference(known))


def _readable_records(state: ClusterState) -> dict[str, OwnershipRecord]:
    """Every record that can be read, with a topic or without."""
    beside = {name: topic.record for name, topic in state.topics.items() if topic.record is not None}
    return {**state.dangling_records, **beside}


def _plan_topic(state: ClusterState, name: str, record: OwnershipRecord | None, options: RunOptions) -> TopicPlan:
    topic = state.topics.get(name)
    if record is None:
        fault = state.topic_errors[name]
        refusal = Issue(Reason.ZNODE_UNREADABLE, f"{fault.path}: {fault.message}", hint="mend it, then ask again")
    elif record.owner != options.owner and not options.may_take_ownership(name):
        message = f"the record is that of owner {record.owner}, this run is {options.owner}"
        refusal = Issue(Reason.NOT_OWNED, message, hint=f"leave it to its owner, or run with --take-ownership={name}")
    else:
        stale = topic is not None and not topic.record_valid
        message = "our record belongs to an earlier topic of this name: it counts as none"
        notices = (Issue(Reason.STALE_OWNERSHIP_RECORD, message),) if stale else ()
        return TopicPlan(name, topic, record, changes=(ReleaseOwnership(),), notices=notices)
    return TopicPlan(name, topic, record, record, refusals=(refusal,))

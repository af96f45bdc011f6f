"""Plans to unmanage topics: remove their ownership records and leave everything of Kafka's unchanged.

The result is an ordinary ``Plan``, so a write block applies to it, ``simulate`` can apply it in memory, and it is
printed and written like every plan. Deletion records and stale records are removed too, because a record needs no topic
to be released. ``cli.commands.apply`` calls this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from topiarist.errors import Reason
from topiarist.kafka.types import matches_any, topic_name_problem
from topiarist.model.plan import Issue, Plan, ReleaseOwnership, TopicPlan
from topiarist.model.run_options import RunOptions
from topiarist.model.state import ClusterState, OwnershipRecord
from topiarist.planning.planner import STALE_RECORD_MESSAGE, plan_without_specs, unreadable_issue
from topiarist.text import quote

_GLOB_CHARACTERS = frozenset("*?[]!")


class UnmanageRequest(NamedTuple):
    """The topics to unmanage, by name and by glob pattern.

    Patterns match only topics of the run's own owner.
    """

    names: tuple[str, ...]
    patterns: tuple[str, ...] = ()


def parse_unmanage_request(arguments: Iterable[str]) -> UnmanageRequest:
    """Split command-line arguments into names and patterns.

    Raises ``ValueError`` with the problems of all invalid arguments.
    """
    names, patterns, problems = list[str](), list[str](), list[str]()
    for argument in sorted(set(arguments)):
        if _GLOB_CHARACTERS.isdisjoint(argument):
            names.append(argument)
            problems += filter(None, [topic_name_problem(argument)])
        else:
            patterns.append(argument)
            if topic_name_problem("".join("x" if letter in _GLOB_CHARACTERS else letter for letter in argument)):
                problems.append(f"found the pattern {quote(argument)}, which no topic name can match")
    if problems:
        raise ValueError("; ".join(problems))
    return UnmanageRequest(tuple(names), tuple(patterns))


def plan_unmanage(
    state: ClusterState, cluster: str, request: UnmanageRequest, options: RunOptions
) -> tuple[Plan, Sequence[str]]:
    """Return the plan that unmanages topics, and the names without a record."""
    of_existing_topics = {name: topic.record for name, topic in state.topics.items() if topic.record is not None}
    records = {**state.dangling_records, **of_existing_topics}
    # A pattern never selects topics of another owner; a topic of another owner that is named is refused.
    names = {
        name
        for name, record in records.items()
        if record.owner == options.owner and matches_any(name, request.patterns)
    }.union(request.names)
    planned_names = sorted(name for name in names if name in records or name in state.topic_errors)
    topics = [_plan_topic(state, name, records.get(name), options) for name in planned_names]
    plan = plan_without_specs(state, cluster, options.owner, topics)
    return plan, sorted(names.difference(planned_names))


def _plan_topic(state: ClusterState, name: str, record: OwnershipRecord | None, options: RunOptions) -> TopicPlan:
    topic = state.topics.get(name)
    if record is None:
        return TopicPlan(name, topic, refusals=(unreadable_issue(state.topic_errors[name]),))
    if record.owner != options.owner and not options.may_take_ownership(name):
        message = f"belongs to owner {record.owner}, this run is {options.owner}"
        hint = f"leave it to its owner, or pass --take-ownership={name}"
        return TopicPlan(name, topic, record, record, refusals=(Issue(Reason.NOT_OWNED, message, hint=hint),))
    is_stale = topic is not None and not topic.record_valid
    notices = (Issue(Reason.STALE_OWNERSHIP_RECORD, STALE_RECORD_MESSAGE),) if is_stale else ()
    return TopicPlan(name, topic, record, changes=(ReleaseOwnership(),), notices=notices)

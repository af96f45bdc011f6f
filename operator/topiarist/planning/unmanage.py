"""Plans to unmanage topics: remove their ownership records and leave everything of Kafka's unchanged.

The result is an ordinary ``Plan``, so a write block applies to it, ``simulate`` can apply it in memory, and it is
printed and written like every plan. Deletion records and stale records are removed too, because a record needs no topic
to be released. ``cli.apply.unmanage`` calls this module.
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
    """The topics to unmanage, by name and by glob pattern.

    Patterns match only topics of the run's own owner.
    """

    names: tuple[str, ...]
    patterns: tuple[str, ...] = ()


def parse_unmanage_request(arguments: Iterable[str]) -> UnmanageRequest:
    """Split command-line arguments into names and patterns.

    Raises ``ValueError`` with the problems of all invalid arguments.
    """
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
    """Return the plan that unmanages topics, and the names without a record."""
    records = _readable_records(state)
    names = {name for name in records if matches_any(name, request.patterns)}
    # A pattern never selects topics of another owner; a topic of another owner that is named is refused.
    names = {name for name in names if records[name].owner == options.owner}.union(request.names)
    planned_names = sorted(name for name in names if name in records or name in state.topic_errors)
    topics = [_plan_topic(state, name, records.get(name), options) for name in planned_names]
    plan = plan_without_specs(state, cluster, options.owner, topics)
    return plan, sorted(names.difference(planned_names))


def _readable_records(state: ClusterState) -> dict[str, OwnershipRecord]:
    """Return all readable ownership records, with a topic or without."""
    of_existing_topics = {name: topic.record for name, topic in state.topics.items() if topic.record is not None}
    return {**state.dangling_records, **of_existing_topics}


def _plan_topic(state: ClusterState, name: str, record: OwnershipRecord | None, options: RunOptions) -> TopicPlan:
    topic = state.topics.get(name)
    if record is None:
        read_error = state.topic_errors[name]
        refusal = Issue(
            Reason.ZNODE_UNREADABLE, f"{read_error.path}: {read_error.message}", hint="mend it, then ask again"
        )
    elif record.owner != options.owner and not options.may_take_ownership(name):
        message = f"the record is that of owner {record.owner}, this run is {options.owner}"
        refusal = Issue(Reason.NOT_OWNED, message, hint=f"leave it to its owner, or run with --take-ownership={name}")
    else:
        is_stale = topic is not None and not topic.record_valid
        message = "our record belongs to an earlier topic of this name: it counts as none"
        notices = (Issue(Reason.STALE_OWNERSHIP_RECORD, message),) if is_stale else ()
        return TopicPlan(name, topic, record, changes=(ReleaseOwnership(),), notices=notices)
    return TopicPlan(name, topic, record, record, refusals=(refusal,))

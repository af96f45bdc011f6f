"""The filters of a plan, and their one order, for the command line, saved plans and the operator.

A filter takes a plan and returns a plan with fewer changes. A filter never adds a change. Each removed change becomes a
refusal that holds the change, so that it can still be shown. No other code than ``filters`` reads the flags that allow
or forbid changes.

First the changes are withheld that the observed cluster forbids (external changes that are only reported, deletions of
topics in use), then changes that policies deny, then changes without a required approval. The budgets count the
remaining changes. Last come groups of topics that grow together or not at all.

To add a filter:

1. Write a function from a plan to a plan, here or in a module of its own, by ``filter_changes`` if it decides change by
   change. Its refusals have a reason of ``errors.Reason``; a new reason needs its row in ``docs/reasons.md``.
2. Call it at its place in the order: in ``apply_filters`` for all runs, or in the function that a caller passes to it
   (``RunInputs.filter_plan`` in ``runs/inputs.py``, ``_filter_plan`` in ``kubernetes/reconciler.py``).
3. Add it to ``tests/unit/filters/test_chain.py``: what it withholds costs no budget.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from topiarist.errors import Diagnostic, Reason
from topiarist.model.moves import ReplicaMove
from topiarist.model.plan import (
    AddPartitions,
    Change,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    Issue,
    MoveReplicas,
    Plan,
    Risk,
    RiskApproval,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
    withhold,
)
from topiarist.model.spec import Budgets
from topiarist.planning.risk import assess_moves
from topiarist.text import format_count

PlanFilter = Callable[[Plan], Plan]
"""A function from a plan to the same plan with fewer allowed changes."""


def keep_all(plan: Plan) -> Plan:
    """Return the plan unchanged."""
    return plan


class PolicyResult(Struct, frozen=True):
    """The result of the policies of a run.

    ``errors`` and ``warnings`` are known before any connection is made; ``plan_filter`` is for the plans.
    """

    errors: Sequence[Diagnostic] = ()
    warnings: Sequence[Diagnostic] = ()
    plan_filter: PlanFilter = keep_all


def filter_changes(plan: Plan, find_issue: Callable[[TopicPlan, Change], Issue | None]) -> Plan:
    """Return ``plan`` without the changes for which ``find_issue`` returns an issue."""
    topics = []
    for topic in plan.topics:
        # Change by change: a refused deletion of data must not hold back a harmless change of the same topic.
        for change in topic.changes if topic.is_actionable else ():
            if issue := find_issue(topic, change):
                topic = withhold(topic, (change,), issue)
        topics.append(topic)
    return replace(plan, topics=tuple(topics))


def filter_unapproved(plan: Plan, approvals: tuple[RiskApproval, ...]) -> Plan:
    """Return ``plan`` without unapproved changes that may lose data.

    ``Disruptive`` changes need no approval.
    """

    def find_issue(topic: TopicPlan, change: Change) -> Issue | None:
        if change.assessment.risk < Risk.DATA_LOSS:
            return None
        if any(approval.risk is Risk.DATA_LOSS and approval.covers(topic.topic) for approval in approvals):
            return None
        return Issue(
            Reason.DATA_LOSS,
            f"may lose data: {change.assessment.explanation}",
            hint=f"to allow this, pass --allow-risk DataLoss={topic.topic}",
        )

    return filter_changes(plan, find_issue)


# Enforces the budgets of a cluster on a plan.
#
# Budgets are the last filter, so changes that a policy or a missing approval withheld cost nothing. The budget of
# ``notifications`` only spreads work over several runs, and counts only where topiarist sends them: brokers that are
# asked for a change need none. Every other budget is an alarm: a plan that is larger than
# intended is not applied at all, unless the run asks for a partial apply.

_HINT_RAISE_BUDGET = "reduce the changes, or raise the budget in spec.budgets of the Cluster"

CostFunction = Callable[[TopicPlan, Change], int]
"""Returns what a change costs of a budget; 0 if the budget does not count the change."""

ExceededBudget = tuple[str, CostFunction, str]
"""The numbers and the field of an exceeded budget as a message, its cost function, and its field."""


def enforce_budgets(plan: Plan, budgets: Budgets, *, partial: bool = False) -> Plan:
    """Return ``plan`` without the changes that exceed ``budgets``.

    If a budget other than ``notifications`` is exceeded, all changes are withheld; with ``partial`` only the changes
    that the exceeded budget counts.
    """
    exceeded = [*_exceeded_budgets(plan, budgets)]
    if partial:
        for message, cost, name in exceeded:
            plan = _withhold_matching(plan, cost, _build_issue(message, _HINT_RAISE_BUDGET, name))
    elif exceeded:
        # An exceeded budget means that the plan is probably not intended, so no part of it is trusted.
        message = f"{'; '.join(message for message, *_ in exceeded)}: nothing is written to this cluster"
        hint = f"{_HINT_RAISE_BUDGET}; to make the changes that the budget does not count, pass --partial"
        plan = _withhold_matching(plan, lambda _topic, _change: True, Issue(Reason.BUDGET_EXCEEDED, message, hint=hint))
    return _limit_notifications(plan, budgets.notifications) if plan.bypasses_brokers else plan


def _exceeded_budgets(plan: Plan, budgets: Budgets) -> Iterator[ExceededBudget]:
    """Yield the exceeded budgets, in the order of the manifest reference."""
    limits: Sequence[tuple[str, int | None, CostFunction, str]] = (
        ("topics", budgets.topics, lambda _, change: _changes_topic(change), "changed topic"),
        ("newPartitions", budgets.new_partitions, _new_partition_cost, "new partition"),
        ("movedReplicas", budgets.moved_replicas, _moved_replica_cost, "copied replica"),
        ("movedPartitions", budgets.moved_partitions, _moved_partition_cost, "moved partition"),
        ("deletions", budgets.deletions, lambda _, change: isinstance(change, DeleteTopic), "deletion"),
    )
    for name, limit, cost, noun in limits:
        # A topic counts once, by its most expensive change.
        spent = sum(max(cost(topic, change) for change in topic.changes) for topic in plan.actionable_topics())
        if limit is not None and spent > limit:
            yield f"{format_count(spent, noun)}, {limit:,} allowed ({name})", cost, name
    yield from _partitions_per_topic(plan, budgets.partitions_per_topic)
    if budgets.changed_share is not None:
        yield from _changed_share(plan, budgets.changed_share)


def _new_partition_cost(_topic: TopicPlan, change: Change) -> int:
    return len(change.replicas) if isinstance(change, CreateTopic | AddPartitions) else 0


def _moved_replica_cost(_topic: TopicPlan, change: Change) -> int:
    return change.copies if isinstance(change, MoveReplicas) else 0


def _moved_partition_cost(_topic: TopicPlan, change: Change) -> int:
    return len(change.moves) if isinstance(change, MoveReplicas) else 0


def _partitions_per_topic(plan: Plan, limit: int) -> Iterator[ExceededBudget]:
    """Yield the exceeded budget, with the largest topic and the number of the other topics."""

    def total(_topic: TopicPlan, change: Change) -> int:
        """Return the partitions after a change that adds some; 0 for other changes."""
        return change.total if isinstance(change, AddPartitions) else _new_partition_cost(_topic, change)

    totals = {topic.topic: max(total(topic, change) for change in topic.changes) for topic in plan.actionable_topics()}
    if over_limit := [name for name, partitions in totals.items() if partitions > limit]:
        largest = max(over_limit, key=lambda name: totals[name])
        more = f" and too many for {format_count(len(over_limit) - 1, 'other topic')}" if len(over_limit) > 1 else ""
        count = format_count(totals[largest], "partition")
        message = f"{count} for {largest}{more}, {limit:,} allowed (partitionsPerTopic)"
        yield message, lambda topic, change: total(topic, change) > limit, "partitionsPerTopic"


def _changed_share(plan: Plan, limit: int) -> Iterator[ExceededBudget]:
    # Creations count neither as changed nor as existing.
    existing = plan.unchanged + plan.unselected
    existing += sum(topic.before is not None for topic in plan.topics if topic.changes or topic.refusals)
    # The share counts topics, so one change of each is enough.
    changed = sum(
        _changes_existing_topic(topic, change) for topic in plan.actionable_topics() for change in topic.changes[:1]
    )
    if changed * 100 > existing * limit:
        message = f"{changed:,} of {format_count(existing, 'existing topic')} changed, {limit}% allowed (changedShare)"
        yield message, _changes_existing_topic, "changedShare"


def _changes_existing_topic(topic: TopicPlan, change: Change) -> bool:
    return topic.before is not None and _changes_topic(change)


def _changes_topic(change: Change) -> bool:
    # After a broker's restart the leaders of most topics may differ: an election gives nothing but the usual leader.
    return not isinstance(change, TakeOwnership | ElectLeaders)


def _limit_notifications(plan: Plan, limit: int) -> Plan:
    """Return the plan with the first ``limit`` config updates, by topic name."""

    def notifies(change: Change) -> bool:
        return isinstance(change, UpdateConfig)

    updates = [topic.topic for topic in plan.actionable_topics() if any(map(notifies, topic.changes))]
    if len(updates) <= limit:
        return plan
    waiting = frozenset(updates[limit:])
    message = f"{format_count(len(updates), 'config notification')} to send, {limit:,} allowed (notifications)"
    hint = "run again for the next notifications, or raise the budget in spec.budgets of the Cluster"
    issue = _build_issue(message, hint, "notifications")
    return _withhold_matching(plan, lambda topic, change: topic.topic in waiting and notifies(change), issue)


def _build_issue(message: str, hint: str, name: str) -> Issue:
    own = f"the changes of all topics together exceed the budget {name} of the Cluster"
    return Issue(Reason.BUDGET_EXCEEDED, message, hint=hint, own_message=own)


def _withhold_matching(plan: Plan, cost: CostFunction, issue: Issue) -> Plan:
    """Return ``plan`` with one refusal per topic for all changes with a cost."""
    topics = [
        withhold(topic, [change for change in topic.changes if cost(topic, change)], issue)
        if topic.is_actionable
        else topic
        for topic in plan.topics
    ]
    return replace(plan, topics=tuple(topics))


# Keeps the topics of a ``coPartitionGroup`` at equal numbers of partitions: all of them grow, or none.
#
# Streams are joined by partition number, so a topic that grows alone breaks its joins. ``desired.resolve`` makes
# sure that the manifests of a group ask for equal numbers. Other filters may withhold the growth of one topic; this one
# comes after them, and then withholds the creations and the growth of the whole group.


def withhold_split_groups(plan: Plan, lost: Collection[str] = ()) -> Plan:
    """Return ``plan`` without the creations and growth of groups that would have different numbers of partitions.

    ``lost`` are topics with changes that will not be made although the plan has them.
    """
    groups: defaultdict[str, list[TopicPlan]] = defaultdict(list)
    for topic in plan.topics:
        if topic.co_partition_group:
            groups[topic.co_partition_group].append(topic)
    replaced: dict[str, TopicPlan] = {}
    for group, members in groups.items():
        counts = {
            member.topic: count
            for member in members
            if (count := _count_after(member, is_lost=member.topic in lost)) is not None
        }
        own = f"the topics of coPartitionGroup {group} would have different counts"
        if unreadable := next((each for each in members if _is_unreadable(each)), None):
            problem = own = f"{unreadable.topic} of coPartitionGroup {group} cannot be read"
        elif len(set(counts.values())) > 1:
            shown = (f"{topic} {format_count(count, 'partition')}" for topic, count in sorted(counts.items()))
            problem = f"coPartitionGroup {group} would have different counts: {', '.join(shown)}"
        else:
            continue
        for member in members:
            replaced[member.topic] = _withhold_growth(member, problem, own)
    return replace(plan, topics=tuple(replaced.get(each.topic, each) for each in plan.topics)) if replaced else plan


def _count_after(topic: TopicPlan, *, is_lost: bool) -> int | None:
    """Return the number of partitions after the run; None if the topic does not exist then, or the plan lacks it."""
    is_made = topic.is_actionable and not is_lost
    for change in topic.changes if is_made else ():
        if isinstance(change, CreateTopic):
            return len(change.replicas)
        if isinstance(change, AddPartitions):
            return change.total
    planned = (*topic.changes, *(change for issue in topic.refusals for change in issue.withheld))
    for change in planned:
        if isinstance(change, AddPartitions):
            return change.before
    # A saved plan has no replica lists of topics without growth.
    return len(topic.before.replicas) or None if topic.before else None


def _is_unreadable(topic: TopicPlan) -> bool:
    return any(refusal.reason is Reason.TOPIC_UNREADABLE for refusal in topic.refusals)


def _withhold_growth(topic: TopicPlan, problem: str, own: str) -> TopicPlan:
    if not topic.is_actionable:
        return topic
    changes: list[Change] = [each for each in topic.changes if isinstance(each, CreateTopic | AddPartitions)]
    hint = "its topics grow together or not at all: allow the growth of the others, or remove this topic from the group"
    issue = Issue(Reason.CO_PARTITIONS_DIFFER, problem, ("coPartitionGroup",), hint, own_message=own)
    return withhold(topic, changes, issue)


# Limits the replicas that one run copies: ``--max-moves``.
#
# The limit splits work over several runs, such as one a night. It takes the first copies by topic and partition, so the
# next run continues where this one ended.

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
    message = f"{replicas} of {partitions} left to copy: --max-moves is {max_copies}"
    hint, first = "run again for the next ones", len(rest[0].added)
    if first > max_copies:
        hint = f"pass at least --max-moves {first}: partition {rest[0].partition} of {rest[0].topic} needs that many"
    return Issue(Reason.MOVES_LIMITED, message, hint=hint)


def apply_filters(
    plan: Plan,
    budgets: Budgets,
    *,
    observed: PlanFilter = keep_all,
    policies: PlanFilter = keep_all,
    approve: PlanFilter = keep_all,
    partial: bool,
) -> Plan:
    """Return the plan without the changes that the run may not make.

    ``approve`` keeps everything if a person is asked afterwards. See ``enforce_budgets`` for ``partial``.
    """
    return withhold_split_groups(enforce_budgets(approve(policies(observed(plan))), budgets, partial=partial))

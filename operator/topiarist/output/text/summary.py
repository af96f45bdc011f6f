"""The last lines of a plan: one line of counts that add up, and the topics that may lose data.

``text.plan`` and ``text.short`` print them; ``markdown.plan`` uses the counts for its table and title.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from topiarist.model.plan import (
    AddPartitions,
    CreateTopic,
    DeleteTopic,
    Nudge,
    Plan,
    ReleaseOwnership,
    Risk,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)
from topiarist.output.groups import describe_ownership_action, is_record_only
from topiarist.output.text.layout import BOLD, BOLD_RED, TextLayout, fill_lines, format_names, sanitize, wrap
from topiarist.output.text.topic_block import CLUSTER_WIDE_REASONS
from topiarist.text import format_count

_ACTION_LABELS = {
    CreateTopic: "to create",
    AddPartitions: "to grow",
    UpdateConfig: "to configure",
    DeleteTopic: "to delete",
    ReleaseOwnership: "to unmanage",
    Nudge: "to nudge",
}
_ACTIONABLE_LABELS = (*_ACTION_LABELS.values(), "to adopt", "record only")
PLAN_LABEL = "Plan"
NOT_IN_PATHS = "not in the given paths"
"""Label for topics that this owner has a record of, but that the run's manifests do not name.

Manifests in other paths may declare them.
"""

DATA_LOSS_ADVICE = " apply asks, or wants --allow-risk DataLoss"
_LABEL_ORDER = (*_ACTIONABLE_LABELS, "refused", "observed", "unchanged", NOT_IN_PATHS)


class PlanCounts(NamedTuple):
    """The number of topics of each kind, in display order; a topic may be of several kinds.

    ``withheld`` counts the changes that are withheld by the cluster or its budgets (``CLUSTER_WIDE_REASONS``).
    ``withheld_reason`` is the reason, empty if nothing is withheld.
    """

    counts: Mapping[str, int]
    withheld: Mapping[str, int]
    withheld_reason: str = ""


def count_plan(plan: Plan) -> PlanCounts:
    """Count the topics of a plan."""
    counts: Counter[str] = Counter()
    held: Counter[str] = Counter()
    for topic in plan.topics:
        if topic.observe_only:
            counts["unchanged" if is_record_only(topic) else "observed"] += bool(topic.changes)
        else:
            counts.update(_change_labels(topic))
        counts["refused"] += any(issue.reason not in CLUSTER_WIDE_REASONS for issue in topic.refusals)
        held.update(_withheld_labels(topic))
    counts["unchanged"] += plan.unchanged
    counts[NOT_IN_PATHS] += len(plan.orphans)
    reason = (plan.write_block.summary or "over budget") if held else ""
    return PlanCounts(_sort_counts(counts), _sort_counts(held), reason)


def _sort_counts(counts: Mapping[str, int]) -> Mapping[str, int]:
    return {word: counts[word] for word in _LABEL_ORDER if counts[word]}


def _change_labels(topic: TopicPlan) -> set[str]:
    if is_record_only(topic):
        return {"to adopt" if describe_ownership_action(topic) else "record only"}
    return {_ACTION_LABELS[type(change)] for change in topic.changes if type(change) in _ACTION_LABELS}


def _withheld_labels(topic: TopicPlan) -> set[str]:
    changes = [change for issue in topic.refusals if issue.reason in CLUSTER_WIDE_REASONS for change in issue.withheld]
    if changes and all(isinstance(change, TakeOwnership) for change in changes):
        return {"record only" if topic.before and topic.before.valid_record else "to adopt"}
    return {_ACTION_LABELS[type(change)] for change in changes if type(change) in _ACTION_LABELS}


def count_plans(plans: Sequence[Plan]) -> PlanCounts:
    """Count the topics of several plans together.

    If only one cluster withholds changes, ``withheld_reason`` names that cluster.
    """
    counts: Counter[str] = Counter()
    held: Counter[str] = Counter()
    reasons = []
    for plan in plans:
        plan_counts = count_plan(plan)
        counts.update(plan_counts.counts)
        held.update(plan_counts.withheld)
        if plan_counts.withheld:
            reasons.append(
                f"{plan.cluster}: {plan_counts.withheld_reason}"
                if plan.cluster and len(plans) > 1
                else plan_counts.withheld_reason
            )
    reason = reasons[0] if len(reasons) == 1 else f"on {format_count(len(reasons), 'cluster')}"
    return PlanCounts(_sort_counts(counts), _sort_counts(held), reason if reasons else "")


def format_summary_line(layout: TextLayout, plan_counts: PlanCounts, label: str = PLAN_LABEL) -> str:
    """Return the summary: ``Plan: 1 to create, 812 unchanged.``, or that there are no changes.

    ``label`` names the plan or the cluster; the line is wrapped to the layout's width.
    """
    text = _format_sentence(plan_counts, label)
    *before, last = text.split(", ")
    lines = (
        wrap(text, layout.width)
        if plan_counts.withheld
        else fill_lines([*(f"{part}," for part in before), last], layout.width)
    )
    return "\n".join(layout.colorize(part, BOLD) for part in lines)


def _format_sentence(plan_counts: PlanCounts, label: str) -> str:
    counts = plan_counts.counts
    if plan_counts.withheld:
        pending = _join_counts({word: number for word, number in counts.items() if word in _ACTIONABLE_LABELS})
        rest = _join_counts({word: number for word, number in counts.items() if word not in _ACTIONABLE_LABELS})
        held = f"{_join_counts(plan_counts.withheld)}, held back: {sanitize(plan_counts.withheld_reason)}"
        return f"{label}: {'; '.join(filter(None, [pending, held, rest]))}."
    nothing = "No changes:" if label == PLAN_LABEL else f"{label}: no changes,"
    if any(word in _ACTIONABLE_LABELS for word in counts):
        return f"{label}: {_join_counts(counts)}."
    if not counts:
        return f"{nothing} no topic is asked for."
    if set(counts) == {"unchanged"}:
        verb = "is as it" if counts["unchanged"] == 1 else "are as they"
        return f"{nothing} {format_count(counts['unchanged'], 'topic')} {verb} should be."
    return f"{nothing} {_join_counts(counts)}."


def _join_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {word}" for word, number in counts.items())


def format_data_losses(layout: TextLayout, plan: Plan, advice: str) -> Iterator[str]:
    """Yield the names of the topics that may lose data; nothing if there are none.

    ``advice`` (may be empty) explains what ``apply`` requires for them.
    """
    risky = [topic for topic in plan.actionable_topics() if topic.risk is Risk.DATA_LOSS]
    if not risky:
        return
    changes = sum(change.assessment.risk is Risk.DATA_LOSS for topic in risky for change in topic.changes)
    lines = format_names(layout, [topic.topic for topic in risky])
    for part in wrap(f"{format_count(changes, 'change')} may lose data:{advice}", layout.width):
        yield layout.colorize(part, BOLD_RED)
    yield from (f"    {part}" for part in lines)

"""How a plan ends: what there is to do, in one line that adds up, and what applying it would ask for."""

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
    ReleaseOwnership: "to release",
    Nudge: "to nudge",
}
_ACTIONABLE_LABELS = (*_ACTION_LABELS.values(), "to adopt", "record only")
PLAN_LABEL = "Plan"
NOT_IN_PATHS = "not in the given paths"
"""Said of topics with a record of this owner that the run's manifests do not name: other paths may have theirs."""

DATA_LOSS_ADVICE = " apply asks, or wants --allow-risk DataLoss"
_LABEL_ORDER = (*_ACTIONABLE_LABELS, "refused", "observed", "unchanged", NOT_IN_PATHS)


class PlanCounts(NamedTuple):
    """How many topics there are of each kind, in the order in which to say it; a topic may be of several kinds.

    ``held`` counts changes that wait for the cluster or its budgets (``CLOSED``), ``why`` says for what.
    """

    counts: Mapping[str, int]
    withheld: Mapping[str, int]
    withheld_reason: str = ""


def count_plan(plan: Plan) -> PlanCounts:
    """Count the topics of a plan."""
    found: Counter[str] = Counter()
    held: Counter[str] = Counter()
    for topic in plan.topics:
        if topic.observe_only:
            found["unchanged" if is_record_only(topic) else "observed"] += bool(topic.changes)
        else:
            found.update(_change_labels(topic))
        found["refused"] += any(finding.reason not in CLUSTER_WIDE_REASONS for finding in topic.refusals)
        held.update(_withheld_labels(topic))
    found["unchanged"] += plan.unchanged
    found[NOT_IN_PATHS] += len(plan.orphans)
    why = (plan.write_block.summary or "over budget") if held else ""
    return PlanCounts(_sort_counts(found), _sort_counts(held), why)


def _sort_counts(counts: Mapping[str, int]) -> Mapping[str, int]:
    return {word: counts[word] for word in _LABEL_ORDER if counts[word]}


def _change_labels(topic: TopicPlan) -> set[str]:
    if is_record_only(topic):
        return {"to adopt" if describe_ownership_action(topic) else "record only"}
    return {_ACTION_LABELS[type(change)] for change in topic.changes if type(change) in _ACTION_LABELS}


def _withheld_labels(topic: TopicPlan) -> set[str]:
    changes = [
        change for finding in topic.refusals if finding.reason in CLUSTER_WIDE_REASONS for change in finding.withheld
    ]
    if changes and all(isinstance(change, TakeOwnership) for change in changes):
        return {"record only" if topic.before and topic.before.valid_record else "to adopt"}
    return {_ACTION_LABELS[type(change)] for change in changes if type(change) in _ACTION_LABELS}


def count_plans(plans: Sequence[Plan]) -> PlanCounts:
    """Count the topics of several plans together; a cluster that alone holds changes back is named."""
    found: Counter[str] = Counter()
    held: Counter[str] = Counter()
    whys = []
    for plan in plans:
        each = count_plan(plan)
        found.update(each.counts)
        held.update(each.withheld)
        if each.withheld:
            whys.append(
                f"{plan.cluster}: {each.withheld_reason}" if plan.cluster and len(plans) > 1 else each.withheld_reason
            )
    why = whys[0] if len(whys) == 1 else f"on {format_count(len(whys), 'cluster')}"
    return PlanCounts(_sort_counts(found), _sort_counts(held), why if whys else "")


def format_summary_line(layout: TextLayout, plan_counts: PlanCounts, label: str = PLAN_LABEL) -> str:
    """The summary: ``Plan: 1 to create, 812 unchanged.``, or that there are no changes; ``label`` says of what."""
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
    """What may lose data, by name, with ``advice`` (may be empty) on what that takes; nothing where nothing may."""
    risky = [topic for topic in plan.actionable_topics() if topic.risk is Risk.DATA_LOSS]
    if not risky:
        return
    changes = sum(change.assessment.risk is Risk.DATA_LOSS for topic in risky for change in topic.changes)
    lines = format_names(layout, [topic.topic for topic in risky])
    for part in wrap(f"{format_count(changes, 'change')} may lose data:{advice}", layout.width):
        yield layout.colorize(part, BOLD_RED)
    yield from (f"    {part}" for part in lines)

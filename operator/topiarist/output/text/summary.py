"""The last lines of a plan: one line of counts that add up, and the topics that may lose data.

``text.plan`` prints them; ``markdown.plan`` uses the counts for its table and title.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from topiarist.model.plan import (
    AddPartitions,
    Change,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    MoveReplicas,
    Nudge,
    Plan,
    ReleaseOwnership,
    TakeOwnership,
    UpdateConfig,
)
from topiarist.model.run_options import Risk
from topiarist.output.groups import LIMIT_LABELS, describe_ownership_action, is_record_only
from topiarist.output.text.layout import BOLD, BOLD_RED, TextLayout, sanitize
from topiarist.output.text.topic_block import CLUSTER_WIDE_REASONS
from topiarist.text import format_count

_ACTION_LABELS = {
    CreateTopic: "to create",
    AddPartitions: "to grow",
    MoveReplicas: "to move",
    UpdateConfig: "to configure",
    ElectLeaders: "to elect",
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

DATA_LOSS_ADVICE = " confirm it in apply, or pass to a run with --yes"
MAX_CONSENT_NAMES = 20
"""The number of topics up to which the option of a consent names each of them."""

_LABEL_ORDER = (*_ACTIONABLE_LABELS, "refused", "observed", "unchanged", NOT_IN_PATHS)


class PlanCounts(Struct, frozen=True):
    """The number of topics of each kind, in display order; a topic may be of several kinds.

    ``withheld`` counts the changes that are withheld by the cluster or by a limit (``CLUSTER_WIDE_REASONS``).
    ``withheld_reason`` is the reason, empty if nothing is withheld.
    """

    counts: Mapping[str, int]
    withheld: Mapping[str, int]
    withheld_reason: str = ""


def count_plan(plan: Plan) -> PlanCounts:
    """Count the topics of a plan."""
    counts: Counter[str] = Counter()
    withheld: Counter[str] = Counter()
    limits: set[str] = set()
    for topic in plan.topics:
        if topic.observe_only:
            counts["unchanged" if is_record_only(topic) else "observed"] += bool(topic.changes)
        else:
            counts.update(_list_labels(topic.changes, adopts=bool(describe_ownership_action(topic))))
        # A refusal for a cluster-wide reason counts as held back: the topic itself has no error.
        counts["refused"] += any(issue.reason not in CLUSTER_WIDE_REASONS for issue in topic.refusals)
        held_back = [issue for issue in topic.refusals if issue.reason in CLUSTER_WIDE_REASONS]
        limits.update(LIMIT_LABELS[issue.reason] for issue in held_back if issue.reason in LIMIT_LABELS)
        changes = [change for issue in held_back for change in issue.withheld]
        withheld.update(_list_labels(changes, adopts=not (topic.before and topic.before.valid_record)))
    counts["unchanged"] += plan.unchanged
    counts[NOT_IN_PATHS] += len(plan.orphans)
    reason = (plan.write_block.summary or " and ".join(sorted(limits))) if withheld else ""
    return PlanCounts(_sort_counts(counts), _sort_counts(withheld), reason)


def _list_labels(changes: Sequence[Change], *, adopts: bool) -> set[str]:
    """Return the kinds of a topic's changes; a record that goes with other changes is no kind of its own."""
    if changes and all(isinstance(change, TakeOwnership) for change in changes):
        return {"to adopt" if adopts else "record only"}
    return {_ACTION_LABELS[type(change)] for change in changes if type(change) in _ACTION_LABELS}


def _sort_counts(counts: Mapping[str, int]) -> Mapping[str, int]:
    return {label: counts[label] for label in _LABEL_ORDER if counts[label]}


def count_plans(plans: Sequence[Plan]) -> PlanCounts:
    """Count the topics of several plans together.

    If only one cluster withholds changes, ``withheld_reason`` names that cluster.
    """
    counts: Counter[str] = Counter()
    withheld: Counter[str] = Counter()
    reasons = []
    for plan in plans:
        plan_counts = count_plan(plan)
        counts.update(plan_counts.counts)
        withheld.update(plan_counts.withheld)
        if plan_counts.withheld:
            name = f"{plan.cluster}: " if plan.cluster and len(plans) > 1 else ""
            reasons.append(name + plan_counts.withheld_reason)
    reason = "" if not reasons else reasons[0] if len(reasons) == 1 else f"on {format_count(len(reasons), 'cluster')}"
    return PlanCounts(_sort_counts(counts), _sort_counts(withheld), reason)


def format_summary_line(layout: TextLayout, plan_counts: PlanCounts, label: str = PLAN_LABEL) -> str:
    """Return the summary: ``Plan: 1 to create, 812 unchanged.``, or why there is nothing to apply.

    ``label`` names the plan or the cluster; the line is wrapped to the layout's width.
    """
    text = _format_sentence(plan_counts, label)
    if plan_counts.withheld:
        lines = layout.wrap(text, layout.width)
    else:
        *before, last = text.split(", ")
        lines = layout.fill_lines([*(f"{part}," for part in before), last], layout.width)
    return "\n".join(layout.colorize(part, BOLD) for part in lines)


def _format_sentence(plan_counts: PlanCounts, label: str) -> str:
    counts = plan_counts.counts
    actions = {word: number for word, number in counts.items() if word in _ACTIONABLE_LABELS}
    if plan_counts.withheld:
        rest = {word: number for word, number in counts.items() if word not in actions}
        held = f"{_join_counts(plan_counts.withheld)}, held back: {sanitize(plan_counts.withheld_reason)}"
        return f"{label}: {'; '.join(filter(None, [_join_counts(actions), held, _join_counts(rest)]))}."
    if actions:
        return f"{label}: {_join_counts(counts)}."
    reason = _describe_no_actions(counts)
    nothing = f"{reason}:" if label == PLAN_LABEL else f"{label}: {reason[0].lower()}{reason[1:]},"
    if not counts:
        return f"{nothing} no topics are declared."
    if set(counts) == {"unchanged"}:
        verb = "matches its manifest" if counts["unchanged"] == 1 else "match their manifests"
        return f"{nothing} {format_count(counts['unchanged'], 'topic')} {verb}."
    return f"{nothing} {_join_counts(counts)}."


def _describe_no_actions(counts: Mapping[str, int]) -> str:
    """Return why ``apply`` would change nothing: a refused or an observed change is not the same as no change."""
    return (
        "Nothing can be applied"
        if "refused" in counts
        else "Nothing to apply"
        if "observed" in counts
        else "No changes"
    )


def _join_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {word}" for word, number in counts.items())


def format_consent(topics: Sequence[str]) -> str:
    """Return the option that permits the loss of data of these topics; ``TOPIC,...`` stands for many names."""
    return f"--allow-risk DataLoss={','.join(topics) if len(topics) <= MAX_CONSENT_NAMES else 'TOPIC,...'}"


def list_data_loss_topics(plan: Plan) -> Sequence[str]:
    """Return the names of the topics with a change that may lose data."""
    return tuple(topic.topic for topic in plan.actionable_topics() if topic.risk is Risk.DATA_LOSS)


def describe_data_losses(plan: Plan) -> str:
    """Return the number of changes that may lose data, as text."""
    changes = (change for topic in plan.actionable_topics() for change in topic.changes)
    return f"{format_count(sum(each.assessment.risk is Risk.DATA_LOSS for each in changes), 'change')} may lose data"


def format_data_losses(layout: TextLayout, plan: Plan, *, applying: bool) -> Iterator[str]:
    """Yield the names of the topics that may lose data; nothing if there are none.

    Unless the plan is about to be applied, the last line is the option that a run without confirmation needs: it is
    not wrapped, so that it can be copied.
    """
    names = list_data_loss_topics(plan)
    if not names:
        return
    advice = "" if applying else DATA_LOSS_ADVICE
    for part in layout.wrap(f"{describe_data_losses(plan)}:{advice}", layout.width):
        yield layout.colorize(part, BOLD_RED)
    if applying or len(names) > MAX_CONSENT_NAMES:
        yield from (f"    {part}" for part in layout.format_names(names))
    if not applying:
        yield f"    {sanitize(format_consent(names))}"

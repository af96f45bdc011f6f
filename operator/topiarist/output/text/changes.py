"""Changes as text: the action, the risk with its reason, replica lists and config before and after.

The module formats both planned changes and the changes that a refusal withholds. ``topic_block`` puts a heading above
them; ``markdown.plan`` and ``ci.github`` use the summaries and risks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec.structs import replace

from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    AddPartitions,
    Change,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    MoveReplicas,
    Nudge,
    ReleaseOwnership,
    RiskAssessment,
    TakeOwnership,
    UpdateConfig,
)
from topiarist.model.run_options import Risk
from topiarist.model.spec import TopicSpec
from topiarist.output.text.layout import BOLD_RED, DIM, YELLOW, TextLayout
from topiarist.output.text.planned_moves import (
    describe_move_reasons,
    describe_new_leaders,
    find_move_location,
    summarize_moves,
)
from topiarist.output.text.values import (
    ConfigRow,
    format_config_lines,
    format_elections,
    format_moves,
    format_replica_lists,
)
from topiarist.planning.risk import assess_lowering
from topiarist.text import format_count

RISK_STYLES = (DIM, YELLOW, BOLD_RED)
"""The style of each risk's label, safest first."""

FROM_CLUSTER_DEFAULTS = "from the cluster's defaults"

SharedDefaults = Collection[tuple[str, str | None]]
"""Keys and values of cluster defaults that are shown once for many topics."""

_CHANGE_SUBJECTS = {
    CreateTopic: "creation",
    AddPartitions: "growth",
    MoveReplicas: "move",
    ElectLeaders: "election",
    DeleteTopic: "deletion",
    TakeOwnership: "record",
    ReleaseOwnership: "record",
    Nudge: "nudge",
}
_MAX_SUBJECTS = 3


def summarize_changes(changes: Iterable[Change], partition_count: int = 0) -> str:
    """Return the changes in a few words: ``grow 6 -> 12 partitions, configure``.

    ``partition_count`` is the number of partitions of the topic; 0 if it is not known.
    """
    return ", ".join(_summarize_change(change, partition_count) for change in changes)


def _summarize_change(change: Change, partition_count: int) -> str:
    match change:
        case CreateTopic(replicas):
            widths = sorted({len(brokers) for brokers in replicas})
            width = format_count(widths[0], "replica") if len(widths) == 1 else f"{widths[0]} to {widths[-1]} replicas"
            return f"create {format_count(len(replicas), 'partition')} x {width}"
        case AddPartitions():
            return f"grow {change.before:,} -> {format_count(change.total, 'partition')}"
        case MoveReplicas(moves):
            return summarize_moves(moves, partition_count)
        case ElectLeaders(partitions):
            return f"elect the preferred leaders of {format_count(len(partitions), 'partition')}"
        case UpdateConfig():
            return "configure"
        case DeleteTopic(partitions):
            return f"delete {format_count(partitions, 'partition')} and all messages"
        case TakeOwnership():
            return "record only"
        case ReleaseOwnership():
            return "unmanage: only the ownership record is removed"
        case Nudge(partitions):
            return f"nudge: {format_count(len(partitions), 'partition')} without a state"


def highest_risk(changes: Iterable[Change]) -> Risk:
    """Return the highest risk among the changes; ``Risk.SAFE`` if there are none."""
    return max((change.assessment.risk for change in changes), default=Risk.SAFE)


def format_changes(
    layout: TextLayout,
    changes: Sequence[Change],
    spec: TopicSpec | None,
    *,
    shared_defaults: SharedDefaults = (),
    already_shown: str = "",
) -> Iterator[str]:
    """Yield the fields of changes: explanations of risks, replica lists, config before and after.

    ``spec`` is that of the topic, for the reasons of moves. Keys in ``shared_defaults`` are only counted. An
    explanation that is part of ``already_shown`` is not repeated.
    """
    assessments = [
        pair
        for pair in list_risk_assessments(map(_without_shown_risk, changes))
        if not pair[1].explanation or pair[1].explanation not in already_shown
    ]
    yield from format_risks(layout, assessments)
    for change in changes:
        match change:
            case CreateTopic(replicas, config):
                yield from layout.format_field("partitions", format_replica_lists(layout, replicas, 0))
                rows = [ConfigRow(ConfigItem(key, None, text, SAFE_ASSESSMENT)) for key, text in config.items()]
                yield from layout.format_field("config", format_config_lines(layout, rows))
            case AddPartitions():
                lists = format_replica_lists(layout, change.replicas, change.before)
                yield from layout.format_field("partitions", lists)
            case MoveReplicas(moves):
                yield from layout.format_text_field("because", describe_move_reasons(moves, spec))
                yield from layout.format_text_field("at", str(find_move_location(moves, spec) or ""))
                yield from layout.format_field("replicas", format_moves(layout, moves))
                yield from layout.format_text_field("leaders", describe_new_leaders(moves))
            case ElectLeaders(partitions):
                yield from layout.format_field("leaders", format_elections(layout, partitions))
            case UpdateConfig(items):
                own = filter_own_items(items, shared_defaults)
                rows = [ConfigRow(item, FROM_CLUSTER_DEFAULTS if item.inherited else "") for item in own]
                lines = format_config_lines(layout, rows)
                if left := len(items) - len(own):
                    lines.append(f"and {format_count(left, 'key')} {FROM_CLUSTER_DEFAULTS}, see above")
                yield from layout.format_field("config", lines)


def _without_shown_risk(change: Change) -> Change:
    """Return a move with the part of its risk that its heading and its leaders do not show; others unchanged."""
    return replace(change, assessment=assess_lowering(change.moves)) if isinstance(change, MoveReplicas) else change


def filter_own_items(items: Iterable[ConfigItem], shared_defaults: SharedDefaults) -> list[ConfigItem]:
    """Return the config items that are shown with their topic, without the shared defaults."""
    return [item for item in items if not (item.inherited and (item.key, item.after) in shared_defaults)]


def is_fully_shared(changes: Sequence[Change], shared_defaults: SharedDefaults) -> bool:
    """Return whether the changes consist only of shared defaults."""
    return all(
        isinstance(change, UpdateConfig) and not filter_own_items(change.items, shared_defaults) for change in changes
    )


def list_risk_assessments(changes: Iterable[Change]) -> Iterator[tuple[str, RiskAssessment]]:
    """Yield each subject of a change (a config key or a noun) with its assessment."""
    for change in changes:
        if isinstance(change, UpdateConfig):
            yield from ((item.key, item.assessment) for item in change.items)
        else:
            yield _CHANGE_SUBJECTS[type(change)], change.assessment


def format_risks(layout: TextLayout, assessments: Iterable[tuple[str, RiskAssessment]]) -> Iterator[str]:
    """Yield a field with the explanations of risks, the highest risk first; nothing if there are none.

    An explanation names its subjects, except when there is only one assessment. The risk is shown if it differs
    between the explanations.
    """
    pairs = list(assessments)
    grouped = group_risks(pairs)
    differ = len({assessment.risk for assessment, _ in grouped}) > 1
    lines = []
    for assessment, subjects in grouped:
        label = assessment.risk.label if differ else ""
        text = assessment.explanation if len(pairs) == 1 else f"{subjects}: {assessment.explanation}"
        first, *rest = layout.wrap(text, layout.text_width - (len(label) + 2 if label else 0))
        lines += [layout.align_right(first, label, layout.text_width, RISK_STYLES[assessment.risk]), *rest]
    return layout.format_field("risk", lines)


def group_risks(assessments: Iterable[tuple[str, RiskAssessment]]) -> list[tuple[RiskAssessment, str]]:
    """Return each distinct assessment that has an explanation, with its subjects as text.

    The highest risk comes first.
    """
    subjects: dict[RiskAssessment, list[str]] = {}
    for subject, assessment in assessments:
        if assessment.explanation:
            subjects.setdefault(assessment, []).append(subject)
    grouped = []
    for assessment, names in sorted(subjects.items(), key=lambda group: -group[0].risk):
        # One more name is not longer than "and 1 more".
        whole = len(names) <= _MAX_SUBJECTS + 1
        more = "" if whole else f" and {len(names) - _MAX_SUBJECTS:,} more"
        grouped.append((assessment, ", ".join(names if whole else names[:_MAX_SUBJECTS]) + more))
    return grouped

"""Changes in words and fields: what happens, why that may hurt, the replica lists and the config before and after.

Used for changes that will be done and for those that a refusal holds back; ``blocks`` puts them under a head.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    AddPartitions,
    Change,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    Nudge,
    ReleaseOwnership,
    Risk,
    RiskAssessment,
    TakeOwnership,
    UpdateConfig,
)
from topiarist.output.text.layout import BOLD_RED, DIM, YELLOW, TextLayout, format_field, right_align, wrap
from topiarist.output.text.values import ConfigRow, format_config_lines, format_replica_lists
from topiarist.text import format_count

RISK_STYLES = (DIM, YELLOW, BOLD_RED)
"""The tone of each risk's word, safest first."""

FROM_CLUSTER_DEFAULTS = "from the cluster's defaults"

SharedDefaults = Collection[tuple[str, str | None]]
"""Keys and values of the cluster's defaults that are shown once for many topics."""

_CHANGE_SUBJECTS = {
    CreateTopic: "creation",
    AddPartitions: "growth",
    DeleteTopic: "deletion",
    TakeOwnership: "record",
    ReleaseOwnership: "record",
    Nudge: "nudge",
}
_MAX_SUBJECTS = 3


def summarize_changes(changes: Iterable[Change]) -> str:
    """What the changes do, in a few words: ``grow 6 -> 12 partitions, configure``."""
    return ", ".join(_summarize_change(change) for change in changes)


def _summarize_change(change: Change) -> str:
    match change:
        case CreateTopic(replicas):
            widths = sorted({len(brokers) for brokers in replicas})
            width = format_count(widths[0], "replica") if len(widths) == 1 else f"{widths[0]} to {widths[-1]} replicas"
            return f"create {format_count(len(replicas), 'partition')} x {width}"
        case AddPartitions():
            return f"grow {change.before:,} -> {format_count(change.total, 'partition')}"
        case UpdateConfig():
            return "configure"
        case DeleteTopic(partitions):
            return f"delete {format_count(partitions, 'partition')} and all messages"
        case TakeOwnership():
            return "record only"
        case ReleaseOwnership():
            return "release: only our record goes"
        case Nudge(partitions):
            return f"nudge: {format_count(len(partitions), 'partition')} without a state"


def highest_risk(changes: Iterable[Change]) -> Risk:
    """The highest risk among changes."""
    return max((change.assessment.risk for change in changes), default=Risk.SAFE)


def format_changes(
    layout: TextLayout, changes: Sequence[Change], *, shared_defaults: SharedDefaults = (), already_shown: str = ""
) -> Iterator[str]:
    """The fields of changes: why they may hurt, replica lists, config before and after.

    Keys in ``shared_defaults`` are only counted. A reason that is part of ``already_shown`` has been given already.
    """
    reasons = [
        pair
        for pair in list_risk_assessments(changes)
        if not pair[1].explanation or pair[1].explanation not in already_shown
    ]
    yield from format_field(layout, "because", format_risk_reasons(layout, reasons))
    for change in changes:
        match change:
            case CreateTopic(replicas, config):
                yield from format_field(layout, "partitions", format_replica_lists(layout, replicas, 0))
                rows = [ConfigRow(ConfigItem(key, None, text, SAFE_ASSESSMENT)) for key, text in config.items()]
                if rows:
                    yield from format_field(layout, "config", format_config_lines(layout, rows))
            case AddPartitions():
                yield from format_field(
                    layout, "partitions", format_replica_lists(layout, change.replicas, change.before)
                )
            case UpdateConfig(items):
                yield from _format_config(layout, items, shared_defaults)


def _format_config(layout: TextLayout, items: Sequence[ConfigItem], shared_defaults: SharedDefaults) -> Iterator[str]:
    rows = [
        ConfigRow(item, FROM_CLUSTER_DEFAULTS if item.inherited else "")
        for item in filter_own_items(items, shared_defaults)
    ]
    if rows:
        yield from format_field(layout, "config", format_config_lines(layout, rows))
    if left := len(items) - len(rows):
        yield from format_field(
            layout, "" if rows else "config", [f"and {format_count(left, 'key')} {FROM_CLUSTER_DEFAULTS}, see above"]
        )


def filter_own_items(items: Iterable[ConfigItem], shared_defaults: SharedDefaults) -> list[ConfigItem]:
    """The items that are shown with their topic: all but those that are shown once for many topics."""
    return [item for item in items if not _is_shared_default(item, shared_defaults)]


def _is_shared_default(item: ConfigItem, shared_defaults: SharedDefaults) -> bool:
    return item.inherited and (item.key, item.after) in shared_defaults


def is_fully_shared(changes: Sequence[Change], shared_defaults: SharedDefaults) -> bool:
    """Whether nothing is left to show of these changes beyond what is shown for all topics together."""
    return all(
        isinstance(change, UpdateConfig) and not filter_own_items(change.items, shared_defaults) for change in changes
    )


def list_risk_assessments(changes: Iterable[Change]) -> Iterator[tuple[str, RiskAssessment]]:
    """Each thing that changes with its verdict."""
    for change in changes:
        if isinstance(change, UpdateConfig):
            yield from ((item.key, item.assessment) for item in change.items)
        else:
            yield _CHANGE_SUBJECTS[type(change)], change.assessment


def format_risk_reasons(layout: TextLayout, assessments: Iterable[tuple[str, RiskAssessment]]) -> list[str]:
    """Why changes are not safe, the worst first; one line or more for each distinct reason.

    What changes is named unless it is one thing alone, the risk where it differs from reason to reason.
    """
    found = list(assessments)
    given = group_risks(found)
    if len(found) == 1:
        return wrap(given[0][0].explanation, layout.text_width) if given else []
    differ = len({verdict.risk for verdict, _ in given}) > 1
    lines = []
    for verdict, subjects in given:
        word = verdict.risk.label if differ else ""
        first, *rest = wrap(f"{subjects}: {verdict.explanation}", layout.text_width - len(word) - 2)
        painted = layout.colorize(word, RISK_STYLES[verdict.risk])
        lines += [right_align(first, word, layout.text_width, painted), *rest]
    return lines


def group_risks(assessments: Iterable[tuple[str, RiskAssessment]]) -> list[tuple[RiskAssessment, str]]:
    """The verdicts that have a reason, each once, the worst first, with what they are about: a list in words."""
    subjects: dict[RiskAssessment, list[str]] = {}
    for subject, verdict in assessments:
        if verdict.explanation:
            subjects.setdefault(verdict, []).append(subject)
    worst_first = sorted(subjects, key=lambda verdict: -verdict.risk)
    return [(verdict, _join_subjects(subjects[verdict])) for verdict in worst_first]


def _join_subjects(subjects: Sequence[str]) -> str:
    if len(subjects) <= _MAX_SUBJECTS + 1:
        return ", ".join(subjects)
    return f"{', '.join(subjects[:_MAX_SUBJECTS])} and {len(subjects) - _MAX_SUBJECTS:,} more"

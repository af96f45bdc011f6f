"""Changes in words and fields: what happens, why that may hurt, the replica lists and the config before and after.

Used for changes that will be done and for those that a refusal holds back; ``blocks`` puts them under a head.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from topiarist.core.change import (
    SAFE,
    AddPartitions,
    Adopt,
    Change,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    GiveUp,
    Nudge,
    Risk,
    UpdateConfig,
    Verdict,
)
from topiarist.core.units import count
from topiarist.render.page import CHANGED, GONE, QUIET, Page, ended, field, wrap
from topiarist.render.values import Row, config_lines, replica_lines

RISK_TONES = (QUIET, CHANGED, GONE)
"""The tone of each risk's word, safest first."""

INHERITED = "from the cluster's defaults"

Shared = Collection[tuple[str, str | None]]
"""Keys and values of the cluster's defaults that are shown once for many topics."""

_SUBJECT = {
    CreateTopic: "creation",
    AddPartitions: "growth",
    DeleteTopic: "deletion",
    Adopt: "record",
    GiveUp: "record",
    Nudge: "nudge",
}
_SUBJECTS = 3


def action(changes: Iterable[Change]) -> str:
    """What the changes do, in a few words: ``grow 6 -> 12 partitions, configure``."""
    return ", ".join(_action(change) for change in changes)


def _action(change: Change) -> str:
    match change:
        case CreateTopic(replicas):
            widths = sorted({len(brokers) for brokers in replicas})
            width = count(widths[0], "replica") if len(widths) == 1 else f"{widths[0]} to {widths[-1]} replicas"
            return f"create {count(len(replicas), 'partition')} x {width}"
        case AddPartitions():
            return f"grow {change.before:,} -> {count(change.total, 'partition')}"
        case UpdateConfig():
            return "configure"
        case DeleteTopic(partitions):
            return f"delete {count(partitions, 'partition')} and all messages"
        case Adopt():
            return "record only"
        case GiveUp():
            return "release: only our record goes"
        case Nudge(partitions):
            return f"nudge: {count(len(partitions), 'partition')} without a state"


def highest(changes: Iterable[Change]) -> Risk:
    """The highest risk among changes."""
    return max((change.verdict.risk for change in changes), default=Risk.SAFE)


def body(page: Page, changes: Sequence[Change], *, shared: Shared = (), silent: str = "") -> Iterator[str]:
    """The fields of changes: why they may hurt, replica lists, config before and after.

    Keys in ``shared`` are only counted. A reason that is part of ``silent`` has been given already.
    """
    reasons = [pair for pair in verdicts(changes) if not pair[1].because or pair[1].because not in silent]
    yield from field(page, "because", because(page, reasons))
    for change in changes:
        match change:
            case CreateTopic(replicas, config):
                yield from field(page, "partitions", replica_lines(page, replicas, 0))
                rows = [Row(ConfigItem(key, None, text, SAFE)) for key, text in config.items()]
                if rows:
                    yield from field(page, "config", config_lines(page, rows))
            case AddPartitions():
                yield from field(page, "partitions", replica_lines(page, change.replicas, change.before))
            case UpdateConfig(items):
                yield from _config(page, items, shared)


def _config(page: Page, items: Sequence[ConfigItem], shared: Shared) -> Iterator[str]:
    rows = [Row(item, INHERITED if item.inherited else "") for item in unshared(items, shared)]
    if rows:
        yield from field(page, "config", config_lines(page, rows))
    if left := len(items) - len(rows):
        yield from field(page, "" if rows else "config", [f"and {count(left, 'key')} {INHERITED}, see above"])


def unshared(items: Iterable[ConfigItem], shared: Shared) -> list[ConfigItem]:
    """The items that are shown with their topic: all but those that are shown once for many topics."""
    return [item for item in items if not _is_shared(item, shared)]


def _is_shared(item: ConfigItem, shared: Shared) -> bool:
    return item.inherited and (item.key, item.after) in shared


def wholly_shared(changes: Sequence[Change], shared: Shared) -> bool:
    """Whether nothing is left to show of these changes beyond what is shown for all topics together."""
    return all(isinstance(change, UpdateConfig) and not unshared(change.items, shared) for change in changes)


def verdicts(changes: Iterable[Change]) -> Iterator[tuple[str, Verdict]]:
    """Each thing that changes with its verdict."""
    for change in changes:
        if isinstance(change, UpdateConfig):
            yield from ((item.key, item.verdict) for item in change.items)
        else:
            yield _SUBJECT[type(change)], change.verdict


def because(page: Page, reasons: Iterable[tuple[str, Verdict]]) -> list[str]:
    """Why changes are not safe, the worst first; one line or more for each distinct reason.

    What changes is named unless it is one thing alone, the risk where it differs from reason to reason.
    """
    found = list(reasons)
    given = distinct(found)
    if len(found) == 1:
        return wrap(given[0][0].because, page.room) if given else []
    differ = len({verdict.risk for verdict, _ in given}) > 1
    lines = []
    for verdict, subjects in given:
        word = verdict.risk.word if differ else ""
        first, *rest = wrap(f"{subjects}: {verdict.because}", page.room - len(word) - 2)
        painted = page.paint(word, RISK_TONES[verdict.risk])
        lines += [ended(first, word, page.room, painted), *rest]
    return lines


def distinct(reasons: Iterable[tuple[str, Verdict]]) -> list[tuple[Verdict, str]]:
    """The verdicts that have a reason, each once, the worst first, with what they are about: a list in words."""
    subjects: dict[Verdict, list[str]] = {}
    for subject, verdict in reasons:
        if verdict.because:
            subjects.setdefault(verdict, []).append(subject)
    worst_first = sorted(subjects, key=lambda verdict: -verdict.risk)
    return [(verdict, _listed(subjects[verdict])) for verdict in worst_first]


def _listed(subjects: Sequence[str]) -> str:
    if len(subjects) <= _SUBJECTS + 1:
        return ", ".join(subjects)
    return f"{', '.join(subjects[:_SUBJECTS])} and {len(subjects) - _SUBJECTS:,} more"

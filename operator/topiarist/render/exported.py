"""What an export has written and left out, as text: each topic and config value that no manifest has, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from topiarist.core.rules import version
from topiarist.core.spec import ClusterSpec
from topiarist.core.state import ClusterState
from topiarist.core.units import count
from topiarist.export import Exported, LeftOut
from topiarist.render.page import CHANGED, STRONG, Page, names, plain, remark, wrap

_SHOWN_REASONS = 20


def summary(found: Exported, state: ClusterState, cluster: ClusterSpec, *, folder: str, page: Page) -> str:
    """What a person has to know who will live with ``folder``; names and reasons are cut short unless verbose."""
    remarks = [
        *_groups(page, "left out", found.left_out),
        *_groups(page, "unmanaged", found.unmanaged),
        *_groups(page, "uneven", found.uneven),
        *_doubts(page, state, cluster, folder),
    ]
    total = f"Exported: {count(found.topics, 'topic')} of cluster {cluster.name} to {plain(folder)}"
    if found.left_out:
        total += f", {len(found.left_out):,} left out"
    return "\n".join([*remarks, *([""] if remarks else []), page.paint(f"{total}.", STRONG)])


def _doubts(page: Page, state: ClusterState, cluster: ClusterSpec, folder: str) -> Iterator[str]:
    warnings = list(state.warnings)
    if state.gate.reason:
        warnings.insert(0, f"{state.gate.message}; nothing is written to it")
    if cluster.source is None and cluster.release is None:
        least = version(state.release_at_least)
        why = f"ZooKeeper does not name the release, only that it is {least} or later"
        warnings.append(f"kafkaVersion is missing in {folder}/cluster.yaml: {why}")
    for warning in warnings:
        yield from remark(page, "warning", wrap(warning, page.room), CHANGED)


def _groups(page: Page, label: str, found: Sequence[LeftOut]) -> Iterator[str]:
    """Each reason once, the most frequent first, with the topics that it is the reason for."""
    topics: defaultdict[str, list[str]] = defaultdict(list)
    for topic, why in found:
        topics[why].append(topic)
    reasons = sorted(topics, key=lambda why: (-len(topics[why]), topics[why], why))
    shown = reasons if page.verbose or len(reasons) <= _SHOWN_REASONS else reasons[: _SHOWN_REASONS - 1]
    for why in shown:
        if len(topics[why]) == 1:
            lines = wrap(f"{topics[why][0]}: {why}", page.room)
        else:
            lines = [*wrap(f"{count(len(topics[why]), 'topic')}: {why}", page.room), *names(page, topics[why])]
        yield from remark(page, label, lines)
    if left := sum(len(topics[why]) for why in reasons[len(shown) :]):
        yield from remark(page, label, [f"{left:,} more (-v shows them)"])

"""The summary of an export as text: omitted topics and config values, each with the reason.

``export`` prints it after it has written the manifests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from topiarist.desired.export import ExportResult, OmittedItem
from topiarist.kafka.types import format_version
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState
from topiarist.output.text.layout import BOLD, YELLOW, TextLayout, format_names, format_section, sanitize, wrap
from topiarist.text import format_count

_MAX_SHOWN_REASONS = 20


def format_summary(
    result: ExportResult, state: ClusterState, cluster: ClusterSpec, *, folder: str, layout: TextLayout
) -> str:
    """Return the summary for the user who will maintain ``folder``.

    Names and reasons are shortened unless the layout is verbose.
    """
    remarks = [
        *_format_reason_groups(layout, "left out", result.omitted),
        *_format_reason_groups(layout, "unmanaged", result.unmanaged),
        *_format_reason_groups(layout, "uneven", result.mixed_replication),
        *_format_warnings(layout, state, cluster, folder),
    ]
    total = f"Exported: {format_count(result.topic_count, 'topic')} of cluster {cluster.name} to {sanitize(folder)}"
    if result.omitted:
        total += f", {len(result.omitted):,} left out"
    return "\n".join([*remarks, *([""] if remarks else []), layout.colorize(f"{total}.", BOLD)])


def _format_warnings(layout: TextLayout, state: ClusterState, cluster: ClusterSpec, folder: str) -> Iterator[str]:
    warnings = list(state.warnings)
    if state.write_block.reason:
        warnings.insert(0, f"{state.write_block.message}; nothing is written to it")
    if cluster.source is None and cluster.version is None:
        least = format_version(state.min_version)
        why = f"ZooKeeper does not name the release, only that it is {least} or later"
        warnings.append(f"kafkaVersion is missing in {folder}/cluster.yaml: {why}")
    for warning in warnings:
        yield from format_section(layout, "warning", wrap(warning, layout.text_width), YELLOW)


def _format_reason_groups(layout: TextLayout, label: str, omitted: Sequence[OmittedItem]) -> Iterator[str]:
    """Yield each reason once, the most frequent first, with its topics."""
    topics: defaultdict[str, list[str]] = defaultdict(list)
    for topic, why in omitted:
        topics[why].append(topic)
    reasons = sorted(topics, key=lambda why: (-len(topics[why]), topics[why], why))
    shown = reasons if layout.verbose or len(reasons) <= _MAX_SHOWN_REASONS else reasons[: _MAX_SHOWN_REASONS - 1]
    for why in shown:
        if len(topics[why]) == 1:
            lines = wrap(f"{topics[why][0]}: {why}", layout.text_width)
        else:
            lines = [
                *wrap(f"{format_count(len(topics[why]), 'topic')}: {why}", layout.text_width),
                *format_names(layout, topics[why]),
            ]
        yield from format_section(layout, label, lines)
    if hidden_count := sum(len(topics[why]) for why in reasons[len(shown) :]):
        yield from format_section(layout, label, [f"{hidden_count:,} more (-v shows them)"])

"""Changes as the lines of a diff: replica lists and config before and after.

``markdown.plan`` puts the lines into a ``diff`` code block, which viewers colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from topiarist.model.plan import (
    AddPartitions,
    Change,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    MoveReplicas,
    UpdateConfig,
)
from topiarist.output.text.changes import FROM_CLUSTER_DEFAULTS, SharedDefaults, filter_own_items
from topiarist.output.text.layout import TextLayout, sanitize
from topiarist.output.text.planned_moves import describe_move_kinds
from topiarist.output.text.values import (
    BROKER_DEFAULT,
    format_elections,
    format_moves,
    format_replica_lists,
    format_value,
    humanize_config_value,
)
from topiarist.text import format_count

COMMENT_LAYOUT = TextLayout(width=107)
"""The layout of fixed-width text in a comment: the widest that needs no horizontal scroll bar."""


def format_diff(changes: Iterable[Change], shared_defaults: SharedDefaults) -> list[str]:
    """Return the changes as a diff: new replica lists by partition, config before and after."""
    lines: list[str] = []
    for change in changes:
        match change:
            case CreateTopic(replicas, config):
                lines.append("@@ partitions @@")
                lines.extend(f"+ {line}" for line in format_replica_lists(COMMENT_LAYOUT, replicas, 0))
                items = [ConfigItem(key, None, text, change.assessment) for key, text in config.items()]
                lines.extend(_format_config(items, ()))
            case AddPartitions():
                lines.append(f"@@ partitions {change.before:,} -> {change.total:,} @@")
                added = format_replica_lists(COMMENT_LAYOUT, change.replicas, change.before)
                lines.extend(f"+{line[1:].replace('+', ' ')}" for line in added)
            case MoveReplicas(moves):
                lines.append(f"@@ replicas: {describe_move_kinds(moves)} @@")
                lines.extend(f"  {line}" for line in format_moves(COMMENT_LAYOUT, moves))
            case ElectLeaders(partitions):
                lines.append("@@ leaders @@")
                lines.extend(f"  {line}" for line in format_elections(COMMENT_LAYOUT, partitions))
            case UpdateConfig(items):
                lines.extend(_format_config(items, shared_defaults))
            case DeleteTopic(partitions, replicas):
                size = f"{format_count(partitions, 'partition')}, {format_count(replicas, 'replica')}"
                lines.append(f"- {size}, all messages")
    return lines


def _format_config(items: Sequence[ConfigItem], shared_defaults: SharedDefaults) -> Iterator[str]:
    own = filter_own_items(items, shared_defaults)
    if items:
        yield "@@ config @@"
    for item in own:
        yield from format_config_item(item, FROM_CLUSTER_DEFAULTS if item.inherited else "")
    if left := len(items) - len(own):
        yield f"  {format_count(left, 'key')} {FROM_CLUSTER_DEFAULTS}: see above"


def format_config_item(item: ConfigItem, note: str) -> Iterator[str]:
    """Yield a key's values before and after, one line each, with units beside bare numbers."""
    for sign, text in (("-", item.before), ("+", item.after)):
        if text is not None:
            # The note stands once, beside the new value if there is one.
            shown_note = note if sign == "+" or item.after is None else ""
            remark = ", ".join(filter(None, [humanize_config_value(item.key, text), shown_note]))
            end = f"  ({remark})" if remark else ""
            yield f"{sign} {sanitize(item.key)} = {format_value(COMMENT_LAYOUT, text)}{end}"
    if item.after is None:
        yield f"+ {sanitize(item.key)}: {BROKER_DEFAULT}"

"""Changes as the lines of a diff: replica lists and config before and after, coloured wherever a diff is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from topiarist.core.change import AddPartitions, Change, ConfigItem, CreateTopic, DeleteTopic, UpdateConfig
from topiarist.core.units import count
from topiarist.render.changes import INHERITED, Shared, unshared
from topiarist.render.page import Page, plain
from topiarist.render.values import BROKERS_OWN, human, replica_lines, shown

PAGE = Page(width=107)
"""How wide a comment shows fixed text without a bar to move it."""


def diff(changes: Iterable[Change], shared: Shared) -> list[str]:
    """What changes, as a diff: new replica lists under their partitions, config before and after."""
    lines: list[str] = []
    for change in changes:
        match change:
            case CreateTopic(replicas, config):
                lines.append("@@ partitions @@")
                lines.extend(f"+ {line}" for line in replica_lines(PAGE, replicas, 0))
                items = [ConfigItem(key, None, text, change.verdict) for key, text in config.items()]
                lines.extend(_config(items, ()))
            case AddPartitions():
                lines.append(f"@@ partitions {change.before:,} -> {change.total:,} @@")
                added = replica_lines(PAGE, change.replicas, change.before)
                lines.extend(f"+{line[1:].replace('+', ' ')}" for line in added)
            case UpdateConfig(items):
                lines.extend(_config(items, shared))
            case DeleteTopic(partitions, replicas):
                lines.append(f"- {count(partitions, 'partition')}, {count(replicas, 'replica')}, all messages")
    return lines


def _config(items: Sequence[ConfigItem], shared: Shared) -> Iterator[str]:
    own = unshared(items, shared)
    if items:
        yield "@@ config @@"
    for item in own:
        yield from item_lines(item, INHERITED if item.inherited else "")
    if left := len(items) - len(own):
        yield f"  {count(left, 'key')} {INHERITED}: see above"


def item_lines(item: ConfigItem, note: str) -> Iterator[str]:
    """A key before and after, a line each, with units beside bare numbers."""
    for sign, text in (("-", item.before), ("+", item.after)):
        if text is not None:
            words = ", ".join(filter(None, [human(item.key, text), note if sign == "+" or item.after is None else ""]))
            yield f"{sign} {plain(item.key)} = {shown(PAGE, text)}" + (f"  ({words})" if words else "")
    if item.after is None:
        yield f"+ {plain(item.key)}: {BROKERS_OWN}"

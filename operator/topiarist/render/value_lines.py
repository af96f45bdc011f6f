"""The values of a topic as a table: each with what holds on the cluster, what is asked for, and by which line."""

from __future__ import annotations

from collections.abc import Iterator

from topiarist.core.description import Description
from topiarist.core.provenance import Holder, Layer, Value
from topiarist.core.spec import BROKER_SIZES
from topiarist.errors import Place
from topiarist.render.page import CHANGED, Page, plain, remark, wrap
from topiarist.render.values import human, shown

_FIRST = 6
_WIDEST_KEY = 37
_WIDEST_VALUE = 24
_CONFIG = "config."

_REST = "configs not named here are the brokers', who alone know them"


def table(page: Page, found: Description) -> Iterator[str]:
    """One row for each value that somebody has given; nothing where nobody has."""
    exists = found.topic in found.state.topics
    rows = [value for value in found.values if page.verbose or value.layer is not Layer.TOPIARIST]
    if not rows:
        return
    about = _REST if exists else "as far as they can be read" if any(value.holder for value in rows) else "asked for"
    yield from remark(page, "values", wrap(about, page.room))
    widest = max(min(len(plain(_key(value))), _WIDEST_KEY) for value in rows)
    texts = [_held(page, value) for value in rows]
    column = max((len(text) for text in texts if len(text) <= _WIDEST_VALUE), default=0)
    for value, text in zip(rows, texts, strict=True):
        yield from _row(page, found, value, (widest, column), text)


def _key(value: Value) -> str:
    return value.field.removeprefix(_CONFIG)


def _held(page: Page, value: Value) -> str:
    """What holds; what is asked for, where there is no topic or where the value is none of Kafka's."""
    if value.holder is None:
        return _text(page, value, value.wanted or "")
    return "not set" if value.held is None else _text(page, value, value.held)


def _text(page: Page, value: Value, text: str) -> str:
    unit = human(_key(value), text) if value.field.startswith(_CONFIG) else ""
    return shown(page, text) + (f"  ({unit})" if unit else "")


def _row(page: Page, found: Description, value: Value, widths: tuple[int, int], text: str) -> Iterator[str]:
    """A key with its value, and beside or beneath it where that comes from."""
    widest, column = widths
    start, room = _FIRST + widest + 2, page.width - _FIRST - widest - 2
    key = plain(_key(value))
    if len(key) > widest or room < _WIDEST_VALUE:
        yield from (f"{'':{_FIRST}}{part}" for part in wrap(key, page.width - _FIRST))
        start, room, key = _FIRST + 4, page.width - _FIRST - 4, ""
    left = f"{'':{_FIRST}}{key}".ljust(start)
    lines = wrap(text, room)
    source, wanted = _source(found, value), _wanted(page, value)
    if source and len(lines) == 1 and max(len(text), column) + 2 + len(source) <= room:
        lines = [f"{text.ljust(column)}  {source}"]
    else:
        lines += wrap(source, room) if source else []
    for line in lines:
        yield f"{left}{line}".rstrip()
        left = " " * start
    for line in wrap(wanted, room) if wanted else ():
        yield f"{' ' * start}{page.paint(line, CHANGED)}"


def _wanted(page: Page, value: Value) -> str:
    """What is asked for in place of what holds; empty where that is the same."""
    if not value.differs or value.holder is None or value.wanted is None:
        return ""
    ignored = ", ignored" if value.ignored else ""
    return f"-> {_text(page, value, value.wanted)}  {_asked(value)}{ignored}"


def _source(found: Description, value: Value) -> str:
    """Where what holds comes from."""
    if value.holder is None or (value.wanted is not None and not value.differs):
        return _asked(value)
    if value.holder is Holder.BROKERS:
        return "the brokers' own value holds"
    if value.holder is Holder.DYNAMIC_DEFAULT:
        return f"cluster-wide default, {value.setting}"
    if value.holder is Holder.BROKER_CONFIG:
        return _with_place(f"brokerConfig, {value.setting}", value.held_at)
    if not value.field.startswith(_CONFIG):
        return "on the cluster"
    if value.wanted is None and found.meant.spec and not found.meant.spec.absent:
        return "set by us, not in the manifest any more" if value.ours else "set on the cluster by others"
    return "set on the cluster, by us" if value.ours else "set on the cluster"


def _asked(value: Value) -> str:
    """Who asks for a value, and where."""
    if value.layer is Layer.TOPIARIST:
        return "topiarist's default"
    words = {Layer.OVERRIDE: "override", Layer.CLUSTER_DEFAULTS: "the Cluster's defaults"}
    if value.layer is Layer.BROKER_CONFIG:
        words[Layer.BROKER_CONFIG] = f"brokerConfig, {BROKER_SIZES[value.field]}"
    parts = [str(value.place) if value.place else "", words.get(value.layer, "") if value.layer else ""]
    return ", ".join(plain(part) for part in parts if part)


def _with_place(words: str, place: Place | None) -> str:
    return f"{words}, {place}" if place else words

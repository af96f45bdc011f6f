"""The effect of a plan on the brokers: leaders and replicas before and after, per broker or per rack.

A plan that moves replicas also has the number of those that each broker copies (in) and deletes (out).

``text.plan`` and ``markdown.plan`` show the table. Many brokers are combined by rack, unless the layout is verbose.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from topiarist.model.plan import Load, Plan, compute_broker_load_after
from topiarist.output.text.layout import DIM, TEXT_COLUMN, TextLayout, sanitize, shorten
from topiarist.text import format_count

_Row = tuple[str, Sequence[int]]
"""A label and its brokers."""

_NOT_REGISTERED = "not registered"
_MAX_SHOWN_BROKERS = 20
_MIN_LEADERS_WIDTH = 18
_MAX_RACK_WIDTH = 24
_MOVED_WIDTH = 7
_MOVED_HEADS = "".join(f"{head:>{_MOVED_WIDTH}}" for head in ("in", "out"))


def format_broker_table(layout: TextLayout, plan: Plan) -> Iterator[str]:
    """Yield the table; nothing if the plan neither places nor moves a replica.

    "Leaders" counts preferred leaders: the first broker of each replica list.
    """
    if not any(topic.new_replicas() or topic.moves() for topic in plan.actionable_topics()):
        return
    after = compute_broker_load_after(plan)
    rows = _build_broker_rows(layout, plan, after)
    if len(rows) > _MAX_SHOWN_BROKERS and not layout.verbose:
        rows = _build_rack_rows(layout, plan, after)
    sums = [(_sum_load(plan.load, brokers), _sum_load(after, brokers)) for _, brokers in rows]
    leaders = _format_column([(before.leaders, after.leaders) for before, after in sums])
    replicas = _format_column([(before.replicas, after.replicas) for before, after in sums])
    start = max(TEXT_COLUMN, *(len(label) + 8 for label, _ in rows))
    width = max(_MIN_LEADERS_WIDTH, *(len(text) + 2 for text in leaders))
    moved = _count_moved(plan)
    heads, cells = (_MOVED_HEADS, _format_moved(rows, plan, after, moved)) if moved else ("", [""] * len(rows))
    replicas_width = max(len("replicas"), *map(len, replicas)) if moved else 0
    yield layout.colorize(
        f"{'  brokers':<{start}}{'leaders':<{width}}{'replicas':<{replicas_width}}{heads}".rstrip(), DIM
    )
    for (label, _), leader_text, replica_text, moved_text in zip(rows, leaders, replicas, cells, strict=True):
        line = f"      {label}".ljust(start) + leader_text.ljust(width) + replica_text.ljust(replicas_width)
        yield f"{line}{moved_text}".rstrip()


def _count_moved(plan: Plan) -> Mapping[int, tuple[int, int]]:
    """Return the replicas that each broker copies and deletes; empty if the plan moves nothing."""
    moves = [move for topic in plan.actionable_topics() for move in topic.moves()]
    incoming = Counter(broker for move in moves for broker in move.added)
    outgoing = Counter(broker for move in moves for broker in move.removed)
    brokers = {broker for move in moves for broker in (*move.before, *move.after)}
    return {broker: (incoming[broker], outgoing[broker]) for broker in brokers}


def _format_moved(
    rows: Sequence[_Row], plan: Plan, after: Mapping[int, Load], moved: Mapping[int, tuple[int, int]]
) -> list[str]:
    lines = []
    for _, brokers in rows:
        incoming, outgoing = (sum(moved.get(broker, (0, 0))[at] for broker in brokers) for at in (0, 1))
        draining = [broker for broker in brokers if broker in plan.drain_brokers]
        left = sum(after[broker].replicas for broker in draining if broker in after)
        note = ""
        if draining:
            emptied = "drained" if len(draining) == len(brokers) else f"{len(draining):,} drained"
            note = f"draining: {left:,} left" if left else emptied
        lines.append(f"{incoming:>{_MOVED_WIDTH},}{outgoing:>{_MOVED_WIDTH},}   {note}")
    return lines


def _build_broker_rows(layout: TextLayout, plan: Plan, after: Mapping[int, Load]) -> list[_Row]:
    racks = {broker.id: broker.rack for broker in plan.brokers}
    digits = max(len(str(broker)) for broker in after)
    rows: list[_Row] = []
    for broker in after:
        rack = racks.get(broker)
        note = _NOT_REGISTERED if broker not in racks else "" if rack is None else _describe_rack(layout, rack)
        rows.append((f"{broker:>{digits}}{f' ({note})' if note else ''}", [broker]))
    return rows


def _build_rack_rows(layout: TextLayout, plan: Plan, after: Mapping[int, Load]) -> list[_Row]:
    racks: dict[str | None, list[int]] = defaultdict(list)
    for broker in plan.brokers:
        racks[broker.rack].append(broker.id)
    # Brokers without a rack come after the racks, and brokers that are not registered come last.
    names = sorted(racks, key=lambda rack: (rack is None, rack or ""))
    rows = [(_describe_rack(layout, rack), racks[rack]) for rack in names]
    registered = {broker.id for broker in plan.brokers}
    if missing := [broker for broker in after if broker not in registered]:
        rows.append((_NOT_REGISTERED, missing))
    return [(f"{name} ({format_count(len(brokers), 'broker')})", brokers) for name, brokers in rows]


def _describe_rack(layout: TextLayout, rack: str | None) -> str:
    if rack is None:
        return "no rack"
    name = sanitize(rack)
    return f"rack {name if layout.spare_width is None else shorten(name, _MAX_RACK_WIDTH)}"


def _sum_load(loads: Mapping[int, Load], brokers: Sequence[int]) -> Load:
    found = [loads.get(broker, Load()) for broker in brokers]
    return Load(sum(load.leaders for load in found), sum(load.replicas for load in found))


def _format_column(pairs: Sequence[tuple[int, int]]) -> list[str]:
    """Return the values before and after, right-aligned; an unchanged value is shown once."""
    before_width = max(len(f"{before:,}") for before, _ in pairs)
    after_width = max(len(f"{after:,}") for _, after in pairs)
    return [
        f"{before:>{before_width},}" if before == after else f"{before:>{before_width},} -> {after:>{after_width},}"
        for before, after in pairs
    ]

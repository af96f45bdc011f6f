"""The effect of a plan on the brokers: leaders and replicas before and after, per broker or per rack.

``text.plan`` and ``markdown.plan`` show the table. Many brokers are combined by rack, unless the layout is verbose.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from topiarist.model.plan import Load, Plan, compute_broker_load_after
from topiarist.output.text.layout import DIM, TEXT_COLUMN, TextLayout, sanitize
from topiarist.text import format_count

_MAX_SHOWN_BROKERS = 20
_MIN_LEADERS_WIDTH = 18
_MAX_RACK_WIDTH = 24


class _LoadRow(NamedTuple):
    label: str
    before: Load
    after: Load


def format_broker_table(layout: TextLayout, plan: Plan) -> Iterator[str]:
    """Yield the table; nothing if the plan places no replica.

    "Leaders" counts preferred leaders: the first broker of each replica list.
    """
    if not any(topic.new_replicas() for topic in plan.actionable_topics()):
        return
    rows = _build_broker_rows(plan)
    if len(rows) > _MAX_SHOWN_BROKERS and not layout.verbose:
        rows = _build_rack_rows(plan)
    leaders = [(row.before.leaders, row.after.leaders) for row in rows]
    replicas = [(row.before.replicas, row.after.replicas) for row in rows]
    leader_texts, replica_texts = _format_column(leaders), _format_column(replicas)
    start = max(TEXT_COLUMN, *(len(row.label) + 8 for row in rows))
    width = max(_MIN_LEADERS_WIDTH, *(len(text) + 2 for text in leader_texts))
    yield layout.colorize(f"{'  brokers':<{start}}{'leaders':<{width}}replicas", DIM)
    for row, leader_text, replica_text in zip(rows, leader_texts, replica_texts, strict=True):
        yield f"      {row.label}".ljust(start) + leader_text.ljust(width) + replica_text


def _format_column(pairs: list[tuple[int, int]]) -> list[str]:
    """Return the values before and after, right-aligned.

    An unchanged value is shown once.
    """
    befores = max(len(f"{before:,}") for before, _ in pairs)
    afters = max(len(f"{after:,}") for _, after in pairs)
    return [
        f"{before:>{befores},}" if before == after else f"{before:>{befores},} -> {after:>{afters},}"
        for before, after in pairs
    ]


def _build_broker_rows(plan: Plan) -> list[_LoadRow]:
    racks = {broker.id: broker.rack for broker in plan.brokers}
    after = compute_broker_load_after(plan)
    digits = max(len(str(broker)) for broker in after)
    return [
        _LoadRow(f"{broker:>{digits}}{_format_rack(racks, broker)}", plan.load.get(broker, Load()), load)
        for broker, load in after.items()
    ]


def _format_rack(racks: Mapping[int, str | None], broker: int) -> str:
    if broker not in racks:
        return " (not registered)"
    rack = racks[broker]
    return "" if rack is None else f" ({_describe_rack(rack)})"


def _describe_rack(rack: str | None) -> str:
    if rack is None:
        return "no rack"
    name = sanitize(rack)
    return f"rack {name}" if len(name) <= _MAX_RACK_WIDTH else f"rack {name[: _MAX_RACK_WIDTH - 3]}..."


def _build_rack_rows(plan: Plan) -> list[_LoadRow]:
    after = compute_broker_load_after(plan)
    racks: dict[str | None, list[int]] = defaultdict(list)
    for broker in plan.brokers:
        racks[broker.rack].append(broker.id)
    rows = [(_describe_rack(rack), racks[rack]) for rack in sorted(racks, key=lambda rack: (rack is None, rack or ""))]
    registered = {broker.id for broker in plan.brokers}
    if missing := [broker for broker in after if broker not in registered]:
        rows.append(("not registered", missing))
    return [
        _LoadRow(f"{name} ({format_count(len(ids), 'broker')})", _sum_load(plan.load, ids), _sum_load(after, ids))
        for name, ids in rows
    ]


def _sum_load(loads: Mapping[int, Load], brokers: list[int]) -> Load:
    broker_loads = [loads.get(broker, Load()) for broker in brokers]
    return Load(sum(load.leaders for load in broker_loads), sum(load.replicas for load in broker_loads))

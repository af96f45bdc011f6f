"""The effect of a plan on the brokers: leaders and replicas before and after, per broker or, if many, per rack."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from topiarist.core.change import Load, Plan
from topiarist.core.placing import load_after
from topiarist.core.units import count
from topiarist.render.page import QUIET, TEXT, Page, plain

_SHOWN_BROKERS = 20
_SECOND = 18
_WIDEST_RACK = 24


class _Row(NamedTuple):
    label: str
    before: Load
    after: Load


def table(page: Page, plan: Plan) -> Iterator[str]:
    """The table, or nothing where no replica is placed. A leader is a preferred one: the first of a replica list."""
    if not any(topic.new_replicas() for topic in plan.to_do()):
        return
    rows = _by_broker(plan)
    if len(rows) > _SHOWN_BROKERS and not page.verbose:
        rows = _by_rack(plan)
    leaders = [(row.before.leaders, row.after.leaders) for row in rows]
    replicas = [(row.before.replicas, row.after.replicas) for row in rows]
    first, second = _columns(leaders), _columns(replicas)
    start = max(TEXT, *(len(row.label) + 8 for row in rows))
    width = max(_SECOND, *(len(text) + 2 for text in first))
    yield page.paint(f"{'  brokers':<{start}}{'leaders':<{width}}replicas", QUIET)
    for row, one, other in zip(rows, first, second, strict=True):
        yield f"      {row.label}".ljust(start) + one.ljust(width) + other


def _columns(pairs: list[tuple[int, int]]) -> list[str]:
    """Before and after, right-aligned below each other; what stays is said once."""
    befores = max(len(f"{before:,}") for before, _ in pairs)
    afters = max(len(f"{after:,}") for _, after in pairs)
    return [
        f"{before:>{befores},}" if before == after else f"{before:>{befores},} -> {after:>{afters},}"
        for before, after in pairs
    ]


def _by_broker(plan: Plan) -> list[_Row]:
    racks = {broker.id: broker.rack for broker in plan.brokers}
    after = load_after(plan)
    digits = max(len(str(broker)) for broker in after)
    return [
        _Row(f"{broker:>{digits}}{_rack(racks, broker)}", plan.load.get(broker, Load()), load)
        for broker, load in after.items()
    ]


def _rack(racks: Mapping[int, str | None], broker: int) -> str:
    if broker not in racks:
        return " (not registered)"
    rack = racks[broker]
    return "" if rack is None else f" ({_rack_name(rack)})"


def _rack_name(rack: str | None) -> str:
    if rack is None:
        return "no rack"
    name = plain(rack)
    return f"rack {name}" if len(name) <= _WIDEST_RACK else f"rack {name[: _WIDEST_RACK - 3]}..."


def _by_rack(plan: Plan) -> list[_Row]:
    after = load_after(plan)
    racks: dict[str | None, list[int]] = defaultdict(list)
    for broker in plan.brokers:
        racks[broker.rack].append(broker.id)
    named = [(_rack_name(rack), racks[rack]) for rack in sorted(racks, key=lambda rack: (rack is None, rack or ""))]
    known = {broker.id for broker in plan.brokers}
    if missing := [broker for broker in after if broker not in known]:
        named.append(("not registered", missing))
    return [
        _Row(f"{name} ({count(len(ids), 'broker')})", _sum(plan.load, ids), _sum(after, ids)) for name, ids in named
    ]


def _sum(loads: Mapping[int, Load], brokers: list[int]) -> Load:
    found = [loads.get(broker, Load()) for broker in brokers]
    return Load(sum(load.leaders for load in found), sum(load.replicas for load in found))

"""Budgets: the processor time that each folder of tests may take, in ``tests/budgets.json``.

A budget is in seconds of the machine that wrote it. ``speed_s`` is the time of a fixed piece of work there; a run that
measured twice that time is compared with twice the budget.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lanes.lane import CACHE, ROOT, WHOLE, Lane, Run

BUDGETS = ROOT / "tests" / "budgets.json"

_FACTOR, _SPARE_S = 1.3, 1.0
"""A new budget is this factor of what was measured, and some seconds: processor time differs from run to run."""


_LANE_FACTOR = 1.1
"""The processor time of a whole lane differs less from run to run than that of a folder."""


def read_budgets() -> Mapping[str, Any]:
    """Return the stored budgets: ``speed_s``, and seconds by folder."""
    found: Mapping[str, Any] = json.loads(BUDGETS.read_text(encoding="utf-8"))
    return found


def over_budget(cpu_of_folders: Mapping[str, float], speed_s: float, budgets: Mapping[str, Any]) -> Iterator[str]:
    """Yield an error for each folder that took more than its budget, or has none."""
    slowness = speed_s / budgets["speed_s"]
    for folder, seconds in cpu_of_folders.items():
        budget = budgets["folders"].get(folder)
        if budget is None:
            yield f"{folder}: no budget in {BUDGETS.name}; make budgets stores one"
        elif seconds > budget * slowness:
            yield (
                f"{folder}: {seconds:.1f} CPU s, {budget * slowness:.1f} allowed here ({budget:g} in {BUDGETS.name});"
                " make its tests cheaper, mark dear ones slow, or raise the budget in this commit with its reason"
            )


def write_budgets_of_last_run(lane: Lane) -> None:
    """Store new budgets for the folders of the last whole run."""
    kept = json.loads(_path(lane).read_text(encoding="utf-8"))
    folders = {name: round(_FACTOR * seconds + _SPARE_S, 1) for name, seconds in kept["folders"].items()}
    text = json.dumps({"speed_s": round(kept["speed_s"], 5), "folders": folders}, indent=1)
    BUDGETS.write_text(f"{text}\n", encoding="utf-8")


def keep_costs(lane: Lane, run: Run) -> None:
    """Keep what the folders of a whole run took, for ``make check``."""
    path = _path(lane)
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {"speed_s": run.speed_s, "folders": run.cpu_of_folders(), "cpu_s": run.cpu_s}
    path.write_text(json.dumps(kept, indent=1), encoding="utf-8")


def errors_of_last_run(lane: Lane) -> Iterator[str]:
    """Yield what the last whole run of a lane took too much of; nothing if none is on record."""
    path = _path(lane)
    if not path.exists():
        return
    kept, budgets = json.loads(path.read_text(encoding="utf-8")), read_budgets()
    yield from over_budget(kept["folders"], kept["speed_s"], budgets)
    if WHOLE not in lane.cost:
        return
    allowed = _LANE_FACTOR * lane.cost[WHOLE] * kept["speed_s"] / budgets["speed_s"]
    if kept["cpu_s"] > allowed:
        yield f"make {lane.name}: {kept['cpu_s']:.0f} CPU s in all, {allowed:.0f} allowed"


def _path(lane: Lane) -> Path:
    return CACHE / "lanes" / f"{lane.name}.json"

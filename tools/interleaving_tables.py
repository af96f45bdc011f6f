"""The tables of ``docs/internals/interleavings.md``, from the JSON file beside it and the explanations of the finds.

``make record-interleavings`` explores all bounds and writes the record; ``make generate`` makes the page from it.
"""

from __future__ import annotations

import fnmatch
import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from topiarist.text import format_count

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "docs" / "internals" / "interleavings.json"
FINDS = ROOT / "tests" / "interleavings"

_WAYS = {"zookeeper": "Through ZooKeeper", "kafka": "Through Kafka's own API"}
_KINDS = {"window": "windows that remain", "design": "as designed"}


def _load_record() -> Mapping[str, Any]:
    return json.loads(RECORD.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def bound_part() -> str:
    """Return the tables of all bounds."""
    record = _load_record()
    everything = [bound for way in record["ways"].values() for bound in way["bounds"].values()]
    states, steps, seconds = (sum(bound[key] for bound in everything) for key in ("states", "transitions", "seconds"))
    text = f"\nThe run of {record['date']}: {len(everything)} scenarios, {states:,} states, {steps:,} steps, "
    text += f"{seconds:,.0f} s on one core. Each scenario was explored to its end.\n"
    for way, head in _WAYS.items():
        text += (
            f"\n### {head}\n\n| scenario | states | steps | ends | finds | s |\n| --- | --- | --- | --- | --- | --- |\n"
        )
        for name, bound in record["ways"][way]["bounds"].items():
            finds = sum(not find.startswith("end:") for find in bound["finds"])
            text += f"| {name.removeprefix('API: ')} | {bound['states']:,} | {bound['transitions']:,} | "
            text += f"{bound['ends']:,} | {finds} | {bound['seconds']} |\n"
    return text + "\n"


def window_part() -> str:
    """Return one entry for each explanation, with the smallest schedule of its finds."""
    text = ""
    for way, head in _WAYS.items():
        schedules = _load_record()["ways"][way]["schedules"]
        explanations = tomllib.loads((FINDS / way / "finds.toml").read_text(encoding="utf-8"))
        for kind, title in _KINDS.items():
            text += f"\n### {head}: {title}\n\n"
            for pattern, entry in explanations.items():
                if entry["kind"] == kind:
                    text += "".join(_entry(pattern, entry["text"], schedules))
    return text


def _entry(pattern: str, explanation: str, schedules: Mapping[str, list[str]]) -> Iterator[str]:
    finds = [find for find in schedules if fnmatch.fnmatchcase(find, pattern)]
    find = min(finds, key=lambda each: (len(schedules[each]), each))
    schedule = schedules[find]
    yield f"- **{pattern.replace('*', '…')}**. {explanation}\n\n"
    yield f"  <details><summary>The smallest schedule, {format_count(len(schedule), 'step')}: {find}</summary>\n\n"
    yield "".join(f"  {number}. {step}\n" for number, step in enumerate(schedule, 1))
    yield "\n  </details>\n\n"


def planted_part() -> str:
    """Return the tables of planted faults."""
    ways = _load_record()["ways"]
    text = f"\n{sum(len(way['faults']) for way in ways.values())} faults, each found:\n"
    for way, head in _WAYS.items():
        text += f"\n### {head}: faults\n\n| planted fault | scenario | found as | steps |\n| --- | --- | --- | --- |\n"
        for name, fault in ways[way]["faults"].items():
            bound = fault["bound"].removeprefix("API: ")
            text += f"| {name} | {bound} | {fault['find']} | {fault['steps']} |\n"
    return text + "\n"

"""Explores all bounds, finds all planted faults, and compares both with ``docs/internals/interleavings.json``.

``make interleave`` runs it; ``make record-interleavings`` writes the record instead, and ``interleaving_tables`` in
``tools`` makes the tables of ``docs/internals/interleavings.md`` from it. The tests beside this module explore the
small bounds, so that ``make test`` notices when a change of the code changes a count.
"""

from __future__ import annotations

import datetime
import fnmatch
import json
import sys
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from interleavings.kafka import bounds as kafka_bounds
from interleavings.kafka import planted_faults as kafka_faults
from interleavings.kafka.model import KafkaModel
from interleavings.planted import Fault
from interleavings.search import Exploration, Model, explore
from interleavings.zookeeper import bounds as zookeeper_bounds
from interleavings.zookeeper import planted_faults as zookeeper_faults
from interleavings.zookeeper.model import ZooKeeperModel

RECORD = Path(__file__).resolve().parents[2] / "docs" / "internals" / "interleavings.json"

Record = Mapping[str, Any]


class Way(NamedTuple):
    """One way to a cluster: its model, bounds, planted faults, and the explanations of what it finds."""

    make_model: Callable[[Any], Model[Any]]
    small: Mapping[str, Any]
    large: Mapping[str, Any]
    faults: Mapping[str, Fault]

    @property
    def bounds(self) -> Mapping[str, Any]:
        """Return all bounds by name."""
        return {**self.small, **self.large}

    def explore(self, bound: str) -> Exploration:
        """Explore one bound whole."""
        return explore(self.make_model(self.bounds[bound]))

    def find_planted_fault(self, name: str, known: Collection[str]) -> tuple[str, ...] | None:
        """Return the find of a planted fault, then its schedule; None if no find shows that is not ``known``."""
        fault = self.faults[name]
        with ExitStack() as stack:
            for patched, attribute, replacement in fault.patches:
                stack.enter_context(mock.patch.object(patched, attribute, replacement))
            model = self.make_model(self.bounds[fault.bound])
            finds = explore(model, stop_at=lambda find: find not in known).finds
        return next(((find, *schedule) for find, schedule in finds.items() if find not in known), None)


WAYS = {
    "zookeeper": Way(ZooKeeperModel, zookeeper_bounds.SMALL, zookeeper_bounds.LARGE, zookeeper_faults.FAULTS),
    "kafka": Way(KafkaModel, kafka_bounds.SMALL, kafka_bounds.LARGE, kafka_faults.FAULTS),
}
"""The ways by the names of their folders."""


def load_record() -> Record:
    """Return the recorded counts, finds and faults by way."""
    return json.loads(RECORD.read_text(encoding="utf-8"))["ways"]  # type: ignore[no-any-return]


def load_explanations(way: str) -> Mapping[str, Mapping[str, str]]:
    """Return the kind and the text of each explained find, by its pattern."""
    return tomllib.loads((Path(__file__).resolve().parent / way / "finds.toml").read_text(encoding="utf-8"))


def summarize(exploration: Exploration) -> dict[str, Any]:
    """Return what the record keeps of a bound, without the time: counts, and the length of each shortest schedule."""
    return {
        "states": exploration.states,
        "transitions": exploration.transitions,
        "ends": exploration.ends,
        "finds": {find: len(schedule) for find, schedule in sorted(exploration.finds.items())},
    }


def unexplained(finds: Collection[str], explanations: Collection[str]) -> list[str]:
    """Return the finds that do not match exactly one pattern."""
    return [find for find in finds if sum(fnmatch.fnmatchcase(find, pattern) for pattern in explanations) != 1]


def _explore_way(name: str, way: Way, workers: Executor) -> tuple[Record, list[str]]:
    """Return the record of now, and a sentence for each failure."""
    found: dict[str, Any] = {}
    schedules: dict[str, tuple[str, ...]] = {}
    failures = []
    for bound, exploration in zip(way.bounds, workers.map(partial(_explore, name), way.bounds), strict=True):
        print(
            f"{name}: {bound}: {exploration.states:,} states, {exploration.seconds:.1f} s", file=sys.stderr, flush=True
        )
        if not (exploration.is_complete and exploration.is_acyclic):
            failures.append(f"{bound}: it was not explored to its end, or a schedule goes round in a circle")
        found[bound] = {**summarize(exploration), "seconds": round(exploration.seconds, 1)}
        for find, schedule in exploration.finds.items():
            schedules[find] = min(schedules.get(find, schedule), schedule, key=len)
    faults = {}
    known = [found[fault.bound]["finds"] for fault in way.faults.values()]
    for fault, shown in zip(
        way.faults, workers.map(partial(_find_planted_fault, name), way.faults, known), strict=True
    ):
        bound = way.faults[fault].bound
        if shown is None:
            failures.append(f"planted fault: {fault}: {bound!r} does not find it")
        else:
            faults[fault] = {"bound": bound, "find": shown[0], "steps": len(shown) - 1}
    failures.extend(f"finds.toml does not explain: {find}" for find in unexplained(schedules, load_explanations(name)))
    return {"bounds": found, "faults": faults, "schedules": schedules}, failures


def _explore(way: str, bound: str) -> Exploration:
    """Explore a bound in a process of the pool."""
    return WAYS[way].explore(bound)


def _find_planted_fault(way: str, fault: str, known: Collection[str]) -> tuple[str, ...] | None:
    """Look for a planted fault in a process of the pool."""
    return WAYS[way].find_planted_fault(fault, known)


def compare(now: Record, recorded: Record) -> Iterator[str]:
    """Yield a sentence for each count of one way that differs."""
    for part in ("bounds", "faults"):
        for name in sorted({*now[part], *recorded[part]}):
            one, other = (_without_seconds(record[part].get(name, {})) for record in (recorded, now))
            if one != other:
                yield f"{name}: recorded are {one}, found were {other}"


def _without_seconds(counts: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in counts.items() if key != "seconds"}


def main(arguments: list[str]) -> int:
    """Explore all bounds; compare the counts, or write them with ``--write``; return the exit code."""
    if arguments not in ([], ["--write"]):
        print(__doc__, file=sys.stderr)
        return 2
    ways, failures = {}, []
    with ProcessPoolExecutor() as workers:  # a large bound takes up to 5 GiB
        for name, way in WAYS.items():
            ways[name], failed = _explore_way(name, way, workers)
            failures.extend(failed)
            if not arguments:
                changes = compare(ways[name], load_record()[name])
                failures.extend(f"{each}; if that is meant: make record-interleavings" for each in changes)
    if arguments and not failures:
        day = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
        RECORD.write_text(json.dumps({"date": day, "ways": ways}, indent=1) + "\n", encoding="utf-8")
    print("\n".join(failures), file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

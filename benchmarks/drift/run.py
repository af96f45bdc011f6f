"""G12 to G14: ``topiarist drift`` over sample fleets, whole processes with their JVMs, and their gates.

Every run must find what was made to differ, and nothing else, and both engines must write the same bytes. What is
counted decides: no Python in the plan that drops equal rows, memory flat from one million topics to five, and one
cluster 1,000 times larger than the others at most one and a half times as dear. Seconds are printed and decide nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.common import (
    ProcessRun,
    compile_package,
    describe_machine,
    make_memory_folder,
    run_process_tree,
    summarize_runs,
    topiarist_command,
)

from support.drift import drifted_fleet, skewed_fleet

ENGINES = ("python", "spark")

TOPICS = 1000
"""Topics per cluster."""

DIFFERING_TOPICS = 200
"""Topics that differ, of every kind of drift."""

RUNS = 3

Figure = dict[str, Any]


def drift_command(sample: drifted_fleet.DriftedFleet, engine: str, out: Path) -> list[str]:
    """Make one report."""
    snapshots = ["--snapshots", str(sample.snapshots)]
    return topiarist_command("drift", str(sample.manifests), *snapshots, "--engine", engine, "--out", str(out), "-q")


def run_reports(sample: drifted_fleet.DriftedFleet, engine: str, folder: Path, runs: int) -> list[ProcessRun]:
    """Make some reports of a fleet (exit code 1: a cluster has no snapshot); raise if a finding is wrong."""
    expected = 1 if any(kind == "unknown" for _, _, kind, _ in sample.expected) else 0
    found = [run_process_tree(drift_command(sample, engine, folder / engine), expected) for _ in range(runs)]
    rows = map(json.loads, (folder / engine / "findings.jsonl").read_text().splitlines())
    if frozenset((row["cluster"], row["topic"], row["class"], row["field"]) for row in rows) != sample.expected:
        raise RuntimeError(f"a report by {engine} did not find what was made to differ")
    return found


def make_figure(sample: drifted_fleet.DriftedFleet, clusters: int, topics: int, runs: list[ProcessRun]) -> Figure:
    """Return the figures of some reports."""
    return {"clusters": clusters, "topics": clusters * topics, "findings": len(sample.expected), **summarize_runs(runs)}


def measure_small(clusters: int, runs: int) -> Figure:
    """Measure G14: both engines in turns over one fleet, after a warm-up run of each."""
    with make_memory_folder() as name:
        folder = Path(name)
        sample = drifted_fleet.make_fleet(folder, clusters + 1, TOPICS, min(DIFFERING_TOPICS, clusters))
        taken: dict[str, list[ProcessRun]] = {engine: [] for engine in ENGINES}
        for turn in range(runs + 1):
            for engine in ENGINES:
                taken[engine] += run_reports(sample, engine, folder, 1)[: bool(turn)]
        same = all(
            (folder / ENGINES[0] / file).read_bytes() == (folder / ENGINES[1] / file).read_bytes()
            for file in ("findings.jsonl", "summary.json", "summary.md", "metrics.prom")
        )
        return {
            **{engine: make_figure(sample, clusters, TOPICS, taken[engine]) for engine in ENGINES},
            "same_bytes": same,
            "plan": inspect_spark_plan(sample),
        }


def measure_large(clusters: int, runs: int) -> Figure:
    """Measure G12 and G13 by each engine, with a cold start each time."""
    with make_memory_folder() as name:
        sample = drifted_fleet.make_fleet(Path(name), clusters + 1, TOPICS, DIFFERING_TOPICS)
        taken = {engine: run_reports(sample, engine, Path(name), runs) for engine in ENGINES}
        return {engine: make_figure(sample, clusters, TOPICS, taken[engine]) for engine in ENGINES}


def measure_skew(others: int, size: int, runs: int) -> Figure:
    """Measure a fleet with one cluster ``others`` times larger, and one of equal clusters with as many rows."""
    taken: dict[str, Figure] = {}
    for engine in ENGINES:
        for made in (skewed_fleet.make_skewed_fleet, skewed_fleet.make_even_fleet):
            with make_memory_folder() as name:
                sample = made(Path(name), others, size)
                taken[f"{engine}_{made.__name__}"] = summarize_runs(run_reports(sample, engine, Path(name), runs))
    ratios = {f"{one}_times_even": _seconds_ratio(taken[f"{one}_skewed"], taken[f"{one}_even"]) for one in ENGINES}
    return {"topics": 2 * others * size, "documents": others * size, **taken, **ratios}


def _seconds_ratio(one: Figure, other: Figure) -> float:
    return round(float(one["seconds"]) / float(other["seconds"]), 2)


def inspect_spark_plan(sample: drifted_fleet.DriftedFleet) -> Figure:
    """Return the nodes of Spark's physical plan, and the number of rows that it leaves for Python."""
    script = [sys.executable, "-P", "-m", "benchmarks.drift.planning", str(sample.manifests.parent)]
    done = subprocess.run(script, stdout=subprocess.PIPE, check=True, text=True)
    found: Figure = json.loads(done.stdout)
    return found


def measure_live(clusters: int) -> Figure:
    """Measure live clusters, as chroots of one real ZooKeeper."""
    script = [sys.executable, "-P", "-m", "benchmarks.drift.live", str(clusters)]
    found: Figure = json.loads(subprocess.run(script, stdout=subprocess.PIPE, check=True, text=True).stdout)
    return found


def check_gates(figures: Mapping[str, Figure]) -> dict[str, bool]:
    """Return the gates, which hold on any machine, with their results."""
    held: dict[str, bool] = {}
    if one := figures.get("G14"):
        held["G14: both engines write the same bytes"] = one["same_bytes"]
        held["G12: no Python before equal rows are dropped"] = not one["plan"]["python"]
        held["G12: Python has seen only rows that differ"] = (
            one["plan"]["rows_for_python"] == one["plan"]["rows_that_differ"]
        )
    if "G12" in figures and "G13" in figures:
        for engine in ENGINES:
            one, other = figures["G12"][engine], figures["G13"][engine]
            times = other["topics"] / one["topics"]
            held[f"G13: memory of {engine} at most 1.3 times that of G12"] = other["peak_mib"] <= 1.3 * one["peak_mib"]
            held[f"G13: no more seconds a topic of {engine} than G12"] = other["seconds"] <= times * one["seconds"]
    if one := figures.get("skew"):
        held.update(
            {f"skew: {engine} at most 1.5 times even": one[f"{engine}_times_even"] <= 1.5 for engine in ENGINES}
        )
    if one := figures.get("live"):
        held["live: no write"] = one["writes"] == 0
    return held


def main() -> int:
    """Print all figures, or those of PARTS="G14 G12 G13 skew live"; 1 if a gate does not hold."""
    compile_package()
    runs = int(os.environ.get("RUNS") or RUNS)
    parts: dict[str, Callable[[], Figure]] = {
        "G14": lambda: measure_small(200, runs),
        "G12": lambda: measure_large(1000, runs),
        "G13": lambda: measure_large(5000, 1),
        "skew": lambda: measure_skew(1000, 100, runs),
        "live": lambda: measure_live(200),
    }
    chosen = (os.environ.get("PARTS") or " ".join(parts)).split()
    found = {name: parts[name]() for name in chosen}
    held = check_gates(found)
    head = {"date": time.strftime("%Y-%m-%d"), "command": "make bench-drift", "machine": describe_machine()}
    print(json.dumps({**head, "figures": found, "gates": held}, indent=2))
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    sys.exit(main())

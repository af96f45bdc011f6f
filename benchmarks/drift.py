"""G12 to G14: ``topiarist drift`` over a sample fleet, by this process and by Spark, whole processes each.

Every run must find what was made to differ, and nothing else, and both must write the same bytes. Seconds are printed
and decide nothing.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.common import RUNS, compile_package, machine, medians, memory_folder, process, topiarist  # noqa: E402
from support import drifted  # noqa: E402

ENGINES = ("python", "spark")

EACH = 200
"""Topics that differ in one way or another, of every kind of drift."""


def command(sample: drifted.Sample, engine: str, out: Path) -> list[str]:
    """One report; it ends with 1, since a cluster of the sample has no snapshot."""
    snapshots = ["--snapshots", str(sample.snapshots)]
    return topiarist("drift", str(sample.manifests), *snapshots, "--engine", engine, "--out", str(out), "-q")


def found(out: Path) -> frozenset[drifted.Identity]:
    """The findings of a report."""
    rows = map(json.loads, (out / "findings.jsonl").read_text().splitlines())
    return frozenset((row["cluster"], row["topic"], row["class"], row["field"]) for row in rows)


def measure(clusters: int, topics: int, each: int = EACH, runs: int = RUNS) -> dict[str, Any]:
    """Both engines in turns over one fleet, after a run each that does not count. Raises if a finding is wrong."""
    with memory_folder() as name:
        folder = Path(name)
        sample = drifted.make(folder, clusters, topics, each)
        taken: dict[str, list[Any]] = {engine: [] for engine in ENGINES}
        for turn in range(runs + 1):
            for engine in ENGINES:
                run = process(command(sample, engine, folder / engine), expected=1)
                if turn:
                    taken[engine].append(run)
        written = [(folder / engine / "findings.jsonl").read_bytes() for engine in ENGINES]
        right = all(found(folder / engine) == sample.expected for engine in ENGINES)
    if not right or written[0] != written[1]:
        raise RuntimeError("a report did not find what was made to differ")
    return {
        "clusters": clusters,
        "topics": (clusters - 1) * topics,
        "findings": len(sample.expected),
        **{engine: medians(taken[engine]) for engine in ENGINES},
    }


def main() -> int:
    """Print the figures of one fleet: CLUSTERS=1001 TOPICS=1000 EACH=200 RUNS=3, if the environment says so."""
    compile_package()
    sizes = {name: int(os.environ.get(name) or usual) for name, usual in _USUAL.items()}
    figures = measure(sizes["CLUSTERS"], sizes["TOPICS"], sizes["EACH"], sizes["RUNS"])
    print(json.dumps({"command": "make bench-drift", "machine": machine(), **figures}, indent=2))
    return 0


_USUAL = {"CLUSTERS": 201, "TOPICS": 1000, "EACH": EACH, "RUNS": 3}

if __name__ == "__main__":
    sys.exit(main())

"""G12 to G14: ``topiarist drift`` over fleets that are hard to compare, by every runner, and their gates.

The fleets are those of ``support.drift.hard_fleets``: none can be compared by what its clusters have in common. Every
run must find what was made to differ, and all runners must write the same bytes. CPU seconds and peak memory of each
role decide; wall-clock seconds are printed, and decide only where two runs of the same part are compared.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.common import ROOT, compile_package, describe_machine, make_memory_folder, topiarist_command
from benchmarks.drift.processes import MeasuredRun, measure_roles, start_process

from support.drift import hard_fleets
from support.drift.hard_fleets import HardFleet
from support.repo.packages import build, copy_sources
from support.spark.cluster import StandaloneCluster
from support.spark.jars import fetch_jars
from support.spark.s3 import BUCKET, S3A, serve_bucket

FLEETS: Mapping[str, tuple[str, int, int]] = {
    "alike": ("alike", 1000, 1000),
    "own": ("own", 1000, 1000),
    "lists": ("lists", 1000, 1000),
    "random": ("random", 200, 1000),
    "differ": ("differ", 200, 1000),
    "large": ("alike", 1, 500_000),
}
"""The maker, the clusters and the topics of each cluster, by part."""

SCALING = ("own", 3000, 1000)

STORED = (300, 1000, 0.05)
"""The fleet in S3: its clusters, the topics of each, and the share of the topics that differs."""

BARE_DRIVER = ROOT / "benchmarks" / "drift" / "bare_driver.py"

FLEETS_WITH_BARE_DRIVER = ("alike", "own")
"""Fleets with a bare driver beside them: no finding, and few documents for each cluster."""

RUNS = 1

Figure = dict[str, Any]


@contextmanager
def spark_cluster(folder: Path, workers: int) -> Iterator[tuple[StandaloneCluster, tuple[Path, ...]]]:
    """Start a cluster with workers of one core; yield it with the wheel of the package."""
    place = folder / f"spark-{workers}"
    (place / "sources").mkdir(parents=True)
    wheel = build(copy_sources(place / "sources"), "wheel", place)
    with StandaloneCluster(place / "cluster", workers) as cluster:
        yield cluster, (wheel,)


def run_spark(
    cluster: StandaloneCluster,
    files: tuple[Path, ...],
    entry: Path,
    *words: str | Path,
    memory: str = "1g",
    conf: Mapping[str, str] = {},
) -> MeasuredRun:
    """Run a script on a cluster; raise if it fails."""
    conf = {"spark.pyspark.python": sys.executable, "spark.driver.memory": memory, **conf}
    submitted = cluster.submit(entry, *words, files=files, conf=conf)
    run = measure_roles(submitted, [cluster.master.group, *(worker.group for worker in cluster.workers)])
    if run.exit_code:
        raise RuntimeError(f"{entry.name} on {len(cluster.workers)} workers ended with {run.exit_code}: {run.out}")
    return run


def report_words(sample: HardFleet, out: Path) -> list[str]:
    """Return the arguments of a report."""
    return [str(sample.manifests), "--snapshots", str(sample.snapshots), "--out", str(out), "-q"]


def require_findings(sample: HardFleet, out: Path) -> int:
    """Return the number of findings of a report; raise if they are not what was made to differ."""
    rows = map(json.loads, (out / "findings.jsonl").read_text().splitlines())
    found = [(row["cluster"], row["topic"], row["class"], row["field"]) for row in rows]
    if sample.expected is not None and (frozenset(found) != sample.expected or len(found) != len(sample.expected)):
        raise RuntimeError(f"{out.name} did not find what was made to differ")
    return len(found)


def summarize(runs: list[MeasuredRun]) -> Figure:
    """Return the figures of the run with the median CPU time."""
    median = statistics.median_low([run.summarize()["cpu_seconds"] for run in runs])
    return next(each for each in map(MeasuredRun.summarize, runs) if each["cpu_seconds"] == median)


def measure_fleet(name: str, runs: int) -> Figure:
    """Measure one fleet by one process, a pool of two, and Spark with one and two workers."""
    maker, clusters, topics = FLEETS[name]
    with make_memory_folder() as memory:
        folder = Path(memory)
        sample = hard_fleets.MAKERS[maker](folder, clusters, topics)
        figures: Figure = {"clusters": clusters, "topics": sample.topics, "documents": sample.documents}
        for jobs in (1, 2):
            out = folder / f"jobs-{jobs}"
            command = topiarist_command("drift", *report_words(sample, out), "--jobs", str(jobs))
            figures[out.name] = summarize([measure_roles(start_process(command)) for _ in range(runs)])
            figures["findings"] = require_findings(sample, out)
        entry = ROOT / "operator" / "topiarist" / "spark_submit.py"
        for workers in (1, 2):
            out = folder / f"workers-{workers}"
            with spark_cluster(folder, workers) as (cluster, files):
                words = report_words(sample, out)
                memory_of_jvm = "4g" if name == "large" else "1g"
                taken = [run_spark(cluster, files, entry, *words, memory=memory_of_jvm) for _ in range(runs)]
                if name in FLEETS_WITH_BARE_DRIVER and workers == 2:
                    figures["bare-driver"] = summarize([run_spark(cluster, (), BARE_DRIVER) for _ in range(runs)])
            figures[out.name] = summarize(taken)
            require_findings(sample, out)
        reports = [folder / name for name in ("jobs-1", "jobs-2", "workers-1", "workers-2")]
        figures["same_bytes"] = all(
            (report / file).read_bytes() == (reports[0] / file).read_bytes()
            for report in reports[1:]
            for file in ("findings.jsonl", "summary.json", "summary.md", "metrics.prom")
        )
        return figures


def measure_scaling(runs: int) -> Figure:
    """Measure three million topics by one and two processes, and the compare stage of Spark by one and two workers."""
    maker, clusters, topics = SCALING
    with make_memory_folder() as memory:
        folder = Path(memory)
        sample = hard_fleets.MAKERS[maker](folder, clusters, topics)
        figures: Figure = {"clusters": clusters, "topics": sample.topics}
        for jobs in (1, 2):
            command = topiarist_command("drift", *report_words(sample, folder / "report"), "--jobs", str(jobs))
            taken = [measure_roles(start_process(command)) for _ in range(runs)]
            figures[f"jobs-{jobs}"] = summarize(taken) | {"seconds": min(round(run.seconds, 2) for run in taken)}
        # spark-submit adds the folder of the script to the path: modules beside it must not hide others.
        entry = folder / "entry" / "stage.py"
        entry.parent.mkdir()
        entry.write_bytes((ROOT / "benchmarks" / "drift" / "stage.py").read_bytes())
        for workers in (1, 2):
            with spark_cluster(folder, workers) as (cluster, files):
                taken = [
                    run_spark(cluster, files, entry, sample.manifests, sample.snapshots, folder) for _ in range(runs)
                ]
            passes = [json.loads(run.out.splitlines()[-1]) for run in taken]
            fastest = {name: min(each[name] for each in passes) for name in ("cold", "warm")}
            figures[f"workers-{workers}"] = summarize(taken) | {"stage_seconds": fastest}
        figures["pool_ratio"] = _ratio(figures["jobs-2"]["seconds"], figures["jobs-1"]["seconds"])
        stages = [figures[f"workers-{workers}"]["stage_seconds"] for workers in (1, 2)]
        return figures | {f"{name}_ratio": _ratio(stages[1][name], stages[0][name]) for name in ("cold", "warm")}


def measure_store() -> Figure:
    """Measure whole reports from S3 to S3: by one process, a pool of two, and Spark with one and two workers.

    The server of S3 is on this machine and has a part of its two cores, more for the faster runner.
    """
    clusters, topics, share = STORED
    s3a_jars = ",".join(map(str, fetch_jars()))
    with make_memory_folder() as memory, serve_bucket() as bucket, patch.dict(os.environ, bucket.environment):
        folder = Path(memory)
        sample = hard_fleets.make_differ(folder, clusters, topics, share)
        bucket.upload(sample.snapshots, "snapshots")
        figures: Figure = {"clusters": clusters, "topics": sample.topics}

        def words(scheme: str, out: str) -> list[str]:
            stored = [f"{scheme}://{BUCKET}/{name}" for name in ("snapshots", out)]
            return [str(sample.manifests), "--snapshots", stored[0], "--out", stored[1], "-q"]

        for jobs in (1, 2):
            command = topiarist_command("drift", *words("s3", f"jobs-{jobs}"), "--jobs", str(jobs))
            figures[f"jobs-{jobs}"] = measure_roles(start_process(command)).summarize()
        entry = ROOT / "operator" / "topiarist" / "spark_submit.py"
        conf = {**S3A, "spark.jars": s3a_jars, "spark.hadoop.fs.s3a.endpoint": bucket.endpoint}
        for workers in (1, 2):
            with spark_cluster(folder, workers) as (cluster, files):
                run = run_spark(cluster, files, entry, *words("s3a", f"workers-{workers}"), conf=conf)
            figures[f"workers-{workers}"] = run.summarize()
        reports = [
            bucket.read_report(name)["findings.jsonl"] for name in ("jobs-1", "jobs-2", "workers-1", "workers-2")
        ]
        figures["same_bytes"] = reports[1:] == reports[:-1]
        figures["findings"] = reports[0].count(b"\n")
    return figures | {
        f"{name}_ratio": _ratio(figures[f"{name}-2"]["seconds"], figures[f"{name}-1"]["seconds"])
        for name in ("jobs", "workers")
    }


def _ratio(one: float, other: float) -> float:
    return round(one / other, 2)


def measure_live(clusters: int) -> Figure:
    """Measure live clusters, as chroots of one real ZooKeeper."""
    script = [sys.executable, "-P", "-m", "benchmarks.drift.live", str(clusters)]
    found: Figure = json.loads(subprocess.run(script, stdout=subprocess.PIPE, check=True, text=True).stdout)
    return found


MAX_MIB = {"alike": 80, "own": 80, "lists": 256, "random": 80, "differ": 256}
"""MiB of one process, by fleet."""

MAX_TIMES_ALIKE = {"own": 1.3, "lists": 2.5}
"""CPU seconds of one process as a multiple of those of the fleet ``alike`` with as many topics."""


def check_gates(figures: Mapping[str, Figure]) -> dict[str, bool]:
    """Return the gates with their results."""
    held: dict[str, bool] = {}
    for name, figure in figures.items():
        if "same_bytes" not in figure:
            continue
        held[f"G14: {name}: all runners write the same bytes"] = figure["same_bytes"]
        if name not in FLEETS:
            continue
        one = figure["jobs-1"]
        mib = max(role["peak_mib"] for role in one["roles"].values())
        if name in MAX_MIB:
            held[f"G12: {name}: at most {MAX_MIB[name]} MiB"] = mib <= MAX_MIB[name]
        else:
            held[f"G12: {name}: at most 4.5 KiB a manifest"] = mib * 1024 <= 4.5 * figure["documents"]
        if name in MAX_TIMES_ALIKE and "alike" in figures:
            most = MAX_TIMES_ALIKE[name] * figures["alike"]["jobs-1"]["cpu_seconds"]
            held[f"G12: {name}: at most {MAX_TIMES_ALIKE[name]} times the CPU of alike"] = one["cpu_seconds"] <= most
        if name in FLEETS_WITH_BARE_DRIVER:
            driver, bare = (figure[run]["roles"]["driver Python"] for run in ("workers-2", "bare-driver"))
            seconds, mib = driver["cpu_seconds"] / bare["cpu_seconds"], driver["peak_mib"] - bare["peak_mib"]
            held[f"G13: {name}: Python of Spark's driver at most 2.5 times the CPU of a bare one"] = seconds <= 2.5
            held[f"G13: {name}: Python of Spark's driver at most 64 MiB more than a bare one"] = mib <= 64
    if scaling := figures.get("scaling"):
        held["G13: a pool of 2 processes at most 0.6 times one"] = scaling["pool_ratio"] <= 0.6
        held["G13: Spark's compare stage, warm, with 2 workers at most 0.65 times one"] = scaling["warm_ratio"] <= 0.65
    if one := figures.get("live"):
        held["live: no write"] = one["writes"] == 0
    return held


def main() -> int:
    """Print all figures, or those of ``PARTS``, which are named by ``make help``; return 1 if a gate fails."""
    compile_package()
    runs = int(os.environ.get("RUNS") or RUNS)
    parts: dict[str, Callable[[], Figure]] = {name: partial(measure_fleet, name, runs) for name in FLEETS}
    parts |= {"scaling": lambda: measure_scaling(runs), "store": measure_store, "live": lambda: measure_live(200)}
    chosen = (os.environ.get("PARTS") or " ".join(parts)).split()
    found = {name: parts[name]() for name in chosen}
    held = check_gates(found)
    head = {"date": time.strftime("%Y-%m-%d"), "command": "make bench-drift", "machine": describe_machine()}
    print(json.dumps({**head, "figures": found, "gates": held}, indent=2))
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    sys.exit(main())

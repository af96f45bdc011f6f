"""Every benchmark, one after the other, as one JSON document: ``make bench``.

Each figure has a goal (seconds on the reference machine) and a gate: a ratio or a count from the same run, which holds
on any machine. The exit code is 1 if a gate does not hold; seconds have no gate.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks import fleets
from benchmarks.cli import start
from benchmarks.common import compile_package, describe_machine
from benchmarks.engine import manifests, placement, planning, policies, small_plans
from benchmarks.kafka import side_by_side
from benchmarks.kafka.contenders import BARE_SCRIPT, FLOOR, TOPIARIST
from benchmarks.zookeeper import foreign_client_latency, write
from benchmarks.zookeeper import read as read_

Figure = dict[str, Any]


def make_figure(goal: str, what: str, measured: str, wanted: str, gate: tuple[str, bool]) -> Figure:
    """Return one line of the table; ``gate`` is the observed value as text, and whether the gate holds."""
    return {"goal": goal, "what": what, "measured": measured, "wanted": wanted, "gate": gate[0], "holds": gate[1]}


def measure_planning() -> list[Figure]:
    """G1, G2, G5, and the floor of G1."""
    small, large = planning.measure(10_000), planning.measure(100_000)
    growth = large["microseconds_per_topic"] / small["microseconds_per_topic"]
    nothing_written = small["writes"] == 0 and small["requests"] <= 140
    return [
        make_figure(
            "G1", "plan, nothing to do, 10,000 topics in 10,000 files (in memory), whole process",
            f"{small['seconds']} s, {small['peak_mib']} MiB", "1.0 s, 80 MiB",
            (f"{small['requests']} requests (at most 140), {small['writes']} writes (0)", nothing_written),
        ),
        make_figure(
            "G1'", "the same, beside a process that does the least work of it",
            f"{small['floor_seconds']} s (the floor); {small['times_floor_cpu']} times its processor time", "0.8 s",
            (f"{small['times_floor']} times the floor's seconds (at most 1.25)", small["times_floor"] <= 1.25),
        ),
        make_figure(
            "G2", "the same with 100,000", f"{large['seconds']} s, {large['peak_mib']} MiB", "10 s, 400 MiB",
            (f"{growth:.2f} times G1's time per topic (at most 1.2)", growth <= 1.2),
        ),
        make_figure(
            "G5", "CPU of the ZooKeeper server for G1", f"{small['server_cpu_seconds']} s", "0.1 s",
            ("none", True),
        ),
    ]  # fmt: skip


def measure_reading() -> list[Figure]:
    """G3, and G4 with its gate from 0.2 on."""
    seen = read_.measure()
    times = seen["times_faster_than_get_async"]
    return [
        make_figure(
            "G3", "state of 10,000 topics (30,000 znodes), near and at 20 ms round trip",
            f"{seen['seconds']} s, {seen['seconds_at_20_ms']} s", "0.15 s, 0.6 s",
            (f"{times} times faster than kazoo's get_async (at least 10)", times >= 10),
        ),
        make_figure(
            "G4", "the same without MultiRead (ZooKeeper before 3.6)",
            f"{seen['seconds_without_multiread']} s", "1.6 s",
            (
                f"{seen['times_get_async_with_poll']} times kazoo's get_async with poll() (at most 1.25)",
                seen["times_get_async_with_poll"] <= 1.25,
            ),
        ),
    ]  # fmt: skip


def measure_writing() -> list[Figure]:
    """G6."""
    seen = write.measure()
    times = seen["times_faster_than_plain"]
    return [
        make_figure(
            "G6'", "10,000 creates; 1,000 config updates; each one checked transaction",
            f"{seen['create_seconds']} s; {seen['config_update_seconds']} s", "3 s; 0.5 s",
            (f"{times} times faster than two plain creates one by one (at least 4)", times >= 4),
        )
    ]  # fmt: skip


def measure_small_plans() -> list[Figure]:
    """G16."""
    seen = small_plans.measure()
    times, imports, own = seen["times_floor_cpu"], seen["import_seconds"], seen["own_import_seconds"]
    return [
        make_figure(
            "G16", "plan, nothing to do, 1,000 topics, whole process",
            f"{seen['seconds']} s, {seen['cpu_seconds']} s of CPU; {seen['times_bare_script']} times a bare kazoo"
            f" script, where the floor takes {seen['floor_times_bare_script']} times its seconds; imports {imports} s",
            "0.18 s, 0.16 s of CPU",
            (
                f"{times} times the floor's processor time (at most 1.35), topiarist's modules {own} s of the imports"
                " (at most half)",
                times <= 1.35 and own <= imports / 2,
            ),
        )
    ]  # fmt: skip


def measure_real_brokers() -> list[Figure]:
    """G17, and G16 on real brokers."""
    contenders = TOPIARIST, BARE_SCRIPT, FLOOR
    cases = side_by_side.measure(3, contenders)
    own, script, floor = ({case: found["figures"][each.name] for case, found in cases.items()} for each in contenders)
    times, cpu = (
        {case: round(own[case][key]["median"] / script[case][key]["median"], 2) for case in cases}
        for key in ("seconds", "cpu_seconds")
    )
    floor_times, floor_cpu = (
        {case: round(own[case][key]["median"] / floor[case][key]["median"], 2) for case in ("creates", "nothing")}
        for key in ("seconds", "cpu_seconds")
    )
    writes = ("creates", "configs", "growths")
    return [
        make_figure(
            "G17", "create 1,000, change 100 configs, grow 100, on real brokers, whole process",
            "; ".join(f"{own[case]['seconds']['median']} s" for case in writes), "1.0 times the script",
            (
                f"{', '.join(str(times[case]) for case in writes)} times a bare kazoo script (at most 1.0 each)"
                f", {', '.join(str(cpu[case]) for case in writes)} times its processor time; creates"
                f" {floor_times['creates']} times the script that sends one checked transaction for each, all at once",
                all(times[case] <= 1.0 for case in writes),
            ),
        ),
        make_figure(
            "G16 real", "nothing to do, 1,000 topics, on real brokers, whole process",
            f"{own['nothing']['seconds']['median']} s, {times['nothing']} times a bare kazoo script; the floor"
            f" {floor['nothing']['seconds']['median']} s",
            "0.55 times the script",
            (
                f"{floor_cpu['nothing']} times the floor's processor time (at most 1.35),"
                f" {floor_times['nothing']} times its seconds",
                floor_cpu["nothing"] <= 1.35,
            ),
        ),
    ]  # fmt: skip


def measure_foreign_client() -> list[Figure]:
    """G7."""
    seen = foreign_client_latency.measure()
    times = seen["times_less_than_1000_operations"]
    more = round(max(seen["beside_p99_ms"], seen["beside_200_brokers_p99_ms"]) - seen["alone_p99_ms"], 2)
    return [
        make_figure(
            "G7", "another client's p99 of a set while 5,000 topics are created: how much longer", f"{more} ms", "3 ms",
            (f"{times} times less than beside transactions of 1,000 operations (more than 1)", times > 1),
        )
    ]  # fmt: skip


def measure_many_clusters() -> list[Figure]:
    """G15."""
    seen = fleets.measure()
    times, requests = seen["times_one_cluster"], seen["requests_per_cluster"]
    return [
        make_figure(
            "G15", "plan, nothing to do, 50 clusters of 1,000 topics, whole process",
            f"{seen['seconds']} s, {seen['peak_mib']} MiB", "10 s, 400 MiB",
            (
                f"{times} times one cluster with as many topics (at most 1.5), {requests} requests a cluster (at most"
                f" 30), {seen['writes']} writes (0)",
                times <= 1.5 and requests <= 30 and seen["writes"] == 0,
            ),
        )
    ]  # fmt: skip


def measure_computing() -> list[Figure]:
    """G9, G10 and G11."""
    placed, parsed, started = placement.measure(), manifests.measure(), start.measure()
    loaded = ", ".join(started["imported_by_plan"]) or "nothing"
    return [
        make_figure(
            "G9", "assignment of 1,000,000 partitions", f"{placed['seconds']} s", "0.15 s",
            (f"{placed['ratio_to_plain']} times faster than list by list (more than 1)", placed["ratio_to_plain"] > 1),
        ),
        make_figure(
            "G10", "strict YAML, 10,000 documents", f"{parsed['strict_seconds']} s", "0.5 s",
            (f"{parsed['times_faster']} times faster than CSafeLoader (more than 1)", parsed["times_faster"] > 1),
        ),
        make_figure(
            "G11", "--help", f"{started['help_seconds']} s", "0.15 s",
            (f"plan imports {loaded} of pyspark, kopf, jsonschema, cel_expr_python", not started["imported_by_plan"]),
        ),
    ]  # fmt: skip


def measure_policies() -> list[Figure]:
    """Measure the time that policies add to G1."""
    seen = policies.measure()
    every = seen["evaluations"] == seen["topics"] * seen["rules"]
    return [
        make_figure(
            "policies", "plan of G1 under 20 rules: how much longer",
            f"{seen['seconds_more']} s ({seen['cpu_seconds_more']} s of CPU)", "1.5 s",
            (
                f"{seen['evaluations']:,} evaluations (200,000), {seen['times_as_long']} times G1's CPU (at most 2.5)",
                every and seen["times_as_long"] <= 2.5,
            ),
        )
    ]  # fmt: skip


def main() -> int:
    """Run everything and print it; return 1 if a gate does not hold."""
    compile_package()
    groups: list[Callable[[], list[Figure]]] = [
        measure_planning,
        measure_small_plans,
        measure_reading,
        measure_writing,
        measure_foreign_client,
        measure_many_clusters,
        measure_computing,
        measure_policies,
        measure_real_brokers,
    ]
    figures = [line for group in groups for line in group()]
    report = {
        "date": time.strftime("%Y-%m-%d"),
        "command": "make bench",
        "machine": describe_machine(),
        "figures": figures,
    }
    print(json.dumps(report, indent=2))
    return 0 if all(line["holds"] for line in figures) else 1


if __name__ == "__main__":
    sys.exit(main())

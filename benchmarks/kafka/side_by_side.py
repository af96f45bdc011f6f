"""The same work by topiarist and its alternatives: 1,000 creates, nothing to do, 100 config changes, 100 growths.

Each contender has a fresh cluster in each round, warmed up with a hundred topics, and does the four cases there one
after the other, each when the servers are idle again. A result is usable when every broker reports a leader for every
partition (creates, growths), or when every broker has logged the change (configs).
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from benchmarks.kafka import scene
from benchmarks.kafka.contenders import ALL_CONTENDERS, Case, Contender, Topics, batch_command, write_inputs
from benchmarks.kafka.scene import Measurement
from support.kafka.cluster import Cluster

TOPICS, CHANGED_TOPICS = 1000, 100
"""The number of topics, and of topics with a config change or a growth."""

UNCHANGED_RUNS, CHANGE_RUNS = 5, 3
"""The runs of a contender in each round where nothing is to do, and of config changes and of growths."""

ONE_BY_ONE_TOPICS = 20
"""The number of topics, config changes and growths for a contender with one process per topic."""

PARTITIONS, GROWN_PARTITIONS, REPLICATION_FACTOR = 3, 6, 3
CONFIG = {"retention.ms": "86400000", "min.insync.replicas": "2"}
LONGER_RETENTION = {**CONFIG, "retention.ms": "172800000"}

Measurements = dict[str, dict[str, list[Measurement]]]
"""The measurements by case and contender."""


def make_topics(prefix: str, count: int, partitions: int = PARTITIONS) -> dict[str, dict[str, Any]]:
    """Return topics with equal specs."""
    spec = {"partitions": partitions, "replicationFactor": REPLICATION_FACTOR, "config": CONFIG}
    return {f"{prefix}-{number:04}": dict(spec) for number in range(count)}


def make_cases(topics: int, changed: int) -> Iterator[Case]:
    """Return the four cases in their order; changes come several times, each of other topics."""
    wanted: Topics = make_topics("topic", topics)
    names = list(wanted)
    yield Case("creates", wanted, names)
    yield Case("nothing", wanted, [])
    for name, change in (("configs", {"config": LONGER_RETENTION}), ("growths", {"partitions": GROWN_PARTITIONS})):
        for first in range(0, min(topics, CHANGE_RUNS * changed), changed):
            chosen = names[first : first + changed]
            wanted = {**wanted, **{topic: {**wanted[topic], **change} for topic in chosen}}
            yield Case(name, wanted, chosen)


def make_warm_up_steps() -> Iterator[Topics]:
    """Return what a new cluster does first, since a controller is slow directly after its start: 100 other topics."""
    before = make_topics("warm", 100)
    yield before
    yield {name: {**spec, "partitions": GROWN_PARTITIONS, "config": LONGER_RETENTION} for name, spec in before.items()}


def warm_up(kafka: Cluster, folder: Path) -> None:
    """Take a new cluster through its first topics."""
    for wanted in make_warm_up_steps():
        write_inputs(folder, wanted)
        with scene.watch_leaders(
            kafka.ports.values(), {name: spec["partitions"] for name, spec in wanted.items()}
        ) as ready:
            scene.measure_commands(kafka, [batch_command(kafka.bootstrap, folder)], ready, 0.0)


def watch_usable(kafka: Cluster, case: Case) -> AbstractContextManager[Any]:
    """Return the check that tells when the result of a case is usable."""
    if case.name == "configs":
        return scene.watch_configs(scene.log_paths(kafka), case.changed)
    if case.changed:
        return scene.watch_leaders(
            kafka.ports.values(), {name: case.desired[name]["partitions"] for name in case.changed}
        )
    return nullcontext(lambda: True)


def measure_contender(contender: Contender) -> Iterator[tuple[str, Measurement]]:
    """Measure all cases of one contender in a fresh cluster."""
    size = (ONE_BY_ONE_TOPICS, ONE_BY_ONE_TOPICS) if contender.one_by_one else (TOPICS, CHANGED_TOPICS)
    with (
        scene.start_cluster() as kafka,
        tempfile.TemporaryDirectory() as other,
        tempfile.TemporaryDirectory() as folder,
    ):
        warm_up(kafka, Path(other))
        for case in make_cases(*size):
            write_inputs(Path(folder), case.desired)
            commands = contender.commands(kafka, Path(folder), case)
            for _ in range(1 if case.changed else UNCHANGED_RUNS):
                idle = scene.wait_idle(kafka)
                with watch_usable(kafka, case) as ready:
                    found = scene.measure_commands(kafka, commands, ready, idle)
                scene.log_progress(f"  {case.name}: {found.seconds:.2f} s, usable after {found.usable_seconds:.2f} s")
                yield case.name, found


def measure(rounds: int, contenders: Sequence[Contender] = ALL_CONTENDERS) -> dict[str, Any]:
    """Return medians and ranges by case and contender; one-topic contenders run in the first round only."""
    found: Measurements = {case.name: {} for case in make_cases(1, 1)}
    for number in range(rounds):
        turn = number % len(contenders)
        for contender in (*contenders[turn:], *contenders[:turn]):
            if contender.one_by_one and number:
                continue
            scene.log_progress(f"side by side, round {number + 1} of {rounds}: {contender.name}")
            for case, figures in measure_contender(contender):
                found[case].setdefault(contender.name, []).append(figures)
    return {case: _summarize_case(case, contenders, runs) for case, runs in found.items()}


def _summarize_case(case: str, contenders: Sequence[Contender], runs: dict[str, list[Measurement]]) -> dict[str, Any]:
    by_topic = {contender.name: contender.one_by_one for contender in contenders}
    lines = {name: _summarize_contender(case, figures, one_by_one=by_topic[name]) for name, figures in runs.items()}
    compared = {name: line for name, line in lines.items() if not by_topic[name]}
    key = "usable_seconds" if case != "nothing" else "seconds"
    fastest = min(compared, key=lambda name: float(compared[name][key]["median"]))
    return {"fastest": fastest, "by": key, "figures": lines}


def _summarize_contender(case: str, figures: Sequence[Measurement], *, one_by_one: bool) -> dict[str, Any]:
    topics = (ONE_BY_ONE_TOPICS if one_by_one else CHANGED_TOPICS) if case in ("configs", "growths") else 0
    topics = topics or (ONE_BY_ONE_TOPICS if one_by_one else TOPICS)
    found: dict[str, Any] = {
        "topics": topics,
        "runs": len(figures),
        "seconds": median_and_range([one.seconds for one in figures]),
    }
    if case != "nothing":
        found["usable_seconds"] = median_and_range([one.usable_seconds for one in figures])
    found["cpu_seconds"] = median_and_range([one.cpu_seconds for one in figures])
    found["cluster_cpu_seconds"] = median_and_range([one.cluster_cpu_seconds for one in figures])
    found["zookeeper_packets"] = round(statistics.median(one.packets for one in figures))
    found["leader_and_isr_requests_per_broker"] = round(
        statistics.median(one.leader_and_isr_requests for one in figures)
    )
    if one_by_one and case != "nothing":
        found["seconds_per_topic"] = round(statistics.median(one.seconds for one in figures) / topics, 3)
    return found


def median_and_range(values: Sequence[float]) -> dict[str, float]:
    """Return median and range."""
    return {
        "median": round(statistics.median(values), 3),
        "least": round(min(values), 3),
        "most": round(max(values), 3),
    }

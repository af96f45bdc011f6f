"""The same work by topiarist and by its rivals: 1,000 creates, nothing to do, 100 config changes, 100 growths.

Each contender has a fresh cluster in each round, that a hundred topics have been through before, and does the four
cases there one after the other; when all is quiet again, the next. Usable is: the metadata of every broker shows a
leader for every partition (creates, growths), or every broker has logged that it took the change up (configs).
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from benchmarks.kafka import scene
from benchmarks.kafka.contenders import ALL, Case, Contender, Topics, batch, lay_out
from benchmarks.kafka.scene import Measured
from support.kafka.cluster import Cluster

TOPICS, CHANGED = 1000, 100
"""How many there are, and how many of them get a config change or grow."""

ONE_BY_ONE = 20
"""How many those get that start a process for each topic, and as many config changes and growths."""

PARTITIONS, GROWN, REPLICAS = 3, 6, 3
CONFIG = {"retention.ms": "86400000", "min.insync.replicas": "2"}
LONGER = {**CONFIG, "retention.ms": "172800000"}

Rounds = dict[str, dict[str, list[Measured]]]
"""What was measured, by case and contender."""


def named(prefix: str, count: int, partitions: int = PARTITIONS) -> dict[str, dict[str, Any]]:
    """Topics that are alike."""
    spec = {"partitions": partitions, "replicationFactor": REPLICAS, "config": CONFIG}
    return {f"{prefix}-{number:04}": dict(spec) for number in range(count)}


def cases(topics: int, changed: int) -> Iterator[Case]:
    """The four, in their order."""
    wanted: Topics = named("topic", topics)
    names = list(wanted)
    yield Case("creates", wanted, names)
    yield Case("nothing", wanted, [])
    reconfigured = names[:changed]
    wanted = {**wanted, **{name: {**wanted[name], "config": LONGER} for name in reconfigured}}
    yield Case("configs", wanted, reconfigured)
    grown = names[-changed:]
    wanted = {**wanted, **{name: {**wanted[name], "partitions": GROWN} for name in grown}}
    yield Case("growths", wanted, grown)


def warm(kafka: Cluster, folder: Path) -> None:
    """Send other topics through first: a controller that has just started is slow for everybody."""
    before = named("warm", 100)
    for wanted in (before, {name: {**spec, "partitions": GROWN, "config": LONGER} for name, spec in before.items()}):
        lay_out(folder, wanted)
        with scene.led(kafka, {name: spec["partitions"] for name, spec in wanted.items()}) as ready:
            scene.measured(kafka, [batch(kafka, folder)], ready, 0.0)


def usable(kafka: Cluster, case: Case) -> AbstractContextManager[Any]:
    """What tells when a case can be used."""
    if case.name == "configs":
        return scene.heard(kafka, case.differ)
    if case.differ:
        return scene.led(kafka, {name: case.wanted[name]["partitions"] for name in case.differ})
    return nullcontext(lambda: True)


def one(contender: Contender) -> Iterator[tuple[str, Measured]]:
    """All cases of one contender, in a cluster of its own."""
    size = (ONE_BY_ONE, ONE_BY_ONE) if contender.one_by_one else (TOPICS, CHANGED)
    with (
        scene.cluster() as kafka,
        tempfile.TemporaryDirectory() as other,
        tempfile.TemporaryDirectory() as folder,
    ):
        warm(kafka, Path(other))
        for case in cases(*size):
            lay_out(Path(folder), case.wanted)
            commands = contender.commands(kafka, Path(folder), case)
            idle = scene.settle(kafka)
            with usable(kafka, case) as ready:
                found = scene.measured(kafka, commands, ready, idle)
            scene.say(f"  {case.name}: {found.seconds:.2f} s, usable after {found.usable:.2f} s")
            yield case.name, found


def measure(rounds: int, contenders: Sequence[Contender] = ALL) -> dict[str, Any]:
    """Medians and ranges by case and contender; who takes one topic a process, in the first round only."""
    found: Rounds = {case.name: {} for case in cases(1, 1)}
    for number in range(rounds):
        turn = number % len(contenders)
        for contender in (*contenders[turn:], *contenders[:turn]):
            if contender.one_by_one and number:
                continue
            scene.say(f"side by side, round {number + 1} of {rounds}: {contender.name}")
            for case, figures in one(contender):
                found[case].setdefault(contender.name, []).append(figures)
    return {case: _case(case, contenders, runs) for case, runs in found.items()}


def _case(case: str, contenders: Sequence[Contender], runs: dict[str, list[Measured]]) -> dict[str, Any]:
    by_topic = {contender.name: contender.one_by_one for contender in contenders}
    lines = {name: _line(case, figures, one_by_one=by_topic[name]) for name, figures in runs.items()}
    compared = {name: line for name, line in lines.items() if not by_topic[name]}
    key = "usable_seconds" if case != "nothing" else "seconds"
    fastest = min(compared, key=lambda name: float(compared[name][key]["median"]))
    return {"fastest": fastest, "by": key, "figures": lines}


def _line(case: str, figures: Sequence[Measured], *, one_by_one: bool) -> dict[str, Any]:
    topics = (ONE_BY_ONE if one_by_one else CHANGED) if case in ("configs", "growths") else 0
    topics = topics or (ONE_BY_ONE if one_by_one else TOPICS)
    found: dict[str, Any] = {
        "topics": topics,
        "runs": len(figures),
        "seconds": spread([one.seconds for one in figures]),
    }
    if case != "nothing":
        found["usable_seconds"] = spread([one.usable for one in figures])
    found["cpu_seconds"] = spread([one.cpu for one in figures])
    found["cluster_cpu_seconds"] = spread([one.cluster_cpu for one in figures])
    found["zookeeper_packets"] = round(statistics.median(one.packets for one in figures))
    found["leader_and_isr_requests_per_broker"] = round(statistics.median(one.told for one in figures))
    if one_by_one and case != "nothing":
        found["seconds_per_topic"] = round(statistics.median(one.seconds for one in figures) / topics, 3)
    return found


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and range."""
    return {
        "median": round(statistics.median(values), 3),
        "least": round(min(values), 3),
        "most": round(max(values), 3),
    }

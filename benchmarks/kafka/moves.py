"""The same work by topiarist, by Kafka's ``kafka-reassign-partitions --generate`` and by topicctl: lists side by side.

Each row is one topic on real brokers, and a required change. ``copies`` are replicas that brokers would copy,
``changed`` lists that differ, ``held`` and ``led`` the fewest and the most replicas and first positions of the brokers
that may have any, ``wrong_racks`` lists that have fewer racks than they could have. ``--generate`` makes a new
placement from a random start, so it runs three times. Its seconds are those of a process with a Java virtual machine;
the others' are those of the computation alone.

Rows differ in purpose: ``--generate`` is more even after a drain, because it may move everything, and topicctl balances
each position of the lists, which topiarist does for the first position only. Neither raises a replication factor.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.kafka.scene import KAFKA_DEFAULTS, log_progress
from support.kafka.clients import Clients
from support.kafka.cluster import Cluster
from support.kafka.jars import NEWEST, cache_folder
from support.kafka.programs import Program
from support.kafka.zookeeper import ZooKeeper
from topiarist.kafka.placement import assign_replicas, prepare_brokers
from topiarist.kafka.types import Broker, Replicas
from topiarist.planning.moves.planner import ReplicaPicker, drain, repair_racks, spread

RACKS: dict[int, str | None] = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}
BROKERS = tuple(Broker(id_, rack) for id_, rack in RACKS.items())
PARTITIONS = 60
GENERATE_RUNS = 3

Lists = tuple[Replicas, ...]
PlanLists = Callable[[Lists, ReplicaPicker], Lists]

_PROPOSED = re.compile(r"^Proposed partition reassignment configuration\n(.*)$", re.MULTILINE)
_TOPICCTL = Path(__file__).parent / "topicctl"


class Work:
    """One row: a topic with its lists, the brokers that must not have any of it, and topiarist's algorithm."""

    def __init__(self, what: str, lists: Lists, plan: PlanLists, without: Collection[int], topicctl: str) -> None:
        self.what = what
        self.topic = re.sub("[^a-z0-9]+", "-", what)
        self.lists = lists
        self.plan = plan
        self.without = frozenset(without)
        self.topicctl = topicctl


def make_works() -> list[Work]:
    """Return the rows."""
    draw = random.Random(1)
    ordered = prepare_brokers(BROKERS, "enforced")
    placed = assign_replicas(ordered, PARTITIONS, replication_factor=3, start=0, shift=0)
    before = assign_replicas(ordered[:5], PARTITIONS, replication_factor=3, start=0, shift=0)
    scattered = tuple(tuple(draw.sample(list(RACKS), 3)) for _ in range(PARTITIONS))
    within_one: PlanLists = lambda lists, picker: spread(lists, picker, within_one=True)  # noqa: E731
    return [
        Work("nothing to do", placed, repair_racks, (), "rebalance"),
        Work("drain 1 of 6 brokers", placed, lambda lists, picker: drain(lists, {6}, picker), {6}, "rebalance"),
        Work("spread to a 6th broker", before, within_one, (), "rebalance"),
        Work("repair racks, lists at random", scattered, repair_racks, (), "racks"),
        Work("spread lists at random", scattered, within_one, (), "rebalance"),
    ]


def measure() -> dict[str, Any]:
    """Return all rows; starts six brokers in three racks."""
    planner, why_not = build_topicctl()
    rows = []
    with (
        ZooKeeper(NEWEST) as server,
        Cluster(server, NEWEST, RACKS, properties=KAFKA_DEFAULTS) as kafka,
        Program("Clients", NEWEST) as program,
    ):
        clients = Clients(program, kafka.bootstrap)
        for work in make_works():
            log_progress(f"moves: {work.what}")
            assert clients.create({work.topic: work.lists}) == {}
            row: dict[str, Any] = {"what": work.what, "partitions": len(work.lists)}
            row["topiarist"] = measure_topiarist(work)
            row["generate"] = [measure_generate(work, kafka) for _ in range(GENERATE_RUNS)]
            row["topicctl"] = measure_topicctl(work, planner) if planner else {"error": why_not}
            rows.append(row)
    return {"rows": rows}


def describe_result(work: Work, after: Sequence[Sequence[int]], seconds: float) -> dict[str, Any]:
    """Return the figures of the new lists."""
    pairs = list(zip(work.lists, map(tuple, after), strict=True))
    takers = [broker for broker in RACKS if broker not in work.without]
    held = Counter(broker for _, new in pairs for broker in new)
    led = Counter(new[0] for _, new in pairs)
    racks = ReplicaPicker(BROKERS, work.without)
    return {
        "copies": sum(len(set(new) - set(old)) for old, new in pairs),
        "changed": sum(old != new for old, new in pairs),
        "held": [min(held[broker] for broker in takers), max(held[broker] for broker in takers)],
        "led": [min(led[broker] for broker in takers), max(led[broker] for broker in takers)],
        "wrong_racks": sum(racks.lacks_rack(new) for _, new in pairs),
        "seconds": round(seconds, 4),
    }


def measure_topiarist(work: Work) -> dict[str, Any]:
    """Return the figures of topiarist's lists."""
    start = time.perf_counter()
    picker = ReplicaPicker(BROKERS, work.without, Counter(work.lists))
    picker.begin_topic(work.lists)
    after = work.plan(work.lists, picker)
    return describe_result(work, after, time.perf_counter() - start)


def measure_generate(work: Work, kafka: Cluster) -> dict[str, Any]:
    """Return the figures of one proposal of Kafka's tool."""
    topics = kafka.zookeeper.directory / "topics-to-move.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": work.topic}]}))
    brokers = ",".join(str(broker) for broker in RACKS if broker not in work.without)
    start = time.perf_counter()
    said = kafka.tool(
        "kafka-reassign-partitions",
        *("--bootstrap-server", kafka.bootstrap, "--generate"),
        *("--topics-to-move-json-file", str(topics), "--broker-list", brokers),
    )
    seconds = time.perf_counter() - start
    proposed = _PROPOSED.search(said.out)
    if proposed is None:
        raise RuntimeError(f"no proposal in {said}")
    lists = {entry["partition"]: entry["replicas"] for entry in json.loads(proposed[1])["partitions"]}
    return describe_result(work, [lists[partition] for partition in range(len(work.lists))], seconds)


def build_topicctl() -> tuple[Path | None, str]:
    """Build the planner of topicctl's packages; return its path, or None and the reason."""
    if shutil.which("go") is None:
        return None, "go is not installed"
    target = cache_folder() / "topicctl-planner"
    log_progress("moves: building topicctl's packages")
    command = ["go", "build", "-o", str(target), "."]
    said = subprocess.run(command, cwd=_TOPICCTL, capture_output=True, text=True, check=False, timeout=1200)
    return (target, "") if said.returncode == 0 else (None, said.stderr.strip().splitlines()[-1])


def measure_topicctl(work: Work, planner: Path) -> Mapping[str, Any]:
    """Return the figures of topicctl's lists, or its error."""
    asked = {"work": work.topicctl, "racks": RACKS, "remove": sorted(work.without), "lists": work.lists}
    said = subprocess.run([str(planner)], input=json.dumps(asked), capture_output=True, text=True, check=True)
    found = json.loads(said.stdout)
    return {"error": found["error"]} if found["error"] else describe_result(work, found["lists"], found["seconds"])

"""The same work on clusters in KRaft mode: topiarist through the brokers, and its alternatives.

``side`` is creates, config changes and growths: each program has fresh clusters of one controller and three brokers in
three racks, warmed up with a hundred topics. A result is shown when every broker reports a leader for every partition.
In KRaft mode brokers do so before they have made the logs, so that it is usable later: when the leader of every
partition answers a request for its offsets. A config change is usable when every broker has logged it.

``nothing`` is the same cluster for all programs, with 1, 1,000 or 10,000 topics that topiarist has created: they take
turns, so that a machine that is busy at times is so for all of them. Each process counts as a whole, with its start and
its peak memory (Linux does not show less than that of this benchmark, some 40 MiB). A second figure is that of a
program that runs already and does the work again: the start of a Java virtual machine does not count there.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common import ProcessRun, process_cpu_seconds, run_process
from benchmarks.kafka import metadata, scene
from benchmarks.kafka.contenders import Case, Topics, batch_command
from benchmarks.kafka.kraft_contenders import KraftContender, apply_command, make_contenders, write_all_inputs
from benchmarks.kafka.side_by_side import (
    CHANGED_TOPICS,
    CONFIG,
    GROWN_PARTITIONS,
    ONE_BY_ONE_TOPICS,
    PARTITIONS,
    REPLICATION_FACTOR,
    TOPICS,
    make_warm_up_steps,
    median_and_range,
)
from support.kafka.kraft import KraftCluster, KraftOptions

RELEASE = "4.4.0"
RACKS: Mapping[int, str | None] = {1: "a", 2: "b", 3: "c"}

NOTHING_SIZES = (1, 1000, 10_000)
"""The numbers of topics for ``nothing``. 10,000 have one partition each: they are 30,000 logs on three brokers."""

NOTHING_RUNS, WARM_RUNS = 7, 10
"""The number of processes of each program for each size, and the number of repetitions within one process."""

MAX_TOPICS_OF_SLOW_PROGRAMS = 1000

KRAFT_DEFAULTS: Mapping[str, object] = {
    "num.network.threads": 3,
    "num.io.threads": 8,
    "background.threads": 10,
    "broker.session.timeout.ms": 30_000,
    "broker.heartbeat.interval.ms": 2000,
}
"""Kafka's own defaults where the tests use less, and a session that a busy machine does not exceed."""

_CONFIG_CHANGE = re.compile(rb"Updating topic (\S+) with new configuration")
_RETENTION = "retention.ms"
_DAY_MS, _MINUTE_MS = 86_400_000, 60_000


class KraftMeasurement(NamedTuple):
    """The cost of one job: seconds of the process, until shown and until usable, CPU seconds, the peak memory."""

    seconds: float
    shown_seconds: float
    usable_seconds: float
    cpu_seconds: float
    cluster_cpu_seconds: float
    peak_mib: float


def make_topics(count: int, partitions: int = PARTITIONS) -> dict[str, dict[str, Any]]:
    """Return topics that differ in a config value, so that none can be taken for another."""
    return {
        f"topic-{number:05}": {
            "partitions": partitions,
            "replicationFactor": REPLICATION_FACTOR,
            "config": {**CONFIG, _RETENTION: str(_DAY_MS + number * _MINUTE_MS)},
        }
        for number in range(count)
    }


def make_cases(sizes: Mapping[str, int]) -> Iterator[Case]:
    """Return creates, configs and growths in their order, of as many topics as ``sizes`` has, or all."""
    wanted: Topics = make_topics(sizes.get("creates", TOPICS))
    names = list(wanted)
    yield Case("creates", wanted, names)
    reconfigured = names[: sizes.get("configs", CHANGED_TOPICS)]
    for name in reconfigured:
        config = {**wanted[name]["config"], _RETENTION: str(2 * int(wanted[name]["config"][_RETENTION]))}
        wanted = {**wanted, name: {**wanted[name], "config": config}}
    yield Case("configs", wanted, reconfigured)
    grown = names[-sizes.get("growths", CHANGED_TOPICS) :]
    wanted = {**wanted, **{name: {**wanted[name], "partitions": GROWN_PARTITIONS} for name in grown}}
    yield Case("growths", wanted, grown)


@contextmanager
def start_cluster(heap: str = "512m") -> Iterator[KraftCluster]:
    """Start a fresh cluster that has been through its first topics, and through its first records of topiarist."""
    options = KraftOptions(properties=KRAFT_DEFAULTS, heap=heap)
    with KraftCluster(RELEASE, RACKS, options) as kafka, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for wanted, command in zip(make_warm_up_steps(), (batch_command(kafka.bootstrap, folder), []), strict=True):
            write_all_inputs(kafka, folder, wanted)
            case = Case("creates", wanted, list(wanted))
            with watch_usable(kafka, case) as ready:
                adopting = [*apply_command(kafka, folder), "--adopt", "*"]
                scene.run_until_usable([command or adopting], ready)
        yield kafka


def cluster_cpu_seconds(kafka: KraftCluster) -> float:
    """Return the CPU seconds that all nodes have used so far."""
    return sum(process_cpu_seconds(node.pid) for node in kafka.nodes.values())


def watch_usable(kafka: KraftCluster, case: Case) -> AbstractContextManager[Any]:
    """Return the check that tells when the result of a case is usable."""
    if case.name == "configs":
        logs = [kafka.nodes[broker].folder / "log" for broker in kafka.racks]
        return scene.watch_configs(logs, case.changed, _CONFIG_CHANGE)
    if case.changed:
        return watch_served(kafka, {name: case.desired[name]["partitions"] for name in case.changed})
    return nullcontext(lambda: True)


def watch_shown(kafka: KraftCluster, case: Case) -> AbstractContextManager[Any]:
    """Return the check that tells when every broker reports the leaders of a case; configs are never reported."""
    topics = {name: case.desired[name]["partitions"] for name in case.changed} if case.name != "configs" else {}
    return scene.watch_leaders([kafka.port("PLAINTEXT", broker) for broker in kafka.racks], topics)


@contextmanager
def watch_served(kafka: KraftCluster, topics: Mapping[str, int]) -> Iterator[Callable[[], bool]]:
    """Return whether the leader of every partition of the topics serves it."""
    with ExitStack() as stack:
        ports = [kafka.port("PLAINTEXT", broker) for broker in kafka.racks]
        brokers = [stack.enter_context(metadata.BrokerConnection(port)) for port in ports]
        yield metadata.UnservedTopics(brokers, topics).poll


def measure_case(kafka: KraftCluster, contender: KraftContender, folder: Path, case: Case) -> KraftMeasurement:
    """Measure one case, once the nodes are idle."""
    write_all_inputs(kafka, folder, case.desired)
    commands = contender.commands(kafka, folder, case)
    scene.wait_until_cpu_is_idle(lambda: cluster_cpu_seconds(kafka))
    used = cluster_cpu_seconds(kafka)
    shown_at: list[float] = []
    with watch_usable(kafka, case) as usable, watch_shown(kafka, case) as shown:
        start = time.perf_counter()

        def is_usable() -> bool:
            if not shown_at and shown():
                shown_at.append(time.perf_counter() - start)
            return bool(shown_at) and usable()

        done = scene.run_until_usable(commands, is_usable)
    scene.log_progress(
        f"  {case.name}: {sum(run.seconds for run in done.runs):.2f} s, shown after {shown_at[0]:.2f} s,"
        f" usable after {done.usable_seconds:.2f} s"
    )
    return KraftMeasurement(
        seconds=sum(run.seconds for run in done.runs),
        shown_seconds=shown_at[0],
        usable_seconds=done.usable_seconds,
        cpu_seconds=sum(run.cpu_seconds for run in done.runs),
        cluster_cpu_seconds=cluster_cpu_seconds(kafka) - used,
        peak_mib=max(run.peak_mib for run in done.runs),
    )


def measure_side_by_side(rounds: int, contenders: Sequence[KraftContender]) -> dict[str, Any]:
    """Return medians and ranges by case and program; slow programs run in the first round only."""
    found: dict[str, dict[str, list[KraftMeasurement]]] = {case.name: {} for case in make_cases({})}
    for number in range(rounds):
        turn = number % len(contenders)
        for contender in (*contenders[turn:], *contenders[:turn]):
            if contender.is_slow and number:
                continue
            scene.log_progress(f"KRaft, round {number + 1} of {rounds}: {contender.name}")
            with start_cluster() as kafka, tempfile.TemporaryDirectory() as folder:
                for case in make_cases(contender.sizes):
                    measured = measure_case(kafka, contender, Path(folder), case)
                    found[case.name].setdefault(contender.name, []).append(measured)
    sizes = {contender.name: contender.sizes for contender in contenders}
    return {
        case: {name: _summarize(runs, case, sizes[name]) for name, runs in by_name.items()}
        for case, by_name in found.items()
    }


def _summarize(runs: Sequence[KraftMeasurement], case: str, sizes: Mapping[str, int]) -> dict[str, Any]:
    topics = sizes.get(case, TOPICS if case == "creates" else CHANGED_TOPICS)
    return {
        "topics": topics,
        "runs": len(runs),
        "seconds": median_and_range([run.seconds for run in runs]),
        **({} if case == "configs" else {"shown_seconds": median_and_range([run.shown_seconds for run in runs])}),
        "usable_seconds": median_and_range([run.usable_seconds for run in runs]),
        "cpu_seconds": median_and_range([run.cpu_seconds for run in runs]),
        "cluster_cpu_seconds": median_and_range([run.cluster_cpu_seconds for run in runs]),
        "peak_mib": round(max(run.peak_mib for run in runs), 1),
        "seconds_per_topic": round(statistics.median(run.seconds for run in runs) / topics, 4),
    }


def measure_nothing(count: int, contenders: Sequence[KraftContender], runs: int) -> dict[str, Any]:
    """Measure runs with nothing to do, in turn, on one cluster with ``count`` topics."""
    wanted = make_topics(count, PARTITIONS if count <= TOPICS else 1)
    case = Case("nothing", wanted, [])
    taking_part = [each for each in contenders if count <= MAX_TOPICS_OF_SLOW_PROGRAMS or not each.is_slow]
    scene.log_progress(f"KRaft, nothing to do for {count:,} topics")
    heap = "512m" if count <= TOPICS else "1g"
    with start_cluster(heap) as kafka, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_all_inputs(kafka, folder, wanted)
        creation = measure_case(kafka, contenders[0], folder, Case("creates", wanted, list(wanted)))
        scene.wait_until_cpu_is_idle(lambda: cluster_cpu_seconds(kafka), timeout_s=120.0)
        found: dict[str, list[ProcessRun]] = {each.name: [] for each in taking_part}
        for number in range(runs + 1):
            turn = number % len(taking_part)
            for contender in (*taking_part[turn:], *taking_part[:turn]):
                if contender.is_slow and number > 2:
                    continue
                (command,) = contender.commands(kafka, folder, case)
                run = run_process(command)
                if number:  # the first round has the files of all programs read
                    found[contender.name].append(run)
        warm = measure_warm(kafka, folder)
    return {
        "topics": count,
        "partitions_each": next(iter(wanted.values()))["partitions"],
        "created_by_topiarist": {
            "seconds": round(creation.seconds, 2),
            "usable_seconds": round(creation.usable_seconds, 2),
            "peak_mib": round(creation.peak_mib, 1),
        },
        "whole_process": {name: _summarize_processes(each) for name, each in found.items()},
        "ratio_to_the_admin_client": median_and_range(_ratios(found)),
        "again_in_one_process": warm,
    }


def _ratios(found: Mapping[str, Sequence[ProcessRun]]) -> list[float]:
    """Return topiarist's seconds of each round in those of the batched Admin client."""
    pairs = zip(found["topiarist"], found["batched Admin client"], strict=True)
    return [own.seconds / other.seconds for own, other in pairs]


def _summarize_processes(runs: Sequence[ProcessRun]) -> dict[str, Any]:
    return {
        "runs": len(runs),
        "seconds": median_and_range([run.seconds for run in runs]),
        "cpu_seconds": median_and_range([run.cpu_seconds for run in runs]),
        "peak_mib": round(max(run.peak_mib for run in runs), 1),
    }


def measure_warm(kafka: KraftCluster, folder: Path, times: int = WARM_RUNS) -> dict[str, Any]:
    """Return seconds and processor seconds of the later half of ``times`` repetitions within one process, by program.

    The processes take turns. The Admin client and the pass of the operator keep their connections and have no YAML to
    read; the command line of topiarist connects and reads its manifests anew each time. The floor is the requests of a
    pass for configs alone.
    """
    again = [sys.executable, "-P", "-m", "benchmarks.kafka.again"]
    admin = "batched Admin client"
    commands = {
        "topiarist": [*again, "run", *apply_command(kafka, folder)[1:]],
        "pass of the operator": [*again, "pass", kafka.bootstrap, str(folder / "manifests")],
        "floor": [*again, "floor", kafka.bootstrap],
        admin: batch_command(kafka.bootstrap, folder, "again"),
    }
    found: dict[str, list[RepeatedRun]] = {name: [] for name in commands}
    with ExitStack() as stack:
        processes = {name: stack.enter_context(_start_again(words)) for name, words in commands.items()}
        for number in range(times):
            turn = number % len(processes)
            for name in (*list(processes)[turn:], *list(processes)[:turn]):
                found[name].append(_do_again(processes[name], kafka))
    warm = {name: runs[times // 2 :] for name, runs in found.items()}
    return {
        name: {
            "seconds": median_and_range([run.seconds for run in runs]),
            "cpu_seconds": median_and_range([run.cpu_seconds for run in runs]),
            "cluster_cpu_seconds": median_and_range([run.cluster_cpu_seconds for run in runs]),
            "ratio_to_the_admin_client": median_and_range(
                [own.seconds / other.seconds for own, other in zip(runs, warm[admin], strict=True)]
            ),
        }
        for name, runs in warm.items()
    }


class RepeatedRun(NamedTuple):
    """The cost of doing it once more: seconds, the processor seconds of the program, and of the cluster meanwhile."""

    seconds: float
    cpu_seconds: float
    cluster_cpu_seconds: float


def _start_again(command: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _do_again(process: subprocess.Popen[str], kafka: KraftCluster) -> RepeatedRun:
    """Let a process do its work once more."""
    assert process.stdin
    assert process.stdout
    used, cluster_used = process_cpu_seconds(process.pid), cluster_cpu_seconds(kafka)
    process.stdin.write("\n")
    process.stdin.flush()
    seconds = float(process.stdout.readline())
    cluster_cpu = cluster_cpu_seconds(kafka) - cluster_used
    return RepeatedRun(seconds, process_cpu_seconds(process.pid) - used, cluster_cpu)


def measure(
    rounds: int, sizes: Sequence[int] = NOTHING_SIZES, contenders: Sequence[KraftContender] | None = None
) -> dict[str, Any]:
    """Measure everything on KRaft; ``contenders`` are all that can be had on this machine by default."""
    missing: dict[str, str] = {}
    if contenders is None:
        contenders, missing = make_contenders(ONE_BY_ONE_TOPICS)
    return {
        "kafka": RELEASE,
        "missing": missing,
        "nothing": [measure_nothing(count, contenders, NOTHING_RUNS) for count in sizes],
        "side_by_side": measure_side_by_side(rounds, contenders),
    }

"""The comparison as a task: the one function that every runner calls, in this process, in others, or in Spark.

``work`` reads, validates and compares one cluster after the other, completes the rows with what the manifests say of
them, matches them with the previous report, and accepts what exceptions allow. ``run_in_processes`` calls it in forked
processes and ``drift.spark.engine`` on executors; ``drift.report`` writes what it returns. All that a task needs is in
``Shipped``, which can be pickled: manifests with the text of their own documents, references to secrets but no secret
values, no connections and no files. A task writes nothing, so that it can be repeated.
"""

from __future__ import annotations

import gc
import json
import pickle
import signal
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import datetime
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from msgspec import Struct, field
from msgspec.structs import replace

from topiarist.adapters.open_cluster import open_cluster
from topiarist.adapters.snapshots.codec import format_time, parse_time
from topiarist.adapters.snapshots.lenient_reader import CachingReader
from topiarist.desired.resolve import NO_SELECTION, Desired, TopicSelection
from topiarist.drift.compare import INVALID_ROWS_FILE, ClusterResult, Comparison, check_cluster, compare_cluster
from topiarist.drift.cross_cluster import SpecGroups, find_imbalances, make_deviation
from topiarist.drift.equality import EqualityIndex
from topiarist.drift.exceptions import AcceptedDrift, DriftException, drop_unjudged
from topiarist.drift.findings import FindingKey, FindingRow
from topiarist.drift.history import (
    ACCEPTED_FILE,
    FINDINGS_FILE,
    NOT_EVALUATED_FILE,
    RESOLVED_FILE,
    EndedFinding,
    PreviousReport,
    Repair,
    count_findings,
    seconds_between,
)
from topiarist.drift.rows import RowCompleter, RowOptions, sort_key
from topiarist.drift.snapshots import ClusterInput, SnapshotLines, read_snapshot
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import KafkaVersion, matches_any
from topiarist.model.plan import RunOptions
from topiarist.model.spec import ClusterSpec
from topiarist.planning.risk import NO_FACTS
from topiarist.reconcile import read_cluster
from topiarist.text import printable, printable_path, shorten_list

# Live clusters as inputs of a comparison: reads several clusters at the same time.
#
# ``work`` calls it in pool processes and on the executors of Spark. In the process of the command line,
# ``cli.commands.drift`` reads the clusters itself, to log slow connections.

MAX_PARALLEL_CLUSTERS = 16
"""Number of clusters that a machine reads at the same time; most of the time is spent waiting for answers."""


class ConnectOptions(NamedTuple):
    """The options of a connection: the owner, and the timeout for an answer in seconds."""

    owner: str
    connect_timeout: float


def describe_read_failure(error: TopiaristError) -> str:
    """Return the reason why a cluster could not be read, for a report.

    The error message is left out, because it names addresses and a report has many readers.
    """
    return f"could not be read ({error.reason})"


def read_live_cluster(
    spec: ClusterSpec, connect_options: ConnectOptions, taken_at: datetime
) -> tuple[ClusterInput, str]:
    """Return the state of a cluster and an empty text, or its problem and the error message."""
    try:
        with open_cluster(
            spec, owner=connect_options.owner, connect_timeout=connect_options.connect_timeout
        ) as cluster:
            return ClusterInput(spec.name, taken_at, read_cluster(cluster, spec.cluster_id)), ""
    except TopiaristError as error:
        return ClusterInput(spec.name, problem=describe_read_failure(error)), str(error)


_encode_json = json.JSONEncoder(separators=(",", ":")).encode


class LiveCluster(NamedTuple):
    """A cluster that the task reads itself."""

    connect_options: ConnectOptions


Source = SnapshotLines | LiveCluster | ClusterInput
"""The input of a cluster: to be read by the task, or as the caller has read it."""


class Part(NamedTuple):
    """One cluster as input of a task; without a source it is outside the run, and has only rows about manifests.

    ``manifest_rows`` are findings about the manifests of the cluster. ``previous`` and ``accepted`` are the findings
    and the accepted findings of the cluster in the previous report, ``ended`` those that ended in earlier ones, and
    ``baseline`` those of the baseline.
    """

    cluster: str
    source: Source | None
    manifest_rows: Sequence[FindingRow] = ()
    previous: Mapping[FindingKey, FindingRow] = {}
    accepted: Mapping[FindingKey, FindingRow] = {}
    ended: Mapping[FindingKey, EndedFinding] = {}
    baseline: Mapping[FindingKey, FindingRow] = {}

    @property
    def row_count(self) -> int:
        """Return the number of rows that the snapshot announces, 0 without a snapshot: how much work the part is."""
        return self.source.snapshot.row_count if isinstance(self.source, SnapshotLines) else 0

    @property
    def is_live(self) -> bool:
        """Return whether the task reads the cluster, and mostly waits."""
        return isinstance(self.source, LiveCluster)


class Shipped(Struct, frozen=True):
    """All that tasks need of a run besides their parts; ``as_of`` is the time of the report.

    Topics in ``unjudged_topics`` have an invalid manifest. Topics outside ``selection`` are not part of the report.
    ``baseline`` says who accepts the findings of the baseline; None without one.
    """

    desired: Desired
    options: RunOptions
    as_of: str
    exceptions: Sequence[DriftException] = ()
    row_options: RowOptions = field(default_factory=RowOptions)
    unjudged_topics: frozenset[str] = frozenset()
    upgrade_to: KafkaVersion | None = None
    selection: TopicSelection = NO_SELECTION
    baseline: DriftException | None = None


class Caches:
    """The caches that the tasks of one run share in one process; ``groups`` numbers the groups of specs."""

    def __init__(self, shipped: Shipped) -> None:
        self.groups = SpecGroups(shipped.desired.specs)
        self.equality_index = EqualityIndex(shipped.options.owner, self.groups)
        self.reader = CachingReader()
        self.completer = RowCompleter(shipped.desired, shipped.row_options, shipped.options.owner)


def work(
    parts: Iterable[Part], shipped: Shipped, caches: Caches, parallel: int = MAX_PARALLEL_CLUSTERS
) -> Iterator[ClusterResult]:
    """Yield the result of each part, in order; at most ``parallel`` live clusters are in memory.

    Raises ``TopiaristError`` if a snapshot that was listed cannot be opened or read: that is no finding.
    """
    for part, cluster_input, read_error in _read_parts(parts, shipped, caches, parallel):
        if cluster_input is None:
            yield complete(part, None, shipped, caches)
            continue
        cluster, specs = shipped.desired.clusters[part.cluster], shipped.desired.specs[part.cluster]
        if not isinstance(part.source, SnapshotLines):
            cluster_input = replace(cluster_input, equal_topics=caches.equality_index.for_cluster(specs))
        comparison = compare_cluster(cluster_input, cluster, specs, shipped.options, shipped.as_of)
        result = complete(part, comparison, shipped, caches)
        result.read_error = read_error
        if shipped.upgrade_to:
            result.upgrade = check_cluster(cluster_input, cluster, specs, shipped.upgrade_to)
        yield result


_PartInput = tuple[Part, ClusterInput | None, str]


def _read_parts(parts: Iterable[Part], shipped: Shipped, caches: Caches, parallel: int) -> Iterator[_PartInput]:
    """Yield each part with its input and the error message of a live cluster; live clusters are read ahead."""
    clusters, taken_at = shipped.desired.clusters, parse_time(shipped.as_of)
    reading: deque[tuple[Part, Future[tuple[ClusterInput, str]]]] = deque()
    with ThreadPoolExecutor(parallel) as threads:
        for part in parts:
            match part.source:
                case LiveCluster(connect_options):
                    spec = clusters[part.cluster]
                    reading.append((part, threads.submit(read_live_cluster, spec, connect_options, taken_at)))
                    if len(reading) >= parallel:
                        yield _await_first(reading)
                    continue
                case SnapshotLines(snapshot, lines):
                    equal_topics = caches.equality_index.for_cluster(shipped.desired.specs[part.cluster])
                    cluster = clusters[part.cluster]
                    found: ClusterInput | None = read_snapshot(snapshot, lines, cluster, equal_topics, caches.reader)
                case other:
                    found = other
            while reading:
                yield _await_first(reading)
            yield part, found, ""
        while reading:
            yield _await_first(reading)


def _await_first(reading: deque[tuple[Part, Future[tuple[ClusterInput, str]]]]) -> _PartInput:
    part, future = reading.popleft()
    return part, *future.result()


def complete(part: Part, comparison: Comparison | None, shipped: Shipped, caches: Caches) -> ClusterResult:
    """Return the result of a part from the comparison of its cluster, None for a cluster outside the run."""
    result = ClusterResult(part.cluster)
    rows, cluster_input, teams = list[FindingRow](), ClusterInput(part.cluster), dict[str, str]()
    is_selected = _make_selector(part, shipped)
    if comparison is not None:
        rows, cluster_input, result.topics = comparison.rows, comparison.cluster_input, comparison.counts
        teams = caches.completer.complete_rows(part.cluster, rows)
        if shipped.unjudged_topics:
            rows, ignored = drop_unjudged(rows, shipped.unjudged_topics)
            result.topics.ignored += ignored
    if part.manifest_rows:
        rows = sorted([*rows, *part.manifest_rows], key=sort_key)
    rows = [row for row in rows if is_selected(row["topic"])]
    previous = PreviousReport(
        rows={part.cluster: _select_rows(part.previous, is_selected)},
        accepted={part.cluster: _select_rows(part.accepted, is_selected)},
        ended=dict(part.ended),
    )
    find_facts = comparison.find_facts if comparison else lambda topic: NO_FACTS
    previous.match_findings(
        part.cluster, rows, lambda topic: topic in shipped.unjudged_topics or cluster_input.may_lack(topic), find_facts
    )
    # Findings of topics that the report leaves out are kept for the next one, with their times.
    unselected = (*part.accepted.values(), *part.previous.values())
    previous.not_evaluated.extend(row for row in unselected if not is_selected(row["topic"]))
    accepted_drift = AcceptedDrift(shipped.exceptions, shipped.as_of, shipped.baseline, part.baseline, find_facts)
    findings, accepted = accepted_drift.split_rows(rows)
    counts = result.findings
    counts.add_rows(findings)
    counts.accepted.update(row["class"] for row in accepted)
    counts.matched_exceptions = frozenset(accepted_drift.matched)
    counts.known = accepted_drift.known
    if comparison is not None and comparison.context and not shipped.selection.text:
        is_left_out = cluster_input.may_lack if cluster_input.is_incomplete else None
        counts.team_topics = caches.completer.count_teams(part.cluster, is_left_out)
        counts.team_drifted = Counter(teams[topic] for topic in {row["topic"] for row in findings} & teams.keys())
    counts.repairs = [
        Repair(
            row["class"],
            row["responsible"],
            seconds_between(row["seenSince"], shipped.as_of) - (row.get("acceptedSeconds") or 0),
        )
        for row in previous.resolved_rows
        if "exception" not in row
    ]
    counts.not_evaluated = count_findings(previous.not_evaluated)
    result.invalid_rows = len(cluster_input.invalid_rows)
    result.lines = {
        FINDINGS_FILE: [*map(encode_line, findings)],
        ACCEPTED_FILE: [*map(encode_line, accepted)],
        NOT_EVALUATED_FILE: [*map(encode_line, previous.not_evaluated)],
        RESOLVED_FILE: [*map(encode_line, previous.resolved_rows)],
        INVALID_ROWS_FILE: [encode_line(row._asdict()) for row in cluster_input.invalid_rows],
    }
    if comparison is not None:
        result.document = _cluster_document(comparison, findings)
        if comparison.context:
            _add_cluster_entries(result, comparison, is_selected)
    return result


def _make_selector(part: Part, shipped: Shipped) -> Callable[[str], bool]:
    """Return whether a topic of a cluster is part of the report; findings without a topic always are."""
    selection = shipped.selection
    if not selection.text:
        return lambda topic: True
    if not selection.requirements:  # topics without a manifest too
        return lambda topic: not topic or matches_any(topic, selection.patterns)
    specs = shipped.desired.specs.get(part.cluster, ())
    names = {spec.topic for spec in specs if selection.matches(spec)}
    return lambda topic: not topic or topic in names


def _select_rows(
    rows: Mapping[FindingKey, FindingRow], is_selected: Callable[[str], bool]
) -> dict[FindingKey, FindingRow]:
    return {key: row for key, row in rows.items() if is_selected(row["topic"])}


def _add_cluster_entries(result: ClusterResult, comparison: Comparison, is_selected: Callable[[str], bool]) -> None:
    """Add what only a readable cluster has: deviations, imbalances, and the rows that its snapshot lacks."""
    assert comparison.context
    cluster_input, state = comparison.cluster_input, comparison.context.state
    if cluster_input.is_incomplete:
        result.incomplete = _incomplete_document(comparison)
    registered = {broker.id for broker in state.brokers}
    result.imbalances = [*find_imbalances(result.cluster, comparison.broker_load, registered)]
    equal_topics = cluster_input.equal_topics
    result.sizes = equal_topics.deviations
    result.deviations = [
        make_deviation(group, spec, state.topics.get(spec.topic))
        for spec in comparison.specs
        if is_selected(spec.topic)
        if (group := equal_topics.group_of(spec.topic)) is not None
    ]


def encode_line(row: Mapping[str, Any]) -> bytes:
    """Return a row as a line of a report's file."""
    return _encode_json(row).encode() + b"\n"


def _cluster_document(comparison: Comparison, findings: Sequence[FindingRow]) -> dict[str, Any]:
    cluster_input, state = comparison.cluster_input, comparison.cluster_input.state
    return {
        "cluster": cluster_input.cluster,
        "clusterId": state.cluster_id if state else None,
        "takenAt": format_time(cluster_input.taken_at) if cluster_input.taken_at else None,
        "problem": cluster_input.problem or None,
        "incomplete": cluster_input.is_incomplete,
        "writeBlock": state.write_block.reason.value if state and state.write_block.reason else None,
        "declared": comparison.counts.declared,
        "present": comparison.counts.present,
        "findings": len(findings),
        "byClass": dict(sorted(Counter(row["class"] for row in findings).items())),
    }


def _incomplete_document(comparison: Comparison) -> dict[str, Any]:
    invalid_rows = comparison.cluster_input.invalid_rows
    first = invalid_rows[0]
    return {
        "cluster": comparison.cluster_input.cluster,
        "file": first.file,
        "rows": len(invalid_rows),
        "notJudged": comparison.counts.not_judged,
        "message": f"line {first.line}: {first.message}" if first.line else first.message,
    }


# A runner in forked processes: uses the cores of one machine, without Java and without sending the job.
#
# ``drift.report`` calls it for large fleets. Forked processes share the memory of the manifests. A process gets the
# next part when it has finished one, the largest snapshot first, so that none ends long after the others. Of many parts
# it has one more waiting, so that it never waits for the parent. Results come in the order of the parts: each process
# writes its results to a file of its own, and sends only their places. A process that dies ends the run with an error
# that names its clusters.


class _Failure(NamedTuple):
    """The error of a process: the fields of a ``TopiaristError``, or the traceback of an unexpected exception."""

    reason: Reason | None
    message: str
    hint: str = ""

    def raise_again(self) -> NoReturn:
        """Raise the error in this process."""
        if self.reason is None:
            raise RuntimeError(self.message)
        raise TopiaristError(self.reason, self.message, self.hint)


_MANY_PARTS = 32
"""The number of parts for each process from which on one waits in its pipe: each is a small share of the whole then."""

_Server = Callable[[Connection, Sequence[Connection], Path], None]


class _Process:
    """A forked process with its pipe, its file of results, and the numbers of its parts that are not finished.

    It works on the first ``parallel`` of them.
    """

    def __init__(self, serve: _Server, file: Path, pipes: list[Connection], parallel: int) -> None:
        context = get_context("fork")
        self.connection, child_end = context.Pipe()
        pipes.append(self.connection)
        self._process = context.Process(target=serve, args=(child_end, pipes, file), daemon=True)
        self._process.start()
        child_end.close()
        self._results = file.open("rb")
        self._parallel = parallel
        self.numbers: list[int] = []

    def send(self, number: int | None) -> None:
        """Send the number of a part, or None after the last; a process that has ended is noticed by ``receive``."""
        if number is not None:
            self.numbers.append(number)
        with suppress(OSError):
            self.connection.send(number)

    def receive(self, parts: Sequence[Part]) -> tuple[int, int]:
        """Return the number of a finished part and the place of its result. Raises the error of the process."""
        try:
            found = self.connection.recv()
        except (EOFError, OSError):
            self._process.join()
            names = [parts[number].cluster for number in self.numbers[: self._parallel]]
            raise _dead_process_error(names, self._process.exitcode) from None
        if isinstance(found, _Failure):
            found.raise_again()
        number, place = found
        self.numbers.remove(number)
        return number, place

    def read_result(self, place: int) -> ClusterResult:
        """Return the result at a place of the file."""
        self._results.seek(place)
        result: ClusterResult = pickle.load(self._results)  # written by a process of this run
        return result

    def close(self) -> None:
        """End the process, and wait for its end."""
        self._process.terminate()
        self._process.join()
        self._process.close()
        self.connection.close()
        self._results.close()


def _dead_process_error(clusters: Sequence[str], exit_code: int | None) -> TopiaristError:
    names = shorten_list([*map(printable, clusters)]) or "no cluster"
    ending = f"was ended by {signal.Signals(-exit_code).name}" if exit_code and exit_code < 0 else "has ended"
    return TopiaristError(
        Reason.INCOMPLETE,
        f"the process that compared {names} {ending}",
        "if the machine has too little memory, use fewer processes: --jobs 1",
    )


def _serve(
    parts: Sequence[Part],
    shipped: Shipped,
    parallel: int,
    connection: Connection,
    pipes: Sequence[Connection],
    file: Path,
) -> None:
    """Compare the parts with the received numbers, until None is received or the parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for pipe in pipes:  # otherwise the pipes of other processes would stay open after the parent has ended
        pipe.close()
    numbers: list[int] = []

    def received() -> Iterator[Part]:
        while (number := connection.recv()) is not None:
            numbers.append(number)
            yield parts[number]

    try:
        with file.open("ab") as output:
            for result in work(received(), shipped, Caches(shipped), parallel):
                place = output.tell()
                pickle.dump(result, output, pickle.HIGHEST_PROTOCOL)
                output.flush()
                connection.send((numbers.pop(0), place))
    except TopiaristError as error:
        connection.send(_Failure(error.reason, error.message, error.hint))
    except (EOFError, ConnectionError):  # the parent has ended
        pass
    except OSError as error:
        connection.send(_Failure(Reason.UNWRITABLE, f"{printable_path(file)}: {error.strerror or error}"))
    except Exception:
        names = shorten_list([parts[number].cluster for number in numbers])
        connection.send(_Failure(None, f"{names}: {traceback.format_exc()}"))


def run_in_processes(parts: Sequence[Part], shipped: Shipped, jobs: int, folder: Path) -> Iterator[ClusterResult]:
    """Yield the result of each part, in order; ``folder`` is an existing folder for the results.

    Raises ``TopiaristError`` (Incomplete) if a process dies, and the errors of ``work``.
    """
    waiting = sorted(range(len(parts)), key=lambda number: (parts[number].row_count, -number))
    is_live = any(part.is_live for part in parts)
    parallel = max(MAX_PARALLEL_CLUSTERS // jobs, 1) if is_live else 1
    found: dict[int, tuple[_Process, int]] = {}
    with ExitStack() as stack:
        processes: list[_Process] = []
        pipes: list[Connection] = []
        gc.freeze()  # a collection in a forked process would copy the memory that it shares
        stack.callback(gc.unfreeze)
        for number in range(jobs):
            file = folder / f"results-{number}"
            file.touch()
            processes.append(_Process(partial(_serve, parts, shipped, parallel), file, pipes, parallel))
            stack.callback(processes[-1].close)
        is_many = len(parts) >= _MANY_PARTS * jobs and not is_live
        for process in processes * (parallel + 1 if is_many else parallel):
            process.send(waiting.pop() if waiting else None)
        next_number = 0
        while next_number < len(parts):
            if next_number in found:
                process, place = found.pop(next_number)
                next_number += 1
                yield process.read_result(place)
                continue
            for process in _wait_ready(processes):
                number, place = process.receive(parts)
                found[number] = process, place
                process.send(waiting.pop() if waiting else None)


def _wait_ready(processes: Sequence[_Process]) -> list[_Process]:
    """Wait until processes that work on parts have sent something, or have died; return them."""
    ready = wait([each.connection for each in processes if each.numbers])
    return [each for each in processes if each.connection in ready]

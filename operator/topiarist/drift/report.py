"""A drift report: the parts of a job in, the files of the report out; and the engines that make one.

``make_parts`` makes a part for each cluster; a runner calls ``drift.task.work`` with them;
``write_report`` writes the results in order of cluster name. Spark writes its lines itself: ``drift.spark.engine`` uses
the same parts, and the same summary.
"""

from __future__ import annotations

import importlib.util
import os
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import asdict

from topiarist.adapters.devcluster.zookeeper_server import find_java
from topiarist.drift.causes import CauseIndex, Causes, to_cause_row
from topiarist.drift.compare import INVALID_ROWS_FILE, ClusterResult, FindingCounts, TopicCounts, UpgradeRisks
from topiarist.drift.cross_cluster import MAX_SHOWN_DIFFERENCES, DeviationIndex, SpecGroups
from topiarist.drift.exceptions import DriftException, describe_unmatched, make_expired_rows, make_invalid_rows
from topiarist.drift.findings import FindingKey, FindingRow, Severity
from topiarist.drift.history import (
    FINDINGS_FILE,
    REPAIR_DAYS,
    EndedFinding,
    PreviousReport,
    Repair,
    RowsByCluster,
    extend_trend,
    find_report,
    load_previous,
)
from topiarist.drift.outputs import remote
from topiarist.drift.outputs.folder import ReportFolder
from topiarist.drift.rows import NEW, WORSE, RowCompleter
from topiarist.drift.snapshots import ClusterInput, SnapshotInventory, UnusedInput, spark_required_reason
from topiarist.drift.storage import is_remote
from topiarist.drift.task import Caches, LiveCluster, Part, Shipped, Source, encode_line, run_in_processes, work
from topiarist.errors import Reason, TopiaristError, missing_packages_error
from topiarist.model.spec import ClusterSpec
from topiarist.text import format_count, printable_path, to_camel_case

if TYPE_CHECKING:
    from topiarist.adapters.manifests.loader import InvalidDocument
    from topiarist.drift.history import RunHistory


# The engines of a drift report: processes of this machine or Spark, and the choice between them.
#
# ``cli.commands.drift`` selects an engine and calls it. The base class has the input and output of local paths. This
# module does not import PySpark, so that reports without Spark do not need it.

PYTHON, SPARK = "python", "spark"

_HINT_PYTHON_ENGINE = "or compare without Spark: --engine python"

_SECONDS_PER_TOPIC, _SECONDS_PER_LIVE_TOPIC, _SECONDS_PER_FINDING = 4e-6, 1e-4, 160e-6
"""CPU seconds, from ``make bench-drift``: to compare a topic of a snapshot, to read one of a cluster, for a finding."""

_POOL_MIN_SECONDS = 2.0
"""CPU seconds from which several processes are worth their start."""


class Cost(NamedTuple):
    """The cost of a run in clusters, topics, and earlier findings, as far as it is known before the run."""

    clusters: int
    topics: int
    findings: int
    is_live: bool = False

    @property
    def cpu_seconds(self) -> float:
        """Return a rough estimate of the CPU time of the comparison."""
        per_topic = _SECONDS_PER_LIVE_TOPIC if self.is_live else _SECONDS_PER_TOPIC
        return self.topics * per_topic + self.findings * _SECONDS_PER_FINDING

    def __str__(self) -> str:
        counts = [format_count(self.topics, "topic")]
        counts += [format_count(self.findings, "earlier finding")] if self.findings else []
        work = f"about {self.cpu_seconds:.0f} s" if self.cpu_seconds >= 1 else "less than a second"
        return f"{' and '.join(counts)}, {work} of work"


def is_spark_submit() -> bool:
    """Return whether ``spark-submit`` started this process, so that a JVM exists and a master is chosen."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def has_given_session() -> bool:
    """Return whether Spark is there already: by ``spark-submit``, a Connect server, or Databricks."""
    return is_spark_submit() or bool(os.environ.keys() & {"SPARK_REMOTE", "DATABRICKS_RUNTIME_VERSION"})


def find_spark_reason(engine: str, snapshots: Iterable[str]) -> str:
    """Return the reason why Spark compares; empty if processes of this machine do.

    Raises ``TopiaristError``: WrongUsage if only Spark can read a path and the engine is ``python``,
    PrerequisiteMissing if Spark is selected and missing.
    """
    reasons = {} if engine == SPARK else {path: spark_required_reason(path) for path in snapshots}
    path, reason = next(((path, reason) for path, reason in reasons.items() if reason), ("", ""))
    if engine == PYTHON and reason:
        message = f"{printable_path(path)} {reason}: it needs Spark, and --engine python excludes Spark"
        hint = "remove --engine python, or use files and folders of JSON lines"
        raise TopiaristError(Reason.WRONG_USAGE, message, hint)
    if engine == PYTHON or not (engine == SPARK or reason or has_given_session()):
        return ""
    require_spark("" if reason else _HINT_PYTHON_ENGINE)
    if reason:
        return f"{printable_path(path)} {reason}"
    if engine == SPARK:
        return "--engine spark"
    return "started by spark-submit" if is_spark_submit() else "a session is given"


def require_spark(hint: str = _HINT_PYTHON_ENGINE) -> None:
    """Raise ``TopiaristError`` (PrerequisiteMissing) if PySpark or Java is missing.

    ``hint`` names the alternative without Spark.
    """
    if has_given_session():
        return
    if importlib.util.find_spec("pyspark") is None:
        raise missing_packages_error("drift", "comparing by Spark", hint)
    try:
        find_java("compare by Spark")
    except TopiaristError as error:
        raise TopiaristError(error.reason, error.message, hint) from error


class Engine(ABC):
    """An engine that reads inputs, compares clusters and writes reports; this base class serves paths and URIs.

    ``description`` says what compares the fleet, and why.
    """

    def __init__(self, description: str) -> None:
        self.description = description

    def exists(self, path: str) -> bool:
        """Return whether a path is a file or a non-empty folder, or has a report that is still to be published."""
        if is_remote(path):
            return remote.exists(path)
        where = find_report(path)
        return any(where.iterdir()) if where.is_dir() else where.exists()

    def load_previous(self, path: str) -> PreviousReport:
        """Read an earlier report. Raises ``Unreadable``."""
        return remote.load_previous(path) if is_remote(path) else load_previous(path)

    def open_history(self, path: str) -> RunHistory:
        """Return the history in a folder. Raises ``PrerequisiteMissing`` if pyarrow is missing."""
        if importlib.util.find_spec("pyarrow") is None:
            raise missing_packages_error("history", "--history")
        from topiarist.drift.parquet import ParquetHistory

        return ParquetHistory(path)

    def open_snapshots(
        self, paths: Sequence[str], clusters: Mapping[str, ClusterSpec], now: datetime
    ) -> SnapshotInventory:
        """Open the snapshots at some paths. Raises ``SnapshotUnusable``."""
        return SnapshotInventory(paths, clusters, now)

    def create_report_folder(self, path: str) -> ReportFolder:
        """Create the staging folder of the report. Raises ``Unwritable``."""
        return remote.RemoteReportFolder(path) if is_remote(path) else ReportFolder(path)

    @abstractmethod
    def compare(self, job: ReportJob, given: SnapshotInventory | LiveCluster, folder: ReportFolder) -> dict[str, Any]:
        """Compare the clusters of a job, from snapshots or live, write the report, and return its summary."""


class LocalEngine(Engine):
    """The engine that runs in processes of this machine; with one job it runs in this process."""

    def __init__(self) -> None:
        super().__init__("this process")
        self.jobs = 1

    def choose_jobs(self, jobs: int | None, cost: Cost) -> None:
        """Set the number of processes: ``jobs`` if it is given, else a process for each core if the fleet is large."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        is_large = jobs is not None or cost.cpu_seconds >= _POOL_MIN_SECONDS
        self.jobs = max(min(jobs or cores, cost.clusters), 1) if is_large else 1
        reasons = [f"--jobs {jobs}"] if jobs else [format_count(cores, "core")] if is_large else []
        place = "this process" if self.jobs == 1 else f"{self.jobs} processes"
        self.description = f"{place}: {', '.join([str(cost), *reasons])}"

    def compare(self, job: ReportJob, given: SnapshotInventory | LiveCluster, folder: ReportFolder) -> dict[str, Any]:
        """Compare the clusters of a job, from snapshots or live, write the report, and return its summary."""

        def run(parts: Iterable[Part], shipped: Shipped) -> Iterator[ClusterResult]:
            if self.jobs == 1:
                return run_here(parts, shipped)
            return run_in_processes([*parts], shipped, self.jobs, folder.make_work_folder())

        return compare_and_write(job, sources_of(job, given), folder, run)


class ReportJob(Struct, frozen=True):
    """The inputs of a report that do not depend on the runner: what tasks need, and what only the report needs.

    ``invalid_documents`` are manifests that were left out. ``repairs`` are the commands that repair findings, by
    the value of ``--fix``. ``on_cluster_done`` is called once for each cluster.
    ``baseline`` has the findings of the baseline by cluster. ``between`` is the comparison of some clusters with each
    other, None without one, and ``inputs`` are the live clusters that were read for it.
    """

    shipped: Shipped
    previous: PreviousReport
    unused_input: UnusedInput
    invalid_documents: Sequence[InvalidDocument] = ()
    repairs: Mapping[str, str] = {}
    on_cluster_done: Callable[[], None] = field(default=lambda: None)
    on_read_error: Callable[[str, str], None] = field(default=lambda cluster, message: None)
    baseline: RowsByCluster = field(default_factory=dict)
    between: Mapping[str, Any] | None = None
    inputs: Mapping[str, ClusterInput] = {}


# The summary of a drift report: ``summary.json`` as a document of plain values.
#
# ``write_report`` adds one result after the other, so that only counts stay in memory, and then builds the document.
# All formats in ``drift.outputs`` are rendered from it.

FORMAT_VERSION = 1


class SummaryBuilder:
    """A builder that counts the results of a job; ``build`` returns the document once all are added."""

    def __init__(self, job: ReportJob) -> None:
        self._job = job
        self._upgrade_risks = UpgradeRisks(job.shipped.upgrade_to) if job.shipped.upgrade_to else None
        self._clusters: list[dict[str, Any]] = []
        self._incomplete: list[dict[str, Any]] = []
        self._imbalances: list[dict[str, Any]] = []
        self._topics = TopicCounts()
        self._invalid_rows = 0
        self.findings = FindingCounts()

    def add(self, result: ClusterResult) -> None:
        """Count one result, and report its progress to the caller; results come in order of cluster name."""
        self.findings.add(result.findings)
        self._topics.add(result.topics)
        self._invalid_rows += result.invalid_rows
        self._imbalances.extend(result.imbalances)
        if self._upgrade_risks and result.upgrade is not None:
            self._upgrade_risks.add_cluster(result.cluster, result.upgrade)
        if result.incomplete:
            self._incomplete.append(result.incomplete)
        if result.read_error:
            self._job.on_read_error(result.cluster, result.read_error)
        if result.document:
            self._clusters.append(result.document)
            self._job.on_cluster_done()

    @property
    def compared(self) -> frozenset[str]:
        """Return the names of the clusters that were compared."""
        return frozenset(each["cluster"] for each in self._clusters if each["problem"] is None)

    def build(self, causes: Causes, difference_count: int, differences: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the document; ``differences`` are the first of the cross-cluster differences.

        ``previous`` of the job lacks the findings of all clusters that were added.
        """
        shipped, previous, inputs = self._job.shipped, self._job.previous, self._job.unused_input
        selection = shipped.selection.text
        compared = [cluster["takenAt"] for cluster in self._clusters if cluster["problem"] is None]
        total, counts = len(self._clusters), self.findings
        findings = self._findings_document(previous)
        unknown = total - len(compared)
        current = {"asOf": shipped.as_of, "unknown": unknown, "findings": findings["total"]}
        current |= {name: findings[name] for name in ("new", "resolved", "byClass")}
        # A limited report cannot tell which exceptions match no finding, and is no point of a trend.
        exceptions = () if selection else shipped.exceptions
        return {
            "formatVersion": FORMAT_VERSION,
            "asOf": shipped.as_of,
            "oldest": min(compared, default=None),
            "previous": previous.as_of,
            "owner": shipped.options.owner,
            "clusters": {"declared": total, "compared": len(compared), "unknown": unknown},
            "topics": {to_camel_case(name): number for name, number in asdict(self._topics).items()},
            "findings": findings,
            "byCluster": self._clusters,
            "incomplete": self._incomplete,
            "byOwner": [
                {"owner": owner, "findings": numbers.total(), "byClass": _sort_nonzero(numbers)}
                for owner, numbers in sorted(counts.owners.items(), key=lambda item: (-item[1].total(), item[0] or ""))
            ],
            "bySeverity": _sort_severities(counts.by["severity"]),
            "causes": causes.document(),
            "byResponsible": self._responsible_documents(),
            "inStep": [
                {"responsible": team, "topics": number, "inStep": number - counts.team_drifted[team]}
                for team, number in sorted(counts.team_topics.items())
            ],
            "accepted": {"total": counts.accepted.total(), "byClass": _sort_nonzero(counts.accepted)},
            "exceptions": {"unmatched": describe_unmatched(exceptions, counts.matched_exceptions)},
            "baseline": shipped.baseline and self._baseline_document(shipped.baseline),
            "oldestFinding": counts.oldest,
            "timeToRepair": None if previous.repairs is None else self._repairs_document(previous.repairs),
            "crossClusterDifferences": {"total": difference_count, "topics": differences},
            "unbalanced": self._imbalances,
            "upgrade": self._upgrade_risks and self._upgrade_risks.build(),
            "inputs": {
                "broken": len(inputs.invalid_rows) + self._invalid_rows,
                "superseded": inputs.superseded,
                "unknownClusters": inputs.unknown_clusters,
            },
            "trend": previous.trend if selection else extend_trend(previous.trend, current),
            **({"selection": selection} if selection else {}),
        }

    def _baseline_document(self, header: DriftException) -> dict[str, Any]:
        known, total = self.findings.known, sum(map(len, self._job.baseline.values()))
        given = {name: getattr(header, name) for name in ("file", "author", "reason", "until")}
        rest = total - known.total()
        return {**given, "findings": total, "accepted": known["accepted"], "worse": known["worse"], "unmatched": rest}

    def _responsible_documents(self) -> list[dict[str, Any]]:
        ordered = sorted(self.findings.responsible.items(), key=lambda item: (-item[1].by_class.total(), item[0] or ""))
        return [
            {
                "responsible": name,
                "findings": counts.by_class.total(),
                "new": counts.new,
                "worse": counts.worse,
                "byClass": _sort_nonzero(counts.by_class),
                "bySeverity": _sort_severities(counts.by_severity),
            }
            for name, counts in ordered
        ]

    def _repairs_document(self, earlier: Sequence[Repair]) -> dict[str, Any]:
        repairs = [*earlier, *self.findings.repairs]
        by_class, by_responsible = defaultdict[str, list[int]](list), defaultdict[str | None, list[int]](list)
        for repair in repairs:
            by_class[repair.drift_class].append(repair.seconds)
            by_responsible[repair.responsible].append(repair.seconds)
        teams = sorted(by_responsible.items(), key=lambda item: (-len(item[1]), item[0] or ""))
        return {
            "days": REPAIR_DAYS,
            "resolved": len(repairs),
            "medianSeconds": _median([repair.seconds for repair in repairs]),
            "byClass": {
                name: {"resolved": len(seconds), "medianSeconds": _median(seconds)}
                for name, seconds in sorted(by_class.items())
            },
            "byResponsible": [
                {"responsible": name, "resolved": len(seconds), "medianSeconds": _median(seconds)}
                for name, seconds in teams
            ],
        }

    def _findings_document(self, previous: PreviousReport) -> dict[str, Any]:
        counts, status = self.findings, self.findings.by["status"]
        return {
            "total": status.total(),
            "new": status[NEW],
            "worse": status[WORSE],
            "unchanged": status.total() - status[NEW] - status[WORSE],
            "resolved": len(counts.repairs),
            "notEvaluated": counts.not_evaluated,
            "dropped": previous.dropped,
            "byClass": _sort_nonzero(counts.by["class"]),
            "byEffect": _sort_nonzero(counts.by["effect"]),
            "byPlanned": _sort_nonzero(counts.by["planned"]),
            "byRisk": _sort_nonzero(counts.by["risk"]),
            "byReason": _sort_nonzero(counts.reasons),
        }


def _median(seconds: Sequence[int]) -> int | None:
    return int(median(seconds)) if seconds else None


def _sort_nonzero(numbers: Mapping[str, int]) -> dict[str, int]:
    return {name: number for name, number in sorted(numbers.items()) if number}


def _sort_severities(numbers: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers of findings by severity, the most severe first, without zeros."""
    return {each.value: numbers[each.value] for each in Severity if numbers.get(each.value)}


def make_parts(job: ReportJob, sources: Iterable[tuple[str, Source]]) -> Iterator[Part]:
    """Yield the parts of a job in order of name: those of its clusters, and of clusters that only manifests name.

    ``sources`` has each cluster of the run once, in order of name. The findings of a cluster leave ``job.previous``,
    so that only those of clusters outside the run remain in it.
    """
    shipped = job.shipped
    completer = RowCompleter(shipped.desired, shipped.row_options)
    # The previous report may have rows of manifests that are valid now: these rows have no cluster.
    manifest_rows: dict[str, list[FindingRow]] = {"": []}
    for row in (
        *make_invalid_rows(job.invalid_documents, shipped.as_of, completer),
        *make_expired_rows((*shipped.exceptions, *filter(None, [shipped.baseline])), shipped.as_of, completer),
    ):
        manifest_rows.setdefault(row["cluster"], []).append(row)
    ended: defaultdict[str, dict[FindingKey, EndedFinding]] = defaultdict(dict)
    for key, finding in job.previous.ended.items():
        ended[key[0]][key] = finding

    def make_part(name: str, source: Source | None) -> Part:
        previous, accepted = job.previous.rows.pop(name, {}), job.previous.accepted.pop(name, {})
        rows, known = manifest_rows.pop(name, ()), job.baseline.get(name, {})
        return Part(name, source, rows, previous, accepted, ended.pop(name, {}), known)

    for name, source in sources:
        for other in sorted(other for other in manifest_rows if other < name):
            yield make_part(other, None)
        yield make_part(name, source)
    for other in sorted(manifest_rows):
        yield make_part(other, None)


class DuplicateClusterIds:
    """A check of the results in order of name: only the first cluster with an id is compared.

    The names of the other clusters are wrong.
    """

    def __init__(self) -> None:
        self._cluster_of_id: dict[str, str] = {}

    def find_problem(self, result: ClusterResult) -> str:
        """Return the problem of a cluster with the id of an earlier cluster; empty for other clusters."""
        cluster_id = result.document and result.document["clusterId"]
        if not cluster_id or (first := self._cluster_of_id.setdefault(cluster_id, result.cluster)) == result.cluster:
            return ""
        return f"its cluster id, {cluster_id}, is that of cluster {first}"


def compare_duplicate(result: ClusterResult, part: Part, problem: str, shipped: Shipped) -> ClusterResult:
    """Return the result of a cluster that is not compared because of its id; it keeps its invalid rows."""
    duplicate = part._replace(source=ClusterInput(part.cluster, problem=problem))
    (unknown,) = work([duplicate], shipped, Caches(shipped))
    unknown.invalid_rows = result.invalid_rows
    if INVALID_ROWS_FILE in result.lines:
        unknown.lines = {**unknown.lines, INVALID_ROWS_FILE: result.lines[INVALID_ROWS_FILE]}
    return unknown


Runner = Callable[[Iterable[Part], Shipped], Iterator[ClusterResult]]
"""A function that yields the result of each part, in order."""


def run_here(parts: Iterable[Part], shipped: Shipped) -> Iterator[ClusterResult]:
    """Yield the result of each part, compared in this process."""
    return work(parts, shipped, Caches(shipped))


def compare_and_write(
    job: ReportJob, sources: Iterable[tuple[str, Source]], folder: ReportFolder, run: Runner = run_here
) -> dict[str, Any]:
    """Compare all clusters, write the report, and return its summary.

    Raises ``TopiaristError`` (Unwritable, SnapshotUnusable); then no report is written.
    """
    shipped = job.shipped
    parts: dict[str, Part] = {}

    def kept_parts() -> Iterator[Part]:
        for part in make_parts(job, sources):
            parts[part.cluster] = part._replace(source=None)
            yield part

    def distinct() -> Iterator[ClusterResult]:
        duplicates = DuplicateClusterIds()
        for result in run(kept_parts(), shipped):
            part = parts.pop(result.cluster)
            if problem := duplicates.find_problem(result):
                yield compare_duplicate(result, part, problem, shipped)
            else:
                yield result

    return write_report(job, distinct(), folder)


def write_report(job: ReportJob, results: Iterable[ClusterResult], folder: ReportFolder) -> dict[str, Any]:
    """Write the report of all results, which come in order of cluster name, and return its summary."""
    builder = SummaryBuilder(job)
    write_unused_rows(job, folder)
    with (
        closing(DeviationIndex(SpecGroups(job.shipped.desired.specs), folder.local_path)) as index,
        closing(CauseIndex(folder.local_path)) as causes,
    ):
        for result in results:
            builder.add(result)
            folder.add_lines(result.lines)
            with folder.translate_errors():
                for line in result.lines.get(FINDINGS_FILE, ()):
                    causes.add(to_cause_row(line))
                index.add(result.cluster, result.deviations, result.sizes)
        with folder.translate_errors():
            differences = index.differences(builder.compared)
            shown = [*islice(differences, MAX_SHOWN_DIFFERENCES)]
            found = causes.find()
            summary = builder.build(found, len(shown) + sum(1 for _ in differences), shown)
    folder.commit(summary, found, job.repairs, job.between)
    return summary


def write_unused_rows(job: ReportJob, folder: ReportFolder) -> None:
    """Write the files that are no snapshots to ``broken.jsonl``, before the invalid rows of snapshots."""
    folder.add_lines({INVALID_ROWS_FILE: [encode_line(row._asdict()) for row in job.unused_input.invalid_rows]})


def sources_of(job: ReportJob, given: SnapshotInventory | LiveCluster) -> Iterator[tuple[str, Source]]:
    """Yield the source of each cluster of the run in order of name."""
    for name in sorted(job.shipped.desired.clusters):
        if name in job.inputs:
            yield name, job.inputs[name]
        elif isinstance(given, LiveCluster):
            yield name, given
        else:
            yield name, given.find_lines(name) or ClusterInput(name, problem=given.describe_missing(name))

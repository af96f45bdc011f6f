"""Reports of any size, in the format of ``topiarist drift``, without a cluster or a manifest.

Only numbers determine the findings of each cluster, so that two generations of one report are identical to the byte. A
few clusters have most findings, as in a real fleet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from topiarist.adapters.manifests.loader import InvalidDocument
from topiarist.adapters.snapshots.codec import format_time
from topiarist.adapters.snapshots.lenient_reader import InvalidRow
from topiarist.desired.resolve import Desired
from topiarist.drift import report
from topiarist.drift.compare import Comparison, TopicCounts
from topiarist.drift.exceptions import DriftException, find_unjudged_topics
from topiarist.drift.findings import DriftClass, DriftFinding, FindingRow, FindingSelection, PlannedAction
from topiarist.drift.history import PreviousReport
from topiarist.drift.outputs.folder import HTML_FILE, ReportFolder
from topiarist.drift.rows import UNCHANGED, RowOptions, make_row, sort_key
from topiarist.drift.snapshots import ClusterInput, UnusedInput
from topiarist.drift.task import Caches, Shipped, complete
from topiarist.errors import Diagnostic, Location, Reason
from topiarist.model.plan import Risk, RunOptions
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState
from topiarist.planning.planner import make_plan_context

REPORT_TIME = datetime(2025, 1, 31, 12, tzinfo=UTC)

HOSTILE_TEXTS = (
    "<script>document.title = 'run'</script>",
    "\"'><img src=x onerror=document.title='run'>",
    "</script><script>document.title='run'</script>",
    "=cmd()|' /C calc'!A0",
    "\u202eevil\u202c.txt",
    "\u05d0\u05d1\u05d2-orders",
    "&lt;b&gt; &amp; {{report}} ]]> <!--",
    "back\\slash \x1b[31mred\x1b[0m \u2028 \u2029",
    "n" * 249,
)
"""Names as no topic should have them, and as a znode can have them."""

_SAMPLE_FINDINGS: tuple[DriftFinding, ...] = (
    DriftFinding(
        DriftClass.CONFIG,
        "config.retention.ms",
        "604800000",
        "86400000",
        PlannedAction.CHANGE,
        Risk.DISRUPTIVE,
        "kept longer",
    ),
    DriftFinding(
        DriftClass.CONFIG,
        "config.retention.ms",
        "3600000",
        "604800000",
        PlannedAction.CHANGE,
        Risk.DATA_LOSS,
        "kept shorter",
    ),
    DriftFinding(DriftClass.UNMANAGED, "config.segment.bytes", None, "536870912", PlannedAction.REPORTED),
    DriftFinding(DriftClass.MISSING, "", "12 partitions of 3 replicas", None, PlannedAction.CHANGE, Risk.SAFE),
    DriftFinding(DriftClass.PARTITIONS, "partitions", "24", "12", PlannedAction.CHANGE, Risk.DISRUPTIVE, "keys move"),
    DriftFinding(DriftClass.UNMANAGED, "config.min.insync.replicas", None, "2", PlannedAction.REPORTED),
    DriftFinding(
        DriftClass.PARTITIONS,
        "partitions",
        "6",
        "12",
        PlannedAction.REFUSED,
        None,
        "",
        (Reason.FEWER_PARTITIONS,),
        "12 partitions cannot become 6: Kafka removes none",
        "set partitions: 12, or create a new topic",
    ),
    DriftFinding(DriftClass.REPLICATION_FACTOR, "replicationFactor", "3", "2", PlannedAction.REFUSED),
    DriftFinding(DriftClass.ORPHANED, "", None, "12 partitions of 3 replicas", PlannedAction.REPORTED),
    DriftFinding(
        DriftClass.UNEXPECTED,
        "",
        None,
        "1 partition of 1 replica",
        PlannedAction.REPORTED,
        message="no manifest names it",
    ),
    DriftFinding(
        DriftClass.RACKS,
        "",
        "4 replicas on other racks",
        "3 partitions; for example partition 0 on [1, 4, 7]",
        hint="to fix it by a plan, allow Racks in spec.moves of the Cluster",
    ),
    DriftFinding(DriftClass.WIDTHS, "", None, "2, 3", message="partition 5 has 2 replicas, and the others have 3"),
)


FindingsByCluster = Mapping[str, Sequence[tuple[str, DriftFinding]] | None]
"""Topics and what is found of them, by cluster; None for a cluster that could not be read."""


def cluster_name(number: int) -> str:
    """Return a cluster name of typical length."""
    return f"{('prod', 'stage', 'edge')[number % 3]}-{('eu', 'us', 'ap', 'sa')[number % 4]}-{number:04d}"


def make_findings(clusters: int, findings: int) -> FindingsByCluster:
    """Return this many findings on this many clusters.

    A tenth of the clusters has no findings, and the last cluster is unreadable.
    """
    made: dict[str, list[tuple[str, DriftFinding]]] = {cluster_name(number): [] for number in range(clusters)}
    names = [cluster_name(number) for number in range(clusters - 1) if number % 10 != 9]
    for number in range(findings - 1):
        # The product of two uniform numbers is not uniform: the first clusters have most findings.
        at = int((number * 0.618033 % 1) * (number * 0.414213 % 1) * len(names))
        topic = f"team{number % 37:02d}.{('orders', 'clicks', 'audit')[number % 3]}.events-{number:06d}"
        made[names[at]].append((topic, _SAMPLE_FINDINGS[(number * number // 7 + number // 11) % len(_SAMPLE_FINDINGS)]))
    return {**made, cluster_name(clusters - 1): None}


def hostile_findings() -> FindingsByCluster:
    """Return the findings of a cluster with these hostile topic names, and with hostile values and owners."""
    return {
        "eu": [
            (
                name,
                DriftFinding(
                    DriftClass.CONFIG,
                    f"config.{name}",
                    name,
                    name,
                    PlannedAction.CHANGE,
                    Risk.SAFE,
                    name,
                    (),
                    name,
                    name,
                ),
            )
            for name in HOSTILE_TEXTS
        ]
    }


def no_findings() -> FindingsByCluster:
    """Return the result of the ``--zookeeper`` cluster, which matches all specs."""
    return {"": []}


def write_report(
    out: Path, findings: FindingsByCluster, *, owners: Sequence[str] = ("default",), days: int = 0, notes: bool = False
) -> dict[str, Any]:
    """Write the report of these findings with a history of this many days; return its summary.

    ``owners`` are the owners of the records, and so the responsible. With ``notes`` the report also has accepted drift,
    exceptions that match nothing or have expired, incomplete clusters and invalid manifests.
    """
    trend = [_earlier_summary(findings, day) for day in range(days, 0, -1)]
    shipped = Shipped(
        Desired(dict.fromkeys(findings, ()), {name: ClusterSpec(name) for name in findings}),
        RunOptions(),
        format_time(REPORT_TIME),
        _EXCEPTIONS if notes else (),
        RowOptions("https://github.com/shop/topics/blob/main/{file}#L{line}"),
        find_unjudged_topics(_INVALID_DOCUMENTS if notes else ()),
    )
    previous = PreviousReport(trend[-1]["asOf"] if trend else None, trend)
    job = report.ReportJob(shipped, previous, UnusedInput(), _INVALID_DOCUMENTS if notes else ())
    incomplete = INCOMPLETE_CLUSTERS if notes else ()
    comparisons = {each.cluster_input.cluster: each for each in _comparisons(findings, owners, incomplete)}
    parts = report.make_parts(job, ((name, each.cluster_input) for name, each in comparisons.items()))
    caches = Caches(shipped)
    results = (complete(part, comparisons.get(part.cluster), shipped, caches) for part in parts)
    with ReportFolder(str(out)) as folder:
        return report.write_report(job, results, folder)


INCOMPLETE_CLUSTERS = ("edge-ap-0002", "prod-us-0009")
"""The clusters with invalid rows in their snapshots, in a report with notes."""


def _exception(name: str, topics: str, until: str, line: int) -> DriftException:
    return DriftException(
        name=name,
        selection=FindingSelection(topics=(topics,)),
        reason="The retention stays until the audit of March is done",
        author="jo@example.com",
        until=until,
        file="exceptions.yaml",
        line=line,
        labels={},
    )


_EXCEPTIONS = (
    _exception("payments-freeze", "team03.*", "2025-03-31", 12),
    _exception("old-clicks", "gone.*", "2025-03-31", 24),
    _exception("migration", "team05.orders.*", "2025-01-15", 36),
)
"""An exception that accepts findings, one that matches nothing, and one that has expired."""


def _invalid_document(line: int, **fields: Any) -> InvalidDocument:
    place = Location("topics/broken.yaml", line)
    error = Diagnostic(place, "spec.partitions: found a text, wanted an integer")
    return InvalidDocument(Location(place.file, line - 2), line + 4, errors=(error,), **fields)


_INVALID_DOCUMENTS = (
    _invalid_document(3),
    _invalid_document(41, kind="Topic", name="quotes", topics=frozenset({"quotes"})),
)
"""A document without a known name, and the manifest of a topic."""


def _add_place_and_age(row: FindingRow, number: int) -> FindingRow:
    """Return a row with a place in a manifest, unless its class has none, and with an age of up to 39 days."""
    age = timedelta(days=(number * 7) % 40 if number % 5 else 0)
    if age:
        row |= {
            "firstSeen": format_time(REPORT_TIME - age),
            "ageSeconds": int(age.total_seconds()),
            "status": UNCHANGED,
        }
    if row["class"] in ("orphaned", "unexpected", "unknown"):
        return row
    return row | {"manifest": row["topic"], "file": f"topics/{row['topic'][:6]}.yaml", "line": number % 90 + 3}


def _earlier_summary(findings: FindingsByCluster, day: int) -> dict[str, Any]:
    """Return the summary of an earlier day, with higher and lower counts by class."""
    now = Counter(one.drift_class.value for some in findings.values() for _, one in some or ())
    kinds = {
        kind: number * (60 + (day * 7 + at * 11) % 41) // 100 for at, (kind, number) in enumerate(sorted(now.items()))
    }
    numbers = {"findings": sum(kinds.values()), "new": day % 7, "resolved": day % 5, "unknown": day % 9 // 8}
    return {
        "asOf": format_time(REPORT_TIME - timedelta(days=day)),
        **numbers,
        "byClass": {name: n for name, n in kinds.items() if n},
    }


def page_path(out: Path) -> Path:
    """Return the path of the page of a report."""
    return out / HTML_FILE


def _comparisons(findings: FindingsByCluster, owners: Sequence[str], incomplete: Sequence[str]) -> Iterator[Comparison]:
    for at, (name, some) in enumerate(sorted(findings.items())):
        read = REPORT_TIME - timedelta(minutes=at % 90)
        seen = ClusterInput(name, read, ClusterState(name, (), {}))
        rows = [
            _add_place_and_age(make_row(name, topic, one, format_time(read), owners[number % len(owners)]), number)
            for number, (topic, one) in enumerate(some or ())
        ]
        if some is None:
            seen = ClusterInput(name, problem="could not be read (Unreachable)")
            rows = [
                make_row(name, "", DriftFinding(DriftClass.UNKNOWN, message=seen.problem), format_time(REPORT_TIME))
            ]
        rows.sort(key=sort_key)
        comparison = Comparison(seen, TopicCounts(1000, 1000, 1000, 1000 - len(rows)), rows)
        if name in incomplete and seen.state:
            broken = [InvalidRow(f"snapshots/{name}.jsonl", line, "topic: found a number") for line in (17, 18, 40)]
            comparison.cluster_input = replace(seen, invalid_rows=broken)
            comparison.context = make_plan_context(seen.state, ClusterSpec(name), RunOptions())
            comparison.counts.not_judged = 5
        yield comparison

"""Reports of any size, written as ``topiarist drift`` writes them, without a cluster or a manifest.

What is found on which cluster is decided by numbers alone, so that two makings of one report are equal to the byte. A
few clusters have most of it, as in a real fleet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from topiarist.adapters.snapshot import text_of
from topiarist.core.change import Risk
from topiarist.core.discrepancy import Discrepancy, Kind, Planned
from topiarist.core.draft import Run
from topiarist.core.spec import ClusterSpec
from topiarist.core.state import ClusterState
from topiarist.desired import Desired
from topiarist.drift import report
from topiarist.drift.comparing import Comparison
from topiarist.drift.findings import Row, row
from topiarist.drift.history import Previous
from topiarist.drift.observing import Inputs, Observation
from topiarist.drift.outputs import PAGE, Folder
from topiarist.errors import Reason

TAKEN = datetime(2025, 1, 31, 12, tzinfo=UTC)

HOSTILE = (
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

_FOUND: tuple[Discrepancy, ...] = (
    Discrepancy(
        Kind.CONFIG, "config.retention.ms", "604800000", "86400000", Planned.CHANGE, Risk.DISRUPTIVE, "kept longer"
    ),
    Discrepancy(
        Kind.CONFIG, "config.retention.ms", "3600000", "604800000", Planned.CHANGE, Risk.DATA_LOSS, "kept shorter"
    ),
    Discrepancy(Kind.UNMANAGED, "config.segment.bytes", None, "536870912", Planned.REPORTED),
    Discrepancy(Kind.MISSING, "", "12 partitions of 3 replicas", None, Planned.CHANGE, Risk.SAFE),
    Discrepancy(Kind.PARTITIONS, "partitions", "24", "12", Planned.CHANGE, Risk.DISRUPTIVE, "keys move"),
    Discrepancy(Kind.UNMANAGED, "config.min.insync.replicas", None, "2", Planned.REPORTED),
    Discrepancy(
        Kind.PARTITIONS,
        "partitions",
        "6",
        "12",
        Planned.REFUSED,
        None,
        "",
        (Reason.FEWER_PARTITIONS,),
        "12 partitions cannot become 6: Kafka removes none",
        "set partitions: 12, or create a new topic",
    ),
    Discrepancy(Kind.REPLICATION_FACTOR, "replicationFactor", "3", "2", Planned.REFUSED),
    Discrepancy(Kind.ORPHANED, "", None, "12 partitions of 3 replicas", Planned.REPORTED),
    Discrepancy(
        Kind.UNEXPECTED, "", None, "1 partition of 1 replica", Planned.REPORTED, message="no manifest names it"
    ),
)


Found = Mapping[str, Sequence[tuple[str, Discrepancy]] | None]
"""Topics and what is found of them, by cluster; None for a cluster that could not be read."""


def cluster_name(number: int) -> str:
    """A cluster's name, of a usual length."""
    return f"{('prod', 'stage', 'edge')[number % 3]}-{('eu', 'us', 'ap', 'sa')[number % 4]}-{number:04d}"


def found(clusters: int, findings: int) -> Found:
    """So many findings on so many clusters, of which a tenth has none and the last one could not be read."""
    made: dict[str, list[tuple[str, Discrepancy]]] = {cluster_name(number): [] for number in range(clusters)}
    names = [cluster_name(number) for number in range(clusters - 1) if number % 10 != 9]
    for number in range(findings - 1):
        # Of two numbers that are spread evenly the product is not: the first clusters have most.
        at = int((number * 0.618033 % 1) * (number * 0.414213 % 1) * len(names))
        topic = f"team{number % 37:02d}.{('orders', 'clicks', 'audit')[number % 3]}.events-{number:06d}"
        made[names[at]].append((topic, _FOUND[(number * number // 7) % len(_FOUND)]))
    return {**made, cluster_name(clusters - 1): None}


def hostile() -> Found:
    """A cluster whose topics have such names, and whose values and owners are no better."""
    return {
        "eu": [
            (
                name,
                Discrepancy(Kind.CONFIG, f"config.{name}", name, name, Planned.CHANGE, Risk.SAFE, name, (), name, name),
            )
            for name in HOSTILE
        ]
    }


def nothing() -> Found:
    """The cluster of ``--zookeeper``, on which all is as asked."""
    return {"": []}


def write(out: Path, what: Found, *, owners: Sequence[str] = ("default",), days: int = 0) -> dict[str, Any]:
    """The report of these findings, as if there had been one on each of so many days before; gives its summary."""
    trend = [_earlier(what, day) for day in range(days, 0, -1)]
    desired = Desired(dict.fromkeys(what, ()), {name: ClusterSpec(name) for name in what})
    before = Previous(trend[-1]["asOf"] if trend else None, trend)
    job = report.Job(desired, Run(), text_of(TAKEN), before, Inputs())
    with Folder(str(out)) as folder:
        return report.settle(job, _comparisons(what, owners), folder)


def _earlier(what: Found, day: int) -> dict[str, Any]:
    """What the report of a day before counted: more and less of it, class by class."""
    now = Counter(one.kind.value for some in what.values() for _, one in some or ())
    kinds = {
        kind: number * (60 + (day * 7 + at * 11) % 41) // 100 for at, (kind, number) in enumerate(sorted(now.items()))
    }
    numbers = {"findings": sum(kinds.values()), "new": day % 7, "resolved": day % 5}
    return {
        "asOf": text_of(TAKEN - timedelta(days=day)),
        **numbers,
        "byClass": {name: n for name, n in kinds.items() if n},
    }


def page(out: Path) -> Path:
    """The page of a report."""
    return out / PAGE


def _comparisons(what: Found, owners: Sequence[str]) -> Iterator[Comparison]:
    for at, (name, some) in enumerate(sorted(what.items())):
        read = TAKEN - timedelta(minutes=at % 90)
        seen = Observation(name, read, ClusterState(name, (), {}))
        rows = [_row(name, topic, one, read, owners[at % len(owners)]) for at, (topic, one) in enumerate(some or ())]
        if some is None:
            seen = Observation(name, problem="could not be read (Unreachable)")
            gone = Discrepancy(Kind.UNKNOWN, "", None, None, Planned.REPORTED, message=seen.problem)
            rows = [row(name, "", gone, text_of(TAKEN))]
        done = Comparison(seen, declared=1000, present=1000, in_order=1000 - len(rows))
        done.rows = sorted(rows, key=lambda made: (made["topic"], made["class"], made["field"]))
        yield done


def _row(cluster: str, topic: str, one: Discrepancy, read: datetime, owner: str) -> Row:
    return {**row(cluster, topic, one, text_of(read)), "owner": owner}

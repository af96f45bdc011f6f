"""The comparison as a task: the order of its results, clusters that it reads itself, and clusters outside the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import pytest

from support import states
from topiarist.adapters.snapshots.codec import parse_time
from topiarist.desired.resolve import Desired
from topiarist.drift import task as module
from topiarist.drift.findings.finding import DriftClass, DriftFinding, FindingKey, FindingRow, finding_key
from topiarist.drift.findings.rows import make_row
from topiarist.drift.history.previous import ACCEPTED_FILE, FINDINGS_FILE, NOT_EVALUATED_FILE, RESOLVED_FILE, Repair
from topiarist.drift.live import ConnectOptions
from topiarist.drift.results import ClusterResult
from topiarist.drift.snapshots import ClusterInput
from topiarist.drift.task import Caches, LiveCluster, Part, Shipped, Source, encode_line, work
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import ClusterSpec

AS_OF, EARLIER = "2026-01-31T12:00:00Z", "2026-01-30T12:00:00Z"
NAMES = ("a", "b", "c", "d", "e")
SHIPPED = Shipped(
    Desired(dict.fromkeys(NAMES, ()), {name: ClusterSpec(name) for name in NAMES}), RunOptions(owner="me"), AS_OF
)
LIVE = LiveCluster(ConnectOptions("me", 2.5))


@pytest.mark.parametrize("parallel", [1, 2, 9])
def test_live_clusters_are_read_ahead_and_their_results_are_in_order(
    monkeypatch: pytest.MonkeyPatch, parallel: int
) -> None:
    """At most ``parallel`` clusters are in memory, and an input that is already read waits for those before it."""
    asked = list[tuple[str, ConnectOptions, datetime]]()

    def read(spec: ClusterSpec, options: ConnectOptions, taken_at: datetime) -> tuple[ClusterInput, str]:
        asked.append((spec.name, options, taken_at))
        if spec.name == "b":
            return ClusterInput("b", problem="could not be read (Unreachable)"), "zk-1 does not answer"
        return ClusterInput(spec.name, taken_at, states.cluster()), ""

    monkeypatch.setattr(module, "read_live_cluster", read)
    sources: Mapping[str, Source] = {**dict.fromkeys(NAMES, LIVE), "d": ClusterInput("d", problem="no snapshot")}
    taken = list[str]()

    def parts() -> Iterator[Part]:
        for name in NAMES:
            taken.append(name)
            yield Part(name, sources[name])

    found = list[ClusterResult]()
    for result in work(parts(), SHIPPED, Caches(SHIPPED), parallel):
        assert len(taken) - len(found) <= parallel
        found.append(result)
    assert [result.cluster for result in found] == [*NAMES]
    assert {result.cluster: result.read_error for result in found if result.read_error} == {"b": "zk-1 does not answer"}
    documents = [result.document for result in found]
    problems = [None, "could not be read (Unreachable)", None, "no snapshot", None]
    assert [document and document["problem"] for document in documents] == problems
    assert sorted(name for name, *_ in asked) == ["a", "b", "c", "e"]
    assert {(options, at) for _, options, at in asked} == {(LIVE.connect_options, parse_time(AS_OF))}


def keyed(*rows: FindingRow) -> dict[FindingKey, FindingRow]:
    """Return rows as the previous report has them."""
    return {finding_key(row): row for row in rows}


def test_a_finding_that_is_gone_is_resolved_and_counts_as_a_repair_unless_it_was_accepted() -> None:
    """A repair has its class, its responsible, and the time for which the finding stayed."""
    gone = make_row("a", "orders", DriftFinding(DriftClass.CONFIG, "config.x"), EARLIER, "shop")
    accepted: dict[str, Any] = make_row("a", "clicks", DriftFinding(DriftClass.CONFIG, "config.x"), EARLIER, "web")
    accepted["exception"] = {"name": "campaign"}
    part = Part("a", ClusterInput("a", parse_time(AS_OF), states.cluster()), (), keyed(gone), keyed(accepted))
    (result,) = work([part], SHIPPED, Caches(SHIPPED))
    assert result.findings.repairs == [Repair("config", "shop", 86_400)]
    assert result.findings.not_evaluated == 0
    assert {name: len(lines) for name, lines in result.lines.items() if lines} == {RESOLVED_FILE: 2}


def test_findings_of_a_cluster_that_cannot_be_read_are_not_resolved() -> None:
    """They are kept for the next report, and counted without those that an exception accepts."""
    kept = make_row("a", "orders", DriftFinding(DriftClass.CONFIG, "config.x"), EARLIER, "shop")
    accepted: dict[str, Any] = {**kept, "topic": "clicks", "exception": {"name": "campaign"}}
    part = Part("a", ClusterInput("a", problem="no snapshot"), (), keyed(kept), keyed(accepted))
    (result,) = work([part], SHIPPED, Caches(SHIPPED))
    assert (result.findings.repairs, result.findings.not_evaluated) == ([], 1)
    assert {name: len(lines) for name, lines in result.lines.items() if lines} == {
        FINDINGS_FILE: 1,
        NOT_EVALUATED_FILE: 2,
    }


def test_a_cluster_outside_the_run_has_only_what_manifests_say() -> None:
    """It has no entry of its own in the summary, and its rows are in the report."""
    row = make_row("z", "", DriftFinding(DriftClass.INVALID, message="no number"), AS_OF)
    (result,) = work([Part("z", None, [row])], SHIPPED, Caches(SHIPPED))
    assert (result.cluster, result.document) == ("z", None)
    assert result.lines[FINDINGS_FILE] == [encode_line(row)]
    assert result.lines[ACCEPTED_FILE] == []
    assert result.findings.by["class"] == {"invalid": 1}


def test_a_row_is_a_line_of_ascii() -> None:
    """Lines are compact, and each ends with a newline."""
    assert encode_line({"a": [1, None], "b": "é\n"}) == b'{"a":[1,null],"b":"\\u00e9\\n"}\n'

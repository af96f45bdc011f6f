"""The previous report, and the history of all runs in local files."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from support.checkout import ROOT
from support.cli.runs import document
from support.drift.documented_queries import ANSWERS, read_queries, read_views, write_history
from support.drift.small_fleet import (
    cluster_state,
    owned_topic,
    read_rows,
    read_summary,
    row_keys,
    run_drift,
    topic_document,
    write_manifests,
    write_snapshot,
)
from topiarist.drift import history
from topiarist.drift.parquet import RUNS_SCHEMA, ParquetHistory
from topiarist.errors import Exit
from topiarist.model.state import TopicState

MISSING = ("eu", "orders", "missing", "")


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """Return manifests of two topics that are missing on both clusters."""
    for name in ("eu", "us"):
        write_snapshot(tmp_path / "snapshots", name, cluster_state(name))
    both = ["eu", "us"]
    return write_manifests(tmp_path / "manifests", both, topic_document("orders", both), topic_document("users", both))


def counts(out: Path) -> tuple[int, ...]:
    """Return the numbers of new, unchanged, resolved, not evaluated and dropped findings."""
    found = read_summary(out)["findings"]
    return tuple(found[name] for name in ("new", "unchanged", "resolved", "notEvaluated", "dropped"))


def test_a_finding_is_as_old_as_its_first_report(manifests: Path, tmp_path: Path) -> None:
    """The age of a finding is the time between its first and its latest snapshot, over any number of reports."""
    out = tmp_path / "report"
    run_drift(manifests, out, "-q")
    for hours in (5, 7):
        write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu", owned_topic("users")), hours=hours)
        run_drift(manifests, out, "-q", "--previous", out)
    row = read_rows(out)[0]
    assert row_keys([row]) == [MISSING]
    assert (row["firstSeen"], row["takenAt"]) == ("2025-01-31T12:00:00Z", "2025-01-31T19:00:00Z")
    assert (row["ageSeconds"], row["status"]) == (7 * 3600, "Unchanged")
    assert counts(out) == (0, 3, 0, 0, 0)
    trend = [(one["asOf"][11:13], one["findings"], one["new"], one["resolved"]) for one in read_summary(out)["trend"]]
    assert trend == [("12", 4, 4, 0), ("17", 3, 0, 1), ("19", 3, 0, 0)]
    assert read_summary(out)["previous"] == "2025-01-31T17:00:00Z"


def test_what_gets_worse_is_news(tmp_path: Path) -> None:
    """A finding that does more harm than in the report before counts as news; one that does less is unchanged."""
    out, both = tmp_path / "report", ["eu"]
    topic = topic_document("orders", both, config={"retention.ms": "604800000"})
    manifests = write_manifests(tmp_path / "manifests", both, topic)
    found: list[tuple[str, str, int]] = []
    for hours, retention in enumerate(("691200000", "259200000", "60000", "86400000")):
        state = cluster_state("eu", owned_topic("orders", config={"retention.ms": retention}))
        write_snapshot(tmp_path / "snapshots", "eu", state, hours=hours)
        run_drift(manifests, out, "-q", *(("--previous", out) if found else ()))
        (row,) = read_rows(out)
        found.append((row["severity"], row["status"], read_summary(out)["findings"]["worse"]))
    assert found == [
        ("Medium", "New", 0),
        ("Critical", "Worse", 1),
        ("Critical", "Worse", 1),
        ("Critical", "Unchanged", 0),
    ]
    assert "topiarist_drift_worse_findings 0" in (out / "metrics.prom").read_text()


def test_the_same_input_again_adds_nothing_to_the_trend(manifests: Path, tmp_path: Path) -> None:
    """A second report of the same time replaces the first in the trend, and further runs give the same bytes."""
    out = tmp_path / "report"
    run_drift(manifests, out, "-q")
    run_drift(manifests, tmp_path / "one", "-q", "--previous", out)
    run_drift(manifests, tmp_path / "two", "-q", "--previous", tmp_path / "one")
    assert len(read_summary(tmp_path / "two")["trend"]) == 1
    assert (tmp_path / "one" / "findings.jsonl").read_bytes() == (tmp_path / "two" / "findings.jsonl").read_bytes()


def test_what_cannot_be_seen_is_neither_gone_nor_young_again(manifests: Path, tmp_path: Path) -> None:
    """The findings of a cluster without a snapshot are kept, and keep their age when the cluster is read again."""
    out = tmp_path / "report"
    run_drift(manifests, out, "-q")
    gone = (tmp_path / "snapshots" / "eu.jsonl").rename(tmp_path / "eu.jsonl")
    for _ in range(2):
        assert run_drift(manifests, out, "-q", "--previous", out) == 1
        assert row_keys(read_rows(out, "not-evaluated.jsonl")) == [MISSING, ("eu", "users", "missing", "")]
        assert counts(out)[2:] == (0, 2, 0)
    gone.unlink()
    write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu"), hours=9)
    assert run_drift(manifests, out, "-q", "--previous", out) == 0
    assert [row["ageSeconds"] for row in read_rows(out)] == [9 * 3600, 9 * 3600, 0, 0]
    assert counts(out) == (0, 4, 1, 0, 0)  # the finding of the unknown cluster is resolved
    assert read_rows(out, "not-evaluated.jsonl") == []


def test_only_topics_whose_rows_are_lost_are_unseen(manifests: Path, tmp_path: Path) -> None:
    """In an incomplete snapshot, only the earlier findings of topics without a row are not evaluated."""
    out = tmp_path / "report"
    run_drift(manifests, out, "-q", "--cluster", "eu")
    path = write_snapshot(
        tmp_path / "snapshots", "eu", cluster_state("eu", owned_topic("orders"), TopicState("x", "7", ((1,),)))
    )
    first, orders, _ = path.read_text().splitlines()
    path.write_text(f"{first}\n{orders}\n{{")
    assert run_drift(manifests, out, "-q", "--cluster", "eu", "--previous", out) == 1
    assert read_rows(out) == []
    assert row_keys(read_rows(out, "not-evaluated.jsonl")) == [("eu", "users", "missing", "")]
    assert counts(out) == (0, 0, 1, 1, 0)


def test_an_undeclared_topic_whose_row_is_lost_is_unseen(manifests: Path, tmp_path: Path) -> None:
    """The earlier finding of an undeclared topic is not resolved by a snapshot that lacks its row."""
    out = tmp_path / "report"
    topics = (owned_topic("orders"), owned_topic("users"), TopicState("guest", "7", ((1,),)))
    path = write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu", *topics))
    run_drift(manifests, out, "-q", "--cluster", "eu")
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if '"guest"' not in line))
    assert run_drift(manifests, out, "-q", "--cluster", "eu", "--previous", out) == 1
    assert row_keys(read_rows(out, "not-evaluated.jsonl")) == [("eu", "guest", "unexpected", "")]
    assert read_summary(out)["findings"]["resolved"] == 0


def test_clusters_that_nobody_asks_for_are_dropped(manifests: Path, tmp_path: Path) -> None:
    """Findings of clusters outside the run are counted as dropped, and are neither resolved nor kept."""
    run_drift(manifests, tmp_path / "one", "-q")
    run_drift(manifests, tmp_path / "two", "-q", "--previous", tmp_path / "one", "--cluster", "us")
    assert counts(tmp_path / "two") == (0, 2, 0, 0, 2)


def test_an_older_snapshot_than_before_makes_nothing_younger(manifests: Path, tmp_path: Path) -> None:
    """With an older snapshot than before, a finding is first seen at that snapshot, with the age 0."""
    write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu"), hours=9)
    run_drift(manifests, tmp_path / "one", "-q")
    write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu"))
    run_drift(manifests, tmp_path / "two", "-q", "--previous", tmp_path / "one")
    assert {row["ageSeconds"] for row in read_rows(tmp_path / "two")} == {0}
    assert {row["firstSeen"] for row in read_rows(tmp_path / "two")} == {"2025-01-31T12:00:00Z"}


@pytest.mark.parametrize("name", ["summary.json", "findings.jsonl", "not-evaluated.jsonl", "accepted.jsonl"])
@pytest.mark.parametrize("content", [None, "{", "[]", '{"cluster": 5}', "[" * 100_000])
def test_what_is_no_report_is_no_previous_one(
    manifests: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str | None
) -> None:
    """An invalid file of the previous report is an error that names it, before topiarist writes anything."""
    run_drift(manifests, tmp_path / "one", "-q")
    (tmp_path / "one" / name).unlink()
    if content is not None:
        (tmp_path / "one" / name).write_text(content)
    assert run_drift(manifests, tmp_path / "two", "--previous", tmp_path / "one") == 1
    kind = {"summary.json": "summary", "accepted.jsonl": "accepted finding"}.get(name, "finding")
    place = tmp_path / "one" / (name if name == "summary.json" else f"{name}:1")
    hint = "set --previous to a report that this version wrote, or omit it"
    said = f"{place}: found no {kind} of a drift report\n    {hint}"
    if content is None:
        said = f"{tmp_path / 'one' / name}: cannot be read: No such file or directory"
    assert capsys.readouterr().err.startswith(f"error: {said}")
    assert not (tmp_path / "two").exists()


HOUR, DAY = 3600, 24
HINT = "set --history to a new folder, or to one that earlier reports have written"


class Fleet:
    """A fleet of two clusters with one topic, reported hour by hour into one history."""

    def __init__(self, folder: Path, *others: str) -> None:
        self.folder, self.out, self.history = folder, folder / "report", folder / "history"
        both = ["eu", "us"]
        self.manifests = write_manifests(folder / "manifests", both, topic_document("orders", both), *others)

    def report(
        self, hours: int, *words: str, missing: str = "", unread: str = "", code: int = 0
    ) -> list[dict[str, Any]]:
        """Report on snapshots of an hour; ``missing`` and ``unread`` name clusters. Return the findings."""
        for name in ("eu", "us"):
            topics = [] if name in missing.split() else [owned_topic("orders")]
            path = write_snapshot(self.folder / "snapshots", name, cluster_state(name, *topics), hours=hours)
            if name in unread.split():
                path.unlink()
        assert run_drift(self.manifests, self.out, "-q", "--history", str(self.history), *words) == code
        return read_rows(self.out) if self.out.exists() else []

    def rows(self, table: str = "findings") -> list[dict[str, Any]]:
        """Return all rows of a table, in order of time."""
        files = sorted(self.history.glob(f"{table}/date=*/*.parquet"))
        return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]

    def states(self) -> list[tuple[str, str, str]]:
        """Return the hour, cluster and state of each row of the findings."""
        return [(row["runAt"].strftime("%dT%H"), row["cluster"], row["status"]) for row in self.rows()]


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """Return a fleet without a run."""
    return Fleet(tmp_path)


def times(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return the hours of the times of a finding, its episodes, its age in hours and its status."""
    hours = (row[name][11:13] for name in ("firstSeen", "seenSince"))
    return (*hours, row["episodes"], row["ageSeconds"] // HOUR, row["status"])


def test_a_finding_that_comes_back_keeps_when_it_was_first_seen(fleet: Fleet) -> None:
    """A resolved finding that returns is new, in its second episode: its age counts from there, not from the first."""
    assert times(fleet.report(0, missing="eu")[0]) == ("12", "12", 1, 0, "New")
    assert times(fleet.report(1, missing="eu")[0]) == ("12", "12", 1, 1, "Unchanged")
    assert fleet.report(2) == []
    assert fleet.report(3) == []
    assert times(fleet.report(4, missing="eu")[0]) == ("12", "16", 2, 0, "New")
    assert times(fleet.report(6, missing="eu")[0]) == ("12", "16", 2, 2, "Unchanged")
    fleet.report(7)
    assert times(fleet.report(8, missing="eu")[0]) == ("12", "20", 3, 0, "New")
    summary = read_summary(fleet.out)
    assert summary["previous"] == "2025-01-31T19:00:00Z"
    assert [one["findings"] for one in summary["trend"]] == [1, 1, 0, 0, 1, 1, 0, 1]


def test_a_cluster_that_cannot_be_read_ends_no_finding(fleet: Fleet) -> None:
    """A finding on a cluster without a snapshot is not evaluated, and goes on with its age when the cluster is read."""
    fleet.report(0, missing="eu")
    for hour in (1, 2):
        fleet.report(hour, unread="eu", code=1)
    assert times(fleet.report(3, missing="eu")[0]) == ("12", "12", 1, 3, "Unchanged")
    assert [row for row in fleet.states() if row[2] != "New"] == [
        ("31T13", "eu", "NotEvaluated"),
        ("31T14", "eu", "Unchanged"),  # the finding that the cluster is unknown
        ("31T14", "eu", "NotEvaluated"),
        ("31T15", "eu", "Unchanged"),
        ("31T15", "eu", "Resolved"),
    ]


@pytest.mark.parametrize("option", ["--history", "--previous"])
def test_an_accepted_finding_keeps_its_age_without_its_cluster(tmp_path: Path, option: str) -> None:
    """An accepted finding is not forgotten if its cluster is unreadable for one run, and is in no count."""
    fields = {"topics": ["orders"], "classes": ["missing"], "reason": "moved", "author": "ada", "until": "2025-02-28"}
    fleet = Fleet(tmp_path, document("DriftException", "orders", **fields))
    words = ["--previous", str(fleet.out)] if option == "--previous" else ["--history", str(fleet.history)]
    for hours, unread in ((0, False), (1, True), (2, True), (5, False)):
        path = write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu"), hours=hours)
        write_snapshot(tmp_path / "snapshots", "us", cluster_state("us", owned_topic("orders")), hours=hours)
        if unread:
            path.unlink()
        assert run_drift(fleet.manifests, fleet.out, "-q", *words) == int(unread)
        numbers = read_summary(fleet.out)["findings"]
        assert (numbers["notEvaluated"], numbers["dropped"]) == (0, 0)
        kept = read_rows(fleet.out, "not-evaluated.jsonl" if unread else "accepted.jsonl")
        assert [row["exception"]["author"] for row in kept] == ["ada"]
    assert times(kept[0]) == ("12", "12", 1, 5, "Unchanged")
    assert numbers["resolved"] == 1  # the finding that the cluster was unknown, and not the accepted one


def test_a_run_without_a_cluster_ends_no_episode(fleet: Fleet) -> None:
    """A finding of a cluster that one run leaves out is dropped, and its episode goes on in the next whole run."""
    fleet.report(0, missing="eu")
    fleet.report(1, "--cluster", "us", missing="eu")
    assert fleet.states()[-1] == ("31T13", "eu", "Dropped")
    (row,) = ParquetHistory(str(fleet.history)).read_ended(["2025-01-31T13:00:00Z"])
    assert row.keys() == {*history.ENDED_COLUMNS}
    assert times(fleet.report(2, missing="eu")[0]) == ("12", "12", 1, 2, "Unchanged")


def test_a_run_without_a_cluster_keeps_what_is_accepted_there(tmp_path: Path) -> None:
    """An accepted finding of a cluster that one run leaves out is dropped like others, and goes on with its age."""
    fields = {"topics": ["orders"], "classes": ["missing"], "reason": "moved", "author": "ada", "until": "2025-02-28"}
    fleet = Fleet(tmp_path, document("DriftException", "orders", **fields))
    fleet.report(0, missing="eu")
    fleet.report(1, "--cluster", "us", missing="eu")
    assert fleet.states()[-1] == ("31T13", "eu", "Dropped")
    assert read_summary(fleet.out)["findings"]["dropped"] == 0
    assert fleet.report(2, missing="eu") == []
    assert [times(row) for row in read_rows(fleet.out, "accepted.jsonl")] == [("12", "12", 1, 2, "Unchanged")]


def test_a_history_of_an_earlier_version_is_continued(fleet: Fleet) -> None:
    """Files without the newer columns are read: their findings go on with their age, and none is worse."""
    fleet.report(0, missing="eu us")
    for file in fleet.history.rglob("findings/*/*.parquet"):
        table = pq.read_table(file, partitioning=None)
        pq.write_table(table.drop_columns(["effect", "effectReason", "severityRule", "acceptedSeconds"]), file)
    fleet.history.joinpath("teams").rename(fleet.history.parent / "teams")
    found = fleet.report(1, missing="eu")
    assert times(found[0]) == ("12", "12", 1, 1, "Unchanged")
    assert read_summary(fleet.out)["timeToRepair"]["resolved"] == 1


def test_the_same_run_again_changes_no_byte(fleet: Fleet) -> None:
    """A run with the time of an earlier run replaces it: no row is there twice, and the files are equal."""
    fleet.report(0, missing="eu us")
    fleet.report(1, missing="us")
    files = sorted(fleet.history.rglob("*.parquet"))
    before = {file: file.read_bytes() for file in files}
    found = fleet.report(1, missing="us")
    assert times(found[0]) == ("12", "12", 1, 1, "Unchanged")
    assert {file: file.read_bytes() for file in fleet.history.rglob("*") if file.is_file()} == before
    assert [file.relative_to(fleet.history).as_posix() for file in files] == [
        f"{table}/date=2025-01-31/20250131T{hour}0000Z.parquet"
        for table in ("findings", "runs", "teams")
        for hour in (12, 13)
    ]


def test_a_report_of_an_earlier_time_knows_nothing_of_later_ones(fleet: Fleet) -> None:
    """A run takes its ages from the runs before its time only."""
    fleet.report(5, missing="eu")
    assert times(fleet.report(0, missing="eu")[0]) == ("12", "12", 1, 0, "New")
    assert read_summary(fleet.out)["previous"] is None


def test_a_run_that_was_interrupted_does_not_count(fleet: Fleet) -> None:
    """The file in ``runs`` is written last: findings without it are not read."""
    fleet.report(0, missing="eu")
    fleet.report(1)
    (fleet.history / "runs/date=2025-01-31/20250131T130000Z.parquet").unlink()
    assert times(fleet.report(2, missing="eu")[0]) == ("12", "12", 1, 2, "Unchanged")


def test_a_finding_is_forgotten_after_the_memory_of_the_history(fleet: Fleet) -> None:
    """After 400 days without it a finding is as if it had never been there; one day less, and it comes back."""
    fleet.report(0, missing="eu us")
    fleet.report(DAY, missing="us")
    fleet.report(2 * DAY)
    first = [row["episodes"] for row in fleet.report(402 * DAY, missing="eu us")]
    assert first == [1, 2]


def test_the_summary_has_the_time_to_repair(fleet: Fleet) -> None:
    """The summary has the median seconds of the findings resolved in the last 30 days, by class and responsible."""
    fleet.report(0, missing="eu us")
    fleet.report(10, missing="us")
    fleet.report(30)
    found = read_summary(fleet.out)["timeToRepair"]
    seconds = {"resolved": 2, "medianSeconds": 20 * HOUR}
    assert found == {
        "days": 30,
        **seconds,
        "byClass": {"missing": seconds},
        "byResponsible": [{"responsible": None} | seconds],
    }
    assert "Half of the 2 findings that were resolved in the last 30 days" in (fleet.out / "summary.md").read_text()
    assert 'topiarist_drift_time_to_repair_seconds{class="missing"} 72000' in (fleet.out / "metrics.prom").read_text()
    fleet.report(10 + 31 * DAY)  # 31 days after the first repair, 30 days and 4 hours after the second
    assert read_summary(fleet.out)["timeToRepair"]["resolved"] == 0


def test_a_report_without_a_history_has_no_time_to_repair(fleet: Fleet) -> None:
    """Without a history nothing is known of repairs, and the summary says so."""
    fleet.report(0)
    assert run_drift(fleet.manifests, fleet.folder / "other", "-q") == 0
    assert read_summary(fleet.folder / "other")["timeToRepair"] is None
    assert "time_to_repair" not in (fleet.folder / "other" / "metrics.prom").read_text()


def test_a_history_gives_the_report_that_the_chain_of_reports_gives(fleet: Fleet) -> None:
    """Without findings that come back, a history gives the same findings and trend as ``--previous``."""
    chain = fleet.folder / "chain"
    for hours, missing in enumerate(("eu us", "eu us", "us", "us")):
        fleet.report(hours, missing=missing)
        assert run_drift(fleet.manifests, chain, "-q", "--previous", chain) == 0
    assert read_rows(fleet.out) == read_rows(chain)
    ours, theirs = read_summary(fleet.out), read_summary(chain)
    assert ours | {"timeToRepair": None} == theirs


def test_the_run_names_what_was_judged(fleet: Fleet) -> None:
    """A run has the clusters that were compared and those that were not, and counts of its topics and findings."""
    fleet.report(0, missing="us", unread="eu", code=1)
    (row,) = fleet.rows("runs")
    names = ("clusters", "unknownClusters", "incompleteClusters", "topicsDeclared", "topicsCompared", "findings")
    assert [row[name] for name in names] == [["us"], ["eu"], [], 2, 1, 2]
    assert dict(row["byClass"]) == {"missing": 1, "unknown": 1}
    assert row["owner"] == read_summary(fleet.out)["owner"] != ""


def test_the_trend_names_runs_with_an_unread_cluster(fleet: Fleet) -> None:
    """Each report of the trend has the number of clusters that it could not compare."""
    fleet.report(0, unread="eu", code=1)
    fleet.report(1)
    assert [one["unknown"] for one in read_summary(fleet.out)["trend"]] == [1, 0]


@pytest.mark.parametrize("table", ["findings", "runs"])
@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" * 100])
def test_what_is_no_history_is_named(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], table: str, content: bytes
) -> None:
    """A broken file of the history is an error before topiarist writes anything."""
    fleet.report(0, missing="eu")
    report = (fleet.out / "findings.jsonl").read_bytes()
    (file,) = fleet.history.glob(f"{table}/date=*/*.parquet")
    file.write_bytes(content)
    fleet.report(1, code=1)
    said = capsys.readouterr().err
    assert said.startswith(f"error: {fleet.history}: found no history of drift reports: Could not open Parquet input")
    assert said.endswith(f"\n    {HINT}\n")
    assert (fleet.out / "findings.jsonl").read_bytes() == report


def test_a_run_without_its_findings_is_no_history(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """A run without its file of findings is an error, because the ages of its findings are lost."""
    fleet.report(0, missing="eu")
    for file in fleet.history.glob("findings/date=*/*.parquet"):
        file.unlink()
    fleet.report(1, code=1)
    file = fleet.history / "findings/date=2025-01-31/20250131T120000Z.parquet"
    said = f"error: {fleet.history}: found no history of drift reports: {file}\n    {HINT}\n"
    assert capsys.readouterr().err == said


def test_a_folder_that_cannot_be_written_is_named(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """A history that cannot be written is an error with its path; the report is there, and the run can be repeated."""
    fleet.history.mkdir()
    (fleet.history / "findings").write_text("")
    fleet.report(0, missing="eu", code=1)
    file = fleet.history / "findings/date=2025-01-31/20250131T120000Z.parquet"
    assert capsys.readouterr().err == f"error: {file}: cannot be written: Not a directory\n"
    assert row_keys(read_rows(fleet.out)) == [("eu", "orders", "missing", "")]


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (["a.yaml"], "a.yaml"),
        (["d.yaml", "c/a.yaml", "b.yaml", ".git/config", "a.yaml"], "a.yaml, b.yaml, c and 1 more"),
        ([], "a file"),
    ],
)
def test_a_folder_of_something_else_is_no_history(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], files: list[str], found: str
) -> None:
    """A folder with manifests, or a file, is an error before topiarist writes the report or a table."""
    for name in files:
        (fleet.history / name).parent.mkdir(parents=True, exist_ok=True)
        (fleet.history / name).write_text("")
    if not files:
        fleet.history.write_text("")
    before = sorted(fleet.history.rglob("*"))
    fleet.report(0, code=1)
    wanted = "wanted the folders findings, runs and teams, or an empty folder"
    said = f"{fleet.history}: found no history of drift reports: found {found}, {wanted}"
    assert capsys.readouterr().err == f"error: {said}\n    {HINT}\n"
    assert (sorted(fleet.history.rglob("*")), fleet.out.exists()) == (before, False)


@pytest.mark.parametrize("names", [["runs"], ["teams", "README.md"], ["findings"], [".gitkeep", "_staging"], []])
def test_a_history_may_have_other_files(fleet: Fleet, names: list[str]) -> None:
    """A folder with a table, with hidden names only, or without content gets the run."""
    fleet.history.mkdir()
    for name in names:
        (fleet.history / name).mkdir()
    fleet.report(0)
    assert ParquetHistory(str(fleet.history)).list_times() == ["2025-01-31T12:00:00Z"]


def test_a_file_with_a_strange_name_is_named(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of another program among the runs is an error with its name."""
    fleet.report(0)
    fleet.history.joinpath("runs/date=2025-01-31/part-0.parquet").write_bytes(b"")
    fleet.report(1, code=1)
    said = "found no history of drift reports: part-0.parquet: found no time in the name"
    assert capsys.readouterr().err == f"error: {fleet.history}: {said}\n    {HINT}\n"


def test_a_hidden_file_is_no_run(fleet: Fleet) -> None:
    """Files that a writer left before it was done, and checksums beside a file, are not read."""
    fleet.report(0)
    for name in (".20250131T120000Z.parquet", "_part-0.parquet"):
        fleet.history.joinpath("runs/date=2025-01-31", name).write_bytes(b"")
    assert ParquetHistory(str(fleet.history)).list_times() == ["2025-01-31T12:00:00Z"]


def test_a_history_replaces_a_previous_report(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """Both options at once are a usage error."""
    fleet.report(0, "--previous", str(fleet.out), code=Exit.USAGE)
    assert "pass either --previous or --history" in capsys.readouterr().err


def test_a_history_without_its_extra(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without pyarrow the run ends with the command that installs it, before it writes anything."""
    real = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *rest: real(name, *rest) if name != "pyarrow" else None
    )
    fleet.report(0, code=1)
    said = "--history needs packages that are not installed: pip install 'pyarrow>=18' (extra history)"
    assert capsys.readouterr().err == f"error: {said}\n"
    assert not fleet.out.exists()


def test_findings_outside_of_clusters_are_in_the_history(tmp_path: Path) -> None:
    """Findings about manifests have no cluster, and are kept and resolved as all others."""
    fleet = Fleet(tmp_path)
    broken = fleet.manifests / "broken.yaml"
    broken.write_text("kind: Topic\nmetadata: {name: guest\n")
    fleet.report(0, code=1)
    broken.unlink()
    fleet.report(1)
    assert row_keys(fleet.rows()) == [("", "", "invalid", str(broken))] * 2
    assert [row["status"] for row in fleet.rows()] == ["New", "Resolved"]


def test_duckdb_answers_the_documented_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each query of the file gives the known answer in DuckDB, with the views of the reference."""
    write_history(tmp_path)
    monkeypatch.chdir(tmp_path)
    with duckdb.connect() as connection:
        connection.execute(read_views("duckdb"))
        answers = {name: connection.execute(query).fetchall() for name, query in read_queries().items()}
    assert answers == ANSWERS


def test_the_page_names_the_columns_of_runs() -> None:
    """The table of the page has the columns that are written."""
    page = ROOT / "docs" / "internals" / "drift-reports.md"
    table = page.read_text().partition("| column of `runs` | holds |\n| --- | --- |\n")[2].partition("\n\n")[0]
    names = [
        cell for line in table.splitlines() for cell in line.split("|")[1].replace("`", "").replace(" ", "").split(",")
    ]
    assert names == RUNS_SCHEMA.names

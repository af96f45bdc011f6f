"""Tables, remote reports and histories that Spark writes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import types

from support.drift import generated_reports
from support.drift.folder_store import STORE
from support.drift.small_fleet import cluster_state, read_rows, topic_document, write_manifests, write_snapshot
from topiarist.drift.findings import DriftClass, DriftFinding
from topiarist.drift.history import (
    ENDED_COLUMNS,
    FINDINGS_FILE,
    RUN_TIME,
    STATE_BY_FILE,
    TREND_COLUMNS,
    PreviousReport,
    RunHistory,
)
from topiarist.drift.outputs import html
from topiarist.drift.outputs.folder import ReportFolder
from topiarist.drift.outputs.remote import RemoteReportFolder
from topiarist.drift.parquet import ParquetHistory
from topiarist.drift.rows import make_row
from topiarist.drift.spark import outputs
from topiarist.drift.spark.engine import SparkEngine
from topiarist.drift.spark.outputs import SparkHistory
from topiarist.errors import Reason, TopiaristError
from topiarist.schema import load
from unit.drift.spark.conftest import Place
from unit.drift.spark.local_spark import Table, col, parse_type
from unit.drift.spark.test_engine import report


def kinds_of(fields: types.StructType) -> dict[str, str]:
    """Return the type of each field as text."""
    return {field.name: field.dataType.simpleString() for field in fields}


def test_a_snapshot_row_has_the_fields_of_all_kinds() -> None:
    """The type has each field of each kind; a field of two types is text, any other has its own."""
    definitions = load.load_schema("snapshot")["definitions"]
    found = kinds_of(outputs.snapshot_row_type())
    assert found.keys() == {name for kind in outputs.ROW_KINDS for name in definitions[kind]["properties"]}
    assert next(iter(found)) == "kind"
    expected = {
        "kind": "string",
        "rows": "int",
        "topicListBytes": "bigint",
        "brokers": "array<struct<id:int,rack:string>>",
        "replicas": "array<array<int>>",
        "config": "map<string,string>",
        "modifiedExternally": "boolean",
        "written": found["read"],
    }
    assert {name: found[name] for name in expected} == expected
    ambiguous = {"reassigning", "deleting", "identity"}
    assert {found[name] for name in ambiguous} == {"string"}
    by_kind = [kinds_of(types.StructType(outputs.fields_of_kinds(kind))) for kind in outputs.ROW_KINDS]
    for name, kind in found.items():
        own = {each[name] for each in by_kind if name in each}
        assert own == {kind} or (len(own) > 1 and kind == "string"), name


def test_a_table_may_lack_the_columns_of_usage_only() -> None:
    """Earlier releases wrote no usage: its columns are optional, those that another kind has are not."""
    optional = outputs.optional_columns()
    assert {"evidence", "ends", "curve", "bytesPerDay", "written"} <= optional
    assert not {"kind", "cluster", "topic", "topicId", "replicas", "owner"} & optional


def test_fields_of_several_kinds_are_there_once() -> None:
    """The fields are in the order of the schema, and the first kind that has a field decides its type."""
    one, both = outputs.fields_of_kinds("topic"), outputs.fields_of_kinds("topic", "cluster")
    assert both[: len(one)] == one
    assert len({field.name for field in both}) == len(both) > len(one)


@pytest.mark.parametrize("kind", ["finding", "accepted"])
def test_a_line_of_a_report_has_the_fields_of_its_schema(kind: str) -> None:
    """Findings have all fields of the schema; accepted ones also have their exception."""
    made = outputs.report_row_type(kind)
    found = kinds_of(made)
    assert [*found] == [*load.load_schema("drift")["definitions"][kind]["properties"]]
    some = {"cluster": "string", "line": "bigint", "reasons": "array<string>", "modifiedExternally": "boolean"}
    assert {name: found[name] for name in some} == some
    assert ("exception" in found) == (kind == "accepted")
    if kind == "accepted":
        assert found["exception"].startswith("struct<name:string,")


def test_text_gets_the_type_of_its_kind_again(place: Place) -> None:
    """Columns that are text in a table, because kinds of rows differ, have the values of their kind when selected."""
    schema = outputs.snapshot_row_type()
    empty = dict.fromkeys(schema.names)
    rows = [
        empty | {"kind": "topic", "deleting": text, "reassigning": "false", "replicas": [[1]], "file": "f"}
        for text in ("true", "false", None, "[]")
    ]
    table = Table(place.spark, schema, [rows])
    selected = outputs.select_typed(table, outputs.fields_of_kinds("topic"), col("file"))  # type: ignore[arg-type]
    found = selected.collect()
    assert [row.deleting for row in found] == [True, False, None, None]
    assert {(row.reassigning, str(row.replicas), row.file) for row in found} == {(False, "[[1]]", "f")}
    cluster = Table(place.spark, schema, [[empty | {"kind": "cluster", "deleting": '["a"]', "reassigning": "[]"}]])
    (row,) = outputs.select_typed(cluster, outputs.fields_of_kinds("cluster")).collect()  # type: ignore[arg-type]
    assert (row.deleting, row.reassigning) == (["a"], [])


def test_the_parser_of_the_tests_reads_types_as_spark_writes_them() -> None:
    """Each type of a snapshot is the same after it was written as text and parsed."""
    for field in outputs.snapshot_row_type():
        assert parse_type(field.dataType.simpleString()) == field.dataType


LATEST = f"{STORE}/reports/latest"


@pytest.fixture
def manifests(place: Place, tmp_path: Path) -> Path:
    """Write manifests and a snapshot of a cluster that lacks a topic."""
    write_snapshot(place.store / "snapshots", "eu", cluster_state("eu"))
    return write_manifests(tmp_path / "manifests", ["eu"], topic_document("t", ["eu"]))


def test_paths_of_this_machine_need_no_store(tmp_path: Path, place: Place) -> None:
    """The engine reads and writes local paths as without Spark, and all others in their store."""
    engine = SparkEngine("a test")
    assert engine.description == "Spark: a test"
    (place.store / "full").mkdir()
    (place.store / "full" / "x").touch()
    (place.store / "empty").mkdir()
    exist = {
        f"{root}/{name}": name in ("full", "full/x")
        for root in (STORE, place.store)
        for name in ("full", "full/x", "empty", "no")
    }
    assert {path: engine.exists(path) for path in exist} == exist
    with engine.create_report_folder(str(tmp_path / "out")) as here, engine.create_report_folder(LATEST) as there:
        assert type(here) is ReportFolder
        assert type(there) is RemoteReportFolder


def test_tables_of_a_local_report_have_one_file_a_day(manifests: Path, place: Place, tmp_path: Path) -> None:
    """The table of findings has no files of Spark's own, and the same rows as the lines."""
    report(manifests, place.store / "snapshots", tmp_path / "out", "--engine", "spark", code=0)
    table = tmp_path / "out" / "findings.parquet"
    files = sorted(path.relative_to(table).as_posix() for path in table.rglob("*") if path.is_file())
    assert files == ["date=2025-01-31/part.parquet"]
    rows = [row.asDict() for row in place.spark.read.parquet(table.as_uri()).collect()]
    assert [str(row.pop("date")) for row in rows] == ["2025-01-31"]
    assert rows == read_rows(tmp_path / "out")


ONE, TWO, THREE = "2025-01-30T23:00:00Z", "2025-01-31T12:00:00Z", "2025-01-31T13:00:00Z"

EXCEPTION = {"name": "x", "file": "x.yaml", "line": 2, "reason": "moved", "author": "ada", "until": "2025-03-01"}


@pytest.mark.parametrize("most", [12, 40])
def test_the_lines_of_a_page_are_those_of_a_report_without_spark(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Of too many lines the same ones are selected in the same order, the critical ones and each small group first."""
    generated_reports.write_report(tmp_path / "report", generated_reports.make_findings(4, 40))
    path = tmp_path / "report" / FINDINGS_FILE
    lines = [
        (row["cluster"], number, json.dumps(row, separators=(",", ":")))
        for number, row in enumerate(read_rows(path.parent))
    ]
    table = place.spark.createDataFrame(lines, "cluster string, number int, value string").repartition("number")
    monkeypatch.setattr(html, "MAX_FINDINGS", most)
    found = [json.loads(row.value) for row in outputs.sample_lines(table, len(lines))]  # type: ignore[arg-type]
    assert found == [*html.sample_rows(path, len(lines), most)]
    assert len(found) == most


def finding(topic: str, since: str, **changes: Any) -> dict[str, Any]:
    """Return a row that was first seen at a time."""
    row = make_row("eu", topic, DriftFinding(DriftClass.MISSING), since, "shop")
    return {**row, **changes}


def write_report(folder: Path, **files: Sequence[Mapping[str, Any]]) -> str:
    """Write the files of a report with these rows, by the beginning of their names; return the path."""
    folder.mkdir()
    for name in STATE_BY_FILE:
        rows = files.get(name.partition(".")[0].replace("-", "_"), ())
        (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(folder)


def write_run(history: RunHistory, time: str, findings: int = 1, **changes: Any) -> None:
    """Write a run with some numbers."""
    row = {RUN_TIME: time, "owner": "default", "clusters": ["eu"], "unknownClusters": [], "incompleteClusters": ["us"]}
    numbers = {"topicsDeclared": 5, "topicsCompared": 4, "findings": findings, "new": 1, "resolved": 0}
    history.write_run({**row, **numbers, "byClass": {"missing": findings, "config": 1}, **changes})


@pytest.fixture(params=[f"{STORE}/history/", "local"])
def history(request: pytest.FixtureRequest, place: Place, tmp_path: Path) -> SparkHistory:
    """Return a history with three runs, in a store or in a local folder."""
    where = request.param if request.param != "local" else str(tmp_path / "a *history")
    made = SparkHistory(place.spark, where)  # type: ignore[arg-type]
    assert made.list_times() == []
    later = [finding("b", TWO, exception=EXCEPTION), finding("c", ONE, status="Unchanged", ageSeconds=13 * 3600)]
    for time, files in (
        (ONE, {"findings": [finding("a", ONE), finding("c", ONE)]}),
        (THREE, {"findings": [finding("d", THREE)], "resolved": [later[1]], "not_evaluated": later[:1]}),
        (TWO, {"findings": later[1:], "accepted": later[:1], "resolved": [finding("a", ONE, seenSince=TWO)]}),
    ):
        report = write_report(tmp_path / time, **files)
        made.write_findings(time, report, [finding("gone", ONE, status="Dropped")] if time == THREE else [])
        write_run(made, time, len(files["findings"]))
    return made


def names(found: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the state of each topic."""
    rows = [*found]
    assert len({row["topic"] for row in rows}) == len(rows)
    return {row["topic"]: row["status"] for row in rows}


@pytest.mark.parametrize(
    ("files", "found"), [(["history/all.yaml", "history/.git"], "all.yaml"), (["history"], "a file")]
)
def test_an_address_of_something_else_is_no_history(place: Place, files: list[str], found: str) -> None:
    """An address with other files only is refused, as a folder is; hidden files count as none."""
    for name in files:
        (place.store / name).parent.mkdir(exist_ok=True)
        (place.store / name).write_text("")
    made = SparkHistory(place.spark, f"{STORE}/history")  # type: ignore[arg-type]
    with pytest.raises(TopiaristError, match=f"found {found}, wanted the folders findings, runs and teams") as raised:
        made.list_times()
    assert raised.value.reason is Reason.UNREADABLE
    if len(files) > 1:
        (place.store / files[0]).unlink()
        assert made.list_times() == []


def test_the_numbers_of_runs_are_read_as_written(history: SparkHistory) -> None:
    """Only the runs asked for are read, with the columns of a trend and classes in order."""
    expected = {"findings": 1, "new": 1, "resolved": 0, "byClass": {"config": 1, "missing": 1}, "unknownClusters": []}
    runs = history.read_runs([TWO, THREE])
    assert runs == [{RUN_TIME: time, **expected} for time in (TWO, THREE)]
    assert [*runs[0]] == [*TREND_COLUMNS]
    assert [*runs[0]["byClass"]] == ["config", "missing"]
    assert [run["findings"] for run in history.read_runs([ONE, THREE])] == [2, 1]


def test_each_finding_has_its_state(history: SparkHistory) -> None:
    """Found and accepted findings keep their status; the file of any other finding decides its status."""
    assert names(history.read_findings(ONE)) == {"a": "New", "c": "New"}
    assert names(history.read_findings(TWO)) == {"a": "Resolved", "b": "New", "c": "Unchanged"}
    states = {"b": "NotEvaluated", "c": "Resolved", "d": "New", "gone": "Dropped"}
    assert names(history.read_findings(THREE)) == states


def test_a_finding_is_read_as_written(history: SparkHistory) -> None:
    """Every field of a row is the same, with its exception, and the time of the run is added."""
    by_topic = {row["topic"]: row for row in history.read_findings(TWO)}
    assert by_topic["b"] == {RUN_TIME: TWO, **finding("b", TWO), "exception": EXCEPTION}
    unchanged = finding("c", ONE, status="Unchanged", ageSeconds=13 * 3600)
    assert by_topic["c"] == {RUN_TIME: TWO, **unchanged, "exception": None}


def test_the_age_of_a_resolved_finding_ends_with_its_run(history: SparkHistory) -> None:
    """Its age is the time from its episode to the run without it, and never negative; others keep theirs."""
    ages = {(row[RUN_TIME], row["topic"]): row["ageSeconds"] for row in history.read_ended([ONE, TWO, THREE])}
    assert ages == {(TWO, "a"): 0, (THREE, "c"): 14 * 3600, (THREE, "gone"): 0}


def test_ended_findings_are_in_order_of_time(history: SparkHistory) -> None:
    """Resolved and dropped findings of the runs asked for are read, with the columns of an end."""
    ended = history.read_ended([ONE, TWO, THREE])
    assert [row[RUN_TIME] for row in ended] == [TWO, THREE, THREE]
    assert [*ended[0]] == [*ENDED_COLUMNS]
    assert names(history.read_ended([TWO])) == {"a": "Resolved"}


def test_a_run_replaces_that_of_its_time(history: SparkHistory, tmp_path: Path) -> None:
    """From the first new finding the old run does not count, and afterwards nothing of it is left. The times
    of all runs are in order, whatever the order in which they were written.
    """
    history.write_findings(TWO, write_report(tmp_path / "new", findings=[finding("z", TWO)]), [])
    assert history.list_times() == [ONE, THREE]
    write_run(history, TWO, 9)
    assert history.list_times() == [ONE, TWO, THREE]
    assert names(history.read_findings(TWO)) == {"z": "New"}
    assert [run["findings"] for run in history.read_runs([TWO])] == [9]


def test_files_have_the_names_of_their_runs(place: Place, history: SparkHistory, tmp_path: Path) -> None:
    """Each run is one file a table, named by its time in the folder of its day; nothing else is left."""
    folders = [folder for folder in (place.store / "history", tmp_path / "a *history") if folder.exists()]
    assert len(folders) == 1
    found = sorted(path.relative_to(folders[0]).as_posix() for path in folders[0].rglob("*") if path.is_file())
    times = [("2025-01-30", "20250130T230000Z"), ("2025-01-31", "20250131T120000Z"), ("2025-01-31", "20250131T130000Z")]
    assert [name for name in found if not name.rpartition("/")[2].startswith(".")] == [
        f"{table}/date={day}/{name}.parquet" for table in ("findings", "runs") for day, name in times
    ]
    assert place.spark.settings["spark.sql.parquet.outputTimestampType"] == "TIMESTAMP_MICROS"
    assert history.list_times()


def test_a_history_says_what_one_of_local_files_says(history: SparkHistory, tmp_path: Path) -> None:
    """The previous report that a history gives is the same with pyarrow and with Spark."""
    local = ParquetHistory(str(tmp_path / "pyarrow"))
    for time in (ONE, TWO, THREE):
        dropped = [finding("gone", ONE, status="Dropped")] if time == THREE else []
        local.write_findings(time, str(tmp_path / time), dropped)
        write_run(local, time, {ONE: 2, TWO: 1, THREE: 1}[time])
    for as_of in (ONE, THREE, "2025-02-01T00:00:00Z", "2025-06-01T00:00:00Z"):
        assert history.load_previous(as_of) == local.load_previous(as_of)
    assert history.load_previous(ONE) == PreviousReport(repairs=())


@pytest.mark.parametrize("table", ["runs", "findings"])
def test_a_table_of_another_program_is_named(place: Place, table: str) -> None:
    """The error names the history, and says that it cannot be read."""
    history = SparkHistory(place.spark, f"{STORE}/history")  # type: ignore[arg-type]
    file = place.store / "history" / table / "date=2025-01-31" / "x.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"no table")
    with pytest.raises(TopiaristError, match=f"{STORE}/history: ") as raised:
        history.list_times() if table == "runs" else [*history.read_findings(TWO)]
    assert raised.value.reason is Reason.UNREADABLE


def test_a_history_that_cannot_be_written_is_named(place: Place, tmp_path: Path) -> None:
    """The error names the history for findings and for runs, and no staging folder is left."""
    history = SparkHistory(place.spark, f"{STORE}/history")  # type: ignore[arg-type]
    for table in ("findings", "runs"):
        (place.store / "history" / table).mkdir(parents=True)
        (place.store / "history" / table / "date=2025-01-31").touch()
    report = write_report(tmp_path / "report", findings=[finding("a", TWO)])
    with pytest.raises(TopiaristError, match=f"{STORE}/history/findings/") as raised:
        history.write_findings(TWO, report, [])
    assert raised.value.reason is Reason.UNWRITABLE
    with pytest.raises(TopiaristError, match=f"{STORE}/history/runs/"):
        write_run(history, TWO)
    assert not [*(place.store / "history").rglob(".topiarist-*")]

"""The SQL of the documentation answers its questions, over a history that real runs have written."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from support.drift.documented_queries import ANSWERS, PAGE, read_queries, read_views, write_history
from topiarist.drift.history.parquet import RUNS_SCHEMA


def test_duckdb_answers_the_documented_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each query of the page gives the known answer in DuckDB, with the views of the page."""
    write_history(tmp_path)
    monkeypatch.chdir(tmp_path)
    with duckdb.connect() as connection:
        connection.execute(read_views("duckdb"))
        answers = {name: connection.execute(query).fetchall() for name, query in read_queries().items()}
    assert answers == ANSWERS


def test_the_page_names_the_columns_of_runs() -> None:
    """The table of the page has the columns that are written."""
    table = PAGE.read_text().partition("| column of `runs` | holds |\n| --- | --- |\n")[2].partition("\n\n")[0]
    names = [
        cell for line in table.splitlines() for cell in line.split("|")[1].replace("`", "").replace(" ", "").split(",")
    ]
    assert names == RUNS_SCHEMA.names

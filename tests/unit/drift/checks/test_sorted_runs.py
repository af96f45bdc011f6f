"""Sorting on disk: the order of a sort in memory, with few files."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from topiarist.drift.checks import sorted_runs
from topiarist.drift.checks.sorted_runs import SortedRuns


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make runs of three rows, and merge each four of them."""
    monkeypatch.setattr(sorted_runs, "_MAX_ROWS_IN_MEMORY", 3)
    monkeypatch.setattr(sorted_runs, "_MAX_RUNS_PER_ROUND", 4)


@pytest.mark.parametrize("number", [0, 1, 3, 11, 12, 700])
def test_rows_come_in_order_from_few_files(number: int, tmp_path: Path) -> None:
    """All rows are read in order, each as often as it was added; files are few and have no name."""
    random = Random(number)
    rows = [(f"{random.randrange(100)}", random.choice("ab")) for _ in range(number)]
    most = 0
    with closing(SortedRuns(tmp_path)) as runs:
        for row in rows:
            runs.add(row)
            most = max(most, runs.open_files)
        assert list(runs.rows()) == sorted(rows)
        assert list(tmp_path.iterdir()) == []
    assert most == {0: 0, 1: 0, 3: 1, 11: 3, 12: 3, 700: 11}[number]
    assert runs.open_files == 0


def test_any_text_keeps_its_content_and_place() -> None:
    """Line ends, separators, quotes and characters of any plane are as they were, and sort by their characters."""
    texts = (
        "",
        "a",
        "a\n",
        "a\0b",
        'a"',
        "a!",
        "a\\",
        "a b",
        "\u2028",
        "\x85",
        "\ud800",
        "\U0001f600",
        "\ufffd",
        "\r\n",
        "é",
    )
    with closing(SortedRuns()) as runs:
        for text in texts:
            runs.add((text, "x", text))
        assert list(runs.rows()) == sorted((text, "x", text) for text in texts)


def test_a_folder_that_is_gone_is_an_error(tmp_path: Path) -> None:
    """A file that cannot be written is an ``OSError``."""
    with closing(SortedRuns(tmp_path / "gone")) as runs:
        runs.add(("a",))
        runs.add(("b",))
        with pytest.raises(FileNotFoundError):
            runs.add(("c",))

"""The layout of text by the stream that it is for."""

from __future__ import annotations

import io

import pytest

from topiarist.cli import terminal
from topiarist.cli.terminal import Settings


class _Stream(io.StringIO):
    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._is_terminal


@pytest.mark.parametrize(("columns", "width", "spare_width"), [(60, 60, 0), (100, 100, 0), (200, 100, 100)])
def test_tables_get_the_columns_that_text_leaves(
    columns: int, width: int, spare_width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Running text has at most 100 columns of a terminal; the others are for tables and long words."""
    monkeypatch.setenv("COLUMNS", str(columns))
    layout = terminal.make_layout(_Stream(is_terminal=True), Settings())
    assert (layout.width, layout.spare_width, layout.table_width) == (width, spare_width, columns)


@pytest.mark.parametrize(
    ("variable", "value", "use_color"), [("NO_COLOR", "0", False), ("NO_COLOR", "", True), ("TERM", "dumb", False)]
)
def test_the_environment_turns_color_off(
    variable: str, value: str, use_color: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NO_COLOR counts with any value but the empty one, as no-color.org says."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(variable, value)
    assert terminal.make_layout(_Stream(is_terminal=True), Settings()).use_color is use_color


def test_text_for_programs_does_not_depend_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal text has 80 columns, and no limit for a word."""
    monkeypatch.setenv("COLUMNS", "200")
    layout = terminal.make_layout(_Stream(is_terminal=False), Settings())
    assert (layout.width, layout.spare_width, layout.use_color) == (80, None, False)

"""Errors as text and as JSON."""

from __future__ import annotations

import json

from topiarist.errors import Diagnostic, Location
from topiarist.output.ci import to_json
from topiarist.output.text.layout import format_diagnostics

ZERO = Diagnostic(Location("topics/a.yaml", 9, 15), "partitions: found 0, wanted 1 or more", "leave the line out")
BROKEN = Diagnostic(Location("topics/b.yaml"), "found \x1b[31m, wanted YAML")


def test_each_error_begins_with_its_place() -> None:
    """Place, label and message are on one line that editors can follow; the fix is on the next line."""
    assert format_diagnostics([ZERO, BROKEN]) == (
        "topics/a.yaml:9:15: error: partitions: found 0, wanted 1 or more\n"
        "    leave the line out\n"
        "topics/b.yaml: error: found \\x1b[31m, wanted YAML\n"
    )


def test_the_label_tells_warnings_from_errors() -> None:
    """A warning differs from an error in its label only."""
    assert format_diagnostics([BROKEN], "warning") == "topics/b.yaml: warning: found \\x1b[31m, wanted YAML\n"


def test_only_the_first_hundred_are_shown() -> None:
    """Of ten thousand errors, the text shows the first hundred and the number of the others."""
    lines = format_diagnostics([BROKEN] * 10_000).splitlines()
    assert len(lines) == 101
    assert lines[-1] == "... and 9,900 more"
    assert len(format_diagnostics([BROKEN] * 100).splitlines()) == 100
    assert format_diagnostics([BROKEN] * 2, suppressed_count=5).splitlines()[-1] == "... and 5 more"
    assert format_diagnostics([BROKEN] * 101, suppressed_count=5).splitlines()[-1] == "... and 6 more"


def test_no_error_is_no_text() -> None:
    """No errors yield an empty text."""
    assert format_diagnostics([]) == ""


def test_json_has_all_errors_and_warnings() -> None:
    """JSON has every error with separate fields, without a limit; line 0 means the whole file."""
    found = json.loads(to_json([ZERO, BROKEN] * 100, [BROKEN], suppressed_count=5))
    assert (len(found["errors"]), found["more"]) == (200, 5)
    assert found["errors"][0] == {
        "file": "topics/a.yaml",
        "line": 9,
        "column": 15,
        "message": "partitions: found 0, wanted 1 or more",
        "hint": "leave the line out",
    }
    assert found["warnings"] == [
        {"file": "topics/b.yaml", "line": 0, "column": 0, "message": "found \x1b[31m, wanted YAML", "hint": ""}
    ]

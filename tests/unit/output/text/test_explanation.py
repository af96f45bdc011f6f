"""An explanation as text."""

from __future__ import annotations

from topiarist.inspection.explanation import Explanation
from topiarist.output.describe import format_explanation
from topiarist.output.text.layout import TextLayout


def test_an_explanation_has_its_facts_in_two_columns() -> None:
    """The word is bold, its meaning is below it, and long facts are wrapped in their column."""
    found = Explanation(
        "Frozen", "the cluster is frozen", (("exit code", "3"), ("retry", "in a later run, " * 4 + "at once"))
    )
    assert format_explanation(TextLayout(use_color=True), found) == (
        "\x1b[1mFrozen\x1b[0m\n"
        "  the cluster is frozen\n"
        "  exit code  3\n"
        "  retry      in a later run, in a later run, in a later run,\n"
        "             in a later run, at once\n"
    )
    assert format_explanation(TextLayout(), Explanation("Frozen", "no facts")) == "Frozen\n  no facts\n"

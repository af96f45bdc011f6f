"""Elections in every output: text, summary, diff of a comment, fields of a status."""

from __future__ import annotations

from support.plans import existing_topic_plan, plan, render_plan
from topiarist.model.moves import LeaderChange
from topiarist.model.plan import ElectLeaders
from topiarist.output.change_details import FieldChange, describe_changes, describe_differences, list_field_changes
from topiarist.output.markdown.sections import format_diff
from topiarist.output.view import view_changes
from topiarist.planning.risk import assess_elections


def election(count: int) -> ElectLeaders:
    """Return the election of the leaders of this number of partitions, each from broker 2 to 1."""
    partitions = tuple(LeaderChange(number, 2, 1) for number in range(count))
    return ElectLeaders(partitions, assess_elections(partitions))


def test_the_text_has_both_leaders() -> None:
    """The action, its risk with the reason, each leader before and after, and the count of topics."""
    assert render_plan(plan(existing_topic_plan("orders", election(2)), unchanged=1)) == (
        "  ~ orders         elect the preferred leaders of 2 partitions        Disruptive\n"
        "      risk         leaders of 2 partitions change\n"
        "      leaders      0: 2 -> 1  1: 2 -> 1\n"
        "\n"
        "Plan: 1 to elect, 1 unchanged.\n"
    )


def test_many_leaders_are_counted() -> None:
    """Of many partitions only the first are shown; with ``verbose`` all of them."""
    shown = plan(existing_topic_plan("orders", election(200)))
    short, whole = render_plan(shown), render_plan(shown, verbose=True)
    assert " more\n" in short
    assert "199: 2 -> 1" not in short
    assert "199: 2 -> 1" in whole


def test_a_comment_has_the_leaders() -> None:
    """They are lines of a diff below their own heading."""
    assert format_diff(view_changes([election(2)])) == ["@@ leaders @@", "  0: 2 -> 1  1: 2 -> 1"]


def test_the_operator_has_a_field_for_each_partition() -> None:
    """A status and an Event have the leaders before and after."""
    assert [*list_field_changes([election(1)])] == [FieldChange("leader.0", "2", "1")]
    assert describe_changes([election(1)]) == "elect the preferred leaders of 1 partition"
    assert describe_differences([election(2)]) == "leader.0 is 2, wanted 1, leader.1 is 2, wanted 1"

"""The blocks of a plan as text: signs, groups, colors, subjects of risks, config lines and lists."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from support.builders import PositionedSource, topic
from support.plans import DATA_LOSS_RISK, KEY_REMAPPING_RISK, RETENTION_CHANGE, existing_topic_plan, plan, render_plan
from topiarist.errors import Reason
from topiarist.kafka.types import UNPLACED
from topiarist.model.moves import LeaderChange, ReplicaMove
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    AddPartitions,
    Change,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    ImpliedTopic,
    Issue,
    MoveReplicas,
    ReleaseOwnership,
    Risk,
    RiskAssessment,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.spec import ValueOrigin
from topiarist.output.groups import GroupedItems, group_items
from topiarist.output.text.layout import TextLayout, format_value
from topiarist.output.text.plan import (
    format_config_lines,
    format_partitions,
    format_plans,
    format_risks,
    format_summaries,
    format_topic_plan,
)
from topiarist.output.view import summarize, view_changes, view_topic

GROW = AddPartitions(1200, (1,), ((1,), (2,)), KEY_REMAPPING_RISK)
CREATE = CreateTopic(((1, 2),), {})
DELETE = DeleteTopic(1, 3, DATA_LOSS_RISK)
MOVE = MoveReplicas((ReplicaMove("a", 0, (1, 2), (3, 2)),), KEY_REMAPPING_RISK)
CONFIGURE = UpdateConfig((RETENTION_CHANGE,))
SHARED = ConfigItem("flush.ms", "1", "2", SAFE_ASSESSMENT, inherited=True)


@pytest.mark.parametrize(
    ("changes", "sign", "summary"),
    [
        ((GROW, CONFIGURE), "~", "grow 1,200 -> 1,202 partitions, configure"),
        ((TakeOwnership(), CONFIGURE), "~", "record only, configure"),
        ((CreateTopic(((UNPLACED,),), {}),), "+", "create 1 partition x 1 replica, placed by the brokers"),
        ((DELETE, CREATE), "+", "delete 1 partition and all messages, create 1 partition x 2 replicas"),
    ],
)
def test_several_changes_have_one_sign_and_one_action(changes: tuple[Change, ...], sign: str, summary: str) -> None:
    """The sign is that of the change that matters the most; the action has all of them."""
    view = view_topic(existing_topic_plan("a", *changes))
    assert (view.sign, view.action) == (sign, summary)


def test_a_topic_that_does_not_exist_has_no_number_of_partitions() -> None:
    """A move of a topic of unknown size names only the partitions that move."""
    assert view_topic(TopicPlan("a", changes=(MOVE,))).action == "move 1 partition, 1 copy"
    assert summarize(view_changes([MOVE])) == "move 1 partition, 1 copy"


def test_the_colors_of_a_plan() -> None:
    """A sign and a risk have a color each, green for what is new and red for what is lost, as have labels."""
    source = PositionedSource("rules.yaml")
    finding = Issue(Reason.POLICY_DENIED, "no", withheld=(CONFIGURE,), cause_origin=ValueOrigin(source, ()))
    found = plan(
        TopicPlan("new", changes=(CREATE,)),
        existing_topic_plan("more", GROW),
        existing_topic_plan("old", DELETE),
        existing_topic_plan("bad", findings=(finding,)),
        replace(existing_topic_plan("seen", CONFIGURE), observe_only=True),
        existing_topic_plan("rec", ReleaseOwnership()),
        unchanged=0,
    )
    text = format_plans([found], TextLayout(use_color=True))
    red, green, yellow, dim = "\x1b[1;31m", "\x1b[32m", "\x1b[33m", "\x1b[2m"
    for start, risk in (
        (f"  {green}+ new            \x1b[0m", f"{dim}Safe\x1b[0m"),
        (f"  {yellow}~ more           \x1b[0m", f"{yellow}Disruptive\x1b[0m"),
        (f"  {red}- old            \x1b[0m", f"{red}DataLoss\x1b[0m"),
        (f"  {dim}. seen           \x1b[0m", f"{red}DataLoss\x1b[0m"),
        (f"  {red}! bad            \x1b[0m", "refused: no"),
        ("  = rec            ", f"{dim}Safe\x1b[0m"),
        (f"      {dim}at\x1b[0m           topics/bad.yaml:1:1", f"{dim}PolicyDenied\x1b[0m"),
        (f"      {dim}held back\x1b[0m    configure", f"{red}DataLoss\x1b[0m"),
        (f"      {dim}rule\x1b[0m         rules.yaml:1:1", ""),
        (f"      {dim}config\x1b[0m       {yellow}~\x1b[0m retention.ms", ""),
    ):
        assert any(line.startswith(start) and line.endswith(risk) for line in text.splitlines()), (start, risk)


def test_shared_refusals_have_one_block_with_their_topics() -> None:
    """The block of a shared refusal has the place of the first topic and counts the others."""
    topics = [
        existing_topic_plan(f"t{at}", findings=(Issue(Reason.FROZEN, "no", withheld=(DELETE,)),)) for at in "abcd"
    ]
    assert render_plan(plan(*topics)).startswith(
        "  ! 4 topics       held back: delete 1 partition and all messages       DataLoss\n"
        "      risk         messages older than 1 hour will be deleted\n"
        "      topics       ta, tb, tc, td\n"
    )


def test_a_long_place_leaves_the_reason_on_a_line_of_its_own() -> None:
    """The reason of a refusal is at the right end, below a place that leaves no room for it; without a place alone."""
    issue = Issue(Reason.FEWER_PARTITIONS, "no")
    for length, lines in (
        (20, [f"      at           topics/{'x' * 20}.yaml:1:1{' ' * 10}FewerPartitions"]),
        (28, [f"      at           topics/{'x' * 28}.yaml:1:1  FewerPartitions"]),
        (29, [f"      at           topics/{'x' * 29}.yaml:1:1", f"{' ' * 65}FewerPartitions"]),
    ):
        shown = render_plan(plan(existing_topic_plan("x" * length, findings=(issue,)))).splitlines()
        assert shown[-len(lines) - 2 : -2] == lines
    alone = replace(existing_topic_plan("a", findings=(issue,)), spec=None)
    assert render_plan(plan(alone)).splitlines()[1] == f"{' ' * 65}FewerPartitions"


def test_a_topic_that_comes_along_has_a_block() -> None:
    """A topic that the first write makes shows its size, who makes it and what for, in each form of a plan."""
    implied = ImpliedTopic("__topiarist", 1, 3, "topiarist", "its records")
    found = replace(plan(TopicPlan("a", changes=(CREATE,))), implied=(implied,))
    assert (
        "\n\n  + __topiarist    create 1 partition x 3 replicas                          Safe\n"
        "      made by      topiarist, once for a cluster, for its records\n"
    ) in render_plan(found)
    short = format_summaries([found, found], TextLayout()).splitlines()
    assert short.count("prod-eu: the run also creates __topiarist.") == 2
    assert format_summaries([found], TextLayout()).splitlines()[1] == "Plan: the run also creates __topiarist."


def test_the_plan_of_one_topic_stands_alone() -> None:
    """The text of one topic has no cluster, no summary and no group; without changes and issues it is empty."""
    item = UpdateConfig((SHARED,))
    assert format_topic_plan(existing_topic_plan("a", item)) == (
        f"  ~ a              configure{' ' * 48}Safe\n"
        "      config       ~ flush.ms  1 -> 2  from the cluster's defaults"
    )
    assert format_topic_plan(TopicPlan("a")) == ""


@pytest.mark.parametrize(("count", "grouped"), [(3, False), (4, True)])
def test_four_topics_form_a_group(count: int, grouped: bool) -> None:
    """Defaults, records and refusals of four topics are shown once; fewer stay with their topics."""
    issue = Issue(Reason.NOT_ADOPTED, "no")
    names = "abcd"[:count]
    for topics in (
        [existing_topic_plan(name, UpdateConfig((SHARED,))) for name in names],
        [existing_topic_plan(name, TakeOwnership()) for name in names],
        [existing_topic_plan(name, findings=(issue,)) for name in names],
    ):
        groups = group_items(plan(*topics))
        assert len(groups.defaults) + len(groups.ownership_actions) + len(groups.refusals) == grouped
        assert [groups.has_own_block(each) for each in topics] == [not grouped] * count


def test_what_differs_is_in_no_group() -> None:
    """Refusals differ by reason, message, field and change; a withheld creation and an observed topic have no group."""
    issue = Issue(Reason.NOT_ADOPTED, "no", ("x",), "do", (CONFIGURE,))
    others = (
        issue,
        issue._replace(reason=Reason.FROZEN),
        issue._replace(message="x"),
        issue._replace(field=()),
        issue._replace(withheld=()),
    )
    assert group_items(plan(*(existing_topic_plan(f"t{at}", findings=others) for at in range(4)))).refusals.keys() == {
        (each.reason, each.message, each.field, each.withheld) for each in others
    }
    alike = [existing_topic_plan(name, findings=(issue._replace(hint=name),)) for name in "abcd"]
    assert len(group_items(plan(*alike)).refusals) == 1
    held = issue._replace(withheld=(CREATE,))
    for each in (
        existing_topic_plan("a", findings=(held,)),
        replace(existing_topic_plan("a", UpdateConfig((SHARED,))), observe_only=True),
        replace(existing_topic_plan("a", TakeOwnership()), observe_only=True),
    ):
        assert group_items(plan(*[each] * 5)) == GroupedItems()


def test_a_topic_counts_what_its_group_shows() -> None:
    """Beside its own keys, a topic has only the number of those that a shared default changes."""
    own = existing_topic_plan("own", UpdateConfig((RETENTION_CHANGE, SHARED)))
    text = render_plan(plan(own, *(existing_topic_plan(name, UpdateConfig((SHARED,))) for name in "abc")))
    assert text.count("flush.ms") == 2  # the heading of the group, and its value
    assert "and 1 key from the cluster's defaults, see above\n" in text


def test_a_change_that_also_adopts_keeps_its_block() -> None:
    """A topic that a shared default changes and that is adopted with it has a block of its own."""
    grouped = GroupedItems(defaults={("flush.ms", "2"): ()})
    own = existing_topic_plan("a", UpdateConfig((SHARED,)))
    adopted = replace(own, before=topic("a", record=None), record_before=None)
    assert [grouped.has_ungrouped_changes(each) for each in (own, adopted)] == [False, True]
    watched = replace(own, observe_only=True)
    assert grouped.has_ungrouped_changes(watched)
    assert grouped.defaults_of(watched) == ()
    assert not grouped.has_ungrouped_changes(replace(watched, changes=(TakeOwnership(),)))
    assert not grouped.has_own_block(existing_topic_plan("a"))


def test_the_risk_of_one_assessment_has_no_subject() -> None:
    """One explanation stands alone; several name their subjects, and their risks if these differ."""
    low = RiskAssessment(Risk.DISRUPTIVE, "slow")
    high = RiskAssessment(Risk.DATA_LOSS, "gone")
    for pairs, lines in (
        ([("a", low)], ["slow"]),
        ([("a", low), ("b", low)], ["a, b: slow"]),
        ([("a", low), ("b", SAFE_ASSESSMENT)], ["a: slow"]),
        ([("a", low), ("b", high)], [f"b: gone{' ' * 46}DataLoss", f"a: slow{' ' * 44}Disruptive"]),
        ([("a", SAFE_ASSESSMENT)], []),
    ):
        found = [line[19:] for line in format_risks(TextLayout(), pairs)]
        assert found == lines


def lines_of(*rows: tuple[str, str | None, str | None, str], width: int = 80, color: bool = False) -> list[str]:
    """Return the lines of keys with their values before and after and a note."""
    found = [(ConfigItem(key, before, after, SAFE_ASSESSMENT), note) for key, before, after, note in rows]
    return format_config_lines(TextLayout(width=width, use_color=color), found)


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (None, "3600000", "+ k.ms  3600000  (1 hour)  why"),
        (None, "", '+ k.ms  ""  why'),
        ("3600000", None, "- k.ms  3600000  (1 hour) -> brokers' default  why"),
        ("1", None, "- k.ms  1 -> brokers' default  why"),
        ("3600000", "86400000", "~ k.ms  3600000 -> 86400000  (1 hour -> 1 day)  why"),
        ("3600000", "1", "~ k.ms  3600000 -> 1  (1 hour -> 1 ms)  why"),
        ("x", "3600000", "~ k.ms  x -> 3600000  (x -> 1 hour)  why"),
        ("1", "2", "~ k.ms  1 -> 2  why"),
        ("", "2", '~ k.ms  "" -> 2  why'),
    ],
)
def test_a_key_has_its_sign_its_values_and_its_units(before: str | None, after: str | None, line: str) -> None:
    """A line has the values before and after, both in one unit if one of them has a unit, and the note."""
    assert lines_of(("k.ms", before, after, "why")) == [line]
    assert lines_of(("k.ms", before, after, "")) == [line.removesuffix("  why")]


def test_a_number_of_bytes_has_its_unit_beside_a_larger_one() -> None:
    """The smaller value has the plain unit."""
    assert lines_of(("k.bytes", "1", "1048576", "")) == ["~ k.bytes  1 -> 1048576  (1 bytes -> 1 MiB)"]


def test_a_key_that_is_too_long_for_its_line_is_wrapped() -> None:
    """A key is broken at the width of the text, and its value stands below all its parts."""
    layout = TextLayout(spare_width=0)
    room = layout.text_width - 2
    for length, rest in ((room, []), (room + 1, ["  k"])):
        item = ConfigItem("k" * length, None, "1", SAFE_ASSESSMENT)
        assert format_config_lines(layout, [(item, "")]) == [f"+ {'k' * room}", *rest, "    1"]


def test_signs_have_colors_and_keys_a_column() -> None:
    """Green is a new key, red one that goes, yellow one that changes; all values begin in one column."""
    rows = (("a", None, "1", ""), ("bb", "1", None, ""), ("ccc", "1", "2", ""))
    assert lines_of(*rows, color=True) == [
        "\x1b[32m+\x1b[0m a    1",
        "\x1b[1;31m-\x1b[0m bb   1 -> brokers' default",
        "\x1b[33m~\x1b[0m ccc  1 -> 2",
    ]
    assert lines_of() == []


def test_a_long_key_does_not_move_the_others() -> None:
    """A key of more than 37 characters is not counted for the column of the values."""
    assert lines_of(("k" * 37, None, "1", ""), ("a", None, "1", ""))[1] == f"+ a{' ' * 38}1"
    assert lines_of(("k" * 38, None, "1", ""), ("a", None, "1", ""))[1] == f"+ a{' ' * 38}1"


def test_a_value_without_room_is_below_its_key() -> None:
    """A value that does not fit beside its key stands below it, indented, and goes on after a space."""
    assert lines_of(("key", None, "v" * 54, "")) == [f"+ key  {'v' * 54}"]
    assert lines_of(("key", None, "v" * 55, "why")) == ["+ key", f"    {'v' * 55}", "     why"]
    assert lines_of(("key", "v" * 30, "w" * 30, "")) == [f"~ key  {'v' * 30}", f"       -> {'w' * 30}"]


@pytest.mark.parametrize(
    ("length", "verbose", "shown"),
    [
        (160, False, "v" * 160),
        (161, False, f"{'v' * 160}... 1 more characters"),
        (1360, False, f"{'v' * 160}... 1,200 more characters"),
        (1360, True, "v" * 1360),
    ],
)
def test_a_long_value_is_cut(length: int, verbose: bool, shown: str) -> None:
    """The first 160 characters are shown and the others counted, unless the layout is verbose."""
    assert format_value(TextLayout(verbose=verbose), "v" * length) == shown


def partitions_of(change: Change, *, verbose: bool = False) -> list[str]:
    """Return the lines of the partitions of a change."""
    (view,) = view_changes([change])
    assert view.table
    return format_partitions(TextLayout(verbose=verbose), view.table)


def elections(*partitions: int) -> ElectLeaders:
    """Return elections of broker 2 as the leader of partitions."""
    return ElectLeaders(tuple(LeaderChange(partition, 1, 2) for partition in partitions), SAFE_ASSESSMENT)


def moves(*partitions: int) -> MoveReplicas:
    """Return moves of partitions from one broker to two others."""
    return MoveReplicas(tuple(ReplicaMove("a", each, (1,), (2, 3)) for each in partitions), SAFE_ASSESSMENT)


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (moves(9, 10), [" 9 [1] -> [2,3]  10 [1] -> [2,3]"]),
        (elections(9, 10), [" 9: 1 -> 2  10: 1 -> 2"]),
        (CreateTopic(((1, 2),) * 2, {}), ["0 [1,2]  1 [1,2]"]),
        (AddPartitions(9, (1,), ((1,),) * 2, SAFE_ASSESSMENT), ["+  9 [1]  + 10 [1]"]),
        (AddPartitions(9, (1,), ((1,),), SAFE_ASSESSMENT), ["+ 9 [1]"]),
        # With broker ids of seven digits, a line has fewer lists.
        (
            AddPartitions(100, (1,), ((1000001, 1000002, 1000003),) * 2, SAFE_ASSESSMENT),
            ["+ 100 [1000001,1000002,1000003]", "+ 101 [1000001,1000002,1000003]"],
        ),
    ],
)
def test_lists_are_aligned_by_their_partition(change: Change, lines: list[str]) -> None:
    """Ids are on the right of a column; a new partition beside others has a sign."""
    assert partitions_of(change) == lines


@pytest.mark.parametrize(
    "change",
    [
        lambda count: moves(*range(1001 - count, 1001)),
        lambda count: elections(*range(1001 - count, 1001)),
        lambda count: AddPartitions(1001 - count, (1,), ((1,),) * count, SAFE_ASSESSMENT),
    ],
)
def test_sixteen_partitions_are_shown_whole(change: Callable[[int], Change]) -> None:
    """Of seventeen, the first fifteen and the number of the others; ids that are not shown take no room."""
    for count, shown, verbose in ((16, 16, False), (17, 15, False), (17, 17, True)):
        text = "  ".join(partitions_of(change(count), verbose=verbose))
        assert len(re.findall(r"\d:? \[?1", text)) == shown
        assert text.endswith("... 2 more") is (shown < count)
        assert text.removeprefix("+ ").startswith(" ") is (shown == count)

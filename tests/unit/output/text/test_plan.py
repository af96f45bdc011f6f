"""Plans as text, beside the examples: long names, values and lists, many brokers, headers, ends, and short forms."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support import builders
from support.builders import spec, spread_replicas, topic
from support.plans import (
    DATA_LOSS_RISK,
    KEY_REMAPPING_RISK,
    OWN_RECORD,
    RETENTION_CHANGE,
    existing_topic_plan,
    plan,
    render_plan,
)
from topiarist.errors import Reason
from topiarist.kafka.config_rules import ConfigRules
from topiarist.kafka.types import Broker, ClusterMode
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    AddPartitions,
    ConfigItem,
    CreateTopic,
    Issue,
    Load,
    Plan,
    Risk,
    RiskAssessment,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.state import WriteBlock
from topiarist.output.groups import count_plan, count_plans
from topiarist.output.text.layout import TextLayout
from topiarist.output.text.plan import (
    format_plans,
    format_summaries,
    format_summary_line,
    format_topic_line,
    format_topic_lines,
)
from topiarist.output.view import group_risks


@pytest.mark.parametrize(("count", "words"), [(4, "k0, k1, k2, k3"), (5, "k0, k1, k2 and 2 more")])
def test_subjects_of_a_risk_are_counted(count: int, words: str) -> None:
    """Four keys with one explanation are named; of more, three and the number of the others."""
    assert group_risks((f"k{number}", DATA_LOSS_RISK) for number in range(count)) == [(DATA_LOSS_RISK, words)]


def test_no_changes_is_said_plainly() -> None:
    """A plan without changes and notices is two lines."""
    assert render_plan(plan()) == "No changes: 812 topics match their manifests.\n"
    assert render_plan(plan(unchanged=1)) == "No changes: 1 topic matches its manifest.\n"
    assert render_plan(plan(unchanged=0)) == "No changes: the plan has no topics.\n"


def test_long_values_are_shortened_unless_asked_for() -> None:
    """A value of thousands of characters is below its key: its beginning, or all of it with ``--verbose``."""
    item = ConfigItem(
        "leader.replication.throttled.replicas", None, ",".join(f"{i}:1" for i in range(500)), SAFE_ASSESSMENT
    )
    found = plan(existing_topic_plan("busy", UpdateConfig((item,))))
    assert "more characters" in render_plan(found)
    assert "more characters" not in render_plan(found, verbose=True)
    assert max(map(len, render_plan(found, verbose=True).splitlines())) <= 80


def test_long_names_have_lines_of_their_own() -> None:
    """A name of 249 characters keeps all its characters within the page, but for the option that is to be copied."""
    name = "x" * 249
    text = render_plan(plan(existing_topic_plan(name, UpdateConfig((RETENTION_CHANGE,)))))
    lines = text.splitlines()
    assert "".join(line.replace("~", "").strip() for line in lines[:4]) == name
    assert lines[4] == "                   configure                                            DataLoss"
    assert lines[-1] == f"    --allow-risk DataLoss={name}"
    assert max(map(len, lines[:-1])) <= 80


@pytest.mark.parametrize(("count", "option"), [(20, "DataLoss=t00,t01,"), (21, "DataLoss=TOPIC,...")])
def test_each_topic_that_may_lose_data_is_named_once(count: int, option: str) -> None:
    """Topics that the option of a consent does not name are listed above it."""
    lossy = (existing_topic_plan(f"t{number:02}", UpdateConfig((RETENTION_CHANGE,))) for number in range(count))
    end = render_plan(plan(*lossy)).partition(f"{count} changes may lose data:")[2]
    assert option in end
    assert end.count("t00") == 1


def test_names_stay_whole_for_programs() -> None:
    """Without a terminal a name of 249 characters is one word in each place of a plan, and so is a rack."""
    name, rack = "Q" * 249, "zone-" + "1" * 40
    topics = (
        existing_topic_plan(name, UpdateConfig((RETENTION_CHANGE,))),
        TopicPlan("new", changes=(CreateTopic(((1,),), {}),)),
    )
    found = replace(plan(*topics), cluster=name, orphans=(name,), brokers=(Broker(1, rack),))
    for show in (format_plans, format_topic_lines):
        text = show([found], TextLayout(verbose=True))
        assert text.count("Q") == text.count(name) * 249 > 249
    assert f"rack {rack}" in format_plans([found], TextLayout())
    assert f"rack zone-{'1' * 6}...{'1' * 10}" in format_plans([found], TextLayout(spare_width=0))


def test_a_danger_is_a_warning_though_its_topic_has_no_block() -> None:
    """Of many adoptions, the topic that may be the state of other software is named with the message."""
    notice = Issue(Reason.MAY_NEED_PROTECTION, "named like the state of other software")
    topics = tuple(
        TopicPlan(name, topic(name, record=None), None, OWN_RECORD, (TakeOwnership(),), notices=notices)
        for name, notices in (("a", ()), ("b", ()), ("my-offsets", (notice,)), ("z", ()))
    )
    assert "  warning          my-offsets: named like the state of other software\n" in render_plan(plan(*topics))


def test_of_many_old_values_the_usual_ones_are_shown() -> None:
    """Six values before a default of the cluster are shown, and the others are counted."""
    items = (
        ConfigItem("min.insync.replicas", str(before), "2", SAFE_ASSESSMENT, inherited=True) for before in range(3, 11)
    )
    topics = [existing_topic_plan(f"t{number}", UpdateConfig((item,))) for number, item in enumerate(items)]
    text = render_plan(plan(*topics))
    assert text.count("-> 2  in 1 topic\n") == 6
    assert "                   and 2 other values\n" in text
    assert "other value" not in render_plan(plan(*topics[:6]))


SINCE = "frozen by ops since 2026-01-31T12:00:00Z"
HOLDERS = {
    Reason.FROZEN: (f"the cluster is {SINCE}: disks: two of them", SINCE),
    Reason.KRAFT_CONTROLLER: (
        "a KRaft controller (3000) is active: it would ignore it",
        "a KRaft controller (3000) is active",
    ),
    Reason.KRAFT_MIGRATION: ("/migration exists: a migration", "a migration to KRaft has begun"),
    Reason.NO_CONTROLLER: ("/controller does not exist: an election", "there is no controller"),
}


@pytest.mark.parametrize("reason", HOLDERS)
def test_what_a_closed_cluster_holds_back_is_pending_and_no_refusal(reason: Reason) -> None:
    """The summary counts changes withheld by a write block as pending by kind, and other refusals as refused."""
    message, brief = HOLDERS[reason]
    held = Issue(
        reason, message, withheld=(UpdateConfig((RETENTION_CHANGE,)), AddPartitions(1, (1,), ((2,),), SAFE_ASSESSMENT))
    )
    other = Issue(Reason.FEWER_PARTITIONS, "has 6 partitions, wanted 3")
    adopted = Issue(reason, message, withheld=(TakeOwnership(),))
    findings = ((held,), (held, other), (adopted,))
    topics = [existing_topic_plan(f"t{number}", findings=found) for number, found in enumerate(findings)]
    closed = replace(plan(*topics), write_block=WriteBlock(reason, message))
    counted = "2 to grow, 2 to configure, 1 record only, held back"
    assert (
        format_summary_line(TextLayout(width=500), count_plan(closed))
        == f"Plan: {counted}: {brief}; 1 refused, 812 unchanged."
    )
    busy = replace(plan(existing_topic_plan("a", UpdateConfig((RETENTION_CHANGE,)))), cluster="us", unchanged=0)
    both = format_summary_line(TextLayout(width=500), count_plans([closed, busy]), "All 2 clusters")
    assert both == f"All 2 clusters: 1 to configure; {counted}: prod-eu: {brief}; 1 refused, 812 unchanged."
    twice = format_summary_line(
        TextLayout(width=500), count_plans([closed, replace(closed, cluster="us")]), "All 2 clusters"
    )
    assert ", held back: on 2 clusters; 2 refused, 1,624 unchanged." in twice


def _fault(name: str, message: str) -> TopicPlan:
    return replace(existing_topic_plan(name), notices=(Issue(Reason.EXISTING_PROBLEM, message),))


def test_faults_that_stand_are_warnings() -> None:
    """Existing problems are warnings: shared ones once, the most frequent first, the first five kinds and the number of
    others.
    """
    found = plan(_fault("a", "rotten"), *(_fault(f"b{number:02}", "mouldy") for number in range(20)))
    assert render_plan(found) == (
        "  warning          20 topics: mouldy\n"
        "                   b00, b01, b02, b03, b04, b05, b06, b07, b08, b09, b10,\n"
        "                   ... 9 more\n"
        "  warning          a: rotten\n"
        "\nNo changes: 812 topics match their manifests.\n"
    )
    lines = render_plan(plan(*(_fault(f"t{number:04}", f"fault {number}") for number in range(1005)))).splitlines()
    assert lines[:5] == [f"  warning          t000{number}: fault {number}" for number in range(5)]
    assert lines[5] == "  warning          1,000 more (-v shows them)"
    assert "      warning      rotten\n" in render_plan(found, verbose=True)


def test_many_brokers_are_shown_by_rack() -> None:
    """Beyond twenty brokers the table has a row per rack; with ``--verbose`` it has all brokers."""
    brokers = tuple(Broker(number, "ab"[number % 2]) for number in range(30))
    found = replace(
        plan(TopicPlan("a", changes=(CreateTopic(((0, 1), (1, 2)), {}),))),
        brokers=brokers,
        load={broker.id: Load(1, 2) for broker in brokers},
    )
    short = format_plans([found], TextLayout())
    assert (
        "      rack a (15 brokers)  15 -> 16          30 -> 32\n      rack b (15 brokers)  15 -> 16          30 -> 32\n"
    ) in short
    assert format_plans([found], TextLayout(verbose=True)).count("(rack ") == 30


def test_many_leaders_leave_two_blanks_before_the_replicas() -> None:
    """The column of the leaders is as wide as its widest text needs."""
    found = replace(
        plan(TopicPlan("a", changes=(CreateTopic(((1,),), {}),))),
        brokers=(Broker(1),),
        load={1: Load(10_000_000, 20_000_000)},
    )
    assert (
        "  brokers          leaders                   replicas\n"
        "      1            10,000,000 -> 10,000,001  20,000,000 -> 20,000,001\n"
    ) in format_plans([found], TextLayout())


@pytest.mark.parametrize(
    ("brokers", "words"),
    [
        ((), "no brokers"),
        ((Broker(1), Broker(2)), "2 brokers without racks"),
        ((Broker(1, "a"), Broker(2)), "2 brokers in 1 rack (1 without)"),
        ((Broker(1, ""),), "1 broker in 1 rack"),
    ],
)
def test_the_header_counts_brokers_and_racks(brokers: tuple[Broker, ...], words: str) -> None:
    """The header has the number of brokers and racks; an empty rack name is a rack."""
    found = Plan(cluster="", cluster_id="", brokers=brokers)
    assert format_plans([found], TextLayout()).startswith(f"cluster without id, {words}, no controller\n")


@pytest.mark.parametrize(
    ("controller", "epoch", "mode", "words"),
    [
        (None, 0, ClusterMode.ZOOKEEPER, "no controller"),
        (None, 7, ClusterMode.KRAFT, "no controller"),
        (1, 0, ClusterMode.KRAFT, "controller unknown"),
        (1, 7, ClusterMode.KRAFT, "controller 1, epoch 7"),
        (1, 0, ClusterMode.ZOOKEEPER, "controller 1"),
    ],
)
def test_the_header_has_the_controller_as_far_as_it_is_known(
    controller: int | None, epoch: int, mode: ClusterMode, words: str
) -> None:
    """Brokers in KRaft mode name any of themselves as controller, so that one without an epoch is not shown."""
    found = Plan(
        cluster="", cluster_id="", controller=controller, controller_epoch=epoch, config_rules=ConfigRules(mode=mode)
    )
    assert format_plans([found], TextLayout()).startswith(f"cluster without id, no brokers, {words}\n")


def test_a_cluster_with_a_long_name_has_it_on_a_line_of_its_own() -> None:
    """The header of a cluster with a name of half a page stays within the page."""
    text = format_plans([replace(plan(), cluster="c" * 200)], TextLayout(spare_width=0))
    assert text.startswith("c" * 80 + "\n" + "c" * 80 + "\n" + "c" * 40 + "\n    cluster ID,")


def test_summaries_break_between_their_parts() -> None:
    """A summary longer than a line breaks after a comma."""
    found = replace(plan(existing_topic_plan("clicks", UpdateConfig((RETENTION_CHANGE,)))), orphans=("a",))
    assert "Plan: 1 to configure, 812 unchanged,\n1 not in the given paths.\n" in render_plan(found, width=44)


def test_colour_changes_nothing_but_colour() -> None:
    """A coloured plan without its ANSI sequences equals the plain plan, which has none."""
    grow = AddPartitions(6, (1, 2, 3), spread_replicas(12)[6:], KEY_REMAPPING_RISK)
    found = plan(
        existing_topic_plan("clicks", grow, UpdateConfig((RETENTION_CHANGE,))),
        existing_topic_plan("b", findings=(Issue(Reason.FROZEN, "x"),)),
    )
    plain, coloured = format_plans([found], TextLayout()), format_plans([found], TextLayout(use_color=True))
    assert "\x1b" not in plain
    assert "\x1b[1;31mDataLoss\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


ANY = st.text(st.characters(), min_size=1, max_size=300)


@given(name=ANY, value=ANY, rack=ANY, message=ANY, verbose=st.booleans(), width=st.integers(60, 140))
def test_whatever_a_cluster_holds_only_printable_text_comes_out(
    name: str, value: str, rack: str, message: str, verbose: bool, width: int
) -> None:
    """Control characters, ANSI, direction marks and surrogates never reach a terminal, also in short forms, and no line
    of a plan exceeds the page. The option of a consent is one line, so that it can be copied.
    """
    items = (
        ConfigItem(name, value, value, RiskAssessment(Risk.DATA_LOSS, message)),
        ConfigItem(value, None, name, SAFE_ASSESSMENT),
    )
    finding = Issue(Reason.NOT_ADOPTED, message, (name,), value, (CreateTopic(((1, 2),), {name: value}),))
    found = Plan(
        cluster=name,
        cluster_id=value,
        brokers=(Broker(1, rack[:20]),),
        topics=(
            replace(existing_topic_plan(name, UpdateConfig(items), findings=(finding,)), notices=(finding,)),
            TopicPlan(value, changes=(CreateTopic(((1, 2),), {name: value}),)),
        ),
        orphans=(name,),
        warnings=(message,),
        write_block=WriteBlock(Reason.FROZEN, message),
    )
    lines = format_plans([found], TextLayout(width=width, verbose=verbose, spare_width=0)).split("\n")
    short = format_topic_lines([found] * 2, TextLayout()) + format_summaries([found] * 2, TextLayout())
    assert all(line.isprintable() for line in (*lines, *short.split("\n")))
    assert max(len(line) for line in lines if "--allow-risk" not in line) <= max(width, 80)


# Short forms: a line for each topic, or the summary only.

LOSSES = "1 change may lose data:{}\n    old\n"


def mixed() -> Plan:
    """Return a plan with topics that are created, deleted, grown and partly refused, refused, noticed, and
    unchanged.
    """
    seen = builders.state(topic("old"), topic("clicks"), topic("theirs", record=None), topic("same"))
    wanted = [
        spec("orders"),
        spec("old", ensure="Absent"),
        spec("clicks", partitions=6, replicationFactor=3),
        spec("theirs", partitions=6),
        spec("same"),
    ]
    return builders.plan(seen, *wanted)


TS = [f"t{number}" for number in range(9)]


def test_many_topics_have_a_line_each() -> None:
    """Text that a full plan shows once for many topics appears at each topic."""
    found = format_topic_lines(
        [builders.plan(builders.state(*(topic(f"t{n}", record=None) for n in range(9))), *map(spec, TS))], TextLayout()
    )
    assert [line.split()[:2] for line in found.splitlines() if line.startswith("  ")] == [["=", name] for name in TS]


def test_lines_of_topics_are_aligned_by_the_longest_name() -> None:
    """The actions of all topics begin in one column, behind the longest name."""
    names = ["a", "n" * 28]
    found = format_topic_lines([builders.plan(builders.state(), *map(spec, names))], TextLayout())
    short, long = [line for line in found.splitlines() if line.startswith("  +")]
    assert short.index("create") == long.index("create") == len(f"  + {names[1]}") + 2


def test_a_line_has_what_is_done_before_what_is_not() -> None:
    """The action of a topic stands before its refusals, and these before what its cluster holds back."""
    issues = (Issue(Reason.FEWER_PARTITIONS, "no"), Issue(Reason.FROZEN, "no"))
    found = TopicPlan("a", changes=(TakeOwnership(SAFE_ASSESSMENT),), refusals=issues)
    (line,) = format_topic_line(TextLayout(), found)
    assert re.findall(r"update|refused|held back", line) == ["update", "refused", "held back"]


def test_notices_without_a_noun_are_counted_by_their_reason() -> None:
    """The reason is the noun of one notice and of several."""
    noticed = [replace(existing_topic_plan(name), notices=(Issue(Reason.RETENTION_STEP, "no"),)) for name in ("a", "b")]
    for count in (1, 2):
        shown = f"  notices          {count} {Reason.RETENTION_STEP.value} (-v shows them)\n"
        assert shown in render_plan(plan(*noticed[:count]))


def test_only_how_plans_end() -> None:
    """One plan has its usual summary; several have the names of their clusters and a total."""
    one, idle = mixed(), builders.plan(builders.state(topic("same")), spec("same"))
    end = "1 to create, 1 to grow, 1 to delete, 2 refused, 1 unchanged.\n"
    assert format_summaries([one], TextLayout(), applying=True) == f"Plan: {end}" + LOSSES.format("")
    assert format_summaries([one, replace(idle, cluster="test")], TextLayout(), applying=True) == (
        f"prod: {end}{LOSSES.format('')}"
        "test: no changes, 1 topic matches its manifest.\n"
        "\n"
        "All 2 clusters: 1 to create, 1 to grow, 1 to delete, 2 refused, 2 unchanged.\n"
    )
    assert format_summaries([], TextLayout()) == format_topic_lines([], TextLayout()) == ""


def test_a_closed_cluster_is_named() -> None:
    """A write block is in the header of the one form, and beside the summary in the other."""
    closed = replace(mixed(), write_block=WriteBlock(Reason.FROZEN, "the cluster is frozen: until noon"))
    assert "write block: Frozen" in format_topic_lines([closed], TextLayout())
    first = format_summaries([closed], TextLayout()).splitlines()[0]
    assert first == "prod: write block: Frozen: the cluster is frozen: until noon; nothing is written"
    nameless = format_summaries([replace(closed, cluster="")], TextLayout())
    assert nameless.startswith("write block: Frozen: the cluster is frozen: until noon; nothing is written\n")

"""Plan text for a whole cluster: shared changes, header, brokers, notices, summary, and unusual text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import CLUSTER_ID, PositionedSource, spec, spread_replicas, state, topic
from support.plans import KEY_REMAPPING_RISK, OWN_RECORD, RETENTION_CHANGE, existing_topic_plan, plan, render_plan
from topiarist.errors import Reason
from topiarist.kafka.config_rules import ConfigRules
from topiarist.kafka.types import Broker, ClusterMode
from topiarist.model.moves import ReplicaMove
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    AddPartitions,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    Issue,
    Load,
    MoveReplicas,
    Plan,
    Risk,
    RiskAssessment,
    RunOptions,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import WriteBlock
from topiarist.output.groups import count_plan, count_plans
from topiarist.output.text.layout import TextLayout
from topiarist.output.text.plan import format_plans, format_summary_line
from topiarist.planning.planner import make_plan


def test_many_adoptions_are_one_block() -> None:
    """Many topics with only a record to write are one block with their names."""
    topics = tuple(
        TopicPlan(f"t{i:02}", topic(f"t{i:02}", record=None), None, OWN_RECORD, (TakeOwnership(),)) for i in range(14)
    )
    assert render_plan(plan(*topics)) == (
        "  = 14 topics      adopt (ownership record only)                            Safe\n"
        "      topics       t00, t01, t02, t03, t04, t05, t06, t07, t08, t09, t10,\n"
        "                   ... 3 more\n"
        "\n"
        "Plan: 14 to adopt, 812 unchanged.\n"
    )
    assert "t10, t11,\n                   t12, t13\n" in render_plan(plan(*topics), verbose=True)


def test_a_danger_is_a_warning_though_its_topic_has_no_block() -> None:
    """Of many adoptions, the topic that may be the state of other software is named with the message."""
    notice = Issue(Reason.MAY_NEED_PROTECTION, "named like the state of other software")
    topics = tuple(
        TopicPlan(name, topic(name, record=None), None, OWN_RECORD, (TakeOwnership(),), notices=notices)
        for name, notices in (("a", ()), ("b", ()), ("my-offsets", (notice,)), ("z", ()))
    )
    assert "  warning          my-offsets: named like the state of other software\n" in render_plan(plan(*topics))


DEFAULTS = ClusterSpec(
    name="prod-eu",
    default_config={"min.insync.replicas": "2"},
    source=PositionedSource("clusters.yaml", {("spec", "defaults", "config", "min.insync.replicas"): (14, 7)}),
)


def touched(name: str, before: str | None, *more: ConfigItem) -> TopicPlan:
    """Return a topic that a default of the cluster changes."""
    verdict = RiskAssessment(Risk.DISRUPTIVE, f"replicas that confirm a write: {before or 'unknown'} to 2")
    items = (ConfigItem("min.insync.replicas", before, "2", verdict, inherited=True), *more)
    return replace(existing_topic_plan(name, UpdateConfig(items)), spec=spec(name, DEFAULTS))


def test_a_default_that_touches_many_topics_is_shown_once() -> None:
    """A key from the cluster's defaults is one block with its place, previous values and topics."""
    topics = [touched(f"t{i}", None) for i in range(6)] + [touched(f"u{i}", "1") for i in range(2)]
    assert render_plan(plan(*topics)) == (
        "  ~ min.insync.replicas  from the cluster's defaults, 8 topics        Disruptive\n"
        "      risk         6 topics: replicas that confirm a write: unknown to 2\n"
        "                   2 topics: replicas that confirm a write: 1 to 2\n"
        "      config       + min.insync.replicas  2  in 6 topics\n"
        "                   ~ min.insync.replicas  1 -> 2  in 2 topics\n"
        "      at           clusters.yaml:14:7\n"
        "      topics       t0, t1, t2, t3, t4, t5, u0, u1\n"
        "\n"
        "Plan: 8 to configure, 812 unchanged.\n"
    )


def test_of_many_old_values_the_usual_ones_are_shown() -> None:
    """Six values before a default are shown, and the others are counted."""
    topics = [touched(f"t{number}", str(number + 3)) for number in range(8)]
    text = render_plan(plan(*topics))
    assert text.count("-> 2  in 1 topic\n") == 6
    assert "                   and 2 other values\n" in text
    assert "other value" not in render_plan(plan(*topics[:6]))


def test_what_a_topic_changes_of_its_own_is_shown_beside_a_shared_default() -> None:
    """A topic with a shared default and changes of its own shows its own changes and counts the others."""
    topics = [touched(f"t{i}", None) for i in range(6)]
    topics[3] = touched("t3", None, RETENTION_CHANGE)
    text = render_plan(plan(*topics))
    assert [line.split()[1] for line in text.splitlines() if line.startswith("  ~ ")] == ["min.insync.replicas", "t3"]
    assert (
        "      config       ~ retention.ms  86400000 -> 3600000  (1 day -> 1 hour)\n"
        "                   and 1 key from the cluster's defaults, see above\n"
    ) in text


def test_a_default_that_touches_few_topics_stays_with_them() -> None:
    """Below the limit, each topic shows the key with its source."""
    text = render_plan(plan(touched("t0", None), touched("t1", "1")))
    assert "+ min.insync.replicas  2  from the cluster's defaults\n" in text
    assert "~ min.insync.replicas  1 -> 2  from the cluster's defaults\n" in text


def test_equal_refusals_of_many_topics_are_one_block() -> None:
    """The refusals of many topics by an offline broker are one block; its hint has TOPIC in place of a name."""
    topics = [
        existing_topic_plan(
            f"t{i}", findings=(Issue(Reason.DATA_LOSS, "may lose data", (), f"--allow-risk DataLoss=t{i}"),)
        )
        for i in range(5)
    ]
    assert render_plan(plan(*topics)) == (
        "  ! 5 topics       refused: may lose data\n"
        "      at           topics/t0.yaml:1:1 and 4 more                        DataLoss\n"
        "      fix          --allow-risk DataLoss=TOPIC\n"
        "      topics       t0, t1, t2, t3, t4\n"
        "\n"
        "Nothing can be applied: 5 refused, 812 unchanged.\n"
    )


def test_a_closed_cluster_is_said_once() -> None:
    """The header has the reason of the write block; topics show the withheld changes without the reason."""
    message = "/migration exists: the cluster is on its way to KRaft"
    finding = Issue(Reason.KRAFT_MIGRATION, message, withheld=(UpdateConfig((RETENTION_CHANGE,)),))
    closed = replace(
        plan(existing_topic_plan("clicks", findings=(finding,))),
        write_block=WriteBlock(Reason.KRAFT_MIGRATION, message),
    )
    text = format_plans([closed], TextLayout())
    assert text == (
        f"prod-eu   cluster {CLUSTER_ID}, 6 brokers in 3 racks, controller 1, epoch 42\n"
        "  write block: KRaftMigration: /migration exists: the cluster is on its way to\n"
        "  KRaft; nothing is written\n"
        "\n"
        "  ! clicks         held back: configure                                 DataLoss\n"
        "      risk         messages older than 1 hour will be deleted\n"
        "      config       ~ retention.ms  86400000 -> 3600000  (1 day -> 1 hour)\n"
        "\n"
        "Plan: 1 to configure, held back: a migration to KRaft has begun; 812 unchanged.\n"
    )


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


def test_what_a_budget_holds_back_is_pending_too() -> None:
    """The summary counts changes withheld by a budget beside those that are applied."""
    deletion = DeleteTopic(1, 3, SAFE_ASSESSMENT)
    held = Issue(Reason.BUDGET_EXCEEDED, "2 deletions, 1 allowed", hint="raise the budget", withheld=(deletion,))
    found = plan(
        existing_topic_plan("a", findings=(held,)),
        existing_topic_plan("b", findings=(held,)),
        existing_topic_plan("c", UpdateConfig((RETENTION_CHANGE,))),
    )
    text = render_plan(found)
    assert "Plan: 1 to configure; 2 to delete, held back: over budget; 812 unchanged.\n" in text
    assert text.count("  over budget      2 deletions, 1 allowed\n  fix              raise the budget\n") == 1


def test_notices_are_counted_or_shown() -> None:
    """Notices about unmanaged keys are one number, or one line each with ``--verbose``."""
    notice = Issue(Reason.UNMANAGED, "flush.ms 7: left alone")
    found = plan(
        replace(existing_topic_plan("a"), notices=(notice,)), replace(existing_topic_plan("b"), notices=(notice,))
    )
    assert render_plan(found) == (
        "  notices          2 unmanaged config keys (-v shows them)\n\nNo changes: 812 topics match their manifests.\n"
    )
    assert render_plan(found, verbose=True).startswith(
        "  . a              nothing to do\n"
        "      note         flush.ms 7: left alone\n"
        "\n"
        "  . b              nothing to do\n"
        "      note         flush.ms 7: left alone\n"
    )


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


def test_what_others_changed_is_told_beside_our_change() -> None:
    """A notice about an external change is in the block of the change, also on a short page."""
    notice = Issue(Reason.MODIFIED_EXTERNALLY, "another client changed its config")
    found = replace(existing_topic_plan("clicks", UpdateConfig((RETENTION_CHANGE,))), notices=(notice,))
    text = render_plan(plan(found))
    assert "      note         another client changed its config\n" in text
    assert "notices" not in text


def test_orphans_and_warnings_stand_before_the_summary() -> None:
    """Undeclared topics and warnings are at the end, where a long plan is still on the screen."""
    found = replace(plan(), orphans=("gone", "left"), warnings=("no clusterId guards this cluster",))
    end = (
        "  warning          no clusterId guards this cluster\n\nNo changes: 812 unchanged, 2 not in the given paths.\n"
    )
    assert render_plan(found) == f"  orphans          2 owned topics not in the given paths (-v lists them)\n{end}"
    listed = "  orphans          2 owned topics not in the given paths:\n                   gone, left\n"
    assert render_plan(found, verbose=True) == f"{listed}{end}"


def test_topics_that_are_not_in_the_given_paths_take_one_line() -> None:
    """Undeclared topics take one line, so the plan of one file does not list all others."""
    found = render_plan(replace(plan(), orphans=tuple(f"topic-{number:05}" for number in range(12_345))))
    assert found.count("\n") == 3
    assert "  orphans          12,345 owned topics not in the given paths (-v lists them)\n" in found


def test_brokers_have_a_row_each_with_their_rack() -> None:
    """A broker row has leaders and replicas before and after, equal values once, and a mark if it is not registered."""
    create = CreateTopic(((1, 2), (1, 2)), {})
    found = replace(
        plan(TopicPlan("a", changes=(create,))),
        load={1: Load(98, 300), 2: Load(120, 360), 3: Load(7, 9), 9: Load(0, 5)},
    )
    assert (
        "  brokers                 leaders           replicas\n"
        "      1 (rack a)           98 -> 100        300 -> 302\n"
        "      2 (rack b)          120               360 -> 362\n"
        "      3 (rack c)            7                 9\n"
        "      9 (not registered)    0                 5\n"
    ) in render_plan(found)


def test_brokers_show_what_they_copy_and_whether_they_are_empty() -> None:
    """A plan that moves replicas has what comes in and goes out for each broker, and what is left of drained ones."""
    moves = (ReplicaMove("a", 0, (1, 2), (3, 2)), ReplicaMove("a", 1, (2, 1), (2, 3)))
    move = MoveReplicas(moves, RiskAssessment(Risk.DISRUPTIVE, "copies"))
    found = replace(
        plan(existing_topic_plan("a", move)),
        load={1: Load(1, 2), 2: Load(1, 1003), 3: Load(0, 0)},
        brokers=(Broker(1), Broker(2), Broker(3)),
        drain_brokers=frozenset({1, 2}),
    )
    assert (
        "  brokers          leaders           replicas           in    out\n"
        "      1            1 -> 0                2 ->     0      0      2   drained\n"
        "      2            1                 1,003               0      0   draining: 1,003 left\n"
        "      3            0 -> 1                0 ->     2      2      0\n"
    ) in render_plan(found)


def test_a_broker_without_a_rack_has_only_its_id() -> None:
    """On a cluster without racks no row has a remark."""
    found = replace(plan(TopicPlan("a", changes=(CreateTopic(((1, 2),), {}),))), brokers=(Broker(1), Broker(2)))
    assert "\n      1            0 -> 1" in render_plan(found)


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
        (1, 0, ClusterMode.KRAFT, "controller not known"),
        (1, 7, ClusterMode.KRAFT, "controller 1, epoch 7"),
        (1, 0, ClusterMode.ZOOKEEPER, "controller 1, epoch 0"),
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


def test_several_clusters_end_with_all_of_them() -> None:
    """Several clusters are in sequence, and one line counts them together."""
    text = format_plans(
        [plan(existing_topic_plan("clicks", UpdateConfig((RETENTION_CHANGE,)))), replace(plan(), cluster="prod-us")],
        TextLayout(),
    )
    assert "\nprod-us   cluster " in text
    assert text.endswith("\n\nAll 2 clusters: 1 to configure, 1,624 unchanged.\n")
    text = format_plans([plan(), replace(plan(), cluster="prod-us")], TextLayout())
    assert text.endswith("\n\nAll 2 clusters: no changes, 1,624 topics match their manifests.\n")


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
    """Control characters, ANSI, direction marks and surrogates never reach a terminal, and no line exceeds the page.

    The option of a consent is one line, so that it can be copied.
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
    assert all(line.isprintable() for line in lines)
    assert max(len(line) for line in lines if "--allow-risk" not in line) <= max(width, 80)


def test_a_real_plan_keeps_within_the_page_and_is_the_same_each_time() -> None:
    """A plan from state and specs has at most 80 columns, and identical bytes for identical input."""
    cluster_state = state(
        topic("payments", 6), topic("audit", 48), topic("others", 3, record=None, config={"retention.ms": "9"})
    )
    eu = ClusterSpec(name="prod-eu", version=(3, 9), default_config={"min.insync.replicas": "2"})
    specs = [spec("orders", eu, partitions=12), spec("payments", eu, partitions=12), spec("audit", eu, partitions=12)]
    specs.append(spec("others", eu, config={"retention.ms": 3600000}))
    first = format_plans([make_plan(cluster_state, eu, specs, RunOptions())], TextLayout())
    assert first == format_plans([make_plan(cluster_state, eu, specs, RunOptions())], TextLayout())
    assert max(map(len, first.splitlines())) <= 80
    assert "Plan: 1 to create, 1 to grow" in first

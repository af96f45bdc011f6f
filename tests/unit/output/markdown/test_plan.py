"""Plans as Markdown comments: order by severity, truncation at the size limit, valid structure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from operator import mul

import pytest
from hypothesis import given
from msgspec.structs import replace

from support.builders import spread_replicas
from support.plans import DATA_LOSS_RISK, KEY_REMAPPING_RISK, RETENTION_CHANGE, existing_topic_plan, plan
from support.repo.github_markdown import parse_page
from support.strategies import PlanInput, plan_inputs
from topiarist.errors import Diagnostic, Location, Reason
from topiarist.kafka.types import Broker
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    AddPartitions,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    Issue,
    Plan,
    Risk,
    RiskAssessment,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.state import WriteBlock
from topiarist.output.markdown import plan as plan_
from topiarist.output.markdown.sections import PRIORITY_CRITICAL, PRIORITY_INFO, PRIORITY_LOW, Section
from unit.output.markdown.test_sections import outside

ROOT = "/repo"
FEWER = Issue(
    Reason.FEWER_PARTITIONS,
    "48 -> 12 partitions: Kafka cannot remove partitions",
    ("partitions",),
    "set partitions: 48, or create a new topic",
)
CREATE = CreateTopic(spread_replicas(3), {"retention.ms": "604800000"})


def shown(*found: Plan, failed: Sequence[str] = ()) -> str:
    """Return the comment, after a check of its size limit and structure."""
    text = plan_.format_plans(found, failed, ROOT)
    assert len(text.encode()) <= plan_.MAX_COMMENT_BYTES
    assert text.startswith(f"{plan_.COMMENT_MARKER}\n")
    assert parse_page(text).errors == []
    return text


def below(text: str, head: str) -> str:
    """Return the section with this heading."""
    return text.partition(f"#### {head}\n")[2].partition("\n####")[0].partition("\n</details>")[0].strip()


def test_a_comment_begins_with_a_row_for_each_cluster() -> None:
    """The table has one row per cluster with changes, refusals and the highest risk, including a cluster without a
    plan.
    """
    grow = existing_topic_plan("payments", AddPartitions(6, (1, 2, 3), spread_replicas(12)[6:], KEY_REMAPPING_RISK))
    one = plan(TopicPlan("orders", changes=(CREATE,)), grow, existing_topic_plan("audit", findings=(FEWER,)))
    other = replace(
        plan(
            existing_topic_plan("old", DeleteTopic(12, 36, DATA_LOSS_RISK)), existing_topic_plan("new", TakeOwnership())
        ),
        cluster="prod-us",
    )
    text = shown(one, other, failed=["prod-ap"])
    assert text.split("<details open>")[0] == (
        "<!-- topiarist plan -->\n"
        "### Plan: 1 to create, 1 to grow, 1 to delete, 1 record only, 1 refused, 1,624 unchanged.\n"
        "\n"
        "**1 cluster could not be planned: see the log of the run.**\n"
        "\n"
        "| cluster | create | grow | delete | record | refused | highest risk |\n"
        "| :-- | --: | --: | --: | --: | --: | :-- |\n"
        "| `prod-ap` |  |  |  |  |  | **not planned** |\n"
        "| `prod-eu` | 1 | 1 |  |  | 1 | **Disruptive** |\n"
        "| `prod-us` |  |  | 1 | 1 |  | **DataLoss** |\n"
        "| **all** | 1 | 1 | 1 | 1 | 1 | **DataLoss** |\n"
        "\n"
        "**May lose data**\n"
        "\n"
        "- on `prod-us`: `old`\n"
        "\n"
        "**Refused**\n"
        "\n"
        "- on `prod-eu`: `audit`\n"
        "\n"
    )
    assert parse_page(text).tags["details"] == 2


def test_the_option_of_a_consent_is_above_the_changes() -> None:
    """A plan that may lose data has the option that a run with --yes needs, as the last line in a terminal has it."""
    lossy = [existing_topic_plan(name, UpdateConfig((RETENTION_CHANGE,))) for name in ("pay.orders", "clicks")]
    text = shown(plan(*lossy))
    advice = "**2 changes may lose data**: confirm it in apply, or pass to a run with --yes: "
    assert f"\n\n{advice}`--allow-risk DataLoss=pay.orders,clicks`\n\n" in text
    assert "--allow-risk" not in shown(plan(TopicPlan("orders", changes=(CREATE,))))


def test_a_refusal_that_gives_the_explanation_still_shows_the_risk() -> None:
    """The explanation is not repeated, and the withheld change is not called safe."""
    held = Issue(
        Reason.POLICY_DENIED, f"no: {DATA_LOSS_RISK.explanation}", withheld=(UpdateConfig((RETENTION_CHANGE,)),)
    )
    text = below(shown(plan(existing_topic_plan("a", findings=(held,)))), "`a`: refused (PolicyDenied)")
    assert "- held back: configure\n- **DataLoss**\n" in text


def test_what_many_topics_share_is_shown_once() -> None:
    """A cluster default, a record to write and a refusal have one section each for all their topics."""
    item = ConfigItem("retention.ms", None, "604800000", SAFE_ASSESSMENT, inherited=True)
    defaults = [existing_topic_plan(f"d{number}", UpdateConfig((item,))) for number in range(812)]
    records = [existing_topic_plan(f"r{number}", TakeOwnership()) for number in range(5)]
    closed = Issue(Reason.FROZEN, "", (), "", (UpdateConfig((RETENTION_CHANGE,)),))
    refused = [existing_topic_plan(f"c{number}", findings=(closed,)) for number in range(6)]
    text = shown(replace(plan(*defaults, *records, *refused), write_block=WriteBlock(Reason.FROZEN, "frozen")))
    assert re.findall("#### (.*)", text) == [
        "6 topics: held back: configure",
        "`retention.ms`: from the cluster's defaults, 812 topics",
        "5 topics: update the ownership record",
    ]
    assert "`d18` and 793 more\n" in text


def test_what_is_grave_comes_first() -> None:
    """The order is refusals and data loss, disruptive changes, safe changes, observed topics."""
    topics = [
        TopicPlan("a", changes=(CREATE,)),
        existing_topic_plan("b", AddPartitions(6, (1, 2, 3), spread_replicas(8)[6:], KEY_REMAPPING_RISK)),
        existing_topic_plan("c", UpdateConfig((RETENTION_CHANGE,))),
        existing_topic_plan("d", findings=(FEWER,)),
        replace(existing_topic_plan("e", UpdateConfig((RETENTION_CHANGE,))), observe_only=True),
    ]
    assert re.findall("#### `(.)`", shown(plan(*topics))) == ["c", "d", "b", "a", "e"]


def test_what_concerns_the_cluster_stands_at_its_end() -> None:
    """Warnings, undeclared topics, and notices of topics without a section are at the end, each kind once."""
    left = Issue(Reason.UNMANAGED, "config key left alone: segment.ms=1000")
    fault = Issue(Reason.EXISTING_PROBLEM, "partition 0 has no leader")
    quiet = [replace(existing_topic_plan(name), notices=(left, fault)) for name in ("a", "b")]
    text = shown(replace(plan(*quiet), orphans=("lost", "x"), warnings=("no clusterId: add clusterId: 7s-Yk",)))
    assert below(text, "Warnings") == "- no clusterId: add clusterId: `7s-Yk`"
    assert below(text, "Not in the given paths") == "- 2 owned topics: `lost`, `x`"
    assert below(text, "Notices").splitlines()[:2] == [
        "- warning: `a`, `b`: partition 0 has no leader",
        "- note: `a`, `b`: config key left alone: `segment.ms=1000`",
    ]


def test_what_the_head_of_a_closed_cluster_says_is_not_said_again() -> None:
    """A topic withheld by the write block shows only its changes and their risks."""
    held = Issue(Reason.FROZEN, "frozen by somebody", (), "unfreeze it", (UpdateConfig((RETENTION_CHANGE,)),))
    found = plan(existing_topic_plan("a", findings=(held,)))
    closed = shown(replace(found, write_block=WriteBlock(Reason.FROZEN, "frozen by somebody")))
    assert below(closed, "`a`: held back: configure").startswith(
        "- **DataLoss**: messages older than 1 hour will be deleted\n\n"
    )
    assert closed.count("frozen by somebody") == 3
    assert "### Plan: 1 to configure, held back: frozen by somebody; 812 unchanged.\n" in closed
    assert "| `prod-eu` | (1) | (held back: `frozen by somebody`) |" in closed


def test_who_froze_a_cluster_is_text_in_the_title_too() -> None:
    """The user name of a freeze is escaped: it mentions no GitHub user, and ends no cell of the table."""
    message = "the cluster is frozen by @team|x since 2026-01-31T12:00:00Z: <b>why</b>"
    held = Issue(Reason.FROZEN, message, withheld=(UpdateConfig((RETENTION_CHANGE,)),))
    closed = shown(
        replace(plan(existing_topic_plan("a", findings=(held,))), write_block=WriteBlock(Reason.FROZEN, message))
    )
    title = "### Plan: 1 to configure, held back: frozen by `@team|x` since `2026-01-31T12:00:00Z`; 812 unchanged.\n"
    assert title in closed
    assert "(held back: `frozen by @team`&#124;`x since 2026-01-31T12:00:00Z`) |" in closed


def test_what_a_budget_holds_back_is_said_once() -> None:
    """The numbers of a budget and the fix are above the topics, which show only the withheld changes."""
    held = Issue(Reason.BUDGET_EXCEEDED, "9 deletions, 1 allowed", (), "raise it", (DeleteTopic(1, 3, DATA_LOSS_RISK),))
    text = shown(plan(*(existing_topic_plan(name, findings=(held,)) for name in "ab")))
    assert below(text, "Over budget") == "- 9 deletions, 1 allowed\n- fix: raise it"
    assert below(text, "`b`: held back: delete 1 partition and all messages").startswith("- **DataLoss**: messages")
    assert (text.count("9 deletions"), text.index("Over budget") < text.index("`a`")) == (1, True)


def test_no_changes_are_few_words() -> None:
    """No changes, no topics and no plans have three different short texts."""
    assert shown(plan()) == (
        "<!-- topiarist plan -->\n"
        "### No changes: 812 topics match their manifests.\n"
        "\n"
        "| cluster | highest risk |\n"
        "| :-- | :-- |\n"
        "| `prod-eu` |  |\n"
    )
    assert "### No changes: the plan has no topics.\n" in shown(plan(unchanged=0))
    assert "### No plan\n\n**1 cluster could not be planned" in shown(failed=["prod-eu"])
    assert shown() == "<!-- topiarist plan -->\n### No changes: the plan has no topics.\n\n\n"


def test_only_records_to_write_are_no_risk() -> None:
    """A cluster with only records to write shows the names of its topics, and nothing else."""
    text = shown(
        plan(*(replace(existing_topic_plan(f"t{number}", TakeOwnership()), record_before=None) for number in range(30)))
    )
    assert "| `prod-eu` | 30 | Safe |" in text
    assert parse_page(text).tags["h4"] == 1


def test_without_a_name_a_cluster_goes_by_its_id() -> None:
    """A cluster of ``--zookeeper``, which has no name, is called by its cluster id."""
    text = shown(replace(plan(TopicPlan("a", changes=(CREATE,))), cluster=""))
    assert "| `ID` | 1 |" in text
    assert "<summary><b><code>ID</code></b>, " in text


def test_no_address_or_controller_is_shown() -> None:
    """The comment has no address and no controller, so another controller does not change it."""
    found = plan(TopicPlan("a", changes=(CREATE,)))
    moved = replace(found, controller=5, controller_epoch=99, chroot="/secret")
    assert shown(moved) == shown(found)


@pytest.mark.slow
@pytest.mark.parametrize("number", [500, 20_000])
def test_whole_topics_are_cut_the_grave_ones_last(number: int) -> None:
    """Of very many topics, refusals and data loss are shown, and the others are counted."""
    safe = [TopicPlan(f"safe-{at:05}", changes=(CREATE,)) for at in range(number)]
    grave = [
        existing_topic_plan(f"zz-{at}", UpdateConfig((RETENTION_CHANGE._replace(before=f"8640000{at}"),)))
        for at in range(9)
    ]
    text = shown(plan(*safe, *grave))
    assert len(re.findall("#### `zz-", text)) == 9
    kept = len(re.findall("#### `safe-", text))
    assert 200 < kept < number
    assert len(text.encode()) > plan_.MAX_COMMENT_BYTES - 1_000
    assert text.endswith(
        f"\n\n**The comment is full: {number - kept:,} topics not shown.** "
        "The full plan is in the artifact of this run; `topiarist plan -v` prints it too.\n"
    )
    assert "#### Effect on the brokers" in text


def test_grave_topics_that_are_cut_are_counted_apart() -> None:
    """The comment states separately how many topics that are not shown may lose data."""
    grave = [
        existing_topic_plan(f"t{at}", UpdateConfig((RETENTION_CHANGE._replace(before=str(at)),))) for at in range(1_000)
    ]
    text = shown(plan(*grave, TopicPlan("safe", changes=(CREATE,))))
    kept = len(re.findall("#### `t", text))
    assert f"**The comment is full: {1_001 - kept} topics not shown, {1_000 - kept} of them " in text


@pytest.mark.slow
def test_of_many_clusters_each_shows_its_gravest_topics() -> None:
    """With more clusters than fit, the most severe have their row and section first."""
    grow = existing_topic_plan("payments", AddPartitions(6, (1, 2, 3), spread_replicas(300)[6:], KEY_REMAPPING_RISK))
    calm = [replace(plan(grow, TopicPlan("a", changes=(CREATE,))), cluster=f"c{at:04}") for at in range(2_000)]
    grave = [
        replace(plan(existing_topic_plan("old", DeleteTopic(1, 1, DATA_LOSS_RISK))), cluster=f"x{at}")
        for at in range(20)
    ]
    text = shown(*calm, *grave, failed=["down"])
    assert [text.count(f"| `x{at}` |") for at in range(20)] == [1] * 20
    assert len(re.findall("#### `old`", text)) == 20
    assert "| `down` |" in text
    assert re.search(r"\n\| and 1,[0-9]{3} more \|", text)


def test_only_sections_with_nothing_grave_are_folded() -> None:
    """With several clusters, refusals and data loss are visible, and other sections are folded."""
    safe = plan(TopicPlan("orders", changes=(CREATE,)))
    refused = replace(plan(existing_topic_plan("audit", findings=(FEWER,))), cluster="refused")
    losing = replace(plan(existing_topic_plan("old", DeleteTopic(1, 1, DATA_LOSS_RISK))), cluster="losing")
    text = shown(safe, refused, losing)
    heads = re.findall(r"<details( open)?>\n<summary><b><code>([a-z-]+)</code>", text)
    assert heads == [("", "prod-eu"), (" open", "refused"), (" open", "losing")]


def test_the_same_topics_on_many_clusters_are_named_once() -> None:
    """One line names all clusters on which the same topics are refused; excess names and lines are counted."""
    fleet = [replace(plan(existing_topic_plan("audit", findings=(FEWER,))), cluster=f"c{at:02}") for at in range(30)]
    assert "- on `c00`, `c01`, " in shown(*fleet)
    assert "`c18` and 11 more: `audit`\n" in shown(*fleet)
    many = [
        replace(
            plan(*(existing_topic_plan(f"t{at}-{number}", findings=(FEWER,)) for number in range(50))),
            cluster=f"c{at:03}",
        )
        for at in range(100)
    ]
    above = shown(*many).split("<details open>")[0]
    assert "`t0-18` and 31 more\n" in above
    left = re.search(r"\n- and ([0-9]),([0-9]{3}) topics on ([0-9]+) clusters\n", above)
    assert left
    assert int(left[1] + left[2]) == int(left[3]) * 50 > 0


def test_a_row_with_safe_changes_is_kept_before_one_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a table with room for one row, the cluster that has something to review is shown."""
    quiet, safe = replace(plan(), cluster="a-quiet"), replace(plan(TopicPlan("orders", changes=(CREATE,))), cluster="b")
    monkeypatch.setattr(plan_, "_MAX_TABLE_BYTES", 30)
    assert re.findall(r"^\| `(\S+)` \|", shown(quiet, safe), re.MULTILINE) == ["b"]


def test_no_cluster_takes_the_room_of_the_others() -> None:
    """A cluster with very many refusals leaves space for small clusters, in any order."""
    refusals = [FEWER._replace(message=f"has 96 partitions, wanted {at}") for at in range(3_000)]
    huge = replace(
        plan(*(existing_topic_plan(f"h{at}", findings=(each,)) for at, each in enumerate(refusals))), cluster="a-huge"
    )
    grow = existing_topic_plan("payments", AddPartitions(6, (1, 2, 3), spread_replicas(12)[6:], KEY_REMAPPING_RISK))
    small = [replace(plan(TopicPlan("new", changes=(CREATE,)), grow), cluster=f"b{at}") for at in range(8)]
    text = shown(huge, *small)
    assert text.count("#### `new`: create") == text.count("#### `payments`: grow") == 8
    kept = len(re.findall("#### `h[0-9]+`", text))
    assert kept > 20
    assert f"*{3_000 - kept:,} topics not shown, {3_000 - kept:,} of them refused or with DataLoss*" in text
    assert plan_.MAX_COMMENT_BYTES - 4_000 < len(text.encode()) < plan_.MAX_COMMENT_BYTES


def test_a_cluster_without_room_says_how_many_topics_are_not_shown() -> None:
    """Of very many clusters, those cut are named with their counts, the most severe first, and the rest is counted."""
    grow = AddPartitions(6, (1, 2, 3), spread_replicas(300)[6:], KEY_REMAPPING_RISK)
    fleet = [
        replace(plan(existing_topic_plan("a", grow), existing_topic_plan("b", grow)), cluster=f"c{at:04}")
        for at in range(500)
    ]
    text = shown(*fleet)
    assert len(text.encode()) < plan_.MAX_COMMENT_BYTES
    cut = text.partition("**Clusters that do not fit into this comment**\n\n")[2].partition("\n\n")[0].splitlines()
    assert sum(len(line) + 1 for line in ("**Clusters that do not fit into this comment**", "", *cut)) <= 6_000
    assert re.fullmatch(r"- `c[0-9]{4}`: 2 topics not shown", cut[0])
    assert re.fullmatch(r"- [0-9]+ other clusters: [0-9]+ topics not shown", cut[-1])
    others = int(cut[-1].split()[1])
    assert len(cut) - 1 + others + text.count("<details>") == 500
    assert parse_page(text).tags["details"] == text.count("<details>")


@given(plan_inputs())
def test_every_plan_is_a_whole_page(world: PlanInput) -> None:
    """For any plan, the comment names each topic with a change or refusal, and contains no link."""
    found = world.plan()
    read = parse_page(shown(found))
    assert read.references == []
    assert (read.tags["table"], read.tags["a"]) == (1, 0)
    assert read.tags["details"] == bool(found.topics or found.orphans or found.warnings)
    assert {topic.topic for topic in found.topics if topic.refusals or topic.is_actionable} <= set(read.code)


@given(outside.filter(str.strip))
def test_names_and_values_change_nothing_but_themselves(name: str) -> None:
    """Any name, value, key, rack or message yields the same page structure as plain text does."""
    assert _tags(name) == _tags("plain")


def _tags(name: str) -> dict[str, int]:
    """Return the count of each element in the page of a plan that has ``name`` everywhere, except code within text."""
    held = (UpdateConfig((ConfigItem(name, name, name, RiskAssessment(Risk.DATA_LOSS, name)),)),)
    topics = (
        replace(existing_topic_plan(name, findings=(Issue(Reason.NOT_ADOPTED, name, (), name, held),)), spec=None),
        TopicPlan(
            name,
            changes=(CreateTopic(spread_replicas(3), {name: name}),),
            notices=(Issue(Reason.MODIFIED_EXTERNALLY, name),),
        ),
    )
    found = replace(
        plan(*topics),
        cluster=name,
        cluster_id=name,
        brokers=(Broker(1, name),),
        orphans=(name,),
        warnings=(name,),
        write_block=WriteBlock(Reason.FROZEN, name),
    )
    read = parse_page(shown(found, failed=[f"{name}2"]))
    assert read.references == []
    return {tag: times for tag, times in read.tags.items() if tag != "code"}


def test_errors_are_a_comment_too() -> None:
    """Manifest errors yield a comment with the place and message of each error, instead of a plan."""
    found = [Diagnostic(Location("/repo/topics/a.yaml", 9, 15), "partitions: found 0, wanted 1", "ask @team")]
    assert plan_.format_diagnostics(found, 2, ROOT) == (
        "<!-- topiarist plan -->\n"
        "### No plan: 3 errors in the manifests\n"
        "\n"
        "- `topics/a.yaml:9:15`: partitions: found 0, wanted 1\n"
        "  ask `@team`\n"
        "- and 2 more\n"
    )
    long = plan_.format_diagnostics(found * 10_000, 0, ROOT)
    assert len(long.encode()) < plan_.MAX_COMMENT_BYTES
    assert re.search(r"\n- and 9,[0-9]{3} more\n$", long)


def test_a_comment_names_what_it_leaves_out() -> None:
    """The end says where the whole plan is, if there is one; ignored documents are counted in the head."""
    assert shown(plan(TopicPlan("a", changes=(CREATE,)))).rstrip().endswith(plan_.FULL_PLAN_HINT)
    assert plan_.FULL_PLAN_HINT not in shown(plan())
    text = plan_.format_plans([plan()], [], ROOT, 2)
    assert "Ignored 2 documents of other API groups: `-v` names them." in text
    assert "Ignored" not in shown(plan())


def test_a_refusal_is_as_important_as_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the table has no room for all clusters, the riskiest stay; among equals the name decides."""
    refused = replace(plan(existing_topic_plan("x", findings=(FEWER,))), cluster="a")
    losing = replace(plan(existing_topic_plan("x", DeleteTopic(1, 3, DATA_LOSS_RISK))), cluster="b")
    monkeypatch.setattr(plan_, "_MAX_TABLE_BYTES", 30)
    rows = [line for line in shown(losing, refused).splitlines() if line.startswith(("| `", "| and"))]
    assert [row.split(" |")[0] for row in rows] == ["| `a`", "| and 1 more"]


def test_a_table_is_filled_to_its_last_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row counts with its line end; a row that would exceed the limit by one byte is counted instead."""
    fleet = [replace(plan(), cluster=name) for name in ("a", "b", "c")]
    rows = [line for line in shown(*fleet).splitlines() if line.startswith("| `")]
    size = sum(len(row) + 1 for row in rows)
    for limit, kept in ((size, 3), (size - 1, 2)):
        monkeypatch.setattr(plan_, "_MAX_TABLE_BYTES", limit)
        text = shown(*fleet)
        assert text.count("| `") == kept
        assert ("| and 1 more |" in text) is (kept == 2)


def test_a_cluster_that_fails_often_waits_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster with too large sections goes behind the others after each failure, so that all small ones are shown."""
    monkeypatch.setattr(plan_, "MAX_COMMENT_BYTES", 20_000)
    wide = CreateTopic(spread_replicas(1), {f"key.{number:03}": "v" * 60 for number in range(300)})
    refusals = [FEWER._replace(message=f"has {at}") for at in range(100)]
    large = plan(*(existing_topic_plan(f"large{at:02}", wide, findings=(each,)) for at, each in enumerate(refusals)))
    small = plan(existing_topic_plan("small", findings=(FEWER,)))
    fleet = [replace(large, cluster="a")] + [replace(small, cluster=f"b{at}") for at in range(25)]
    text = plan_.format_plans(fleet, [], ROOT)
    assert text.count("#### `small`: refused") == 25
    assert "#### `large" not in text
    assert "100 topics not shown, 100 of them refused or with DataLoss" in text


def fill(max_bytes: int, *clusters: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the numbers of the sections that fit, for clusters with sections of these priorities and sizes."""
    found = [
        plan_._ClusterSections(
            plan(), "", [Section(priority, (), partial(mul, "x", size)) for priority, size in sections]
        )
        for sections in clusters
    ]
    plan_._fill_comment(found, max_bytes)
    return [sorted(cluster.included) for cluster in found]


def test_the_gravest_section_of_all_clusters_comes_first() -> None:
    """Room for one section is for the most important one, whatever else its cluster has."""
    safe, mixed = [(PRIORITY_LOW, 1_000)], [(PRIORITY_CRITICAL, 1_000), (PRIORITY_INFO, 1_000)]
    assert fill(1_300, safe, mixed) == [[], [0]]


@pytest.mark.parametrize(("large", "included"), [(50, [50]), (51, [])])
def test_fifty_failures_and_one_for_each_cluster_are_permitted(large: int, included: list[int]) -> None:
    """Behind 50 sections of the only cluster that do not fit a small one is still tried, and behind 51 none."""
    assert fill(900, [*[(PRIORITY_LOW, 2_000)] * large, (PRIORITY_INFO, 100)]) == [included]


@pytest.mark.parametrize(("large", "included"), [(4, [[4], []]), (5, [[], [0]])])
def test_five_failures_end_the_share_of_a_cluster(large: int, included: list[list[int]]) -> None:
    """A cluster takes a small section from its share unless five did not fit; more important ones then come first."""
    small_last = [*[(PRIORITY_LOW, 9_000)] * large, (PRIORITY_INFO, 500)]
    assert fill(4_000, small_last, [(PRIORITY_CRITICAL, 3_700)]) == included

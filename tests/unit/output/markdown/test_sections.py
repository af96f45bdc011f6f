"""The sections of a comment, literally, and the escaping of any external text."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import PositionedSource, spec, spread_replicas, topic
from support.plans import DATA_LOSS_RISK, KEY_REMAPPING_RISK, RETENTION_CHANGE, existing_topic_plan, plan
from support.repo.github_markdown import parse_page
from topiarist.errors import Reason
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    AddPartitions,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    ImpliedTopic,
    Issue,
    Plan,
    Risk,
    RiskAssessment,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.spec import ClusterSpec, LimitedResource, LimitUsage, ValueOrigin
from topiarist.output.markdown.sections import (
    build_sections,
    escape_prose,
    format_code,
    format_code_block,
    format_config_item,
    format_diff,
    format_html_code,
    format_table_cell,
)
from topiarist.output.view import view_changes
from topiarist.text import sanitize

ROOT = "/repo"
DEFAULTS = ClusterSpec(
    name="prod-eu",
    default_config={"retention.ms": "2"},
    source=PositionedSource("/repo/clusters.yaml", {("spec", "defaults", "config", "retention.ms"): (14, 7)}),
)
GROW = AddPartitions(6, (1, 2, 3), spread_replicas(8)[6:], KEY_REMAPPING_RISK)
HELD = (UpdateConfig((RETENTION_CHANGE,)),)


def texts(found: Plan) -> list[str]:
    """Return the texts of all sections except the table of brokers."""
    written = [section.write() for section in build_sections(found, ROOT)]
    return [text for text in written if not text.startswith("#### Effect")]


def touched(name: str, before: str, risk: Risk = Risk.DISRUPTIVE) -> TopicPlan:
    """Return a topic that a default of the cluster changes from this value."""
    item = ConfigItem("retention.ms", before, "2", RiskAssessment(risk, f"was {before}"), inherited=True)
    return replace(existing_topic_plan(name, UpdateConfig((item,))), spec=spec(name, DEFAULTS))


def test_a_shared_default_is_one_section_with_its_place_and_old_values() -> None:
    """The section has the risks with their topics, all topics, the place, and the values before, the usual first."""
    found = plan(*(touched(f"t{at}", before) for at, before in enumerate("55535")))
    (section,) = build_sections(found, ROOT)
    assert (section.priority, section.topics) == (1, ["t0", "t1", "t2", "t3", "t4"])
    assert section.write() == (
        "#### `retention.ms`: from the cluster's defaults, 5 topics\n"
        "\n"
        "- **Disruptive**: 4 topics: was 5\n"
        "- **Disruptive**: 1 topic: was 3\n"
        "- topics: `t0`, `t1`, `t2`, `t3`, `t4`\n"
        "- at `clusters.yaml:14:7`\n"
        "\n"
        "```diff\n"
        "- retention.ms = 5\n"
        "+ retention.ms = 2  (in 4 topics)\n"
        "- retention.ms = 3\n"
        "+ retention.ms = 2  (in 1 topic)\n"
        "```"
    )


def test_of_many_old_values_ten_are_in_the_diff() -> None:
    """Of more values before a default the ten most frequent are shown, and the highest risk decides the priority."""
    found = plan(*(touched(f"t{at:02}", str(at + 10), Risk(2 if at == 7 else 1)) for at in range(11)))
    (section,) = build_sections(found, ROOT)
    assert (section.priority, section.write().count("\n- retention.ms = ")) == (0, 10)


@pytest.mark.parametrize(
    ("shown", "priority"),
    [
        (existing_topic_plan("a", DeleteTopic(1, 3, DATA_LOSS_RISK)), 0),
        (existing_topic_plan("a", findings=(Issue(Reason.NOT_ADOPTED, "no"),)), 0),
        (existing_topic_plan("a", GROW), 1),
        (TopicPlan("a", changes=(CreateTopic(((1,),), {}),)), 3),
        (replace(existing_topic_plan("a", DeleteTopic(1, 3, DATA_LOSS_RISK)), observe_only=True), 3),
    ],
)
def test_a_section_is_as_important_as_its_risk(shown: TopicPlan, priority: int) -> None:
    """Losses and refusals are critical, disruptions follow, and what is safe or only observed comes last."""
    section = next(each for each in build_sections(plan(shown), ROOT) if each.topics)
    assert (section.priority, section.topics) == (priority, ("a",))


def test_facts_of_the_cluster_have_sections_of_their_own() -> None:
    """Topics that come along, limits and warnings are as important as brokers; the others are information."""
    found = replace(
        plan(TopicPlan("a", changes=(CreateTopic(((1,),), {}),))),
        implied=(ImpliedTopic("__topiarist", 1, 3, "topiarist", "its records"),),
        limits=(LimitUsage("teams", "team=shop", LimitedResource.PARTITIONS, 96, 108, 200),),
        warnings=("slow",),
        orphans=("x",),
    )
    facts = [section for section in build_sections(found, ROOT) if not section.topics]
    assert [section.priority for section in facts] == [2, 2, 2, 2, 4]
    assert [section.write() for section in facts[1:]] == [
        "#### Also created\n\n- `__topiarist`: create 1 partition x 3 replicas, by topiarist, once for a cluster,"
        " for its records",
        "#### Limits\n\n- `team=shop`: 96 -&gt; 108 of 200 partitions (teams)",
        "#### Warnings\n\n- slow",
        "#### Not in the given paths\n\n- 1 owned topic: `x`",
    ]


def test_a_topic_has_its_record_its_usage_and_its_notices() -> None:
    """Below the risk a topic has the action on its record and its usage; below the diff its notices."""
    found = replace(
        existing_topic_plan("a", GROW),
        before=topic("a", record=None),
        record_before=None,
        usage=("read by 2 groups", "1 GiB"),
        notices=(
            Issue(Reason.EXISTING_PROBLEM, "no leader"),
            Issue(Reason.UNMANAGED, "left alone"),
            Issue(Reason.IGNORED, "ignored"),
        ),
    )
    written = texts(plan(found))
    assert written[0] == (
        "#### `a`: grow 6 -&gt; 8 partitions\n"
        "\n"
        "- **Disruptive**: keys map to other partitions\n"
        "- record: adopt: the ownership record is written too\n"
        "- usage: read by 2 groups\n"
        "- usage: 1 GiB\n"
        "\n"
        "```diff\n"
        "@@ partitions 6 -> 8 @@\n"
        "+ 6 [1,2,3]    7 [2,3,4]\n"
        "```\n"
        "\n"
        "- warning: no leader\n"
        "- note: ignored"
    )
    assert written[1:] == ["#### Notices\n\n- note: `a`: left alone"]


def test_the_explanations_of_risks_name_their_subjects_beside_others() -> None:
    """One assessment needs no subject; of several each is named, the highest risk first, and at least the risk."""
    other = RETENTION_CHANGE._replace(key="flush.ms", assessment=KEY_REMAPPING_RISK)
    for changes, lines in (
        ((UpdateConfig((RETENTION_CHANGE,)),), [f"- **DataLoss**: {DATA_LOSS_RISK.explanation}"]),
        (
            (UpdateConfig((other, RETENTION_CHANGE)),),
            [
                f"- **DataLoss**: `retention.ms`: {DATA_LOSS_RISK.explanation}",
                "- **Disruptive**: `flush.ms`: keys map to other partitions",
            ],
        ),
        ((CreateTopic(((1,),), {}),), ["- **Safe**"]),
        ((DeleteTopic(1, 1, RiskAssessment(Risk.DATA_LOSS)),), ["- **DataLoss**"]),
    ):
        (written,) = texts(plan(existing_topic_plan("a", *changes)))
        assert [line for line in written.splitlines() if line.startswith("- **")] == lines


def test_a_shared_refusal_has_one_section_with_its_hint_for_all() -> None:
    """The topics of a shared refusal are named in it; its hint and its place are those of the first."""
    rule = ValueOrigin(PositionedSource("/repo/rules.yaml", {("spec",): (3, 3)}), ("spec",))
    topics = [
        existing_topic_plan(name, findings=(Issue(Reason.POLICY_DENIED, "no", (), f"--adopt={name}", HELD, rule),))
        for name in "abcd"
    ]
    (section,) = build_sections(plan(*topics), ROOT)
    assert (section.priority, section.topics) == (0, ["a", "b", "c", "d"])
    assert section.write().partition("\n\n```diff\n@@ config @@\n- retention.ms")[0] == (
        "#### 4 topics: refused (PolicyDenied)\n"
        "\n"
        "- no\n"
        "- at `topics/a.yaml:1:1`\n"
        "- fix: `--adopt=TOPIC`\n"
        "- rule at `rules.yaml:3:3`\n"
        "- held back: configure\n"
        "- **DataLoss**: messages older than 1 hour will be deleted\n"
        "- topics: `a`, `b`, `c`, `d`"
    )


def test_a_limit_that_is_exceeded_is_first() -> None:
    """The budgets of a cluster and the limit of a run have a section each, once, before the topics."""
    budget = Issue(Reason.BUDGET_EXCEEDED, "9 deletions", hint="raise it", withheld=HELD)
    issues = (budget, Issue(Reason.MOVES_LIMITED, "5", hint="wait", withheld=HELD))
    written = texts(plan(*(existing_topic_plan(name, findings=issues) for name in "ab")))
    assert written[:2] == [
        "#### Over budget\n\n- 9 deletions\n- fix: raise it",
        "#### Over --max-moves\n\n- 5\n- fix: wait",
    ]
    assert [text.count(": held back: configure\n") for text in written[2:]] == [2, 2]


SHARED = ConfigItem("min.insync.replicas", "1", "2", SAFE_ASSESSMENT, inherited=True)


def test_defaults_that_are_not_shared_stay_with_their_topic() -> None:
    """A default that no group shows has its source as a note; a key of the topic itself has none."""
    own = SHARED._replace(key="flush.ms", before=None, inherited=False)
    assert format_diff(view_changes([UpdateConfig((own, SHARED))])) == [
        "@@ config @@",
        "+ flush.ms = 2",
        "- min.insync.replicas = 1",
        "+ min.insync.replicas = 2  (from the cluster's defaults)",
    ]
    shared = {("min.insync.replicas", "2"): ()}
    assert format_diff(view_changes([UpdateConfig((own, SHARED))]), shared) == [
        "@@ config @@",
        "+ flush.ms = 2",
        "  1 key from the cluster's defaults: see above",
    ]


def test_a_key_and_a_value_are_printable() -> None:
    """Control characters of keys and values are shown as text."""
    item = ConfigItem("a\x1b", "\x1b", "", SAFE_ASSESSMENT)
    assert [*format_config_item(item, "")] == ["- a\\x1b = \\x1b", '+ a\\x1b = ""']
    assert [*format_config_item(item._replace(before=None, after=None), "")] == ["+ a\\x1b: brokers' default"]


NASTY = (
    *("@team", "#12", "GH-12", "owner/repo#3", "owner/repo@0123abc", "0123456789abcdef0123456789abcdef01234567"),
    *("http://localhost/x", "www.example.test", "me@example.test", "mailto:me@example.test", "xmpp:a@b.c/d"),
    *("<b>", "</details>", "<!--", "-->", "<script>alert(1)</script>", "<img src=x onerror=y>", "&lt;", "&#64;team"),
    *("*a*", "_a_", "__a__", "~~a~~", "~a~", "`", "``", "```", "````diff", "a`b``c", "|", "a|b", "\\|", "\\", "\\`"),
    *("[a](b)", "![a](b)", "[a]: b", "[^1]", "[ ] a", "# a", "> a", "- a", "+ a", "1. a", "1) a", "---", "===", "***"),
    *(":smile:", "$x$", "$`x`$", "a  b", " a", "a ", "\ta", "a\nb", "a\n\n# b", "\x1b[31m", "\u202e", "\u2028", "\xa0"),
)

outside = st.text(max_size=40) | st.lists(st.sampled_from(NASTY), min_size=1, max_size=4).map(" ".join)
outside |= st.lists(st.sampled_from(NASTY), min_size=1, max_size=4).map("".join)


def squeezed(text: str) -> str:
    return " ".join(text.split())


@given(outside)
def test_a_code_span_holds_any_text_and_nothing_else(text: str) -> None:
    """External text in a sentence is one code span, unchanged except for unprintable characters."""
    found = parse_page(f"before {format_code(text)} after")
    assert found.errors == []
    assert dict(found.tags) == {"p": 1, "code": 1}
    assert found.code == [sanitize(text) or '""']
    assert squeezed(found.text) == "before after"


@given(outside)
def test_a_cell_holds_any_text_in_a_table_that_stays_as_it_is(text: str) -> None:
    """The table keeps its columns and rows; a bar in a name adds no cell."""
    found = parse_page(f"| a | b |\n| --- | --- |\n| {format_table_cell(text)} | 1 |\n| x | 2 |")
    assert found.errors == []
    assert (found.tags["table"], found.tags["tr"], found.tags["td"]) == (1, 3, 4)
    assert set(found.tags) <= {"table", "thead", "tbody", "tr", "th", "td", "code"}
    assert found.references == []
    shown = "".join(found.code) + found.text
    assert sorted(shown.replace(" ", "").replace("\n", "")) == sorted(
        "abx12" + (sanitize(text) or '""').replace(" ", "")
    )


@given(outside)
def test_a_sentence_holds_any_text_as_words_and_code(text: str) -> None:
    """Text other than plain words becomes code; the sentence is readable, and is never a list, a heading or a link."""
    found = parse_page(escape_prose(text))
    assert found.errors == []
    assert set(found.tags) <= {"p", "code"}
    assert found.references == []
    words = parse_page(f"- {escape_prose(text)}")
    assert set(words.tags) <= {"ul", "li", "code", "p"}
    assert words.tags["li"] == 1


@given(outside)
def test_html_holds_any_text_as_code(text: str) -> None:
    """Names in the HTML summary of a folded section are code."""
    found = parse_page(f"<details>\n<summary>{format_html_code(text)}</summary>\n\nbody\n\n</details>")
    assert found.errors == []
    assert dict(found.tags) == {"details": 1, "summary": 1, "code": 1, "p": 1}
    assert found.code == [sanitize(text) or '""']


@given(st.lists(outside.map(sanitize), max_size=4))
@example(["```", "~~~"])
def test_a_fence_is_closed_by_its_own_end_only(lines: list[str]) -> None:
    """No text in a fenced block can close the block."""
    found = parse_page(f"{format_code_block(lines, 'diff')}\n\nafter")
    assert dict(found.tags) == {"pre": 1, "code": 1, "p": 1}
    assert found.code == ["".join(f"{line}\n" for line in lines) or "\n"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("48 -> 12 partitions, Kafka cannot remove any", "48 -&gt; 12 partitions, Kafka cannot remove any"),
        ("set partitions: 48, or (better) wait.", "set partitions: 48, or (better) wait."),
        ("the brokers' default; 1,000 topics' worth", "the brokers' default; 1,000 topics' worth"),
        ("min.insync.replicas is above 3", "`min.insync.replicas` is above 3"),
        ('found "a b", wanted 1', 'found `"a b"`, wanted 1'),
        ("if it is meant: --adopt=orders, or (x=1)", "if it is meant: `--adopt=orders`, or (`x=1`)"),
        ("1. 2) defaced deadbeef", "1\\. 2\\) `defaced` `deadbeef`"),
        ("did you mean retention.ms?", "did you mean `retention.ms`?"),
        ("ask @team about #12", "ask `@team` about `#12`"),
        ("", ""),
    ],
)
def test_plain_words_stay_plain(text: str, wanted: str) -> None:
    """Sentences of topiarist stay plain text; keys, values, flags and possible references are code."""
    assert escape_prose(text) == wanted


def test_long_text_is_cut() -> None:
    """A name is cut after 250 characters, a sentence after 1,000."""
    assert format_code("x" * 250) == f"`{'x' * 250}`"
    assert len(format_code("x" * 251)) == len(format_code("x" * 10_000)) == 252
    assert format_code("x" * 10_000).endswith("...`")
    assert len(escape_prose("word " * 1_000)) == 1_000


def test_the_tests_would_see_a_reference() -> None:
    """The reference check of these tests detects references in unescaped text."""
    for text in (
        "ask @team",
        "see #12",
        "see GH-12",
        "in 0123abcd",
        "at http://localhost",
        "at www.x",
        "to a@b.cd",
        ":smile:",
    ):
        assert parse_page(text).references or parse_page(text).tags["a"], text

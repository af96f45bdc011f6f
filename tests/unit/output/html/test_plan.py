"""The page of a plan without a browser: its rows, its data, its policy and its limits."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from support import plan_pages
from support.builders import PositionedSource, spec, topic
from support.drift.generated_reports import HOSTILE_TEXTS
from support.plans import DATA_LOSS_RISK, KEY_REMAPPING_RISK, OWN_RECORD, RETENTION_CHANGE, existing_topic_plan
from support.plans import plan as make_plan
from topiarist.errors import FieldPath, Reason
from topiarist.kafka.types import Broker
from topiarist.model.moves import MoveKind, ReplicaMove
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    Change,
    ConfigItem,
    CreateTopic,
    ImpliedTopic,
    Issue,
    Load,
    MoveReplicas,
    Nudge,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.spec import ClusterSpec, TopicSpec, ValueOrigin
from topiarist.model.state import OwnershipRecord
from topiarist.output.html import plan
from topiarist.output.html import plan as page
from topiarist.output.html.plan import KINDS, LEVELS, PlanRow, list_rows
from topiarist.text import sanitize

ASSETS = Path(page.__file__).parent / "assets"
PIECES = re.compile(r"<(style|script)([^>]*)>(.*?)</\1>", re.DOTALL)


def data(text: str, name: str) -> Any:
    """Return the content of a data block of the page, parsed as its script parses it."""
    (found,) = (inner for _, attributes, inner in PIECES.findall(text) if f'id="{name}-data"' in attributes)
    assert not set("<>&") & set(found)
    return json.loads(found)


def rows(text: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a page, restored as its script restores them."""
    texts: list[str] = []

    def whole(value: Any) -> Any:
        if isinstance(value, str):
            texts.append(value)
        return texts[value] if type(value) is int else [whole(each) for each in value] if type(value) is list else value

    for short in data(text, "rows"):
        yield {name: whole(value) for name, value in zip(data(text, "plan")["columns"], short, strict=True)}


def test_every_change_refusal_and_notice_is_a_row_riskiest_first() -> None:
    """The page restores each row as it was listed, ordered by level, topic and cluster."""
    plans = plan_pages.make_plans()
    found = [*rows(plan.format_plans(plans, [], "/repo"))]
    listed = sorted((row for each in plans for row in list_rows(each, "/repo")), key=lambda row: row.sort_key())
    assert found == [json.loads(json.dumps(row._asdict())) for row in listed]
    ranks = [LEVELS.index(row["level"]) for row in found]
    assert ranks == sorted(ranks)
    changes = sum(
        len(topic.changes) + len(topic.refusals) + len(topic.notices) for each in plans for topic in each.topics
    )
    assert len(found) == changes
    assert {row["kind"] for row in found} <= set(KINDS)


def test_a_value_has_both_units_and_a_list_its_partition() -> None:
    """A config row has each key with units, risk and origin; a created topic has its replica lists."""
    by_topic: dict[str, Any] = {}
    for row in list_rows(plan_pages.make_plan(10), "/repo"):
        by_topic.setdefault(row.topic[-1], row)
    assert by_topic["3"].config[0][:4] == ["retention.ms", "86400000 (1 day)", "3600000 (1 hour)", "DataLoss"]
    assert by_topic["3"].config[0][4:] == ["messages older than 1 hour will be deleted", ""]
    assert by_topic["7"].config[0] == ["min.insync.replicas", "1", "2", "Safe", "", "from the cluster's defaults"]
    assert by_topic["7"].config[1][2] == "brokers' default"
    assert by_topic["0"].lists[0] == ["0", "", "[1, 2, 3]", ""]
    assert by_topic["0"].after[1:] == ["cleanup.policy = compact", "retention.ms = 604800000 (7 days)"]
    assert by_topic["2"].lists[0] == ["0", "[1, 2, 3]", "[2, 3, 4]", "Racks, Spread"]
    assert by_topic["5"].after == ["no topic, no messages"]
    assert (by_topic["9"].level, by_topic["9"].summary) == ("Refused", "held back: configure")
    assert by_topic["1"].place == "topics/shop.clicks.00001.yaml:9:15"


def test_the_same_plan_is_the_same_page() -> None:
    """The page is deterministic ASCII, without an address or a time."""
    one, two = (plan.format_plans(plan_pages.make_plans(), ["away"], "/repo") for _ in range(2))
    assert one == two
    assert one.isascii()


def test_hostile_text_stays_data_and_is_printable() -> None:
    """No text leaves its data block, and each is shown with visible control characters."""
    text = plan.format_plans([plan_pages.make_hostile_plan(HOSTILE_TEXTS)], HOSTILE_TEXTS, "/repo")
    assert len(re.findall(r"<script\b", text)) == len(re.findall(r"</script\b", text)) == 3
    assert {row["topic"] for row in rows(text)} == set(map(sanitize, HOSTILE_TEXTS))
    assert data(text, "plan")["failed"]["rows"] == [sanitize(each) for each in HOSTILE_TEXTS]


def test_the_policy_allows_only_its_script_and_style() -> None:
    """The policy has the hashes of the one script and the one style, images in the page itself, and nothing else."""
    text = plan.format_plans([], [], "/repo")
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    ran = {kind: inner for kind, attributes, inner in PIECES.findall(text) if not attributes}
    sums = {kind: f"'sha256-{b64encode(sha256(inner.encode()).digest()).decode()}'" for kind, inner in ran.items()}
    assert policy.split("; ") == [
        "default-src 'none'",
        f"script-src {sums['script']}",
        f"style-src {sums['style']}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]


def test_another_kind_of_page_takes_shared_files() -> None:
    """A shared file is the one of the page of a plan, and any other file is in the folder of the page itself."""
    folder = Path("drift/outputs/assets")
    parts = page.PageParts(str(folder), "page.html", ("shared/page.css", "report.css"), ())
    own = Path(page.__file__).parents[2] / folder / "report.css"
    assert parts.style == f"{(ASSETS / 'page.css').read_text()}\n{own.read_text()}"


def test_the_script_reads_only_names_that_its_data_has() -> None:
    """A missing name would omit content without an error."""
    text = plan.format_plans(plan_pages.make_plans(), ["away"], "/repo")
    found = data(text, "plan")
    script = "".join(path.read_text() for path in ASSETS.glob("plan-*.js"))
    assert set(re.findall(r"\bplan\.(\w+)", script)) <= {*found, "columns"}
    assert set(re.findall(r"\brow\.(\w+)", script)) <= {*found["columns"], "at", "searched"}
    assert set(re.findall(r"\bcluster\.(\w+)", script)) <= set(found["clusters"]["rows"][0])


def test_a_plan_with_too_many_rows_and_lists_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The riskiest rows are in the page, all are counted; the lists of one change are limited and counted."""
    monkeypatch.setattr(plan, "MAX_ROWS", 5)
    monkeypatch.setattr("topiarist.output.html.plan._MAX_LISTS", 2)
    text = plan.format_plans([plan_pages.make_plan(20)], [], "/repo")
    found = data(text, "plan")
    assert ([row["level"] for row in rows(text)], found["total"]) == (["DataLoss"] * 3 + ["Refused"] * 2, 23)
    assert sum(found["levels"].values()) == 23
    grown = next(row for row in list_rows(plan_pages.make_plan(2), "/repo") if row.kind == "grow")
    assert (len(grown.lists), grown.more) == (2, "and 4 other partitions")


def test_loads_add_up_over_racks() -> None:
    """The sums of racks are those of their brokers; a plan that places nothing has no load."""
    (cluster,) = plan.build_document([plan_pages.make_plan(40)], [], [])["clusters"]["rows"]
    assert [sum(column) for column in zip(*(one["load"] for one in cluster["racks"]), strict=True)] == [
        sum(column) for column in zip(*(one["load"] for one in cluster["loads"]["rows"]), strict=True)
    ]
    assert sum(one["brokers"] for one in cluster["racks"]) == 6
    (idle,) = plan.build_document(plan_pages.make_plans()[2:], [], [])["clusters"]["rows"]
    assert (idle["loads"], idle["racks"]) == ({"total": 0, "rows": []}, [])


def test_a_cluster_has_its_brokers_risk_block_and_exceeded_limits() -> None:
    """The facts of each cluster are those of the plan as text; a limit is there once, not for each topic."""
    over = Issue(Reason.BUDGET_EXCEEDED, "9 deletions, 1 allowed", hint="raise it")
    plans = [*plan_pages.make_plans(), make_plan(*(existing_topic_plan(name, findings=(over,)) for name in "ab"))]
    planned, frozen, idle, exceeded = plan.build_document(plans, [], [])["clusters"]["rows"]
    assert (planned["name"], planned["brokers"], planned["risk"]) == ("prod-eu", "6 brokers in 3 racks", "DataLoss")
    assert frozen["writeBlock"] == "Frozen: frozen by ada: moving racks; nothing is written"
    assert (idle["brokers"], idle["risk"], idle["writeBlock"]) == ("no brokers", "", "")
    assert [len(planned[name]["rows"]) for name in ("warnings", "limits", "orphans", "exceeded")] == [1, 1, 2, 0]
    assert ("copies" in planned["pace"], idle["pace"]) == (True, "")
    assert exceeded["exceeded"]["rows"] == ["over budget: 9 deletions, 1 allowed; fix: raise it"]


def test_a_run_is_told_what_it_needs_to_be_given() -> None:
    """Losses have the option with the names of their topics; one refusal of many topics has one fix for all of them."""
    losses, refused = plan.build_document(plan_pages.make_plans()[:1], [], [])["permissions"]["rows"]
    assert (losses["needed"], losses["refused"]) == ("changes that may lose data: 10 topics", False)
    assert losses["where"] == "apply --yes, also with --plan or --reviewed; without --yes a person confirms"
    option, _, names = losses["option"].partition("=")
    assert (option, len(names.split(","))) == ("--allow-risk DataLoss", 10)
    assert (refused["needed"], refused["option"], refused["refused"]) == ("refused, NotAdopted: 6 topics", "", True)
    assert "--adopt=TOPIC," in refused["where"]
    (alone,) = plan.build_document([make_plan(plan_pages.make_topic("a", 9))], [], [])["permissions"]["rows"]
    assert (alone["cluster"], "--adopt=a," in alone["where"]) == ("prod-eu", True)
    many = make_plan(*(plan_pages.make_topic(f"t{number}", 5) for number in range(21)))
    (deletions,) = plan.build_document([many], [], [])["permissions"]["rows"]
    assert deletions["needed"] == "changes that may lose data: 21 topics"
    assert deletions["option"] == "--allow-risk DataLoss=TOPIC,..."


def test_a_row_says_how_much_of_its_topic_moves_and_why() -> None:
    """A reason names its subject only beside others, and a notice is called by the words of its reason."""
    moved = MoveReplicas((ReplicaMove("a", 0, (1, 2, 3), (4, 2, 3)),), KEY_REMAPPING_RISK)
    noticed = Issue(Reason.EXISTING_PROBLEM, "partitions differ")
    found = make_plan(replace(existing_topic_plan("a", moved), notices=(noticed,)), plan_pages.make_topic("b", 8))
    move, notice, config, grown = list_rows(found, "/repo")
    assert (move.summary, move.reason.split("; ")[0]) == (
        "move 1 of 3 partitions, 1 copy",
        "keys map to other partitions",
    )
    assert (notice.summary, notice.reason) == ("existing problem", "partitions differ")
    assert (config.reason, grown.reason) == ("keys map to other partitions",) * 2
    both = UpdateConfig((RETENTION_CHANGE, RETENTION_CHANGE._replace(key="flush.ms")))
    (two,) = list_rows(make_plan(existing_topic_plan("a", both)), "/repo")
    assert two.reason == "retention.ms, flush.ms: messages older than 1 hour will be deleted"


def test_a_refusal_has_the_risk_that_its_message_lacks() -> None:
    """The risk of what is held back is behind the message, and not twice."""
    held = (UpdateConfig((RETENTION_CHANGE,)),)
    for message, reason in (
        ("not adopted", "not adopted; messages older than 1 hour will be deleted"),
        ("loses: messages older than 1 hour will be deleted",) * 2,
    ):
        issue = Issue(Reason.NOT_ADOPTED, message, withheld=held)
        (row,) = list_rows(make_plan(existing_topic_plan("a", findings=(issue,))), "/repo")
        assert row.reason == reason


@pytest.mark.parametrize(("keys", "lines"), [(11, 12), (12, 13)])
def test_long_values_are_counted_behind_the_first_lines(keys: int, lines: int) -> None:
    """Twelve lines are shown whole; of more, the first twelve and the number of the others."""
    create = CreateTopic(((1,),), {f"k{number}": "v" for number in range(keys)})
    (row,) = list_rows(make_plan(TopicPlan("a", changes=(create,))), "/repo")
    assert len(row.after) == lines
    assert ("and 1 more" in row.after) is (lines > 12)


def test_the_load_of_a_broker_has_what_comes_and_goes() -> None:
    """A broker has leaders and replicas before and after, and the replicas that it copies and deletes, as its rack."""
    moved = MoveReplicas(
        (ReplicaMove("a", 0, (1, 2, 9), (4, 2, 9)), ReplicaMove("a", 1, (2, 1, 9), (2, 4, 9))), KEY_REMAPPING_RISK
    )
    created = TopicPlan("b", changes=(CreateTopic(((7,),), {}),))
    load = {1: Load(3, 9), 2: Load(1, 2), 9: Load(0, 2)}
    brokers = (Broker(1, "b"), Broker(2, "a"), Broker(4, "a"), Broker(7))
    found = replace(
        make_plan(existing_topic_plan("a", moved), created), load=load, brokers=brokers, drain_brokers=frozenset({1})
    )
    (cluster,) = plan.build_document([found], [], [])["clusters"]["rows"]
    labels = ("label", "rack", "draining", "load")
    assert cluster["loads"]["rows"] == [
        dict(zip(labels, row, strict=True))
        for row in (
            ("1", "b", True, [3, 2, 9, 7, 0, 2]),
            ("2", "a", False, [1, 1, 2, 2, 0, 0]),
            ("4", "a", False, [0, 1, 0, 2, 2, 0]),
            ("7", None, False, [0, 1, 0, 1, 0, 0]),
            ("9", "not registered", False, [0, 0, 2, 2, 0, 0]),
        )
    ]
    assert cluster["racks"] == [
        {"label": "a", "brokers": 2, "load": [1, 2, 2, 4, 2, 0]},
        {"label": "b", "brokers": 1, "load": [3, 2, 9, 7, 0, 2]},
        {"label": "not registered", "brokers": 1, "load": [0, 0, 2, 2, 0, 0]},
        {"label": None, "brokers": 1, "load": [0, 1, 0, 1, 0, 0]},
    ]


def test_the_head_of_a_page_has_the_counts_of_all_clusters() -> None:
    """The page has a title, the clusters that failed, the number of rows by level and by kind, and each cluster."""
    implied = ImpliedTopic("__topiarist", 1, 3, "topiarist", "its records")
    found = replace(make_plan(plan_pages.make_topic("a", 3)), warnings=("slow",), orphans=("x",), implied=(implied,))
    listed = [*list_rows(found, "/repo")]
    document = plan.build_document([found], ["away"], listed)
    assert document["title"] == "Plan: 1 to configure, 812 unchanged, 1 not in the given paths."
    assert document["failed"] == {"total": 1, "rows": ["away"]}
    assert document["levels"] == {"DataLoss": 1, "Refused": 0, "Disruptive": 0, "Safe": 0, "Notice": 1}
    assert (document["kindCounts"], document["total"]) == ({"configure": 1, "note": 1}, 2)
    (cluster,) = document["clusters"]["rows"]
    assert (cluster["id"], cluster["summary"]) == (found.cluster_id, document["title"])
    assert cluster["warnings"]["rows"][0] == "slow"
    assert cluster["orphans"] == {"total": 1, "rows": ["x"]}
    for plans, failed, title in (
        ([], [], "No changes: the plan has no topics."),
        ([], ["away"], "No plan."),
        ([make_plan()], ["away"], "No changes: 812 topics match their manifests."),
    ):
        assert plan.build_document(plans, failed, [])["title"] == title


def test_long_lists_of_a_page_are_counted() -> None:
    """Each list of texts has at most two hundred, that of brokers a thousand, with the number of all."""
    names = tuple(f"t{number}" for number in range(201))
    brokers = tuple(Broker(number, f"r{number}") for number in range(1001))
    found = make_plan(TopicPlan("b", changes=(CreateTopic(((7,),), {}),)))
    found = replace(found, orphans=names, brokers=brokers, load={broker.id: Load() for broker in brokers})
    document = plan.build_document([found], names, [])
    (cluster,) = document["clusters"]["rows"]
    for limited, total, shown in (
        (document["failed"], 201, 200),
        (cluster["orphans"], 201, 200),
        (cluster["loads"], 1001, 1000),
    ):
        assert (limited["total"], len(limited["rows"])) == (total, shown)
    assert len(cluster["racks"]) == 200


def test_an_observed_or_cluster_wide_refusal_needs_no_permission() -> None:
    """Only a refusal that an option or a change of the manifest can lift is among what a run may be given."""
    asked = Issue(Reason.NOT_ADOPTED, "no", hint="pass --adopt=TOPIC")
    topics = [
        existing_topic_plan("a", findings=(asked, asked._replace(reason=Reason.FROZEN), asked._replace(hint=""))),
        replace(existing_topic_plan("b", findings=(asked,)), observe_only=True),
    ]
    (needed,) = plan.build_document([make_plan(*topics)], [], [])["permissions"]["rows"]
    assert needed == {
        "cluster": "prod-eu",
        "needed": "refused, NotAdopted: 1 topic",
        "option": "",
        "where": "pass --adopt=a",
        "refused": True,
    }


def test_the_page_has_each_of_its_scripts_and_styles() -> None:
    """No file of the page is left out: a missing one would end its script early, or show its rows without a style."""
    text = plan.format_plans([], [], "/repo")
    found = {kind: inner for kind, attributes, inner in PIECES.findall(text) if not attributes}
    for kind, pattern in (("script", "*.js"), ("style", "*.css")):
        files = [*ASSETS.glob(pattern)]
        assert len(files) > 1
        assert [path.name for path in files if path.read_text().strip() not in found[kind]] == []


POSITIONS: dict[FieldPath, tuple[int, int]] = {
    ("spec", "partitions"): (9, 15),
    ("spec", "ensure"): (10, 11),
    ("spec", "config", "retention.ms"): (12, 7),
}
FLUSH = ConfigItem("flush.ms", None, "", SAFE_ASSESSMENT, inherited=True)
MOVE = ReplicaMove("a", 7, (1, 2, 3), (2, 1, 4), (MoveKind.DRAIN, MoveKind.SPREAD))


def wanted() -> TopicSpec:
    """Return the spec of a topic with a place in its file for each field."""
    return spec("a", positions=POSITIONS, ensure="Present", partitions=3, config={"retention.ms": 3600000})


def row_of(*changes: Change) -> PlanRow:
    """Return the only row of a topic with three partitions."""
    (row,) = list_rows(make_plan(replace(existing_topic_plan("a", *changes), spec=wanted())), "/repo")
    return row


def test_the_reason_of_a_row_has_risks_moves_defaults_and_usage() -> None:
    """The texts of a reason stand in this order: risks, why replicas move, new leaders, usage of the topic."""
    source = PositionedSource("clusters.yaml")
    drained = spec("a", ClusterSpec("prod-eu", source=source, drain_brokers=frozenset({3})))
    changed = existing_topic_plan("a", MoveReplicas((MOVE._replace(kinds=(MoveKind.DRAIN,)),), KEY_REMAPPING_RISK))
    (row,) = list_rows(make_plan(replace(changed, spec=drained, usage=("read by 2 groups",))), "/repo")
    assert row.reason.split("; ") == [
        "keys map to other partitions",
        "broker 3 is drained (Cluster.spec.drainBrokers)",
        "1 partition gets another preferred leader",
        "read by 2 groups",
    ]
    assert row_of(UpdateConfig((FLUSH,))).reason == "from the cluster's defaults"
    assert row_of(UpdateConfig((FLUSH, RETENTION_CHANGE))).reason == f"retention.ms: {DATA_LOSS_RISK.explanation}"


def test_a_refusal_has_its_code_fix_place_and_cause() -> None:
    """A refusal names the field of the topic, and the rule or the field of the Cluster that causes it."""
    rule = ValueOrigin(PositionedSource("/repo/rules.yaml", {("spec",): (3, 3)}), ("spec",))
    for reason, label in ((Reason.POLICY_DENIED, "rule"), (Reason.NOT_ADOPTED, "cluster")):
        issue = Issue(reason, "no", ("partitions",), "ask", cause_origin=rule)
        found = replace(existing_topic_plan("a", findings=(issue,)), notices=(issue,), spec=wanted())
        refused, noticed = list_rows(make_plan(found), "/repo")
        for row in (refused, noticed):
            assert (row.code, row.fix, row.place) == (reason.value, "ask", "topics/a.yaml:9:15")
            assert (row.cause, row.reason) == (f"{label} at rules.yaml:3:3", "no")
        assert (refused.level, refused.kind, refused.summary) == ("Refused", "refused", "refused")
        assert (noticed.level, noticed.kind, [*noticed.before]) == ("Notice", "note", [])


def test_an_observed_topic_has_notices_only() -> None:
    """What differs in an observed topic is no change and no refusal: its rows have the lowest level."""
    held = Issue(Reason.NOT_ADOPTED, "no", withheld=(UpdateConfig((RETENTION_CHANGE,)),))
    found = existing_topic_plan("a", UpdateConfig((RETENTION_CHANGE,)), findings=(held,))
    changed, refused = list_rows(make_plan(replace(found, observe_only=True)), "/repo")
    assert (changed.level, changed.kind, refused.level, refused.kind) == ("Notice", "observed", "Notice", "refused")
    assert (refused.summary, refused.after) == ("held back: configure", ["retention.ms = 3600000 (1 hour)"])


def test_a_topic_without_a_manifest_has_no_place() -> None:
    """A topic that no document declares has rows without a place; each row has an adoption beside its change."""
    found = TopicPlan("a", topic("a", owner="x"), OwnershipRecord("x"), OWN_RECORD, (TakeOwnership(), Nudge((1,))))
    taken, nudged = list_rows(make_plan(found), "/repo")
    assert (taken.place, nudged.place) == ("", "")
    assert taken.summary == "record only"
    assert (taken.record, nudged.record) == ("take ownership from x: the ownership record is written too",) * 2


def test_three_hundred_lists_are_in_the_dialog() -> None:
    """Of more replica lists the first three hundred are in the data, and the others are counted."""
    for partitions, more in ((300, ""), (301, "and 1 other partition"), (302, "and 2 other partitions")):
        row = row_of(CreateTopic(((1,),) * partitions, {}))
        assert (len(row.lists), row.more, row.lists[-1][0]) == (300, more, "299")


def test_rows_are_sorted_by_level_topic_and_cluster() -> None:
    """Losses are first, then refusals, and notices last; among equals the topic decides, then the cluster."""
    base = row_of(TakeOwnership())
    ordered = [
        base._replace(level=level, topic=name, cluster=cluster)
        for level in ("DataLoss", "Refused", "Disruptive", "Safe", "Notice")
        for name in "ab"
        for cluster in "xy"
    ]
    assert sorted(ordered[1::2] + ordered[::2], key=PlanRow.sort_key) == ordered


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("x" * 1000, "x" * 1000),
        ("x" * 1001, "x" * 997 + "..."),
        ("x" * 5000, "x" * 997 + "..."),
        ("x" * 999 + "\x1b", "x" * 997 + "..."),
        ("a\u202eb", "a\\u202eb"),
    ],
)
def test_a_text_has_a_thousand_characters(text: str, shown: str) -> None:
    """A longer text ends with three dots inside the limit; the limit counts what is shown."""
    assert plan.sanitize_text(text) == shown


def test_texts_are_made_printable_at_any_depth() -> None:
    """Texts in mappings and lists are made printable; keys, numbers and truth values stay."""
    value = {"a\x1b": ["\x1b", 1, {"b": "\x1b"}], "c": False, "d": None}
    assert plan.sanitize_texts(value) == {"a\x1b": ["\\x1b", 1, {"b": "\\x1b"}], "c": False, "d": None}


def test_a_repeated_text_is_an_index() -> None:
    """A text is written once; its index counts the distinct texts as they are shown."""
    table = plan.TextTable()
    assert [table.encode(text) for text in ("a", "b", "a", "\x1b", "\\x1b", "\x1b", "c", "c")] == [
        *("a", "b", 0, "\\x1b", 2, 2, "c", 3)
    ]


def test_data_ends_no_element() -> None:
    """Angle brackets, ampersands and letters beyond ASCII are escaped, without blanks between values."""
    assert plan.encode_data({"a": ["</script>&\u00e9", 1]}) == '{"a":["\\u003c/script\\u003e\\u0026\\u00e9",1]}'


@pytest.mark.parametrize(
    ("rows", "text"), [([], b"[]"), ([["a", 1]], b'[\n["a",1]\n]'), ([[1], [2], [3]], b"[\n[1],\n[2],\n[3]\n]")]
)
def test_rows_are_one_a_line(rows: list[list[object]], text: bytes) -> None:
    """Rows are a list in JSON with one row a line."""
    assert b"".join(plan.encode_rows(iter(rows))) == text


def test_a_page_has_its_data_at_the_place_of_each_name() -> None:
    """Text and chunks of bytes take the place of their names; everything else of the template stays."""
    parts = plan.PageParts("output/html/assets", "plan.html", ["plan.css"], ["shared/elements.js"])
    assert parts.script.startswith('(function () {\n"use strict";\n')
    assert parts.script.endswith("})();\n")
    whole = b"".join(plan.render_chunks(parts, {"plan": "{PLAN}", "rows": iter((b"[", b"]"))})).decode()
    data = {"plan": "{PLAN}", "rows": "[]", "style": parts.style, "script": parts.script, "policy": parts.policy}
    expected = parts.template
    for name, text in data.items():
        assert f"{{{{{name}}}}}" in expected
        expected = expected.replace(f"{{{{{name}}}}}", text)
    assert whole == expected

"""Output for CI systems: GitHub annotations, JUnit reports, errors as JSON and SARIF, and as lines of text."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import PositionedSource, spec, spread_replicas
from support.checkout import ROOT
from support.junit import JunitCase, read_junit
from support.plans import DATA_LOSS_RISK, KEY_REMAPPING_RISK, RETENTION_CHANGE, existing_topic_plan, plan
from topiarist import __version__
from topiarist.errors import Diagnostic, FieldPath, Location, Reason
from topiarist.model.moves import LeaderChange, MoveKind, ReplicaMove
from topiarist.model.plan import (
    AddPartitions,
    Change,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    Issue,
    MoveReplicas,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.spec import ClusterSpec, find_origin
from topiarist.output import ci
from topiarist.output.ci import to_json, to_sarif
from topiarist.output.text.layout import format_diagnostics
from topiarist.text import sanitize
from unit.output.markdown.test_sections import outside

FEWER = Issue(Reason.FEWER_PARTITIONS, "48 -> 12 partitions", ("partitions",), "set partitions: 48")
FOLDER = "/repo"


def test_the_worst_comes_first_each_at_its_line() -> None:
    """Refusals are errors, risks are warnings and notices are notices, the most severe first; safe changes have no
    annotation.
    """
    notice = Issue(Reason.MODIFIED_EXTERNALLY, "its config was changed by others", ("config",))
    found = plan(
        existing_topic_plan("a", UpdateConfig((RETENTION_CHANGE,))),
        existing_topic_plan("b", AddPartitions(6, (1, 2, 3), spread_replicas(8)[6:], KEY_REMAPPING_RISK)),
        TopicPlan("c", changes=(CreateTopic(spread_replicas(1), {}),)),
        replace(existing_topic_plan("d", findings=(FEWER,)), notices=(notice,)),
        existing_topic_plan("e", DeleteTopic(1, 3, DATA_LOSS_RISK)),
    )
    text = ci.format_plans([replace(found, orphans=("lost",), warnings=("no clusterId",))], ["prod-us"], FOLDER)
    assert text.splitlines() == [
        "::error title=Cluster prod-us::not planned: see the log of the run",
        "::error file=topics/d.yaml,line=9,col=15,title=d on prod-eu%3A refused (FewerPartitions)"
        "::48 -> 12 partitions%0Afix: set partitions: 48",
        "::warning file=topics/a.yaml,line=1,col=1,title=a on prod-eu%3A DataLoss"
        "::retention.ms 86400000 -> 3600000: messages older than 1 hour will be deleted",
        "::warning file=topics/e.yaml,line=1,col=1,title=e on prod-eu%3A DataLoss"
        "::delete 1 partition and all messages: messages older than 1 hour will be deleted",
        "::warning file=topics/b.yaml,line=9,col=15,title=b on prod-eu%3A Disruptive"
        "::grow 6 -> 8 partitions: keys map to other partitions",
        "::notice file=topics/d.yaml,line=1,col=1,title=d on prod-eu%3A ModifiedExternally"
        "::its config was changed by others",
        "::notice title=Cluster prod-eu::1 owned topic not in the given paths: lost",
        "::notice title=Cluster prod-eu::no clusterId",
    ]


def test_what_many_topics_share_is_said_once() -> None:
    """A write block of a cluster is one error for all its topics, without a line number."""
    closed = Issue(Reason.FROZEN, "frozen", (), "", (UpdateConfig((RETENTION_CHANGE,)),))
    found = plan(*(existing_topic_plan(f"t{number:02}", findings=(closed,)) for number in range(12)))
    assert ci.format_plans([found], [], FOLDER) == (
        "::error title=12 topics on prod-eu%3A refused (Frozen)::frozen"
        "%0Atopics: t00, t01, t02, t03, t04, t05, t06, t07, t08, t09, ...\n"
    )


def test_a_policys_rule_is_named_with_its_place() -> None:
    """A refusal and a notice name the rule behind them, by its file as git names it."""
    rule = existing_topic_plan("rules").spec
    assert rule is not None
    denied = Issue(Reason.POLICY_DENIED, "never", cause_origin=find_origin(rule, "partitions"))
    forbidden = denied._replace(reason=Reason.MOVE_NOT_ALLOWED)
    found = plan(
        replace(
            existing_topic_plan("a", findings=(denied, forbidden)),
            notices=(denied._replace(reason=Reason.POLICY_WARNING),),
        )
    )
    by_cluster, by_rule, notice = ci.format_plans([found], [], FOLDER).splitlines()
    assert by_cluster.endswith("::never%0Acluster at topics/rules.yaml:9:15")
    assert by_rule.endswith("::never%0Arule at topics/rules.yaml:9:15")
    assert notice.endswith("::never%0Arule at topics/rules.yaml:9:15")


def test_what_is_only_observed_is_only_noticed() -> None:
    """A topic in mode ``Observe`` yields notices only: no error and no warning."""
    found = plan(
        replace(existing_topic_plan("a", UpdateConfig((RETENTION_CHANGE,)), findings=(FEWER,)), observe_only=True)
    )
    (line,) = ci.format_plans([found], [], FOLDER).splitlines()
    assert line.startswith("::notice file=topics/a.yaml,line=9,col=15,title=a on prod-eu%3A refused")


def test_errors_and_warnings_stand_at_their_place() -> None:
    """Annotations name files below the working folder as git does, omit other files, and may refer to a whole file."""
    found = [
        Diagnostic(Location("/repo/topics/a,b.yaml", 9, 15), "found 100%, wanted 1", "leave it out\nnow"),
        Diagnostic(Location("b.yaml"), "cannot be read"),
        Diagnostic(Location("/etc/c.yaml", 1, 1), "found x"),
        Diagnostic(Location("<stdin>", 1, 1), "found y"),
    ]
    assert ci.format_diagnostics(
        found, [Diagnostic(Location("d.yaml", 2, 3), "no effect")], 7, FOLDER
    ).splitlines() == [
        "::error file=topics/a%2Cb.yaml,line=9,col=15,title=topiarist::found 100%25, wanted 1%0Aleave it out%0Anow",
        "::error file=b.yaml,title=topiarist::cannot be read",
        "::error title=topiarist::found x",
        "::error title=topiarist::found y",
        "::warning file=d.yaml,line=2,col=3,title=topiarist::no effect",
        "::error title=topiarist::7 more errors",
    ]


@given(outside, outside)
def test_no_text_begins_a_command_or_ends_one(name: str, message: str) -> None:
    """Any name or message yields exactly one annotation line with the expected fields."""
    diagnostic = Diagnostic(Location("a.yaml", 1, 2), message)
    finding = Issue(Reason.CONFIG_INVALID, message, ("partitions",))
    refused = replace(existing_topic_plan("a", findings=(finding,)), topic=name)
    for text in (
        ci.format_diagnostics([diagnostic], [], 0, FOLDER),
        ci.format_plans([replace(plan(refused), cluster=name)], [], FOLDER),
        ci.format_plans([], [name], FOLDER),
    ):
        (line,) = text.splitlines()
        _, command, _ = line.split("::", 2)
        level, _, fields = command.partition(" ")
        assert level == "error"
        assert [field.partition("=")[0] for field in fields.split(",")] in (["file", "line", "col", "title"], ["title"])
        assert "%" not in line.replace("%25", "").replace("%3A", "").replace("%2C", "").replace("%0A", "")


PLACES: dict[FieldPath, tuple[int, int]] = {
    ("spec", "partitions"): (9, 15),
    ("spec", "ensure"): (10, 11),
    ("spec", "replicationFactor"): (11, 3),
    ("spec", "replicaAssignment"): (12, 3),
    ("spec", "config", "retention.ms"): (13, 7),
}
FIELDS: dict[str, Any] = {
    "ensure": "Present",
    "partitions": 3,
    "replicationFactor": 3,
    "config": {"retention.ms": 3600000},
}


def moved(*kinds: MoveKind) -> MoveReplicas:
    """Return a disruptive move with these reasons."""
    return MoveReplicas((ReplicaMove("a", 0, (1,), (2,), kinds),), KEY_REMAPPING_RISK)


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (AddPartitions(1, (1,), ((1,),), KEY_REMAPPING_RISK), "9,col=15", "grow 1 -> 2 partitions"),
        (DeleteTopic(1, 3, DATA_LOSS_RISK), "10,col=11", "delete 1 partition and all messages"),
        (moved(MoveKind.FACTOR), "11,col=3", "move 1 partition, 1 copy"),
        (moved(MoveKind.DRAIN), "1,col=1", "move 1 partition, 1 copy"),
        (ElectLeaders((LeaderChange(0, 2, 1),), KEY_REMAPPING_RISK), "1,col=1", "elect the preferred leaders of 1"),
        (UpdateConfig((RETENTION_CHANGE,)), "13,col=7", "retention.ms 86400000 -> 3600000"),
        (UpdateConfig((RETENTION_CHANGE._replace(before=None),)), "13,col=7", "retention.ms not set -> 3600000"),
        (
            UpdateConfig((RETENTION_CHANGE._replace(after=None),)),
            "13,col=7",
            "retention.ms 86400000 -> brokers' default",
        ),
    ],
)
def test_a_risk_stands_at_the_field_that_asks_for_it(change: Change, line: str, words: str) -> None:
    """A warning is at the field of the manifest, or at its first line if the cluster asks for the change."""
    found = replace(existing_topic_plan("a", change), spec=spec("a", positions=PLACES, **FIELDS))
    (text,) = ci.format_plans([plan(found)], [], FOLDER).splitlines()
    risk = change.assessment
    assert text.startswith(f"::warning file=topics/a.yaml,line={line},title=a on prod-eu%3A {risk.risk.label}::{words}")
    assert text.endswith(f": {risk.explanation}")


def test_a_move_by_lists_stands_at_the_lists() -> None:
    """A move that the replica lists of the manifest ask for is at these, also if the factor changes with it."""
    wanted = spec("a", positions=PLACES, partitions=None, replicationFactor=None, replicaAssignment=[[2]])
    found = replace(existing_topic_plan("a", moved(MoveKind.FACTOR, MoveKind.ASSIGNMENT)), spec=wanted)
    assert "line=12,col=3" in ci.format_plans([plan(found)], [], FOLDER)


def test_a_refusal_says_what_it_holds_back() -> None:
    """The withheld changes are named below the fix, but not those that the whole cluster holds back."""
    issue = Issue(Reason.NOT_ADOPTED, "no", (), "--adopt=a", (UpdateConfig((RETENTION_CHANGE,)),))
    for reason, place, end in (
        (Reason.NOT_ADOPTED, "file=topics/a.yaml,line=1,col=1,", "%0Aheld back: configure"),
        (Reason.FROZEN, "", ""),
    ):
        found = plan(existing_topic_plan("a", findings=(issue._replace(reason=reason),)))
        assert ci.format_plans([found], [], FOLDER) == (
            f"::error {place}title=a on prod-eu%3A refused ({reason})::no%0Afix: --adopt=TOPIC{end}\n"
        )


def test_config_as_a_whole_is_at_the_topic() -> None:
    """A notice about the config stands at the topic, although defaults of the cluster have a place of their own."""
    source = PositionedSource("clusters.yaml", {("spec", "defaults", "config"): (14, 7)})
    on = ClusterSpec("prod-eu", default_config={"flush.ms": "1"}, source=source)
    noticed = replace(existing_topic_plan("a"), notices=(Issue(Reason.UNMANAGED, "x", ("config",)),))
    text = ci.format_plans([plan(replace(noticed, spec=spec("a", on)))], [], FOLDER)
    assert text.startswith("::notice file=topics/a.yaml,line=4,col=3,title=")
    without = ci.format_plans([plan(replace(noticed, spec=None))], [], FOLDER)
    assert without == "::notice title=a on prod-eu%3A Unmanaged::x\n"


@pytest.mark.parametrize(("count", "named"), [(10, ": t0, t1, t2, t3, t4, t5, t6, t7, t8, t9"), (11, "")])
def test_ten_names_are_listed(count: int, named: str) -> None:
    """Up to ten topics of one annotation are named; of more undeclared topics only the number."""
    names = tuple(f"t{number}" for number in range(count))
    found = replace(plan(), orphans=names, cluster="")
    assert ci.format_plans([found], [], FOLDER) == (
        f"::notice title=Cluster::{count} owned topics not in the given paths{named}\n"
    )
    shared = ci.format_plans([plan(*(existing_topic_plan(name, findings=(CLOSED,)) for name in names))], [], FOLDER)
    assert shared.endswith("topics: t0, t1, t2, t3, t4, t5, t6, t7, t8, t9" + (", ...\n" if not named else "\n"))


CLOSED = Issue(Reason.FROZEN, "frozen")


def test_text_is_escaped_for_the_runner() -> None:
    """Line ends and percent signs are escaped in messages, and in titles also what ends a field."""
    found = existing_topic_plan("a", findings=(Issue(Reason.NOT_ADOPTED, "50%\nnext\x1b"),))
    text = ci.format_plans([replace(plan(replace(found, topic="a:b,c%", spec=None)), cluster="")], [], FOLDER)
    assert text == "::error title=a%3Ab%2Cc%25%3A refused (NotAdopted)::50%25%0Anext\\x1b\n"


SCHEMA = json.loads((ROOT / "tests" / "third-party" / "sarif-2.1.0.json").read_text())
JUDGE = jsonschema.Draft7Validator(SCHEMA, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER)

ZERO = Diagnostic(Location("/repo/topics/a b.yaml", 9, 15), "partitions: found 0, wanted 1", "leave the line out")
WHOLE = Diagnostic(Location("topics/b.yaml"), "cannot be read", "", Reason.UNREADABLE.value)


def log(*found: Diagnostic, warnings: tuple[Diagnostic, ...] = (), more: int = 0) -> dict[str, Any]:
    """Return the only run of a log, after validation by the schema."""
    content = json.loads(to_sarif(found, warnings, suppressed_count=more, root="/repo"))
    JUDGE.validate(content)
    (run,) = content["runs"]
    assert isinstance(run, dict)
    return run


def test_each_error_is_a_result_at_its_region() -> None:
    """Each result has rule, level, text, the file as git names it, line and column; an error of a whole file has no
    region.
    """
    run = log(ZERO, WHOLE, warnings=(ZERO._replace(hint=""),))
    assert [(result["ruleId"], result["level"], result["message"]["text"]) for result in run["results"]] == [
        ("InvalidManifest", "error", "partitions: found 0, wanted 1\nleave the line out"),
        ("Unreadable", "error", "cannot be read"),
        ("Doubtful", "warning", "partitions: found 0, wanted 1"),
    ]
    assert [result["locations"][0]["physicalLocation"] for result in run["results"][:2]] == [
        {
            "artifactLocation": {"uri": "topics/a%20b.yaml", "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": 9, "startColumn": 15},
        },
        {"artifactLocation": {"uri": "topics/b.yaml", "uriBaseId": "%SRCROOT%"}},
    ]


def test_a_policys_word_is_a_rule_of_its_own() -> None:
    """Denials of a policy, warnings of a policy and manifest errors have different rules."""
    denied, warned = (ZERO._replace(reason=word) for word in ("PolicyDenied", "PolicyWarning"))
    run = log(denied, warnings=(warned,))
    assert [(result["ruleId"], result["level"]) for result in run["results"]] == [
        ("PolicyDenied", "error"),
        ("PolicyWarning", "warning"),
    ]
    assert all("policy" in rule["shortDescription"]["text"] for rule in run["tool"]["driver"]["rules"])


def test_each_rule_is_described_once() -> None:
    """The log lists each violated rule once, and each result refers to its rule."""
    run = log(ZERO, WHOLE, ZERO)
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["InvalidManifest", "Unreadable"]
    assert [rules[result["ruleIndex"]]["id"] for result in run["results"]] == [r["ruleId"] for r in run["results"]]
    assert log(ZERO._replace(reason="Denied"))["tool"]["driver"]["rules"] == [
        {"id": "Denied", "shortDescription": {"text": "A manifest that violates a rule."}}
    ]


def test_a_fingerprint_does_not_depend_on_the_line() -> None:
    """Added lines do not change a fingerprint; another file, message or rule does, and a duplicate error has its
    own.
    """

    def prints(*found: Diagnostic) -> list[str]:
        return [result["partialFingerprints"]["topiarist/v1"] for result in log(*found)["results"]]

    (first,) = prints(ZERO)
    # A release that computes another one makes every alert of a repository new.
    assert first == "616bf1f9a738b1679d35621e730a308a89d0ed84b311334e3481858fd775f277"
    assert prints(ZERO._replace(location=ZERO.location._replace(line=99, column=1))) == [first]
    assert prints(ZERO._replace(location=ZERO.location._replace(file="topics/a b.yaml"))) == [first]
    other, moved = (ZERO._replace(message=f"claimed by a.yaml:{n}:1, see line {n}") for n in (6, 12))
    assert prints(other) == prints(moved)
    others = (ZERO._replace(message="x"), ZERO._replace(reason="X"), ZERO._replace(location=Location("x", 9, 15)))
    assert len({first, *prints(*others), *prints(ZERO, ZERO)}) == 5


@pytest.mark.parametrize(
    ("file", "name"), [("/home-of/x/secret.yaml", "secret.yaml"), ("../a.yaml", "a.yaml"), ("<stdin>", "<stdin>")]
)
def test_no_path_of_the_machine_is_in_it(file: str, name: str) -> None:
    """The log names a file outside the working folder without its folders."""
    run = log(Diagnostic(Location(file, 1, 1), "found x"))
    assert run["results"][0]["locations"] == [{"message": {"text": name}}]
    assert "/repo" not in json.dumps(run)


def test_what_was_only_counted_is_said() -> None:
    """The log states that there are more errors than results."""
    (invocation,) = log(ZERO, more=9_900)["invocations"]
    (note,) = invocation["toolExecutionNotifications"]
    assert note["message"]["text"] == "not kept, only counted: 9,900 more errors."


def test_a_message_holds_neither_links_nor_placeholders() -> None:
    """Links and placeholders in a SARIF message are escaped to plain text."""
    text = log(ZERO._replace(message="[a](b) {0} {env: prod}", hint=""))["results"][0]["message"]["text"]
    assert text == "\\[a\\](b) {{0}} {env: prod}"
    assert log(ZERO._replace(message="[1,2]", hint=""))["results"][0]["message"]["text"] == "[1,2]"


@given(outside, outside)
def test_every_log_is_valid(file: str, message: str) -> None:
    """Every log is valid for any file name and message."""
    log(Diagnostic(Location(file or "x", 1, 1), message or "x"))


def test_a_log_says_how_it_is_to_be_read() -> None:
    """The log has the version of its format, the tool, the unit of its columns and the base of its paths. Without
    errors it has no results, so that code scanning closes earlier ones.
    """
    content = json.loads(to_sarif([ZERO], root="/repo"))
    assert content["version"] == "2.1.0"
    (run,) = content["runs"]
    assert (run["columnKind"], [*run["originalUriBaseIds"]]) == ("unicodeCodePoints", ["%SRCROOT%"])
    assert (run["tool"]["driver"]["name"], run["tool"]["driver"]["version"]) == ("topiarist", __version__)
    assert "invocations" not in run
    assert log()["results"] == []
    counted = log(ZERO, more=1)["invocations"][0]
    assert counted["executionSuccessful"]
    assert counted["toolExecutionNotifications"][0]["level"] == "warning"


NO_LINE = Diagnostic(Location("topics/a.yaml", 9, 15), "partitions: found 0, wanted 1 or more", "leave the line out")
BROKEN = Diagnostic(Location("topics/b.yaml"), "found \x1b[31m, wanted YAML")


def test_each_error_begins_with_its_place() -> None:
    """Place, label and message are on one line that editors can follow; the fix is on the next line. A warning differs
    in its label only, and no errors are an empty text.
    """
    assert format_diagnostics([NO_LINE, BROKEN]) == (
        "topics/a.yaml:9:15: error: partitions: found 0, wanted 1 or more\n"
        "    leave the line out\n"
        "topics/b.yaml: error: found \\x1b[31m, wanted YAML\n"
    )
    assert format_diagnostics([BROKEN], "warning") == "topics/b.yaml: warning: found \\x1b[31m, wanted YAML\n"
    assert format_diagnostics([]) == ""


def test_only_the_first_hundred_are_shown() -> None:
    """Of ten thousand errors, the text shows the first hundred and the number of the others."""
    lines = format_diagnostics([BROKEN] * 10_000).splitlines()
    assert len(lines) == 101
    assert lines[-1] == "... and 9,900 more"
    assert len(format_diagnostics([BROKEN] * 100).splitlines()) == 100
    assert format_diagnostics([BROKEN] * 2, suppressed_count=5).splitlines()[-1] == "... and 5 more"
    assert format_diagnostics([BROKEN] * 101, suppressed_count=5).splitlines()[-1] == "... and 6 more"


def test_json_has_all_errors_and_warnings() -> None:
    """JSON has every error with separate fields, without a limit; line 0 means the whole file."""
    found = json.loads(to_json([NO_LINE, BROKEN] * 100, [BROKEN], suppressed_count=5))
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


def test_a_junit_report_ends_as_the_plan_does() -> None:
    """A refusal is a failure, what cannot be read an error, an observed topic skipped, and a change passes."""
    cut = UpdateConfig((RETENTION_CHANGE,))
    found = plan(
        existing_topic_plan("a", cut),
        existing_topic_plan("b", cut, findings=(FEWER,)),
        existing_topic_plan("c", findings=(Issue(Reason.TOPIC_UNREADABLE, "no partition 0"), FEWER)),
        replace(existing_topic_plan("d", cut, findings=(FEWER,)), observe_only=True),
        replace(existing_topic_plan("e"), notices=(Issue(Reason.UNMANAGED, "1 config"),)),
        TopicPlan("f", changes=(CreateTopic(spread_replicas(1), {}),)),
        existing_topic_plan("g", findings=(Issue(Reason.NOT_ADOPTED, "no owner", (), "--adopt=g"),)),
    )
    refused = "topics/{}.yaml:9:15: refused (FewerPartitions): 48 -> 12 partitions\nfix: set partitions: 48"
    loses = "topics/{}.yaml:1:1: DataLoss: retention.ms 86400000 -> 3600000: messages older than 1 hour will be deleted"
    assert read_junit(ci.plans_to_junit([replace(found, warnings=("no clusterId",))], ["prod-us", ""], FOLDER)) == [
        JunitCase("prod-us", ci.CLUSTER_CASE, "error", "NotPlanned", "not planned: see the log of the run"),
        JunitCase("cluster", ci.CLUSTER_CASE, "error", "NotPlanned", "not planned: see the log of the run"),
        JunitCase(
            "prod-eu",
            ci.CLUSTER_CASE,
            text="Plan: 1 to create, 2 to configure, 4 refused, 1 observed, 812 unchanged.\nno clusterId",
        ),
        JunitCase("prod-eu", "a", text=f"configure\n{loses.format('a')}"),
        JunitCase(
            "prod-eu",
            "b",
            "failure",
            "FewerPartitions",
            f"{refused.format('b')}\n{loses.format('b')}",
        ),
        JunitCase(
            "prod-eu",
            "c",
            "error",
            "TopicUnreadable",
            f"topics/c.yaml:1:1: refused (TopicUnreadable): no partition 0\n{refused.format('c')}",
        ),
        JunitCase(
            "prod-eu", "d", "skipped", "FewerPartitions", f"observed, not applied: configure\n{refused.format('d')}"
        ),
        JunitCase("prod-eu", "e", text="topics/e.yaml:1:1: Unmanaged: 1 config"),
        JunitCase("prod-eu", "f", text="create 1 partition x 3 replicas"),
        JunitCase(
            "prod-eu", "g", "failure", "NotAdopted", "topics/g.yaml:1:1: refused (NotAdopted): no owner\nfix: --adopt=g"
        ),
    ]


def test_a_junit_report_of_manifests_has_each_error() -> None:
    """Each error is a test case, the others are counted, and warnings are output; without any error, it passes."""
    found = [NO_LINE, BROKEN._replace(reason=Reason.UNREADABLE.value)]
    assert read_junit(ci.diagnostics_to_junit(found, [BROKEN], 7, FOLDER)) == [
        JunitCase("topiarist", "manifests", text="topics/b.yaml: found \\x1b[31m, wanted YAML"),
        JunitCase("topiarist", "7 more errors", "failure", "InvalidManifest", "7 more errors"),
        JunitCase(
            "topics/a.yaml",
            f"9:15 {NO_LINE.message}",
            "failure",
            "InvalidManifest",
            f"topics/a.yaml:9:15: {NO_LINE.message}\n    leave the line out",
        ),
        JunitCase(
            "topics/b.yaml",
            "found \\x1b[31m, wanted YAML",
            "error",
            "Unreadable",
            "topics/b.yaml: found \\x1b[31m, wanted YAML",
        ),
    ]
    assert read_junit(ci.diagnostics_to_junit([], [], 0, FOLDER)) == [JunitCase("topiarist", "manifests")]


@given(outside | st.text(st.characters(codec=None), min_size=1, max_size=9))
def test_any_text_is_xml(text: str) -> None:
    """Markup, control characters and lone surrogates, which XML forbids, are shown escaped and change no structure."""
    refused = existing_topic_plan("a", findings=(Issue(Reason.CONFIG_INVALID, f"is {text}"),))
    found = replace(plan(replace(refused, topic=f"t{text}")), cluster=f"c{text}")
    case = read_junit(ci.plans_to_junit([found], [], FOLDER))[1]
    shown = "\n".join(map(sanitize, f"is {text}".split("\n")))
    assert case == JunitCase(
        sanitize(f"c{text}"),
        sanitize(f"t{text}"),
        "failure",
        "ConfigInvalid",
        f"topics/a.yaml:1:1: refused (ConfigInvalid): {shown}",
    )
    wrong = Diagnostic(Location(f"{FOLDER}/a.yaml", 1, 1), f"found {text}", text)
    assert read_junit(ci.diagnostics_to_junit([wrong], [wrong], 0, FOLDER))[1].suite == "a.yaml"

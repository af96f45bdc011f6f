"""GitHub annotations: line, text, order by severity, and escaping of external text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from support.plans import DATA_LOSS_RISK, KEY_REMAPPING_RISK, RETENTION_CHANGE, existing_topic_plan, plan
from support.states import PositionedSource, spec, spread_replicas
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
from unit.output.markdown.test_escape import outside

FEWER = Issue(Reason.FEWER_PARTITIONS, "48 -> 12 partitions", ("partitions",), "set partitions: 48")
ROOT = "/repo"


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
    text = ci.format_plans([replace(found, orphans=("lost",), warnings=("no clusterId",))], ["prod-us"], ROOT)
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
    assert ci.format_plans([found], [], ROOT) == (
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
    by_cluster, by_rule, notice = ci.format_plans([found], [], ROOT).splitlines()
    assert by_cluster.endswith("::never%0Acluster at topics/rules.yaml:9:15")
    assert by_rule.endswith("::never%0Arule at topics/rules.yaml:9:15")
    assert notice.endswith("::never%0Arule at topics/rules.yaml:9:15")


def test_what_is_only_observed_is_only_noticed() -> None:
    """A topic in mode ``Observe`` yields notices only: no error and no warning."""
    found = plan(
        replace(existing_topic_plan("a", UpdateConfig((RETENTION_CHANGE,)), findings=(FEWER,)), observe_only=True)
    )
    (line,) = ci.format_plans([found], [], ROOT).splitlines()
    assert line.startswith("::notice file=topics/a.yaml,line=9,col=15,title=a on prod-eu%3A refused")


def test_errors_and_warnings_stand_at_their_place() -> None:
    """Annotations name files below the working folder as git does, omit other files, and may refer to a whole file."""
    found = [
        Diagnostic(Location("/repo/topics/a,b.yaml", 9, 15), "found 100%, wanted 1", "leave it out\nnow"),
        Diagnostic(Location("b.yaml"), "cannot be read"),
        Diagnostic(Location("/etc/c.yaml", 1, 1), "found x"),
        Diagnostic(Location("<stdin>", 1, 1), "found y"),
    ]
    assert ci.format_diagnostics(found, [Diagnostic(Location("d.yaml", 2, 3), "no effect")], 7, ROOT).splitlines() == [
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
        ci.format_diagnostics([diagnostic], [], 0, ROOT),
        ci.format_plans([replace(plan(refused), cluster=name)], [], ROOT),
        ci.format_plans([], [name], ROOT),
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
FIELDS: dict[str, Any] = {"ensure": "Present", "config": {"retention.ms": 3600000}}


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
    (text,) = ci.format_plans([plan(found)], [], ROOT).splitlines()
    risk = change.assessment
    assert text.startswith(f"::warning file=topics/a.yaml,line={line},title=a on prod-eu%3A {risk.risk.label}::{words}")
    assert text.endswith(f": {risk.explanation}")


def test_a_move_by_lists_stands_at_the_lists() -> None:
    """A move that the replica lists of the manifest ask for is at these, also if the factor changes with it."""
    wanted = spec("a", positions=PLACES, partitions=None, replicationFactor=None, replicaAssignment=[[2]])
    found = replace(existing_topic_plan("a", moved(MoveKind.FACTOR, MoveKind.ASSIGNMENT)), spec=wanted)
    assert "line=12,col=3" in ci.format_plans([plan(found)], [], ROOT)


def test_a_refusal_says_what_it_holds_back() -> None:
    """The withheld changes are named below the fix, but not those that the whole cluster holds back."""
    issue = Issue(Reason.NOT_ADOPTED, "no", (), "--adopt=a", (UpdateConfig((RETENTION_CHANGE,)),))
    for reason, place, end in (
        (Reason.NOT_ADOPTED, "file=topics/a.yaml,line=1,col=1,", "%0Aheld back: configure"),
        (Reason.FROZEN, "", ""),
    ):
        found = plan(existing_topic_plan("a", findings=(issue._replace(reason=reason),)))
        assert ci.format_plans([found], [], ROOT) == (
            f"::error {place}title=a on prod-eu%3A refused ({reason})::no%0Afix: --adopt=TOPIC{end}\n"
        )


def test_config_as_a_whole_is_at_the_topic() -> None:
    """A notice about the config stands at the topic, although defaults of the cluster have a place of their own."""
    source = PositionedSource("clusters.yaml", {("spec", "defaults", "config"): (14, 7)})
    on = ClusterSpec("prod-eu", default_config={"flush.ms": "1"}, source=source)
    noticed = replace(existing_topic_plan("a"), notices=(Issue(Reason.UNMANAGED, "x", ("config",)),))
    text = ci.format_plans([plan(replace(noticed, spec=spec("a", on)))], [], ROOT)
    assert text.startswith("::notice file=topics/a.yaml,line=1,col=1,title=")
    without = ci.format_plans([plan(replace(noticed, spec=None))], [], ROOT)
    assert without == "::notice title=a on prod-eu%3A Unmanaged::x\n"


@pytest.mark.parametrize(("count", "named"), [(10, ": t0, t1, t2, t3, t4, t5, t6, t7, t8, t9"), (11, "")])
def test_ten_names_are_listed(count: int, named: str) -> None:
    """Up to ten topics of one annotation are named; of more undeclared topics only the number."""
    names = tuple(f"t{number}" for number in range(count))
    found = replace(plan(), orphans=names, cluster="")
    assert ci.format_plans([found], [], ROOT) == (
        f"::notice title=Cluster::{count} owned topics not in the given paths{named}\n"
    )
    shared = ci.format_plans([plan(*(existing_topic_plan(name, findings=(CLOSED,)) for name in names))], [], ROOT)
    assert shared.endswith("topics: t0, t1, t2, t3, t4, t5, t6, t7, t8, t9" + (", ...\n" if not named else "\n"))


CLOSED = Issue(Reason.FROZEN, "frozen")


def test_text_is_escaped_for_the_runner() -> None:
    """Line ends and percent signs are escaped in messages, and in titles also what ends a field."""
    found = existing_topic_plan("a", findings=(Issue(Reason.NOT_ADOPTED, "50%\nnext\x1b"),))
    text = ci.format_plans([replace(plan(replace(found, topic="a:b,c%", spec=None)), cluster="")], [], ROOT)
    assert text == "::error title=a%3Ab%2Cc%25%3A refused (NotAdopted)::50%25%0Anext\\x1b\n"

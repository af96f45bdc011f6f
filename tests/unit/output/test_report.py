"""The report of an apply: its lines of JSON follow the schema, and its text has each outcome."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft7Validator
from msgspec.structs import replace

from support.builders import CLUSTER_ID, plan, replica_lists, spec, state, topic
from support.examples import examples
from support.strategies import PlanInput, plan_inputs
from topiarist.errors import Reason
from topiarist.model.moves import MoveKind, ReplicaMove
from topiarist.model.outcome import Outcome, ReconcileReport, Result
from topiarist.model.plan import ImpliedTopic, Issue, MoveReplicas, Plan, Risk, RiskAssessment, TopicPlan
from topiarist.output import report
from topiarist.output.report import format_report, format_report_summary
from topiarist.output.text.layout import TextLayout
from topiarist.schema import load

AT = "2000-01-31T12:00:00.000+00:00"
SCHEMA = load.load_schema("report")
VALIDATOR = Draft7Validator(SCHEMA)

SEEN = state(topic("orders", replica_lists("12", "23"), "segment.ms", config={"segment.ms": "5"}))
REPORTED = plan(SEEN, spec("orders", partitions=1, config={"segment.ms": 6}))


def parsed(line: str) -> dict[str, Any]:
    """Return a report line as an object, after validation as one line of the schema."""
    assert "\n" not in line
    found: dict[str, Any] = json.loads(line)
    VALIDATOR.validate(found)
    return found


def of(found: Plan) -> TopicPlan:
    return found.topics[0]


def test_a_header_says_who_and_where() -> None:
    """The header has the owner, the format version and the cluster ids, and no address."""
    found = parsed(report.format_header([REPORTED], at=AT, owner="team", mode="plan", fingerprint="a" * 64))
    assert (found["row"], found["owner"], found["form"], found["fingerprint"]) == ("header", "team", "plan", "a" * 64)
    assert found["clusters"] == [{"name": "prod", "clusterId": CLUSTER_ID, "chroot": ""}]


def test_a_header_names_the_topics_that_the_run_also_creates() -> None:
    """The header has each topic that the first apply makes without a manifest, unless the run changes nothing."""
    implied = (ImpliedTopic("__topiarist", 1, 3, "topiarist", "its records"),)
    for made, names in (
        (replace(REPORTED, implied=implied), ["__topiarist"]),
        (replace(REPORTED, topics=(), implied=implied), []),
    ):
        found = parsed(report.format_header([made], at=AT, owner="team", mode="plan", fingerprint=None))
        assert [each["topic"] for each in found["clusters"][0].get("alsoCreates", ())] == names


def test_a_topic_has_its_changes_and_its_refusals() -> None:
    """A topic line has its outcome, and all its changes and refusals with the values before and after."""
    found = parsed(report.format_topic(REPORTED, of(REPORTED), Outcome("orders", Result.DONE), at=AT))
    assert (found["cluster"], found["topic"], found["result"], found["reason"]) == ("prod", "orders", "done", None)
    assert found["record"]["before"] == {"owner": "default", "config": ["segment.ms"], "absent": False}
    (change,) = found["changes"]
    assert [(item["key"], item["before"], item["after"]) for item in change["config"]] == [("segment.ms", "5", "6")]
    assert [refusal["reason"] for refusal in found["refusals"]] == ["FewerPartitions"]


def test_a_topic_has_its_id_where_one_is_known() -> None:
    """A topic line has the topic id of the progress, else the id from before the run; null if there is none."""
    known = replace(of(REPORTED), before=replace(SEEN.topics["orders"], topic_id="A" * 22))
    for found, outcome, wanted in (
        (of(REPORTED), Outcome("orders", Result.DONE), None),
        (known, Outcome("orders", Result.DONE), "A" * 22),
        (of(REPORTED), Outcome("orders", Result.DONE, topic_id="B" * 22), "B" * 22),
        (replace(of(REPORTED), before=None), Outcome("orders", Result.DONE), None),
    ):
        assert parsed(report.format_topic(REPORTED, found, outcome, at=AT))["topicId"] == wanted


@pytest.mark.parametrize(("batch", "written"), [(2, 2), (0, None)])
def test_a_moved_partition_has_a_line(batch: int, written: int | None) -> None:
    """The line has the lists before and after, the reasons, and the batch; null for a batch of an earlier run."""
    move = ReplicaMove("orders", 3, (1, 2), (4, 2), (MoveKind.DRAIN,))
    known = replace(of(REPORTED), before=replace(SEEN.topics["orders"], topic_id="A" * 22))
    found = parsed(report.format_move(REPORTED, known, move, batch=batch, at=AT))
    assert (found["topic"], found["topicId"], found["partition"]) == ("orders", "A" * 22, 3)
    assert (found["before"], found["after"], found["reasons"]) == ([1, 2], [4, 2], ["Drain"])
    assert found["batch"] == written


def test_a_summary_counts_results() -> None:
    """The summary has the count of each result, the exit code, and the error that ended the work on a cluster."""
    results = [Result.DONE, Result.CONFLICT, Result.DONE]
    found = parsed(report.format_summary(results, at=AT, code=130, reasons=[Reason.SESSION_LOST]))
    assert (found["results"], found["exit"], found["errors"]) == ({"done": 2, "conflict": 1}, 130, ["SessionLost"])


@examples(200)
@given(plan_inputs())
def test_every_plan_has_lines_of_the_schema(world: PlanInput) -> None:
    """Every plan and every outcome yield lines that the schema accepts."""
    made = world.plan()
    for found, result in zip(made.topics, [*Result] * 2, strict=False):
        parsed(report.format_topic(made, found, Outcome(found.topic, result, Reason.STATE_CONFLICT, "x"), at=AT))
        if found.refusals:
            parsed(report.format_topic(made, found, report.make_refused_outcome(found), at=AT))


def test_the_results_of_the_schema_are_those_of_the_code() -> None:
    """The results in the schema equal those in the code."""
    assert SCHEMA["definitions"]["topic"]["properties"]["result"]["enum"] == [result.value for result in Result]


@pytest.mark.parametrize("spoil", [{"row": "end"}, {"exit": "0"}, {"more": 1}, {"at": "now"}, {"results": {"done": 0}}])
def test_what_is_no_line_is_refused(spoil: dict[str, Any]) -> None:
    """The schema rejects a line with one wrong value."""
    line = parsed(report.format_summary([Result.DONE], at=AT, code=0, reasons=[]))
    assert not VALIDATOR.is_valid(line | spoil)


PLAN = Plan("prod-eu", "id")


def shown(*outcomes: Outcome, verbose: bool = False) -> str:
    """Return the report of these outcomes."""
    return format_report(ReconcileReport(PLAN, outcomes), TextLayout(verbose=verbose))


def test_success_is_short() -> None:
    """Topics that are done or unchanged take one line per outcome."""
    assert shown(Outcome("b", Result.DONE), Outcome("a", Result.DONE), Outcome("c", Result.UNCHANGED)) == (
        "prod-eu\n  + done           a, b\n  = unchanged      c\nApplied: 2 done, 1 unchanged.\n"
    )


def test_many_successes_are_condensed() -> None:
    """Of many topics that are done, the report names the first ones, or all with ``--verbose``."""
    done = [Outcome(f"t{i:03}", Result.DONE) for i in range(812)]
    assert shown(*done) == (
        "prod-eu\n"
        "  + done           t000, t001, t002, t003, t004, t005, t006, t007, t008, t009,\n"
        "                   t010, ... 801 more\n"
        "Applied: 812 done.\n"
    )
    assert "t811" in shown(*done, verbose=True)


def test_what_went_wrong_is_told_topic_by_topic() -> None:
    """Each topic that is not done has its message and reason; the next step appears once per kind."""
    assert shown(
        Outcome("a", Result.DONE),
        Outcome("b", Result.CONFLICT, Reason.STATE_CONFLICT, "had 6 partitions, and has 9 now"),
        Outcome("c", Result.FAILED, Reason.NO_PERMISSION, "no permission to write /brokers/topics/c"),
        Outcome("d", Result.UNKNOWN, Reason.OUTCOME_UNKNOWN, "the session was lost before the answer"),
        Outcome("e", Result.REFUSED, Reason.FROZEN, "frozen: moving racks"),
        Outcome("f", Result.SKIPPED),
    ) == (
        "prod-eu\n"
        "  + done           a\n"
        "  . skipped        f\n"
        "  ~ b              conflict: had 6 partitions, and has 9 now\n"
        "  ! c              failed: no permission to write /brokers/topics/c\n"
        "      reason       NoPermission\n"
        "  ? d              unknown: the session was lost before the answer\n"
        "      reason       OutcomeUnknown\n"
        "  ! e              refused: frozen: moving racks\n"
        "      reason       Frozen\n"
        "  conflict: the topic changed after it was planned, so nothing was written; plan\n"
        "  again\n"
        "  unknown: a request was sent, and its outcome was not read; the next run checks\n"
        "  if it was written\n"
        "  skipped: the run ended first, so nothing was written\n"
        "Applied: 1 done, 1 conflict, 1 refused, 1 failed, 1 unknown, 1 skipped.\n"
    )


def _moved_plan(*names: str) -> Plan:
    """Return a plan that moves two partitions of each topic, one of them without a copy."""
    topics = []
    for name in names:
        moves = (ReplicaMove(name, 0, (1, 2), (4, 2)), ReplicaMove(name, 1, (1, 2), (2, 1)))
        topics.append(TopicPlan(name, changes=(MoveReplicas(moves, RiskAssessment(Risk.DISRUPTIVE, "copies")),)))
    return Plan("prod-eu", "id", topics=tuple(topics))


def test_moved_partitions_are_counted() -> None:
    """Topics with finished moves have one line with the partitions and copies; unfinished ones have the next step."""
    outcomes = (
        Outcome("a", Result.DONE),
        Outcome("b", Result.DONE),
        Outcome("c", Result.PENDING, Reason.MOVES_UNFINISHED, "1 of 2 partitions moved; run again for the rest"),
        Outcome("d", Result.REFUSED, Reason.NOT_IN_SYNC, "broker 2 keeps a replica of partition 0 that is not in sync"),
    )
    assert format_report(ReconcileReport(_moved_plan("a", "b", "c", "d"), outcomes), TextLayout()) == (
        "prod-eu\n"
        "  + done           a, b\n"
        "  + moved          4 partitions of 2 topics, 2 replicas copied\n"
        "  ? c              pending: 1 of 2 partitions moved; run again for the rest\n"
        "      reason       MovesUnfinished\n"
        "  ! d              refused: broker 2 keeps a replica of partition 0 that is not\n"
        "                   in sync\n"
        "      reason       NotInSync\n"
        "  pending: a batch that was sent continues at the controller, with its throttle,\n"
        "  and no further batch is sent; run the same command again for the rest\n"
        "  (topiarist moves shows what is left)\n"
        "Applied: 2 done, 1 refused, 1 pending.\n"
    )


def test_success_is_green() -> None:
    """What was done and what was moved have one colour."""
    text = format_report(ReconcileReport(_moved_plan("a"), (Outcome("a", Result.DONE),)), TextLayout(use_color=True))
    assert "\x1b[32m+ done\x1b[0m" in text
    assert "\x1b[32m+ moved\x1b[0m" in text


def test_an_idle_run_says_so() -> None:
    """A run without changes has one line below the name of the cluster."""
    assert shown() == "prod-eu\nApplied: nothing to do.\n"


def test_the_unnamed_cluster_has_no_line_for_its_name() -> None:
    """A cluster without a name has no empty line in place of the name."""
    assert format_report(ReconcileReport(Plan("", "id")), TextLayout()) == "Applied: nothing to do.\n"


def test_messages_cannot_drive_the_terminal() -> None:
    """An ANSI sequence in a message from a znode is escaped."""
    assert "\x1b" not in shown(Outcome("a", Result.FAILED, Reason.WRITE_FAILED, "\x1b[2Jgone"))


def test_a_word_on_a_topic_that_was_done_is_told() -> None:
    """A topic that is done with a message has its own entry; a list that is empty without the topic is omitted."""
    word = Outcome("b", Result.DONE, Reason.NOT_INITIALIZED, "partition 1: not waited for")
    told = "  + b              done: partition 1: not waited for\n      reason       NotInitialized\n"
    assert shown(Outcome("a", Result.DONE), word) == f"prod-eu\n  + done           a\n{told}Applied: 2 done.\n"
    assert shown(word) == f"prod-eu\n{told}Applied: 1 done.\n"


@pytest.mark.parametrize(
    ("result", "style", "sign"),
    [
        (Result.CONFLICT, "33", "~"),
        (Result.REFUSED, "1;31", "!"),
        (Result.UNKNOWN, "1;31", "?"),
        (Result.PENDING, "33", "?"),
        (Result.FAILED, "1;31", "!"),
        (Result.DONE, "32", "+"),
        (Result.SKIPPED, "2", "."),
    ],
)
def test_a_result_has_its_sign_and_its_color(result: Result, style: str, sign: str) -> None:
    """Green is done, yellow is not finished, red has failed; the name of the cluster and the summary are bold."""
    report = ReconcileReport(Plan("prod-eu", "id"), (Outcome("a", result, Reason.WRITE_FAILED, "so"),))
    lines = format_report(report, TextLayout(use_color=True)).splitlines()
    assert lines[0] == "\x1b[1mprod-eu\x1b[0m"
    assert lines[1] == f"  \x1b[{style}m{sign} a              \x1b[0m{result.value}: so"
    reason = f"      \x1b[2mreason\x1b[0m       {Reason.WRITE_FAILED.value}"
    assert (reason in lines) is (result is not Result.CONFLICT)
    assert lines[-1] == f"\x1b[1mApplied: 1 {result.value}.\x1b[0m"


def test_what_came_along_is_named_once_a_record_was_written() -> None:
    """A topic that a run makes beside those of manifests is listed with its maker, if one topic was done."""
    implied = ImpliedTopic("__topiarist", 1, 3, "topiarist", "its records")
    plan = replace(_moved_plan("a"), implied=(implied,))
    done = format_report(ReconcileReport(plan, (Outcome("a", Result.DONE),)), TextLayout())
    assert "  + also created   __topiarist (by topiarist)\n" in done
    failed = format_report(ReconcileReport(plan, (Outcome("a", Result.FAILED),)), TextLayout())
    assert "also created" not in failed


def test_the_summary_counts_what_the_plan_refused() -> None:
    """A topic that is refused in part counts as refused, and one that its cluster holds back as held back."""
    refused, held = Issue(Reason.NOT_ADOPTED, "no"), Issue(Reason.FROZEN, "frozen")
    topics = (TopicPlan("a", refusals=(refused, held)), TopicPlan("b", refusals=(held,)), TopicPlan("c"))
    report = ReconcileReport(Plan("", "id", topics=topics), (Outcome("a", Result.DONE), Outcome("c", Result.REFUSED)))
    assert format_report_summary(report, TextLayout()) == "Applied: 1 done, 2 refused, 2 held back.\n"
    named = ReconcileReport(Plan("eu", "id"), (Outcome("a", Result.UNCHANGED),) * 1200)
    assert format_report_summary(named, TextLayout(use_color=True)) == "\x1b[1meu: Applied: 1,200 unchanged.\x1b[0m\n"

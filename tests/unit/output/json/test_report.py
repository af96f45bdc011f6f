"""Lines of a JSON report: schema and content."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft7Validator
from msgspec.structs import replace

from support.builders import plan, replica_lists, spec, state, topic
from support.examples import examples
from support.strategies import PlanInput, plan_inputs
from topiarist.errors import Reason
from topiarist.model.moves import MoveKind, ReplicaMove
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import ImpliedTopic, Plan, TopicPlan
from topiarist.output import report
from topiarist.schema import load

AT = "2000-01-31T12:00:00.000+00:00"
SCHEMA = load.load_schema("report")
LINES = {"header", "topic", "move", "summary"}
"""The kinds of lines."""
VALIDATOR = Draft7Validator(SCHEMA)

SEEN = state(topic("orders", replica_lists("12", "23"), "segment.ms", config={"segment.ms": "5"}))
PLAN = plan(SEEN, spec("orders", partitions=1, config={"segment.ms": 6}))


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
    found = parsed(report.format_header([PLAN], at=AT, owner="team", mode="plan", fingerprint="a" * 64))
    assert (found["row"], found["owner"], found["form"], found["fingerprint"]) == ("header", "team", "plan", "a" * 64)
    assert found["clusters"] == [{"name": "prod", "clusterId": "ID", "chroot": ""}]


def test_a_header_names_the_topics_that_the_run_also_creates() -> None:
    """The header has each topic that the first apply makes without a manifest, unless the run changes nothing."""
    implied = (ImpliedTopic("__topiarist", 1, 3, "topiarist", "its records"),)
    for made, names in (
        (replace(PLAN, implied=implied), ["__topiarist"]),
        (replace(PLAN, topics=(), implied=implied), []),
    ):
        found = parsed(report.format_header([made], at=AT, owner="team", mode="plan", fingerprint=None))
        assert [each["topic"] for each in found["clusters"][0].get("alsoCreates", ())] == names


def test_a_topic_has_its_changes_and_its_refusals() -> None:
    """A topic line has its outcome, and all its changes and refusals with the values before and after."""
    found = parsed(report.format_topic(PLAN, of(PLAN), Outcome("orders", Result.DONE), at=AT))
    assert (found["cluster"], found["topic"], found["result"], found["reason"]) == ("prod", "orders", "done", None)
    assert found["record"]["before"] == {"owner": "default", "config": ["segment.ms"], "absent": False}
    (change,) = found["changes"]
    assert [(item["key"], item["before"], item["after"]) for item in change["config"]] == [("segment.ms", "5", "6")]
    assert [refusal["reason"] for refusal in found["refusals"]] == ["FewerPartitions"]


def test_a_topic_has_its_id_where_one_is_known() -> None:
    """A topic line has the topic id of the progress, else the id from before the run; null if there is none."""
    known = replace(of(PLAN), before=replace(SEEN.topics["orders"], topic_id="A" * 22))
    for found, outcome, wanted in (
        (of(PLAN), Outcome("orders", Result.DONE), None),
        (known, Outcome("orders", Result.DONE), "A" * 22),
        (of(PLAN), Outcome("orders", Result.DONE, topic_id="B" * 22), "B" * 22),
        (replace(of(PLAN), before=None), Outcome("orders", Result.DONE), None),
    ):
        assert parsed(report.format_topic(PLAN, found, outcome, at=AT))["topicId"] == wanted


@pytest.mark.parametrize(("batch", "written"), [(2, 2), (0, None)])
def test_a_moved_partition_has_a_line(batch: int, written: int | None) -> None:
    """The line has the lists before and after, the reasons, and the batch; null for a batch of an earlier run."""
    move = ReplicaMove("orders", 3, (1, 2), (4, 2), (MoveKind.DRAIN,))
    known = replace(of(PLAN), before=replace(SEEN.topics["orders"], topic_id="A" * 22))
    found = parsed(report.format_move(PLAN, known, move, batch=batch, at=AT))
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


@pytest.mark.parametrize("name", sorted(SCHEMA["definitions"].keys() - LINES))
def test_what_reports_and_plans_share_is_the_same(name: str) -> None:
    """Changes and ownership records have the same definitions in the schemas of reports and plans."""
    assert SCHEMA["definitions"][name] == load.load_schema("plan")["definitions"][name]


def test_every_field_has_a_description() -> None:
    """The schema is valid, and each of its fields has a description."""
    Draft7Validator.check_schema(SCHEMA)
    for name in LINES:
        for field, inner in SCHEMA["definitions"][name]["properties"].items():
            assert "$ref" in inner or inner["description"].endswith("."), field


@pytest.mark.parametrize("spoil", [{"row": "end"}, {"exit": "0"}, {"more": 1}, {"at": "now"}, {"results": {"done": 0}}])
def test_what_is_no_line_is_refused(spoil: dict[str, Any]) -> None:
    """The schema rejects a line with one wrong value."""
    line = parsed(report.format_summary([Result.DONE], at=AT, code=0, reasons=[]))
    assert not VALIDATOR.is_valid(line | spoil)

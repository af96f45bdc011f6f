"""The checks of JSON, Markdown and JUnit reports find each part of a plan that one of these forms loses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from acceptance.plan_forms import PrintedPlans, check_json, check_markdown
from support.builders import plan, replica_lists, spec, state, topic
from topiarist.adapters.saved_plans import encode
from topiarist.errors import Location, Reason, TopiaristError
from topiarist.model.plan import Plan
from topiarist.model.state import WriteBlock
from topiarist.output import ci
from topiarist.output.markdown import plan as markdown
from topiarist.output.markdown import sections

PLAN = replace(
    plan(
        state(
            topic("clicks", replica_lists("12", "23"), "retention.ms", config={"retention.ms": "7", "segment.ms": "5"}),
            topic("gone", replica_lists("12")),
            topic("other", replica_lists("12"), record=None),
        ),
        spec("clicks", partitions=4, replicationFactor=3, config={"retention.ms": 8}),
        spec("gone", ensure="Absent"),
        spec("orders", config={"retention.ms": 9}),
        spec("other", partitions=3),
    ),
    warnings=("one warning",),
    orphans=("left-behind",),
)
"""A plan with every part: creation, growth, config, deletion, refusals with withheld changes, and a notice."""

CLICKS, GONE, ORDERS, OTHER = PLAN.topics


def render_json(found: Plan) -> str:
    return encode.dumps(encode.encode_plans([found]))


def render_markdown(found: Plan) -> str:
    return markdown.format_plans([found], (), "/")


def render_junit(found: Plan) -> str:
    return ci.plans_to_junit([found], (), "/")


RENDERERS = {"json": render_json, "markdown": render_markdown, "junit": render_junit}


def in_clicks(**fields: Any) -> Plan:
    """Return the plan with other fields of its first topic."""
    return replace(PLAN, topics=(replace(CLICKS, **fields), GONE, ORDERS, OTHER))


def with_refusal(**fields: Any) -> Plan:
    """Return the plan with other fields of the refusal of its last topic."""
    refusal = OTHER.refusals[0]._replace(**fields)
    return replace(PLAN, topics=(CLICKS, GONE, ORDERS, replace(OTHER, refusals=(refusal,))))


LOST_BY_BOTH = {
    "a topic": replace(PLAN, topics=(CLICKS, GONE, ORDERS)),
    "a change": in_clicks(changes=CLICKS.changes[1:]),
    "a refusal": in_clicks(refusals=()),
    "the reason of a refusal": with_refusal(reason=Reason.NOT_OWNED),
    "the message of a refusal": with_refusal(message=""),
    "the hint of a refusal": with_refusal(hint=""),
    "what a refusal withholds": with_refusal(withheld=()),
    "a notice": in_clicks(notices=()),
    "a warning": replace(PLAN, warnings=()),
    "an owned topic without a manifest": replace(PLAN, orphans=()),
    "that a topic is observed": in_clicks(observe_only=True),
    "the cluster's name": replace(PLAN, cluster="test"),
}
"""The plan without one of its parts, in which both forms must differ."""

LOST_BY_JSON = {
    "the number of unchanged topics": replace(PLAN, unchanged=PLAN.unchanged + 1),
    "the field of a refusal": with_refusal(field=("partitions",)),
    "the write block": replace(PLAN, write_block=WriteBlock(Reason.FROZEN, "frozen")),
    "the chroot": replace(PLAN, chroot="/other"),
    "the record before": in_clicks(record_before=None, before=replace(CLICKS.before, record_valid=False)),  # type: ignore[type-var]
    "the identity": in_clicks(before=replace(CLICKS.before, identity="77")),  # type: ignore[type-var]
    "the group": in_clicks(co_partition_group="joined"),
    "the usage": in_clicks(usage=("used by one group",)),
}


def test_all_forms_hold_the_plan_itself() -> None:
    """Nothing is missing from JSON, Markdown and JUnit report of a plan, and of a run without any plan."""
    PrintedPlans([PLAN], {}, lambda form: RENDERERS[form](PLAN)).check()
    check_json([], {"prod": TopiaristError(Reason.UNREACHABLE, "away")}, "")
    check_markdown([], ["prod"], markdown.format_plans([], ["prod"], "/"))


@pytest.mark.parametrize("other", (LOST_BY_BOTH | LOST_BY_JSON).values(), ids=LOST_BY_BOTH | LOST_BY_JSON)
def test_json_that_loses_a_part_is_found(other: Plan) -> None:
    """JSON with another plan is valid, but fails the check."""
    with pytest.raises(AssertionError, match="the JSON holds another plan"):
        check_json([PLAN], {}, render_json(other))


@pytest.mark.parametrize("other", LOST_BY_BOTH.values(), ids=LOST_BY_BOTH)
def test_markdown_that_loses_a_part_is_found(other: Plan) -> None:
    """Markdown without a topic, a reason, a message or a count of the plan fails the check."""
    with pytest.raises(AssertionError, match="not in the Markdown of the plan"):
        check_markdown([PLAN], (), render_markdown(other))


def _lose_notices(original: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    return lambda topic: {**original(topic), "notices": []}


def _lose_refusals(_original: Callable[..., str]) -> Callable[..., str]:
    return lambda *_args: ""


@pytest.mark.parametrize(
    ("module", "name", "fault"),
    [
        (encode, "_encode_topic", _lose_notices),
        (sections, "_format_refusal", _lose_refusals),
        (
            ci,
            "_build_annotations",
            lambda _: lambda *_args, **_options: [ci._Annotation(0, Location(""), "", "", "", "lost")],
        ),
    ],
    ids=["json", "markdown", "junit"],
)
def test_a_fault_of_a_renderer_is_found(
    module: Any, name: str, fault: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A renderer that loses notices or refusals fails the check of the plans that commands print."""
    monkeypatch.setattr(module, name, fault(getattr(module, name)))
    printed = PrintedPlans([PLAN], {}, lambda form: RENDERERS[form](PLAN))
    with pytest.raises(AssertionError, match=r"holds another plan|not in the (Markdown|JUnit)"):
        printed.check()

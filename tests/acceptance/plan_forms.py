"""Checks that the JSON, the Markdown and the JUnit report of a plan hold what the plan holds.

The text of each plan that an example prints is a golden file. Its JSON and Markdown are golden files of a few examples
only (``examples/all_forms.yaml``). Everywhere else these checks compare all forms with the plan itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from html import unescape
from itertools import chain
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from support.junit import read_junit
from topiarist.adapters.saved_plans.decode import parse_plan_file
from topiarist.cli import formats
from topiarist.cli.terminal import Settings
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import NO_MOVES
from topiarist.model.plan import (
    AddPartitions,
    Change,
    CreateTopic,
    DeleteTopic,
    MoveReplicas,
    Nudge,
    Plan,
    ReleaseOwnership,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
    retained_managed_keys,
)
from topiarist.model.state import TopicState
from topiarist.output.ci import CLUSTER_CASE
from topiarist.output.view import CLUSTER_WIDE_REASONS
from topiarist.text import sanitize

_COLUMNS: dict[str, type[Change]] = {
    "create": CreateTopic,
    "grow": AddPartitions,
    "move": MoveReplicas,
    "configure": UpdateConfig,
    "delete": DeleteTopic,
}
"""The columns of the Markdown table that count topics with a change of one kind."""


class PrintedPlans(NamedTuple):
    """The plans that one command printed, the clusters without a plan, and a function that prints another format."""

    plans: Sequence[Plan]
    errors: Mapping[str, TopiaristError]
    render: Callable[[str], str]

    def check(self) -> None:
        """Assert that each form holds the plans; those of ``unmanage`` and ``nudge`` are text only."""
        topics = [topic for plan in self.plans for topic in plan.topics]
        changes = [
            *(topic.changes for topic in topics),
            *(each.withheld for topic in topics for each in topic.refusals),
        ]
        if not any(isinstance(change, ReleaseOwnership | Nudge) for change in chain.from_iterable(changes)):
            check_json(self.plans, self.errors, self.render("json"))
            check_markdown(self.plans, sorted(self.errors), self.render("markdown"))
            check_junit(self.plans, sorted(self.errors), self.render("junit"))


def record_plans(monkeypatch: pytest.MonkeyPatch) -> list[PrintedPlans]:
    """Return a list to which each command adds the plans that it prints, in any format."""
    printed: list[PrintedPlans] = []
    format_plans = formats.format_plans

    def recording(plans: Sequence[Plan], settings: Settings, *args: Any, **options: Any) -> str:
        errors = options.get("errors", {})
        printed.append(PrintedPlans(plans, errors, partial(format_plans, plans, settings, errors=errors)))
        return format_plans(plans, settings, *args, **options)

    monkeypatch.setattr(formats, "format_plans", recording)
    return printed


_MAX_NOTICES = 10
"""Notices about topics without changes and refusals that a comment shows; it counts the others."""


def check_json(plans: Sequence[Plan], errors: Mapping[str, TopiaristError], text: str) -> None:
    """Assert that the JSON decodes to ``plans``, without the parts that a plan file leaves out, and names the others.

    Without a plan for any cluster, there is no JSON.
    """
    if plans or not errors:
        decoded = parse_plan_file(text.encode(), "plan.json")
        assert decoded.plans == tuple(map(saved_part, plans)), f"the JSON holds another plan: {text}"
        assert decoded.unplanned == {name: error.reason for name, error in errors.items()}
    else:
        assert not text, "there is JSON, but no cluster has a plan"


def check_junit(plans: Sequence[Plan], failed_clusters: Sequence[str], text: str) -> None:
    """Assert that the JUnit report is valid and has each topic of ``plans``, with its refusals as failures."""
    found = {(case.suite, case.name): case for case in read_junit(text)}
    wanted = {(name or "cluster", CLUSTER_CASE) for name in failed_clusters}
    for plan in plans:
        wanted |= {
            (sanitize(_name(plan)), sanitize(name)) for name in (CLUSTER_CASE, *(each.topic for each in plan.topics))
        }
        for topic in plan.topics:
            case = found[sanitize(_name(plan)), sanitize(topic.topic)]
            assert (case.outcome in ("failure", "error")) == (bool(topic.refusals) and not topic.observe_only), case
            missing = [each.message for each in topic.refusals if sanitize(each.message) not in case.text]
            assert not missing, f"not in the JUnit report of the plan: {missing}"
    assert found.keys() == (wanted or {("topiarist", "manifests")})


def saved_part(plan: Plan) -> Plan:
    """Return a plan without the parts that are for people only, or that the clusters' next state replaces.

    Each omitted field has its name here: a field that JSON loses otherwise makes a difference.
    """
    placed = {broker for topic in plan.topics for broker in topic.placed_brokers()}
    return replace(
        plan,
        brokers=tuple(broker for broker in plan.brokers if broker.id in placed),
        topics=tuple(map(_saved_topic, plan.topics)),
        config_rules=replace(plan.config_rules, known_configs=None).with_relevant_settings(),
        **{"unselected": 0, "sizes": {}, "default_retention_bytes": None, "load": {}},
        **{"controller": None, "controller_epoch": 0, "batch": None},
        **{"drain_brokers": frozenset(), "move_settings": NO_MOVES, "evidence": None, "usage": {}},
    )


def _saved_topic(topic: TopicPlan) -> TopicPlan:
    seen = before = topic.before
    if seen:
        retained = {key: seen.config[key] for key in retained_managed_keys(topic) if key in seen.config}
        before = TopicState(
            *(topic.topic, seen.identity, (), retained),
            topic_id=seen.topic_id,
            record=topic.record_before,
            record_valid=seen.record_valid,
        )
    return replace(
        topic,
        before=before,
        refusals=tuple(issue._replace(cause_origin=None, own_message="") for issue in topic.refusals),
        notices=tuple(issue._replace(cause_origin=None, own_message="") for issue in topic.notices),
        spec=None,
    )


def check_markdown(plans: Sequence[Plan], failed_clusters: Sequence[str], text: str) -> None:
    """Assert that the Markdown has every topic, reason, message, config key and count of ``plans``."""
    rows = {cells[0]: cells[1:] for line in text.splitlines() if line.startswith("|") and (cells := _cells(line))}
    shown = _plain(text)
    missing = [
        part for part in (*failed_clusters, *chain.from_iterable(map(_texts, plans))) if _plain(part) not in shown
    ]
    for plan in plans:
        shown_counts = dict(zip(rows.get("cluster", ()), rows.get(_plain(_name(plan)), ()), strict=False))
        missing += [
            f"{column}: {count}" for column, count in _counts(plan).items() if shown_counts.get(column, "") != count
        ]
    assert not missing, f"not in the Markdown of the plan: {missing}"


def _name(plan: Plan) -> str:
    return plan.cluster or plan.cluster_id


def _cells(line: str) -> list[str]:
    return [_plain(cell) for cell in line.strip("|").split("|")]


def _plain(text: str) -> str:
    """Return text without code marks, escapes and line ends."""
    return " ".join(re.sub(r"[`\\]", "", unescape(text)).split())


def _counts(plan: Plan) -> dict[str, str]:
    """Return the cells of a cluster's row: topics by change, those that the whole cluster holds back in parentheses."""
    counts: Counter[str] = Counter()
    held: Counter[str] = Counter()
    for topic in plan.topics:
        if not topic.observe_only:
            counts.update(_columns(topic.changes))
        held.update(
            {c for each in topic.refusals if each.reason in CLUSTER_WIDE_REASONS for c in _columns(each.withheld)}
        )
        counts["refused"] += any(each.reason not in CLUSTER_WIDE_REASONS for each in topic.refusals)
    return {
        column: " ".join([f"{counts[column]}"] * bool(counts[column]) + [f"({held[column]})"] * bool(held[column]))
        for column in (*_COLUMNS, "record", "refused")
    }


def _columns(changes: Sequence[Change]) -> set[str]:
    if changes and all(isinstance(change, TakeOwnership) for change in changes):
        return {"record"}
    return {column for column, kind in _COLUMNS.items() if any(isinstance(change, kind) for change in changes)}


def _texts(plan: Plan) -> Iterator[str]:
    """Yield each name, reason, message and value that a reviewer must find."""
    yield _name(plan)
    yield from plan.warnings
    if plan.orphans:
        yield f"{len(plan.orphans)} owned topic"
        yield from plan.orphans
    if plan.write_block.reason and plan.topics:
        yield f"({plan.write_block.reason.value}): {plan.write_block.message}"
    for topic in plan.topics:
        yield from _topic_texts(topic)
    notices = {issue.message for topic in plan.topics for issue in topic.notices}
    yield from notices if len(notices) <= _MAX_NOTICES else ()


def _topic_texts(topic: TopicPlan) -> Iterator[str]:
    # The record of an observed topic is not written, so the topic counts as unchanged.
    if topic.refusals or topic.notices or _columns(topic.changes) - {"record"} or topic.is_actionable:
        yield topic.topic
    if topic.changes or topic.refusals:
        yield from (issue.message for issue in topic.notices if issue.reason is not Reason.UNMANAGED)
    yield from _change_texts(topic.changes)
    for issue in topic.refusals:
        yield from _change_texts(issue.withheld)
        if issue.reason not in CLUSTER_WIDE_REASONS:
            yield f"refused ({issue.reason.value})"
            yield issue.message
            yield issue.hint.partition(f"={topic.topic}")[0]


def _change_texts(changes: Sequence[Change]) -> Iterator[str]:
    for change in changes:
        yield change.assessment.risk.label
        yield change.assessment.explanation
        match change:
            case UpdateConfig(items):
                for item in items:
                    yield from (item.key, item.assessment.explanation, item.before or "", item.after or "")
            case CreateTopic(_, config):
                yield from (f"{key} = {value}" for key, value in config.items())
            case AddPartitions():
                yield f"partitions {change.before} -> {change.total}"
            case MoveReplicas(moves):
                yield from (str(move.partition) for move in moves)

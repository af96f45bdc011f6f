"""The rows of a plan's page: one for each change, refusal and notice of a topic, riskiest first.

``html.plan`` encodes them. A row has its values before and after as lines, each config value in Kafka's unit and in
units for people, and details for its dialog: the config keys and the replica lists one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from topiarist.errors import Reason
from topiarist.model.plan import (
    AddPartitions,
    Change,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    Issue,
    MoveReplicas,
    Nudge,
    Plan,
    ReleaseOwnership,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.spec import ValueOrigin, find_origin
from topiarist.output.groups import describe_ownership_action
from topiarist.output.locations import relative_location
from topiarist.output.text import planned_moves, topic_block
from topiarist.output.text.changes import FROM_CLUSTER_DEFAULTS, group_risks, list_risk_assessments, summarize_changes
from topiarist.output.text.values import BROKER_DEFAULT, humanize_config_value
from topiarist.text import format_count

REFUSED, NOTICE = "Refused", "Notice"
LEVELS = ("DataLoss", REFUSED, "Disruptive", "Safe", NOTICE)
"""The levels of rows, in order: the risks of changes that will be made, and refusals between them."""

KINDS = {
    "create": "a topic is created",
    "grow": "a topic gets more partitions",
    "move": "replicas move, or their number changes",
    "configure": "config overrides are set, changed or removed",
    "elect": "preferred leaders are elected",
    "delete": "a topic is deleted with all its messages",
    "record": "only the ownership record is written",
    "nudge": "an entry is written again, unchanged",
    "refused": "a change that was asked for and will not be made",
    "observed": "a difference of a topic that is only observed",
    "warning": "a problem that existed before the run",
    "note": "information",
}
"""The kinds of rows with their meaning."""

_CHANGE_KINDS = {
    CreateTopic: "create",
    AddPartitions: "grow",
    MoveReplicas: "move",
    UpdateConfig: "configure",
    ElectLeaders: "elect",
    DeleteTopic: "delete",
    TakeOwnership: "record",
    ReleaseOwnership: "record",
    Nudge: "nudge",
}

_MAX_LISTS, _MAX_LINES = 300, 12
"""Number of replica lists of a change in its dialog, and of lines in a cell."""


class PlanRow(NamedTuple):
    """One row; all texts are as found, and may be empty. The fields are ``COLUMNS``.

    ``before`` and ``after`` are lines. ``config`` has for each key: key, value before and after with units, risk,
    explanation, note. ``lists`` has for each partition: its id, the list before and after, the reasons of its move.
    """

    level: str
    kind: str
    cluster: str
    topic: str
    summary: str
    before: Sequence[str]
    after: Sequence[str]
    reason: str
    code: str
    fix: str
    place: str
    cause: str
    record: str
    config: Sequence[Sequence[str]] = ()
    lists: Sequence[Sequence[str]] = ()
    more: str = ""

    def sort_key(self) -> tuple[int, str, str]:
        """Return a key that sorts rows by level, then by topic and cluster."""
        return LEVELS.index(self.level), self.topic, self.cluster


COLUMNS = PlanRow._fields


def list_rows(plan: Plan, root: str) -> Iterator[PlanRow]:
    """Yield the rows of a plan by topic; locations are relative to the folder ``root``."""
    for topic in plan.topics:
        for change in topic.changes:
            level = NOTICE if topic.observe_only else change.assessment.risk.label
            kind = "observed" if topic.observe_only else _CHANGE_KINDS[type(change)]
            yield _make_row(plan, topic, [change], root, kind=kind)._replace(level=level)
        for issue in topic.refusals:
            row = _with_issue(_make_row(plan, topic, issue.withheld, root, kind="refused"), topic, issue, root)
            held = f"held back: {row.summary}" if issue.withheld else "refused"
            risk = f"; {row.reason}" if row.reason and row.reason not in issue.message else ""
            level = NOTICE if topic.observe_only else REFUSED
            yield row._replace(level=level, summary=held, reason=f"{issue.message}{risk}")
        for issue in topic.notices:
            kind = topic_block.label_notice(issue)
            row = _with_issue(_make_row(plan, topic, (), root, kind=kind), topic, issue, root)
            yield row._replace(summary=_split_words(issue.reason), reason=issue.message)


def _with_issue(row: PlanRow, topic: TopicPlan, issue: Issue, root: str) -> PlanRow:
    """Return the row with the reason, the fix and the places of a refusal or notice."""
    cause = _locate(issue.cause_origin, root)
    place = _locate(find_origin(topic.spec, *issue.field), root) if topic.spec else ""
    cause = f"{topic_block.label_cause(issue)} at {cause}" if cause else ""
    return row._replace(code=issue.reason.value, fix=issue.hint, place=place, cause=cause)


def _split_words(reason: Reason) -> str:
    """Return the words of a reason: ``unmanaged``, ``existing problem``."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in reason.value).strip()


def _locate(origin: ValueOrigin | None, root: str) -> str:
    location = origin.locate() if origin else None
    return str(relative_location(location, root)) if location else ""


def _make_row(plan: Plan, topic: TopicPlan, changes: Sequence[Change], root: str, *, kind: str) -> PlanRow:
    """Return the row of changes: one that is planned, or those that a refusal withholds."""
    partitions = len(topic.before.replicas) if topic.before else 0
    parts = [_describe_values(change) for change in changes]
    place = _locate(find_origin(topic.spec, *_find_field(changes)), root) if topic.spec else ""
    lists = [row for change in changes for row in _list_replicas(change)]
    return PlanRow(
        level=NOTICE,
        kind=kind,
        cluster=plan.cluster,
        topic=topic.topic,
        summary=_describe_record(topic, changes) or summarize_changes(changes, partitions),
        before=_shorten([line for before, _ in parts for line in before]),
        after=_shorten([line for _, after in parts for line in after]),
        reason=_describe_reason(topic, changes),
        code="",
        fix="",
        place=place,
        cause="",
        record=topic_block.describe_record_too(topic),
        config=[row for change in changes for row in _list_config(change)],
        lists=lists[:_MAX_LISTS],
        more=f"and {format_count(len(lists) - _MAX_LISTS, 'other partition')}" if len(lists) > _MAX_LISTS else "",
    )


def _find_field(changes: Sequence[Change]) -> tuple[str, ...]:
    """Return the path of the field that asks for a change; empty for the topic as a whole."""
    match changes:
        case [UpdateConfig(items=[item])]:
            return "config", item.key
        case [AddPartitions()]:
            return ("partitions",)
        case [DeleteTopic()]:
            return ("ensure",)
    return ()


def _describe_record(topic: TopicPlan, changes: Sequence[Change]) -> str:
    if changes and all(isinstance(change, TakeOwnership) for change in changes):
        return topic_block.describe_record_only(describe_ownership_action(topic))
    return ""


def _describe_reason(topic: TopicPlan, changes: Sequence[Change]) -> str:
    """Return the explanations of risks, and why replicas move."""
    pairs = [*list_risk_assessments(changes)]
    texts = []
    for assessment, subjects in group_risks(pairs):
        texts.append(assessment.explanation if len(pairs) == 1 else f"{subjects}: {assessment.explanation}")
    for change in changes:
        if isinstance(change, MoveReplicas):
            texts.append(planned_moves.describe_move_reasons(change.moves, topic.spec))
            texts.append(planned_moves.describe_new_leaders(change.moves))
        if isinstance(change, UpdateConfig) and all(item.inherited for item in change.items):
            texts.append(FROM_CLUSTER_DEFAULTS)
    return "; ".join(filter(None, [*texts, *topic.usage]))


def _describe_values(change: Change) -> tuple[list[str], list[str]]:
    """Return the values before and after, as lines."""
    match change:
        case CreateTopic(config=config):
            size = summarize_changes([change]).removeprefix("create ")
            return ["no topic"], [size, *(f"{key} = {_with_units(key, text)}" for key, text in config.items())]
        case AddPartitions():
            return [format_count(change.before, "partition")], [format_count(change.total, "partition")]
        case MoveReplicas(moves):
            return (
                [f"{move.partition}: {_format_list(move.before)}" for move in moves],
                [f"{move.partition}: {_format_list(move.after)}" for move in moves],
            )
        case ElectLeaders(partitions):
            return (
                [f"{each.partition}: leader {each.before}" for each in partitions],
                [f"{each.partition}: leader {each.after}" for each in partitions],
            )
        case UpdateConfig(items):
            return (
                [f"{item.key} = {_with_units(item.key, item.before)}" for item in items],
                [f"{item.key} = {_with_units(item.key, item.after)}" for item in items],
            )
        case DeleteTopic(partitions, replica_count):
            counts = f"{format_count(partitions, 'partition')}, {format_count(replica_count, 'replica')}"
            return [counts], ["no topic, no messages"]
        case Nudge(partitions):
            return [f"{format_count(len(partitions), 'partition')} without a state"], ["initialized by the controller"]
    return [], []


def _with_units(key: str, text: str | None) -> str:
    """Return a config value as Kafka stores it, with its value in units for people if it has one."""
    if text is None:
        return BROKER_DEFAULT
    units = humanize_config_value(key, text)
    return f"{text} ({units})" if units else text or '""'


def _shorten(lines: Sequence[str]) -> list[str]:
    """Return the first lines, and how many more there are."""
    left = len(lines) - _MAX_LINES
    return [*lines[:_MAX_LINES], f"and {left:,} more"] if left > 0 else [*lines]


def _format_list(replicas: Sequence[int]) -> str:
    return f"[{', '.join(map(str, replicas))}]"


def _list_config(change: Change) -> Iterator[list[str]]:
    if isinstance(change, CreateTopic):
        for key, text in change.config.items():
            yield [key, "", _with_units(key, text), "", "", ""]
    elif isinstance(change, UpdateConfig):
        for item in change.items:
            risk, explanation = item.assessment.risk.label, item.assessment.explanation
            note = FROM_CLUSTER_DEFAULTS if item.inherited else ""
            before, after = (_with_units(item.key, text) for text in (item.before, item.after))
            yield [item.key, before, after, risk, explanation, note]


def _list_replicas(change: Change) -> Iterator[list[str]]:
    """Yield for each partition with new or moved replicas: its id, the lists before and after, and the reasons."""
    match change:
        case CreateTopic(replicas):
            for partition, brokers in enumerate(replicas):
                yield [str(partition), "", _format_list(brokers), ""]
        case AddPartitions():
            for partition, brokers in enumerate(change.replicas, change.before):
                yield [str(partition), "", _format_list(brokers), ""]
        case MoveReplicas(moves):
            for move in moves:
                reasons = ", ".join(kind.value for kind in move.kinds)
                yield [str(move.partition), _format_list(move.before), _format_list(move.after), reasons]
        case ElectLeaders(partitions):
            for each in partitions:
                yield [str(each.partition), f"leader {each.before}", f"leader {each.after}", ""]

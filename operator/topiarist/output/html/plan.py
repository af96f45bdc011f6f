"""The plans of a run as one self-contained HTML page, for reviews that are too large for a comment.

``plan --format html`` and ``plan --page`` write it; ``PageParts`` is what it shares with the drift report. The page
has a row for each change, refusal and notice of a topic, the riskiest first, and for each cluster its counts, warnings,
and the load of its brokers before and after. A row has its values before and after as lines, each config value in
Kafka's unit and in units for people, and details for its dialog: the config keys and the replica lists one by one. Of a
plan with too many rows the riskiest are in the page.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from importlib.resources import files
from itertools import islice, repeat
from typing import Any, NamedTuple

from topiarist.errors import Location
from topiarist.model.plan import Plan, TopicPlan
from topiarist.output import groups
from topiarist.output.text.layout import BROKER_DEFAULT, TextLayout, with_units
from topiarist.output.text.plan import format_summary_line
from topiarist.output.view import (
    CLUSTER_WIDE_REASONS,
    FROM_CLUSTER_DEFAULTS,
    ChangeView,
    IssueView,
    PartitionTable,
    describe_implied,
    describe_pace,
    group_risks,
    label_notice,
    locate,
    relative_location,
    summarize,
    view_issue,
    view_topic,
)
from topiarist.text import format_count, sanitize, split_words

# The parts that every page shares: style, scripts, content policy, and data that no browser runs.
#
# A page is one file that makes no network requests. Text from clusters and manifests is in JSON data blocks that
# browsers do not run; the script of the page inserts it as text nodes only. As a second defense, a
# Content-Security-Policy in the page allows no script, style or request but those written here.
#
# ``html.plan`` and ``drift.outputs.html`` describe their pages by a ``PageParts``.

MAX_TEXT_LENGTH = 1000
"""Number of characters of a text; a config value may have a million."""

_SHARED = "output/html/assets"
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
_encode_json = json.JSONEncoder(separators=(",", ":")).encode


class PageParts:
    """The files of one kind of page: ``template``, ``styles`` and ``scripts`` in ``folder`` or among the shared ones.

    ``folder`` is a path below the package. A name that begins with ``shared/`` is a shared file. Scripts are
    concatenated in their order into one script, and styles into one style.
    """

    def __init__(self, folder: str, template: str, styles: Sequence[str], scripts: Sequence[str]) -> None:
        self._folder = folder
        self._template, self._styles, self._scripts = template, tuple(styles), tuple(scripts)

    @cached_property
    def template(self) -> str:
        """Return the page with placeholders such as ``{{style}}``."""
        return self._read(self._template)

    @cached_property
    def style(self) -> str:
        """Return the style of the page."""
        return "\n".join(map(self._read, self._styles))

    @cached_property
    def script(self) -> str:
        """Return the script of the page."""
        return f'(function () {{\n"use strict";\n{"".join(map(self._read, self._scripts))}}})();\n'

    @cached_property
    def policy(self) -> str:
        """Return the Content-Security-Policy, which allows this script and this style by hash, and data images."""
        hashes = [b64encode(sha256(text.encode()).digest()).decode() for text in (self.script, self.style)]
        script, style = (f"'sha256-{each}'" for each in hashes)
        rules = (f"script-src {script}", f"style-src {style}", "img-src data:", "base-uri 'none'", "form-action 'none'")
        return "; ".join(("default-src 'none'", *rules))

    def _read(self, name: str) -> str:
        folder = _SHARED if name.startswith("shared/") else self._folder
        path = files("topiarist").joinpath(*folder.split("/"), name.removeprefix("shared/"))
        return path.read_text(encoding="utf-8")


def render_chunks(parts: PageParts, data: Mapping[str, Iterator[bytes] | str]) -> Iterator[bytes]:
    """Yield a page in chunks; ``data`` has the text of each placeholder that is not style, script or policy."""
    fixed = {"policy": parts.policy, "style": parts.style, "script": parts.script}
    for index, part in enumerate(_PLACEHOLDER.split(parts.template)):
        if index % 2 == 0:
            yield part.encode()
        elif part in fixed:
            yield fixed[part].encode()
        elif isinstance(text := data[part], str):
            yield text.encode()
        else:
            yield from text


def encode_rows(rows: Iterator[Sequence[Any]]) -> Iterator[bytes]:
    """Yield the data of rows as a list in JSON, one row a line."""
    separator = "[\n"
    for row in rows:
        yield f"{separator}{encode_data(row)}".encode()
        separator = ",\n"
    yield b"[]" if separator == "[\n" else b"\n]"


def encode_data(value: Any) -> str:
    """Return ASCII JSON without ``<``, ``>`` and ``&``, so that an HTML parser reads it as text only."""
    return _encode_json(value).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


class TextTable:
    """An encoder of texts that replaces a repeated text with its index.

    Indexes count distinct texts from 0 in order of first use.
    """

    def __init__(self) -> None:
        self._indexes: dict[str, int] = {}

    def encode(self, text: str) -> str | int:
        """Return a text made printable, or the index of an equal one."""
        # Look up the raw text first: nearly every text is printable and repeated, and sanitizing is slower.
        if (index := self._indexes.get(text)) is not None:
            return index
        text = sanitize_text(text)
        if (index := self._indexes.get(text)) is None:
            self._indexes[text] = len(self._indexes)
            return text
        return index


def sanitize_text(text: str) -> str:
    """Return ``text`` with unprintable characters made visible, cut to 1,000 characters.

    Unprintable characters include direction marks.
    """
    text = sanitize(text[: MAX_TEXT_LENGTH + 1])
    return text if len(text) <= MAX_TEXT_LENGTH else f"{text[: MAX_TEXT_LENGTH - 3]}..."


def sanitize_texts(value: Any) -> Any:
    """Return the value with all text made printable; keys are kept, because they are field names and classes."""
    if isinstance(value, str):
        return sanitize_text(value)
    if isinstance(value, Mapping):
        return {name: sanitize_texts(inner) for name, inner in value.items()}
    return [sanitize_texts(inner) for inner in value] if isinstance(value, list) else value


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
    "refused": "a change that was requested and will not be made",
    "observed": "a difference of a topic that is only observed",
    "warning": "a problem that existed before the run",
    "note": "information",
}
"""The kinds of rows with their meaning."""

MAX_ROWS = 25_000
"""Number of rows in a page."""

_MAX_BROKERS, _MAX_TEXTS = 1_000, 200
"""Number of brokers of a cluster, and of texts or rows of any other list."""

_ONE_LINE = TextLayout(width=100_000)
_PARTS = PageParts(
    "output/html/assets",
    "plan.html",
    ("page.css", "plan.css"),
    (
        *("elements.js", "plan-data.js", "plan-row.js", "plan-subject.js", "view.js", "grid.js"),
        *("plan-overview.js", "plan-brokers.js", "controls.js", "plan-main.js"),
    ),
)
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
    summary: str = ""
    before: Sequence[str] = ()
    after: Sequence[str] = ()
    reason: str = ""
    code: str = ""
    fix: str = ""
    place: str = ""
    cause: str = ""
    record: str = ""
    config: Sequence[Sequence[str]] = ()
    lists: Sequence[Sequence[str]] = ()
    more: str = ""

    def sort_key(self) -> tuple[int, str, str]:
        """Return a key that sorts rows by level, then by topic and cluster."""
        return LEVELS.index(self.level), self.topic, self.cluster


COLUMNS = PlanRow._fields


def format_plans(plans: Sequence[Plan], failed_clusters: Sequence[str], root: str) -> str:
    """Return the page of a run's plans: ASCII text, the same for equal plans.

    ``failed_clusters`` are the names of the clusters that could not be planned. File locations are relative to the
    folder ``root``, as in git.
    """
    rows = sorted((row for plan in plans for row in list_rows(plan, root)), key=PlanRow.sort_key)
    document = encode_data(build_document(plans, failed_clusters, rows))
    chunks = render_chunks(_PARTS, {"plan": document, "rows": encode_rows(_encode_rows(rows))})
    return b"".join(chunks).decode("ascii")


def _encode_rows(rows: Sequence[PlanRow]) -> Iterator[Sequence[Any]]:
    texts = TextTable()

    def encode(value: Any) -> Any:
        return texts.encode(value) if isinstance(value, str) else value and [encode(each) for each in value]

    return ([encode(value) for value in row] for row in islice(rows, MAX_ROWS))


def build_document(plans: Sequence[Plan], failed_clusters: Sequence[str], rows: Sequence[PlanRow]) -> dict[str, Any]:
    """Return the data of the page except the rows, with a fixed limit on each of its lists."""
    levels = Counter(row.level for row in rows)
    counted = groups.count_plans(plans)
    document: dict[str, Any] = sanitize_texts(
        {
            "title": format_summary_line(_ONE_LINE, counted) if plans or not failed_clusters else "No plan.",
            "failed": _limit(failed_clusters),
            "clusters": _limit([_describe_cluster(plan) for plan in plans]),
            "permissions": _limit([*_list_permissions(plans)]),
        }
    )
    return document | {
        "columns": COLUMNS,
        "kinds": KINDS,
        "levels": {level: levels[level] for level in LEVELS},
        "kindCounts": Counter(row.kind for row in rows),
        "total": len(rows),
    }


def _limit(items: Sequence[Any], maximum: int = _MAX_TEXTS) -> dict[str, Any]:
    return {"total": len(items), "rows": list(items[:maximum])}


def _describe_cluster(plan: Plan) -> dict[str, Any]:
    counts = groups.count_plan(plan)
    block = plan.write_block
    implied = (f"also created, {topic.name}: {', by '.join(describe_implied(topic))}" for topic in plan.implied_topics)
    return {
        "name": plan.cluster,
        "id": plan.cluster_id,
        "brokers": groups.describe_brokers(plan),
        "summary": format_summary_line(_ONE_LINE, counts),
        "risk": max(topic.risk for topic in plan.actionable_topics()).label if plan.has_changes else "",
        "writeBlock": f"{block.reason}: {block.message}; nothing is written" if block.reason else "",
        "exceeded": _limit([f"{label}: {text}; fix: {fix}" for label, text, fix in groups.list_exceeded_limits(plan)]),
        "warnings": _limit([*plan.warnings, *implied]),
        "limits": _limit([*groups.describe_limits(plan.limits)]),
        "orphans": _limit(plan.orphans),
        "pace": describe_pace(plan),
        **_describe_loads(plan),
    }


def _describe_loads(plan: Plan) -> dict[str, Any]:
    """Return the load of each broker and each rack, before and after; nothing if the plan places no replica."""
    rows: list[dict[str, Any]] = []
    racks: dict[str | None, dict[str, Any]] = {}
    for each in groups.list_broker_loads(plan):
        place = each.rack if each.is_registered else "not registered"
        load = [each.before.leaders, each.after.leaders, each.before.replicas, each.after.replicas]
        load += [each.copied, each.deleted]
        rows.append({"label": str(each.broker), "rack": place, "draining": each.is_draining, "load": load})
        rack = racks.setdefault(place, {"label": place, "brokers": 0, "load": [0] * len(load)})
        rack["brokers"] += 1
        rack["load"] = [one + other for one, other in zip(rack["load"], load, strict=True)]
    ordered = sorted(racks.values(), key=lambda rack: (rack["label"] is None, rack["label"]))
    return {"loads": _limit(rows, _MAX_BROKERS), "racks": ordered[:_MAX_TEXTS]}


def _list_permissions(plans: Sequence[Plan]) -> Iterator[Mapping[str, Any]]:
    """Yield what a run that applies the plans needs to be given, and what would permit the refused changes."""
    for plan in plans:
        if names := groups.list_data_loss_topics(plan):
            yield {
                "cluster": plan.cluster,
                "needed": f"changes that may lose data: {format_count(len(names), 'topic')}",
                "option": groups.format_consent(names),
                "where": "apply --yes, also with --plan or --reviewed; without --yes a person confirms",
                "refused": False,
            }
        hints: dict[tuple[str, str], list[str]] = {}
        for topic in plan.topics:
            for issue in () if topic.observe_only else topic.refusals:
                if issue.hint and issue.reason not in CLUSTER_WIDE_REASONS:
                    hint = issue.hint.replace(f"={topic.topic}", "=TOPIC")
                    hints.setdefault((issue.reason.value, hint), []).append(topic.topic)
        for (reason, hint), names in hints.items():
            needed = f"refused, {reason}: {format_count(len(names), 'topic')}"
            hint = hint if len(names) > 1 else hint.replace("=TOPIC", f"={names[0]}")
            yield {"cluster": plan.cluster, "needed": needed, "option": "", "where": hint, "refused": True}


def list_rows(plan: Plan, root: str) -> Iterator[PlanRow]:
    """Yield the rows of a plan by topic; locations are relative to the folder ``root``."""
    for topic in plan.topics:
        view = view_topic(topic)
        base = PlanRow(NOTICE, "", plan.cluster, topic.topic, record=view.record)
        for change in view.changes:
            row = _with_changes(base, topic, [change], root)
            if topic.observe_only:
                yield row._replace(kind="observed")
            else:
                yield row._replace(level=change.assessment.risk.label, kind=change.kind)
        for issue in topic.refusals:
            refusal = view_issue(topic, issue)
            row = _with_changes(base, topic, refusal.changes, root)
            risk = f"; {row.reason}" if row.reason and row.reason not in issue.message else ""
            yield _with_issue(row, refusal, root)._replace(
                level=NOTICE if topic.observe_only else REFUSED,
                kind="refused",
                summary=f"held back: {row.summary}" if refusal.changes else "refused",
                reason=f"{issue.message}{risk}",
            )
        for issue in topic.notices:
            row = _with_issue(base, view_issue(topic, issue), root)
            yield row._replace(kind=label_notice(issue), summary=split_words(issue.reason.value), reason=issue.message)


def _with_issue(row: PlanRow, view: IssueView, root: str) -> PlanRow:
    """Return the row with the reason, the fix and the places of a refusal or notice."""
    cause = _format_place(view.cause_place, root)
    return row._replace(
        code=view.reason.value,
        fix=view.hint,
        place=_format_place(view.place, root),
        cause=f"{view.cause} at {cause}" if cause else "",
    )


def _format_place(place: Location | None, root: str) -> str:
    return str(relative_location(place, root)) if place else ""


def _with_changes(row: PlanRow, topic: TopicPlan, changes: Sequence[ChangeView], root: str) -> PlanRow:
    """Return the row with the values of changes: of one that is planned, or of those that a refusal withholds."""
    values = [_list_values(change) for change in changes]
    lists = [line for change in changes if change.table for line in _list_partitions(change.table)]
    field = changes[0].field if len(changes) == 1 else ()
    return row._replace(
        summary=summarize(changes),
        before=_shorten([line for before, _ in values for line in before]),
        after=_shorten([line for _, after in values for line in after]),
        reason=_describe_reason(topic, changes),
        place=_format_place(locate(topic.spec, *field), root),
        config=[line for change in changes for line in _list_config(change)],
        lists=lists[:_MAX_LISTS],
        more=f"and {format_count(len(lists) - _MAX_LISTS, 'other partition')}" if len(lists) > _MAX_LISTS else "",
    )


def _describe_reason(topic: TopicPlan, changes: Sequence[ChangeView]) -> str:
    """Return the explanations of risks, and why replicas move."""
    pairs = [pair for change in changes for pair in change.risks]
    texts = []
    for assessment, subjects in group_risks(pairs):
        texts.append(assessment.explanation if len(pairs) == 1 else f"{subjects}: {assessment.explanation}")
    for change in changes:
        texts += [change.cause, change.new_leaders]
        if change.config and all(item.inherited for item in change.config):
            texts.append(FROM_CLUSTER_DEFAULTS)
    return "; ".join(filter(None, [*texts, *topic.usage]))


def _list_values(change: ChangeView) -> tuple[list[str], list[str]]:
    """Return the values before and after, as lines: the size or the partitions, then the config."""
    before, after = [*filter(None, [change.before])], [*filter(None, [change.after])]
    if change.table and not change.before:
        for partition, old, new, _ in _list_partitions(change.table):
            before.append(f"{partition}: {old}")
            after.append(f"{partition}: {new}")
    for key, old, new, *_ in _list_config(change):
        before += [f"{key} = {old}"] * (not change.is_creation)
        after.append(f"{key} = {new}")
    return before, after


def _shorten(lines: Sequence[str]) -> list[str]:
    """Return the first lines, and how many more there are."""
    left = len(lines) - _MAX_LINES
    return [*lines[:_MAX_LINES], f"and {left:,} more"] if left > 0 else [*lines]


def _list_config(change: ChangeView) -> Iterator[list[str]]:
    for item in change.config:
        before, after = (
            BROKER_DEFAULT if text is None else with_units(item.key, text) or '""' for text in (item.before, item.after)
        )
        if change.is_creation:
            yield [item.key, "", after, "", "", ""]
        else:
            risk, note = item.assessment, FROM_CLUSTER_DEFAULTS if item.inherited else ""
            yield [item.key, before, after, risk.risk.label, risk.explanation, note]


def _list_partitions(table: PartitionTable) -> Iterator[list[str]]:
    """Yield for each partition: its id, the lists or leaders before and after, and the reasons of its move."""
    for row, kinds in zip(table.list_rows(), table.kinds or repeat(()), strict=False):
        before, after = (
            f"leader {brokers[0]}" if table.has_leaders else f"[{', '.join(map(str, brokers))}]" if brokers else ""
            for brokers in (row.before, row.after)
        )
        yield [str(row.partition), before, after, ", ".join(kind.value for kind in kinds)]

"""The plans of a run as one self-contained HTML page, for reviews that are too large for a comment.

``plan --format html`` and ``plan --page`` write it; ``html.page`` has what it shares with the drift report. The page
has a row for each change, refusal and notice of a topic, the riskiest first (``plan_rows``), and for each cluster its
counts, warnings, and the load of its brokers before and after. Of a plan with too many rows the riskiest are in the
page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from topiarist.model.plan import ImpliedTopic, Load, Plan, compute_broker_load_after
from topiarist.output.groups import list_exceeded_limits
from topiarist.output.html import page
from topiarist.output.html.plan_rows import COLUMNS, KINDS, LEVELS, PlanRow, list_rows
from topiarist.output.limit_usage import describe_usage
from topiarist.output.text import planned_moves, summary
from topiarist.output.text.layout import TextLayout
from topiarist.output.text.plan import describe_brokers
from topiarist.output.text.summary import format_consent, list_data_loss_topics
from topiarist.output.text.topic_block import CLUSTER_WIDE_REASONS, explain_implied
from topiarist.text import format_count

MAX_ROWS = 25_000
"""Number of rows in a page."""

_MAX_BROKERS, _MAX_TEXTS = 1_000, 200
"""Number of brokers of a cluster, and of texts or rows of any other list."""

_ONE_LINE = TextLayout(width=100_000)
_PARTS = page.PageParts(
    "output/html/assets",
    "plan.html",
    ("page.css", "plan.css"),
    (
        *("elements.js", "plan-data.js", "plan-row.js", "plan-subject.js", "view.js", "grid.js"),
        *("plan-overview.js", "plan-brokers.js", "controls.js", "plan-main.js"),
    ),
)


def format_plans(plans: Sequence[Plan], failed_clusters: Sequence[str], root: str) -> str:
    """Return the page of a run's plans: ASCII text, the same for equal plans.

    ``failed_clusters`` are the names of the clusters that could not be planned. File locations are relative to the
    folder ``root``, as in git.
    """
    rows = sorted((row for plan in plans for row in list_rows(plan, root)), key=PlanRow.sort_key)
    document = page.encode_data(build_document(plans, failed_clusters, rows))
    chunks = page.render_chunks(_PARTS, {"plan": document, "rows": page.encode_rows(_encode_rows(rows))})
    return b"".join(chunks).decode("ascii")


def _encode_rows(rows: Sequence[PlanRow]) -> Iterator[Sequence[Any]]:
    texts = page.TextTable()

    def encode(value: Any) -> Any:
        return texts.encode(value) if isinstance(value, str) else value and [encode(each) for each in value]

    return ([encode(value) for value in row] for row in islice(rows, MAX_ROWS))


def build_document(plans: Sequence[Plan], failed_clusters: Sequence[str], rows: Sequence[PlanRow]) -> dict[str, Any]:
    """Return the data of the page except the rows, with a fixed limit on each of its lists."""
    levels = Counter(row.level for row in rows)
    counted = summary.count_plans(plans)
    document: dict[str, Any] = page.sanitize_texts(
        {
            "title": summary.format_summary_line(_ONE_LINE, counted) if plans or not failed_clusters else "No plan.",
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
    counts = summary.count_plan(plan)
    block = plan.write_block
    return {
        "name": plan.cluster,
        "id": plan.cluster_id,
        "brokers": describe_brokers(plan),
        "summary": summary.format_summary_line(_ONE_LINE, counts),
        "risk": max(topic.risk for topic in plan.actionable_topics()).label if plan.has_changes else "",
        "writeBlock": f"{block.reason}: {block.message}; nothing is written" if block.reason else "",
        "exceeded": _limit([f"{label}: {text}; fix: {fix}" for label, text, fix in list_exceeded_limits(plan)]),
        "warnings": _limit([*plan.warnings, *map(_describe_implied, plan.implied_topics)]),
        "limits": _limit([*describe_usage(plan.limits)]),
        "orphans": _limit(plan.orphans),
        "pace": planned_moves.describe_pace(plan),
        **_describe_loads(plan),
    }


def _describe_loads(plan: Plan) -> dict[str, Any]:
    """Return the load of each broker and each rack, before and after; nothing if the plan places no replica."""
    if not any(topic.new_replicas() or topic.moves() for topic in plan.actionable_topics()):
        return {"loads": _limit([]), "racks": []}
    after = compute_broker_load_after(plan)
    moves = [move for topic in plan.actionable_topics() for move in topic.moves()]
    incoming = Counter(broker for move in moves for broker in move.added)
    outgoing = Counter(broker for move in moves for broker in move.removed)
    registered = {broker.id: broker.rack for broker in plan.brokers}
    rows: list[dict[str, Any]] = []
    racks: dict[str | None, dict[str, Any]] = {}
    for broker in sorted({*after, *registered}):
        before, later = plan.load.get(broker, Load()), after.get(broker, Load())
        place = registered.get(broker) if broker in registered else "not registered"
        drained = broker in plan.drain_brokers
        load = [before.leaders, later.leaders, before.replicas, later.replicas, incoming[broker], outgoing[broker]]
        rows.append({"label": str(broker), "rack": place, "draining": drained, "load": load})
        rack = racks.setdefault(place, {"label": place, "brokers": 0, "load": [0] * len(load)})
        rack["brokers"] += 1
        rack["load"] = [one + other for one, other in zip(rack["load"], load, strict=True)]
    ordered = sorted(racks.values(), key=lambda rack: (rack["label"] is None, rack["label"] or ""))
    return {"loads": _limit(rows, _MAX_BROKERS), "racks": ordered[:_MAX_TEXTS]}


def _describe_implied(topic: ImpliedTopic) -> str:
    return f"also created, {topic.name}: {explain_implied(topic)}"


def _list_permissions(plans: Sequence[Plan]) -> Iterator[Mapping[str, Any]]:
    """Yield what a run that applies the plans needs to be given, and what would permit the refused changes."""
    for plan in plans:
        if names := list_data_loss_topics(plan):
            yield {
                "cluster": plan.cluster,
                "needed": f"changes that may lose data: {format_count(len(names), 'topic')}",
                "option": format_consent(names),
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

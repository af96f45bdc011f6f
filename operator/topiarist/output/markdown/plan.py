"""The comment on a pull request: a table of all clusters, then the sections of each cluster.

A comment has a size limit. Whole sections are omitted, the least important first, and the omitted topics are counted.
So the comment never contains half a topic, an unclosed fence or an open tag. No connect string, controller or error
message of a cluster is shown: more people can read a comment than the log of a run.

``plan --format markdown`` prints the result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush

from msgspec import Struct, field

from topiarist.errors import Diagnostic
from topiarist.model.plan import Plan, Risk
from topiarist.output import groups
from topiarist.output.markdown.sections import (
    PRIORITY_CRITICAL,
    Section,
    build_sections,
    escape_prose,
    format_code,
    format_code_list,
    format_html_code,
    format_table_cell,
)
from topiarist.output.text.layout import TextLayout
from topiarist.output.text.plan import format_summary_line
from topiarist.output.view import CLUSTER_WIDE_REASONS, relative_location
from topiarist.text import format_count

COMMENT_MARKER = "<!-- topiarist plan -->"
"""First line of the comment. A bot finds the earlier comment to update by this prefix."""

MAX_COMMENT_BYTES = 65_000
"""Bytes. GitHub accepts 65,536 characters, GitLab more; the difference is reserved for text that a bot adds."""

FULL_PLAN_HINT = "The full plan is in the artifact of this run; `topiarist plan -v` prints it too."

_COLUMNS = {
    "create": ("to create",),
    "grow": ("to grow",),
    "move": ("to move",),
    "configure": ("to configure",),
    "delete": ("to delete",),
    "record": ("to adopt", "record only"),
    "refused": ("refused",),
}
"""The columns of the table, and what each counts. A table has those that are not empty."""

# A Markdown heading is one line, so the summary line in it must not be wrapped.
_UNWRAPPED_LAYOUT = TextLayout(width=10_000)
_MAX_TABLE_BYTES = 16_000
_MAX_CRITICAL_BYTES = 3_000
"""Bytes for the names of refused topics, and as many for topics that may lose data, above the sections."""

_MAX_OMITTED_BYTES = 6_000
"""Bytes for the lines about clusters without a shown section."""

_OMITTED_LINE_BYTES = 120
"""Bytes for the text of one line about the omitted topics of a cluster."""

_FOOTER_BYTES = 400
_MAX_ATTEMPTS = 50
_MAX_ATTEMPTS_PER_CLUSTER = 5
_MIN_SHARE_BYTES = 500
"""Bytes; with a smaller share per cluster no section would fit."""

_MAX_NAMES = 20


def format_plans(plans: Sequence[Plan], failed_clusters: Sequence[str], root: str, foreign_count: int = 0) -> str:
    """Return the pull request comment for the plans of a run.

    ``failed_clusters`` are the names of the clusters that could not be planned. File locations are relative to the
    folder ``root``, as in git. ``foreign_count`` counts the ignored documents of other API groups.
    """
    top = f"{COMMENT_MARKER}\n### {_format_title(plans, failed_clusters)}\n\n{_format_table(plans, failed_clusters)}"
    if foreign_count:
        top += f"\n\nIgnored {format_count(foreign_count, 'document')} of other API groups: `-v` names them."
    if len(plans) > 1:
        # The names stay visible above the sections, which may be folded.
        top += _format_critical_list(
            "May lose data", {_cluster_name(plan): groups.list_data_loss_topics(plan) for plan in plans}
        )
        top += _format_critical_list("Refused", {_cluster_name(plan): _refused_topics(plan) for plan in plans})
    clusters = [cluster for plan in plans if (cluster := _build_cluster(plan, root)).sections]
    reserved = _FOOTER_BYTES + min(_MAX_OMITTED_BYTES, sum(map(_omitted_line_size, clusters)))
    _fill_comment(clusters, MAX_COMMENT_BYTES - _byte_size(top) - reserved)
    bodies = [
        cluster.format_text(opened=len(plans) == 1 or cluster.has_critical) for cluster in clusters if cluster.included
    ]
    parts = [top, *bodies, _format_omitted_clusters(clusters), _format_footer(clusters)]
    return "\n\n".join(filter(None, parts)) + "\n"


def format_diagnostics(errors: Sequence[Diagnostic], suppressed_count: int, root: str) -> str:
    """Return the comment for a run that made no plan because of manifest errors.

    Errors that do not fit are counted, together with ``suppressed_count``. File locations are relative to ``root``.
    """
    error_count = len(errors) + suppressed_count
    head = f"{COMMENT_MARKER}\n### No plan: {format_count(error_count, 'error')} in the manifests\n"
    lines = _take_fitting(
        (_format_diagnostic(error, root) for error in errors), MAX_COMMENT_BYTES - _byte_size(head) - _FOOTER_BYTES
    )
    if hidden := error_count - len(lines):
        lines.append(f"- and {hidden:,} more")
    return "\n".join([head, *lines]) + "\n"


def _format_diagnostic(error: Diagnostic, root: str) -> str:
    place = relative_location(error.location, root)
    hint = f"\n  {escape_prose(error.hint)}" if error.hint else ""
    return f"- {format_code(str(place))}: {escape_prose(error.message)}{hint}"


def _format_title(plans: Sequence[Plan], failed_clusters: Sequence[str]) -> str:
    title = "No plan"
    if plans or not failed_clusters:
        title = escape_prose(format_summary_line(_UNWRAPPED_LAYOUT, groups.count_plans(plans)))
    if failed_clusters:
        failed = format_count(len(failed_clusters), "cluster")
        title += f"\n\n**{failed} could not be planned: see the log of the run.**"
    return title


def _format_table(plans: Sequence[Plan], failed_clusters: Sequence[str]) -> str:
    """Return the table with one row per cluster.

    If the rows exceed ``_MAX_TABLE_BYTES``, the clusters with the highest review priority are shown and the rest
    counted.
    """
    columns = _choose_columns(plans)
    no_counts = [""] * len(columns)
    ranked: list[tuple[int, str, str]] = []
    for name in failed_clusters:
        shown = format_table_cell(name) if name else "the cluster"
        ranked.append((Risk.DATA_LOSS + 2, name, _join_cells(shown, *no_counts, "**not planned**")))
    ranked += [(_review_priority(plan), plan.cluster, _format_row(plan, columns)) for plan in plans]
    ranked.sort(key=lambda row: (-row[0], row[1]))
    fitting = _take_fitting((row for _, _, row in ranked), _MAX_TABLE_BYTES)
    rows = [row for _, _, row in sorted(ranked[: len(fitting)], key=lambda row: row[1])]
    if hidden := len(ranked) - len(rows):
        rows.append(_join_cells(f"and {hidden:,} more", *no_counts, ""))
    if len(plans) > 1:
        counts = _format_counts(groups.count_plans(plans), columns)
        rows.append(_join_cells("**all**", *counts, _format_risk(_highest_risk(plans))))
    head = [_join_cells("cluster", *columns, "highest risk"), _join_cells(":--", *["--:"] * len(columns), ":--")]
    return "\n".join([*head, *rows]) if rows else ""


def _join_cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _choose_columns(plans: Sequence[Plan]) -> Sequence[str]:
    counts = groups.count_plans(plans)
    found = {*counts.counts, *counts.withheld}
    return [name for name, labels in _COLUMNS.items() if not found.isdisjoint(labels)]


def _format_row(plan: Plan, columns: Iterable[str]) -> str:
    plan_counts = groups.count_plan(plan)
    risk = _format_risk(_highest_risk([plan]))
    if plan_counts.withheld:
        risk = f"{risk} (held back: {format_table_cell(plan_counts.withheld_reason)})".strip()
    return _join_cells(format_table_cell(_cluster_name(plan)), *_format_counts(plan_counts, columns), risk)


def _format_counts(plan_counts: groups.PlanCounts, columns: Iterable[str]) -> list[str]:
    cells = []
    for labels in map(_COLUMNS.__getitem__, columns):
        number = sum(plan_counts.counts.get(label, 0) for label in labels)
        withheld = sum(plan_counts.withheld.get(label, 0) for label in labels)
        cells.append(" ".join([f"{number:,}"] * bool(number) + [f"({withheld:,})"] * bool(withheld)))
    return cells


def _format_risk(risk: Risk | None) -> str:
    return "" if risk is None else risk.label if risk is Risk.SAFE else f"**{risk.label}**"


def _highest_risk(plans: Sequence[Plan]) -> Risk | None:
    return max((topic.risk for plan in plans for topic in plan.actionable_topics()), default=None)


def _review_priority(plan: Plan) -> int:
    """Return how important this cluster is to a reviewer; higher is more important."""
    if plan.has_refusals or plan.write_block.reason is not None:
        return Risk.DATA_LOSS + 1
    return 0 if (risk := _highest_risk([plan])) is None else risk + 1


def _cluster_name(plan: Plan) -> str:
    return plan.cluster or plan.cluster_id


def _refused_topics(plan: Plan) -> tuple[str, ...]:
    """Return the topics with a refusal of their own; the table states a cluster-wide reason once for the cluster."""
    return tuple(
        topic.topic for topic in plan.topics if any(each.reason not in CLUSTER_WIDE_REASONS for each in topic.refusals)
    )


def _format_critical_list(title: str, topics: Mapping[str, Sequence[str]]) -> str:
    """Return a list with one line for all clusters that share the same topics.

    Topics that do not fit are counted. Empty if no cluster has a topic.
    """
    alike: dict[Sequence[str], list[str]] = {}
    for cluster, names in topics.items():
        if names:
            alike.setdefault(names, []).append(cluster)
    lines, remaining_bytes = [], _MAX_CRITICAL_BYTES
    hidden_topics = hidden_clusters = 0
    for names, clusters in alike.items():
        line = f"- on {format_code_list(clusters, _MAX_NAMES)}: {format_code_list(names, _MAX_NAMES)}"
        # A shorter line may still fit after one that does not, so all lines are tried.
        if _byte_size(line) <= remaining_bytes:
            lines.append(line)
            remaining_bytes -= _byte_size(line)
        else:
            hidden_topics += len(names) * len(clusters)
            hidden_clusters += len(clusters)
    if hidden_topics:
        lines.append(f"- and {format_count(hidden_topics, 'topic')} on {format_count(hidden_clusters, 'cluster')}")
    return "\n\n".join(["", f"**{title}**", "\n".join(lines)]) if lines else ""


class _ClusterSections(Struct):
    """The sections of one cluster, and those that the comment includes so far.

    ``included`` holds the text of the included sections by their index in ``sections``, ``used_bytes`` their size with
    the cluster's heading. ``failed_attempts`` counts the sections that did not fit.
    """

    plan: Plan
    heading: str
    sections: Sequence[Section]
    included: dict[int, str] = field(default_factory=dict)
    used_bytes: int = 0
    failed_attempts: int = 0

    @property
    def has_critical(self) -> bool:
        """Return whether a topic is refused or may lose data; the cluster is then shown unfolded."""
        return any(section.priority == PRIORITY_CRITICAL for section in self.sections)

    def list_omitted(self) -> list[int]:
        """Return the indexes of the sections that are not included, the most important first."""
        omitted = (at for at in range(len(self.sections)) if at not in self.included)
        return sorted(omitted, key=lambda at: self.sections[at].priority)

    def include(self, at: int, max_bytes: int) -> int:
        """Include a section if it needs at most ``max_bytes``; return its size, 0 if it does not fit."""
        text = self.sections[at].write()
        # The first section of a cluster also needs bytes for the cluster's heading and for its omitted line.
        frame = 0 if self.included else _byte_size(self.format_text(opened=True)) + _OMITTED_LINE_BYTES
        size = _byte_size(text) + 2 + frame
        if size > max_bytes:
            self.failed_attempts += 1
            return 0
        self.included[at] = text
        self.used_bytes += size
        return size

    def omitted_topics(self) -> Mapping[str, int]:
        """Return the topics of omitted sections, each with the lowest priority number among its sections."""
        topics: dict[str, int] = {}
        for at in self.list_omitted():
            for topic in self.sections[at].topics:
                topics.setdefault(topic, self.sections[at].priority)
        return topics

    def format_text(self, *, opened: bool) -> str:
        parts = [self.included[at] for at in sorted(self.included)]
        if self.included and (hidden := self.omitted_topics()):
            parts.append(f"*{_describe_omitted(hidden.values())}*")
        return "\n\n".join([f"<details{' open' if opened else ''}>\n{self.heading}", *parts, "</details>"])


def _build_cluster(plan: Plan, root: str) -> _ClusterSections:
    clusters = [format_html_code(name) for name in (plan.cluster, plan.cluster_id) if name]
    heading = f"<summary><b>{': '.join(clusters)}</b>, {groups.describe_brokers(plan)}</summary>"
    if plan.write_block.reason is not None:
        block = plan.write_block
        heading += f"\n\n**Write block** ({block.reason}): {escape_prose(block.message)}; nothing is written."
    if names := groups.list_data_loss_topics(plan):
        advice = f"**{groups.describe_data_losses(plan)}**:{groups.DATA_LOSS_ADVICE}"
        heading += f"\n\n{advice}: {format_code(groups.format_consent(names))}"
    return _ClusterSections(plan, heading, build_sections(plan, root))


def _fill_comment(clusters: Sequence[_ClusterSections], max_bytes: int) -> None:
    """Include as many sections as fit into ``max_bytes``.

    First each cluster fills half of an even share with its own sections, the most important first. The rest goes, by
    priority, to the cluster with the fewest bytes so far. If a section does not fit, a smaller one may. But most
    sections of a long plan have similar sizes, so the number of failed attempts is limited.
    """
    share = max_bytes // (2 * max(len(clusters), 1))
    for cluster in clusters if share >= _MIN_SHARE_BYTES else ():
        for at in cluster.list_omitted():
            max_bytes -= cluster.include(at, share - cluster.used_bytes)
            if cluster.failed_attempts == _MAX_ATTEMPTS_PER_CLUSTER:
                break
    queues = []
    for number, cluster in enumerate(clusters):
        cluster.failed_attempts = 0
        if omitted := cluster.list_omitted():
            queues.append((cluster.sections[omitted[0]].priority, 0, cluster.used_bytes, number, deque(omitted)))
    heapify(queues)
    attempts = _MAX_ATTEMPTS + len(clusters)
    while queues and attempts > 0:
        *_, number, omitted_queue = heappop(queues)
        cluster = clusters[number]
        size = cluster.include(omitted_queue.popleft(), max_bytes)
        max_bytes -= size
        attempts -= not size
        if omitted_queue:
            # A cluster with more failed attempts comes later: its sections are too large for the remaining bytes.
            priority = cluster.sections[omitted_queue[0]].priority
            heappush(queues, (priority, cluster.failed_attempts, cluster.used_bytes, number, omitted_queue))


def _describe_omitted(priorities: Collection[int]) -> str:
    critical_count = sum(priority == PRIORITY_CRITICAL for priority in priorities)
    text = f"{format_count(len(priorities), 'topic')} not shown"
    return f"{text}, {critical_count:,} of them refused or with DataLoss" if critical_count else text


def _omitted_line_size(cluster: _ClusterSections) -> int:
    return _byte_size(format_table_cell(_cluster_name(cluster.plan))) + _OMITTED_LINE_BYTES


def _format_omitted_clusters(clusters: Sequence[_ClusterSections]) -> str:
    """Return the topic counts of the clusters without a shown section.

    Clusters with the most critical topics come first. Lines that do not fit are combined into one.
    """
    omitted = [
        (cluster, list(topics.values()))
        for cluster in clusters
        if not cluster.included and (topics := cluster.omitted_topics())
    ]
    omitted.sort(key=lambda pair: -pair[1].count(PRIORITY_CRITICAL))
    lines = _take_fitting(
        (f"- {format_code(_cluster_name(cluster.plan))}: {_describe_omitted(each)}" for cluster, each in omitted),
        # The heading and the last line need bytes too.
        _MAX_OMITTED_BYTES - 2 * _OMITTED_LINE_BYTES,
    )
    if rest := omitted[len(lines) :]:
        priorities = [priority for _, each in rest for priority in each]
        lines.append(f"- {format_count(len(rest), 'other cluster')}: {_describe_omitted(priorities)}")
    return "\n".join(["**Clusters that do not fit into this comment**\n", *lines]) if lines else ""


def _format_footer(clusters: Sequence[_ClusterSections]) -> str:
    priorities = [priority for cluster in clusters for priority in cluster.omitted_topics().values()]
    if priorities:
        return f"**The comment is full: {_describe_omitted(priorities)}.** {FULL_PLAN_HINT}"
    return FULL_PLAN_HINT if clusters else ""


def _take_fitting(lines: Iterable[str], max_bytes: int) -> list[str]:
    """Return the first lines that fit into ``max_bytes``, each with its line end."""
    fitting = []
    for line in lines:
        max_bytes -= _byte_size(line) + 1
        if max_bytes < 0:
            break
        fitting.append(line)
    return fitting


def _byte_size(text: str) -> int:
    """Return the size in bytes, which is never less than the number of characters."""
    return len(text.encode())

"""The comment on a pull request: a table of all clusters, then sections for each cluster.

A comment has a size limit. Whole sections are omitted, the least important first, and the omitted topics are counted.
So the comment never contains half a topic, an unclosed fence or an open tag. No connect string, controller or error
message of a cluster is shown: more people can read a comment than the log of a run.

The module builds each section from one topic or from one group of ``groups``. Names and values are escaped by
``markdown.escape``; diffs come from ``markdown.diff``. ``plan --format markdown`` prints the result.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from topiarist.errors import Diagnostic, Location, Reason
from topiarist.model.plan import ConfigItem, Issue, Plan, Risk, RiskAssessment, TopicPlan
from topiarist.model.spec import ValueOrigin, find_origin
from topiarist.output import groups
from topiarist.output.groups import (
    ClusterDefault,
    GroupedItems,
    describe_ownership_action,
    is_record_only,
    list_exceeded_budgets,
)
from topiarist.output.markdown.diff import COMMENT_LAYOUT, format_config_item, format_diff
from topiarist.output.markdown.escape import (
    escape_prose,
    format_code,
    format_code_block,
    format_code_list,
    format_html_code,
    format_table_cell,
    relative_path,
)
from topiarist.output.text import brokers, summary, topic_block
from topiarist.output.text import plan as plan_
from topiarist.output.text.changes import (
    FROM_CLUSTER_DEFAULTS,
    SharedDefaults,
    group_risks,
    list_risk_assessments,
    summarize_changes,
)
from topiarist.output.text.layout import TextLayout
from topiarist.output.text.topic_block import CLUSTER_WIDE_REASONS
from topiarist.text import format_count

COMMENT_MARKER = "<!-- topiarist plan -->"
"""First line of the comment. A bot finds the earlier comment to update by this prefix."""

MAX_COMMENT_BYTES = 65_000
"""Bytes. GitHub accepts 65,536 characters, GitLab more; the difference is reserved for text that a bot adds."""

FULL_PLAN_HINT = "The whole plan is in the artifact of this run; `topiarist plan -v` prints it too."

_COLUMNS = {
    "create": ("to create",),
    "grow": ("to grow",),
    "configure": ("to configure",),
    "delete": ("to delete",),
    "record": ("to adopt", "record only"),
    "refused": ("refused",),
}
# A Markdown heading is one line, so the summary line in it must not be wrapped.
_UNWRAPPED_LAYOUT = TextLayout(width=10_000)
_MAX_TABLE_BYTES = 16_000
_MAX_CRITICAL_BYTES = 6_000
"""Bytes for the names of refused topics and of topics that may lose data, above the sections."""

_MAX_OMITTED_BYTES = 6_000
"""Bytes for the lines about clusters without a shown section."""

_FOOTER_BYTES = 400
_MAX_ATTEMPTS = 50
_MAX_ATTEMPTS_PER_CLUSTER = 5
_MIN_SHARE_BYTES = 500
"""Bytes; with a smaller share per cluster no section would fit."""

_OMITTED_LINE_BYTES = 120
"""Bytes for the text of one line about the omitted topics of a cluster."""

_MAX_NAMES = 20


def format_plans(plans: Sequence[Plan], failed_clusters: Sequence[str], root: str) -> str:
    """Return the pull request comment for the plans of a run.

    ``failed_clusters`` are the names of the clusters that could not be planned. File locations are relative to the
    folder ``root``, as in git.
    """
    top = f"{COMMENT_MARKER}\n### {_format_title(plans, failed_clusters)}\n\n{_format_table(plans, failed_clusters)}"
    if len(plans) > 1:
        top += _format_critical(plans)
    clusters = [cluster for plan in plans if (cluster := _ClusterSections.from_plan(plan, root)).sections]
    _fill_comment(
        clusters,
        MAX_COMMENT_BYTES
        - _byte_size(top)
        - _FOOTER_BYTES
        - min(_MAX_OMITTED_BYTES, sum(map(_omitted_line_size, clusters))),
    )
    bodies = [
        cluster.format_text(opened=len(plans) == 1 or cluster.has_critical) for cluster in clusters if cluster.included
    ]
    return (
        "\n\n".join(filter(None, [top, *bodies, _format_omitted_clusters(clusters), _format_footer(clusters)])) + "\n"
    )


def format_diagnostics(errors: Sequence[Diagnostic], suppressed_count: int, root: str) -> str:
    """Return the comment for a run that made no plan because of manifest errors.

    Errors that do not fit are counted, together with ``suppressed_count``. File locations are relative to ``root``.
    """
    lines = [
        f"{COMMENT_MARKER}\n### No plan: {format_count(len(errors) + suppressed_count, 'error')} in the manifests\n"
    ]
    remaining_bytes = MAX_COMMENT_BYTES - _byte_size(lines[0]) - _FOOTER_BYTES
    for number, (place, message, hint, *_) in enumerate(errors):
        line = f"- {format_code(str(place._replace(file=relative_path(place.file, root))))}: {escape_prose(message)}"
        line += f"\n  {escape_prose(hint)}" if hint else ""
        if (remaining_bytes := remaining_bytes - _byte_size(line) - 1) < 0:
            suppressed_count += len(errors) - number
            break
        lines.append(line)
    if suppressed_count:
        lines.append(f"- and {suppressed_count:,} more")
    return "\n".join(lines) + "\n"


def _format_title(plans: Sequence[Plan], failed_clusters: Sequence[str]) -> str:
    summary_text = (
        escape_prose(summary.format_summary_line(_UNWRAPPED_LAYOUT, summary.count_plans(plans)))
        if plans or not failed_clusters
        else "No plan"
    )
    if not failed_clusters:
        return summary_text
    failed = format_count(len(failed_clusters), "cluster")
    return f"{summary_text}\n\n**{failed} could not be planned: the log of the run says why.**"


def _format_table(plans: Sequence[Plan], failed_clusters: Sequence[str]) -> str:
    """Return the table with one row per cluster.

    If the rows exceed ``_MAX_TABLE_BYTES``, the clusters with the highest review priority are shown and the rest
    counted.
    """
    rows_by_cluster = {name: (Risk.DATA_LOSS + 2, _format_failed_row(name)) for name in failed_clusters}
    rows_by_cluster |= {plan.cluster: (_review_priority(plan), _format_row(plan)) for plan in plans}
    chosen, remaining_bytes = set(), _MAX_TABLE_BYTES
    for name, (_, row) in sorted(rows_by_cluster.items(), key=lambda item: -item[1][0]):
        if (remaining_bytes := remaining_bytes - _byte_size(row) - 1) < 0:
            break
        chosen.add(name)
    rows = [row for name, (_, row) in sorted(rows_by_cluster.items()) if name in chosen]
    if hidden := len(rows_by_cluster) - len(chosen):
        rows.append(f"| and {hidden:,} more | {' | ' * len(_COLUMNS)}|")
    if len(plans) > 1:
        rows.append(
            f"| **all** | {_format_counts(summary.count_plans(plans))} | {_format_risk(_highest_risk(plans))} |"
        )
    head = f"| cluster | {' | '.join(_COLUMNS)} | highest risk |\n| :-- | {'--: | ' * len(_COLUMNS)}:-- |"
    return "\n".join([head, *rows]) if rows else ""


def _format_row(plan: Plan) -> str:
    plan_counts = summary.count_plan(plan)
    risk = [
        _format_risk(_highest_risk([plan])),
        f"(held back: {format_table_cell(plan_counts.withheld_reason)})" if plan_counts.withheld else "",
    ]
    return (
        f"| {format_table_cell(_cluster_name(plan))} | {_format_counts(plan_counts)} | {' '.join(filter(None, risk))} |"
    )


def _format_failed_row(name: str) -> str:
    shown = format_table_cell(name) if name else "the cluster"
    return f"| {shown} | {' | ' * len(_COLUMNS)}**not planned** |"


def _format_counts(plan_counts: summary.PlanCounts) -> str:
    """Return the count cells of a row, with withheld changes in parentheses."""
    cells = []
    for words in _COLUMNS.values():
        number, held = (
            sum(counts.get(word, 0) for word in words) for counts in (plan_counts.counts, plan_counts.withheld)
        )
        cells.append(" ".join([f"{number:,}"] * bool(number) + [f"({held:,})"] * bool(held)))
    return " | ".join(cells)


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


def _format_critical(plans: Sequence[Plan]) -> str:
    """Return the names of topics that may lose data or are refused.

    The names stay visible above the sections, which may be folded.
    """
    return _format_critical_list(
        "May lose data", {_cluster_name(plan): _list_data_loss_topics(plan) for plan in plans}
    ) + _format_critical_list("Refused", {_cluster_name(plan): _list_refused_topics(plan) for plan in plans})


def _list_data_loss_topics(plan: Plan) -> tuple[str, ...]:
    return tuple(topic.topic for topic in plan.actionable_topics() if topic.risk is Risk.DATA_LOSS)


def _list_refused_topics(plan: Plan) -> tuple[str, ...]:
    """Return the topics with a refusal of their own.

    Refusals with one of ``CLUSTER_WIDE_REASONS`` do not count: the table states that reason once for the cluster.
    """
    return tuple(
        topic.topic for topic in plan.topics if any(each.reason not in CLUSTER_WIDE_REASONS for each in topic.refusals)
    )


def _format_critical_list(title: str, topics: Mapping[str, tuple[str, ...]]) -> str:
    """Return a list with one line for all clusters that share the same topics.

    Topics that do not fit are counted. Empty if no cluster has a topic.
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for cluster, names in topics.items():
        if names:
            alike.setdefault(names, []).append(cluster)
    lines, room = [], _MAX_CRITICAL_BYTES // 2
    hidden: list[tuple[int, int]] = []
    for names, clusters in alike.items():
        line = f"- on {format_code_list(clusters, _MAX_NAMES)}: {format_code_list(names, _MAX_NAMES)}"
        # A shorter line may still fit after one that does not, so all lines are tried.
        if (left := room - _byte_size(line)) >= 0:
            lines.append(line)
            room = left
        else:
            hidden.append((len(names) * len(clusters), len(clusters)))
    if hidden:
        number, where = map(sum, zip(*hidden, strict=True))
        lines.append(f"- and {format_count(number, 'topic')} on {format_count(where, 'cluster')}")
    return "\n\n".join(["", f"**{title}**", "\n".join(lines)]) if lines else ""


@dataclass(frozen=True, slots=True)
class _ClusterSections:
    """The sections of one cluster.

    ``included`` holds the text of the sections that fit, by their index in ``sections``.
    """

    plan: Plan
    heading: str
    sections: Sequence[Section]
    included: dict[int, str] = field(default_factory=dict)

    @classmethod
    def from_plan(cls, plan: Plan, root: str) -> _ClusterSections:
        names = [format_html_code(name) for name in (plan.cluster, plan.cluster_id) if name]
        head = f"<summary><b>{': '.join(names)}</b>, {plan_.describe_brokers(plan)}</summary>"
        if plan.write_block.reason is not None:
            block = plan.write_block
            head += f"\n\n**Closed** ({block.reason}): {escape_prose(block.message)}; nothing is written."
        return cls(plan, head, build_sections(plan, groups.group_items(plan), root))

    @property
    def has_critical(self) -> bool:
        """Return whether a topic is refused or may lose data; the cluster is then shown unfolded."""
        return any(section.priority == PRIORITY_CRITICAL for section in self.sections)

    def list_omitted_sections(self, rank: int) -> Iterator[int]:
        """Yield the indexes of the sections with this priority that are not included yet."""
        return (at for at, each in enumerate(self.sections) if each.priority == rank and at not in self.included)

    def omitted_topics(self) -> Mapping[str, int]:
        """Return the topics of omitted sections, each with the lowest priority number among its sections."""
        return {
            topic: section.priority
            for number, section in reversed(list(enumerate(self.sections)))
            if number not in self.included
            for topic in section.topics
        }

    def format_text(self, *, opened: bool) -> str:
        parts = [self.included[number] for number in sorted(self.included)]
        if self.included and (hidden := self.omitted_topics()):
            parts.append(f"*{_describe_omitted(hidden.values())}*")
        return "\n\n".join([f"<details{' open' if opened else ''}>\n{self.heading}", *parts, "</details>"])


def _fill_comment(clusters: Sequence[_ClusterSections], max_bytes: int) -> None:
    """Include as many sections as fit into ``max_bytes``.

    First each cluster fills half of an even share with its own sections, the most important first. The rest goes, by
    priority, to the cluster with the fewest bytes so far. If a section does not fit, a smaller one may. But most
    sections of a long plan have similar sizes, so the number of failed attempts is limited.
    """
    filling = _SpaceAllocator(clusters, max_bytes)
    share = max_bytes // (2 * max(len(clusters), 1))
    for at, cluster in enumerate(clusters if share >= _MIN_SHARE_BYTES else ()):
        tries = _MAX_ATTEMPTS_PER_CLUSTER
        for rank in range(PRIORITY_CRITICAL, PRIORITY_INFO + 1):
            for number in cluster.list_omitted_sections(rank) if tries else ():
                tries -= not filling.try_add(at, number, share - filling.used_bytes[at])
                if not tries:
                    break
    filling.distribute_remaining()


class _SpaceAllocator:
    """An allocator of the comment's bytes to sections; ``used_bytes`` is what each cluster has so far."""

    def __init__(self, clusters: Sequence[_ClusterSections], max_bytes: int) -> None:
        self._clusters = clusters
        self._remaining_bytes = max_bytes
        self._failed_attempts = [0] * len(clusters)
        self.used_bytes = [0] * len(clusters)

    def try_add(self, at: int, number: int, most: int) -> bool:
        """Include a section if it needs at most ``most`` bytes; return whether it was included."""
        cluster = self._clusters[at]
        written = cluster.sections[number].write()
        # The first section of a cluster also needs bytes for the cluster's heading and for its omitted line.
        frame = 0 if cluster.included else _byte_size(cluster.format_text(opened=True)) + _OMITTED_LINE_BYTES
        cost = _byte_size(written) + 2 + frame
        if cost > min(most, self._remaining_bytes):
            self._failed_attempts[at] += 1
            return False
        cluster.included[number] = written
        self._remaining_bytes -= cost
        self.used_bytes[at] += cost
        return True

    def distribute_remaining(self) -> None:
        """Distribute the remaining bytes by priority, to the cluster with the fewest bytes first.

        A cluster with more failed attempts comes after a cluster with fewer: its sections are too large for the
        remaining bytes.
        """
        tries = _MAX_ATTEMPTS + len(self._clusters)
        self._failed_attempts = [0] * len(self._clusters)
        for rank in range(PRIORITY_CRITICAL, PRIORITY_INFO + 1):
            queues = [
                (*self._queue_key(at), deque(cluster.list_omitted_sections(rank)))
                for at, cluster in enumerate(self._clusters)
            ]
            heapify(queues)
            while queues and tries > 0:
                _, _, at, numbers = heappop(queues)
                if numbers:
                    tries -= not self.try_add(at, numbers.popleft(), self._remaining_bytes)
                    heappush(queues, (*self._queue_key(at), numbers))

    def _queue_key(self, at: int) -> tuple[int, int, int]:
        return self._failed_attempts[at], self.used_bytes[at], at


def _describe_omitted(priorities: Collection[int]) -> str:
    """Return the number of hidden topics as text, from the priority of each."""
    critical_count = sum(rank == PRIORITY_CRITICAL for rank in priorities)
    text = f"{format_count(len(priorities), 'topic')} not shown"
    return f"{text}, {critical_count:,} of them refused or with DataLoss" if critical_count else text


def _omitted_line_size(cluster: _ClusterSections) -> int:
    return _byte_size(format_table_cell(_cluster_name(cluster.plan))) + _OMITTED_LINE_BYTES


def _format_omitted_clusters(clusters: Sequence[_ClusterSections]) -> str:
    """Return the topic counts of the clusters without a shown section.

    Clusters with the most critical topics come first. Lines that do not fit are combined into one.
    """
    cut = [(cluster, hidden) for cluster in clusters if not cluster.included and (hidden := cluster.omitted_topics())]
    cut.sort(key=lambda pair: -sum(rank == PRIORITY_CRITICAL for rank in pair[1].values()))
    lines, room = [], _MAX_OMITTED_BYTES - 2 * _OMITTED_LINE_BYTES
    for cluster, hidden in cut:
        if (room := room - _omitted_line_size(cluster)) < 0:
            break
        lines.append(f"- {format_code(_cluster_name(cluster.plan))}: {_describe_omitted(hidden.values())}")
    if rest := cut[len(lines) :]:
        ranks = {(cluster.plan.cluster, topic): rank for cluster, hidden in rest for topic, rank in hidden.items()}
        lines.append(f"- {format_count(len(rest), 'other cluster')}: {_describe_omitted(ranks.values())}")
    return "\n".join(["**Clusters without room in this comment**\n", *lines]) if lines else ""


def _format_footer(clusters: Sequence[_ClusterSections]) -> str:
    """Return the number of omitted topics and where to find the full plan."""
    hidden = {
        (cluster.plan.cluster, topic): rank for cluster in clusters for topic, rank in cluster.omitted_topics().items()
    }
    omitted_count, critical_count = len(hidden), sum(rank == PRIORITY_CRITICAL for rank in hidden.values())
    if not omitted_count:
        return FULL_PLAN_HINT if clusters else ""
    text = f"**{format_count(omitted_count, 'topic')} left out, for which a comment has no room"
    text += f"; {critical_count:,} of them refused or with DataLoss" if critical_count else ""
    return f"{text}.** {FULL_PLAN_HINT}"


def _byte_size(text: str) -> int:
    """Return the size in bytes, which is never less than the number of characters."""
    return len(text.encode())


PRIORITY_CRITICAL, PRIORITY_HIGH, PRIORITY_BROKERS, PRIORITY_LOW, PRIORITY_INFO = range(5)
"""Section priorities, most important first.

Refusals and possible data loss; disruptive changes; broker effects and warnings; safe changes; information.
"""

_MAX_SECTION_NAMES = 20
_MAX_KINDS = 10


class Section(NamedTuple):
    """A section with its priority, its topics and the function that formats it.

    The function is called only for sections that are tried: most sections of a long plan are not shown.
    """

    priority: int
    topics: Sequence[str]
    write: Callable[[], str]


def build_sections(plan: Plan, grouped: GroupedItems, root: str) -> list[Section]:
    """Return the sections in display order; file locations are relative to the folder ``root``."""
    sections = [*_build_budget_section(plan), *_build_group_sections(grouped, root)]
    for topic in plan.topics:
        if topic_block.has_own_block(topic, grouped):
            sections.append(
                Section(_topic_priority(topic), (topic.topic,), partial(_format_topic, topic, grouped, root))
            )
    sections.sort(key=lambda section: section.priority)
    if table := list(brokers.format_broker_table(COMMENT_LAYOUT, plan)):
        sections.append(Section(PRIORITY_BROKERS, (), partial(_format_brokers, table)))
    if plan.warnings:
        sections.append(
            Section(
                PRIORITY_BROKERS,
                (),
                partial(_format_bullet_section, "Warnings", list(map(escape_prose, plan.warnings))),
            )
        )
    if plan.orphans:
        text = format_count(len(plan.orphans), "owned topic")
        text += f": {_format_names(plan.orphans)}" if len(plan.orphans) <= _MAX_SECTION_NAMES else ""
        sections.append(
            Section(PRIORITY_INFO, (), partial(_format_bullet_section, summary.NOT_IN_PATHS.capitalize(), [text]))
        )
    if notices := list(_format_unlisted_notices(plan, grouped)):
        sections.append(Section(PRIORITY_INFO, (), partial(_format_bullet_section, "Notices", notices)))
    return sections


def _build_budget_section(plan: Plan) -> Iterator[Section]:
    lines = [
        escape_prose(words) for message, hint in list_exceeded_budgets(plan) for words in (message, f"fix: {hint}")
    ]
    if lines:
        yield Section(PRIORITY_CRITICAL, (), partial(_format_bullet_section, "Over budget", lines))


def _topic_priority(topic: TopicPlan) -> int:
    return (
        PRIORITY_CRITICAL
        if topic.refusals
        else PRIORITY_LOW
        if topic.observe_only
        else (PRIORITY_LOW, PRIORITY_HIGH, PRIORITY_CRITICAL)[topic.risk]
    )


def _build_group_sections(grouped: GroupedItems, root: str) -> Iterator[Section]:
    for default, touched in grouped.defaults.items():
        rank = (PRIORITY_LOW, PRIORITY_HIGH, PRIORITY_CRITICAL)[max(item.assessment.risk for _, item in touched)]
        yield Section(
            rank, [topic.topic for topic, _ in touched], partial(_format_default_group, default, touched, root)
        )
    for words, topics in grouped.ownership_actions.items():
        listed = [topic.topic for topic in topics]
        yield Section(PRIORITY_LOW, listed, partial(_format_record_group, words, listed))
    for members in grouped.refusals.values():
        yield Section(
            PRIORITY_CRITICAL, [topic.topic for topic, _ in members], partial(_format_refusal_group, members, root)
        )


def _format_record_group(ownership_action: str, topics: Sequence[str]) -> str:
    return _format_section(
        format_count(len(topics), "topic"),
        topic_block.describe_record_only(ownership_action),
        [f"topics: {_format_names(topics)}"],
    )


def _format_refusal_group(members: Sequence[tuple[TopicPlan, Issue]], root: str) -> str:
    topic, issue = members[0]
    # The hint names the first topic only; a placeholder makes it valid for all topics of the group.
    general = issue._replace(hint=issue.hint.replace(f"={topic.topic}", "=TOPIC"))
    listed = f"topics: {_format_names([member.topic for member, _ in members])}"
    name = format_count(len(members), "topic")
    if issue.reason in topic_block.CLUSTER_WIDE_REASONS:
        return _format_withheld(name, issue, [listed])
    return _format_refusal(name, topic, general, root, [listed])


def _format_default_group(default: ClusterDefault, touched: Sequence[tuple[TopicPlan, ConfigItem]], root: str) -> str:
    key, _ = default
    assessments = Counter(item.assessment for _, item in touched).most_common()
    lines = _format_risks(
        [(format_count(times, "topic"), assessment) for assessment, times in assessments], topics=True
    )
    lines.append(f"topics: {_format_names([topic.topic for topic, _ in touched])}")
    lines.extend(_format_field_location(touched[0][0], ("config", key), root))
    befores = Counter(item for _, item in touched).most_common(_MAX_KINDS)
    changed = [
        line for item, times in befores for line in format_config_item(item, f"in {format_count(times, 'topic')}")
    ]
    return _format_section(
        format_code(key), f"{FROM_CLUSTER_DEFAULTS}, {format_count(len(touched), 'topic')}", lines, changed
    )


def _format_topic(topic: TopicPlan, grouped: GroupedItems, root: str) -> str:
    """Return one topic's section: all changes under one heading, each refusal under another."""
    parts = []
    if topic_block.has_ungrouped_changes(topic, grouped):
        parts.append(_format_changed_topic(topic, grouped.defaults))
    for issue in topic_block.list_ungrouped_refusals(topic, grouped):
        name = format_code(topic.topic)
        closed = issue.reason in topic_block.CLUSTER_WIDE_REASONS
        parts.append(_format_withheld(name, issue) if closed else _format_refusal(name, topic, issue, root))
    notices = [issue for issue in topic.notices if issue.reason is not Reason.UNMANAGED]
    if notices:
        parts.append(_format_bullets([f"{_notice_label(issue)}: {escape_prose(issue.message)}" for issue in notices]))
    return "\n\n".join(parts)


def _format_changed_topic(topic: TopicPlan, shared_defaults: SharedDefaults) -> str:
    action, record = summarize_changes(topic.changes), describe_ownership_action(topic)
    if is_record_only(topic):
        action = topic_block.describe_record_only(record)
    lines = _format_risks(list_risk_assessments(topic.changes))
    if record and not is_record_only(topic):
        lines.append(f"record: {escape_prose(record)}, the topic becomes ours")
    if topic.observe_only:
        action = f"observed, not done: {action}"
    return _format_section(format_code(topic.topic), action, lines, format_diff(topic.changes, shared_defaults))


def _format_refusal(name: str, topic: TopicPlan, issue: Issue, root: str, extra_lines: Sequence[str] = ()) -> str:
    """Return a refusal with its message, location, hint and withheld changes."""
    lines = [escape_prose(issue.message), *_format_field_location(topic, issue.field, root)]
    if issue.hint:
        lines.append(f"fix: {escape_prose(issue.hint)}")
    lines.extend(_format_rule_location(issue, root))
    if issue.withheld:
        lines.append(f"held back: {escape_prose(summarize_changes(issue.withheld))}")
        lines.extend(
            _format_risks(
                pair for pair in list_risk_assessments(issue.withheld) if pair[1].explanation not in issue.message
            )
        )
    return _format_section(name, f"refused ({issue.reason})", [*lines, *extra_lines], format_diff(issue.withheld, ()))


def _format_withheld(name: str, issue: Issue, extra_lines: Sequence[str] = ()) -> str:
    """Return the changes that are withheld for a cluster-wide reason.

    The cluster's heading or a section of its own gives the reason once.
    """
    lines = [*_format_risks(list_risk_assessments(issue.withheld)), *extra_lines]
    return _format_section(
        name, f"held back: {summarize_changes(issue.withheld)}", lines, format_diff(issue.withheld, ())
    )


def _format_section(name: str, action: str, lines: Iterable[str], changed: Sequence[str] = ()) -> str:
    text = f"#### {name}: {escape_prose(action)}\n\n{_format_bullets(lines)}"
    return f"{text}\n\n{format_code_block(changed, 'diff')}" if changed else text


def _format_bullet_section(title: str, lines: Iterable[str]) -> str:
    return f"#### {title}\n\n{_format_bullets(lines)}"


def _format_bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _format_risks(assessments: Iterable[tuple[str, RiskAssessment]], *, topics: bool = False) -> list[str]:
    """Return one line per risk and reason, the highest risk first.

    Each reason names its subjects, except when there is only one assessment and it is about one topic.
    """
    pairs = list(assessments)
    grouped_risks = group_risks(pairs)
    if not grouped_risks:
        return [f"**{Risk.SAFE.label}**"]
    alone = len(pairs) == 1 and not topics
    reasons = [
        (each, each.explanation if alone else f"{subjects}: {each.explanation}") for each, subjects in grouped_risks
    ]
    return [f"**{each.risk.label}**: {escape_prose(reason)}" for each, reason in reasons]


def _format_field_location(topic: TopicPlan, field: Sequence[str], root: str) -> Iterator[str]:
    where = find_origin(topic.spec, *field) if topic.spec else ValueOrigin(None, ())
    if place := where.locate():
        yield f"at {_format_location(place, root)}"


def _format_rule_location(issue: Issue, root: str) -> Iterator[str]:
    """Yield the location of the policy rule that caused the issue, if known."""
    if place := issue.rule_origin and issue.rule_origin.locate():
        yield f"rule at {_format_location(place, root)}"


def _format_location(location: Location, root: str) -> str:
    return format_code(str(location._replace(file=relative_path(location.file, root))))


def _format_names(names: Sequence[str]) -> str:
    return format_code_list(names, _MAX_SECTION_NAMES)


def _notice_label(issue: Issue) -> str:
    return "warning" if issue.reason is Reason.EXISTING_PROBLEM else "note"


def _format_brokers(table: Sequence[str]) -> str:
    return "#### Effect on the brokers\n\n" + format_code_block(line.removeprefix("  ") for line in table)


def _format_unlisted_notices(plan: Plan, grouped: GroupedItems) -> Iterator[str]:
    """Yield the notices of topics without a section, grouped by message.

    Warnings come before notes, the most frequent first; the rest is counted after ``_MAX_KINDS`` groups.
    """
    kinds: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for topic in plan.topics:
        alone = topic_block.has_own_block(topic, grouped)
        for issue in topic.notices:
            if issue.reason is Reason.UNMANAGED or not alone:
                kinds[_notice_label(issue), issue.message].append(topic.topic)
    ordered = sorted(kinds.items(), key=lambda kind: (kind[0][0] == "note", -len(kind[1])))
    for (label, message), topics in ordered[:_MAX_KINDS]:
        yield f"{label}: {_format_names(topics)}: {escape_prose(message)}"
    if left := sum(len(topics) for _, topics in ordered[_MAX_KINDS:]):
        yield f"{left:,} more of such notes"

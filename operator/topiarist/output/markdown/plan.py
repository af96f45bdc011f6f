"""Plans as a comment under a pull request: a table of all clusters, then what a reviewer has to see of each.

A comment has a limit. What does not fit is left out section by section, what matters least first, and is counted; so
there is never half a topic, an unclosed fence or an open tag. No connect string, controller or error message of a
cluster is shown: a comment may be read by more people than a run's log.

The plan of one cluster as Markdown, in sections that can each be left out where a comment has no room for them.

``groups`` has found what many topics share; a section is about one topic, or about one thing that they share. Names
and values pass through ``markup`` on their way here. ``markdown`` chooses the sections and puts them together.
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
"""The first line: whoever looks for an earlier comment to update looks for this at its very beginning."""

MAX_COMMENT_BYTES = 65_000
"""Bytes. GitHub takes 65,536 characters, GitLab more; the rest is for what a bot adds."""

FULL_PLAN_HINT = "The whole plan is in the artifact of this run; `topiarist plan -v` prints it too."

_COLUMNS = {
    "create": ("to create",),
    "grow": ("to grow",),
    "configure": ("to configure",),
    "delete": ("to delete",),
    "record": ("to adopt", "record only"),
    "refused": ("refused",),
}
_UNWRAPPED_LAYOUT = TextLayout(width=10_000)
_MAX_TABLE_BYTES = 16_000
_MAX_CRITICAL_BYTES = 6_000
"""Bytes for the names of topics that are refused or may lose data, above the sections."""

_MAX_OMITTED_BYTES = 6_000
"""Bytes for lines on clusters whose topics have no room."""

_FOOTER_BYTES = 400
_MAX_ATTEMPTS = 50
_MAX_ATTEMPTS_PER_CLUSTER = 5
_MIN_SHARE_BYTES = 500
"""Bytes below which no section of a cluster would find room."""

_OMITTED_LINE_BYTES = 120
"""Bytes for the words on what is cut of a cluster."""

_MAX_NAMES = 20


def format_plans(plans: Sequence[Plan], failed_clusters: Sequence[str], root: str) -> str:
    """The comment for the plans of a run; ``failed_clusters`` are the clusters that could not be planned.

    Places in files are given from the folder ``root``, as git has them.
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
    """The comment for a run that made no plan, since its manifests are wrong."""
    lines = [
        f"{COMMENT_MARKER}\n### No plan: {format_count(len(errors) + suppressed_count, 'error')} in the manifests\n"
    ]
    left = MAX_COMMENT_BYTES - _byte_size(lines[0]) - _FOOTER_BYTES
    for number, (place, message, hint, *_) in enumerate(errors):
        line = f"- {format_code(str(place._replace(file=relative_path(place.file, root))))}: {escape_prose(message)}"
        line += f"\n  {escape_prose(hint)}" if hint else ""
        if (left := left - _byte_size(line) - 1) < 0:
            suppressed_count += len(errors) - number
            break
        lines.append(line)
    if suppressed_count:
        lines.append(f"- and {suppressed_count:,} more")
    return "\n".join(lines) + "\n"


def _format_title(plans: Sequence[Plan], failed_clusters: Sequence[str]) -> str:
    words = (
        escape_prose(summary.format_summary_line(_UNWRAPPED_LAYOUT, summary.count_plans(plans)))
        if plans or not failed_clusters
        else "No plan"
    )
    if not failed_clusters:
        return words
    failed = format_count(len(failed_clusters), "cluster")
    return f"{words}\n\n**{failed} could not be planned: the log of the run says why.**"


def _format_table(plans: Sequence[Plan], failed_clusters: Sequence[str]) -> str:
    """A row for each cluster; of very many those that a reviewer needs most, and how many more there are."""
    needed = {name: (Risk.DATA_LOSS + 2, _format_failed_row(name)) for name in failed_clusters}
    needed |= {plan.cluster: (_review_priority(plan), _format_row(plan)) for plan in plans}
    chosen, left = set(), _MAX_TABLE_BYTES
    for name, (_, row) in sorted(needed.items(), key=lambda item: -item[1][0]):
        if (left := left - _byte_size(row) - 1) < 0:
            break
        chosen.add(name)
    rows = [row for name, (_, row) in sorted(needed.items()) if name in chosen]
    if hidden := len(needed) - len(chosen):
        rows.append(f"| and {hidden:,} more | {' | ' * len(_COLUMNS)}|")
    if len(plans) > 1:
        rows.append(
            f"| **all** | {_format_counts(summary.count_plans(plans))} | {_format_risk(_highest_risk(plans))} |"
        )
    head = f"| cluster | {' | '.join(_COLUMNS)} | highest risk |\n| :-- | {'--: | ' * len(_COLUMNS)}:-- |"
    return "\n".join([head, *rows]) if rows else ""


def _format_row(plan: Plan) -> str:
    found = summary.count_plan(plan)
    risk = [
        _format_risk(_highest_risk([plan])),
        f"(held back: {format_table_cell(found.withheld_reason)})" if found.withheld else "",
    ]
    return f"| {format_table_cell(_cluster_name(plan))} | {_format_counts(found)} | {' '.join(filter(None, risk))} |"


def _format_failed_row(name: str) -> str:
    shown = format_table_cell(name) if name else "the cluster"
    return f"| {shown} | {' | ' * len(_COLUMNS)}**not planned** |"


def _format_counts(plan_counts: summary.PlanCounts) -> str:
    """Return the cells of a row: what is to be done, and in parentheses what is held back."""
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
    """How much a reviewer needs to see this cluster in the table."""
    if plan.has_refusals or plan.write_block.reason is not None:
        return Risk.DATA_LOSS + 1
    return 0 if (risk := _highest_risk([plan])) is None else risk + 1


def _cluster_name(plan: Plan) -> str:
    return plan.cluster or plan.cluster_id


def _format_critical(plans: Sequence[Plan]) -> str:
    """Return the topics that may lose data or are refused, by name: in sight although sections may be folded."""
    return _format_critical_list(
        "May lose data", {_cluster_name(plan): _list_data_loss_topics(plan) for plan in plans}
    ) + _format_critical_list("Refused", {_cluster_name(plan): _list_refused_topics(plan) for plan in plans})


def _list_data_loss_topics(plan: Plan) -> tuple[str, ...]:
    return tuple(topic.topic for topic in plan.actionable_topics() if topic.risk is Risk.DATA_LOSS)


def _list_refused_topics(plan: Plan) -> tuple[str, ...]:
    """Return the topics that are refused for themselves: those of a closed cluster have the table's word for all."""
    return tuple(
        topic.topic for topic in plan.topics if any(each.reason not in CLUSTER_WIDE_REASONS for each in topic.refusals)
    )


def _format_critical_list(title: str, topics: Mapping[str, tuple[str, ...]]) -> str:
    """Return a list with a line for all clusters that have the same topics; what has no room is counted."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for cluster, names in topics.items():
        if names:
            alike.setdefault(names, []).append(cluster)
    lines, room = [], _MAX_CRITICAL_BYTES // 2
    hidden: list[tuple[int, int]] = []
    for names, clusters in alike.items():
        line = f"- on {format_code_list(clusters, _MAX_NAMES)}: {format_code_list(names, _MAX_NAMES)}"
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
    """One cluster's sections, and the text of those that have found room, by number."""

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
        """Whether something is refused or may lose data: what a reviewer must not have to look for."""
        return any(section.priority == PRIORITY_CRITICAL for section in self.sections)

    def list_omitted_sections(self, rank: int) -> Iterator[int]:
        """The numbers of sections of this rank that are not shown yet."""
        return (at for at, each in enumerate(self.sections) if each.priority == rank and at not in self.included)

    def omitted_topics(self) -> Mapping[str, int]:
        """The topics of sections that have found no room, each with its lowest rank."""
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
    """Write the sections that have room: each cluster has half of an even share for its own, the most needed first.

    The rest goes to what is needed most, of the cluster that has had least so far. Where a section has no room a
    smaller one may have; but most of a long plan are alike, so only so many are tried.
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
    """The room of a comment, given away section by section; ``spent`` is what each cluster has of it."""

    def __init__(self, clusters: Sequence[_ClusterSections], max_bytes: int) -> None:
        self._clusters = clusters
        self._remaining_bytes = max_bytes
        self._failed_attempts = [0] * len(clusters)
        self.used_bytes = [0] * len(clusters)

    def try_add(self, at: int, number: int, most: int) -> bool:
        """Show a section of a cluster if it takes at most ``most`` bytes; return whether it is shown."""
        cluster = self._clusters[at]
        written = cluster.sections[number].write()
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
        """Give away what is left, by rank, to the cluster that has had least.

        A cluster whose sections are too large for what is left comes after those that have not failed as often.
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
    """Return in words how many topics are not shown, from the rank of each."""
    grave = sum(rank == PRIORITY_CRITICAL for rank in priorities)
    words = f"{format_count(len(priorities), 'topic')} not shown"
    return f"{words}, {grave:,} of them refused or with DataLoss" if grave else words


def _omitted_line_size(cluster: _ClusterSections) -> int:
    return _byte_size(format_table_cell(_cluster_name(cluster.plan))) + _OMITTED_LINE_BYTES


def _format_omitted_clusters(clusters: Sequence[_ClusterSections]) -> str:
    """Return the clusters that have found no room at all, those with the gravest topics first, and what they hold."""
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
    """What has been left out, and where it is."""
    hidden = {
        (cluster.plan.cluster, topic): rank for cluster in clusters for topic, rank in cluster.omitted_topics().items()
    }
    cut, grave = len(hidden), sum(rank == PRIORITY_CRITICAL for rank in hidden.values())
    if not cut:
        return FULL_PLAN_HINT if clusters else ""
    words = f"**{format_count(cut, 'topic')} left out, for which a comment has no room"
    words += f"; {grave:,} of them refused or with DataLoss" if grave else ""
    return f"{words}.** {FULL_PLAN_HINT}"


def _byte_size(text: str) -> int:
    """Bytes: never less than characters, however those are counted."""
    return len(text.encode())


PRIORITY_CRITICAL, PRIORITY_HIGH, PRIORITY_BROKERS, PRIORITY_LOW, PRIORITY_INFO = range(5)
"""How much a reviewer needs a section: refusals and what may lose data, the disruptive, the brokers, the rest."""

_MAX_SECTION_NAMES = 20
_MAX_KINDS = 10


class Section(NamedTuple):
    """How much it is needed, the topics it is about, and what writes it: most sections of a long plan are not shown."""

    priority: int
    topics: Sequence[str]
    write: Callable[[], str]


def build_sections(plan: Plan, grouped: GroupedItems, root: str) -> list[Section]:
    """The sections in the order to show them in; places in files are given from the folder ``root``."""
    found = [*_build_budget_section(plan), *_build_group_sections(grouped, root)]
    for topic in plan.topics:
        if topic_block.has_own_block(topic, grouped):
            found.append(Section(_topic_priority(topic), (topic.topic,), partial(_format_topic, topic, grouped, root)))
    found.sort(key=lambda section: section.priority)
    if table := list(brokers.format_broker_table(COMMENT_LAYOUT, plan)):
        found.append(Section(PRIORITY_BROKERS, (), partial(_format_brokers, table)))
    if plan.warnings:
        found.append(
            Section(
                PRIORITY_BROKERS,
                (),
                partial(_format_bullet_section, "Warnings", list(map(escape_prose, plan.warnings))),
            )
        )
    if plan.orphans:
        words = format_count(len(plan.orphans), "owned topic")
        words += f": {_format_names(plan.orphans)}" if len(plan.orphans) <= _MAX_SECTION_NAMES else ""
        found.append(
            Section(PRIORITY_INFO, (), partial(_format_bullet_section, summary.NOT_IN_PATHS.capitalize(), [words]))
        )
    if notices := list(_format_unlisted_notices(plan, grouped)):
        found.append(Section(PRIORITY_INFO, (), partial(_format_bullet_section, "Notices", notices)))
    return found


def _build_budget_section(plan: Plan) -> Iterator[Section]:
    lines = [
        escape_prose(words)
        for message, instead in list_exceeded_budgets(plan)
        for words in (message, f"instead: {instead}")
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
    topic, finding = members[0]
    general = finding._replace(hint=finding.hint.replace(f"={topic.topic}", "=TOPIC"))
    listed = f"topics: {_format_names([member.topic for member, _ in members])}"
    name = format_count(len(members), "topic")
    if finding.reason in topic_block.CLUSTER_WIDE_REASONS:
        return _format_withheld(name, finding, [listed])
    return _format_refusal(name, topic, general, root, [listed])


def _format_default_group(default: ClusterDefault, touched: Sequence[tuple[TopicPlan, ConfigItem]], root: str) -> str:
    key, _ = default
    verdicts = Counter(item.assessment for _, item in touched).most_common()
    lines = _format_risks([(format_count(times, "topic"), verdict) for verdict, times in verdicts], topics=True)
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
    """Everything about one topic: its changes under one head, each refusal under another."""
    parts = []
    if topic_block.has_ungrouped_changes(topic, grouped):
        parts.append(_format_changed_topic(topic, grouped.defaults))
    for finding in topic_block.list_ungrouped_refusals(topic, grouped):
        name = format_code(topic.topic)
        closed = finding.reason in topic_block.CLUSTER_WIDE_REASONS
        parts.append(_format_withheld(name, finding) if closed else _format_refusal(name, topic, finding, root))
    notices = [finding for finding in topic.notices if finding.reason is not Reason.UNMANAGED]
    if notices:
        parts.append(
            _format_bullets([f"{_notice_label(finding)}: {escape_prose(finding.message)}" for finding in notices])
        )
    return "\n\n".join(parts)


def _format_changed_topic(topic: TopicPlan, shared_defaults: SharedDefaults) -> str:
    words, record = summarize_changes(topic.changes), describe_ownership_action(topic)
    if is_record_only(topic):
        words = topic_block.describe_record_only(record)
    lines = _format_risks(list_risk_assessments(topic.changes))
    if record and not is_record_only(topic):
        lines.append(f"record: {escape_prose(record)}, the topic becomes ours")
    if topic.observe_only:
        words = f"observed, not done: {words}"
    return _format_section(format_code(topic.topic), words, lines, format_diff(topic.changes, shared_defaults))


def _format_refusal(name: str, topic: TopicPlan, issue: Issue, root: str, extra_lines: Sequence[str] = ()) -> str:
    """A refusal: why, where it was asked for, what to do, and the changes that it holds back."""
    lines = [escape_prose(issue.message), *_format_field_location(topic, issue.field, root)]
    if issue.hint:
        lines.append(f"instead: {escape_prose(issue.hint)}")
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
    """What is held back for a reason that is the cluster's: why, its head or a section says once."""
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
    """The risk with its reasons, the worst first; what a reason is about is named unless it is one thing alone."""
    pairs = list(assessments)
    given = group_risks(pairs)
    if not given:
        return [f"**{Risk.SAFE.label}**"]
    alone = len(pairs) == 1 and not topics
    reasons = [(each, each.explanation if alone else f"{subjects}: {each.explanation}") for each, subjects in given]
    return [f"**{each.risk.label}**: {escape_prose(reason)}" for each, reason in reasons]


def _format_field_location(topic: TopicPlan, field: Sequence[str], root: str) -> Iterator[str]:
    where = find_origin(topic.spec, *field) if topic.spec else ValueOrigin(None, ())
    if place := where.locate():
        yield f"at {_format_location(place, root)}"


def _format_rule_location(issue: Issue, root: str) -> Iterator[str]:
    """Where the rule of a policy stands that decided it."""
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
    """Notices of topics that have no section: each kind once, faults first, then the most frequent."""
    kinds: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for topic in plan.topics:
        alone = topic_block.has_own_block(topic, grouped)
        for finding in topic.notices:
            if finding.reason is Reason.UNMANAGED or not alone:
                kinds[_notice_label(finding), finding.message].append(topic.topic)
    ordered = sorted(kinds.items(), key=lambda kind: (kind[0][0] == "note", -len(kind[1])))
    for (label, message), topics in ordered[:_MAX_KINDS]:
        yield f"{label}: {_format_names(topics)}: {escape_prose(message)}"
    if left := sum(len(topics) for _, topics in ordered[_MAX_KINDS:]):
        yield f"{left:,} more of such notes"

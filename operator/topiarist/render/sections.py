"""The plan of one cluster as Markdown, in sections that can each be left out where a comment has no room for them.

``groups`` has found what many topics share; a section is about one topic, or about one thing that they share. Names
and values pass through ``markup`` on their way here. ``markdown`` chooses the sections and puts them together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from topiarist.core.change import ConfigItem, Finding, Plan, Risk, TopicPlan, Verdict
from topiarist.core.spec import Origin, origin
from topiarist.core.units import count
from topiarist.errors import Place, Reason
from topiarist.render import blocks, brokers, summary
from topiarist.render.changes import INHERITED, Shared, action, distinct, verdicts
from topiarist.render.diff import PAGE, diff, item_lines
from topiarist.render.groups import Default, Groups, overdrafts, record_only, record_words
from topiarist.render.markup import code, code_list, fence, prose, relative

MUST, SHOULD, BROKERS, MAY, SAID = range(5)
"""How much a reviewer needs a section: refusals and what may lose data, the disruptive, the brokers, the rest."""

_NAMES = 20
_KINDS = 10


class Section(NamedTuple):
    """How much it is needed, the topics it is about, and what writes it: most sections of a long plan are not shown."""

    rank: int
    topics: Sequence[str]
    write: Callable[[], str]


def sections(plan: Plan, groups: Groups, root: str) -> list[Section]:
    """The sections in the order to show them in; places in files are given from the folder ``root``."""
    found = [*_over_budget(plan), *_shared(groups, root)]
    for topic in plan.topics:
        if blocks.stands_alone(topic, groups):
            found.append(Section(_rank(topic), (topic.topic,), partial(_topic, topic, groups, root)))
    found.sort(key=lambda section: section.rank)
    if table := list(brokers.table(PAGE, plan)):
        found.append(Section(BROKERS, (), partial(_brokers, table)))
    if plan.warnings:
        found.append(Section(BROKERS, (), partial(_remarks, "Warnings", list(map(prose, plan.warnings)))))
    if plan.orphans:
        words = count(len(plan.orphans), "owned topic")
        words += f": {_names(plan.orphans)}" if len(plan.orphans) <= _NAMES else ""
        found.append(Section(SAID, (), partial(_remarks, summary.NOT_GIVEN.capitalize(), [words])))
    if notices := list(_quiet_notices(plan, groups)):
        found.append(Section(SAID, (), partial(_remarks, "Notices", notices)))
    return found


def _over_budget(plan: Plan) -> Iterator[Section]:
    lines = [prose(words) for message, instead in overdrafts(plan) for words in (message, f"instead: {instead}")]
    if lines:
        yield Section(MUST, (), partial(_remarks, "Over budget", lines))


def _rank(topic: TopicPlan) -> int:
    return MUST if topic.refusals else MAY if topic.observed else (MAY, SHOULD, MUST)[topic.risk]


def _shared(groups: Groups, root: str) -> Iterator[Section]:
    for default, touched in groups.defaults.items():
        rank = (MAY, SHOULD, MUST)[max(item.verdict.risk for _, item in touched)]
        yield Section(rank, [topic.topic for topic, _ in touched], partial(_default, default, touched, root))
    for words, topics in groups.records.items():
        listed = [topic.topic for topic in topics]
        yield Section(MAY, listed, partial(_records, words, listed))
    for members in groups.refusals.values():
        yield Section(MUST, [topic.topic for topic, _ in members], partial(_refused_alike, members, root))


def _records(words: str, topics: Sequence[str]) -> str:
    return _section(count(len(topics), "topic"), blocks.record_action(words), [f"topics: {_names(topics)}"])


def _refused_alike(members: Sequence[tuple[TopicPlan, Finding]], root: str) -> str:
    topic, finding = members[0]
    general = finding._replace(instead=finding.instead.replace(f"={topic.topic}", "=TOPIC"))
    listed = f"topics: {_names([member.topic for member, _ in members])}"
    name = count(len(members), "topic")
    if finding.reason in blocks.CLOSED:
        return _closed(name, finding, [listed])
    return _refusal(name, topic, general, root, [listed])


def _default(default: Default, touched: Sequence[tuple[TopicPlan, ConfigItem]], root: str) -> str:
    key, _ = default
    verdicts = Counter(item.verdict for _, item in touched).most_common()
    lines = _risk([(count(times, "topic"), verdict) for verdict, times in verdicts], topics=True)
    lines.append(f"topics: {_names([topic.topic for topic, _ in touched])}")
    lines.extend(_at(touched[0][0], ("config", key), root))
    befores = Counter(item for _, item in touched).most_common(_KINDS)
    changed = [line for item, times in befores for line in item_lines(item, f"in {count(times, 'topic')}")]
    return _section(code(key), f"{INHERITED}, {count(len(touched), 'topic')}", lines, changed)


def _topic(topic: TopicPlan, groups: Groups, root: str) -> str:
    """Everything about one topic: its changes under one head, each refusal under another."""
    parts = []
    if blocks.has_changes(topic, groups):
        parts.append(_changed(topic, groups.defaults))
    for finding in blocks.own_refusals(topic, groups):
        name = code(topic.topic)
        closed = finding.reason in blocks.CLOSED
        parts.append(_closed(name, finding) if closed else _refusal(name, topic, finding, root))
    notices = [finding for finding in topic.notices if finding.reason is not Reason.UNMANAGED]
    if notices:
        parts.append(_bullets([f"{_label(finding)}: {prose(finding.message)}" for finding in notices]))
    return "\n\n".join(parts)


def _changed(topic: TopicPlan, shared: Shared) -> str:
    words, record = action(topic.changes), record_words(topic)
    if record_only(topic):
        words = blocks.record_action(record)
    lines = _risk(verdicts(topic.changes))
    if record and not record_only(topic):
        lines.append(f"record: {prose(record)}, the topic becomes ours")
    if topic.observed:
        words = f"observed, not done: {words}"
    return _section(code(topic.topic), words, lines, diff(topic.changes, shared))


def _refusal(name: str, topic: TopicPlan, finding: Finding, root: str, more: Sequence[str] = ()) -> str:
    """A refusal: why, where it was asked for, what to do, and the changes that it holds back."""
    lines = [prose(finding.message), *_at(topic, finding.field, root)]
    if finding.instead:
        lines.append(f"instead: {prose(finding.instead)}")
    lines.extend(_rule(finding, root))
    if finding.held:
        lines.append(f"held back: {prose(action(finding.held))}")
        lines.extend(_risk(pair for pair in verdicts(finding.held) if pair[1].because not in finding.message))
    return _section(name, f"refused ({finding.reason})", [*lines, *more], diff(finding.held, ()))


def _closed(name: str, finding: Finding, more: Sequence[str] = ()) -> str:
    """What is held back for a reason that is the cluster's: why, its head or a section says once."""
    lines = [*_risk(verdicts(finding.held)), *more]
    return _section(name, f"held back: {action(finding.held)}", lines, diff(finding.held, ()))


def _section(name: str, words: str, lines: Iterable[str], changed: Sequence[str] = ()) -> str:
    text = f"#### {name}: {prose(words)}\n\n{_bullets(lines)}"
    return f"{text}\n\n{fence(changed, 'diff')}" if changed else text


def _remarks(title: str, lines: Iterable[str]) -> str:
    return f"#### {title}\n\n{_bullets(lines)}"


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _risk(found: Iterable[tuple[str, Verdict]], *, topics: bool = False) -> list[str]:
    """The risk with its reasons, the worst first; what a reason is about is named unless it is one thing alone."""
    pairs = list(found)
    given = distinct(pairs)
    if not given:
        return [f"**{Risk.SAFE.word}**"]
    alone = len(pairs) == 1 and not topics
    return [
        f"**{verdict.risk.word}**: {prose(verdict.because if alone else f'{subjects}: {verdict.because}')}"
        for verdict, subjects in given
    ]


def _at(topic: TopicPlan, field: Sequence[str], root: str) -> Iterator[str]:
    where = origin(topic.spec, *field) if topic.spec else Origin(None, ())
    if place := where.place():
        yield f"at {_code_of(place, root)}"


def _rule(finding: Finding, root: str) -> Iterator[str]:
    """Where the rule of a policy stands that decided it."""
    if place := finding.rule and finding.rule.place():
        yield f"rule at {_code_of(place, root)}"


def _code_of(place: Place, root: str) -> str:
    return code(str(place._replace(file=relative(place.file, root))))


def _names(names: Sequence[str]) -> str:
    return code_list(names, _NAMES)


def _label(finding: Finding) -> str:
    return "warning" if finding.reason is Reason.STANDING_FAULT else "note"


def _brokers(table: Sequence[str]) -> str:
    return "#### Effect on the brokers\n\n" + fence(line.removeprefix("  ") for line in table)


def _quiet_notices(plan: Plan, groups: Groups) -> Iterator[str]:
    """Notices of topics that have no section: each kind once, faults first, then the most frequent."""
    kinds: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for topic in plan.topics:
        alone = blocks.stands_alone(topic, groups)
        for finding in topic.notices:
            if finding.reason is Reason.UNMANAGED or not alone:
                kinds[_label(finding), finding.message].append(topic.topic)
    ordered = sorted(kinds.items(), key=lambda kind: (kind[0][0] == "note", -len(kind[1])))
    for (label, message), topics in ordered[:_KINDS]:
        yield f"{label}: {_names(topics)}: {prose(message)}"
    if left := sum(len(topics) for _, topics in ordered[_KINDS:]):
        yield f"{left:,} more of such notes"

"""Plans and complaints as annotations: GitHub shows each at its line of the manifest, in the change that is reviewed.

A workflow command is a line of output, so nothing from outside may begin one: text is escaped as the runner undoes it.
GitHub shows only the first ten errors, warnings and notices of a step: what is alike is said once, the worst first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from topiarist.core.change import (
    AddPartitions,
    Change,
    DeleteTopic,
    Finding,
    Plan,
    Risk,
    TopicPlan,
    UpdateConfig,
    Verdict,
)
from topiarist.core.spec import origin
from topiarist.core.units import count
from topiarist.errors import Complaint, Place
from topiarist.render.blocks import CLOSED
from topiarist.render.changes import action
from topiarist.render.markup import relative
from topiarist.render.page import plain
from topiarist.render.summary import NOT_GIVEN
from topiarist.render.values import BROKERS_OWN

ERROR, WARNING, NOTICE = "error", "warning", "notice"
_NOWHERE = Place("")
_NAMES = 10


class _Note(NamedTuple):
    """One annotation but for the topics it is about; sorts the worst first, then by place."""

    order: int
    place: Place
    level: str
    cluster: str
    what: str
    message: str


def plans(found: Sequence[Plan], failed: Sequence[str], root: str) -> str:
    """An annotation for each refusal (error), risk (warning) and notice.

    ``failed`` clusters are errors without a place; places in files are given from the folder ``root``.
    """
    lines = [_line(ERROR, _NOWHERE, f"Cluster {name}", "not planned: the log of the run says why") for name in failed]
    topics: dict[_Note, list[str]] = {}
    for plan in found:
        for topic in plan.topics:
            for note in _notes(plan, topic, root):
                topics.setdefault(note, []).append(topic.topic)
    for note, names in sorted(topics.items()):
        who = names[0] if len(names) == 1 else count(len(names), "topic")
        title = f"{who}{f' on {note.cluster}' if note.cluster else ''}: {note.what}"
        more = ", ..." if len(names) > _NAMES else ""
        listed = f"\ntopics: {', '.join(names[:_NAMES])}{more}" if len(names) > 1 else ""
        lines.append(_line(note.level, note.place, title, note.message + listed))
    for plan in found:
        lines.extend(_of_cluster(plan))
    return "".join(lines)


def complaints(found: Sequence[Complaint], warnings: Sequence[Complaint], more: int, root: str) -> str:
    """An annotation for each complaint (error) and warning; ``more`` complaints were only counted."""
    lines = []
    for level, listed in ((ERROR, found), (WARNING, warnings)):
        for place, message, hint, *_ in listed:
            words = f"{message}\n{hint}" if hint else message
            lines.append(_line(level, _below(place, root), "topiarist", words))
    if more:
        lines.append(_line(ERROR, _NOWHERE, "topiarist", f"{more:,} more complaints"))
    return "".join(lines)


def _notes(plan: Plan, topic: TopicPlan, root: str) -> Iterator[_Note]:
    for finding in topic.refusals:
        place = _NOWHERE if finding.reason in CLOSED else _place(topic, finding.field, root)
        order, level = (3, NOTICE) if topic.observed else (0, ERROR)
        yield _Note(order, place, level, plan.cluster, f"refused ({finding.reason})", _refusal(topic, finding, root))
    for change in topic.changes if topic.to_do else ():
        for field, words, verdict in _risks(change):
            order = Risk.DATA_LOSS - verdict.risk + 1
            place = _place(topic, field, root)
            yield _Note(order, place, WARNING, plan.cluster, verdict.risk.word, f"{words}: {verdict.because}")
    for finding in topic.notices:
        place = _place(topic, finding.field, root)
        words = "\n".join([finding.message, *_rule(finding, root)])
        yield _Note(3, place, NOTICE, plan.cluster, finding.reason.value, words)


def _refusal(topic: TopicPlan, finding: Finding, root: str) -> str:
    """The message of a refusal, the same for topics that are refused alike."""
    lines = [finding.message]
    if finding.instead:
        lines.append(f"instead: {finding.instead.replace(f'={topic.topic}', '=TOPIC')}")
    lines.extend(_rule(finding, root))
    if finding.held and finding.reason not in CLOSED:
        lines.append(f"held back: {action(finding.held)}")
    return "\n".join(lines)


def _rule(finding: Finding, root: str) -> Iterator[str]:
    """Where the rule of a policy stands that decided it."""
    if place := finding.rule and finding.rule.place():
        yield f"rule at {place._replace(file=relative(place.file, root))}"


def _risks(change: Change) -> Iterator[tuple[tuple[str, ...], str, Verdict]]:
    """What of a change is not safe: the field that asks for it, what happens, and why that may hurt."""
    if isinstance(change, UpdateConfig):
        for item in change.items:
            before = "not set" if item.before is None else item.before
            words = f"{item.key} {before} -> {BROKERS_OWN if item.after is None else item.after}"
            yield from [(("config", item.key), words, item.verdict)] if item.verdict.risk else ()
    elif change.verdict.risk:
        fields = {AddPartitions: ("partitions",), DeleteTopic: ("ensure",)}
        yield fields.get(type(change), ()), action([change]), change.verdict


def _of_cluster(plan: Plan) -> Iterator[str]:
    title = f"Cluster {plan.cluster}".strip()
    if plan.orphans:
        words = f"{count(len(plan.orphans), 'owned topic')} {NOT_GIVEN}"
        words += f": {', '.join(plan.orphans)}" if len(plan.orphans) <= _NAMES else ""
        yield _line(NOTICE, _NOWHERE, title, words)
    for warning in plan.warnings:
        yield _line(NOTICE, _NOWHERE, title, warning)


def _place(topic: TopicPlan, field: Sequence[str], root: str) -> Place:
    """Where a field was written; config as a whole is the topic's, though the cluster may have defaults for it."""
    if topic.spec is None:
        return _NOWHERE
    place = origin(topic.spec, *(() if tuple(field) == ("config",) else field)).place() or origin(topic.spec).place()
    return _below(place, root) if place else _NOWHERE


def _below(place: Place, root: str) -> Place:
    """The place as git has it, or none where the file is not below the root: GitHub could not show it."""
    file = relative(place.file, root)
    return _NOWHERE if file.startswith(("/", "../", "<")) else place._replace(file=file)


def _line(level: str, place: Place, title: str, message: str) -> str:
    fields = {"file": place.file, "line": place.line, "col": place.column, "title": plain(title)}
    listed = ",".join(f"{name}={_property(str(value))}" for name, value in fields.items() if value)
    text = "\n".join(map(plain, message.split("\n")))
    return f"::{level} {listed}::{_data(text)}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")

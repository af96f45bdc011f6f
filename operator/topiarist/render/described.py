"""One topic of each cluster as text: where it is in its life, its partitions, its values, what is pending.

What is pending is shown by the blocks of a plan, so that it reads as there. ``partition_lines`` and ``value_lines``
have the tables. A cluster after the other, in 80 columns, without a legend.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from topiarist.core.change import Plan
from topiarist.core.description import Description
from topiarist.core.inference import Inferred
from topiarist.core.lifecycle import AT_IT, Phase
from topiarist.core.names import INTERNAL_TOPICS
from topiarist.core.partitions import Condition
from topiarist.core.sizes import unequal_widths
from topiarist.core.spec import origin
from topiarist.core.state import ClusterState
from topiarist.core.units import count
from topiarist.core.waiting import Sight, sight, waits_for
from topiarist.core.witness import changed_outside
from topiarist.errors import Reason
from topiarist.render import blocks, partition_lines, value_lines
from topiarist.render.groups import Groups, overdrafts
from topiarist.render.page import CHANGED, GONE, QUIET, STRONG, TEXT, Page, column_for, field, plain, remark, said, wrap
from topiarist.render.text import header

_TONES = {
    Phase.MARKED: GONE,
    Phase.UNREADABLE: GONE,
    Phase.DELETED_OUTSIDE: GONE,
    Phase.DELETION_DISABLED: GONE,
    Phase.NOT_TAKEN_OVER: CHANGED,
    Phase.PARTLY_TAKEN_OVER: CHANGED,
    Phase.UNKNOWN: QUIET,
}
_ALONE = Groups()
_SHOWN_FAULTS = 4
_SHOWN_NUMBERS = 12


def descriptions(found: Sequence[Description], page: Page) -> str:
    """The topic on each cluster, in the order given."""
    texts = ["\n".join(_lines(each, page)) for each in found]
    return "\n\n".join(texts) + "\n" if texts else ""


def _lines(found: Description, page: Page) -> Iterator[str]:
    yield from header(_as_plan(found), page)
    yield ""
    yield from _topic(found, page)
    for section in (
        partition_lines.table(page, found),
        value_lines.table(page, found),
        _remarks(found, page),
        _pending(found, replace(page, column=column_for([found.topic]))),
    ):
        for number, line in enumerate(section):
            if number == 0:
                yield ""
            yield line


def _as_plan(found: Description) -> Plan:
    """The cluster as the head of a plan has it."""
    state = found.state
    return Plan(
        cluster=found.cluster.name,
        cluster_id=state.cluster_id,
        brokers=state.brokers,
        gate=state.gate,
        controller=state.controller,
        controller_epoch=state.controller_epoch,
    )


def _topic(found: Description, page: Page) -> Iterator[str]:
    """The topic's name and phase, and what it is known by."""
    life, tone, name = found.life, _TONES.get(found.life.phase, STRONG), plain(found.topic)
    if len(name) + 4 <= TEXT:
        yield from remark(page, name, wrap(life.message, page.room), tone)
    else:
        yield from (f"  {page.paint(part, tone)}" for part in wrap(name, page.width - 2))
        yield from field(page, "", wrap(life.message, page.room))
    yield from said(page, "waits for", life.waits)
    yield from said(page, "topic id", found.topic_id or "")
    yield from said(page, "document", _document(found))
    yield from said(page, "record", _record(found))
    yield from said(page, "replicas", _placement(found.placement, found.state, found.topic))
    for note in _notes(found):
        yield from said(page, "note", note)
    yield from _faults(found, page)


def _document(found: Description) -> str:
    spec = found.meant.spec
    if spec is None:
        return ""
    name = f"{spec.manifest.namespace}/{spec.manifest.name}" if spec.manifest.namespace else spec.manifest.name
    place = origin(spec).place()
    words = f"Topic {name}" + (f", {place}" if place else "")
    return f"{words}; its topicName is {found.topic}" if found.meant.document else words


def _record(found: Description) -> str:
    """Our record in words: whose it is, what it says, whether it counts."""
    record, topic = found.record, found.state.topics.get(found.topic)
    if record is None:
        return "none: topiarist has neither made nor adopted the topic" if topic else ""
    whose = f"of owner {record.owner}" + ("" if record.owner == found.owner else f" (this run is {found.owner})")
    if topic and not topic.record_valid:
        return f"{whose}, stale: it belongs to an earlier topic of this name and counts as none"
    if record.absent:
        return f"{whose}: a note that the topic was deleted by topiarist"
    keys = ", ".join(record.config)
    return f"{whose}, sets {keys}" if keys else f"{whose}, sets no config"


def _placement(found: Inferred | None, state: ClusterState, name: str) -> str:
    """Return the words for a topic's placement; empty if there are no replica lists."""
    topic = state.topics.get(name)
    if found is None:
        return "lists do not follow Kafka's algorithm" if topic and any(topic.replicas) else ""
    start = f"from broker {found.first}, shift {found.shift}"
    if found.differing:
        where = (
            f"partition {found.differing[0]}" if len(found.differing) == 1 else f"partitions {_some(found.differing)}"
        )
        text = f"lists differ from Kafka's placement ({start}) in {where}"
    else:
        text = f"placed by Kafka's algorithm {start}"
    if found.grown:
        text += f", expanded at partition{'s' if len(found.grown) > 1 else ''} {_some(found.grown)}"
    if any(broker.rack for broker in state.brokers) and not found.rack_aware:
        text += ", racks ignored"
    if list(found.order) != sorted(found.order) and not found.rack_aware:
        text += f", over brokers in the order {_some(found.order)}"
    elif sorted(found.order) != [broker.id for broker in state.brokers]:
        text += f", over brokers {_some(sorted(found.order))}"
    return text


def _some(numbers: Sequence[int]) -> str:
    """Return numbers as a list: the first twelve, and how many more there are."""
    shown = ", ".join(map(str, numbers[:_SHOWN_NUMBERS]))
    left = len(numbers) - _SHOWN_NUMBERS
    return f"{shown} and {left:,} more" if left > 0 else shown


def _notes(found: Description) -> Iterator[str]:
    """What else a person should know of the topic as it stands."""
    topic, now = found.state.topics.get(found.topic), sight(found.state, found.topic)
    if found.topic in INTERNAL_TOPICS:
        yield "Kafka's own topic: nothing of it is changed"
    elif topic and found.cluster.protects(found.topic):
        yield "protected, it belongs to other software: no growth, deletion or change of cleanup"
    if topic and topic.changed_outside:
        yield changed_outside(topic.valid_record, topic.config)
    if topic and topic.unknown_fields:
        yield f"its znode has fields that Kafka does not write: {', '.join(topic.unknown_fields)}"
    if now.missing and found.life.phase is not Phase.MARKED:
        yield waits_for(Sight(None, False, now.missing))
    noticed = {notice.message for notice in found.pending.notices} if found.pending else set()
    if topic and (unequal := unequal_widths(topic)) and unequal not in noticed:
        yield f"its {unequal}"
    if found.life.waits == AT_IT and found.life.phase is not Phase.MARKED:
        yield f"if it stays so, the controller has overlooked the topic: topiarist nudge {plain(found.topic)}"
    asked = found.topic in found.state.reassigning
    if asked and not any(one.has(Condition.REASSIGNING) for one in found.partitions):
        yield "a reassignment that is asked for names it"


def _faults(found: Description, page: Page) -> Iterator[str]:
    """Znodes of the topic that are odd; of many the first."""
    whole = page.verbose or len(found.faults) <= _SHOWN_FAULTS
    shown = found.faults if whole else found.faults[: _SHOWN_FAULTS - 1]
    for fault in shown:
        yield from said(page, "odd", f"{fault.where}: {fault.why}")
    if left := len(found.faults) - len(shown):
        yield from said(page, "odd", f"{count(left, 'other znode')} (-v shows them)")


def _remarks(found: Description, page: Page) -> Iterator[str]:
    for warning in found.state.warnings:
        yield from remark(page, "warning", wrap(warning, page.room), CHANGED)


def _pending(found: Description, page: Page) -> Iterator[str]:
    """What a plan says of this topic, in its words."""
    plan = found.pending
    if found.life.phase is Phase.UNKNOWN:
        return
    if plan is None:
        yield from remark(page, "pending", wrap(_unasked(found), page.room))
        return
    if blocks.stands_alone(plan, _ALONE):
        yield from blocks.topic(page, plan, _ALONE)
        # Of a budget the blocks only say that it holds something back; a plan says the rest at its end.
        for message, instead in overdrafts(replace(_as_plan(found), topics=(plan,))):
            yield ""
            yield from remark(page, "over budget", wrap(message, page.room), GONE)
            yield from remark(page, "instead", wrap(instead, page.room))
        return
    said_too = [notice for notice in plan.notices if page.verbose or notice.reason is not Reason.UNMANAGED]
    ending = "nothing is to be done" if said_too else "nothing: it is as its manifest says"
    yield from remark(page, "pending", wrap(ending, page.room))
    for notice in said_too:
        label = "warning" if notice.reason is Reason.STANDING_FAULT else "note"
        yield from remark(page, label, wrap(notice.message, page.room))


def _unasked(found: Description) -> str:
    if not found.planned:
        return "no manifests were given"
    if found.orphaned:
        return f"not in the given paths; to give the topic up: topiarist release {plain(found.topic)}"
    return "not in the given paths"

"""How a plan ends: what there is to do, in one line that adds up, and what applying it would ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from topiarist.core.change import (
    AddPartitions,
    Adopt,
    CreateTopic,
    DeleteTopic,
    GiveUp,
    Nudge,
    Plan,
    Risk,
    TopicPlan,
    UpdateConfig,
)
from topiarist.core.units import count
from topiarist.render.blocks import CLOSED
from topiarist.render.groups import record_only, record_words
from topiarist.render.page import GONE, STRONG, Page, fit, names, plain, wrap

_WORDS = {
    CreateTopic: "to create",
    AddPartitions: "to grow",
    UpdateConfig: "to configure",
    DeleteTopic: "to delete",
    GiveUp: "to release",
    Nudge: "to nudge",
}
_PENDING = (*_WORDS.values(), "to adopt", "record only")
PLAN = "Plan"
NOT_GIVEN = "not in the given paths"
"""Said of topics with a record of this owner that the run's manifests do not name: other paths may have theirs."""

ADVICE = " apply asks, or wants --allow-risk DataLoss"
_ORDER = (*_PENDING, "refused", "observed", "unchanged", NOT_GIVEN)


class Tally(NamedTuple):
    """How many topics there are of each kind, in the order in which to say it; a topic may be of several kinds.

    ``held`` counts changes that wait for the cluster or its budgets (``CLOSED``), ``why`` says for what.
    """

    counts: Mapping[str, int]
    held: Mapping[str, int]
    why: str = ""


def tally(plan: Plan) -> Tally:
    """Count the topics of a plan."""
    found: Counter[str] = Counter()
    held: Counter[str] = Counter()
    for topic in plan.topics:
        if topic.observed:
            found["unchanged" if record_only(topic) else "observed"] += bool(topic.changes)
        else:
            found.update(_words(topic))
        found["refused"] += any(finding.reason not in CLOSED for finding in topic.refusals)
        held.update(_held_words(topic))
    found["unchanged"] += plan.unchanged
    found[NOT_GIVEN] += len(plan.orphans)
    why = (plan.gate.brief or "over budget") if held else ""
    return Tally(_ordered(found), _ordered(held), why)


def _ordered(found: Mapping[str, int]) -> Mapping[str, int]:
    return {word: found[word] for word in _ORDER if found[word]}


def _words(topic: TopicPlan) -> set[str]:
    if record_only(topic):
        return {"to adopt" if record_words(topic) else "record only"}
    return {_WORDS[type(change)] for change in topic.changes if type(change) in _WORDS}


def _held_words(topic: TopicPlan) -> set[str]:
    changes = [change for finding in topic.refusals if finding.reason in CLOSED for change in finding.held]
    if changes and all(isinstance(change, Adopt) for change in changes):
        return {"record only" if topic.before and topic.before.valid_record else "to adopt"}
    return {_WORDS[type(change)] for change in changes if type(change) in _WORDS}


def total(plans: Sequence[Plan]) -> Tally:
    """Count the topics of several plans together; a cluster that alone holds changes back is named."""
    found: Counter[str] = Counter()
    held: Counter[str] = Counter()
    whys = []
    for plan in plans:
        each = tally(plan)
        found.update(each.counts)
        held.update(each.held)
        if each.held:
            whys.append(f"{plan.cluster}: {each.why}" if plan.cluster and len(plans) > 1 else each.why)
    why = whys[0] if len(whys) == 1 else f"on {count(len(whys), 'cluster')}"
    return Tally(_ordered(found), _ordered(held), why if whys else "")


def line(page: Page, found: Tally, label: str = PLAN) -> str:
    """The summary: ``Plan: 1 to create, 812 unchanged.``, or that there are no changes; ``label`` says of what."""
    text = _sentence(found, label)
    *before, last = text.split(", ")
    lines = wrap(text, page.width) if found.held else fit([*(f"{part}," for part in before), last], page.width)
    return "\n".join(page.paint(part, STRONG) for part in lines)


def _sentence(found: Tally, label: str) -> str:
    counts = found.counts
    if found.held:
        pending = _listed({word: number for word, number in counts.items() if word in _PENDING})
        rest = _listed({word: number for word, number in counts.items() if word not in _PENDING})
        held = f"{_listed(found.held)}, held back: {plain(found.why)}"
        return f"{label}: {'; '.join(filter(None, [pending, held, rest]))}."
    nothing = "No changes:" if label == PLAN else f"{label}: no changes,"
    if any(word in _PENDING for word in counts):
        return f"{label}: {_listed(counts)}."
    if not counts:
        return f"{nothing} no topic is asked for."
    if set(counts) == {"unchanged"}:
        verb = "is as it" if counts["unchanged"] == 1 else "are as they"
        return f"{nothing} {count(counts['unchanged'], 'topic')} {verb} should be."
    return f"{nothing} {_listed(counts)}."


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {word}" for word, number in counts.items())


def losses(page: Page, plan: Plan, advice: str) -> Iterator[str]:
    """What may lose data, by name, with ``advice`` (may be empty) on what that takes; nothing where nothing may."""
    risky = [topic for topic in plan.to_do() if topic.risk is Risk.DATA_LOSS]
    if not risky:
        return
    changes = sum(change.verdict.risk is Risk.DATA_LOSS for topic in risky for change in topic.changes)
    lines = names(page, [topic.topic for topic in risky])
    for part in wrap(f"{count(changes, 'change')} may lose data:{advice}", page.width):
        yield page.paint(part, GONE)
    yield from (f"    {part}" for part in lines)

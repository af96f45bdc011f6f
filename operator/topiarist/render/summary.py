"""How a plan ends: what there is to do, in one line that adds up, and what applying it would ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from topiarist.core.change import AddPartitions, CreateTopic, DeleteTopic, GiveUp, Plan, Risk, TopicPlan, UpdateConfig
from topiarist.core.units import count
from topiarist.render.groups import record_only, record_words
from topiarist.render.page import GONE, STRONG, Page, fit, names, wrap

_WORDS = {
    CreateTopic: "to create",
    AddPartitions: "to grow",
    UpdateConfig: "to configure",
    DeleteTopic: "to delete",
    GiveUp: "to release",
}
_PENDING = (*_WORDS.values(), "to adopt", "record only")
PLAN = "Plan"
ADVICE = " apply asks, or wants --allow-risk DataLoss"
_ORDER = (*_PENDING, "refused", "observed", "unchanged", "orphaned")


def counts(plan: Plan) -> Mapping[str, int]:
    """How many topics there are of each kind, in the order in which to say it; a topic may be of several kinds."""
    found: Counter[str] = Counter()
    for topic in plan.topics:
        if topic.observed:
            found["unchanged" if record_only(topic) else "observed"] += bool(topic.changes)
        else:
            found.update(_words(topic))
        found["refused"] += bool(topic.refusals)
    found["unchanged"] += plan.unchanged
    found["orphaned"] += len(plan.orphans)
    return {word: found[word] for word in _ORDER if found[word]}


def _words(topic: TopicPlan) -> set[str]:
    if record_only(topic):
        return {"to adopt" if record_words(topic) else "record only"}
    return {_WORDS[type(change)] for change in topic.changes if type(change) in _WORDS}


def total(plans: Sequence[Plan]) -> Mapping[str, int]:
    """The counts of several plans together."""
    found: Counter[str] = Counter()
    for plan in plans:
        found.update(counts(plan))
    return {word: found[word] for word in _ORDER if found[word]}


def line(page: Page, found: Mapping[str, int], label: str = PLAN) -> str:
    """The summary: ``Plan: 1 to create, 812 unchanged.``, or that there are no changes; ``label`` says of what."""
    listed = ", ".join(f"{number:,} {word}" for word, number in found.items())
    nothing = "No changes:" if label == PLAN else f"{label}: no changes,"
    if any(word in _PENDING for word in found):
        text = f"{label}: {listed}."
    elif not found:
        text = f"{nothing} no topic is asked for."
    elif set(found) == {"unchanged"}:
        verb = "is as it" if found["unchanged"] == 1 else "are as they"
        text = f"{nothing} {count(found['unchanged'], 'topic')} {verb} should be."
    else:
        text = f"{nothing} {listed}."
    *before, last = text.split(", ")
    lines = fit([*(f"{part}," for part in before), last], page.width)
    return "\n".join(page.paint(part, STRONG) for part in lines)


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

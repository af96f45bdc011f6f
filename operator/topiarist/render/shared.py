"""The blocks for what many topics of a plan have in common, as ``groups`` found it: said once, with all their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from topiarist.core.change import ConfigItem, Finding, Risk, TopicPlan
from topiarist.core.spec import origin
from topiarist.core.units import count
from topiarist.render.blocks import CLOSED, block_head, held, place_line, record_action, refusal_head, rule_line
from topiarist.render.changes import INHERITED, because
from topiarist.render.groups import Default, Groups
from topiarist.render.page import Page, field, names, said
from topiarist.render.values import Row, config_lines

_SHOWN_BEFORES = 6


def blocks(page: Page, groups: Groups) -> Iterator[Iterator[str]]:
    """One block for each default of the cluster, each thing that happens to records, and each refusal."""
    yield from (_default(page, default, touched) for default, touched in groups.defaults.items())
    yield from (_records(page, words, topics) for words, topics in groups.records.items())
    yield from (_refused(page, members) for members in groups.refusals.values())


def _records(page: Page, words: str, topics: Sequence[TopicPlan]) -> Iterator[str]:
    yield from block_head(page, "=", count(len(topics), "topic"), record_action(words), Risk.SAFE)
    yield from field(page, "topics", names(page, [plan.topic for plan in topics]))


def _refused(page: Page, members: Sequence[tuple[TopicPlan, Finding]]) -> Iterator[str]:
    """One refusal that many topics share; what to do is said with TOPIC in place of each name."""
    plan, finding = members[0]
    yield from refusal_head(page, count(len(members), "topic"), finding)
    if finding.reason not in CLOSED:
        yield from place_line(page, plan, finding, len(members) - 1)
        yield from said(page, "instead", finding.instead.replace(f"={plan.topic}", "=TOPIC"))
        yield from rule_line(page, finding)
    yield from held(page, finding)
    yield from field(page, "topics", names(page, [member.topic for member, _ in members]))


def _default(page: Page, default: Default, touched: Sequence[tuple[TopicPlan, ConfigItem]]) -> Iterator[str]:
    """One default of the cluster, once for all the existing topics that it changes."""
    key, _ = default
    risk = max(item.verdict.risk for _, item in touched)
    yield from block_head(page, "~", key, f"{INHERITED}, {count(len(touched), 'topic')}", risk)
    befores = Counter(item for _, item in touched).most_common()
    verdicts = Counter(item.verdict for _, item in touched).most_common()
    yield from field(page, "because", because(page, [(count(times, "topic"), verdict) for verdict, times in verdicts]))
    rows = [Row(item, f"in {count(times, 'topic')}") for item, times in befores[:_SHOWN_BEFORES]]
    yield from field(page, "config", config_lines(page, rows))
    if left := len(befores) - len(rows):
        yield from field(page, "", [f"and {count(left, 'other value')}"])
    place = origin(spec, "config", key).place() if (spec := touched[0][0].spec) else None
    yield from said(page, "at", str(place) if place else "")
    yield from field(page, "topics", names(page, [plan.topic for plan, _ in touched]))

"""Plans as a comment under a pull request: a table of all clusters, then what a reviewer has to see of each.

A comment has a limit. What does not fit is left out section by section, what matters least first, and is counted; so
there is never half a topic, an unclosed fence or an open tag. No connect string, controller or error message of a
cluster is shown: a comment may be read by more people than a run's log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from topiarist.core.change import Plan, Risk
from topiarist.core.units import count
from topiarist.errors import Complaint
from topiarist.render import groups, summary, text
from topiarist.render.markup import cell, code, html_code, prose, relative
from topiarist.render.page import Page
from topiarist.render.sections import MUST, SAID, Section, sections

MARKER = "<!-- topiarist plan -->"
"""The first line: whoever looks for an earlier comment to update looks for this at its very beginning."""

LIMIT = 65_000
"""Bytes. GitHub takes 65,536 characters, GitLab more; the rest is for what a bot adds."""

WHOLE = "The whole plan is in the artifact of this run; `topiarist plan -v` prints it too."

_COLUMNS = {
    "create": ("to create",),
    "grow": ("to grow",),
    "configure": ("to configure",),
    "delete": ("to delete",),
    "record": ("to adopt", "record only"),
    "refused": ("refused",),
}
_LINE = Page(width=10_000)
_TABLE = 16_000
_FOOTER = 400
_TRIES = 50


def plans(found: Sequence[Plan], failed: Sequence[str], root: str) -> str:
    """The comment for the plans of a run; ``failed`` are the clusters that could not be planned.

    Places in files are given from the folder ``root``, as git has them.
    """
    top = f"{MARKER}\n### {_title(found, failed)}\n\n{_table(found, failed)}"
    clusters = [cluster for plan in found if (cluster := _Cluster.of(plan, root)).sections]
    _fill(clusters, LIMIT - _size(top) - _FOOTER)
    bodies = [cluster.text(opened=len(found) == 1) for cluster in clusters if cluster.shown]
    return "\n\n".join(filter(None, [top, *bodies, _footer(clusters)])) + "\n"


def complaints(found: Sequence[Complaint], more: int, root: str) -> str:
    """The comment for a run that made no plan, since its manifests are wrong."""
    lines = [f"{MARKER}\n### No plan: {count(len(found) + more, 'complaint')} about the manifests\n"]
    left = LIMIT - _size(lines[0]) - _FOOTER
    for number, (place, message, hint, *_) in enumerate(found):
        line = f"- {code(str(place._replace(file=relative(place.file, root))))}: {prose(message)}"
        line += f"\n  {prose(hint)}" if hint else ""
        if (left := left - _size(line) - 1) < 0:
            more += len(found) - number
            break
        lines.append(line)
    if more:
        lines.append(f"- and {more:,} more")
    return "\n".join(lines) + "\n"


def _title(found: Sequence[Plan], failed: Sequence[str]) -> str:
    words = summary.line(_LINE, summary.total(found)) if found or not failed else "No plan"
    if not failed:
        return words
    return f"{words}\n\n**{count(len(failed), 'cluster')} could not be planned: the log of the run says why.**"


def _table(found: Sequence[Plan], failed: Sequence[str]) -> str:
    """A row for each cluster; of very many those that a reviewer needs most, and how many more there are."""
    needed = {name: (Risk.DATA_LOSS + 2, _failed_row(name)) for name in failed}
    needed |= {plan.cluster: (_need(plan), _row(plan)) for plan in found}
    chosen, left = set(), _TABLE
    for name, (_, row) in sorted(needed.items(), key=lambda item: -item[1][0]):
        if (left := left - _size(row) - 1) < 0:
            break
        chosen.add(name)
    rows = [row for name, (_, row) in sorted(needed.items()) if name in chosen]
    if hidden := len(needed) - len(chosen):
        rows.append(f"| and {hidden:,} more | {' | ' * len(_COLUMNS)}|")
    if len(found) > 1:
        rows.append(f"| **all** | {_numbers(summary.total(found))} | {_risk(_highest(found))} |")
    head = f"| cluster | {' | '.join(_COLUMNS)} | highest risk |\n| :-- | {'--: | ' * len(_COLUMNS)}:-- |"
    return "\n".join([head, *rows]) if rows else ""


def _row(plan: Plan) -> str:
    return f"| {cell(_name(plan))} | {_numbers(summary.counts(plan))} | {_risk(_highest([plan]))} |"


def _failed_row(name: str) -> str:
    shown = cell(name) if name else "the cluster"
    return f"| {shown} | {' | ' * len(_COLUMNS)}**not planned** |"


def _numbers(counts: Mapping[str, int]) -> str:
    sums = (sum(counts.get(word, 0) for word in words) for words in _COLUMNS.values())
    return " | ".join(f"{number:,}" if number else "" for number in sums)


def _risk(risk: Risk | None) -> str:
    return "" if risk is None else risk.word if risk is Risk.SAFE else f"**{risk.word}**"


def _highest(plans: Sequence[Plan]) -> Risk | None:
    return max((topic.risk for plan in plans for topic in plan.to_do()), default=None)


def _need(plan: Plan) -> int:
    """How much a reviewer needs to see this cluster in the table."""
    if plan.refused or plan.gate.reason is not None:
        return Risk.DATA_LOSS + 1
    return 0 if (risk := _highest([plan])) is None else risk + 1


def _name(plan: Plan) -> str:
    return plan.cluster or plan.cluster_id


@dataclass(frozen=True, slots=True)
class _Cluster:
    """One cluster's sections, and the text of those that have found room, by number."""

    plan: Plan
    head: str
    sections: Sequence[Section]
    shown: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan, root: str) -> _Cluster:
        names = [html_code(name) for name in (plan.cluster, plan.cluster_id) if name]
        head = f"<summary><b>{': '.join(names)}</b>, {text.broker_words(plan)}</summary>"
        if plan.gate.reason is not None:
            head += f"\n\n**Closed** ({plan.gate.reason}): {prose(plan.gate.message)}; nothing is written."
        return cls(plan, head, sections(plan, groups.find(plan), root))

    def text(self, *, opened: bool) -> str:
        parts = [self.shown[number] for number in sorted(self.shown)]
        return "\n\n".join([f"<details{' open' if opened else ''}>\n{self.head}", *parts, "</details>"])


def _fill(clusters: Sequence[_Cluster], room: int) -> None:
    """Write the sections that have room, those that are needed most first, of whatever cluster.

    Where one has no room a smaller one may have; but most of a long plan are alike, so only so many are tried.
    """
    tries = _TRIES
    for rank in range(MUST, SAID + 1):
        for cluster in clusters:
            frame = 0 if cluster.shown else _size(cluster.text(opened=True)) + 4
            for number, section in enumerate(cluster.sections):
                if section.rank != rank or not tries:
                    continue
                written = section.write()
                cost = _size(written) + 2 + frame
                if cost <= room:
                    cluster.shown[number] = written
                    room, frame = room - cost, 0
                else:
                    tries -= 1


def _footer(clusters: Sequence[_Cluster]) -> str:
    """What has been left out, and where it is."""
    hidden = {
        (cluster.plan.cluster, topic): section.rank
        for cluster in clusters
        for number, section in reversed(list(enumerate(cluster.sections)))
        if number not in cluster.shown
        for topic in section.topics
    }
    cut, grave = len(hidden), sum(rank == MUST for rank in hidden.values())
    if not cut:
        return WHOLE if clusters else ""
    words = f"**{count(cut, 'topic')} left out, for which a comment has no room"
    words += f"; {grave:,} of them refused or with DataLoss" if grave else ""
    return f"{words}.** {WHOLE}"


def _size(text: str) -> int:
    """Bytes: never less than characters, however those are counted."""
    return len(text.encode())

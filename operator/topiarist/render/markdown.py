"""Plans as a comment under a pull request: a table of all clusters, then what a reviewer has to see of each.

A comment has a limit. What does not fit is left out section by section, what matters least first, and is counted; so
there is never half a topic, an unclosed fence or an open tag. No connect string, controller or error message of a
cluster is shown: a comment may be read by more people than a run's log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from topiarist.core.change import Plan, Risk
from topiarist.core.units import count
from topiarist.errors import Complaint
from topiarist.render import groups, summary, text
from topiarist.render.blocks import CLOSED
from topiarist.render.markup import cell, code, code_list, html_code, prose, relative
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
_GRAVE = 6_000
"""Bytes for the names of topics that are refused or may lose data, above the sections."""

_CUTS = 6_000
"""Bytes for lines on clusters whose topics have no room."""

_FOOTER = 400
_TRIES = 50
_TRIES_EACH = 5
_SHARE = 500
"""Bytes below which no section of a cluster would find room."""

_CUT = 120
"""Bytes for the words on what is cut of a cluster."""

_NAMES = 20


def plans(found: Sequence[Plan], failed: Sequence[str], root: str) -> str:
    """The comment for the plans of a run; ``failed`` are the clusters that could not be planned.

    Places in files are given from the folder ``root``, as git has them.
    """
    top = f"{MARKER}\n### {_title(found, failed)}\n\n{_table(found, failed)}"
    if len(found) > 1:
        top += _grave(found)
    clusters = [cluster for plan in found if (cluster := _Cluster.of(plan, root)).sections]
    _fill(clusters, LIMIT - _size(top) - _FOOTER - min(_CUTS, sum(map(_cut_size, clusters))))
    bodies = [cluster.text(opened=len(found) == 1 or cluster.grave) for cluster in clusters if cluster.shown]
    return "\n\n".join(filter(None, [top, *bodies, _cut_clusters(clusters), _footer(clusters)])) + "\n"


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
    words = prose(summary.line(_LINE, summary.total(found))) if found or not failed else "No plan"
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
    found = summary.tally(plan)
    risk = [_risk(_highest([plan])), f"(held back: {cell(found.why)})" if found.held else ""]
    return f"| {cell(_name(plan))} | {_numbers(found)} | {' '.join(filter(None, risk))} |"


def _failed_row(name: str) -> str:
    shown = cell(name) if name else "the cluster"
    return f"| {shown} | {' | ' * len(_COLUMNS)}**not planned** |"


def _numbers(found: summary.Tally) -> str:
    """Return the cells of a row: what is to be done, and in parentheses what is held back."""
    cells = []
    for words in _COLUMNS.values():
        number, held = (sum(counts.get(word, 0) for word in words) for counts in (found.counts, found.held))
        cells.append(" ".join([f"{number:,}"] * bool(number) + [f"({held:,})"] * bool(held)))
    return " | ".join(cells)


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


def _grave(found: Sequence[Plan]) -> str:
    """Return the topics that may lose data or are refused, by name: in sight although sections may be folded."""
    return _grave_list("May lose data", {_name(plan): _losing(plan) for plan in found}) + _grave_list(
        "Refused", {_name(plan): _refused(plan) for plan in found}
    )


def _losing(plan: Plan) -> tuple[str, ...]:
    return tuple(topic.topic for topic in plan.to_do() if topic.risk is Risk.DATA_LOSS)


def _refused(plan: Plan) -> tuple[str, ...]:
    """Return the topics that are refused for themselves: those of a closed cluster have the table's word for all."""
    return tuple(topic.topic for topic in plan.topics if any(each.reason not in CLOSED for each in topic.refusals))


def _grave_list(title: str, topics: Mapping[str, tuple[str, ...]]) -> str:
    """Return a list with a line for all clusters that have the same topics; what has no room is counted."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for cluster, names in topics.items():
        if names:
            alike.setdefault(names, []).append(cluster)
    lines, room = [], _GRAVE // 2
    hidden: list[tuple[int, int]] = []
    for names, clusters in alike.items():
        line = f"- on {code_list(clusters, _NAMES)}: {code_list(names, _NAMES)}"
        if (left := room - _size(line)) >= 0:
            lines.append(line)
            room = left
        else:
            hidden.append((len(names) * len(clusters), len(clusters)))
    if hidden:
        number, where = map(sum, zip(*hidden, strict=True))
        lines.append(f"- and {count(number, 'topic')} on {count(where, 'cluster')}")
    return "\n\n".join(["", f"**{title}**", "\n".join(lines)]) if lines else ""


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

    @property
    def grave(self) -> bool:
        """Whether something is refused or may lose data: what a reviewer must not have to look for."""
        return any(section.rank == MUST for section in self.sections)

    def waiting(self, rank: int) -> Iterator[int]:
        """The numbers of sections of this rank that are not shown yet."""
        return (at for at, each in enumerate(self.sections) if each.rank == rank and at not in self.shown)

    def hidden(self) -> Mapping[str, int]:
        """The topics of sections that have found no room, each with its lowest rank."""
        return {
            topic: section.rank
            for number, section in reversed(list(enumerate(self.sections)))
            if number not in self.shown
            for topic in section.topics
        }

    def text(self, *, opened: bool) -> str:
        parts = [self.shown[number] for number in sorted(self.shown)]
        if self.shown and (hidden := self.hidden()):
            parts.append(f"*{_cut(hidden.values())}*")
        return "\n\n".join([f"<details{' open' if opened else ''}>\n{self.head}", *parts, "</details>"])


def _fill(clusters: Sequence[_Cluster], room: int) -> None:
    """Write the sections that have room: each cluster has half of an even share for its own, the most needed first.

    The rest goes to what is needed most, of the cluster that has had least so far. Where a section has no room a
    smaller one may have; but most of a long plan are alike, so only so many are tried.
    """
    filling = _Filling(clusters, room)
    share = room // (2 * max(len(clusters), 1))
    for at, cluster in enumerate(clusters if share >= _SHARE else ()):
        tries = _TRIES_EACH
        for rank in range(MUST, SAID + 1):
            for number in cluster.waiting(rank) if tries else ():
                tries -= not filling.add(at, number, share - filling.spent[at])
                if not tries:
                    break
    filling.share_out()


class _Filling:
    """The room of a comment, given away section by section; ``spent`` is what each cluster has of it."""

    def __init__(self, clusters: Sequence[_Cluster], room: int) -> None:
        self._clusters = clusters
        self._room = room
        self._failed = [0] * len(clusters)
        self.spent = [0] * len(clusters)

    def add(self, at: int, number: int, most: int) -> bool:
        """Show a section of a cluster if it takes at most ``most`` bytes; return whether it is shown."""
        cluster = self._clusters[at]
        written = cluster.sections[number].write()
        frame = 0 if cluster.shown else _size(cluster.text(opened=True)) + _CUT
        cost = _size(written) + 2 + frame
        if cost > min(most, self._room):
            self._failed[at] += 1
            return False
        cluster.shown[number] = written
        self._room -= cost
        self.spent[at] += cost
        return True

    def share_out(self) -> None:
        """Give away what is left, by rank, to the cluster that has had least.

        A cluster whose sections are too large for what is left comes after those that have not failed as often.
        """
        tries = _TRIES + len(self._clusters)
        self._failed = [0] * len(self._clusters)
        for rank in range(MUST, SAID + 1):
            queues = [(*self._turn(at), deque(cluster.waiting(rank))) for at, cluster in enumerate(self._clusters)]
            heapify(queues)
            while queues and tries > 0:
                _, _, at, numbers = heappop(queues)
                if numbers:
                    tries -= not self.add(at, numbers.popleft(), self._room)
                    heappush(queues, (*self._turn(at), numbers))

    def _turn(self, at: int) -> tuple[int, int, int]:
        return self._failed[at], self.spent[at], at


def _cut(ranks: Collection[int]) -> str:
    """Return in words how many topics are not shown, from the rank of each."""
    grave = sum(rank == MUST for rank in ranks)
    words = f"{count(len(ranks), 'topic')} not shown"
    return f"{words}, {grave:,} of them refused or with DataLoss" if grave else words


def _cut_size(cluster: _Cluster) -> int:
    return _size(cell(_name(cluster.plan))) + _CUT


def _cut_clusters(clusters: Sequence[_Cluster]) -> str:
    """Return the clusters that have found no room at all, those with the gravest topics first, and what they hold."""
    cut = [(cluster, hidden) for cluster in clusters if not cluster.shown and (hidden := cluster.hidden())]
    cut.sort(key=lambda pair: -sum(rank == MUST for rank in pair[1].values()))
    lines, room = [], _CUTS - 2 * _CUT
    for cluster, hidden in cut:
        if (room := room - _cut_size(cluster)) < 0:
            break
        lines.append(f"- {code(_name(cluster.plan))}: {_cut(hidden.values())}")
    if rest := cut[len(lines) :]:
        ranks = {(cluster.plan.cluster, topic): rank for cluster, hidden in rest for topic, rank in hidden.items()}
        lines.append(f"- {count(len(rest), 'other cluster')}: {_cut(ranks.values())}")
    return "\n".join(["**Clusters without room in this comment**\n", *lines]) if lines else ""


def _footer(clusters: Sequence[_Cluster]) -> str:
    """What has been left out, and where it is."""
    hidden = {(cluster.plan.cluster, topic): rank for cluster in clusters for topic, rank in cluster.hidden().items()}
    cut, grave = len(hidden), sum(rank == MUST for rank in hidden.values())
    if not cut:
        return WHOLE if clusters else ""
    words = f"**{count(cut, 'topic')} left out, for which a comment has no room"
    words += f"; {grave:,} of them refused or with DataLoss" if grave else ""
    return f"{words}.** {WHOLE}"


def _size(text: str) -> int:
    """Bytes: never less than characters, however those are counted."""
    return len(text.encode())

"""Lists the topics of a cluster: a row for each, with its size, owner, manifest, configs and the state it is in.

A row is made from what ``describe`` shows of one topic, but without a plan: ten thousand rows need one bulk read and
the states of the partitions. ``cli.list`` reads and filters, ``render.listed`` and ``render.listing`` show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from topiarist.core import configs
from topiarist.core.inspection import Inspection
from topiarist.core.lifecycle import counted
from topiarist.core.names import INTERNAL_TOPICS, fits
from topiarist.core.partitions import Condition, Partition, partitions
from topiarist.core.spec import ClusterSpec, TopicSpec, has_labels
from topiarist.core.state import ClusterState, TopicState


class Mark(str, Enum):
    """A state of a topic as a whole, beside the conditions of its partitions."""

    MISSING = "Missing"
    UNREADABLE = "Unreadable"
    MARKED = "MarkedForDeletion"
    UNEQUAL = "UnequalReplicas"
    UNKNOWN = "Unknown"
    WELL = "Well"
    UNOWNED = "Unowned"
    UNDECLARED = "Undeclared"


STATES = tuple(dict.fromkeys([*(mark.value for mark in Mark), *(condition.value for condition in Condition)]))
"""The words that a state of a row may have: ``Unreadable`` is one of a topic and of a partition."""

_QUIET = frozenset({Mark.UNOWNED, Mark.UNDECLARED})
"""Marks that say nothing about how well a topic is."""


@dataclass(frozen=True, slots=True)
class Row:
    """One topic of a list.

    ``partitions`` is None where there is no topic, or none that can be read. ``widths`` has the number of partitions by
    their number of replicas, without those that a reassignment only adds. ``owner`` is that of a valid record, empty if
    there is none. ``config`` are the overrides that differ from the brokers' settings as far as these are known.
    ``marks`` and ``conditions`` (how many partitions are in each) say how well the topic is; ``known`` is whether the
    states of its partitions are.
    """

    topic: str
    spec: TopicSpec | None = None
    partitions: int | None = None
    widths: Mapping[int, int] = field(default_factory=dict)
    owner: str = ""
    config: Mapping[str, str] = field(default_factory=dict)
    marks: tuple[Mark, ...] = ()
    conditions: Mapping[Condition, int] = field(default_factory=dict)
    known: bool = False

    @property
    def states(self) -> frozenset[str]:
        """The words of all marks and conditions."""
        return frozenset({mark.value for mark in self.marks} | {condition.value for condition in self.conditions})


@dataclass(frozen=True, slots=True)
class Filter:
    """Chooses rows: by glob patterns of names, owners, labels of the manifest, and states.

    A row has to fit one of each kind that is given, and all of the labels.
    """

    patterns: tuple[str, ...] = ()
    owners: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)
    states: frozenset[str] = frozenset()

    def names(self, topic: str) -> bool:
        """Return whether the name of a topic fits, which is known before anything else is."""
        return not self.patterns or fits(topic, self.patterns)

    def chooses(self, row: Row) -> bool:
        """Return whether a row fits."""
        return (
            self.names(row.topic)
            and (not self.owners or row.owner in self.owners)
            and (not self.labels or (row.spec is not None and has_labels(row.spec.manifest.labels, self.labels)))
            and (not self.states or not self.states.isdisjoint(row.states))
        )


def rows(
    state: ClusterState,
    cluster: ClusterSpec,
    specs: Iterable[TopicSpec] | None,
    inspections: Mapping[str, Inspection],
    names: Collection[str],
) -> Iterator[Row]:
    """Yield a row for each of ``names`` that the cluster has or a manifest wants, in order of name.

    ``specs`` is None if no manifests were given: then no topic is undeclared. A topic that is not among
    ``inspections`` has partitions of unknown state.
    """
    wanted = {spec.topic: spec for spec in specs or ()}
    settings = cluster.settings(state.broker_defaults)
    for name in sorted(names):
        spec, topic = wanted.get(name), state.topics.get(name)
        undeclared = specs is not None and spec is None and not cluster.protects(name) and name not in INTERNAL_TOPICS
        if topic is None and name not in state.faults:
            if spec and not spec.absent:
                yield Row(name, spec, marks=(Mark.MISSING,))
            continue
        found = inspections.get(name)
        listed = partitions(state, name, found) if topic else ()
        row = _row(state, name, listed, settings, known=found is not None and found.known)
        yield _declared(row, spec, undeclared=undeclared)


def all_names(state: ClusterState, specs: Iterable[TopicSpec] | None) -> frozenset[str]:
    """Return the names that a list may have: topics of the cluster, readable or not, and of the manifests."""
    return frozenset((*state.topics, *state.faults, *(spec.topic for spec in specs or ())))


def _row(
    state: ClusterState, name: str, listed: tuple[Partition, ...], settings: Mapping[str, str], *, known: bool
) -> Row:
    """Return the row of a topic of the cluster, without what manifests have to do with it."""
    topic = state.topics.get(name)
    record = topic.valid_record if topic else state.records.get(name)
    owner = record.owner if record and not record.absent else ""
    found = {
        Mark.UNREADABLE: topic is None,
        Mark.MARKED: name in state.deleting,
        Mark.UNEQUAL: len(_settled(listed)) > 1,
        Mark.UNOWNED: not owner,
    }
    return Row(
        topic=name,
        partitions=len(topic.replicas) if topic else None,
        widths=Counter(one.width for one in listed if one.listed),
        owner=owner,
        config=_overrides(topic, settings) if topic else {},
        marks=tuple(mark for mark, holds in found.items() if holds),
        conditions=counted(listed),
        known=known,
    )


def _declared(row: Row, spec: TopicSpec | None, *, undeclared: bool) -> Row:
    """Return a row with its manifest, and with the mark that nothing is wrong with the topic if nothing is."""
    marks = (*row.marks, Mark.UNDECLARED) if undeclared else row.marks
    if not row.conditions and _QUIET.issuperset(marks):
        marks = (Mark.WELL if row.known else Mark.UNKNOWN, *marks)
    return replace(row, spec=spec, marks=marks)


def _settled(listed: Iterable[Partition]) -> frozenset[int]:
    """Return the numbers of replicas of partitions that are not being moved and have any."""
    return frozenset(one.width for one in listed if one.listed and one.replicas and not one.has(Condition.REASSIGNING))


def _overrides(topic: TopicState, settings: Mapping[str, str]) -> Mapping[str, str]:
    """Return the overrides of a topic that are not what the brokers would use anyway, by key."""
    found = {}
    for key, text in sorted(topic.config.items()):
        default = configs.server_default(key, settings)
        if default is None or not configs.equal(key, text, default):
            found[key] = text
    return found

"""Causes of findings: findings that one change has probably made, as one group.

A cause is a block: the same differences, of the same topics, on the same clusters. Three kinds of change make such
blocks: a value that was changed on many clusters, a manifest that was changed and not applied, and a cluster with other
racks or defaults. ``CauseIndex`` finds them in the lines of ``findings.jsonl``, in each runner and for ``--fix``:

1. A difference is a class and a field, with both values if its class is in ``_VALUE_CLASSES``.
2. The findings of a topic with one difference are a group, on some clusters. For classes about the brokers of replicas,
   all findings of a cluster are a group, with some topics.
3. Groups of several topics with one difference on the same clusters, or of one topic with several differences on the
   same clusters, are one cause. A group that could be part of both is part of the larger one.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from heapq import nsmallest
from sys import intern
from typing import Any, NamedTuple

import msgspec

from topiarist.drift.findings import (
    MANIFEST_CLASSES,
    MOVE_CLASSES,
    PLACEMENT_CLASSES,
    SEVERITY_RANK,
    DriftClass,
    Severity,
)

MAX_SHOWN_CAUSES = 1000
"""Number of causes in a summary."""

MAX_SHOWN_NAMES = 100
"""Number of topics, of clusters and of differences in a summary for one cause."""

_VALUE_CLASSES = frozenset(
    kind.value
    for kind in (DriftClass.PARTITIONS, DriftClass.REPLICATION_FACTOR, DriftClass.CONFIG, DriftClass.UNMANAGED)
)
"""Classes of values that a manifest may have; the values of others are descriptions, different for each topic."""

_BROKER_CLASSES = frozenset({*PLACEMENT_CLASSES, *(kind.value for kind in MOVE_CLASSES)})
"""Classes that depend on the brokers and racks of a cluster more than on the topic."""


class _CauseRow(msgspec.Struct, frozen=True, gc=False):
    """The fields of a finding that decide its cause."""

    cluster: str
    topic: str
    drift_class: str = msgspec.field(name="class")
    field: str
    expected: str | None
    actual: str | None
    severity: str
    effect: str
    effect_reason: str = msgspec.field(name="effectReason")
    manifest: str | None
    file: str | None


class Difference(NamedTuple):
    """A difference without its topic and cluster; values that the cause does not depend on are None."""

    drift_class: str
    field: str
    expected: str | None
    actual: str | None


class _Subject(NamedTuple):
    """The topic and manifest that the findings of a group share, or their cluster."""

    topic: str | None
    manifest: str | None
    cluster: str | None = None


GroupKey = tuple[_Subject, Difference]


class _Worst(NamedTuple):
    """The most severe finding of a group, of these the first by cluster and topic."""

    rank: int
    cluster: str
    topic: str
    effect: str
    effect_reason: str


class Group(NamedTuple):
    """Findings of one key: the most severe of them, and their clusters or, in a group of a cluster, their topics."""

    worst: _Worst
    names: list[str]


class Cause(NamedTuple):
    """Findings with one probable cause: each topic has each difference on each cluster."""

    worst: _Worst
    topics: tuple[str, ...]
    clusters: tuple[str, ...]
    differences: tuple[Difference, ...]
    manifest: str | None
    findings: int
    keys: tuple[GroupKey, ...]

    @property
    def id(self) -> str:
        """Return 12 characters that depend on the findings of the cause alone."""
        parts = self.differences, self.topics, self.clusters, self.manifest
        return sha256(json.dumps(parts).encode()).hexdigest()[:12]

    def document(self) -> dict[str, Any]:
        """Return the cause as in ``summary.json``."""
        return {
            "id": self.id,
            "severity": _SEVERITIES[self.worst.rank],
            "effect": self.worst.effect,
            "effectReason": self.worst.effect_reason,
            "findings": self.findings,
            "manifest": self.manifest,
            "topicCount": len(self.topics),
            "topics": self.topics[:MAX_SHOWN_NAMES],
            "clusterCount": len(self.clusters),
            "clusters": self.clusters[:MAX_SHOWN_NAMES],
            "differences": [
                {"class": each.drift_class, "field": each.field, "expected": each.expected, "actual": each.actual}
                for each in self.differences[:MAX_SHOWN_NAMES]
            ],
        }


_SEVERITIES = [each.value for each in Severity]

_decode = msgspec.json.Decoder(_CauseRow).decode


class CauseIndex:
    """The groups of findings, which may be added in any order."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, Group] = {}

    def groups(self) -> Iterator[tuple[GroupKey, Group]]:
        """Yield the groups, to be added to the index of another process."""
        yield from self._groups.items()

    def add_lines(self, lines: Iterable[bytes]) -> None:
        """Add findings as lines of ``findings.jsonl``."""
        for line in lines:
            self.add_group(*_make_group(_decode(line)))

    def add_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add findings as rows."""
        for row in rows:
            self.add_group(*_make_group(msgspec.convert(row, _CauseRow)))

    def add_group(self, key: GroupKey, group: Group) -> None:
        """Add a group; it is merged with that of the same key."""
        if (found := self._groups.get(key)) is None:
            self._groups[key] = group
            return
        found.names.extend(group.names)
        if group.worst < found.worst:
            self._groups[key] = Group(group.worst, found.names)

    def find(self) -> Causes:
        """Return the causes of all findings that were added."""
        blocks: list[_Block] = []
        lists: dict[tuple[str, ...], tuple[str, ...]] = {}
        for (subject, difference), group in self._groups.items():
            names = tuple(sorted(group.names))
            names = lists.setdefault(names, names)
            blocks.append(_Block(subject, difference, group.worst, names))
        topics = Counter((each.difference, each.names) for each in blocks)
        differences = Counter((each.subject, each.names) for each in blocks)
        merged: defaultdict[tuple[Any, ...], list[_Block]] = defaultdict(list)
        for each in blocks:
            if each.subject.cluster is not None:
                merged[each.subject, each.difference].append(each)
            elif topics[each.difference, each.names] > differences[each.subject, each.names]:
                merged[each.difference, each.names].append(each)
            else:
                merged[each.subject, each.names].append(each)
        return Causes(map(_make_cause, merged.values()), len(merged))


class _Block(NamedTuple):
    subject: _Subject
    difference: Difference
    worst: _Worst
    names: tuple[str, ...]


def _make_group(row: _CauseRow) -> tuple[GroupKey, Group]:
    has_values = row.drift_class in _VALUE_CLASSES
    difference = Difference(
        intern(row.drift_class),
        intern(row.field),
        intern(row.expected) if has_values and row.expected is not None else None,
        intern(row.actual) if has_values and row.actual is not None else None,
    )
    cluster, topic = intern(row.cluster), intern(row.topic)
    worst = _Worst(SEVERITY_RANK[row.severity], cluster, topic, intern(row.effect), intern(row.effect_reason))
    if row.drift_class in _BROKER_CLASSES:
        return (_Subject(None, None, cluster), difference), Group(worst, [topic])
    place = row.file if row.drift_class in MANIFEST_CLASSES else row.manifest
    return (_Subject(topic, place and intern(place)), difference), Group(worst, [cluster])


def _make_cause(blocks: Sequence[_Block]) -> Cause:
    first, names = blocks[0].subject, tuple(dict.fromkeys(blocks[0].names))
    manifests = {each.subject.manifest for each in blocks}
    return Cause(
        min(each.worst for each in blocks),
        tuple(sorted({each.subject.topic or "" for each in blocks})) if first.cluster is None else names,
        names if first.cluster is None else (first.cluster,),
        tuple(sorted({each.difference for each in blocks}, key=repr)),
        manifests.pop() if len(manifests) == 1 else None,
        sum(len(each.names) for each in blocks),
        tuple((each.subject, each.difference) for each in blocks),
    )


def _urgency(cause: Cause) -> tuple[Any, ...]:
    """Return a key that sorts the most severe causes first, of these those with the most findings."""
    return cause.worst.rank, -cause.findings, cause.topics, cause.clusters, repr((cause.differences, cause.manifest))


class Causes:
    """The causes of a report: their number, and ``shown``, the first of them, the most severe first."""

    def __init__(self, causes: Iterable[Cause] = (), total: int = 0) -> None:
        self.total = total
        self.shown = nsmallest(MAX_SHOWN_CAUSES, causes, key=_urgency)
        self._ids = {key: cause.id for cause in self.shown for key in cause.keys}

    def find_id(self, row: Mapping[str, Any]) -> str:
        """Return the id of the cause of a finding; empty if the cause is not among the shown ones."""
        return self._ids.get(_make_group(msgspec.convert(row, _CauseRow))[0], "")

    def document(self) -> dict[str, Any]:
        """Return the causes as in ``summary.json``."""
        return {"total": self.total, "first": [cause.document() for cause in self.shown]}

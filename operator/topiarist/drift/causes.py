"""Causes of findings: findings that one change has probably made, as one group.

A cause is a block: the same differences, of the same topics, on the same clusters. Three kinds of change make such
blocks: a value that was changed on many clusters, a manifest that was changed and not applied, and a cluster with other
racks or defaults. ``CauseIndex`` finds them in the lines of ``findings.jsonl``, in each runner and for ``--fix``:

Each finding may have another value: groups are made by a sort on disk, so that only causes of several topics and the
first causes stay in memory.

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
from itertools import groupby
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple

import msgspec

from topiarist.drift.cross_cluster import Row, SortedRuns
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
    """The topic and manifest that the findings of a group share, or their cluster; each as ``_mark`` encodes it."""

    cluster: str
    topic: str
    manifest: str


class _Worst(NamedTuple):
    """The most severe finding of a group: the rank of its severity, then its cluster and topic, and its effect."""

    rank: int
    cluster: str
    topic: str
    effect: str
    effect_reason: str


class _Group(NamedTuple):
    """The findings of a subject with one difference: on these clusters or, if the subject is one, of these topics."""

    subject: _Subject
    difference: Difference
    names: tuple[str, ...]
    worst: _Worst


class Cause(NamedTuple):
    """Findings with one probable cause: each topic has each difference on each cluster."""

    worst: _Worst
    topics: tuple[str, ...]
    clusters: tuple[str, ...]
    differences: tuple[Difference, ...]
    manifest: str | None
    findings: int
    keys: tuple[tuple[_Subject, Difference], ...]

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


def to_cause_row(line: bytes) -> Row:
    """Return a line of ``findings.jsonl`` as a row for ``CauseIndex.add``."""
    return _to_row(_decode(line))


def _to_row(finding: _CauseRow) -> Row:
    """Return subject, difference, name and worst of a finding as texts in the order of groups."""
    key = _make_key(finding)
    values = map(_mark, (key[1].expected, key[1].actual))
    name = finding.topic if key[0].cluster else finding.cluster
    worst = str(SEVERITY_RANK[finding.severity]), finding.cluster, finding.topic, finding.effect, finding.effect_reason
    return (*key[0], finding.drift_class, finding.field, *values, name, *worst)


def _make_key(finding: _CauseRow) -> tuple[_Subject, Difference]:
    has_values = finding.drift_class in _VALUE_CLASSES
    values = (finding.expected, finding.actual) if has_values else (None, None)
    difference = Difference(finding.drift_class, finding.field, *values)
    if finding.drift_class in _BROKER_CLASSES:
        return _Subject(_mark(finding.cluster), "", ""), difference
    place = finding.file if finding.drift_class in MANIFEST_CLASSES else finding.manifest
    return _Subject("", _mark(finding.topic), _mark(place)), difference


def _mark(text: str | None) -> str:
    """Return a text that tells an empty text from none."""
    return "" if text is None else f"={text}"


def _unmark(text: str) -> str | None:
    return text[1:] if text else None


class CauseIndex:
    """The findings of a report, sorted on disk; they may be added in any order. ``close`` removes the files.

    ``folder`` is the folder for temporary files.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._rows = SortedRuns(folder)

    def close(self) -> None:
        """Remove the temporary files."""
        self._rows.close()

    def add(self, row: Row) -> None:
        """Add a finding as a row of ``to_cause_row``."""
        self._rows.add(row)

    def add_findings(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add findings as in ``findings.jsonl``."""
        for row in rows:
            self.add(_to_row(msgspec.convert(row, _CauseRow)))

    def find(self) -> Causes:
        """Return the causes of all findings that were added."""
        topics = Counter(
            hash((group.difference, group.names))
            for subject, groups in self._groups_by_subject()
            if not subject.cluster
            for group in groups
        )
        return Causes(self._merge(topics))

    def _groups_by_subject(self) -> Iterator[tuple[_Subject, list[_Group]]]:
        for key, rows in groupby(self._rows.rows(), key=lambda row: row[:3]):
            subject = _Subject(*key)
            yield (
                subject,
                [_make_group(subject, texts, [*found]) for texts, found in groupby(rows, key=lambda row: row[3:7])],
            )

    def _merge(self, topics: Mapping[int, int]) -> Iterator[Cause]:
        """Yield the causes; ``topics`` has the number of topics by the hash of a difference and its clusters."""
        of_topics: defaultdict[tuple[Any, ...], list[_Group]] = defaultdict(list)
        for subject, groups in self._groups_by_subject():
            differences = Counter(group.names for group in groups)
            of_subject: defaultdict[tuple[Any, ...], list[_Group]] = defaultdict(list)
            for group in groups:
                if subject.cluster:
                    of_subject[group.difference].append(group)
                elif topics[hash((group.difference, group.names))] > differences[group.names]:
                    of_topics[group.difference, group.names].append(group)
                else:
                    of_subject[group.names].append(group)
            yield from map(_make_cause, of_subject.values())
        yield from map(_make_cause, of_topics.values())


def _make_group(subject: _Subject, texts: Sequence[str], rows: Sequence[Row]) -> _Group:
    drift_class, field, expected, actual = texts
    difference = Difference(drift_class, field, _unmark(expected), _unmark(actual))
    worst = min(_Worst(int(row[8]), *row[9:]) for row in rows)
    # A name is one text for all groups: causes of whole clusters would hold each of their topics again.
    return _Group(subject, difference, tuple(intern(row[7]) for row in rows), worst)


def _make_cause(groups: Sequence[_Group]) -> Cause:
    first, names = groups[0].subject, tuple(dict.fromkeys(groups[0].names))
    manifests = {group.subject.manifest for group in groups}
    cluster = _unmark(first.cluster)
    return Cause(
        min(group.worst for group in groups),
        tuple(sorted({_unmark(group.subject.topic) or "" for group in groups})) if cluster is None else names,
        names if cluster is None else (cluster,),
        tuple(sorted({group.difference for group in groups}, key=repr)),
        _unmark(manifests.pop()) if len(manifests) == 1 else None,
        sum(len(group.names) for group in groups),
        tuple((group.subject, group.difference) for group in groups),
    )


def _urgency(cause: Cause) -> tuple[Any, ...]:
    """Return a key that sorts the most severe causes first, of these those with the most findings."""
    return cause.worst.rank, -cause.findings, cause.topics, cause.clusters, repr((cause.differences, cause.manifest))


class Causes:
    """The causes of a report: their number, and ``shown``, the first of them, the most severe first."""

    def __init__(self, causes: Iterable[Cause] = ()) -> None:
        self.total = 0
        self.shown = nsmallest(MAX_SHOWN_CAUSES, self._count(causes), key=_urgency)
        self._ids = {key: cause.id for cause in self.shown for key in cause.keys}

    def _count(self, causes: Iterable[Cause]) -> Iterator[Cause]:
        for cause in causes:
            self.total += 1
            yield cause

    def find_id(self, row: Mapping[str, Any]) -> str:
        """Return the id of the cause of a finding; empty if the cause is not among the shown ones."""
        return self._ids.get(_make_key(msgspec.convert(row, _CauseRow)), "")

    def document(self) -> dict[str, Any]:
        """Return the causes as in ``summary.json``."""
        return {"total": self.total, "first": [cause.document() for cause in self.shown]}

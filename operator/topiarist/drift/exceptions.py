"""Accepted drift and invalid manifests: findings that documents in git accept, and those about documents themselves.

``DriftException`` documents say which findings are accepted, why, by whom, until when. ``drift.task`` moves the
matching rows to ``accepted.jsonl``. An exception is valid through its last day; the day of a report is that of
``asOf``, so that the same input gives the same report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from msgspec import Struct, convert

from topiarist.drift.findings import (
    NEVER_ACCEPTED,
    DriftClass,
    DriftFinding,
    FindingKey,
    FindingRow,
    FindingSelection,
    finding_key,
)
from topiarist.drift.rows import NEW, WORSE, RowCompleter, is_worse, make_row, sort_key
from topiarist.errors import Diagnostic
from topiarist.kafka.types import is_pattern
from topiarist.model.spec import Manifest
from topiarist.planning.risk import NO_FACTS, TopicFacts

if TYPE_CHECKING:
    from topiarist.adapters.manifests.loader import InvalidDocument


KIND = "DriftException"


class DriftException(Struct, frozen=True, eq=False):
    """A ``DriftException`` document; ``until`` is the last valid day, such as ``2026-01-31``."""

    name: str
    selection: FindingSelection
    reason: str
    author: str
    until: str
    file: str
    line: int
    labels: Mapping[str, str]

    def matches(self, row: FindingRow) -> bool:
        """Return whether a finding of a topic is accepted by this exception, valid or expired."""
        return bool(row["topic"]) and row["class"] not in NEVER_ACCEPTED and self.selection.matches(row)

    def is_expired(self, as_of: str) -> bool:
        """Return whether the last valid day is before the day of a report."""
        return self.until < as_of[: len(self.until)]


def is_day(text: str) -> bool:
    """Return whether the calendar has the day, in the one form ``2027-03-31``: days are compared as texts."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def parse_exceptions(manifests: Iterable[Manifest]) -> tuple[list[DriftException], list[Diagnostic]]:
    """Return the exceptions in order of file and line, and the errors of dates that no calendar has."""
    exceptions, errors = list[DriftException](), list[Diagnostic]()
    for manifest in manifests:
        if manifest.kind == KIND:
            until = manifest.spec["until"]
            if not is_day(until):
                place = manifest.source.locate(("spec", "until"))
                errors.append(Diagnostic(place, f"until: found {until}, wanted a day of the calendar"))
                continue
            exceptions.append(_parse_exception(manifest))
    return sorted(exceptions, key=lambda each: (each.file, each.line)), errors


def _parse_exception(manifest: Manifest) -> DriftException:
    spec, place = manifest.spec, manifest.source.locate()
    return DriftException(
        name=manifest.full_name,
        selection=convert(spec, FindingSelection),
        reason=" ".join(spec["reason"].split()),
        author=spec["author"],
        until=spec["until"],
        file=place.file,
        line=place.line,
        labels=manifest.labels,
    )


class AcceptedDrift:
    """The exceptions of a report, and the findings of its baseline on one cluster.

    ``matched`` are the exceptions that match a finding so far, by their position; ``known`` counts the findings that
    the baseline accepts, those that are worse, and those that it no longer accepts. ``header`` is its first line.
    ``find_facts`` returns what is known of a topic.
    """

    def __init__(
        self,
        exceptions: Sequence[DriftException],
        as_of: str,
        header: DriftException | None = None,
        baseline: Mapping[FindingKey, FindingRow] = {},
        find_facts: Callable[[str], TopicFacts] = lambda topic: NO_FACTS,
    ) -> None:
        self._by_name: dict[str, list[tuple[int, DriftException]]] = {}
        self._others: list[tuple[int, DriftException]] = []
        for numbered in enumerate(exceptions):
            topics = numbered[1].selection.topics
            if not topics or any(map(is_pattern, topics)):
                self._others.append(numbered)
            else:
                for topic in {*topics}:
                    self._by_name.setdefault(topic, []).append(numbered)
        self._as_of = as_of
        self._header = header
        self._baseline = {} if header is None else baseline
        self._find_facts = find_facts
        self.matched: set[int] = set()
        self.known: Counter[str] = Counter()

    def split_rows(self, rows: Sequence[FindingRow]) -> tuple[list[FindingRow], list[FindingRow]]:
        """Return the rows that nothing accepts, and the accepted rows with their first ``exception``.

        A finding that is worse than in the baseline is not accepted by it, and is worse than before, not new.
        """
        findings, accepted = list[FindingRow](), list[FindingRow]()
        for row in rows:
            candidates = (*self._by_name.get(row["topic"], ()), *self._others)
            matches = {number: each for number, each in candidates if each.matches(row)}
            self.matched.update(matches)
            in_order = (matches[number] for number in sorted(matches))
            valid = next((each for each in in_order if not each.is_expired(self._as_of)), None)
            line = None if valid is None else valid.line
            if valid is None and (entry := self._baseline.get(finding_key(row))):
                if self._header and self._header.is_expired(self._as_of):
                    self.known["expired"] += 1
                elif is_worse(row, entry, self._find_facts(row["topic"])):
                    self.known["worse"] += 1
                    row["status"] = WORSE if row["status"] == NEW else row["status"]
                else:
                    self.known["accepted"] += 1
                    valid, line = self._header, entry["line"]
            if valid is None:
                findings.append(row)
            else:
                fields = ("name", "file", "line", "reason", "author", "until")
                given = {name: getattr(valid, name) for name in fields}
                accepted.append({**row, "exception": given | {"line": line}})
        return findings, accepted


def describe_unmatched(exceptions: Sequence[DriftException], matched: Collection[int]) -> list[dict[str, Any]]:
    """Return the exceptions that match no finding, as in ``summary.json``; ``matched`` has positions."""
    others = (each for number, each in enumerate(exceptions) if number not in matched)
    return [{"name": each.name, "file": each.file, "line": each.line} for each in others]


def make_expired_rows(exceptions: Iterable[DriftException], as_of: str, completer: RowCompleter) -> list[FindingRow]:
    """Return a finding for each expired exception, with its patterns of topics as topic."""
    return [_make_expired_row(each, as_of, completer) for each in exceptions if each.is_expired(as_of)]


def _make_expired_row(exception: DriftException, as_of: str, completer: RowCompleter) -> FindingRow:
    finding = DriftFinding(
        DriftClass.EXPIRED,
        exception.name,
        message=f"{exception.name} expired: {exception.author} accepted this drift until {exception.until}: "
        f"{exception.reason}",
        hint="remove the drift and the exception, or set another until",
    )
    row = make_row("", ", ".join(exception.selection.topics), finding, as_of)
    row["file"], row["line"] = exception.file, exception.line
    completer.finish(row, exception.labels)
    return row


# Invalid manifests as findings: a report is complete for everything else, and says what it lacks.
#
# ``drift.report`` makes the rows, and ``drift.task`` sorts them in. Topics of invalid manifests are not judged: they
# are not reported as undeclared, and their earlier findings are not resolved.

_UNSHOWN_MESSAGE = "has errors, which are not shown because its file has too many"


def make_invalid_rows(documents: Iterable[InvalidDocument], as_of: str, completer: RowCompleter) -> list[FindingRow]:
    """Return a row for each invalid document, in order.

    The cluster is that of a Cluster document, the topic that of a Topic document; both are empty if they are unknown.
    """
    groups: dict[tuple[str, str, str], list[InvalidDocument]] = {}
    for document in documents:
        cluster = document.name if document.kind == "Cluster" else ""
        topic = next(iter(document.topics)) if document.kind == "Topic" and document.name and document.topics else ""
        groups.setdefault((cluster, topic, "" if cluster or topic else document.place.file), []).append(document)
    rows = [_make_row(*key, each, as_of, completer) for key, each in groups.items()]
    return sorted(rows, key=lambda row: (row["cluster"], *sort_key(row)))


def _make_row(
    cluster: str, topic: str, field: str, documents: Sequence[InvalidDocument], as_of: str, completer: RowCompleter
) -> FindingRow:
    errors = sorted(error for document in documents for error in document.errors)
    message = errors[0].message if len(errors) == 1 else "; ".join(map(_format_error, errors)) or _UNSHOWN_MESSAGE
    hint = "; ".join(dict.fromkeys(error.hint for error in errors if error.hint))
    row = make_row(cluster, topic, DriftFinding(DriftClass.INVALID, field, message=message, hint=hint), as_of)
    place = errors[0].location if errors else documents[0].place
    row["file"], row["line"] = place.file, place.line or None
    row["manifest"] = documents[0].name if topic else None
    completer.finish(row, documents[0].labels)
    return row


def _format_error(error: Diagnostic) -> str:
    return f"line {error.location.line}: {error.message}" if error.location.line else error.message


def find_unjudged_topics(documents: Iterable[InvalidDocument]) -> frozenset[str]:
    """Return the names in Kafka that invalid documents may declare."""
    return frozenset().union(*(document.topics for document in documents))


def drop_unjudged(rows: Sequence[FindingRow], topics: frozenset[str]) -> tuple[list[FindingRow], int]:
    """Return the rows without those that only say that no manifest declares one of ``topics``.

    Also returns the number of topics without a row for that reason.
    """
    undeclared = (DriftClass.UNEXPECTED.value, DriftClass.ORPHANED.value)
    kept = [
        row
        for row in rows
        if row["topic"] not in topics or row["class"] not in undeclared or row["manifest"] is not None
    ]
    return kept, len({row["topic"] for row in rows} - {row["topic"] for row in kept})

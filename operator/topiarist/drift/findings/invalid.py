"""Invalid manifests as findings: a report is complete for everything else, and says what it lacks.

``drift.report`` makes the rows, and ``drift.task`` sorts them in. Topics of invalid manifests are not judged: they are
not reported as undeclared, and their earlier findings are not resolved.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from topiarist.drift.findings.finding import DriftClass, DriftFinding, FindingRow
from topiarist.drift.findings.rows import RowCompleter, make_row, sort_key
from topiarist.errors import Diagnostic

if TYPE_CHECKING:  # the loader needs compiled packages, and executors import this module before they have them
    from topiarist.adapters.manifests.loader import InvalidDocument

_UNSHOWN_MESSAGE = "has errors, which are not shown because its file has too many"


def make_invalid_rows(documents: Iterable[InvalidDocument], as_of: str, completer: RowCompleter) -> list[FindingRow]:
    """Return a row for each invalid document, in order.

    The cluster is that of a Cluster document, the topic that of a Topic document; both are empty if they are unknown.
    """
    groups: dict[tuple[str, str, str], list[InvalidDocument]] = {}
    for document in documents:
        cluster = document.name if document.kind == "Cluster" else ""
        topic = next(iter(document.topics)) if document.kind == "Topic" and document.topics else ""
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
    row["command"] = shlex.join(["topiarist", "validate", place.file])
    completer.add_link(row)
    completer.add_responsible(row, documents[0].labels)
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

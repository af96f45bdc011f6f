"""Rows of findings: the lines of ``findings.jsonl``, from a finding and from what only the manifests know of it.

``make_row`` converts a finding where it is found. ``RowCompleter`` adds the place of the finding in the manifests, a
link to it, and who is responsible. ``drift.task`` calls both for each cluster, in any process.
"""

from __future__ import annotations

import re
import shlex
from bisect import bisect_left
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast
from urllib.parse import quote

from topiarist.desired.resolve import Desired
from topiarist.desired.shared_specs import ClusterTopicSpecs
from topiarist.drift.findings.finding import MOVE_CLASSES, DriftClass, DriftFinding, FindingRow
from topiarist.drift.findings.severity import find_severity
from topiarist.errors import FieldPath
from topiarist.model.spec import Source, TopicSpec, find_origin

NEW, UNCHANGED = "New", "Unchanged"

LINK_FIELDS = ("file", "line", "cluster", "topic")
"""The fields of a row that a link template may contain, each in braces."""

_LINK_FIELD = re.compile(rf"\{{({'|'.join(LINK_FIELDS)})\}}")

_MAX_CACHED_PLACES = 1 << 16
"""Number of places in manifests that are kept: to find a place, its document is parsed again."""


class RowOptions(NamedTuple):
    """Options of a run for its rows: the template of links, and the label with the responsible team (empty: none)."""

    link_template: str = ""
    owner_label: str = ""


def make_row(
    cluster: str,
    topic: str,
    finding: DriftFinding,
    taken_at: str,
    owner: str | None = None,
    modified_externally: bool = False,
) -> FindingRow:
    """Return a finding as a row with status ``NEW``; ``owner`` is that of the topic's ownership record.

    The row has no place, and the responsible is ``owner``: see ``RowCompleter``.
    """
    return {
        "cluster": cluster,
        "topic": topic,
        "class": finding.drift_class.value,
        "field": finding.field,
        "expected": finding.expected,
        "actual": finding.actual,
        "planned": finding.planned.value,
        "risk": None if finding.risk is None else finding.risk.label,
        "explanation": finding.explanation,
        "reasons": [reason.value for reason in finding.reasons],
        "message": finding.message,
        "hint": finding.hint,
        "owner": owner,
        "modifiedExternally": modified_externally,
        "takenAt": taken_at,
        "firstSeen": taken_at,
        "seenSince": taken_at,
        "episodes": 1,
        "ageSeconds": 0,
        "status": NEW,
        "manifest": None,
        "file": None,
        "line": None,
        "link": None,
        "responsible": owner,
        "severity": find_severity(finding).value,
        "command": _make_command(cluster, topic, finding.drift_class),
    }


def _make_command(cluster: str, topic: str, drift_class: DriftClass) -> str:
    """Return the command that shows a finding on the cluster."""
    words = ["describe", topic] if topic else ["moves" if drift_class in MOVE_CLASSES else "list"]
    options = ["--cluster", cluster] if cluster else []
    if topic.startswith("-"):  # a valid name in Kafka, and not an option
        words, options = ["describe"], [*options, "--", topic]
    return shlex.join(["topiarist", *words, *options])


class RowCompleter:
    """A completer that adds place, link and responsible to the rows of a cluster."""

    def __init__(self, desired: Desired, options: RowOptions) -> None:
        self._desired = desired
        self._options = options
        self._find_line = lru_cache(_MAX_CACHED_PLACES)(_find_line)

    def complete_rows(self, cluster: str, rows: Sequence[FindingRow]) -> None:
        """Add the fields to the rows of a cluster of the run."""
        if not rows:  # most clusters of a fleet: their specs need not be sorted
            return
        specs = self._desired.specs[cluster]
        shared = specs.shared_specs if isinstance(specs, ClusterTopicSpecs) else specs
        labels = self._desired.clusters[cluster].labels
        for row in rows:
            spec = _find_spec(shared, row["topic"])
            if spec:
                path = _find_path(spec, row["field"])
                row["manifest"] = spec.manifest.full_name
                row["file"], row["line"] = self._find_line(cast(Hashable, spec.manifest.source), path)
            self.add_link(row)
            self.add_responsible(row, spec.labels if spec else {}, labels)

    def add_link(self, row: FindingRow) -> None:
        """Fill the link template with the values of a row that has a place; values are percent-encoded."""
        if self._options.link_template and row["file"]:
            row["link"] = _LINK_FIELD.sub(lambda field: quote(str(row[field[1]] or "")), self._options.link_template)

    def add_responsible(self, row: FindingRow, *labels: Mapping[str, str]) -> None:
        """Set the responsible from the first labels that name one."""
        label = self._options.owner_label
        if label and (found := next((each[label] for each in labels if label in each), None)):
            row["responsible"] = found


def find_link_problem(template: str) -> str:
    """Return the part of a link template that is no field of ``LINK_FIELDS``; empty for a valid template."""
    unknown = re.search(r"\{[^{}]*\}?|\}", _LINK_FIELD.sub("", template))
    return unknown[0] if unknown else ""


def _find_spec(specs: Sequence[TopicSpec], topic: str) -> TopicSpec | None:
    """Return the spec of a topic; ``specs`` are in order of topic."""
    index = bisect_left(specs, topic, key=_topic_of)
    return specs[index] if index < len(specs) and specs[index].topic == topic else None


def _topic_of(spec: TopicSpec) -> str:
    return spec.topic


def _find_path(spec: TopicSpec, field: str) -> FieldPath:
    """Return the path of a field in its manifest; empty if the manifest as a whole decides it."""
    if not field:
        return ()
    first, _, key = field.partition(".")
    steps = (first, key) if first == "config" else field.split(".")
    path = tuple(int(step) if step.isdecimal() else step for step in steps)
    origin = find_origin(spec, *path)
    return origin.path if origin.source is spec.manifest.source and origin.path != ("spec",) else ()


def _find_line(source: Hashable, path: FieldPath) -> tuple[str, int | None]:
    place = cast(Source, source).locate(path)
    return place.file, place.line or None


def sort_key(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the key of the order of rows of one cluster."""
    return row["topic"], row["class"], row["field"]

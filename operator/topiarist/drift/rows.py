"""The rows of findings, the lines of ``findings.jsonl``: what a difference does, its severity, its place and its age.

``drift.compare`` makes the row of each finding, ``drift.task`` completes it with its place in the manifests, a link to
it, and who is responsible. A row has the fields of ``schemas/drift.json``.
"""

from __future__ import annotations

import re
import shlex
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote

from topiarist.adapters.manifests.files import STDIN
from topiarist.desired.shared_specs import ClusterTopicSpecs
from topiarist.drift.findings import (
    CRITICAL_CLASSES,
    MANIFEST_CLASSES,
    MOVE_CLASSES,
    SEVERITY_RANK,
    DriftClass,
    DriftFinding,
    FindingRow,
    Severity,
    finding_id,
)
from topiarist.drift.rules import Codeowners, SeverityRule, apply_rules
from topiarist.errors import FieldPath, Reason
from topiarist.model.spec import Source, TopicSpec, find_origin
from topiarist.planning.risk import NO_FACTS, Effect, EffectAssessment, TopicFacts, assess_effect
from topiarist.text import format_count

if TYPE_CHECKING:
    from topiarist.desired.resolve import Desired

# The effect of a finding, and its severity.
#
# A finding has two axes: what the difference does as long as it is there, and what its repair does, which is the risk
# of the planned change. Severity is the first alone: a topic that loses messages now comes before one that keeps too
# many, however harmless the one repair, and however dangerous the other.


SEVERITY_BY_EFFECT = {
    Effect.DATA_LOSS: Severity.CRITICAL,
    Effect.AVAILABILITY: Severity.HIGH,
    Effect.UNKNOWN: Severity.HIGH,
    Effect.COST: Severity.MEDIUM,
    Effect.ORDER: Severity.MEDIUM,
    Effect.NONE: Severity.LOW,
}

EFFECTS: Mapping[DriftClass, EffectAssessment] = {
    DriftClass.MISSING: EffectAssessment(Effect.AVAILABILITY, "clients find no topic"),
    DriftClass.UNEXPECTED: EffectAssessment(Effect.NONE),
    DriftClass.ORPHANED: EffectAssessment(Effect.NONE),
    DriftClass.PARTITIONS: EffectAssessment(Effect.ORDER, "messages with keys are in other partitions than declared"),
    DriftClass.ASSIGNMENT: EffectAssessment(Effect.NONE, "the replicas are on other brokers than declared"),
    DriftClass.DRAINED: EffectAssessment(Effect.COST, "a drained broker cannot be removed"),
    DriftClass.RACKS: EffectAssessment(Effect.AVAILABILITY, "if one rack fails, more replicas are lost than necessary"),
    DriftClass.WIDTHS: EffectAssessment(Effect.AVAILABILITY, "some partitions have fewer replicas than others"),
    DriftClass.SPREAD: EffectAssessment(Effect.COST, "some brokers carry more load than others"),
    DriftClass.MOVING: EffectAssessment(Effect.COST, "brokers copy replicas"),
    DriftClass.THROTTLE: EffectAssessment(
        Effect.AVAILABILITY, "replication is limited, so replicas that fall behind stay out of sync longer"
    ),
    DriftClass.STUCK: EffectAssessment(Effect.AVAILABILITY, "every other reassignment of the cluster waits for it"),
    DriftClass.FAULT: EffectAssessment(Effect.AVAILABILITY),
    DriftClass.DORMANT: EffectAssessment(Effect.COST, "the topic takes space, and nothing uses it"),
    DriftClass.OVERSIZED: EffectAssessment(Effect.COST, "its partitions or its retention.bytes do not fit its data"),
    DriftClass.REFUSED: EffectAssessment(Effect.UNKNOWN, "its differences are not compared"),
    DriftClass.UNKNOWN: EffectAssessment(Effect.UNKNOWN, "the cluster was not read"),
    DriftClass.INVALID: EffectAssessment(Effect.UNKNOWN, "the document is not compared with any cluster"),
    DriftClass.EXPIRED: EffectAssessment(Effect.UNKNOWN, "the differences that it accepted count again"),
}
"""The effect of each class that has the same effect with all values."""


def assess_finding(finding: DriftFinding, facts: TopicFacts) -> EffectAssessment:
    """Return what a difference does as long as it is there."""
    field, expected, actual = finding.field, finding.expected, finding.actual
    if finding.drift_class in (DriftClass.CONFIG, DriftClass.UNMANAGED):
        return assess_effect(field.removeprefix("config."), expected, actual, facts)
    if finding.drift_class is DriftClass.REPLICATION_FACTOR:
        return _assess_replication_factor(expected, actual)
    if finding.drift_class is DriftClass.FAULT:
        return EffectAssessment(Effect.AVAILABILITY, finding.message)
    if finding.drift_class is DriftClass.REFUSED and Reason.NOT_ADOPTED in finding.reasons:
        return EffectAssessment(Effect.NONE, finding.message)  # what differs are other findings of the topic
    return EFFECTS[finding.drift_class]


def _assess_replication_factor(expected: str | None, actual: str | None) -> EffectAssessment:
    wanted, found = (min(int(each) for each in (text or "0").split(", ")) for text in (expected, actual))
    if found < wanted:
        return EffectAssessment(
            Effect.DATA_LOSS,
            f"{format_count(found, 'replica')} instead of {wanted}: fewer failed brokers lose messages",
        )
    return EffectAssessment(Effect.COST, "more replicas than wanted take disk space")


def find_severity(drift_class: DriftClass, effect: Effect) -> Severity:
    """Return the severity of a finding, by its effect; classes in ``CRITICAL_CLASSES`` are critical."""
    return Severity.CRITICAL if drift_class in CRITICAL_CLASSES else SEVERITY_BY_EFFECT[effect]


def is_worse(row: Mapping[str, Any], earlier: Mapping[str, Any], facts: TopicFacts) -> bool:
    """Return whether a finding is worse than in an earlier report: its severity, or its value in the same direction.

    ``facts`` are those of its topic now.
    The severity is that of the effect: another rule of the platform makes no finding worse. Nothing is worse than a row
    without an effect, from the history of an earlier version.
    """
    if not earlier.get("effect"):
        return False
    drift_class = DriftClass(row["class"])
    now, before = (find_severity(drift_class, Effect(each["effect"])).value for each in (row, earlier))
    if now != before:
        return SEVERITY_RANK[now] < SEVERITY_RANK[before]
    if row["actual"] == earlier["actual"]:
        return False
    if drift_class in EFFECTS:
        return _count_harm(drift_class, row["actual"]) > _count_harm(drift_class, earlier["actual"], unknown=inf)
    moved = assess_finding(DriftFinding(drift_class, row["field"], earlier["actual"], row["actual"]), facts)
    return moved.effect is not Effect.NONE and moved.effect.value == row["effect"]


_COUNTED_CLASSES = frozenset({DriftClass.RACKS, DriftClass.DRAINED, DriftClass.STUCK})
"""Classes with values that begin with the number of partitions or replicas: more of them are worse."""


def _count_harm(drift_class: DriftClass, actual: str | None, unknown: float = -inf) -> float:
    """Return a number that is higher for a worse value of a class; ``unknown`` if the value has none."""
    found = re.match(r"\d[\d,]*", actual or "")
    if found and drift_class in _COUNTED_CLASSES:
        return int(found[0].replace(",", ""))
    # The widths of a topic, the smallest first: fewer replicas are worse.
    return -int(found[0].partition(",")[0]) if found and drift_class is DriftClass.WIDTHS else unknown


# Rows of findings: the lines of ``findings.jsonl``, from a finding and from what only the manifests know of it.
#
# ``make_row`` converts a finding where it is found. ``RowCompleter`` adds the place of the finding in the manifests, a
# link to it, and who is responsible. ``drift.task`` calls both for each cluster, in any process.

NEW, WORSE, UNCHANGED = "New", "Worse", "Unchanged"
"""Status of a finding. ``Worse``: the previous report had it with a lower severity, or with a less harmful value."""

LINK_FIELDS = ("file", "line", "cluster", "topic")
"""The fields of a row that a link template may contain, each in braces."""

_LINK_FIELD = re.compile(rf"\{{({'|'.join(LINK_FIELDS)})\}}")

_MAX_CACHED_PLACES = 1 << 16
"""Number of places in manifests that are kept: to find a place, its document is parsed again."""


STDIN_PLACEHOLDER = "MANIFESTS"
"""The path in a command for manifests of standard input, which has ended when a user runs the command."""


class RowWords(NamedTuple):
    """Paths and options of commands, with which the command of a finding runs as it is printed.

    They are those of a command about the same manifests and clusters, of one that reads only Cluster documents, of one
    that reads only documents, and the owner for a command that plans.
    """

    all: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    owner: tuple[str, ...] = ()


class RowOptions(NamedTuple):
    """Options of a run for its rows: the template of links, and the sources of the responsible team.

    These are a label (empty: none) and the owners of files (None: none).

    ``rules`` decide the severity.
    """

    link_template: str = ""
    owner_label: str = ""
    words: RowWords = RowWords()
    rules: tuple[SeverityRule, ...] = ()
    codeowners: Codeowners | None = None


def make_row(
    cluster: str,
    topic: str,
    finding: DriftFinding,
    taken_at: str,
    owner: str | None = None,
    facts: TopicFacts = NO_FACTS,
) -> FindingRow:
    """Return a finding as a row with status ``NEW``; ``owner`` is that of the topic's ownership record.

    ``facts`` are those of the topic. The row has no place, and the responsible is ``owner``: see ``RowCompleter``.
    """
    effect = assess_finding(finding, facts)
    row: FindingRow = {
        "cluster": cluster,
        "topic": topic,
        "class": finding.drift_class.value,
        "field": finding.field,
        "expected": finding.expected,
        "actual": finding.actual,
        "effect": effect.effect.value,
        "effectReason": effect.explanation,
        "planned": finding.planned.value,
        "risk": None if finding.risk is None else finding.risk.label,
        "explanation": finding.explanation,
        "reasons": [reason.value for reason in finding.reasons],
        "message": finding.message,
        "hint": finding.hint,
        "owner": owner,
        "modifiedExternally": False,
        "takenAt": taken_at,
        "firstSeen": taken_at,
        "seenSince": taken_at,
        "episodes": 1,
        "ageSeconds": 0,
        "acceptedSeconds": 0,
        "status": NEW,
        "manifest": None,
        "file": None,
        "line": None,
        "link": None,
        "responsible": owner,
        "severity": find_severity(finding.drift_class, effect.effect).value,
        "severityRule": None,
        "command": "",
    }
    return {**row, "id": finding_id(row)}


def make_command(row: FindingRow, options: RowOptions) -> str:
    """Return the command that shows a finding on the cluster, the errors of its document, or an expired exception."""
    topic, given = row["topic"], options.words.all
    if row["class"] == DriftClass.INVALID.value:
        return shlex.join(["topiarist", "validate", *options.words.documents])  # other documents may be a part of it
    if row["class"] in MANIFEST_CLASSES:
        place = ["tail", "-n", f"+{row['line']}"] if topic else ["head", "-n", "1"]  # an exception, or the baseline
        return shlex.join([*place, STDIN_PLACEHOLDER if row["file"] == STDIN else row["file"]])
    named = ["--cluster", row["cluster"]] if row["cluster"] else []
    if not topic:
        is_move = DriftClass(row["class"]) in MOVE_CLASSES
        return shlex.join(["topiarist", *(["moves", *options.words.clusters] if is_move else ["list", *given]), *named])
    given += options.words.owner
    if topic.startswith("-"):  # a valid name in Kafka, and not an option
        paths = given[: next((at for at, word in enumerate(given) if word.startswith("--")), len(given))]
        return shlex.join(["topiarist", "describe", *given[len(paths) :], *named, "--", topic, *paths])
    return shlex.join(["topiarist", "describe", topic, *given, *named])


class RowCompleter:
    """A completer that adds place, link and responsible to the rows of a cluster, and applies the rules.

    ``owner`` is responsible for declared topics that nothing else names a team for.
    """

    def __init__(self, desired: Desired, options: RowOptions, owner: str = "") -> None:
        self._desired = desired
        self._owner = owner
        self._teams_of_group: dict[int, Counter[str]] = {}
        self._options = options
        self._find_line = lru_cache(_MAX_CACHED_PLACES)(_find_line)
        owners = options.codeowners
        self._find_owners = lru_cache(_MAX_CACHED_PLACES)(owners.find_owners) if owners else None

    def complete_rows(self, cluster: str, rows: Sequence[FindingRow]) -> dict[str, str]:
        """Add the fields to the rows of a cluster of the run; return the team of each declared topic with a row."""
        teams: dict[str, str] = {}
        if not rows:  # most clusters of a fleet: their specs need not be sorted
            return teams
        specs = self._desired.specs[cluster]
        shared = specs.shared_specs if isinstance(specs, ClusterTopicSpecs) else specs
        labels = self._desired.clusters[cluster].labels
        for row in rows:
            spec = find_spec(shared, row["topic"])
            if spec:
                path = _find_path(spec, row["field"])
                row["manifest"] = spec.manifest.full_name
                row["file"], row["line"] = self._find_line(cast(Hashable, spec.manifest.source), path)
                teams[spec.topic] = self.find_responsible(spec)
            self.finish(row, spec.labels if spec else {}, labels)
        return teams

    def count_teams(self, cluster: str, is_left_out: Callable[[str], bool] | None = None) -> Counter[str]:
        """Return the number of declared topics of a cluster by team, but for those that are left out."""
        specs, teams = self._desired.specs[cluster], Counter[str]()
        if is_left_out is not None:
            teams.update(self._find_team(spec) for spec in specs if not is_left_out(spec.topic))
        elif isinstance(specs, ClusterTopicSpecs):
            for group in specs.groups:  # many clusters share a group
                if id(group) not in self._teams_of_group:
                    self._teams_of_group[id(group)] = Counter(map(self._find_team, group.specs))
                for team, number in self._teams_of_group[id(group)].items():
                    teams[team] += number
        else:
            teams.update(map(self._find_team, specs))
        if others := teams.pop("", 0):
            teams[self._find_default_team(cluster)] += others
        return teams

    def find_responsible(self, spec: TopicSpec) -> str:
        """Return the team that is responsible for a declared topic; empty if nothing names one."""
        return self._find_team(spec) or self._find_default_team(spec.cluster.name)

    def _find_team(self, spec: TopicSpec) -> str:
        """Return the team that a manifest names; empty if it names none."""
        team = spec.labels.get(self._options.owner_label, "")
        if team or not self._find_owners:
            return team
        return self._find_owners(self._find_line(cast(Hashable, spec.manifest.source), ())[0])

    def _find_default_team(self, cluster: str) -> str:
        return self._desired.clusters[cluster].labels.get(self._options.owner_label, "") or self._owner

    def finish(self, row: FindingRow, *labels: Mapping[str, str]) -> None:
        """Add link, responsible and command to a row that has its place, and let the rules decide its severity.

        The first of ``labels`` with a team counts; those of the document come before the owners of its file, and these
        before labels of the cluster. The link is the template with the row's values, percent-encoded.
        """
        row["command"] = make_command(row, self._options)
        if self._options.link_template and row["file"]:
            row["link"] = _LINK_FIELD.sub(lambda field: quote(str(row[field[1]] or "")), self._options.link_template)
        teams = [each.get(self._options.owner_label, "") for each in labels]
        if self._find_owners and row["file"]:
            teams.insert(1, self._find_owners(row["file"]))
        row["responsible"] = next(filter(None, teams), row["responsible"])
        cluster = self._desired.clusters.get(row["cluster"])
        apply_rules(row, self._options.rules, cluster.labels if cluster else {})


def find_link_problem(template: str) -> str:
    """Return the part of a link template that is no field of ``LINK_FIELDS``; empty for a valid template."""
    unknown = re.search(r"\{[^{}]*\}?|\}", _LINK_FIELD.sub("", template))
    return unknown[0] if unknown else ""


def find_spec(specs: Sequence[TopicSpec], topic: str) -> TopicSpec | None:
    """Return the spec of a topic; ``specs`` are in order of topic."""
    index = bisect_left(specs, topic, key=lambda spec: spec.topic)
    return specs[index] if index < len(specs) and specs[index].topic == topic else None


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

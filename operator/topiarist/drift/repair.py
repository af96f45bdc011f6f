"""The ways from findings to their repair: a plan for exactly these, an edit of the manifests, or their acceptance.

``cli.commands.drift`` calls this module for findings of a report, with ``--fix``. ``keep_findings`` narrows a plan;
``edit_manifests`` gives the manifests the values of the clusters; ``make_exceptions`` writes ``DriftException``
documents. Nothing here connects to a cluster or writes a file.

Baselines: one file with the findings of a day, which are accepted until another day.

``--fix baseline`` writes a baseline from a report, and a report reads it (``--baseline``). It is no kind of manifest:
the findings of a fleet would be read as YAML by every command. The first line says who accepts them, why and until
when; each other line is a finding as it was. ``drift.exceptions`` accepts the findings that are no worse.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from msgspec import Struct
from msgspec.structs import replace

from topiarist.adapters.atomic_files import read_file
from topiarist.adapters.manifests.source import Document
from topiarist.adapters.manifests.yaml_text import edit_document
from topiarist.desired.export import to_scalars
from topiarist.drift.exceptions import KIND, DriftException, is_day
from topiarist.drift.findings import (
    NEVER_ACCEPTED,
    DriftClass,
    FindingRow,
    FindingSelection,
    find_planned,
    finding_key,
    keep_selected,
)
from topiarist.drift.history import RowsByCluster, parse_part
from topiarist.drift.rows import find_spec
from topiarist.errors import FieldPath, Reason, TopiaristError
from topiarist.model.plan import MoveReplicas, Plan, TopicPlan, UpdateConfig, config_after
from topiarist.model.spec import TopicSpec, find_origin
from topiarist.planning.moves.topic import find_low_replica_count
from topiarist.schema.load import API_VERSION
from topiarist.text import printable_path

if TYPE_CHECKING:
    from topiarist.desired.resolve import Desired


class Unfixed(NamedTuple):
    """A finding that this way does not repair, and why."""

    row: FindingRow
    why: str


def keep_findings(plan: Plan, rows: Iterable[FindingRow]) -> tuple[Plan, list[Unfixed]]:
    """Return the plan of a cluster with what repairs these findings alone, and those that it does not repair."""
    selected: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    rows = [*rows]
    for row in rows:
        selected[row["topic"]].add((row["class"], row["field"]))
    topics, why = list[TopicPlan](), dict[str, str]()
    for each in plan.topics:
        if each.topic not in selected:
            continue
        topic = keep_selected(each, selected[each.topic])
        if problem := _find_problem(plan, topic):
            why[each.topic] = f"select the other findings of the topic too: {problem}"
        elif topic.changes or topic.refusals:
            topics.append(topic)
    planned = {(each.topic, *key) for each in topics for key in find_planned(each)}
    unfixed = [row for row in rows if (row["topic"], row["class"], row["field"]) not in planned]
    other = "a plan cannot change it now: it is only reported, or no longer exists"
    return replace(plan, topics=tuple(topics)), [Unfixed(row, why.get(row["topic"], other)) for row in unfixed]


def _find_problem(plan: Plan, topic: TopicPlan) -> str:
    """Return why the changes of a topic cannot be made without the other ones of the whole plan; empty if they can."""
    config = config_after(topic.before.config if topic.before else {}, topic.changes)
    rules, problems = plan.config_rules, list[str]()
    settings = rules.merge_dynamic_settings({})
    for change in topic.changes:
        if isinstance(change, UpdateConfig):
            errors = rules.find_errors(config, rules.versions_to_check(plan.min_version), settings)
            problems += (error.message for error in errors)
        elif isinstance(change, MoveReplicas) and (low := find_low_replica_count(change, config, settings)):
            problems.append(low.message)
    return "; ".join(problems)


class FileEdit(NamedTuple):
    """The text of a file before and after."""

    name: str
    before: str
    after: str


class _Target(NamedTuple):
    """A value of one manifest by its path below the spec, with the value that some clusters have in its place."""

    document: Document
    path: FieldPath
    actual: str | None

    @property
    def value(self) -> Any:
        """The actual value as a manifest has it; None if the clusters have none."""
        if self.actual is None or self.path[0] != "config":
            return None if self.actual is None else int(self.actual)
        key = str(self.path[1])
        return to_scalars({key: self.actual}, use_units=True)[key]


class _Override(NamedTuple):
    """The place of a value in a new override: its clusters, and the index of the first new one."""

    clusters: tuple[str, ...]
    first: int


def edit_manifests(
    desired: Desired, rows: Iterable[FindingRow], invalid_topics: Collection[str] = ()
) -> tuple[list[FileEdit], list[Unfixed]]:
    """Return the files in which the manifests have the values of the clusters, and the findings that need a person.

    A value that all clusters of a topic have is set where it is; one that only some have becomes an override for these.
    ``invalid_topics`` are the names in Kafka that invalid manifests may declare.
    """
    targets: defaultdict[_Target, list[tuple[FindingRow, TopicSpec]]] = defaultdict(list)
    unfixed: list[Unfixed] = []
    for row in rows:
        spec = find_spec(desired.specs.get(row["cluster"], ()), row["topic"])
        path = _path_of(row)
        if spec is None and row["topic"] in invalid_topics:
            unfixed.append(Unfixed(row, "its manifest is invalid: correct its errors first"))
        elif spec is None or path is None:
            unfixed.append(Unfixed(row, _why_no_edit(row)))
        else:
            targets[_Target(cast(Document, spec.manifest.source), path, row["actual"])].append((row, spec))
    texts: dict[str, _FileText] = {}
    for target, found in targets.items():
        text = texts.setdefault(target.document.file.name, _FileText(target.document))
        try:
            text.set(target, _place(desired, target, [spec for _, spec in found]))
        except TopiaristError as error:
            unfixed += [Unfixed(row, f"{error.message}; {error.hint}") for row, _ in found]
    return [text.finish() for _, text in sorted(texts.items()) if text.is_changed], unfixed


class _FileText:
    """The text of a file with documents that are edited one after the other."""

    def __init__(self, document: Document) -> None:
        self._name = document.file.name
        self._before = document.file.data.decode()
        self._bom = "\ufeff" if self._before.startswith("\ufeff") else ""
        self._parts: dict[tuple[int, int], str] = {}
        self._overrides: dict[tuple[int, int], list[tuple[str, ...]]] = {}

    @property
    def is_changed(self) -> bool:
        return bool(self._parts)

    def set(self, target: _Target, at: FieldPath | _Override) -> None:
        """Set a value at a path of its document, or in the one new override of some clusters.

        Raises ``TopiaristError`` if the text cannot be edited.
        """
        place = target.document.start, target.document.end
        text = self._parts.get(place) or target.document.file.part(*place)
        if isinstance(at, _Override):
            added = self._overrides.setdefault(place, [])
            if at.clusters not in added:
                new: FieldPath = ("spec", "overrides", at.first + len(added))
                text = edit_document(text, new, {"clusters": [*at.clusters], **_nest(target.path, target.value)})
                added.append(at.clusters)
                self._parts[place] = text
                return
            at = ("spec", "overrides", at.first + added.index(at.clusters), *target.path)
        self._parts[place] = edit_document(text, at, target.value)

    def finish(self) -> FileEdit:
        """Return the text of the file before and after."""
        after = self._before.removeprefix(self._bom)
        for (start, end), text in sorted(self._parts.items(), reverse=True):
            after = after[:start] + text + after[end:]
        return FileEdit(self._name, self._before, self._bom + after)


def _path_of(row: FindingRow) -> FieldPath | None:
    """Return the path of the value below a spec; None for a finding that is no value of a manifest."""
    field = row["field"]
    if row["class"] in (DriftClass.CONFIG.value, DriftClass.UNMANAGED.value):
        return "config", field.removeprefix("config.")
    sizes = (DriftClass.PARTITIONS.value, DriftClass.REPLICATION_FACTOR.value)
    return (field,) if row["class"] in sizes and (row["actual"] or "").isdigit() else None


def _why_no_edit(row: FindingRow) -> str:
    if row["class"] in (DriftClass.UNEXPECTED.value, DriftClass.ORPHANED.value):
        return "it has no manifest: topiarist export writes those of a cluster"
    return "no value in its manifest would repair it"


def _nest(path: FieldPath, value: Any) -> dict[str, Any]:
    first, *rest = path
    return {str(first): _nest(tuple(rest), value) if rest else value}


def _place(desired: Desired, target: _Target, specs: Sequence[TopicSpec]) -> FieldPath | _Override:
    """Return the place in the document at which these specs, and no others, get the actual value."""
    manifest, names = specs[0].manifest, sorted(spec.cluster.name for spec in specs)
    siblings = [
        each
        for name in desired.specs
        if (each := find_spec(desired.specs[name], specs[0].topic)) and each.manifest.source is manifest.source
    ]
    origins = {each.cluster.name: find_origin(each, *target.path) for each in siblings}
    own = {name: each.path for name, each in origins.items() if each.source is manifest.source}
    at = {name: path for name, path in own.items() if path[-len(target.path) :] == target.path}
    paths = {at.get(name) for name in names}
    if len(paths) == 1 and (path := paths.pop()) and sorted(name for name in at if at[name] == path) == names:
        return path
    if target.actual is None:
        message = "the clusters do not have it, and defaults, a profile or other clusters do"
        raise TopiaristError(Reason.WRITE_FAILED, message, "decide by hand which value these clusters get")
    if not at and sorted(origins) == names:
        return "spec", *target.path
    return _Override(tuple(names), len(manifest.spec.get("overrides", ())))


def make_exceptions(
    rows: Iterable[FindingRow], *, author: str, until: str, reason: str
) -> tuple[list[dict[str, Any]], list[Unfixed]]:
    """Return documents that accept exactly these findings until a day, and the findings that none can accept."""
    groups: defaultdict[tuple[str, str], defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    unfixed: list[Unfixed] = []
    for row in rows:
        if row["class"] in NEVER_ACCEPTED or not row["topic"]:
            unfixed.append(Unfixed(row, "it concerns a document or a whole cluster, which no exception accepts"))
        else:
            groups[row["class"], row["field"]][row["topic"]].add(row["cluster"])
    documents = []
    for (drift_class, field), clusters_of in sorted(groups.items()):
        topics_of: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
        for topic, clusters in clusters_of.items():
            topics_of[tuple(sorted(clusters))].append(topic)
        for names, topics in sorted(topics_of.items()):
            spec: dict[str, Any] = {
                **({"clusters": [*names]} if any(names) else {}),
                "topics": sorted(topics),
                "classes": [drift_class],
                **({"fields": [field]} if field else {}),
                **{"reason": reason, "author": author, "until": until},
            }
            documents.append(_exception_document(spec))
    return documents, unfixed


def _exception_document(spec: Mapping[str, Any]) -> dict[str, Any]:
    digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:10]
    name = f"accepted-{spec['classes'][0].lower()}-{digest}"
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}


def describe_row(row: Mapping[str, Any]) -> str:
    """Return a finding in one line, for messages."""
    where = f" on {row['cluster']}" if row["cluster"] else ""
    return f"{row['id']} {row['topic'] or 'the whole cluster'}{where}: {row['field'] or row['class']}"


BASELINE_KIND = "DriftBaseline"

BASELINE_NAME = "baseline"
"""The name of the baseline in rows, in place of that of an exception."""

_FIELDS = ("cluster", "topic", "class", "field", "expected", "actual", "effect")

_HINT = "set --baseline to a file that drift --fix baseline wrote"


class Baseline(Struct, frozen=True):
    """A baseline: its first line as an exception that fits no finding by itself, and its findings by cluster."""

    header: DriftException
    rows: RowsByCluster


def format_baseline(rows: Iterable[FindingRow], *, author: str, until: str, reason: str) -> tuple[str, list[Unfixed]]:
    """Return the text of a baseline, and the findings that it cannot accept.

    Its findings are in order of cluster, topic, class and field. ``until`` is the last day, such as ``2027-03-31``.
    """
    rows = sorted(rows, key=finding_key)
    why = "it concerns a document, or a cluster that was not read, which nothing accepts"
    unfixed = [Unfixed(row, why) for row in rows if row["class"] in NEVER_ACCEPTED]
    kept = ({name: row[name] for name in _FIELDS} for row in rows if row["class"] not in NEVER_ACCEPTED)
    header = {"kind": BASELINE_KIND, "formatVersion": 1, "author": author, "reason": reason, "until": until}
    return "".join(f"{json.dumps(each)}\n" for each in (header, *kept)), unfixed


def load_baseline(path: str) -> Baseline:
    """Read a baseline. Raises ``Unreadable`` with the line of what is no finding of one, or is there twice."""
    where = Path(path)
    first, *lines = read_file(path).splitlines() or [b""]
    header = parse_part(where, first, "baseline", ":1", _HINT)
    if not is_day(header["until"]):
        message = f"{printable_path(path)}:1: until: found {header['until']}, wanted a day of the calendar"
        raise TopiaristError(Reason.UNREADABLE, message)
    rows: RowsByCluster = {}
    for number, line in enumerate(lines, start=2):
        row: dict[str, Any] = parse_part(where, line, "baselineFinding", f":{number}", _HINT)
        found = rows.setdefault(row["cluster"], {})
        if (earlier := found.setdefault(finding_key(row), row | {"line": number}))["line"] != number:
            message = f"{printable_path(path)}:{number}: found the finding of line {earlier['line']} again"
            raise TopiaristError(Reason.UNREADABLE, message, "remove one of the two lines")
    given = {name: header[name] for name in ("author", "reason", "until")}
    return Baseline(DriftException(BASELINE_NAME, FindingSelection(), **given, file=path, line=1, labels={}), rows)

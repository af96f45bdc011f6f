"""The folder of a drift report, complete or not there at all, and its summary as Markdown and as metrics.

``drift.report`` adds lines and commits; ``RemoteReportFolder`` does the same for remote URIs. The target
must be an earlier report, an empty folder, or nothing. A complete report first gets the name of
``history.name_pending``. Replacing an earlier report then takes two more renames. A run that dies between them leaves
the complete report, which the next run reads as the previous one and publishes.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Any, BinaryIO, NoReturn, Self

from topiarist.adapters.saved_plans.encode import dumps
from topiarist.adapters.snapshots.codec import parse_time
from topiarist.drift.causes import Causes
from topiarist.drift.compare import LINE_FILES
from topiarist.drift.findings import DriftClass, Severity
from topiarist.drift.history import ACCEPTED_FILE, FINDINGS_FILE, SUMMARY_FILE, name_pending
from topiarist.drift.outputs import html
from topiarist.errors import Reason, TopiaristError
from topiarist.model.plan import Risk
from topiarist.output.markdown.sections import escape_prose, format_code, format_table_cell
from topiarist.output.text.layout import humanize_config_value
from topiarist.planning.risk import Effect
from topiarist.text import format_count, humanize_duration, list_first, printable_path

# The summary of a drift report as Markdown, for an issue or a chat message.
#
# ``drift.outputs.folder`` writes it as ``summary.md``. It shows the largest counts and the clusters that could not be
# compared. Text from clusters and manifests is escaped or put into code spans, so that it is not parsed as Markdown.

_MAX_CLUSTER_ROWS, _MAX_OTHER_ROWS = 20, 10
"""Number of rows in the table of clusters, and in each of the other tables."""

_MAX_VALUES, _MAX_NAMES = 4, 50
"""Number of values or names in a cell, and of names in a sentence."""


def format_summary(summary: Mapping[str, Any]) -> str:
    """Return the summary as Markdown text that ends with a newline."""
    reasons = sorted(summary["findings"]["byReason"].items(), key=lambda item: (-item[1], item[0]))
    parts = [
        _overview(summary),
        _cause_table(summary["causes"]),
        _cluster_table(summary),
        _responsible_table(summary),
        _format_table(["reason", "findings"], [[reason, f"{number:,}"] for reason, number in reasons]),
        _difference_table(summary["crossClusterDifferences"]),
        _format_table(
            ["cluster", "imbalance", "mean", "most", "least"],
            [
                [format_table_cell(one["cluster"]), one["load"], f"{one['mean']:,}"]
                + [f"{one[end]['partitions']:,} on {one[end]['broker']}" for end in ("most", "least")]
                for one in summary["unbalanced"]
            ],
        ),
        _unknown_clusters(summary),
        _incomplete_clusters(summary["incomplete"]),
        _unused_input(summary["inputs"]),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _overview(summary: Mapping[str, Any]) -> str:
    findings, clusters, topics = summary["findings"], summary["clusters"], summary["topics"]
    worse = f"{findings['worse']:,} worse, " if findings["worse"] else ""
    changes = f": {findings['new']:,} new, {worse}{findings['resolved']:,} resolved" if summary["previous"] else ""
    text = (
        f"### Drift: {format_count(findings['total'], 'finding')}{changes}\n\n"
        f"{clusters['compared']:,} of {format_count(clusters['declared'], 'cluster')} compared, "
        f"as of {format_code(summary['asOf'])}; "
        f"{topics['inSync']:,} of {format_count(topics['compared'], 'topic')} match their manifests."
    )
    if selection := summary.get("selection"):
        text += f" **Only topics selected by {format_code(selection)} were compared.**"
    if severities := ", ".join(f"{number:,} {each.lower()}" for each, number in summary["bySeverity"].items()):
        text += f" Findings by severity: {severities}."
    if oldest := summary["oldestFinding"]:
        cluster = f" on {format_code(oldest['cluster'])}" if oldest["cluster"] else ""
        subject = f" of {format_code(oldest['topic'])}" if oldest["topic"] else ""
        text += (
            f" The oldest, {oldest['class']}{subject}{cluster}, was first seen at {format_code(oldest['firstSeen'])}."
        )
    if (repairs := summary["timeToRepair"]) and repairs["resolved"]:
        text += (
            f" Half of the {format_count(repairs['resolved'], 'finding')} that were resolved in the last "
            f"{repairs['days']} days stayed for {humanize_duration(repairs['medianSeconds'] * 1000)} or less."
        )
    if accepted := summary["accepted"]["total"]:
        text += f" {format_count(accepted, 'difference')} accepted by exceptions or the baseline."
    if unmatched := summary["exceptions"]["unmatched"]:
        text += f" {format_count(len(unmatched), 'exception')} without any difference."
    if invalid := findings["byClass"].get(DriftClass.INVALID.value):
        text += f" {format_count(invalid, 'invalid manifest')} could not be compared."
    if findings["notEvaluated"]:
        text += f" {format_count(findings['notEvaluated'], 'earlier finding')} could not be evaluated again."
    return text


def _cause_table(causes: Mapping[str, Any]) -> str:
    """Return the first causes with their topics: what is there, what is wanted, and what that does."""
    rows = [
        [
            one["severity"],
            _format_names(one["topics"], one["topicCount"], "the whole cluster"),
            _format_names(one["clusters"], one["clusterCount"], ""),
            list_first([*map(_format_difference, one["differences"])], _MAX_VALUES, separator="; "),
            escape_prose(one["effectReason"]),
            f"{one['findings']:,}",
        ]
        for one in causes["first"]
    ]
    heads = ["severity", "topics", "clusters", "differences", "effect", "findings"]
    table = _format_table(heads, rows, total=causes["total"], align=":--")
    return "\n\n".join(filter(None, [table and f"The first to look at:\n\n{table}", _other_critical_topics(causes)]))


def _other_critical_topics(causes: Mapping[str, Any]) -> str:
    """Return the topics with critical findings that the table of causes does not have."""
    shown = {topic for one in causes["first"][:_MAX_OTHER_ROWS] for topic in one["topics"][:_MAX_VALUES]}
    critical = [one for one in causes["first"] if one["severity"] == Severity.CRITICAL.value]
    topics = sorted({topic for one in critical for topic in one["topics"] if topic} - shown)
    names = _format_names(topics, len(topics), "", _MAX_NAMES)
    return f"Other topics with critical findings: {names}." if topics else ""


def _format_names(names: Sequence[str], total: int, nameless: str, most: int = _MAX_VALUES) -> str:
    shown = [format_table_cell(name) if name else nameless for name in names[:most]]
    return list_first(shown, most, total=total)


def _format_difference(one: Mapping[str, Any]) -> str:
    field = format_table_cell(one["field"]) if one["field"] else ""
    if one["expected"] is None and one["actual"] is None:
        return f"{one['class']} {field}".rstrip()
    key = one["field"].removeprefix("config.")
    actual, expected = (_describe_value(key, one[name]) for name in ("actual", "expected"))
    return f"{field} {actual}" + ("" if one["class"] == DriftClass.UNMANAGED.value else f", wanted {expected}")


def _describe_value(key: str, value: str | None) -> str:
    if value is None:
        return "not set"
    words = humanize_config_value(key, value)
    return format_table_cell(value) + (f" ({words})" if words else "")


def _cluster_table(summary: Mapping[str, Any]) -> str:
    kinds = [kind.value for kind in DriftClass if summary["findings"]["byClass"].get(kind.value)]
    drifted = [one for one in summary["byCluster"] if one["findings"]]
    rows = [
        [format_table_cell(one["cluster"])]
        + [f"{one['byClass'][kind]:,}" if kind in one["byClass"] else "" for kind in kinds]
        for one in sorted(drifted, key=lambda one: (-one["findings"], one["cluster"]))
    ]
    return _format_table(["cluster", *kinds], rows, _MAX_CLUSTER_ROWS)


def _responsible_table(summary: Mapping[str, Any]) -> str:
    """Return the findings by team or owner, with a column for each severity, the most severe first."""
    severities = [*summary["bySeverity"]]
    rows = [
        [format_table_cell(one["responsible"] or "none"), f"{one['findings']:,}", f"{one['new']:,}"]
        + [f"{one['bySeverity'][each]:,}" if each in one["bySeverity"] else "" for each in severities]
        for one in summary["byResponsible"]
    ]
    return _format_table(["responsible", "findings", "new", *severities], rows)


def _difference_table(differences: Mapping[str, Any]) -> str:
    if not (total := differences["total"]):
        return ""
    rows = [
        [format_table_cell(one["topic"]), format_table_cell(one["field"]), _format_values(one["field"], one["values"])]
        for one in differences["topics"]
    ]
    table = _format_table(["topic", "field", "values"], rows, total=total)
    return f"{format_count(total, 'cross-cluster difference')}:\n\n{table}"


def _format_values(field: str, values: Sequence[Mapping[str, Any]]) -> str:
    key = field.removeprefix("config.")
    parts = [f"{_describe_value(key, one['value'])} on {format_count(one['number'], 'cluster')}" for one in values]
    return list_first(parts, _MAX_VALUES)


def _unknown_clusters(summary: Mapping[str, Any]) -> str:
    unknown = [one for one in summary["byCluster"] if one["problem"] is not None]
    lines = [f"- {format_code(one['cluster'])}: {escape_prose(one['problem'])}" for one in unknown]
    return _list_clusters("could not be compared", lines)


def _incomplete_clusters(incomplete: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        f"- {format_code(one['cluster'])}: {format_count(one['notJudged'], 'topic')} not judged, "
        f"{format_count(one['rows'], 'invalid row')} in {format_code(one['file'])}: {escape_prose(one['message'])}"
        for one in incomplete
    ]
    return _list_clusters("could be compared only in part", lines)


def _list_clusters(what: str, lines: Sequence[str]) -> str:
    """Return the first lines below their number and what they are about; empty without lines."""
    left = len(lines) - _MAX_OTHER_ROWS
    more = [f"- and {left:,} more"] if left > 0 else []
    title = f"**{format_count(len(lines), 'cluster')} {what}:**\n"
    return "\n".join([title, *lines[:_MAX_OTHER_ROWS], *more]) if lines else ""


def _unused_input(inputs: Mapping[str, Any]) -> str:
    parts = [
        (inputs["broken"], "invalid row", "(see broken.jsonl)"),
        (len(inputs["superseded"]), "snapshot", "replaced by a newer one"),
        (len(inputs["unknownClusters"]), "snapshot", "of clusters that are not part of this run"),
    ]
    words = [f"{format_count(number, noun)} {what}" for number, noun, what in parts if number]
    return f"Input that was not used: {'; '.join(words)}." if words else ""


def _format_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    max_rows: int = _MAX_OTHER_ROWS,
    total: int | None = None,
    *,
    align: str = "--:",
) -> str:
    """Return a table of the first rows, with the number of the others; empty without rows.

    ``align`` is the alignment of all columns but the first.
    """
    if not rows:
        return ""
    hidden = (len(rows) if total is None else total) - min(len(rows), max_rows)
    lines = [head, [":--", *[align] * (len(head) - 1)], *rows[:max_rows]]
    if hidden:
        lines.append([f"and {hidden:,} more", *[""] * (len(head) - 1)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# The summary of a drift report in Prometheus text format, for a Pushgateway or the textfile collector.
#
# ``drift.outputs.folder`` writes it as ``metrics.prom``. A value without findings is exported as 0, so that an alert
# resolves. No label has the name of a topic, and the number of series is limited: ``MAX_CLUSTERS`` and
# ``MAX_RESPONSIBLE`` label values, and one more, ``OTHER``, with the sum of the rest.

PREFIX = "topiarist_drift"

MAX_CLUSTERS = 1000
"""Clusters with a label value of their own: those with the most findings."""

MAX_RESPONSIBLE = 100
"""Responsible teams with a label value of their own: those with the most findings."""

OTHER = "(other)"
"""The label value of all clusters or teams beyond the limit; a Kubernetes name or label has no parentheses."""

NO_TEAM = "(none)"
"""The label value of findings without a responsible team."""

Sample = tuple[Mapping[str, str], int]


def format_metrics(summary: Mapping[str, Any]) -> str:
    """Return all metric families, each with help and type."""
    topics, clusters, findings = summary["topics"], summary["clusters"], summary["findings"]
    invalid = findings["byClass"].get(DriftClass.INVALID.value, 0)
    families: list[tuple[str, str, Iterable[Sample]]] = [
        ("findings", "Findings by cluster and class.", _by_cluster(summary["byCluster"])),
        ("findings_by_effect", "Findings by what they do now.", _by_effect(findings["byEffect"])),
        ("findings_by_risk", "Findings by risk of the planned change.", _by_risk(findings["byRisk"])),
        ("new_findings", "Findings that are new or worse.", _one(findings["new"] + findings["worse"])),
        ("worse_findings", "Findings that are worse than in the previous report.", _one(findings["worse"])),
        ("resolved_findings", "Findings of the previous report that no longer exist.", _one(findings["resolved"])),
        ("topics_compared", "Declared topics that were compared.", _one(topics["compared"])),
        ("clusters_compared", "Clusters that were compared.", _one(clusters["compared"])),
        ("clusters_unknown", "Clusters that could not be compared.", _one(clusters["unknown"])),
        ("broken_rows", "Invalid rows and files of the input.", _one(summary["inputs"]["broken"])),
        ("invalid_manifests", "Manifests that could not be used.", _one(invalid)),
        ("report_timestamp_seconds", "Time of the report: its newest input.", _one(_seconds(summary["asOf"]))),
        *_families_of_rows(summary),
    ]
    if summary["oldest"]:
        words = "Time of the oldest snapshot that was compared."
        families.append(("oldest_snapshot_timestamp_seconds", words, _one(_seconds(summary["oldest"]))))
    if repairs := summary["timeToRepair"]:
        words = "Median seconds to repair the findings that were resolved in the last days, by class."
        medians = [({"class": name}, one["medianSeconds"]) for name, one in repairs["byClass"].items()]
        families.append(("time_to_repair_seconds", words, medians))
    return "".join(line for family in families for line in _format_family(*family))


def _families_of_rows(summary: Mapping[str, Any]) -> Iterator[tuple[str, str, Iterable[Sample]]]:
    """Yield the families of severity, responsibility, exceptions and age, which the rows of findings decide."""
    numbers = summary["bySeverity"]
    yield (
        "findings_by_severity",
        "Findings by severity.",
        [({"severity": each.value}, numbers.get(each.value, 0)) for each in Severity],
    )
    teams = _sum_teams(summary["byResponsible"])
    yield "findings_by_responsible", "Findings by responsible team and severity.", _by_responsible(teams)
    words = "Findings that are new or worse by responsible team."
    news = [({"responsible": name}, team["new"] + team["worse"]) for name, team in teams]
    yield "new_findings_by_responsible", words, news
    steps = _sum_topics(summary["inStep"])
    words = "Declared topics that were compared, by responsible team."
    yield "topics_compared_by_responsible", words, [({"responsible": name}, one["topics"]) for name, one in steps]
    words = "Declared topics without a finding that counts, by responsible team."
    yield "topics_in_step_by_responsible", words, [({"responsible": name}, one["inStep"]) for name, one in steps]
    numbers = summary["accepted"]["byClass"]
    accepted = [({"class": kind.value}, numbers.get(kind.value, 0)) for kind in DriftClass]
    yield "accepted_findings", "Findings that an exception accepts, by class; in no other count.", accepted
    expired = summary["findings"]["byClass"].get(DriftClass.EXPIRED.value, 0)
    yield "expired_exceptions", "Exceptions that have expired.", _one(expired)
    words = "Clusters with snapshots that lack rows."
    yield "clusters_incomplete", words, _one(len({entry["cluster"] for entry in summary["incomplete"]}))
    if oldest := summary["oldestFinding"]:
        words = "Time when the oldest finding was first seen; absent without findings."
        yield "oldest_finding_timestamp_seconds", words, _one(_seconds(oldest["firstSeen"]))


def _by_cluster(clusters: Sequence[Mapping[str, Any]]) -> Iterator[Sample]:
    """Yield the findings of each cluster and class; the clusters in order of name, the sum of the rest last."""
    ranked = sorted(clusters, key=lambda cluster: (-cluster["findings"], cluster["cluster"]))
    shown, rest = ranked[:MAX_CLUSTERS], ranked[MAX_CLUSTERS:]
    numbers = {one["cluster"]: one["byClass"] for one in sorted(shown, key=lambda one: str(one["cluster"]))}
    if rest:
        numbers[OTHER] = _sum_counts(one["byClass"] for one in rest)
    for cluster, by_class in numbers.items():
        for kind in DriftClass:
            yield {"cluster": cluster, "class": kind.value}, by_class.get(kind.value, 0)


def _by_effect(numbers: Mapping[str, int]) -> Iterator[Sample]:
    for effect in Effect:
        yield {"effect": effect.value}, numbers.get(effect.value, 0)


def _by_risk(numbers: Mapping[str, int]) -> Iterator[Sample]:
    for risk in Risk:
        yield {"risk": risk.label}, numbers.get(risk.label, 0)


def _by_responsible(teams: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[Sample]:
    for name, team in teams:
        for severity in Severity:
            yield {"responsible": name, "severity": severity.value}, team["bySeverity"].get(severity.value, 0)


def _sum_teams(teams: Sequence[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the teams by label value, with one entry for all teams beyond the limit.

    Findings without a responsible team have the value ``NO_TEAM``.
    """
    ranked = sorted(teams, key=lambda team: (-team["findings"], team["responsible"] or ""))
    shown, rest = ranked[:MAX_RESPONSIBLE], ranked[MAX_RESPONSIBLE:]
    found: list[tuple[str, Mapping[str, Any]]] = [(team["responsible"] or NO_TEAM, team) for team in shown]
    if rest:
        severities = _sum_counts(team["bySeverity"] for team in rest)
        found.append(
            (OTHER, {"bySeverity": severities, **{name: sum(team[name] for team in rest) for name in ("new", "worse")}})
        )
    return found


def _sum_topics(teams: Sequence[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, int]]]:
    """Return the topics of the teams with the most topics, and the sum of the rest."""
    ranked = sorted(teams, key=lambda team: (-team["topics"], team["responsible"]))
    shown, rest = ranked[:MAX_RESPONSIBLE], ranked[MAX_RESPONSIBLE:]
    found = [(team["responsible"] or NO_TEAM, team) for team in shown]
    sums = {name: sum(team[name] for team in rest) for name in ("topics", "inStep")}
    return [*found, *([(OTHER, sums)] if rest else [])]


def _sum_counts(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for numbers in counts:
        total.update(numbers)
    return total


def _one(value: int) -> Sequence[Sample]:
    return [({}, value)]


def _seconds(time: str) -> int:
    return int(parse_time(time).timestamp())


def _format_family(name: str, help_text: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {PREFIX}_{name} {help_text}\n# TYPE {PREFIX}_{name} gauge\n"
    for labels, value in samples:
        inner = ",".join(f'{key}="{_escape_label_value(text)}"' for key, text in labels.items())
        yield f"{PREFIX}_{name}{{{inner}}} {value}\n" if inner else f"{PREFIX}_{name} {value}\n"


def _escape_label_value(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


HTML_FILE = "report.html"
BETWEEN_FILE = "between.json"

WORK_FOLDER = "work"
"""Name of a folder for temporary files in the staging folder; it is removed before the report is published."""

_SUMMARY_FORMATTERS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    SUMMARY_FILE: dumps,
    "summary.md": format_summary,
    "metrics.prom": format_metrics,
}
"""Files that are rendered from the summary alone, with their formatters."""


class ReportFolder:
    """A drift report in the staging folder; use it as a context manager. Without ``commit`` it leaves nothing.

    ``remote_names`` are the files that executors of Spark wrote below ``staging_path`` in another store.
    Raises ``TopiaristError`` (Unwritable) from each of its methods.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._final_steps: list[Callable[[Path], None]] = []
        self.remote_names: set[str] = set()
        self._pending = self._path.resolve().with_name(name_pending(self._path.resolve().name))
        if self._pending.is_dir():
            with self.translate_errors():
                self._replace_target()
        is_replaceable = not self._path.exists() or (self._path / SUMMARY_FILE).is_file()
        if not is_replaceable and not (self._path.is_dir() and not any(self._path.iterdir())):
            raise_not_replaceable(path)
        with self.translate_errors():
            target = self._path.resolve()
            target.parent.mkdir(parents=True, exist_ok=True)
            self._staging = target.with_name(f".topiarist-{token_hex(8)}")
            self._staging.mkdir()
            self._line_files = {name: (self._staging / name).open("wb") for name in LINE_FILES}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._line_files.values():
            file.close()
        shutil.rmtree(self._staging, ignore_errors=True)

    @property
    def staging_path(self) -> str:
        """Return the path or URI of the staging folder, where Spark may add files from any machine."""
        return str(self._staging)

    @property
    def local_path(self) -> Path:
        """Return the staging folder on this machine."""
        return self._staging

    def make_work_folder(self) -> Path:
        """Create a folder on this machine for files that the report does not have."""
        with self.translate_errors():
            folder = self._staging / WORK_FOLDER
            folder.mkdir(exist_ok=True)
            return folder

    def add_lines(self, lines: Mapping[str, Iterable[bytes]]) -> None:
        """Append lines to the files of these names."""
        with self.translate_errors():
            for name, some in lines.items():
                self._line_files[name].writelines(some)

    @property
    def has_final_steps(self) -> bool:
        """Return whether something reads the files of the report before it is published."""
        return bool(self._final_steps)

    def add_final_step(self, work: Callable[[Path], None]) -> None:
        """Call ``work`` with the staging folder after all findings are written and before the report is published."""
        self._final_steps.append(work)

    def commit(
        self,
        summary: Mapping[str, Any],
        causes: Causes,
        repairs: Mapping[str, str],
        between: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the remaining files, sync all files to disk, and rename the staging folder to the target.

        The page has the cause of each finding, and the commands that repair findings. ``between`` is the comparison of
        some clusters with each other, which also gets a file of its own.
        """
        with self.translate_errors():
            for file in self._line_files.values():
                _sync_to_disk(file)
            for work in self._final_steps:
                work(self._staging)
            for name, text in _SUMMARY_FORMATTERS.items():
                self._write_file(name, [text(summary).encode()])
            if between:
                self._write_file(BETWEEN_FILE, [dumps(between).encode()])
            files = self._staging / FINDINGS_FILE, self._staging / ACCEPTED_FILE
            self._write_file(HTML_FILE, html.render_chunks(summary, *files, causes, repairs, between))
            shutil.rmtree(self._staging / WORK_FOLDER, ignore_errors=True)
            self._publish()

    def _write_file(self, name: str, chunks: Iterable[bytes]) -> None:
        with (self._staging / name).open("wb") as file:
            file.writelines(chunks)
            _sync_to_disk(file)

    def _publish(self) -> None:
        self._staging.rename(self._pending)
        try:
            self._replace_target()
        except BaseException:
            shutil.rmtree(self._pending, ignore_errors=True)
            raise

    def _replace_target(self) -> None:
        """Rename the pending report to the target; if that fails, an earlier report is as it was."""
        target = self._path.resolve()
        # A rename cannot replace a folder with content, so that the earlier report is renamed first.
        backup = target.with_name(f".topiarist-{token_hex(8)}")
        if target.exists():
            target.rename(backup)
        try:
            self._pending.rename(target)
        except BaseException:
            with suppress(OSError):
                backup.rename(target)
            raise
        shutil.rmtree(backup, ignore_errors=True)

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Translate each ``OSError``: what is written for the report cannot be written."""
        try:
            yield
        except OSError as error:
            raise_unwritable(str(self._path), error.strerror or str(error))


def raise_not_replaceable(path: str) -> NoReturn:
    """Raise ``Unwritable`` because the path holds something other than a drift report."""
    raise_unwritable(path, "it is not empty and not a drift report; use a new or an empty folder")


def _sync_to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def raise_unwritable(path: str, message: str) -> NoReturn:
    """Raise ``Unwritable`` for the folder of a report."""
    raise TopiaristError(Reason.UNWRITABLE, f"{printable_path(path)}: cannot be written: {message}")

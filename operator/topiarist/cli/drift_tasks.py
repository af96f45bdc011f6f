"""The tasks of ``topiarist drift`` beside a report: repair findings of one, or compare clusters with each other.

``--fix plan``, ``manifest``, ``accept`` or ``baseline``: the findings come from a report; a plan is that of the
clusters as they are now. What a way does not repair is named on stderr, with the reason.

``--between dev,stage,prod`` needs no manifests. It reads each cluster once, or its snapshot, and prints a matrix: a row
for each field of each topic, a column for each cluster. Of topics that ``--topic`` or ``--selector`` selects it has all
values, else those that differ. With ``--out`` the matrix is a part of a report instead.
"""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from topiarist.cli import formats, terminal
from topiarist.cli.parameters import EXPLICIT_SOURCES, project_words
from topiarist.cli.terminal import Settings
from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.kafka.types import format_version
from topiarist.model.spec import ClusterSpec
from topiarist.text import format_count, list_first, printable, printable_path, quote

if TYPE_CHECKING:
    from topiarist.desired.resolve import Desired
    from topiarist.drift.findings import FindingRow
    from topiarist.drift.repair import Unfixed
    from topiarist.drift.rows import RowOptions
    from topiarist.drift.snapshots import ClusterInput, SnapshotInventory
    from topiarist.drift.task import Shipped
    from topiarist.runs.inputs import RunInputs

_OTHER_KINDS = ("Topic", "Policy", "DriftException", "DriftPolicy")
"""Kinds of documents that are no cluster; an unknown kind may be a typing error."""

_ACCEPTING = ("accept", "baseline")
_ACCEPT_OPTIONS = ("author", "until", "reason")


def fix_findings(given: Any, settings: Settings) -> Exit:
    """Repair the selected findings in the way that ``--fix`` names; return the exit code of the command.

    Without any, the file of ``--out`` is written too: one of an earlier run must not be taken for that of this run.
    """
    _check_options(given)
    rows = _select(given, settings)
    if not rows:
        terminal.log("no finding of the report matches")
        if given.id_ or given.cause:
            return Exit.ERROR
    if given.fix in _ACCEPTING:
        if given.until < (read := max((row["takenAt"] for row in rows), default=""))[: len(given.until)]:
            message = f"--until: found {given.until}, and the report is of {read[: len(given.until)]}: give a later day"
            raise click.UsageError(message)
        return _accept(given, rows)
    return _fix_manifests(given, settings, rows) if given.fix == "manifest" else _plan(given, settings, rows)


def _check_options(given: Any) -> None:
    from topiarist.drift.exceptions import is_day
    from topiarist.drift.storage import is_within

    if not given.from_:
        raise click.UsageError("pass --from with the report that contains the findings")
    _require_local("--from", given.from_)
    if given.out and is_within(given.out, given.from_):
        message = f"--out: found {quote(given.out)}, which is in the folder of --from"
        raise click.UsageError(f"{message}: the next report replaces that folder as a whole")
    _require_local("--snapshots", *given.snapshots)
    if given.live or given.previous or given.history or given.baseline:
        message = "--fix takes findings from a report: give no --live, --previous, --history or --baseline"
        raise click.UsageError(message)
    if len(given.snapshots) > (given.fix == "plan"):
        raise click.UsageError("--fix takes findings from a report: --snapshots is for --fix plan, once")
    if given.fix in _ACCEPTING:
        if missing := [f"--{name}" for name in _ACCEPT_OPTIONS if not getattr(given, name)]:
            raise click.UsageError(f"give {', '.join(missing)}: an acceptance has an author, a last day and a reason")
        if not is_day(given.until):
            raise click.UsageError(f"--until: found {given.until}, wanted a day such as 2027-03-31")
    if given.write and given.fix != "manifest":
        raise click.UsageError("--write is for --fix manifest")
    if given.write and given.out:
        raise click.UsageError("pass either --write, which edits the files, or --out with a file for the diff")


def _require_local(option: str, *paths: str) -> None:
    from topiarist.drift.storage import is_remote

    for path in filter(is_remote, paths):
        message = f"{option}: found {quote(path)}, wanted a path on this machine: only reports are made of addresses"
        raise click.UsageError(message)


def _select(given: Any, settings: Settings) -> list[FindingRow]:
    from topiarist.drift.causes import CauseIndex
    from topiarist.drift.findings import FindingSelection
    from topiarist.drift.history import read_findings

    wanted = FindingSelection(
        ids=tuple(each for text in given.id_ for each in text.split(",")),
        severities=given.severity,
        classes=given.class_,
        fields=given.field,
        topics=settings.topic,
        clusters=(settings.cluster,) if settings.cluster else (),
        responsible=given.responsible,
        manifests=given.manifest,
    )
    rows = read_findings(given.from_)
    _log_absent("id", wanted.ids, {row["id"] for row in rows})
    if given.cause:
        with closing(CauseIndex()) as index:
            index.add_findings(rows)
            causes = index.find()
        of_rows = [causes.find_id(row) for row in rows]
        _log_absent("cause", given.cause, {*of_rows})
        rows = [row for row, cause in zip(rows, of_rows, strict=True) if cause in given.cause]
    return [row for row in rows if wanted.matches(row)]


def _log_absent(option: str, given: Iterable[str], found: Collection[str]) -> None:
    """Log each name that the report does not have: a typing error, or a finding that is resolved."""
    for each in given:
        if each not in found:
            what = "finding" if option == "id" else option
            terminal.log(f"--{option} {printable(each)}: the report has no such {what}")


def _load(settings: Settings, *, offline: bool = False) -> RunInputs:
    """Return the manifests; ``offline``, for their edit, without the invalid ones, if none may be that of a cluster."""
    from topiarist.runs.inputs import load_manifests

    listener = terminal.TerminalListener(settings)
    settings = replace(settings, topic=(), selector="")
    inputs = load_manifests(settings, listener, offline=offline, skip_invalid=offline)
    # A value that all known clusters have would be set for an unknown one too.
    if found := {each.place.file for each in inputs.invalid_documents if each.kind not in _OTHER_KINDS}:
        names = list_first([*map(printable_path, sorted(found))], 3)
        message = f"{names}: an invalid document may be a Cluster, so it is not known which clusters have a value"
        raise TopiaristError(Reason.INVALID_MANIFEST, message, "correct its errors first")
    return inputs


def _plan(given: Any, settings: Settings, rows: Sequence[FindingRow]) -> Exit:
    from topiarist.adapters.atomic_files import write_file
    from topiarist.drift.repair import Unfixed, keep_findings
    from topiarist.runs.sessions import ClusterSessions

    settings = replace(settings, snapshot="".join(given.snapshots))
    inputs = _load(settings)
    names = {row["cluster"] for row in rows}
    targeted = {name: spec for name, spec in inputs.desired.targeted_clusters.items() if name in names}
    plans, unfixed = [], []
    with ClusterSessions(targeted, settings, terminal.TerminalListener(settings), keep_open=False) as fleet:
        for plan in fleet.read_and_plan(inputs.desired, settings.run_options):
            kept, others = keep_findings(plan, [row for row in rows if row["cluster"] == plan.cluster])
            plans.append(inputs.filter_plan(kept, settings))
            unfixed += others
    why = "it concerns a document, or a cluster for which the manifests have no topic"
    unfixed += [Unfixed(row, why) for row in rows if row["cluster"] not in targeted]
    _log_unfixed(unfixed)
    if given.out:
        write_file(given.out, formats.encode_plan_file(plans, fleet.errors))
    terminal.print_result(formats.format_plans(plans, settings, "text", errors=fleet.errors))
    return fleet.error_code


def _fix_manifests(given: Any, settings: Settings, rows: Sequence[FindingRow]) -> Exit:
    from topiarist.adapters.atomic_files import write_file
    from topiarist.drift.exceptions import find_unjudged_topics
    from topiarist.drift.repair import edit_manifests

    if "-" in (*settings.paths, *settings.clusters):
        raise click.UsageError("--fix manifest edits files: give the files or folders of the manifests in place of -")
    # The other clusters of a topic decide whether a value can be set where it is, also if --cluster selects one.
    inputs = _load(replace(settings, cluster=None), offline=True)
    edits, unfixed = edit_manifests(inputs.desired, rows, find_unjudged_topics(inputs.invalid_documents))
    _log_unfixed(unfixed)
    done = Exit.ERROR if inputs.invalid_documents else Exit.DONE
    if given.write:
        for edit in edits:
            write_file(edit.name, edit.after)
            terminal.log(terminal.sanitize_lines(f"{edit.name}: written"))
        return done
    if outside := [edit.name for edit in edits if os.path.relpath(edit.name).startswith(f"..{os.sep}")]:
        where = f"{list_first([*map(printable_path, outside)], 3)}: not below this folder"
        terminal.log(f"{where}, so git apply refuses the diff: run in a folder that contains it, or pass --write")
    diff = "".join(line for edit in edits for line in _diff(edit.name, edit.before, edit.after))
    _print_or_write(given.out, diff)
    return done


def _diff(name: str, before: str, after: str) -> Iterable[str]:
    """Yield the lines of a diff that ``git apply`` takes in the folder of the run."""
    path = os.path.relpath(name)
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    )
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _accept(given: Any, rows: Sequence[FindingRow]) -> Exit:
    from topiarist.adapters.manifests.yaml_text import dump_documents
    from topiarist.drift.repair import format_baseline, make_exceptions

    given_by = {name: getattr(given, name) for name in _ACCEPT_OPTIONS}
    if given.fix == "baseline":
        text, unfixed = format_baseline(rows, **given_by)
    else:
        documents, unfixed = make_exceptions(rows, **given_by)
        text = dump_documents(documents) if documents else ""
    _log_unfixed(unfixed)
    _print_or_write(given.out, text)
    return Exit.DONE


def _print_or_write(out: str, text: str) -> None:
    if not out:
        terminal.print_result(text)
        return
    from topiarist.adapters.atomic_files import write_file

    write_file(out, text)


def _log_unfixed(unfixed: Sequence[Unfixed]) -> None:
    from topiarist.drift.repair import describe_row

    for row, why in unfixed:
        terminal.log(terminal.sanitize_lines(f"not repaired: {describe_row(row)}: {why}"))
    if unfixed:
        terminal.log(f"{format_count(len(unfixed), 'finding')} not repaired")


def _named(option: str, *values: str) -> list[str]:
    return [word for value in values if value for word in (option, value)]


def _address_words(settings: Settings) -> list[str]:
    return [*_named("--bootstrap-servers", settings.bootstrap_servers), *_named("--zookeeper", settings.zookeeper)]


def _document_words(settings: Settings) -> list[str]:
    version = _named("--kafka-version", format_version(settings.kafka_version)) if settings.kafka_version else ()
    clusters = (*_named("--clusters", *_reusable(settings.clusters)), *_named("--platform", *settings.platform))
    return [*_reusable(settings.paths), *clusters, *version, *project_words()]


def _reusable(paths: Sequence[str]) -> list[str]:
    from topiarist.drift.rows import STDIN_PLACEHOLDER

    return [STDIN_PLACEHOLDER if path == "-" else path for path in paths]


def _owner_words(settings: Settings) -> list[str]:
    is_given = click.get_current_context().get_parameter_source("owner") in EXPLICIT_SOURCES
    return _named("--owner", settings.owner) if is_given or settings.owner != "default" else []


def words_of(given: Any, settings: Settings) -> Sequence[Sequence[str]]:
    """Return the fields of ``RowWords``: paths and options of the run for the commands that its report prints."""
    snapshots, addresses = _named("--snapshot", *_readable_snapshots(given)), _address_words(settings)
    platform = _named("--clusters", *_reusable(settings.clusters), *settings.platform)
    clusters = [*_reusable(settings.paths), *platform, *project_words()]
    documents = _document_words(settings)
    return [*documents, *addresses, *snapshots], [*clusters, *addresses], documents, _owner_words(settings)


def _readable_snapshots(given: Any) -> tuple[str, ...]:
    """Return the snapshots if another command can read them: it reads them in one local place, and no tables."""
    from topiarist.drift.snapshots import spark_required_reason
    from topiarist.drift.storage import is_remote

    snapshots: tuple[str, ...] = given.snapshots
    if len(snapshots) != 1 or is_remote(snapshots[0]) or spark_required_reason(snapshots[0]):
        return ()
    return snapshots


def repairs_of(given: Any, settings: Settings) -> dict[str, str]:
    """Return the commands that repair findings by the value of ``--fix``, without the report and a selection."""
    words = ["topiarist", "drift", *_document_words(settings), *_address_words(settings), *_owner_words(settings)]
    snapshots = _named("--snapshots", *_readable_snapshots(given))
    return {
        way: shlex.join([*words, *(snapshots if way == "plan" else ()), "--fix", way])
        for way in ("plan", "manifest", "accept")
    }


def compare_between(given: Any, settings: Settings) -> Exit:
    """Compare the clusters that ``--between`` names, print the matrix, and return the exit code of the command."""
    from topiarist.drift.cross_cluster import compare_values, make_comparison
    from topiarist.drift.rows import RowOptions
    from topiarist.drift.rules import load_codeowners
    from topiarist.runs.inputs import require_addresses
    from topiarist.runs.sessions import ClusterSessions

    names = parse_names(given.between)
    if given.live == bool(given.snapshots) or len(given.snapshots) > 1:
        raise click.UsageError("with --between, pass either --live or --snapshots, once")
    _require_local("--snapshots", *given.snapshots)
    if any((given.previous, given.history, given.fix, given.fail_on)):
        message = "--between without --out prints a comparison: give no --previous, --history, --fix or --fail-on"
        raise click.UsageError(message)
    settings = replace(settings, snapshot="".join(given.snapshots))
    inputs = _load_inputs(settings)
    desired = inputs.desired if inputs else None
    clusters = {name: _find_cluster(name, desired) for name in names}
    require_addresses(clusters, settings)
    with ClusterSessions(clusters, settings, terminal.TerminalListener(settings), keep_open=False) as fleet:
        states = fleet.map_clusters(fleet.read)
    if fleet.errors or len(states) < len(names):
        return fleet.error_code
    is_selected = _make_selector(clusters, desired, settings)
    rows = [*compare_values({name: states[name] for name in names}, is_selected)]
    shown = rows if settings.selection.text else [row for row in rows if row.differs]
    codeowners = load_codeowners(given.codeowners) if given.codeowners else None
    teams = _find_teams(names, desired, RowOptions(owner_label=given.owner_label, codeowners=codeowners))
    terminal.print_result(BETWEEN_FORMATS[given.form](make_comparison(names, rows, shown, teams)))
    if inputs and inputs.invalid_documents:
        return Exit.ERROR
    return Exit.CHANGES if given.exit_code and any(row.differs for row in rows) else Exit.DONE


def parse_names(between: str) -> list[str]:
    """Return the clusters that ``--between`` names. Raises ``UsageError``."""
    names = [name.strip() for name in between.split(",")]
    if len(names) < 2 or len({*names}) < len(names) or not all(names):
        message = f"--between: found {quote(between)}, wanted two or more clusters, each once, such as dev,prod"
        raise click.UsageError(message)
    return names


def _find_teams(names: Sequence[str], desired: Desired | None, row_options: RowOptions) -> dict[str, str]:
    """Return who is responsible by topic; on the first of the clusters that declare the topic."""
    from topiarist.drift.rows import RowCompleter

    if desired is None:
        return {}
    completer = RowCompleter(desired, row_options)
    specs = (spec for name in reversed(names) for spec in desired.specs[name])
    return {spec.topic: completer.find_responsible(spec) for spec in specs}


def compare_for_report(
    given: Any, settings: Settings, shipped: Shipped, inventory: SnapshotInventory | None
) -> tuple[dict[str, Any], dict[str, ClusterInput]]:
    """Return the comparison of the clusters that ``--between`` names, for a report, and the live clusters as read.

    A snapshot is read again for the report, which does not decode the topics that equal their specs.
    """
    from topiarist.drift.cross_cluster import compare_values, make_comparison

    names, desired = parse_names(given.between), shipped.desired
    clusters = {name: _find_cluster(name, desired) for name in names}
    inputs = {each.cluster: each for each in _read_inputs(clusters, settings, shipped.as_of, inventory)}
    states = {name: inputs[name].state for name in names}
    read = {name: state for name, state in states.items() if state}
    is_selected = _make_selector(clusters, desired, settings)
    rows = [*compare_values(read, is_selected, lambda cluster, topic: inputs[cluster].may_lack(topic))]
    teams = _find_teams(names, desired, shipped.row_options)
    comparison = make_comparison(names, rows, rows, teams, [name for name in names if name not in read])
    return comparison, {} if inventory else inputs


def _read_inputs(
    clusters: Mapping[str, ClusterSpec], settings: Settings, as_of: str, inventory: SnapshotInventory | None
) -> Iterator[ClusterInput]:
    """Yield the input of each cluster: of its snapshot, or without an inventory of the cluster."""
    from topiarist.adapters.snapshots.codec import parse_time
    from topiarist.adapters.snapshots.lenient_reader import CachingReader
    from topiarist.drift.equality import EqualTopics
    from topiarist.drift.snapshots import PARQUET_SUFFIX, ClusterInput, read_snapshot
    from topiarist.drift.task import ConnectOptions, read_live_cluster

    if inventory is None:
        connect_options, now = ConnectOptions(settings.owner, settings.connect_timeout), parse_time(as_of)
        with ThreadPoolExecutor() as threads:
            reading = threads.map(lambda spec: read_live_cluster(spec, connect_options, now), clusters.values())
            for cluster_input, error in reading:
                if error:
                    terminal.log(terminal.sanitize_lines(f"error: cluster {cluster_input.cluster}: {error}"))
                yield cluster_input
        return
    for name, cluster in clusters.items():
        lines = inventory.find_lines(name)
        if lines and lines.snapshot.file.endswith(PARQUET_SUFFIX):
            message = f"--between: the snapshot of {name} is in {printable_path(lines.snapshot.file)}"
            raise TopiaristError(Reason.WRONG_USAGE, f"{message}: a matrix is not made of Parquet", "give JSON lines")
        yield read_snapshot(*lines, cluster, EqualTopics(), CachingReader()) if lines else ClusterInput(name)


def _load_inputs(settings: Settings) -> RunInputs | None:
    """Return the valid manifests, and report the errors of others; None without any, if snapshots are compared."""
    from topiarist.runs.inputs import load_if_given

    if settings.snapshot and not (settings.paths or settings.clusters or settings.platform):
        if settings.selector:
            raise click.UsageError("--selector selects by labels of manifests: give the files or folders with them")
        return None
    listener = terminal.TerminalListener(settings)
    return load_if_given(replace(settings, topic=(), selector=""), listener, with_policies=False)


def _find_cluster(name: str, desired: Desired | None) -> ClusterSpec:
    if desired is None:
        return ClusterSpec(name)
    if name not in desired.clusters:
        message = f"--between: found no Cluster document named {quote(name)}"
        known = ", ".join(sorted(filter(None, desired.clusters)))
        hint = f"the documents are {known}" if known else "give the Cluster documents with --clusters"
        raise TopiaristError(Reason.WRONG_USAGE, message, hint)
    return desired.clusters[name]


def _make_selector(
    clusters: Mapping[str, ClusterSpec], desired: Desired | None, settings: Settings
) -> Callable[[str], bool]:
    """Return whether a topic is compared; no software's own topics are."""
    from topiarist.kafka.types import matches_any

    selection = settings.selection
    specs = [spec for name in clusters for spec in desired.specs[name]] if desired else []
    labelled = {spec.topic for spec in specs if selection.matches(spec)}

    def is_selected(topic: str) -> bool:
        if any(cluster.internal_owner(topic) for cluster in clusters.values()):
            return False
        if selection.requirements:
            return topic in labelled
        return not selection.patterns or matches_any(topic, selection.patterns)

    return is_selected


def _format_text(comparison: Mapping[str, Any]) -> str:
    names, rows = comparison["clusters"], comparison["values"]
    topics, differing, values = (comparison[name] for name in ("topics", "topicsThatDiffer", "valuesThatDiffer"))
    summary = f"{format_count(topics, 'topic')} on {', '.join(names)}: "
    differ = "differs" if differing == 1 else "differ"
    same = "all values are the same" if topics else "no topic to compare"
    summary += f"{differing:,} {differ} in {format_count(values, 'value')}" if values else same
    lines = [[" ", "topic", "field", *names]]
    lines += [
        ["*" if row["differs"] else "", row["topic"], row["field"], *(_describe(row, name) for name in names)]
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines] if rows else []
    return terminal.sanitize_lines("\n".join([summary, *([""] if table else []), *table])) + "\n"


def _describe(row: Mapping[str, Any], name: str) -> str:
    from topiarist.drift.cross_cluster import TOPIC_FIELD
    from topiarist.output.text.layout import with_units

    if name not in row["values"]:
        return "-"
    value = row["values"][name]
    if value is None:
        return "missing" if row["field"] == TOPIC_FIELD else "not set"
    return with_units(row["field"].removeprefix("config."), value)


def _format_json(comparison: Mapping[str, Any]) -> str:
    from topiarist.adapters.saved_plans.encode import dumps

    return dumps(comparison)


BETWEEN_FORMATS = {"text": _format_text, "json": _format_json}
"""The formats of ``drift --between`` by name."""

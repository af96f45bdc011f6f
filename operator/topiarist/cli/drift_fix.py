"""Repair findings of a drift report: ``topiarist drift --fix plan``, ``manifest``, ``accept`` or ``baseline``.

The findings come from a report; a plan is that of the clusters as they are now. What a way does not
repair is named on stderr, with the reason.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import date
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from topiarist.cli import formats, terminal
from topiarist.cli.terminal import Settings
from topiarist.errors import Exit
from topiarist.text import format_count

if TYPE_CHECKING:
    from topiarist.drift.findings import FindingRow
    from topiarist.drift.repair import Unfixed
    from topiarist.runs.inputs import RunInputs

_ACCEPTING = ("accept", "baseline")
_ACCEPT_OPTIONS = ("author", "until", "reason")


def fix_findings(given: Any, settings: Settings) -> Exit:
    """Repair the selected findings in the way that ``--fix`` names; return the exit code of the command."""
    _check_options(given)
    rows = _select(given, settings)
    if not rows:
        terminal.log("no finding of the report is selected")
        return Exit.DONE
    if given.fix in _ACCEPTING:
        return _accept(given, rows)
    return _fix_manifests(given, settings, rows) if given.fix == "manifest" else _plan(given, settings, rows)


def _check_options(given: Any) -> None:
    if not given.from_:
        raise click.UsageError("give --from: the report with the findings")
    if given.live or given.previous or given.history or given.baseline:
        message = "--fix takes findings from a report: give no --live, --previous, --history or --baseline"
        raise click.UsageError(message)
    if len(given.snapshots) > (given.fix == "plan"):
        raise click.UsageError("--fix takes findings from a report: --snapshots is for --fix plan, once")
    if given.fix in _ACCEPTING:
        if missing := [f"--{name}" for name in _ACCEPT_OPTIONS if not getattr(given, name)]:
            raise click.UsageError(f"give {', '.join(missing)}: an acceptance has an author, a last day and a reason")
        try:
            date.fromisoformat(given.until)
        except ValueError:
            raise click.UsageError(f"--until: found {given.until}, wanted a day such as 2027-03-31") from None
    if given.write and given.fix != "manifest":
        raise click.UsageError("--write is for --fix manifest")


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
    if given.cause:
        with closing(CauseIndex()) as index:
            index.add_findings(rows)
            causes = index.find()
        rows = [row for row in rows if causes.find_id(row) in given.cause]
    return [row for row in rows if wanted.matches(row)]


def _load(settings: Settings, *, offline: bool = False) -> RunInputs:
    from topiarist.runs.inputs import load_manifests

    listener = terminal.TerminalListener(settings)
    return load_manifests(replace(settings, topic=(), selector=""), listener, offline=offline)


def _plan(given: Any, settings: Settings, rows: Sequence[FindingRow]) -> Exit:
    from topiarist.adapters.atomic_files import write_file
    from topiarist.adapters.saved_plans.encode import dumps, encode_plans
    from topiarist.drift.repair import keep_findings
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
    _log_unfixed(unfixed)
    if given.out:
        write_file(given.out, dumps(encode_plans(plans)))
    terminal.print_result(formats.format_plans(plans, settings, "text", failed_clusters=sorted(fleet.errors)))
    return fleet.error_code


def _fix_manifests(given: Any, settings: Settings, rows: Sequence[FindingRow]) -> Exit:
    from topiarist.adapters.atomic_files import write_file
    from topiarist.drift.repair import edit_manifests

    # The other clusters of a topic decide whether a value can be set where it is, also if --cluster selects one.
    edits, unfixed = edit_manifests(_load(replace(settings, cluster=None), offline=True).desired, rows)
    _log_unfixed(unfixed)
    if given.write:
        for edit in edits:
            write_file(edit.name, edit.after)
            terminal.log(terminal.sanitize_lines(f"{edit.name}: written"))
        return Exit.DONE
    diff = "".join(line for edit in edits for line in _diff(edit.name, edit.before, edit.after))
    _print_or_write(given.out, diff)
    return Exit.DONE


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

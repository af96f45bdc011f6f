"""The ``topiarist drift`` command: compare a fleet with its manifests and write a report.

Reads snapshots, or with ``--live`` the clusters, and writes only the report folder. The comparison runs in this process
or in Spark (``topiarist.drift``), which is imported only when it is needed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from topiarist.cli import load, options, terminal
from topiarist.cli.clusters import ClusterSessions
from topiarist.cli.settings import Settings
from topiarist.drift.findings.finding import DriftClass
from topiarist.errors import Exit, TopiaristError
from topiarist.kafka.types import MAX_KAFKA_VERSION, KafkaVersion, format_version
from topiarist.text import format_count, quote

if TYPE_CHECKING:
    from topiarist.desired.resolve import Desired
    from topiarist.drift.engine import Engine
    from topiarist.drift.history.previous import PreviousReport
    from topiarist.drift.snapshots import ClusterInput


_MAX_SHOWN_LINES = 10


def _check_link_template(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    from topiarist.drift.findings.rows import LINK_FIELDS, find_link_problem

    if problem := find_link_problem(value):
        fields = ", ".join(f"{{{name}}}" for name in LINK_FIELDS)
        raise click.BadParameter(f"found {quote(problem)}, wanted only {fields} in braces")
    return value


@click.command(
    "drift",
    cls=options.TopicCommand,
    epilog="""\b
Examples:
  topiarist drift topics/ --clusters clusters.yaml --snapshots snapshots --out report
  topiarist drift topics/ --clusters clusters.yaml --live --out report
  topiarist drift topics/ --snapshots snapshots --out report --previous report
  topiarist drift topics/ --snapshots snapshots --out report --history history
  topiarist drift topics/ --snapshots snapshots --out report --fail-on missing
  topiarist drift --demo fleet

\b
Exit codes: 0 reported; 1 error, or the report lacks clusters, rows or manifests that
could not be read; 2 usage error. With --exit-code also: 3 there are findings. With --fail-on also:
4 there are findings of these classes.
""",
)
@options.manifests
@options.selection
@options.require_topics
@options.connection
@options.any_owner
@options.option(
    "--snapshots",
    multiple=True,
    type=click.Path(),
    metavar="PATH",
    help="Snapshots to compare: a file, a folder, or a URI for Spark. Can be repeated.",
)
@options.option("--live", is_flag=True, help="Read the clusters, instead of snapshots.")
@options.option("--out", default="", type=click.Path(), metavar="FOLDER", help="Folder for the report. Required.")
@options.option(
    "--demo",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Write a sample fleet with every class of drift into a new folder, and report on it. Replaces --out.",
)
@options.option(
    "--engine",
    type=click.Choice(["auto", "python", "spark"]),
    default="auto",
    show_default=True,
    help="Compare in processes of this machine (python) or in Spark; auto uses Spark only where it must.",
)
@options.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of processes of this machine (default: one for each core if the fleet is large).",
)
@options.option(
    "--previous",
    type=click.Path(),
    metavar="FOLDER",
    help="Previous report, to show new findings and the age of others.",
)
@options.option(
    "--history",
    default="",
    type=click.Path(),
    metavar="FOLDER",
    help="Add the findings to a history of all reports, in Parquet, and take ages from it. Replaces --previous.",
)
@options.option(
    "--owner-label",
    default="",
    metavar="LABEL",
    help="Label of Topics, or else of Clusters, with the responsible team (default: owner of the ownership record).",
)
@options.option(
    "--link-template",
    default="",
    metavar="URL",
    callback=_check_link_template,
    help="Link to a line of a manifest, with {file}, {line}, {cluster} and {topic}.",
)
@options.option(
    "--upgrade-to",
    callback=options.parse_kafka_version,
    metavar="X.Y",
    help="Also report what an upgrade to this Kafka version would refuse, drop or change, as upgrade-check does.",
)
@options.option("--exit-code", is_flag=True, help="End with exit code 3 if there are findings.")
@options.option(
    "--fail-on",
    multiple=True,
    type=click.Choice([kind.value for kind in DriftClass], case_sensitive=False),
    metavar="CLASS",
    help=f"End with exit code 4 if there are findings of this class: {', '.join(kind.value for kind in DriftClass)}.",
)
def command(
    snapshots: tuple[str, ...], live: bool, out: str, previous: str | None, demo: Path | None, **values: Any
) -> None:
    """Report which topics on which clusters differ from their manifests: fields, severity, and since when.

    Compares snapshots or live clusters in the same way as a plan, and writes only the report: findings as JSON lines,
    and a summary as JSON, Markdown, Prometheus metrics and HTML.
    """
    from topiarist.adapters.snapshots.times import format_time
    from topiarist.drift.engine import Cost, LocalEngine
    from topiarist.drift.findings.rows import RowOptions
    from topiarist.drift.live import ConnectOptions
    from topiarist.drift.report import ReportJob, compare_and_write
    from topiarist.drift.snapshots import UnusedInput
    from topiarist.drift.task import LiveCluster
    from topiarist.drift.uris import to_local_path

    link_template, owner_label, history, upgrade_to = (
        values.pop(name) for name in ("link_template", "owner_label", "history", "upgrade_to")
    )
    engine, jobs, exit_code, fail_on = (values.pop(name) for name in ("engine", "jobs", "exit_code", "fail_on"))
    if demo is not None:
        _reject_other_inputs(live, *snapshots, out, previous, history, *values["paths"], *values["clusters"])
        upgrade_to = upgrade_to or MAX_KAFKA_VERSION
        snapshots, out, values["paths"], owner_label = _write_demo(demo, upgrade_to)
    settings = options.build_settings(values)
    _check_inputs(out, live, snapshots, previous, history, settings.selection.text)
    paths = [*map(to_local_path, snapshots)]
    out, previous, history = map(to_local_path, (out, previous or "", history))
    # With snapshots no cluster needs an address: a value in ``snapshot`` turns off the loader's check for it.
    # The report selects by itself, so that findings of the other topics do not count as resolved.
    offline_settings = replace(settings, snapshot="".join(snapshots[:1]), topic=(), selector="")
    run_inputs = load.load_manifests(offline_settings, with_policies=False, skip_invalid=True)
    desired = run_inputs.desired
    run = _choose_engine(engine, jobs, paths, (out, previous, history), settings)
    now = datetime.now(UTC).replace(microsecond=0)
    inventory = None if live else run.open_snapshots(paths, desired.clusters)
    as_of = format_time((inventory.newest_taken_at if inventory else None) or now)
    run_history = run.open_history(history) if history else None
    previous_report = run_history.load_previous(as_of) if run_history else _load_previous(run, previous, out)
    if isinstance(run, LocalEngine):
        topics = inventory.count_rows() if inventory else sum(map(len, desired.specs.values()))
        run.choose_jobs(jobs, Cost(len(desired.clusters), topics, previous_report.dropped, is_live=live))
    with run.create_report_folder(out) as folder, terminal.ProgressBar(len(desired.clusters), settings) as progress:
        if settings.verbosity >= 0:
            terminal.log(terminal.sanitize_lines(f"comparing in {run.description}"))
        job = ReportJob(
            desired,
            settings.run_options,
            as_of,
            previous_report,
            inventory.unused_input if inventory else UnusedInput(),
            progress.step,
            lambda cluster, message: terminal.log(terminal.sanitize_lines(f"error: cluster {cluster}: {message}")),
            run_inputs.exceptions,
            RowOptions(link_template, owner_label),
            run_inputs.invalid_documents,
            run_inputs.unassigned_topics,
            upgrade_to,
            settings.selection,
        )
        if inventory is not None:
            summary = run.compare_snapshots(job, inventory, folder)
        elif isinstance(run, LocalEngine) and run.jobs == 1:
            summary = compare_and_write(job, _read_live(desired, settings, now), folder)
        else:
            connect_options = ConnectOptions(settings.owner, settings.connect_timeout)
            summary = run.compare_live(job, LiveCluster(connect_options), folder)
    if run_history is not None:
        run_history.append(out, summary, previous_report)
    _log_summary(summary, out, settings)
    if demo is not None:
        terminal.print_result(f"The page, for a browser: {shlex.quote(out)}/report.html\n")
    raise click.exceptions.Exit(int(_exit_code(summary, exit_code, fail_on)))


def _load_previous(run: Engine, previous: str, out: str) -> PreviousReport:
    """Return the previous report; none in the first of scheduled runs, which use one command line each time."""
    from topiarist.drift.history.previous import PreviousReport

    is_first = not previous or (previous == out and not run.exists(out))
    return PreviousReport() if is_first else run.load_previous(previous)


def _check_inputs(
    out: str, live: bool, snapshots: Sequence[str], previous: str | None, history: str, selection: str
) -> None:
    if not out:
        raise click.UsageError("give --out: the folder for the report")
    if live == bool(snapshots):
        raise click.UsageError("give either --snapshots or --live")
    if previous and history:
        raise click.UsageError("give either --previous or --history: a history has the previous report")
    if selection and history:
        raise click.UsageError(f"{selection}: a history has whole reports; give --previous instead of --history")


def _reject_other_inputs(*inputs: object) -> None:
    if any(inputs):
        raise click.UsageError("--demo makes its own manifests, snapshots and report: give no other input and no --out")


def _write_demo(folder: Path, upgrade_to: KafkaVersion) -> tuple[tuple[str], str, tuple[str], str]:
    """Write the sample fleet, and print the command that reports on it.

    Returns its snapshots, the output, its manifests, and the label of the teams.
    """
    from topiarist.drift.demo import INVALID_TEAM, OWNER_LABEL, READ_CLUSTERS, UNREAD_CLUSTER, write_demo

    folders = write_demo(folder)
    manifests, snapshots, report = map(str, folders)
    words = ["topiarist", "drift", manifests, "--snapshots", snapshots, "--out", report, "--owner-label", OWNER_LABEL]
    words += ["--upgrade-to", format_version(upgrade_to)]
    lines = (
        f"{terminal.sanitize_lines(str(folder))}: a sample fleet",
        f"  {folders.manifests.name}/: clusters.yaml, exceptions.yaml, and the topics of each team",
        f"  {folders.snapshots.name}/: of {', '.join(READ_CLUSTERS)}",
        f"  {UNREAD_CLUSTER} has no snapshot, and the manifest of {INVALID_TEAM} is invalid, so the exit code is 1",
        "",
        "The report, which this command makes again:",
        f"  {shlex.join(words)}",
        "",
    )
    terminal.print_result("\n".join(lines))
    return (snapshots,), report, (manifests,), OWNER_LABEL


def _choose_engine(
    engine: str, jobs: int | None, paths: Sequence[str], other_paths: Sequence[str], settings: Settings
) -> Engine:
    """Return Spark if it is asked for or needed, else the engine of this machine; the size of the fleet is unknown."""
    from topiarist.drift.engine import LocalEngine, find_spark_reason

    reason = find_spark_reason(engine, paths, other_paths)
    if not reason:
        return LocalEngine()
    if jobs:
        raise click.UsageError(f"--jobs is for processes of this machine, and Spark compares: {reason}")
    from topiarist.drift.spark.engine import SparkEngine

    return SparkEngine(reason, quiet=settings.verbosity < 0)


def _read_live(desired: Desired, settings: Settings, now: datetime) -> Iterator[tuple[str, ClusterInput]]:
    """Read the clusters in parallel and yield their states in order of name, each when the one before is compared.

    An unreadable cluster is logged to stderr and yields its problem, for the report.
    """
    from topiarist.drift.live import describe_read_failure
    from topiarist.drift.snapshots import ClusterInput
    from topiarist.reconcile import read_cluster

    with ClusterSessions(desired.clusters, settings, keep_open=False) as fleet:
        for name, result in fleet.stream_sessions(
            lambda name, cluster: read_cluster(cluster, desired.clusters[name].cluster_id)
        ):
            if isinstance(result, TopiaristError):
                yield name, ClusterInput(name, problem=describe_read_failure(result))
            else:
                yield name, ClusterInput(name, now, result)


def _log_summary(summary: Mapping[str, Any], out: str, settings: Settings) -> None:
    """Log the report in one line, and the problems of the input."""
    if settings.verbosity < 0:
        return
    inputs = summary["inputs"]
    _log_limited(
        f"{entry['file']}: ignored, {entry['newer']} of {entry['cluster']} is newer" for entry in inputs["superseded"]
    )
    _log_limited(
        f"{entry['file']}: ignored, cluster {entry['cluster']} is not in this run"
        for entry in inputs["unknownClusters"]
    )
    problems = ((entry["cluster"], entry["problem"]) for entry in summary["byCluster"] if entry["problem"] is not None)
    _log_limited(f"cluster {cluster}: not compared: {problem}" for cluster, problem in problems)
    _log_limited(
        f"cluster {entry['cluster']}: {format_count(entry['notJudged'], 'topic')} not judged: its snapshot lacks rows"
        for entry in summary["incomplete"]
    )
    if broken := inputs["broken"]:
        rows = f"{format_count(broken, 'row')} could not be used: {out}/broken.jsonl has them"
        _log_limited([f"{rows}; take these snapshots again"])
    findings, clusters = summary["findings"], summary["clusters"]
    _log_limited(
        [f"{out}: {format_count(findings['total'], 'finding')} on {format_count(clusters['compared'], 'cluster')}"]
    )


def _log_limited(lines: Iterable[str]) -> None:
    """Log the first 10 lines, and how many more there are."""
    all_lines = [*lines]
    more = [f"and {len(all_lines) - _MAX_SHOWN_LINES:,} more"] if len(all_lines) > _MAX_SHOWN_LINES else []
    for line in (*all_lines[:_MAX_SHOWN_LINES], *more):
        terminal.log(terminal.sanitize_lines(line))


def _exit_code(summary: Mapping[str, Any], exit_code: bool, fail_on: Sequence[str]) -> Exit:
    found_classes = summary["findings"]["byClass"]
    if summary["clusters"]["unknown"] or summary["inputs"]["broken"] or DriftClass.INVALID.value in found_classes:
        return Exit.ERROR
    if any(kind in found_classes for kind in fail_on):
        return Exit.REFUSED
    return Exit.CHANGES if exit_code and found_classes else Exit.DONE

"""The ``topiarist drift`` command: compare a fleet with its manifests and write a report.

Reads snapshots, or with ``--live`` the clusters, and writes only the report folder. The comparison runs in this process
or in Spark (``topiarist.drift``), which is imported only when it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from topiarist.cli import load, options, terminal
from topiarist.cli.clusters import ClusterSessions
from topiarist.cli.settings import Settings
from topiarist.drift.findings import DriftClass
from topiarist.errors import Exit
from topiarist.text import format_count

if TYPE_CHECKING:
    from topiarist.desired.resolve import Desired
    from topiarist.drift.engine import Engine
    from topiarist.drift.snapshots import ClusterInput, SnapshotInventory


_MAX_SHOWN_LINES = 10


@click.command(
    "drift",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist drift topics/ --clusters clusters.yaml --snapshots snapshots --out report
  topiarist drift topics/ --clusters clusters.yaml --live --out report
  topiarist drift topics/ --snapshots snapshots --out report --previous report
  topiarist drift topics/ --snapshots snapshots --out report --fail-on missing

\b
Exit codes: 0 reported; 1 error, or the report lacks clusters or rows that could not be
read; 2 usage error. With --exit-code also: 3 there are findings. With --fail-on also:
4 there are findings of these classes.
""",
)
@options.manifests
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
@options.option("--out", required=True, type=click.Path(), metavar="FOLDER", help="Folder for the report.")
@options.option(
    "--engine",
    type=click.Choice(["auto", "python", "spark"]),
    default="auto",
    show_default=True,
    help="Compare in this process (python) or in Spark; auto uses Spark for ten million topics or more.",
)
@options.option(
    "--previous",
    type=click.Path(),
    metavar="FOLDER",
    help="Previous report, to show new findings and the age of others.",
)
@options.option("--exit-code", is_flag=True, help="End with exit code 3 if there are findings.")
@options.option(
    "--fail-on",
    multiple=True,
    type=click.Choice([kind.value for kind in DriftClass], case_sensitive=False),
    metavar="CLASS",
    help=f"End with exit code 4 if there are findings of this class: {', '.join(kind.value for kind in DriftClass)}.",
)
def command(snapshots: tuple[str, ...], live: bool, out: str, previous: str | None, **values: Any) -> None:
    """Report which topics on which clusters differ from their manifests: fields, severity, and since when.

    Compares snapshots or live clusters in the same way as a plan, and writes only the report: findings as JSON lines,
    and a summary as JSON, Markdown, Prometheus metrics and HTML.
    """
    from topiarist.adapters.snapshots.codec import format_time
    from topiarist.drift.history import PreviousReport
    from topiarist.drift.live import ConnectOptions
    from topiarist.drift.report import ReportJob, compare_and_write
    from topiarist.drift.snapshots import UnusedInput
    from topiarist.drift.uris import to_local_path

    engine, exit_code, fail_on = (values.pop(name) for name in ("engine", "exit_code", "fail_on"))
    settings = options.build_settings(values)
    if live == bool(snapshots):
        raise click.UsageError("give either --snapshots or --live")
    paths, out, previous = [*map(to_local_path, snapshots)], to_local_path(out), to_local_path(previous or "")
    # With snapshots no cluster needs an address: a value in ``snapshot`` turns off the loader's check for it.
    desired = load.load_manifests(replace(settings, snapshot="".join(snapshots[:1])), with_policies=False).desired
    run = _choose_engine(engine, paths, (out, previous), settings)
    # Scheduled runs use one command line each time, so the first run has no previous report and that is no error.
    is_first = not previous or (previous == out and not run.exists(out))
    previous_report = PreviousReport() if is_first else run.load_previous(previous)
    now = datetime.now(UTC)
    inventory = None if live else run.open_snapshots(paths, desired.clusters)
    if inventory is not None:
        run = _switch_to_spark_if_large(run, engine, inventory, settings)
    with run.create_report_folder(out) as folder, terminal.ProgressBar(len(desired.clusters), settings) as progress:
        if live:
            inventory = run.read_live(
                desired.clusters, ConnectOptions(settings.owner, settings.connect_timeout), folder
            )
        as_of = (inventory.newest_taken_at if inventory else None) or now
        unused_input = inventory.unused_input if inventory else UnusedInput()
        job = ReportJob(desired, settings.run_options, format_time(as_of), previous_report, unused_input, progress.step)
        if inventory is None:
            summary = compare_and_write(job, _read_live(desired, settings, now), folder)
        else:
            _log_limited(f"error: cluster {name}: {said}" for name, said in inventory.read_errors.items())
            summary = run.compare_and_write(job, inventory, folder)
    _log_summary(summary, out, settings)
    raise click.exceptions.Exit(int(_exit_code(summary, exit_code, fail_on)))


def _choose_engine(engine: str, paths: Sequence[str], other_paths: Sequence[str], settings: Settings) -> Engine:
    """Return the engine, as far as it can be chosen before the number of topics is known."""
    from topiarist.drift import engine as engine_

    is_spark = engine_.is_spark_selected(engine, paths, other_paths)
    return _start_spark_engine(settings) if is_spark else engine_.LocalEngine()


def _switch_to_spark_if_large(chosen: Engine, engine: str, inventory: SnapshotInventory, settings: Settings) -> Engine:
    """Return Spark in place of the chosen engine if the snapshots are large; else ``chosen``.

    Raises ``TopiaristError`` (PrerequisiteMissing) if Spark is needed and not installed.
    """
    from topiarist.drift import engine as engine_

    is_undecided = engine == engine_.AUTO and isinstance(chosen, engine_.LocalEngine)
    if not is_undecided or inventory.count_rows() < engine_.SPARK_MIN_TOPICS:
        return chosen
    engine_.require_spark()
    return _start_spark_engine(settings)


def _start_spark_engine(settings: Settings) -> Engine:
    from topiarist.drift.spark.engine import SparkEngine

    return SparkEngine(quiet=settings.verbosity < 0)


def _read_live(desired: Desired, settings: Settings, now: datetime) -> Iterator[ClusterInput]:
    """Read all clusters in parallel and yield their states.

    An unreadable cluster is logged to stderr and yields its problem, for the report.
    """
    from topiarist.drift.live import describe_read_failure
    from topiarist.drift.snapshots import ClusterInput
    from topiarist.reconcile import read_cluster

    with ClusterSessions(desired.clusters, settings, keep_open=False) as fleet:
        states = fleet.map_sessions(lambda name, cluster: read_cluster(cluster, desired.clusters[name].cluster_id))
    inputs = [
        ClusterInput(name, now, states[name])
        if name in states
        else ClusterInput(name, problem=describe_read_failure(fleet.errors[name]))
        for name in sorted(desired.clusters)
    ]
    return iter(inputs)


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
    if broken := inputs["broken"]:
        _log_limited([f"{format_count(broken, 'row')} could not be used: {out}/broken.jsonl has them"])
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
    if summary["clusters"]["unknown"] or summary["inputs"]["broken"]:
        return Exit.ERROR
    found_classes = summary["findings"]["byClass"]
    if any(kind in found_classes for kind in fail_on):
        return Exit.REFUSED
    return Exit.CHANGES if exit_code and found_classes else Exit.DONE

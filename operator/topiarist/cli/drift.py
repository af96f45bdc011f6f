"""``topiarist drift``: what a whole fleet holds, against what the manifests say, as a report. Sends no write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from topiarist.cli import inputs, options, terminal
from topiarist.cli.fleet import Fleet
from topiarist.core.discrepancy import Kind
from topiarist.core.units import count
from topiarist.errors import Exit
from topiarist.settings import Settings

if TYPE_CHECKING:
    from topiarist.desired import Desired
    from topiarist.drift.observing import Observation, Recorded
    from topiarist.drift.running import Engine

_SHOWN = 10


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
Exit codes: 0 reported, whatever was found; 2 wrong usage.
1 an error: also, with a report, clusters or rows that could not be read.
With --exit-code also: 3 there are findings. With --fail-on: 4 there are such.
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
    help="Snapshots: files, folders, or addresses for Spark.",
)
@options.option("--live", is_flag=True, help="Read the clusters themselves.")
@options.option("--out", required=True, type=click.Path(), metavar="FOLDER", help="Where the report is to be.")
@options.option(
    "--engine",
    type=click.Choice(["auto", "python", "spark"]),
    default="auto",
    show_default=True,
    help="What compares: this process, or Spark; auto takes Spark for ten million topics and more.",
)
@options.option("--previous", type=click.Path(), metavar="FOLDER", help="An earlier report: what is new, since when.")
@options.option("--exit-code", is_flag=True, help="End with 3 if there are findings.")
@options.option(
    "--fail-on",
    multiple=True,
    type=click.Choice([kind.value for kind in Kind], case_sensitive=False),
    metavar="CLASS",
    help=f"End with 4 if there are findings of this class: {', '.join(kind.value for kind in Kind)}.",
)
def command(snapshots: tuple[str, ...], live: bool, out: str, previous: str | None, **values: Any) -> None:
    """Report which topics on which clusters differ from their manifests, in what, how badly, and since when.

    Reads snapshots, or the clusters themselves, and writes nothing but the report: findings as JSON lines, and a
    summary as JSON, Markdown, metrics and a page. What differs is what a plan would say.
    """
    from topiarist.adapters.snapshot import text_of
    from topiarist.drift.history import Previous
    from topiarist.drift.observing import Inputs
    from topiarist.drift.places import here
    from topiarist.drift.reading_live import Approach
    from topiarist.drift.report import Job, write

    engine, exit_code, fail_on = (values.pop(name) for name in ("engine", "exit_code", "fail_on"))
    settings = options.settings(values)
    if live == bool(snapshots):
        raise click.UsageError("give --snapshots with a file or folder, or --live: one of the two")
    paths, out, previous = [*map(here, snapshots)], here(out), here(previous or "")
    # With snapshots no cluster needs an address: what says so to whoever loads is that there is one.
    desired = inputs.load(replace(settings, snapshot="".join(snapshots[:1])), ruled=False)
    run = _engine(engine, paths, (out, previous), settings)
    # The first report of all has none before it, and whoever runs this by the clock has one command for each time.
    first = not previous or (previous == out and not run.exists(out))
    before = Previous() if first else run.previous(previous)
    now = datetime.now(UTC)
    recorded = None if live else run.recorded(paths, desired.clusters)
    if recorded is not None:
        run = _larger(run, engine, recorded, settings)
    with run.folder(out) as folder, terminal.Progress(len(desired.clusters), settings) as progress:
        if live:
            recorded = run.live(desired.clusters, Approach(settings.owner, settings.connect_timeout), folder)
        as_of = (recorded.newest if recorded else None) or now
        found = recorded.inputs if recorded else Inputs()
        job = Job(desired, settings.run, text_of(as_of), before, found, progress.step)
        if recorded is None:
            summary = write(job, _live(desired, settings, now), folder)
        else:
            _some(f"error: cluster {name}: {said}" for name, said in recorded.said.items())
            summary = run.write(job, recorded, folder)
    _remark(summary, out, settings)
    raise click.exceptions.Exit(int(_code(summary, exit_code, fail_on)))


def _engine(engine: str, paths: Sequence[str], others: Sequence[str], settings: Settings) -> Engine:
    """What is to compare, as far as that is known before the fleet's size."""
    from topiarist.drift import engines, running

    if not engines.by_spark(engine, paths, others):
        return running.InProcess()
    return _by_spark(settings)


def _larger(run: Engine, engine: str, recorded: Recorded, settings: Settings) -> Engine:
    """The same, now that the size is known. Raises ``TopiaristError`` (PrerequisiteMissing)."""
    from topiarist.drift import engines, running

    if engine != engines.AUTO or not isinstance(run, running.InProcess) or recorded.rows() < engines.ENOUGH:
        return run
    engines.require_spark()
    return _by_spark(settings)


def _by_spark(settings: Settings) -> Engine:
    """Spark, started; only now is any of it imported."""
    from topiarist.drift.spark_engine import BySpark

    return BySpark(quiet=settings.verbosity < 0)


def _live(desired: Desired, settings: Settings, now: datetime) -> Iterator[Observation]:
    """The clusters as they are, read at the same time; what cannot be read is said on stderr and in the report."""
    from topiarist.drift.observing import Observation
    from topiarist.drift.reading_live import unread
    from topiarist.reconcile import read

    with Fleet(desired.clusters, settings, keep=False) as fleet:
        states = fleet.each(lambda name, cluster: read(cluster, desired.clusters[name].cluster_id))
    found = [
        Observation(name, now, states[name])
        if name in states
        else Observation(name, problem=unread(fleet.failed[name]))
        for name in sorted(desired.clusters)
    ]
    return iter(found)


def _remark(summary: Mapping[str, Any], out: str, settings: Settings) -> None:
    """The report in one line, and what of the input a person should know."""
    if settings.verbosity < 0:
        return
    inputs = summary["inputs"]
    _some(f"{one['file']}: passed over, {one['newer']} of {one['cluster']} is newer" for one in inputs["superseded"])
    _some(f"{one['file']}: passed over, cluster {one['cluster']} is not of this run" for one in inputs["strangers"])
    problems = ((one["cluster"], one["problem"]) for one in summary["byCluster"] if one["problem"] is not None)
    _some(f"cluster {cluster}: not compared: {problem}" for cluster, problem in problems)
    if broken := inputs["broken"]:
        _some([f"{count(broken, 'row')} could not be used: {out}/broken.jsonl has them"])
    findings, clusters = summary["findings"], summary["clusters"]
    _some([f"{out}: {count(findings['total'], 'finding')} on {count(clusters['compared'], 'cluster')}"])


def _some(lines: Iterable[str]) -> None:
    """The first lines of what may be many, and how many more there are."""
    found = [*lines]
    more = [f"and {len(found) - _SHOWN:,} more of these"] if len(found) > _SHOWN else []
    for line in (*found[:_SHOWN], *more):
        terminal.say(terminal.plain_lines(line))


def _code(summary: Mapping[str, Any], exit_code: bool, fail_on: Sequence[str]) -> Exit:
    if summary["clusters"]["unknown"] or summary["inputs"]["broken"]:
        return Exit.ERROR
    found = summary["findings"]["byClass"]
    if any(kind in found for kind in fail_on):
        return Exit.REFUSED
    return Exit.CHANGES if exit_code and found else Exit.DONE

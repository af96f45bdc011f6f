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
@options.connection
@options.owner
@click.option("--snapshots", multiple=True, type=click.Path(), metavar="PATH", help="Snapshots: files, or folders.")
@click.option("--live", is_flag=True, help="Read the clusters themselves.")
@click.option("--out", required=True, type=click.Path(), metavar="FOLDER", help="Where the report is to be.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "python", "spark"]),
    default="auto",
    show_default=True,
    help="What compares: this process, or Spark; auto takes Spark for 200,000 topics and more.",
)
@click.option("--previous", type=click.Path(), metavar="FOLDER", help="An earlier report: what is new, since when.")
@click.option("--exit-code", is_flag=True, help="End with 3 if there are findings.")
@click.option(
    "--fail-on",
    multiple=True,
    type=click.Choice([kind.value for kind in Kind], case_sensitive=False),
    metavar="CLASS",
    help=f"End with 4 if there are findings of this class: {', '.join(kind.value for kind in Kind)}.",
)
def command(snapshots: tuple[str, ...], live: bool, out: str, previous: str | None, **values: Any) -> None:
    """Report which topics on which clusters differ from their manifests, in what, how badly, and since when.

    Reads snapshots, or the clusters themselves, and writes nothing but the report: findings as JSON lines, and a
    summary as JSON, Markdown and metrics. What differs is what a plan would say.
    """
    from topiarist.drift import history, report
    from topiarist.drift.findings import text_of
    from topiarist.drift.observing import Inputs, Recorded
    from topiarist.drift.outputs import Folder

    engine, exit_code, fail_on = (values.pop(name) for name in ("engine", "exit_code", "fail_on"))
    settings = options.settings(values)
    if live == bool(snapshots):
        raise click.UsageError("give --snapshots with a file or folder, or --live: one of the two")
    # With snapshots no cluster needs an address: what says so to whoever loads is that there is one.
    desired = inputs.load(replace(settings, snapshot="".join(snapshots[:1])), ruled=False)
    before = history.load(previous) if previous else history.Previous()
    now = datetime.now(UTC)
    recorded = None if live else Recorded(snapshots, desired.clusters)
    seen = (
        _live(desired, settings, now) if recorded is None else recorded.observations(desired.specs, settings.run.owner)
    )
    as_of = now if recorded is None else recorded.newest or now
    found = Inputs() if recorded is None else recorded.inputs
    with Folder(out) as folder, terminal.Progress(len(desired.clusters), settings) as progress:
        job = report.Job(desired, settings.run, text_of(as_of), before, found, progress.step)
        if recorded is not None and _by_spark(engine, recorded):
            from topiarist.drift import spark_report

            summary = spark_report.write(job, recorded, folder)
        else:
            summary = report.write(job, seen, folder)
    _remark(summary, out, settings)
    raise click.exceptions.Exit(int(_code(summary, exit_code, fail_on)))


def _by_spark(engine: str, recorded: Recorded) -> bool:
    """Whether Spark is to compare; nothing of it is imported unless it is. Raises ``TopiaristError`` without it."""
    from topiarist.drift import engines

    chosen = engine == "spark" or (engine == "auto" and recorded.rows() >= engines.ENOUGH)
    if chosen:
        engines.require_spark()
    return chosen


def _live(desired: Desired, settings: Settings, now: datetime) -> Iterator[Observation]:
    """The clusters as they are, read at the same time; what cannot be read is said on stderr and in the report."""
    from topiarist.drift.observing import Observation
    from topiarist.reconcile import read

    with Fleet(desired.clusters, settings, keep=False) as fleet:
        states = fleet.each(lambda name, cluster: read(cluster, desired.clusters[name].cluster_id))
    found = [
        Observation(name, now, states[name])
        if name in states
        # The reason and no more: what the error says names addresses, and a report may be read by many.
        else Observation(name, problem=f"could not be read ({fleet.failed[name].reason})")
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

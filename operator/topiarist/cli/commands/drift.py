"""The ``topiarist drift`` command: compare a fleet with its manifests and write a report.

Reads snapshots, or with ``--live`` the clusters, and writes only the report folder. The comparison runs in this process
or in Spark (``topiarist.drift``), which is imported only when it is needed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from heapq import merge
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct
from msgspec.structs import replace

from topiarist.cli import options, terminal
from topiarist.cli.parameters import reject_options
from topiarist.cli.terminal import Settings
from topiarist.drift.findings import SEVERITY_RANK, DriftClass, Severity
from topiarist.errors import Exit, TopiaristError
from topiarist.kafka.types import MAX_KAFKA_VERSION, KafkaVersion, format_version
from topiarist.text import format_count, quote

if TYPE_CHECKING:
    from topiarist.drift.exceptions import DriftException
    from topiarist.drift.history import PreviousReport
    from topiarist.drift.outputs.folder import ReportFolder
    from topiarist.drift.outputs.routing import News, Webhook
    from topiarist.drift.report import Engine
    from topiarist.drift.snapshots import ClusterInput
    from topiarist.drift.task import Shipped
    from topiarist.model.spec import ClusterSpec
    from topiarist.runs.inputs import RunInputs


_MAX_SHOWN_LINES = 10

_PATHS = ("out", "previous", "history", "baseline", "codeowners", "from_")
"""Options with a path beside ``snapshots``, which may be a ``file:`` URI."""

_OF_REPAIRS = (
    *("from_", "id_", "cause", "severity", "class_", "field", "responsible", "manifest"),
    *("author", "until", "reason", "write"),
)
"""Options of ``--fix`` alone, by their names."""

_NOT_FOR_REPAIRS = ("between", "exit_code", "fail_on", "selector", "require_topics", "owner_label", "codeowners")
"""Options without effect on ``--fix``, by their names."""

_OF_REPORTS = ("engine", "jobs", "split_by", "webhook", "link_template", "upgrade_to", "baseline")
"""Options of a report alone, by their names."""

_OF_MANIFESTS = ("require_topics", "kafka_version", "owner_label", "codeowners")
"""Options that need manifests, by their names."""

_OF_INPUTS = (
    *("cluster", "topic", "selector", "kafka_version", "bootstrap_servers", "zookeeper", "owner"),
    *("baseline", "owner_label", "codeowners", "fix", "from_"),
)
"""Options of inputs that ``--demo`` makes or replaces, by their names."""


class _DriftOptions(Struct, frozen=True):
    """The values of the options of this command alone; ``Settings`` has those that it shares with others."""

    snapshots: tuple[str, ...]
    live: bool
    out: str
    demo: Path | None
    engine: str
    jobs: int | None
    previous: str
    history: str
    baseline: str
    owner_label: str
    codeowners: str
    split_by: str | None
    webhook: str
    link_template: str
    upgrade_to: KafkaVersion | None
    exit_code: bool
    fail_on: tuple[str, ...]
    between: str
    form: str
    fix: str | None
    from_: str
    id_: tuple[str, ...]
    cause: tuple[str, ...]
    severity: tuple[str, ...]
    class_: tuple[str, ...]
    field: tuple[str, ...]
    responsible: tuple[str, ...]
    manifest: tuple[str, ...]
    author: str
    until: str
    reason: str
    write: bool


def _check_link_template(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    from topiarist.drift.rows import LINK_FIELDS, find_link_problem

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
  topiarist drift topics/ --clusters clusters.yaml --snapshots snapshots --out report --previous report
  topiarist drift topics/ --clusters clusters.yaml --snapshots snapshots --out report --history history
  topiarist drift topics/ --snapshots snapshots --out report --fail-on missing --fail-on High
  topiarist drift --demo fleet
  topiarist drift --between dev,prod --snapshots snapshots
  topiarist drift topics/ --clusters clusters.yaml --between dev,stage,prod --live --selector team=shop
  topiarist drift topics/ --clusters clusters.yaml --between dev,stage,prod --snapshots snapshots --out report
  topiarist drift topics/ --clusters clusters.yaml --from report --fix plan --severity Critical --out plan.json
  topiarist drift topics/ --from report --fix manifest --id 3f2b90c1d4e5 | git apply
  topiarist drift topics/ --from report --fix accept --field 'config.*' --responsible shop
      --author ops --until 2027-03-31 --reason 'PLAT-7' >>exceptions.yaml
  topiarist drift --from report --fix baseline --author ops --until 2027-03-31 --reason 'known on the first day'
      --out baseline.jsonl
  topiarist drift topics/ --snapshots snapshots --out report --baseline baseline.jsonl
  topiarist drift topics/ --snapshots snapshots --out report --previous report --webhook env:HOOK

\b
Exit codes: 0 reported; 1 error, or the report lacks clusters, rows or manifests that
could not be read; 2 usage error. With --exit-code also: 3 there are findings. With --fail-on also:
4 there are findings of these classes, or so severe.
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
    help="Snapshots to compare: a file, a folder, or a URI such as s3://bucket/folder. Can be repeated.",
)
@options.option("--live", is_flag=True, help="Read the clusters, instead of snapshots.")
@options.option(
    "--out",
    default="",
    type=click.Path(),
    metavar="FOLDER",
    help="Folder for the report; with --fix the file to write.",
)
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
    default="",
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
    "--baseline",
    default="",
    type=click.Path(),
    metavar="FILE",
    help="Accept the findings of this file, which --fix baseline wrote, until its last day: only news count.",
)
@options.responsible
@options.option(
    "--split-by",
    type=click.Choice(["responsible"]),
    help="Also write one file of findings for each responsible team, in the folder by-responsible of the report.",
)
@options.option(
    "--webhook",
    default="",
    metavar="REFERENCE",
    help="Send the new, worse and resolved findings as JSON to the URL in env:NAME or file:PATH.",
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
    type=click.Choice([each.value for each in (*DriftClass, *Severity)], case_sensitive=False),
    metavar="CLASS|SEVERITY",
    help="End with exit code 4 if there are findings of this class, or of this severity or a more severe one:"
    f" {', '.join(each.value for each in (*DriftClass, *Severity))}.",
)
@options.option(
    "--between",
    default="",
    metavar="NAME,NAME",
    help="Compare these clusters with each other: a matrix of their values. With --out it is a part of the report. Else"
    " it is printed instead of a report, without manifests: with --topic or --selector all values of these topics, else"
    " those that differ.",
)
@options.format_option(("text", "json"))
@options.option(
    "--fix",
    type=click.Choice(["plan", "manifest", "accept", "baseline"]),
    help="Instead of a report, repair findings of --from: by a plan for exactly these, saved with --out; by giving the"
    " manifests the values of the clusters, as a diff; by DriftException documents that accept them; or by one file"
    " that accepts them all until a day, for --baseline.",
)
@options.option(
    "--from", "from_", default="", type=click.Path(), metavar="FOLDER", help="Report with the findings for --fix."
)
@options.option(
    "--id", "id_", multiple=True, metavar="ID", help="With --fix: this finding. Can be repeated, as all of these."
)
@options.option("--cause", multiple=True, metavar="ID", help="With --fix: findings of this cause of the report.")
@options.option(
    "--severity",
    multiple=True,
    type=click.Choice([each.value for each in Severity], case_sensitive=False),
    help="With --fix: findings of this severity.",
)
@options.option(
    "--class",
    "class_",
    multiple=True,
    type=click.Choice([kind.value for kind in DriftClass], case_sensitive=False),
    metavar="CLASS",
    help="With --fix: findings of this class.",
)
@options.option(
    "--field", multiple=True, metavar="PATTERN", help="With --fix: findings of these fields, such as 'config.*'."
)
@options.option("--responsible", multiple=True, metavar="TEAM", help="With --fix: findings of this team or owner.")
@options.option("--manifest", multiple=True, metavar="NAME", help="With --fix: findings of this manifest.")
@options.option("--author", default="", metavar="NAME", help="With --fix accept or baseline: who accepts.")
@options.option("--until", default="", metavar="YYYY-MM-DD", help="With --fix accept or baseline: the last day.")
@options.option("--reason", default="", metavar="TEXT", help="With --fix accept or baseline: why.")
@options.option("--write", is_flag=True, help="With --fix manifest: write the files, instead of printing a diff.")
def command(**values: Any) -> None:
    """Report which topics on which clusters differ from their manifests: fields, severity, and since when.

    Compares snapshots or live clusters in the same way as a plan, and writes only the report: findings as JSON lines,
    and a summary as JSON, Markdown, Prometheus metrics and HTML.
    """
    from topiarist.cli.drift_tasks import compare_between, fix_findings
    from topiarist.drift.outputs.routing import News, Webhook
    from topiarist.drift.storage import is_same_folder, to_local_path

    given = _DriftOptions(**{name: values.pop(name) for name in _DriftOptions.__struct_fields__})
    if given.demo is not None:
        _reject_other_inputs(given, *values["paths"], *values["clusters"], *values["platform"])
        given, values["paths"] = _write_demo(given, given.demo)
    local = {name: to_local_path(getattr(given, name)) for name in _PATHS}
    given = replace(given, snapshots=tuple(map(to_local_path, given.snapshots)), **local)
    settings = options.build_settings(values)
    if not given.fix:
        reject_options(_OF_REPAIRS, "for --fix, which repairs findings of a report")
    if given.fix or (given.between and not given.out):
        reject_options(_OF_REPORTS, "for a report, which --fix and --between without --out do not make")
    if given.between and settings.cluster:
        raise click.UsageError("--cluster selects one cluster, and --between compares several: give one of the two")
    if given.between and not given.out:
        if not (settings.paths or settings.clusters or settings.platform):
            reject_options(_OF_MANIFESTS, "for manifests: give the files or folders with them")
        raise click.exceptions.Exit(int(compare_between(given, settings)))
    if given.form != "text":
        message = "--format is for --between without --out: a report has all its formats in its folder"
        raise click.UsageError(message)
    if given.fix:
        reject_options(_NOT_FOR_REPAIRS, "not for --fix, which selects findings by options of its own")
        if given.fix not in ("accept", "baseline"):
            reject_options(("author", "until", "reason"), "for --fix accept and --fix baseline")
        raise click.exceptions.Exit(int(fix_findings(given, settings)))
    _check_inputs(given, settings.selection.text)
    _check_folders(given, settings)
    # Live clusters are read at another time in the next run, so that its history has this run.
    is_repeatable = not (given.live if given.history else is_same_folder(given.previous, given.out))
    # Before the work, because its reference may be wrong.
    webhook = Webhook(given.webhook, is_repeatable=is_repeatable) if given.webhook else None
    news = News()
    summary = _report(given, settings, news)
    _log_summary(summary, given.out, settings)
    if given.demo is not None:
        terminal.print_result(f"Open in a browser: {shlex.quote(given.out)}/report.html\n")
    if webhook:
        _send(webhook, news, summary)
    raise click.exceptions.Exit(int(_exit_code(summary, given.exit_code, given.fail_on)))


def _send(webhook: Webhook, news: News, summary: Mapping[str, Any]) -> None:
    """Send the news of a report. Raises ``TopiaristError`` if they are not accepted."""
    from topiarist.drift.outputs.routing import describe_sent

    if not news:
        terminal.log("nothing is new, worse or resolved, so nothing was sent to the webhook")
        return
    message = news.make_message(summary)
    webhook.send(message)
    terminal.log(f"sent to the webhook: {describe_sent(message)}")


def _report(given: _DriftOptions, settings: Settings, news: News) -> Mapping[str, Any]:
    """Compare the fleet, write the report and add it to the history; return its summary, and collect its news."""
    from topiarist.adapters.snapshots.codec import format_time
    from topiarist.cli.drift_tasks import compare_for_report, repairs_of
    from topiarist.drift.repair import load_baseline
    from topiarist.drift.report import Cost, LocalEngine, ReportJob, compare_and_write
    from topiarist.drift.snapshots import UnusedInput
    from topiarist.drift.task import ConnectOptions, LiveCluster
    from topiarist.runs.settings import WrongSettings

    run_inputs = _load_manifests(given, settings)
    desired = run_inputs.desired
    run = _choose_engine(given, settings)
    now = datetime.now(UTC).replace(microsecond=0)
    inventory = None if given.live else run.open_snapshots(given.snapshots, desired.clusters, now)
    if inventory and not {*desired.clusters} - {""} and not inventory.find_lines(""):
        raise WrongSettings("found no Cluster document, and no snapshot of a cluster without a name: give --clusters")
    as_of = format_time((inventory.newest_taken_at if inventory else None) or now)
    baseline = load_baseline(given.baseline) if given.baseline else None
    shipped = _ship(given, settings, run_inputs, as_of, baseline.header if baseline else None)
    between, inputs = compare_for_report(given, settings, shipped, inventory) if given.between else (None, {})
    run_history = run.open_history(given.history) if given.history else None
    previous_report = run_history.load_previous(as_of) if run_history else _load_previous(run, given)
    if isinstance(run, LocalEngine):
        topics = inventory.count_rows() if inventory else sum(map(len, desired.specs.values()))
        run.choose_jobs(given.jobs, Cost(len(desired.clusters), topics, previous_report.dropped, is_live=given.live))
    with run.create_report_folder(given.out) as folder, terminal.ProgressBar(len(desired.clusters), settings) as bar:
        if settings.verbosity >= 0:
            terminal.log(terminal.sanitize_lines(f"comparing in {run.description}"))
        _add_final_steps(folder, given, news)
        job = ReportJob(
            shipped,
            previous_report,
            inventory.unused_input if inventory else UnusedInput(),
            run_inputs.invalid_documents,
            repairs_of(given, settings),
            bar.step,
            lambda cluster, message: terminal.log(terminal.sanitize_lines(f"error: cluster {cluster}: {message}")),
            baseline.rows if baseline else {},
            between,
            inputs,
        )
        if given.live and isinstance(run, LocalEngine) and run.jobs == 1:
            others = {name: spec for name, spec in desired.clusters.items() if name not in inputs}
            sources = merge(sorted(inputs.items()), _read_live(others, settings, now), key=itemgetter(0))
            summary = compare_and_write(job, sources, folder)
        else:
            live = LiveCluster(ConnectOptions(settings.owner, settings.connect_timeout))
            summary = run.compare(job, inventory or live, folder)
    if run_history is not None:
        run_history.append(given.out, summary, previous_report)
    return summary


def _load_manifests(given: _DriftOptions, settings: Settings) -> RunInputs:
    """Return the manifests of the fleet, and what is wrong with others, which the report names.

    With snapshots no cluster needs an address: a value in ``snapshot`` turns off the loader's check for it. The report
    selects by itself, so that findings of the other topics do not count as resolved.
    """
    from topiarist.runs.inputs import load_manifests, report_unmatched_patterns

    offline_settings = replace(settings, snapshot="".join(given.snapshots[:1]), topic=(), selector="")
    listener = terminal.TerminalListener(settings)
    inputs = load_manifests(offline_settings, listener, with_policies=False, skip_invalid=True)
    report_unmatched_patterns(inputs.desired.topics, settings, listener)
    return inputs


def _ship(
    given: _DriftOptions, settings: Settings, run_inputs: RunInputs, as_of: str, accepted_by: DriftException | None
) -> Shipped:
    """Return what every process of the comparison needs; ``accepted_by`` is the first line of the baseline."""
    from topiarist.cli.drift_tasks import words_of
    from topiarist.drift.exceptions import find_unjudged_topics
    from topiarist.drift.rows import RowOptions, RowWords
    from topiarist.drift.rules import load_codeowners
    from topiarist.drift.task import Shipped

    codeowners = load_codeowners(given.codeowners) if given.codeowners else None
    _log_limited(codeowners.ignored if codeowners else ())
    words, rules = RowWords(*map(tuple, words_of(given, settings))), tuple(run_inputs.severity_rules)
    return Shipped(
        run_inputs.desired,
        settings.run_options,
        as_of,
        run_inputs.exceptions,
        RowOptions(given.link_template, given.owner_label, words, rules, codeowners),
        find_unjudged_topics(run_inputs.invalid_documents) | run_inputs.unassigned_topics,
        given.upgrade_to,
        settings.selection,
        accepted_by,
    )


def _add_final_steps(folder: ReportFolder, given: _DriftOptions, news: News) -> None:
    """Let the folder do what options ask for when the findings of the report are complete."""
    from topiarist.drift.outputs.routing import split_by_responsible

    if given.webhook:
        folder.add_final_step(news.collect)
    if given.split_by:
        folder.add_final_step(split_by_responsible)


def _load_previous(run: Engine, given: _DriftOptions) -> PreviousReport:
    """Return the previous report; none in the first of scheduled runs, which use one command line each time."""
    from topiarist.drift.history import PreviousReport
    from topiarist.drift.storage import is_same_folder

    is_first = not given.previous or (is_same_folder(given.previous, given.out) and not run.exists(given.out))
    return PreviousReport() if is_first else run.load_previous(given.previous)


def _check_inputs(given: _DriftOptions, selection: str) -> None:
    from topiarist.cli.drift_tasks import parse_names

    if not given.out:
        raise click.UsageError("pass --out with the folder for the report")
    if given.live == bool(given.snapshots):
        raise click.UsageError("pass either --snapshots or --live")
    if given.between:
        parse_names(given.between)
    if given.previous and given.history:
        raise click.UsageError("pass either --previous or --history, because a history contains the previous report")
    if selection and given.history:
        raise click.UsageError(
            f"{selection}: a history takes only complete reports; pass --previous instead of --history"
        )


def _check_folders(given: _DriftOptions, settings: Settings) -> None:
    """Raise ``UsageError`` if the report would replace an input, or be a snapshot of the next run."""
    from topiarist.drift.storage import is_within

    read = {
        "--snapshots": given.snapshots,
        "--history": [given.history],
        "--baseline": [given.baseline],
        "--codeowners": [given.codeowners],
        "--clusters": settings.clusters,
        "--platform": settings.platform,
        "PATH": settings.paths,
    }
    for option, paths in read.items():
        for path in filter(None, paths):
            if is_within(path, given.out):
                message = f"{option}: found {quote(path)}, which is in the folder of --out"
                raise click.UsageError(f"{message}: each report replaces that folder as a whole")
    for path in given.snapshots:
        if is_within(given.out, path):
            message = f"--out: found {quote(given.out)}, which is in the folder of --snapshots"
            raise click.UsageError(f"{message}: the next run would read this report as snapshots")


def _reject_other_inputs(given: _DriftOptions, *paths: str) -> None:
    reject_options(_OF_INPUTS, "for a fleet of your own, and --demo makes its own")
    if any((given.live, *given.snapshots, given.out, given.previous, given.history, *paths)):
        raise click.UsageError("--demo makes its own manifests, snapshots and report: give no other input and no --out")


def _write_demo(given: _DriftOptions, folder: Path) -> tuple[_DriftOptions, tuple[str]]:
    """Write the sample fleet, and print the command that reports on it; return its values and its manifests."""
    from topiarist.drift.demo import INVALID_TEAM, OWNER_LABEL, READ_CLUSTERS, UNREAD_CLUSTER, write_demo

    folders, upgrade_to = write_demo(folder), given.upgrade_to or MAX_KAFKA_VERSION
    manifests, snapshots, report = map(str, folders)
    words = ["topiarist", "drift", manifests, "--snapshots", snapshots, "--out", report, "--owner-label", OWNER_LABEL]
    between = given.between or ",".join(READ_CLUSTERS)
    words += ["--upgrade-to", format_version(upgrade_to), "--between", between]
    lines = (
        f"{terminal.sanitize_lines(str(folder))}: a sample fleet",
        f"  {folders.manifests.name}/: clusters.yaml, exceptions.yaml, severities.yaml, and the topics of each team",
        f"  {folders.snapshots.name}/: of {', '.join(READ_CLUSTERS)}",
        f"  {UNREAD_CLUSTER} has no snapshot, and the manifest of {INVALID_TEAM} is invalid, so the exit code is 1",
        "",
        "To repeat the report:",
        f"  {shlex.join(words)}",
        "",
    )
    terminal.print_result("\n".join(lines))
    demo = replace(
        given, snapshots=(snapshots,), out=report, owner_label=OWNER_LABEL, upgrade_to=upgrade_to, between=between
    )
    return demo, (manifests,)


def _choose_engine(given: _DriftOptions, settings: Settings) -> Engine:
    """Return Spark if it is asked for or needed, else the engine of this machine; the size of the fleet is unknown."""
    from topiarist.drift.report import LocalEngine, find_spark_reason

    reason = find_spark_reason(given.engine, given.snapshots)
    if not reason:
        return LocalEngine()
    if given.jobs:
        raise click.UsageError(f"--jobs is for processes of this machine, and Spark compares: {reason}")
    from topiarist.drift.spark.engine import SparkEngine

    return SparkEngine(reason, quiet=settings.verbosity < 0)


def _read_live(
    clusters: Mapping[str, ClusterSpec], settings: Settings, now: datetime
) -> Iterator[tuple[str, ClusterInput]]:
    """Read the clusters in parallel and yield their states in order of name, each when the one before is compared.

    An unreadable cluster is logged to stderr and yields its problem, for the report.
    """
    from topiarist.drift.snapshots import ClusterInput
    from topiarist.drift.task import describe_read_failure
    from topiarist.runs.sessions import ClusterSessions

    listener = terminal.TerminalListener(settings)
    with ClusterSessions(clusters, settings, listener, keep_open=False) as fleet:
        for name, result in fleet.stream_sessions(fleet.read):
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
        f"{entry['file']}: ignored, {entry['newer']} of {entry['cluster']} is used" for entry in inputs["superseded"]
    )
    _log_limited(
        f"{entry['file']}: ignored, cluster {entry['cluster']} is not in this run"
        for entry in inputs["unknownClusters"]
    )
    problems = ((entry["cluster"], entry["problem"]) for entry in summary["byCluster"] if entry["problem"] is not None)
    _log_limited(f"cluster {cluster}: not compared: {problem}" for cluster, problem in problems)
    _log_limited(
        f"cluster {entry['cluster']}: {format_count(entry['notJudged'], 'topic')} not evaluated: rows are missing"
        for entry in summary["incomplete"]
    )
    if broken := inputs["broken"]:
        rows = f"{broken:,} {'row or file' if broken == 1 else 'rows or files'} not used: {out}/broken.jsonl has them"
        _log_limited([f"{rows}; take these snapshots again"])
    if baseline := summary["baseline"]:
        counts = ", ".join(f"{baseline[name]:,} {name}" for name in ("accepted", "worse", "unmatched"))
        if ended := baseline["findings"] - sum(baseline[name] for name in ("accepted", "worse", "unmatched")):
            counts += f", {ended:,} counted again after the last day"
        known = format_count(baseline["findings"], "finding")
        _log_limited([f"{baseline['file']}: {known} until {baseline['until']}: {counts}"])
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
    severities = [SEVERITY_RANK[name] for name in summary["bySeverity"]]
    for each in fail_on:
        is_so_severe = each in SEVERITY_RANK and any(rank <= SEVERITY_RANK[each] for rank in severities)
        if each in found_classes or is_so_severe:
            return Exit.REFUSED
    return Exit.CHANGES if exit_code and found_classes else Exit.DONE

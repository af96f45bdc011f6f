"""The commands that write topics: ``topiarist apply``, ``nudge`` and ``unmanage``.

Each plans, shows the plan, confirms, applies and reports. The modes of ``apply`` (``runs.modes``) make its plans, and
``cli.execute`` applies them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec.structs import replace

from topiarist.cli import formats, options, terminal
from topiarist.cli.parameters import complete_topic, reject_options
from topiarist.cli.terminal import Settings
from topiarist.errors import Exit

if TYPE_CHECKING:
    from topiarist.cli.terminal import TerminalListener
    from topiarist.model.outcome import ReconcileReport
    from topiarist.model.state import ClusterState
    from topiarist.planning.without_specs import NudgePlan, UnmanagePlan, UnmanageRequest
    from topiarist.ports import OpenCluster
    from topiarist.runs import modes


F = TypeVar("F", bound=Callable[..., Any])
P = TypeVar("P")
T = TypeVar("T", bound="NudgePlan | UnmanagePlan")


def _named_topics(owner: Callable[[F], F]) -> Callable[[F], F]:
    """Add the arguments and options of a command about named topics; ``owner`` are its options about owners."""
    return options.combine_options(
        options.argument("topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topic),
        options.clusters,
        options.connection,
        owner,
        options.lock_timeout,
        options.verbosity,
        options.yes,
    )


def _parse_topics(parse: Callable[[Sequence[str]], P], topics: Sequence[str]) -> P:
    try:
        return parse(topics)
    except ValueError as error:
        raise click.UsageError(f"{error}. Manifests of clusters are given with --clusters") from None


def _plan_and_apply(
    settings: Settings,
    verb: str,
    make: Callable[[str, OpenCluster, ClusterState], T],
    log: Callable[[Mapping[str, T]], Exit],
    *,
    yes: bool,
) -> tuple[list[ReconcileReport], int]:
    """Plan on each cluster, show the plans, confirm, apply; return the reports and the exit code of the run.

    ``log`` says what the plans leave out, and returns the exit code for it.
    """
    from topiarist.cli.execute import apply_plans, confirm_plans
    from topiarist.model.outcome import worst_exit_code

    terminal.require_interactive(yes, verb.lower())
    with terminal.open_sessions(settings) as sessions:
        found = sessions.map_sessions(lambda name, cluster: make(name, cluster, sessions.read(name, cluster)))
        plans = [each.plan for each in found.values() if each.plan.topics]
        terminal.print_result(formats.format_plans(plans, settings, applying=True))
        left_out = log(found)
        if not yes and any(plan.has_changes for plan in plans):
            confirm_plans(plans, verb)
        reports, code = apply_plans(sessions, plans, settings)
    return reports, code if code > max(Exit) else int(worst_exit_code([left_out, Exit(code)]))


# The ``topiarist nudge`` command: write the topic znodes of overlooked topics again, unchanged.
#
# A controller that missed a topic reads its znode after such a write. The plan is ``plan_nudge``; ``cli.execute``
# writes it as any other plan and waits for the controller.

_NO_PROGRESS_TIMEOUT_S = 10.0
"""Seconds without progress after which the nudge is reported as failed.

A controller reacts within milliseconds.
"""

_NO_REACTION_HINT = (
    "the controller did not react to the nudge: restart the broker that is controller, so that another broker becomes"
    " controller and reads all topics again"
)


@click.command(
    "nudge",
    cls=options.ClusterCommand,
    epilog="""\b
Examples:
  topiarist nudge audit --zookeeper localhost:2181/kafka
  topiarist nudge audit clicks --clusters clusters.yaml --cluster eu --yes

\b
Exit codes: 0 initialized, or no nudge was needed; 1 error, no such topic, or no reaction
of the controller; 2 usage error; 4 refused: deletion or reassignment in progress, no
registered broker, frozen cluster, KRaft; 5 a topic changed since it was read.
""",
)
@_named_topics(options.owner)
def nudge_command(topics: Sequence[str], yes: bool, **values: Any) -> None:
    """Make the controller initialize topics that it has missed: describe shows them as not initialized although their
    brokers are registered.

    Only through ZooKeeper, because Kafka's protocol has no request for it: writes the znode of each TOPIC again with
    the same data, under the lock and with all checks of apply, and waits until the controller has initialized the
    partitions. Nothing else changes. Initialized topics are skipped.
    """
    from topiarist.model.outcome import Result
    from topiarist.planning.without_specs import parse_topic_names, plan_nudge

    # Only the controller's reaction shows whether the nudge helped, so the run always waits.
    settings = replace(options.build_settings(values), wait=True, wait_timeout=_NO_PROGRESS_TIMEOUT_S)
    names = _parse_topics(parse_topic_names, topics)

    def make_plan(name: str, cluster: OpenCluster, state: ClusterState) -> NudgePlan:
        return plan_nudge(state, name, {topic: cluster.inspect(topic) for topic in names}, settings.owner)

    def log(found: Mapping[str, NudgePlan]) -> Exit:
        return _log_not_nudged(names, found, settings)

    reports, code = _plan_and_apply(settings, "Nudge", make_plan, log, yes=yes)
    if any(report.outcomes_with(Result.PENDING) for report in reports):
        terminal.log(f"error: {_NO_REACTION_HINT}")
    raise click.exceptions.Exit(code)


def _log_not_nudged(names: Sequence[str], nudges: Mapping[str, NudgePlan], settings: Settings) -> Exit:
    """Log the topics that need no nudge and those that no cluster has; return ``ERROR`` for the latter.

    Returns ``DONE`` if no cluster could be read, because that error is reported already.
    """
    for cluster, nudge in nudges.items():
        label = terminal.label_cluster(cluster)
        for name in nudge.initialized if settings.verbosity >= 0 else ():
            terminal.log(f"{label}{name}: no nudge is needed, the controller has initialized all its partitions")
    absent = [name for name in names if nudges and all(name in each.not_found for each in nudges.values())]
    for name in absent:
        terminal.log(f"error: no cluster of this run has a topic {name}")
    return Exit.ERROR if absent else Exit.DONE


# The ``topiarist unmanage`` command: remove the ownership records of topics, and keep the topics.
#
# The plan is ``plan_unmanage``; ``cli.execute`` writes it under the cluster's lock. Nothing of Kafka's is changed.


@click.command(
    "unmanage",
    cls=options.ClusterCommand,
    epilog="""\b
Examples:
  topiarist unmanage audit --bootstrap-servers localhost:9092
  topiarist unmanage audit clicks --clusters clusters.yaml --cluster eu
  topiarist unmanage 'legacy-*' --clusters clusters.yaml --yes

\b
Exit codes: 0 unmanaged, or nothing to unmanage; 1 error; 2 usage error; 4 refused:
another owner, frozen cluster, KRaft; 5 a record changed since it was read.
""",
)
@_named_topics(options.ownership)
def unmanage_command(topics: Sequence[str], yes: bool, **values: Any) -> None:
    """Remove the ownership records of topics. The topics and their configs stay as they are.

    TOPIC is a name, or a pattern such as 'legacy-*', which matches only topics of this run's owner (--owner). Deletion
    records, and records of earlier topics of the same name, are removed too. Give Cluster documents with --clusters.
    """
    from topiarist.planning.without_specs import parse_unmanage_request, plan_unmanage

    settings = options.build_settings(values)
    request = _parse_topics(parse_unmanage_request, topics)

    def make_plan(name: str, _: OpenCluster, state: ClusterState) -> UnmanagePlan:
        return plan_unmanage(state, name, request, settings.run_options)

    def log(found: Mapping[str, UnmanagePlan]) -> Exit:
        return _log_absent(found, request, settings)

    _, code = _plan_and_apply(settings, "Unmanage", make_plan, log, yes=yes)
    raise click.exceptions.Exit(code)


def _log_absent(found: Mapping[str, UnmanagePlan], request: UnmanageRequest, settings: Settings) -> Exit:
    """Log the names without a record, and patterns that match no record."""
    for cluster, (plan, names) in found.items() if settings.verbosity >= 0 else ():
        label = terminal.label_cluster(cluster)
        for name in names:
            terminal.log(f"{label}{name}: nothing to unmanage, it has no ownership record")
        if request.patterns and not plan.topics and not names:
            terminal.log(f"{label}nothing to unmanage: no topic of owner {settings.owner} matches")
    return Exit.DONE


@click.command(
    "apply",
    cls=options.TopicCommand,
    epilog="""\b
Examples:
  topiarist apply topics/ --clusters clusters.yaml
  topiarist apply topics/ --bootstrap-servers localhost:9092 --yes
  topiarist apply topics/ --adopt='orders.*' --yes
  topiarist apply topics/ --yes --allow-risk DataLoss=clicks,audit --wait
  topiarist apply --plan plan.json --clusters clusters.yaml --yes --report report.jsonl
  topiarist apply topics/ --reviewed plan.json --yes

\b
Exit codes (1 takes precedence, then the highest):
  0 done, or nothing to do    4 a change was refused
  1 error                     5 a topic changed since it was planned, or a change was not reviewed
  2 usage error
""",
)
@options.manifests
@options.selection
@options.require_topics
@options.connection
@options.planning
@options.applying
@options.summary
@options.waiting
@options.no_wait
@options.in_use
@options.saved_plan
def command(yes: bool, report: str | None, **values: Any) -> None:
    """Make a plan, show it, ask for confirmation, and apply it.

    Each topic is compared with the plan directly before it is changed. Through ZooKeeper it is then changed completely
    or not at all. Through the brokers growth and configs are two requests; if only one was made, the next run makes the
    other. Refused topics are listed with the reason, and all others are changed. Ctrl-C finishes the writes in progress
    and lists the topics that were not sent. A second run finds nothing to change.

    Moves of existing replicas come last, in batches, and the run waits for them; with --no-wait it sends one batch. A
    run that ends early continues with the next one: no replica is copied twice.

    With --plan, a saved plan is applied, as far as the clusters have not changed since. With --reviewed, a new plan is
    made, and only the changes that the reviewed plan contains too are applied.
    """
    from topiarist.cli.execute import ReportFile, apply_plans, confirm_plans
    from topiarist.runs.sessions import ClusterSessions

    terminal.require_interactive(yes, "apply")
    if values["summary"] and not yes:
        raise click.UsageError("--summary shows too little for a confirmation: add --yes to apply without confirmation")
    settings = options.build_settings(values)
    if settings.wait and settings.no_wait:
        raise click.UsageError("--wait and --no-wait exclude each other: --no-wait ends the run while brokers copy")
    if not settings.wait:
        reject_options(("wait_timeout", "max_inflight_replicas"), "for --wait")
    options.require_separate_files(settings, {"--report": report}, values["plan_file"], values["reviewed"])
    listener = terminal.TerminalListener(settings)
    mode = _select_mode(settings, listener, values["plan_file"], values["reviewed"], non_interactive=yes)
    with ReportFile(report) as report_file, ClusterSessions(mode.clusters, settings, listener) as sessions:
        plans = mode.make_plans(sessions)
        terminal.print_result(formats.format_plans(plans, settings, applying=True))
        terminal.print_result("".join(f"{remark}\n" for remark in map(terminal.sanitize_lines, mode.remarks)))
        if not yes and mode.needs_confirmation and any(plan.has_changes for plan in plans):
            confirm_plans(plans, "Apply to")
            plans = mode.refresh_after_prompt(sessions, plans)
        report_file.write_header(plans, owner=settings.owner, form=mode.name, fingerprint=mode.fingerprint)
        _, code = apply_plans(sessions, plans, settings, report_file=report_file, apply_one=mode.apply_plan)
    raise click.exceptions.Exit(code)


def _select_mode(
    settings: Settings, listener: TerminalListener, plan: str | None, reviewed: str | None, *, non_interactive: bool
) -> modes.ApplyManifests:
    """Return the mode that the options select; raise ``click.UsageError`` for options that exclude each other."""
    from topiarist.adapters.atomic_files import read_file
    from topiarist.runs import modes
    from topiarist.runs.inputs import load_manifests

    if plan is not None:
        if reviewed is not None or settings.paths or settings.selection.text:
            other = "--reviewed" if reviewed is not None else settings.selection.text or "paths of manifests"
            raise click.UsageError(f"--plan applies the plan as saved: it cannot be combined with {other}")
        modes.require_no_planning_settings(settings)  # before the file is read
        return modes.ApplySavedPlan(
            settings, modes.PlanFile(read_file(plan), plan), listener, non_interactive=non_interactive
        )
    inputs = load_manifests(settings, listener)
    if reviewed is not None:
        file = modes.PlanFile(read_file(reviewed), reviewed)
        return modes.ApplyReviewed(settings, inputs, file, non_interactive=non_interactive)
    return modes.ApplyManifests(settings, inputs, non_interactive=non_interactive)

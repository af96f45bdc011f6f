"""The commands that go through the topics of clusters: ``topiarist list`` and ``topiarist upgrade-check``.

They read each cluster once, or a snapshot, and send no write.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from topiarist.cli import formats, options, terminal
from topiarist.cli.parameters import reject_options
from topiarist.cli.terminal import Settings
from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.inspection.list import STATE_NAMES, RowFilter, TopicFlag, TopicList, all_topic_names, build_rows
from topiarist.kafka.types import MAX_KAFKA_VERSION, KafkaVersion, format_version
from topiarist.model.usage import DAY_S
from topiarist.text import quote

if TYPE_CHECKING:
    from topiarist.desired.resolve import Desired
    from topiarist.inspection.check import UpgradeReport
    from topiarist.model.spec import ClusterSpec, TopicSpec
    from topiarist.ports import PartitionInspector
    from topiarist.runs.sessions import ClusterSessions


# The ``topiarist upgrade-check`` command: find topic configs that an upgrade of Kafka refuses, drops or changes.
#
# Reads each cluster once, or a snapshot, or manifests alone, and sends no write.


@click.command(
    "upgrade-check",
    cls=options.TopicCommand,
    epilog="""\b
Examples:
  topiarist upgrade-check --bootstrap-servers localhost:9092
  topiarist upgrade-check topics/ --clusters clusters.yaml --to 4.4 --exit-code
  topiarist upgrade-check topics/ --clusters clusters.yaml --offline
  topiarist upgrade-check clusters.yaml --snapshot snapshots --format json

\b
Exit codes: 0 checked; 1 error, or a cluster or a topic could not be read; 2 usage error; with --exit-code:
3 findings, 4 a finding that keeps brokers from starting.
""",
)
@options.manifests
@options.connection
@options.snapshot
@options.option(
    "--to",
    "target",
    default=format_version(MAX_KAFKA_VERSION),
    show_default=True,
    callback=options.parse_kafka_version,
    metavar="X.Y",
    help="Kafka version to upgrade to.",
)
@options.option("--offline", is_flag=True, help="Check the manifests alone, without a connection.")
@options.option(
    "--exit-code", "use_exit_code", is_flag=True, help="Exit with 3 for findings, and 4 if brokers would not start."
)
@options.format_option(formats.UPGRADE_FORMATS)
def upgrade_check_command(target: KafkaVersion, offline: bool, use_exit_code: bool, form: str, **values: Any) -> None:
    """Find topic configs that a newer Kafka version refuses, drops or gives another default.

    Checks the overrides that each cluster stores, also those of topics without a manifest. With PATH, the values of
    the manifests are checked too, and each finding has its location. Writes nothing: read-only credentials are enough.
    """
    settings = options.build_settings(values)
    if offline:
        unused = ("snapshot", "bootstrap_servers", "zookeeper", "connect_timeout")
        reject_options(unused, "not for --offline, which checks manifests alone")
        if not settings.paths:
            raise click.UsageError("--offline checks manifests alone: give their files or folders")
    reports, code = _check_offline(settings, target) if offline else _check_clusters(settings, target)
    if reports or form != "text":
        terminal.print_result(formats.UPGRADE_FORMATS[form](reports, target, settings))
    if code is Exit.DONE and any(report.unreadable for report in reports):
        code = Exit.ERROR
    if code is Exit.DONE and use_exit_code and any(report.findings for report in reports):
        code = Exit.REFUSED if any(report.stops_brokers for report in reports) else Exit.CHANGES
    raise click.exceptions.Exit(int(code))


def _check_offline(settings: Settings, target: KafkaVersion) -> tuple[list[UpgradeReport], Exit]:
    from topiarist.inspection.check import check_upgrade_of_specs
    from topiarist.runs.inputs import load_manifests

    listener = terminal.TerminalListener(replace(settings, verbosity=-1))
    desired = load_manifests(settings, listener, offline=True, with_policies=False).desired
    reports: list[UpgradeReport] = []
    code = Exit.DONE
    for name, spec in sorted(desired.clusters.items()):
        try:
            reports.append(check_upgrade_of_specs(spec, target, desired.specs[name]))
        except TopiaristError as error:
            terminal.print_error(error, name)
            code = error.reason.exit_code
    return reports, code


def _check_clusters(settings: Settings, target: KafkaVersion) -> tuple[list[UpgradeReport], Exit]:
    from topiarist.inspection.check import check_upgrade

    desired, fleet = _open_clusters(settings)

    def check(name: str, cluster: PartitionInspector) -> UpgradeReport:
        specs = desired.specs[name] if settings.paths else ()
        return check_upgrade(fleet.read(name, cluster), fleet.specs[name], target, specs)

    with fleet:
        reports = fleet.map_clusters(check)
    return list(reports.values()), fleet.error_code


def _open_clusters(settings: Settings) -> tuple[Desired, ClusterSessions]:
    """Return the specs of the run's manifests, none without paths, and the sessions of its clusters."""
    from topiarist.runs.inputs import load_if_given, require_addresses
    from topiarist.runs.sessions import ClusterSessions

    listener = terminal.TerminalListener(settings)
    inputs = load_if_given(settings, listener, with_policies=False)
    desired = inputs.desired
    require_addresses(desired.clusters, settings)
    fleet = ClusterSessions(desired.clusters, settings, listener, keep_open=False)
    fleet.error_code = Exit.ERROR if inputs.invalid_documents else Exit.DONE
    return desired, fleet


def _parse_states(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> frozenset[str]:
    states = {state.lower(): state for state in STATE_NAMES}
    if invalid := [value for value in values if value.lower() not in states]:
        raise click.BadParameter(f"found {quote(invalid[0])}, wanted one of {', '.join(STATE_NAMES)}")
    return frozenset(states[value.lower()] for value in values)


def _parse_days(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """Return a number of days in seconds."""
    if value is None:
        return None
    if not re.fullmatch(r"[1-9][0-9]{0,3}d", value):
        raise click.BadParameter(f"found {quote(value)}, wanted a number of days such as 35d")
    return int(value.removesuffix("d")) * DAY_S


def _complete_states(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [state for state in STATE_NAMES if state.lower().startswith(incomplete.lower())]


@click.command(
    "list",
    cls=options.TopicCommand,
    epilog="""\b
Examples:
  topiarist list --bootstrap-servers localhost:9092
  topiarist list topics/ --clusters clusters.yaml --cluster eu --state UnderReplicated
  topiarist list --clusters clusters.yaml --topic 'shop.*' --topic 'orders*'
  topiarist list topics/ --clusters clusters.yaml --label team=shop --state Missing
  topiarist list --clusters clusters.yaml --snapshot snapshots --dormant 35d
  topiarist list --bootstrap-servers localhost:9092 --format json | jq -r '.clusters[].topics[].topic'

\b
Exit codes: 0 listed, also if no topic matches; 1 error, or a cluster could not be read;
2 usage error.
""",
)
@options.manifests
@options.connection
@options.snapshot
@options.option("--topic", "patterns", multiple=True, metavar="PATTERN", help="List topics with this name or pattern.")
@options.option("--owned-by", "owners", multiple=True, metavar="OWNER", help="List topics of this owner.")
@options.option(
    "--label",
    "labels",
    multiple=True,
    metavar="KEY=VALUE",
    help="List topics with this label in their manifest; with several, all of them.",
)
@options.option(
    "--state",
    "states",
    multiple=True,
    callback=_parse_states,
    shell_complete=_complete_states,
    metavar="STATE",
    help=f"List topics in this state: {', '.join(STATE_NAMES)}.",
)
@options.option(
    "--dormant",
    "dormant_for",
    callback=_parse_days,
    metavar="DAYS",
    help="List topics without a seen use for this time, such as 35d. Needs --snapshot with usage.",
)
@options.format_option(formats.LIST_FORMATS)
def command(
    patterns: tuple[str, ...],
    owners: tuple[str, ...],
    labels: tuple[str, ...],
    states: frozenset[str],
    dormant_for: int | None,
    form: str,
    **values: Any,
) -> None:
    """List the topics of clusters: partitions, replicas, owner, state, and configs that differ from the brokers.

    With PATH, each topic is shown with the location of its manifest, and declared topics that do not exist are listed
    too. A topic is listed if it matches one value of each given option. Writes nothing: read-only credentials are
    enough. A snapshot has no leaders and ISRs.
    """
    if dormant_for is not None:
        states |= {TopicFlag.DORMANT.value}
    chosen = RowFilter(patterns, frozenset(owners), _parse_labels(labels), states, dormant_for)
    settings = options.build_settings(values)
    if TopicFlag.DORMANT.value in states and not settings.snapshot:
        raise click.UsageError("dormant topics are found in snapshots with usage: snapshot --evidence, then --snapshot")
    if chosen.labels and not settings.paths:
        raise click.UsageError("--label selects by labels of manifests: give the files or folders with the manifests")
    desired, fleet = _open_clusters(settings)

    def look(name: str, cluster: PartitionInspector) -> TopicList:
        return _list_topics(cluster, fleet.specs[name], desired.specs[name] if settings.paths else None, chosen)

    with fleet:
        found = fleet.map_clusters(look)
    if found or form != "text":
        terminal.print_result(formats.LIST_FORMATS[form](list(found.values()), settings))
    raise click.exceptions.Exit(int(fleet.error_code))


def _list_topics(
    cluster: PartitionInspector, spec: ClusterSpec, specs: Sequence[TopicSpec] | None, topic_filter: RowFilter
) -> TopicList:
    """Read a cluster and the partition states of topics with a matching name; return the matching rows."""
    from topiarist.reconcile import read_cluster

    state = read_cluster(cluster, spec.cluster_id)
    names = frozenset(filter(topic_filter.matches_name, all_topic_names(state, specs)))
    inspections = cluster.inspect_all([topic for name, topic in state.topics.items() if name in names])
    if TopicFlag.DORMANT.value in topic_filter.states and state.evidence is None:
        message = f"the snapshot of {spec.name or 'the cluster'} has no usage of topics"
        raise TopiaristError(Reason.SNAPSHOT_UNUSABLE, message, "take it with topiarist snapshot --evidence")
    found = build_rows(state, spec, specs, inspections, names, topic_filter.dormant_for)
    rows = tuple(filter(topic_filter.matches, found))
    count = len(state.topics) + len(state.topic_errors)
    # Without the topics: a fleet is listed when all its clusters are read, and their rows have what is shown.
    return TopicList(spec, replace(state, topics={}), rows, count, specs is not None)


def _parse_labels(values: tuple[str, ...]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not key or not equals:
            raise click.UsageError(f"--label: found {quote(value)}, wanted KEY=VALUE")
        if labels.setdefault(key, text) != text:
            raise click.UsageError(f"--label: found two values of {key}, and a manifest has one: {labels[key]}, {text}")
    return labels

"""The ``topiarist list`` command: list topics of clusters, filtered by name, owner, label or state.

Sends no write. Prints the rows of ``build_rows`` in the chosen format.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click

from topiarist.cli import formats, load, options, terminal
from topiarist.cli.clusters import ClusterSessions
from topiarist.errors import Reason, TopiaristError
from topiarist.inspection.list import (
    STATE_NAMES,
    RowFilter,
    TopicFlag,
    TopicList,
    all_topic_names,
    build_rows,
)
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.usage import DAY_S
from topiarist.ports import PartitionInspector
from topiarist.reconcile import read_cluster
from topiarist.runs.inputs import require_addresses
from topiarist.text import quote


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
    desired = load.load_if_given(settings, with_policies=False).desired
    clusters = desired.clusters
    require_addresses(clusters, settings)

    def look(name: str, cluster: PartitionInspector) -> TopicList:
        return _list_topics(cluster, clusters[name], desired.specs[name] if settings.paths else None, chosen)

    with ClusterSessions(clusters, settings, keep_open=False) as fleet:
        found = fleet.map_clusters(look)
    if found or form != "text":
        terminal.print_result(formats.LIST_FORMATS[form](list(found.values()), settings))
    raise click.exceptions.Exit(int(fleet.error_code))


def _list_topics(
    cluster: PartitionInspector, spec: ClusterSpec, specs: Sequence[TopicSpec] | None, topic_filter: RowFilter
) -> TopicList:
    """Read a cluster and the partition states of topics with a matching name; return the matching rows."""
    state = read_cluster(cluster, spec.cluster_id)
    names = frozenset(filter(topic_filter.matches_name, all_topic_names(state, specs)))
    inspections = cluster.inspect_all([topic for name, topic in state.topics.items() if name in names])
    if TopicFlag.DORMANT.value in topic_filter.states and state.evidence is None:
        message = f"the snapshot of {spec.name or 'the cluster'} has no usage of topics"
        raise TopiaristError(Reason.SNAPSHOT_UNUSABLE, message, "take it with topiarist snapshot --evidence")
    found = build_rows(state, spec, specs, inspections, names, topic_filter.dormant_for)
    rows = tuple(filter(topic_filter.matches, found))
    return TopicList(spec, state, rows, len(state.topics) + len(state.topic_errors), specs is not None)


def _parse_labels(values: tuple[str, ...]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not key or not equals:
            raise click.UsageError(f"--label: found {quote(value)}, wanted KEY=VALUE")
        if labels.setdefault(key, text) != text:
            raise click.UsageError(f"--label: found two values of {key}, and a manifest has one: {labels[key]}, {text}")
    return labels

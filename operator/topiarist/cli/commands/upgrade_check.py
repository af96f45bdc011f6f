"""The ``topiarist upgrade-check`` command: find topic configs that an upgrade of Kafka refuses, drops or changes.

Reads each cluster once, or a snapshot, or manifests alone, and sends no write.
"""

from __future__ import annotations

from typing import Any

import click
from msgspec.structs import replace

from topiarist.cli import formats, load, options, terminal
from topiarist.cli.clusters import ClusterSessions
from topiarist.cli.settings import Settings
from topiarist.errors import Exit
from topiarist.inspection.upgrade_check import UpgradeReport, check_specs, check_state
from topiarist.kafka.types import MAX_KAFKA_VERSION, KafkaVersion, format_version
from topiarist.ports import PartitionInspector
from topiarist.reconcile import read_cluster
from topiarist.runs.inputs import require_addresses


@click.command(
    "upgrade-check",
    cls=options.TopicCommand,
    epilog="""\b
Examples:
  topiarist upgrade-check --zookeeper localhost:2181/kafka
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
def command(target: KafkaVersion, offline: bool, use_exit_code: bool, form: str, **values: Any) -> None:
    """Find topic configs that a newer Kafka version refuses, drops or gives another default.

    Checks the overrides that each cluster stores, also those of topics without a manifest. With PATH, the values of
    the manifests are checked too, and each finding has its location. Writes nothing: read-only credentials are enough.
    """
    settings = options.build_settings(values)
    if offline and (not settings.paths or settings.snapshot):
        raise click.UsageError("--offline checks manifests alone: give their files or folders, and no --snapshot")
    reports, code = _check_offline(settings, target) if offline else _check_clusters(settings, target)
    if reports or form != "text":
        terminal.print_result(formats.UPGRADE_FORMATS[form](reports, target, settings))
    if code is Exit.DONE and any(report.unreadable for report in reports):
        code = Exit.ERROR
    if code is Exit.DONE and use_exit_code and any(report.findings for report in reports):
        code = Exit.REFUSED if any(report.stops_brokers for report in reports) else Exit.CHANGES
    raise click.exceptions.Exit(int(code))


def _check_offline(settings: Settings, target: KafkaVersion) -> tuple[list[UpgradeReport], Exit]:
    desired = load.load_manifests(replace(settings, verbosity=-1), offline=True, with_policies=False).desired
    return [
        check_specs(spec, target, desired.specs[name]) for name, spec in sorted(desired.clusters.items())
    ], Exit.DONE


def _check_clusters(settings: Settings, target: KafkaVersion) -> tuple[list[UpgradeReport], Exit]:
    desired = load.load_if_given(settings, with_policies=False).desired
    clusters = desired.clusters
    require_addresses(clusters, settings)

    def check(name: str, cluster: PartitionInspector) -> UpgradeReport:
        state = read_cluster(cluster, clusters[name].cluster_id)
        return check_state(state, clusters[name], target, desired.specs[name] if settings.paths else ())

    with ClusterSessions(clusters, settings, keep_open=False) as fleet:
        reports = fleet.map_clusters(check)
    return list(reports.values()), fleet.error_code

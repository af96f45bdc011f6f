"""The summary of an export as text: omitted topics and config values, each with the reason.

``export`` prints it after it has written the manifests.
"""

from __future__ import annotations

from topiarist.desired.export import ExportResult
from topiarist.kafka.types import format_version
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState
from topiarist.output.text.layout import BOLD, TextLayout, join_sections, sanitize
from topiarist.text import format_count

_MAX_SHOWN_REASONS = 20


def format_summary(
    result: ExportResult,
    state: ClusterState,
    cluster: ClusterSpec,
    *,
    folder: str,
    layout: TextLayout,
    cluster_file: str = "",
) -> str:
    """Return the summary for the user who will maintain ``folder``.

    ``cluster_file`` is the path of the Cluster document, if it is not in ``folder``. Names and reasons are shortened
    unless the layout is verbose.
    """
    remarks = [
        *layout.format_message_groups("left out", result.omitted, _MAX_SHOWN_REASONS),
        *layout.format_message_groups("unmanaged", result.unmanaged, _MAX_SHOWN_REASONS),
        *layout.format_message_groups("mixed", result.mixed_replication, _MAX_SHOWN_REASONS),
    ]
    warnings = list(state.warnings)
    if state.write_block.reason:
        warnings.insert(0, f"{state.write_block.message}; nothing is written to it")
    if cluster.source is None and cluster.version is None and state.bypasses_brokers:
        why = f"the metadata shows only that the release is {format_version(state.min_version)} or later"
        warnings.append(f"set kafkaVersion in {cluster_file or f'{folder}/cluster.yaml'}: {why}")
    remarks += layout.format_warnings(warnings)
    total = f"Exported: {format_count(result.topic_count, 'topic')} of cluster {cluster.name} to {sanitize(folder)}"
    if result.omitted:
        total += f", {len(result.omitted):,} left out"
    return join_sections([remarks, [layout.colorize(f"{total}.", BOLD)]])

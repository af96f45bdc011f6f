"""The summary of a drift report in Prometheus text format, for a Pushgateway or the textfile collector.

``drift.outputs.folder`` writes it as ``metrics.prom``. A class without findings on a cluster is exported with value 0,
so that an alert resolves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from topiarist.adapters.snapshots.codec import parse_time
from topiarist.drift.findings import DriftClass

PREFIX = "topiarist_drift"


def format_metrics(summary: Mapping[str, Any]) -> str:
    """Return all metric families, each with help and type."""
    topics, clusters, broken = summary["topics"], summary["clusters"], summary["inputs"]["broken"]
    parts = [
        *_format_family("findings", "Findings by cluster and class.", _findings_samples(summary)),
        *_format_family("topics_compared", "Declared topics that were compared.", [({}, topics["compared"])]),
        *_format_family("clusters_compared", "Clusters that were compared.", [({}, clusters["compared"])]),
        *_format_family("clusters_unknown", "Clusters that could not be compared.", [({}, clusters["unknown"])]),
        *_format_family("broken_rows", "Invalid rows and files of the input.", [({}, broken)]),
    ]
    if summary["oldest"]:
        words = "Time of the oldest snapshot that was compared."
        oldest = int(parse_time(summary["oldest"]).timestamp())
        parts += _format_family("oldest_snapshot_timestamp_seconds", words, [({}, oldest)])
    return "".join(parts)


def _findings_samples(summary: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, str], int]]:
    for cluster in summary["byCluster"]:
        for kind in DriftClass:
            yield {"cluster": cluster["cluster"], "class": kind.value}, cluster["byClass"].get(kind.value, 0)


def _format_family(name: str, help_text: str, samples: Any) -> Iterator[str]:
    yield f"# HELP {PREFIX}_{name} {help_text}\n# TYPE {PREFIX}_{name} gauge\n"
    for labels, value in samples:
        inner = ",".join(f'{key}="{_escape_label_value(text)}"' for key, text in labels.items())
        yield f"{PREFIX}_{name}{{{inner}}} {value}\n" if inner else f"{PREFIX}_{name} {value}\n"


def _escape_label_value(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

"""A summary in Prometheus' text format, for a pushgateway or the textfile collector of the node exporter.

Classes that a cluster has no findings of are there with 0: an alert must see that it is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from topiarist.adapters.snapshot import time_of
from topiarist.core.discrepancy import Kind

PREFIX = "topiarist_drift"


def metrics(summary: Mapping[str, Any]) -> str:
    """All families, each with its help and type."""
    topics, clusters, broken = summary["topics"], summary["clusters"], summary["inputs"]["broken"]
    parts = [
        *_family("findings", "Findings by cluster and class.", _findings(summary)),
        *_family("topics_compared", "Declared topics that were compared.", [({}, topics["compared"])]),
        *_family("clusters_compared", "Clusters that were compared.", [({}, clusters["compared"])]),
        *_family("clusters_unknown", "Clusters that could not be read.", [({}, clusters["unknown"])]),
        *_family("broken_rows", "Rows and files of the input that could not be used.", [({}, broken)]),
    ]
    if summary["oldest"]:
        words = "When the oldest snapshot was taken that the report rests on."
        oldest = int(time_of(summary["oldest"]).timestamp())
        parts += _family("oldest_snapshot_timestamp_seconds", words, [({}, oldest)])
    return "".join(parts)


def _findings(summary: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, str], int]]:
    for cluster in summary["byCluster"]:
        for kind in Kind:
            yield {"cluster": cluster["cluster"], "class": kind.value}, cluster["byClass"].get(kind.value, 0)


def _family(name: str, words: str, samples: Any) -> Iterator[str]:
    yield f"# HELP {PREFIX}_{name} {words}\n# TYPE {PREFIX}_{name} gauge\n"
    for labels, value in samples:
        inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"{PREFIX}_{name}{{{inner}}} {value}\n" if inner else f"{PREFIX}_{name} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

"""A parser of PromQL expressions: the metrics that they read, and the labels that they use or could use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import promql_parser as promql
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.parser import text_string_to_metric_families

TARGET_LABELS = frozenset({"namespace", "job", "pod", "instance", "service", "endpoint", "container"})
"""Labels that a target has by itself, as the Prometheus operator scrapes it."""

ExportedMetrics = Mapping[str, frozenset[str]]
"""Names as they are scraped, with the labels that the operator gives them."""


class MetricSelector(NamedTuple):
    """One metric in an expression, with its matchers."""

    name: str
    matchers: tuple[tuple[str, str, str], ...]


def exported_metrics(metrics: object) -> ExportedMetrics:
    """Return the exported metrics of an object that has a registry, including metrics without values."""
    found: dict[str, frozenset[str]] = {}
    registry = next(each for each in vars(metrics).values() if isinstance(each, CollectorRegistry))
    for metric in registry._collector_to_names:
        if not isinstance(metric, Counter | Gauge | Histogram):
            continue
        (family,) = metric.describe()
        labels = frozenset(metric._labelnames)
        if isinstance(metric, Counter):
            found[f"{family.name}_total"] = labels
        elif isinstance(metric, Gauge):
            found[family.name] = labels
        else:
            found |= {f"{family.name}_{part}": labels for part in ("count", "sum")}
            found[f"{family.name}_bucket"] = labels | {"le"}
    for family in registry.collect():
        for sample in family.samples:
            found.setdefault(sample.name, frozenset(sample.labels))
    return found


def metrics_in_text(text: str) -> ExportedMetrics:
    """Return the metrics of a text in Prometheus' format, each with its labels."""
    return {
        sample.name: frozenset(sample.labels)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def metric_selectors(expression: str) -> list[MetricSelector]:
    """Return the metrics that an expression reads. Raises ``ValueError`` for invalid PromQL."""
    return [
        MetricSelector(str(node.name), tuple((str(each.op), each.name, each.value) for each in node.matchers.matchers))
        for node in _nodes(promql.parse(expression))
        if isinstance(node, promql.VectorSelector)
    ]


def aggregations(expression: str) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
    """Return for each aggregation its labels and the names of the metrics inside it."""
    for node in _nodes(promql.parse(expression)):
        if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
            below = (str(each.name) for each in _nodes(node.expr) if isinstance(each, promql.VectorSelector))
            yield frozenset(node.modifier.labels), frozenset(below)


def _nodes(expression: promql.Expr) -> list[promql.Expr]:
    found: list[promql.Expr] = []
    promql.walk(expression, pre_visit=found.append)
    return found


def matcher_values(op: str, pattern: str) -> list[str]:
    """Return the values of a matcher: the alternatives of a regular expression."""
    return pattern.split("|") if "Re" in op else [pattern]


def placeholders(text: str) -> set[str]:
    """Return the labels in a Prometheus template or in a Grafana legend."""
    return set(re.findall(r"\$labels\.(\w+)", text)) | set(re.findall(r"\{\{\s*(\w+)\s*\}\}", text))

"""PromQL taken apart: which metrics an expression reads, which labels it names, and what it could name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import promql_parser as promql
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

TARGET_LABELS = frozenset({"namespace", "job", "pod", "instance", "service", "endpoint", "container"})
"""Labels that a target has by itself, as the Prometheus operator scrapes it."""

ExportedMetrics = Mapping[str, frozenset[str]]
"""Names as they are scraped, with the labels that the operator gives them."""


class MetricSelector(NamedTuple):
    """One metric in an expression, with what it is matched by."""

    name: str
    matchers: tuple[tuple[str, str, str], ...]


def exported_metrics(metrics: object) -> ExportedMetrics:
    """What the metrics among the attributes of an object export: also those that have no figures yet."""
    found: dict[str, frozenset[str]] = {}
    for metric in vars(metrics).values():
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
    registry = next(each for each in vars(metrics).values() if isinstance(each, CollectorRegistry))
    for family in registry.collect():
        for sample in family.samples:
            found.setdefault(sample.name, frozenset(sample.labels))
    return found


def metric_selectors(expression: str) -> list[MetricSelector]:
    """The metrics that an expression reads. Raises ``ValueError`` if it is no PromQL."""
    return [
        MetricSelector(str(node.name), tuple((str(each.op), each.name, each.value) for each in node.matchers.matchers))
        for node in _nodes(promql.parse(expression))
        if isinstance(node, promql.VectorSelector)
    ]


def aggregations(expression: str) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
    """For each aggregation: the labels that it names, and the names of the metrics below it."""
    for node in _nodes(promql.parse(expression)):
        if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
            below = (str(each.name) for each in _nodes(node.expr) if isinstance(each, promql.VectorSelector))
            yield frozenset(node.modifier.labels), frozenset(below)


def _nodes(expression: promql.Expr) -> list[promql.Expr]:
    found: list[promql.Expr] = []
    promql.walk(expression, pre_visit=found.append)
    return found


def matcher_values(op: str, pattern: str) -> list[str]:
    """The values that a matcher names: its alternatives, if it is a regular expression."""
    return pattern.split("|") if "Re" in op else [pattern]


def placeholders(text: str) -> set[str]:
    """The labels that a template of Prometheus' or a legend of Grafana's shows."""
    return set(re.findall(r"\$labels\.(\w+)", text)) | set(re.findall(r"\{\{\s*(\w+)\s*\}\}", text))

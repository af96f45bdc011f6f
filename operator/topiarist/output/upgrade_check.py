"""Upgrade checks: as a JSON document (``upgrade-check --format json``), and as text with the worst effects first.

``schemas/upgrade-check.json`` describes each field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from topiarist.inspection.upgrade_check import AffectedTopic, UpgradeEffect, UpgradeFinding, UpgradeReport
from topiarist.kafka.types import KafkaVersion, format_version
from topiarist.output.text.layout import BOLD, BOLD_RED, DIM, YELLOW, TextLayout, join_sections, sanitize
from topiarist.output.view import encode_location
from topiarist.text import format_count

FORMAT_VERSION = 1


def encode_reports(reports: Iterable[UpgradeReport], target: KafkaVersion) -> dict[str, Any]:
    """Return the document with the findings of each cluster; plain JSON values only."""
    return {
        "formatVersion": FORMAT_VERSION,
        "target": format_version(target),
        "clusters": [_encode_cluster(report) for report in reports],
    }


def _encode_cluster(report: UpgradeReport) -> dict[str, Any]:
    return {
        "name": report.cluster.name,
        "clusterId": report.cluster_id,
        "topics": report.topic_count,
        "findings": [_encode_finding(finding) for finding in report.findings],
        "unreadable": [
            {"topic": topic, "path": error.path, "message": error.message}
            for topic, error in sorted(report.unreadable.items())
        ],
    }


def _encode_finding(finding: UpgradeFinding) -> dict[str, Any]:
    return {
        "effect": finding.effect.value,
        "config": finding.key,
        "message": finding.message,
        "hint": finding.hint,
        "before": finding.before,
        "after": finding.after,
        "topics": [
            {
                "topic": item.topic,
                "value": item.value,
                "location": encode_location(item.location),
                "inManifestOnly": item.in_manifest_only,
            }
            for item in finding.topics
        ],
    }


_MAX_SHOWN_TOPICS = 10

_HEADINGS = {
    UpgradeEffect.STOPS_BROKERS: ("brokers do not start", BOLD_RED),
    UpgradeEffect.DROPPED: ("dropped", YELLOW),
    UpgradeEffect.DEFAULT_CHANGES: ("another default", YELLOW),
}


def format_reports(reports: Sequence[UpgradeReport], layout: TextLayout, *, show_all: bool) -> str:
    """Return the findings of all clusters, in the order given; ``show_all`` lists each topic of a finding."""
    text = join_sections(_format_report(report, layout, show_all=show_all) for report in reports)
    return f"{text}\n" if text else ""


def _format_report(report: UpgradeReport, layout: TextLayout, *, show_all: bool) -> Iterator[str]:
    name = f"{sanitize(report.cluster.name)}   " if report.cluster.name else ""
    what = "manifests only" if report.cluster_id is None else f"cluster {sanitize(report.cluster_id)}"
    version = format_version(report.target)
    yield layout.colorize(f"{name}{what}, to Kafka {version}", BOLD)
    for finding in report.findings:
        yield from _format_finding(finding, layout, show_all=show_all)
    for topic, error in sorted(report.unreadable.items()):
        text = f"  not checked: {sanitize(topic)}: {sanitize(error.path)}: {sanitize(error.message)}"
        yield layout.colorize(text, BOLD_RED)
    yield layout.colorize(_format_totals(report), BOLD)


def _format_finding(finding: UpgradeFinding, layout: TextLayout, *, show_all: bool) -> Iterator[str]:
    heading, style = _HEADINGS[finding.effect]
    yield f"  {layout.colorize(heading, style)}: {finding.key}"
    for text in (finding.message, finding.hint):
        yield from (f"    {line}" for line in layout.wrap(text))
    shown = finding.topics if show_all else finding.topics[:_MAX_SHOWN_TOPICS]
    width = max(len(sanitize(item.topic)) for item in shown)
    yield from (f"      {_format_topic(item, width)}".rstrip() for item in shown)
    if hidden := len(finding.topics) - len(shown):
        yield layout.colorize(f"      and {format_count(hidden, 'more topic')}; -v shows all", DIM)


def _format_topic(item: AffectedTopic, width: int) -> str:
    parts = [sanitize(item.topic).ljust(width)]
    if item.value is not None:
        parts.append(sanitize(item.value))
    if item.location is not None:
        parts.append(sanitize(str(item.location)))
    if item.in_manifest_only:
        parts.append("(in the manifest only)")
    return "  ".join(parts)


def _format_totals(report: UpgradeReport) -> str:
    checked = format_count(report.topic_count, "topic")
    if not report.findings:
        return f"{checked}: nothing found."
    counts = {
        effect: {item.topic for finding in report.findings if finding.effect is effect for item in finding.topics}
        for effect in UpgradeEffect
    }
    labels = {
        UpgradeEffect.STOPS_BROKERS: "stop brokers",
        UpgradeEffect.DROPPED: "with dropped configs",
        UpgradeEffect.DEFAULT_CHANGES: "with another default",
    }
    parts = [f"{len(topics):,} {labels[effect]}" for effect, topics in counts.items() if topics]
    return f"{checked}: {', '.join(parts)}."

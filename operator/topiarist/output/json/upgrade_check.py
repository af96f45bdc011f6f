"""Upgrade checks as a JSON document: ``upgrade-check --format json``.

``schemas/upgrade-check.json`` describes each field.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from topiarist.inspection.upgrade_check import UpgradeFinding, UpgradeReport
from topiarist.kafka.types import KafkaVersion, format_version
from topiarist.output.json.describe import encode_location

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

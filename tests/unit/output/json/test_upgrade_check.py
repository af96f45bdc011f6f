"""The document of ``topiarist upgrade-check --format json``: each field of a finding."""

from __future__ import annotations

from support.builders import DocumentSource
from topiarist.inspection.upgrade_check import AffectedTopic, UpgradeEffect, UpgradeFinding, UpgradeReport
from topiarist.model.spec import ClusterSpec, ValueOrigin
from topiarist.model.state import ReadError
from topiarist.output.upgrade_check import encode_reports

PLACE = ValueOrigin(DocumentSource("a.yaml", {}), ())
TOPICS = (AffectedTopic("a", "5", PLACE, True), AffectedTopic("b", None))
FINDING = UpgradeFinding(UpgradeEffect.DROPPED, "x.y", "is dropped", "use z", TOPICS, "1", None)


def test_each_field_of_a_report_is_encoded() -> None:
    """Findings keep their order, and topics that could not be read are sorted by name."""
    errors = {name: ReadError(f"/{name}", "no JSON") for name in "dc"}
    report = UpgradeReport(ClusterSpec("prod"), (4, 0), "7sYk", 12, (FINDING,), errors)
    assert encode_reports([report], (4, 0)) == {
        "formatVersion": 1,
        "target": "4.0",
        "clusters": [
            {
                "name": "prod",
                "clusterId": "7sYk",
                "topics": 12,
                "findings": [
                    {
                        "effect": UpgradeEffect.DROPPED.value,
                        "config": "x.y",
                        "message": "is dropped",
                        "hint": "use z",
                        "before": "1",
                        "after": None,
                        "topics": [
                            {
                                "topic": "a",
                                "value": "5",
                                "location": {"file": "a.yaml", "line": 1, "column": 1},
                                "inManifestOnly": True,
                            },
                            {"topic": "b", "value": None, "location": None, "inManifestOnly": False},
                        ],
                    }
                ],
                "unreadable": [
                    {"topic": "c", "path": "/c", "message": "no JSON"},
                    {"topic": "d", "path": "/d", "message": "no JSON"},
                ],
            }
        ],
    }

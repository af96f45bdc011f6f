"""Upgrade checks: the document follows the schema, and the text has the worst effects first."""

from __future__ import annotations

from msgspec.structs import replace

from support.builders import DocumentSource
from topiarist.inspection.check import AffectedTopic, UpgradeEffect, UpgradeFinding, UpgradeReport
from topiarist.model.spec import ClusterSpec, ValueOrigin
from topiarist.model.state import ReadError
from topiarist.output.list import encode_reports, format_reports
from topiarist.output.text.layout import TextLayout

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


STOPS, DROPPED, DEFAULT = UpgradeEffect
SOME = (AffectedTopic("orders", "5", PLACE, True), AffectedTopic("b", "7"))
MANY = tuple(AffectedTopic(f"t{number:02}", None) for number in range(12))
REPORT = UpgradeReport(
    ClusterSpec("prod"),
    (4, 0),
    "7sYk",
    40,
    (
        UpgradeFinding(STOPS, "x.y", "is too small", "raise it", SOME),
        UpgradeFinding(DROPPED, "z", "is dropped", "use q", SOME[:1]),
        UpgradeFinding(DEFAULT, "d", "is another one", "set it", MANY),
    ),
    {name: ReadError(f"/{name}", "no JSON") for name in "dc"},
)
TEXT = """\
prod   cluster 7sYk, to Kafka 4.0
  brokers do not start: x.y
    is too small
    raise it
      orders  5  a.yaml:1:1  (in the manifest only)
      b       7
  dropped: z
    is dropped
    use q
      orders  5  a.yaml:1:1  (in the manifest only)
  another default: d
    is another one
    set it
      t00
      t01
      t02
      t03
      t04
      t05
      t06
      t07
      t08
      t09
      and 2 more topics; -v shows all
  not checked: c: /c: no JSON
  not checked: d: /d: no JSON
40 topics: 2 stop brokers, 1 with dropped configs, 12 with another default.
"""


def test_findings_have_their_topics() -> None:
    """Each topic has its value and its place; a topic counts once for each effect in the totals."""
    assert format_reports([REPORT], TextLayout(), show_all=False) == TEXT


def test_ten_topics_are_shown() -> None:
    """Of a finding with more than ten topics the others are counted, and ``-v`` shows them."""
    ten = replace(REPORT, findings=(replace(REPORT.findings[2], topics=MANY[:10]),))
    for report, counts in ((ten, (10, 10)), (replace(REPORT, findings=REPORT.findings[2:]), (10, 12))):
        texts = [format_reports([report], TextLayout(), show_all=show_all) for show_all in (False, True)]
        assert tuple(text.count("      t") for text in texts) == counts
        assert ["more topic" in text for text in texts] == [counts[0] < counts[1], False]


def test_a_cluster_without_findings() -> None:
    """Manifests alone have no id of a cluster, and reports of clusters are divided by an empty line."""
    bare = replace(REPORT, cluster=ClusterSpec(), cluster_id=None, topic_count=1, findings=(), unreadable={})
    text = "manifests only, to Kafka 4.0\n1 topic: nothing found.\n"
    assert format_reports([bare, bare], TextLayout(), show_all=False) == f"{text}\n{text}"
    assert format_reports([], TextLayout(), show_all=False) == ""

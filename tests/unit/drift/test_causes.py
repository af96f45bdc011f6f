"""Causes of findings: which findings are one group, in which order the groups are, and how they are found again."""

from __future__ import annotations

from contextlib import closing
from random import Random
from typing import Any

import pytest

from topiarist.drift import causes, cross_cluster
from topiarist.drift.causes import CauseIndex, Causes, to_cause_row
from topiarist.drift.task import encode_line

CLUSTERS = ("ap", "eu", "us")


def row(cluster: str, topic: str, drift_class: str = "config", field: str = "", **fields: Any) -> dict[str, Any]:
    """Return the fields of a finding that decide its cause; a config key of one topic by default."""
    return {
        **{"cluster": cluster, "topic": topic, "class": drift_class},
        "field": field or ("config.retention.ms" if drift_class == "config" else ""),
        **{"expected": "2", "actual": "1", "severity": "Medium", "effect": "Cost", "effectReason": "disks fill"},
        **{"manifest": topic or None, "file": f"{topic}.yaml", "id": f"{cluster} {topic} {drift_class} {field}"},
        **fields,
    }


def find(*rows: dict[str, Any]) -> Causes:
    """Return the causes of these findings."""
    with closing(CauseIndex()) as index:
        for each in rows:
            index.add(to_cause_row(encode_line(each)))
        return index.find()


def shapes(found: Causes) -> list[tuple[str, str, str, int]]:
    """Return topics, clusters and differences of each cause, and its number of findings."""
    return [
        (
            " ".join(each.topics),
            " ".join(each.clusters),
            " ".join(difference.field or difference.drift_class for difference in each.differences),
            each.findings,
        )
        for each in found.shown
    ]


def test_one_value_of_a_topic_on_many_clusters_is_one_cause() -> None:
    """Another value of the same field on another cluster is another cause."""
    rows = [row(cluster, "orders") for cluster in CLUSTERS] + [row("test", "orders", actual="7")]
    assert shapes(find(*rows)) == [
        ("orders", "ap eu us", "config.retention.ms", 3),
        ("orders", "test", "config.retention.ms", 1),
    ]


def test_one_manifest_that_differs_in_several_fields_is_one_cause() -> None:
    """All differences of a topic on the same clusters are one cause, and one on fewer clusters is another."""
    fields = ("config.retention.ms", "config.segment.bytes")
    rows = [row(cluster, "orders", field=field) for cluster in CLUSTERS for field in fields]
    rows += [row("eu", "orders", "partitions", "partitions")]
    assert shapes(find(*rows)) == [
        ("orders", "ap eu us", "config.retention.ms config.segment.bytes", 6),
        ("orders", "eu", "partitions", 1),
    ]


def test_two_manifests_of_one_topic_are_two_causes() -> None:
    """Topics of one name on different clusters may have different manifests."""
    found = find(row("eu", "orders", manifest="a"), row("us", "orders", manifest="b"))
    assert [(each.manifest, each.clusters) for each in found.shown] == [("a", ("eu",)), ("b", ("us",))]


def test_one_missing_rack_of_a_cluster_is_one_cause() -> None:
    """What a cluster's brokers decide is a cause of the cluster, whatever else its topics have or their values are."""
    rows = [row("eu", topic, "racks", actual=topic) for topic in "abc"]
    rows += [row("us", "a", "racks"), row("eu", "a"), row("eu", "a", field="config.segment.bytes")]
    assert shapes(find(*rows)) == [
        ("a b c", "eu", "racks", 3),
        ("a", "eu", "config.retention.ms config.segment.bytes", 2),
        ("a", "us", "racks", 1),
    ]


def test_one_default_of_a_cluster_is_one_cause() -> None:
    """The same difference of more topics than one topic has differences is a cause of all these topics."""
    rows = [row("eu", topic) for topic in "abc"] + [row("eu", "a", field="config.segment.bytes")]
    assert shapes(find(*rows)) == [
        ("a b c", "eu", "config.retention.ms", 3),
        ("a", "eu", "config.segment.bytes", 1),
    ]
    (first, _) = find(*rows).shown
    assert first.manifest is None


def test_values_that_only_describe_a_topic_do_not_split_a_cause() -> None:
    """Topics without a manifest have different sizes, and are one cause on one cluster."""
    rows = [row("eu", topic, "unexpected", actual=f"{number} partitions") for number, topic in enumerate("abc")]
    assert shapes(find(*rows)) == [("a b c", "eu", "unexpected", 3)]


def test_the_most_severe_cause_is_first_then_the_largest() -> None:
    """A cause is as severe as its most severe finding, and has the effect of this one."""
    rows = [row(cluster, "a") for cluster in CLUSTERS]
    rows += [row("eu", "b", field="x", effectReason="all fine"), row("us", "b", field="x", severity="Critical")]
    rows += [row("eu", "c", field="y", effect="DataLoss", effectReason="gone", severity="Critical")]
    found = find(*rows).document()
    assert found["total"] == 3
    assert [(each["severity"], each["topics"], each["effectReason"]) for each in found["first"]] == [
        ("Critical", ("b",), "disks fill"),
        ("Critical", ("c",), "gone"),
        ("Medium", ("a",), "disks fill"),
    ]


def test_neither_the_order_nor_the_memory_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings in any order, in memory or on disk, as lines or as rows, have the same causes with the same ids."""
    random = Random(7)
    rows = [
        row(cluster, topic, random.choice(("config", "racks", "missing")), actual=random.choice("12"))
        for cluster in CLUSTERS
        for topic in "abcdef"
    ]
    whole = find(*rows).document()
    random.shuffle(rows)
    monkeypatch.setattr(cross_cluster, "_MAX_ROWS_IN_MEMORY", 3)
    with closing(CauseIndex()) as index:
        index.add_findings(rows)
        assert index.find().document() == whole
    assert sum(each["findings"] for each in whole["first"]) == len(rows)


def test_a_finding_leads_to_its_cause() -> None:
    """Each finding has the id of its cause, and the id is that of the findings alone."""
    rows = [row(cluster, "orders") for cluster in CLUSTERS] + [row("eu", "a", "racks"), row("eu", "b", "racks")]
    found = find(*rows)
    assert [found.find_id(each) for each in rows] == [found.shown[0].id] * 3 + [found.shown[1].id] * 2
    assert [each.id for each in find(*rows, row("us", "z")).shown[:2]] == [each.id for each in found.shown]
    assert find(*rows[1:]).find_id(rows[1]) != found.shown[0].id


def test_a_summary_has_the_first_causes_and_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limits only numbers are given, and findings of further causes have none."""
    monkeypatch.setattr(causes, "MAX_SHOWN_CAUSES", 1)
    monkeypatch.setattr(causes, "MAX_SHOWN_NAMES", 2)
    found = find(*(row(cluster, "orders") for cluster in CLUSTERS), row("eu", "a"))
    document = found.document()
    (first,) = document["first"]
    assert (document["total"], first["clusters"], first["clusterCount"]) == (2, ("ap", "eu"), 3)
    assert found.find_id(row("eu", "a")) == ""


def test_documents_in_git_are_grouped_by_file() -> None:
    """Findings about invalid documents have no cluster and no topic; those of one file are one cause."""
    rows = [row("", "", "invalid", manifest=None, file=file) for file in ("a.yaml", "a.yaml", "b.yaml")]
    assert [(each.manifest, each.findings) for each in find(*rows).shown] == [("a.yaml", 2), ("b.yaml", 1)]

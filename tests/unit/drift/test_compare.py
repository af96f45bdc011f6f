"""Upgrade risks in a drift report: the effects that ``upgrade-check`` finds, counted over the fleet."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.drift.small_fleet import (
    check_schema,
    cluster_state,
    owned_topic,
    read_summary,
    run_drift,
    topic_document,
    write_manifests,
    write_snapshot,
)
from topiarist.cli.main import run
from topiarist.drift.compare import ClusterRisk, ClusterUpgrade, UpgradeRisks
from topiarist.inspection.check import UpgradeEffect
from topiarist.model.state import TopicState

SMALL, OLD = {"segment.bytes": "1000"}, {"message.format.version": "2.8"}

AFTER = "message.timestamp.after.max.ms"


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the manifests of two clusters with a topic for each effect; only ``eu`` has topics without a manifest."""
    monkeypatch.chdir(tmp_path)
    in_sync = [owned_topic("old", OLD), owned_topic("plain")]
    eu = cluster_state("eu", *in_sync, TopicState("stray", "9", in_sync[0].replicas, SMALL))
    write_snapshot(tmp_path / "snapshots", "eu", eu)
    write_snapshot(tmp_path / "snapshots", "us", cluster_state("us", *in_sync, owned_topic("differs", SMALL)))
    documents = [topic_document("old", ["eu", "us"], config={"message.format.version": "2.8"})]
    documents += [topic_document(name, ["eu", "us"]) for name in ("plain", "new")]
    documents += [topic_document("differs", ["us"], config={AFTER: 5})]
    return write_manifests(tmp_path / "fleet", ["eu", "us", "gone"], *documents).relative_to(tmp_path)


def upgrade(fleet: Path, *words: str) -> Any:
    """Return the ``upgrade`` of the summary of a report."""
    assert run_drift(fleet, fleet.parent / "report", *words) == 1  # a cluster has no snapshot
    summary = read_summary(fleet.parent / "report")
    check_schema("summary", summary)
    return summary["upgrade"]


def test_the_risks_are_those_of_upgrade_check(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Report and ``upgrade-check`` count the same topics, also those that match and have no finding of drift."""
    found = upgrade(fleet, "--upgrade-to", "4.4")
    wanted: Counter[tuple[str, str]] = Counter()
    for name in ("eu", "us"):
        capsys.readouterr()
        words = ["--snapshot", "snapshots", "--format", "json", "--cluster", name]
        assert run(["upgrade-check", str(fleet), *words]) == 0
        (cluster,) = json.loads(capsys.readouterr().out)["clusters"]
        wanted.update({(one["effect"], one["config"]): len(one["topics"]) for one in cluster["findings"]})
    assert {(one["effect"], one["config"]): one["topics"] for one in found["risks"]} == dict(wanted)
    assert wanted["dropped", "message.format.version"] == 2
    assert (found["target"], found["checked"]) == ("4.4", 2)


def test_the_worst_effect_is_first_and_names_topics(fleet: Path) -> None:
    """A value that keeps brokers from starting is first, with one topic of each cluster and its manifest's line."""
    found = upgrade(fleet, "--upgrade-to", "4.4")
    worst, dropped, *_ = found["risks"]
    assert (worst["config"], worst["clusters"], worst["topics"]) == ("segment.bytes", 2, 2)
    assert [(one["cluster"], one["topic"], one["value"]) for one in worst["examples"]] == [
        ("eu", "stray", "1000"),
        ("us", "differs", "1000"),
    ]
    assert worst["examples"][0]["file"] is None
    assert [one["file"] for one in dropped["examples"]] == ["fleet/all.yaml"] * 2
    assert all(one["line"] for one in dropped["examples"])
    assert [(one["cluster"], one["stopsBrokers"], one["dropped"]) for one in found["byCluster"]] == [
        ("eu", 1, 1),
        ("us", 1, 1),
    ]


def test_without_the_option_nothing_is_checked(fleet: Path) -> None:
    """Without a version there are no risks, and they change no finding and no exit code."""
    assert upgrade(fleet) is None
    before = (fleet.parent / "report" / "findings.jsonl").read_bytes()
    upgrade(fleet, "--upgrade-to", "4.4")
    assert (fleet.parent / "report" / "findings.jsonl").read_bytes() == before


def test_topics_without_a_valid_row_are_left_out(fleet: Path, tmp_path: Path) -> None:
    """A topic that an incomplete snapshot may lack is not counted as one that only its manifest has."""
    before = upgrade(fleet, "--upgrade-to", "4.4")["risks"][-1]
    (path,) = (tmp_path / "snapshots").glob("us*")
    path.write_text(path.read_text().replace('"topic":"plain"', '"topic":5'))
    after = upgrade(fleet, "--upgrade-to", "4.4")["risks"][-1]
    assert before["config"] == after["config"] == AFTER
    assert after["topics"] == before["topics"] - 2  # plain, and new, which may be the broken row


def test_risks_are_counted_over_clusters_with_the_worst_first() -> None:
    """Of one effect that of most topics is first, then the name of the config; at most five clusters are examples."""

    def risk(effect: UpgradeEffect, key: str, topics: int) -> ClusterRisk:
        return ClusterRisk(effect, key, f"{key} changes", "change it", topics, "orders", "1000", None)

    one = [risk(UpgradeEffect.DEFAULT_CHANGES, "d", 9), risk(UpgradeEffect.DROPPED, "b", 2)]
    other = [*one, risk(UpgradeEffect.DROPPED, "a", 1), risk(UpgradeEffect.STOPS_BROKERS, "s", 1)]
    risks = UpgradeRisks((4, 4))
    for number in range(6):
        found = other if number < 3 else one
        risks.add_cluster(f"c{number}", ClusterUpgrade(found, {"dropped": len(found)}))
    risks.add_cluster("fine", ClusterUpgrade([], {}))
    built = risks.build()
    assert (built["target"], built["checked"]) == ("4.4", 7)
    assert [(each["config"], each["clusters"], each["topics"]) for each in built["risks"]] == [
        ("s", 3, 3),
        ("b", 6, 12),
        ("a", 3, 3),
        ("d", 6, 54),
    ]
    worst, dropped, *_ = built["risks"]
    assert (worst["effect"], worst["message"], worst["hint"]) == ("stopsBrokers", "s changes", "change it")
    assert [each["cluster"] for each in dropped["examples"]] == ["c0", "c1", "c2", "c3", "c4"]
    assert dropped["examples"][0] == {"cluster": "c0", "topic": "orders", "value": "1000", "file": None, "line": None}
    assert built["byCluster"] == [{"cluster": f"c{number}", "dropped": 4 if number < 3 else 2} for number in range(6)]


def test_configs_with_one_message_are_risks_of_their_own() -> None:
    """Each config is counted alone, also if the effect and the words about it are those of another one."""
    risks = UpgradeRisks((4, 4))
    words = "is removed", "remove it", 2, "orders", "1000", None
    risks.add_cluster("eu", ClusterUpgrade([ClusterRisk(UpgradeEffect.DROPPED, key, *words) for key in "ab"], {}))
    assert [(each["config"], each["topics"]) for each in risks.build()["risks"]] == [("a", 2), ("b", 2)]

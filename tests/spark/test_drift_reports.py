"""``topiarist drift`` by Spark: the same report, to the byte, as without it, also from broken snapshots."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.fleets import LISTS, asked, described, held, holding, recorded, report, summary
from topiarist.core.state import TopicState


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Three clusters, one as asked, one that differs in all sorts of ways, one without a snapshot."""
    snapshots = tmp_path / "snapshots"
    us = holding(
        "us",
        held("clicks.v1", {"retention.ms": "5"}, changed_outside=True),
        held("old"),
        held("orders", replicas=LISTS[:2]),
        TopicState("guest", 9, LISTS),
        TopicState("users_v1", 9, LISTS),
        TopicState("connect-offsets", 9, LISTS),
        TopicState("__consumer_offsets", 9, LISTS),
    )
    recorded(snapshots, "us", us)
    recorded(snapshots, "eu", holding("eu", *(held(name) for name in ("clicks.v1", "orders", "users.v1"))))
    names = ["eu", "gone", "us"]
    topics = (asked(name.replace(".", "-"), names, topicName=name) for name in ("clicks.v1", "orders", "users.v1"))
    return described(tmp_path / "manifests", names, *topics)


def both(manifests: Path, tmp_path: Path) -> None:
    """Run both engines and compare all that they write."""
    codes = {engine: report(manifests, tmp_path / engine, "-q", "--engine", engine) for engine in ("python", "spark")}
    assert codes["python"] == codes["spark"]
    for path in (tmp_path / "python").iterdir():
        assert (tmp_path / "spark" / path.name).read_text() == path.read_text(), path.name


@pytest.mark.usefixtures("spark")
def test_the_reports_are_the_same(fleet: Path, tmp_path: Path) -> None:
    """Also where names collide: the missing topic says with which, and the one that is there is unexpected."""
    both(fleet, tmp_path)
    assert summary(tmp_path / "spark")["findings"]["byReason"] == {"NameCollision": 1}


def test_what_is_broken_is_named_by_its_line(spark: SparkSession, fleet: Path, tmp_path: Path) -> None:
    """Lines that are no rows, and files that were cut: read again here, and so told as ever."""
    path = tmp_path / "snapshots" / "us.jsonl"
    whole = path.read_text().splitlines(keepends=True)
    for broken in ([*whole[:2], "{\n", *whole[3:]], whole[:3], [*whole[:-1], whole[-1][:40]]):
        path.write_text("".join(broken))
        both(fleet, tmp_path)
        assert summary(tmp_path / "spark")["inputs"]["broken"] > 0
    assert spark.sparkContext.getConf().get("spark.ui.enabled") == "false"

"""The consent to losses is that of the run, wherever its plan comes from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.cli.runs import RunResult, run_topiarist
from support.kafka.hidden_requests import Bench
from topiarist.errors import Exit

CHANGES: dict[str, dict[str, Any]] = {
    "new": {"partitions": 2, "replicationFactor": 3},
    "grown": {"partitions": 3, "replicationFactor": 2},
    "set": {"partitions": 1, "replicationFactor": 2, "config": {"retention.ms": 500000}},
    "old": {"ensure": "Absent"},
}
"""A topic for each kind of change: safe, disruptive, messages expire, all messages are deleted."""

HARMLESS = {"new", "grown"}
CONSENTS: dict[str, tuple[list[str], set[str]]] = {
    "none": ([], HARMLESS),
    "of another topic": (["--allow-risk", "DataLoss=new"], HARMLESS),
    "to one": (["--allow-risk", "DataLoss=set"], {*HARMLESS, "set"}),
    "to both": (["--allow-risk", "DataLoss=set,old"], {*CHANGES}),
    "to all": (["--allow-risk", "DataLoss"], {*CHANGES}),
}
"""The options of a run, and the topics that it may change."""

RARE = ("of another topic", "to both", "to all")


def fresh(folder: Path, *words: str) -> RunResult:
    """Plan and apply in one run."""
    return run_topiarist("apply", folder / "all.yaml", "--yes", *words)


def saved(folder: Path, *words: str) -> RunResult:
    """Apply a saved plan."""
    return run_topiarist("apply", "--plan", folder / "plan.json", "--clusters", folder / "all.yaml", "--yes", *words)


def reviewed(folder: Path, *words: str) -> RunResult:
    """Apply what a reviewed plan has too."""
    return run_topiarist("apply", folder / "all.yaml", "--reviewed", folder / "plan.json", "--yes", *words)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    """Return manifests with all kinds of changes."""
    return Bench(monkeypatch, tmp_path, CHANGES)


@pytest.mark.parametrize(
    "consent", [pytest.param(name, marks=pytest.mark.slow if name in RARE else ()) for name in CONSENTS]
)
@pytest.mark.parametrize("origin", [fresh, saved, reviewed])
def test_consent(origin: Callable[..., RunResult], consent: str, bench: Bench) -> None:
    """A fresh, a saved and a reviewed plan have equal results: each loss needs the consent of the run."""
    kafka = bench.open_brokers()
    options, allowed = CONSENTS[consent]
    planned = run_topiarist("plan", bench.folder / "all.yaml", "--out", bench.folder / "plan.json")
    assert planned.out.splitlines()[-1] == "    --allow-risk DataLoss=old,set"
    found = origin(bench.folder, *options, "--allow-in-use=old")
    assert {name for _, name in kafka.cluster.changes if name in CHANGES} - {"set", "grown", "old"} == {"new"}
    assert len(kafka.topics["grown"].replicas) == 3
    assert (kafka.topics["set"].config["retention.ms"] == "500000") is ("set" in allowed)
    assert ("old" not in kafka.topics) is ("old" in allowed)
    assert found.code == (Exit.DONE if allowed == {*CHANGES} else Exit.REFUSED), found
    said = " ".join(found.out.split())
    for name in ("set", "old"):
        assert (f"to allow this, pass --allow-risk DataLoss={name}" in said) is (name not in allowed)


@pytest.mark.parametrize(("origin", "others_made"), [(fresh, True), (reviewed, True), (saved, False)])
def test_the_other_changes_of_a_topic_with_a_loss(
    origin: Callable[..., RunResult], others_made: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without a consent, a saved plan holds back the whole topic, so that the same file can be applied with a consent;
    a run that plans anew makes the rest.
    """
    both = {"partitions": 2, "replicationFactor": 2, "config": {"retention.ms": 500000}}
    bench = Bench(monkeypatch, tmp_path, {"set": both})
    kafka = bench.open_brokers()
    run_topiarist("plan", bench.folder / "all.yaml", "--out", bench.folder / "plan.json")
    assert origin(bench.folder).code == Exit.REFUSED
    assert (len(kafka.topics["set"].replicas) == 2) is others_made
    assert kafka.topics["set"].config["retention.ms"] == "1000000"
    assert origin(bench.folder, "--allow-risk", "DataLoss=set").code == Exit.DONE
    assert (len(kafka.topics["set"].replicas), kafka.topics["set"].config["retention.ms"]) == (2, "500000")

"""Drift of a cluster without ZooKeeper, from the first report to the repair of its findings."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.drift.repair_story import tell_repair_story
from support.kafka.kraft_fixture import KraftFixture


@pytest.mark.core
def test_each_way_of_a_repair_ends_its_findings(
    kraft: KraftFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster drifts, its findings are repaired by a commit, a plan and an acceptance; the next report is empty."""
    monkeypatch.chdir(tmp_path)

    def set_by_hand(_: str, topic: str, key: str, value: str) -> None:
        kraft.clients.alter({topic: {key: value}})
        kraft.kafka.wait(lambda: kraft.clients.overrides([topic])[topic].get(key) == value, "the change")

    tell_repair_story(tmp_path, {"prod": {"kafka": {"bootstrapServers": kraft.kafka.bootstrap}}}, set_by_hand)

"""Brokers in memory for all tests of moves and elections."""

from __future__ import annotations

import pytest

from unit.adapters.kafka_admin.moves.moving_brokers import MovingBrokers, make_brokers


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> MovingBrokers:
    """Return four brokers without topics."""
    return make_brokers(monkeypatch)

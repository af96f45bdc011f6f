"""Virtual time for all tests of reads of usage."""

from __future__ import annotations

import pytest

from topiarist.adapters.kafka_admin.usage import groups, reader
from unit.adapters.kafka_admin.scripted_session import FakeTime


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    """Replace the time of the requests."""
    clock = FakeTime()
    for module in (groups, reader):
        monkeypatch.setattr(module, "time", clock)
    return clock

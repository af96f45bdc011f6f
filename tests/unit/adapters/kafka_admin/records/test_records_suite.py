"""The records over brokers in memory pass what they pass over real brokers (``tests/brokers/test_records.py``)."""

from __future__ import annotations

import pytest

from support.kafka.memory_records import MemoryBroker
from support.kafka.records_suite import SUITE

globals().update(SUITE)


@pytest.fixture
def session() -> MemoryBroker:
    """Return brokers without topics; commits can be read a little after their answer."""
    return MemoryBroker(marker_delay=0.05)

"""The records over brokers in memory pass what they pass over real brokers (``tests/brokers/test_records.py``)."""

from __future__ import annotations

import pytest

from support.kafka.memory_records import MemoryBroker
from support.kafka.records_suite import (
    test_a_fenced_producer_stays_fenced,
    test_a_freeze_fences_a_writing_run_at_once,
    test_a_new_run_reads_what_was_committed,
    test_a_newer_run_fences_the_older,
    test_a_plan_reads_each_commit_that_was_answered,
    test_another_clients_open_transaction_blocks,
    test_ten_thousand_records_are_one_commit,
)

__all__ = [
    "test_a_fenced_producer_stays_fenced",
    "test_a_freeze_fences_a_writing_run_at_once",
    "test_a_new_run_reads_what_was_committed",
    "test_a_newer_run_fences_the_older",
    "test_a_plan_reads_each_commit_that_was_answered",
    "test_another_clients_open_transaction_blocks",
    "test_ten_thousand_records_are_one_commit",
]


@pytest.fixture
def session() -> MemoryBroker:
    """Brokers in memory without the topic of records; commits can be read a little after their answer."""
    broker = MemoryBroker(marker_delay=0.05)
    broker.versions = {}
    return broker

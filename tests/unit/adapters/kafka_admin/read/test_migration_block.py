"""The write block during the rolling restart into migration mode, by what each broker says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from topiarist.adapters.kafka_admin.connection.connection import Disconnected, Features
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.read.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from topiarist.adapters.kafka_admin.read.state import find_migration_block
from topiarist.errors import Reason
from topiarist.kafka.types import Broker
from unit.adapters.kafka_admin.scripted_session import ScriptedSession

READY, PLAIN, OLD = (
    SimpleNamespace(finalized_features_epoch=0, zk_migration_ready=True),
    SimpleNamespace(finalized_features_epoch=0, zk_migration_ready=False),
    SimpleNamespace(finalized_features_epoch=-1),
)
KRAFT = SimpleNamespace(finalized_features_epoch=7, zk_migration_ready=False)

KRAFT_FEATURES = Features(frozenset({"metadata.version"}), 7)
UPDATE_METADATA = 6

CASES: dict[str, tuple[dict[int, Any], str]] = {
    "before": ({1: PLAIN, 2: PLAIN, 3: OLD}, ""),
    "the first one": ({1: READY, 2: PLAIN, 3: PLAIN}, "broker 1 has been restarted for it, broker 2, 3 has not"),
    "the last one": ({1: READY, 2: READY, 3: PLAIN}, "broker 1, 2 has been restarted for it, broker 3 has not"),
    "the last one is stopped": ({1: READY, 2: READY}, "broker 1, 2 has been restarted for it, and broker 3 is not"),
    "the last one is down, still registered": ({1: READY, 2: READY, 3: None}, "and broker 3 is not there"),
    "all": ({1: READY, 2: READY, 3: READY}, ""),
    "in KRaft mode": ({1: KRAFT, 2: READY, 3: READY}, ""),
    "one is in KRaft mode, one is stopped": ({1: KRAFT, 2: READY}, "and broker 3 is not there"),
    "stopped before": ({1: PLAIN, 2: PLAIN}, ""),
}
"""The ApiVersions answers of the registered brokers (None: no answer), and words of the write block."""


@pytest.mark.parametrize("case", CASES)
def test_writes_wait_until_all_brokers_are_restarted(case: str) -> None:
    """A topic has replicas on the brokers 1, 2 and 3."""
    answers, words = CASES[case]

    def broker(broker_id: int) -> Any:
        if answers[broker_id] is None:
            raise Disconnected("refused", was_sent=False)
        connection = ScriptedSession({"ApiVersions": answers[broker_id]}).any_broker()
        session = connection._session
        session.api_keys = {3} if answers[broker_id] is KRAFT else {3, UPDATE_METADATA}
        session.features = KRAFT_FEATURES if answers[broker_id] is KRAFT else Features()
        return connection

    partition = PartitionMetadata((1, 2, 3), 1, (1, 2, 3), 0)
    topic = TopicMetadata("orders", "id", {0: partition})
    metadata = ClusterMetadata("c", 1, tuple(Broker(each, None) for each in answers), {"orders": topic}, {})
    block = find_migration_block(cast("Session", SimpleNamespace(broker=broker)), metadata)
    assert block.reason == (Reason.KRAFT_MIGRATION if words else None)
    assert words in block.message

"""Find the topics that the first write through brokers makes beside those of its plan.

Topiarist makes the topic of its records. It writes them in transactions, and Kafka makes the topic of the transactions
when the first client begins one. Both are made once for a cluster, so a plan names them only until they exist.
"""

from __future__ import annotations

from topiarist.kafka.types import TRANSACTIONS_TOPIC
from topiarist.model.access import DEFAULT_RECORDS_TOPIC
from topiarist.model.plan import ImpliedTopic
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState

PARTITIONS_SETTING, FACTOR_SETTING = "transaction.state.log.num.partitions", "transaction.state.log.replication.factor"
"""The settings of the brokers for the topic of transactions, which an adapter reads while it does not exist."""

_DEFAULTS = {PARTITIONS_SETTING: "50", FACTOR_SETTING: "3"}


def find_implied_topics(state: ClusterState, cluster: ClusterSpec) -> tuple[ImpliedTopic, ...]:
    """Return the topics that the first write to a cluster makes; none through ZooKeeper, and of those that exist."""
    if state.bypasses_brokers:
        return ()
    records = cluster.kafka.records if cluster.kafka else DEFAULT_RECORDS_TOPIC
    settings = {**_DEFAULTS, **state.broker_defaults}
    partitions, factor = int(settings[PARTITIONS_SETTING]), int(settings[FACTOR_SETTING])
    found = (
        ImpliedTopic(records.name, 1, min(records.replication_factor, len(state.brokers)), "topiarist", "its records"),
        ImpliedTopic(TRANSACTIONS_TOPIC, partitions, factor, "Kafka", "the transactions of these records"),
    )
    return tuple(each for each in found if each.name not in state.topics and each.name not in state.topic_errors)
